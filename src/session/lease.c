/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions where there are several nodes (node/): a node uses a session only
 * while it has it under a lease. Runs in gloveboxd on the caller's thread;
 * sessions_lost and sessions_drain on the threads of node/.
 *
 * While a session is awake, no other node can take it, so nothing is asked.
 * One that is asleep may have been used by another node since, so each use
 * asks the store once.
 */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "node/node.h"
#include "session/session_int.h"
#include "store/store.h"

#define BATCH 64u
#define DRAIN_ROUNDS 64u

static int take(struct session *se, int64_t *ret_fence, struct error *err)
{
    return node_lease_take(se->m->nodes, se->tenant->name, se->id,
                           pool_conf(se->pool)->node_labels, ret_fence, err);
}

int session_lease_take(struct session *se, struct error *err)
{
    int64_t fence = 0;
    int rc = take(se, &fence, err);

    if (rc == 0)
        atomic_store(&se->fence, fence);
    return rc;
}

int session_lease_confirm(struct session *se, struct error *err)
{
    int64_t fence = 0, known = atomic_load(&se->fence);
    bool asleep;
    int rc;

    if (!se->m->nodes || !known) /* a single run has none */
        return 0;
    mutex_lock(&se->lock);
    asleep = session_asleep(se);
    mutex_unlock(&se->lock);
    if (!asleep)
        return 0;
    rc = take(se, &fence, err);
    if (rc < 0)
        return rc;
    return fence == known ? 0 : 1;
}

int session_lease_wake(struct session *se, struct error *err)
{
    return node_lease_set(se->m->nodes, se->id, atomic_load(&se->fence),
                          NODE_LEASE_AWAKE, err);
}

void session_lease_sleep(struct session *se)
{
    enum node_lease_state state = NODE_LEASE_AWAKE;
    struct error err;

    if (!se->m->nodes || !se->stored)
        return;
    mutex_lock(&se->lock);
    if (session_asleep(se))
        state = session_image_there(&se->image) ? NODE_LEASE_MEMORY
                                                : NODE_LEASE_ASLEEP;
    mutex_unlock(&se->lock);
    /* Otherwise it stays this node's, and is forwarded here: it works. */
    if (state != NODE_LEASE_AWAKE &&
        node_lease_set(se->m->nodes, se->id, atomic_load(&se->fence), state,
                       &err) < 0)
        log_event(LOG_WARN, "lease_not_noted", "session", se->id, "error",
                  err.message, NULL);
}

void session_lease_end(struct session *se)
{
    struct nodes *n = se->m->nodes;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err;

    if (!n || !nodes_alive(n)) /* then it ends with the node's lease */
        return;
    if (store_begin(se->m->core->store, STORE_WRITE, "ending a lease", &tx,
                    &err) < 0 ||
        node_lease_delete(n, tx, se->id, &err) < 0 ||
        store_commit(&tx, &err) < 0)
        log_event(LOG_WARN, "lease_not_ended", "session", se->id, "error",
                  err.message, NULL);
}

/* An ephemeral session has a lease and no row. The node that has it decides
 * whether the caller may see it. */
int session_lease_locate(struct sessions *m, const struct actor *who,
                         const char *id, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    struct error why = *err;
    int64_t fence;
    int rc;

    if (!m->nodes)
        return -(int)err->code;
    rc = store_begin(m->core->store, STORE_READ, "looking for a session", &tx,
                     err);
    if (rc == 0)
        rc = store_one(tx, &row, err,
                       "SELECT l.node FROM leases l LEFT JOIN sessions s"
                       " ON s.id = l.session WHERE l.session = ?1"
                       " AND l.tenant = ?2 AND l.state = 1 AND s.id IS NULL",
                       "tt", id, who->tenant);
    if (rc > 0 && strcmp(store_text(row, 0), nodes_self(m->nodes)) != 0) {
        store_rows_done(&row);
        store_rollback(&tx);
        rc = node_lease_take(m->nodes, who->tenant, id, NULL, &fence, err);
        if (rc == -ERR_ELSEWHERE)
            return rc;
    }
    *err = why;
    return -(int)err->code;
}

/* Dormant and used by no thread but the caller; both locks are held. */
static bool unused(const struct session *se)
{
    return session_asleep(se) && se->stored && !se->pins && !se->queue_head &&
           !se->running && atomic_load(&se->refs) == 2;
}

bool session_forget(struct session *se)
{
    struct sessions *m = se->m;
    bool mine;

    mutex_lock(&m->lock);
    mutex_lock(&se->lock);
    mine = unused(se) && idmap_find(&m->table, se->id) == &se->node;
    if (mine) {
        idmap_remove(&m->table, &se->node);
        session_identifier_remove(se);
    }
    mutex_unlock(&se->lock);
    mutex_unlock(&m->lock);
    if (mine) {
        session_hooks_forget(se);
        session_unref(se); /* the table's */
    }
    return mine;
}

/* ---- the whole node ----------------------------------------------------- */

/* Referenced; those that `pick` chooses. */
static size_t gather(struct sessions *m, bool awake, struct session **ret,
                     struct box **ret_box)
{
    size_t count = 0;

    mutex_lock(&m->lock);
    for (size_t i = 0; i < m->table.size && count < BATCH; i++)
        for (struct idmap_node *n = m->table.buckets[i]; n && count < BATCH;
             n = n->next) {
            struct session *se = container_of(n, struct session, node);

            mutex_lock(&se->lock);
            if (awake ? se->stored && session_state_may(se, EV_EXPIRE)
                      : session_asleep(se) && se->stored) {
                ret_box[count] = awake ? box_ref(se->box) : NULL;
                ret[count++] = session_ref(se);
            }
            mutex_unlock(&se->lock);
        }
    mutex_unlock(&m->lock);
    return count;
}

void sessions_drain(struct sessions *m)
{
    struct session *list[BATCH];
    struct box *boxes[BATCH];
    size_t count, done = 1;

    for (unsigned i = 0; i < DRAIN_ROUNDS && done; i++) {
        done = 0;
        count = gather(m, true, list, boxes);
        for (size_t j = 0; j < count; j++) {
            done += session_sleep(list[j], boxes[j]);
            box_unref(boxes[j]);
            session_unref(list[j]);
        }
        count = gather(m, false, list, boxes);
        for (size_t j = 0; j < count; j++) {
            done += session_forget(list[j]);
            session_unref(list[j]);
        }
    }
}

void sessions_lost(struct sessions *m)
{
    struct session *se;
    size_t count = 0;

    do {
        se = NULL;
        mutex_lock(&m->lock);
        for (size_t i = 0; i < m->table.size && !se; i++)
            if (m->table.buckets[i])
                se = session_ref(
                    container_of(m->table.buckets[i], struct session, node));
        mutex_unlock(&m->lock);
        if (se) {
            atomic_store(&se->lost, true);
            count += session_end(se);
            session_unref(se);
        }
    } while (se);
    if (count)
        log_event(LOG_WARN, "sandboxes_stopped", "why",
                  "the node's lease ends", NULL);
}

void sessions_node_load(struct sessions *m, struct node_load *ret)
{
    struct pool_gauge gauges[32];
    size_t count = pools_gauges(m->pools, gauges, ARRAY_SIZE(gauges));

    for (size_t i = 0; i < count; i++)
        ret->ready += gauges[i].ready;
    ret->awake = atomic_load(&m->live);
    ret->queued = atomic_load(&m->active);
}
