/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Responses, and the table from error codes to statuses. A worker builds
 * libmicrohttpd's response and stores it in the request; the event thread
 * queues it. Every response names its request and forbids storing and
 * sniffing.
 */
#include "http/http.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "http/http_int.h"
#include "json/json.h"

#define EXTRA_MAX 64 /* as many as another node may have set */

/* ---- errors --------------------------------------------------------------
 */

static const unsigned statuses[ERR_MAX] = {
    [ERR_NONE] = 500,
    [ERR_INVALID] = 400,
    [ERR_UNAUTHENTICATED] = 401,
    [ERR_FORBIDDEN] = 403,
    [ERR_NOT_FOUND] = 404,
    [ERR_METHOD] = 405,
    [ERR_CONFLICT] = 409,
    [ERR_EXPIRED] = 410,
    [ERR_PRECONDITION] = 412,
    [ERR_TOO_LARGE] = 413,
    [ERR_RANGE] = 416,
    [ERR_LOCKED] = 423,
    [ERR_APPROVAL] = 202,
    [ERR_UNSUPPORTED] = 400,
    [ERR_LIMIT] = 429,
    [ERR_BUSY] = 429,
    [ERR_SPACE] = 507,
    [ERR_GUEST] = 502,
    [ERR_UNAVAILABLE] = 503,
    [ERR_ISOLATION] = 503,
    [ERR_TIMEOUT] = 504,
    [ERR_ELSEWHERE] = 503,
    [ERR_CORRUPT] = 500,
    [ERR_INTERNAL] = 500,
};

unsigned http_status_of(enum error_code code)
{
    return (unsigned)code < ERR_MAX ? statuses[code] : 500;
}

/* ---- error bodies ------------------------------------------------------- */

/* The client learns nothing of the host from a defect of ours, which is for
 * the log (H5). */
static bool is_defect(const struct error *err)
{
    return err->code == ERR_INTERNAL || err->code == ERR_NONE;
}

static void write_code(struct json_writer *w, const char *key,
                       const void *object)
{
    const struct error *err = object;

    json_write_string(
        w, key, error_code_name(is_defect(err) ? ERR_INTERNAL : err->code));
}

static void write_message(struct json_writer *w, const char *key,
                          const void *object)
{
    const struct error *err = object;

    json_write_string(
        w, key,
        is_defect(err) ? "an internal error; the log has it under the id of "
                         "this request"
                       : err->message);
}

static bool has_hint(const void *object)
{
    const struct error *err = object;

    return err->hint[0] && !is_defect(err);
}

static bool has_quota(const void *object)
{
    return ((const struct error *)object)->quota != NULL;
}

#define ERROR(member) API_AT(struct error, member)

static const struct api_field quota_fields[] = {
    {"name", API_STRING, ERROR(quota), .help = "as GET /api/quotas names it"},
    {"limit", API_INT, ERROR(quota_most)},
    {"used", API_INT, ERROR(quota_used)},
    {"until_ms", API_INT, API_OPTIONAL, ERROR(quota_until_ms),
     .help = "when the window ends, in milliseconds since 1970"},
};
API_OUTPUT(http_error_quota_resource, "ErrorQuota", struct error, quota_fields,
           "The quota that was reached.");

#define ERROR_FIELDS(code_)                                                   \
    {"code", API_STRING, .write = write_code, .help = (code_)},               \
        {"message", API_STRING, .write = write_message,                       \
         .help = "for people"},                                               \
        {"hint",      API_STRING,       API_OPTIONAL,                         \
         ERROR(hint), .when = has_hint, .help = "what to do about it"},       \
    {                                                                         \
        "quota", API_OBJECT, API_OPTIONAL, .when = has_quota,                 \
                                           .of = &http_error_quota_resource   \
    }

static const struct api_field error_body_fields[] = {
    ERROR_FIELDS("stable, for programs"),
};
API_OUTPUT(http_error_body_resource, "ErrorBody", struct error,
           error_body_fields, "What went wrong, and what to do about it.");
static const struct api_field error_fields[] = {
    {"error", API_OBJECT, .of = &http_error_body_resource},
};
API_OUTPUT(http_error_resource, "Error", struct error, error_fields,
           "The body of every error.");

static const struct api_field held_body_fields[] = {
    ERROR_FIELDS("pending_approval"),
    {"approval", API_STRING, ERROR(approval), .help = "its id, apr_…"},
};
API_OUTPUT(http_held_body_resource, "HeldBody", struct error, held_body_fields,
           "Send the same request again once it is approved.");
static const struct api_field held_fields[] = {
    {"error", API_OBJECT, .of = &http_held_body_resource},
};
API_OUTPUT(http_held_resource, "Held", struct error, held_fields,
           "Not done: a policy requires that a person approves it first.");

void http_error_body(const struct error *err, struct buf *out)
{
    struct json_writer w = {.out = out};

    api_write(&w, NULL,
              err->approval[0] ? &http_held_resource : &http_error_resource,
              err);
}

/* ---- responses -----------------------------------------------------------
 */

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

static bool has_extra(const struct http_request *req, const char *name)
{
    for (size_t i = 0; i < req->extra_count; i++)
        if (strcasecmp(req->extra[i].name, name) == 0)
            return true;
    return false;
}

/* bytes: the body of the response, or NULL when it is not in memory. */
static void store_response(struct http_request *req, unsigned status,
                           struct MHD_Response *response, const char *bytes,
                           size_t len)
{
    add_header(response, "X-Request-Id", req->id);
    if (!has_extra(req, "Cache-Control"))
        add_header(response, "Cache-Control", "no-store");
    add_header(response, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < req->extra_count; i++)
        add_header(response, req->extra[i].name, req->extra[i].value);
    req->server->classes[status / 100 % 6]++;
    if (status == 429 && !req->let_in) /* else it was counted when let in */
        fair_backoff_refused(req->server->backoff, req->flow, clock_mono_ms());

    mutex_lock(&req->lock);
    assert(!req->answered);
    req->answered = true;
    req->status = status;
    if (!req->gone)
        req->response = take_ptr(response);
    /* The rest of the body is read and dropped from now on. */
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
    /* The client has left. Not under the lock, for which the feed of a
     * stream may be waiting. */
    if (response)
        MHD_destroy_response(response);
}

void http_respond_set(struct http_request *req, unsigned status,
                      struct MHD_Response *response)
{
    store_response(req, status, response, NULL, 0);
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
    store_response(req, status, response, bytes, len);
}

void http_respond_static(struct http_request *req, const char *type,
                         const void *bytes, size_t len)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        len, (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT);

    if (!response)
        abort(); /* out of memory, as the x* wrappers do */
    add_header(response, "Content-Type", type);
    store_response(req, 200, response, bytes, len);
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
