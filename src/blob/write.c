/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers: bytes go to a file in DIR/blobs/tmp and into the hash as they
 * come, through one buffer of fixed size; a small one that is finished before
 * the buffer was full has no file, it goes to the log. Runs in the daemon; a
 * writer is used by one thread at a time. After a failure it only repeats it,
 * so that a caller that looks no sooner than blob_finish misses nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "blob/blob_int.h"
#include "disk/disk.h"

/* Of a large file so much is handed to the disk at once, without waiting, so
 * that the sync at the end finds little left to do. */
#define PUSH_BYTES (8u << 20)
#define KEEP_BYTES (24u << 20) /* of it, in memory */

/* Space is reserved in steps that grow with the file. */
#define STEP_LEAST ((uint64_t)BLOB_CHUNK)
#define STEP_MOST ((uint64_t)16 << 20)
#define STEP_WAIT_MS 10000u

struct blob_writer {
    struct blobs *b;
    struct hash_stream *hash;
    uint64_t at;     /* in the file, holes included; the buffer follows */
    uint64_t end;    /* of what was written; less than `at` after a hole */
    uint64_t pushed; /* handed to the disk */
    uint64_t let_go; /* there, and in memory no more */
    size_t used;     /* of the buffer */
    size_t room;     /* of the buffer: little, until it is no small one */
    int fd;          /* -1: nothing is written yet */
    int failed;      /* 0, or the code of why */
    struct error why;
    char temp[BLOB_TEMP]; /* "" : no file, or not ours */
    char owner[BLOB_OWNER];
    char *buffer;
    struct inflight_hold own;   /* space reserved for it alone */
    struct inflight_hold *hold; /* that it uses: its own, or a set's */
};

int blob_hold_new(struct blobs *b, const char *owner, uint64_t bytes,
                  uint64_t deadline_ms, struct blob_hold **ret,
                  struct error *err)
{
    struct blob_hold *h cleanup(blob_hold_free) = xcalloc(1, sizeof(*h));
    int r;

    inflight_begin(b->inflight, owner, &h->hold);
    r = inflight_take(&h->hold, bytes, deadline_ms, err);
    if (r == 0)
        *ret = take_ptr(h);
    return r;
}

void blob_hold_free(struct blob_hold **hp)
{
    struct blob_hold *h = take_ptr(*hp);

    if (!h)
        return;
    inflight_end(&h->hold);
    free(h);
}

int blob_begin(struct blobs *b, const char *owner, struct blob_writer **ret,
               struct error *err)
{
    return blob_begin_held(b, owner, NULL, ret, err);
}

int blob_begin_held(struct blobs *b, const char *owner, struct blob_hold *hold,
                    struct blob_writer **ret, struct error *err)
{
    int r = blob_fault_refuse(b, err);
    struct blob_writer *w;

    if (r == 0)
        r = disk_admit(b->disk, 0, err);
    if (r < 0)
        return r;
    w = xcalloc(1, sizeof(*w));
    w->room = BLOB_LOG_MOST;
    w->buffer = xmalloc(w->room);
    w->b = b;
    w->fd = -1;
    w->hash = hash_stream_new();
    w->hold = hold ? &hold->hold : &w->own;
    (void)snprintf(w->owner, sizeof(w->owner), "%s", owner);
    *ret = w;
    return 0;
}

void blob_abort(struct blob_writer **wp)
{
    struct blob_writer *w = take_ptr(*wp);

    if (!w)
        return;
    /* If it stays, the next start removes it. */
    if (w->temp[0])
        (void)unlinkat(w->b->tmp, w->temp, 0);
    fd_close(&w->fd);
    inflight_end(&w->own);
    hash_stream_free(w->hash);
    free(w->buffer);
    free(w);
}

uint64_t blob_written(const struct blob_writer *w)
{
    return w->at + w->used;
}

/* Remembers why; returns the code. */
static int writer_fail(struct blob_writer *w, const struct error *err)
{
    w->why = *err;
    w->failed = -(int)err->code;
    return w->failed;
}

/* Before `len` bytes are written. A small blob, which goes to the log, never
 * comes here. */
static int reserve_space(struct blob_writer *w, size_t len, struct error *err)
{
    uint64_t step = MIN(MAX(w->at, STEP_LEAST), STEP_MOST);

    if (!w->hold->all)
        inflight_begin(w->b->inflight, w->owner, w->hold);
    if (w->hold->reserved - w->hold->written >= len)
        return 0;
    return inflight_take(w->hold, MAX(step, len),
                         clock_mono_ms() + STEP_WAIT_MS, err);
}

