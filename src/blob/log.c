/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small-blob log: small blobs at the cost of one shared sync. Making a
 * file and syncing it, its name and its folder takes far longer than writing a
 * thousand bytes. So the bytes are appended to a log, which concurrent writers
 * sync once for all of them; when the log is durable, so is the blob (D1).
 * From then on the blob is pending: it can be read (read.c), and is published
 * as a file later (publisher.c), like the pages of a database by a checkpoint.
 * Runs in the daemon, on the threads that write.
 *
 *   DIR/blobs/log.0, log.1    two halves of fixed size, filled in turn
 *
 * A caller that stores the same records elsewhere on disk (blobs_write) need
 * not wait for the log: it is synced for many of those at once, and when a
 * half is full.
 *
 * Before a half is used again, all blobs in it are published and the tier is
 * synced. When publishing cannot keep up, or fails, writers wait for it, or
 * fail. A start after a crash reads the log, and everything in it is pending
 * again, whether or not it was published; what a power cut kept from the log
 * is stored again from where its records were kept meanwhile (blobs_redo).
 *
 * Removing blobs scrubs the log afterwards: everything pending is published,
 * then both halves are overwritten with zeroes while writers wait. Removed
 * bytes are gone from the log as well, and do not come back.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"

_Static_assert(sizeof(struct blob_record) == 80, "no padding");

void blob_log_check(const struct blob_record *r,
                    unsigned char ret[BLOB_LOG_CHECK])
{
    unsigned char hash[HASH_SIZE];

    hash_sha256(r, offsetof(struct blob_record, check), hash);
    memcpy(ret, hash, BLOB_LOG_CHECK);
}

/* ---- writing ------------------------------------------------------------ */

int blob_log_put(int fd, const char *bytes, size_t len, off_t at)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, bytes, len, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        bytes += n;
        len -= (size_t)n;
        at += n;
    }
    return 0;
}

int blob_log_settle(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    unsigned other = 1 - log->half;
    /* Blobs added to the half that is being filled do not matter here. */
    bool all = log->unpublished[other] == 0;
    uint64_t turn = log->turn;
    int r;

    mutex_assert_held(&log->lock);
    mutex_unlock(&log->lock);
    r = b->tier->ops->sync(b->tier, err);
    mutex_lock(&log->lock);
    if (r == 0 && all && log->turn == turn)
        log->settled[other] = true;
    return r;
}

/* Syncs everything that was written into this half without waiting. The lock
 * is held, and released meanwhile; `leading` is ours. */
static int sync_half(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    int fd = log->fd[log->half];
    int r;

    if (!log->unsynced)
        return 0;
    mutex_unlock(&log->lock);
    r = blob_fault_refuse(b, err);
    if (r == 0 && fdatasync(fd) < 0)
        r = blob_fault_final(b, errno, err);
    mutex_lock(&log->lock);
    if (r == 0)
        log->unsynced = false;
    return r;
}

/* Goes on in the other half, once nothing needs its records any more. If the
 * publisher is behind, the writer helps; the others wait meanwhile. */
static int turn_over(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    unsigned other = 1 - log->half;
    int r = sync_half(b, err);

    if (r == 0)
        r = blob_pending_some(b, (int)other, log->seq, UINT32_MAX, err);
    if (r >= 0 && !log->settled[other])
        r = blob_log_settle(b, err);
    if (r < 0)
        return r;
    log->half = other;
    log->settled[other] = false;
    log->turn++;
    log->at = 0;
    return 0;
}

/* The records of a group are durable, from there on, or lost. */
static void hand_over(struct blobs *b, struct blob_log_group *g, uint32_t at,
                      bool durable)
{
    while (g->members) {
        struct blob_pending *p = g->members;

        g->members = p->next;
        p->half = b->log.half;
        p->at += at;
        if (durable) {
            blob_pending_add(b, p);
            continue;
        }
        if (p->soon)
            blob_pin_mark_lost(b, p->hash);
        free(p);
    }
}

