/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a file from start to end with one buffer of fixed size, and reports
 * holes instead of reading them, so that a large sparse file costs neither
 * disk space nor copying. Runs in the daemon; the file may be a session's and
 * change meanwhile, hence every loop ends at `most` or at a short read.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "blob/blob_int.h"

static const char zeros[BLOB_CHUNK];

struct scan {
    int fd;
    uint64_t at, most;
    bool seeks; /* the file system reports holes */
    char *buffer;
    blob_scan_fn fn;
    void *ctx;
};

/* Reads up to `end`. Sets *ret_eof when the file is over before that. */
static int scan_data(struct scan *s, uint64_t end, bool *ret_eof)
{
    while (s->at < end) {
        size_t want = (size_t)MIN(end - s->at, (uint64_t)BLOB_CHUNK);
        ssize_t n = pread(s->fd, s->buffer, want, (off_t)s->at);
        int r;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0) {
            *ret_eof = true;
            return 0;
        }
        s->at += (uint64_t)n;
        r = s->fn(s->ctx, s->buffer, (uint64_t)n);
        if (r)
            return r;
    }
    return 0;
}

/* From s->at: how far the hole goes that may begin there. */
static int hole_end(struct scan *s, uint64_t *ret)
{
    off_t data = lseek(s->fd, (off_t)s->at, SEEK_DATA);
    struct stat st;

    *ret = s->at;
    if (data >= 0) {
        *ret = (uint64_t)data;
        return 0;
    }
    if (errno != ENXIO) { /* no such thing here: all is data */
        s->seeks = false;
        return 0;
    }
    if (fstat(s->fd, &st) < 0)
        return -errno;
    *ret = MAX(s->at, (uint64_t)st.st_size);
    return 0;
}

static int scan_step(struct scan *s, bool *ret_eof)
{
    uint64_t end = s->most;
    int r;

    if (s->seeks) {
        uint64_t hole;
        off_t next;

        r = hole_end(s, &hole);
        if (r < 0)
            return r;
        hole = MIN(hole, s->most);
        if (hole > s->at) {
            uint64_t len = hole - s->at;

            s->at = hole;
            r = s->fn(s->ctx, NULL, len);
            if (r)
                return r;
        }
        next = s->seeks ? lseek(s->fd, (off_t)s->at, SEEK_HOLE) : -1;
        /* Without an answer the read below finds the end. */
        if (next > (off_t)s->at)
            end = MIN(end, (uint64_t)next);
    }
    return scan_data(s, end, ret_eof);
}

int blob_scan(int fd, uint64_t most, blob_scan_fn fn, void *ctx)
{
    char *buffer cleanup(mem_free) = xmalloc(BLOB_CHUNK);
    struct scan s = {.fd = fd, .fn = fn, .ctx = ctx, .buffer = buffer};
    off_t offset = lseek(fd, 0, SEEK_CUR);
    bool eof = false;
    struct stat st;
    int r = 0;

    if (offset < 0 || fstat(fd, &st) < 0)
        return -errno;
    s.most = MIN(most, (uint64_t)INT64_MAX);
    s.seeks = S_ISREG(st.st_mode) && st.st_size > BLOB_CHUNK;
    if (s.seeks) /* only advice */
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    while (r == 0 && !eof && s.at < s.most)
        r = scan_step(&s, &eof);
    if (lseek(fd, offset, SEEK_SET) < 0 && r == 0)
        r = -errno;
    return r;
}

void blob_scan_hash(struct hash_stream *h, const void *bytes, uint64_t len)
{
    if (bytes) {
        hash_stream_add(h, bytes, (size_t)len);
        return;
    }
    while (len > 0) {
        size_t n = (size_t)MIN(len, (uint64_t)sizeof(zeros));

        hash_stream_add(h, zeros, n);
        len -= n;
    }
}

struct sum {
    struct hash_stream *hash;
    uint64_t size;
};

static int sum_piece(void *ctx, const void *bytes, uint64_t len)
{
    struct sum *s = ctx;

    blob_scan_hash(s->hash, bytes, len);
    s->size += len;
    return 0;
}

int blob_hash_fd(int fd, uint64_t most, char ret_sha256[BLOB_NAME],
                 uint64_t *ret_size, struct error *err)
{
    struct sum sum = {.hash = hash_stream_new()};
    unsigned char hash[HASH_SIZE];
    struct blob_name name;
    int r = blob_scan(fd, most, sum_piece, &sum);

    hash_stream_end(sum.hash, hash);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot read the file");
    blob_name_of(hash, &name);
    memcpy(ret_sha256, blob_name_hex(&name), BLOB_NAME);
    *ret_size = sum.size;
    return 0;
}

struct copy {
    int to;
    uint64_t at;
    int errnum;
};

static int copy_piece(void *ctx, const void *bytes, uint64_t len)
{
    struct copy *c = ctx;
    uint64_t end = c->at + len;

    if (!bytes)
        c->at = end;
    while (c->at < end) {
        const char *from = (const char *)bytes + (len - (end - c->at));
        ssize_t n = pwrite(c->to, from, (size_t)(end - c->at), (off_t)c->at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            c->errnum = errno;
            return 1;
        }
        c->at += (uint64_t)n;
    }
    return 0;
}

int blob_scan_copy(int from, int to)
{
    struct copy c = {.to = to};
    int r = blob_scan(from, UINT64_MAX, copy_piece, &c);

    if (r < 0)
        return r;
    if (r > 0)
        return -c.errnum;
    /* A hole at the end was not written. */
    return ftruncate(to, (off_t)c.at) < 0 ? -errno : 0;
}
