/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of sessions: which node has a session, under which fence; see node.h.
 * Runs in gloveboxd on the caller's thread. Nothing here is cached: the row
 * decides.
 *
 * A session that is asleep belongs to no node in particular, so any node may
 * take it; the statement that takes it compares what was read, so of two nodes
 * one wins. A session that is awake stays where it is as long as the lease of
 * that node holds. One whose memory is on the disk of a node stays with that
 * node while it is active.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "node/node_int.h"
#include "store/store.h"

#define TRIES 4

struct lease_row {
    char node[ID_MAX];
    int64_t fence;
    enum node_lease_state state;
    bool alive, active; /* the node's own lease; and it is not draining */
};

/* 1, 0 when there is none, or -code. */
static int read_row(struct store_tx *tx, const char *session,
                    struct lease_row *ret, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int64_t now = 0;
    int r = store_now(tx, &now, err);

    if (r == 0)
        r = store_one(tx, &row, err,
                      "SELECT l.node, l.fence, l.state,"
                      " coalesce(n.lease_until_ms, 0), coalesce(n.state, '')"
                      " FROM leases l LEFT JOIN nodes n ON n.id = l.node"
                      " WHERE l.session = ?1",
                      "t", session);
    if (r <= 0)
        return r;
    store_copy(row, 0, ret->node, sizeof(ret->node));
    ret->fence = store_int(row, 1);
    ret->state = (enum node_lease_state)store_int(row, 2);
    ret->alive =
        store_int(row, 3) > now && strcmp(store_text(row, 4), "gone") != 0;
    ret->active = ret->alive && strcmp(store_text(row, 4), "active") == 0;
    return 1;
}

static bool may_take(const struct lease_row *l)
{
    if (!l->node[0] || !l->alive)
        return true;
    return l->state == NODE_LEASE_ASLEEP ||
           (l->state == NODE_LEASE_MEMORY && !l->active);
}

struct take {
    struct nodes *n;
    const char *tenant, *session;
    struct lease_row row; /* as read, or made */
    bool found;
};

static int take_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct take *t = ctx;
    int r;

    if (!t->found)
        r = store_exec(tx, err,
                       "INSERT INTO leases (session, tenant, node, fence,"
                       " state) VALUES (?1, ?2, ?3, 1, 0)"
                       " ON CONFLICT (session) DO NOTHING",
                       "ttt", t->session, t->tenant, t->n->id);
    else
        r = store_exec(tx, err,
                       "UPDATE leases SET node = ?2, fence = fence + 1,"
                       " state = 0 WHERE session = ?1 AND node = ?3"
                       " AND fence = ?4 AND state = ?5",
                       "tttii", t->session, t->n->id, t->row.node,
                       t->row.fence, (int64_t)t->row.state);
    if (r == 0) /* another node was faster: read again */
        return error_set(err, ERR_BUSY, "the session is being taken");
    return MIN(r, 0);
}

static int look(struct nodes *n, struct take *t, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(n->store, STORE_READ, "looking for a session's node",
                        &tx, err);

    if (r == 0)
        r = read_row(tx, t->session, &t->row, err);
    t->found = r > 0;
    return MIN(r, 0);
}

bool node_lease_elsewhere(struct nodes *n, const char *session)
{
    struct take t = {.n = n, .session = session};
    struct error ignored;

    return n && look(n, &t, &ignored) == 0 && t.found &&
           strcmp(t.row.node, n->id) != 0 && !may_take(&t.row);
}

