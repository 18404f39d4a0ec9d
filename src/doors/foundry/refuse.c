/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals as Foundry's clients read them. An answer without the member
 * `error` makes the JavaScript client lose the status, so every refusal of
 * this door has it. Runs on a worker of the daemon.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/foundry/foundry.h"
#include "json/json.h"

#define REQUEST_ID "x-ms-client-request-id"
#define REQUEST_ID_MAX 128u

struct foundry_fault *foundry_fault(struct doors_call *call)
{
    if (!call->own)
        call->own =
            arena_alloc(http_arena(call->http), sizeof(struct foundry_fault));
    return call->own;
}

static const struct words {
    unsigned status; /* 0: as everywhere */
    const char *code, *type;
} words[ERR_MAX] = {
    [ERR_INVALID] = {.code = "invalid_payload"},
    [ERR_UNAUTHENTICATED] = {.code = "unauthorized"},
    [ERR_FORBIDDEN] = {.code = "forbidden"},
    [ERR_NOT_FOUND] = {.code = "not_found"},
    [ERR_METHOD] = {.code = "method_not_allowed"},
    [ERR_CONFLICT] = {.code = "conflict", .type = "ServiceError"},
    [ERR_TOO_LARGE] = {.status = 400, .code = "invalid_payload"},
    [ERR_APPROVAL] = {.status = 403, .code = "pending_approval"},
    [ERR_UNSUPPORTED] = {.code = "unsupported"},
    [ERR_LIMIT] = {.code = "rate_limit_exceeded"},
    [ERR_BUSY] = {.code = "rate_limit_exceeded"},
};

static void write_sentence(struct doors_call *call, const struct error *err,
                           struct buf *out)
{
    if (err->code == ERR_INTERNAL || err->code == ERR_NONE) {
        buf_addf(out, /* and nothing about the host (H5) */
                 "Something failed on our side; the log has it under the "
                 "request id %s.",
                 http_id(call->http));
        return;
    }
    if (foundry_fault(call)->code) { /* the sentence is this dialect's */
        buf_adds(out, err->message);
        return;
    }
    buf_addf(out, "%c%s", toupper((unsigned char)err->message[0]),
             err->message[0] ? err->message + 1 : "");
    if (out->len && !strchr(".!?", out->data[out->len - 1]))
        buf_adds(out, ".");
    if (err->hint[0])
        buf_addf(out, " %s", err->hint);
}

/* A client finds its request by an id of its own. */
static void stamp(struct doors_call *call)
{
    const char *id = http_header(call->http, REQUEST_ID);

    if (!id || strlen(id) > REQUEST_ID_MAX)
        return;
    for (const char *p = id; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("-_.:", *p))
            return;
    http_add_header(call->http, REQUEST_ID, id);
}

void foundry_refuse(struct doors_call *call, const struct error *err)
{
    const struct words *w =
        &words[(unsigned)err->code < ERR_MAX ? err->code : ERR_NONE];
    const struct foundry_fault *fault = foundry_fault(call);
    unsigned status = w->status ? w->status : http_status_of(err->code);
    struct buf message cleanup(buf_done) = {0};
    struct buf body = {0};
    struct json_writer json = {.out = &body};
    char seconds[16];

    write_sentence(call, err, &message);
    json_write_open(&json, NULL, '{');
    json_write_open(&json, "error", '{');
    json_write_string(&json, "code",
                      fault->code ? fault->code
                      : w->code   ? w->code
                                  : "server_error");
    json_write_text(&json, "message", message.data, message.len);
    json_write_string(&json, "param", fault->param[0] ? fault->param : NULL);
    json_write_string(&json, "type",
                      w->type         ? w->type
                      : status >= 500 ? "server_error"
                                      : "invalid_request_error");
    json_write_open(&json, "details", '[');
    json_write_close(&json, ']');
    json_write_open(&json, "additionalInfo", '{');
    json_write_string(&json, "request_id", http_id(call->http));
    json_write_close(&json, '}');
    json_write_close(&json, '}');
    json_write_close(&json, '}');
    stamp(call);
    if (err->retry_after_s > 0 || status == 429) {
        (void)snprintf(seconds, sizeof(seconds), "%d",
                       MAX(err->retry_after_s, 1));
        http_add_header(call->http, "Retry-After", seconds);
    }
    if (err->code == ERR_UNAUTHENTICATED)
        http_add_header(call->http, "WWW-Authenticate", "Bearer");
    http_respond_json(call->http, status, &body);
}

void foundry_respond(struct doors_call *call, struct buf *body)
{
    stamp(call);
    http_respond_json(call->http, 200, body);
}

void foundry_respond_empty(struct doors_call *call)
{
    stamp(call);
    http_respond_empty(call->http, 204);
}
