/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings a workspace's tree to its head: builds it, rolls it forward, puts a
 * difference over it, or finds it as an earlier run left it. Runs in the
 * daemon for tree.c, on a thread that holds the tree's `building`.
 */
#include "tree/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"

#define ATTEMPTS 4u /* the head may move on while a tree is made */

/* ---- layers ------------------------------------------------------------- */

void tree_make_free(struct tree_layer *layer)
{
    if (!layer)
        return;
    tree_watch_close(layer);
    mutex_done(&layer->watch.lock);
    tree_files_free(layer->files, layer->count);
    free(layer);
}

static void layer_drop(struct tree_layer **layer)
{
    tree_make_free(*layer);
}

static struct tree_layer *layer_new(unsigned generation)
{
    struct tree_layer *layer = xcalloc(1, sizeof(*layer));

    layer->generation = generation;
    layer->watch.fd = -1;
    mutex_init(&layer->watch.lock);
    return layer;
}

/* The names one by one as far as they are known, so that the blobs need not
 * be hashed again for having lost one. */
void tree_make_remove(struct blobs *b, int dir, struct tree_layer *layer)
{
    struct tree_place p cleanup(tree_place_done) = {
        .blobs = b, .owner = layer->owner, .root = -1, .folder = -1};
    struct error ignored; /* the removal below gets what this leaves */
    char name[16];

    tree_watch_close(layer); /* no check needs it any more */
    if (tree_place_open(&p, dir, layer->generation, false, &ignored) == 0)
        for (size_t i = 0; i < layer->count; i++)
            if (layer->files[i].path && !layer->files[i].gone)
                (void)tree_place_unlink(&p, &layer->files[i], &ignored);
    (void)snprintf(name, sizeof(name), "%u", layer->generation);
    tree_place_remove(dir, name);
}

void tree_make_detach(struct tree *t, struct tree_layer *layer)
{
    struct tree_layer **at = &t->layers;

    while (*at != layer)
        at = &(*at)->next;
    *at = layer->next;
    if (t->full == layer)
        t->full = NULL;
    if (t->diff == layer)
        t->diff = NULL;
}

/* Current no longer: removed now, or when the last one lets go. */
static void retire_layer(struct trees *trees, struct tree *t, int dir,
                         struct tree_layer *layer)
{
    bool idle;

    if (!layer)
        return;
    mutex_lock(&trees->lock);
    idle = layer->pins == 0;
    if (idle) {
        tree_make_detach(t, layer);
    } else {
        layer->doomed = true;
        if (t->full == layer)
            t->full = NULL;
        if (t->diff == layer)
            t->diff = NULL;
    }
    mutex_unlock(&trees->lock);
    if (!idle)
        return;
    tree_make_remove(trees->blobs, dir, layer);
    tree_make_free(layer);
}

static unsigned pins_of(struct trees *trees, const struct tree_layer *layer)
{
    unsigned pins;

    mutex_lock(&trees->lock);
    pins = layer->pins;
    mutex_unlock(&trees->lock);
    return pins;
}

/* A finished layer becomes the full one (or the difference). */
static void adopt_layer(struct trees *trees, struct tree *t,
                        struct tree_layer *layer, struct tree_layer **current)
{
    mutex_lock(&trees->lock);
    layer->next = t->layers;
    t->layers = layer;
    *current = layer;
    mutex_unlock(&trees->lock);
}

/* ---- making; under `building` ------------------------------------------- */

static int make_full(struct trees *trees, struct tree *t, int dir,
                     struct error *err)
{
    struct tree_layer *layer cleanup(layer_drop) = layer_new(++t->generation);
    struct tree_wants wants cleanup(tree_wants_done) = {0};
    int r = tree_rows_all(trees, t->workspace, &wants, err);

    if (r < 0)
        return r;
    retire_layer(trees, t, dir, t->diff);
    retire_layer(trees, t, dir, t->full);
    r = tree_build_full(trees->blobs, dir, layer, &wants, err);
    if (r < 0) {
        tree_make_remove(trees->blobs, dir, layer);
        return r;
    }
    tree_log_write(dir, trees->boot, layer);
    adopt_layer(trees, t, layer, &t->full);
    layer = NULL;
    return 0;
}

static int forward_full(struct trees *trees, struct tree *t, int dir,
                        const struct tree_wants *wants, struct error *err)
{
    int r;

    retire_layer(trees, t, dir, t->diff);
    tree_log_dirty(dir, t->full);
    r = tree_build_forward(trees->blobs, dir, t->full, wants, err);
    if (r == 0) {
        tree_log_forward(dir, trees->boot, t->full, wants);
        tree_watch_forward(dir, t->full, wants);
    } else {
        retire_layer(trees, t, dir, t->full); /* neither old nor new */
    }
    return r;
}

