/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session outlives its sandbox: this file makes it one when it needs one
 * and takes it away when it does not, its files staying in the warden's slot
 * meanwhile. Runs in gloveboxd on whatever thread needs the box; `moving`
 * makes the others wait, so no lock is held while a sandbox starts.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session_int.h"

#define MOVE_MS 60000u /* longer than any start may take */

static int ended(struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "no such session");
}

static void release_slot(struct session *se, uint32_t slot)
{
    struct error err;

    if (slot && warden_call_release(se->m->link, slot, false, &err) < 0)
        log_event(LOG_ERROR, "slot_release_failed", "session", se->id, "error",
                  err.message, NULL);
}

/* Waits until nobody moves the box; the lock is held. */
static int settle_down(struct session *se, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + MOVE_MS;

    while (se->moving)
        if (!session_cond_wait(&se->cond, &se->lock, deadline))
            return error_set(err, ERR_TIMEOUT,
                             "the session's sandbox did not come up");
    session_state_check(se);
    return se->state == SESSION_ENDED ? ended(err) : 0;
}

static int may_go_live(struct session *se, struct error *err)
{
    uint32_t most = se->m->conf->sessions_per_tenant;

    if (se->state != SESSION_DORMANT || atomic_load(&se->tenant->live) < most)
        return 0;
    (void)error_set(err, ERR_LIMIT,
                    "%u sessions are awake already, which is the most", most);
    (void)error_hint(err, "delete sessions that are no longer needed");
    return error_retry(err, 5);
}

static int make_box(struct session *se, uint32_t slot, struct box **ret,
                    struct error *err)
{
    struct sessions *m = se->m;
    uint32_t handle;
    int rc = session_runtime_handle(m, se->runtime, &handle, err);

    if (rc < 0)
        return rc;
    return session_box_open(m->link, handle, &se->limits, slot, &m->stopping,
                            ret, err);
}

/* The lock is held on entry and on return, and not between. */
static int move_in(struct session *se, struct error *err)
{
    struct box *old = take_ptr(se->box);
    struct box *box = NULL;
    uint32_t slot = old ? old->slot : se->slot;
    int rc;

    se->moving = true;
    session_state_set(se, SESSION_STARTING);
    pthread_mutex_unlock(&se->lock);
    if (old) {
        session_box_release(old, true);
        session_box_unref(old);
    }
    rc = make_box(se, slot, &box, err);
    pthread_mutex_lock(&se->lock);
    se->moving = false;
    pthread_cond_broadcast(&se->cond);
    if (se->state == SESSION_ENDED) { /* deleted meanwhile: ours to undo */
        pthread_mutex_unlock(&se->lock);
        if (box) {
            session_box_release(box, false);
            session_box_unref(box);
        } else {
            release_slot(se, slot);
        }
        pthread_mutex_lock(&se->lock);
        return ended(err);
    }
    if (rc < 0) {
        se->slot = slot;
        session_state_set(se, SESSION_DORMANT);
        return rc;
    }
    se->slot = 0;
    se->box = box;
    se->woken_ms = clock_mono_ms();
    se->interpreter++;
    session_touch(se);
    session_state_set(se, se->running ? SESSION_RUNNING : SESSION_IDLE);
    session_metrics_add(se->m, &se->m->counters.woken);
    return 0;
}

int session_wake(struct session *se, struct box **ret, struct error *err)
{
    int rc;

    pthread_mutex_lock(&se->lock);
    rc = settle_down(se, err);
    if (rc == 0 && (!se->box || atomic_load(&se->box->broken))) {
        rc = may_go_live(se, err);
        if (rc == 0)
            rc = move_in(se, err);
    }
    if (rc == 0)
        *ret = session_box_ref(se->box);
    pthread_mutex_unlock(&se->lock);
    return rc;
}

static int fresh_kernel(struct session *se, struct box *box, struct error *err)
{
    struct error ignored;
    int rc = session_kernel_start(box, err);

    if (rc < 0)
        return rc;
    /* What the old kernel used is not the next execution's. If the box is
     * gone the next step will find out. */
    (void)session_box_usage(box, &box->base, &ignored);
    pthread_mutex_lock(&se->lock);
    se->interpreter++;
    pthread_mutex_unlock(&se->lock);
    return 0;
}

int session_wake_kernel(struct session *se, struct box **ret,
                        struct error *err)
{
    int rc = error_set(err, ERR_GUEST, "the sandbox is gone");

    for (int i = 0; i < 2; i++) {
        struct box *box = NULL;

        rc = session_wake(se, &box, err);
        if (!box)
            return rc;
        if (!session_box_check(box))
            rc = error_set(err, ERR_GUEST, "the sandbox is gone");
        else if (!box->kernel_alive)
            rc = fresh_kernel(se, box, err);
        if (rc == 0) {
            *ret = box;
            return 0;
        }
        (void)session_wake_drop(se, box, false);
        session_box_unref(box);
    }
    return rc;
}

static bool in_use(const struct session *se)
{
    return se->state != SESSION_IDLE || se->queue_head || se->exclusive ||
           se->pins;
}

bool session_wake_drop(struct session *se, struct box *box, bool idle_only)
{
    uint32_t slot;
    bool gone;

    pthread_mutex_lock(&se->lock);
    if (se->box != box || se->moving || (idle_only && in_use(se))) {
        pthread_mutex_unlock(&se->lock);
        return false;
    }
    se->box = NULL;
    se->moving = true;
    slot = box->slot;
    session_state_set(se, SESSION_DORMANT);
    pthread_mutex_unlock(&se->lock);

    session_box_release(box, true);
    session_box_unref(box); /* the session's */

    pthread_mutex_lock(&se->lock);
    se->moving = false;
    gone = se->state == SESSION_ENDED;
    if (!gone)
        se->slot = slot;
    pthread_cond_broadcast(&se->cond);
    pthread_mutex_unlock(&se->lock);
    if (gone)
        release_slot(se, slot);
    return true;
}
