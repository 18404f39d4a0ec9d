/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tree of a workspace must contain, and its full layers on disk. Runs
 * in the daemon on the thread that needs the tree, which holds its `building`.
 *
 * The store is asked for all files of the head, or for those that commits
 * after a given one changed; the answer is copied and the transaction ended
 * before the disk is touched. A full layer is built whole, or brought forward
 * in place while no session mounts it. Everything below DIR/trees was made by
 * this process, so a name there never leads elsewhere; a session's changes go
 * to its own scratch layer above. Nothing is synced: after a power failure the
 * tree is rebuilt.
 *
 * A full layer that a session mounts stays as it is. The difference to the
 * head is a second layer over it: links to what is new or changed, whiteouts
 * of overlayfs for what is gone. A folder of which nothing is left is hidden
 * as a whole. Opaque folders are not needed: every removed file is known by
 * its path, a file hides a folder below it and a folder a file.
 */
#include "tree/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/store.h"

/* ---- sorted lists of files --------------------------------------------- */

size_t tree_files_lower(const struct tree_file *files, size_t count,
                        const char *path)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(files[mid].path, path) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct tree_file *tree_files_find(const struct tree_layer *layer,
                                  const char *path)
{
    size_t i = tree_files_lower(layer->files, layer->count, path);

    if (i < layer->count && strcmp(layer->files[i].path, path) == 0)
        return &layer->files[i];
    return NULL;
}

void tree_files_free(struct tree_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(files[i].path);
    free(files);
}

bool tree_files_same(const struct tree_file *file,
                     const struct tree_want *want)
{
    return !file->gone && !want->gone &&
           file->executable == want->executable &&
           memcmp(file->sha256, want->sha256, HASH_SIZE) == 0;
}

void tree_wants_done(struct tree_wants *wants)
{
    arena_free(wants->arena);
    free(wants->wants);
    *wants = (struct tree_wants){0};
}

