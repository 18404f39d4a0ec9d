/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undo and redo of executions: memory and files go back together. Runs in
 * gloveboxd; points are made on the thread "points" after the answer of an
 * execution was sent, undo and redo on the caller's thread.
 *
 * The states of a session are a list: the state before its first execution in
 * this sandbox, then one after each execution. A state has the number of the
 * last commit that the session had made, and the number of the memory: a shell
 * command makes a new state with the same memory. Memory that has a point
 * (box.h) can be returned to.
 *
 *   states   0 ── 1 ── 2 ── 3      at: where the session is
 *   memory   m0   m1   m1   m2     2 was a shell command
 *   commits  4    5    6    6      3 changed no file
 *
 * A client that sends the next execution at once would wait for the point. So
 * it waits for the first few of a burst, and then points are left out until
 * the client pauses.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define BURST 16u    /* executions in a row that wait for their point */
#define PAUSE_MS 25u /* between executions that are no burst */
#define LOOK_MS 300u /* idle until it is found out what cannot be carried */
#define STATES_MAX (BOX_POINTS_MAX + 1)

struct state {
    char execution[ID_MAX]; /* that led to it; "" for the first */
    uint32_t memory;
    bool pointed;   /* there is a point of that memory */
    bool fresh;     /* a new interpreter: can be made again */
    bool helper;    /* the execution was of another language's interpreter */
    int64_t commit; /* the last one of the session, by number */
};

/* For the thread that has the turn or has closed it; `due` under the lock. */
struct session_undo {
    struct state states[STATES_MAX];
    unsigned count, at;
    unsigned burst;    /* executions that followed each other at once */
    uint64_t ended_ms; /* the last one */
    bool due;          /* no point of the present memory was made yet */
    bool looked; /* what cannot be carried is known of the present memory */
};

static unsigned most_points(const struct session *se)
{
    return MIN(pool_conf(se->pool)->undo_points, BOX_POINTS_MAX - 1);
}

void session_points_forget(struct session *se)
{
    mutex_assert_held(&se->lock);
    free(take_ptr(se->undo));
}

void session_points_fill(const struct session *se, struct session_info *ret)
{
    const struct session_undo *u = se->undo;
    unsigned i;

    if (!u || se->phase != PHASE_UP)
        return;
    for (i = u->at; i > 0; i--)
        if (u->states[i - 1].pointed || u->states[i - 1].fresh)
            ret->undo_points = u->at - i + 1;
    for (i = u->at + 1; i < u->count; i++)
        if (u->states[i].pointed)
            ret->redo_points = i - u->at;
}

/* ---- points ------------------------------------------------------------- */

/* All states of one memory have its point or none. */
static void set_pointed(struct session_undo *u, uint32_t memory, bool pointed)
{
    for (unsigned i = 0; i < u->count; i++)
        if (u->states[i].memory == memory)
            u->states[i].pointed = pointed;
}

/* Different memories with a point, from states[from] up to states[to]. */
static unsigned count_points(const struct session_undo *u, unsigned from,
                             unsigned to)
{
    unsigned n = 0;

    for (unsigned i = from; i <= to; i++)
        n += u->states[i].pointed &&
             (i == from || u->states[i].memory != u->states[i - 1].memory);
    return n;
}

/* Older points may have ended for want of memory: `kept` are left before the
 * present one. */
static void trim_points(struct session_undo *u, unsigned kept)
{
    uint32_t now = u->states[u->at].memory;

    for (unsigned i = u->at; i > 0; i--) {
        const struct state *s = &u->states[i - 1];
        bool first = i == 1 || u->states[i - 2].memory != s->memory;

        if (!s->pointed || s->memory == now || !first)
            continue;
        if (kept == 0)
            set_pointed(u, s->memory, false);
        else
            kept--;
    }
}

