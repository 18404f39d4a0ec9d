/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn queue: executions of one session run one at a time, in order of
 * arrival. Runs in gloveboxd under session.lock. The thread that removes a
 * turn from the queue, by turn, cancel, reset or delete, finishes it.
 */
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/thread.h"
#include "quota/quota.h"
#include "session/session_int.h"

/* ---- into the queue ----------------------------------------------------- */

/* Both locks are held. */
static int check_room(const struct sessions *m, const struct session *se,
                      struct error *err)
{
    if (se->phase == PHASE_ENDED)
        return session_error_ended(se, err);
    if (session_expiry_check(se, err) < 0)
        return -(int)err->code;
    if (m->active >= m->conf->max_executions) {
        (void)error_set(err, ERR_BUSY,
                        "%u executions are running or waiting, which is the "
                        "most",
                        m->conf->max_executions);
        return error_retry(err, 1);
    }
    /* The fuller it is, the less of it may be one tenant's: a place is always
     * left for the others (X4). */
    if (fair_enabled(FAIR_EXECUTION_SHARE) &&
        !fair_share_allows(se->tenant->active, m->active,
                           m->conf->max_executions)) {
        (void)error_set(err, ERR_BUSY,
                        "%u executions of this tenant are running or "
                        "waiting; what is left is for others",
                        se->tenant->active);
        return error_retry(err, 1);
    }
    if (se->queued >= m->conf->queue_per_session) {
        (void)error_set(err, ERR_LIMIT,
                        "%u executions wait in this session, which is the "
                        "most",
                        m->conf->queue_per_session);
        (void)error_hint(err, "wait for one to finish, or use more sessions");
        return error_retry(err, 1);
    }
    return 0;
}

int session_turn_add(struct session *se, struct turn *t, struct error *err)
{
    struct sessions *m = se->m;
    int rc;

    mutex_lock(&m->lock);
    mutex_lock(&se->lock);
    rc = check_room(m, se, err);
    if (rc == 0)
        rc = quota_take(m->core->quotas, se->tenant->name, QUOTA_EXECUTIONS, 1,
                        err);
    if (rc == 0) {
        se->tenant->active++;
        m->active++;
        t->queued = true;
        t->next = NULL;
        *(se->queue_tail ? &se->queue_tail->next : &se->queue_head) = t;
        se->queue_tail = t;
        se->queued++;
        se->executions++;
        session_touch(se);
    }
    mutex_unlock(&se->lock);
    mutex_unlock(&m->lock);
    return rc;
}

void session_turn_count(struct session *se)
{
    mutex_lock(&se->m->lock);
    se->m->active++;
    mutex_unlock(&se->m->lock);
}

void session_turn_done(struct session *se, bool queued)
{
    struct sessions *m = se->m;

    mutex_lock(&m->lock);
    if (queued) {
        se->tenant->active--;
        quota_give(m->core->quotas, se->tenant->name, QUOTA_EXECUTIONS, 1);
    }
    if (--m->active == 0)
        cond_broadcast(&m->idle);
    mutex_unlock(&m->lock);
}

/* ---- out of the queue --------------------------------------------------- */

/* The lock is held. */
static bool queue_remove(struct session *se, struct turn *t)
{
    struct turn *before = NULL;

    mutex_assert_held(&se->lock);
    if (!t->queued)
        return false;
    for (struct turn *at = se->queue_head; at != t; at = at->next)
        before = at;
    *(before ? &before->next : &se->queue_head) = t->next;
    if (se->queue_tail == t)
        se->queue_tail = before;
    t->next = NULL;
    t->queued = false;
    se->queued--;
    cond_broadcast(&se->cond);
    return true;
}

bool session_turn_remove(struct session *se, struct turn *t)
{
    bool removed;

    mutex_lock(&se->lock);
    removed = queue_remove(se, t);
    mutex_unlock(&se->lock);
    return removed;
}

struct turn *session_queue_empty(struct session *se)
{
    struct turn *waiting = se->queue_head;

    mutex_assert_held(&se->lock);
    for (struct turn *t = waiting; t; t = t->next)
        t->queued = false;
    se->queue_head = se->queue_tail = NULL;
    se->queued = 0;
    cond_broadcast(&se->cond);
    return waiting;
}

void session_queue_cancel(struct turn *waiting, const char *why)
{
    while (waiting) {
        struct turn *next = waiting->next;

        waiting->next = NULL;
        waiting->on_cancel(waiting, why);
        waiting = next;
    }
}

/* Waits for a change; false: the client has left. The lock is held, but not
 * while the client is looked for. */
static bool wait_for_change(struct session *se, struct turn *t)
{
    bool left = false;

    if (!t->left) {
        cond_wait(&se->cond, &se->lock);
    } else if (!cond_wait_until(&se->cond, &se->lock,
                                clock_mono_ms() + LEFT_EVERY_MS)) {
        mutex_unlock(&se->lock);
        left = t->left(t->left_ctx);
        mutex_lock(&se->lock);
    }
    return !left;
}

bool session_turn_wait(struct session *se, struct turn *t)
{
    bool left = false, mine;

    mutex_lock(&se->lock);
    while (!left && t->queued &&
           (se->queue_head != t || !session_state_may(se, EV_TAKE)))
        left = !wait_for_change(se, t);
    mine = queue_remove(se, t);
    if (mine && !left) {
        session_state_event(se, EV_TAKE);
        se->running = t;
        session_state_check(se);
        session_touch(se);
    }
    mutex_unlock(&se->lock);
    if (mine && left)
        t->on_cancel(
            t, "the client that waited for it went away before it started");
    return mine && !left;
}

/* ---- the turn ----------------------------------------------------------- */

int session_turn_try(struct session *se, struct turn *t, struct box **ret,
                     struct error *err)
{
    int rc = 0;

    mutex_lock(&se->lock);
    if (se->phase == PHASE_ENDED) {
        rc = session_error_ended(se, err);
    } else if (se->queue_head || se->running) {
        (void)error_set(err, ERR_CONFLICT,
                        "an execution of the session is running");
        rc = error_hint(err, "try again when it has ended");
    } else if (se->box && session_state_may(se, EV_TAKE)) {
        session_state_event(se, EV_TAKE);
        se->running = t;
        session_state_check(se);
        session_touch(se);
        *ret = box_ref(se->box);
    }
    mutex_unlock(&se->lock);
    return rc;
}

void session_turn_release(struct session *se)
{
    mutex_lock(&se->lock);
    session_state_event(se, EV_RELEASE);
    se->running = NULL;
    session_state_check(se);
    session_touch(se);
    mutex_unlock(&se->lock);
}

void session_queue_request(struct session *se, enum exec_request what)
{
    struct turn *t = se->running;

    if (!t)
        return;
    atomic_fetch_or(&t->requests, (unsigned)what);
    if (t->wake >= 0) {
        t->signalled = true;
        (void)eventfd_write(t->wake, 1); /* full is as good */
    }
}

void session_turn_wake(struct session *se, struct turn *t)
{
    mutex_lock(&se->lock);
    if (se->running == t)
        session_queue_request(se, REQUEST_ANSWER);
    mutex_unlock(&se->lock);
}

bool session_turn_cancel(struct session *se, struct turn *t)
{
    bool removed;

    mutex_lock(&se->lock);
    removed = queue_remove(se, t);
    if (!removed && se->running == t)
        session_queue_request(se, REQUEST_CANCEL);
    mutex_unlock(&se->lock);
    return removed;
}
