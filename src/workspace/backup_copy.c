/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copying that backup.c and backup_restore.c have in common: bytes are
 * hashed on their way, folders must be empty, progress is told. Runs in the
 * daemon, or in the program that restores.
 */
#include "workspace/backup_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"

#define CHUNK (256u << 10)
#define TELL_MS 100

const char *const backup_secrets[BACKUP_SECRETS] = {
    "auth.secret", "audit.secret", "audit.sign.key", "vault.key", "admin.key"};

/* ---- progress ----------------------------------------------------------- */

static void tell(struct backup_progress *p)
{
    p->told_ms = clock_mono_ms();
    if (p->fn)
        p->fn(p->ctx, p->what, p->done, MAX(p->total, p->done));
}

void backup_progress_begin(struct backup_progress *p, const char *what,
                           uint64_t total)
{
    p->what = what;
    p->done = 0;
    p->total = total;
    tell(p);
}

void backup_progress_add(struct backup_progress *p, uint64_t more)
{
    p->done += more;
    if (clock_mono_ms() - p->told_ms >= TELL_MS)
        tell(p);
}

void backup_progress_end(struct backup_progress *p)
{
    p->done = MAX(p->done, p->total);
    tell(p);
}

/* ---- bytes -------------------------------------------------------------- */

int backup_copy_failed(int errnum, const char *what, struct error *err)
{
    if (errnum == ENOSPC || errnum == EDQUOT)
        return error_set(err, ERR_SPACE, "no room left to %s", what);
    return error_errno(err, ERR_INTERNAL, errnum, "cannot %s", what);
}

/* Hashes `from` to its end; to: -1, or where it is copied to. */
static int pump(int from, int to, struct backup_progress *progress,
                struct backup_file *ret)
{
    char *chunk cleanup(mem_free) = xmalloc(CHUNK);
    struct hash_stream *hash = hash_stream_new();
    unsigned char sum[HASH_SIZE];
    uint64_t size = 0;
    ssize_t n;
    int r = 0;

    while (r == 0 && (n = fd_read_all(from, chunk, CHUNK)) > 0) {
        hash_stream_add(hash, chunk, (size_t)n);
        if (to >= 0)
            r = fd_write_all(to, chunk, (size_t)n);
        if (progress)
            backup_progress_add(progress, (uint64_t)n);
        size += (uint64_t)n;
    }
    if (r == 0 && n < 0)
        r = (int)n;
    hash_stream_end(hash, sum);
    (void)ids_hex(sum, sizeof(sum), ret->sha256);
    ret->size = size;
    return r;
}

/* What blob/ notes of a file of its own (whose inode it is) goes with it. A
 * file system that cannot keep that costs space after a restore, no more. */
static void copy_marks(int from, int to)
{
    static const char ours[] = "user.glovebox.";
    char names[256], value[64];
    ssize_t len = flistxattr(from, names, sizeof(names));

    for (char *at = names; len > 0 && at < names + len; at += strlen(at) + 1) {
        ssize_t n = strncmp(at, ours, strlen(ours)) == 0
                        ? fgetxattr(from, at, value, sizeof(value))
                        : -1;

        if (n >= 0)
            (void)fsetxattr(to, at, value, (size_t)n, 0);
    }
}

int backup_copy(int from, int dir, const char *name, mode_t mode,
                struct backup_progress *progress, struct backup_file *ret,
                struct error *err)
{
    int to cleanup(fd_close) = openat(
        dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = to < 0 ? -errno : pump(from, to, progress, ret);

    if (r == 0 && fchmod(to, mode) < 0)
        r = -errno;
    if (r == 0)
        copy_marks(from, to);
    return r < 0 ? backup_copy_failed(-r, "write a copy", err) : 0;
}

int backup_copy_measure(int dir, const char *name, struct backup_file *ret,
                        struct error *err)
{
    int fd cleanup(fd_close) =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : pump(fd, -1, NULL, ret);

    return r < 0 ? backup_copy_failed(-r, "read a copy", err) : 0;
}

/* ---- folders ------------------------------------------------------------ */

int backup_copy_folder(int dir, const char *sha256, struct error *err)
{
    char name[16];

    (void)snprintf(name, sizeof(name), "blobs/%.2s", sha256);
    if (mkdirat(dir, name, 0700) == 0 || errno == EEXIST)
        return 0;
    if (errno == ENOENT &&
        (mkdirat(dir, "blobs", 0700) == 0 || errno == EEXIST) &&
        mkdirat(dir, name, 0700) == 0)
        return 0;
    return backup_copy_failed(errno, "make a folder", err);
}

static bool is_empty(int fd)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;

    dir = own < 0 ? NULL : fdopendir(own);
    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            return false;
    return dir != NULL;
}

/* Whoever named the folder can mend most of what is wrong with it. */
static int target_failed(int errnum, const char *what, struct error *err)
{
    if (errnum != EACCES && errnum != EPERM && errnum != EROFS &&
        errnum != ENOENT && errnum != ENOTDIR && errnum != ELOOP &&
        errnum != ENAMETOOLONG)
        return backup_copy_failed(errnum, "make the folder", err);
    (void)error_errno(err, ERR_INVALID, errnum, "cannot make the %s", what);
    return error_hint(err, "name one in a folder that is there and that the "
                           "account which writes it may write");
}

int backup_copy_target(const char *path, const char *what, int *ret_dir,
                       bool *ret_made, struct error *err)
{
    bool made = mkdir(path, 0700) == 0;
    int dir cleanup(fd_close) = -1;

    if (!made && errno != EEXIST)
        return target_failed(errno, what, err);
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return target_failed(errno, what, err);
    if (!is_empty(dir)) {
        (void)error_set(err, ERR_CONFLICT, "the %s is not empty", what);
        return error_hint(err, "name a folder that is empty or does not "
                               "exist");
    }
    *ret_dir = take_fd(dir);
    *ret_made = made;
    return 0;
}
