/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event stream that outlives its reader: messages are queued here and read
 * in order. In the legacy era a reader may disconnect and come back for the
 * events after the last one it saw, so events are kept for a while; in the
 * modern era a reader that disconnects ends the stream.
 *
 * The reader's side (next, watch, close) runs on the event thread, the rest on
 * workers. Lock order: the stream's, then the request's (taken by wake).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"
#include "doors/mcp/mcp_int.h"

#define UNSENT_MAX ((size_t)1 << 20) /* of what may be dropped */
#define KEPT_MAX ((size_t)1 << 20)   /* of what was sent */
#define RETRY_MS 1000

struct event {
    struct event *next;
    uint64_t number;
    size_t len;
    char text[];
};

struct reader {
    struct mcp_stream *stream; /* referenced */
    uint64_t sent;             /* number of the last event it has */
};

struct mcp_stream {
    _Atomic unsigned refs;
    uint64_t number; /* in its session; 0: nothing is kept */
    struct mutex lock;
    struct event *first, **last;
    uint64_t made;
    size_t bytes;  /* of all events here */
    size_t unsent; /* of those the reader has not had */
    bool ended;
    bool gone;             /* the reader left, not we */
    struct reader *reader; /* or NULL */
    void (*wake)(void *arg);
    void *wake_arg;
};

struct mcp_stream *mcp_stream_new(uint64_t number, bool prime)
{
    struct mcp_stream *s = xcalloc(1, sizeof(*s));

    s->refs = 1;
    s->number = number;
    s->last = &s->first;
    mutex_init(&s->lock); /* cannot fail on Linux */
    if (prime)
        mcp_stream_add(s, &(struct buf){0}, true);
    return s;
}

struct mcp_stream *mcp_stream_ref(struct mcp_stream *s)
{
    s->refs++;
    return s;
}

static void drop_first(struct mcp_stream *s)
{
    struct event *e = s->first;

    s->first = e->next;
    if (!s->first)
        s->last = &s->first;
    s->bytes -= e->len;
    free(e);
}

void mcp_stream_unref(struct mcp_stream *s)
{
    if (!s || --s->refs > 0)
        return;
    while (s->first)
        drop_first(s);
    mutex_done(&s->lock);
    free(s);
}

/* ---- the reader's side -------------------------------------------------- */

static struct event *event_after(const struct mcp_stream *s, uint64_t number)
{
    struct event *e = s->first;

    while (e && e->number <= number)
        e = e->next;
    return e;
}

/* Drops the events that the reader has, unless it may resume. */
static void drop_sent_events(struct mcp_stream *s, uint64_t sent)
{
    mutex_assert_held(&s->lock);
    while (s->first && s->first->number <= sent &&
           (s->number == 0 || s->bytes > KEPT_MAX))
        drop_first(s);
}

static int on_next(void *ctx, struct buf *out)
{
    struct reader *r = ctx;
    struct mcp_stream *s = r->stream;
    struct event *e;
    int more;

    mutex_lock(&s->lock);
    e = s->reader == r ? event_after(s, r->sent) : NULL;
    if (e) {
        buf_add(out, e->text, e->len);
        r->sent = e->number;
        s->unsent -= e->len;
        drop_sent_events(s, r->sent);
    }
    more = e ? 1 : s->ended || s->reader != r ? -1 : 0;
    mutex_unlock(&s->lock);
    return more;
}

static void on_watch(void *ctx, void (*wake)(void *arg), void *arg)
{
    struct reader *r = ctx;
    struct mcp_stream *s = r->stream;

    mutex_lock(&s->lock);
    if (s->ended || s->reader != r || event_after(s, r->sent)) {
        wake(arg);
    } else {
        s->wake = wake;
        s->wake_arg = arg;
    }
    mutex_unlock(&s->lock);
}

static void on_close(void *ctx)
{
    struct reader *r = ctx;
    struct mcp_stream *s = r->stream;

    mutex_lock(&s->lock);
    if (s->reader == r) {
        s->reader = NULL;
        s->wake = NULL;
        s->gone = true;
    }
    mutex_unlock(&s->lock);
    mcp_stream_unref(s);
    free(r);
}

/* ---- the writer's side -------------------------------------------------- */

