/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of files whose SHA-256 was verified within the last day, keyed by
 * hash, inode, size, mtime and ctime. Runs in the daemon. The table has a
 * fixed size: four entries for each set, and a new entry replaces the oldest
 * of its set. A file that is not in the cache is hashed again, which is only
 * slower.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"

#define LARGE_BYTES (1 << 20) /* hashing it takes longer than a tick */
#define SETTLE_TRIES 20u

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

bool blob_verified_cacheable(const struct stat *st)
{
    struct timespec now;

    /* The clock that file times are taken from. */
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now); /* always there */
    return ns_of(&st->st_ctim) < ns_of(&now);
}

static struct blob_verified *set_of(struct blobs *b, const unsigned char *hash)
{
    unsigned i = ((unsigned)hash[0] << 8 | hash[1]) % BLOB_VERIFIED_SETS;

    return &b->verified[(size_t)i * BLOB_VERIFIED_WAYS];
}

static struct blob_verified *verified_find(struct blobs *b,
                                           const struct blob_name *name,
                                           const struct stat *st)
{
    struct blob_verified *set = set_of(b, name->hash);

    for (unsigned i = 0; i < BLOB_VERIFIED_WAYS; i++)
        if (set[i].at_ms && set[i].ino == st->st_ino &&
            set[i].dev == st->st_dev &&
            memcmp(set[i].hash, name->hash, HASH_SIZE) == 0)
            return &set[i];
    return NULL;
}

static bool same_file(const struct blob_verified *k, const struct stat *st)
{
    return k->dev == st->st_dev && k->ino == st->st_ino &&
           k->size == (uint64_t)st->st_size &&
           k->mtime_ns == ns_of(&st->st_mtim) &&
           k->ctime_ns == ns_of(&st->st_ctim);
}

bool blob_verified_cache_has(struct blobs *b, const struct blob_name *name,
                             const struct stat *st)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    const struct blob_verified *k = verified_find(b, name, st);

    return k && same_file(k, st) &&
           clock_mono_ms() - k->at_ms < BLOB_VERIFIED_MS;
}

void blob_verified_cache_add(struct blobs *b, const struct blob_name *name,
                             const struct stat *st)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    struct blob_verified *k = verified_find(b, name, st);

    if (!k) {
        struct blob_verified *set = set_of(b, name->hash), *least = set;

        for (unsigned i = 1; i < BLOB_VERIFIED_WAYS; i++)
            if (set[i].at_ms < least->at_ms)
                least = &set[i];
        k = least;
    }
    *k = (struct blob_verified){.dev = st->st_dev,
                                .ino = st->st_ino,
                                .size = (uint64_t)st->st_size,
                                .mtime_ns = ns_of(&st->st_mtim),
                                .ctime_ns = ns_of(&st->st_ctim),
                                .at_ms = MAX(clock_mono_ms(), (uint64_t)1)};
    memcpy(k->hash, name->hash, HASH_SIZE);
}

void blob_verified_cache_remove(struct blobs *b, const struct blob_name *name,
                                const struct stat *st)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    struct blob_verified *k = verified_find(b, name, st);

    if (k)
        *k = (struct blob_verified){0};
}

void blob_verified_cache_update(struct blobs *b, const struct blob_name *name,
                                const struct stat *before,
                                const struct stat *after)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    struct blob_verified *k = verified_find(b, name, before);
    int64_t ctime_ns;

    if (!k || !same_file(k, before))
        return;
    /* A write since would have moved the other time. To hide one here means
     * to put that back within the tick of our link. */
    ctime_ns = k->ctime_ns;
    k->ctime_ns = ns_of(&after->st_ctim);
    if (!same_file(k, after))
        k->ctime_ns = ctime_ns;
}

void blob_verified_settle(struct blobs *b, const struct blob_name *name,
                          int fd)
{
    const struct timespec tick = {.tv_nsec = 1000000};
    struct stat st;
    bool settled;

    if (fstat(fd, &st) < 0)
        return;
    settled = blob_verified_cacheable(&st);
    for (unsigned i = 0;
         !settled && st.st_size >= LARGE_BYTES && i < SETTLE_TRIES; i++) {
        (void)nanosleep(&tick, NULL); /* shorter is as good */
        settled = blob_verified_cacheable(&st);
    }
    if (settled)
        blob_verified_cache_add(b, name, &st);
}