static void make_point(struct session *se, struct box *box)
{
    struct session_undo *u = se->undo;
    struct error err;
    unsigned kept = 0;
    int rc = se->m->memory->point_add(box, most_points(se) + 1, &kept, &err);

    mutex_lock(&se->lock);
    u->due = false;
    /* A failure means no point; undo then answers 409. */
    set_pointed(u, u->states[u->at].memory, rc == 0);
    trim_points(u, rc == 0 ? kept : 0);
    mutex_unlock(&se->lock);
}

static struct session_undo *undo_of(struct session *se, struct box *box)
{
    struct session_undo *u;

    if (se->undo)
        return se->undo;
    u = xcalloc(1, sizeof(*u));
    u->count = 1;
    u->states[0] = (struct state){.fresh = !se->resumed && box_cells(box) == 0,
                                  .commit = se->own_commit};
    mutex_lock(&se->lock);
    se->undo = u;
    mutex_unlock(&se->lock);
    /* A woken interpreter cannot be made again. */
    if (!u->states[0].fresh)
        make_point(se, box);
    return u;
}

void session_points_begin(struct session *se, struct box *box)
{
    struct session_undo *u;
    bool due;

    if (!most_points(se))
        return;
    u = undo_of(se, box);
    mutex_lock(&se->lock);
    due = u->due;
    u->count = u->at + 1; /* what was undone cannot be redone any more */
    u->burst = clock_mono_ms() < u->ended_ms + PAUSE_MS ? u->burst + 1 : 0;
    u->due = false;
    mutex_unlock(&se->lock);
    if (due && u->burst <= BURST && box_kernel_alive(box))
        make_point(se, box);
}

void session_points_end(struct session *se, const char *execution, bool kernel,
                        bool helper)
{
    struct session_undo *u = se->undo;
    const struct state *before;
    struct state now = {.helper = helper, .commit = se->own_commit};
    unsigned room = most_points(se) + 1;

    if (!u)
        return;
    before = &u->states[u->at];
    now.memory = before->memory + kernel;
    now.pointed = !kernel && before->pointed;
    now.fresh = !kernel && before->fresh;
    (void)snprintf(now.execution, sizeof(now.execution), "%s", execution);
    mutex_lock(&se->lock);
    if (u->count >= room) {
        unsigned gone = u->count - room + 1;

        memmove(u->states, u->states + gone,
                (u->count - gone) * sizeof(u->states[0]));
        u->count -= gone;
    }
    u->states[u->count++] = now;
    u->at = u->count - 1;
    u->due = kernel && !now.pointed;
    u->ended_ms = clock_mono_ms();
    u->looked = false;
    mutex_unlock(&se->lock);
}

/* ---- the thread --------------------------------------------------------- */

void session_points_due(struct session *se)
{
    struct sessions *m = se->m;
    bool wanted = (most_points(se) || session_hibernates(se)) &&
                  !atomic_load(&m->stopping);

    if (!wanted)
        return;
    mutex_lock(&m->points_lock);
    if (!se->points_queued) {
        se->points_queued = true;
        se->points_next = m->points_head;
        m->points_head = session_ref(se);
    }
    mutex_unlock(&m->points_lock);
    worker_wake(&m->points);
}

/* Takes the turn for a moment, if nothing uses the session. */
static struct box *close_unused(struct session *se)
{
    struct box *box = NULL;

    mutex_lock(&se->lock);
    if (se->phase == PHASE_UP && se->turn == TURN_FREE && !se->queue_head) {
        session_state_event(se, EV_CLOSE);
        box = box_ref(se->box);
    }
    mutex_unlock(&se->lock);
    return box;
}

static void reopen(struct session *se)
{
    mutex_lock(&se->lock);
    session_state_event(se, EV_OPEN);
    mutex_unlock(&se->lock);
}

static void look(struct session *se, struct box *box)
{
    struct box_memory memory = {0};
    struct error err;

    if (se->m->memory->look(box, &memory, &err) == 0)
        session_memory_seen(se, &memory);
}

