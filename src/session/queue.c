/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn queue: executions of one session run one at a time, in order of
 * arrival. Runs in gloveboxd under session.lock. The thread that removes an
 * execution from the queue, by turn, cancel, reset or delete, finishes it.
 */
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/thread.h"
#include "session/session_int.h"

void session_queue_add(struct session *se, struct execution *e)
{
    e->queued = true;
    e->queue_next = NULL;
    *(se->queue_tail ? &se->queue_tail->queue_next : &se->queue_head) =
        execution_ref(e);
    se->queue_tail = e;
    se->queued++;
    se->executions++;
    session_touch(se);
}

bool session_queue_remove(struct session *se, struct execution *e)
{
    struct execution *before = NULL;

    if (!e->queued)
        return false;
    for (struct execution *at = se->queue_head; at != e; at = at->queue_next)
        before = at;
    *(before ? &before->queue_next : &se->queue_head) = e->queue_next;
    if (se->queue_tail == e)
        se->queue_tail = before;
    e->queue_next = NULL;
    e->queued = false;
    se->queued--;
    cond_broadcast(&se->cond);
    return true;
}

struct execution *session_queue_empty(struct session *se)
{
    struct execution *waiting = se->queue_head;

    for (struct execution *e = waiting; e; e = e->queue_next)
        e->queued = false;
    se->queue_head = se->queue_tail = NULL;
    se->queued = 0;
    cond_broadcast(&se->cond);
    return waiting;
}

void session_queue_cancel(struct execution *waiting, const char *why)
{
    while (waiting) {
        struct execution *next = waiting->queue_next;

        waiting->queue_next = NULL;
        session_execution_cancelled(waiting, why);
        execution_unref(waiting); /* the queue's */
        waiting = next;
    }
}

/* The lock is held, but not while the client is looked for. */
static bool wait_a_while(struct session *se, struct execution *e)
{
    bool left = false;

    if (!e->left) {
        cond_wait(&se->cond, &se->lock);
    } else if (!cond_wait_until(&se->cond, &se->lock,
                                clock_mono_ms() + LEFT_EVERY_MS)) {
        mutex_unlock(&se->lock);
        left = e->left(e->left_ctx);
        mutex_lock(&se->lock);
    }
    return !left;
}

/* Its client went away while it waited. */
static void give_up(struct session *se, struct execution *e)
{
    bool waited = session_queue_remove(se, e);

    mutex_unlock(&se->lock);
    if (waited) {
        session_execution_cancelled(
            e, "the client that waited for it went away before it started");
        execution_unref(e); /* the queue's */
    }
    session_execution_wait(e);
}

bool session_queue_wait(struct session *se, struct execution *e,
                        struct runner *runner)
{
    bool mine;

    mutex_lock(&se->lock);
    while (e->queued && (se->queue_head != e || se->running || se->exclusive))
        if (!wait_a_while(se, e)) {
            give_up(se, e);
            return false;
        }
    mine = session_queue_remove(se, e);
    if (mine) {
        se->running = e;
        se->runner = runner;
        if (se->state == SESSION_IDLE)
            session_state_set(se, SESSION_RUNNING);
        session_touch(se);
    }
    mutex_unlock(&se->lock);
    if (mine)
        execution_unref(e); /* the queue's; the caller has its own */
    else
        session_execution_wait(e);
    return mine;
}

void session_queue_release(struct session *se)
{
    mutex_lock(&se->lock);
    se->running = NULL;
    se->runner = NULL;
    if (se->state == SESSION_RUNNING)
        session_state_set(se, SESSION_IDLE);
    session_touch(se);
    cond_broadcast(&se->cond);
    mutex_unlock(&se->lock);
}

void session_queue_request(struct session *se, enum exec_request what)
{
    if (!se->running)
        return;
    atomic_fetch_or(&se->running->requests, (unsigned)what);
    if (se->runner) {
        se->runner->signalled = true;
        (void)eventfd_write(se->runner->wake, 1); /* full is as good */
    }
}

int execution_cancel(struct sessions *s, const struct actor *who,
                     const char *id, struct error *err)
{
    struct execution *e = NULL;
    struct session *se = NULL;
    bool waited;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = session_execution_find(s, who, id, &e, &se, err);
    if (rc < 0) {
        if (rc == -ERR_NOT_FOUND)
            rc = session_pending_cancel(s, who, id, err);
        session_leave(s);
        return rc;
    }
    mutex_lock(&se->lock);
    waited = session_queue_remove(se, e);
    if (!waited && se->running == e)
        session_queue_request(se, REQUEST_CANCEL);
    mutex_unlock(&se->lock);
    if (waited) {
        session_execution_cancelled(
            e, "the execution was cancelled before it started");
        execution_unref(e); /* the queue's */
    }
    execution_unref(e);
    session_unref(se);
    session_leave(s);
    return 0;
}
