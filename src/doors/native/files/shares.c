/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/shares: links to files for people without a key. Runs on a worker of
 * the daemon. The link is in the answer that made it and nowhere else; what
 * visitors do with it is visit.c.
 */
#include <stdio.h>

#include "api/api.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/native/native.h"
#include "json/json.h"

#define EXPIRES_MAX_S (3650 * 24 * 3600)
#define DOWNLOADS_MAX 1000000000

/* ---- resources ---------------------------------------------------------- */

struct share_body {
    const char *workspace, *path, *version, *password;
    int mode; /* enum share_mode */
    int64_t expires_in_s, max_downloads;
};

static const char *const modes[] = {"read", "write", "upload", NULL};

#define BODY(member) API_AT(struct share_body, member)

static const struct api_field share_spec_fields[] = {
    {"workspace", API_STRING, API_REQUIRED, BODY(workspace), .min = 1,
     .max = ID_MAX},
    {"path", API_STRING, API_REQUIRED, BODY(path), .max = PATH_BYTES_MAX + 1,
     .help = "a folder's ends with /; empty: everything"},
    {"mode", API_CHOICE, API_DEFAULT, BODY(mode), .choices = modes,
     .value = SHARE_READ,
     .help = "upload: takes one file, then ends; path is where it goes"},
    {"version", API_STRING, BODY(version), .min = 1, .max = ID_MAX,
     .help = "always this one"},
    {"expires_in_s", API_INT, BODY(expires_in_s), .min = 1,
     .max = EXPIRES_MAX_S,
     .help = "else never; of upload at most 86400, else 3600"},
    {"password", API_STRING, BODY(password), .min = 1,
     .max = SHARE_PASSWORD_MAX},
    {"max_downloads", API_INT, BODY(max_downloads), .min = 1,
     .max = DOWNLOADS_MAX, .help = "else any number"},
};
API_INPUT(native_share_spec, "ShareSpec", struct share_body, share_spec_fields,
          "A link to be made.");

#define SHARE(member) API_AT(struct workspace_share, member)

static const struct api_field share_fields[] = {
    {"id", API_STRING, SHARE(id), .help = "share_…"},
    {"workspace", API_STRING, SHARE(workspace)},
    {"path", API_STRING, SHARE(path)},
    {"version", API_STRING, API_NULLABLE, SHARE(version)},
    {"mode", API_CHOICE, SHARE(mode), .choices = modes},
    {"has_password", API_BOOL, SHARE(has_password)},
    {"downloads", API_INT, SHARE(downloads)},
    {"max_downloads", API_INT, SHARE(max_downloads), .help = "0 is no limit"},
    {"created_by", API_STRING, SHARE(created_by)},
    {"created_by_name", API_STRING, API_NULLABLE | API_NAME_OF,
     SHARE(created_by)},
    {"created_at", API_TIME, SHARE(created_at_ms)},
    {"expires_at", API_TIME, API_NULLABLE, SHARE(expires_at_ms)},
    {"revoked_at", API_TIME, API_NULLABLE, SHARE(revoked_at_ms)},
};
API_OUTPUT(native_share, "Share", struct workspace_share, share_fields,
           "A link.");

struct share_made {
    struct workspace_share share;
    char path[80]; /* "/s/…" */
};

static void write_url(struct json_writer *w, const char *key,
                      const void *object)
{
    json_write_url(w, key, ((const struct share_made *)object)->path);
}

static const struct api_field share_made_fields[] = {
    {"url", API_STRING, .write = write_url},
};
API_OUTPUT_OF(native_share_made, "ShareMade", &native_share, struct share_made,
              share_made_fields, "A share with its link, shown once.");

struct link_body {
    const char *version;
    int64_t expires_in_s;
};

static const struct api_field link_spec_fields[] = {
    {"version", API_STRING, API_AT(struct link_body, version), .min = 1,
     .max = ID_MAX, .help = "else the newest at this time"},
    {"expires_in_s", API_INT, API_DEFAULT,
     API_AT(struct link_body, expires_in_s), .min = 1,
     .max = SHARE_SHORT_MAX_S, .value = SHARE_SHORT_S},
};
API_INPUT(native_link_spec, "LinkSpec", struct link_body, link_spec_fields,
          "A short-lived link to one version of a file.");

/* ---- routes ------------------------------------------------------------- */

static void respond_made(struct doors_call *call,
                         const struct workspace_share *share,
                         const char *secret)
{
    struct share_made made = {.share = *share};

    (void)snprintf(made.path, sizeof(made.path), "/s/%s", secret);
    native_respond(call, 201, &native_share_made, &made);
}

int native_shares_create(struct doors_call *call, struct error *err)
{
    struct workspace_share share cleanup(workspace_share_done) = {.path =
                                                                      NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct share_body b = {0};
    char secret[65];
    int r = native_read(call, &native_share_spec, &b, &json, err);

    if (r == 0 && b.mode == SHARE_UPLOAD && !b.expires_in_s)
        b.expires_in_s = SHARE_SHORT_S;
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
    if (r == 0)
        respond_made(call, &share, secret);
    return r;
}

int native_shares_link(struct doors_call *call, struct error *err)
{
    struct workspace_share share cleanup(workspace_share_done) = {.path =
                                                                      NULL};
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct link_body b = {0};
    char workspace[ID_MAX], file[ID_MAX], secret[65];
    int r = native_read_maybe(call, &native_link_spec, &b, &json, err);

    if (r == 0 && !doors_file_id(call->params[0], file))
        r = error_set(err, ERR_NOT_FOUND, "no such file");
    if (r == 0)
        r = workspace_file_find(call->doors->workspaces, &call->actor, file,
                                b.version, &f, workspace, err);
    if (r == 0)
        r = workspace_share(call->doors->workspaces, &call->actor, workspace,
                            &(struct workspace_share_spec){
                                .path = f.path,
                                .version = f.version,
                                .expires_in_s = (uint32_t)b.expires_in_s,
                            },
                            &share, secret, err);
    if (r == 0)
        respond_made(call, &share, secret);
    return r;
}

int native_shares_list(struct doors_call *call, struct error *err)
{
    struct workspace_share *shares = NULL;
    const char *workspace = NULL;
    size_t count = 0;
    int r = http_query(call->http, "workspace", &workspace, err);

    if (r == 0)
        r = workspace_shares(call->doors->workspaces, &call->actor, workspace,
                             &shares, &count, err);
    if (r < 0)
        return r;
    native_respond_list(call, &native_share, shares, count, false);
    workspace_shares_free(shares, count);
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
