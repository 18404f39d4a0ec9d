/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small blobs at the cost of one shared sync. To sync a file, its name and its
 * folder takes the file system two commits of its journal; a thousand bytes
 * are not worth that. So the bytes go to the end of a log first, which those
 * who write at the same time sync once for all; then the file is put in its
 * place without a sync. What is durable is the log (D1); the files follow when
 * the kernel writes them out. Runs in the daemon, on the threads that write.
 *
 *   DIR/blobs/log.0, log.1    two halves of fixed size, filled in turn
 *
 * Before a half is used again the file system is synced, so that everything
 * its records stand for is on disk as a file. A start after a crash puts what
 * is missing or damaged in its place again. Whoever removes blobs wipes the
 * log afterwards: gone bytes are gone from it as well, and do not come back.
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
#include "blob/blob_int.h"

#define HALF_BYTES (4u << 20)
#define MAGIC 0x31676f6c626f6c62ull /* "blobwlog1", as far as it fits */
#define CHECK_SIZE 8u

/* Before each record's bytes. Integers as this machine has them: a data
 * directory that crashed is started again where it was. */
struct record {
    uint64_t magic;
    uint64_t turn;                /* how often a half was begun: whose it is */
    uint32_t len;                 /* of the bytes that follow */
    char domain[BLOB_DOMAIN + 3]; /* padded */
    unsigned char hash[HASH_SIZE];
    unsigned char check[CHECK_SIZE]; /* of all above */
};

_Static_assert(sizeof(struct record) == 80, "no padding");

static void make_check(const struct record *r, unsigned char ret[CHECK_SIZE])
{
    unsigned char hash[HASH_SIZE];

    hash_sha256(r, offsetof(struct record, check), hash);
    memcpy(ret, hash, CHECK_SIZE);
}

/* ---- writing ------------------------------------------------------------ */

static int put(int fd, const char *bytes, size_t len, off_t at)
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

/* The log's lock is held; it is let go while the disk works. */
static int sync_everything(struct blobs *b, struct error *err)
{
    int r;

    (void)pthread_mutex_unlock(&b->log.lock);
    r = blob_fault_refuse(b, err);
    if (r == 0 && syncfs(b->dir) < 0)
        r = blob_fault_final(b, errno, err);
    (void)pthread_mutex_lock(&b->log.lock);
    return r;
}

/* Goes on in the other half, once nothing needs its records any more. */
static int turn_over(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    unsigned other = 1 - log->half;
    int r;

    while (log->unplaced[other])
        (void)pthread_cond_wait(&log->changed, &log->lock);
    r = sync_everything(b, err);
    if (r < 0)
        return r;
    log->half = other;
    log->turn++;
    log->at = 0;
    return 0;
}

/* Writes and syncs what all have added so far. The lock is held, and let go
 * meanwhile; `leading` is ours. */
static int write_out(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    struct buf batch = log->pending;
    int fd = log->fd[log->half];
    off_t at = (off_t)log->at;
    int r;

    log->pending = (struct buf){0};
    log->at += batch.len;
    (void)pthread_mutex_unlock(&log->lock);
    r = put(fd, batch.data, batch.len, at);
    if (r < 0)
        r = blob_fault(-r, "store an object", err);
    else if (fdatasync(fd) < 0)
        r = blob_fault_final(b, errno, err);
    buf_done(&batch);
    (void)pthread_mutex_lock(&log->lock);
    if (r < 0) /* or the next start would not look behind it */
        log->at = (size_t)at;
    return r;
}

static void add_record(struct blobs *b, const struct blob_name *name,
                       const char *domain, const void *bytes, size_t len)
{
    struct blob_log *log = &b->log;
    struct record r = {.magic = MAGIC, .turn = log->turn};

    r.len = (uint32_t)len;
    (void)snprintf(r.domain, sizeof(r.domain), "%s", domain); /* fits */
    memcpy(r.hash, name->hash, HASH_SIZE);
    make_check(&r, r.check);
    buf_add(&log->pending, &r, sizeof(r));
    buf_add(&log->pending, bytes, len);
}

/* One of those who wait writes for all; true once ours is out or lost. */
static bool lead_or_wait(struct blobs *b, struct blob_log_group *mine)
{
    struct blob_log *log = &b->log;

    if (mine->done)
        return true;
    if (log->leading) {
        (void)pthread_cond_wait(&log->changed, &log->lock);
        return mine->done;
    }
    log->leading = true;
    log->group = NULL; /* who comes now belongs to the next */
    mine->result = write_out(b, &mine->err);
    mine->done = true;
    log->leading = false;
    (void)pthread_cond_broadcast(&log->changed);
    return true;
}

