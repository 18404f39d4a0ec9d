/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/shares: links to files for people without a key. Runs on a worker of
 * the daemon. The link is in the answer that made it and nowhere else; what
 * visitors do with it is visit.c.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/native/native.h"
#include "json/json.h"

#define EXPIRES_MAX_S (3650 * 24 * 3600)
#define DOWNLOADS_MAX 1000000000

struct share_body {
    const char *workspace, *path, *version, *password;
    int mode; /* enum share_mode */
    int64_t expires_in_s, max_downloads;
};

static const char *const modes[] = {"read", "write", NULL};

#define SHARE(member) offsetof(struct share_body, member)

static const struct json_field share_fields[] = {
    {"workspace", JSON_KIND_STRING, .required = true,
     .offset = SHARE(workspace), .min = 1, .max = ID_MAX},
    {"path", JSON_KIND_STRING, .required = true, .offset = SHARE(path),
     .max = PATH_BYTES_MAX + 1},
    {"mode", JSON_KIND_CHOICE, .offset = SHARE(mode), .choices = modes},
    {"version", JSON_KIND_STRING, .offset = SHARE(version), .min = 1,
     .max = ID_MAX},
    {"expires_in_s", JSON_KIND_INT, .offset = SHARE(expires_in_s), .min = 1,
     .max = EXPIRES_MAX_S},
    {"password", JSON_KIND_STRING, .offset = SHARE(password), .min = 1,
     .max = 128},
    {"max_downloads", JSON_KIND_INT, .offset = SHARE(max_downloads), .min = 1,
     .max = DOWNLOADS_MAX},
};

static void encode_share(struct json_writer *w,
                         const struct workspace_share *s, const char *secret)
{
    struct buf url cleanup(buf_done) = {0};

    json_write_open(w, NULL, '{');
    json_write_string(w, "id", s->id);
    json_write_string(w, "workspace", s->workspace);
    json_write_string(w, "path", s->path);
    native_encode_text(w, "version", s->version);
    json_write_string(w, "mode", modes[s->mode]);
    json_write_bool(w, "has_password", s->has_password);
    json_write_int(w, "downloads", s->downloads);
    json_write_int(w, "max_downloads", s->max_downloads);
    json_write_string(w, "created_by", s->created_by);
    json_write_time(w, "created_at", s->created_at_ms);
    json_write_time(w, "expires_at", s->expires_at_ms);
    json_write_time(w, "revoked_at", s->revoked_at_ms);
    if (secret) {
        buf_addf(&url, "/s/%s", secret);
        json_write_string(w, "url", url.data);
    }
    json_write_close(w, '}');
}

int native_shares_create(struct doors_call *call, struct error *err)
{
    struct workspace_share share cleanup(workspace_share_done) = {.path =
                                                                      NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct share_body b = {0};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    char secret[65];
    int r = native_ask_body(call, share_fields, ARRAY_SIZE(share_fields), &b,
                            &json, err);

    if (r == 0)
        r = workspace_share(call->doors->workspaces, &call->actor, b.workspace,
                            &(struct workspace_share_spec){
                                .path = b.path,
                                .version = b.version,
                                .mode = (enum share_mode)b.mode,
                                .expires_in_s = (uint32_t)b.expires_in_s,
                                .password = b.password,
                                .max_downloads = b.max_downloads,
                            },
                            &share, secret, err);
    if (r < 0)
        return r;
    encode_share(&w, &share, secret);
    http_respond_json(call->http, 201, &body);
    return 0;
}

int native_shares_list(struct doors_call *call, struct error *err)
{
    struct workspace_share *shares = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    const char *workspace = NULL;
    size_t count = 0;
    int r = http_query(call->http, "workspace", &workspace, err);

    if (r == 0)
        r = workspace_shares(call->doors->workspaces, &call->actor, workspace,
                             &shares, &count, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        encode_share(&w, &shares[i], NULL);
    native_encode_list_end(&w, false);
    workspace_shares_free(shares, count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_shares_revoke(struct doors_call *call, struct error *err)
{
    int r = workspace_share_revoke(call->doors->workspaces, &call->actor,
                                   call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
