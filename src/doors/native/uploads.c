/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads in parts, for large files and broken connections. Runs on a worker
 * of the daemon; each part is a blob of its own until the whole is put.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
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

static const struct json_field begin_fields[] = {
    {"path", JSON_KIND_STRING, .required = true,
     .offset = offsetof(struct begin_body, path), .min = 1,
     .max = PATH_BYTES_MAX},
    {"size", JSON_KIND_INT, .offset = offsetof(struct begin_body, size),
     .max = INT64_MAX},
};

static void respond(struct doors_call *call, unsigned status,
                    const struct workspace_upload *u)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "id", u->id);
    json_write_string(&w, "workspace", u->workspace);
    json_write_string(&w, "path", u->path);
    if (u->size >= 0)
        json_write_int(&w, "size", u->size);
    else
        json_write_string(&w, "size", NULL);
    json_write_int(&w, "part_bytes", (int64_t)call->doors->conf->upload_bytes);
    json_write_time(&w, "created_at", u->created_at_ms);
    json_write_time(&w, "expires_at", u->expires_at_ms);
    json_write_open(&w, "parts", '[');
    for (size_t i = 0; i < u->part_count; i++) {
        json_write_open(&w, NULL, '{');
        json_write_int(&w, "number", u->parts[i].number);
        json_write_int(&w, "size", (int64_t)u->parts[i].size);
        json_write_string(&w, "sha256", u->parts[i].sha256);
        json_write_close(&w, '}');
    }
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    http_respond_json(call->http, status, &body);
}

int native_uploads_create(struct doors_call *call, struct error *err)
{
    struct workspace_upload u cleanup(workspace_upload_done) = {.path = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct begin_body b = {.size = -1};
    int r = native_ask_body(call, begin_fields, ARRAY_SIZE(begin_fields), &b,
                            &json, err);

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

/* What the client says of the bytes, when it does. */
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
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    uint32_t number = 0;
    int r = part_number(call->params[1], &number, err);

    if (r == 0) /* before the body is read for nothing */
        r = workspace_upload_get(call->doors->workspaces, &call->actor,
                                 call->params[0], &u, err);
    if (r == 0)
        r = native_receive_body(call, u.workspace, &blob, err);
    if (r == 0)
        r = check_hash(call, &blob, err);
    if (r == 0)
        r = workspace_upload_part(call->doors->workspaces, &call->actor,
                                  call->params[0], number, blob.sha256,
                                  blob.size, err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_int(&w, "number", number);
    json_write_int(&w, "size", (int64_t)blob.size);
    json_write_string(&w, "sha256", blob.sha256);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}

/* ---- the whole ---------------------------------------------------------- */

struct complete_body {
    const char *sha256, *conversation, *message, *note;
    bool executable;
};

#define COMPLETE(member) offsetof(struct complete_body, member)

static const struct json_field complete_fields[] = {
    {"sha256", JSON_KIND_STRING, .offset = COMPLETE(sha256), .min = 64,
     .max = 64},
    {"conversation", JSON_KIND_STRING, .offset = COMPLETE(conversation),
     .max = NATIVE_NOTE_MAX},
    {"message", JSON_KIND_STRING, .offset = COMPLETE(message),
     .max = NATIVE_NOTE_MAX},
    {"note", JSON_KIND_STRING, .offset = COMPLETE(note),
     .max = NATIVE_NOTE_MAX},
    {"executable", JSON_KIND_BOOL, .offset = COMPLETE(executable)},
};

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
    int r = native_ask_body_maybe(call, complete_fields,
                                  ARRAY_SIZE(complete_fields), &b, &json, err);

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
