/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing leaks in: every descriptor but the ones pid 1 needs is closed, the
 * standard ones become /dev/null, and then the result is checked, together
 * with the working directory and the root. Steps of sandbox_enter().
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/sandbox_int.h"

#define FIRST_KEPT 3
#define LAST_KEPT 5
#define HIGH 32 /* above all fixed numbers, below the least limit (64) */

static int close_range_raw(unsigned first, unsigned last)
{
    return syscall(SYS_close_range, first, last, 0) < 0 ? -errno : 0;
}

int sandbox_fds_close(struct sandbox_steps *s)
{
    /* High copies first, so that the fixed numbers are free to be taken. */
    int ctl = fcntl(s->fds->ctl, F_DUPFD_CLOEXEC, HIGH);
    int events = fcntl(s->fds->events, F_DUPFD_CLOEXEC, HIGH);
    int upper = fcntl(s->fds->upper, F_DUPFD_CLOEXEC, HIGH);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (ctl < 0 || events < 0 || upper < 0 || null < 0)
        return -errno;
    for (int fd = 0; fd < FIRST_KEPT; fd++)
        if (dup3(null, fd, 0) < 0 && errno != EINVAL)
            return -errno;
    if (dup3(ctl, FIRST_KEPT, O_CLOEXEC) < 0 ||
        dup3(events, FIRST_KEPT + 1, O_CLOEXEC) < 0 ||
        dup3(upper, LAST_KEPT, O_CLOEXEC) < 0)
        return -errno;
    s->fds->ctl = FIRST_KEPT;
    s->fds->events = FIRST_KEPT + 1;
    s->fds->upper = LAST_KEPT;
    s->fds->go = -1;
    s->fds->scratch = -1;
    s->fds->dev = -1;
    for (size_t i = 0; i < ARRAY_SIZE(s->fds->layers); i++)
        s->fds->layers[i] = -1;
    return close_range_raw(LAST_KEPT + 1, ~0u);
}

static int same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int sandbox_fds_check(struct sandbox_steps *s)
{
    DIR *dir cleanup(fd_closedir) = opendir("/proc/self/fd");
    struct stat root, up, data, here, upper;
    struct dirent *d;

    if (!dir)
        return -errno;
    while ((d = readdir(dir))) {
        char *end;
        long fd = strtol(d->d_name, &end, 10);

        if (*end || end == d->d_name)
            continue; /* "." and ".." */
        if (fd > LAST_KEPT && fd != dirfd(dir))
            return -EBADF;
    }
    if (stat("/", &root) < 0 || stat("/..", &up) < 0 ||
        stat(SANDBOX_DATA, &data) < 0 || stat(".", &here) < 0 ||
        fstat(s->fds->upper, &upper) < 0)
        return -errno;
    if (!same_file(&root, &up) || !same_file(&data, &here))
        return -EXDEV;
    if (!S_ISDIR(upper.st_mode) || upper.st_uid != SANDBOX_UID)
        return -ENOTDIR;
    return 0;
}
