/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request's answer. It is JSON unless a message precedes the result
 * (progress, a log line, a question) or a modern client has waited for a
 * second; then it is an event stream that ends with the result.
 * Runs on the request's worker. In a task there is no request, and in a batch
 * no stream: progress and log messages are dropped.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "doors/mcp/mcp_int.h"

#define STREAM_AFTER_MS 1000
#define LOOK_EVERY_MS 100
#define PROGRESS_EVERY_MS 20

/* ---- the exchange ------------------------------------------------------- */

void mcp_exchange_init(struct mcp_exchange *x, struct doors_call *call)
{
    const char *process = http_header(call->http, "X-Glovebox-Process");

    memset(x, 0, sizeof(*x));
    x->mcp = call->doors->mcp;
    x->doors = call->doors;
    x->door = call;
    x->actor = &call->actor;
    x->scopes = call->who.scopes;
    x->arena = http_arena(call->http);
    x->azure = mcp_table_azure(call);
    x->pool = call->place[0];
    x->base_url = doors_url_base(call);
    if (process && ids_valid("proc", process))
        (void)snprintf(x->process, sizeof(x->process), "%s", process);
    x->w.out = &x->result;
    x->log_level = LOG_NONE;
    x->progress = -INFINITY;
    x->started_ms = clock_mono_ms();
}

void mcp_exchange_done(struct mcp_exchange *x)
{
    buf_done(&x->result);
    buf_done(&x->meta);
    mcp_rpc_fault_done(&x->fault);
    mcp_stream_unref(x->stream);
    mcp_session_unref(x->session);
    json_decref(x->asks);
    json_decref(x->asked);
}

/* ---- the stream --------------------------------------------------------- */

bool mcp_reply_begin(struct mcp_exchange *x)
{
    if (x->stream)
        return true;
    if (!x->door || x->task || x->batch || x->answered)
        return false;
    x->stream =
        x->session ? mcp_session_stream(x->session) : mcp_stream_new(0, false);
    x->answered = true;
    mcp_stream_attach(x->stream, x->door->http, 0);
    return true;
}

bool mcp_reply_send(struct mcp_exchange *x, const struct buf *message)
{
    if (!mcp_reply_begin(x))
        return false;
    mcp_stream_add(x->stream, message, true);
    return true;
}

void mcp_reply_notify(struct mcp_exchange *x, const char *method,
                      const struct buf *params, bool must)
{
    struct buf message cleanup(buf_done) = {0};
    struct json_writer w = {.out = &message};

    if (!mcp_reply_begin(x))
        return;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "jsonrpc", "2.0");
    json_write_string(&w, "method", method);
    json_write_key(&w, "params", strlen("params"));
    buf_adds(&message, "{");
    buf_add(&message, params->data, params->len);
    buf_adds(&message, "}}");
    mcp_stream_add(x->stream, &message, must);
}

/* ---- what a tool may say meanwhile -------------------------------------- */

static const char *const levels[] = {"debug",   "info",     "notice",
                                     "warning", "error",    "critical",
                                     "alert",   "emergency"};

int mcp_log_level(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
        if (strcmp(name, levels[i]) == 0)
            return (int)i;
    return -1;
}

void mcp_log(struct mcp_call *call, const char *level, json_t *data)
{
    struct mcp_exchange *x = call->ctx;
    int least = x->session ? x->session->log_level : x->log_level;
    struct buf params cleanup(buf_done) = {0};
    struct json_writer w = {.out = &params};

    if (!x->task && mcp_log_level(level) >= least) {
        json_write_string(&w, "level", level);
        json_write_string(&w, "logger", "glovebox");
        mcp_rpc_write_value(&w, "data", data);
        mcp_reply_notify(x, "notifications/message", &params, false);
    }
    json_decref(data);
}

static void write_number(struct json_writer *w, const char *key, double value)
{
    if (value == floor(value) && fabs(value) < 1e15)
        json_write_int(w, key, (int64_t)value);
    else
        json_write_real(w, key, value);
}

static void on_progress(struct mcp_call *call, double progress, double total,
                        const char *message)
{
    struct mcp_exchange *x = call->ctx;
    const json_t *token = json_object_get(x->msg.meta, "progressToken");
    struct buf params cleanup(buf_done) = {0};
    struct json_writer w = {.out = &params};
    uint64_t now = clock_mono_ms();

    /* Numbers rise, and at a rate that a person can follow. */
    if (!call->wants_progress || !(progress > x->progress) ||
        !isfinite(progress) ||
        (x->progress_ms && now - x->progress_ms < PROGRESS_EVERY_MS))
        return;
    x->progress = progress;
    x->progress_ms = now;
    mcp_rpc_write_value(&w, "progressToken", token);
    write_number(&w, "progress", progress);
    if (total > 0 && isfinite(total))
        write_number(&w, "total", total);
    if (message)
        json_write_string(&w, "message", message);
    mcp_reply_notify(x, "notifications/progress", &params, false);
}

/* In the modern era a client that hangs up has cancelled (M4); in the legacy
 * one it says so, and may come back. */
bool mcp_reply_cancelled(struct mcp_call *call)
{
    struct mcp_exchange *x = call->ctx;
    uint64_t now;

    if (x->cancelled)
        return true;
    if (x->stop)
        return x->stop(x->stop_ctx);
    if (x->task)
        return mcp_task_cancelled(x->task);
    if (x->era == MCP_LEGACY)
        return x->session && x->session->ended;
    now = clock_mono_ms();
    if (now - x->looked_ms < LOOK_EVERY_MS)
        return false;
    x->looked_ms = now;
    if ((x->stream && mcp_stream_gone(x->stream)) || http_left(x->door->http))
        x->cancelled = true;
    else if (now - x->started_ms > STREAM_AFTER_MS)
        (void)mcp_reply_begin(x); /* so that proxies see it is alive */
    return x->cancelled;
}

