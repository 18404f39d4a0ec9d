/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ready pools: sandboxes created ahead with exactly the settings of a pool, so
 * that a new session only takes one over. Runs in gloveboxd; the thread
 * "pool-refill" refills all pools, a moment after a take, so that it does not
 * compete with the session that took, and with a growing delay while creating
 * fails.
 *
 * Ready boxes of configured pools have reserved slots at the warden. Ready
 * boxes of pools created later use what sessions leave of max_sessions, and
 * are given back when sessions need the place.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define SETTLE_MS 5u        /* of quiet after a take */
#define SETTLE_MOST_MS 100u /* but refill at last under steady taking */
#define BACKOFF_FIRST_MS 100u
#define BACKOFF_MOST_MS 30000u
#define LOOK_MS 1000u

static bool as_ready(const struct pool *pool, const struct runtime *runtime,
                     const struct warden_limits *limits)
{
    return runtime == pool->runtime &&
           memcmp(limits, &pool->limits, sizeof(*limits)) == 0;
}

static struct box *pop(struct sessions *m, struct pool *pool,
                       const struct runtime *runtime,
                       const struct warden_limits *limits)
{
    struct box *box = NULL;

    mutex_lock(&m->pool_lock);
    if (as_ready(pool, runtime, limits)) {
        if (pool->ready_count)
            box = pool->ready[--pool->ready_count];
        pool->last_take_ms = clock_mono_ms();
        cond_signal(&m->pool_cond);
    }
    mutex_unlock(&m->pool_lock);
    return box;
}

static void let_go(struct box *box)
{
    box_release(box);
    box_unref(box);
}

struct box *session_pool_take(struct sessions *m, struct pool *pool,
                              const struct runtime *runtime,
                              const struct warden_limits *limits)
{
    struct box *box;

    while ((box = pop(m, pool, runtime, limits))) {
        if (box_check(box) && box_kernel_alive(box))
            return box;
        let_go(box);
    }
    return NULL;
}

/* ---- other settings ----------------------------------------------------- */

/* The last one beyond `keep`, or NULL. */
static struct box *pop_beyond(struct sessions *m, struct pool *pool,
                              unsigned keep)
{
    struct box *box = NULL;

    mutex_lock(&m->pool_lock);
    if (pool->ready_count > keep)
        box = pool->ready[--pool->ready_count];
    mutex_unlock(&m->pool_lock);
    return box;
}

static void release_beyond(struct sessions *m, struct pool *pool,
                           unsigned keep)
{
    struct box *box;

    while ((box = pop_beyond(m, pool, keep)))
        let_go(box);
}

void session_pool_set(struct sessions *m, struct pool *pool,
                      const struct conf_pool *conf, struct runtime *runtime,
                      const struct warden_limits *limits)
{
    struct box **unfit = NULL;
    unsigned count = 0;

    mutex_lock(&m->pool_lock);
    if (!as_ready(pool, runtime, limits)) {
        count = pool->ready_count;
        unfit = xcalloc(MAX(count, 1u), sizeof(struct box *));
        memcpy(unfit, pool->ready, count * sizeof(struct box *));
        pool->ready_count = 0;
        pool->changes++;
    }
    pool->limits = *limits;
    atomic_store(&pool->runtime, runtime);
    atomic_store(&pool->conf, conf);
    cond_signal(&m->pool_cond);
    mutex_unlock(&m->pool_lock);
    for (unsigned i = 0; i < count; i++)
        let_go(unfit[i]);
    free(unfit);
    release_beyond(m, pool, conf->ready);
}

void session_pool_empty(struct sessions *m, struct pool *pool)
{
    release_beyond(m, pool, 0);
}

/* ---- refilling ---------------------------------------------------------- */

/* pool_lock is held, here and below. */
static unsigned made_ready(const struct sessions *m)
{
    unsigned sum = 0;

    for (size_t i = 0; i < m->made_count; i++)
        sum += m->made[i]->ready_count;
    return sum;
}

static bool room_for_made(const struct sessions *m)
{
    return m->made_count &&
           atomic_load(&m->live) + made_ready(m) < m->conf->max_sessions;
}

/* A pool of the configuration that keeps none ready still proves once that it
 * could start a session. */
static bool wants_one(const struct pool *pool, bool room)
{
    bool short_of = pool->ready_count < pool->conf->ready;

    if (pool->made)
        return short_of && room && !atomic_load(&pool->gone);
    return short_of || !atomic_load(&atomic_load(&pool->runtime)->up);
}

/* The pool most in need that may be tried now, or NULL and when to look
 * again. What runs or was just taken comes first, for a while. */
