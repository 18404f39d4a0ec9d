/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates a sandbox for a session that needs one, on the current state of its
 * workspace and with the memory of its image if there is one, and drops the
 * sandbox when it is no longer needed. An image that cannot be used is no
 * failure: the session gets a new interpreter and says why. Runs in
 * gloveboxd on any thread that needs the sandbox. In the phases WAKING and
 * SAVING other threads wait, so no lock is held while a sandbox starts.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define OLD_GRACE_S 300u /* for a sandbox that is never idle */
#define MOVE_MS 120000u  /* longer than any start may take */

/* Waits while a thread creates or drops the box; the lock is held. */
static int wait_settled(struct session *se, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + MOVE_MS;

    while (!session_settled(se))
        if (!cond_wait_until(&se->cond, &se->lock, deadline))
            return box_late("the session's sandbox did not come up", MOVE_MS,
                            err);
    session_state_check(se);
    return se->phase == PHASE_ENDED ? session_error_ended(se, err) : 0;
}

static int may_go_live(struct session *se, struct error *err)
{
    if (!session_asleep(se))
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

#define RESUME_TRIES 3u /* sandboxes that do not come up with an image */

/* The kernel that read the image ended, or did so too often in time. The
 * client gets a new interpreter rather than the same failure for ever. */
static bool gives_up(struct session *se, const struct session_origin *origin,
                     int rc)
{
    return origin->tried &&
           (rc == -ERR_GUEST || ++se->resume_tries >= RESUME_TRIES);
}

static int create_from(struct session *se, struct session_origin *origin,
                       struct box **ret, struct error *err)
{
    uint32_t handle;
    int rc = runtime_handle(se->m->pools, se->runtime, &handle, err);

    if (rc == 0)
        rc = session_sandbox_pin_tree(se, &se->tree, err);
    if (rc == 0 && origin && origin->zygote)
        rc = session_sandbox_ready(se, origin, ret, err);
    if (rc == 0)
        rc = session_sandbox_create(se, handle, &se->tree, origin, ret, err);
    if (rc < 0)
        session_sandbox_unpin_tree(se);
    return MIN(rc, 0);
}

static enum session_loss loss_of(enum box_image_problem problem)
{
    switch (problem) {
    case BOX_IMAGE_UNSUPPORTED:
        return SESSION_LOSS_BUILD;
    case BOX_IMAGE_MISMATCH:
        return SESSION_LOSS_MISMATCH;
    case BOX_IMAGE_TOO_LARGE:
        return SESSION_LOSS_LIMIT;
    case BOX_IMAGE_USABLE:
    case BOX_IMAGE_DAMAGED:
    case BOX_IMAGE_PROBLEMS:
        break;
    }
    return SESSION_LOSS_DAMAGED;
}

/* The image is decrypted while the sandbox is made. */
struct taking {
    struct session *se;
    struct thread thread;
    bool beside, done;
    int fd; /* -1: none, or not yet */
    enum session_loss why;
    struct error err;
    int rc;
};

static void take_main(void *arg)
{
    struct taking *t = arg;

    t->rc = session_image_take(t->se, &t->fd, &t->why, &t->err);
}

static int take_wait(void *arg)
{
    struct taking *t = arg;

    if (!t->done && t->beside)
        thread_join(&t->thread);
    else if (!t->done)
        take_main(t);
    t->done = true;
    return t->fd;
}

/* Another one in place of a sandbox that did not come up with the image. */
static int create_fresh(struct session *se, struct session_origin *origin,
                        struct box **ret, struct error *err)
{
    *origin = (struct session_origin){.image_fd = -1};
    return create_from(se, origin, ret, err);
}

/* With the memory of the image. A failure leaves the image as it was. */
static int resume_box(struct session *se, struct box **ret, struct error *err)
{
    bool old = se->image.left_over;
    const struct session_image image = se->image; /* ours while it wakes */
    struct taking t = {.se = se, .fd = -1};
    struct session_origin origin = {.image_fd = -1,
                                    .zygote = image.zygote,
                                    .image_wait = take_wait,
                                    .image_ctx = &t};
    int fd cleanup(fd_close) = -1;
    struct error ignored;
    int rc;

    t.beside =
        thread_start(&t.thread, "image-take", take_main, &t, &ignored) == 0;
    rc = create_from(se, &origin, ret, err);
    fd = take_wait(&t);
    if (t.rc < 0) { /* the image is as it was */
        if (rc == 0)
            drop_box(se, take_ptr(*ret));
        *err = t.err;
        return t.rc;
    }
    if (rc < 0 && fd >= 0 && gives_up(se, &origin, rc)) {
        t.why = SESSION_LOSS_START;
        rc = create_fresh(se, &origin, ret, err);
    } else if (rc < 0 && fd >= 0) {
        session_image_put_back(se);
        return rc;
    }
    if (origin.start.how == BOX_STARTED_INSTEAD)
        t.why = loss_of(origin.start.problem);
    if (fd >= 0 && t.why)
        session_image_lose(se, t.why);
    if (rc < 0)
        return rc;
    session_metrics_add(se->m, t.why ? &se->m->counters.resume_failed
                                     : &se->m->counters.resumed);
    mutex_lock(&se->lock);
    se->resume_tries = 0;
    se->resumed = se->resumed_new = !t.why;
    se->resumed_old = !t.why && old;
    mutex_unlock(&se->lock);
    return 0;
}

/* On the workspace's head as it is now. */
static int make_box(struct session *se, bool resume, struct box **ret,
                    struct error *err)
{
    int rc;

    se->resumed = se->resumed_new = se->resumed_old = false;
    if (resume) {
        rc = resume_box(se, ret, err);
    } else if (se->interpreter == 0) { /* it was created without one */
        rc = session_sandbox_first(se, ret, err);
        if (rc < 0)
            session_sandbox_unpin_tree(se);
    } else {
        rc = create_from(se, NULL, ret, err);
    }
    if (rc < 0)
        return rc;
    session_image_told(se);
    se->base = se->own_commit = se->tree.seq;
    se->rescan = false;
    session_over_quota_done(se);
    return 0;
}

/* event: EV_WAKE or EV_REPLACE. The lock is held on entry and on return, and
 * not between. */
static int wake_box(struct session *se, enum session_event event,
                    struct error *err)
{
    struct box *old, *box = NULL;
    bool resume = se->phase == PHASE_HIBERNATED;
    struct error ignored;
    int rc;

    session_state_event(se, event);
    old = take_ptr(se->box);
    session_state_check(se);
    mutex_unlock(&se->lock);
    if (old) {
        drop_box(se, old);
        session_memory_gone(se, SESSION_LOSS_ENDED);
    }
    rc = event == EV_WAKE ? session_lease_wake(se, err) : 0;
    if (rc == 0)
        rc = make_box(se, resume, &box, err);
    if (rc == 0) /* without a network it can be used all the same */
        (void)network_attach(se->net, box, &ignored);
    mutex_lock(&se->lock);
    if (se->phase == PHASE_ENDED) { /* deleted meanwhile: ours to undo */
        mutex_unlock(&se->lock);
        if (box)
            drop_box(se, box);
        mutex_lock(&se->lock);
        return session_error_ended(se, err);
    }
    if (rc < 0) {
        session_state_event(se, session_image_there(&se->image)
                                    ? EV_WAKE_BACK
                                    : EV_WAKE_FAILED);
        mutex_unlock(&se->lock);
        session_lease_sleep(se);
        mutex_lock(&se->lock);
        return rc;
    }
    se->box = box;
    se->woken_ms = clock_mono_ms();
    session_touch(se);
    session_state_event(se, EV_WOKEN);
    session_state_check(se);
    return 0;
}

static int wake_once(struct session *se, struct box **ret, struct error *err)
{
    int rc;

    mutex_lock(&se->lock);
    rc = wait_settled(se, err);
    if (rc == 0 && session_state_may(se, EV_WAKE)) {
        rc = may_go_live(se, err);
        if (rc == 0)
            rc = wake_box(se, EV_WAKE, err);
        if (rc == 0) {
            if (se->interpreter > 0)
                session_metrics_add(se->m, &se->m->counters.woken);
            se->interpreter += !se->resumed || se->interpreter == 0;
        }
    }
    if (rc == 0)
        *ret = box_ref(se->box);
    mutex_unlock(&se->lock);
    return rc;
}

int session_wake(struct session *se, struct box **ret, struct error *err)
{
    struct session_room room = {0};
    int rc = 0;

    for (unsigned i = 0; i < SESSION_ROOM_TRIES; i++) {
        bool dormant;

        mutex_lock(&se->lock);
        dormant = session_asleep(se);
        mutex_unlock(&se->lock);
        if (dormant)
            session_make_room(se->m, se->tenant, se->pool, &se->limits, &room);
        rc = wake_once(se, ret, err);
        if ((rc != -ERR_LIMIT && rc != -ERR_BUSY) || !room.made)
            break;
    }
    if (rc == -ERR_LIMIT || rc == -ERR_BUSY)
        return session_room_explain(&room, err);
    return rc;
}

int session_wake_replace(struct session *se, struct error *err)
{
    int rc = 1;

    mutex_lock(&se->lock);
    if (session_state_may(se, EV_REPLACE))
        rc = wake_box(se, EV_REPLACE, err);
    mutex_unlock(&se->lock);
    return rc;
}

bool session_wake_is_old(struct session *se)
{
    uint64_t born_ms, most_s = pool_conf(se->pool)->lifetime_s;

    /* The reaper carries its memory into a new one as soon as it is idle. */
    if (session_hibernates(se))
        most_s += OLD_GRACE_S;
    mutex_lock(&se->lock);
    born_ms = se->woken_ms;
    mutex_unlock(&se->lock);
    return clock_left_ms(born_ms + most_s * 1000ull) == 0;
}

void session_memory_gone(struct session *se, enum session_loss why)
{
    bool stored;

    mutex_lock(&se->lock);
    stored = se->image.state != IMAGE_NONE;
    if (session_state_may(se, EV_LOSE))
        session_state_event(se, EV_LOSE);
    se->resumed = se->resumed_new = se->resumed_old = false;
    se->uncarried = 0;
    se->memory_refused = false;
    session_points_forget(se);
    mutex_unlock(&se->lock);
    if (stored)
        session_image_lose(se, why);
}

/* asked: the client wants nothing of earlier executions. Otherwise the kernel
 * was lost, and the state of the shell stays. */
static int fresh_kernel(struct session *se, struct box *box, bool asked,
                        struct error *err)
{
    struct warden_usage usage;
    struct error ignored;
    int rc = asked ? box_kernel_start(box, err) : box_kernel_restart(box, err);

    if (rc < 0)
        return rc;
    session_memory_gone(se, SESSION_LOSS_ENDED);
    /* The next execution must not pay for the old kernel. If the box is gone,
     * the next step notices. */
    if (box_usage(box, &usage, &ignored) == 0)
        box_usage_set_base(box, &usage);
    mutex_lock(&se->lock);
    se->interpreter++;
    if (!se->cells_lost)
        session_wake_lost(se, false);
    mutex_unlock(&se->lock);
    session_persist_note(se);
    return 0;
}

/* ---- what the next answer says ------------------------------------------
 */

#define VARIABLES_GONE                                                        \
    ": variables of earlier executions are gone; files are kept."
#define NOT_SAVED "The session was asleep, and its memory was not saved"
#define NOT_RESTORED "The session's memory could not be restored"

static const struct {
    const char *name, *text;
} losses[SESSION_LOSSES] = {
    [SESSION_LOSS_NONE] = {"none", "The session was asleep" VARIABLES_GONE},
    [SESSION_LOSS_RESET] = {"reset", "The session was reset" VARIABLES_GONE},
    [SESSION_LOSS_OFF] = {"off", "The session was asleep" VARIABLES_GONE},
    [SESSION_LOSS_UNCARRIED] = {"uncarried", NOT_SAVED
                                " because a thread or a child process of its "
                                "code was running" VARIABLES_GONE},
    [SESSION_LOSS_SPACE] =
        {"no_room",
         NOT_SAVED " because there was no room for it" VARIABLES_GONE},
    [SESSION_LOSS_LARGE] = {"too_large", NOT_SAVED
                            " because it was too large" VARIABLES_GONE},
    [SESSION_LOSS_WRITE] = {"not_written", NOT_SAVED
                            " because writing it failed" VARIABLES_GONE},
    [SESSION_LOSS_KERNEL] = {"no_answer",
                             NOT_SAVED " because its interpreter did not "
                                       "answer" VARIABLES_GONE},
    [SESSION_LOSS_ENDED] = {"ended",
                            "The session's interpreter ended" VARIABLES_GONE},
    [SESSION_LOSS_STOPPED] = {"stopped",
                              "The service stopped while the session was "
                              "busy" VARIABLES_GONE},
    [SESSION_LOSS_BUILD] = {"unsupported", NOT_SAVED
                            " because the isolation or the image of its pool "
                            "does not support it" VARIABLES_GONE},
    [SESSION_LOSS_MISMATCH] = {"mismatch", NOT_RESTORED
                               " because it was saved with another runtime, "
                               "version, kernel or "
                               "processor" VARIABLES_GONE},
    [SESSION_LOSS_DAMAGED] = {"damaged", NOT_RESTORED
                              " because its image is damaged" VARIABLES_GONE},
    [SESSION_LOSS_MISSING] = {"missing", NOT_RESTORED
                              " because its image is missing" VARIABLES_GONE},
    [SESSION_LOSS_TAKEN] = {"taken",
                            NOT_RESTORED " because its image was resumed "
                                         "before" VARIABLES_GONE},
    [SESSION_LOSS_LIMIT] = {"limit", NOT_RESTORED
                            " because it does not fit into the memory "
                            "limit" VARIABLES_GONE},
    [SESSION_LOSS_START] = {"not_started", NOT_RESTORED
                            " because its interpreter ended while it "
                            "started" VARIABLES_GONE},
    [SESSION_LOSS_NODE] = {"other_node",
                           NOT_RESTORED " because it was saved on another "
                                        "node" VARIABLES_GONE},
    [SESSION_LOSS_NO_ZYGOTE] = {"no_zygote",
                                NOT_SAVED " because its pool has no zygote "
                                          "(zygote: false)" VARIABLES_GONE},
    [SESSION_LOSS_EPHEMERAL] = {"ephemeral", NOT_SAVED
                                " because it is ephemeral" VARIABLES_GONE},
    [SESSION_LOSS_AGE] = {"expired",
                          "The session slept for so long that its memory was "
                          "deleted" VARIABLES_GONE},
};

const char *session_loss_name(enum session_loss why)
{
    return (unsigned)why < SESSION_LOSSES ? losses[why].name : "none";
}

static const struct {
    uint32_t bit;
    const char *name, *text;
} uncarried[] = {
    {BOX_UNCARRIED_THREADS, "threads", "threads"},
    {BOX_UNCARRIED_CHILDREN, "children", "child processes"},
    {BOX_UNCARRIED_SOCKETS, "sockets", "sockets and pipes"},
    {BOX_UNCARRIED_SHARED, "shared_memory", "shared memory"},
    {BOX_UNCARRIED_TMP, "tmp", "files outside /mnt/data"},
    {BOX_UNCARRIED_FILES, "files", "open files that are gone"},
};

const char *session_uncarried_name(uint32_t bits, unsigned number)
{
    for (size_t i = 0; i < ARRAY_SIZE(uncarried); i++)
        if (bits & uncarried[i].bit && number-- == 0)
            return uncarried[i].name;
    return NULL;
}

static void add_text(char *ret, size_t size, const char *text)
{
    size_t len = strlen(ret);

    (void)snprintf(ret + len, size - len, "%s", text);
}

/* "Not carried over: sockets and pipes, shared memory." */
static void add_uncarried(char *ret, size_t size, const char *begin,
                          uint32_t bits)
{
    const char *before = begin;

    for (size_t i = 0; i < ARRAY_SIZE(uncarried); i++) {
        if (!(bits & uncarried[i].bit))
            continue;
        add_text(ret, size, before);
        add_text(ret, size, uncarried[i].text);
        before = ", ";
    }
    if (before != begin)
        add_text(ret, size, ".");
}

static void resumed_text(const struct session *se, char *ret, size_t size)
{
    if (se->resumed_old)
        add_text(ret, size,
                 "The service ended before it could save the session: "
                 "variables are those of the last time it was saved; files "
                 "are newer.");
    add_uncarried(ret, size,
                  ret[0] ? " Not carried over: " : "Not carried over: ",
                  se->image.uncarried);
}

enum session_interpreter session_wake_notice(struct session *se, bool unused,
                                             bool kernel, bool asked,
                                             char ret[SESSION_NOTICE])
{
    enum session_interpreter how =
        unused ? SESSION_INTERPRETER_FRESH : SESSION_INTERPRETER_SAME;

    ret[0] = '\0';
    mutex_lock(&se->lock);
    if (se->resumed) { /* whatever ran in this sandbox so far */
        unused = false;
        how = SESSION_INTERPRETER_SAME;
    }
    if (se->resumed_new) {
        how = SESSION_INTERPRETER_WOKEN;
        resumed_text(se, ret, SESSION_NOTICE);
    } else if (unused && kernel && se->has_cells && !asked) {
        add_text(ret, SESSION_NOTICE,
                 se->cells_lost ? se->cells_lost : losses[se->image.why].text);
    } else if (!unused && se->memory_refused) {
        add_uncarried(ret, SESSION_NOTICE,
                      "The session cannot hibernate while it has ",
                      se->uncarried);
    } else if (!unused) {
        add_uncarried(ret, SESSION_NOTICE,
                      "If the session hibernates, it loses: ", se->uncarried);
    }
    if (kernel) {
        se->has_cells = true;
        se->resumed_new = false;
        if (how == SESSION_INTERPRETER_FRESH) {
            se->cells_lost = NULL;
            se->image.why = SESSION_LOSS_NONE;
        }
    }
    mutex_unlock(&se->lock);
    return how;
}

const char *session_wake_helper_notice(struct session *se, uint32_t helper,
                                       bool fresh, bool earlier, bool asked)
{
    uint32_t bit = UINT32_C(1) << helper;
    bool lost;

    mutex_lock(&se->lock);
    lost = fresh && (earlier || se->helpers_used & bit) && !asked;
    se->helpers_used |= bit;
    mutex_unlock(&se->lock);
    return lost ? "A new interpreter was started" VARIABLES_GONE : NULL;
}

void session_wake_lost(struct session *se, bool by_reset)
{
    mutex_assert_held(&se->lock);
    se->cells_lost =
        losses[by_reset ? SESSION_LOSS_RESET : SESSION_LOSS_ENDED].text;
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
        else if (!box_kernel_alive(box) ||
                 (fresh && (box_has_run(box) || se->resumed)))
            rc = fresh_kernel(se, box, fresh, err);
        if (rc == 0) {
            *ret = box;
            return 0;
        }
        (void)session_wake_drop(se, box, false);
        box_unref(box);
    }
    return rc;
}

bool session_wake_drop(struct session *se, struct box *box, bool idle_only)
{
    enum session_event event = idle_only ? EV_EXPIRE : EV_DROP;
    bool mine;

    mutex_lock(&se->lock);
    mine = se->box == box && session_state_may(se, event);
    if (mine) {
        session_state_event(se, event);
        se->box = NULL;
        session_state_check(se);
        if (idle_only)
            se->cells_lost = NULL;
        else if (!se->cells_lost)
            session_wake_lost(se, false);
    }
    mutex_unlock(&se->lock);
    if (!mine)
        return false;
    if (idle_only)
        session_commit_rest(se, box);
    drop_box(se, box);
    session_memory_gone(se,
                        idle_only ? SESSION_LOSS_NONE : SESSION_LOSS_ENDED);
    /* Noted before the session can wake, so that its next answer has it. */
    if (idle_only && session_image_possible(se))
        session_image_lose(se, session_memory_off(se));
    mutex_lock(&se->lock);
    session_state_event(se, EV_DROPPED);
    mutex_unlock(&se->lock);
    session_lease_sleep(se);
    session_persist_note(se);
    return true;
}
