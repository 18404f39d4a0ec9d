/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart/form-data, taken apart as it arrives. Runs on a worker, over
 * anything that can be read. One buffer of fixed size holds what is looked
 * at; parts, their headers and the boundary are bounded (H3), nothing
 * recurses, and what is not exactly a form is refused.
 *
 * The buffer starts with a line end of our own, so that the first boundary
 * is found like the others: the bytes before it are a part that is discarded.
 *
 *   PREAMBLE ──next──▶ BODY ──next──▶ BODY … ──next──▶ DONE
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "http/http_int.h"

#define BUFFER_SIZE ((size_t)64 << 10)
#define MARK_MAX (HTTP_BOUNDARY_MAX + 5)
#define PADDING_MAX 64 /* blanks after a boundary */

enum state {
    PREAMBLE, /* before the first part */
    BODY,     /* in a part, or at its end */
    DONE,     /* after the last boundary */
};

struct http_multipart {
    http_read_fn *read;
    void *ctx;
    struct arena *arena;
    enum state state;
    unsigned parts;
    bool ended;          /* there is nothing more to read */
    char mark[MARK_MAX]; /* line end, two dashes, the boundary */
    size_t mark_len;
    size_t start, len; /* what of the buffer is filled */
    char buffer[BUFFER_SIZE];
};

static int broken_multipart(struct error *err, const char *what)
{
    return error_set(err, ERR_INVALID, "the form is malformed: %s", what);
}

/* ---- starting ----------------------------------------------------------- */

static bool boundary_valid(const char *text)
{
    size_t len = strlen(text);

    if (len < 1 || len > HTTP_BOUNDARY_MAX || text[len - 1] == ' ')
        return false;
    for (; *text; text++)
        if (!isascii(*text) ||
            (!isalnum(*text) && !strchr("'()+_,-./:=? ", *text)))
            return false;
    return true;
}

static struct http_multipart *multipart_new(http_read_fn *read, void *ctx,
                                            struct arena *arena)
{
    struct http_multipart *m = xcalloc(1, sizeof(*m));

    m->read = read;
    m->ctx = ctx;
    m->arena = arena;
    memcpy(m->buffer, "\r\n", 2);
    m->len = 2;
    return m;
}

static void set_boundary(struct http_multipart *m, const char *boundary)
{
    m->mark_len =
        (size_t)snprintf(m->mark, sizeof(m->mark), "\r\n--%s", boundary);
}

int http_multipart_new(const char *type, http_read_fn *read, void *ctx,
                       struct arena *arena, struct http_multipart **ret,
                       struct error *err)
{
    static const char wanted[] = "multipart/form-data";
    const char *boundary = NULL;
    size_t len = type ? strcspn(type, "; \t") : 0;

    if (len != sizeof(wanted) - 1 || strncasecmp(type, wanted, len) != 0) {
        (void)error_set(err, ERR_INVALID,
                        "the body must be a form with files");
        return error_hint(err, "Send Content-Type: multipart/form-data.");
    }
    if (!http_param_find(arena, type, "boundary", &boundary) || !boundary ||
        !boundary_valid(boundary))
        return error_set(err, ERR_INVALID,
                         "multipart/form-data needs a boundary of 1 to %u "
                         "plain characters",
                         HTTP_BOUNDARY_MAX);
    *ret = multipart_new(read, ctx, arena);
    set_boundary(*ret, boundary);
    return 0;
}

void http_multipart_free(struct http_multipart **m)
{
    free(*m);
    *m = NULL;
}

/* ---- the buffer --------------------------------------------------------- */

/* Reads on. 1: more is there, 0: nothing more comes. */
static int fill_buffer(struct http_multipart *m, struct error *err)
{
    ssize_t n;

    if (m->ended)
        return 0;
    if (m->start > 0) {
        memmove(m->buffer, m->buffer + m->start, m->len);
        m->start = 0;
    }
    n = m->read(m->ctx, m->buffer + m->len, BUFFER_SIZE - m->len, err);
    if (n < 0)
        return (int)n;
    m->len += (size_t)n;
    m->ended = n == 0;
    return n > 0;
}

