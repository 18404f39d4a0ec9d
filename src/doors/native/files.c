/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/sessions/{id}/files: list, fetch, put, delete, as the session sees
 * them now. Runs on a worker of the daemon. Bytes are streamed in both
 * directions; the core's broker keeps every path inside the session.
 */
#include "doors/native/native.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

#define LIST_MAX 1000

static void respond_list(struct doors_call *call,
                         const struct session_file *files, size_t count,
                         bool more)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    json_write_open(&w, NULL, '{');
    json_write_open(&w, "data", '[');
    for (size_t i = 0; i < count; i++) {
        json_write_open(&w, NULL, '{');
        json_write_string(&w, "path", files[i].path);
        json_write_int(&w, "size", (int64_t)files[i].size);
        json_write_time(&w, "modified_at", files[i].modified_at_ms);
        native_encode_text(&w, "file_id", files[i].file);
        native_encode_text(&w, "version", files[i].version);
        native_encode_text(&w, "sha256", files[i].sha256);
        json_write_close(&w, '}');
    }
    json_write_close(&w, ']');
    json_write_bool(&w, "has_more", more);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
}

int native_files_list(struct doors_call *call, struct error *err)
{
    struct session_file *files = NULL;
    const char *after = NULL;
    int64_t limit = 0;
    size_t count = 0;
    bool more = false;
    int r = doors_query_int(call, "limit", 1, LIST_MAX, LIST_MAX, &limit, err);

    if (r == 0)
        r = http_query(call->http, "after", &after, err);
    if (r == 0)
        r = session_files_list(call->doors->sessions, &call->actor,
                               call->params[0], (unsigned)limit, after, &files,
                               &count, &more, err);
    if (r < 0)
        return r;
    respond_list(call, files, count, more);
    session_files_free(files, count);
    return 0;
}

int native_files_get(struct doors_call *call, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int r =
        session_files_open(call->doors->sessions, &call->actor,
                           call->params[0], call->params[1], &fd, &st, err);

    if (r == 0)
        r = http_respond_file(call->http, fd, &st, call->params[1], err);
    if (r == 0)
        (void)take_fd(fd);
    return r;
}

/* The body into the upload, in pieces. */
static int receive(struct doors_call *call, struct session_upload *u,
                   struct error *err)
{
    char *bytes cleanup(mem_free) = xmalloc(NATIVE_CHUNK);
    ssize_t n;

    do {
        int r = 0;

        n = http_body_read(call->http, bytes, NATIVE_CHUNK,
                           call->doors->conf->upload_bytes, err);
        if (n > 0)
            r = session_upload_write(u, bytes, (size_t)n, err);
        if (r < 0)
            return r;
    } while (n > 0);
    return (int)n;
}

static void respond_put(struct doors_call *call, const struct session_file *f)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "path", f->path);
    json_write_int(&w, "size", (int64_t)f->size);
    json_write_string(&w, "sha256", f->sha256);
    native_encode_text(&w, "file_id", f->file);
    native_encode_text(&w, "version", f->version);
    native_encode_url(&w, f->file, f->version);
    json_write_close(&w, '}');
    http_respond_json(call->http, 201, &body);
}

int native_files_put(struct doors_call *call, struct error *err)
{
    struct session_file made = {.path = NULL};
    struct session_upload *u;
    int r = session_upload_begin(call->doors->sessions, &call->actor,
                                 call->params[0], call->params[1], &u, err);

    if (r < 0)
        return r;
    r = receive(call, u, err);
    if (r < 0) {
        session_upload_abort(u);
        return r;
    }
    r = session_upload_commit(u, &made, err);
    if (r < 0)
        return r;
    respond_put(call, &made);
    free(made.path);
    return 0;
}

int native_files_delete(struct doors_call *call, struct error *err)
{
    int r = session_files_remove(call->doors->sessions, &call->actor,
                                 call->params[0], call->params[1], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
