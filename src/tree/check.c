/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are the files behind a tree still those that were verified when it was
 * made (D3)? Runs in the daemon beside the start of the sandbox that mounts
 * it, on a tree that is pinned and so does not change.
 *
 * A file whose inode and ctime are as they were is taken for untouched: the
 * kernel moves the ctime with every write, and it cannot be put back. More
 * links, or fewer, move it as well; then blob_verify_link is asked, which
 * knows of links and hashes what it does not know.
 *
 * Of a layer that is watched (watch.c) only those files are looked at to
 * which something happened since the last look.
 */
#include "tree/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"

static int64_t ctime_of(const struct stat *st)
{
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

/* Files with newer stamps, to be noted in the log. */
struct renewed {
    const struct tree_file **files;
    size_t count, room;
};

static void renewed_done(struct renewed *n)
{
    free(n->files);
}

enum found {
    FOUND_BAD,
    FOUND_RIGHT, /* though not the inode it was */
    FOUND_SAME,
};

static enum found check_file(struct trees *trees, struct tree_place *p,
                             struct tree_file *file, struct renewed *renewed)
{
    char sha256[BLOB_NAME];
    struct error ignored; /* only that it failed matters */
    const char *name;
    struct stat st;

    if (tree_place_find(p, file->path, &name) < 0 ||
        fstatat(p->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return FOUND_BAD;
    if (st.st_ino == file->inode && ctime_of(&st) == file->ctime_ns)
        return FOUND_SAME;
    if (blob_verify_link(trees->blobs,
                         ids_hex(file->sha256, HASH_SIZE, sha256), p->folder,
                         name, &st, &ignored) < 0)
        return FOUND_BAD;
    if (st.st_ino != file->inode)
        return FOUND_RIGHT;

    file->ctime_ns = ctime_of(&st);
    if (renewed->count == renewed->room) {
        renewed->room = renewed->room ? 2 * renewed->room : 64;
        renewed->files =
            xrealloc(renewed->files, renewed->room * sizeof(*renewed->files));
    }
    renewed->files[renewed->count++] = file;

    return FOUND_SAME;
}

static int tree_corrupt(struct tree_layer *layer, const struct tree_file *file,
                        struct error *err)
{
    char sha256[BLOB_NAME];

    layer->suspect = true; /* the next request gets another layer */
    (void)error_set(err, ERR_CORRUPT,
                    "the stored bytes of a file of the workspace are not what "
                    "they were (object %s)",
                    ids_hex(file->sha256, HASH_SIZE, sha256));
    return error_hint(err,
                      "restore an earlier version of it, or ask the "
                      "operator to restore the object from a backup: %s",
                      file->path);
}

/* Its lock, or NULL when the layer is not watched; each of those who check
 * it at once then waits for what another found. */
static struct mutex *hold_watch(struct tree_layer *layer)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&layer->watch.lock);

    return layer->watch.ready ? take_ptr(held) : NULL;
}

/* over: the layer above, whose files hide ours, or NULL. */
static int check_layer(struct trees *trees, int root, struct tree_layer *layer,
                       const struct tree_layer *over, struct renewed *renewed,
                       struct error *err)
{
    struct tree_place p cleanup(tree_place_done) = {.root = -1, .folder = -1};
    struct mutex *held cleanup(mutex_release) = hold_watch(layer);

    if (held)
        tree_watch_hear(layer);
    if (held && !layer->watch.whole && layer->watch.doubts == 0)
        return 0;
    p.root = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (p.root < 0)
        return tree_place_failed(err, errno);
    for (size_t i = 0; i < layer->count; i++) {
        struct tree_file *file = &layer->files[i];
        enum found found;

        if (file->gone || (held && !layer->watch.whole && !file->doubted))
            continue;
        found = check_file(trees, &p, file, renewed);
        if (held)
            tree_watch_doubt(layer, file, found != FOUND_SAME);
        if (found == FOUND_BAD && !(over && tree_files_find(over, file->path)))
            return tree_corrupt(layer, file, err);
    }
    if (held)
        layer->watch.whole = false;
    return 0;
}

/* Not to be waited for, so a watch's lock is held for moments only. */
bool tree_check_look(struct trees *trees, struct tree *t, int dir,
                     struct tree_layer *layer)
{
    struct tree_place p cleanup(tree_place_done) = {.root = -1, .folder = -1};
    struct renewed renewed cleanup(renewed_done) = {0};
    struct error ignored;

    if (tree_place_open(&p, dir, layer->generation, false, &ignored) < 0) {
        tree_watch_close(layer);
        return true;
    }
    for (size_t i = 0; i < layer->count; i++) {
        struct tree_file *file = &layer->files[i];

        if (tree_watcher_yields(trees, t, i))
            return false;
        if (check_file(trees, &p, file, &renewed) != FOUND_SAME) {
            struct mutex *held cleanup(mutex_release) =
                mutex_hold(&layer->watch.lock);

            tree_watch_doubt(layer, file, true);
        }
    }
    if (renewed.count)
        tree_log_stamps(dir, layer, renewed.files, renewed.count);
    return true;
}

/* Not worth waiting for: a thread that builds writes the log anyway. */
static void log_renewed(struct trees *trees, struct tree *t,
                        struct tree_layer *full, const struct renewed *renewed)
{
    int dir cleanup(fd_close) = -1;

    if (renewed->count == 0 || !mutex_trylock(&t->building))
        return;
    dir = openat(trees->dir, t->workspace,
                 O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && t->full == full)
        tree_log_stamps(dir, full, renewed->files, renewed->count);
    mutex_unlock(&t->building);
}

int trees_check(struct trees *trees, const struct workspace_tree *tree,
                struct error *err)
{
    struct renewed over cleanup(renewed_done) = {0};
    struct renewed full cleanup(renewed_done) = {0};
    const struct tree_pin *pin = tree->pin;
    int r = 0;

    if (!pin)
        return 0;
    if (pin->diff)
        r = check_layer(trees, tree->layers[0], pin->diff, NULL, &over, err);
    if (r == 0)
        r = check_layer(trees, tree->layers[pin->diff ? 1 : 0], pin->full,
                        pin->diff, &full, err);
    if (r < 0)
        return r;
    log_renewed(trees, pin->tree, pin->full, &full);
    tree_watcher_want(trees, pin->tree, pin->full);
    return 0;
}