/* Milliseconds until it wants to be visited again; 0: not. */
static uint64_t visit(struct session *se)
{
    uint64_t now = clock_mono_ms(), idle_at, point_at = 0;
    struct session_undo *u;
    bool due, see, unknown;
    struct box *box;

    mutex_lock(&se->lock);
    unknown = se->stored && se->has_cells && !se->noted_run;
    se->noted_run |= unknown;
    u = se->undo;
    idle_at = se->used_ms + LOOK_MS;
    due = se->phase == PHASE_UP && u && u->due;
    if (due && u->burst >= BURST)
        point_at = u->ended_ms + PAUSE_MS;
    see = se->phase == PHASE_UP && session_hibernates(se) && se->has_cells &&
          !(u && u->looked);
    mutex_unlock(&se->lock);
    if (unknown) /* so that after a crash it is known that variables are gone
                  */
        session_persist_note(se);
    if (due && point_at > now)
        return point_at - now;
    if (!due && !(see && now >= idle_at))
        return see && idle_at > now ? idle_at - now : 0;
    box = close_unused(se);
    if (!box)
        return 0; /* its next execution makes the point */
    if (box_check(box) && box_kernel_alive(box)) {
        if (due && se->undo && se->undo->due)
            make_point(se, box);
        if (see && now >= idle_at) {
            look(se, box);
            if (se->undo)
                se->undo->looked = true;
            see = false;
        }
    }
    reopen(se);
    box_unref(box);
    return see ? LOOK_MS : 0;
}

static struct session *take_list(struct sessions *m)
{
    struct session *list;

    mutex_lock(&m->points_lock);
    list = m->points_head;
    m->points_head = NULL;
    for (struct session *se = list; se; se = se->points_next)
        se->points_queued = false;
    mutex_unlock(&m->points_lock);
    return list;
}

static void points_main(void *arg)
{
    struct sessions *m = arg;
    uint64_t wait_ms = UINT32_MAX;

    while (worker_wait(&m->points, wait_ms)) {
        struct session *list = take_list(m), *next;

        wait_ms = UINT32_MAX;
        for (struct session *se = list; se; se = next) {
            uint64_t again;

            next = se->points_next;
            again = visit(se);
            if (again) {
                wait_ms = MIN(wait_ms, again);
                mutex_lock(&m->points_lock);
                if (!se->points_queued) {
                    se->points_queued = true;
                    se->points_next = m->points_head;
                    m->points_head = session_ref(se);
                }
                mutex_unlock(&m->points_lock);
            }
            session_unref(se);
        }
    }
    for (struct session *se = take_list(m), *next; se; se = next) {
        next = se->points_next;
        session_unref(se);
    }
}

int session_points_start(struct sessions *m, struct error *err)
{
    return worker_start(&m->points, "points", points_main, m, err);
}

void session_points_stop(struct sessions *m)
{
    worker_stop(&m->points);
}

/* ---- undo and redo ------------------------------------------------------ */

static int no_state(const struct session_undo *u, bool redo, uint32_t count,
                    struct error *err)
{
    unsigned most = !u ? 0 : redo ? u->count - 1 - u->at : u->at;

    (void)error_set(err, ERR_CONFLICT,
                    "%u execution%s can be %s now, and %u %s asked for", most,
                    most == 1 ? "" : "s", redo ? "redone" : "undone", count,
                    count == 1 ? "was" : "were");
    return error_hint(err, "executions can be undone in the sandbox that they "
                           "ran in: not after it slept, was reset or "
                           "restarted");
}

static int no_point(const struct session_undo *u, unsigned target,
                    struct error *err)
{
    unsigned back = 0;

    for (unsigned i = u->at; i > 0 && !back; i--)
        if (i - 1 < target &&
            (u->states[i - 1].pointed || u->states[i - 1].fresh))
            back = u->at - (i - 1);
    (void)error_set(err, ERR_CONFLICT,
                    "there is no undo point before that execution");
    if (back)
        return error_hint(err, "%u executions can be undone together", back);
    return error_hint(err, "a point is left out when executions follow each "
                           "other at once, when a thread or child process is "
                           "running, and when memory is short");
}

