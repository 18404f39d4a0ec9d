/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics for operators: counters and histograms of this module, and a
 * snapshot of pools and states. Runs in gloveboxd; the lock of the counters is
 * a leaf.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

const double session_histogram_bounds_ms[SESSION_HISTOGRAM_BUCKETS] = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20000, 120000, 900000,
};

bool session_usage_so_far(struct session *se, struct warden_usage *ret,
                          uint64_t *ret_memory)
{
    struct box *box = NULL;
    bool there;

    mutex_lock(&se->lock);
    if (se->box)
        box = box_ref(se->box);
    mutex_unlock(&se->lock);
    there = box && box_usage_so_far(box, ret, ret_memory);
    box_unref(box);
    return there;
}

void session_metrics_add(struct sessions *m, uint64_t *counter)
{
    mutex_lock(&m->counters.lock);
    (*counter)++;
    mutex_unlock(&m->counters.lock);
}

void session_metrics_refused(struct sessions *m, const struct error *err)
{
    if (err->code == ERR_LIMIT)
        session_metrics_add(m, &m->counters.refusals_limit);
    else if (err->code == ERR_BUSY)
        session_metrics_add(m, &m->counters.refusals_busy);
}

void session_metrics_outcome(struct sessions *m, enum exec_outcome outcome,
                             bool started, uint64_t wall_us)
{
    session_metrics_add(m, &m->counters.outcomes[outcome]);
    if (started)
        session_metrics_time(m, &m->counters.execution, wall_us);
}

void session_metrics_time(struct sessions *m, struct session_histogram *h,
                          uint64_t us)
{
    size_t i = 0;

    while (i < SESSION_HISTOGRAM_BUCKETS &&
           (double)us > session_histogram_bounds_ms[i] * 1000)
        i++;
    mutex_lock(&m->counters.lock);
    h->buckets[i]++;
    h->sum_us += us;
    h->count++;
    mutex_unlock(&m->counters.lock);
}

const char *session_memory_event_name(size_t number)
{
    static const char *const names[SESSION_MEMORY_EVENTS] = {
        "hibernated", "not_hibernated", "resumed", "not_resumed",
        "undone",     "redone",         "branched"};

    return names[number];
}

static void count_states(struct sessions *m, struct session_metrics *ret)
{
    for (size_t i = 0; i < m->table.size; i++)
        for (struct idmap_node *n = m->table.buckets[i]; n; n = n->next) {
            struct session *se = container_of(n, struct session, node);

            mutex_lock(&se->lock);
            ret->by_state[session_state_shown(se)]++;
            mutex_unlock(&se->lock);
        }
}

/* The configuration's, and made ones as far as there is room. */
static void count_pools(struct sessions *m, struct session_metrics *ret)
{
    struct pool_gauge gauges[ARRAY_SIZE(ret->pools)];

    ret->pool_count = pools_gauges(m->pools, gauges, ARRAY_SIZE(gauges));
    for (size_t i = 0; i < ret->pool_count; i++) {
        memcpy(ret->pools[i].name, gauges[i].name, sizeof(ret->pools[i].name));
        ret->pools[i].ready = gauges[i].ready;
        ret->pools[i].wanted = gauges[i].wanted;
        ret->pools[i].sessions = gauges[i].sessions;
    }
}

void sessions_metrics(struct sessions *s, struct session_metrics *ret)
{
    struct counters *c = &s->counters;

    memset(ret, 0, sizeof(*ret));
    ret->memory_granted = atomic_load(&s->granted);
    mutex_lock(&s->lock);
    count_states(s, ret);
    ret->by_state[SESSION_STARTING] += atomic_load(&s->creating);
    ret->executions_active = s->active;
    mutex_unlock(&s->lock);
    count_pools(s, ret);
    mutex_lock(&c->lock);
    memcpy(ret->outcomes, c->outcomes, sizeof(ret->outcomes));
    ret->refusals_limit = c->refusals_limit;
    ret->refusals_busy = c->refusals_busy;
    ret->created = c->created;
    ret->deleted = c->deleted;
    ret->woken = c->woken;
    ret->expired = c->expired;
    ret->made_room = c->made_room;
    memcpy(ret->memory,
           (uint64_t[]){c->hibernated, c->hibernate_failed, c->resumed,
                        c->resume_failed, c->undone, c->redone, c->branched},
           sizeof(ret->memory));
    ret->ready_taken = c->ready_taken;
    ret->ready_missed = c->ready_missed;
    ret->start = c->start;
    ret->execution = c->execution;
    mutex_unlock(&c->lock);
}
