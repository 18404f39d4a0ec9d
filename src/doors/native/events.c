/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of an execution as a stream (text/event-stream). The feed runs
 * on the event thread and is woken by the execution; it ends with the final
 * event. Data is JSON on one line, so no output can forge an event (H6).
 */
#include "base/utf8.h"
#include "doors/native/native.h"

#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json.h"

#define PARTIAL_MAX 4

static const char *const names[] = {
    [EVENT_STATUS] = "status", [EVENT_STDOUT] = "stdout",
    [EVENT_STDERR] = "stderr", [EVENT_DISPLAY] = "display",
    [EVENT_RESULT] = "result", [EVENT_ERROR] = "error",
    [EVENT_CLEAR] = "clear",   [EVENT_INPUT] = "input_request",
    [EVENT_DONE] = "done",
};

/* The beginning of a character whose rest is in the next event. */
struct partial {
    char bytes[PARTIAL_MAX];
    size_t len;
};

struct event_feed {
    struct sessions *sessions;
    struct http_work *work;
    struct execution *e; /* referenced */
    uint32_t last;       /* number of the event sent last */
    uint64_t watch;
    struct partial partials[2]; /* stdout, stderr */
    bool ended;
    struct principal who; /* copied: the request is gone by then */
    char session[ID_MAX]; /* deleted when we are done; or empty */
    char *base_url;       /* owned */
};

/* A stream event's text: what was kept back, then its bytes, less a new
 * partial character at the end. */
static void join_text(struct partial *p, const struct exec_event *event,
                      struct buf *ret)
{
    size_t keep;

    buf_add(ret, p->bytes, p->len);
    buf_add(ret, event->data, event->len);
    keep = utf8_partial(ret->data, ret->len);
    memcpy(p->bytes, ret->data + ret->len - keep, keep);
    p->len = keep;
    ret->len -= keep;
}

/* Takes in one event; out is NULL for those the client has already. */
static void advance(struct event_feed *f, const struct exec_event *event,
                    struct buf *out)
{
    struct buf text cleanup(buf_done) = {0};

    if (event->type == EVENT_STDOUT || event->type == EVENT_STDERR)
        join_text(&f->partials[event->type == EVENT_STDERR], event, &text);
    f->last = event->number;
    f->ended = event->type == EVENT_DONE;
    if (!out)
        return;
    buf_addf(out, "id: %u\nevent: %s\ndata: ", event->number,
             names[event->type]);
    native_encode_event(f->e, event, text.data ? text.data : "", text.len,
                        f->base_url, out);
    buf_adds(out, "\n\n");
}

static int on_next(void *ctx, struct buf *out)
{
    struct event_feed *f = ctx;
    struct exec_event event;

    if (f->ended)
        return -1;
    if (!execution_event(f->e, f->last, &event))
        return 0;
    advance(f, &event, out);
    return f->ended ? -1 : 1;
}

static void on_watch(void *ctx, void (*wake)(void *arg), void *arg)
{
    struct event_feed *f = ctx;

    f->watch = execution_watch(f->e, f->last, wake, arg);
}

static void event_feed_free(struct event_feed *f)
{
    free(f->base_url);
    free(f);
}

static void delete_session(void *arg)
{
    struct event_feed *f = arg;
    struct actor who = auth_actor(&f->who);
    struct error err;

    /* A session that is already gone, or ends with the service, is fine. */
    if (session_delete(f->sessions, &who, f->session, &err) < 0 &&
        err.code != ERR_NOT_FOUND && err.code != ERR_UNAVAILABLE)
        log_event(LOG_WARN, "run_session_left", "session", f->session, "error",
                  err.message, NULL);
    event_feed_free(f);
}

static void on_close(void *ctx)
{
    struct event_feed *f = ctx;

    if (f->watch)
        execution_unwatch(f->e, f->watch);
    execution_unref(f->e);
    if (!f->session[0])
        event_feed_free(f);
    else /* takes a while, and this is the event thread */
        http_work_insist(f->work, delete_session, f);
}

void native_events_respond(struct doors_call *call, struct execution *e,
                           uint32_t after, const char *session)
{
    static const struct http_feed feed = {on_next, on_watch, on_close};
    struct event_feed *f = xcalloc(1, sizeof(*f));
    struct exec_event event;

    f->sessions = call->doors->sessions;
    f->work = doors_workers(call);
    f->e = e;
    f->who = call->who;
    f->base_url = xstrdup(doors_url_base(call));
    if (session)
        (void)snprintf(f->session, sizeof(f->session), "%s", session);
    /* Partial characters of what was sent before still count. */
    while (f->last < after && execution_event(e, f->last, &event))
        advance(f, &event, NULL);
    f->last = after;
    http_respond_stream(call->http, &feed, f);
}
