/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies that a name made by blob_link still holds the bytes of its blob.
 * Runs in the daemon, before a session mounts the file. The file may be the
 * blob's inode, a tenant's copy or a plain copy; the cache of verified files
 * (verified_cache.c) is keyed by inode, so all three are treated alike.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "blob/blob_int.h"

static int on_piece(void *ctx, const void *bytes, uint64_t len)
{
    blob_scan_hash(ctx, bytes, len);
    return 0;
}

static bool is_right(struct blobs *b, const struct blob_name *name, int fd,
                     struct stat *st)
{
    unsigned char found[HASH_SIZE];
    struct hash_stream *hash = hash_stream_new();
    bool settled = blob_verified_cacheable(st);
    struct stat after;
    int r = blob_scan(fd, (uint64_t)st->st_size + 1, on_piece, hash);

    hash_stream_end(hash, found);
    if (r != 0 || !hash_equal(found, name->hash, sizeof(found)))
        return false;
    if (settled && fstat(fd, &after) == 0 && after.st_size == st->st_size &&
        after.st_ctim.tv_sec == st->st_ctim.tv_sec &&
        after.st_ctim.tv_nsec == st->st_ctim.tv_nsec)
        blob_verified_cache_add(b, name, st);
    return true;
}

int blob_verify_link(struct blobs *b, const char *sha256, int dir,
                     const char *file, struct stat *ret, struct error *err)
{
    struct blob_name name;
    struct stat st;
    int fd cleanup(fd_close) = -1;
    int r = blob_name_parse(sha256, &name, err);

    if (r < 0)
        return r;
    if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        blob_verified_cache_has(b, &name, &st)) {
        *ret = st;
        return 0;
    }
    fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        !is_right(b, &name, fd, &st))
        return blob_read_corrupt(
            &name, fd < 0 && errno == ENOENT ? BLOB_ABSENT : BLOB_BAD, err);
    *ret = st;
    return 0;
}
