/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /uploads: a large file in parts, which come in any order and are put into
 * theirs at the end. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "json/json.h"

static int refuse(struct doors_call *call, struct error *err)
{
    if (err->code != ERR_NOT_FOUND)
        return -(int)err->code;
    (void)snprintf(openai_fault(call)->param,
                   sizeof(((struct openai_fault *)0)->param), "id");
    return error_set(err, ERR_NOT_FOUND, "No such Upload object: %.80s",
                     call->params[0]);
}

static void respond(struct doors_call *call,
                    const struct library_upload *upload,
                    const struct library_file *file)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    openai_encode_upload(&w, upload, file);
    openai_respond(call, &body);
}

int openai_uploads_create(struct doors_call *call, struct error *err)
{
    struct library_upload made cleanup(library_upload_done) = {.filename =
                                                                   NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct openai_upload asked = {0};
    struct library_spec spec = {0};
    int r = openai_body(call, &json, err);

    if (r == 0)
        r = openai_decode_upload(json, &asked, openai_fault(call), err);
    if (r < 0)
        return r;
    spec.filename = openai_name_base(asked.filename);
    if (!spec.filename)
        return openai_invalid(openai_fault(call), "invalid_value", "filename",
                              err,
                              "Invalid value for 'filename': it must be UTF-8 "
                              "without control characters, of at most 255 "
                              "bytes.");
    spec.purpose = asked.purpose;
    spec.mime = openai_name_type(http_arena(call->http), asked.mime);
    spec.size = asked.bytes;
    spec.expires_s = asked.expires_s;
    r = library_upload_begin(call->doors->workspaces, &call->actor, &spec,
                             &made, err);
    if (r == 0)
        respond(call, &made, NULL);
    return r;
}

/* ---- parts -------------------------------------------------------------- */

/* Refuses one that takes no parts before a part is read for nothing. */
static int check_pending(struct doors_call *call, struct error *err)
{
    struct library_upload u cleanup(library_upload_done) = {.filename = NULL};
    int r = library_upload_get(call->doors->workspaces, &call->actor,
                               call->params[0], &u, err);

    if (r < 0)
        return refuse(call, err);
    if (u.status != LIBRARY_PENDING)
        return error_set(err, ERR_CONFLICT,
                         "the upload is over and takes no more parts");
    return 0;
}

static int receive_part(struct doors_call *call, struct openai_blob *ret,
                        struct error *err)
{
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    struct http_part part;
    int r = openai_form_open(call, OPENAI_PART_BYTES, &m, err);

    while (r == 0 && (r = http_multipart_next(m, &part, err)) > 0) {
        if (strcmp(part.name, "data") != 0)
            r = openai_form_unknown(call, part.name, err);
        else if (ret->blobs)
            r = openai_form_twice(call, part.name, err);
        else
            r = openai_form_blob(call, m, OPENAI_PART_BYTES, ret, err);
    }
    if (r == 0 && !ret->blobs)
        r = openai_form_missing(call, "data", err);
    return r;
}

int openai_uploads_part(struct doors_call *call, struct error *err)
{
    struct openai_blob blob cleanup(openai_form_blob_done) = {.blobs = NULL};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    char part[ID_MAX];
    int64_t created_ms = 0;
    int r = check_pending(call, err);

    if (r == 0)
        r = receive_part(call, &blob, err);
    if (r < 0)
        return r;
    r = library_upload_part(call->doors->workspaces, &call->actor,
                            call->params[0], blob.sha256, blob.size, part,
                            &created_ms, err);
    if (r < 0)
        return refuse(call, err);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "id", part);
    json_write_string(&w, "object", "upload.part");
    json_write_int(&w, "created_at", created_ms / 1000);
    json_write_string(&w, "upload_id", call->params[0]);
    json_write_close(&w, '}');
    openai_respond(call, &body);
    return 0;
}

/* ---- the end ------------------------------------------------------------ */

/* The ids of a body; arena. */
static const char **part_list(struct doors_call *call, const json_t *ids)
{
    size_t count = json_array_size(ids);
    const char **list =
        arena_alloc(http_arena(call->http), (count + 1) * sizeof(*list));

    for (size_t i = 0; i < count; i++)
        list[i] = json_string_value(json_array_get(ids, i));
    return list;
}

int openai_uploads_complete(struct doors_call *call, struct error *err)
{
    struct library_upload done cleanup(library_upload_done) = {.filename =
                                                                   NULL};
    struct library_file file cleanup(library_file_done) = {.filename = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct openai_complete asked = {0};
    int r = openai_body(call, &json, err);

    if (r == 0)
        r = openai_decode_complete(json, &asked, openai_fault(call), err);
    if (r < 0)
        return r;
    r = library_upload_complete(
        call->doors->workspaces, &call->actor, call->params[0],
        part_list(call, asked.part_ids), json_array_size(asked.part_ids),
        asked.md5, &done, &file, err);
    if (r < 0)
        return refuse(call, err);
    respond(call, &done, &file);
    return 0;
}

int openai_uploads_cancel(struct doors_call *call, struct error *err)
{
    struct library_upload gone cleanup(library_upload_done) = {.filename =
                                                                   NULL};
    int r = library_upload_cancel(call->doors->workspaces, &call->actor,
                                  call->params[0], &gone, err);

    if (r < 0)
        return refuse(call, err);
    respond(call, &gone, NULL);
    return 0;
}
