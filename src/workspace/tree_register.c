/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which workspaces have a tree on disk, and how many may: found at the start,
 * kept in step, tidied in the collector's round. Runs in the daemon for
 * tree.c and the maintenance threads.
 */
#include "workspace/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/workspace_int.h"

#define COUNT_MAX 1000u   /* trees on disk */
#define FILES_MAX 500000u /* of unmounted trees in memory; some 60 MB */
#define DIFF_MAX 2000u
#define GONE "gone-" /* how names of what is on its way out begin */

static struct mutex *lock(struct workspace_trees *trees)
{
    return mutex_hold(&trees->lock);
}

/* ---- the register; under `lock` ----------------------------------------- */

static struct tree **bucket_of(struct workspace_trees *trees, const char *id)
{
    uint32_t hash = 2166136261u;

    for (const char *p = id; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    return &trees->buckets[hash % TREE_BUCKETS];
}

static struct tree *find(struct workspace_trees *trees, const char *id)
{
    struct tree *t = *bucket_of(trees, id);

    while (t && strcmp(t->workspace, id) != 0)
        t = t->next;
    return t;
}

static struct tree *add(struct workspace_trees *trees, const char *id)
{
    struct tree **bucket = bucket_of(trees, id);
    struct tree *t = xcalloc(1, sizeof(*t));

    (void)snprintf(t->workspace, sizeof(t->workspace), "%s", id);
    mutex_init(&t->building);
    t->unknown = true;
    t->next = *bucket;
    *bucket = t;
    trees->count++;
    return t;
}

/* Out of memory, the log staying; then layers_free without the lock. */
static struct tree_layer *layers_take(struct tree *t)
{
    t->full = t->diff = NULL;
    t->unknown = true;
    return take_ptr(t->layers);
}

static void layers_free(struct tree_layer *layers)
{
    while (layers) {
        struct tree_layer *layer = layers;

        layers = layer->next;
        tree_make_free(layer);
    }
}

static void tree_free(struct tree *t)
{
    layers_free(layers_take(t));
    mutex_done(&t->building);
    free(t);
}

static bool is_idle(const struct tree *t)
{
    for (const struct tree_layer *l = t->layers; l; l = l->next)
        if (l->pins)
            return false;
    return t->users == 0;
}

/* Off the register and out of the way; then remove_tree without the lock. */
static struct tree *take_out(struct workspace_trees *trees, struct tree *t)
{
    struct tree **at = bucket_of(trees, t->workspace);
    char gone[ID_MAX];

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    trees->count--;
    (void)snprintf(gone, sizeof(gone), GONE "%" PRIu64, ++trees->gone);
    /* Else it was never made. */
    if (renameat(trees->dir, t->workspace, trees->dir, gone) == 0)
        memcpy(t->workspace, gone, sizeof(gone));
    return t;
}

static void remove_tree(struct workspace_trees *trees, struct tree *t)
{
    int dir cleanup(fd_close) = -1;

    if (strncmp(t->workspace, GONE, strlen(GONE)) == 0) {
        dir = openat(trees->dir, t->workspace,
                     O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        for (struct tree_layer *l = t->layers; l && dir >= 0; l = l->next)
            tree_make_remove(trees->blobs, dir, l);
        tree_place_remove(trees->dir, t->workspace);
    }
    tree_free(t);
}

static struct tree *least_used(struct workspace_trees *trees, bool loaded)
{
    struct tree *least = NULL;

    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next)
            if (is_idle(t) && (!loaded || t->layers) &&
                (!least || t->used_ms < least->used_ms))
                least = t;
    return least;
}

static size_t files_idle(const struct workspace_trees *trees)
{
    size_t count = 0;

    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next)
            for (struct tree_layer *l = t->layers; l && is_idle(t);
                 l = l->next)
                count += l->count;
    return count;
}

/* ---- bounds ------------------------------------------------------------- */

/* Drops what was not used for longest: from memory, its log staying, or from
 * the disk as well. */
void tree_register_room(struct workspace_trees *trees)
{
    for (;;) {
        struct tree_layer *layers = NULL;
        struct tree *t = NULL;

        {
            struct mutex *held cleanup(mutex_release) = lock(trees);

            if (files_idle(trees) > trees->files_max &&
                (t = least_used(trees, true)))
                layers = layers_take(take_ptr(t));
            else if (trees->count > trees->count_max &&
                     (t = least_used(trees, false)))
                t = take_out(trees, t);
            else
                return;
        }
        layers_free(layers);
        if (t)
            remove_tree(trees, t);
    }
}

/* ---- use ---------------------------------------------------------------- */

struct tree *tree_register_use(struct workspace_trees *trees, const char *id,
                               bool make)
{
    struct mutex *held cleanup(mutex_release) = lock(trees);
    struct tree *t = find(trees, id);

    if (!t && make)
        t = add(trees, id);
    if (!t)
        return NULL;
    t->users++;
    t->used_ms = clock_real_ms();
    return t;
}

void tree_register_settle(struct workspace_trees *trees, struct tree *t)
{
    {
        struct mutex *held cleanup(mutex_release) = lock(trees);

        t->users--;
        if (!t->forgotten || !is_idle(t))
            return;
        t = take_out(trees, t);
    }
    remove_tree(trees, t);
}

/* ---- start and end ------------------------------------------------------ */

static int failed(struct error *err, const char *what)
{
    return error_errno(err, ERR_INTERNAL, errno, "cannot %s the trees", what);
}

