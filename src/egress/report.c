/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened, told to gloveboxd. Nothing is dropped: what it has not taken
 * waits here, and while much waits nothing new is begun (E5), so that what
 * waits is bounded by what runs. Runs in glovebox-egress.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "egress/egress_int.h"
#include "wire/wire.h"

/* True: taken. */
static bool report_pass(struct egress *e, const struct egress_report *r)
{
    ssize_t n;

    do
        n = send(e->reports.watch.fd, r, sizeof(*r),
                 MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof(*r))
        return true;
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
        return false;
    e->stop = true; /* gloveboxd is gone: no traffic without a report */
    return true;
}

bool egress_report_stalled(const struct egress *e)
{
    return e->reports.count >= REPORTS_WAITING;
}

static void on_writable(void *ctx, uint32_t events)
{
    struct egress *e = ctx;
    struct report_queue *q = &e->reports;
    bool stalled = egress_report_stalled(e);
    size_t done = 0;

    if (events & (EPOLLHUP | EPOLLERR)) {
        e->stop = true;
        return;
    }
    while (done < q->count && report_pass(e, &q->rows[done]))
        done++;
    if (done) {
        memmove(q->rows, q->rows + done, (q->count - done) * sizeof(*q->rows));
        q->count -= done;
    }
    if (!q->count)
        egress_loop_watch(e, &q->watch, 0);
    if (stalled && !egress_report_stalled(e)) {
        /* Connections that waited for room in the report queue may begin. */
        egress_loop_arm(e);
        for (struct conn *c = e->conns; c; c = c->next)
            if (c->state == CONN_HEAD || c->state == CONN_INNER)
                egress_conn_step(c);
    }
}

void egress_report_send(struct egress *e, const struct egress_report *r)
{
    struct report_queue *q = &e->reports;

    if (q->count == 0 && report_pass(e, r))
        return;
    if (q->count == q->cap) {
        q->cap = MAX(2 * q->cap, (size_t)64);
        q->rows = xrealloc(q->rows, q->cap * sizeof(*q->rows));
    }
    q->rows[q->count++] = *r;
    q->watch.on_event = on_writable;
    q->watch.ctx = e;
    egress_loop_watch(e, &q->watch, EPOLLOUT);
}

uint64_t egress_report_ask(struct egress *e, struct egress_report *r)
{
    struct egress_report question = *r;

    question.type = EGRESS_QUESTION;
    question.allowed = 0;
    question.question = ++e->reports.questions;
    question.at_ms = clock_real_ms();
    egress_report_send(e, &question);
    return question.question;
}
