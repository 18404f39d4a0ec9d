/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the files of large trees with inotify: one watch on each inode,
 * whatever name it is reached by, and one on each folder that leads there. A
 * check then costs as much as was touched since the last one, not as much as
 * there is. Runs in the daemon for check.c and on the thread
 * tree_watcher_main.
 *
 * A watch only ever adds doubt. A file that an event names is verified as
 * before, by inode and ctime; when events were lost, or the kernel has no
 * watches left, every file is. The kernel reports a write when the system call
 * returns, but a write through a mapping only when the mapping is closed; for
 * the latter the thread verifies every file of a tree in use now and then.
 *
 * The thread yields to everyone else: it starts when the sandbox that needed
 * the tree is up, holds the tree's `building` and gives it up when another
 * thread wants it. Watches are kernel memory, some 200 bytes each and the
 * inode they pin, and a user has a bounded number. When they run out, trees
 * that were not used for a while lose theirs; a tree without watches is
 * checked in full.
 */
#include "tree/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"

#define FILE_EVENTS                                                           \
    (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVE_SELF | IN_DELETE_SELF | \
     IN_DONT_FOLLOW)
#define FOLDER_EVENTS (IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW)
#define READS_MAX 1024u
#define NAMED_MAX 256u /* events handled one by one; more: check all */

#define PAUSE_MS 300u
#define LOOK_MS 10000u /* between looks at all files of a tree in use */
#define UNUSED_MS 60000
#define STEP 256u        /* files between looks who else is there */
#define INSTANCES_MAX 64 /* half of what Linux gives a user */
#define WATCHES_MAX 150000u
#define WATCHES_LEAST 200u /* of fewer, looking at all is as quick */
#define SLACK 1000u        /* watches of files that are no more */

/* ---- making ------------------------------------------------------------- */

/* Where all that writes goes through this kernel. */
static bool is_local(int dir)
{
    struct statfs fs;

    if (fstatfs(dir, &fs) < 0)
        return false;
    switch ((unsigned long)fs.f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
        return true;
    default:
        return false;
    }
}

bool tree_watch_open(struct tree_layer *layer, int dir)
{
    if (layer->watch.fd < 0 && is_local(dir))
        layer->watch.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return layer->watch.fd >= 0;
}

/* By way of a descriptor, so that no name above ours matters. */
static int add_watch(struct tree_layer *layer, int dir, const char *name,
                     uint32_t events)
{
    char path[PATH_BYTES_MAX + 32];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
    layer->watch.added++;
    return inotify_add_watch(layer->watch.fd, path, events);
}

bool tree_watch_file(struct tree_layer *layer, struct tree_place *p,
                     struct tree_file *file)
{
    const char *name;
    int watch;

    if (tree_place_find(p, file->path, &name) < 0)
        return false;

    /* Moving a folder moves its files without an event for each file, so watch
     * every folder on the path. */
    bool ok = true;

    for (size_t i = p->known; i < p->len && ok; i++) {
        if (p->path[i] != '/')
            continue;
        p->path[i] = 0;
        ok = add_watch(layer, p->root, p->path, FOLDER_EVENTS) >= 0;
        p->path[i] = '/';
    }
    if (!ok)
        return false;

    p->known = p->len;
    watch = add_watch(layer, p->folder, name, FILE_EVENTS);
    if (watch <= 0)
        return false;
    file->watch = watch;
    return true;
}

void tree_watch_forward(int dir, struct tree_layer *layer,
                        const struct tree_wants *wants)
{
    struct tree_place p cleanup(tree_place_done) = {.root = -1, .folder = -1};
    struct error ignored;
    bool ok;

    if (!layer->watch.ready)
        return;
    ok = tree_place_open(&p, dir, layer->generation, false, &ignored) == 0;
    for (size_t i = 0; i < wants->count && ok; i++) {
        struct tree_file *file = tree_files_find(layer, wants->wants[i].path);

        if (!file || file->watch)
            continue;
        ok = tree_watch_file(layer, &p, file);
        tree_watch_doubt(layer, file, true); /* it was linked before */
    }
    if (!ok)
        tree_watch_close(layer);
}

void tree_watch_close(struct tree_layer *layer)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&layer->watch.lock);
    struct tree_watch *v = &layer->watch;

    if (v->fd < 0)
        return;
    fd_close(&v->fd);
    v->ready = v->whole = false;
    v->added = v->needed = v->doubts = 0;
    for (size_t i = 0; i < layer->count; i++) {
        layer->files[i].watch = 0;
        layer->files[i].doubted = false;
    }
}

/* ---- hearing ------------------------------------------------------------ */

/* Watches that events name, once each. */
struct named {
    int watches[NAMED_MAX];
    size_t count;
    bool more;
};

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

static void add_named(struct named *n, int watch)
{
    if (n->count && n->watches[n->count - 1] == watch)
        return;
    if (n->count == NAMED_MAX)
        n->more = true;
    else
        n->watches[n->count++] = watch;
}

static const struct inotify_event *event_at(const char *bytes)
{
    return (const void *)bytes;
}

/* All that happened; false when not all of it can be known. */
static bool read_events(int fd, struct named *n, bool *ret_moved)
{
    char bytes[8192] __attribute__((aligned(8)));

    for (unsigned reads = 0; reads < READS_MAX; reads++) {
        ssize_t len = read(fd, bytes, sizeof(bytes));

        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return len < 0 && errno == EAGAIN;
        for (const char *at = bytes; at < bytes + len;
             at += sizeof(struct inotify_event) + event_at(at)->len) {
            const struct inotify_event *event = event_at(at);

            if (event->mask & (IN_Q_OVERFLOW | IN_UNMOUNT))
                n->more = true;
            *ret_moved |= !!(event->mask & IN_MOVE_SELF);
            add_named(n, event->wd);
        }
    }
    return false;
}

