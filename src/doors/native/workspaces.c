/* SPDX-License-Identifier: Apache-2.0 */
/* /api/workspaces and /api/usage. Runs on a worker of the daemon; see
 * native.h. */
#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_DEFAULT 100
#define BYTES_MAX ((int64_t)1 << 50)
#define DAYS_MAX 36500

static void respond(struct doors_call *call, unsigned status,
                    const struct workspace_info *info)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    native_encode_workspace(&w, info);
    http_respond_json(call->http, status, &body);
}

/* ---- making and looking ------------------------------------------------- */

struct create_body {
    const char *name;
    bool private_to_owner;
};

static const struct json_field create_fields[] = {
    {"name", JSON_KIND_STRING, .offset = offsetof(struct create_body, name),
     .max = WORKSPACE_NAME_MAX},
    {"private", JSON_KIND_BOOL,
     .offset = offsetof(struct create_body, private_to_owner)},
};

int native_workspaces_create(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct create_body b = {0};
    struct workspace_info info;
    int r = native_ask_body(call, create_fields, ARRAY_SIZE(create_fields), &b,
                            &json, err);

    if (r == 0)
        r = workspace_create(
            call->doors->workspaces, &call->actor,
            &(struct workspace_spec){.name = b.name,
                                     .private_to_owner = b.private_to_owner},
            &info, err);
    if (r == 0)
        respond(call, 201, &info);
    return r;
}

int native_workspaces_list(struct doors_call *call, struct error *err)
{
    struct workspace_info *infos cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
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
    native_encode_list(&w);
    for (size_t i = 0; i < got.count; i++)
        native_encode_workspace(&w, &infos[i]);
    native_encode_list_end(&w, got.has_more);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_workspaces_get(struct doors_call *call, struct error *err)
{
    struct workspace_info info;
    int r = workspace_get(call->doors->workspaces, &call->actor,
                          call->params[0], &info, err);

    if (r == 0)
        respond(call, 200, &info);
    return r;
}

/* ---- changing ----------------------------------------------------------- */

struct patch_body {
    const char *name;
    json_t *retention;
    int64_t quota_bytes, keep_versions, keep_days;
    bool legal_hold;
};

#define PATCH(member) offsetof(struct patch_body, member)

static const struct json_field patch_fields[] = {
    {"name", JSON_KIND_STRING, .offset = PATCH(name),
     .max = WORKSPACE_NAME_MAX},
    {"retention", JSON_KIND_OBJECT, .offset = PATCH(retention)},
    {"quota_bytes", JSON_KIND_INT, .offset = PATCH(quota_bytes),
     .max = BYTES_MAX},
    {"legal_hold", JSON_KIND_BOOL, .offset = PATCH(legal_hold)},
};

static const struct json_field retention_fields[] = {
    {"keep_versions", JSON_KIND_INT, .offset = PATCH(keep_versions),
     .max = INT32_MAX},
    {"keep_days", JSON_KIND_INT, .offset = PATCH(keep_days), .max = DAYS_MAX},
};

int native_workspaces_patch(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct patch_body b = {
        .quota_bytes = -1, .keep_versions = -1, .keep_days = -1};
    struct workspace_patch patch;
    struct workspace_info info;
    int r = native_ask_body(call, patch_fields, ARRAY_SIZE(patch_fields), &b,
                            &json, err);

    if (r == 0 && b.retention &&
        json_read(b.retention, retention_fields, ARRAY_SIZE(retention_fields),
                  &b, err) < 0)
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
    };
    r = workspace_patch(call->doors->workspaces, &call->actor, call->params[0],
                        &patch, &info, err);
    if (r == 0)
        respond(call, 200, &info);
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
        respond(call, 200, &info);
    return r;
}

int native_workspaces_usage(struct doors_call *call, struct error *err)
{
    struct workspace_usage usage;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r =
        workspace_usage(call->doors->workspaces, &call->actor, &usage, err);

    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "tenant", call->who.tenant);
    json_write_int(&w, "workspaces", (int64_t)usage.workspaces);
    json_write_int(&w, "max_workspaces", (int64_t)usage.max_workspaces);
    json_write_int(&w, "stored_bytes", (int64_t)usage.stored_bytes);
    json_write_int(&w, "quota_bytes", (int64_t)usage.quota_bytes);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}
