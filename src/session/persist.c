/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of sessions: what is needed to wake a session after a restart. Runs in
 * gloveboxd on the caller's thread. A session and the workspace created for it
 * are inserted in one transaction. Ephemeral sessions and sessions of single
 * runs have no row.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "node/node.h"
#include "session/session_int.h"
#include "store/store.h"

#define COLUMNS                                                               \
    "id, owner, owner_admin, workspace, pool, runtime, name, metadata,"       \
    " memory_bytes, scratch_bytes, scratch_inodes, processes, cores,"         \
    " descriptors, interpreter, executions, created_at_ms, used_at_ms,"       \
    " identifier, cooldown_s, policy_version, network, sharing"

#define COLUMN_COUNT 23

static int put_row(struct session *se, struct store_tx *tx, struct error *err)
{
    const struct warden_limits *l = &se->limits;
    char *network cleanup(mem_free) = network_text(se->net);

    return store_exec(
        tx, err,
        "INSERT INTO sessions (" COLUMNS ", tenant) VALUES (?1, ?2, ?3, ?4,"
        " ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
        " ?19, ?20, ?21, ?22, ?23, ?24)",
        "ttittttt"
        "iiiiii"
        "iiii"
        "tiitit",
        se->id, se->owner, (int64_t)se->owner_admin, se->workspace,
        pool_conf(se->pool)->name, runtime_name(se->runtime),
        se->name ? se->name : "", se->metadata ? se->metadata : "",
        (int64_t)l->memory_bytes, (int64_t)l->scratch_bytes,
        (int64_t)l->scratch_inodes, (int64_t)l->processes, (int64_t)l->cores,
        (int64_t)l->descriptors, (int64_t)se->interpreter,
        (int64_t)se->executions, se->created_at_ms, se->last_used_at_ms,
        se->identifier ? se->identifier : "", (int64_t)se->cooldown_s,
        atomic_load(&se->policy_version), network,
        (int64_t)atomic_load(&se->sharing), se->tenant->name);
}

/* Its row knows of that use; the lock is held. */
static void noted(struct session *se, int64_t used_at_ms)
{
    se->noted_at_ms = used_at_ms;
    se->noted_ms = clock_mono_ms();
}

int session_persist_insert(struct session *se, const struct actor *who,
                           struct error *err)
{
    const struct core *core = se->m->core;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_spec spec = session_workspace_spec(se);
    struct audit_event event = {.action = "session.create",
                                .workspace = se->workspace,
                                .object = se->id};
    struct workspace_info info;
    int64_t fence = 0;
    int rc =
        store_begin(core->store, STORE_WRITE, "storing a session", &tx, err);

    /* Here, where removing a pool waits: what it finds is all there is. */
    if (rc == 0)
        rc = pool_check(se->pool, err);
    if (rc == 0 && !se->made)
        rc =
            workspace_create_in(se->m->workspaces, tx, who, &spec, &info, err);
    if (rc == 0)
        rc = MIN(put_row(se, tx, err), 0);
    if (rc == -ERR_CONFLICT && se->identifier)
        rc = error_set(err, ERR_CONFLICT, "the identifier is taken");
    if (rc == 0)
        rc = node_lease_add(se->m->nodes, tx, se->tenant->name, se->id,
                            se->box ? NODE_LEASE_AWAKE : NODE_LEASE_ASLEEP,
                            &fence, err);
    if (rc == 0 && se->source)
        rc = session_branch_row(se, se->source, tx, err);
    if (rc == 0)
        rc = audit_add(core->audit, tx, who, &event, err);
    if (rc == 0)
        rc = store_commit(&tx, err);
    if (rc == 0) {
        se->made = se->stored = true;
        atomic_store(&se->fence, fence);
        se->source = NULL;
        noted(se, se->last_used_at_ms); /* no other thread sees it yet */
    }
    return rc;
}

int session_keep_for_approval(struct session *se, const struct actor *who,
                              struct error *err)
{
    struct sessions *m = se->m;
    int rc;

    if (se->stored || se->ephemeral)
        return 0;
    mutex_lock(&m->lock);
    session_unlist(se);
    mutex_unlock(&m->lock);
    rc = session_persist_insert(se, who, err);
    if (rc == 0) {
        se->transient = false;
        return 0;
    }
    mutex_lock(&m->lock); /* again among those without a row */
    se->older = se->tenant->newest;
    if (se->older)
        se->older->newer = se;
    se->tenant->newest = se;
    mutex_unlock(&m->lock);
    return rc;
}

