/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to blob/ and its tests.
 *
 *   DIR/blobs/ab/abcdef…    a blob, mode 0644
 *   DIR/blobs/v/…/ab/abcdef…  a tenant's copy (OWNER.p), or one with
 *                           mode 0755 (OWNER.x)
 *   DIR/blobs/tmp/…         being written
 *   DIR/blobs/cache/ab/abcdef…  a copy of a blob in an object store
 *   DIR/blobs/tier          exists if blobs are in an object store
 *   DIR/blobs/log.0, log.1  small blobs, until they are published
 *
 * One lock, held only over memory: every wait for the disk is outside, so
 * that several writers share a commit of the file system's journal.
 */
#ifndef GLOVEBOX_BLOB_BLOB_INT_H
#define GLOVEBOX_BLOB_BLOB_INT_H

#include <stdatomic.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "blob/blob.h"
#include "blob/inflight.h"
#include "blob/tier.h"

#define BLOB_CHUNK 65536u  /* read and written at once */
#define BLOB_FOLDERS 256u  /* by the first byte of the hash */
#define BLOB_TEMP 17       /* name of a file being written, and NUL */
#define BLOB_STRAY "drop-" /* how names begin that a listing may remove */
#define BLOB_PATH (3 + BLOB_NAME)
#define BLOB_TENANT_COPY (BLOB_OWNER + 3 + BLOB_PATH)
#define BLOB_PINS 1024u /* buckets */
#define BLOB_PENDING 4096u
#define BLOB_VERIFIED_WAYS 4u
#define BLOB_VERIFIED_SETS 16384u
#define BLOB_VERIFIED_MS (24 * 3600 * 1000ULL)

/* A checked name. */
struct blob_name {
    unsigned char hash[HASH_SIZE];
    char path[BLOB_PATH]; /* "ab/abcdef…" */
};

enum blob_state {
    BLOB_ABSENT,
    BLOB_BAD,     /* its bytes are not those it is named for */
    BLOB_GOOD,    /* they are */
    BLOB_STOPPED, /* blobs_stop came first */
};

struct blob_pin {
    struct blob_pin *next;
    unsigned char hash[HASH_SIZE];
    unsigned count;
    bool lost;     /* by blob_finish_soon, then writing it failed */
    bool removing; /* the collector removes it; pinning waits */
};

/* A verified file, and when it was hashed. */
struct blob_verified {
    unsigned char hash[HASH_SIZE];
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
    uint64_t at_ms; /* monotonic; 0: unused */
};

struct blob_usage {
    int64_t count, bytes;
    uint64_t changes; /* a look that overlapped one is taken again */
};

/* Before the bytes of a small one in the log. Integers as this machine has
 * them: a data directory that crashed is started again where it was. */
#define BLOB_LOG_MAGIC 0x31676f6c626f6c62ull /* "bloblog1" */
#define BLOB_LOG_CHECK 8u
struct blob_record {
    uint64_t magic;
    uint64_t turn;              /* how often a half was begun: whose it is */
    uint32_t len;               /* of the bytes that follow */
    char owner[BLOB_OWNER + 3]; /* padded */
    unsigned char hash[HASH_SIZE];
    unsigned char check[BLOB_LOG_CHECK]; /* of all above */
};

/* In the log, and not published yet. */
struct blob_pending {
    struct blob_pending *next;                /* of the same bucket */
    struct blob_pending *later, **later_link; /* of the same half */
    uint64_t seq;                             /* order, over both halves */
    unsigned char hash[HASH_SIZE];
    char owner[BLOB_OWNER];
    uint32_t at, len; /* of its bytes in that half */
    unsigned half;
    bool soon;     /* no thread waits for it; see blobs_sync */
    bool replayed; /* of an earlier run: it may be in its place already */
    bool busy;     /* a thread is publishing it */
};

/* Threads that wait for one sync of the log. */
struct blob_log_group {
    struct blob_pending *members; /* by next; `at` counts from the group's */
    unsigned refs;
    bool done;
    int result;
    struct error err;
};

struct blob_log {
    bool open; /* false: nothing is published or scrubbed at close */
    int fd[2];
    struct mutex lock; /* around what follows */
    struct cond changed;
    unsigned half;      /* the one that is being filled */
    uint64_t turn;      /* of that half */
    size_t at;          /* filled, and on its way to the disk at least */
    bool unsynced;      /* some of that was written and not waited for */
    uint64_t written;   /* groups, so far */
    bool leading;       /* a thread writes it out or switches halves */
    bool scrubbing;     /* being scrubbed: new writers wait */
    struct buf pending; /* records of the group that gathers */
    struct blob_log_group *group;