static int open_temp(struct blob_writer *w, struct error *err)
{
    char temp[BLOB_TEMP];

    if (w->fd >= 0)
        return 0;
    blob_name_temp(temp);
    w->fd = openat(w->b->tmp, temp,
                   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (w->fd < 0)
        return blob_fault(errno, "begin a stored object", err);
    memcpy(w->temp, temp, sizeof(w->temp));
    return 0;
}

/* A file system without it has all to do at the end; any other answer tells
 * of lost bytes, and the sync at the end may not tell again. */
static int sync_range(struct blob_writer *w, uint64_t from, uint64_t to,
                      unsigned flags, struct error *err)
{
    if (sync_file_range(w->fd, (off_t)from, (off_t)(to - from), flags) == 0 ||
        errno == ENOSYS || errno == EINVAL || errno == ESPIPE ||
        errno == EOPNOTSUPP)
        return 0;
    return blob_fault_final(w->b, errno, err);
}

/* Bytes whose write-back started a while ago are on the disk by now and leave
 * the page cache: a client that sends so much is not about to read all of it,
 * and getting new memory may take longer than the disk does. */
static int drop_cached(struct blob_writer *w, struct error *err)
{
    uint64_t to = w->pushed > KEEP_BYTES ? w->pushed - KEEP_BYTES : 0;
    int r;

    if (to < w->let_go + PUSH_BYTES)
        return 0;
    r = sync_range(w, w->let_go, to,
                   SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                       SYNC_FILE_RANGE_WAIT_AFTER,
                   err);
    /* A hint; if it is not taken, it stays in memory. */
    (void)posix_fadvise(w->fd, (off_t)w->let_go, (off_t)(to - w->let_go),
                        POSIX_FADV_DONTNEED);
    w->let_go = to;
    return r;
}

static int start_writeback(struct blob_writer *w, struct error *err)
{
    uint64_t from = w->pushed;
    int r;

    if (w->at - from < PUSH_BYTES)
        return 0;
    w->pushed = w->at;
    r = sync_range(w, from, w->at, SYNC_FILE_RANGE_WRITE, err);
    return r == 0 ? drop_cached(w, err) : r;
}

static int write_staged(struct blob_writer *w, const char *bytes, size_t len,
                        struct error *err)
{
    size_t done = 0;

    if (disk_admit(w->b->disk, len, err) < 0 ||
        reserve_space(w, len, err) < 0 || open_temp(w, err) < 0)
        return writer_fail(w, err);
    while (done < len) {
        ssize_t n =
            pwrite(w->fd, bytes + done, len - done, (off_t)(w->at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            (void)blob_fault(errno, "write a stored object", err);
            return writer_fail(w, err);
        }
        done += (size_t)n;
    }
    inflight_wrote(w->hold, len);
    hash_stream_add(w->hash, bytes, len);
    w->at += len;
    w->end = w->at;
    return start_writeback(w, err) < 0 ? writer_fail(w, err) : 0;
}

static int flush_buffer(struct blob_writer *w, struct error *err)
{
    size_t used = w->used;

    w->used = 0;
    return used ? write_staged(w, w->buffer, used, err) : 0;
}

int blob_write(struct blob_writer *w, const void *bytes, size_t len,
               struct error *err)
{
    const char *from = bytes;

    if (w->failed) {
        *err = w->why;
        return w->failed;
    }
    if (blob_fault_refuse(w->b, err) < 0)
        return writer_fail(w, err);
    while (len > 0) {
        size_t n = MIN(len, BLOB_CHUNK - w->used);

        if (n == BLOB_CHUNK) { /* empty, and a whole one is there */
            if (write_staged(w, from, n, err) < 0)
                return w->failed;
        } else {
            if (w->used + n > w->room) {
                w->room = BLOB_CHUNK;
                w->buffer = xrealloc(w->buffer, w->room);
            }
            memcpy(w->buffer + w->used, from, n);
            w->used += n;
            if (w->used == BLOB_CHUNK && flush_buffer(w, err) < 0)
                return w->failed;
        }
        from += n;
        len -= n;
    }
    return 0;
}

struct feed {
    struct blob_writer *w;
    struct error *err;
};

static int feed_piece(void *ctx, const void *bytes, uint64_t len)
{
    struct feed *f = ctx;

    if (bytes)
        return blob_write(f->w, bytes, (size_t)len, f->err) < 0 ? 1 : 0;
    if (flush_buffer(f->w, f->err) < 0)
        return 1;
    blob_scan_hash(f->w->hash, NULL, len);
    f->w->at += len;
    return 0;
}

int blob_write_fd(struct blob_writer *w, int fd, uint64_t most,
                  struct error *err)
{
    struct feed f = {w, err};
    int r;

    if (w->failed) {
        *err = w->why;
        return w->failed;
    }
    r = blob_scan(fd, most, feed_piece, &f);
    if (r > 0)
        return w->failed;
    if (r < 0) {
        (void)error_errno(err, ERR_INTERNAL, -r, "cannot read the file");
        return writer_fail(w, err);
    }
    return 0;
}

/* All bytes are in the file, which has its size and mode. */
static int complete_file(struct blob_writer *w, struct error *err)
{
    if (w->failed) {
        *err = w->why;
        return w->failed;
    }
    if (blob_fault_refuse(w->b, err) < 0 || flush_buffer(w, err) < 0 ||
        open_temp(w, err) < 0)
        return -(int)err->code;
    if (w->end < w->at && ftruncate(w->fd, (off_t)w->at) < 0)
        return blob_fault(errno, "size a stored object", err);
    if (fchmod(w->fd, 0644) < 0)
        return blob_fault(errno, "share a stored object", err);
    blob_tenant_copy_mark(w->fd, w->owner);
    return 0;
}

int blob_write_end(struct blob_writer **wp, char ret_temp[BLOB_TEMP],
                   struct blob_name *ret_name, char ret_owner[BLOB_OWNER],
                   uint64_t *ret_size, struct error *err)
{
    struct blob_writer *w cleanup(blob_abort) = take_ptr(*wp);
    unsigned char hash[HASH_SIZE];
    int r = complete_file(w, err);

    if (r < 0)
        return r;
    hash_stream_end(take_ptr(w->hash), hash);
    blob_name_of(hash, ret_name);
    /* From here on it is not removed, whichever tenant wrote it first. */
    blob_pin_add(w->b, hash);
    memcpy(ret_temp, w->temp, BLOB_TEMP);
    memcpy(ret_owner, w->owner, BLOB_OWNER);
    *ret_size = w->at;
    w->temp[0] = '\0'; /* not ours to remove any more */
    return 0;
}

/* The log may acknowledge it: all of it is still in the buffer, and no hole
 * came before. */
static bool is_for_log(const struct blob_writer *w)
{
    return w->b->tier->ops->behind_log && w->at == 0 &&
           w->used <= BLOB_LOG_MOST;
}

/* Its bytes go to the log, and that is all there is to wait for. */
static int finish_small(struct blob_writer **wp, bool soon,
                        struct blob_name *ret_name, uint64_t *ret_size,
                        struct error *err)
{
    struct blob_writer *w cleanup(blob_abort) = take_ptr(*wp);
    unsigned char hash[HASH_SIZE];
    int r = blob_fault_refuse(w->b, err);

    if (r < 0)
        return r;
    hash_stream_add(w->hash, w->buffer, w->used);
    hash_stream_end(take_ptr(w->hash), hash);
    blob_name_of(hash, ret_name);
    *ret_size = w->used;
    blob_pin_add(w->b, hash);
    r = blob_log_add(w->b, ret_name, w->owner, w->buffer, w->used, soon, err);
    if (r < 0)
        blob_pin_remove(w->b, hash);
    return r;
}

static int finish_large(struct blob_writer **wp, struct blob_name *ret_name,
                        uint64_t *ret_size, struct error *err)
{
    struct blobs *b = (*wp)->b;
    int fd cleanup(fd_close) = fd_dup((*wp)->fd, 0);
    char temp[BLOB_TEMP], owner[BLOB_OWNER];
    int r = blob_write_end(wp, temp, ret_name, owner, ret_size, err);

    if (r < 0)
        return r;
    if (fd < 0) {
        r = blob_fault(-fd, "store an object", err);
    } else {
        struct blob_tier_file file = {.sha256 = blob_name_hex(ret_name),
                                      .owner = owner,
                                      .dir = b->tmp,
                                      .name = temp,
                                      .fd = fd,
                                      .size = *ret_size};

        r = blob_stored_put(b, &file, 1, true, err);
    }
    if (r < 0) {
        (void)unlinkat(b->tmp, temp, 0); /* else the next start does */
        blob_pin_remove(b, ret_name->hash);
    }
    return r;
}

static int writer_finish(struct blob_writer **wp, bool soon,
                         char ret_sha256[BLOB_NAME], uint64_t *ret_size,
                         struct error *err)
{
    struct blob_writer *w = *wp;
    struct blob_name name;
    uint64_t size = 0;
    int r;

    if (w->failed || !is_for_log(w)) {
        /* What it is to have a descriptor of. */
        if (!w->failed && open_temp(w, err) < 0)
            (void)writer_fail(w, err);
        r = finish_large(wp, &name, &size, err);
    } else {
        r = finish_small(wp, soon, &name, &size, err);
    }
    if (r < 0)
        return r;
    memcpy(ret_sha256, blob_name_hex(&name), BLOB_NAME);
    if (ret_size)
        *ret_size = size;
    return 0;
}

int blob_finish(struct blob_writer **w, char ret_sha256[BLOB_NAME],
                uint64_t *ret_size, struct error *err)
{
    return writer_finish(w, false, ret_sha256, ret_size, err);
}

int blob_finish_soon(struct blob_writer **w, char ret_sha256[BLOB_NAME],
                     uint64_t *ret_size, struct error *err)
{
    return writer_finish(w, true, ret_sha256, ret_size, err);
}
