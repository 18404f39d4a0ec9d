/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is open: the store, the blobs and the trail a workspace is made of,
 * and the threads beside them; see workspace.h. Runs in the daemon, once.
 */
#include "base/error.h"
#include "base/mem.h"
#include "workspace/shares_int.h"
#include "workspace/workspace_int.h"

pthread_mutex_t *workspace_lock_mutex(pthread_mutex_t *m)
{
    (void)pthread_mutex_lock(m); /* fails only for a bug of ours */
    return m;
}

void workspace_unlock_mutex(pthread_mutex_t **m)
{
    if (*m)
        (void)pthread_mutex_unlock(*m);
}

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
    (void)pthread_mutex_init(&w->lock, NULL); /* cannot fail on Linux */
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
    (void)pthread_mutex_destroy(&w->lock);
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
    pthread_mutex_t *held cleanup(workspace_unlock_mutex) =
        workspace_lock_mutex(&w->lock);

    w->on_commit = fn;
    w->on_commit_ctx = ctx;
}

/* Under the lock, so that once a listener has been taken away it is not
 * called any more; it is quick by contract. */
void workspaces_committed(struct workspaces *w)
{
    pthread_mutex_t *held cleanup(workspace_unlock_mutex) =
        workspace_lock_mutex(&w->lock);

    w->commits++;
    if (w->on_commit)
        w->on_commit(w->on_commit_ctx);
}

uint64_t workspaces_commits(struct workspaces *w)
{
    pthread_mutex_t *held cleanup(workspace_unlock_mutex) =
        workspace_lock_mutex(&w->lock);

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