void tree_watch_doubt(struct tree_layer *layer, struct tree_file *file,
                      bool doubted)
{
    layer->watch.doubts += !file->doubted && doubted;
    layer->watch.doubts -= file->doubted && !doubted;
    file->doubted = doubted;
}

/* Files of one content are one inode: each name of it is doubted. What names
 * no file was one that the layer has no more, or a folder. */
void tree_watch_hear(struct tree_layer *layer)
{
    struct named n = {.count = 0};
    bool moved = false;

    if (!read_events(layer->watch.fd, &n, &moved) || n.more || moved) {
        layer->watch.whole = true;
        return;
    }
    if (n.count == 0)
        return;
    qsort(n.watches, n.count, sizeof(n.watches[0]), by_number);
    for (size_t i = 0; i < layer->count; i++) {
        struct tree_file *file = &layer->files[i];

        if (bsearch(&file->watch, n.watches, n.count, sizeof(n.watches[0]),
                    by_number))
            tree_watch_doubt(layer, file, true);
    }
}

/* ---- the watcher thread ------------------------------------------------- */

/* A quarter of what the user may have is for others. */
void tree_watcher_init(struct trees *trees)
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
 * Its `users` are 0, so no thread changes its layers. */
static struct tree *watch_usage(struct trees *trees, size_t *ret_watches,
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

static bool free_watches(struct trees *trees, size_t count)
{
    for (unsigned i = 0; i <= INSTANCES_MAX; i++) {
        struct tree *t;

        {
            struct mutex *held cleanup(mutex_release) =
                mutex_hold(&trees->lock);
            unsigned instances;
            size_t watches;

            t = watch_usage(trees, &watches, &instances);
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
        tree_unuse(trees, t);
    }
    return false;
}

/* ---- a tree --------------------------------------------------------------
 */

bool tree_watcher_yields(struct trees *trees, const struct tree *t,
                         size_t done)
{
    struct mutex *held cleanup(mutex_release) = NULL;

    if (done % STEP)
        return false;
    held = mutex_hold(&trees->lock);
    return t->users > 1 || trees->stopping;
}

/* True when all of it is watched; what was begun is gone on with. */
static bool watch_all(struct trees *trees, struct tree *t, int dir,
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
static bool watch_layer(struct trees *trees, struct tree *t, int dir,
                        struct tree_layer *layer)
{
    bool later = false;

    if (layer->watch.ready &&
        layer->watch.added > 2 * layer->watch.needed + SLACK)
        tree_watch_close(layer);
    if (!layer->watch.ready) {
        if (layer->watch.fd < 0 && !free_watches(trees, layer->count))
            return true;
        if (!watch_all(trees, t, dir, layer, &later))
            return !later;
    }
    /* Check for changes before the watch existed. */
    if (!tree_check_look(trees, t, dir, layer))
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

bool tree_watcher_serve(struct trees *trees, struct tree *t)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&t->building);
    int dir cleanup(fd_close) =
        openat(trees->dir, t->workspace,
               O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir < 0 || !t->full || t->full->suspect)
        return true;
    return watch_layer(trees, t, dir, t->full);
}

/* ---- the thread ----------------------------------------------------------
 */

/* The tree that waits for longest, and until when. */
static struct tree *next_wanted(struct trees *trees)
{
    struct tree *first = NULL;

    mutex_assert_held(&trees->lock);
    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next)
            if (t->wanted_ms && (!first || t->wanted_ms < first->wanted_ms))
                first = t;
    return first;
}

static void tree_watcher_main(void *arg)
{
    struct trees *trees = arg;

    mutex_lock(&trees->lock);
    while (!trees->stopping) {
        struct tree *t = next_wanted(trees);
        bool done;

        if (!t || clock_left_ms(t->wanted_ms) > 0) {
            if (t)
                (void)cond_wait_until(&trees->wanted, &trees->lock,
                                      t->wanted_ms);
            else
                cond_wait(&trees->wanted, &trees->lock);

            continue;
        }
        t->wanted_ms = 0;
        t->users++;
        mutex_unlock(&trees->lock);
        done = tree_watcher_serve(trees, t);
        mutex_lock(&trees->lock);
        if (!done && !t->wanted_ms)
            t->wanted_ms = clock_mono_ms() + trees->watch_pause_ms;
        mutex_unlock(&trees->lock);
        tree_unuse(trees, t);
        mutex_lock(&trees->lock);
    }
    mutex_unlock(&trees->lock);
}

static bool check_is_due(struct tree_layer *layer)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&layer->watch.lock);

    return !layer->watch.ready ||
           clock_mono_ms() - layer->watch.looked_ms > LOOK_MS;
}

void tree_watcher_want(struct trees *trees, struct tree *t,
                       struct tree_layer *layer)
{
    struct mutex *held cleanup(mutex_release) = NULL;
    struct error ignored;

    if (layer->count < trees->watch_least || !check_is_due(layer))
        return;
    held = mutex_hold(&trees->lock);
    if (t->wanted_ms || trees->stopping)
        return;
    /* Without a thread each check is one in full, as it was. */
    if (!trees->watcher.started &&
        thread_start(&trees->watcher, "tree-watcher", tree_watcher_main, trees,
                     &ignored) < 0)
        return;
    t->wanted_ms = clock_mono_ms() + trees->watch_pause_ms;
    cond_signal(&trees->wanted);
}

void tree_watcher_stop(struct trees *trees)
{
    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);

        trees->stopping = true;
        cond_signal(&trees->wanted);
    }
    thread_join(&trees->watcher);
    cond_done(&trees->wanted);
}
