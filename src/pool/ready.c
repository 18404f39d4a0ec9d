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
#include "pool/pool_int.h"

#define SETTLE_MS 5u        /* of quiet after a take */
#define SETTLE_MOST_MS 100u /* but refill at last under steady taking */
#define BACKOFF_FIRST_MS 100u
#define BACKOFF_MOST_MS 30000u
#define LOOK_MS 1000u
#define IMAGES_MS 3000u /* between two looks for new images */

static bool as_ready(const struct pool *pool, const struct runtime *runtime,
                     const struct warden_limits *limits)
{
    return runtime == pool->runtime &&
           memcmp(limits, &pool->limits, sizeof(*limits)) == 0;
}

static struct box *pop_box(struct pools *ps, struct pool *pool,
                           const struct runtime *runtime,
                           const struct warden_limits *limits)
{
    struct box *box = NULL;

    mutex_lock(&ps->lock);
    if (as_ready(pool, runtime, limits)) {
        if (pool->ready_count)
            box = pool->ready[--pool->ready_count];
        pool->last_take_ms = clock_mono_ms();
        cond_signal(&ps->cond);
    }
    mutex_unlock(&ps->lock);
    return box;
}

static void let_go(struct box *box)
{
    box_release(box);
    box_unref(box);
}

struct box *pool_take(struct pools *ps, struct pool *pool,
                      const struct runtime *runtime,
                      const struct warden_limits *limits)
{
    struct box *box;

    while ((box = pop_box(ps, pool, runtime, limits))) {
        if (box_check(box) && box_kernel_alive(box))
            return box;
        let_go(box);
    }
    return NULL;
}

/* ---- other settings ----------------------------------------------------- */

/* The last one beyond `keep`, or NULL. */
static struct box *pop_beyond(struct pools *ps, struct pool *pool,
                              unsigned keep)
{
    struct box *box = NULL;

    mutex_lock(&ps->lock);
    if (pool->ready_count > keep)
        box = pool->ready[--pool->ready_count];
    mutex_unlock(&ps->lock);
    return box;
}

static void release_beyond(struct pools *ps, struct pool *pool, unsigned keep)
{
    struct box *box;

    while ((box = pop_beyond(ps, pool, keep)))
        let_go(box);
}

void pool_set(struct pools *ps, struct pool *pool,
              const struct conf_pool *conf, struct runtime *runtime,
              const struct warden_limits *limits)
{
    struct box **unfit = NULL;
    unsigned count = 0;

    mutex_lock(&ps->lock);
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
    cond_signal(&ps->cond);
    mutex_unlock(&ps->lock);
    for (unsigned i = 0; i < count; i++)
        let_go(unfit[i]);
    free(unfit);
    release_beyond(ps, pool, conf->ready);
}

void pool_empty(struct pools *ps, struct pool *pool)
{
    release_beyond(ps, pool, 0);
}

void pools_renew(struct pools *ps)
{
    mutex_lock(&ps->lock);
    for (size_t i = 0; i < pools_count(ps); i++) {
        struct pool *p = pool_ref(pools_at(ps, i));

        p->changes++;
        mutex_unlock(&ps->lock);
        pool_empty(ps, p);
        pool_unref(p);
        mutex_lock(&ps->lock);
    }
    cond_signal(&ps->cond);
    mutex_unlock(&ps->lock);
}

/* ---- refilling ---------------------------------------------------------- */

