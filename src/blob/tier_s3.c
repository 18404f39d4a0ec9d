/* SPDX-License-Identifier: Apache-2.0 */
/*
 * S3 as a blob tier, with the local disk as a cache (cache.c). Runs in the
 * daemon, on any thread, with one thread of its own.
 *
 * An object is named "ab/abcdef…" after the blob. A put is acknowledged once
 * the store has acknowledged it; the staged file then becomes the cached one.
 * A get opens the cached file, or fetches the object, hashing it on the way;
 * threads that want the same blob at once wait for one fetch. The module above
 * hashes what get opens, and asks for it to be fetched again if it is wrong
 * (refetch).
 *
 * Each tenant may have its own bucket: what it stores goes there, whether or
 * not another bucket has the same bytes. A get does not know the tenant and
 * looks into the buckets one after another.
 *
 * Blobs that a data directory had before it used S3, or that a restored backup
 * has, are in DIR/blobs/ab. The tier's thread (blob-s3) uploads them and moves
 * them to the cache; until then they are read there. The thread also finds out
 * whether a store that was down is back, aborts stale uploads once a day, and
 * keeps the cache within its size.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "blob/blob_int.h"
#include "disk/disk.h"
#include "s3/s3.h"

#define PUT_THREADS 8u
#define FETCH_TRIES 2u
#define TICK_MS 1000u
#define PROBE_MS 10000u
#define MOVE_MS 10000u
#define SURVEY_MS 3600000u
#define STALE_MS (24 * 3600000ull)

struct bucket {
    struct s3 *s3; /* owned */
    char (*owners)[BLOB_OWNER];
    size_t owner_count;
    bool usable;      /* lock; a probe succeeded */
    struct error why; /* lock; else */
};

/* A blob that is being fetched. */
struct fetching {
    struct fetching *next;
    unsigned char hash[HASH_SIZE];
    unsigned refs;
    bool done;
    int result;
    struct error err;
};

struct s3_tier {
    struct blob_tier tier;
    struct blobs *b;
    struct blob_tier *local; /* blobs that are not uploaded yet */
    struct blob_cache *cache;
    struct bucket *buckets; /* the first: of tenants that no other names */
    size_t count;
    struct worker worker;
    _Atomic bool moved;       /* `local` has none */
    _Atomic uint64_t waiting; /* of them, as far as known */
    struct mutex lock;        /* around what follows */
    struct cond fetched;
    struct fetching *fetching;
};

static struct s3_tier *s3_of(struct blob_tier *t)
{
    return (struct s3_tier *)t;
}

static struct bucket *bucket_of(struct s3_tier *t, const char *owner)
{
    for (size_t i = 1; i < t->count; i++)
        for (size_t k = 0; k < t->buckets[i].owner_count; k++)
            if (strcmp(t->buckets[i].owners[k], owner) == 0)
                return &t->buckets[i];
    return &t->buckets[0];
}

/* ---- put ---------------------------------------------------------------- */

static int put_one(struct s3_tier *t, struct blob_tier_file *f,
                   struct error *err)
{
    int opened cleanup(fd_close) = -1;
    struct blob_name name;
    int r = blob_name_parse(f->sha256, &name, err);