    /* publisher.c: pending blobs */
    struct blob_pending *buckets[BLOB_PENDING];
    struct blob_pending *first[2], **last[2]; /* of each half, by seq */
    unsigned unpublished[2];                  /* how many these are */
    bool settled[2];                          /* they are files on disk */
    uint64_t seq;

    /* publisher.c: */
    struct thread publisher;
    struct cond work;
    bool stop;
    unsigned quiet_ms; /* of few writes before it starts */
};

struct blobs {
    struct blob_tier *tier;     /* owned */
    int dir;                    /* DIR/blobs */
    int tmp;                    /* DIR/blobs/tmp */
    int tenant_copies;          /* DIR/blobs/v */
    struct disk *disk;          /* or NULL */
    struct mutex full_lock;     /* around what follows, and held over it */
    bool (*on_full)(void *ctx); /* or NULL */
    void *on_full_ctx;
    atomic_bool failed; /* a sync did: no more writes */
    atomic_bool stopping;
    struct mutex looking; /* held while the disk is counted */
    struct mutex lock;    /* around everything below */
    struct cond removed;
    struct blob_pin *pins[BLOB_PINS];
    unsigned lost; /* of these */
    struct blob_verified
        *verified; /* BLOB_VERIFIED_SETS * BLOB_VERIFIED_WAYS */
    struct blob_usage usage[BLOB_FOLDERS];
    bool counted; /* usage is that of the disk, not only what was added */
    struct blob_log log;
    struct inflight *inflight;
};

struct blob_hold {
    struct inflight_hold hold;
};

/* ---- blob.c: names
 * ------------------------------------------------------------ */

/* ERR_INVALID unless it is 64 lower-case hex digits. */
int blob_name_parse(const char *sha256, struct blob_name *ret,
                    struct error *err);
void blob_name_of(const unsigned char hash[HASH_SIZE], struct blob_name *ret);
/* The 64 digits; borrowed. */
static inline const char *blob_name_hex(const struct blob_name *name)
{
    return name->path + 3;
}
/* An unused name in DIR/blobs/tmp. */
void blob_name_temp(char ret[BLOB_TEMP]);

/* ---- blob.c: what a failed call means --------------------------------- */

/* ERR_SPACE for a full disk, else ERR_INTERNAL. `what` follows "cannot ". */
int blob_fault(int errnum, const char *what, struct error *err);
/* ERR_UNAVAILABLE if a sync failed before. */
int blob_fault_refuse(struct blobs *b, struct error *err);
/* fsync; the first failure is the last write (D4). */
int blob_fault_sync(struct blobs *b, int fd, struct error *err);
/* The same verdict for another call that reports how writing out went. */
int blob_fault_final(struct blobs *b, int errnum, struct error *err);

/* ---- scan.c: a file's bytes, and its holes as such --------------------- */

/* bytes is NULL for a hole of that length. Returns 0 to go on. */
typedef int (*blob_scan_fn)(void *ctx, const void *bytes, uint64_t len);
/* 0, what fn returned (positive), or a negative errno of reading. Leaves the
 * descriptor's offset where it was. */
int blob_scan(int fd, uint64_t most, blob_scan_fn fn, void *ctx);
/* Adds to a hash; zeros for a hole. */
void blob_scan_hash(struct hash_stream *h, const void *bytes, uint64_t len);
/* Copies all of `from` to the new, empty file `to`, holes as holes.
 * Negative errno. */
int blob_scan_copy(int from, int to);

/* ---- pin_count.c ------------------------------------------------------- */

void blob_pin_add(struct blobs *b, const unsigned char hash[HASH_SIZE]);
void blob_pin_remove(struct blobs *b, const unsigned char hash[HASH_SIZE]);
/* Writing it failed after blob_finish_soon had returned. */
void blob_pin_mark_lost(struct blobs *b, const unsigned char hash[HASH_SIZE]);
/* Is a lost blob pinned? */
bool blob_pin_any_lost(struct blobs *b);
/* False if pinned, or being removed already. If true: remove, then _end. */
bool blob_pin_removal_begin(struct blobs *b,
                            const unsigned char hash[HASH_SIZE]);