/* The caller of this and the following functions holds ps->lock. */
static unsigned made_ready(const struct pools *ps)
{
    unsigned sum = 0;

    mutex_assert_held(&ps->lock);
    for (size_t i = 0; i < ps->made_count; i++)
        sum += ps->made[i]->ready_count;
    return sum;
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
static struct pool *choose_pool(struct pools *ps, uint64_t now,
                                uint64_t *ret_again_ms)
{
    bool busy = atomic_load(ps->parts.active) > 0;
    bool room =
        ps->made_count &&
        atomic_load(ps->parts.live) + made_ready(ps) < ps->conf->max_sessions;
    struct pool *best = NULL;
    uint64_t again = now + LOOK_MS;
    bool wanted = false;

    for (size_t i = 0; i < pools_count(ps); i++) {
        struct pool *p = pools_at(ps, i);
        uint64_t quiet = busy ? now + SETTLE_MS : p->last_take_ms + SETTLE_MS;
        uint64_t from = p->not_before_ms;

        if (!wants_one(p, room))
            continue;
        wanted = true;
        if (!ps->wanting_ms)
            ps->wanting_ms = now;
        if (now < ps->wanting_ms + SETTLE_MOST_MS)
            from = MAX(from, quiet);
        if (from > now)
            again = MIN(again, from);
        else if (!best || p->ready_count < best->ready_count)
            best = p;
    }
    if (!wanted)
        ps->wanting_ms = 0;
    *ret_again_ms = again;
    return best;
}

/* One that sessions need the place of, or NULL. */
static struct box *give_back(struct pools *ps)
{
    struct pool *most = NULL;

    if (atomic_load(ps->parts.live) + made_ready(ps) <= ps->conf->max_sessions)
        return NULL;
    for (size_t i = 0; i < ps->made_count; i++)
        if (!most || ps->made[i]->ready_count > most->ready_count)
            most = ps->made[i];
    return most && most->ready_count ? most->ready[--most->ready_count] : NULL;
}

/* The pool still wants a box with these settings and has room for it. */
static bool may_park(struct pools *ps, const struct pool *pool,
                     unsigned changes)
{
    return pool->changes == changes && pool->ready_count < pool->conf->ready &&
           !atomic_load(&pool->gone) && !atomic_load(ps->parts.stopping);
}

/* The lock is not held while the box is made; it is parked, or let go when
 * the pool no longer has a use for it. */
static void refill_one(struct pools *ps, struct pool *pool)
{
    struct runtime *runtime = pool->runtime;
    struct warden_limits limits = pool->limits;
    const char *tier = pool->conf->isolation; /* outlives every pool */
    unsigned changes = pool->changes;
    struct box *box = NULL;
    struct error err;
    uint32_t handle;
    int rc;

    (void)pool_ref(pool);
    mutex_unlock(&ps->lock);
    rc = runtime_handle(ps, runtime, &handle, &err);
    if (rc == 0)
        rc = box_open(ps->parts.link,
                      &(struct box_spec){.runtime = handle,
                                         .tier = tier,
                                         .limits = &limits,
                                         .background = true},
                      ps->parts.stopping, &box, NULL, &err);
    if (box) /* created in the background, used in the foreground */
        box_set_background(box, false);
    mutex_lock(&ps->lock);
    if (rc < 0) {
        bool first = pool->backoff_ms == 0;

        pool->backoff_ms = first ? BACKOFF_FIRST_MS
                                 : MIN(pool->backoff_ms * 2, BACKOFF_MOST_MS);
        pool->not_before_ms = clock_mono_ms() + pool->backoff_ms;
        log_event(first ? LOG_WARN : LOG_DEBUG, "pool_refill_failed", "pool",
                  pool->conf->name, "error", err.message, "hint", err.hint,
                  NULL);
    } else {
        pool->backoff_ms = 0;
        atomic_store(&runtime->up, true);
        if (may_park(ps, pool, changes))
            pool->ready[pool->ready_count++] = take_ptr(box);
    }
    mutex_unlock(&ps->lock);
    if (box)
        let_go(box);
    pool_unref(pool);
    mutex_lock(&ps->lock);
}

static void pool_refill_main(void *arg)
{
    struct pools *ps = arg;

    mutex_lock(&ps->lock);
    while (!atomic_load(ps->parts.stopping)) {
        struct box *box = give_back(ps);
        struct pool *pool = NULL;
        uint64_t again;

        if (box) {
            mutex_unlock(&ps->lock);
            let_go(box);
            mutex_lock(&ps->lock);
            continue;
        }
        if (clock_mono_ms() - ps->looked_ms >= IMAGES_MS) {
            mutex_unlock(&ps->lock);
            runtimes_look(ps);
            mutex_lock(&ps->lock);
            ps->looked_ms = clock_mono_ms();
            continue;
        }
        pool = choose_pool(ps, clock_mono_ms(), &again);
        if (pool)
            refill_one(ps, pool);
        else
            (void)cond_wait_until(&ps->cond, &ps->lock, again);
    }
    mutex_unlock(&ps->lock);
}

int pools_start(struct pools *ps, struct error *err)
{
    for (size_t i = 0; i < ps->pool_count; i++)
        ps->pools[i].ready =
            xcalloc(MAX(ps->conf->pools[i].ready, 1u), sizeof(struct box *));
    return thread_start(&ps->refill, "pool-refill", pool_refill_main, ps, err);
}

/* Calls under way find no ready box any more, and none is made. */
void pools_stop(struct pools *ps)
{
    mutex_lock(&ps->lock);
    cond_broadcast(&ps->cond);
    mutex_unlock(&ps->lock);
    thread_join(&ps->refill);
    mutex_lock(&ps->lock);
    for (size_t i = 0; i < pools_count(ps); i++) {
        struct pool *p = pools_at(ps, i);

        (void)pool_ref(p);
        mutex_unlock(&ps->lock);
        pool_empty(ps, p);
        pool_unref(p);
        mutex_lock(&ps->lock);
    }
    mutex_unlock(&ps->lock);
    for (size_t i = 0; i < ps->pool_count; i++)
        free(take_ptr(ps->pools[i].ready));
}
