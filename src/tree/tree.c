/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trees of all workspaces: which there are on disk, acquiring and
 * releasing them, and removing those that are no longer needed; see
 * tree_int.h for their layout and locks. Runs in the daemon on the threads
 * that wake and end sessions, and on the maintenance threads.
 */
#include "tree/tree_int.h"

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
#include "base/siphash.h"
#include "base/thread.h"
#include "store/store.h"

#define COUNT_MAX 1000u   /* trees on disk */
#define FILES_MAX 500000u /* of unmounted trees in memory; some 60 MB */
#define DIFF_MAX 2000u
#define GONE "gone-" /* how names of what is on its way out begin */

/* ---- the register; under `lock` ----------------------------------------- */

static struct tree **bucket_of(struct trees *trees, const char *id)
{
    return &trees->buckets[siphash_text(id) % TREE_BUCKETS];
}

static struct tree *add_tree(struct trees *trees, const char *id)
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

static bool tree_is_idle(const struct tree *t)
{
    for (const struct tree_layer *l = t->layers; l; l = l->next)
        if (l->pins)
            return false;
    return t->users == 0;
}

/* Off the register and out of the way; then remove_tree without the lock. */
static struct tree *unregister_tree(struct trees *trees, struct tree *t)
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

static void remove_from_disk(struct trees *trees, struct tree *t)
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

static struct tree *least_used_tree(struct trees *trees, bool loaded)
{
    struct tree *least = NULL;

    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next)
            if (tree_is_idle(t) && (!loaded || t->layers) &&
                (!least || t->used_ms < least->used_ms))
                least = t;
    return least;
}

static size_t idle_files(const struct trees *trees)
{
    size_t count = 0;

    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next)
            for (struct tree_layer *l = t->layers; l && tree_is_idle(t);
                 l = l->next)
                count += l->count;
    return count;
}

/* ---- bounds ------------------------------------------------------------- */

/* Drops what was not used for longest: from memory, its log staying, or from
 * the disk as well. */
void trees_evict(struct trees *trees)
{
    for (;;) {
        struct tree_layer *layers = NULL;
        struct tree *t = NULL;

        {
            struct mutex *held cleanup(mutex_release) =
                mutex_hold(&trees->lock);

            if (idle_files(trees) > trees->files_max &&
                (t = least_used_tree(trees, true)))
                layers = layers_take(take_ptr(t));
            else if (trees->count > trees->count_max &&
                     (t = least_used_tree(trees, false)))
                t = unregister_tree(trees, t);
            else
                return;
        }
        layers_free(layers);
        if (t)
            remove_from_disk(trees, t);
    }
}

/* Removes the tree that was not used for longest; false: sessions mount all.
 * For a cache of blobs that is full of files that trees link to. */
static bool drop_least_used(void *ctx)
{
    struct trees *trees = ctx;
    struct tree *t;

    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);

        t = least_used_tree(trees, false);
        if (!t)
            return false;
        t = unregister_tree(trees, t);
    }
    remove_from_disk(trees, t);
    return true;
}

/* ---- use ---------------------------------------------------------------- */

struct tree *tree_use(struct trees *trees, const char *id, bool make)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);
    struct tree *t = *bucket_of(trees, id);

    while (t && strcmp(t->workspace, id) != 0)
        t = t->next;
    if (!t && make)
        t = add_tree(trees, id);
    if (!t)
        return NULL;
    t->users++;
    t->used_ms = clock_real_ms();
    return t;
}

void tree_unuse(struct trees *trees, struct tree *t)
{
    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);

        t->users--;
        if (!t->forgotten || !tree_is_idle(t))
            return;
        t = unregister_tree(trees, t);
    }
    remove_from_disk(trees, t);
}

/* ---- start and end ------------------------------------------------------ */

static int trees_failed(struct error *err, const char *what)
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

/* Lists the trees of an earlier run by the time of their last change. */
static int enlist_trees(struct trees *trees, struct error *err)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    int fd = openat(trees->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;

    dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return trees_failed(err, "list");
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
        add_tree(trees, entry->d_name)->used_ms =
            (int64_t)st.st_mtim.tv_sec * 1000;
    }
    return 0;
}

int trees_open(const char *data_dir, struct store *store, struct blobs *blobs,
               struct trees **ret, struct error *err)
{
    struct trees *trees = xcalloc(1, sizeof(*trees));
    char *path cleanup(mem_free) = xasprintf("%s/trees", data_dir);
    int r;

    mutex_init(&trees->lock);
    trees->store = store;
    trees->blobs = blobs;
    trees->count_max = COUNT_MAX;
    trees->files_max = FILES_MAX;
    trees->diff_max = DIFF_MAX;
    tree_watcher_init(trees);
    read_boot(trees->boot);
    trees->dir = -1;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        r = trees_failed(err, "make room for");
    else if ((trees->dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW |
                                          O_CLOEXEC)) < 0)
        r = trees_failed(err, "open");
    else
        r = enlist_trees(trees, err);
    if (r < 0) {
        trees_close(trees);
    } else {
        *ret = trees;
        blobs_on_full(blobs, drop_least_used, trees);
    }
    return r;
}

void trees_close(struct trees *trees)
{
    if (!trees)
        return;
    if (trees->blobs)
        blobs_on_full(trees->blobs, NULL, NULL);
    tree_watcher_stop(trees);
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
static char *ids_of_all(struct trees *trees, size_t *ret_count)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);
    char *ids = xcalloc(trees->count + 1, ID_MAX), *at = ids;

    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next) {
            memcpy(at, t->workspace, ID_MAX);
            at += ID_MAX;
        }
    *ret_count = trees->count;
    return ids;
}

