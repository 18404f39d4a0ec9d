/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that has trees watched (tree_watch.c) once they were checked in
 * full, and looks at all files of a watched one in use now and then. Runs in
 * the daemon, behind everybody else: it waits until the sandbox that needed
 * the tree is up, holds the tree's `building` and lets go when anybody asks.
 *
 * Watches are kernel memory, some 200 bytes each and the inode they hold, and
 * a user has a bounded number. Where there is no room, what was not used for a
 * while gives way; a tree without one is checked in full.
 */
#include "workspace/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/workspace_int.h"

#define PAUSE_MS 300u
#define LOOK_MS 10000u /* between looks at all files of a tree in use */
#define UNUSED_MS 60000
#define STEP 256u        /* files between looks who else is there */
#define INSTANCES_MAX 64 /* half of what Linux gives a user */
#define WATCHES_MAX 150000u
#define WATCHES_LEAST 200u /* of fewer, looking at all is as quick */
#define SLACK 1000u        /* watches of files that are no more */

static struct mutex *lock(struct workspace_trees *trees)
{
    return mutex_hold(&trees->lock);
}

/* A quarter of what the user may have is for others. */
void tree_watcher_init(struct workspace_trees *trees)
{
    char *text cleanup(mem_free) = NULL;

    cond_init(&trees->wanted);
    trees->watch_least = WATCHES_LEAST;
    trees->watch_max = WATCHES_MAX;
    trees->watch_pause_ms = PAUSE_MS;
    if (fd_read_file(AT_FDCWD, "/proc/sys/user/max_inotify_watches", 32, &text,
                     NULL) == 0)
        trees->watch_max =
            MIN(trees->watch_max, strtoul(text, NULL, 10) / 4 * 3);
}

/* ---- room --------------------------------------------------------------- */

/* How much is watched, and the tree to give way next, or NULL.
 * Its `users` being 0, nobody changes its layers. */
static struct tree *usage(struct workspace_trees *trees, size_t *ret_watches,
                          unsigned *ret_instances)
{
    int64_t before = clock_real_ms() - UNUSED_MS;
    struct tree *least = NULL;

    mutex_assert_held(&trees->lock);
    *ret_watches = *ret_instances = 0;
    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next)
            for (struct tree_layer *l = t->layers; l; l = l->next) {
                if (l->watch.added == 0)
                    continue;
                *ret_watches += l->watch.added;
                ++*ret_instances;
                if (t->users == 0 && t->full == l && t->used_ms < before &&
                    (!least || t->used_ms < least->used_ms))
                    least = t;
            }
    return least;
}

static bool make_room(struct workspace_trees *trees, size_t count)
{
    for (unsigned i = 0; i <= INSTANCES_MAX; i++) {
        struct tree *t;

        {
            struct mutex *held cleanup(mutex_release) = lock(trees);
            unsigned instances;
            size_t watches;

            t = usage(trees, &watches, &instances);
            if (watches + count <= trees->watch_max &&
                instances < INSTANCES_MAX)
                return true;
            if (!t || count > trees->watch_max)
                return false;
            t->users++;
        }
        {
            struct mutex *held cleanup(mutex_release) =
                mutex_hold(&t->building);

            if (t->full)
                tree_watch_close(t->full);
        }
        tree_register_settle(trees, t);
    }
    return false;
}

/* ---- a tree --------------------------------------------------------------
 */

bool tree_watcher_yields(struct workspace_trees *trees, const struct tree *t,
                         size_t done)
{
    struct mutex *held cleanup(mutex_release) = NULL;

    if (done % STEP)
        return false;
    held = lock(trees);
    return t->users > 1 || trees->stopping;
}

/* True when all of it is watched; what was begun is gone on with. */
static bool watch_all(struct workspace_trees *trees, struct tree *t, int dir,
                      struct tree_layer *layer, bool *ret_later)
{
    struct tree_place p cleanup(tree_place_done) = {.root = -1, .folder = -1};
    struct error ignored;

    if (!tree_watch_open(layer, dir) ||
        tree_place_open(&p, dir, layer->generation, false, &ignored) < 0)
        return false;
    for (size_t i = 0; i < layer->count; i++) {
        struct tree_file *file = &layer->files[i];

        if (file->watch)
            continue;
        if (tree_watcher_yields(trees, t, i)) {
            *ret_later = true;
            return false;
        }
        if (!tree_watch_file(layer, &p, file)) {
            tree_watch_close(layer);
            return false;
        }
    }
    return true;
}

