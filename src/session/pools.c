/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools as clients use them: the calls of pool/ inside the session module, and
 * the removal of a pool with everything in it: its sessions, their rows, its
 * ready sandboxes and its own row; workspaces stay. Runs in gloveboxd on the
 * caller's thread.
 *
 * First the pool is marked gone, under sessions.lock. From then on no session
 * of it enters the table (create and load check the mark) and no row of one is
 * written (persist checks inside its transaction), so the sessions found after
 * that are all there are. They are deleted in batches. If the store fails in
 * between, the pool is usable again with the sessions that are left.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"
#include "store/store.h"

#define BATCH 64u
#define SAVE_ALL_MS 8000u  /* for the last commits of them all */
#define SAVE_LEAST_MS 100u /* but for each at least so much */

struct removal {
    struct sessions *m;
    const struct actor *who;
    struct pool *pool; /* referenced */
    uint64_t deadline_ms;
    size_t sessions; /* ended so far */
};

struct victim {
    char id[ID_MAX], owner[ID_MAX], workspace[ID_MAX];
    bool owner_admin;
};

/* All at once, so that the ends of what runs are waited for together. */
static void ask_all(struct removal *r)
{
    struct sessions *m = r->m;

    mutex_lock(&m->lock);
    for (size_t i = 0; i < m->table.size; i++)
        for (struct idmap_node *n = m->table.buckets[i]; n; n = n->next) {
            struct session *se = container_of(n, struct session, node);

            if (se->pool != r->pool)
                continue;
            mutex_lock(&se->lock);
            session_queue_request(se, REQUEST_END);
            mutex_unlock(&se->lock);
        }
    mutex_unlock(&m->lock);
}

/* One whose row, if it had one, is gone. */
static void end_session(struct removal *r, struct session *se)
{
    struct actor owner = session_actor(se);
    int left = clock_left_ms(r->deadline_ms);

    (void)session_save(se, MAX((uint32_t)left, SAVE_LEAST_MS));
    if (!session_end(se))
        return; /* another thread did, and reports it */
    if (!se->stored)
        session_audit(se, r->who, "session.delete");
    session_hooks_delete(se, r->who);
    if (se->made && !se->ephemeral)
        session_tidy(r->m, &owner, se->workspace);
    r->sessions++;
    log_event(LOG_INFO, "session_deleted", "session", se->id, "tenant",
              r->who->tenant, NULL);
}

/* ---- those with rows ---------------------------------------------------- */

static int find_rows(struct removal *r, struct store_tx *tx,
                     struct victim *ret, size_t *ret_count, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_query(tx, &rows, err,
                         "SELECT id, owner, owner_admin, workspace"
                         " FROM sessions WHERE tenant = ?1 AND pool = ?2"
                         " LIMIT ?3",
                         "tti", r->who->tenant, pool_conf(r->pool)->name,
                         (int64_t)BATCH);

    *ret_count = 0;
    while (rc == 0 && *ret_count < BATCH && (rc = store_next(rows, err)) > 0) {
        struct victim *v = &ret[(*ret_count)++];

        store_copy(rows, 0, v->id, sizeof(v->id));
        store_copy(rows, 1, v->owner, sizeof(v->owner));
        v->owner_admin = store_int(rows, 2) != 0;
        store_copy(rows, 3, v->workspace, sizeof(v->workspace));
        rc = 0;
    }
    return rc;
}

static int delete_rows(struct removal *r, struct victim *ret,
                       size_t *ret_count, struct error *err)
{
    const struct core *core = r->m->core;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc =
        store_begin(core->store, STORE_WRITE, "removing a pool", &tx, err);

    if (rc == 0)
        rc = find_rows(r, tx, ret, ret_count, err);
    for (size_t i = 0; rc == 0 && i < *ret_count; i++) {
        struct audit_event event = {.action = "session.delete",
                                    .workspace = ret[i].workspace,
                                    .object = ret[i].id};

        rc = MIN(store_exec(tx, err, "DELETE FROM sessions WHERE id = ?1", "t",
                            ret[i].id),
                 0);
        if (rc == 0)
            rc = audit_add(core->audit, tx, r->who, &event, err);
    }
    if (rc == 0)
        rc = store_commit(&tx, err);
    return rc;
}

