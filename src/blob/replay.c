/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of small blobs at a start: what an earlier run left in it is
 * pending again, whether or not it had got to its place. What a power cut kept
 * from the log comes back from where its records were kept meanwhile. Runs in
 * the daemon, before there are other threads at work in blob/.
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
#include "blob/blob_int.h"

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
        return false; /* half written: nobody was told that it is there */
    *pos += sizeof(*ret) + ret->len;
    return true;
}

static void copy_owner(const struct blob_record *r, char ret[BLOB_OWNER])
{
    (void)snprintf(ret, BLOB_OWNER, "%.*s", BLOB_OWNER - 1, r->owner);
}

static void pend(struct blobs *b, unsigned i, const struct blob_record *r,
                 size_t end)
{
    struct blob_pending *p = xcalloc(1, sizeof(*p));

    p->half = i;
    p->len = r->len;
    p->at = (uint32_t)(end - r->len);
    p->replayed = true;
    memcpy(p->hash, r->hash, HASH_SIZE);
    copy_owner(r, p->owner);
    blob_pending_add(b, p);
}

static bool is_missing(struct blobs *b, const struct blob_record *r)
{
    struct blob_name name;
    struct stat st;

    blob_name_of(r->hash, &name);
    return fstatat(b->dir, name.path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
           st.st_size != (off_t)r->len;
}

/* Adds how many of it were not in their places. */
static void replay_half(struct blobs *b, unsigned i, struct half *h,
                        uint64_t *missing)
{
    struct blob_record r;

    while (next_record(h->bytes, BLOB_LOG_HALF, h->turn, &h->end, &r)) {
        h->turn = r.turn;
        *missing += is_missing(b, &r);
        pend(b, i, &r, h->end);
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
static int go_on(struct blobs *b, unsigned newest, const struct half *h,
                 struct error *err)
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

static void done(struct half (*halves)[2])
{
    free((*halves)[0].bytes);
    free((*halves)[1].bytes);
}

static void tell(uint64_t missing)
{
    char text[24];

    if (!missing)
        return;
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)missing);
    log_event(LOG_WARN, "blobs_restored_from_log", "count", text, NULL);
}

int blob_replay(struct blobs *b, struct error *err)
{
    struct half halves[2] cleanup(done) = {{0}};
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
        r = go_on(b, newest, &halves[newest], err);
    if (r == 0)
        tell(missing);
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
        tell(missing);
    return r;
}