/* Writes what all have added so far, and syncs it, unless it goes to
 * *ret_unsynced instead. The lock is held, and let go meanwhile; `leading` is
 * ours. */
static int write_out(struct blobs *b, struct blob_log_group *g,
                     struct buf *ret_unsynced, struct error *err)
{
    struct blob_log *log = &b->log;
    struct buf batch = log->pending;
    int fd = log->fd[log->half];
    off_t at = (off_t)log->at;
    int r;

    log->pending = (struct buf){0};
    log->at += batch.len;
    mutex_unlock(&log->lock);
    r = blob_log_put(fd, batch.data, batch.len, at);
    if (r < 0)
        r = blob_fault(-r, "store an object", err);
    else if (!ret_unsynced && fdatasync(fd) < 0)
        r = blob_fault_final(b, errno, err);
    if (ret_unsynced && r == 0)
        *ret_unsynced = batch;
    else
        buf_done(&batch);
    mutex_lock(&log->lock);
    if (r < 0) /* or the next start would not look behind it */
        log->at = (size_t)at;
    else
        log->unsynced = ret_unsynced != NULL;
    hand_over(b, g, (uint32_t)at, r == 0);
    return r;
}

static void add_record(struct blobs *b, struct blob_log_group *g,
                       const struct blob_name *name, const char *owner,
                       const void *bytes, size_t len, bool soon)
{
    struct blob_log *log = &b->log;
    struct blob_record r = {.magic = BLOB_LOG_MAGIC, .turn = log->turn};
    struct blob_pending *p = xcalloc(1, sizeof(*p));

    r.len = p->len = (uint32_t)len;
    (void)snprintf(r.owner, sizeof(r.owner), "%s", owner); /* fits */
    memcpy(p->owner, r.owner, sizeof(p->owner));
    memcpy(r.hash, name->hash, HASH_SIZE);
    memcpy(p->hash, name->hash, HASH_SIZE);
    blob_log_check(&r, r.check);
    p->at = (uint32_t)(log->pending.len + sizeof(r));
    p->soon = soon;
    p->next = g->members;
    g->members = p;
    buf_add(&log->pending, &r, sizeof(r));
    buf_add(&log->pending, bytes, len);
}

/* One of the waiting threads writes for all of them; true once our record is
 * written or lost. */
static bool lead_or_wait(struct blobs *b, struct blob_log_group *mine,
                         struct buf *ret_unsynced)
{
    struct blob_log *log = &b->log;
    /* No other thread waits for this group. */
    bool unsynced = ret_unsynced && mine->refs == 1 &&
                    log->pending.len <= BLOBS_WRITE_MOST;

    if (mine->done)
        return true;
    if (log->leading) {
        cond_wait(&log->changed, &log->lock);
        return mine->done;
    }
    log->leading = true;
    log->group = NULL; /* later records belong to the next group */
    mine->result =
        write_out(b, mine, unsynced ? ret_unsynced : NULL, &mine->err);
    mine->done = true;
    log->written++;
    log->leading = false;
    cond_broadcast(&log->changed);
    return true;
}

/* Waits until ours is out; a reference of ours to the group ends. */
static int see_out(struct blobs *b, struct blob_log_group *mine,
                   struct buf *ret_unsynced, struct error *err)
{
    int r;

    while (!lead_or_wait(b, mine, ret_unsynced))
        continue;
    r = mine->result;
    if (r < 0)
        *err = mine->err;
    if (--mine->refs == 0)
        free(mine);
    return r;
}

int blob_log_drain(struct blobs *b, struct buf *ret_unsynced,
                   struct error *err)
{
    struct blob_log *log = &b->log;
    uint64_t written = log->written;

    if (log->group) {
        log->group->refs++;
        return see_out(b, log->group, ret_unsynced, err);
    }
    while (log->leading && log->written == written)
        cond_wait(&log->changed, &log->lock);
    return 0;
}

/* Room in this half for one more, or the other one; never while someone is
 * writing this one out. */
