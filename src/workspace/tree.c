/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trees that sessions mount: handing out, taking back, forgetting; see
 * tree_int.h for how they look and who locks what. Runs in the daemon on the
 * threads that wake and end sessions, and on the maintenance
 * threads.
 */
#include "workspace/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/workspace_int.h"

/* ---- handing out -------------------------------------------------------- */

static int layer_open(int dir, const struct tree_layer *layer, int *ret,
                      struct error *err)
{
    char name[16];

    (void)snprintf(name, sizeof(name), "%u", layer->generation);
    *ret = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret < 0 ? tree_place_failed(err, errno) : 0;
}

static bool is_empty(const struct tree_layer *full,
                     const struct tree_layer *diff)
{
    size_t count = full->count;

    for (size_t i = 0; diff && i < diff->count; i++) {
        bool had = tree_files_find(full, diff->files[i].path) != NULL;

        count += !had && !diff->files[i].gone;
        count -= had && diff->files[i].gone;
    }
    return count == 0;
}

static int hand_out(struct workspaces *w, struct tree *t, int64_t head,
                    int dir, struct workspace_tree *ret, struct error *err)
{
    struct tree_layer *diff = t->full->seq >= head ? NULL : t->diff;
    int layers[2] = {-1, -1};
    struct tree_pin *pin;
    int r = 0;

    *ret = (struct workspace_tree){.layers = {-1, -1}};
    memcpy(ret->workspace, t->workspace, sizeof(ret->workspace));
    ret->seq = diff ? diff->seq : t->full->seq;
    if (is_empty(t->full, diff))
        return 0;
    if (diff)
        r = layer_open(dir, diff, &layers[0], err);
    if (r == 0)
        r = layer_open(dir, t->full, &layers[diff ? 1 : 0], err);
    if (r < 0) {
        fd_close(&layers[0]);
        return r;
    }
    memcpy(ret->layers, layers, sizeof(layers));
    ret->count = diff ? 2 : 1;
    pin = xcalloc(1, sizeof(*pin));
    *pin = (struct tree_pin){.tree = t, .full = t->full, .diff = diff};
    mutex_lock(&w->trees->lock);
    pin->full->pins++;
    if (diff)
        diff->pins++;
    mutex_unlock(&w->trees->lock);
    ret->pin = pin;
    return 0;
}

int workspace_tree_acquire(struct workspaces *w, const struct actor *who,
                           const char *id, struct workspace_tree *ret,
                           struct error *err)
{
    char owner[BLOB_OWNER];
    struct workspace_row row;
    struct tree *t;
    bool grown;
    int r;

    {
        struct store_tx *tx cleanup(store_rollback) = NULL;

        r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "opening a workspace", &tx, &row, err);
        if (r < 0)
            return r;
    }
    *ret = (struct workspace_tree){.layers = {-1, -1}};
    memcpy(ret->workspace, row.id, sizeof(ret->workspace));
    if (row.head == 0)
        return 0; /* nothing was ever committed */
    blob_owner(row.tenant, owner);
    t = tree_register_use(w->trees, row.id, true);
    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&t->building);
        int dir cleanup(fd_close) = -1;

        grown = !t->layers;
        r = tree_make_current(w, t, row.head, owner, &dir, err);
        if (r == 0)
            r = hand_out(w, t, row.head, dir, ret, err);
    }
    tree_register_settle(w->trees, t);
    if (grown)
        tree_register_room(w->trees);
    return r;
}

/* ---- taking back -------------------------------------------------------- */

/* The next layer that is only waited for; out of the list. */
static struct tree_layer *doomed(struct workspace_trees *trees, struct tree *t)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);

    for (struct tree_layer *l = t->layers; l; l = l->next)
        if (l->doomed && l->pins == 0) {
            tree_make_detach(t, l);
            return l;
        }
    return NULL;
}

static void unpin(struct workspace_trees *trees, struct tree_pin *pin)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);

    pin->tree->users++; /* so that it stays while we clear up */
    pin->full->pins--;
    if (pin->diff)
        pin->diff->pins--;
}

void workspace_tree_release(struct workspaces *w, struct workspace_tree *tree)
{
    struct tree_pin *pin cleanup(mem_free) = tree->pin;
    struct tree_layer *layer;

    for (size_t i = 0; i < ARRAY_SIZE(tree->layers) && i < tree->count; i++)
        fd_close(&tree->layers[i]);
    *tree = (struct workspace_tree){.layers = {-1, -1}};
    if (!pin)
        return;
    unpin(w->trees, pin);
    while ((layer = doomed(w->trees, pin->tree))) {
        int dir cleanup(fd_close) =
            openat(w->trees->dir, pin->tree->workspace,
                   O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (dir >= 0)
            tree_make_remove(w->blobs, dir, layer);
        tree_make_free(layer);
    }
    tree_register_settle(w->trees, pin->tree);
}

void workspace_tree_forget(struct workspaces *w, const char *id)
{
    struct tree *t = tree_register_use(w->trees, id, false);

    if (!t)
        return;
    {
        struct mutex *held cleanup(mutex_release) =
            mutex_hold(&w->trees->lock);

        t->forgotten = true;
    }
    tree_register_settle(w->trees, t);
}
