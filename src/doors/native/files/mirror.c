/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mirrors of workspaces, and objects of buckets attached to them. Runs on a
 * worker of the daemon.
 */
#include "mirror/mirror.h"

#include "api/api.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- mirrors ------------------------------------------------------------ */

struct mirror_spec {
    const char *destination;
    bool remove;
};

static const struct api_field mirror_spec_fields[] = {
    {"destination", API_STRING, API_REQUIRED,
     API_AT(struct mirror_spec, destination), .min = 1,
     .max = MIRROR_DESTINATION_MAX,
     .help = "s3://NAME/prefix, NAME being a bucket of the configuration; or "
             "file:///folder below one of mirror_folders"},
    {"delete", API_BOOL, API_DEFAULT, API_AT(struct mirror_spec, remove),
     .value = 1,
     .help = "whether a file that is deleted here is deleted there"},
};
API_INPUT(native_mirror_spec, "MirrorSpec", struct mirror_spec,
          mirror_spec_fields, "Where a workspace is to be mirrored.");

#define MIRROR(member) API_AT(struct mirror_info, member)

static const struct api_field mirror_fields[] = {
    {"workspace", API_STRING, MIRROR(workspace)},
    {"destination", API_STRING, MIRROR(destination)},
    {"delete", API_BOOL, MIRROR(remove)},
    {"created_by", API_STRING, MIRROR(created_by)},
    {"created_at", API_TIME, MIRROR(created_at_ms)},
    {"commit", API_STRING, MIRROR(commit),
     .help = "the last commit that was copied; empty before the first"},
    {"mirrored_at", API_TIME, API_NULLABLE, MIRROR(mirrored_at_ms),
     .help = "when that was"},
    {"files", API_INT, MIRROR(files), .help = "copied since it was set"},
    {"bytes", API_INT, MIRROR(bytes)},
    {"lag", API_INT, MIRROR(lag), .help = "commits that are not copied yet"},
    {"error", API_STRING, MIRROR(error),
     .help = "why the last attempt failed; empty if it did not"},
    {"retry_at", API_TIME, API_NULLABLE, MIRROR(retry_at_ms),
     .help = "when a failed copy is tried again"},
};
API_OUTPUT(native_mirror, "Mirror", struct mirror_info, mirror_fields,
           "The mirror of a workspace.");

int native_mirror_set(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct mirror_spec b = {0};
    struct mirror_info info;
    int r = native_read(call, &native_mirror_spec, &b, &json, err);

    if (r == 0)
        r = mirror_set(call->doors->mirrors, &call->actor, call->params[0],
                       b.destination, b.remove, &info, err);
    if (r == 0)
        native_respond(call, 200, &native_mirror, &info);
    return r;
}

int native_mirror_get(struct doors_call *call, struct error *err)
{
    struct mirror_info info;
    int r = mirror_get(call->doors->mirrors, &call->actor, call->params[0],
                       &info, err);

    if (r == 0)
        native_respond(call, 200, &native_mirror, &info);
    return r;
}

int native_mirror_unset(struct doors_call *call, struct error *err)
{
    int r =
        mirror_unset(call->doors->mirrors, &call->actor, call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

/* ---- attachments -------------------------------------------------------- */

struct attach_spec {
    const char *source, *folder;
};

static const struct api_field attach_spec_fields[] = {
    {"source", API_STRING, API_REQUIRED, API_AT(struct attach_spec, source),
     .min = 1, .max = MIRROR_DESTINATION_MAX,
     .help = "s3://NAME/prefix, NAME being a bucket of the configuration"},
    {"folder", API_STRING, API_AT(struct attach_spec, folder), .max = 1024,
     .help = "folder of the workspace; without it the top"},
};
API_INPUT(native_attach_spec, "AttachSpec", struct attach_spec,
          attach_spec_fields, "Objects to be copied into a workspace.");

static const struct api_field attached_fields[] = {
    {"commit", API_STRING, API_AT(struct mirror_attached, commit),
     .help = "empty if the workspace had them all"},
    {"files", API_INT, API_AT(struct mirror_attached, files)},
    {"bytes", API_INT, API_AT(struct mirror_attached, bytes)},
};
API_OUTPUT(native_attached, "Attached", struct mirror_attached,
           attached_fields, "What was copied into the workspace.");

int native_mirror_attach(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct attach_spec b = {0};
    struct mirror_attached done;
    int r = native_read(call, &native_attach_spec, &b, &json, err);

    if (r == 0)
        r = mirror_attach(call->doors->mirrors, &call->actor, call->params[0],
                          b.source, b.folder ? b.folder : "", &done, err);
    if (r == 0)
        native_respond(call, 201, &native_attached, &done);
    return r;
}
