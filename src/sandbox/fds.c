/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: closes all that pid 1 does not need, points the standard ones
 * to /dev/null, and then checks the result together with the working directory
 * and the root. Steps of sandbox_enter().
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/sandbox_int.h"

#define UPPER 3
#define ABOVE 64 /* for pid 1's descriptors, and temporary copies */

static int close_range_raw(unsigned first, unsigned last)
{
    return syscall(SYS_close_range, first, last, 0) < 0 ? -errno : 0;
}

/*
 * The descriptors on which pid 1 sends have numbers that no process it starts
 * can have: they begin at the limit on descriptors, which the next step sets.
 * The filter of seccomp.c thereby distinguishes pid 1's own messages, which it
 * must not stop, from the session's. If the host's limit leaves no room above
 * the granted number, the session gets a few descriptors less.
 */
static int choose_lowest(struct sandbox_steps *s)
{
    struct rlimit most;
    rlim_t room;

    if (getrlimit(RLIMIT_NOFILE, &most) < 0)
        return -errno;
    room = MIN(most.rlim_max, (rlim_t)1 << 30);
    if (room < 2 * ABOVE)
        return -EMFILE;
    s->fds->lowest =
        (unsigned)MIN((rlim_t)s->spec->limits.descriptors, room - ABOVE);
    most.rlim_cur = room; /* until the next step */
    return setrlimit(RLIMIT_NOFILE, &most) < 0 ? -errno : 0;
}

static int copy_above(int *fd, unsigned lowest)
{
    *fd = fcntl(*fd, F_DUPFD_CLOEXEC, (int)lowest);
    return *fd < 0 ? -errno : 0;
}

static int move_fd(int *fd, unsigned number)
{
    if (dup3(*fd, (int)number, O_CLOEXEC) < 0)
        return -errno;
    *fd = (int)number;
    return 0;
}

int sandbox_fds_close(struct sandbox_steps *s)
{
    struct sandbox_fds *fds = s->fds;
    int *kept[6] = {&fds->ctl, &fds->events, &fds->resolver, &fds->proxy};
    unsigned count = 4; /* and up to two for a guest */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = null < 0 ? -errno : choose_lowest(s);

    if (fds->runsc >= 0)
        kept[count++] = &fds->runsc;
    if (fds->spec >= 0)
        kept[count++] = &fds->spec;
    /* First copy above all others, so that the wanted numbers are free. */
    for (unsigned i = 0; r == 0 && i < count; i++)
        r = copy_above(kept[i], fds->lowest + count);
    if (r == 0)
        r = copy_above(&fds->upper, fds->lowest + count);
    if (r == 0)
        r = copy_above(&null, fds->lowest + count);
    for (int fd = 0; r == 0 && fd < UPPER; fd++)
        r = dup3(null, fd, 0) < 0 ? -errno : 0;
    if (r == 0)
        r = move_fd(&fds->upper, UPPER);
    for (unsigned i = 0; r == 0 && i < count; i++)
        r = move_fd(kept[i], fds->lowest + i);
    if (r < 0)
        return r;
    fds->go = fds->scratch = fds->dev = fds->image = -1;
    for (size_t i = 0; i < ARRAY_SIZE(fds->layers); i++)
        fds->layers[i] = -1;
    r = close_range_raw(UPPER + 1, fds->lowest - 1);
    return r < 0 ? r : close_range_raw(fds->lowest + count, ~0u);
}

static int same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int last_kept(const struct sandbox_fds *fds)
{
    return MAX(fds->proxy, MAX(fds->runsc, fds->spec));
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
        if (fd > UPPER && fd != dirfd(dir) &&
            (fd < (long)s->fds->lowest || fd > last_kept(s->fds)))
            return -EBADF;
    }
    if (stat("/", &root) < 0 || stat("/..", &up) < 0 ||
        stat(SANDBOX_DATA, &data) < 0 || stat(".", &here) < 0 ||
        fstat(s->fds->upper, &upper) < 0)
        return -errno;
    if (!same_file(&root, &up) || !same_file(&data, &here))
        return -EXDEV;
    if (!S_ISDIR(upper.st_mode) || upper.st_uid != sandbox_id(s->spec))
        return -ENOTDIR;
    return 0;
}
