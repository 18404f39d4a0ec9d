/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pending blobs: durable in the small-blob log and not files yet. This file
 * keeps their table and publishes them. Runs in the daemon: on the publisher
 * thread, on a thread that needs the file now, and on a writer's thread when
 * the log is full. Nothing is synced here; see blob_log_settle.
 *
 * A blob that is being published is marked busy, which keeps its bytes in the
 * log. If publishing fails the blob stays pending and readable, and is tried
 * again later.
 *
 * The publisher thread runs from blobs_open to blobs_close. It yields to
 * writers: it starts when few blobs were written for a moment, or when a half
 * of the log is full, and pauses when writers come back. After it has
 * published a full half it also syncs the tier, so that the writer that
 * switches halves need not wait for that.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"
#include "fair/fair.h"

/* ---- the table ---------------------------------------------------------- */

static struct blob_pending **bucket_of(struct blobs *b,
                                       const unsigned char *hash)
{
    return &b->log.buckets[((unsigned)hash[0] << 8 | hash[1]) % BLOB_PENDING];
}

/* The next of those with this hash, from *at on; or NULL. */
static struct blob_pending *same_hash(struct blob_pending *at,
                                      const unsigned char *hash)
{
    while (at && memcmp(at->hash, hash, HASH_SIZE) != 0)
        at = at->next;
    return at;
}

static void pending_queue(struct blob_log *log, struct blob_pending *p)
{
    p->seq = ++log->seq;
    p->later = NULL;
    p->later_link = log->last[p->half];
    *p->later_link = p;
    log->last[p->half] = &p->later;
}

static void pending_unqueue(struct blob_log *log, struct blob_pending *p)
{
    *p->later_link = p->later;
    if (p->later)
        p->later->later_link = p->later_link;
    else
        log->last[p->half] = p->later_link;
}

void blob_pending_add(struct blobs *b, struct blob_pending *p)
{
    struct blob_pending **bucket = bucket_of(b, p->hash), *other = *bucket;

    /* Once is enough: either record stands for the same file. */
    for (; (other = same_hash(other, p->hash)); other = other->next)
        if (strcmp(other->owner, p->owner) == 0) {
            free(p);
            return;
        }
    p->next = *bucket;
    *bucket = p;
    pending_queue(&b->log, p);
    if (b->log.unpublished[0] + b->log.unpublished[1] == 0)
        cond_signal(&b->log.work);
    b->log.unpublished[p->half]++;
}

/* It is in its place, or is to be none. */
static void pending_forget(struct blobs *b, struct blob_pending *p)
{
    struct blob_pending **at = bucket_of(b, p->hash);

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    pending_unqueue(&b->log, p);
    b->log.unpublished[p->half]--;
    free(p);
}

void blob_pending_free(struct blobs *b)
{
    for (unsigned i = 0; i < 2; i++)
        while (b->log.first[i])
            pending_forget(b, b->log.first[i]);
}

/* ---- one ---------------------------------------------------------------- */