/* Memory only. *ret_steps: to go back by switch_back. */
static int switch_memory(struct session *se, struct box *box, unsigned target,
                         unsigned *ret_steps, struct error *err)
{
    const struct session_memory *memory = se->m->memory;
    struct session_undo *u = se->undo;
    const struct state *to = &u->states[target], *now = &u->states[u->at];
    bool redo = target > u->at, alive = box_kernel_alive(box);
    int rc;

    *ret_steps = 0;
    if (to->memory == now->memory)
        return 0;
    if (!to->pointed) {
        if (!to->fresh || redo)
            return no_point(u, target, err);
        rc = box_kernel_start(box, err);
        mutex_lock(&se->lock);
        for (unsigned i = 0; i < u->count; i++)
            u->states[i].pointed = false;
        se->interpreter += rc == 0;
        se->has_cells = se->has_cells && rc < 0; /* nothing to be missed */
        mutex_unlock(&se->lock);
        return rc;
    }
    if (redo) {
        *ret_steps = count_points(u, u->at, target) - now->pointed;
        rc = memory->point_redo(box, *ret_steps, err);
    } else {
        *ret_steps = count_points(u, target, u->at) - now->pointed;
        rc = memory->point_undo(box, *ret_steps, err);
        if (rc == 0) { /* the state it came from is a point from now on */
            mutex_lock(&se->lock);
            set_pointed(u, now->memory, alive);
            u->due = false;
            mutex_unlock(&se->lock);
        }
    }
    if (rc < 0)
        *ret_steps = 0;
    return rc;
}

static void switch_back(struct session *se, struct box *box, bool redone,
                        unsigned steps)
{
    const struct session_memory *memory = se->m->memory;
    struct error err;
    int rc = 0;

    if (steps)
        rc = redone ? memory->point_undo(box, steps, &err)
                    : memory->point_redo(box, steps, &err);
    if (rc < 0) { /* a new interpreter is better than the wrong memory */
        log_event(LOG_WARN, "undo_not_taken_back", "session", se->id, "error",
                  err.message, NULL);
        box_kernel_lost(box);
    }
}

static int undo_files(struct session *se, const struct actor *who,
                      struct box *box, int64_t commit,
                      struct session_undone *ret, struct error *err)
{
    struct workspace_undone undone = {0};
    int rc;

    if (se->ephemeral || !se->made)
        return 0;
    rc = workspace_undo(
        se->m->workspaces, who, se->workspace,
        &(struct workspace_undo_spec){.session = se->id,
                                      .fence = atomic_load(&se->fence),
                                      .since = commit},
        &undone, err);
    if (rc < 0)
        return rc;
    (void)snprintf(ret->commit, sizeof(ret->commit), "%s", undone.commit.id);
    ret->files = (uint32_t)undone.commit.count;
    for (size_t i = 0; i < undone.kept_count; i++) {
        buf_adds(&ret->kept, i ? "\n" : "");
        buf_adds(&ret->kept, undone.kept[i]);
    }
    ret->kept_count = (uint32_t)undone.kept_count;
    workspace_undone_done(&undone);
    /* Into the sandbox, with what others committed meanwhile. */
    return session_refresh_box(se, who, box, &ret->refreshed, err);
}

static int undo_to(struct session *se, const struct actor *who,
                   struct box *box, unsigned target,
                   struct session_undone *ret, struct error *err)
{
    struct session_undo *u = se->undo;
    const struct state *to = &u->states[target];
    bool redo = target > u->at;
    bool restart = !redo && to->fresh && !to->pointed; /* has no way back */
    unsigned steps = 0, from = u->at;
    int rc = session_keep_own(se, box, err);

    if (rc == 0 && !restart)
        rc = switch_memory(se, box, target, &steps, err);
    if (rc < 0)
        return rc;
    rc = undo_files(se, who, box, to->commit, ret, err);
    if (rc < 0) {
        switch_back(se, box, redo, steps);
        return rc;
    }
    if (restart) {
        rc = switch_memory(se, box, target, &steps, err);
        if (rc < 0) { /* the next execution starts one */
            box_kernel_lost(box);
            return rc;
        }
    }
    for (unsigned i = MIN(from, target) + 1; i <= MAX(from, target); i++)
        ret->helpers |= u->states[i].helper;
    mutex_lock(&se->lock);
    u->at = target;
    u->looked = false;
    if (u->states[target].fresh && !u->states[target].pointed)
        u->count = target + 1; /* a new interpreter: nothing to redo */
    mutex_unlock(&se->lock);
    return 0;
}

