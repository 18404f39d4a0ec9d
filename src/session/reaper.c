/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reaper: once a second it puts sessions to sleep that have been idle past
 * their cooldown or exceeded their pool's lifetime, writes last-use times to
 * the store, and drops sessions from memory that have long been dormant and
 * can be loaded again. Runs in gloveboxd on the thread "reaper"; it inspects
 * under the locks and acts without them.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define LOOK_MS 1000u
#define BATCH 64u
#define NOTE_MS 60000u    /* a use is written down after that at the latest */
#define SWEEP_MS 60000u   /* between looks for images to remove */
#define STOP_ROUNDS 64u   /* batches written at the end */
#define ASLEEP_MOST 2000u /* dormant ones kept at hand, with their history */

struct victim {
    struct session *se; /* referenced */
    struct box *box;    /* referenced */
};

static bool is_due(const struct session *se, uint64_t now)
{
    const struct conf_pool *conf = pool_conf(se->pool);

    return session_state_may(se, EV_EXPIRE) &&
           (now >= se->used_ms + session_cooldown(se) * 1000ull ||
            now >= se->woken_ms + conf->lifetime_s * 1000ull);
}

static size_t find_due(struct sessions *m, struct victim *ret)
{
    uint64_t now = clock_mono_ms();
    size_t count = 0;

    mutex_lock(&m->lock);
    for (size_t i = 0; i < m->table.size && count < BATCH; i++)
        for (struct idmap_node *n = m->table.buckets[i]; n && count < BATCH;
             n = n->next) {
            struct session *se = container_of(n, struct session, node);

            mutex_lock(&se->lock);
            if (is_due(se, now))
                ret[count++] = (struct victim){.se = session_ref(se),
                                               .box = box_ref(se->box)};
            mutex_unlock(&se->lock);
        }
    mutex_unlock(&m->lock);
    return count;
}

/* Dormant, with a row, and without a user; both locks are held. */
static bool forgettable(const struct session *se)
{
    return session_asleep(se) && se->stored && !se->pins && !se->queue_head &&
           !se->running && se->noted_at_ms == se->last_used_at_ms &&
           atomic_load(&se->refs) == 1;
}

/* Too many at hand: out with those unused for longest. One pass a second
 * over the table, and only then. */
static void forget_oldest(struct sessions *m)
{
    struct session *out[BATCH];
    size_t count = 0;
    uint64_t before = 0;

    mutex_lock(&m->lock);
    if (m->table.count > ASLEEP_MOST)
        before =
            clock_mono_ms() - (m->table.count > 2 * ASLEEP_MOST ? 0 : 60000u);
    for (size_t i = 0; before && i < m->table.size && count < BATCH; i++) {
        struct idmap_node *next, *n = m->table.buckets[i];

        for (; n && count < BATCH; n = next) {
            struct session *se = container_of(n, struct session, node);

            next = n->next;
            mutex_lock(&se->lock);
            if (forgettable(se) && se->used_ms <= before) {
                idmap_remove(&m->table, n);
                session_identifier_remove(se);
                out[count++] = se;
            }
            mutex_unlock(&se->lock);
        }
    }
    mutex_unlock(&m->lock);
    for (size_t i = 0; i < count; i++) {
        session_hooks_forget(out[i]);
        session_unref(out[i]); /* the table's */
    }
}

static void put_to_sleep(struct sessions *m)
{
    struct victim victims[BATCH];
    size_t count = find_due(m, victims);

    for (size_t i = 0; i < count; i++) {
        struct victim *v = &victims[i];

        if (session_sleep(v->se, v->box)) {
            session_metrics_add(m, &m->counters.expired);
            log_event(LOG_INFO, "session_is_dormant", "session", v->se->id,
                      NULL);
        }
        box_unref(v->box);
        session_unref(v->se);
    }
}

/* ---- when they were used ------------------------------------------------ */

/* Its row is out of date, and has been written a while ago: a restart or a
 * crash may not make it look much older than it is. */
static bool to_note(struct session *se, uint64_t now, bool all)
{
    uint64_t step = MIN(NOTE_MS, session_cooldown(se) * 250ull);

    return se->stored && se->noted_at_ms != se->last_used_at_ms &&
           (all || now >= se->noted_ms + step);
}

static size_t find_unnoted(struct sessions *m, bool all, struct session **ret)
{
    uint64_t now = clock_mono_ms();
    size_t count = 0;

    mutex_lock(&m->lock);
    for (size_t i = 0; i < m->table.size && count < BATCH; i++)
        for (struct idmap_node *n = m->table.buckets[i]; n && count < BATCH;
             n = n->next) {
            struct session *se = container_of(n, struct session, node);

            mutex_lock(&se->lock);
            if (to_note(se, now, all))
                ret[count++] = session_ref(se);
            mutex_unlock(&se->lock);
        }
    mutex_unlock(&m->lock);
    return count;
}

/* False: none was left to be noted. */
static bool note_used(struct sessions *m, bool all)
{
    struct session *list[BATCH];
    size_t count = find_unnoted(m, all, list);

    session_persist_note_all(m, list, count);
    for (size_t i = 0; i < count; i++)
        session_unref(list[i]);
    return count > 0;
}

static void reaper_main(void *arg)
{
    struct sessions *m = arg;

    while (worker_wait(&m->reaper, LOOK_MS)) {
        put_to_sleep(m);
        (void)note_used(m, false); /* the rest follows in the next round */
        forget_oldest(m);
        if (clock_mono_ms() >= m->swept_ms + SWEEP_MS) {
            m->swept_ms = clock_mono_ms();
            images_sweep(m);
        }
    }
    for (unsigned i = 0; i < STOP_ROUNDS && note_used(m, true); i++)
        ;
}

int session_reaper_start(struct sessions *m, struct error *err)
{
    return worker_start(&m->reaper, "reaper", reaper_main, m, err);
}

void session_reaper_stop(struct sessions *m)
{
    worker_stop(&m->reaper);
}