/* Under `building`. False: to be gone on with later. */
static bool serve(struct workspaces *w, struct tree *t, int dir,
                  struct tree_layer *layer)
{
    bool later = false;

    if (layer->watch.ready &&
        layer->watch.added > 2 * layer->watch.needed + SLACK)
        tree_watch_close(layer);
    if (!layer->watch.ready) {
        if (layer->watch.fd < 0 && !make_room(w->trees, layer->count))
            return true;
        if (!watch_all(w->trees, t, dir, layer, &later))
            return !later;
    }
    /* What happened before there was a watch. */
    if (!tree_check_look(w, t, dir, layer))
        return false;
    {
        struct mutex *held cleanup(mutex_release) =
            mutex_hold(&layer->watch.lock);

        if (!layer->watch.ready)
            layer->watch.needed = layer->watch.added;
        layer->watch.ready = layer->watch.fd >= 0;
        layer->watch.looked_ms = clock_mono_ms();
    }
    return true;
}

bool tree_watcher_serve(struct workspaces *w, struct tree *t)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&t->building);
    int dir cleanup(fd_close) =
        openat(w->trees->dir, t->workspace,
               O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir < 0 || !t->full || t->full->suspect)
        return true;
    return serve(w, t, dir, t->full);
}

/* ---- the thread ----------------------------------------------------------
 */

/* The tree that waits for longest, and until when. */
static struct tree *next_wanted(struct workspace_trees *trees)
{
    struct tree *first = NULL;

    mutex_assert_held(&trees->lock);
    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next)
            if (t->wanted_ms && (!first || t->wanted_ms < first->wanted_ms))
                first = t;
    return first;
}

static void await(struct workspace_trees *trees, const struct tree *t)
{
    if (t)
        (void)cond_wait_until(&trees->wanted, &trees->lock, t->wanted_ms);
    else
        cond_wait(&trees->wanted, &trees->lock);
}

static void tree_watcher_main(void *arg)
{
    struct workspaces *w = arg;
    struct workspace_trees *trees = w->trees;

    mutex_lock(&trees->lock);
    while (!trees->stopping) {
        struct tree *t = next_wanted(trees);
        bool done;

        if (!t || clock_left_ms(t->wanted_ms) > 0) {
            await(trees, t);
            continue;
        }
        t->wanted_ms = 0;
        t->users++;
        mutex_unlock(&trees->lock);
        done = tree_watcher_serve(w, t);
        mutex_lock(&trees->lock);
        if (!done && !t->wanted_ms)
            t->wanted_ms = clock_mono_ms() + trees->watch_pause_ms;
        mutex_unlock(&trees->lock);
        tree_register_settle(trees, t);
        mutex_lock(&trees->lock);
    }
    mutex_unlock(&trees->lock);
}

static bool is_due(struct tree_layer *layer)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&layer->watch.lock);

    return !layer->watch.ready ||
           clock_mono_ms() - layer->watch.looked_ms > LOOK_MS;
}

void tree_watcher_want(struct workspaces *w, struct tree *t,
                       struct tree_layer *layer)
{
    struct workspace_trees *trees = w->trees;
    struct mutex *held cleanup(mutex_release) = NULL;
    struct error ignored;

    if (layer->count < trees->watch_least || !is_due(layer))
        return;
    held = lock(trees);
    if (t->wanted_ms || trees->stopping)
        return;
    /* Without a thread each check is one in full, as it was. */
    if (!trees->watcher.started &&
        thread_start(&trees->watcher, "tree-watcher", tree_watcher_main, w,
                     &ignored) < 0)
        return;
    t->wanted_ms = clock_mono_ms() + trees->watch_pause_ms;
    cond_signal(&trees->wanted);
}

void tree_watcher_stop(struct workspace_trees *trees)
{
    {
        struct mutex *held cleanup(mutex_release) = lock(trees);

        trees->stopping = true;
        cond_signal(&trees->wanted);
    }
    thread_join(&trees->watcher);
    cond_done(&trees->wanted);
}
