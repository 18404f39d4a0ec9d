/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference between a full layer that somebody mounts and the head, as a
 * layer to be put over it: links for what is new or changed, marks (overlayfs
 * whiteouts) for what is gone. A folder of which nothing is left is hidden as
 * a whole. Runs in the daemon, called by tree.c.
 *
 * No opaque folders are needed: every file that went is known by its path,
 * a file hides a folder below it and a folder a file.
 */
#include "workspace/tree_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"

struct diff {
    const struct tree_layer *full;
    const struct tree_wants *wants;
    /* delta[i]: files the head has more than the full layer, counting the
     * first i wants. */
    int64_t *delta;
};

static void diff_done(struct diff *d)
{
    free(d->delta);
}

static void diff_init(struct diff *d)
{
    d->delta = xcalloc(d->wants->count + 1, sizeof(*d->delta));
    for (size_t i = 0; i < d->wants->count; i++) {
        const struct tree_want *want = &d->wants->wants[i];
        bool had = tree_files_find(d->full, want->path) != NULL;

        d->delta[i + 1] = d->delta[i] + (int64_t)!want->gone - (int64_t)had;
    }
}

/* How many files has the head below the folder path[0..len)? */
static int64_t head_below(const struct diff *d, const char *path, size_t len)
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

static bool head_has(const struct diff *d, const char *path)
{
    size_t i = tree_wants_lower(d->wants, path);

    return i < d->wants->count && strcmp(d->wants->wants[i].path, path) == 0 &&
           !d->wants->wants[i].gone;
}

/* Hides what the full layer has at path: itself, or the topmost folder of it
 * of which the head has nothing left. */
static int hide(const struct diff *d, struct tree_place *p, const char *path,
                struct error *err)
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

static int entry(const struct diff *d, struct tree_place *p,
                 const struct tree_want *want, struct tree_layer *layer,
                 struct error *err)
{
    const struct tree_file *had = tree_files_find(d->full, want->path);
    struct tree_file *file = &layer->files[layer->count];
    int r = 0;

    if (had ? tree_files_same(had, want) : want->gone)
        return 0;
    if (want->gone) {
        r = hide(d, p, want->path, err);
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
    struct diff d cleanup(diff_done) = {.full = full, .wants = wants};
    int r = tree_place_open(&p, dir, layer->generation, true, err);

    memcpy(layer->owner, wants->owner, sizeof(layer->owner));
    diff_init(&d);
    layer->files = xcalloc(wants->count + 1, sizeof(*layer->files));
    for (size_t i = 0; i < wants->count && r == 0; i++)
        r = entry(&d, &p, &wants->wants[i], layer, err);
    if (r < 0)
        return r;
    layer->seq = wants->seq;
    return 0;
}
