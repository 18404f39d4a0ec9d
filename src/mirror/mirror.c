/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mirrors as clients see them: setting, showing and ending one. Runs in
 * gloveboxd on workers.
 */
#include "mirror/mirror.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/core.h"
#include "mirror/mirror_int.h"
#include "s3/s3.h"
#include "store/store.h"
#include "workspace/workspace.h"

/* ---- open and close ----------------------------------------------------- */

int mirrors_open(const struct mirrors_parts *parts, struct mirrors **ret,
                 struct error *err)
{
    struct mirrors *m = xcalloc(1, sizeof(*m));
    int r;

    m->conf = parts->conf;
    m->core = parts->core;
    m->workspaces = parts->workspaces;
    m->govern = (struct govern){.policy = parts->core->policy,
                                .approvals = parts->core->approvals};
    m->bucket_count = MIN(parts->bucket_count, (size_t)MIRROR_BUCKETS);
    for (size_t i = 0; i < m->bucket_count; i++)
        m->buckets[i] = parts->buckets[i];
    worker_init(&m->worker);
    r = worker_start(&m->worker, "mirror", mirror_push_main, m, err);
    if (r < 0)
        mirrors_close(m);
    else
        *ret = m;
    return r;
}

void mirrors_close(struct mirrors *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->bucket_count; i++)
        s3_stop(m->buckets[i].s3);
    worker_stop(&m->worker);
    worker_done(&m->worker);
    for (size_t i = 0; i < m->bucket_count; i++)
        s3_close(m->buckets[i].s3);
    free(m);
}

/* ---- rows --------------------------------------------------------------- */

static int read_row(struct store_tx *tx, const char *workspace,
                    struct mirror_info *ret, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT m.destination, m.removes, m.created_by,"
                      " m.created_at_ms, m.commit_id, m.mirrored_at_ms,"
                      " m.files, m.bytes, m.error, m.retry_at_ms,"
                      " (SELECT count(*) FROM commits AS c"
                      "  WHERE c.workspace = m.workspace AND c.seq > m.seq)"
                      " FROM mirrors AS m WHERE m.workspace = ?1",
                      "t", workspace);

    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "the workspace has no mirror");
    *ret = (struct mirror_info){.remove = store_int(row, 1) != 0,
                                .created_at_ms = store_int(row, 3),
                                .mirrored_at_ms = store_int(row, 5),
                                .files = (uint64_t)store_int(row, 6),
                                .bytes = (uint64_t)store_int(row, 7),
                                .retry_at_ms = store_int(row, 9),
                                .lag = store_int(row, 10)};
    (void)snprintf(ret->workspace, sizeof(ret->workspace), "%s", workspace);
    (void)snprintf(ret->destination, sizeof(ret->destination), "%s",
                   store_text(row, 0));
    (void)snprintf(ret->created_by, sizeof(ret->created_by), "%s",
                   store_text(row, 2));
    (void)snprintf(ret->commit, sizeof(ret->commit), "%s", store_text(row, 4));
    (void)snprintf(ret->error, sizeof(ret->error), "%s", store_text(row, 8));
    return 0;
}

/* Neither may begin with the other: two workspaces would overwrite each
 * other's files. */
static int check_overlap(struct store_tx *tx, const char *workspace,
                         const char *destination, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT 1 FROM mirrors WHERE workspace <> ?1"
                      " AND (substr(destination, 1, length(?2)) = ?2"
                      "  OR substr(?2, 1, length(destination)) = destination)"
                      " LIMIT 1",
                      "tt", workspace, destination);

    return r > 0 ? error_set(err, ERR_CONFLICT,
                             "another workspace is mirrored to that place, or "
                             "to one above or below it")
                 : r;
}

static int check_count(struct store_tx *tx, const char *tenant,
                       struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT count(*) FROM mirrors AS m JOIN workspaces AS w"
                      " ON w.id = m.workspace WHERE w.tenant = ?1",
                      "t", tenant);

    if (r < 0)
        return r;
    return store_int(row, 0) >= MIRROR_PER_TENANT
               ? error_set(err, ERR_LIMIT,
                           "the tenant has %d mirrors, the "
                           "most it may",
                           MIRROR_PER_TENANT)
               : 0;
}

/* ---- what clients call -------------------------------------------------- */