/* The boundary by its first use: the first line, whose length is bounded. */
static int sniff_boundary(struct http_multipart *m, struct error *err)
{
    const size_t most = 4 + HTTP_BOUNDARY_MAX + PADDING_MAX + 2;
    const char *line = m->buffer + 2, *end;
    const char *boundary;
    size_t len;
    int r;

    while (!(end = memmem(line, m->len - 2, "\r\n", 2)) && m->len < most) {
        r = fill_buffer(m, err);
        if (r < 0)
            return r;
        if (r == 0)
            break;
    }
    len = end ? (size_t)(end - line) : 0;
    while (len > 2 && (line[len - 1] == ' ' || line[len - 1] == '\t'))
        len--;
    boundary =
        len > 2 && memcmp(line, "--", 2) == 0 && !memchr(line, '\0', len)
            ? arena_strndup(m->arena, line + 2, len - 2)
            : "";
    if (!boundary_valid(boundary)) {
        (void)error_set(err, ERR_INVALID,
                        "the body must be a form with files");
        return error_hint(err, "Send Content-Type: multipart/form-data with "
                               "a boundary.");
    }
    set_boundary(m, boundary);
    return 0;
}

int http_multipart_sniff(http_read_fn *read, void *ctx, struct arena *arena,
                         struct http_multipart **ret, struct error *err)
{
    struct http_multipart *m cleanup(http_multipart_free) =
        multipart_new(read, ctx, arena);
    int r = sniff_boundary(m, err);

    if (r == 0)
        *ret = take_ptr(m);
    return r;
}

static int need_bytes(struct http_multipart *m, size_t len, struct error *err)
{
    while (m->len < len) {
        int r = fill_buffer(m, err);

        if (r < 0)
            return r;
        if (r == 0)
            return broken_multipart(err, "it ends in the middle");
    }
    return 0;
}

static void consume_bytes(struct http_multipart *m, size_t len)
{
    m->start += len;
    m->len -= len;
}

/* How many bytes at the front are certainly the part's; 0 at its end. */
static ssize_t plain_bytes(struct http_multipart *m, struct error *err)
{
    for (;;) {
        const char *at = m->buffer + m->start;
        const char *mark = memmem(at, m->len, m->mark, m->mark_len);
        int r;

        if (mark)
            return mark - at;
        if (m->len >= m->mark_len) /* its beginning may be at our end */
            return (ssize_t)(m->len - m->mark_len + 1);
        r = fill_buffer(m, err);
        if (r < 0)
            return r;
        if (r == 0)
            return broken_multipart(err, "it ends in the middle");
    }
}

/* ---- headers of a part -------------------------------------------------- */

/* It wins over the plain name, which is then for those who cannot read it. */
static int take_extended(struct http_multipart *m, const char *value,
                         const char **ret, struct error *err)
{
    const char *quote = NULL, *text;
    char *name;
    int r;

    if (strncasecmp(value, "UTF-8'", 6) == 0)
        quote = strchr(value + 6, '\'');
    text = quote ? quote + 1 : NULL;
    if (!text && *ret)
        return 0;
    if (!text)
        return broken_multipart(err, "a file name in an unknown encoding");
    r = http_decode(m->arena, text, strlen(text), &name, err);
    if (r == 0)
        *ret = name;
    return r;
}

static int take_disposition(struct http_multipart *m, const char *value,
                            struct http_part *ret, struct error *err)
{
    const char *extended;
    size_t len = strcspn(value, "; \t");

    if (ret->name)
        return broken_multipart(err, "a part says twice what it is");
    if (len != 9 || strncasecmp(value, "form-data", 9) != 0 ||
        !http_param_find(m->arena, value, "name", &ret->name) ||
        !http_param_find(m->arena, value, "filename", &ret->filename) ||
        !http_param_find(m->arena, value, "filename*", &extended) ||
        !ret->name)
        return broken_multipart(err, "a part's Content-Disposition");
    return extended ? take_extended(m, extended, &ret->filename, err) : 0;
}

static int take_header(struct http_multipart *m, char *line,
                       struct http_part *ret, struct error *err)
{
    char *colon = strchr(line, ':'), *value;