static void audit_undo(struct session *se, const struct actor *who, bool redo,
                       const struct session_undone *done)
{
    char detail[48];
    struct audit_event event = {.action =
                                    redo ? "session.redo" : "session.undo",
                                .workspace = se->workspace,
                                .object = se->id,
                                .after = done->commit,
                                .detail = detail};

    (void)snprintf(detail, sizeof(detail), "%u executions", done->executions);
    audit_later(se->m->core->audit, who, &event);
}

static int undo_session(struct session *se, const struct actor *who,
                        uint32_t count, bool redo, struct session_undone *ret,
                        struct error *err)
{
    struct session_undo *u;
    struct box *box = NULL;
    int rc = session_exclusive_begin(se, err);

    if (rc < 0)
        return rc;
    mutex_lock(&se->lock);
    u = se->undo;
    if (se->box)
        box = box_ref(se->box);
    mutex_unlock(&se->lock);
    if (!box || !u || (redo ? u->count - 1 - u->at : u->at) < count)
        rc = no_state(box ? u : NULL, redo, count, err);
    else if (!box_check(box))
        rc = error_set(err, ERR_GUEST, "the sandbox is gone");
    else
        rc = undo_to(se, who, box, redo ? u->at + count : u->at - count, ret,
                     err);
    session_exclusive_end(se);
    box_unref(box);
    return rc;
}

int session_undo(struct sessions *s, const struct actor *who, const char *id,
                 uint32_t count, bool redo, struct session_undone *ret,
                 struct error *err)
{
    struct session *se = session_files_begin(s, who, id, err);
    int rc;

    *ret = (struct session_undone){.executions = count, .redo = redo};
    if (!se)
        return -(int)err->code;
    rc = session_admit_memory(se, who, POLICY_UNDO, err);
    if (rc == 0)
        rc = undo_session(se, who, count, redo, ret, err);
    if (rc == 0) {
        audit_undo(se, who, redo, ret);
        session_metrics_add(s,
                            redo ? &s->counters.redone : &s->counters.undone);
        session_fill_info(se, &ret->session);
    } else {
        session_undone_done(ret);
    }
    session_files_end(se);
    return rc;
}

void session_undone_done(struct session_undone *u)
{
    buf_done(&u->kept);
    session_info_done(&u->session);
}

/* ---- for a branch ------------------------------------------------------- */

int session_state_find(struct session *se, const char *execution,
                       unsigned *ret, struct error *err)
{
    const struct session_undo *u = se->undo;

    for (unsigned i = 0; u && i <= u->at; i++)
        if (strcmp(u->states[i].execution, execution) == 0) {
            *ret = u->at - i;
            return 0;
        }
    (void)error_set(err, ERR_CONFLICT,
                    "there is no state after that execution any more");
    return error_hint(err, "leave `at` out to branch from the present state");
}

int session_state_visit(struct session *se, struct box *box, unsigned back,
                        int64_t *ret_commit,
                        int (*fn)(void *ctx, struct error *err), void *ctx,
                        struct error *err)
{
    struct session_undo *u = se->undo;
    unsigned steps = 0;
    int rc = 0;

    *ret_commit = se->own_commit;
    if (back) {
        const struct state *to = &u->states[u->at - back];

        *ret_commit = to->commit;
        if (to->memory != u->states[u->at].memory && !to->pointed)
            return no_point(u, u->at - back, err);
        rc = switch_memory(se, box, u->at - back, &steps, err);
    }
    if (rc == 0)
        rc = fn(ctx, err);
    switch_back(se, box, false, steps);
    return rc;
}