static void copy_meta(const struct mcp_exchange *x, const char *key, char *ret,
                      size_t size)
{
    const char *text = json_string_value(json_object_get(x->msg.meta, key));

    if (text && strlen(text) < size)
        memcpy(ret, text, strlen(text) + 1);
}

/* The scope in which calls share a session; see struct mcp_call. */
static const char *common_of(const struct mcp_exchange *x,
                             const struct mcp_call *call)
{
    if (x->era == MCP_MODERN && call->conversation[0])
        return call->conversation;
    if (x->process[0])
        return x->process;
    return x->session ? x->session->id : call->conversation;
}

void mcp_exchange_call(struct mcp_exchange *x, struct mcp_call *ret)
{
    const json_t *token = json_object_get(x->msg.meta, "progressToken");

    *ret = (struct mcp_call){
        .doors = x->doors,
        .door = x->door,
        .actor = x->actor,
        .scopes = x->scopes,
        .era = x->era,
        .pool = x->pool,
        .base_url = x->base_url,
        .prompt = x->prompt,
        .on_held = x->on_held,
        .held_ctx = x->stop_ctx,
        .held_wait_ms = x->held_wait_ms,
        .arena = x->arena,
        .progress = on_progress,
        .cancelled = mcp_reply_cancelled,
        .wants_progress = !x->task && !x->batch &&
                          (json_is_string(token) || json_is_integer(token)),
        .ctx = x,
    };
    copy_meta(x, META_CONVERSATION, ret->conversation,
              sizeof(ret->conversation));
    copy_meta(x, META_MESSAGE, ret->message, sizeof(ret->message));
    (void)snprintf(ret->common, sizeof(ret->common), "%s", common_of(x, ret));
}

int mcp_fail(struct mcp_call *call, int code, const char *fmt, ...)
{
    struct mcp_exchange *x = call->ctx;
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* may cut */
    va_end(ap);
    (void)mcp_rpc_fault(&x->fault, code, NULL, "%s", text);
    return -ERR_INVALID;
}

/* ---- the answer --------------------------------------------------------- */

void mcp_reply_object(const struct mcp_exchange *x, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    if (x->era == MCP_MODERN)
        json_write_string(&w, "resultType",
                          x->result_type ? x->result_type : "complete");
    if (x->result.len > 0) {
        if (w.comma)
            buf_adds(out, ",");
        buf_add(out, x->result.data, x->result.len);
        w.comma = true;
    }
    if (x->era == MCP_MODERN || x->meta.len > 0) {
        json_write_open(&w, "_meta", '{');
        if (x->era == MCP_MODERN)
            mcp_write_server((struct mcp_exchange *)(uintptr_t)x, &w,
                             META_SERVER);
        if (x->meta.len > 0) {
            if (w.comma)
                buf_adds(out, ",");
            buf_add(out, x->meta.data, x->meta.len);
        }
        json_write_close(&w, '}');
    }
    json_write_close(&w, '}');
}

void mcp_reply_write(const struct mcp_exchange *x, struct buf *out)
{
    struct json_writer w = {.out = out};

    if (x->fault.code) {
        mcp_rpc_write_error(out, x->msg.id, &x->fault);
        return;
    }
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "jsonrpc", "2.0");
    mcp_rpc_write_value(&w, "id", x->msg.id);
    json_write_key(&w, "result", strlen("result"));
    mcp_reply_object(x, out);
    buf_adds(out, "}");
}

/* Most errors are answers like any other; these say more to HTTP. */
static unsigned status_of(const struct mcp_exchange *x)
{
    if (x->era == MCP_MODERN && x->fault.code == RPC_METHOD)
        return 404;
    if (x->era == MCP_MODERN &&
        (x->fault.code == RPC_CAPABILITY || x->fault.code == RPC_HEADER))
        return 400;
    return 200;
}

void mcp_reply(struct mcp_exchange *x)
{
    struct buf message = {0};

    if (x->session && x->cancelled) { /* nothing is said of it any more */
        if (x->stream)
            mcp_stream_end(x->stream);
        else if (!x->batch)
            http_respond_empty(x->door->http, 202);
        return;
    }
    mcp_reply_write(x, &message);
    if (x->batch) {
        buf_adds(x->batch, x->batch->len > 0 ? "," : "[");
        buf_add(x->batch, message.data, message.len);
    } else if (x->stream) {
        mcp_stream_add(x->stream, &message, true);
        mcp_stream_end(x->stream);
    } else {
        x->answered = true;
        http_respond_json(x->door->http, status_of(x), &message);
    }
    buf_done(&message);
}

void mcp_reply_refuse(struct doors_call *call, unsigned status,
                      const json_t *id, const struct rpc_fault *f)
{
    struct buf body = {0};

    mcp_rpc_write_error(&body, id, f);
    http_respond_json(call->http, status, &body);
}

int mcp_reply_refusef(struct doors_call *call, unsigned status,
                      const json_t *id, int code, const char *fmt, ...)
{
    struct rpc_fault f = {.code = code};
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(f.message, sizeof(f.message), fmt, ap); /* may cut */
    va_end(ap);
    mcp_reply_refuse(call, status, id, &f);
    return -1;
}
