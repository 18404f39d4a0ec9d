/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads at the Azure door: forms as each client writes them. Runs on a
 * worker of the daemon; bytes go through in pieces. A form whose header calls
 * it something else is known by its first line: one client sends the header
 * of its last JSON call with every upload.
 */
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"
#include "doors/azure/azure.h"
#include "json/json.h"

#define CHUNK ((size_t)64 << 10)
#define LINE_MAX_ (HTTP_BOUNDARY_MAX + 4) /* two dashes, the line's end */

/* ---- the form ----------------------------------------------------------- */

struct source { /* the body, its start read already */
    struct doors_call *call;
    uint64_t max;
    char start[LINE_MAX_];
    size_t len, at;
};

static ssize_t read_source(void *ctx, void *bytes, size_t len,
                           struct error *err)
{
    struct source *s = ctx;
    size_t n = MIN(len, s->len - s->at);

    if (n == 0)
        return http_body_read(s->call->http, bytes, len, s->max, err);
    memcpy(bytes, s->start + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

static int read_start(struct source *s, struct error *err)
{
    while (s->len < sizeof(s->start)) {
        ssize_t n = http_body_read(s->call->http, s->start + s->len,
                                   sizeof(s->start) - s->len, s->max, err);

        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        s->len += (size_t)n;
    }
    return 0;
}

/* The header, or what it should have been; arena. */
static const char *form_type(struct source *s)
{
    static const char form[] = "multipart/form-data";
    const char *type = http_header(s->call->http, "Content-Type");
    const char *end = memchr(s->start, '\r', s->len);

    if (!end)
        end = memchr(s->start, '\n', s->len);
    if ((type && strncasecmp(type, form, sizeof(form) - 1) == 0 &&
         strcasestr(type, "boundary")) ||
        !end || end - s->start < 3 || memcmp(s->start, "--", 2) != 0)
        return type;
    return arena_printf(http_arena(s->call->http), "%s; boundary=\"%.*s\"",
                        form, (int)(end - s->start - 2), s->start + 2);
}

/* ---- files of it -------------------------------------------------------- */

struct receipt {
    struct doors_call *call;
    const struct azure_ask *ask;
    const char *folder;
    struct http_multipart *form;
    uint64_t left; /* bytes that may still come */
    struct azure_list made;
};

static void receipt_done(struct receipt *r)
{
    http_multipart_free(&r->form);
    azure_list_done(&r->made);
}

static int receive(struct receipt *r, struct session_upload *u,
                   struct error *err)
{
    char *bytes cleanup(mem_free) = xmalloc(CHUNK);

    for (;;) {
        ssize_t n = http_multipart_read(r->form, bytes, CHUNK, err);
        int rc;

        if (n <= 0)
            return (int)n;
        if ((uint64_t)n > r->left)
            return error_set(
                err, ERR_TOO_LARGE, "an upload may have %llu bytes",
                (unsigned long long)MIN(AZURE_UPLOAD_MAX,
                                        r->call->doors->conf->upload_bytes));
        r->left -= (uint64_t)n;
        rc = session_upload_write(u, bytes, (size_t)n, err);
        if (rc < 0)
            return rc;
    }
}

static int take_file(struct receipt *r, const char *name, struct error *err)
{
    struct session_file made = {.path = NULL};
    struct session_upload *u;
    char path[PATH_BYTES_MAX + 1];
    int rc = azure_path_join(r->folder, name, path, err);

    if (rc < 0)
        return rc;
    if (strcmp(path, r->folder) == 0)
        return error_set(err, ERR_INVALID, "the file has no name");
    rc = session_upload_begin(r->call->doors->sessions, &r->call->actor,
                              r->ask->session.id, path, &u, err);
    if (rc < 0)
        return rc;
    rc = receive(r, u, err);
    if (rc < 0) {
        session_upload_abort(u);
        return rc;
    }
    rc = session_upload_commit(u, &made, err);
    if (rc < 0)
        return rc;
    azure_list_add(&r->made, path, false, made.size, made.modified_at_ms);
    free(made.path);
    return 0;
}

static int take_form(struct receipt *r, struct error *err)
{
    struct http_part part;
    int rc;

    while ((rc = http_multipart_next(r->form, &part, err)) > 0) {
        if (!part.filename) /* a field beside the files */
            continue;
        rc = take_file(r, part.filename, err);
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && r->made.count == 0)
        return error_set(err, ERR_INVALID, "the form has no file in it");
    return rc;
}

/* ---- the answer --------------------------------------------------------- */

static void respond(struct receipt *r, enum azure_family family)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    if (family == AZURE_C)
        azure_files_encode_one(&w, r->ask, r->folder, &r->made.entries[0]);
    else
        azure_files_encode(&w, r->ask, family, r->folder, r->made.entries,
                           r->made.count, NULL);
    azure_encode_respond(r->call, 200, &body);
}

static int upload(struct doors_call *call, const struct azure_ask *ask,
                  enum azure_family family, struct error *err)
{
    uint64_t most = MIN(AZURE_UPLOAD_MAX, call->doors->conf->upload_bytes);
    struct receipt r cleanup(receipt_done) = {
        .call = call, .ask = ask, .left = most};
    struct source source = {.call = call, .max = most + AZURE_FORM_MAX};
    char folder[PATH_BYTES_MAX + 1];
    const char *path = NULL;
    int rc = http_query(call->http, "path", &path, err);

    if (rc == 0)
        rc = azure_path_name(path ? path : "", folder, err);
    r.folder = folder;
    if (rc == 0)
        rc = read_start(&source, err);
    if (rc == 0)
        rc = http_multipart_new(form_type(&source), read_source, &source,
                                http_arena(call->http), &r.form, err);
    if (rc == 0)
        rc = take_form(&r, err);
    if (rc == 0)
        respond(&r, family);
    return rc;
}

int azure_upload_legacy(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    int r = azure_ask(call, &ask, err);

    return r < 0 ? r : upload(call, &ask, AZURE_A, err);
}

int azure_upload(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    int r = azure_ask(call, &ask, err);

    return r < 0 ? r : upload(call, &ask, azure_path_family(ask.version), err);
}
