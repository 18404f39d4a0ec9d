/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects: put, get, head, delete. Runs in gloveboxd on the caller's thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/error.h"
#include "base/ids.h"
#include "base/mem.h"
#include "fetch/fetch.h"
#include "s3/s3_int.h"

#define CHECKSUM 45 /* SHA-256 in base64 and NUL */

static int check_key(const struct s3 *s, const char *key, struct error *err)
{
    if (!*key || strlen(key) + strlen(s->prefix) > S3_KEY_MAX)
        return error_set(err, ERR_INVALID,
                         "the name of an object has 1 to %u bytes",
                         S3_KEY_MAX);
    return 0;
}

void s3_object_read(const struct s3_call *call, struct s3_object *ret)
{
    char text[64];

    *ret = (struct s3_object){0};
    if (fetch_head_find(&call->head, "content-length", text, sizeof(text)))
        ret->size = strtoull(text, NULL, 10);
    if (fetch_head_find(&call->head, "last-modified", text, sizeof(text)))
        (void)s3_http_date(text, &ret->modified_ms); /* else not known */
    (void)fetch_head_find(&call->head, "etag", ret->etag, sizeof(ret->etag));
}

/* ---- put ---------------------------------------------------------------- */

/* One that hashes for itself says what it stored. */
static int check_stored(const struct s3_call *call, const char *checksum,
                        struct error *err)
{
    char theirs[64];

    if (fetch_head_find(&call->head, "x-amz-checksum-sha256", theirs,
                        sizeof(theirs)) &&
        strcmp(theirs, checksum) != 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the object store stored other bytes than were "
                         "sent");
    return 0;
}

static int put_whole(struct s3 *s, const char *key, const void *bytes, int fd,
                     uint64_t len, const unsigned char sha256[HASH_SIZE],
                     struct error *err)
{
    struct s3_call call cleanup(s3_call_done) = {.method = "PUT",
                                                 .key = key,
                                                 .has_body = true,
                                                 .body = bytes,
                                                 .body_fd = fd,
                                                 .body_len = len};
    char checksum[CHECKSUM];
    int r = check_key(s, key, err);

    if (r < 0)
        return r;
    memcpy(call.sha256, sha256, HASH_SIZE);
    (void)EVP_EncodeBlock((unsigned char *)checksum, sha256, HASH_SIZE);
    call.headers[call.header_count++] =
        (struct s3_param){"x-amz-checksum-sha256", checksum};
    r = s3_call_run(s, &call, err);
    if (r > 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the bucket of %s does not exist", s->name);
    return r < 0 ? r : check_stored(&call, checksum, err);
}

int s3_put_file(struct s3 *s, const char *key, int fd, uint64_t size,
                const unsigned char sha256[HASH_SIZE], struct error *err)
{
    int r = check_key(s, key, err);

    if (r < 0)
        return r;
    if (size > S3_SIZE_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "an object store takes files of up to 5 TiB");
    if (size > s->part_bytes)
        return s3_put_parts(s, key, fd, size, err);
    return put_whole(s, key, size ? NULL : "", fd, size, sha256, err);
}

int s3_put_bytes(struct s3 *s, const char *key, const void *bytes, size_t len,
                 struct error *err)
{
    unsigned char sha256[HASH_SIZE];

