/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ready pools: sandboxes made ahead with exactly a pool's settings, so that
 * taking one is a hand-over. Runs in gloveboxd; one thread refills them all,
 * a moment after a take so that it does not compete with the taker, and
 * slower and slower while making them fails.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session_int.h"

#define SETTLE_MS 5u        /* of quiet after a take */
#define SETTLE_MOST_MS 100u /* but refill at last under steady taking */
#define BACKOFF_FIRST_MS 100u
#define BACKOFF_MOST_MS 30000u
#define LOOK_MS 1000u

struct pool *session_pool_find(struct sessions *m, const char *name)
{
    if (!name || !name[0])
        return &m->pools[0];
    for (size_t i = 0; i < m->pool_count; i++)
        if (strcmp(m->pools[i].conf->name, name) == 0)
            return &m->pools[i];
    return NULL;
}

static struct box *pop(struct sessions *m, struct pool *pool)
{
    struct box *box = NULL;

    pthread_mutex_lock(&m->pool_lock);
    if (pool->ready_count)
        box = pool->ready[--pool->ready_count];
    pool->last_take_ms = clock_mono_ms();
    pthread_cond_signal(&m->pool_cond);
    pthread_mutex_unlock(&m->pool_lock);
    return box;
}

struct box *session_pool_take(struct sessions *m, struct pool *pool)
{
    struct box *box;

    while ((box = pop(m, pool))) {
        if (session_box_check(box) && box->kernel_alive)
            return box;
        session_box_release(box);
        session_box_unref(box);
    }
    return NULL;
}

/* ---- refilling ---------------------------------------------------------- */

/* pool_lock is held. A pool that keeps none ready still proves once that it
 * could start a session. */
static bool wants_one(const struct pool *pool)
{
    return pool->ready_count < pool->conf->ready ||
           !atomic_load(&pool->runtime->up);
}

/* The pool most in need that may be tried now, or NULL and when to look
 * again. pool_lock is held. What runs or was just taken comes first, for a
 * while. */
static struct pool *choose(struct sessions *m, uint64_t now,
                           uint64_t *ret_again_ms)
{
    bool busy = atomic_load(&m->active) > 0;
    struct pool *best = NULL;
    uint64_t again = now + LOOK_MS;
    bool wanted = false;

    for (size_t i = 0; i < m->pool_count; i++) {
        struct pool *p = &m->pools[i];
        uint64_t quiet = busy ? now + SETTLE_MS : p->last_take_ms + SETTLE_MS;
        uint64_t from = p->not_before_ms;

        if (!wants_one(p))
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

/* Under way without the lock; the box is parked, or let go when the pool has
 * no room for it. */
static void refill_one(struct sessions *m, struct pool *pool)
{
    struct box *box = NULL;
    struct error err;
    uint32_t handle;
    int rc = session_runtime_handle(m, pool->runtime, &handle, &err);

    if (rc == 0)
        rc = session_box_open(m->link, handle, &pool->limits, NULL, 0,
                              &m->stopping, &box, &err);
    pthread_mutex_lock(&m->pool_lock);
    if (rc < 0) {
        note_failure(pool, &err);
    } else {
        pool->backoff_ms = 0;
        atomic_store(&pool->runtime->up, true);
        if (pool->ready_count < pool->conf->ready &&
            !atomic_load(&m->stopping))
            pool->ready[pool->ready_count++] = take_ptr(box);
    }
    pthread_mutex_unlock(&m->pool_lock);
    if (box) {
        session_box_release(box);
        session_box_unref(box);
    }
}

static void *refill_thread(void *arg)
{
    struct sessions *m = arg;

    pthread_mutex_lock(&m->pool_lock);
    while (!atomic_load(&m->stopping)) {
        uint64_t again;
        struct pool *pool = choose(m, clock_mono_ms(), &again);

        if (!pool) {
            (void)session_cond_wait(&m->pool_cond, &m->pool_lock, again);
            continue;
        }
        pthread_mutex_unlock(&m->pool_lock);
        refill_one(m, pool);
        pthread_mutex_lock(&m->pool_lock);
    }
    pthread_mutex_unlock(&m->pool_lock);
    return NULL;
}

int session_pool_start(struct sessions *m, struct error *err)
{
    int rc;

    for (size_t i = 0; i < m->pool_count; i++)
        m->pools[i].ready =
            xcalloc(MAX(m->pools[i].conf->ready, 1u), sizeof(struct box *));
    rc = pthread_create(&m->refill, NULL, refill_thread, m);
    if (rc != 0)
        return error_errno(err, ERR_INTERNAL, rc, "cannot start a thread");
    m->refill_started = true;
    return 0;
}

void session_pool_stop(struct sessions *m)
{
    pthread_mutex_lock(&m->pool_lock);
    pthread_cond_broadcast(&m->pool_cond);
    pthread_mutex_unlock(&m->pool_lock);
    if (m->refill_started)
        (void)pthread_join(m->refill, NULL); /* ours, joined once */
    m->refill_started = false;
    for (size_t i = 0; i < m->pool_count; i++) {
        struct pool *p = &m->pools[i];

        while (p->ready_count) {
            struct box *box = p->ready[--p->ready_count];

            session_box_release(box);
            session_box_unref(box);
        }
        free(take_ptr(p->ready));
    }
}