static struct pool *choose(struct sessions *m, uint64_t now,
                           uint64_t *ret_again_ms)
{
    bool busy = atomic_load(&m->active) > 0;
    bool room = room_for_made(m);
    struct pool *best = NULL;
    uint64_t again = now + LOOK_MS;
    bool wanted = false;

    for (size_t i = 0; i < session_pools_count(m); i++) {
        struct pool *p = session_pools_at(m, i);
        uint64_t quiet = busy ? now + SETTLE_MS : p->last_take_ms + SETTLE_MS;
        uint64_t from = p->not_before_ms;

        if (!wants_one(p, room))
            continue;
        wanted = true;
        if (!m->wanting_ms)
            m->wanting_ms = now;
        if (now < m->wanting_ms + SETTLE_MOST_MS)
            from = MAX(from, quiet);
        if (from > now)
            again = MIN(again, from);
        else if (!best || p->ready_count < best->ready_count)
            best = p;
    }
    if (!wanted)
        m->wanting_ms = 0;
    *ret_again_ms = again;
    return best;
}

/* One that sessions need the place of, or NULL. */
static struct box *give_back(struct sessions *m)
{
    struct pool *most = NULL;

    if (atomic_load(&m->live) + made_ready(m) <= m->conf->max_sessions)
        return NULL;
    for (size_t i = 0; i < m->made_count; i++)
        if (!most || m->made[i]->ready_count > most->ready_count)
            most = m->made[i];
    return most && most->ready_count ? most->ready[--most->ready_count] : NULL;
}

static void note_failure(struct pool *pool, const struct error *err)
{
    bool first = pool->backoff_ms == 0;

    pool->backoff_ms =
        first ? BACKOFF_FIRST_MS : MIN(pool->backoff_ms * 2, BACKOFF_MOST_MS);
    pool->not_before_ms = clock_mono_ms() + pool->backoff_ms;
    log_event(first ? LOG_WARN : LOG_DEBUG, "pool_refill_failed", "pool",
              pool->conf->name, "error", err->message, "hint", err->hint,
              NULL);
}

/* Still wanted, made as the pool wants them now, and there is room. */
static bool may_park(struct sessions *m, const struct pool *pool,
                     unsigned changes)
{
    return pool->changes == changes && pool->ready_count < pool->conf->ready &&
           !atomic_load(&pool->gone) && !atomic_load(&m->stopping);
}

/* The lock is not held while the box is made; it is parked, or let go when
 * the pool no longer has a use for it. */
static void refill_one(struct sessions *m, struct pool *pool)
{
    struct runtime *runtime = pool->runtime;
    struct warden_limits limits = pool->limits;
    unsigned changes = pool->changes;
    struct box *box = NULL;
    struct error err;
    uint32_t handle;
    int rc;

    (void)session_pool_ref(pool);
    mutex_unlock(&m->pool_lock);
    rc = session_runtime_handle(m, runtime, &handle, &err);
    if (rc == 0)
        rc = box_open(m->link, handle, &limits, NULL, 0, true, &m->stopping,
                      &box, &err);
    if (box) /* made aside; who takes it has the usual turn */
        box_set_background(box, false);
    mutex_lock(&m->pool_lock);
    if (rc < 0) {
        note_failure(pool, &err);
    } else {
        pool->backoff_ms = 0;
        atomic_store(&runtime->up, true);
        if (may_park(m, pool, changes))
            pool->ready[pool->ready_count++] = take_ptr(box);
    }
    mutex_unlock(&m->pool_lock);
    if (box)
        let_go(box);
    session_pool_unref(pool);
    mutex_lock(&m->pool_lock);
}

static void pool_refill_main(void *arg)
{
    struct sessions *m = arg;

    mutex_lock(&m->pool_lock);
    while (!atomic_load(&m->stopping)) {
        struct box *box = give_back(m);
        struct pool *pool = NULL;
        uint64_t again;

        if (box) {
            mutex_unlock(&m->pool_lock);
            let_go(box);
            mutex_lock(&m->pool_lock);
            continue;
        }
        pool = choose(m, clock_mono_ms(), &again);
        if (pool)
            refill_one(m, pool);
        else
            (void)cond_wait_until(&m->pool_cond, &m->pool_lock, again);
    }
    mutex_unlock(&m->pool_lock);
}

int session_pool_start(struct sessions *m, struct error *err)
{
    for (size_t i = 0; i < m->pool_count; i++)
        m->pools[i].ready =
            xcalloc(MAX(m->conf->pools[i].ready, 1u), sizeof(struct box *));
    return thread_start(&m->refill, "pool-refill", pool_refill_main, m, err);
}

/* Calls under way find no ready box any more, and none is made. */
void session_pool_stop(struct sessions *m)
{
    mutex_lock(&m->pool_lock);
    cond_broadcast(&m->pool_cond);
    mutex_unlock(&m->pool_lock);
    thread_join(&m->refill);
    mutex_lock(&m->pool_lock);
    for (size_t i = 0; i < session_pools_count(m); i++) {
        struct pool *p = session_pools_at(m, i);

        (void)session_pool_ref(p);
        mutex_unlock(&m->pool_lock);
        session_pool_empty(m, p);
        session_pool_unref(p);
        mutex_lock(&m->pool_lock);
    }
    mutex_unlock(&m->pool_lock);
    for (size_t i = 0; i < m->pool_count; i++)
        free(take_ptr(m->pools[i].ready));
}