/* Room in this half for one more, or the other one; never while someone is
 * writing this one out. */
static int make_room(struct blobs *b, size_t need, struct error *err)
{
    struct blob_log *log = &b->log;
    int r = 0;

    while (r == 0 && log->at + log->pending.len + need > HALF_BYTES) {
        if (log->leading || log->group) {
            /* The group that is gathering goes out first. */
            (void)pthread_cond_wait(&log->changed, &log->lock);
            continue;
        }
        log->leading = true;
        r = turn_over(b, err);
        log->leading = false;
        (void)pthread_cond_broadcast(&log->changed);
    }
    return r;
}

int blob_log_add(struct blobs *b, const struct blob_name *name,
                 const char *domain, const void *bytes, size_t len,
                 unsigned *ret_half, struct error *err)
{
    struct blob_log *log = &b->log;
    pthread_mutex_t *held cleanup(blob_unlock) = blob_lock(&log->lock);
    struct blob_log_group *mine;
    int r;

    while (log->wiping)
        (void)pthread_cond_wait(&log->changed, &log->lock);
    r = blob_fault_refuse(b, err);
    if (r == 0)
        r = make_room(b, sizeof(struct record) + len, err);
    if (r < 0)
        return r;
    if (!log->group)
        log->group = xcalloc(1, sizeof(*log->group));
    mine = log->group;
    mine->refs++;
    *ret_half = log->half;
    log->unplaced[log->half]++;
    add_record(b, name, domain, bytes, len);
    while (!lead_or_wait(b, mine))
        continue;
    r = mine->result;
    if (r < 0) {
        *err = mine->err;
        log->unplaced[*ret_half]--;
        (void)pthread_cond_broadcast(&log->changed);
    }
    if (--mine->refs == 0)
        free(mine);
    return r;
}

void blob_log_placed(struct blobs *b, unsigned half)
{
    pthread_mutex_t *held cleanup(blob_unlock) = blob_lock(&b->log.lock);

    if (--b->log.unplaced[half] == 0)
        (void)pthread_cond_broadcast(&b->log.changed);
}

/* ---- wiping ------------------------------------------------------------- */

/* Nobody writes meanwhile. The turn stays: nothing of it is left. */
static int wipe(struct blobs *b, struct error *err)
{
    static const char zeroes[65536];

    for (unsigned i = 0; i < 2; i++) {
        for (size_t at = 0; at < HALF_BYTES; at += sizeof(zeroes)) {
            int r = put(b->log.fd[i], zeroes, sizeof(zeroes), (off_t)at);

            if (r < 0)
                return blob_fault(-r, "wipe the log of small objects", err);
        }
        if (fdatasync(b->log.fd[i]) < 0)
            return blob_fault_final(b, errno, err);
    }
    return 0;
}

int blobs_forget(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    pthread_mutex_t *held cleanup(blob_unlock) = blob_lock(&log->lock);
    int r;

    while (log->wiping)
        (void)pthread_cond_wait(&log->changed, &log->lock);
    log->wiping = true; /* who comes now waits; who is in goes on */
    while (log->leading || log->group || log->unplaced[0] || log->unplaced[1])
        (void)pthread_cond_wait(&log->changed, &log->lock);
    r = sync_everything(b, err);
    if (r == 0)
        r = wipe(b, err);
    /* Half wiped, it still ends where it ended. */
    if (r == 0)
        log->at = 0;
    log->wiping = false;
    (void)pthread_cond_broadcast(&log->changed);
    return r;
}

/* ---- the next start ----------------------------------------------------- */

struct half {
    char *bytes; /* HALF_BYTES of it */
    uint64_t turn;
};

/* The record at *pos, or NULL where they end; *pos moves behind it. */
static const struct record *next_record(const struct half *h, size_t *pos,
                                        struct record *room,
                                        const char **ret_bytes)
{
    unsigned char check[CHECK_SIZE], hash[HASH_SIZE];

    if (*pos + sizeof(*room) > HALF_BYTES)
        return NULL;
    memcpy(room, h->bytes + *pos, sizeof(*room));
    make_check(room, check);
    if (room->magic != MAGIC || memcmp(check, room->check, CHECK_SIZE) != 0 ||
        room->len > BLOB_LOG_MOST ||
        room->len > HALF_BYTES - *pos - sizeof(*room) ||
        (h->turn && room->turn != h->turn))
        return NULL;
    *ret_bytes = h->bytes + *pos + sizeof(*room);
    hash_sha256(*ret_bytes, room->len, hash);
    if (memcmp(hash, room->hash, HASH_SIZE) != 0)
        return NULL; /* half written: nobody was told that it is there */
    *pos += sizeof(*room) + room->len;
    return room;
}