static int make_room(struct blobs *b, size_t need, struct error *err)
{
    struct blob_log *log = &b->log;
    int r = 0;

    while (r == 0 && log->at + log->pending.len + need > BLOB_LOG_HALF) {
        struct error theirs;

        if (log->leading) {
            cond_wait(&log->changed, &log->lock);
            continue;
        }
        if (log->group) { /* goes out first; its members hear how it went */
            (void)blob_log_drain(b, NULL, &theirs);
            continue;
        }
        log->leading = true;
        r = turn_over(b, err);
        log->leading = false;
        cond_broadcast(&log->changed);
    }
    return r;
}

int blob_log_add(struct blobs *b, const struct blob_name *name,
                 const char *owner, const void *bytes, size_t len, bool soon,
                 struct error *err)
{
    struct blob_log *log = &b->log;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&log->lock);
    int r;

    while (log->scrubbing)
        cond_wait(&log->changed, &log->lock);
    r = blob_fault_refuse(b, err);
    if (r == 0)
        r = make_room(b, sizeof(struct blob_record) + len, err);
    if (r < 0)
        return r;
    if (!log->group)
        log->group = xcalloc(1, sizeof(*log->group));
    add_record(b, log->group, name, owner, bytes, len, soon);
    if (soon)
        return 0;
    log->group->refs++;
    return see_out(b, log->group, NULL, err);
}

/* Which caller lost its blob is not known here, so all callers fail. */
static int none_lost(struct blobs *b, struct error *err)
{
    if (!blob_pin_any_lost(b))
        return 0;
    return blob_fault_refuse(b, err) < 0
               ? -(int)err->code
               : error_set(err, ERR_INTERNAL, "cannot store an object");
}

int blobs_sync(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&log->lock);
    int r = blob_log_drain(b, NULL, err);

    if (r < 0)
        return r;
    while (log->leading)
        cond_wait(&log->changed, &log->lock);
    log->leading = true;
    r = sync_half(b, err);
    log->leading = false;
    cond_broadcast(&log->changed);
    return r < 0 ? r : none_lost(b, err);
}

int blobs_write(struct blobs *b, struct buf *ret, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->log.lock);
    int r;

    *ret = (struct buf){0};
    r = blob_log_drain(b, ret, err);
    if (r == 0)
        r = none_lost(b, err);
    if (r < 0)
        buf_done(ret);
    return r;
}

/* ---- begin and end ------------------------------------------------------ */

int blob_log_open(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    int r;

    for (unsigned i = 0; i < 2; i++)
        log->last[i] = &log->first[i];
    r = blob_replay(b, err);
    if (r == 0)
        r = blob_publisher_start(b, err);
    log->open = r == 0;
    return r;
}

/* After a clean end there is nothing to replay. */
void blob_log_close(struct blobs *b)
{
    static const struct blob_record nothing;
    struct error err;

    blob_publisher_stop(b);
    (void)blobs_sync(b, &err); /* no row references what is left */
    if (b->log.open && !atomic_load(&b->failed)) {
        if (blob_pending_all(b, &err) < 0)
            log_event(LOG_ERROR, "blob_publish_failed", "error", err.message,
                      NULL); /* the next start tries again */
        else if (b->tier->ops->sync(b->tier, &err) == 0)
            for (unsigned i = 0; i < 2; i++)
                /* If it stays, the next start replays it for nothing. */
                (void)blob_log_put(b->log.fd[i], (const char *)&nothing,
                                   sizeof(nothing), 0);
    }
    blob_pending_free(b);
    fd_close(&b->log.fd[0]);
    fd_close(&b->log.fd[1]);
    buf_done(&b->log.pending);
}

/* ---- replay at a start -----------------------------------------------------
 */

struct half {
    char *bytes; /* BLOB_LOG_HALF of it; owned */
    uint64_t turn;
    size_t end; /* of the records */
};

/* The record at *pos, or false where they end; *pos moves behind it. turn:
 * whose alone, or 0. */
