/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made pools as rows: written in one transaction with the event that tells of
 * it, read once at the start. Runs in gloveboxd. What an earlier run kept and
 * this one's configuration no longer allows is made to fit, not lost.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/pools_int.h"
#include "store/store.h"

#define DETAIL_MAX 200

static int note(struct sessions *m, struct store_tx **tx,
                const struct actor *who, const char *action, const char *name,
                const char *detail, struct error *err)
{
    struct audit_event event = {
        .action = action, .object = name, .detail = detail};
    int rc = audit_add(workspaces_audit(m->workspaces), *tx, who, &event, err);

    return rc < 0 ? rc : store_commit(tx, err);
}

static void describe(const struct pool_row *row, char ret[DETAIL_MAX])
{
    (void)snprintf(ret, DETAIL_MAX,
                   "runtime %s, %s, ready %" PRId64 ", max_sessions %" PRId64
                   ", cooldown_s %" PRId64 ", memory_bytes %" PRId64
                   ", egress %s%s, sharing %s",
                   row->runtime, row->ephemeral ? "ephemeral" : "workspace",
                   row->ready, row->max_sessions, row->cooldown_s,
                   row->memory_bytes, session_egress_name(row->egress),
                   row->packages ? ", packages" : "",
                   session_sharing_name(row->sharing));
}

int pools_rows_insert(struct sessions *m, const struct actor *who,
                      const struct pool_row *row, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char detail[DETAIL_MAX];
    int rc = store_begin(workspaces_store(m->workspaces), STORE_WRITE,
                         "storing a pool", &tx, err);

    describe(row, detail);
    if (rc == 0)
        rc = MIN(store_exec(
                     tx, err,
                     "INSERT INTO pools (name, tenant, made_by, kind, runtime,"
                     " persistence, ready, max_sessions, cooldown_s,"
                     " memory_bytes, details, created_at_ms, updated_at_ms,"
                     " egress, egress_allow, packages, sharing)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
                     " ?12, ?13, ?14, ?15, ?16, ?17)",
                     "tttitt"
                     "iiii"
                     "tii"
                     "ttit",
                     row->name, row->tenant, who->key, (int64_t)row->kind,
                     row->runtime, row->ephemeral ? "ephemeral" : "workspace",
                     row->ready, row->max_sessions, row->cooldown_s,
                     row->memory_bytes, row->details ? row->details : "",
                     row->created_at_ms, row->updated_at_ms,
                     session_egress_name(row->egress), row->egress_allow,
                     (int64_t)row->packages,
                     session_sharing_name(row->sharing)),
                 0);
    if (rc == -ERR_CONFLICT) /* kept, but hidden when the service started */
        (void)error_set(err, ERR_CONFLICT, "that name is taken");
    return rc < 0 ? rc
                  : note(m, &tx, who, "pool.create", row->name, detail, err);
}

int pools_rows_update(struct sessions *m, const struct actor *who,
                      const struct pool_row *row, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char detail[DETAIL_MAX];
    int rc = store_begin(workspaces_store(m->workspaces), STORE_WRITE,
                         "storing a pool", &tx, err);

    describe(row, detail);
    if (rc == 0)
        rc = MIN(
            store_exec(tx, err,
                       "UPDATE pools SET kind = ?2, runtime = ?3,"
                       " persistence = ?4, ready = ?5, max_sessions = ?6,"
                       " cooldown_s = ?7, memory_bytes = ?8,"
                       " details = ?9, updated_at_ms = ?10,"
                       " egress = ?11, egress_allow = ?12, packages = ?13,"
                       " sharing = ?14 WHERE name = ?1",
                       "titt"
                       "iiii"
                       "titti"
                       "t",
                       row->name, (int64_t)row->kind, row->runtime,
                       row->ephemeral ? "ephemeral" : "workspace", row->ready,
                       row->max_sessions, row->cooldown_s, row->memory_bytes,
                       row->details ? row->details : "", row->updated_at_ms,
                       session_egress_name(row->egress), row->egress_allow,
                       (int64_t)row->packages,
                       session_sharing_name(row->sharing)),
            0);
    return rc < 0 ? rc
                  : note(m, &tx, who, "pool.update", row->name, detail, err);
}

int pools_rows_delete(struct sessions *m, const struct actor *who,
                      const char *name, size_t sessions, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char detail[DETAIL_MAX];
    int rc = store_begin(workspaces_store(m->workspaces), STORE_WRITE,
                         "removing a pool", &tx, err);

    (void)snprintf(detail, sizeof(detail), "with %zu sessions", sessions);
    if (rc == 0)
        rc = MIN(store_exec(tx, err, "DELETE FROM pools WHERE name = ?1", "t",
                            name),
                 0);
    return rc < 0 ? rc : note(m, &tx, who, "pool.delete", name, detail, err);
}

/* ---- at the start ------------------------------------------------------- */

static void read_row(struct store_rows *rows, struct pool_row *ret)
{
    const char *details = store_text(rows, 9);

    *ret = (struct pool_row){
        .kind = store_int(rows, 2) == POOL_SHELL ? POOL_SHELL : POOL_PYTHON,
        .ready = store_int(rows, 5),
        .max_sessions = store_int(rows, 6),
        .cooldown_s = store_int(rows, 7),
        .memory_bytes = store_int(rows, 8),
        .details = details && details[0] ? xstrdup(details) : NULL,
        .created_at_ms = store_int(rows, 10),
        .updated_at_ms = store_int(rows, 11),
        .egress_allow = xstrdup(store_text(rows, 13)),
        .packages = store_int(rows, 14) != 0};
    (void)session_egress_parse(store_text(rows, 12), &ret->egress);
    (void)session_sharing_parse(store_text(rows, 15), &ret->sharing);
    store_copy(rows, 0, ret->name, sizeof(ret->name));
    store_copy(rows, 1, ret->tenant, sizeof(ret->tenant));
    store_copy(rows, 3, ret->runtime, sizeof(ret->runtime));
    ret->ephemeral = strcmp(store_text(rows, 4), "ephemeral") == 0;
}

static void take_up(struct sessions *m, struct store_rows *rows)
{
    struct pool_row row cleanup(pool_row_done) = {.details = NULL};

    read_row(rows, &row);
    if (pools_configured(m, row.name)) {
        log_event(LOG_WARN, "pool_hidden", "pool", row.name, "why",
                  "the configuration has one of that name", NULL);
        return;
    }
    pools_row_fit(m, &row);
    pools_made_add(m, pools_make(m, &row));
}

int session_pools_load(struct sessions *m, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_begin(workspaces_store(m->workspaces), STORE_READ,
                         "reading the pools", &tx, err);

    if (rc == 0)
        rc = store_query(tx, &rows, err,
                         "SELECT name, tenant, kind, runtime, persistence,"
                         " ready, max_sessions, cooldown_s, memory_bytes,"
                         " details, created_at_ms, updated_at_ms,"
                         " egress, egress_allow, packages, sharing"
                         " FROM pools ORDER BY name LIMIT ?1",
                         "i", (int64_t)POOLS_MADE_MAX);
    while (rc == 0 && (rc = store_next(rows, err)) > 0) {
        take_up(m, rows);
        rc = 0;
    }
    return rc;
}