/* Puts it in its place, unless it is there and right. */
static int replay(struct blobs *b, const struct record *r, const char *bytes,
                  uint64_t *restored, struct error *err)
{
    struct blob_writer *w cleanup(blob_abort) = NULL;
    struct blob_look look = {0};
    struct blob_name name;
    char sha256[BLOB_NAME];
    int rc;

    blob_name_of(r->hash, &name);
    rc = blob_read_look(b, &name, &look, NULL, err);
    if (rc < 0 || look.state == BLOB_GOOD)
        return rc;
    rc = blob_begin(b, r->domain, &w, err);
    if (rc == 0)
        rc = blob_write(w, bytes, r->len, err);
    if (rc == 0)
        rc = blob_finish(&w, sha256, NULL, err);
    if (rc == 0)
        blob_release(b, sha256);
    *restored += rc == 0;
    return rc;
}

static int replay_half(struct blobs *b, const struct half *h,
                       uint64_t *restored, struct error *err)
{
    const struct record *r;
    struct record room;
    const char *bytes;
    size_t pos = 0;
    int rc = 0;

    while (rc == 0 && (r = next_record(h, &pos, &room, &bytes)))
        rc = replay(b, r, bytes, restored, err);
    return rc;
}

/* Reads a half, or makes it: full of zeroes, so that syncing what is written
 * into it later changes nothing but bytes. */
static int open_half(struct blobs *b, unsigned i, struct half *ret,
                     struct error *err)
{
    char name[] = {'l', 'o', 'g', '.', (char)('0' + i), '\0'};
    const struct record *r;
    struct record room;
    const char *bytes;
    size_t pos = 0;
    ssize_t n;

    b->log.fd[i] =
        openat(b->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (b->log.fd[i] < 0)
        return blob_fault(errno, "open the log of small objects", err);
    ret->bytes = xcalloc(1, HALF_BYTES);
    n = pread(b->log.fd[i], ret->bytes, HALF_BYTES, 0);
    if (n < 0)
        return blob_fault(errno, "read the log of small objects", err);
    if (n < (ssize_t)HALF_BYTES) {
        int rc = put(b->log.fd[i], ret->bytes, HALF_BYTES, 0);

        if (rc < 0)
            return blob_fault(-rc, "make the log of small objects", err);
        if (blob_fault_sync(b, b->log.fd[i], err) < 0)
            return -(int)err->code;
    }
    r = next_record(ret, &pos, &room, &bytes);
    ret->turn = r ? r->turn : 0;
    return 0;
}

int blob_log_open(struct blobs *b, struct error *err)
{
    struct half halves[2] = {{0}};
    uint64_t restored = 0;
    unsigned first;
    char text[24];
    int r = open_half(b, 0, &halves[0], err);

    if (r == 0)
        r = open_half(b, 1, &halves[1], err);
    first = halves[0].turn > halves[1].turn;
    if (r == 0 && halves[first].turn)
        r = replay_half(b, &halves[first], &restored, err);
    if (r == 0 && halves[!first].turn)
        r = replay_half(b, &halves[!first], &restored, err);
    /* What was there already may never have been written out. */
    if (r == 0 && (halves[0].turn || halves[1].turn) && syncfs(b->dir) < 0)
        r = blob_fault_final(b, errno, err);
    if (r == 0 && restored) {
        (void)snprintf(text, sizeof(text), "%llu",
                       (unsigned long long)restored);
        log_event(LOG_WARN, "blobs_restored_from_log", "count", text, NULL);
    }
    b->log.turn = MAX(halves[0].turn, halves[1].turn) + 1;
    b->log.open = r == 0;
    free(halves[0].bytes);
    free(halves[1].bytes);
    return r;
}

/* After a clean end there is nothing to replay. */
void blob_log_close(struct blobs *b)
{
    static const struct record nothing;

    if (b->log.open && !atomic_load(&b->failed) && syncfs(b->dir) == 0)
        for (unsigned i = 0; i < 2; i++)
            /* If it stays, the next start looks at it in vain. */
            (void)put(b->log.fd[i], (const char *)&nothing, sizeof(nothing),
                      0);
    fd_close(&b->log.fd[0]);
    fd_close(&b->log.fd[1]);
    buf_done(&b->log.pending);
}
