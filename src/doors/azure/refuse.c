/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saying no in the Azure dialect. Runs on a worker of the daemon. Names that
 * clients look for are chosen by handlers; the rest comes from the one table
 * below. The hosted service answers a bad token and an unknown version with an
 * empty 401; ours has the body of every other error, which clients show.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "doors/azure/azure.h"
#include "json/json.h"

struct note {
    const char *code, *target;
};

void azure_refuse_as(struct doors_call *call, const char *code,
                     const char *target)
{
    struct note *note = arena_alloc(http_arena(call->http), sizeof(*note));

    *note = (struct note){code, target};
    call->own = note;
}

/* The data plane's name, and the control plane's where it differs. */
static const struct {
    const char *data, *management;
} names[ERR_MAX] = {
    [ERR_INVALID] = {AZURE_INVALID, "InvalidRequestContent"},
    [ERR_FORBIDDEN] = {"Forbidden", "AuthorizationFailed"},
    [ERR_NOT_FOUND] = {"NotFound", "ResourceNotFound"},
    [ERR_METHOD] = {AZURE_INVALID, NULL},
    [ERR_CONFLICT] = {"Conflict", NULL},
    [ERR_EXPIRED] = {AZURE_GONE, NULL},
    [ERR_PRECONDITION] = {"PreconditionFailed", NULL},
    [ERR_TOO_LARGE] = {"RequestEntityTooLarge", NULL},
    [ERR_RANGE] = {"RequestedRangeNotSatisfiable", NULL},
    [ERR_LOCKED] = {"Locked", NULL},
    [ERR_APPROVAL] = {"PendingApproval", NULL},
    [ERR_UNSUPPORTED] = {AZURE_UNSUPPORTED, NULL},
    [ERR_LIMIT] = {"TooManyRequests", NULL},
    [ERR_BUSY] = {"TooManyRequests", NULL},
    [ERR_SPACE] = {"InsufficientStorage", NULL},
    [ERR_UNAVAILABLE] = {"ServiceUnavailable", NULL},
    [ERR_ISOLATION] = {"ServiceUnavailable", NULL},
    [ERR_TIMEOUT] = {"GatewayTimeout", NULL},
};

static const char *name_of(const struct doors_call *call,
                           const struct error *err, bool management)
{
    const struct note *note = call->own;
    const char *name = NULL;

    if (note && note->code)
        return note->code;
    if ((unsigned)err->code < ERR_MAX)
        name = management && names[err->code].management
                   ? names[err->code].management
                   : names[err->code].data;
    return name ? name : "InternalServerError";
}

/* Of a pool's own paths an unknown one, or a wrong method, is a bad request;
 * 404 is for pools, files and runs that are not there. */
static unsigned status_of(const struct doors_call *call,
                          const struct error *err, bool management)
{
    if (err->code == ERR_APPROVAL) /* 202 would read as done */
        return 403;
    if (!management && (err->code == ERR_METHOD || err->code == ERR_EXPIRED ||
                        (err->code == ERR_NOT_FOUND && !call->route)))
        return 400;
    return http_status_of(err->code);
}

static void encode(const struct doors_call *call, const struct error *err,
                   const char *code, struct buf *out)
{
    /* A defect of ours is for the log (H5). */
    bool ours = err->code == ERR_INTERNAL || err->code == ERR_NONE;
    const struct note *note = call->own;
    struct buf text cleanup(buf_done) = {0};
    struct json_writer w = {.out = out};
    const char *id = http_id(call->http), *hex = strchr(id, '_');

    buf_adds(&text, ours ? "an internal error; the log has it "
                           "under this trace id"
                         : err->message);
    if (err->hint[0] && !ours)
        buf_addf(&text, ". %s", err->hint);
    json_write_open(&w, NULL, '{');
    json_write_open(&w, "error", '{');
    json_write_string(&w, "code", code);
    json_write_text(&w, "message", text.data, text.len);
    if (note && note->target)
        json_write_string(&w, "target", note->target);
    json_write_string(&w, "traceId", hex ? hex + 1 : id);
    json_write_close(&w, '}');
    json_write_close(&w, '}');
}

void azure_refuse(struct doors_call *call, const struct error *err)
{
    bool management =
        call->route && strncmp(call->route->pattern, AZURE_MANAGED, 2) == 0;
    unsigned status = status_of(call, err, management);
    struct buf body = {0};
    const char *code;
    char seconds[16];

    code = status == 401 ? "Unauthorized" : name_of(call, err, management);
    if (status == 401)
        http_add_header(call->http, "WWW-Authenticate", "Bearer");
    if (!call->route && err->code == ERR_NOT_FOUND)
        code = AZURE_INVALID;
    if (err->retry_after_s > 0 || status == 429) {
        (void)snprintf(seconds, sizeof(seconds), "%d",
                       MAX(err->retry_after_s, 1));
        http_add_header(call->http, "Retry-After", seconds);
    }
    http_add_header(call->http, "x-ms-error-code", code);
    encode(call, err, code, &body);
    azure_encode_respond(call, status, &body);
}