static int make_diff(struct trees *trees, struct tree *t, int dir,
                     const struct tree_wants *wants, struct error *err)
{
    struct tree_layer *layer cleanup(layer_drop) = layer_new(++t->generation);
    int r;

    retire_layer(trees, t, dir, t->diff);
    r = tree_diff_build(trees->blobs, dir, layer, t->full, wants, err);
    if (r < 0) {
        tree_make_remove(trees->blobs, dir, layer);
        return r;
    }
    adopt_layer(trees, t, layer, &t->diff);
    layer = NULL;
    return 0;
}

/* A workspace that changed hands gets links of its new tenant's own. */
static bool is_usable(const struct tree *t, const char *owner)
{
    return t->full && !t->full->suspect && strcmp(t->full->owner, owner) == 0;
}

/* When no pin uses the full layer, a difference layer is not needed: rolling
 * the full layer forward costs the same once and saves later users a layer. */
static bool is_current(struct trees *trees, const struct tree *t, int64_t head,
                       const char *owner)
{
    if (!is_usable(t, owner))
        return false;
    return t->full->seq >= head ||
           (t->diff && t->diff->seq >= head && !t->diff->suspect &&
            pins_of(trees, t->full) > 0);
}

/* One step towards the head; see tree_int.h. */
static int update_layers(struct trees *trees, struct tree *t, int dir,
                         const char *owner, struct error *err)
{
    struct tree_wants wants cleanup(tree_wants_done) = {0};
    int r;

    if (!is_usable(t, owner))
        return make_full(trees, t, dir, err);
    r = tree_rows_since(trees, t->workspace, t->full->seq, &wants, err);
    if (r < 0)
        return r;
    if (strcmp(wants.owner, t->full->owner) != 0)
        return make_full(trees, t, dir, err);
    if (pins_of(trees, t->full) == 0) {
        r = forward_full(trees, t, dir, &wants, err);
        /* A tree that was not as its log said is no reason to fail. */
        if (r == -ERR_INTERNAL || r == -ERR_CONFLICT)
            r = make_full(trees, t, dir, err);
        return r;
    }
    if (wants.count > trees->diff_max && wants.count > t->full->count / 2)
        return make_full(trees, t, dir, err);
    return make_diff(trees, t, dir, &wants, err);
}

/* Loads an earlier run's full layer, if it is complete. */
static void load_logged(struct trees *trees, struct tree *t, int dir)
{
    struct tree_layer *layer cleanup(layer_drop) = layer_new(0);
    DIR *listing cleanup(fd_closedir) = NULL;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;
    char keep[16] = "";

    if (tree_log_read(dir, trees->boot, layer) > 0) {
        (void)snprintf(keep, sizeof(keep), "%u", layer->generation);
        t->generation = MAX(t->generation, layer->generation);
        adopt_layer(trees, t, layer, &t->full);
        layer = NULL;
    }
    listing = fd >= 0 ? fdopendir(fd) : NULL;
    while (listing && (entry = readdir(listing))) {
        unsigned long n = strtoul(entry->d_name, NULL, 10);

        if (n == 0 || strcmp(entry->d_name, keep) == 0)
            continue; /* the log, and what is not ours */
        t->generation = MAX(t->generation, (unsigned)n);
        tree_place_remove(dir, entry->d_name);
    }
}

int tree_make_current(struct trees *trees, struct tree *t, int64_t head,
                      const char *owner, int *ret_dir, struct error *err)
{
    int dir cleanup(fd_close) = -1;
    int r = 0;
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

    dir = openat(trees->dir, t->workspace, flags);
    if (dir < 0 && errno == ENOENT &&
        mkdirat(trees->dir, t->workspace, 0700) == 0)
        dir = openat(trees->dir, t->workspace, flags);
    if (dir < 0)
        return tree_place_failed(err, errno);
    if (t->unknown)
        load_logged(trees, t, dir);
    t->unknown = false;
    for (unsigned i = 0; i < ATTEMPTS && !is_current(trees, t, head, owner);
         i++) {
        r = update_layers(trees, t, dir, owner, err);
        /* A blob that went because the head went on is no damage: what is
         * read next does not want it. */
        if (r < 0 && r != -ERR_CORRUPT)
            return r;
    }
    if (!is_current(trees, t, head, owner))
        return r < 0 ? r
                     : error_set(err, ERR_BUSY,
                                 "the workspace changes too fast; try again");
    *ret_dir = take_fd(dir);
    return 0;
}
