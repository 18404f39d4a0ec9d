/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a workspace: deleting it, bringing it back within its window,
 * and destroying it at once; see workspace.h. What was deleted long enough
 * ago is purge.c's. Runs in the daemon on the caller's thread, one
 * transaction a call.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

static int check_hold(struct workspaces *w, const struct actor *who,
                      const struct workspace_row *row, const char *action,
                      struct error *err)
{
    if (!row->legal_hold)
        return 0;
    (void)error_set(err, ERR_CONFLICT,
                    "the workspace is under legal hold and stays");
    workspace_refused(w, who, action, row->id, NULL, err);
    return -ERR_CONFLICT;
}

static int set_deleted(struct store_tx *tx, const char *id, int64_t at_ms,
                       struct error *err)
{
    int r = store_exec(tx, err,
                       "UPDATE workspaces SET deleted_at_ms = ?2"
                       " WHERE id = ?1",
                       "ti", id, at_ms);

    return MIN(r, 0);
}

int workspace_delete(struct workspaces *w, const struct actor *who,
                     const char *id, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {
        .action = "workspace.delete", .workspace = id, .object = id};
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_OWNER, STORE_WRITE,
                            "deleting a workspace", &tx, &row, err);

    if (r == 0)
        r = check_hold(w, who, &row, event.action, err);
    if (r == 0)
        r = set_deleted(tx, id, clock_real_ms(), err);
    if (r == 0)
        r = audit_add(w->audit, tx, who, &event, err);
    return r < 0 ? r : store_commit(&tx, err);
}

/* Past its time it may be half purged already, and is as good as gone. */
static int find_deleted(struct workspaces *w, struct store_tx *tx,
                        const struct actor *who, const char *id,
                        struct workspace_row *ret, struct error *err)
{
    int r = workspace_access_deleted(tx, w, who, id, ROLE_OWNER, ret, err);
    int64_t window = 1000 * (int64_t)w->settings.restore_window_s;

    if (r == 0 && ret->deleted_at_ms + window <= clock_real_ms())
        return error_set(err, ERR_NOT_FOUND, "no such workspace");
    return r;
}

int workspace_undelete(struct workspaces *w, const struct actor *who,
                       const char *id, struct workspace_info *ret,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {
        .action = "workspace.undelete", .workspace = id, .object = id};
    struct workspace_row row;
    struct workspace_info info;
    int r = store_begin(w->store, STORE_WRITE, "bringing a workspace back",
                        &tx, err);

    if (r == 0)
        r = find_deleted(w, tx, who, id, &row, err);
    if (r == 0) /* its bytes never stopped counting */
        r = workspace_quota_enter(w, tx, row.tenant, 0, err);
    if (r == 0)
        r = set_deleted(tx, id, 0, err);
    if (r == 0)
        r = audit_add(w->audit, tx, who, &event, err);
    row.deleted_at_ms = 0;
    if (r == 0)
        r = workspace_row_info(w, tx, &row, &info, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        *ret = info;
    return r;
}

/* Deleted so long ago that nobody brings it back and the collector goes on
 * with it should we be cut off. */
#define DELETED_LONG_AGO 1

int workspace_destroy(struct workspaces *w, const struct actor *who,
                      const char *id, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_collected swept = {0};
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_OWNER, STORE_WRITE,
                            "destroying a workspace", &tx, &row, err);

    if (r == 0)
        r = check_hold(w, who, &row, "workspace.destroy", err);
    if (r == 0)
        r = audit_intact(w->audit, err);
    if (r == 0)
        r = set_deleted(tx, id, DELETED_LONG_AGO, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    return workspace_purge(w, who, id, "workspace.destroy", &swept, err);
}

/* ---- for good, before its time ------------------------------------------ */

static int destroy_deleted(struct workspaces *w, const struct actor *who,
                           const char *id, struct workspace_collected *ret,
                           struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r =
        store_begin(w->store, STORE_WRITE, "purging a workspace", &tx, err);

    if (r == 0)
        r = find_deleted(w, tx, who, id, &row, err);
    if (r == 0)
        r = check_hold(w, who, &row, "workspace.destroy", err);
    if (r == 0)
        r = set_deleted(tx, id, DELETED_LONG_AGO, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        r = workspace_purge(w, who, id, "workspace.destroy", ret, err);
    ret->workspaces += r == 0;
    return r;
}

int workspace_purge_now(struct workspaces *w, const struct actor *who,
                        const char *id, const char *path,
                        struct workspace_collected *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_OWNER, STORE_READ,
                            "purging a workspace", &tx, &row, err);

    *ret = (struct workspace_collected){0};
    if (r == -ERR_NOT_FOUND && !path[0])
        return destroy_deleted(w, who, id, ret, err);
    if (r == 0)
        r = check_hold(w, who, &row, "version.purge", err);
    store_rollback(&tx);
    return r < 0 ? r : workspace_retention_now(w, who, &row, path, ret, err);
}
