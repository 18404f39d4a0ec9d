/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to the work of a node that is gone: its running executions end
 * as `lost`, its sessions belong to no node (N3). Both happen in the
 * transaction that marks the node gone, so they happen once, whichever node
 * notices first. Runs in gloveboxd on the thread "node-lease", and at the
 * start and stop of a node for the node itself.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "node/node_int.h"
#include "store/store.h"

#define EXPIRE_MAX 16u /* in one round */

int node_execution_add(struct nodes *n, const struct node_execution *e,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r;

    if (!n)
        return 0;
    r = store_begin(n->store, STORE_WRITE, "noting an execution", &tx, err);
    if (r == 0)
        r = store_exec(
            tx, err,
            "INSERT INTO node_executions (execution, node, session, tenant,"
            " workspace, language, author, author_name, created_at_ms, code)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
            " ON CONFLICT (execution) DO NOTHING",
            "ttttttttit", e->id, n->id, e->session, e->tenant, e->workspace,
            e->language, e->author, e->author_name, e->created_at_ms, e->code);
    return r < 0 ? r : store_commit(&tx, err);
}

int node_execution_remove(struct nodes *n, struct store_tx *tx, const char *id,
                          struct error *err)
{
    if (!n)
        return 0;
    return MIN(store_exec(tx, err,
                          "DELETE FROM node_executions WHERE execution = ?1",
                          "t", id),
               0);
}

/* As execution/stored.c reads it. why has no character that JSON escapes. */
static void lost_info(const char *id, const char *why, struct buf *out)
{
    buf_addf(out,
             "{\"interpreter_lost\":true,\"exit_code\":-1,\"failure\":"
             "\"lost: %s (%s)\",\"files\":[],\"output\":[]}",
             why, id);
}

int node_end_work(struct nodes *n, struct store_tx *tx, const char *id,
                  const char *why, struct error *err)
{
    struct buf info cleanup(buf_done) = {0};
    int64_t now = 0;
    int r = store_now(tx, &now, err);

    (void)n;
    lost_info(id, why, &info);
    if (r == 0)
        r = store_exec(
            tx, err,
            "INSERT INTO outputs (execution, session, tenant, workspace,"
            " language, outcome, author, author_name, created_at_ms,"
            " started_at_ms, finished_at_ms, code, info, events, bytes)"
            " SELECT e.execution, e.session, e.tenant, e.workspace,"
            " e.language, 'lost', e.author, e.author_name, e.created_at_ms,"
            " e.created_at_ms, ?2, e.code, ?3, ?4, ?5 FROM node_executions e"
            " JOIN sessions s ON s.id = e.session WHERE e.node = ?1"
            " ON CONFLICT (execution) DO NOTHING",
            "titbi", id, now, info.data, "", (size_t)0,
            (int64_t)(info.len + 2048));
    if (r >= 0)
        r = store_exec(tx, err, "DELETE FROM node_executions WHERE node = ?1",
                       "t", id);
    /* Memory that the node has on its disk stays its own. */
    if (r >= 0)
        r = store_exec(tx, err,
                       "UPDATE leases SET node = '', state = 0,"
                       " fence = fence + 1 WHERE node = ?1 AND state <> ?2",
                       "ti", id, (int64_t)NODE_LEASE_MEMORY);
    return MIN(r, 0);
}

struct expiry {
    struct nodes *n;
    const struct node_info *info;
};

/* 1: it has renewed its lease, or another node was faster. */
static int expire_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct expiry *x = ctx;
    struct audit_event event = {
        .action = "node.lost", .object = x->info->id, .detail = x->info->name};
    int64_t now = 0;
    int r = store_now(tx, &now, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE nodes SET state = 'gone' WHERE id = ?1"
                       " AND epoch = ?2 AND state <> 'gone'"
                       " AND lease_until_ms < ?3",
                       "tii", x->info->id, x->info->epoch, now);
    if (r == 0)
        return 1;
    if (r > 0)
        r = node_end_work(x->n, tx, x->info->id, "the node stopped answering",
                          err);
    if (r == 0)
        r = store_notify(tx, NODE_CHANNEL, "", err);
    return r < 0 ? r : audit_add(x->n->audit, tx, NULL, &event, err);
}

static size_t find_expired(struct nodes *n, struct node_info *ret)
{
    size_t count = 0;

    mutex_lock(&n->lock);
    for (size_t i = 0; i < n->peer_count && count < EXPIRE_MAX; i++) {
        const struct node_info *p = &n->peers[i].info;

        if (!p->self && p->state != NODE_GONE && p->lease_left_ms < 0)
            ret[count++] = *p;
    }
    mutex_unlock(&n->lock);
    return count;
}

void node_expire_others(struct nodes *n)
{
    struct node_info expired[EXPIRE_MAX];
    size_t count = find_expired(n, expired);
    struct error err;

    for (size_t i = 0; i < count; i++) {
        struct expiry x = {.n = n, .info = &expired[i]};

        if (store_write(n->store, "ending a lost node", expire_in, &x, &err) <
            0)
            log_event(LOG_WARN, "node_not_ended", "node", expired[i].id,
                      "error", err.message, NULL);
        else
            log_event(LOG_WARN, "node_lost", "node", expired[i].id, "name",
                      expired[i].name, NULL);
    }
}
