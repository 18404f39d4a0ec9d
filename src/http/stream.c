/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A response whose bytes are pulled from a feed: event streams, and what a
 * worker writes through a pipe. Runs on the event thread; while the feed has
 * nothing the connection is suspended and costs nothing, until the feed or
 * (for event streams) the clock thread wakes it. At most one piece of the
 * feed is held here, so a slow reader costs bounded memory.
 */
#include "http/http.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "http/http_int.h"

#define BLOCK_SIZE ((size_t)32 << 10)
#define KEPT_SIZE ((size_t)64 << 10) /* a larger buffer is given back */
#define UNSENT_MAX (128 << 10)

struct stream {
    struct http_request *req; /* counted */
    struct http_feed feed;
    void *ctx;
    struct buf pending;
    size_t sent;
    bool ended;
    bool broken;  /* and not as it should */
    bool events;  /* an event stream: may be sent comments */
    bool watched; /* the feed will call stream_on_wake; under req->lock */
};

static void stream_on_wake(void *arg)
{
    struct stream *s = arg;

    mutex_lock(&s->req->lock);
    s->watched = false;
    http_request_resume(s->req);
    mutex_unlock(&s->req->lock);
}

/* Nothing to send: suspends the connection, then asks the feed for a wake-up.
 * In this order, so that an event between the two finds it suspended. */
static ssize_t stream_suspend(struct stream *s)
{
    bool asleep, watched;

    mutex_lock(&s->req->lock);
    asleep = http_request_suspend(s->req);
    watched = s->watched;
    s->watched = true;
    mutex_unlock(&s->req->lock);
    if (!asleep)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!watched)
        s->feed.watch(s->ctx, stream_on_wake, s);
    return 0;
}

/* Returns whether the clock thread wants a keep-alive comment, and notes that
 * something is sent now. */
static bool take_ping(struct stream *s)
{
    bool ping;

    mutex_lock(&s->req->lock);
    ping = s->req->ping;
    s->req->ping = false;
    s->req->sent_ms = clock_mono_ms();
    mutex_unlock(&s->req->lock);
    return ping;
}

/* The kernel keeps up to tcp_wmem (4 MB) for a client that does not read. An
 * event that waits there is old when it arrives and is memory that no limit of
 * ours counts, so an event stream leaves less unsent. */
static void limit_unsent(const struct stream *s)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        s->req->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    int most = UNSENT_MAX;

    if (info) /* without the option, the kernel's limit holds */
        (void)setsockopt(info->connect_fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT,
                         &most, sizeof(most));
}

/* libmicrohttpd 0.9.75 leaves a connection whose body failed open when it had
 * been suspended, and the client would wait for the rest. So it is shut down
 * here. */
static ssize_t stream_end(const struct stream *s)
{
    const union MHD_ConnectionInfo *info;

    if (!s->broken)
        return MHD_CONTENT_READER_END_OF_STREAM;
    info = MHD_get_connection_info(s->req->connection,
                                   MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info)
        (void)shutdown(info->connect_fd, SHUT_RDWR); /* it may be gone */
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* pos is always where we stopped. */
static ssize_t stream_on_read(void *cls, uint64_t pos, char *bytes, size_t max)
{
    struct stream *s = cls;
    size_t n;

    if (pos == 0 && s->events)
        limit_unsent(s);
    if (s->sent == s->pending.len) {
        int more;

        if (s->pending.cap > KEPT_SIZE)
            buf_done(&s->pending);
        buf_reset(&s->pending);
        s->sent = 0;
        if (s->ended)
            return stream_end(s);
        more = s->feed.next(s->ctx, &s->pending);
        s->ended = more < 0;
        s->broken = more < -1;
        if (take_ping(s) && more == 0 && s->events)
            buf_adds(&s->pending, ": still here\n\n");
        if (s->pending.len == 0)
            return s->ended ? stream_end(s) : stream_suspend(s);
    }
    n = MIN(max, s->pending.len - s->sent);
    memcpy(bytes, s->pending.data + s->sent, n);
    s->sent += n;
    return (ssize_t)n;
}

static void stream_on_free(void *cls)
{
    struct stream *s = cls;

    s->feed.close(s->ctx);
    buf_done(&s->pending);
    http_request_unref(s->req);
    free(s);
}

void http_stream_start(struct http_request *req, unsigned status,
                       const char *type, uint64_t size,
                       const struct http_feed *feed, void *ctx)
{
    struct stream *s = xcalloc(1, sizeof(*s));
    struct MHD_Response *response;

    s->req = http_request_ref(req);
    s->feed = *feed;
    s->ctx = ctx;
    s->events = type && strncmp(type, "text/event-stream",
                                strlen("text/event-stream")) == 0;
    response = MHD_create_response_from_callback(
        size == UINT64_MAX ? MHD_SIZE_UNKNOWN : size, BLOCK_SIZE,
        stream_on_read, s, stream_on_free);
    if (!response)
        abort(); /* out of memory, as the x* wrappers do */
    /* libmicrohttpd 0.9.75 ends even the empty body of such an answer with a
     * last chunk, which the client takes for the next answer. */
    if (strcmp(req->method, "HEAD") == 0 && size == UINT64_MAX)
        (void)MHD_set_response_options(
            response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    mutex_lock(&req->lock);
    req->stream = s->events;
    req->sent_ms = clock_mono_ms();
    mutex_unlock(&req->lock);
    if (type)
        http_add_header(req, "Content-Type", type);
    http_add_header(req, "X-Accel-Buffering", "no");
    http_respond_set(req, status, response);
}

void http_respond_stream(struct http_request *req,
                         const struct http_feed *feed, void *ctx)
{
    http_stream_start(req, 200, "text/event-stream", UINT64_MAX, feed, ctx);
}
