/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor helpers; see fd.h. Runs in every process. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

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
