/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/workspaces, and /api/workspaces/{ws}/members: the roles of its
 * members. A key of another tenant is reported like one that does not exist.
 * Runs on a worker of the daemon.
 */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_DEFAULT 100
#define BYTES_MAX ((int64_t)1 << 50)
#define DAYS_MAX 36500

/* ---- resources ---------------------------------------------------------- */

#define INFO(member) API_AT(struct workspace_info, member)

static const struct api_field retention_fields[] = {
    {"keep_versions", API_INT, INFO(keep_versions), .help = "0: all"},
    {"keep_days", API_INT, INFO(keep_days), .help = "0: forever"},
};
API_OUTPUT(native_retention, "Retention", struct workspace_info,
           retention_fields, "How long old versions are kept.");

static const struct api_field workspace_fields[] = {
    {"id", API_STRING, INFO(id), .help = "ws_…"},
    {"name", API_STRING, API_NULLABLE, INFO(name)},
    {"tenant", API_STRING, INFO(tenant)},
    {"owner", API_STRING, INFO(owner), .help = "a key's id"},
    {"owner_name", API_STRING, API_NULLABLE | API_NAME_OF, INFO(owner)},
    {"role", API_CHOICE, INFO(role), .min = ROLE_VIEWER,
     .choices = native_roles, .help = "of the key that asks"},
    {"created_at", API_TIME, INFO(created_at_ms)},
    {"updated_at", API_TIME, INFO(updated_at_ms)},
    {"deleted_at", API_TIME, API_NULLABLE, INFO(deleted_at_ms)},
    {"purge_at", API_TIME, API_NULLABLE, INFO(purge_at_ms),
     .help = "until then it can be brought back"},
    {"head", API_STRING, API_NULLABLE, INFO(head_commit),
     .help = "the last commit"},
    {"commits", API_INT, INFO(head), .help = "the last commit's number"},
    {"files", API_INT, INFO(files), .help = "at the head"},
    {"bytes", API_INT, INFO(bytes), .help = "at the head"},
    {"stored_bytes", API_INT, INFO(stored_bytes),
     .help = "of all kept versions"},
    {"quota_bytes", API_INT, INFO(quota_bytes), .help = "0 is none"},
    {"retention", API_OBJECT, .of = &native_retention},
    {"legal_hold", API_BOOL, INFO(legal_hold)},
    {"intelligence", API_BOOL, INFO(intelligence),
     .help = "its files are searched by meaning, too"},
};
API_OUTPUT(native_workspace, "Workspace", struct workspace_info,
           workspace_fields, "A durable, versioned tree of files.");

/* ---- making and looking ------------------------------------------------- */

struct create_body {
    const char *name;
    bool private_to_owner;
};

static const struct api_field workspace_spec_fields[] = {
    {"name", API_STRING, API_AT(struct create_body, name),
     .max = WORKSPACE_NAME_MAX},
    {"private", API_BOOL, API_DEFAULT,
     API_AT(struct create_body, private_to_owner),
     .help = "else every key of the tenant is an editor"},
};
API_INPUT(native_workspace_spec, "WorkspaceSpec", struct create_body,
          workspace_spec_fields, "A workspace to be made.");

int native_workspaces_create(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct create_body b = {0};
    struct workspace_info info;
    int r = native_read(call, &native_workspace_spec, &b, &json, err);

    if (r == 0)
        r = workspace_create(
            call->doors->workspaces, &call->actor,
            &(struct workspace_spec){.name = b.name,
                                     .private_to_owner = b.private_to_owner},
            &info, err);
    if (r == 0)
        native_respond(call, 201, &native_workspace, &info);
    return r;
}

int native_workspaces_list(struct doors_call *call, struct error *err)
{
    struct workspace_info *infos cleanup(mem_free) = NULL;
    const char *after = NULL;
    unsigned limit = 0;
    struct page_result got = {0};
    bool deleted = false;
    int r = native_ask_page(call, WORKSPACE_LIST_MAX, LIST_DEFAULT, &limit,
                            &after, err);

    if (r == 0)
        r = native_ask_flag(call, "deleted", &deleted, err);
    if (r == 0)
        r = workspace_list(call->doors->workspaces, &call->actor, deleted,
                           &(struct page){.limit = limit, .after = after},
                           &infos, &got, err);
    if (r < 0)
        return r;
    native_respond_list(call, &native_workspace, infos, got.count,
                        got.has_more);
    return 0;
}

int native_workspaces_get(struct doors_call *call, struct error *err)
{
    struct workspace_info info;
    int r = workspace_get(call->doors->workspaces, &call->actor,
                          call->params[0], &info, err);

    if (r == 0)
        native_respond(call, 200, &native_workspace, &info);
    return r;
}

/* ---- changing ----------------------------------------------------------- */

struct patch_body {
    const char *name;
    json_t *retention;
    int64_t quota_bytes, keep_versions, keep_days;
    bool legal_hold, intelligence;
};

#define PATCH(member) API_AT(struct patch_body, member)