int session_persist_delete(struct session *se, const struct actor *who,
                           struct error *err)
{
    const struct core *core = se->m->core;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {.action = "session.delete",
                                .workspace = se->workspace,
                                .object = se->id};
    int rc =
        store_begin(core->store, STORE_WRITE, "deleting a session", &tx, err);

    if (rc == 0)
        rc = MIN(store_exec(tx, err, "DELETE FROM sessions WHERE id = ?1", "t",
                            se->id),
                 0);
    if (rc == 0)
        rc = session_image_delete(se, tx, err);
    if (rc == 0)
        rc = node_lease_delete(se->m->nodes, tx, se->id, err);
    if (rc == 0)
        rc = audit_add(core->audit, tx, who, &event, err);
    if (rc == 0)
        rc = store_commit(&tx, err);
    if (rc == 0)
        session_image_removed(se);
    return rc;
}

/* One without a row has its event in the trail soon. */
int session_persist_share(struct session *se, const struct actor *who,
                          enum session_sharing sharing, struct error *err)
{
    const struct core *core = se->m->core;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {
        .action = "session.share",
        .workspace = se->workspace,
        .object = se->id,
        .before = session_sharing_name(atomic_load(&se->sharing)),
        .after = session_sharing_name(sharing)};
    int rc;

    if (!se->stored) {
        audit_later(core->audit, who, &event);
        return 0;
    }
    rc = store_begin(core->store, STORE_WRITE, "sharing a session", &tx, err);
    if (rc == 0)
        rc = store_exec(tx, err,
                        "UPDATE sessions SET sharing = ?2 WHERE id = ?1", "ti",
                        se->id, (int64_t)sharing);
    if (rc == 0) /* deleted meanwhile */
        return error_set(err, ERR_NOT_FOUND, "no such session");
    if (rc == -ERR_CONFLICT && se->identifier)
        (void)error_set(err, ERR_CONFLICT,
                        "another session has the same identifier there");
    if (rc < 0)
        return rc;
    rc = workspace_member_follow(se->m->workspaces, tx, who, se->workspace,
                                 se->id, se->owner,
                                 sharing == SESSION_SHARING_TENANT, err);
    if (rc == 0)
        rc = audit_add(core->audit, tx, who, &event, err);
    return rc < 0 ? rc : store_commit(&tx, err);
}

bool session_persist_gone(struct sessions *m, const char *id,
                          struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc = store_begin(m->core->store, STORE_READ, "looking for a session",
                         &tx, err);

    if (rc == 0)
        rc = store_one(tx, &rows, err, "SELECT 1 FROM sessions WHERE id = ?1",
                       "t", id);
    else
        rc = 1; /* unknown */
    return rc == 0;
}

struct note {
    int64_t interpreter, executions, used;
};

static struct note read_usage_note(struct session *se)
{
    struct note n;

    mutex_lock(&se->lock);
    n = (struct note){.interpreter = se->interpreter,
                      .executions = se->executions,
                      .used = se->last_used_at_ms};
    mutex_unlock(&se->lock);
    return n;
}

/* Stores the network use if it changed. */
static int write_network(struct session *se, struct store_tx *tx,
                         struct error *err)
{
    char *text cleanup(mem_free) = NULL;

    if (!network_take_dirty(se->net))
        return 0;
    text = network_text(se->net);
    return MIN(store_exec(tx, err,
                          "UPDATE sessions SET network = ?2 WHERE id = ?1",
                          "tt", se->id, text),
               0);
}

static int write_note(struct session *se, const struct note *n,
                      struct store_tx *tx, struct error *err)
{
    if (write_network(se, tx, err) < 0)
        return -(int)err->code;
    return MIN(store_exec(tx, err,
                          "UPDATE sessions SET interpreter = ?2,"
                          " executions = ?3, used_at_ms = ?4 WHERE id = ?1",
                          "tiii", se->id, n->interpreter, n->executions,
                          n->used),
               0);
}

