/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipart bodies. Clients send their parts in any order, with or without a
 * length ahead, so each part is handled as it comes: a short text is kept, a
 * file passes through. Also the name of a file: a client's file name without
 * its folders, and the name inside a container. Runs on a worker of the
 * daemon.
 */
#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
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

/* Fills the buffer before passing it on, for fewer and larger writes. */
static ssize_t read_chunk(struct http_multipart *m, char *bytes,
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

    while ((n = read_chunk(m, bytes, err)) > 0) {
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

static int write_part_blob(void *ctx, const void *bytes, size_t len,
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
        r = openai_form_pass(m, max, write_part_blob, writer, err);
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

/* ---- file names --------------------------------------------------------- */

const char *openai_name_base(const char *filename)
{
    const char *base = filename ? filename : "";

    for (const char *p = base; *p; p++)
        if (*p == '/' || *p == '\\')
            base = p + 1;
    if (!base[0])
        return "upload";
    return path_fault(base, strlen(base)) ? NULL : base;
}

const char *openai_name_join(struct arena *arena, const char *prefix,
                             const char *name)
{
    size_t room = PATH_PART_MAX - MIN(strlen(prefix), PATH_PART_MAX);
    size_t len = strlen(name);

    /* The end of a name says what it is. */
    while (len > room) {
        size_t n = utf8_length(name, len);

        name += n ? n : 1;
        len -= n ? n : 1;
    }
    return arena_printf(arena, "%s%s", prefix, name);
}

/* The placeholder that clients send without a real value. */
static bool is_dots(const char *type)
{
    static const char *const unasked[] = {"application/octet-stream",
                                          "binary/octet-stream", "text/plain"};

    for (size_t i = 0; i < ARRAY_SIZE(unasked); i++)
        if (strcmp(type, unasked[i]) == 0)
            return true;
    return false;
}

const char *openai_name_type(struct arena *arena, const char *type)
{
    size_t len = type ? strcspn(type, "; \t") : 0;
    unsigned slashes = 0;
    char *copy;

    if (len < 3 || len >= sizeof(((struct library_file *)0)->mime))
        return NULL;
    copy = arena_strndup(arena, type, len);
    for (char *p = copy; *p; p++) {
        if (!isascii(*p) || (!isalnum(*p) && !strchr("/+.-_", *p)))
            return NULL;
        slashes += *p == '/';
        *p = (char)tolower(*p);
    }
    if (slashes != 1 || copy[0] == '/' || copy[len - 1] == '/')
        return NULL;
    return is_dots(copy) ? NULL : copy;
}