static bool next_record(const char *bytes, size_t size, uint64_t turn,
                        size_t *pos, struct blob_record *ret)
{
    unsigned char check[BLOB_LOG_CHECK], hash[HASH_SIZE];

    if (*pos + sizeof(*ret) > size)
        return false;
    memcpy(ret, bytes + *pos, sizeof(*ret));
    blob_log_check(ret, check);
    if (ret->magic != BLOB_LOG_MAGIC ||
        memcmp(check, ret->check, sizeof(check)) != 0 ||
        ret->len > BLOB_LOG_MOST || ret->len > size - *pos - sizeof(*ret) ||
        (turn && ret->turn != turn))
        return false;
    hash_sha256(bytes + *pos + sizeof(*ret), ret->len, hash);
    if (memcmp(hash, ret->hash, HASH_SIZE) != 0)
        return false; /* half written: it was never acknowledged */
    *pos += sizeof(*ret) + ret->len;
    return true;
}

static void copy_owner(const struct blob_record *r, char ret[BLOB_OWNER])
{
    (void)snprintf(ret, BLOB_OWNER, "%.*s", BLOB_OWNER - 1, r->owner);
}

/* Adds how many of it were not in their places. */
static void replay_half(struct blobs *b, unsigned i, struct half *h,
                        uint64_t *missing)
{
    struct blob_record r;
    struct blob_pending *p;
    struct blob_name name;

    while (next_record(h->bytes, BLOB_LOG_HALF, h->turn, &h->end, &r)) {
        h->turn = r.turn;
        blob_name_of(r.hash, &name);
        *missing += !blob_stored_has(b, &name, r.len);
        p = xcalloc(1, sizeof(*p));
        p->half = i;
        p->len = r.len;
        p->at = (uint32_t)(h->end - r.len);
        p->replayed = true;
        memcpy(p->hash, r.hash, HASH_SIZE);
        copy_owner(&r, p->owner);
        blob_pending_add(b, p);
    }
    b->log.settled[i] = h->end == 0;
}

/* Reads a half, or makes it: full of zeroes, so that syncing what is written
 * into it later changes nothing but bytes. */
static int open_half(struct blobs *b, unsigned i, struct half *ret,
                     struct error *err)
{
    char name[] = {'l', 'o', 'g', '.', (char)('0' + i), '\0'};
    ssize_t n;

    b->log.fd[i] =
        openat(b->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (b->log.fd[i] < 0)
        return blob_fault(errno, "open the log of small objects", err);
    n = pread(b->log.fd[i], ret->bytes, BLOB_LOG_HALF, 0);
    if (n < 0)
        return blob_fault(errno, "read the log of small objects", err);
    if (n < (ssize_t)BLOB_LOG_HALF) {
        int rc = blob_log_put(b->log.fd[i], ret->bytes + n,
                              BLOB_LOG_HALF - (size_t)n, n);

        if (rc < 0)
            return blob_fault(-rc, "make the log of small objects", err);
        if (blob_fault_sync(b, b->log.fd[i], err) < 0)
            return -(int)err->code;
    }
    return 0;
}

/*
 * Goes on behind the newest record. The end may be known to the kernel only,
 * after a sync that failed, and nothing may be added behind such an end (D4):
 * so all of that half is written and synced once more.
 */
static int continue_half(struct blobs *b, unsigned newest,
                         const struct half *h, struct error *err)
{
    struct blob_log *log = &b->log;
    int r = 0;

    log->half = newest;
    log->at = h->end;
    /* Never that of an earlier life, of which something may be left. */
    log->turn = h->turn ? h->turn : (uint64_t)MAX(clock_real_ms(), (int64_t)1);
    if (h->end == 0)
        return 0;
    r = blob_log_put(log->fd[newest], h->bytes, h->end, 0);
    if (r < 0)
        return blob_fault(-r, "write the log of small objects", err);
    return blob_fault_sync(b, log->fd[newest], err);
}

static void halves_done(struct half (*halves)[2])
{
    free((*halves)[0].bytes);
    free((*halves)[1].bytes);
}

static void log_restored(uint64_t missing)
{
    char text[24];

    if (!missing)
        return;
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)missing);
    log_event(LOG_WARN, "blobs_restored_from_log", "count", text, NULL);
}