    if (r < 0)
        return r;
    if (f->fd < 0) {
        opened = openat(f->dir, f->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (opened < 0)
            return blob_fault(errno, "read a staged object", err);
    }
    r = s3_put_file(bucket_of(t, f->owner)->s3, name.path,
                    f->fd < 0 ? opened : f->fd, f->size, name.hash, err);
    if (r < 0)
        return r;
    if (!blob_cache_keep(t->cache, &name, f->dir, f->name, f->size)) {
        f->more_blobs = 1;
        f->more_bytes = (int64_t)f->size;
    }
    f->stored = true;
    return 0;
}

/* Several at once: a put is mostly waiting for the store. */
struct putting {
    struct s3_tier *t;
    struct blob_tier_file *files;
    size_t count;
    _Atomic size_t next;
    _Atomic bool failed;
    struct mutex lock;
    struct error *err; /* lock; of the first failure */
};

static void blob_put_main(void *arg)
{
    struct putting *p = arg;
    struct error err;
    size_t i;

    while (!atomic_load(&p->failed) &&
           (i = atomic_fetch_add(&p->next, 1)) < p->count) {
        if (put_one(p->t, &p->files[i], &err) == 0)
            continue;
        struct mutex *held cleanup(mutex_release) = mutex_hold(&p->lock);
        if (!atomic_exchange(&p->failed, true))
            *p->err = err;
    }
}

static int tier_put(struct blob_tier *t, struct blob_tier_file *files,
                    size_t count, bool durable, struct error *err)
{
    struct putting p = {
        .t = s3_of(t), .files = files, .count = count, .err = err};
    struct thread threads[PUT_THREADS - 1] = {0};
    struct error unsaid;
    uint64_t bytes = 0;

    (void)durable; /* always */
    for (size_t i = 0; i < count; i++)
        bytes += files[i].size;
    blob_cache_evict(p.t->cache, bytes);
    mutex_init(&p.lock);
    /* Without a thread this one does it all. */
    for (size_t i = 0; i + 1 < count && i < ARRAY_SIZE(threads); i++)
        (void)thread_start(&threads[i], "blob-put", blob_put_main, &p,
                           &unsaid);
    blob_put_main(&p);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        thread_join(&threads[i]);
    mutex_done(&p.lock);
    return atomic_load(&p.failed) ? -(int)err->code : 0;
}

static int tier_sync(struct blob_tier *t, struct error *err)
{
    (void)t;
    (void)err;
    return 0; /* every put was durable */
}

/* ---- fetch -------------------------------------------------------------- */

struct download {
    struct s3_tier *t;
    int fd; /* -1: only hash */
    uint64_t at;
    struct hash_stream *hash;
    uint64_t pace, started_ms;
    struct error *err;
};

static int on_piece(void *ctx, const void *bytes, size_t len)
{
    struct download *d = ctx;
    const char *from = bytes;
    size_t done = 0;

    if (d->fd >= 0 && disk_admit(d->t->b->disk, len, d->err) < 0)
        return -(int)d->err->code;
    while (d->fd >= 0 && done < len) {
        ssize_t n =
            pwrite(d->fd, from + done, len - done, (off_t)(d->at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return blob_fault(errno, "write a fetched object", d->err);
        done += (size_t)n;
    }
    hash_stream_add(d->hash, bytes, len);
    d->at += len;
    while (d->pace &&
           clock_mono_ms() - d->started_ms < d->at * 1000 / d->pace) {
        const struct timespec nap = {.tv_nsec = 20000000};

        if (atomic_load(&d->t->b->stopping))
            return error_set(d->err, ERR_UNAVAILABLE,
                             "the service is stopping");
        (void)nanosleep(&nap, NULL); /* shorter is as good */
    }
    return 0;
}

/* From one bucket. 1: it has none. ERR_CORRUPT: its bytes are wrong. */
static int download_from(struct s3_tier *t, struct s3 *s3,
                         const struct blob_name *name, int fd, uint64_t pace,
                         uint64_t *ret_size, struct error *err)
{
    struct download d = {.t = t,
                         .fd = fd,
                         .pace = pace,
                         .started_ms = clock_mono_ms(),
                         .err = err};
    unsigned char found[HASH_SIZE];
    int r = 0;

    for (unsigned i = 0; i < FETCH_TRIES; i++) {
        d.at = 0;
        if (fd >= 0 && ftruncate(fd, 0) < 0)
            return blob_fault(errno, "write a fetched object", err);
        d.hash = hash_stream_new();
        r = s3_get(s3, name->path, 0, UINT64_MAX, on_piece, &d, NULL, err);
        hash_stream_end(d.hash, found);
        if (r == 0 && hash_equal(found, name->hash, sizeof(found))) {
            *ret_size = d.at;
            return 0;
        }
        if (r != 0 && r != -ERR_CORRUPT)
            return r;
    }
    log_event(LOG_ERROR, "object_store_wrong_bytes", "bucket", s3_name(s3),
              "sha256", blob_name_hex(name), NULL);
    return error_set(err, ERR_CORRUPT,
                     "the object store %s returns other bytes for %.16s than "
                     "were stored",
                     s3_name(s3), blob_name_hex(name));
}

/* From the first bucket that has it. A bucket that cannot be asked may have
 * it, so its error counts more than that others have none. */
static int download(struct s3_tier *t, const struct blob_name *name, int fd,
                    uint64_t pace, uint64_t *ret_size, struct error *err)
{
    int worst = 1;

    for (size_t i = 0; i < t->count; i++) {
        struct error why;
        int r =
            download_from(t, t->buckets[i].s3, name, fd, pace, ret_size, &why);

        if (r == 0)
            return 0;
        if (r < 0 && (worst > 0 || worst == -ERR_CORRUPT)) {
            *err = why;
            worst = r;
        }
    }
    return worst;
}

/* Makes it a file of the cache. */
static int fetch_now(struct s3_tier *t, const struct blob_name *name,
                     struct error *err)
{
    struct blobs *b = t->b;
    int fd cleanup(fd_close) = -1;
    char temp[BLOB_TEMP];
    uint64_t size = 0;
    int r;

    blob_name_temp(temp);
    fd = openat(b->tmp, temp,
                O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return blob_fault(errno, "write a fetched object", err);
    r = download(t, name, fd, 0, &size, err);
    if (r == 0 && fchmod(fd, 0644) < 0)
        r = blob_fault(errno, "write a fetched object", err);
    if (r != 0) {
        (void)unlinkat(b->tmp, temp, 0); /* else the next start does */
        return r;
    }
    blob_cache_evict(t->cache, size);
    blob_cache_drop(t->cache, name);
    (void)blob_cache_keep(t->cache, name, b->tmp, temp, size);
    blob_verified_settle(b, name, fd);
    return 0;
}

/* Finds the one that is being fetched, or begins it: *ret_mine then. */
static struct fetching *join_fetch(struct s3_tier *t,
                                   const struct blob_name *name,
                                   bool *ret_mine)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&t->lock);
    struct fetching *f;

    for (f = t->fetching; f; f = f->next)
        if (!f->done && memcmp(f->hash, name->hash, HASH_SIZE) == 0)
            break;
    *ret_mine = !f;
    if (!f) {
        f = xcalloc(1, sizeof(*f));
        memcpy(f->hash, name->hash, HASH_SIZE);
        f->next = t->fetching;
        t->fetching = f;
    }
    f->refs++;
    return f;
}

static void leave_fetch(struct s3_tier *t, struct fetching *f)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&t->lock);
    struct fetching **at = &t->fetching;

