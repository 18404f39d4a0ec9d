/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads in parts, for bodies larger than one request should carry. Each
 * part is hashed and signed by itself; a part that fails is repeated alone.
 * If the upload fails for good, it is aborted, so that the store keeps no
 * parts; what a killed service leaves is aborted by s3_abort_stale. Runs in
 * gloveboxd on the caller's thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "fetch/fetch.h"
#include "s3/s3_int.h"

#define PARTS_MAX 10000u
#define PART_STEP ((uint64_t)1 << 20)
#define UPLOAD_ID 1025 /* and NUL */
#define CHUNK ((size_t)256 << 10)
#define COMPLETE_TRIES 3u
#define SLACK_MS 5000   /* times of objects are rounded */
#define STALE_MAX 1000u /* aborted in one call; the next one has the rest */

struct upload {
    struct s3 *s;
    const char *key;
    int fd;
    uint64_t size, part;
    int64_t begun_ms; /* by our clock */
    char id[UPLOAD_ID];
    struct buf list; /* the body of the last request */
};

uint64_t s3_part_size(uint64_t size, uint64_t least)
{
    uint64_t needed = (size + PARTS_MAX - 1) / PARTS_MAX;

    needed = (needed + PART_STEP - 1) / PART_STEP * PART_STEP;
    return MAX(needed, least);
}

static int on_begun(void *ctx, const char *path, const char *text)
{
    struct upload *u = ctx;

    if (strcmp(path, "InitiateMultipartUploadResult/UploadId") == 0 &&
        strlen(text) < sizeof(u->id))
        memcpy(u->id, text, strlen(text) + 1);
    return 0;
}

static int begin_upload(struct upload *u, struct error *err)
{
    struct s3_call call cleanup(s3_call_done) = {.method = "POST",
                                                 .key = u->key,
                                                 .has_body = true,
                                                 .body = "",
                                                 .query = {{"uploads", ""}},
                                                 .query_count = 1};
    int r;

    hash_sha256("", 0, call.sha256);
    r = s3_call_run(u->s, &call, err);
    if (r == 0)
        r = s3_xml_parse(call.answer.data ? call.answer.data : "",
                         call.answer.len, on_begun, u, err);
    if (r > 0 || (r == 0 && !u->id[0]))
        return error_set(err, ERR_UNAVAILABLE,
                         "the object store %s began no upload in parts",
                         u->s->name);
    return r;
}

