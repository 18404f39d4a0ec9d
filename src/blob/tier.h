/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blob tier: where finished blobs are stored. The blob module stages,
 * hashes, pins, verifies and links blobs; a tier below it only stores and
 * returns them. The local disk is the tier of a single machine
 * (tier_local.c); S3 (tier_s3.c) is that of a service that outgrows one;
 * blobs_open takes another one through its settings.
 *
 * Rules for an implementation:
 *
 *   - Acknowledged means stored: what put returned 0 for survives a crash and
 *     a power cut, unless the caller allowed put to make it durable later.
 *   - A put does the same work whether or not the blob is stored already, and
 *     whichever tenant stored it (I8).
 *   - A tier need not verify. The module hashes whatever get returns before it
 *     hands out a byte (D3), so a tier with a local cache may be wrong but
 *     never deceives. A put replaces bytes that are wrong.
 *   - Every function may be called by several threads at once, but a blob is
 *     never put and removed at once. A tier that is not behind the log may
 *     take its time: the module holds no lock while it waits for it.
 *   - Errors: ERR_SPACE when the tier is full, ERR_UNAVAILABLE when it cannot
 *     be reached, otherwise ERR_INTERNAL. A failed call has no effect that a
 *     repeated call could not complete.
 */
#ifndef GLOVEBOX_BLOB_TIER_H
#define GLOVEBOX_BLOB_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blob/blob.h"

struct blob_tier;
struct stat;

/* A complete file in the staging folder, whose bytes have that SHA-256. */
struct blob_tier_file {
    const char *sha256;
    const char *owner; /* tag of the tenant that stores it */
    int dir;           /* the staging folder */
    const char *name;  /* of the file in it */
    int fd;            /* open, or -1 */
    uint64_t size;
    /* Results of put: */
    bool stored;        /* the staged name is gone */
    int64_t more_blobs; /* how many more the tier holds: 0 or 1 */
    int64_t more_bytes; /* and bytes; may be negative */
};

struct blob_tier_ops {
    const char *name; /* for messages */

    /* Small blobs may be acknowledged once the log in the data directory has
     * them, and are put later: the tier is the same disk. Otherwise every blob
     * is put before it is acknowledged. */
    bool behind_log;

    /* Stores the files and removes their staged names, or moves the files.
     * durable: all of them are when it returns 0; otherwise after sync. On
     * failure those with `stored` set are stored. */
    int (*put)(struct blob_tier *t, struct blob_tier_file *files, size_t count,
               bool durable, struct error *err);
    /* Makes everything that was put before durable. */
    int (*sync)(struct blob_tier *t, struct error *err);
    /* A regular file with the blob's bytes, to be read from its start; owned
     * by caller. 1: the tier has none. ERR_CORRUPT: it has one that cannot be
     * read. */
    int (*get)(struct blob_tier *t, const char *sha256, int *ret_fd,
               struct error *err);
    /* st_size and st_mtim. 1: none. */
    int (*stat)(struct blob_tier *t, const char *sha256, struct stat *ret,
                struct error *err);
    /* What identifies the file of the local disk that get would open now
     * without waiting for anything. 1: none. NULL: there never is one. */
    int (*file)(struct blob_tier *t, const char *sha256, struct stat *ret);
    /* 1: there was none. */
    int (*remove)(struct blob_tier *t, const char *sha256, struct error *err);
    /* Calls fn for each blob whose SHA-256 begins with that byte, in order of
     * name. fn returns 0 to continue; otherwise list returns its result.
     * Blobs may be put and removed meanwhile, also by fn. */
    int (*list)(struct blob_tier *t, unsigned first_byte, blob_iterate_fn fn,
                void *ctx, struct error *err);
    /* The same for all blobs, for a tier that is slow to answer 256 times.
     * NULL: list is called for each first byte. */
    int (*list_all)(struct blob_tier *t, blob_iterate_fn fn, void *ctx,
                    struct error *err);
    void (*close)(struct blob_tier *t);

    /* For a tier whose get opens copies of what it has elsewhere, else NULL.
     * The copy is wrong: as get, but from where the blob is stored. */
    int (*refetch)(struct blob_tier *t, const char *sha256, int *ret_fd,
                   struct error *err);
    /* Hashes the stored bytes, at most `pace` a second (0: no limit), without
     * making a copy. 1: none. ERR_CORRUPT. */
    int (*check)(struct blob_tier *t, const char *sha256, uint64_t pace,
                 struct error *err);
    /* For a tier that may be out of reach, else NULL: 0, or why it is. Does
     * not wait. */
    int (*ready)(struct blob_tier *t, struct error *err);
    void (*stats)(struct blob_tier *t, struct blob_remote_stats *ret);

    /* Both NULL for a tier whose blobs are no files of the data directory's
     * disk: trees then link to a copy per tenant. */
    /* Is the stored file the inode of that owner? */
    bool (*owned)(struct blob_tier *t, const char *sha256, const char *owner);
    /* Gives the stored file one more name. Negative errno. */
    int (*link)(struct blob_tier *t, const char *sha256, int dir,
                const char *name);
};

/* Begins every tier's own struct. */
struct blob_tier {
    const struct blob_tier_ops *ops;
};

#endif
