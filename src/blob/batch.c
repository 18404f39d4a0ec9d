/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many blobs at the cost of one sync: an execution may leave a hundred
 * thousand small files, and to sync each would take a minute. All are
 * written, then the file system is synced once, then all get their names,
 * then the folders are synced: the order that one alone has. Runs in the
 * daemon; a batch is used by one thread.
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
    char temp[BLOB_TEMP]; /* "" : it has its name */
    char owner[BLOB_OWNER];
    uint64_t size;
};

struct blob_batch {
    struct blobs *b;
    struct item *items;
    size_t count, cap;
    bool touched[BLOB_FOLDERS];
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

/* Everything written so far is on disk, whosever it is. */
static int sync_all(struct blobs *b, struct error *err)
{
    int r = blob_fault_refuse(b, err);

    if (r == 0 && syncfs(b->tmp) < 0)
        r = blob_fault_final(b, errno, err);
    return r;
}

static int name_all(struct blob_batch *batch, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < batch->count && r == 0; i++) {
        struct item *it = &batch->items[i];
        int folder cleanup(fd_close) = -1;

        r = blob_publish_name(batch->b, it->temp, &it->name, it->owner,
                              (off_t)it->size, &folder, err);
        if (r == 0) {
            it->temp[0] = '\0';
            batch->touched[it->name.hash[0]] = true;
        }
    }
    return r;
}

static int sync_folders(struct blob_batch *batch, struct error *err)
{
    int r = 0;

    for (unsigned i = 0; i < BLOB_FOLDERS && r == 0; i++) {
        char name[3] = {"0123456789abcdef"[i >> 4], "0123456789abcdef"[i & 15],
                        '\0'};
        int fd cleanup(fd_close) = -1;

        if (!batch->touched[i])
            continue;
        fd = openat(batch->b->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? blob_fault(errno, "store an object", err)
                   : blob_fault_sync(batch->b, fd, err);
    }
    return r;
}

int blob_batch_finish(struct blob_batch **p, struct error *err)
{
    struct blob_batch *batch = *p;
    int r = 0;

    if (batch->count) {
        r = sync_all(batch->b, err);
        if (r == 0)
            r = name_all(batch, err);
        if (r == 0)
            r = sync_folders(batch, err);
        if (r == 0)
            r = blob_fault_refuse(batch->b, err);
    }
    blob_batch_abort(p); /* what has its name stays */
    return r;
}
