/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates a sandbox for a session that needs one, on the current state of its
 * workspace, and drops the sandbox when it is no longer needed. Runs in
 * gloveboxd on any thread that needs the sandbox. `moving` makes other threads
 * wait, so no lock is held while a sandbox starts.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define MOVE_MS 120000u /* longer than any start may take */

static int ended(struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "no such session");
}

/* Waits until nobody moves the box; the lock is held. */
static int settle_down(struct session *se, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + MOVE_MS;

    while (se->moving)
        if (!cond_wait_until(&se->cond, &se->lock, deadline))
            return box_late("the session's sandbox did not come up", MOVE_MS,
                            err);
    session_state_check(se);
    return se->state == SESSION_ENDED ? ended(err) : 0;
}

static int may_go_live(struct session *se, struct error *err)
{
    if (se->state != SESSION_DORMANT)
        return 0;
    if (session_limits_room(se->m, se->pool, &se->limits, err) < 0) {
        (void)error_hint(err, "try again later");
        return error_retry(err, 5);
    }
    return session_quota_take(se->m, se->tenant->name, &se->limits, err);
}

static void drop_box(struct session *se, struct box *box)
{
    box_release(box);
    box_unref(box);
    session_sandbox_unpin_tree(se);
}

/* On the workspace's head as it is now. */
static int make_box(struct session *se, struct box **ret, struct error *err)
{
    uint32_t handle;
    int rc = runtime_handle(se->m->pools, se->runtime, &handle, err);

    if (rc == 0)
        rc = session_sandbox_pin_tree(se, &se->tree, err);
    if (rc == 0)
        rc = session_sandbox_create(se, handle, &se->tree, ret, err);
    if (rc < 0) {
        session_sandbox_unpin_tree(se);
        return rc;
    }
    se->base = se->tree.seq;
    se->rescan = false;
    session_over_quota_done(se);
    return 0;
}

/* The lock is held on entry and on return, and not between. */
static int move_in(struct session *se, struct error *err)
{
    struct box *old = take_ptr(se->box);
    struct box *box = NULL;
    struct error ignored;
    int rc;

    se->moving = true;
    session_state_set(se, SESSION_STARTING);
    mutex_unlock(&se->lock);
    if (old)
        drop_box(se, old);
    rc = make_box(se, &box, err);
    if (rc == 0) /* without a network it can be used all the same */
        (void)session_net_attach(se, box, &ignored);
    mutex_lock(&se->lock);
    se->moving = false;
    cond_broadcast(&se->cond);
    if (se->state == SESSION_ENDED) { /* deleted meanwhile: ours to undo */
        mutex_unlock(&se->lock);
        if (box)
            drop_box(se, box);
        mutex_lock(&se->lock);
        return ended(err);
    }
    if (rc < 0) {
        session_state_set(se, SESSION_DORMANT);
        return rc;
    }
    se->box = box;
    se->woken_ms = clock_mono_ms();
    session_touch(se);
    session_state_set(se, se->running ? SESSION_RUNNING : SESSION_IDLE);
    return 0;
}

int session_wake(struct session *se, struct box **ret, struct error *err)
{
    int rc;

    mutex_lock(&se->lock);
    rc = settle_down(se, err);
    if (rc == 0 && (!se->box || box_is_broken(se->box))) {
        rc = may_go_live(se, err);
        if (rc == 0)
            rc = move_in(se, err);
        if (rc == 0) {
            se->interpreter++;
            session_metrics_add(se->m, &se->m->counters.woken);
        }
    }
    if (rc == 0)
        *ret = box_ref(se->box);
    mutex_unlock(&se->lock);
    return rc;
}

bool session_wake_untouched(const struct session *se)
{
    return se->state == SESSION_IDLE && !se->moving && se->pins == 1 &&
           !box_is_touched(se->box);
}

int session_wake_replace(struct session *se, struct error *err)
{
    int rc = 1;

    mutex_lock(&se->lock);
    if (session_wake_untouched(se))
        rc = move_in(se, err);
    mutex_unlock(&se->lock);
    return rc;
}

static int fresh_kernel(struct session *se, struct box *box, struct error *err)
{
    struct warden_usage usage;
    struct error ignored;
    int rc = box_kernel_start(box, err);

    if (rc < 0)
        return rc;
    /* What the old kernel used is not the next execution's. If the box is
     * gone the next step will find out. */
    if (box_usage(box, &usage, &ignored) == 0)
        box_usage_set_base(box, &usage);
    mutex_lock(&se->lock);
    se->interpreter++;
    mutex_unlock(&se->lock);
    session_persist_note(se);
    return 0;
}

int session_wake_kernel(struct session *se, bool fresh, struct box **ret,
                        struct error *err)
{
    int rc = error_set(err, ERR_GUEST, "the sandbox is gone");

    for (int i = 0; i < 2; i++) {
        struct box *box = NULL;

        rc = session_wake(se, &box, err);
        if (!box)
            return rc;
        if (!box_check(box))
            rc = error_set(err, ERR_GUEST, "the sandbox is gone");
        else if (!box_kernel_alive(box) || (fresh && box_cells(box) > 0))
            rc = fresh_kernel(se, box, err);
        if (rc == 0) {
            *ret = box;
            return 0;
        }
        (void)session_wake_drop(se, box, false);
        box_unref(box);
    }
    return rc;
}

static bool in_use(const struct session *se)
{
    return se->state != SESSION_IDLE || se->queue_head || se->exclusive ||
           se->pins;
}

/* Takes the box out of use, unless someone else does or it is needed. */
static bool claim(struct session *se, struct box *box, bool idle_only)
{
    bool mine;

    mutex_lock(&se->lock);
    mine = se->box == box && !se->moving && !(idle_only && in_use(se));
    if (mine) {
        se->box = NULL;
        se->moving = true;
        session_state_set(se, SESSION_DORMANT);
    }
    mutex_unlock(&se->lock);
    return mine;
}

bool session_wake_drop(struct session *se, struct box *box, bool idle_only)
{
    if (!claim(se, box, idle_only))
        return false;
    if (idle_only)
        session_commit_rest(se, box);
    drop_box(se, box);
    mutex_lock(&se->lock);
    se->moving = false;
    cond_broadcast(&se->cond);
    mutex_unlock(&se->lock);
    session_persist_note(se);
    return true;
}