int node_lease_take(struct nodes *n, const char *tenant, const char *session,
                    const char *labels, int64_t *ret_fence, struct error *err)
{
    struct take t = {.n = n, .tenant = tenant, .session = session};
    int r = 0;

    if (!n)
        return 0;
    if (!nodes_alive(n)) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "this node has lost its lease and starts again");
        return error_retry(err, 2);
    }
    for (int i = 0; i < TRIES; i++) {
        r = look(n, &t, err);
        if (r < 0)
            return r;
        if (t.found && strcmp(t.row.node, n->id) == 0 &&
            (t.row.state == NODE_LEASE_AWAKE ||
             nodes_state(n) == NODE_ACTIVE)) {
            *ret_fence = t.row.fence;
            return 0;
        }
        if (t.found && !may_take(&t.row))
            return node_elsewhere(t.row.node, err);
        r = node_place_near(n, labels, t.found ? t.row.node : NULL, err);
        if (r < 0)
            return r;
        if (t.found && strcmp(t.row.node, n->id) == 0) {
            *ret_fence = t.row.fence; /* draining, and no other can */
            return 0;
        }
        r = store_write(n->store, "taking a session", take_in, &t, err);
        if (r == 0) {
            *ret_fence = t.found ? t.row.fence + 1 : 1;
            if (t.found && t.row.node[0] && !t.row.alive)
                atomic_fetch_add(&n->takeovers, 1);
            return 0;
        }
        if (r != -ERR_BUSY)
            return r;
    }
    return error_retry(err, 1);
}

struct add {
    struct nodes *n;
    const char *tenant, *session;
    enum node_lease_state state;
};

static int add_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct add *a = ctx;

    return MIN(store_exec(tx, err,
                          "INSERT INTO leases (session, tenant, node, fence,"
                          " state) VALUES (?1, ?2, ?3, 1, ?4)",
                          "ttti", a->session, a->tenant, a->n->id,
                          (int64_t)a->state),
               0);
}

int node_lease_add(struct nodes *n, struct store_tx *tx, const char *tenant,
                   const char *session, enum node_lease_state state,
                   int64_t *ret_fence, struct error *err)
{
    struct add a = {
        .n = n, .tenant = tenant, .session = session, .state = state};
    int r;

    if (!n)
        return 0;
    if (!nodes_alive(n)) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "this node has lost its lease and starts again");
        return error_retry(err, 2);
    }
    r = tx ? add_in(tx, &a, err)
           : store_write(n->store, "leasing a session", add_in, &a, err);
    if (r == 0)
        *ret_fence = 1;
    return r;
}

static int fenced_off(struct nodes *n, const char *session, struct error *err)
{
    atomic_fetch_add(&n->fenced, 1);
    log_event(LOG_WARN, "session_fenced", "session", session, NULL);
    (void)error_set(err, ERR_UNAVAILABLE,
                    "another node has the session now; nothing was committed");
    return error_retry(err, 1);
}

/* An update that changes nothing: it locks the row, so that another node
 * cannot take the session between this and the commit. */
int node_lease_check(struct nodes *n, struct store_tx *tx, const char *session,
                     int64_t fence, struct error *err)
{
    int r;

    if (!n || !fence)
        return 0;
    r = store_exec(tx, err,
                   "UPDATE leases SET fence = fence WHERE session = ?1"
                   " AND node = ?2 AND fence = ?3",
                   "tti", session, n->id, fence);
    return r == 0 ? fenced_off(n, session, err) : MIN(r, 0);
}

struct set {
    struct nodes *n;
    const char *session;
    int64_t fence;
    enum node_lease_state state;
};

static int set_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct set *s = ctx;
    int r =
        store_exec(tx, err,
                   "UPDATE leases SET state = ?4 WHERE session = ?1"
                   " AND node = ?2 AND fence = ?3",
                   "ttii", s->session, s->n->id, s->fence, (int64_t)s->state);

    return r == 0 ? fenced_off(s->n, s->session, err) : MIN(r, 0);
}

int node_lease_set(struct nodes *n, const char *session, int64_t fence,
                   enum node_lease_state state, struct error *err)
{
    struct set s = {
        .n = n, .session = session, .fence = fence, .state = state};

    if (!n || !fence)
        return 0;
    if (state == NODE_LEASE_AWAKE && !nodes_alive(n)) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "this node has lost its lease and starts again");
        return error_retry(err, 2);
    }
    return store_write(n->store, "noting where a session is", set_in, &s, err);
}

int node_lease_delete(struct nodes *n, struct store_tx *tx,
                      const char *session, struct error *err)
{
    if (!n)
        return 0;
    return MIN(store_exec(tx, err, "DELETE FROM leases WHERE session = ?1",
                          "t", session),
               0);
}
