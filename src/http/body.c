/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body: a bounded ring between the event thread, which fills it, and the
 * worker, which empties it. Full, the connection is suspended and the
 * client's own TCP window slows it down; the body is never held whole unless
 * it is small or JSON.
 */
#include "http/http.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "http/http_int.h"
#include "json/json.h"

/* ---- the event thread's side -------------------------------------------- */

size_t http_body_feed(struct http_request *req, const char *bytes, size_t len)
{
    size_t taken = 0;

    mutex_assert_held(&req->lock);
    while (taken < len && req->ring_len < req->ring_size) {
        size_t end = req->ring_start + req->ring_len, n;

        /* One piece: to the end of the buffer, or to the oldest byte. */
        if (end >= req->ring_size) {
            end -= req->ring_size;
            n = req->ring_start - end;
        } else {
            n = req->ring_size - end;
        }
        n = MIN(n, len - taken);
        memcpy(req->ring + end, bytes + taken, n);
        req->ring_len += n;
        taken += n;
    }
    return taken;
}

bool http_body_late(struct http_request *req, uint64_t now_ms)
{
    uint64_t idle_ms = (uint64_t)req->server->settings.body_timeout_s * 1000;
    uint64_t slack = idle_ms + req->received * 1000 / HTTP_MIN_RATE;

    /* Sums, not differences: now was read before the lock was taken, and a
     * byte may have come since. 0: the body has not begun. */
    if (req->ended || req->suspended || req->length == 0 ||
        req->body_start_ms == 0)
        return false;
    return now_ms > req->body_last_ms + idle_ms ||
           now_ms > req->body_start_ms + slack;
}

/* ---- the worker's side -------------------------------------------------- */

/* Waits until there is something to read; 0: the end of the body. */
static ssize_t read_ring(struct http_request *req, char *bytes, size_t len,
                         struct error *err)
{
    size_t n;

    mutex_assert_held(&req->lock);
    while (req->ring_len == 0 && !req->ended) {
        if (req->gone)
            return error_set(err, ERR_INVALID,
                             "the client left before the body was complete");
        if (req->late)
            return error_set(err, ERR_INVALID, "the body came too slowly");
        cond_wait(&req->more, &req->lock);
    }
    n = MIN(MIN(len, req->ring_len), req->ring_size - req->ring_start);
    if (n == 0)
        return 0;
    memcpy(bytes, req->ring + req->ring_start, n);
    req->ring_start = (req->ring_start + n) % req->ring_size;
    req->ring_len -= n;
    req->consumed += n;
    /* The sender continues when the ring is half empty; otherwise it would
     * stop and continue with every read. */
    if (req->ring_len <= req->ring_size / 2 && !req->ended)
        http_request_resume(req);
    return (ssize_t)n;
}

uint64_t http_body_length(const struct http_request *req)
{
    return req->length;
}

bool http_body_again(struct http_request *req)
{
    if (req->kept_lost)
        return false;
    req->kept_at = 0;
    req->consumed = 0;
    return true;
}

/* What was read is kept until it is too much to keep. */
static void keep(struct http_request *req, const void *bytes, size_t len)
{
    if (!req->server->settings.keep_bodies || req->kept_lost)
        return;
    if (req->kept_len + len > HTTP_KEPT_BYTES) {
        req->kept_lost = true;
        free(take_ptr(req->kept));
        return;
    }
    if (req->kept_len + len > req->kept_cap) {
        req->kept_cap = MAX(2 * req->kept_cap, req->kept_len + len);
        req->kept = xrealloc(req->kept, req->kept_cap);
    }
    memcpy(req->kept + req->kept_len, bytes, len);
    req->kept_len += len;
    req->kept_at = req->kept_len;
}

static size_t read_kept(struct http_request *req, void *bytes, size_t len)
{
    size_t n = MIN(len, req->kept_len - req->kept_at);

    memcpy(bytes, req->kept + req->kept_at, n);
    req->kept_at += n;
    req->consumed += n;
    return n;
}

ssize_t http_body_read(struct http_request *req, void *bytes, size_t len,
                       uint64_t max, struct error *err)
{
    uint64_t consumed;
    ssize_t n;

    if (req->length != UINT64_MAX && req->length > max)
        n = -ERR_TOO_LARGE;
    else {
        mutex_lock(&req->lock);
        if (req->kept && req->kept_at < req->kept_len) {
            n = (ssize_t)read_kept(req, bytes, len);
        } else {
            n = read_ring(req, bytes, len, err);
            if (n > 0)
                keep(req, bytes, (size_t)n);
        }
        consumed = req->consumed;
        mutex_unlock(&req->lock);
        if (n >= 0 && consumed > max)
            n = -ERR_TOO_LARGE;
    }
    if (n == -ERR_TOO_LARGE)
        return error_set(err, ERR_TOO_LARGE,
                         "the body is larger than %llu bytes",
                         (unsigned long long)max);
    return n;
}

/* Content types of a JSON body. The last two are defaults of common clients;
 * the parser finds out whether the body is JSON. */
static const char *const json_types[] = {
    "application/json",
    "text/json",
    "application/x-www-form-urlencoded",
    "text/plain",
};

static int check_type(struct http_request *req, struct error *err)
{
    static const char suffix[] = "+json";
    const char *type = http_header(req, "Content-Type");
    size_t len = type ? strcspn(type, "; ") : 0;

    if (len == 0)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(json_types); i++)
        if (strlen(json_types[i]) == len &&
            strncasecmp(type, json_types[i], len) == 0)
            return 0;
    if (len >= sizeof(suffix) && strncasecmp(type + len - (sizeof(suffix) - 1),
                                             suffix, sizeof(suffix) - 1) == 0)
        return 0;
    (void)error_set(err, ERR_INVALID, "the body must be JSON");
    return error_hint(err, "Send Content-Type: application/json.");
}

/* All of it; fails past max. */
static int read_whole(struct http_request *req, size_t max, struct buf *ret,
                      struct error *err)
{
    ssize_t n;

    if (req->length <= max)
        buf_reserve(ret, req->length);
    do {
        buf_reserve(ret, 16 << 10);
        n = http_body_read(req, ret->data + ret->len, ret->cap - ret->len - 1,
                           max, err);
        if (n < 0)
            return (int)n;
        ret->len += (size_t)n;
    } while (n > 0);
    return 0;
}

int http_body_json_maybe(struct http_request *req, size_t max, json_t **ret,
                         struct error *err)
{
    struct buf body cleanup(buf_done) = {0};
    json_t *value cleanup(json_unref) = NULL;
    int r = req->length == 0 ? 0 : check_type(req, err);

    if (r == 0)
        r = read_whole(req, max, &body, err);
    if (r < 0)
        return r;
    if (body.len == 0) {
        *ret = NULL;
        return 0;
    }
    r = json_parse(body.data, body.len, &value, err);
    if (r < 0)
        return r;
    if (!json_is_object(value))
        return error_set(err, ERR_INVALID, "the body must be a JSON object");
    *ret = take_ptr(value);
    return 0;
}

int http_body_json(struct http_request *req, size_t max, json_t **ret,
                   struct error *err)
{
    int r = check_type(req, err);

    if (r == 0)
        r = http_body_json_maybe(req, max, ret, err);
    if (r < 0 || *ret)
        return r;
    (void)error_set(err, ERR_INVALID, "the body is empty");
    return error_hint(err, "Send a JSON object, for example {}.");
}
