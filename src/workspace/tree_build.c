/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Full layers of a tree on disk: made whole, or brought forward in place
 * while nobody mounts them. Runs in the daemon on the thread that asked for
 * the tree, which holds its `building`. All that is below DIR/trees was made
 * by us, so a name there never leads elsewhere; what a session does to its
 * files happens above, in its own scratch. Nothing is synced: after a power
 * cut the tree is made anew.
 */
#include "workspace/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

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
static void prune(int root, const char *path)
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

static int take_away(struct tree_place *p, const struct tree_layer *layer,
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
        prune(p->root, want->path);
    }
    return 0;
}

/* The layer's files and the wanted ones, merged; what stays as it is moves
 * over (the path with it), the rest is linked. */
static int merge(struct tree_place *p, struct tree_layer *layer,
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
        r = take_away(&p, layer, wants, err);
    if (r < 0)
        return r;
    made.files = xcalloc(layer->count + wants->count + 1, sizeof(*made.files));
    r = merge(&p, layer, wants, &made, err);
    if (r < 0)
        return r;
    made_into(&made, layer);
    layer->seq = wants->seq;
    return 0;
}
