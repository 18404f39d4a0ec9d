/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/workspaces/{ws}/members: who may do what in it. Runs on a worker of
 * the daemon. A key of another tenant is answered like one that is not
 * there.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

struct role_body {
    int role; /* index into roles */
};

static const char *const roles[] = {"viewer", "editor", "owner", NULL};
static const enum workspace_role role_values[] = {ROLE_VIEWER, ROLE_EDITOR,
                                                  ROLE_OWNER};

static const struct json_field role_fields[] = {
    {"role", JSON_KIND_CHOICE, .required = true,
     .offset = offsetof(struct role_body, role), .choices = roles},
};

int native_members_list(struct doors_call *call, struct error *err)
{
    struct workspace_member *members cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    int r = workspace_members(call->doors->workspaces, &call->actor,
                              call->params[0], &members, &count, err);

    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++) {
        json_write_open(&w, NULL, '{');
        json_write_string(&w, "principal", members[i].principal);
        json_write_string(&w, "role", workspace_role_name(members[i].role));
        json_write_time(&w, "added_at", members[i].added_at_ms);
        native_encode_text(&w, "added_by", members[i].added_by);
        json_write_close(&w, '}');
    }
    native_encode_list_end(&w, false);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_members_set(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    const char *principal = call->params[1];
    struct workspace_info info;
    struct role_body b = {0};
    struct auth_key key;
    int r = native_ask_body(call, role_fields, ARRAY_SIZE(role_fields), &b,
                            &json, err);

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
                                 role_values[b.role], err);
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
