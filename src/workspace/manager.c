/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is open: the store, the blobs and the trail a workspace is made of,
 * and the threads beside them; see workspace.h. Runs in the daemon, once.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/shares_int.h"
#include "workspace/workspace_int.h"

int workspaces_open(const struct workspaces_settings *settings,
                    struct store *store, struct blobs *blobs,
                    struct audit *audit, struct workspaces **ret,
                    struct error *err)
{
    struct workspaces *w = xcalloc(1, sizeof(*w));

    w->settings = *settings;
    w->data_dir = xstrdup(settings->data_dir);
    w->settings.data_dir = w->data_dir;
    w->store = store;
    w->blobs = blobs;
    w->audit = audit;
    mutex_init(&w->lock);
    w->attempts = share_attempts_new();
    if (workspace_small_blob_rows_open(w, err) < 0 ||
        workspace_trees_open(w, err) < 0 ||
        workspace_maintenance_open(w, err) < 0) {
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
    workspace_maintenance_close(w);
    workspace_trees_close(w);
    workspace_small_blob_rows_close(w);
    share_attempts_free(w->attempts);
    mutex_done(&w->lock);
    free(w->data_dir);
    free(w);
}

struct blobs *workspaces_blobs(struct workspaces *w)
{
    return w->blobs;
}

struct store *workspaces_store(struct workspaces *w)
{
    return w->store;
}

struct audit *workspaces_audit(struct workspaces *w)
{
    return w->audit;
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