    if (--f->refs > 0)
        return;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    free(f);
}

static int fetch_blob(struct s3_tier *t, const struct blob_name *name,
                      struct error *err)
{
    bool mine;
    struct fetching *f = join_fetch(t, name, &mine);
    int r;

    if (mine) {
        r = fetch_now(t, name, err);
        mutex_lock(&t->lock);
        f->result = r;
        if (r < 0)
            f->err = *err;
        f->done = true;
        cond_broadcast(&t->fetched);
        mutex_unlock(&t->lock);
    } else {
        mutex_lock(&t->lock);
        while (!f->done)
            cond_wait(&t->fetched, &t->lock);
        r = f->result;
        if (r < 0)
            *err = f->err;
        mutex_unlock(&t->lock);
    }
    leave_fetch(t, f);
    return r;
}

/* ---- get, stat, link ---------------------------------------------------- */

static int tier_get(struct blob_tier *tier, const char *sha256, int *ret_fd,
                    struct error *err)
{
    struct s3_tier *t = s3_of(tier);
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r < 0)
        return r;
    if (blob_cache_get(t->cache, &name, ret_fd) == 0)
        return 0;
    if (!atomic_load(&t->moved) &&
        t->local->ops->get(t->local, sha256, ret_fd, err) == 0)
        return 0;
    r = fetch_blob(t, &name, err);
    if (r != 0)
        return r;
    /* On a full disk it may be gone again. */
    return blob_cache_get(t->cache, &name, ret_fd) == 0
               ? 0
               : error_set(err, ERR_SPACE,
                           "the cache has no room for a stored object");
}

