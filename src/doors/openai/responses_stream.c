/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a response as a stream. A stream has its own place in the log
 * of the response and copies nothing; it sends neither id: nor retry: lines,
 * because some clients take a comment after them for an event. Runs on the
 * event thread.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "doors/openai/responses.h"

struct feed {
    struct chat_response *r; /* referenced */
    int64_t last;            /* number of the event sent last */
    bool outputs, own, ended;
    uint64_t watch;
};

static int on_next(void *ctx, struct buf *out)
{
    struct feed *f = ctx;
    struct chat_event event;
    int got;

    if (f->ended)
        return -1;
    got = chat_event_next(f->r, f->last, f->outputs, &event);
    if (got <= 0) {
        f->ended = got < 0;
        return got;
    }
    f->last = event.number;
    f->ended = event.last;
    buf_addf(out, "event: %s\ndata: ", event.type);
    buf_add(out, event.text, event.len);
    buf_adds(out, "\n\n");
    return f->ended ? -1 : 1;
}

static void on_watch(void *ctx, void (*wake)(void *arg), void *arg)
{
    struct feed *f = ctx;

    f->watch = chat_event_watch(f->r, f->last, wake, arg);
}

static void on_close(void *ctx)
{
    struct feed *f = ctx;

    if (f->watch)
        chat_event_unwatch(f->r, f->watch);
    if (f->own && !f->ended)
        chat_response_abandon(f->r);
    chat_response_unref(&f->r);
    free(f);
}

void responses_stream(struct doors_call *call, struct chat_response *r,
                      int64_t after, bool outputs, bool own)
{
    static const struct http_feed feed = {on_next, on_watch, on_close};
    struct feed *f = xcalloc(1, sizeof(*f));

    f->r = r;
    f->last = after;
    f->outputs = outputs;
    f->own = own;
    openai_stamp(call);
    http_add_header(call->http, "Cache-Control", "no-cache");
    http_respond_stream(call->http, &feed, f);
}