static const struct api_field retention_patch_fields[] = {
    {"keep_versions", API_INT, PATCH(keep_versions), .max = INT32_MAX,
     .help = "0: all"},
    {"keep_days", API_INT, PATCH(keep_days), .max = DAYS_MAX,
     .help = "0: forever"},
};
API_INPUT(native_retention_patch, "RetentionPatch", struct patch_body,
          retention_patch_fields, "How long old versions are kept.");

static const struct api_field workspace_patch_fields[] = {
    {"name", API_STRING, PATCH(name), .max = WORKSPACE_NAME_MAX},
    {"retention", API_OBJECT, PATCH(retention), .of = &native_retention_patch},
    {"quota_bytes", API_INT, PATCH(quota_bytes), .max = BYTES_MAX,
     .help = "administrators only; 0 is none"},
    {"legal_hold", API_BOOL, PATCH(legal_hold), .help = "administrators only"},
    {"intelligence", API_BOOL, PATCH(intelligence),
     .help = "search its files by meaning, too"},
};
API_INPUT(native_workspace_patch, "WorkspacePatch", struct patch_body,
          workspace_patch_fields, "What to change.");

int native_workspaces_patch(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct patch_body b = {
        .quota_bytes = -1, .keep_versions = -1, .keep_days = -1};
    struct workspace_patch patch;
    struct workspace_info info;
    int r = native_read(call, &native_workspace_patch, &b, &json, err);

    if (r == 0 && b.retention &&
        api_read(b.retention, &native_retention_patch, &b, err) < 0)
        r = error_wrap(err, "retention");
    if (r < 0)
        return r;
    patch = (struct workspace_patch){
        .name = b.name,
        .quota_bytes = b.quota_bytes,
        .keep_versions = b.keep_versions,
        .keep_days = b.keep_days,
        .legal_hold = json_is_boolean(json_object_get(json, "legal_hold"))
                          ? b.legal_hold
                          : -1,
        .intelligence = !json_is_boolean(json_object_get(json, "intelligence"))
                            ? SWITCH_LEAVE
                        : b.intelligence ? SWITCH_ON
                                         : SWITCH_OFF,
    };
    r = workspace_patch(call->doors->workspaces, &call->actor, call->params[0],
                        &patch, &info, err);
    if (r == 0)
        native_respond(call, 200, &native_workspace, &info);
    return r;
}

int native_workspaces_delete(struct doors_call *call, struct error *err)
{
    int r = workspace_delete(call->doors->workspaces, &call->actor,
                             call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

int native_workspaces_undelete(struct doors_call *call, struct error *err)
{
    struct workspace_info info;
    int r = workspace_undelete(call->doors->workspaces, &call->actor,
                               call->params[0], &info, err);

    if (r == 0)
        native_respond(call, 200, &native_workspace, &info);
    return r;
}

/* ---- usage -------------------------------------------------------------- */

struct usage {
    const char *tenant;
    struct workspace_usage stored;
};

#define USAGE(member) API_AT(struct usage, member)

static const struct api_field usage_fields[] = {
    {"tenant", API_STRING, USAGE(tenant)},
    {"workspaces", API_INT, USAGE(stored.workspaces)},
    {"max_workspaces", API_INT, USAGE(stored.max_workspaces),
     .help = "0 is no limit"},
    {"stored_bytes", API_INT, USAGE(stored.stored_bytes)},
    {"quota_bytes", API_INT, USAGE(stored.quota_bytes), .help = "0 is none"},
};
API_OUTPUT(native_usage, "Usage", struct usage, usage_fields,
           "What a tenant stores.");

int native_workspaces_usage(struct doors_call *call, struct error *err)
{
    struct usage usage = {.tenant = call->who.tenant};
    int r = workspace_usage(call->doors->workspaces, &call->actor,
                            &usage.stored, err);

    if (r < 0)
        return r;
    native_respond(call, 200, &native_usage, &usage);
    return 0;
}

/* ---- members ------------------------------------------------------------ */

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
    {"principal_name", API_STRING, API_NULLABLE | API_NAME_OF,
     MEMBER(principal)},
    {"role", API_CHOICE, MEMBER(role), .min = ROLE_VIEWER,
     .choices = native_roles},
    {"added_at", API_TIME, MEMBER(added_at_ms)},
    {"added_by", API_STRING, API_NULLABLE, MEMBER(added_by)},
};
API_OUTPUT(native_member, "Member", struct workspace_member, member_fields,
           "A member and its role.");

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

    /* Check the workspace first: a caller who may not see it must not learn
     * which keys exist. */
    if (r == 0)
        r = workspace_get(call->doors->workspaces, &call->actor,
                          call->params[0], &info, err);
    /* The subject of a token is known only to its issuer: taken as given. */
    if (r == 0 && strcmp(principal, "*") != 0 &&
        !ids_valid("jwt", principal)) {
        r = auth_key_resolve(call->doors->auth, call->who.tenant, principal,
                             &key, err);
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