static int tier_refetch(struct blob_tier *tier, const char *sha256,
                        int *ret_fd, struct error *err)
{
    struct s3_tier *t = s3_of(tier);
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r == 0)
        r = fetch_blob(t, &name, err);
    if (r == 0)
        blob_cache_repaired(t->cache);
    return r == 0 ? tier_get(tier, sha256, ret_fd, err) : r;
}

static int tier_check(struct blob_tier *tier, const char *sha256,
                      uint64_t pace, struct error *err)
{
    struct blob_name name;
    uint64_t size;
    int r = blob_name_parse(sha256, &name, err);

    return r < 0 ? r : download(s3_of(tier), &name, -1, pace, &size, err);
}

static int tier_file(struct blob_tier *tier, const char *sha256,
                     struct stat *ret)
{
    struct s3_tier *t = s3_of(tier);
    struct blob_name name;
    struct error unsaid;

    if (blob_name_parse(sha256, &name, &unsaid) < 0)
        return 1;
    if (blob_cache_stat(t->cache, &name, ret) == 0)
        return 0;
    return atomic_load(&t->moved) ? 1
                                  : t->local->ops->file(t->local, sha256, ret);
}

static int tier_stat(struct blob_tier *tier, const char *sha256,
                     struct stat *ret, struct error *err)
{
    struct s3_tier *t = s3_of(tier);
    struct s3_object object;
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err), worst = 1;

    if (r < 0)
        return r;
    if (tier_file(tier, sha256, ret) == 0)
        return 0;
    for (size_t i = 0; i < t->count; i++) {
        r = s3_head(t->buckets[i].s3, name.path, &object, err);
        if (r == 0) {
            *ret = (struct stat){.st_size = (off_t)object.size};
            ret->st_mtim.tv_sec = object.modified_ms / 1000;
            return 0;
        }
        if (r < 0)
            worst = r;
    }
    return worst;
}

/* The cached file belongs to the tenant that mounted or stored it first. One
 * that was fetched belongs to none yet. */
static bool tier_owned(struct blob_tier *tier, const char *sha256,
                       const char *owner)
{
    struct s3_tier *t = s3_of(tier);
    int fd cleanup(fd_close) = -1;
    struct stat before, after;
    struct blob_name name;
    struct error unsaid;

    if (blob_name_parse(sha256, &name, &unsaid) < 0 ||
        tier_get(tier, sha256, &fd, &unsaid) != 0 || fstat(fd, &before) < 0)
        return false;
    if (blob_tenant_copy_claim(fd, owner) && fstat(fd, &after) == 0)
        blob_verified_cache_update(t->b, &name, &before, &after);
    return blob_cache_stat(t->cache, &name, &after) == 0 &&
           after.st_ino == before.st_ino && blob_tenant_copy_marked(fd, owner);
}

static int tier_link(struct blob_tier *tier, const char *sha256, int dir,
                     const char *name)
{
    struct s3_tier *t = s3_of(tier);
    struct blob_name blob;
    struct error unsaid;

    if (blob_name_parse(sha256, &blob, &unsaid) < 0)
        return -EINVAL;
    return blob_cache_link(t->cache, &blob, dir, name);
}

/* ---- remove, list ------------------------------------------------------- */

static int tier_remove(struct blob_tier *tier, const char *sha256,
                       struct error *err)
{
    struct s3_tier *t = s3_of(tier);
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    for (size_t i = 0; i < t->count && r == 0; i++)
        r = s3_delete(t->buckets[i].s3, name.path, err);
    if (r == 0 && !atomic_load(&t->moved))
        r = MIN(t->local->ops->remove(t->local, sha256, err), 0);
    if (r == 0)
        blob_cache_drop(t->cache, &name);
    return r;
}

struct listing {
    struct blob_info *items; /* owned */
    size_t count, room;
    unsigned first_byte;
    int64_t ahead_ms;
};

static void listing_done(struct listing *l)
{
    free(l->items);
}

static int list_add(void *ctx, const struct blob_info *info)
{
    struct listing *l = ctx;

    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 256;
        l->items = xrealloc(l->items, l->room * sizeof(*l->items));
    }
    l->items[l->count++] = *info;
    return 0;
}