static void end_victim(struct removal *r, const struct victim *v)
{
    struct actor owner = {
        .tenant = r->who->tenant, .key = v->owner, .admin = v->owner_admin};
    struct session *se;

    mutex_lock(&r->m->lock);
    se = session_at_hand(r->m, owner.tenant, v->id);
    mutex_unlock(&r->m->lock);
    if (se) {
        end_session(r, se);
        session_unref(se);
        return;
    }
    approval_withdraw_session(r->m->govern.approvals, r->who, v->id, NULL,
                              NULL);
    session_tidy(r->m, &owner, v->workspace);
    r->sessions++;
}

static int end_stored(struct removal *r, struct error *err)
{
    struct victim *batch cleanup(mem_free) = xcalloc(BATCH, sizeof(*batch));
    size_t count = 0;
    int rc;

    do {
        rc = delete_rows(r, batch, &count, err);
        for (size_t i = 0; rc == 0 && i < count; i++)
            end_victim(r, &batch[i]);
    } while (rc == 0 && count);
    return rc;
}

/* ---- those without ------------------------------------------------------ */

static size_t find_others(struct removal *r, struct session **ret)
{
    struct sessions *m = r->m;
    size_t count = 0;

    mutex_lock(&m->lock);
    for (size_t i = 0; i < m->table.size && count < BATCH; i++)
        for (struct idmap_node *n = m->table.buckets[i]; n && count < BATCH;
             n = n->next) {
            struct session *se = container_of(n, struct session, node);

            if (se->pool == r->pool)
                ret[count++] = session_ref(se);
        }
    mutex_unlock(&m->lock);
    return count;
}

static void end_others(struct removal *r)
{
    struct session *batch[BATCH];
    size_t count;

    while ((count = find_others(r, batch)))
        for (size_t i = 0; i < count; i++) {
            end_session(r, batch[i]);
            session_unref(batch[i]);
        }
}

/* ---- the pool ----------------------------------------------------------- */

static int end_pool(struct removal *r, struct error *err)
{
    int rc;

    ask_all(r);
    rc = end_stored(r, err);
    if (rc == 0) {
        end_others(r);
        rc = pools_remove_end(r->m->pools, r->who, r->pool, r->sessions, err);
    }
    if (rc < 0)
        pools_remove_cancel(r->pool, &r->m->lock);
    return rc;
}

int session_pool_remove(struct sessions *s, const struct actor *who,
                        const char *name, struct error *err)
{
    struct removal r = {.m = s, .who = who};
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    r.deadline_ms = clock_mono_ms() + SAVE_ALL_MS;
    r.pool = pools_remove_begin(s->pools, who, name, &s->lock, err);
    rc = r.pool ? end_pool(&r, err) : -(int)err->code;
    if (rc == 0)
        log_event(LOG_INFO, "pool_removed", "pool", name, "tenant",
                  who->tenant, NULL);
    pool_unref(r.pool);
    session_leave(s);
    return rc;
}

/* ---- the other calls ---------------------------------------------------- */

int session_pool_put(struct sessions *s, const struct actor *who,
                     enum pool_put how, const struct pool_spec *spec,
                     bool *ret_made, struct pool_info *ret, struct error *err)
{
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = pools_put(s->pools, who, how, spec, network_pool_permit, s->networks,
                   ret_made, ret, err);
    session_leave(s);
    return rc;
}

int session_pool_get(struct sessions *s, const struct actor *who,
                     const char *name, struct pool_info *ret,
                     struct error *err)
{
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = pools_get(s->pools, who, name, ret, err);
    session_leave(s);
    return rc;
}

int session_pool_list(struct sessions *s, const struct actor *who,
                      struct pool_info **ret, size_t *ret_count,
                      struct error *err)
{
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    pools_list(s->pools, who, ret, ret_count);
    session_leave(s);
    return 0;
}
