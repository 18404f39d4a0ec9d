/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file broker: opens, creates, names and removes files below /mnt/data
 * on the daemon's behalf. Runs in a session's pid 1, with the session's uid
 * and mount view, so that the host never acts on these files by a path.
 * Every walk starts at a descriptor and follows no link and no mount.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"

#define STRICT                                                                \
    (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |          \
     RESOLVE_NO_XDEV)

int broker_beneath(int dir, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = STRICT};
    long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

/* The request's path as a string; the daemon has checked its form, but a
 * NUL or an absolute path would change the meaning of what follows. */
static int copy_path(const char *path, size_t len, char ret[INIT_PATH_MAX + 1])
{
    if (len == 0 || len > INIT_PATH_MAX || path[0] == '/' ||
        memchr(path, 0, len))
        return EINVAL;
    memcpy(ret, path, len);
    ret[len] = '\0';
    return 0;
}

int broker_stat(int dir, const char *path, struct stat *ret)
{
    int fd cleanup(fd_close) = broker_beneath(dir, path, O_PATH | O_NOFOLLOW);

    if (fd < 0)
        return -fd;
    return fstat(fd, ret) < 0 ? errno : 0;
}

int broker_open(struct broker *b, const char *path, size_t len, int *ret_fd)
{
    char name[INIT_PATH_MAX + 1];
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int r = copy_path(path, len, name);

    if (r)
        return r;
    /* Non-blocking: opening a FIFO must not wait for a writer. */
    fd = broker_beneath(b->data, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return -fd;
    if (fstat(fd, &st) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode))
        return ENODEV;
    *ret_fd = take_fd(fd);
    return 0;
}

static void temp_name(uint32_t handle, char ret[40])
{
    (void)snprintf(ret, 40, BROKER_TEMP "%u", handle);
}

/* For file systems without unnamed files, as overlays before Linux 6.1: a
 * named file that listings hide. The session could open it, as all its files.
 */
static int create_named(struct broker *b, uint32_t handle, mode_t mode)
{
    char temp[40];

    temp_name(handle, temp);
    (void)unlinkat(b->data, temp, 0); /* a leftover of ours, or nothing */
    b->uploads[handle] =
        openat(b->data, temp,
               O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, mode);
    b->named[handle] = b->uploads[handle] >= 0;
    return b->uploads[handle] < 0 ? errno : 0;
}

int broker_create(struct broker *b, bool executable, uint32_t *ret_handle,
                  int *ret_fd)
{
    mode_t mode = executable ? 0755 : 0644;

    for (uint32_t i = 0; i < BROKER_UPLOADS_MAX; i++) {
        int r;

        if (b->uploads[i] >= 0)
            continue;
        b->uploads[i] =
            openat(b->data, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
        b->named[i] = false;
        r = b->uploads[i] < 0 ? errno : 0;
        if (r == EOPNOTSUPP || r == EISDIR)
            r = create_named(b, i, mode);
        if (r)
            return r;
        *ret_handle = i;
        *ret_fd = b->uploads[i];
        return 0;
    }
    return EMFILE;
}

int broker_discard(struct broker *b, uint32_t handle)
{
    if (handle >= BROKER_UPLOADS_MAX || b->uploads[handle] < 0)
        return EBADF;
    if (b->named[handle]) {
        char temp[40];

        temp_name(handle, temp);
        (void)unlinkat(b->data, temp, 0); /* may be gone already */
    }
    fd_close(&b->uploads[handle]);
    return 0;
}

/* Opens the parent folder of path, creating missing folders; *ret_last
 * points at the last component within path. */
static int open_parent(int data, char *path, bool make, int *ret_fd,
                       char **ret_last)
{
    int dir cleanup(fd_close) =
        broker_beneath(data, ".", O_DIRECTORY | O_RDONLY);
    char *part = path;

    if (dir < 0)
        return -dir;
    for (char *slash; (slash = strchr(part, '/')); part = slash + 1) {
        int next;

        *slash = '\0';
        if (make && mkdirat(dir, part, 0755) < 0 && errno != EEXIST)
            return errno;
        next = broker_beneath(dir, part, O_DIRECTORY | O_RDONLY | O_NOFOLLOW);
        if (next < 0)
            return -next;
        fd_close(&dir);
        dir = next;
        *slash = '/';
    }
    if (!*part)
        return EINVAL;
    *ret_last = part;
    *ret_fd = take_fd(dir);
    return 0;
}

/* Links an unnamed upload under a temporary name in the folder, to be renamed
 * over the final one: linkat cannot replace a file, renameat can. */
static int name_upload(int upload, int dir, const char *temp)
{
    char from[40];

    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", upload);
    (void)unlinkat(dir, temp, 0); /* a leftover of ours, or nothing */
    return linkat(AT_FDCWD, from, dir, temp, AT_SYMLINK_FOLLOW) < 0 ? errno
                                                                    : 0;
}

int broker_publish(struct broker *b, uint32_t handle, const char *path,
                   size_t len)
{
    char name[INIT_PATH_MAX + 1], temp[40];
    int dir cleanup(fd_close) = -1;
    char *last = name;
    bool named;
    int r;

    if (handle >= BROKER_UPLOADS_MAX || b->uploads[handle] < 0)
        return EBADF;
    r = copy_path(path, len, name);
    if (r == 0)
        r = open_parent(b->data, name, true, &dir, &last);
    if (r)
        return r;
    named = b->named[handle];
    temp_name(handle, temp);
    r = named ? 0 : name_upload(b->uploads[handle], dir, temp);
    if (r)
        return r;
    if (renameat(named ? b->data : dir, temp, dir, last) < 0) {
        r = errno;
        if (!named)
            (void)unlinkat(dir, temp, 0); /* undo the link */
        return r;
    }
    fd_close(&b->uploads[handle]);
    return 0;
}

int broker_remove(struct broker *b, const char *path, size_t len)
{
    char name[INIT_PATH_MAX + 1];
    int dir cleanup(fd_close) = -1;
    char *last = name;
    int r = copy_path(path, len, name);

    if (r == 0)
        r = open_parent(b->data, name, false, &dir, &last);
    if (r)
        return r;
    if (unlinkat(dir, last, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return errno;
    return unlinkat(dir, last, AT_REMOVEDIR) < 0 ? errno : 0;
}