/* What is named otherwise is not ours. */
static bool is_blob_key(const char *key)
{
    struct blob_name name;
    struct error unsaid;

    return strlen(key) == BLOB_PATH - 1 &&
           blob_name_parse(key + 3, &name, &unsaid) == 0 &&
           strcmp(name.path, key) == 0;
}

static int list_object(void *ctx, const char *key,
                       const struct s3_object *object)
{
    struct listing *l = ctx;
    struct blob_info info = {.size = object->size,
                             .stored_at_ms =
                                 object->modified_ms - l->ahead_ms};

    if (!is_blob_key(key))
        return 0;
    memcpy(info.sha256, key + 3, BLOB_NAME);
    return list_add(l, &info);
}

/* By name; of one in several buckets, the latest first. */
static int by_name(const void *a, const void *b)
{
    const struct blob_info *x = a, *y = b;
    int order = strcmp(x->sha256, y->sha256);

    return order ? order
                 : (x->stored_at_ms < y->stored_at_ms) -
                       (x->stored_at_ms > y->stored_at_ms);
}

static int tier_list(struct blob_tier *tier, unsigned first_byte,
                     blob_iterate_fn fn, void *ctx, struct error *err)
{
    struct s3_tier *t = s3_of(tier);
    struct listing l cleanup(listing_done) = {.first_byte = first_byte};
    char prefix[4];
    int r = 0;

    (void)snprintf(prefix, sizeof(prefix), "%02x/", first_byte & 0xff);
    for (size_t i = 0; i < t->count && r == 0; i++) {
        l.ahead_ms = s3_clock_ahead_ms(t->buckets[i].s3);
        r = s3_list(t->buckets[i].s3, prefix, list_object, &l, err);
    }
    if (r == 0 && !atomic_load(&t->moved))
        r = t->local->ops->list(t->local, first_byte, list_add, &l, err);
    if (r < 0)
        return r;
    if (l.count)
        qsort(l.items, l.count, sizeof(*l.items), by_name);
    for (size_t i = 0; i < l.count && r == 0; i++)
        if (i == 0 || strcmp(l.items[i].sha256, l.items[i - 1].sha256) != 0)
            r = fn(ctx, &l.items[i]);
    return r;
}

struct passing {
    blob_iterate_fn fn;
    void *ctx;
    int64_t ahead_ms;
};

static int pass_object(void *ctx, const char *key,
                       const struct s3_object *object)
{
    struct passing *p = ctx;
    struct blob_info info = {.size = object->size,
                             .stored_at_ms =
                                 object->modified_ms - p->ahead_ms};

    if (!is_blob_key(key))
        return 0;
    memcpy(info.sha256, key + 3, BLOB_NAME);
    return p->fn(p->ctx, &info);
}

/* One bucket is passed on as it is listed; several must be merged. */
static int tier_list_all(struct blob_tier *tier, blob_iterate_fn fn, void *ctx,
                         struct error *err)
{
    struct s3_tier *t = s3_of(tier);
    struct passing p = {.fn = fn, .ctx = ctx};
    int r = 0;

    if (t->count == 1 && atomic_load(&t->moved)) {
        p.ahead_ms = s3_clock_ahead_ms(t->buckets[0].s3);
        return s3_list(t->buckets[0].s3, "", pass_object, &p, err);
    }
    for (unsigned i = 0; i < BLOB_FOLDERS && r == 0; i++)
        r = tier_list(tier, i, fn, ctx, err);
    return r;
}

/* ---- state -------------------------------------------------------------- */

static int tier_ready(struct blob_tier *tier, struct error *err)
{
    struct s3_tier *t = s3_of(tier);

    for (size_t i = 0; i < t->count; i++) {
        if (s3_is_down(t->buckets[i].s3, err))
            return -(int)err->code;
        struct mutex *held cleanup(mutex_release) = mutex_hold(&t->lock);
        if (t->buckets[i].why.code) {
            *err = t->buckets[i].why;
            return -(int)err->code;
        }
    }
    return 0;
}