size_t tree_wants_lower(const struct tree_wants *wants, const char *path)
{
    size_t low = 0, high = wants->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(wants->wants[mid].path, path) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* ---- reading the wanted tree from the store ---------------------------- */

static int read_wants(struct store_rows *rows, struct tree_wants *wants,
                      struct error *err)
{
    size_t room = 0;
    int r;

    wants->arena = arena_new();
    while ((r = store_next(rows, err)) > 0) {
        /* Columns: path, sha256 (NULL: not there), executable. */
        const char *path = store_text(rows, 0), *sha256 = store_text(rows, 1);
        struct tree_want *want;

        if (wants->count == room) {
            room = room ? 2 * room : 256;
            wants->wants =
                xrealloc(wants->wants, room * sizeof(*wants->wants));
        }
        want = &wants->wants[wants->count++];
        memset(want, 0, sizeof(*want));
        want->path = arena_strdup(wants->arena, path);
        want->gone = !sha256;
        want->executable = store_int(rows, 2) != 0;
        if (!want->gone && (strlen(sha256) != 2 * (size_t)HASH_SIZE ||
                            !hex_decode(sha256, want->sha256, HASH_SIZE)))
            return error_set(err, ERR_CORRUPT,
                             "the record of a file is damaged");
    }
    return r;
}

static int begin_read(struct trees *trees, const char *id,
                      struct store_tx **tx, struct tree_wants *ret,
                      struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char tenant[64];
    int r = store_begin(trees->store, STORE_READ, "reading a tree", tx, err);

    if (r == 0)
        r = store_one(*tx, &rows, err,
                      "SELECT head, tenant FROM workspaces"
                      " WHERE id = ?1 AND deleted_at_ms = 0",
                      "t", id);
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such workspace");
    ret->seq = store_int(rows, 0);
    store_copy(rows, 1, tenant, sizeof(tenant));
    blob_owner(tenant, ret->owner);
    return 0;
}

int tree_rows_all(struct trees *trees, const char *id, struct tree_wants *ret,
                  struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct tree_wants wants cleanup(tree_wants_done) = {0};
    int r = begin_read(trees, id, &tx, &wants, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT path, sha256, executable FROM files"
                        " WHERE workspace = ?1 AND alive = 1 ORDER BY path",
                        "t", id);
    if (r == 0)
        r = read_wants(rows, &wants, err);
    if (r < 0)
        return r;
    *ret = wants;
    wants = (struct tree_wants){0};
    return 0;
}

int tree_rows_since(struct trees *trees, const char *id, int64_t seq,
                    struct tree_wants *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct tree_wants wants cleanup(tree_wants_done) = {0};
    int r = begin_read(trees, id, &tx, &wants, err);

    /* Whatever a commit did to a path, only the head's state counts. */
    if (r == 0)
        r = store_query(
            tx, &rows, err,
            "SELECT t.path, f.sha256, f.executable FROM"
            " (SELECT path FROM versions WHERE workspace = ?1 AND seq > ?2"
            "  UNION SELECT from_path FROM versions"
            "  WHERE workspace = ?1 AND seq > ?2 AND from_path <> '') AS t"
            " LEFT JOIN files AS f ON f.workspace = ?1 AND f.path = t.path"
            "  AND f.alive = 1 ORDER BY t.path",
            "ti", id, seq);
    if (r == 0)
        r = read_wants(rows, &wants, err);
    if (r < 0)
        return r;
    *ret = wants;
    wants = (struct tree_wants){0};
    return 0;
}

/* ---- full layers on disk ----------------------------------------------- */

/* Files made so far; dropped unless taken. */
struct made {
    struct tree_file *files;
    size_t count;
};

static void made_drop(struct made *m)
{
    tree_files_free(m->files, m->count);
}

static void made_into(struct made *m, struct tree_layer *layer)
{
    tree_files_free(layer->files, layer->count);
    layer->files = take_ptr(m->files);
    layer->count = m->count;
    m->count = 0;
}

int tree_build_full(struct blobs *b, int dir, struct tree_layer *layer,
                    const struct tree_wants *wants, struct error *err)
{
    struct tree_place p cleanup(tree_place_done) = {
        .blobs = b, .owner = layer->owner, .root = -1, .folder = -1};
    struct made made cleanup(made_drop) = {0};
    int r = tree_place_open(&p, dir, layer->generation, true, err);

    memcpy(layer->owner, wants->owner, sizeof(layer->owner));
    made.files = xcalloc(wants->count ? wants->count : 1, sizeof(*made.files));
    for (size_t i = 0; i < wants->count && r == 0; i++) {
        r = tree_place_link(&p, &wants->wants[i], &made.files[made.count],
                            err);
        made.count += r == 0;
    }
    if (r < 0)
        return r;
    made_into(&made, layer);
    layer->seq = wants->seq;
    return 0;
}

/* ---- forward ------------------------------------------------------------ */

/* Folders exist for what is in them: those left empty go too. */
static void remove_empty_folders(int root, const char *path)
{
    char folder[PATH_BYTES_MAX + 1];
    char *slash;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    while ((slash = strrchr(folder, '/'))) {
        *slash = 0;
        if (unlinkat(root, folder, AT_REMOVEDIR) < 0)
            return;
    }
}

static int unlink_changed(struct tree_place *p, const struct tree_layer *layer,
                          const struct tree_wants *wants, struct error *err)
{
    for (size_t i = 0; i < wants->count; i++) {
        const struct tree_want *want = &wants->wants[i];
        const struct tree_file *file = tree_files_find(layer, want->path);
        int r;

        if (!file || tree_files_same(file, want))
            continue;
        r = tree_place_unlink(p, file, err);
        if (r < 0)
            return r;
        remove_empty_folders(p->root, want->path);
    }
    return 0;
}

/* The layer's files and the wanted ones, merged; what stays as it is moves
 * over (the path with it), the rest is linked. */
static int merge_files(struct tree_place *p, struct tree_layer *layer,
                       const struct tree_wants *wants, struct made *made,
                       struct error *err)
{
    size_t i = 0, k = 0;

    while (i < layer->count || k < wants->count) {
        struct tree_file *file = i < layer->count ? &layer->files[i] : NULL;
        const struct tree_want *want =
            k < wants->count ? &wants->wants[k] : NULL;
        int order = !file ? 1 : !want ? -1 : strcmp(file->path, want->path);
        int r;

        if (order < 0 || (order == 0 && tree_files_same(file, want))) {
            made->files[made->count] = *file;
            made->files[made->count++].path = take_ptr(file->path);
        } else if (want && !want->gone) {
            r = tree_place_link(p, want, &made->files[made->count], err);
            if (r < 0)
                return r;
            made->count++;
        }
        i += order <= 0;
        k += order >= 0;
    }
    return 0;
}

int tree_build_forward(struct blobs *b, int dir, struct tree_layer *layer,
                       const struct tree_wants *wants, struct error *err)
{
    struct tree_place p cleanup(tree_place_done) = {
        .blobs = b, .owner = layer->owner, .root = -1, .folder = -1};
    struct made made cleanup(made_drop) = {0};
    int r = tree_place_open(&p, dir, layer->generation, false, err);

    if (r == 0)
        r = unlink_changed(&p, layer, wants, err);
    if (r < 0)
        return r;
    made.files = xcalloc(layer->count + wants->count + 1, sizeof(*made.files));
    r = merge_files(&p, layer, wants, &made, err);
    if (r < 0)
        return r;
    made_into(&made, layer);
    layer->seq = wants->seq;
    return 0;
}

/* ---- the difference to the head ----------------------------------------- */

struct diff_build {
    const struct tree_layer *full;
    const struct tree_wants *wants;
    /* delta[i]: files the head has more than the full layer, counting the
     * first i wants. */
    int64_t *delta;
};

static void diff_build_done(struct diff_build *d)
{
    free(d->delta);
}

/* How many files has the head below the folder path[0..len)? */
static int64_t head_below(const struct diff_build *d, const char *path,
                          size_t len)
{
    char edge[PATH_BYTES_MAX + 2];
    size_t first, from;

    if (len > PATH_BYTES_MAX)
        return 0;
    memcpy(edge, path, len);
    edge[len] = '/';
    edge[len + 1] = 0;
    first = tree_files_lower(d->full->files, d->full->count, edge);
    from = tree_wants_lower(d->wants, edge);
    edge[len] = '/' + 1; /* right after everything below */
    return (int64_t)(tree_files_lower(d->full->files, d->full->count, edge) -
                     first) +
           d->delta[tree_wants_lower(d->wants, edge)] - d->delta[from];
}

static bool head_has(const struct diff_build *d, const char *path)
{
    size_t i = tree_wants_lower(d->wants, path);

    return i < d->wants->count && strcmp(d->wants->wants[i].path, path) == 0 &&
           !d->wants->wants[i].gone;
}

/* Hides what the full layer has at path: itself, or the topmost folder of it
 * of which the head has nothing left. */
static int hide_path(const struct diff_build *d, struct tree_place *p,
                     const char *path, struct error *err)
{
    char hidden[PATH_BYTES_MAX + 1];
    size_t len = strnlen(path, PATH_BYTES_MAX), end = len;

    for (size_t i = 0; i < len; i++)
        if (path[i] == '/' && head_below(d, path, i) == 0) {
            end = i;
            break;
        }
    memcpy(hidden, path, end);
    hidden[end] = 0;
    /* A file in a folder's place, or a folder in a file's, hides it. */
    if (head_has(d, hidden) || head_below(d, hidden, end) > 0)
        return 0;
    return tree_place_hide(p, hidden, err);
}

static int add_entry(const struct diff_build *d, struct tree_place *p,
                     const struct tree_want *want, struct tree_layer *layer,
                     struct error *err)
{
    const struct tree_file *had = tree_files_find(d->full, want->path);
    struct tree_file *file = &layer->files[layer->count];
    int r = 0;

    if (had ? tree_files_same(had, want) : want->gone)
        return 0;
    if (want->gone) {
        r = hide_path(d, p, want->path, err);
        *file = (struct tree_file){.path = xstrdup(want->path), .gone = true};
    } else {
        r = tree_place_link(p, want, file, err);
        if (r < 0)
            return r;
    }
    layer->count++;
    return r;
}

int tree_diff_build(struct blobs *b, int dir, struct tree_layer *layer,
                    const struct tree_layer *full,
                    const struct tree_wants *wants, struct error *err)
{
    struct tree_place p cleanup(tree_place_done) = {
        .blobs = b, .owner = layer->owner, .root = -1, .folder = -1};
    struct diff_build d cleanup(diff_build_done) = {.full = full,
                                                    .wants = wants};
    int r = tree_place_open(&p, dir, layer->generation, true, err);

    memcpy(layer->owner, wants->owner, sizeof(layer->owner));

    d.delta = xcalloc(d.wants->count + 1, sizeof(*d.delta));
    for (size_t i = 0; i < d.wants->count; i++) {
        const struct tree_want *want = &d.wants->wants[i];
        bool had = tree_files_find(d.full, want->path) != NULL;

        d.delta[i + 1] = d.delta[i] + (int64_t)!want->gone - (int64_t)had;
    }

    layer->files = xcalloc(wants->count + 1, sizeof(*layer->files));
    for (size_t i = 0; i < wants->count && r == 0; i++)
        r = add_entry(&d, &p, &wants->wants[i], layer, err);
    if (r < 0)
        return r;
    layer->seq = wants->seq;
    return 0;
}
