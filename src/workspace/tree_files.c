/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sorted lists of files that trees are described by. Runs in the daemon;
 * called by the other tree files; touches no disk.
 */
#include "workspace/tree_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"

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