static void tier_stats(struct blob_tier *tier, struct blob_remote_stats *ret)
{
    struct s3_tier *t = s3_of(tier);

    blob_cache_stats(t->cache, ret);
    ret->not_uploaded = atomic_load(&t->waiting);
    for (size_t i = 0; i < t->count; i++) {
        struct s3_counts c;

        s3_counts(t->buckets[i].s3, &c);
        ret->requests += c.requests;
        ret->retries += c.retries;
        ret->failures += c.failures;
        ret->throttled += c.throttled;
        ret->sent += c.sent;
        ret->received += c.received;
    }
}

/* ---- the thread --------------------------------------------------------- */

struct moving {
    struct s3_tier *t;
    struct error *err;
    bool damaged; /* one stays where it is */
};

/* A damaged file must not get the blob's name in the bucket. */
static bool is_intact(int fd, const char *sha256)
{
    char found[BLOB_NAME];
    struct error unsaid;
    uint64_t size;

    return blob_hash_fd(fd, UINT64_MAX, found, &size, &unsaid) == 0 &&
           strcmp(found, sha256) == 0;
}

/* Uploads a blob of the local disk and moves it to the cache. */
static int move_blob(void *ctx, const struct blob_info *info)
{
    struct moving *m = ctx;
    struct s3_tier *t = m->t;
    int fd cleanup(fd_close) = -1;
    char owner[BLOB_OWNER] = "";
    struct blob_name name;
    int r = blob_name_parse(info->sha256, &name, m->err);

    if (r == 0)
        r = t->local->ops->get(t->local, info->sha256, &fd, m->err);
    if (r != 0) /* removed meanwhile, or unreadable: scrub reports it */
        return r < 0 && r != -ERR_CORRUPT ? r : 0;
    if (!is_intact(fd, info->sha256)) {
        log_event(LOG_ERROR, "blob_not_uploaded", "sha256", info->sha256,
                  "why", "its bytes are damaged", NULL);
        m->damaged = true;
        return 0;
    }
    blob_tenant_copy_owner(fd, owner);
    blob_pin_add(t->b, name.hash); /* the collector waits for it */
    r = s3_put_file(bucket_of(t, owner)->s3, name.path, fd, info->size,
                    name.hash, m->err);
    if (r == 0)
        (void)blob_cache_adopt(t->cache, &name, t->b->dir, info->size);
    blob_pin_remove(t->b, name.hash);
    if (r == 0)
        atomic_fetch_sub(&t->waiting, 1);
    if (atomic_load(&t->worker.stopping))
        return 1;
    return r;
}

static int count_blob(void *ctx, const struct blob_info *info)
{
    (void)info;
    ++*(uint64_t *)ctx;
    return 0;
}

static void move_local(struct s3_tier *t)
{
    struct error err = {0};
    struct moving m = {.t = t, .err = &err};
    uint64_t count = 0;
    int r = 0;

    for (unsigned i = 0; i < BLOB_FOLDERS && r == 0; i++)
        r = t->local->ops->list(t->local, i, count_blob, &count, &err);
    atomic_store(&t->waiting, count);
    for (unsigned i = 0; i < BLOB_FOLDERS && r == 0 && count > 0; i++)
        r = t->local->ops->list(t->local, i, move_blob, &m, &err);
    if (r < 0)
        log_event(LOG_WARN, "blob_upload_postponed", "error", err.message,
                  NULL);
    if (r == 0 && !m.damaged)
        atomic_store(&t->moved, true);
    if (r == 0 && count)
        log_event(LOG_INFO, "blob_upload_done", NULL);
}

static void probe_buckets(struct s3_tier *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct bucket *b = &t->buckets[i];
        struct error err = {0};
        struct s3_object object;
        bool usable;

        mutex_lock(&t->lock);
        usable = b->usable;
        mutex_unlock(&t->lock);
        if (usable) { /* while it is down, finds out that it is back */
            if (s3_is_down(b->s3, NULL))
                (void)s3_head(b->s3, ".probe/none", &object, &err);
            continue;
        }
        usable = s3_probe(b->s3, &err) == 0;
        if (!usable)
            log_event(LOG_ERROR, "object_store_unusable", "bucket",
                      s3_name(b->s3), "error", err.message, NULL);
        struct mutex *held cleanup(mutex_release) = mutex_hold(&t->lock);
        b->usable = usable;
        b->why = err;
        if (usable)
            b->why.code = ERR_NONE;
    }
}