/* The lock keeps the reader from closing meanwhile. */
static void wake_reader(struct mcp_stream *s)
{
    void (*wake)(void *arg) = take_ptr(s->wake);

    mutex_assert_held(&s->lock);
    if (wake)
        wake(s->wake_arg);
}

void mcp_stream_attach(struct mcp_stream *s, struct http_request *req,
                       uint64_t last)
{
    static const struct http_feed feed = {on_next, on_watch, on_close};
    struct reader *r = xcalloc(1, sizeof(*r));

    r->stream = mcp_stream_ref(s);
    r->sent = last;
    mutex_lock(&s->lock);
    s->reader = NULL; /* the old reader sees that it was replaced */
    wake_reader(s);
    s->reader = r;
    s->gone = false;
    s->unsent = 0;
    for (struct event *e = event_after(s, last); e; e = e->next)
        s->unsent += e->len;
    mutex_unlock(&s->lock);
    http_add_header(req, "Cache-Control", "no-cache");
    http_respond_stream(req, &feed, r);
}

static struct event *make_event(struct mcp_stream *s,
                                const struct buf *message)
{
    struct buf text cleanup(buf_done) = {0};
    struct event *e;

    s->made++;
    if (message->len > 0)
        buf_adds(&text, "event: message\n");
    if (s->number)
        buf_addf(&text, "id: %" PRIu64 "-%" PRIu64 "\n", s->number, s->made);
    if (message->len == 0)
        buf_addf(&text, "retry: %d\n", RETRY_MS);
    buf_adds(&text, "data: ");
    buf_add(&text, message->data, message->len);
    buf_adds(&text, "\n\n");
    e = xmalloc(sizeof(*e) + text.len);
    *e = (struct event){.number = s->made, .len = text.len};
    memcpy(e->text, text.data, text.len);
    return e;
}

void mcp_stream_add(struct mcp_stream *s, const struct buf *message, bool must)
{
    struct event *e;

    mutex_lock(&s->lock);
    if (!s->ended && (must || s->unsent < UNSENT_MAX) &&
        !(s->gone && s->number == 0)) {
        e = make_event(s, message);
        *s->last = e;
        s->last = &e->next;
        s->bytes += e->len;
        s->unsent += e->len;
        wake_reader(s);
    }
    mutex_unlock(&s->lock);
}

void mcp_stream_end(struct mcp_stream *s)
{
    mutex_lock(&s->lock);
    s->ended = true;
    wake_reader(s);
    mutex_unlock(&s->lock);
}

/* Send the queue first: the reader must know where to resume. */
void mcp_stream_cut(struct mcp_stream *s)
{
    for (unsigned tries = 0; tries < 100; tries++) {
        bool behind;

        mutex_lock(&s->lock);
        behind = s->reader && event_after(s, s->reader->sent);
        if (!behind) {
            s->reader = NULL;
            wake_reader(s);
        }
        mutex_unlock(&s->lock);
        if (!behind)
            return;
        (void)usleep(10000);
    }
}

static bool read_flag(struct mcp_stream *s, const bool *flag)
{
    bool value;

    mutex_lock(&s->lock);
    value = *flag;
    mutex_unlock(&s->lock);
    return value;
}

bool mcp_stream_gone(struct mcp_stream *s)
{
    return read_flag(s, &s->gone);
}

bool mcp_stream_over(struct mcp_stream *s)
{
    return read_flag(s, &s->ended);
}

bool mcp_stream_read(struct mcp_stream *s)
{
    bool value;

    mutex_lock(&s->lock);
    value = s->reader != NULL;
    mutex_unlock(&s->lock);
    return value;
}

size_t mcp_stream_bytes(struct mcp_stream *s)
{
    size_t bytes;

    mutex_lock(&s->lock);
    bytes = s->bytes;
    mutex_unlock(&s->lock);
    return bytes;
}

uint64_t mcp_stream_number(const struct mcp_stream *s)
{
    return s->number;
}

void mcp_hang_up(struct mcp_call *call)
{
    struct mcp_exchange *x = call->ctx;

    if (x->era == MCP_LEGACY && x->session && mcp_reply_begin(x))
        mcp_stream_cut(x->stream);
}