void blob_pin_removal_end(struct blobs *b,
                          const unsigned char hash[HASH_SIZE]);

/* ---- verified_cache.c: files that need not be hashed again ------------- */

/*
 * The kernel stamps files with a clock that ticks every few milliseconds. A
 * second change within one tick leaves no mark, so a file may be cached only
 * if its ctime had passed before it was hashed.
 */
bool blob_verified_cacheable(const struct stat *st);
bool blob_verified_cache_has(struct blobs *b, const struct blob_name *name,
                             const struct stat *st);
void blob_verified_cache_add(struct blobs *b, const struct blob_name *name,
                             const struct stat *st);
/* The file was found damaged although its inode had not changed. */
void blob_verified_cache_remove(struct blobs *b, const struct blob_name *name,
                                const struct stat *st);
/* Its bytes were hashed as they were written: adds it, if need be after a
 * wait of milliseconds that is worth it for a large one only. */
void blob_verified_settle(struct blobs *b, const struct blob_name *name,
                          int fd);
/* A link made or removed by us changed its ctime and nothing else. */
void blob_verified_cache_update(struct blobs *b, const struct blob_name *name,
                                const struct stat *before,
                                const struct stat *after);

/* ---- read.c ------------------------------------------------------------ */

struct blob_look {
    const char *copy; /* path in DIR/blobs/v, or NULL: the blob itself */
    bool anew;        /* from the disk, whatever is remembered or cached */
    uint64_t pace;    /* bytes a second, or 0 */
    /* results; st only if not ABSENT */
    enum blob_state state;
    struct stat st;
};
/* Looks whether it is there and right. ret_fd: may be NULL; set only if
 * GOOD. Fails when that cannot be told. */
int blob_read_look(struct blobs *b, const struct blob_name *name,
                   struct blob_look *look, int *ret_fd, struct error *err);
/* Logs and returns ERR_CORRUPT for a state that is neither GOOD nor
 * STOPPED. */
int blob_read_corrupt(const struct blob_name *name, enum blob_state state,
                      struct error *err);

/* ---- tier_local.c ------------------------------------------------------ */

/* Stores blobs as files below b->dir. *ret is set also on failure. */
int blob_tier_local_open(struct blobs *b, struct blob_tier **ret,
                         struct error *err);

/* ---- tier_s3.c --------------------------------------------------------- */

/* Stores blobs in buckets. *ret is set also on failure. */
int blob_tier_s3_open(struct blobs *b, const struct blobs_s3 *settings,
                      struct blob_tier **ret, struct error *err);

/* ---- cache.c: local copies of blobs of an object store ----------------- */

struct blob_cache;

/* *ret is set also on failure. */
int blob_cache_open(struct blobs *b, uint64_t limit, struct blob_cache **ret,
                    struct error *err);
void blob_cache_close(struct blob_cache *c); /* accepts NULL */
/* 1: there is none. */
int blob_cache_get(struct blob_cache *c, const struct blob_name *name,
                   int *ret_fd);
int blob_cache_stat(struct blob_cache *c, const struct blob_name *name,
                    struct stat *ret);
/* Takes a file over, or removes it where there is one already; true then. */
bool blob_cache_keep(struct blob_cache *c, const struct blob_name *name,
                     int dir, const char *file, uint64_t size);
/* Moves a blob's file of the local tier here; `dir` is that tier's. */
bool blob_cache_adopt(struct blob_cache *c, const struct blob_name *name,
                      int dir, uint64_t size);
void blob_cache_drop(struct blob_cache *c, const struct blob_name *name);
/* Negative errno. */
int blob_cache_link(struct blob_cache *c, const struct blob_name *name,
                    int dir, const char *to);
/* Makes sure that `room` bytes more fit, as far as possible. */
void blob_cache_evict(struct blob_cache *c, uint64_t room);
/* Counts what is there. */
void blob_cache_survey(struct blob_cache *c);
void blob_cache_count(struct blob_cache *c, int64_t more);
void blob_cache_repaired(struct blob_cache *c);
void blob_cache_stats(struct blob_cache *c, struct blob_remote_stats *ret);

/* ---- stored.c: blobs of the tier --------------------------------------- */

/* Puts staged files into the tier and counts them; see tier.h. Their hashes
 * must be pinned. */
int blob_stored_put(struct blobs *b, struct blob_tier_file *files,
                    size_t count, bool durable, struct error *err);