void session_persist_note_all(struct sessions *m, struct session **list,
                              size_t count)
{
    struct note *notes cleanup(mem_free) = xcalloc(count + 1, sizeof(*notes));
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err;
    int rc = count ? store_begin(m->core->store, STORE_WRITE,
                                 "noting a session's state", &tx, &err)
                   : 0;

    for (size_t i = 0; i < count && rc == 0; i++) {
        notes[i] = read_usage_note(list[i]);
        rc = write_note(list[i], &notes[i], tx, &err);
    }
    if (rc == 0 && count)
        rc = store_commit(&tx, &err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        mutex_lock(&list[i]->lock);
        noted(list[i], notes[i].used);
        mutex_unlock(&list[i]->lock);
    }
    if (rc < 0)
        log_event(LOG_WARN, "sessions_not_noted", "session", list[0]->id,
                  "error", err.message, NULL);
}

void session_persist_note(struct session *se)
{
    if (se->stored)
        session_persist_note_all(se->m, &se, 1);
}

/* ---- and back ----------------------------------------------------------- */

/* As granted then, if the pool still grants it; else what it grants now. */
static void read_limits(struct store_rows *rows, const struct pool *pool,
                        struct warden_limits *ret)
{
    struct session_limits asked = {
        .memory_bytes = (uint64_t)store_int(rows, 8),
        .scratch_bytes = (uint64_t)store_int(rows, 9),
        .scratch_inodes = (uint32_t)store_int(rows, 10),
        .processes = (uint32_t)store_int(rows, 11),
        .cores = (uint32_t)store_int(rows, 12),
        .descriptors = (uint32_t)store_int(rows, 13)};
    static const struct session_limits nothing_asked;
    struct error ignored;

    if (pool_limits_grant(pool_conf(pool), &asked, ret, &ignored) < 0)
        (void)pool_limits_grant(pool_conf(pool), &nothing_asked, ret,
                                &ignored);
}

static char *text_or_null(struct store_rows *rows, int column)
{
    const char *text = store_text(rows, column);

    return text && text[0] ? xstrdup(text) : NULL;
}

static enum session_sharing read_sharing(struct store_rows *rows, int column)
{
    return store_int(rows, column) == SESSION_SHARING_TENANT
               ? SESSION_SHARING_TENANT
               : SESSION_SHARING_PRINCIPAL;
}

/* A pool or runtime the operator has taken away is replaced by the first
 * pool's: the files count more than where they were made. */
static struct session *from_row(struct sessions *m, const char *tenant,
                                struct store_rows *rows)
{
    struct session *se = xcalloc(1, sizeof(*se));
    struct pool *pool = pool_find(m->pools, tenant, store_text(rows, 4));

    atomic_init(&se->refs, 1);
    se->m = m;
    store_copy(rows, 0, se->id, sizeof(se->id));
    store_copy(rows, 1, se->owner, sizeof(se->owner));
    se->owner_admin = store_int(rows, 2) != 0;
    store_copy(rows, 3, se->workspace, sizeof(se->workspace));
    se->pool = pool ? pool : pool_find(m->pools, tenant, NULL);
    se->runtime = runtime_find(m->pools, se->pool, store_text(rows, 5));
    if (!se->runtime)
        se->runtime = runtime_find(m->pools, se->pool, NULL);
    se->name = text_or_null(rows, 6);
    se->metadata = text_or_null(rows, 7);
    read_limits(rows, se->pool, &se->limits);
    se->interpreter = (uint32_t)store_int(rows, 14);
    se->executions = (uint32_t)store_int(rows, 15);
    se->has_cells = se->executions > 0;
    se->created_at_ms = store_int(rows, 16);
    se->last_used_at_ms = store_int(rows, 17);
    atomic_init(&se->sharing, read_sharing(rows, 22));
    se->identifier = text_or_null(rows, 18);
    if (se->identifier) /* by the pool it was made in, should that be gone */
        se->identifier_key = session_identifier_key(
            tenant, store_text(rows, 4),
            session_identifier_space(se->sharing, se->owner), se->identifier);
    se->cooldown_s = (uint32_t)store_int(rows, 19);
    atomic_init(&se->policy_version, store_int(rows, 20));
    se->net = network_load(m->networks, store_text(rows, 21));
    noted(se, se->last_used_at_ms);
    se->used_ms = clock_mono_ms();
    se->made = se->stored = true;
    session_image_read(m, rows, COLUMN_COUNT, &se->image);
    session_state_init(se, session_image_there(&se->image) ? PHASE_HIBERNATED
                                                           : PHASE_DORMANT);
    mutex_init(&se->lock); /* cannot fail on Linux */
    cond_init(&se->cond);
    mutex_lock(&m->lock);
    se->tenant = session_tenant(m, tenant);
    mutex_unlock(&m->lock);
    session_bind_network(se);
    return se;
}

