/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens what workspaces are built on: store, blobs and trail, and the threads
 * beside them; see workspace.h. Runs in the daemon, once.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "core/core.h"
#include "workspace/library.h"
#include "workspace/shares_int.h"
#include "workspace/workspace_int.h"

/* The collector's first step. */
static int expire(void *ctx, uint64_t *ret_removed, struct error *err)
{
    struct workspaces *w = ctx;
    int r = library_sweep(w, ret_removed, err);

    if (r == 0) {
        struct mutex *held cleanup(mutex_release) =
            mutex_hold(&w->expire_lock);

        if (w->on_expire)
            r = w->on_expire(w->on_expire_ctx, ret_removed, err);
    }
    return r < 0 ? r : workspaces_expire_unnamed(w, ret_removed, err);
}

void workspaces_on_expire(struct workspaces *w, workspaces_expire_fn *fn,
                          void *ctx)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->expire_lock);

    w->on_expire = fn;
    w->on_expire_ctx = ctx;
}

static int open_upkeep(struct workspaces *w, struct error *err)
{
    struct upkeep_settings settings = {
        .data_dir = w->data_dir,
        .restore_window_s = w->settings.restore_window_s,
        .collect_every_s = w->settings.collect_every_s,
        .scrub_bytes_per_s = w->settings.scrub_bytes_per_s,
        .backup_dir = w->settings.backup_dir,
        .backup_key_file = w->settings.backup_key_file,
        .backup_free_bytes = w->settings.backup_free_bytes,
        .expire = expire,
        .expire_ctx = w,
    };

    return upkeep_open(&settings, w->store, w->blobs, w->audit, w->trees,
                       &w->upkeep, err);
}

int workspaces_open(const struct workspaces_settings *settings,
                    const struct core *core, struct workspaces **ret,
                    struct error *err)
{
    struct workspaces *w = xcalloc(1, sizeof(*w));

    w->settings = *settings;
    w->data_dir = xstrdup(settings->data_dir);
    w->settings.data_dir = w->data_dir;
    w->store = core->store;
    w->blobs = core->blobs;
    w->audit = core->audit;
    w->nodes = core->nodes;
    w->quotas = core->quotas;
    w->govern =
        (struct govern){.policy = core->policy, .approvals = core->approvals};
    mutex_init(&w->expire_lock);
    mutex_init(&w->lock);
    w->attempts = share_attempts_new();
    if (trees_open(w->data_dir, w->store, w->blobs, &w->trees, err) < 0 ||
        open_upkeep(w, err) < 0) {
        workspaces_close(w);
        return -(int)err->code;
    }
    *ret = w;
    return 0;
}

void workspaces_close(struct workspaces *w)
{
    if (!w)
        return;
    upkeep_close(w->upkeep);
    trees_close(w->trees);
    share_attempts_free(w->attempts);
    mutex_done(&w->lock);
    mutex_done(&w->expire_lock);
    free(w->data_dir);
    free(w);
}

void workspaces_on_commit(struct workspaces *w, void (*fn)(void *ctx),
                          void *ctx)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);

    w->on_commit = fn;
    w->on_commit_ctx = ctx;
}

/* Under the lock, so that once a listener has been taken away it is not
 * called any more; it is quick by contract. */
void workspaces_committed(struct workspaces *w)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);

    w->commits++;
    if (w->on_commit)
        w->on_commit(w->on_commit_ctx);
}

uint64_t workspaces_commits(struct workspaces *w)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);

    return w->commits;
}

int workspace_blob_owner(struct workspaces *w, const char *id,
                         char ret[BLOB_OWNER], struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r =
        store_begin(w->store, STORE_READ, "looking for a workspace", &tx, err);

    if (r == 0)
        r = workspace_row_get(tx, id, &row, err);
    if (r == 0)
        blob_owner(row.tenant, ret);
    return r;
}

int workspace_check_write(struct workspaces *w, const struct actor *who,
                          const char *id, char ret[BLOB_OWNER],
                          struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_EDITOR, STORE_READ,
                            "checking write access", &tx, &row, err);

    if (r == 0)
        blob_owner(row.tenant, ret);
    return r;
}

/* ---- trees -------------------------------------------------------------- */

int workspace_tree_acquire(struct workspaces *w, const struct actor *who,
                           const char *id, struct workspace_tree *ret,
                           struct error *err)
{
    struct workspace_row row;
    char owner[BLOB_OWNER];

    {
        struct store_tx *tx cleanup(store_rollback) = NULL;
        int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                                "opening a workspace", &tx, &row, err);

        if (r < 0)
            return r;
    }
    *ret = (struct workspace_tree){.layers = {-1, -1}};
    memcpy(ret->workspace, row.id, sizeof(ret->workspace));
    if (row.head == 0)
        return 0; /* nothing was ever committed */
    blob_owner(row.tenant, owner);
    return trees_acquire(w->trees, row.id, row.head, owner, ret, err);
}

int workspace_tree_check(struct workspaces *w,
                         const struct workspace_tree *tree, struct error *err)
{
    return trees_check(w->trees, tree, err);
}

void workspace_tree_release(struct workspaces *w, struct workspace_tree *tree)
{
    trees_release(w->trees, tree);
}

/* ---- upkeep ------------------------------------------------------------- */

int workspaces_collect(struct workspaces *w, struct workspace_collected *ret,
                       struct error *err)
{
    return upkeep_collect(w->upkeep, ret, err);
}

int workspaces_verify(struct workspaces *w,
                      void (*progress)(void *ctx, uint64_t done,
                                       uint64_t total),
                      void *ctx, struct workspace_verified *ret,
                      struct error *err)
{
    return upkeep_verify(w->upkeep, progress, ctx, ret, err);
}

void workspaces_scrub_state(struct workspaces *w, struct workspace_scrub *ret)
{
    upkeep_scrub_state(w->upkeep, ret);
}

int workspaces_backup(struct workspaces *w, const char *dir,
                      void (*progress)(void *ctx, const char *what,
                                       uint64_t done, uint64_t total),
                      void *ctx, struct error *err)
{
    return upkeep_backup(w->upkeep, dir, progress, ctx, err);
}

void workspaces_backup_state(struct workspaces *w,
                             struct upkeep_backup_state *ret)
{
    upkeep_backup_state(w->upkeep, ret);
}

int workspaces_backup_schedule(struct workspaces *w, uint32_t every_s,
                               uint32_t keep, struct error *err)
{
    return upkeep_backup_schedule(w->upkeep, every_s, keep, err);
}

int workspaces_backup_now(struct workspaces *w, const struct actor *who,
                          void (*progress)(void *ctx, const char *what,
                                           uint64_t done, uint64_t total),
                          void *ctx, struct error *err)
{
    return upkeep_backup_now(w->upkeep, who, progress, ctx, err);
}
