/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/workspaces/{ws}/members: who may do what in it. Runs on a worker of
 * the daemon. A key of another tenant is answered like one that is not
 * there.
 */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

struct role_body {
    int role; /* enum workspace_role */
};

static const struct api_field role_spec_fields[] = {
    {"role", API_CHOICE, API_REQUIRED, API_AT(struct role_body, role),
     .min = ROLE_VIEWER, .choices = native_roles},
};
API_INPUT(native_role_spec, "RoleSpec", struct role_body, role_spec_fields,
          "A role.");

#define MEMBER(member) API_AT(struct workspace_member, member)

static const struct api_field member_fields[] = {
    {"principal", API_STRING, MEMBER(principal),
     .help = "a key's id, or * for the tenant"},
    {"role", API_CHOICE, MEMBER(role), .min = ROLE_VIEWER,
     .choices = native_roles},
    {"added_at", API_TIME, MEMBER(added_at_ms)},
    {"added_by", API_STRING, API_NULLABLE, MEMBER(added_by)},
};
API_OUTPUT(native_member, "Member", struct workspace_member, member_fields,
           "Who may do what.");

int native_members_list(struct doors_call *call, struct error *err)
{
    struct workspace_member *members cleanup(mem_free) = NULL;
    size_t count = 0;
    int r = workspace_members(call->doors->workspaces, &call->actor,
                              call->params[0], &members, &count, err);

    if (r < 0)
        return r;
    native_respond_list(call, &native_member, members, count, false);
    return 0;
}

int native_members_set(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    const char *principal = call->params[1];
    struct workspace_info info;
    struct role_body b = {0};
    struct auth_key key;
    int r = native_read(call, &native_role_spec, &b, &json, err);

    /* The workspace first: whoever may not see it learns of no key. */
    if (r == 0)
        r = workspace_get(call->doors->workspaces, &call->actor,
                          call->params[0], &info, err);
    /* The subject of a token is known only to its issuer: taken as given. */
    if (r == 0 && strcmp(principal, "*") != 0 &&
        !ids_valid("jwt", principal)) {
        r = native_transfer_key(call, principal, call->who.tenant, &key, err);
        principal = key.id;
    }
    if (r == 0)
        r = workspace_member_set(call->doors->workspaces, &call->actor,
                                 call->params[0], principal,
                                 (enum workspace_role)b.role, err);
    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

int native_members_remove(struct doors_call *call, struct error *err)
{
    int r =
        workspace_member_set(call->doors->workspaces, &call->actor,
                             call->params[0], call->params[1], ROLE_NONE, err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