struct session *session_persist_load(struct sessions *m,
                                     const struct actor *who, const char *id,
                                     struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_begin(m->core->store, STORE_READ, "looking for a session",
                         &tx, err);

    if (rc == 0)
        rc = store_one(tx, &rows, err,
                       "SELECT " COLUMNS ", " SESSION_IMAGE_COLUMNS
                       " FROM sessions WHERE id = ?1 AND tenant = ?2"
                       " AND " SESSION_VISIBLE_SQL("?3", "?4"),
                       "ttit", id, who->tenant, SESSION_VISIBLE(who));
    if (rc > 0)
        return from_row(m, who->tenant, rows);
    if (rc == 0)
        (void)error_set(err, ERR_NOT_FOUND, "no such session");
    return NULL;
}

int session_persist_has(struct sessions *m, const char *id,
                        enum session_sharing *ret_sharing, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_begin(m->core->store, STORE_READ, "looking for a session",
                         &tx, err);

    if (rc == 0)
        rc = store_one(tx, &rows, err,
                       "SELECT sharing FROM sessions WHERE id = ?1", "t", id);
    if (rc > 0)
        *ret_sharing = read_sharing(rows, 0);
    return rc;
}

int session_persist_identify(struct sessions *m, const char *tenant,
                             const char *pool, const char *identifier,
                             const char *space, char ret_id[ID_MAX],
                             struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_begin(m->core->store, STORE_READ, "looking for a session",
                         &tx, err);

    if (rc == 0)
        rc = store_one(tx, &rows, err,
                       "SELECT id FROM sessions WHERE tenant = ?1"
                       " AND pool = ?2 AND identifier = ?3"
                       " AND CASE sharing WHEN 2 THEN '' ELSE owner END = ?4"
                       " AND identifier <> ''",
                       "tttt", tenant, pool, identifier, space);
    if (rc > 0)
        store_copy(rows, 0, ret_id, ID_MAX);
    return rc;
}

/* ---- many --------------------------------------------------------------- */

#define FILTERED_SQL                                                          \
    "SELECT " COLUMNS ", " SESSION_IMAGE_COLUMNS                              \
    " FROM sessions WHERE tenant = ?1"                                        \
    " AND (?3 = 0 OR pool = ?4) AND (?5 = 0 OR name = ?6)"                    \
    " AND (?7 = 0 OR identifier <> '')"                                       \
    " AND (?8 = '' OR replace(?8, workspace, '') <> ?8)"                      \
    " AND (?9 = '' OR replace(?9, id, '') <> ?9)"                             \
    " AND " SESSION_VISIBLE_SQL("?10", "?11")

int session_rows_begin(struct session_rows *r, struct sessions *m,
                       const struct actor *who,
                       const struct session_filter *filter, int64_t than_ms,
                       struct error *err)
{
    int rc = store_begin(m->core->store, STORE_READ, "listing sessions",
                         &r->tx, err);

    r->m = m;
    r->tenant = who->tenant;
    if (rc < 0)
        return rc;
    return store_query(
        r->tx, &r->rows, err,
        filter->oldest_first ? FILTERED_SQL " AND created_at_ms > ?2"
                                            " ORDER BY created_at_ms"
                             : FILTERED_SQL " AND created_at_ms < ?2"
                                            " ORDER BY created_at_ms DESC",
        "tiitititt"
        "it",
        who->tenant, than_ms, (int64_t)(filter->pool != NULL),
        filter->pool ? filter->pool : "", (int64_t)(filter->name != NULL),
        filter->name ? filter->name : "", (int64_t)filter->identified,
        WORKSPACE_BOUNDS(who), SESSION_VISIBLE(who));
}

int session_rows_next(struct session_rows *r, struct error *err)
{
    return store_next(r->rows, err);
}

int64_t session_rows_created(struct session_rows *r)
{
    return store_int(r->rows, 16);
}

struct session *session_rows_take(struct session_rows *r)
{
    return from_row(r->m, r->tenant, r->rows);
}

void session_rows_done(struct session_rows *r)
{
    store_rows_done(&r->rows);
    store_rollback(&r->tx);
}
