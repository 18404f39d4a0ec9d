/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in a sealed stream, one after another: a record, then the bytes. Runs
 * in the daemon (adding) and in the program that restores (reading).
 *
 *   record   kind (1: a file, 0: the end), length of the name, 16-bit zero,
 *            64-bit size of the file, or at the end the number of files; then
 *            the name. Numbers are big-endian.
 *
 * The hash of a blob is its name and is checked when it is read; all else is
 * authenticated by the stream.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "upkeep/backup_int.h"

#define RECORD 12u
#define PIECE (256u << 10)
#define KIND_END 0u
#define KIND_FILE 1u

static int write_record(struct seal *s, unsigned kind, const char *name,
                        uint64_t size, struct error *err)
{
    size_t len = strlen(name);
    unsigned char record[RECORD] = {(unsigned char)kind, (unsigned char)len};
    int r;

    for (int i = 0; i < 8; i++)
        record[RECORD - 1 - i] = (unsigned char)(size >> (8 * i));
    r = seal_write(s, record, sizeof(record), err);
    return r < 0 ? r : seal_write(s, name, len, err);
}

static void set_hash(struct hash_stream *hash, struct backup_file *f)
{
    unsigned char sum[HASH_SIZE];

    hash_stream_end(hash, sum);
    (void)ids_hex(sum, sizeof(sum), f->sha256);
}

static int changed(const struct backup_file *f, struct error *err)
{
    return error_set(err, ERR_CORRUPT,
                     "%s changed its size while it was backed up", f->name);
}

int sealed_add(struct seal *s, int from, struct backup_progress *progress,
               struct backup_file *f, struct error *err)
{
    char *piece cleanup(mem_free) = xmalloc(PIECE);
    struct hash_stream *hash = hash_stream_new();
    struct stat st;
    uint64_t left;
    int r =
        fstat(from, &st) < 0
            ? backup_copy_failed(errno, "read a file", err)
            : write_record(s, KIND_FILE, f->name, (uint64_t)st.st_size, err);

    f->size = r < 0 ? 0 : (uint64_t)st.st_size;
    left = f->size;
    while (r == 0) {
        ssize_t n = fd_read_all(from, piece, PIECE);

        if (n < 0)
            r = backup_copy_failed((int)-n, "read a file", err);
        else if ((uint64_t)n > left || (n == 0 && left > 0))
            r = changed(f, err);
        else if (n == 0)
            break;
        else
            r = seal_write(s, piece, (size_t)n, err);
        if (r < 0)
            break;
        hash_stream_add(hash, piece, (size_t)n);
        left -= (uint64_t)n;
        if (progress)
            backup_progress_add(progress, (uint64_t)n);
    }
    set_hash(hash, f);
    return r;
}

int sealed_end(struct seal *s, uint64_t files, struct error *err)
{
    int r = write_record(s, KIND_END, "", files, err);

    return r < 0 ? r : seal_finish(s, err);
}

/* ---- reading ------------------------------------------------------------ */

static int bad_record(struct error *err)
{
    return error_set(err, ERR_CORRUPT,
                     "the backup contains a record that is not valid");
}

/* A blob's hash is its name. */
static bool take_hash(struct backup_file *f)
{
    const char *base = strrchr(f->name, '/');

    f->sha256[0] = '\0';
    if (!base)
        return true;
    base++;
    if (strlen(base) != HASH_HEX - 1 ||
        strspn(base, "0123456789abcdef") != HASH_HEX - 1)
        return false;
    memcpy(f->sha256, base, HASH_HEX);
    return true;
}

int sealed_next(struct seal *s, uint64_t *files, struct backup_file *ret,
                struct error *err)
{
    unsigned char record[RECORD];
    uint64_t size = 0;
    int r = seal_read(s, record, sizeof(record), err);

    if (r < 0)
        return r;
    for (size_t i = RECORD - 8; i < RECORD; i++)
        size = size << 8 | record[i];
    if (record[0] == KIND_END) {
        if (record[1] != 0 || size != *files)
            return bad_record(err);
        return seal_read_end(s, err);
    }
    if (record[0] != KIND_FILE || record[1] == 0 ||
        record[1] >= BACKUP_NAME_MAX)
        return bad_record(err);
    *ret = (struct backup_file){.size = size};
    r = seal_read(s, ret->name, record[1], err);
    if (r < 0)
        return r;
    if (strlen(ret->name) != record[1] || !take_hash(ret) ||
        !backup_name_known(ret))
        return bad_record(err);
    ++*files;
    return 1;
}

int sealed_extract(struct seal *s, int dir, const char *name, mode_t mode,
                   struct backup_progress *progress, struct backup_file *f,
                   struct error *err)
{
    char *piece cleanup(mem_free) = xmalloc(PIECE);
    struct hash_stream *hash = hash_stream_new();
    int to cleanup(fd_close) = openat(
        dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    uint64_t left = f->size;
    int r = to < 0 ? backup_copy_failed(errno, "write a copy", err) : 0;

    while (r == 0 && left > 0) {
        size_t n = (size_t)MIN(left, (uint64_t)PIECE);
        int w;

        r = seal_read(s, piece, n, err);
        if (r < 0)
            break;
        w = fd_write_all(to, piece, n);
        if (w < 0)
            r = backup_copy_failed(-w, "write a copy", err);
        hash_stream_add(hash, piece, n);
        left -= n;
        backup_progress_add(progress, n);
    }
    set_hash(hash, f);
    if (r == 0 && fchmod(to, mode) < 0)
        r = backup_copy_failed(errno, "write a copy", err);
    return r;
}
