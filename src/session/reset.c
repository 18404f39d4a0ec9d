/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reset and interrupt. A reset ends what runs and what waits and starts a
 * fresh interpreter in the same sandbox: one fork by pid 1, files untouched.
 * An interrupt is a SIGINT to what runs and nothing else. Runs in gloveboxd
 * on the caller's thread.
 */
#include "base/error.h"
#include "base/thread.h"
#include "session/session_int.h"

#define RESET_MS 10000u

int session_quiet(struct session *se, enum exec_request how, const char *why,
                  uint32_t ms, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + ms;
    struct turn *waiting;
    bool in_time = true;

    mutex_lock(&se->lock);
    while (session_closed(se) && in_time)
        in_time = cond_wait_until(&se->cond, &se->lock, deadline);
    if (in_time && se->phase != PHASE_ENDED) {
        session_state_event(se, EV_CLOSE);
        session_queue_request(se, how);
        waiting = session_queue_empty(se);
        mutex_unlock(&se->lock);
        session_queue_cancel(waiting, why);
        mutex_lock(&se->lock);
        while ((se->running || !session_settled(se)) && in_time)
            in_time = cond_wait_until(&se->cond, &se->lock, deadline);
        if (in_time && se->phase != PHASE_ENDED)
            return 0;
        session_state_event(se, EV_OPEN);
    }
    mutex_unlock(&se->lock);
    if (!in_time)
        return error_set(err, ERR_TIMEOUT, "what runs could not be ended");
    return session_error_ended(se, err);
}

static int reset_kernel(struct session *se, struct error *err)
{
    struct box *box = NULL;
    int rc =
        session_quiet(se, REQUEST_KILL,
                      "the session was reset while it waited", RESET_MS, err);

    if (rc < 0)
        return rc;
    session_state_check(se);
    if (se->box)
        box = box_ref(se->box);
    mutex_unlock(&se->lock);
    if (box) /* dormant: waking starts afresh anyway */
        rc = box_kernel_start(box, err);
    session_memory_gone(se, SESSION_LOSS_RESET);
    mutex_lock(&se->lock);
    if (box && rc == 0)
        se->interpreter++;
    session_wake_lost(se, true);
    session_touch(se);
    session_state_event(se, EV_OPEN);
    mutex_unlock(&se->lock);
    if (rc < 0) /* the next use makes a new sandbox, just as fresh */
        (void)session_wake_drop(se, box, false);
    box_unref(box);
    return 0;
}

int session_reset(struct sessions *s, const struct actor *who, const char *id,
                  struct session_info *ret, struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);
    int rc;

    if (!se)
        return -(int)err->code;
    rc = session_use(se, err);
    if (rc == 0)
        rc = reset_kernel(se, err);
    if (rc == 0) {
        session_persist_note(se);
        session_fill_info(se, ret);
    }
    session_release(se);
    return rc;
}

int session_interrupt(struct sessions *s, const struct actor *who,
                      const char *id, struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);
    int rc;

    if (!se)
        return -(int)err->code;
    rc = session_use(se, err);
    if (rc == 0) {
        mutex_lock(&se->lock);
        session_queue_request(se, REQUEST_INTERRUPT);
        mutex_unlock(&se->lock);
    }
    session_release(se);
    return rc;
}
