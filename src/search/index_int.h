/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the indexer share: index.c, which reads and writes, and
 * index_queue.c, which finds what there is to do. */
#ifndef GLOVEBOX_SEARCH_INDEX_INT_H
#define GLOVEBOX_SEARCH_INDEX_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ids.h"
#include "blob/blob.h"

struct error;
struct search;

#define PAGE_FILES 200u /* read, then written */

enum act {
    ACT_LEAVE, /* could not be read now: next round */
    ACT_DROP,  /* the file is gone */
    ACT_MOVE,  /* same bytes, another path or version */
    ACT_WRITE,
};

/* A place in the line of what waits, the oldest first. */
struct place {
    int64_t at_ms;
    char file[ID_MAX];
};

struct item {
    int64_t modified_at_ms;
    char file[ID_MAX], workspace[ID_MAX], version[ID_MAX];
    char sha256[BLOB_NAME], mime[96];
    char *path; /* owned */
    uint64_t size;
    bool alive, same_bytes;
    int64_t document; /* 0: none yet */
    char old_kind[16], old_state[16];

    enum act act;
    const char *kind, *state, *problem;
    struct buf body;
};

struct queue_page {
    struct item items[PAGE_FILES];
    size_t count;
};

/* ---- index_queue.c
 * ----------------------------------------------------------
 */

/* The end of the line: who comes later is of the next round. 1, or 0 when
 * nobody is there. */
int search_queue_last(struct search *s, struct place *ret, struct error *err);
/* Those behind `after`, up to `last`, as many as a page has. */
int search_queue_page(struct search *s, const struct place *after,
                      const struct place *last, struct queue_page *ret,
                      struct error *err);

#endif