static void abort_stale(struct s3_tier *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct error err;
        unsigned count = 0;
        char text[16];

        if (s3_abort_stale(t->buckets[i].s3, STALE_MS, &count, &err) < 0 ||
            !count)
            continue; /* tomorrow is early enough */
        (void)snprintf(text, sizeof(text), "%u", count);
        log_event(LOG_INFO, "object_uploads_aborted", "bucket",
                  s3_name(t->buckets[i].s3), "count", text, NULL);
    }
}

static void blob_s3_main(void *arg)
{
    struct s3_tier *t = arg;
    uint64_t probe_ms = 0, survey_ms = 0, stale_ms = 0, move_ms = 0;

    do {
        uint64_t now_ms = clock_mono_ms();
        struct error unsaid;

        if (tier_ready(&t->tier, &unsaid) < 0 || now_ms >= probe_ms) {
            probe_buckets(t);
            probe_ms = now_ms + PROBE_MS;
        }
        if (tier_ready(&t->tier, &unsaid) == 0) {
            if (!atomic_load(&t->moved) && now_ms >= move_ms) {
                move_local(t);
                move_ms = now_ms + MOVE_MS; /* of what failed or is damaged */
            }
            if (now_ms >= stale_ms) {
                abort_stale(t);
                stale_ms = now_ms + STALE_MS;
            }
        }
        if (now_ms >= survey_ms) {
            blob_cache_survey(t->cache);
            survey_ms = now_ms + SURVEY_MS;
        }
        blob_cache_evict(t->cache, 0);
    } while (worker_wait(&t->worker, TICK_MS));
}

/* ---- open and close ----------------------------------------------------- */

static void tier_close(struct blob_tier *tier)
{
    struct s3_tier *t = s3_of(tier);

    for (size_t i = 0; i < t->count; i++)
        if (t->buckets[i].s3)
            s3_stop(t->buckets[i].s3);
    worker_stop(&t->worker);
    worker_done(&t->worker);
    for (size_t i = 0; i < t->count; i++) {
        s3_close(t->buckets[i].s3);
        free(t->buckets[i].owners);
    }
    blob_cache_close(t->cache);
    if (t->local)
        t->local->ops->close(t->local);
    cond_done(&t->fetched);
    mutex_done(&t->lock);
    free(t->buckets);
    free(t);
}

static const struct blob_tier_ops s3_ops = {
    .name = "S3",
    .behind_log = false,
    .put = tier_put,
    .sync = tier_sync,
    .get = tier_get,
    .refetch = tier_refetch,
    .check = tier_check,
    .file = tier_file,
    .stat = tier_stat,
    .remove = tier_remove,
    .list = tier_list,
    .list_all = tier_list_all,
    .close = tier_close,
    .owned = tier_owned,
    .link = tier_link,
    .ready = tier_ready,
    .stats = tier_stats,
};

int blob_tier_s3_open(struct blobs *b, const struct blobs_s3 *settings,
                      struct blob_tier **ret, struct error *err)
{
    struct s3_tier *t = xcalloc(1, sizeof(*t));
    int r;

    t->tier.ops = &s3_ops;
    t->b = b;
    t->count = settings->count;
    t->buckets = xcalloc(t->count, sizeof(*t->buckets));
    mutex_init(&t->lock);
    cond_init(&t->fetched);
    worker_init(&t->worker);
    for (size_t i = 0; i < t->count; i++) {
        const struct blobs_bucket *from = &settings->buckets[i];

        t->buckets[i].s3 = from->s3;
        t->buckets[i].why.code = ERR_NONE;
        t->buckets[i].owner_count = from->tenant_count;
        t->buckets[i].owners =
            xcalloc(from->tenant_count + 1, sizeof(*t->buckets[i].owners));
        for (size_t k = 0; k < from->tenant_count; k++)
            blob_owner(from->tenants[k], t->buckets[i].owners[k]);
    }
    *ret = &t->tier;
    r = blob_tier_local_open(b, &t->local, err);
    if (r == 0)
        r = blob_cache_open(b, settings->cache_bytes, &t->cache, err);
    if (r == 0)
        r = worker_start(&t->worker, "blob-s3", blob_s3_main, t, err);
    return r;
}