int blob_replay(struct blobs *b, struct error *err)
{
    struct half halves[2] cleanup(halves_done) = {{0}};
    uint64_t missing = 0;
    unsigned newest;
    int r = 0;

    for (unsigned i = 0; i < 2 && r == 0; i++) {
        halves[i].bytes = xcalloc(1, BLOB_LOG_HALF);
        r = open_half(b, i, &halves[i], err);
        if (r == 0)
            replay_half(b, i, &halves[i], &missing);
    }
    newest = halves[1].turn > halves[0].turn;
    if (r == 0)
        r = continue_half(b, newest, &halves[newest], err);
    if (r == 0)
        log_restored(missing);
    return r;
}

/* ---- what was kept elsewhere -------------------------------------------- */

static bool is_stored(struct blobs *b, const struct blob_name *name)
{
    char *bytes cleanup(mem_free) = NULL;
    struct blob_look look = {0};
    struct error unsaid;
    size_t len;

    return (blob_read_look(b, name, &look, NULL, &unsaid) == 0 &&
            look.state == BLOB_GOOD) ||
           blob_pending_read(b, name, &bytes, &len, &unsaid) == 0;
}

int blobs_redo(struct blobs *b, const void *bytes, size_t len,
               struct error *err)
{
    struct blob_record record;
    uint64_t missing = 0;
    size_t end = 0;
    int r = 0;

    while (r == 0 && next_record(bytes, len, 0, &end, &record)) {
        char owner[BLOB_OWNER];
        struct blob_name name;

        copy_owner(&record, owner);
        blob_name_of(record.hash, &name);
        if (is_stored(b, &name))
            continue;
        missing++;
        r = blob_log_add(b, &name, owner,
                         (const char *)bytes + end - record.len, record.len,
                         false, err);
    }
    if (r == 0 && end < len) /* a check of what refers to it finds which */
        log_event(LOG_ERROR, "blobs_redo_damaged", NULL);
    if (r == 0)
        log_restored(missing);
    return r;
}

/* ---- scrubbing -------------------------------------------------------------
 */

/* Writers wait meanwhile. */
static int zero_halves(struct blobs *b, struct error *err)
{
    static const char zeroes[65536];

    for (unsigned i = 0; i < 2; i++) {
        for (size_t at = 0; at < BLOB_LOG_HALF; at += sizeof(zeroes)) {
            int r =
                blob_log_put(b->log.fd[i], zeroes, sizeof(zeroes), (off_t)at);

            if (r < 0)
                return blob_fault(-r, "wipe the log of small objects", err);
        }
        if (fdatasync(b->log.fd[i]) < 0)
            return blob_fault_final(b, errno, err);
    }
    return 0;
}

/* Publishes and syncs everything first; writers wait meanwhile. */
static int publish_and_zero(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    int r = blob_pending_some(b, -1, log->seq, UINT32_MAX, err);

    if (r >= 0)
        r = blob_log_settle(b, err);
    if (r < 0)
        return r;
    log->unsynced = false;
    r = zero_halves(b, err);
    /* Also if half of it is left: of that nothing is needed, and a new turn
     * is not mistaken for it. */
    log->at = 0;
    log->turn++;
    log->settled[1 - log->half] = true;
    return r;
}

int blob_log_scrub(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&log->lock);
    int r;

    while (log->scrubbing)
        cond_wait(&log->changed, &log->lock);
    log->scrubbing = true; /* new writers wait; those under way finish */
    while (log->leading || log->group)
        (void)blob_log_drain(b, NULL, err); /* its members hear how it went */
    r = publish_and_zero(b, err);
    log->scrubbing = false;
    cond_broadcast(&log->changed);
    return r;
}