static int hash_part(const struct upload *u, uint64_t at, uint64_t len,
                     unsigned char ret[HASH_SIZE], struct error *err)
{
    char *bytes cleanup(mem_free) = xmalloc(CHUNK);
    struct hash_stream *hash = hash_stream_new();
    int r = 0;

    while (len > 0 && r == 0) {
        ssize_t n =
            pread(u->fd, bytes, (size_t)MIN(len, (uint64_t)CHUNK), (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            r = error_errno(err, ERR_INTERNAL, n < 0 ? errno : EIO,
                            "cannot read a staged file");
            break;
        }
        hash_stream_add(hash, bytes, (size_t)n);
        at += (uint64_t)n;
        len -= (uint64_t)n;
    }
    hash_stream_end(hash, ret);
    return r;
}

static int put_part(struct upload *u, unsigned number, struct error *err)
{
    uint64_t at = (number - 1) * u->part;
    char text[16], etag[S3_ETAG];
    struct s3_call call cleanup(s3_call_done) = {
        .method = "PUT",
        .key = u->key,
        .has_body = true,
        .body_fd = u->fd,
        .body_at = at,
        .body_len = MIN(u->part, u->size - at),
        .query = {{"partNumber", text}, {"uploadId", u->id}},
        .query_count = 2};
    int r;

    (void)snprintf(text, sizeof(text), "%u", number);
    r = hash_part(u, at, call.body_len, call.sha256, err);
    if (r == 0)
        r = s3_call_run(u->s, &call, err);
    if (r < 0)
        return r;
    if (r > 0 || !fetch_head_find(&call.head, "etag", etag, sizeof(etag)) ||
        strpbrk(etag, "<&"))
        return error_set(err, ERR_UNAVAILABLE,
                         "the object store %s did not acknowledge a part",
                         u->s->name);
    buf_addf(&u->list,
             "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", number,
             etag);
    return 0;
}

static int on_completed(void *ctx, const char *path, const char *text)
{
    bool *done = ctx;

    (void)text;
    if (strcmp(path, "CompleteMultipartUploadResult") == 0)
        *done = true;
    return 0;
}

/* The object is there, of the right size, and no older than this upload. */
static int find_completed(struct upload *u, struct error *err)
{
    struct s3_object object;
    int r = s3_head(u->s, u->key, &object, err);

    if (r < 0)
        return r;
    if (r > 0 || object.size != u->size ||
        object.modified_ms + SLACK_MS < u->begun_ms + s3_clock_ahead_ms(u->s))
        return error_set(err, ERR_UNAVAILABLE,
                         "the object store %s did not complete an upload in "
                         "parts",
                         u->s->name);
    return 0;
}

/* The status is 200 before the store knows whether it succeeds, so the body
 * decides. If the answer of an earlier attempt was lost, the upload is gone
 * and the object there. */
static int complete_upload(struct upload *u, struct error *err)
{
    struct s3_call call cleanup(s3_call_done) = {
        .method = "POST",
        .key = u->key,
        .has_body = true,
        .body = u->list.data,
        .body_len = u->list.len,
        .headers = {{"content-type", "application/xml"}},
        .header_count = 1,
        .query = {{"uploadId", u->id}},
        .query_count = 1};
    bool done = false;
    struct error unsaid;
    int r = 0;

    hash_sha256(u->list.data, u->list.len, call.sha256);
    for (unsigned i = 0; i < COMPLETE_TRIES && r == 0 && !done; i++) {
        r = s3_call_run(u->s, &call, err);
        if (r == 0)
            (void)s3_xml_parse(call.answer.data ? call.answer.data : "",
                               call.answer.len, on_completed, &done, &unsaid);
    }
    if (r < 0)
        return r;
    return find_completed(u, err);
}

static int abort_upload(struct s3 *s, const char *key, const char *id,
                        struct error *err)
{
    struct s3_call call cleanup(s3_call_done) = {.method = "DELETE",
                                                 .key = key,
                                                 .query = {{"uploadId", id}},
                                                 .query_count = 1};

    return MIN(s3_call_run(s, &call, err), 0);
}

int s3_put_parts(struct s3 *s, const char *key, int fd, uint64_t size,
                 struct error *err)
{
    struct upload u = {.s = s,
                       .key = key,
                       .fd = fd,
                       .size = size,
                       .part = s3_part_size(size, s->part_bytes),
                       .begun_ms = clock_real_ms()};
    unsigned count = (unsigned)((size + u.part - 1) / u.part);
    struct error unsaid;
    int r = begin_upload(&u, err);

    if (r < 0)
        return r;
    buf_adds(&u.list, "<CompleteMultipartUpload>");
    for (unsigned i = 1; i <= count && r == 0; i++)
        r = put_part(&u, i, err);
    buf_adds(&u.list, "</CompleteMultipartUpload>");
    if (r == 0)
        r = complete_upload(&u, err);
    buf_done(&u.list);
    if (r < 0 && abort_upload(s, key, u.id, &unsaid) < 0)
        log_event(LOG_WARN, "object_upload_left", "bucket", s->name, "error",
                  unsaid.message, NULL);
    return r;
}

/* ---- what was never completed ------------------------------------------- */

struct stale {
    struct s3 *s;
    int64_t before_ms;
    char key[S3_KEY_MAX + 1], id[UPLOAD_ID];
    int64_t begun_ms;
    struct {
        char *key, *id;
    } found[STALE_MAX];
    size_t count;
};

static void stale_free(struct stale **p)
{
    for (size_t i = 0; i < (*p)->count; i++) {
        free((*p)->found[i].key);
        free((*p)->found[i].id);
    }
    free(*p);
}

static int on_upload(void *ctx, const char *path, const char *text)
{
    static const char upload[] = "ListMultipartUploadsResult/Upload";
    struct stale *t = ctx;
    size_t prefix = strlen(t->s->prefix);

    if (strncmp(path, upload, sizeof(upload) - 1) != 0)
        return 0;
    path += sizeof(upload) - 1;
    if (strcmp(path, "/Key") == 0) {
        (void)snprintf(t->key, sizeof(t->key), "%s", text);
    } else if (strcmp(path, "/UploadId") == 0) {
        (void)snprintf(t->id, sizeof(t->id), "%s", text);
    } else if (strcmp(path, "/Initiated") == 0) {
        (void)s3_xml_time(text, &t->begun_ms); /* else it is not old */
    } else if (!*path) {
        if (t->begun_ms && t->begun_ms <= t->before_ms &&
            strncmp(t->key, t->s->prefix, prefix) == 0 &&
            t->count < STALE_MAX) {
            t->found[t->count].key = xstrdup(t->key + prefix);
            t->found[t->count++].id = xstrdup(t->id);
        }
        t->begun_ms = 0;
    }
    return 0;
}

int s3_abort_stale(struct s3 *s, uint64_t older_ms, unsigned *ret_count,
                   struct error *err)
{
    struct stale *t cleanup(stale_free) = xcalloc(1, sizeof(*t));
    struct s3_call call cleanup(s3_call_done) = {
        .method = "GET",
        .query = {{"uploads", ""}, {"prefix", s->prefix}},
        .query_count = 2};
    int r = s3_call_run(s, &call, err);

    t->s = s;
    t->before_ms = clock_real_ms() + s3_clock_ahead_ms(s) - (int64_t)older_ms;
    if (r == 0)
        r = s3_xml_parse(call.answer.data ? call.answer.data : "",
                         call.answer.len, on_upload, t, err);
    for (size_t i = 0; i < t->count && r == 0; i++)
        r = abort_upload(s, t->found[i].key, t->found[i].id, err);
    if (r == 0)
        *ret_count = (unsigned)t->count;
    return MIN(r, 0);
}