/* Trees of another boot are not believed; without a name for this one, none
 * is. */
static void read_boot(char ret[64])
{
    char *text cleanup(mem_free) = NULL;
    size_t len;

    memset(ret, 0, 64);
    if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 63, &text,
                     &len) == 0)
        memcpy(ret, text, len);
    else
        ids_make("boot", ret);
}

/* Those an earlier run left, by when they were last written to. */
static int enlist(struct workspace_trees *trees, struct error *err)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    int fd = openat(trees->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;

    dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return failed(err, "list");
    while ((entry = readdir(dir))) {
        char log[300];
        struct stat st;
        uint64_t gone;

        if (sscanf(entry->d_name, GONE "%" SCNu64, &gone) == 1)
            trees->gone = MAX(trees->gone, gone);
        if (!ids_valid("ws", entry->d_name))
            continue;
        (void)snprintf(log, sizeof(log), "%s/log", entry->d_name);
        if (fstatat(trees->dir, log, &st, AT_SYMLINK_NOFOLLOW) < 0)
            st.st_mtim.tv_sec = 0;
        add(trees, entry->d_name)->used_ms = (int64_t)st.st_mtim.tv_sec * 1000;
    }
    return 0;
}

int workspace_trees_open(struct workspaces *w, struct error *err)
{
    struct workspace_trees *trees = xcalloc(1, sizeof(*trees));
    char *path cleanup(mem_free) = xasprintf("%s/trees", w->data_dir);

    mutex_init(&trees->lock);
    trees->blobs = w->blobs;
    trees->count_max = COUNT_MAX;
    trees->files_max = FILES_MAX;
    trees->diff_max = DIFF_MAX;
    tree_watcher_init(trees);
    read_boot(trees->boot);
    w->trees = trees;
    trees->dir = -1;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return failed(err, "make room for");
    trees->dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (trees->dir < 0)
        return failed(err, "open");
    return enlist(trees, err);
}

void workspace_trees_close(struct workspaces *w)
{
    struct workspace_trees *trees = w->trees;

    if (!trees)
        return;
    tree_watcher_stop(trees);
    w->trees = NULL;
    for (size_t i = 0; i < TREE_BUCKETS; i++)
        while (trees->buckets[i]) {
            struct tree *t = trees->buckets[i];

            trees->buckets[i] = t->next;
            tree_free(t);
        }
    fd_close(&trees->dir);
    mutex_done(&trees->lock);
    free(trees);
}

/* ---- tidying ------------------------------------------------------------ */

/* Ids of all trees, ID_MAX apart; owned by caller. */
static char *ids_of_all(struct workspace_trees *trees, size_t *ret_count)
{
    struct mutex *held cleanup(mutex_release) = lock(trees);
    char *ids = xcalloc(trees->count + 1, ID_MAX), *at = ids;

    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next) {
            memcpy(at, t->workspace, ID_MAX);
            at += ID_MAX;
        }
    *ret_count = trees->count;
    return ids;
}

static int is_there(struct store_tx *tx, const char *id, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    return store_one(tx, &rows, err, "SELECT 1 FROM workspaces WHERE id = ?1",
                     "t", id);
}

static int forget_purged(struct workspaces *w, struct error *err)
{
    size_t count;
    char *ids cleanup(mem_free) = ids_of_all(w->trees, &count);

    for (size_t i = 0; i < count; i++) {
        const char *id = ids + i * ID_MAX;
        struct store_tx *tx cleanup(store_rollback) = NULL;
        int r = store_begin(w->store, STORE_READ, "tidying trees", &tx, err);

        if (r == 0)
            r = is_there(tx, id, err);
        if (r < 0)
            return r;
        store_rollback(&tx);
        if (r == 0)
            workspace_tree_forget(w, id);
    }
    return 0;
}

static bool has(const struct tree_layer *layer, const char *sha256)
{
    char name[BLOB_NAME];

    for (size_t i = 0; i < layer->count; i++)
        if (layer->files[i].path && !layer->files[i].gone &&
            strcmp(ids_hex(layer->files[i].sha256, HASH_SIZE, name), sha256) ==
                0)
            return true;
    return false;
}

/* Rot moves no ctime, so the check before mounting would not see it. */
void workspace_trees_doubt(struct workspaces *w, const char *sha256)
{
    struct mutex *held cleanup(mutex_release) = lock(w->trees);

    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = w->trees->buckets[i]; t; t = t->next) {
            char log[ID_MAX + 8];
            /* What is not known, or just being made, is all doubted. */
            bool doubt = t->users || t->unknown;

            for (struct tree_layer *l = t->layers; l; l = l->next)
                if (t->users || has(l, sha256)) {
                    l->suspect = true;
                    doubt = true;
                }
            (void)snprintf(log, sizeof(log), "%s/log", t->workspace);
            if (doubt)
                (void)unlinkat(w->trees->dir, log, 0); /* not to be believed */
        }
}

int workspace_trees_tidy(struct workspaces *w, struct error *err)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    int fd = openat(w->trees->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;

    dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return failed(err, "list");
    /* Should another thread be removing it now, both get it done. */
    while ((entry = readdir(dir)))
        if (strncmp(entry->d_name, GONE, strlen(GONE)) == 0)
            tree_place_remove(w->trees->dir, entry->d_name);
    return forget_purged(w, err);
}
