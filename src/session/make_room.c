/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes room under the limits on live sessions (R8): when a sandbox is needed
 * and a limit is reached, the longest-idle session of the same tenant goes to
 * sleep, as if its cooldown had passed: it hibernates, or its files are
 * committed and its next execution reports that its variables are gone. Those
 * whose sandbox has run nothing go first. Runs in gloveboxd on the thread that
 * needs the sandbox, without a lock held.
 *
 * These never go to sleep here:
 *
 *   a session that runs or queues code, or whose files are read or written
 *   an ephemeral session: its files exist in the sandbox alone
 *   the session of a single run, which ends with it
 *   a session used within the last few seconds
 *   a session that a client keeps awake (an open `glovebox shell`)
 *   a session of another tenant
 *
 * If nothing is left, the caller is refused, and Retry-After is the time until
 * the first of these sessions can go to sleep.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "quota/quota.h"
#include "session/session_int.h"

/* A session that was used this recently is probably about to be used again. */
#define GRACE_MS 5000u
/* When code will end is not known: ask again after this. */
#define RUNNING_MS 5000u
#define SLEEP_MAX 64u /* sessions that go to sleep for one sandbox */

/* The resources that are missing for one more sandbox. */
struct need {
    bool one;                /* a session must go to sleep */
    uint64_t bytes;          /* sessions with this memory in all must */
    const struct pool *pool; /* in this pool; NULL: in any */
    bool hopeless;           /* more than the limit by itself */
};

/* The sessions of the tenant that hold a place. */
struct survey {
    struct session *best; /* referenced */
    struct box *box;      /* referenced */
    bool best_unused;
    uint64_t best_used_ms;
    uint64_t bytes; /* memory of those that can go to sleep */
    struct session_room room;
};

static void add_bytes(struct need *need, uint64_t missing)
{
    if (missing == UINT64_MAX)
        need->hopeless = true;
    need->bytes = MAX(need->bytes, missing);
}

static struct need find_need(const struct sessions *m, const struct tenant *t,
                             const struct pool *pool,
                             const struct warden_limits *limits)
{
    struct need need = {0};

    add_bytes(&need, session_limits_missing(m, limits));
    add_bytes(&need, quota_missing(m->core->quotas, t->name, QUOTA_MEMORY,
                                   limits->memory_bytes));
    need.one = need.bytes > 0 ||
               atomic_load(&m->live) >= m->conf->max_sessions ||
               quota_missing(m->core->quotas, t->name, QUOTA_SESSIONS, 1) > 0;
    if (pool_sessions(pool) >= pool_conf(pool)->max_sessions) {
        need.one = true;
        need.pool = pool;
    }
    return need;
}

static void note_wait(struct session_room *room, uint64_t ms)
{
    ms = MAX(ms, 1u);
    room->retry_ms = room->retry_ms ? MIN(room->retry_ms, ms) : ms;
}

/* Both locks are held. */
static void survey_session(struct survey *s, struct session *se, uint64_t now)
{
    bool unused = !box_is_touched(se->box);
    uint64_t free_ms = unused ? 0 : se->used_ms + GRACE_MS;

    if (!session_state_may(se, EV_EXPIRE)) {
        s->room.busy++;
        note_wait(&s->room, RUNNING_MS);
        return;
    }
    if (se->ephemeral || se->transient) {
        free_ms = se->used_ms + session_cooldown(se) * 1000ull;
        s->room.ephemeral++;
        note_wait(&s->room, free_ms > now ? free_ms - now : 0);
        return;
    }
    free_ms = MAX(free_ms, se->keep_ms);
    if (free_ms > now) {
        s->room.recent++;
        note_wait(&s->room, free_ms - now);
        return;
    }
    s->bytes += se->limits.memory_bytes;
    if (s->best &&
        (s->best_unused > unused ||
         (s->best_unused == unused && s->best_used_ms <= se->used_ms)))
        return;
    session_unref(s->best);
    if (s->box)
        box_unref(s->box);
    s->best = session_ref(se);
    s->box = box_ref(se->box);
    s->best_unused = unused;
    s->best_used_ms = se->used_ms;
}

static struct survey survey_tenant(struct sessions *m, const struct tenant *t,
                                   const struct pool *pool)
{
    uint64_t now = clock_mono_ms();
    struct survey s = {0};

    mutex_lock(&m->lock);
    for (size_t i = 0; i < m->table.size; i++)
        for (struct idmap_node *n = m->table.buckets[i]; n; n = n->next) {
            struct session *se = container_of(n, struct session, node);

            if (se->tenant != t || (pool && se->pool != pool))
                continue;
            mutex_lock(&se->lock);
            if (se->phase == PHASE_UP)
                survey_session(&s, se, now);
            mutex_unlock(&se->lock);
        }
    mutex_unlock(&m->lock);
    return s;
}

/* False: it was used meanwhile. */
static bool put_to_sleep(struct sessions *m, struct session *se,
                         struct box *box, uint64_t used_ms)
{
    char idle[24];

    (void)snprintf(idle, sizeof(idle), "%llu",
                   (unsigned long long)((clock_mono_ms() - used_ms) / 1000));
    if (!session_sleep(se, box))
        return false;
    session_metrics_add(m, &m->counters.made_room);
    log_event(LOG_INFO, "session_slept_for_room", "session", se->id, "tenant",
              se->tenant->name, "idle_s", idle, NULL);
    return true;
}

void session_make_room(struct sessions *m, const struct tenant *t,
                       const struct pool *pool,
                       const struct warden_limits *limits,
                       struct session_room *ret)
{
    *ret = (struct session_room){0};
    for (unsigned i = 0; i < SLEEP_MAX; i++) {
        struct need need = find_need(m, t, pool, limits);
        struct survey s;
        bool enough;

        if (!need.one || need.hopeless)
            return;
        s = survey_tenant(m, t, need.pool);
        enough = s.best && s.bytes >= need.bytes;
        if (enough) {
            ret->made |= put_to_sleep(m, s.best, s.box, s.best_used_ms);
        } else {
            s.room.made = ret->made;
            *ret = s.room;
        }
        session_unref(s.best);
        if (s.box)
            box_unref(s.box);
        if (!enough)
            return;
    }
}

int session_room_explain(const struct session_room *room, struct error *err)
{
    if (!room->busy && !room->ephemeral && !room->recent)
        return -(int)err->code;
    (void)error_hint(err,
                     "none of your sessions can go to sleep now: %u in use, "
                     "%u used or kept awake in the last seconds, %u "
                     "ephemeral; try again later, or delete one",
                     room->busy, room->recent, room->ephemeral);
    return error_retry(err, (int)MIN((room->retry_ms + 999) / 1000, 86400u));
}