static int workspace_exists(struct store_tx *tx, const char *id,
                            struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    return store_one(tx, &rows, err, "SELECT 1 FROM workspaces WHERE id = ?1",
                     "t", id);
}

static int forget_purged(struct trees *trees, struct error *err)
{
    size_t count;
    char *ids cleanup(mem_free) = ids_of_all(trees, &count);

    for (size_t i = 0; i < count; i++) {
        const char *id = ids + i * ID_MAX;
        struct store_tx *tx cleanup(store_rollback) = NULL;
        int r =
            store_begin(trees->store, STORE_READ, "tidying trees", &tx, err);

        if (r == 0)
            r = workspace_exists(tx, id, err);
        if (r < 0)
            return r;
        store_rollback(&tx);
        if (r == 0)
            trees_forget(trees, id);
    }
    return 0;
}

static bool layer_has_blob(const struct tree_layer *layer, const char *sha256)
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
void trees_doubt(struct trees *trees, const char *sha256)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);

    for (size_t i = 0; i < TREE_BUCKETS; i++)
        for (struct tree *t = trees->buckets[i]; t; t = t->next) {
            char log[ID_MAX + 8];
            /* An unknown tree, or one under construction, needs a full
             * check. */
            bool doubt = t->users || t->unknown;

            for (struct tree_layer *l = t->layers; l; l = l->next)
                if (t->users || layer_has_blob(l, sha256)) {
                    l->suspect = true;
                    doubt = true;
                }
            (void)snprintf(log, sizeof(log), "%s/log", t->workspace);
            if (doubt)
                (void)unlinkat(trees->dir, log, 0); /* not to be believed */
        }
}

int trees_tidy(struct trees *trees, struct error *err)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    int fd = openat(trees->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;

    dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return trees_failed(err, "list");
    /* Should another thread be removing it now, both get it done. */
    while ((entry = readdir(dir)))
        if (strncmp(entry->d_name, GONE, strlen(GONE)) == 0)
            tree_place_remove(trees->dir, entry->d_name);
    return forget_purged(trees, err);
}

/* ---- acquiring ---------------------------------------------------------- */

static int layer_open(int dir, const struct tree_layer *layer, int *ret,
                      struct error *err)
{
    char name[16];

    (void)snprintf(name, sizeof(name), "%u", layer->generation);
    *ret = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret < 0 ? tree_place_failed(err, errno) : 0;
}

static bool shows_nothing(const struct tree_layer *full,
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

static int pin_layers(struct trees *trees, struct tree *t, int64_t head,
                      int dir, struct workspace_tree *ret, struct error *err)
{
    struct tree_layer *diff = t->full->seq >= head ? NULL : t->diff;
    int layers[2] = {-1, -1};
    struct tree_pin *pin;
    int r = 0;

    *ret = (struct workspace_tree){.layers = {-1, -1}};
    memcpy(ret->workspace, t->workspace, sizeof(ret->workspace));
    ret->seq = diff ? diff->seq : t->full->seq;
    if (shows_nothing(t->full, diff))
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
    mutex_lock(&trees->lock);
    pin->full->pins++;
    if (diff)
        diff->pins++;
    mutex_unlock(&trees->lock);
    ret->pin = pin;
    return 0;
}

int trees_acquire(struct trees *trees, const char *id, int64_t head,
                  const char *owner, struct workspace_tree *ret,
                  struct error *err)
{
    struct tree *t = tree_use(trees, id, true);
    bool grown;
    int r;

    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&t->building);
        int dir cleanup(fd_close) = -1;

        grown = !t->layers;
        r = tree_make_current(trees, t, head, owner, &dir, err);
        if (r == 0)
            r = pin_layers(trees, t, head, dir, ret, err);
    }
    tree_unuse(trees, t);
    if (grown)
        trees_evict(trees);
    return r;
}

/* ---- releasing ---------------------------------------------------------- */

/* The next layer that is only waited for; out of the list. */
static struct tree_layer *take_doomed(struct trees *trees, struct tree *t)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);

    for (struct tree_layer *l = t->layers; l; l = l->next)
        if (l->doomed && l->pins == 0) {
            tree_make_detach(t, l);
            return l;
        }
    return NULL;
}

static void unpin_layers(struct trees *trees, struct tree_pin *pin)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);

    pin->tree->users++; /* so that it stays while we clear up */
    pin->full->pins--;
    if (pin->diff)
        pin->diff->pins--;
}

void trees_release(struct trees *trees, struct workspace_tree *tree)
{
    struct tree_pin *pin cleanup(mem_free) = tree->pin;
    struct tree_layer *layer;

    for (size_t i = 0; i < ARRAY_SIZE(tree->layers) && i < tree->count; i++)
        fd_close(&tree->layers[i]);
    *tree = (struct workspace_tree){.layers = {-1, -1}};
    if (!pin)
        return;
    unpin_layers(trees, pin);
    while ((layer = take_doomed(trees, pin->tree))) {
        int dir cleanup(fd_close) =
            openat(trees->dir, pin->tree->workspace,
                   O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (dir >= 0)
            tree_make_remove(trees->blobs, dir, layer);
        tree_make_free(layer);
    }
    tree_unuse(trees, pin->tree);
}

void trees_forget(struct trees *trees, const char *id)
{
    struct tree *t = tree_use(trees, id, false);

    if (!t)
        return;
    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&trees->lock);

        t->forgotten = true;
    }
    tree_unuse(trees, t);
}
