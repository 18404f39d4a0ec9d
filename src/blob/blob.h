/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes, stored once under their SHA-256: DIR/blobs/ab/abcdef… . A blob is
 * written beside its place, hashed on the way, synced, renamed, and its
 * directory synced (D1); a small one is synced in a log instead (log.c), and
 * is a file within half a second, or when a burst of writes is over.
 * Rows reference it afterwards (D2), so a crash leaves at most a blob that
 * nothing references, which the collector finds.
 *
 * Writing the same bytes twice does the same work and gives the same answer
 * as writing them first, whichever tenant wrote them before (I8).
 *
 * Verified on open (D3): the bytes are hashed before the first of them is
 * handed out. What was hashed is remembered by inode, size and both times
 * (the kernel's ctime cannot be put back), so that an untouched file is not
 * hashed again for a day; anything that differs is.
 *
 * A writer's result is pinned until blob_release, so that the collector
 * cannot take it between "it is there" and the row that refers to it.
 * After a failed sync every write is refused (D4). Any thread may call.
 */
#ifndef GLOVEBOX_BLOB_BLOB_H
#define GLOVEBOX_BLOB_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOB_NAME 65  /* SHA-256 in hex and NUL */
#define BLOB_OWNER 17 /* tag of a tenant; see blob_owner */

struct blobs;
struct blob_batch;
struct blob_hold;
struct blob_tier;
struct blob_writer;
struct buf;
struct disk;
struct error;
struct s3;
struct stat;

/* One bucket, and the tenants whose blobs go there. */
struct blobs_bucket {
    struct s3 *s3; /* taken, also when opening fails */
    const char *const *tenants;
    size_t tenant_count;
};

/* Blobs in an object store, cached on the disk of the data directory. */
struct blobs_s3 {
    /* The first one is that of all tenants that no other one names. */
    const struct blobs_bucket *buckets;
    size_t count;
    uint64_t cache_bytes;
};

struct blobs_settings {
    const char *data_dir;
    /* Where finished blobs are stored (tier.h); taken, also when opening
     * fails. NULL: on the disk of the data directory. */
    struct blob_tier *tier;
    /* Or in an object store; NULL: not. */
    const struct blobs_s3 *s3;
    /* Writers request room from this disk (D12); borrowed. NULL: they write
     * until the file system is full. */
    struct disk *disk;
};

/* Makes DIR/blobs (0700), removes half-written files of an earlier run. */
int blobs_open(const struct blobs_settings *settings, struct blobs **ret,
               struct error *err);
void blobs_close(struct blobs *b); /* accepts NULL */
bool blobs_writable(struct blobs *b);
/* 0, or ERR_UNAVAILABLE and why blobs can be neither stored nor fetched now.
 * Does not wait. */
int blobs_ready(struct blobs *b, struct error *err);

/* What a tier in an object store has done since the start; false for blobs on
 * the local disk. */
struct blob_remote_stats {
    uint64_t requests, retries, failures, throttled, sent, received;
    uint64_t cache_bytes, cache_limit, hits, misses, evicted, repaired;
    uint64_t not_uploaded; /* of before it was used */
};
bool blobs_remote_stats(struct blobs *b, struct blob_remote_stats *ret);
/* fn makes room when the cache is full of files that trees link to: removes a
 * tree that no session mounts; false: there is none. Before any thread uses
 * the blobs; NULL: none, before ctx is freed. */
void blobs_on_full(struct blobs *b, bool (*fn)(void *ctx), void *ctx);
/* Checks that hash anew or at a pace end soon, with ERR_UNAVAILABLE; all else
 * goes on. For the start of a shutdown. */
void blobs_stop(struct blobs *b);

/* The tag of a tenant as owner of inodes. What sessions can see of a file (its
 * link count and times) is never shared by two owners. */
void blob_owner(const char *tenant, char ret[BLOB_OWNER]);

/* A writer reserves disk space in steps as it goes, so that bytes in flight
 * never exceed what the disk has room for and no owner takes it all
 * (inflight.h): writing may wait for a few seconds, and then fail with
 * ERR_SPACE (the disk is full) or ERR_BUSY (too much is stored at once). */
int blob_begin(struct blobs *b, const char *owner, struct blob_writer **ret,
               struct error *err);
/* Space reserved ahead for a set of writers, which then takes the place of
 * their own steps until it is used up. One thread at a time. Waits until
 * deadline_ms (monotonic) at most; errors as above. */
int blob_hold_new(struct blobs *b, const char *owner, uint64_t bytes,
                  uint64_t deadline_ms, struct blob_hold **ret,
                  struct error *err);
/* After the last of its writers is finished or aborted. */
void blob_hold_free(struct blob_hold **h); /* for cleanup() */
/* As blob_begin, with space of `hold` (borrowed); NULL: as blob_begin. */
int blob_begin_held(struct blobs *b, const char *owner, struct blob_hold *hold,
                    struct blob_writer **ret, struct error *err);
/* Bytes reserved now, by writers and holds of all owners. */
uint64_t blobs_inflight(struct blobs *b);
int blob_write(struct blob_writer *w, const void *bytes, size_t len,
               struct error *err);
/* From the descriptor's start (pread) up to its end, at most `most` bytes;
 * holes are skipped where the file system reports them. */
int blob_write_fd(struct blob_writer *w, int fd, uint64_t most,
                  struct error *err);
/* The name those bytes would have, and how many they are; stores nothing. */
int blob_hash_fd(int fd, uint64_t most, char ret_sha256[BLOB_NAME],
                 uint64_t *ret_size, struct error *err);
uint64_t blob_written(const struct blob_writer *w);
/* Durable and pinned when it returns 0; frees w and clears it either way. */
int blob_finish(struct blob_writer **w, char ret_sha256[BLOB_NAME],
                uint64_t *ret_size, struct error *err);
/* The same, but a small blob is durable only after a later blobs_sync has
 * returned 0, or once the records of a later blobs_write are durable. For a
 * blob that is referenced by a transaction which does one of the two before it
 * commits (D2). */
int blob_finish_soon(struct blob_writer **w, char ret_sha256[BLOB_NAME],
                     uint64_t *ret_size, struct error *err);
/* Makes durable what blob_finish_soon finished. Fails for every caller while a
 * blob that could not be written is pinned. */
int blobs_sync(struct blobs *b, struct error *err);
/* The same without waiting for the disk, for up to BLOBS_WRITE_MOST bytes:
 * the caller stores the records in *ret (empty: everything is durable) durably
 * until a blobs_sync that begins later has returned 0; a start before that
 * passes them to blobs_redo. One thread at a time. */
#define BLOBS_WRITE_MOST (32u << 10)
int blobs_write(struct blobs *b, struct buf *ret, struct error *err);
/* Stores the blobs of records that blobs_write returned in an earlier run,
 * unless they are stored. */
int blobs_redo(struct blobs *b, const void *bytes, size_t len,
               struct error *err);
void blob_abort(struct blob_writer **w); /* for cleanup(); accepts cleared */
void blob_release(struct blobs *b, const char *sha256); /* one pin */
/* Pins a blob that a row references, for another row. It may have been removed
 * before: check afterwards that the first row is still there. */
int blob_pin(struct blobs *b, const char *sha256, struct error *err);

/* Many blobs at the cost of one sync: all are durable when blob_batch_finish
 * returns 0. Each is pinned once it was added, also when finishing fails. */
struct blob_batch *blob_batch_new(struct blobs *b);
int blob_batch_add(struct blob_batch *batch, struct blob_writer **w,
                   char ret_sha256[BLOB_NAME], uint64_t *ret_size,
                   struct error *err);
/* Frees it and clears it either way. */
int blob_batch_finish(struct blob_batch **p, struct error *err);
void blob_batch_abort(struct blob_batch **p); /* for cleanup() */

/* A small blob is readable at once and becomes a file soon after; this makes
 * it a file now, for callers that need more than its bytes. */
int blob_publish_now(struct blobs *b, const char *sha256, struct error *err);
/* ERR_CORRUPT names the object when its bytes are not those it was named
 * for, or are gone. ret_fd: read-only, owned by caller. */
int blob_open(struct blobs *b, const char *sha256, int *ret_fd,
              uint64_t *ret_size, struct error *err);
/* Verifies as blob_open does. anew: hashes the bytes of the tier even if they
 * are cached as verified. pace: bytes a second; 0: unlimited. */
int blob_check(struct blobs *b, const char *sha256, bool anew, uint64_t pace,
               struct error *err);

/*
 * Gives it one more name, `name` in the folder `dir`, without copying; for
 * the trees that sessions mount. Verified like blob_open. executable: mode
 * 0755 instead of 0644, which costs one copy of such a blob. Where a link
 * cannot be made (too many, another disk) it copies.
 */
int blob_link(struct blobs *b, const char *owner, const char *sha256, int dir,
              const char *name, bool executable, struct error *err);
/* Takes such a name away again; what is remembered of the blob stays good
 * (unlinkat would make it be hashed once more). */
int blob_unlink(struct blobs *b, const char *owner, const char *sha256,
                int dir, const char *name, bool executable, struct error *err);

/* Verifies that such a name still holds the bytes of the blob; hashes it
 * unless it is cached as verified. ret: its attributes then. ERR_CORRUPT. */
int blob_verify_link(struct blobs *b, const char *sha256, int dir,
                     const char *file, struct stat *ret, struct error *err);

/* 1 and its size if the tier has it, 0 if not. Says nothing of its bytes. */
int blob_size(struct blobs *b, const char *sha256, uint64_t *ret);
/* For the collector and verify: calls fn for each stored blob in order of
 * name. fn returns 0 to continue. stored_at_ms: when it was written. */
struct blob_info {
    char sha256[BLOB_NAME];
    uint64_t size;
    int64_t stored_at_ms;
};
typedef int (*blob_iterate_fn)(void *ctx, const struct blob_info *i);
int blob_iterate(struct blobs *b, blob_iterate_fn fn, void *ctx,
                 struct error *err);
/* Removes one unless it is pinned (then returns 1). Only the collector. */
int blob_remove(struct blobs *b, const char *sha256, struct error *err);
/* The same in two steps: from the first on, pinning it waits; false if it is
 * pinned. The caller looks for rows in between and does not hold a transaction
 * during the second, which may wait for an object store. keep: does not remove
 * it. */
bool blob_removal_begin(struct blobs *b, const char *sha256);
int blob_removal_end(struct blobs *b, const char *sha256, bool keep,
                     struct error *err);
/* After removing: scrubs the removed bytes from the small-blob log. */
int blob_log_scrub(struct blobs *b, struct error *err);
/* Bytes and number on disk, as of the last look (at most a minute old). */
void blobs_usage(struct blobs *b, uint64_t *ret_bytes, uint64_t *ret_count);

#endif
