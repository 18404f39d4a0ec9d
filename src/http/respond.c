/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers. A worker builds libmicrohttpd's response and leaves it with the
 * request; the event thread queues it. Every answer says which request it
 * belongs to, is not to be stored and not to be sniffed.
 */
#include "http/http.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "http/http_int.h"

#define EXTRA_MAX 16

void http_add_header(struct http_request *req, const char *name,
                     const char *value)
{
    if (!req->extra)
        req->extra = arena_alloc(req->arena, EXTRA_MAX * sizeof(*req->extra));
    assert(req->extra_count < EXTRA_MAX);
    req->extra[req->extra_count++] = (struct http_pair){
        arena_strdup(req->arena, name), arena_strdup(req->arena, value)};
}

/* A name or value with a line end is refused by libmicrohttpd; ours have
 * none, and one less header is the safe outcome. */
static void add_header(struct MHD_Response *response, const char *name,
                       const char *value)
{
    (void)MHD_add_response_header(response, name, value);
}

bool http_respond_date(int64_t ms, char ret[HTTP_DATE_SIZE])
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed",
                                       "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr",
                                         "May", "Jun", "Jul", "Aug",
                                         "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;

    if (!gmtime_r(&seconds, &tm) || tm.tm_year < 0 || tm.tm_year > 8099)
        return false;
    (void)snprintf(ret, HTTP_DATE_SIZE, "%s, %02d %s %d %02d:%02d:%02d GMT",
                   days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon],
                   tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    return true;
}

/* bytes: of the response's body, or NULL when they are not at hand. */
static void set(struct http_request *req, unsigned status,
                struct MHD_Response *response, const char *bytes, size_t len)
{
    add_header(response, "X-Request-Id", req->id);
    add_header(response, "Cache-Control", "no-store");
    add_header(response, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < req->extra_count; i++)
        add_header(response, req->extra[i].name, req->extra[i].value);
    req->server->classes[status / 100 % 6]++;
    if (status == 429 && !req->let_in) /* else it counted then */
        http_backoff_refused(req->server->backoff, req->flow, clock_mono_ms());

    mutex_lock(&req->lock);
    assert(!req->answered);
    req->answered = true;
    req->status = status;
    if (!req->gone)
        req->response = take_ptr(response);
    /* What is left of the body is read and dropped from now on. */
    req->ring_len = 0;
    if (bytes)
        http_early_prepare(req, bytes, len);
    if (!req->tls)
        http_early_push(req);
    if (req->delay && req->suspended)
        req->delayed_ms = clock_mono_ms();
    else
        http_request_resume(req);
    mutex_unlock(&req->lock);
    if (response) /* nobody to send it to; not under the lock, which the
                     feed of a stream may be waiting for */
        MHD_destroy_response(response);
}

void http_respond_set(struct http_request *req, unsigned status,
                      struct MHD_Response *response)
{
    set(req, status, response, NULL, 0);
}

unsigned http_status(const struct http_request *req)
{
    return req->status;
}

void http_respond(struct http_request *req, unsigned status, const char *type,
                  struct buf *body)
{
    struct MHD_Response *response;
    size_t len;
    char *bytes = buf_take(body, &len);

    if (!bytes)
        bytes = xstrdup("");
    response =
        MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_MUST_FREE);
    if (!response)
        abort(); /* out of memory, as the x* wrappers do */
    if (type)
        add_header(response, "Content-Type", type);
    set(req, status, response, bytes, len);
}

void http_delay(struct http_request *req)
{
    mutex_lock(&req->lock);
    req->delay = true;
    mutex_unlock(&req->lock);
}

void http_respond_json(struct http_request *req, unsigned status,
                       struct buf *body)
{
    http_respond(req, status, "application/json", body);
}

void http_respond_empty(struct http_request *req, unsigned status)
{
    struct buf none = {0};

    http_respond(req, status, NULL, &none);
}

static bool has_extra(const struct http_request *req, const char *name)
{
    for (size_t i = 0; i < req->extra_count; i++)
        if (strcasecmp(req->extra[i].name, name) == 0)
            return true;
    return false;
}

void http_respond_error(struct http_request *req, const struct error *err)
{
    struct buf body = {0};
    char seconds[16];

    if (err->retry_after_s > 0 || http_status_of(err->code) == 429) {
        (void)snprintf(seconds, sizeof(seconds), "%d",
                       MAX(err->retry_after_s, 1));
        http_add_header(req, "Retry-After", seconds);
    }
    if (err->code == ERR_UNAUTHENTICATED &&
        !has_extra(req, "WWW-Authenticate"))
        http_add_header(req, "WWW-Authenticate", "Bearer");
    http_error_body(err, &body);
    http_respond_json(req, http_status_of(err->code), &body);
}

void http_respond_bytes(unsigned status, const char *id,
                        const struct error *err, struct buf *out)
{
    struct buf body cleanup(buf_done) = {0};
    char date[HTTP_DATE_SIZE];

    http_error_body(err, &body);
    buf_addf(out, "HTTP/1.1 %u %s\r\n", status,
             MHD_get_reason_phrase_for(status));
    if (http_respond_date(clock_real_ms(), date))
        buf_addf(out, "Date: %s\r\n", date);
    buf_addf(out,
             "Content-Type: application/json\r\n"
             "X-Request-Id: %s\r\n"
             "Cache-Control: no-store\r\n"
             "X-Content-Type-Options: nosniff\r\n"
             "Connection: close\r\n"
             "Content-Length: %zu\r\n\r\n",
             id, body.len);
    buf_add(out, body.data, body.len);
}