/* Its bytes as the log has them. 1: they are not those it is named for. */
static int read_logged(struct blobs *b, const struct blob_pending *p,
                       char *ret)
{
    unsigned char hash[HASH_SIZE];
    size_t done = 0;

    while (done < p->len) {
        ssize_t n = pread(b->log.fd[p->half], ret + done, p->len - done,
                          (off_t)(p->at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    hash_sha256(ret, p->len, hash);
    return hash_equal(hash, p->hash, sizeof(hash)) ? 0 : 1;
}

static int write_temp(struct blobs *b, const struct blob_pending *p,
                      const char *bytes, const char *temp)
{
    int fd cleanup(fd_close) =
        openat(b->tmp, temp,
               O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : blob_log_put(fd, bytes, p->len, 0);

    if (r == 0 && fchmod(fd, 0644) < 0)
        r = -errno;
    if (r == 0)
        blob_tenant_copy_mark(fd, p->owner);
    return r;
}

/* A second writer of the same bytes has the same done for it (I8). */
static int make_file(struct blobs *b, const struct blob_pending *p,
                     const struct blob_name *name, const char *bytes,
                     struct error *err)
{
    char temp[BLOB_TEMP];
    struct blob_tier_file file = {.sha256 = blob_name_hex(name),
                                  .owner = p->owner,
                                  .dir = b->tmp,
                                  .name = temp,
                                  .fd = -1,
                                  .size = p->len};
    int r;

    blob_name_temp(temp);
    r = write_temp(b, p, bytes, temp);
    if (r < 0)
        r = blob_fault(-r, "store an object", err);
    else
        r = blob_stored_put(b, &file, 1, false, err);
    if (r < 0 && !file.stored)
        (void)unlinkat(b->tmp, temp, 0); /* else the next start does */
    return r;
}

static int publish_pending(struct blobs *b, const struct blob_pending *p,
                           struct error *err)
{
    char *bytes cleanup(mem_free) = xmalloc(p->len + 1);
    struct blob_look look = {0};
    struct blob_name name;
    int r;

    blob_name_of(p->hash, &name);
    if (p->replayed) {
        r = blob_read_look(b, &name, &look, NULL, err);
        if (r < 0 || look.state == BLOB_GOOD)
            return r;
    }
    r = read_logged(b, p, bytes);
    if (r < 0)
        return blob_fault(-r, "read the log of small objects", err);
    if (r == 0)
        return make_file(b, p, &name, bytes, err);
    /* Bit rot: the bytes are lost, and reading the blob fails. */
    log_event(LOG_ERROR, "blob_log_damaged", "sha256", blob_name_hex(&name),
              NULL);
    return 0;
}

/* Releases the lock meanwhile. */
static int publish_unlocked(struct blobs *b, struct blob_pending *p,
                            struct error *err)
{
    int r;

    mutex_assert_held(&b->log.lock);
    p->busy = true;
    mutex_unlock(&b->log.lock);
    r = publish_pending(b, p, err);
    mutex_lock(&b->log.lock);
    p->busy = false;
    if (r == 0) {
        pending_forget(b, p);
    } else { /* behind all others */
        pending_unqueue(&b->log, p);
        pending_queue(&b->log, p);
    }
    cond_broadcast(&b->log.changed);
    return r;
}

/* ---- many --------------------------------------------------------------- */

/* The oldest one that is not busy; *ret_busy: there is one that is. */
static struct blob_pending *oldest_idle(struct blob_log *log, unsigned half,
                                        uint64_t seq, bool *ret_busy)
{
    struct blob_pending *p = log->first[half];

    for (; p && p->seq <= seq; p = p->later) {
        if (!p->busy)
            return p;
        *ret_busy = true;
    }
    return NULL;
}

int blob_pending_some(struct blobs *b, int half, uint64_t seq, unsigned most,
                      struct error *err)
{
    struct blob_log *log = &b->log;
    int result = 0;

    mutex_assert_held(&log->lock);
    for (unsigned done = 0; done < most;) {
        unsigned begin = half < 0 ? 1 - log->half : (unsigned)half;
        bool busy = false;
        struct blob_pending *p = oldest_idle(log, begin, seq, &busy);
        struct error why;

        if (!p && half < 0)
            p = oldest_idle(log, log->half, seq, &busy);
        if (!p && !busy)
            return result < 0 ? result : 1;
        if (!p) {
            cond_wait(&log->changed, &log->lock);
            continue;
        }
        done++;
        if (publish_unlocked(b, p, &why) < 0) {
            *err = why;
            result = -(int)why.code;
        }
    }
    return result;
}

int blob_pending_all(struct blobs *b, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->log.lock);
    int r = blob_pending_some(b, -1, b->log.seq, UINT32_MAX, err);

    return MIN(r, 0);
}

/* ---- by name ------------------------------------------------------------ */

/* Waits until no blob with this hash is busy; one of them, or NULL. */
static struct blob_pending *find_idle(struct blobs *b,
                                      const unsigned char *hash)
{
    mutex_assert_held(&b->log.lock);
    for (;;) {
        struct blob_pending *p = same_hash(*bucket_of(b, hash), hash), *any;

        for (any = p; p; p = same_hash(p->next, hash))
            if (p->busy)
                break;
        if (!p)
            return any;
        cond_wait(&b->log.changed, &b->log.lock);
    }
}

int blob_pending_publish(struct blobs *b, const struct blob_name *name,
                         struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->log.lock);
    struct blob_pending *p;
    int r = 1;

    while (r >= 0 && (p = find_idle(b, name->hash)))
        r = publish_unlocked(b, p, err);
    return r;
}

int blob_pending_read(struct blobs *b, const struct blob_name *name,
                      char **ret_bytes, size_t *ret_len, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->log.lock);
    struct blob_pending *p = same_hash(*bucket_of(b, name->hash), name->hash);
    char *bytes cleanup(mem_free) = NULL;
    int r;

    if (!p)
        return 1;
    /* Under the lock, so that the half is not reused: at most 16 KiB, which
     * are in memory unless that is short. */
    bytes = xmalloc(p->len + 1);
    r = read_logged(b, p, bytes);
    if (r < 0)
        return blob_fault(-r, "read the log of small objects", err);
    if (r > 0)
        return blob_read_corrupt(name, BLOB_BAD, err);
    *ret_len = p->len;
    *ret_bytes = take_ptr(bytes);
    return 0;
}

void blob_pending_drop(struct blobs *b, const struct blob_name *name)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->log.lock);
    struct blob_pending *p;

    while ((p = find_idle(b, name->hash)))
        pending_forget(b, p);
    cond_broadcast(&b->log.changed);
}

