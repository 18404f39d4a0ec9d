/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many blobs in one put: an execution may leave a hundred thousand small
 * files, and on a disk a sync of each would take a minute. All are staged,
 * then the tier stores them together. Runs in the daemon; a batch is used by
 * one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "blob/blob_int.h"

struct item {
    struct blob_name name;
    char temp[BLOB_TEMP]; /* "" : it is stored */
    char owner[BLOB_OWNER];
    uint64_t size;
};

struct blob_batch {
    struct blobs *b;
    struct item *items;
    size_t count, cap;
};

struct blob_batch *blob_batch_new(struct blobs *b)
{
    struct blob_batch *batch = xcalloc(1, sizeof(*batch));

    batch->b = b;
    return batch;
}

void blob_batch_abort(struct blob_batch **p)
{
    struct blob_batch *batch = take_ptr(*p);

    if (!batch)
        return;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->items[i].temp[0]) /* if it stays, the next start has it */
            (void)unlinkat(batch->b->tmp, batch->items[i].temp, 0);
    free(batch->items);
    free(batch);
}

int blob_batch_add(struct blob_batch *batch, struct blob_writer **w,
                   char ret_sha256[BLOB_NAME], uint64_t *ret_size,
                   struct error *err)
{
    struct item item = {0};
    int r =
        blob_write_end(w, item.temp, &item.name, item.owner, &item.size, err);

    if (r < 0)
        return r;
    if (batch->count == batch->cap) {
        batch->cap = batch->cap ? 2 * batch->cap : 64;
        batch->items =
            xrealloc(batch->items, batch->cap * sizeof(*batch->items));
    }
    batch->items[batch->count++] = item;
    memcpy(ret_sha256, blob_name_hex(&item.name), BLOB_NAME);
    *ret_size = item.size;
    return 0;
}

static int put_all(struct blob_batch *batch, struct error *err)
{
    struct blob_tier_file *files cleanup(mem_free) =
        xcalloc(batch->count, sizeof(*files));
    int r;

    for (size_t i = 0; i < batch->count; i++) {
        struct item *it = &batch->items[i];

        files[i] = (struct blob_tier_file){.sha256 = blob_name_hex(&it->name),
                                           .owner = it->owner,
                                           .dir = batch->b->tmp,
                                           .name = it->temp,
                                           .fd = -1,
                                           .size = it->size};
    }
    r = blob_stored_put(batch->b, files, batch->count, true, err);
    for (size_t i = 0; i < batch->count; i++)
        if (files[i].stored)
            batch->items[i].temp[0] = '\0';
    return r;
}

int blob_batch_finish(struct blob_batch **p, struct error *err)
{
    struct blob_batch *batch = *p;
    int r = batch->count ? put_all(batch, err) : 0;

    blob_batch_abort(p); /* what the tier has stays */
    return r;
}
