/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/sessions/{id}/files: list, fetch, put, delete, as the session sees
 * them now. Runs on a worker of the daemon. Bytes are streamed in both
 * directions; the core's broker keeps every path inside the session.
 */
#include "doors/native/native.h"

#include <stdio.h>

#include "api/api.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

#define LIST_MAX 1000

/* ---- resources ---------------------------------------------------------- */

static void write_url(struct json_writer *w, const char *key,
                      const void *object)
{
    const struct session_file *f = object;

    native_encode_url(w, key, f->file, f->version);
}

#define PLACE(member) API_AT(struct session_file, member)

static const struct api_field session_file_fields[] = {
    {"path", API_STRING, PLACE(path)},
    {"size", API_INT, PLACE(size)},
    {"modified_at", API_TIME, API_NULLABLE, PLACE(modified_at_ms)},
    {"file_id", API_STRING, API_NULLABLE, PLACE(file),
     .help = "null when it is not committed"},
    {"version", API_STRING, API_NULLABLE, PLACE(version)},
    {"sha256", API_STRING, API_NULLABLE, PLACE(sha256)},
};
API_OUTPUT(native_session_file, "SessionFile", struct session_file,
           session_file_fields, "A file as a session sees it.");

static const struct api_field session_put_fields[] = {
    {"path", API_STRING, PLACE(path)},
    {"size", API_INT, PLACE(size)},
    {"sha256", API_STRING, PLACE(sha256)},
    {"file_id", API_STRING, API_NULLABLE, PLACE(file)},
    {"version", API_STRING, API_NULLABLE, PLACE(version)},
    {"url", API_STRING, API_NULLABLE, .write = write_url},
};
API_OUTPUT(native_session_put, "SessionPut", struct session_file,
           session_put_fields, "A file put into a session.");

/* ---- routes ------------------------------------------------------------- */

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
    native_respond_list(call, &native_session_file, files, count, more);
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
    native_respond(call, 201, &native_session_put, &made);
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
