/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel tells of the files of a full layer: a watch on each inode,
 * whatever name it is reached by, and on the folders that lead there. With it
 * a check costs what was touched since the last one, not what is there. Runs
 * in the daemon for tree_check.c and tree_watcher.c.
 *
 * A watch only ever adds doubt. What an event names is looked at as before,
 * by inode and ctime; when more happened than the kernel could keep, or it
 * has no watches left, everything is. A write is told when the call that
 * makes it returns, one through a mapping when that is closed; for the sake of
 * the latter tree_watcher.c looks at everything now and then.
 */
#include "workspace/tree_int.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/workspace_int.h"

#define FILE_EVENTS                                                           \
    (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVE_SELF | IN_DELETE_SELF | \
     IN_DONT_FOLLOW)
#define FOLDER_EVENTS (IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW)
#define READS_MAX 1024u
#define NAMED_MAX 256u /* watches told of at once; more: look at all */

static struct mutex *lock(struct tree_layer *layer)
{
    return mutex_hold(&layer->watch.lock);
}

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
static int add(struct tree_layer *layer, int dir, const char *name,
               uint32_t events)
{
    char path[PATH_BYTES_MAX + 32];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
    layer->watch.added++;
    return inotify_add_watch(layer->watch.fd, path, events);
}

/* A folder that is moved takes its files with it, and none of them knows. */
static bool add_folders(struct tree_layer *layer, struct tree_place *p)
{
    bool ok = true;

    for (size_t i = p->known; i < p->len && ok; i++) {
        if (p->path[i] != '/')
            continue;
        p->path[i] = 0;
        ok = add(layer, p->root, p->path, FOLDER_EVENTS) >= 0;
        p->path[i] = '/';
    }
    return ok;
}

bool tree_watch_file(struct tree_layer *layer, struct tree_place *p,
                     struct tree_file *file)
{
    const char *name;
    int watch;

    if (tree_place_find(p, file->path, &name) < 0)
        return false;
    if (!add_folders(layer, p))
        return false;
    p->known = p->len;
    watch = add(layer, p->folder, name, FILE_EVENTS);
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
    struct mutex *held cleanup(mutex_release) = lock(layer);
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

/* Watches that were told of, once each. */
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

static void name(struct named *n, int watch)
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
static bool hear(int fd, struct named *n, bool *ret_moved)
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
            name(n, event->wd);
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

    if (!hear(layer->watch.fd, &n, &moved) || n.more || moved) {
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