static bool has_file(struct blobs *b, const struct blob_pending *p)
{
    struct blob_name name;

    blob_name_of(p->hash, &name);
    return blob_stored_has(b, &name, -1);
}

void blob_pending_count(struct blobs *b, int64_t *count, int64_t *bytes)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->log.lock);

    for (size_t i = 0; i < ARRAY_SIZE(b->log.buckets); i++)
        for (struct blob_pending *p = b->log.buckets[i]; p; p = p->next) {
            /* Of one hash, for several owners, the last one counts. */
            if (same_hash(p->next, p->hash) || has_file(b, p))
                continue;
            ++*count;
            *bytes += p->len;
        }
}

/* ---- the publisher thread --------------------------------------------------
 */

#define QUIET_MS 250u
#define FEW 16u /* writes within that time that are no burst */
#define STEP 8u /* put in place before it looks up */
#define RETRY_MS 1000u

/* Sleeps for that long, or until the publisher is to stop. */
static void publisher_rest(struct blob_log *log, unsigned ms)
{
    uint64_t until_ms = clock_mono_ms() + ms;

    mutex_assert_held(&log->lock);
    while (!log->stop && cond_wait_until(&log->work, &log->lock, until_ms))
        continue;
}

/* True when little was written meanwhile, or a half waits to be emptied. */
static bool publisher_due(struct blob_log *log)
{
    uint64_t before = log->seq;

    publisher_rest(log, log->quiet_ms);
    return log->seq - before <= FEW || log->unpublished[1 - log->half] > 0;
}

/* All that pends now, unless many more come while no half is full. */
static int publish_some(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    uint64_t seq = log->seq;
    int r = 0;

    while (r == 0 && !log->stop) {
        unsigned full = 1 - log->half;

        if (!log->unpublished[full] && log->seq - seq > FEW)
            return 0;
        r = blob_pending_some(b, -1, seq, STEP, err);
        if (r >= 0 && !log->unpublished[full] && !log->settled[full] &&
            !log->leading)
            r = MIN(blob_log_settle(b, err), r);
    }
    return MIN(r, 0);
}

static void blob_publisher_main(void *arg)
{
    struct blobs *b = arg;
    struct blob_log *log = &b->log;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&log->lock);
    bool failed = false;

    fair_priority_lower();
    while (!log->stop) {
        struct error err;
        int r = 0;

        if (log->unpublished[0] + log->unpublished[1] == 0) {
            cond_wait(&log->work, &log->lock);
            continue;
        }
        if (publisher_due(log) && !log->stop)
            r = publish_some(b, &err);
        if (r < 0 && !failed) /* once; it is tried again */
            log_event(LOG_ERROR, "blob_publish_failed", "error", err.message,
                      NULL);
        failed = r < 0;
        if (failed)
            publisher_rest(log, RETRY_MS);
    }
}

int blob_publisher_start(struct blobs *b, struct error *err)
{
    b->log.quiet_ms = QUIET_MS;
    return thread_start(&b->log.publisher, "blob-publisher",
                        blob_publisher_main, b, err);
}

void blob_publisher_stop(struct blobs *b)
{
    mutex_lock(&b->log.lock);
    b->log.stop = true;
    cond_broadcast(&b->log.work);
    mutex_unlock(&b->log.lock);
    thread_join(&b->log.publisher);
}
