/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor helpers; see fd.h. Runs in every process. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/mem.h"

void fd_close(int *fd)
{
    int saved = errno;

    if (*fd >= 0)
        (void)close(*fd); /* nothing to do about a failed close of a reader */
    *fd = -1;
    errno = saved;
}

void fd_closedir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read-only, as above */
    *dir = NULL;
}

ssize_t fd_read_all(int fd, void *buf, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = read(fd, (char *)buf + done, len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int fd_write_all(int fd, const void *buf, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = write(fd, (const char *)buf + done, len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        done += (size_t)n;
    }
    return 0;
}

int fd_read_file(int dirfd, const char *path, size_t cap, char **ret_text,
                 size_t *ret_len)
{
    int fd cleanup(fd_close) = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    char *text cleanup(mem_free) = NULL;
    ssize_t n;

    if (fd < 0)
        return -errno;
    text = malloc(cap + 1);
    if (!text)
        return -ENOMEM;
    n = fd_read_all(fd, text, cap + 1);
    if (n < 0)
        return (int)n;
    if ((size_t)n > cap)
        return -EFBIG;
    text[n] = '\0';
    if (ret_len)
        *ret_len = (size_t)n;
    *ret_text = take_ptr(text);
    return 0;
}

int fd_rename_new(int dirfd, const char *from, const char *to)
{
    if (renameat2(dirfd, from, dirfd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    /* The file system cannot do it in one step. */
    if (linkat(dirfd, from, dirfd, to, 0) < 0 || unlinkat(dirfd, from, 0) < 0)
        return -errno;
    return 0;
}

int fd_write_new(int dirfd, const char *name, const void *bytes, size_t len)
{
    int fd cleanup(fd_close) = -1;
    char fresh[NAME_MAX + 1];
    int r = snprintf(fresh, sizeof(fresh), "%s.new", name);

    if (r < 0 || (size_t)r >= sizeof(fresh))
        return -ENAMETOOLONG;
    (void)unlinkat(dirfd, fresh, 0); /* of a start that was cut short */
    fd = openat(dirfd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = fd_write_all(fd, bytes, len);
    /* Undo the effect of the umask. */
    if (r == 0 && (fchmod(fd, 0600) < 0 || fsync(fd) < 0))
        r = -errno;
    if (r == 0)
        r = fd_rename_new(dirfd, fresh, name);
    if (r == 0)
        return fsync(dirfd) < 0 ? -errno : 0;
    (void)unlinkat(dirfd, fresh, 0); /* nothing to add to the failure */
    return r;
}

int fd_write_file(int dirfd, const char *path, const char *text)
{
    int fd cleanup(fd_close) = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    size_t len = strlen(text);
    ssize_t n;

    if (fd < 0)
        return -errno;
    do
        n = write(fd, text, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

int fd_set_nonblock(int fd, int on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fd_dup(int fd, int lowest)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, lowest);

    return copy < 0 ? -errno : copy;
}

int fd_socketpair(int type, int ret_pair[2])
{
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ret_pair) < 0)
        return -errno;
    return 0;
}

int fd_pipe(int ret_pair[2])
{
    return pipe2(ret_pair, O_CLOEXEC) < 0 ? -errno : 0;
}

/* ---- the reserve ----------------------------------------------------------
 */

static _Atomic uint64_t fd_reserve;

void fd_reserve_set(uint64_t descriptors)
{
    atomic_store(&fd_reserve, descriptors);
}

/* Reads the limit each time, because it can be changed from outside. */
bool fd_reserve_holds(int fd)
{
    struct rlimit files;
    uint64_t kept = atomic_load(&fd_reserve);

    if (fd < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
        return false;
    return (uint64_t)fd + 1 + MIN(kept, files.rlim_cur / 2) <= files.rlim_cur;
}