    for (const char *p = line; *p; p++)
        if (iscntrl((unsigned char)*p) && *p != '\t')
            return broken_multipart(err,
                                    "a control character in a part's header");
    if (!colon || colon == line || !http_is_token(line[0]))
        return broken_multipart(err, "a part's header");
    *colon = '\0';
    value = colon + 1;
    value += strspn(value, " \t");
    if (strcasecmp(line, "Content-Disposition") == 0)
        return take_disposition(m, value, ret, err);
    if (strcasecmp(line, "Content-Type") == 0)
        ret->type = value; /* the copy's, and stays */
    return 0;              /* others change nothing */
}

/* Lines up to the empty one; the buffer is at the end of the boundary's. */
static int take_headers(struct http_multipart *m, struct http_part *ret,
                        struct error *err)
{
    const char *end;
    char *text;
    size_t len;
    int r;

    for (;;) {
        end = memmem(m->buffer + m->start, m->len, "\r\n\r\n", 4);
        if (end || m->len >= HTTP_PART_HEADER_MAX + 6)
            break;
        r = fill_buffer(m, err);
        if (r < 0)
            return r;
        if (r == 0)
            return broken_multipart(err, "it ends in the middle");
    }
    len = end ? (size_t)(end - m->buffer) - m->start : SIZE_MAX;
    if (len > HTTP_PART_HEADER_MAX + 2)
        return error_set(err, ERR_INVALID,
                         "the headers of a part are longer than %zu bytes",
                         HTTP_PART_HEADER_MAX);
    text = arena_strndup(m->arena, m->buffer + m->start, len);
    if (memchr(m->buffer + m->start, '\0', len))
        return broken_multipart(err, "a control character in a part's header");
    consume_bytes(m, len + 4);
    *ret = (struct http_part){0};
    for (char *line = len ? text + 2 : NULL, *next; line; line = next) {
        next = strstr(line, "\r\n");
        if (next) {
            *next = '\0';
            next += 2;
        }
        r = take_header(m, line, ret, err);
        if (r < 0)
            return r;
    }
    return ret->name ? 0 : broken_multipart(err, "a part without a name");
}

/* ---- for the caller ----------------------------------------------------- */

/* Behind a boundary: the next part, or the end? 1 or 0. */
static int after_mark(struct http_multipart *m, struct error *err)
{
    int r;

    consume_bytes(m, m->mark_len);
    r = need_bytes(m, 2, err);
    if (r < 0)
        return r;
    if (memcmp(m->buffer + m->start, "--", 2) == 0) {
        m->state = DONE;
        return 0;
    }
    for (unsigned i = 0; i < PADDING_MAX; i++) {
        char c = m->buffer[m->start];

        if (c != ' ' && c != '\t')
            break;
        consume_bytes(m, 1);
        r = need_bytes(m, 2, err);
        if (r < 0)
            return r;
    }
    if (memcmp(m->buffer + m->start, "\r\n", 2) != 0)
        return broken_multipart(err, "a boundary that goes on");
    return 1;
}

int http_multipart_next(struct http_multipart *m, struct http_part *ret,
                        struct error *err)
{
    ssize_t n;
    int r;

    if (m->state == DONE)
        return 0;
    while ((n = plain_bytes(m, err)) > 0)
        consume_bytes(m, (size_t)n);
    if (n < 0)
        return (int)n;
    r = after_mark(m, err);
    if (r <= 0)
        return r;
    if (m->parts++ == HTTP_PARTS_MAX)
        return error_set(err, ERR_INVALID, "the form has more than %u parts",
                         HTTP_PARTS_MAX);
    m->state = BODY;
    r = take_headers(m, ret, err);
    return r < 0 ? r : 1;
}

ssize_t http_multipart_read(struct http_multipart *m, void *bytes, size_t len,
                            struct error *err)
{
    ssize_t n;

    if (m->state != BODY)
        return 0;
    n = plain_bytes(m, err);
    if (n <= 0)
        return n;
    n = MIN(n, (ssize_t)len);
    memcpy(bytes, m->buffer + m->start, (size_t)n);
    consume_bytes(m, (size_t)n);
    return n;
}
