/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purges what was deleted: workspaces after their window, or at once for an
 * ephemeral session, and abandoned uploads.
 * Runs in a collection, and on the thread that ends an ephemeral session.
 *
 * A large workspace goes in steps. It is marked first (deleted so long ago
 * that it cannot be brought back), so that a half-purged one is never seen
 * and the next round goes on after a crash.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "upkeep/upkeep_int.h"

#define STEP 500 /* rows of a table in a transaction */

/* ---- its blobs ---------------------------------------------------------- */

struct names {
    char *names; /* BLOB_NAME apart; owned */
    size_t count, room;
};

static void names_done(struct names *n)
{
    free(n->names);
}

static int list_blobs(struct upkeep *u, const char *id, struct names *ret,
                      struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(u->store, STORE_READ, "listing objects", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT sha256 FROM versions WHERE workspace = ?1"
                        "  AND sha256 <> ''"
                        " UNION SELECT code_sha256 FROM commits"
                        "  WHERE workspace = ?1 AND code_sha256 <> ''"
                        " UNION SELECT p.sha256 FROM upload_parts AS p"
                        "  JOIN uploads AS u ON u.id = p.upload"
                        "  WHERE u.workspace = ?1",
                        "t", id);
    while (r == 0 && (r = store_next(rows, err)) > 0) {
        if (ret->count == ret->room) {
            ret->room = ret->room ? 2 * ret->room : 64;
            ret->names = xrealloc(ret->names, ret->room * BLOB_NAME);
        }
        store_copy(rows, 0, ret->names + ret->count++ * BLOB_NAME, BLOB_NAME);

        r = 0;
    }
    return r;
}

/* ---- its rows ----------------------------------------------------------- */

/* Rows removed, less than STEP when none are left of that kind. */
static int remove_some(struct store_tx *tx, const char *id, struct error *err)
{
    int removed[3];

    removed[0] = store_exec(tx, err,
                            "DELETE FROM versions WHERE id IN (SELECT id"
                            " FROM versions WHERE workspace = ?1 LIMIT ?2)",
                            "ti", id, (int64_t)STEP);
    if (removed[0] < 0 || removed[0] == STEP)
        return removed[0];
    removed[1] = store_exec(tx, err,
                            "DELETE FROM files WHERE id IN (SELECT id"
                            " FROM files WHERE workspace = ?1 LIMIT ?2)",
                            "ti", id, (int64_t)STEP);
    if (removed[1] < 0 || removed[1] == STEP)
        return removed[1];
    removed[2] = store_exec(tx, err,
                            "DELETE FROM commits WHERE id IN (SELECT id"
                            " FROM commits WHERE workspace = ?1 LIMIT ?2)",
                            "ti", id, (int64_t)STEP);
    return removed[2];
}

static int remove_last(struct upkeep *u, struct store_tx *tx,
                       const struct actor *who, const char *id,
                       const char *action, struct error *err)
{
    struct audit_event event = {
        .action = action, .workspace = id, .object = id};
    int r =
        store_exec(tx, err, "DELETE FROM workspaces WHERE id = ?1", "t", id);

    /* Another thread was faster: nothing to record. */
    return r > 0 ? audit_add(u->audit, tx, who, &event, err) : r;
}

/* 1: there is more. */
static int purge_step(struct upkeep *u, const struct actor *who,
                      const char *id, const char *action, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    bool more = false;
    int r =
        store_begin(u->store, STORE_WRITE, "purging a workspace", &tx, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE workspaces SET deleted_at_ms = 1"
                       " WHERE id = ?1 AND deleted_at_ms <> 1",
                       "t", id);
    if (r >= 0)
        r = remove_some(tx, id, err);
    more = r == STEP;
    if (r >= 0 && !more)
        r = remove_last(u, tx, who, id, action, err);
    if (r >= 0)
        r = store_commit(&tx, err);
    return r < 0 ? r : more;
}

int upkeep_purge(struct upkeep *u, const struct actor *who, const char *id,
                 const char *action, struct workspace_collected *swept,
                 struct error *err)
{
    struct names names cleanup(names_done) = {0};
    int r = swept ? list_blobs(u, id, &names, err) : 0;

    if (r < 0)
        return r;
    trees_forget(u->trees, id);
    do
        r = purge_step(u, who, id, action, err);
    while (r > 0);
    if (r == 0 && names.count)
        r = upkeep_sweep_names(u, names.names, names.count, swept, err);
    return r;
}

/* ---- what is due -------------------------------------------------------- */

static int next_workspace(struct upkeep *u, int64_t before_ms,
                          char ret_id[ID_MAX], char ret_tenant[64],
                          struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(u->store, STORE_READ, "looking for deleted ones", &tx,
                        err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT id, tenant FROM workspaces"
                      " WHERE deleted_at_ms > 0 AND deleted_at_ms <= ?1"
                      " AND legal_hold = 0 ORDER BY deleted_at_ms LIMIT 1",
                      "i", before_ms);
    if (r > 0) {
        store_copy(rows, 0, ret_id, ID_MAX);
        store_copy(rows, 1, ret_tenant, 64);
    }
    return r;
}

static int purge_workspaces(struct upkeep *u, struct workspace_collected *ret,
                            struct error *err)
{
    int64_t before_ms =
        clock_real_ms() - 1000 * (int64_t)u->settings.restore_window_s;
    char id[ID_MAX], tenant[64];
    int r;

    while ((r = next_workspace(u, before_ms, id, tenant, err)) > 0) {
        struct actor service = {.tenant = tenant, .key = "glovebox"};

        r = upkeep_purge(u, &service, id, "workspace.purge", NULL, err);
        if (r < 0)
            return r;
        ret->workspaces++;
        if (upkeep_wait(u, 0))
            return 0;
    }
    return r;
}

/* 1: there may be more. */
static int purge_upload(struct upkeep *u, int64_t now_ms, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char id[ID_MAX], workspace[ID_MAX], tenant[64];
    struct actor service = {.tenant = tenant, .key = "glovebox"};
    struct audit_event event = {
        .action = "upload.expire", .workspace = workspace, .object = id};
    int r = store_begin(u->store, STORE_WRITE, "dropping an upload", &tx, err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT u.id, u.workspace, w.tenant FROM uploads AS u"
                      " JOIN workspaces AS w ON w.id = u.workspace"
                      " WHERE u.expires_at_ms <= ?1 LIMIT 1",
                      "i", now_ms);
    if (r <= 0)
        return r;
    store_copy(rows, 0, id, sizeof(id));
    store_copy(rows, 1, workspace, sizeof(workspace));
    store_copy(rows, 2, tenant, sizeof(tenant));
    store_rows_done(&rows);
    r = store_exec(tx, err, "DELETE FROM uploads WHERE id = ?1", "t", id);
    if (r >= 0)
        r = audit_add(u->audit, tx, &service, &event, err);
    if (r == 0)
        r = store_commit(&tx, err);
    return r < 0 ? r : 1;
}

int upkeep_purge_due(struct upkeep *u, struct workspace_collected *ret,
                     struct error *err)
{
    int r = purge_workspaces(u, ret, err);

    if (r < 0)
        return r;
    while ((r = purge_upload(u, clock_real_ms(), err)) > 0) {
        ret->uploads++;
        if (upkeep_wait(u, 0))
            return 0;
    }
    return r;
}
