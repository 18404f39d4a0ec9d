/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error codes to HTTP statuses and bodies: the one table. Runs in the
 * daemon; called by respond.c and by the event thread when it refuses.
 */
#include "http/http.h"

#include "base/buf.h"
#include "json/json.h"

static const unsigned statuses[ERR_MAX] = {
    [ERR_NONE] = 500,      [ERR_INVALID] = 400,   [ERR_UNAUTHENTICATED] = 401,
    [ERR_FORBIDDEN] = 403, [ERR_NOT_FOUND] = 404, [ERR_METHOD] = 405,
    [ERR_CONFLICT] = 409,  [ERR_EXPIRED] = 410,   [ERR_PRECONDITION] = 412,
    [ERR_TOO_LARGE] = 413, [ERR_RANGE] = 416,     [ERR_LOCKED] = 423,
    [ERR_APPROVAL] = 202,  [ERR_LIMIT] = 429,     [ERR_BUSY] = 429,
    [ERR_SPACE] = 507,     [ERR_GUEST] = 502,     [ERR_UNAVAILABLE] = 503,
    [ERR_ISOLATION] = 503, [ERR_TIMEOUT] = 504,   [ERR_CORRUPT] = 500,
    [ERR_INTERNAL] = 500,
};

unsigned http_status_of(enum error_code code)
{
    return (unsigned)code < ERR_MAX ? statuses[code] : 500;
}

static void write_quota(struct json_writer *w, const struct error *err)
{
    json_write_open(w, "quota", '{');
    json_write_string(w, "name", err->quota);
    json_write_int(w, "limit", (int64_t)err->quota_most);
    json_write_int(w, "used", (int64_t)err->quota_used);
    if (err->quota_until_ms)
        json_write_int(w, "until_ms", err->quota_until_ms);
    json_write_close(w, '}');
}

void http_error_body(const struct error *err, struct buf *out)
{
    /* A defect of ours is for the log; the client learns nothing of the
     * host from it (H5). */
    bool ours = err->code == ERR_INTERNAL || err->code == ERR_NONE;
    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    json_write_open(&w, "error", '{');
    json_write_string(&w, "code",
                      error_code_name(ours ? ERR_INTERNAL : err->code));
    json_write_string(&w, "message",
                      ours ? "something failed on our side; the log has it "
                             "under this request's id"
                           : err->message);
    if (err->hint[0] && !ours)
        json_write_string(&w, "hint", err->hint);
    if (err->approval[0])
        json_write_string(&w, "approval", err->approval);
    if (err->quota)
        write_quota(&w, err);
    json_write_close(&w, '}');
    json_write_close(&w, '}');
}