/* Has the tier a file of that size? size -1: of any. */
bool blob_stored_has(struct blobs *b, const struct blob_name *name,
                     int64_t size);

/* ---- link.c: copies per tenant
 * ----------------------------------------------------- */

void blob_tenant_copy_mark(int fd, const char *owner);
/* Marks a file that has no owner; false if it has one. */
bool blob_tenant_copy_claim(int fd, const char *owner);
/* The owner, or "". */
void blob_tenant_copy_owner(int fd, char ret[BLOB_OWNER]);
/* Is that the owner with which the file was marked? */
bool blob_tenant_copy_marked(int fd, const char *owner);
void blob_tenant_copy_path(const char *owner, bool executable,
                           const struct blob_name *name,
                           char ret[BLOB_TENANT_COPY]);
/* Makes the folders of such a path. Negative errno. */
int blob_tenant_copy_mkdirs(struct blobs *b, const char *path);
/* Removes the copies of all owners. Negative errno. */
int blob_tenant_copy_remove(struct blobs *b, const struct blob_name *name);

/* ---- write.c, for batch.c ---------------------------------------------- */

/* The first half of blob_finish: all bytes are in the file, hashed, pinned;
 * the writer is freed, its file stays as *ret_temp. */
int blob_write_end(struct blob_writer **w, char ret_temp[BLOB_TEMP],
                   struct blob_name *ret_name, char ret_owner[BLOB_OWNER],
                   uint64_t *ret_size, struct error *err);

/* ---- log.c: small blobs ------------------------------------------------ */

#define BLOB_LOG_MOST (16u << 10) /* bytes of a blob that goes there */
#define BLOB_LOG_HALF (8u << 20)

/* The log's lock is held, and let go meanwhile. Everything that was added
 * before is out; and synced, unless it comes back as *ret_unsynced (which may
 * be NULL). */
int blob_log_drain(struct blobs *b, struct buf *ret_unsynced,
                   struct error *err);
/* Blobs that an earlier run left in the log are pending. */
int blob_log_open(struct blobs *b, struct error *err);
/* Publishes everything that is pending, if possible. */
void blob_log_close(struct blobs *b);
/* Durable when it returns 0, and pending: published later. soon: does
 * not wait; durable with the next record that is written out. */
int blob_log_add(struct blobs *b, const struct blob_name *name,
                 const char *owner, const void *bytes, size_t len, bool soon,
                 struct error *err);
void blob_log_check(const struct blob_record *r,
                    unsigned char ret[BLOB_LOG_CHECK]);
/* All bytes or a negative errno. */
int blob_log_put(int fd, const char *bytes, size_t len, off_t at);
/* The log's lock is held, and let go meanwhile: whatever was put in its place
 * before is a file on disk afterwards. */
int blob_log_settle(struct blobs *b, struct error *err);

/* ---- log.c: the log at a start -------------------------------------- */

/* Opens both halves or makes them; what is in them is pending. */
int blob_replay(struct blobs *b, struct error *err);

/* ---- publisher.c: publishing blobs of the log ----------------------------
 */

/* The log's lock is held for these two. p is taken. */
void blob_pending_add(struct blobs *b, struct blob_pending *p);
/* Publishes up to `most` of the blobs that were pending at `seq`, oldest
 * first; the lock is released meanwhile. half: of it alone, or -1. 1: there
 * was nothing left to do. An error is the last one's; the others are done. */
int blob_pending_some(struct blobs *b, int half, uint64_t seq, unsigned most,
                      struct error *err);

/* Without the lock. Everything that pends now. */
int blob_pending_all(struct blobs *b, struct error *err);
/* That one, for every owner. 1: it was not pending. */
int blob_pending_publish(struct blobs *b, const struct blob_name *name,
                         struct error *err);
/* Its bytes, hashed; owned by caller. 1: it does not pend. ERR_CORRUPT. */
int blob_pending_read(struct blobs *b, const struct blob_name *name,
                      char **ret_bytes, size_t *ret_len, struct error *err);
/* It is being removed, and is no longer published. */
void blob_pending_drop(struct blobs *b, const struct blob_name *name);
void blob_pending_free(struct blobs *b);
/* Adds those that will be one more file. */
void blob_pending_count(struct blobs *b, int64_t *count, int64_t *bytes);

/* ---- publisher.c: the thread that publishes ---------------------------- */

int blob_publisher_start(struct blobs *b, struct error *err);
void blob_publisher_stop(struct blobs *b);

#endif
