/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipart bodies. Clients send their parts in any order, with or without a
 * length ahead, so each part is dealt with as it comes: a short text is kept,
 * a file passes through. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "doors/openai/openai.h"

#define CHUNK ((size_t)64 << 10)

bool openai_form_is(const struct doors_call *call)
{
    const char *type = http_header(call->http, "Content-Type");

    return type && strncasecmp(type, "multipart/", 10) == 0;
}

/* Where a form's bytes come from. arena */
struct source {
    struct http_request *http;
    uint64_t file, max;
};

static ssize_t read_body(void *ctx, void *bytes, size_t len, struct error *err)
{
    struct source *s = ctx;
    ssize_t n = http_body_read(s->http, bytes, len, s->max, err);

    if (n == -ERR_TOO_LARGE)
        return error_set(err, ERR_TOO_LARGE,
                         "The file is larger than %llu bytes.",
                         (unsigned long long)s->file);
    return n;
}

int openai_form_open(struct doors_call *call, uint64_t bytes,
                     struct http_multipart **ret, struct error *err)
{
    struct source *s = arena_alloc(http_arena(call->http), sizeof(*s));

    *s = (struct source){call->http, bytes, bytes + OPENAI_FORM_BYTES};
    return http_multipart_new(http_header(call->http, "Content-Type"),
                              read_body, s, http_arena(call->http), ret, err);
}

int openai_form_text(struct doors_call *call, struct http_multipart *m,
                     const char *name, const char **ret, struct error *err)
{
    char *text = arena_alloc(http_arena(call->http), OPENAI_TEXT_MAX + 2);
    size_t len = 0;
    ssize_t n;

    while ((n = http_multipart_read(m, text + len, OPENAI_TEXT_MAX + 1 - len,
                                    err)) > 0) {
        len += (size_t)n;
        if (len > OPENAI_TEXT_MAX)
            return openai_invalid(openai_fault(call), "invalid_value", name,
                                  err,
                                  "Invalid value for '%.64s': expected at "
                                  "most %u bytes.",
                                  name, OPENAI_TEXT_MAX);
    }
    if (n < 0)
        return (int)n;
    if (strlen(text) != len)
        return openai_invalid(openai_fault(call), "invalid_value", name, err,
                              "Invalid value for '%.64s': it has a NUL byte.",
                              name);
    *ret = text;
    return 0;
}

/* As much as fits before it is handed on: fewer and larger writes. */
static ssize_t read_piece(struct http_multipart *m, char *bytes,
                          struct error *err)
{
    size_t have = 0;

    while (have < CHUNK) {
        ssize_t n = http_multipart_read(m, bytes + have, CHUNK - have, err);

        if (n < 0)
            return n;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

int openai_form_pass(struct http_multipart *m, uint64_t max,
                     openai_form_write *write, void *ctx, struct error *err)
{
    char *bytes cleanup(mem_free) = xmalloc(CHUNK);
    uint64_t passed = 0;
    ssize_t n;

    while ((n = read_piece(m, bytes, err)) > 0) {
        int r;

        passed += (uint64_t)n;
        if (passed > max)
            return error_set(err, ERR_TOO_LARGE,
                             "The file is larger than %llu bytes.",
                             (unsigned long long)max);
        r = write(ctx, bytes, (size_t)n, err);
        if (r < 0)
            return r;
    }
    return (int)n;
}

/* ---- into a blob -------------------------------------------------------- */

static int write_blob(void *ctx, const void *bytes, size_t len,
                      struct error *err)
{
    return blob_write(ctx, bytes, len, err);
}

int openai_form_blob(struct doors_call *call, struct http_multipart *m,
                     uint64_t max, struct openai_blob *ret, struct error *err)
{
    struct blob_writer *writer cleanup(blob_abort) = NULL;
    struct blobs *blobs = call->doors->core->blobs;
    char domain[BLOB_OWNER];
    int r =
        library_blob_owner(call->doors->workspaces, &call->actor, domain, err);

    if (r == 0)
        r = blob_begin(blobs, domain, &writer, err);
    if (r == 0)
        r = openai_form_pass(m, max, write_blob, writer, err);
    if (r == 0)
        r = blob_finish(&writer, ret->sha256, &ret->size, err);
    if (r == 0)
        ret->blobs = blobs;
    return r;
}

void openai_form_blob_done(struct openai_blob *b)
{
    if (b->blobs)
        blob_release(b->blobs, b->sha256);
    b->blobs = NULL;
}

/* ---- what is wrong with a form ------------------------------------------ */

int openai_form_twice(struct doors_call *call, const char *name,
                      struct error *err)
{
    return openai_invalid(openai_fault(call), "invalid_value", name, err,
                          "Invalid value for '%.64s': it is given twice.",
                          name);
}

int openai_form_unknown(struct doors_call *call, const char *name,
                        struct error *err)
{
    return openai_invalid(openai_fault(call), "unknown_parameter", name, err,
                          "Unknown parameter: '%.64s'.", name);
}

int openai_form_missing(struct doors_call *call, const char *name,
                        struct error *err)
{
    return openai_invalid(openai_fault(call), "missing_required_parameter",
                          name, err, "Missing required parameter: '%.64s'.",
                          name);
}
