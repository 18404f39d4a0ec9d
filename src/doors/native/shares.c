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

static const char *const modes[] = {"read", "write", NULL};

#define BODY(member) API_AT(struct share_body, member)

static const struct api_field share_spec_fields[] = {
    {"workspace", API_STRING, API_REQUIRED, BODY(workspace), .min = 1,
     .max = ID_MAX},
    {"path", API_STRING, API_REQUIRED, BODY(path), .max = PATH_BYTES_MAX + 1,
     .help = "a folder's ends with /; empty: everything"},
    {"mode", API_CHOICE, API_DEFAULT, BODY(mode), .choices = modes,
     .value = SHARE_READ},
    {"version", API_STRING, BODY(version), .min = 1, .max = ID_MAX,
     .help = "always this one"},
    {"expires_in_s", API_INT, BODY(expires_in_s), .min = 1,
     .max = EXPIRES_MAX_S, .help = "else never"},
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
    {"created_at", API_TIME, SHARE(created_at_ms)},
    {"expires_at", API_TIME, API_NULLABLE, SHARE(expires_at_ms)},
    {"revoked_at", API_TIME, API_NULLABLE, SHARE(revoked_at_ms)},
};
API_OUTPUT(native_share, "Share", struct workspace_share, share_fields,
           "A link.");

struct share_made {
    struct workspace_share share;
    char url[80];
};

static const struct api_field share_made_fields[] = {
    {"url", API_STRING, API_AT(struct share_made, url)},
};
API_OUTPUT_OF(native_share_made, "ShareMade", &native_share, struct share_made,
              share_made_fields, "A share with its link, shown once.");

/* ---- routes ------------------------------------------------------------- */

int native_shares_create(struct doors_call *call, struct error *err)
{
    struct workspace_share share cleanup(workspace_share_done) = {.path =
                                                                      NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct share_body b = {0};
    struct share_made made;
    char secret[65];
    int r = native_read(call, &native_share_spec, &b, &json, err);

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
    made.share = share;
    (void)snprintf(made.url, sizeof(made.url), "/s/%s", secret);
    native_respond(call, 201, &native_share_made, &made);
    return 0;
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
