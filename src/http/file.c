/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads. A file that a session made is served as an inert attachment (F8):
 * a browser neither renders nor runs it. The response has the size that the
 * file had when it was opened; if the file shrinks meanwhile, the connection
 * is closed before the response is complete (F3). Such files are read with
 * pread(): with sendfile() libmicrohttpd would wait for the missing bytes
 * until the connection times out. Files that cannot shrink are sent with
 * sendfile().
 */
#include "http/http.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/http_int.h"

#define BLOCK_SIZE ((size_t)64 << 10)

/* Types no browser runs anything of; all else is just bytes. */
static const struct http_pair types[] = {
    {".csv", "text/csv; charset=utf-8"},
    {".gif", "image/gif"},
    {".jpeg", "image/jpeg"},
    {".jpg", "image/jpeg"},
    {".json", "application/json"},
    {".md", "text/markdown; charset=utf-8"},
    {".pdf", "application/pdf"},
    {".png", "image/png"},
    {".txt", "text/plain; charset=utf-8"},
    {".webp", "image/webp"},
    {".zip", "application/zip"},
};

/* The same, and some more, by what they are. */
static const char *const inert[] = {
    "audio/mpeg",      "audio/ogg",  "audio/wav",        "font/woff2",
    "image/avif",      "image/bmp",  "image/tiff",       "text/x-python",
    "video/mp4",       "video/webm", "application/gzip", "application/x-tar",
    "application/sql",
};

static const char *type_of(const char *name, const char *type)
{
    const char *dot = type ? NULL : strrchr(name, '.');

    for (size_t i = 0; dot && i < ARRAY_SIZE(types); i++)
        if (strcasecmp(dot, types[i].name) == 0)
            return types[i].value;
    if (!type)
        return "application/octet-stream";
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        size_t len = strcspn(types[i].value, ";");

        if (strlen(type) == len && strncasecmp(type, types[i].value, len) == 0)
            return types[i].value;
    }
    for (size_t i = 0; i < ARRAY_SIZE(inert); i++)
        if (strcasecmp(type, inert[i]) == 0)
            return inert[i];
    return "application/octet-stream";
}

const char *http_attachment(struct arena *arena, const char *path,
                            const char *suffix)
{
    struct buf b cleanup(buf_done) = {0};
    struct buf name cleanup(buf_done) = {0};
    const char *slash = strrchr(path, '/');

    buf_addf(&name, "%s%s", slash ? slash + 1 : path, suffix);
    buf_adds(&b, "attachment; filename=\"");
    for (const char *p = name.data; *p; p++) {
        bool safe = isascii(*p) && (isalnum(*p) || strchr("._-", *p));

        buf_add(&b, safe ? p : "_", 1);
    }
    buf_adds(&b, "\"; filename*=UTF-8''");
    for (const char *p = name.data; *p; p++) {
        if (isascii(*p) && (isalnum(*p) || strchr("._-", *p)))
            buf_add(&b, p, 1);
        else
            buf_addf(&b, "%%%02X", (unsigned char)*p);
    }
    return arena_strdup(arena, b.data);
}

static bool etag_listed(const char *list, const char *etag)
{
    size_t n = strlen(etag);

    if (strcmp(list, "*") == 0)
        return true;
    for (const char *p = strstr(list, etag); p; p = strstr(p + 1, etag))
        if (p[n] == '\0' || p[n] == ',' || p[n] == ' ')
            return true;
    return false;
}

/* Digits at *p; false when there are none or too many. */
static bool take_number(const char **p, uint64_t *ret)
{
    const char *from = *p;

    *ret = 0;
    while (**p >= '0' && **p <= '9' && *p - from < 18)
        *ret = *ret * 10 + (uint64_t)(*(*p)++ - '0');
    return *p > from;
}

enum range {
    RANGE_NONE,
    RANGE_ONE,
    RANGE_BAD
};

/* One range of bytes. Several ranges, other units and nonsense are as if the
 * header were absent, which the standard allows. */
