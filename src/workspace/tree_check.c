/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are the files behind a tree still those that were verified when it was
 * made (D3)? Runs in the daemon beside the start of the sandbox that mounts
 * it, on a tree that is pinned and so does not change.
 *
 * A file whose inode and ctime are as they were is taken for untouched: the
 * kernel moves the ctime with every write, and it cannot be put back. More
 * links, or fewer, move it as well; then the blob, which knows of links, is
 * asked, and if it is another file than ours, ours is hashed.
 */
#include "workspace/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

#define CHUNK 65536u

static int64_t ctime_of(const struct stat *st)
{
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

/* By the blob: right, and the same inode as ours? */
static bool blob_vouches(struct workspaces *w, const struct tree_file *file,
                         uint64_t inode, int64_t *ret_ctime_ns)
{
    int fd cleanup(fd_close) = -1;
    char sha256[BLOB_NAME];
    struct error err;
    struct stat st;
    uint64_t size;

    if (blob_open(w->blobs, ids_hex(file->sha256, HASH_SIZE, sha256), &fd,
                  &size, &err) < 0 ||
        fstat(fd, &st) < 0 || st.st_ino != inode)
        return false;
    *ret_ctime_ns = ctime_of(&st);
    return true;
}

static bool hash_fd(int fd, unsigned char ret[HASH_SIZE])
{
    char *chunk cleanup(mem_free) = xmalloc(CHUNK);
    struct hash_stream *hash = hash_stream_new();
    ssize_t n;

    while ((n = fd_read_all(fd, chunk, CHUNK)) > 0)
        hash_stream_add(hash, chunk, (size_t)n);
    hash_stream_end(hash, ret);
    return n == 0;
}

/* By its own bytes. */
static bool hash_vouches(int folder, const char *name,
                         const struct tree_file *file, int64_t *ret_ctime_ns)
{
    int fd cleanup(fd_close) =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    unsigned char hash[HASH_SIZE];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        !hash_fd(fd, hash) || memcmp(hash, file->sha256, HASH_SIZE) != 0)
        return false;
    *ret_ctime_ns = ctime_of(&st);
    return st.st_ino == file->inode;
}

/* Those with newer stamps, to be noted in the log. */
struct renewed {
    const struct tree_file **files;
    size_t count, room;
};

static void renewed_done(struct renewed *n)
{
    free(n->files);
}

static void renew(struct renewed *n, struct tree_file *file, int64_t ctime_ns)
{
    file->ctime_ns = ctime_ns;
    if (n->count == n->room) {
        n->room = n->room ? 2 * n->room : 64;
        n->files = xrealloc(n->files, n->room * sizeof(*n->files));
    }
    n->files[n->count++] = file;
}

static bool check_file(struct workspaces *w, struct tree_place *p,
                       struct tree_file *file, struct renewed *renewed)
{
    const char *name;
    struct stat st;
    int64_t ctime_ns;

    if (tree_place_find(p, file->path, &name) < 0 ||
        fstatat(p->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (st.st_ino == file->inode && ctime_of(&st) == file->ctime_ns)
        return true;
    if (!(st.st_ino == file->inode &&
          blob_vouches(w, file, st.st_ino, &ctime_ns)) &&
        !hash_vouches(p->folder, name, file, &ctime_ns))
        return false;
    renew(renewed, file, ctime_ns);
    return true;
}

static int corrupt(struct tree_layer *layer, const struct tree_file *file,
                   struct error *err)
{
    char sha256[BLOB_NAME];

    layer->suspect = true; /* the next one to ask gets another */
    (void)error_set(err, ERR_CORRUPT,
                    "the stored bytes of a file of the workspace are not what "
                    "they were (object %s)",
                    ids_hex(file->sha256, HASH_SIZE, sha256));
    return error_hint(err,
                      "restore an earlier version of it, or ask the "
                      "operator to restore the object from a backup: %s",
                      file->path);
}

/* over: the layer above, whose files hide ours, or NULL. */
static int check_layer(struct workspaces *w, int root,
                       struct tree_layer *layer, const struct tree_layer *over,
                       struct renewed *renewed, struct error *err)
{
    struct tree_place p cleanup(tree_place_done) = {.root = -1, .folder = -1};

    p.root = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (p.root < 0)
        return tree_place_failed(err, errno);
    for (size_t i = 0; i < layer->count; i++) {
        struct tree_file *file = &layer->files[i];

        if (file->gone || check_file(w, &p, file, renewed) ||
            (over && tree_files_find(over, file->path)))
            continue;
        return corrupt(layer, file, err);
    }
    return 0;
}

/* Not worth waiting for: who builds now writes the log anyway. */
static void note(struct workspaces *w, struct tree *t, struct tree_layer *full,
                 const struct renewed *renewed)
{
    int dir cleanup(fd_close) = -1;

    if (renewed->count == 0 || pthread_mutex_trylock(&t->building) != 0)
        return;
    dir = openat(w->trees->dir, t->workspace,
                 O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && t->full == full)
        tree_log_stamps(dir, full, renewed->files, renewed->count);
    (void)pthread_mutex_unlock(&t->building);
}

int workspace_tree_check(struct workspaces *w,
                         const struct workspace_tree *tree, struct error *err)
{
    struct renewed over cleanup(renewed_done) = {0};
    struct renewed full cleanup(renewed_done) = {0};
    const struct tree_pin *pin = tree->pin;
    int r = 0;

    if (!pin)
        return 0;
    if (pin->diff)
        r = check_layer(w, tree->layers[0], pin->diff, NULL, &over, err);
    if (r == 0)
        r = check_layer(w, tree->layers[pin->diff ? 1 : 0], pin->full,
                        pin->diff, &full, err);
    if (r == 0)
        note(w, pin->tree, pin->full, &full);
    return r;
}
