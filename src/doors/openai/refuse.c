/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals as this dialect words them: one error object of four members, a
 * status by which clients choose their exception, and a header where trying
 * again cannot help. Recovery code in the wild matches on the sentences about
 * containers, so these are the hosted service's own. Runs on a worker of the
 * daemon.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "json/json.h"

#define ID_SHOWN 80 /* characters of a client's id in a sentence */

/* The request's, made with its first use. */
struct note {
    struct openai_fault fault;
    bool stamped;
};

static struct note *note(struct doors_call *call)
{
    if (!call->own)
        call->own = arena_alloc(http_arena(call->http), sizeof(struct note));
    return call->own;
}

struct openai_fault *openai_fault(struct doors_call *call)
{
    return &note(call)->fault;
}

int openai_invalid(struct openai_fault *fault, const char *code,
                   const char *param, struct error *err, const char *fmt, ...)
{
    va_list ap;

    *err = (struct error){.code = ERR_INVALID};
    va_start(ap, fmt);
    (void)vsnprintf(err->message, sizeof(err->message), fmt, ap); /* may cut */
    va_end(ap);
    fault->code = code;
    (void)snprintf(fault->param, sizeof(fault->param), "%s",
                   param ? param : ""); /* may cut */
    return -ERR_INVALID;
}

/* ---- what is not there -------------------------------------------------- */

int openai_refuse_container(const char *id, struct error *err)
{
    if (err->code == ERR_NOT_FOUND)
        return error_set(err, ERR_NOT_FOUND,
                         "Container with id '%.*s' not found.", ID_SHOWN, id);
    if (err->code == ERR_EXPIRED)
        return error_set(err, ERR_EXPIRED, "Container is expired.");
    return -(int)err->code;
}

int openai_refuse_file(struct doors_call *call, const char *id,
                       const char *param, struct error *err)
{
    if (err->code != ERR_NOT_FOUND)
        return -(int)err->code;
    (void)snprintf(openai_fault(call)->param,
                   sizeof(((struct openai_fault *)0)->param), "%s", param);
    return error_set(err, ERR_NOT_FOUND, "No such File object: %.*s", ID_SHOWN,
                     id);
}

int openai_refuse_listed(const char *container, const char *file,
                         struct error *err)
{
    if (err->code == ERR_NOT_FOUND)
        return error_set(err, ERR_NOT_FOUND,
                         "File %.*s not found on container %.*s.", ID_SHOWN,
                         file, ID_SHOWN, container);
    return openai_refuse_container(container, err);
}

/* ---- the error object --------------------------------------------------- */

/* What an error code is here besides its sentence. */
struct words {
    unsigned status;  /* 0: as everywhere */
    const char *type; /* NULL: invalid_request_error */
    const char *code; /* unless the fault has one */
    bool for_good;    /* clients would try again, to no avail */
};

static const struct words words[ERR_MAX] = {
    [ERR_NONE] = {.type = "server_error"},
    [ERR_UNAUTHENTICATED] = {.code = "invalid_api_key"},
    [ERR_FORBIDDEN] = {.code = "insufficient_permissions"},
    [ERR_CONFLICT] = {.for_good = true},
    [ERR_EXPIRED] = {.status = 400},
    [ERR_APPROVAL] = {.status = 403, .code = "pending_approval"},
    [ERR_UNSUPPORTED] = {.code = "unsupported"},
    [ERR_LIMIT] = {.type = "requests", .code = "rate_limit_exceeded"},
    [ERR_BUSY] = {.type = "requests", .code = "rate_limit_exceeded"},
    [ERR_SPACE] = {.type = "server_error", .for_good = true},
    [ERR_GUEST] = {.type = "server_error"},
    [ERR_UNAVAILABLE] = {.type = "server_error"},
    [ERR_ISOLATION] = {.type = "server_error"},
    [ERR_TIMEOUT] = {.type = "server_error"},
    [ERR_CORRUPT] = {.type = "server_error", .for_good = true},
    [ERR_INTERNAL] = {.type = "server_error"},
};

/* The core's words as a sentence of its own, hint and all; what was worded
 * here begins with a capital and is left alone. */
static void write_sentence(const struct error *err, struct buf *out)
{
    if (!islower((unsigned char)err->message[0])) {
        buf_adds(out, err->message);
        return;
    }
    buf_addf(out, "%c%s", toupper((unsigned char)err->message[0]),
             err->message + 1);
    if (!strchr(".!?", out->data[out->len - 1]))
        buf_adds(out, ".");
    if (err->hint[0])
        buf_addf(out, " %s", err->hint);
}

static void write_message(const struct doors_call *call,
                          const struct error *err, struct buf *out)
{
    if (err->code == ERR_INTERNAL || err->code == ERR_NONE)
        buf_addf(out, /* and nothing about the host (H5) */
                 "Something failed on our side; the log has it under the "
                 "request id %s.",
                 http_id(call->http));
    else if (err->code == ERR_NOT_FOUND && !call->route)
        buf_addf(out, "Invalid URL (%.16s %.200s)", http_method(call->http),
                 http_path(call->http));
    else
        write_sentence(err, out);
}

static void write_object(struct doors_call *call, const struct error *err,
                         const struct words *w, struct buf *out)
{
    const struct openai_fault *fault = openai_fault(call);
    struct buf message cleanup(buf_done) = {0};
    struct json_writer json = {.out = out};

    write_message(call, err, &message);
    json_write_open(&json, NULL, '{');
    json_write_open(&json, "error", '{');
    json_write_string(&json, "message", message.data);
    json_write_string(&json, "type",
                      w->type ? w->type : "invalid_request_error");
    json_write_string(&json, "param", fault->param[0] ? fault->param : NULL);
    json_write_string(&json, "code", fault->code ? fault->code : w->code);
    json_write_close(&json, '}');
    json_write_close(&json, '}');
}

void openai_refuse(struct doors_call *call, const struct error *err)
{
    const struct words *w =
        &words[(unsigned)err->code < ERR_MAX ? err->code : ERR_NONE];
    unsigned status = w->status ? w->status : http_status_of(err->code);
    struct buf body = {0};
    char seconds[16];

    write_object(call, err, w, &body);
    openai_stamp(call);
    if (err->retry_after_s > 0 || status == 429) {
        (void)snprintf(seconds, sizeof(seconds), "%d",
                       MAX(err->retry_after_s, 1));
        http_add_header(call->http, "Retry-After", seconds);
    }
    if (w->for_good && err->retry_after_s == 0)
        http_add_header(call->http, "x-should-retry", "false");
    if (err->code == ERR_UNAUTHENTICATED)
        http_add_header(call->http, "WWW-Authenticate", "Bearer");
    http_respond_json(call->http, status, &body);
}

/* ---- every answer ------------------------------------------------------- */

void openai_stamp(struct doors_call *call)
{
    char ms[24];

    if (note(call)->stamped)
        return;
    note(call)->stamped = true;
    (void)snprintf(
        ms, sizeof(ms), "%llu",
        (unsigned long long)((clock_mono_ns() - call->started_ns) / 1000000));
    http_add_header(call->http, "openai-version", "2020-10-01");
    http_add_header(call->http, "openai-processing-ms", ms);
}

void openai_respond(struct doors_call *call, struct buf *body)
{
    openai_stamp(call);
    http_respond_json(call->http, 200, body);
}