static enum range parse_range(const char *text, uint64_t size,
                              uint64_t *ret_first, uint64_t *ret_count)
{
    uint64_t first, last = UINT64_MAX;
    bool open, counted;

    if (!text || strncmp(text, "bytes=", 6) != 0)
        return RANGE_NONE;
    text += 6;
    open = take_number(&text, &first);
    if (*text++ != '-')
        return RANGE_NONE;
    counted = take_number(&text, &last);
    if (*text || (!open && !counted) || (open && counted && last < first))
        return RANGE_NONE;
    if (!open) { /* the last so many bytes */
        first = last < size ? size - last : 0;
        if (last == 0)
            return RANGE_BAD;
        last = UINT64_MAX;
    } else if (!counted) {
        last = UINT64_MAX;
    }
    if (first >= size)
        return RANGE_BAD;
    *ret_first = first;
    *ret_count = MIN(last, size - 1) - first + 1;
    return RANGE_ONE;
}

struct download {
    int fd;
    uint64_t first;
};

static ssize_t on_read(void *cls, uint64_t pos, char *bytes, size_t max)
{
    struct download *d = cls;
    ssize_t n = pread(d->fd, bytes, max, (off_t)(d->first + pos));

    return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void on_free(void *cls)
{
    struct download *d = cls;

    fd_close(&d->fd);
    free(d);
}

/* Sends bytes of d, whose fd is taken. */
static void respond_bytes(struct http_request *req, unsigned status,
                          const struct http_download *d, uint64_t first,
                          uint64_t count)
{
    struct MHD_Response *response;
    struct download *copy;
    int fd = d->fd;

    if (count == 0) {
        fd_close(&fd);
        http_respond_empty(req, status);
        return;
    }
    if (d->stable) {
        response = MHD_create_response_from_fd_at_offset64(count, fd, first);
    } else {
        copy = xmalloc(sizeof(*copy));
        *copy = (struct download){.fd = fd, .first = first};
        response = MHD_create_response_from_callback(count, BLOCK_SIZE,
                                                     on_read, copy, on_free);
    }
    if (!response)
        abort(); /* out of memory, as the x* wrappers do */
    http_respond_set(req, status, response);
}

int http_respond_download(struct http_request *req,
                          const struct http_download *d, struct error *err)
{
    uint64_t first = 0, bytes = d->size;
    const char *match = http_header(req, "If-None-Match");
    const char *if_range = http_header(req, "If-Range");
    const char *wanted = http_header(req, "Range");
    char *etag = arena_printf(req->arena, "\"%s\"", d->etag);
    enum range range;

    http_add_header(req, "ETag", etag);
    http_add_header(req, "Accept-Ranges", "bytes");

    char date[HTTP_DATE_SIZE];

    if (d->modified_ms > 0 && http_respond_date(d->modified_ms, date))
        http_add_header(req, "Last-Modified", date);

    if (match && etag_listed(match, etag)) {
        int fd = d->fd;

        fd_close(&fd);
        http_respond_empty(req, 304);
        return 0;
    }
    if (if_range && strcmp(if_range, etag) != 0)
        wanted = NULL;
    range = parse_range(wanted, d->size, &first, &bytes);
    if (range == RANGE_BAD) {
        http_add_header(req, "Content-Range",
                        arena_printf(req->arena, "bytes */%" PRIu64, d->size));
        return error_set(err, ERR_RANGE,
                         "the file has %" PRIu64 " bytes; the range asked "
                         "for is outside",
                         d->size);
    }
    if (range == RANGE_ONE)
        http_add_header(req, "Content-Range",
                        arena_printf(req->arena,
                                     "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                                     first, first + bytes - 1, d->size));
    http_add_header(req, "Content-Type", type_of(d->name, d->type));
    http_add_header(req, "Content-Security-Policy",
                    "sandbox; default-src 'none'");
    http_add_header(req, "Content-Disposition",
                    http_attachment(req->arena, d->name, ""));
    respond_bytes(req, range == RANGE_ONE ? 206 : 200, d, first, bytes);
    return 0;
}

int http_respond_file(struct http_request *req, int fd, const struct stat *st,
                      const char *name, struct error *err)
{
    uint64_t size = (uint64_t)st->st_size;
    char *etag = arena_printf(req->arena, "%" PRIx64 "-%" PRIx64 "-%" PRIx64,
                              (uint64_t)st->st_ino, size,
                              (uint64_t)st->st_mtim.tv_sec * 1000000000u +
                                  (uint64_t)st->st_mtim.tv_nsec);
    struct http_download d = {
        .fd = fd,
        .size = size,
        .name = name,
        .etag = etag,
        .modified_ms =
            (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000,
    };

    return http_respond_download(req, &d, err);
}
