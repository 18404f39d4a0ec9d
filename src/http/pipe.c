/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that a worker writes as it goes, without a known length: archives
 * and progress reports. The worker adds bytes until the pipe is full and
 * then waits; the event thread takes all there is whenever the client can
 * have more. The side that finishes last frees the pipe.
 *
 * Lock order: the pipe's, then the request's (taken by wake).
 */
#include "http/http.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/thread.h"
#include "http/http_int.h"

struct http_pipe {
    struct mutex lock; /* of what follows */
    struct cond room;
    struct buf bytes;
    bool ended;  /* by the writer */
    bool whole;  /* and all was written */
    bool closed; /* by the reader */
    void (*wake)(void *arg);
    void *wake_arg;
};

static void pipe_free(struct http_pipe *p)
{
    cond_done(&p->room);
    mutex_done(&p->lock);
    buf_done(&p->bytes);
    free(p);
}

/* ---- the event thread's side -------------------------------------------- */

static int on_next(void *ctx, struct buf *out)
{
    struct http_pipe *p = ctx;
    int more = 1;

    mutex_lock(&p->lock);
    if (p->bytes.len > 0) {
        buf_add(out, p->bytes.data, p->bytes.len);
        buf_reset(&p->bytes);
        cond_signal(&p->room);
    } else {
        more = !p->ended ? 0 : p->whole ? -1 : -2;
    }
    mutex_unlock(&p->lock);
    return more;
}

static void on_watch(void *ctx, void (*wake)(void *arg), void *arg)
{
    struct http_pipe *p = ctx;

    mutex_lock(&p->lock);
    if (p->bytes.len > 0 || p->ended) {
        wake(arg);
    } else {
        p->wake = wake;
        p->wake_arg = arg;
    }
    mutex_unlock(&p->lock);
}

static void on_close(void *ctx)
{
    struct http_pipe *p = ctx;
    bool last;

    mutex_lock(&p->lock);
    p->closed = true;
    p->wake = NULL;
    last = p->ended;
    cond_signal(&p->room);
    mutex_unlock(&p->lock);
    if (last)
        pipe_free(p);
}

/* ---- the worker's side -------------------------------------------------- */

/* Under the lock, so that the reader cannot close and free meanwhile. */
static void wake_reader(struct http_pipe *p)
{
    void (*wake)(void *arg) = take_ptr(p->wake);

    mutex_assert_held(&p->lock);
    if (wake)
        wake(p->wake_arg);
}

struct http_pipe *http_respond_relay(struct http_request *req, unsigned status,
                                     const char *type, uint64_t length)
{
    static const struct http_feed feed = {on_next, on_watch, on_close};
    struct http_pipe *p = xcalloc(1, sizeof(*p));

    mutex_init(&p->lock);
    cond_init(&p->room);
    http_stream_start(req, status, type, length, &feed, p);
    return p;
}

struct http_pipe *http_respond_pipe(struct http_request *req, const char *type)
{
    return http_respond_relay(req, 200, type, UINT64_MAX);
}

int http_pipe_write(struct http_pipe *p, const void *bytes, size_t len,
                    struct error *err)
{
    const char *from = bytes;
    int r = 0;

    mutex_lock(&p->lock);
    while (len > 0) {
        size_t n;

        while (p->bytes.len >= HTTP_PIPE_SIZE && !p->closed)
            cond_wait(&p->room, &p->lock);
        if (p->closed) {
            r = error_set(err, ERR_INVALID,
                          "the client left before the answer was complete");
            break;
        }
        n = MIN(len, HTTP_PIPE_SIZE - p->bytes.len);
        buf_add(&p->bytes, from, n);
        from += n;
        len -= n;
        wake_reader(p);
    }
    mutex_unlock(&p->lock);
    return r;
}

void http_pipe_end(struct http_pipe *p, bool whole)
{
    bool last;

    mutex_lock(&p->lock);
    p->ended = true;
    p->whole = whole;
    last = p->closed;
    wake_reader(p);
    mutex_unlock(&p->lock);
    if (last)
        pipe_free(p);
}
