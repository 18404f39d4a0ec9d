/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small blobs at the cost of one shared sync. To make a file, to sync it, its
 * name and its folder takes far longer than to write a thousand bytes. So the
 * bytes go to the end of a log, which those who write at the same time sync
 * once for all, and that is all that a writer waits for: what is durable is
 * the log (D1). From then on the blob is pending: it can be read (read.c), and
 * is put in its place later (publisher.c), like pages of a database by a
 * checkpoint. Runs in the daemon, on the threads that write.
 *
 *   DIR/blobs/log.0, log.1    two halves of fixed size, filled in turn
 *
 * Whoever keeps the same records elsewhere on disk (blobs_write) need not wait
 * for the log: it is synced for many of those at once, and when a half is
 * full.
 *
 * Before a half is used again everything its records stand for is in its
 * place, and the file system synced. When placing cannot keep up, or fails,
 * writers wait for it, or are told. A start after a crash finds pending what
 * the log has. Removing blobs scrubs the log afterwards (log_scrub.c):
 * gone bytes are gone from it as well, and do not come back.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    /* What came to the half that is being filled is none of its business. */
    bool all = log->unpublished[other] == 0;
    uint64_t turn = log->turn;
    int r;

    mutex_assert_held(&log->lock);
    mutex_unlock(&log->lock);
    r = blob_fault_refuse(b, err);
    if (r == 0 && syncfs(b->dir) < 0)
        r = blob_fault_final(b, errno, err);
    mutex_lock(&log->lock);
    if (r == 0 && all && log->turn == turn)
        log->settled[other] = true;
    return r;
}

/* What was written into this half without waiting is on disk afterwards. The
 * lock is held, and let go meanwhile; `leading` is ours. */
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

/* One of those who wait writes for all; true once ours is out or lost. */
static bool lead_or_wait(struct blobs *b, struct blob_log_group *mine,
                         struct buf *ret_unsynced)
{
    struct blob_log *log = &b->log;
    /* Nobody else waits for this one. */
    bool unsynced = ret_unsynced && mine->refs == 1 &&
                    log->pending.len <= BLOBS_WRITE_MOST;

    if (mine->done)
        return true;
    if (log->leading) {
        cond_wait(&log->changed, &log->lock);
        return mine->done;
    }
    log->leading = true;
    log->group = NULL; /* who comes now belongs to the next */
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

/* Whose it was is not known here, so nobody is told that all is well. */
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
    (void)blobs_sync(b, &err); /* nobody refers to what is left */
    if (b->log.open && !atomic_load(&b->failed)) {
        if (blob_pending_all(b, &err) < 0)
            log_event(LOG_ERROR, "blob_publish_failed", "error", err.message,
                      NULL); /* the next start tries again */
        else if (syncfs(b->dir) == 0)
            for (unsigned i = 0; i < 2; i++)
                /* If it stays, the next start looks at it in vain. */
                (void)blob_log_put(b->log.fd[i], (const char *)&nothing,
                                   sizeof(nothing), 0);
    }
    blob_pending_free(b);
    fd_close(&b->log.fd[0]);
    fd_close(&b->log.fd[1]);
    buf_done(&b->log.pending);
}
