/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much is stored. Runs in the daemon. The first who asks has the disk
 * counted, so that a start does not wait for it; from then on writing and
 * removing keep the figures.
 */
#include <fcntl.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"

#define TRIES 4u

void blob_usage_add(struct blobs *b, const struct blob_name *name,
                    int64_t count, int64_t bytes)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    struct blob_usage *u = &b->usage[name->hash[0]];

    u->count += count;
    u->bytes += bytes;
    u->changes++;
}

/* Counts a folder; false if it changed meanwhile. */
static bool count_folder(struct blobs *b, unsigned folder, bool last)
{
    struct blob_listing l cleanup(blob_iterate_free) = {0};
    int dir cleanup(fd_close) = -1;
    int64_t count = 0, bytes = 0;
    uint64_t changes;

    (void)mutex_hold(&b->lock);
    changes = b->usage[folder].changes;
    mutex_unlock(&b->lock);
    if (blob_iterate_list(b, folder, &dir, &l) < 0)
        log_event(LOG_WARN, "blob_usage_unreadable", NULL);
    for (size_t i = 0; i < l.count; i++) {
        struct stat st;

        if (fstatat(dir, l.names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* removed meanwhile */
        count++;
        bytes += st.st_size;
    }
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    if (b->usage[folder].changes != changes && !last)
        return false;
    b->usage[folder].count = count;
    b->usage[folder].bytes = bytes;
    return true;
}

static void count_all(struct blobs *b)
{
    for (unsigned folder = 0; folder < BLOB_FOLDERS; folder++)
        for (unsigned i = 0; i < TRIES; i++)
            if (count_folder(b, folder, i + 1 == TRIES))
                break;
}

void blobs_usage(struct blobs *b, uint64_t *ret_bytes, uint64_t *ret_count)
{
    struct mutex *looks cleanup(mutex_release) = mutex_hold(&b->looking);
    int64_t count = 0, bytes = 0;

    if (!b->counted)
        count_all(b);
    b->counted = true;
    blob_pending_count(b, &count, &bytes);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    for (unsigned i = 0; i < BLOB_FOLDERS; i++) {
        count += b->usage[i].count;
        bytes += b->usage[i].bytes;
    }
    *ret_bytes = (uint64_t)MAX(bytes, (int64_t)0);
    *ret_count = (uint64_t)MAX(count, (int64_t)0);
}