static int ask_policy(struct mirrors *m, const struct actor *who,
                      const char *workspace, const char *destination,
                      struct error *err)
{
    char *summary cleanup(mem_free) =
        xasprintf("mirror %s to %.200s", workspace, destination);
    struct govern_request rq =
        govern_share(&(struct govern_scope){.actor = who}, NULL);

    rq.object = rq.workspace = workspace;
    rq.summary = summary;
    govern_add(&rq, "workspace", workspace);
    govern_add(&rq, "mirror", destination);
    return govern_enforce(&m->govern, &rq, err);
}

static int need_role(struct mirrors *m, const struct actor *who,
                     const char *workspace, enum workspace_role role,
                     struct workspace_info *ret, struct error *err)
{
    int r = workspace_get(m->workspaces, who, workspace, ret, err);

    if (r == 0 && ret->role < role)
        r = error_set(err, ERR_FORBIDDEN,
                      "only the workspace's %s may do that",
                      workspace_role_name(role));
    return r;
}

static int write_row(struct store_tx *tx, const struct actor *who,
                     const char *workspace, const char *destination,
                     bool remove, struct error *err)
{
    /* The same place goes on where it is. */
    int r = store_exec(
        tx, err,
        "DELETE FROM mirrors WHERE workspace = ?1 AND destination <> ?2", "tt",
        workspace, destination);

    if (r >= 0)
        r = store_exec(
            tx, err,
            "INSERT INTO mirrors (workspace, destination, removes,"
            " created_by, created_at_ms) VALUES (?1, ?2, ?3, ?4, ?5)"
            " ON CONFLICT (workspace) DO UPDATE SET removes = ?3, error = '',"
            " failures = 0, retry_at_ms = 0",
            "ttiti", workspace, destination, (int64_t)remove, who->key,
            clock_real_ms());
    return MIN(r, 0);
}

int mirror_set(struct mirrors *m, const struct actor *who,
               const char *workspace, const char *destination, bool remove,
               struct mirror_info *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char text[MIRROR_DESTINATION_MAX + 2];
    struct workspace_info info;
    struct mirror_place place;
    int r = need_role(m, who, workspace, ROLE_OWNER, &info, err);

    if (r == 0)
        r = mirror_place_find(m, info.tenant, destination, "mirror", &place,
                              err);
    if (r < 0)
        return r;
    mirror_place_text(destination, text, sizeof(text));
    r = ask_policy(m, who, workspace, text, err);
    if (r == 0)
        r = store_begin(m->core->store, STORE_WRITE, "setting a mirror", &tx,
                        err);
    if (r == 0)
        r = check_overlap(tx, workspace, text, err);
    if (r == 0)
        r = check_count(tx, info.tenant, err);
    if (r == 0)
        r = write_row(tx, who, workspace, text, remove, err);
    if (r == 0)
        r = audit_add(m->core->audit, tx, who,
                      &(struct audit_event){.action = "mirror.set",
                                            .workspace = workspace,
                                            .after = text,
                                            .detail = remove ? "with removals"
                                                             : "keeps files"},
                      err);
    if (r == 0)
        r = read_row(tx, workspace, ret, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        worker_wake(&m->worker);
    return r;
}

int mirror_get(struct mirrors *m, const struct actor *who,
               const char *workspace, struct mirror_info *ret,
               struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_info info;
    int r = need_role(m, who, workspace, ROLE_VIEWER, &info, err);

    if (r == 0)
        r = store_begin(m->core->store, STORE_READ, "reading a mirror", &tx,
                        err);
    return r < 0 ? r : read_row(tx, workspace, ret, err);
}

int mirror_unset(struct mirrors *m, const struct actor *who,
                 const char *workspace, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct mirror_info info;
    struct workspace_info ws;
    int r = need_role(m, who, workspace, ROLE_OWNER, &ws, err);

    if (r == 0)
        r = store_begin(m->core->store, STORE_WRITE, "ending a mirror", &tx,
                        err);
    if (r == 0)
        r = read_row(tx, workspace, &info, err);
    if (r == 0)
        r = MIN(store_exec(tx, err, "DELETE FROM mirrors WHERE workspace = ?1",
                           "t", workspace),
                0);
    if (r == 0)
        r = audit_add(m->core->audit, tx, who,
                      &(struct audit_event){.action = "mirror.unset",
                                            .workspace = workspace,
                                            .before = info.destination},
                      err);
    return r < 0 ? r : store_commit(&tx, err);
}