    hash_sha256(bytes, len, sha256);
    return put_whole(s, key, bytes, -1, len, sha256, err);
}

/* ---- get ---------------------------------------------------------------- */

struct getting {
    s3_sink_fn sink;
    void *ctx;
    uint64_t at, most; /* as requested */
    uint64_t done;     /* bytes that the sink has */
    uint64_t skip;     /* of this answer: the server did not heed the range */
    bool begun;        /* of this answer */
    char range[64];
    char etag[S3_ETAG]; /* of the first answer; "" */
    struct s3_object object;
};

static void before_get(struct s3_call *call)
{
    struct getting *g = call->ctx;
    uint64_t from = g->at + g->done;

    g->begun = false;
    call->header_count = 0;
    if (from == 0 && g->most == UINT64_MAX)
        return;
    if (g->most == UINT64_MAX)
        (void)snprintf(g->range, sizeof(g->range), "bytes=%" PRIu64 "-", from);
    else
        (void)snprintf(g->range, sizeof(g->range),
                       "bytes=%" PRIu64 "-%" PRIu64, from,
                       g->at + g->most - 1);
    call->headers[call->header_count++] = (struct s3_param){"range", g->range};
    if (g->etag[0])
        call->headers[call->header_count++] =
            (struct s3_param){"if-match", g->etag};
}

/* Heads of the first answer are the object's; those of a later one must
 * match, which a server without If-Match would not ensure. */
static int begin_answer(struct s3_call *call, struct getting *g)
{
    struct s3_object now;
    char text[96];

    s3_object_read(call, &now);
    if (fetch_head_find(&call->head, "content-range", text, sizeof(text))) {
        const char *slash = strchr(text, '/');

        now.size = slash ? strtoull(slash + 1, NULL, 10) : 0;
        g->skip = 0;
    } else {
        g->skip = g->at + g->done;
    }
    if (g->done && strcmp(now.etag, g->etag) != 0)
        return -ERR_CORRUPT;
    g->object = now;
    memcpy(g->etag, now.etag, sizeof(g->etag));
    g->begun = true;
    return 0;
}

static int on_get_bytes(struct s3_call *call, const void *bytes, size_t len)
{
    struct getting *g = call->ctx;
    const char *from = bytes;
    int r = 0;

    if (!g->begun)
        r = begin_answer(call, g);
    if (r < 0)
        return r;
    if (g->skip) {
        size_t n = (size_t)MIN(g->skip, (uint64_t)len);

        g->skip -= n;
        from += n;
        len -= n;
    }
    len = (size_t)MIN((uint64_t)len, g->most - g->done);
    if (!len)
        return 0;
    r = g->sink(g->ctx, from, len);
    if (r == 0)
        g->done += len;
    return r;
}

int s3_get(struct s3 *s, const char *key, uint64_t at, uint64_t most,
           s3_sink_fn sink, void *ctx, struct s3_object *ret,
           struct error *err)
{
    struct getting g = {.sink = sink, .ctx = ctx, .at = at, .most = most};
    struct s3_call call cleanup(s3_call_done) = {.method = "GET",
                                                 .key = key,
                                                 .sink = on_get_bytes,
                                                 .before = before_get,
                                                 .ctx = &g};
    int r = check_key(s, key, err);

    err->code = ERR_NONE;
    if (r == 0)
        r = s3_call_run(s, &call, err);
    if (r == -ERR_CORRUPT && call.ended == -ERR_CORRUPT && !err->code)
        return error_set(err, ERR_CORRUPT,
                         "an object changed while it was read");
    if (r != 0)
        return r;
    if (!g.begun) /* an empty object has no piece */
        s3_object_read(&call, &g.object);
    if (ret)
        *ret = g.object;
    return 0;
}

/* ---- head, delete, probe ------------------------------------------------ */

int s3_head(struct s3 *s, const char *key, struct s3_object *ret,
            struct error *err)
{
    struct s3_call call cleanup(s3_call_done) = {.method = "HEAD", .key = key};
    int r = check_key(s, key, err);

    if (r == 0)
        r = s3_call_run(s, &call, err);
    if (r == 0)
        s3_object_read(&call, ret);
    return r;
}

int s3_delete(struct s3 *s, const char *key, struct error *err)
{
    struct s3_call call cleanup(s3_call_done) = {.method = "DELETE",
                                                 .key = key};
    int r = check_key(s, key, err);

    if (r == 0)
        r = s3_call_run(s, &call, err);
    return MIN(r, 0);
}

struct probe {
    char text[40];
    size_t len;
};

static int on_probe_bytes(void *ctx, const void *bytes, size_t len)
{
    struct probe *p = ctx;

    if (p->len + len >= sizeof(p->text))
        return -ERR_CORRUPT;
    memcpy(p->text + p->len, bytes, len);
    p->len += len;
    return 0;
}

int s3_probe(struct s3 *s, struct error *err)
{
    char key[ID_MAX + 8], name[ID_MAX];
    struct probe found = {0};
    int r;

    ids_make("probe", name);
    (void)snprintf(key, sizeof(key), ".probe/%.31s", name);
    r = s3_put_bytes(s, key, name, MIN(strlen(name), (size_t)31), err);
    if (r == 0)
        r = s3_get(s, key, 0, UINT64_MAX, on_probe_bytes, &found, NULL, err);
    if (r < 0)
        return r;
    if (r > 0 || memcmp(found.text, name, found.len) != 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the bucket of %s does not return what was just "
                         "stored in it",
                         s->name);
    return s3_delete(s, key, err);
}
