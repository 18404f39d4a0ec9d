/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads in parts, for large files and broken connections. Runs on a worker
 * of the daemon; each part is a blob of its own until the whole is put.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- one upload --------------------------------------------------------- */

struct begin_body {
    const char *path;
    int64_t size;
};

static const struct api_field upload_spec_fields[] = {
    {"path", API_STRING, API_REQUIRED, API_AT(struct begin_body, path),
     .min = 1, .max = PATH_BYTES_MAX},
    {"size", API_INT, API_AT(struct begin_body, size), .max = INT64_MAX,
     .help = "checked at the end"},
};
API_INPUT(native_upload_spec, "UploadSpec", struct begin_body,
          upload_spec_fields, "An upload in parts to be begun.");

#define PART(member) API_AT(struct workspace_upload_part, member)

static const struct api_field upload_part_fields[] = {
    {"number", API_INT, PART(number)},
    {"size", API_INT, PART(size)},
    {"sha256", API_STRING, PART(sha256)},
};
API_OUTPUT(native_upload_part, "UploadPart", struct workspace_upload_part,
           upload_part_fields, "A part that is there.");

struct upload {
    struct workspace_upload of;
    uint64_t part_bytes;
};

#define UPLOAD(member) API_AT(struct upload, member)

static const struct api_field upload_fields[] = {
    {"id", API_STRING, UPLOAD(of.id), .help = "up_…"},
    {"workspace", API_STRING, UPLOAD(of.workspace)},
    {"path", API_STRING, UPLOAD(of.path)},
    {"size", API_INT, API_NULLABLE, UPLOAD(of.size), .none = -1},
    {"part_bytes", API_INT, UPLOAD(part_bytes), .help = "the largest part"},
    {"created_at", API_TIME, UPLOAD(of.created_at_ms)},
    {"expires_at", API_TIME, UPLOAD(of.expires_at_ms)},
    {"parts", API_ARRAY, API_LIST(struct upload, of.parts, of.part_count),
     .of = &native_upload_part, .help = "those that are there"},
};
API_OUTPUT(native_upload, "Upload", struct upload, upload_fields,
           "An upload in parts.");

static void respond(struct doors_call *call, unsigned status,
                    const struct workspace_upload *u)
{
    native_respond(call, status, &native_upload,
                   &(struct upload){*u, call->doors->conf->upload_bytes});
}

int native_uploads_create(struct doors_call *call, struct error *err)
{
    struct workspace_upload u cleanup(workspace_upload_done) = {.path = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct begin_body b = {.size = -1};
    int r = native_read(call, &native_upload_spec, &b, &json, err);

    if (r == 0)
        r = workspace_upload_begin(call->doors->workspaces, &call->actor,
                                   call->params[0], b.path, b.size, &u, err);
    if (r == 0)
        respond(call, 201, &u);
    return r;
}

int native_uploads_get(struct doors_call *call, struct error *err)
{
    struct workspace_upload u cleanup(workspace_upload_done) = {.path = NULL};
    int r = workspace_upload_get(call->doors->workspaces, &call->actor,
                                 call->params[0], &u, err);

    if (r == 0)
        respond(call, 200, &u);
    return r;
}

int native_uploads_abort(struct doors_call *call, struct error *err)
{
    int r = workspace_upload_abort(call->doors->workspaces, &call->actor,
                                   call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

/* ---- parts -------------------------------------------------------------- */

static int part_number(const char *text, uint32_t *ret, struct error *err)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end || n < 1 ||
        n > UPLOAD_PARTS_MAX)
        return error_set(err, ERR_INVALID, "a part's number is from 1 to %u",
                         UPLOAD_PARTS_MAX);
    *ret = (uint32_t)n;
    return 0;
}

/* Compares the bytes with the client's hash, if it sent one. */
static int check_hash(struct doors_call *call, const struct native_blob *blob,
                      struct error *err)
{
    const char *said = http_header(call->http, "X-Content-SHA256");

    if (said && strcasecmp(said, blob->sha256) != 0) {
        (void)error_set(err, ERR_INVALID,
                        "the bytes that arrived are not those of "
                        "X-Content-SHA256");
        return error_hint(err, "Send the part again.");
    }
    return 0;
}

int native_uploads_part(struct doors_call *call, struct error *err)
{
    struct workspace_upload u cleanup(workspace_upload_done) = {.path = NULL};
    struct native_blob blob cleanup(native_receive_done) = {.blobs = NULL};
    struct workspace_upload_part part = {0};
    int r = part_number(call->params[1], &part.number, err);

    if (r == 0) /* before the body is read for nothing */
        r = workspace_upload_get(call->doors->workspaces, &call->actor,
                                 call->params[0], &u, err);
    if (r == 0)
        r = native_receive_body(call, u.workspace, &blob, err);
    if (r == 0)
        r = check_hash(call, &blob, err);
    if (r == 0)
        r = workspace_upload_part(call->doors->workspaces, &call->actor,
                                  call->params[0], part.number, blob.sha256,
                                  blob.size, err);
    if (r < 0)
        return r;
    part.size = blob.size;
    memcpy(part.sha256, blob.sha256, sizeof(part.sha256));
    native_respond(call, 200, &native_upload_part, &part);
    return 0;
}

/* ---- the whole ---------------------------------------------------------- */

struct complete_body {
    const char *sha256, *conversation, *message, *note;
    bool executable;
};

#define COMPLETE(member) API_AT(struct complete_body, member)

static const struct api_field complete_spec_fields[] = {
    {"sha256", API_STRING, COMPLETE(sha256), .min = 64, .max = 64,
     .help = "checked"},
    {"conversation", API_STRING, COMPLETE(conversation),
     .max = NATIVE_NOTE_MAX},
    {"message", API_STRING, COMPLETE(message), .max = NATIVE_NOTE_MAX},
    {"note", API_STRING, COMPLETE(note), .max = NATIVE_NOTE_MAX},
    {"executable", API_BOOL, COMPLETE(executable),
     .help = "default: as the file it replaces"},
};
API_INPUT(native_complete_spec, "CompleteSpec", struct complete_body,
          complete_spec_fields, "Properties of the completed file.");

int native_uploads_complete(struct doors_call *call, struct error *err)
{
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    struct workspace_upload u cleanup(workspace_upload_done) = {.path = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct complete_body b = {0};
    struct workspace_change change = {.kind = CHANGE_PUT};
    struct native_locks locks = {.count = 0};
    struct workspace_commit_spec spec = {.kind = "upload",
                                         .action = "file.put"};
    int r = native_read_maybe(call, &native_complete_spec, &b, &json, err);

    if (r == 0)
        r = native_ask_locks(call, &locks, err);
    if (r == 0)
        r = native_ask_conditions(call, &spec, err);
    if (r == 0) /* which workspace it was for, for the answer */
        r = workspace_upload_get(call->doors->workspaces, &call->actor,
                                 call->params[0], &u, err);
    if (r < 0)
        return r;
    spec.lock_tokens = locks.tokens;
    spec.lock_count = locks.count;
    spec.conversation = b.conversation;
    spec.message = b.message;
    spec.note = b.note;
    change.executable = b.executable;
    if (json_object_get(json, "executable"))
        spec.changes = &change; /* else as the file it replaces */
    r = workspace_upload_complete(call->doors->workspaces, &call->actor,
                                  call->params[0], b.sha256, &spec, &made,
                                  err);
    if (r == 0)
        native_change_respond_file(call, u.workspace, &made);
    return r;
}
