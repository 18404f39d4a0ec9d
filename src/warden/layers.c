/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers: folders that the daemon owns and that are mounted, read-only, below
 * what a session writes to /mnt/data. Each becomes a detached, id-mapped mount
 * that shows the service user's files as the session user's. An overlay made
 * by the session can show, copy up and hide them, but nothing can write to
 * them. Whether the host's kernel and the file system of the data directory
 * support this is tested once, at set-up.
 *
 * Runs in the warden as root. It uses the descriptors it received, opens
 * nothing in such a folder, and accepts only folders of the service user.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "warden/warden_int.h"

#define STAGE "/tmp" /* covered, in a mount namespace of its own */

/* ---- owners ------------------------------------------------------------- */

static int write_map(pid_t pid, const char *name, uint32_t from, uint32_t to)
{
    char path[48], line[48];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    (void)snprintf(line, sizeof(line), "%u %u 1\n", from, to);
    return fd_write_file(AT_FDCWD, path, line);
}

/* Keeps its user namespace alive until the parent kills it. It holds no
 * descriptor: one that outlived a killed warden would keep the lock on the
 * scratch folder and a loop device. The parent may have died before the first
 * line here, in which case no signal comes. */
static _Noreturn void hold_namespace(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)close_range(0, ~0U, 0);
    while (getppid() == parent)
        (void)pause();
    _exit(1);
}

/* A user namespace that maps the daemon's ids to the session's host uid. Only
 * a process can create one; this child exists for nothing else. */
static int make_map(const struct warden *w, uid_t to)
{
    pid_t parent = getpid();
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    char path[48];
    int fd cleanup(fd_close) = -1;
    int r;

    if (pid < 0)
        return -errno;
    if (pid == 0)
        hold_namespace(parent);
    r = write_map((pid_t)pid, "gid_map", w->daemon_gid, to);
    if (r == 0)
        r = write_map((pid_t)pid, "uid_map", w->daemon_uid, to);
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        r = fd < 0 ? -errno : 0;
    }
    (void)kill((pid_t)pid, SIGKILL); /* our child, not reaped before this */
    while (waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r < 0 ? r : take_fd(fd);
}

static bool is_daemons(const struct warden *w, int folder)
{
    struct stat st;

    return fstat(folder, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == w->daemon_uid && st.st_gid == w->daemon_gid;
}

/* ---- the mount ---------------------------------------------------------- */

static int clone_mount(int folder)
{
    int fd = open_tree(folder, "",
                       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

    return fd < 0 ? -errno : fd;
}

/* A mount can be cloned only inside its own mount namespace, which is the
 * daemon's; so the warden enters it and returns. */
static int clone_daemons(const struct warden *w, int folder)
{
    int fd;

    if (w->daemon_mounts < 0)
        return clone_mount(folder);
    if (setns(w->daemon_mounts, CLONE_NEWNS) < 0)
        return -errno;
    fd = clone_mount(folder);
    if (setns(w->own_mounts, CLONE_NEWNS) < 0)
        abort(); /* never serve requests in the host's mount namespace */
    return fd;
}

/* Turns a detached mount into a layer. */
static int make_layer(int mount_fd, int map)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                    MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME,
        .attr_clr = MOUNT_ATTR__ATIME,
        .userns_fd = (uint64_t)map,
    };

    if (mount_fd < 0)
        return mount_fd;
    return mount_setattr(mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0
               ? -errno
               : 0;
}

int layers_prepare(const struct warden *w, struct slot *s)
{
    if (s->map_fd < 0)
        s->map_fd = make_map(w, w->setup.uid_base + s->number);
    return s->map_fd < 0 ? s->map_fd : 0;
}

int layers_open(const struct warden *w, struct slot *s, const int *folders,
                size_t count, int *ret_mounts)
{
    size_t made = 0;
    int r;

    if (!count)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!is_daemons(w, folders[i]))
            return -EPERM;
    r = layers_prepare(w, s);
    while (r == 0 && made < count) {
        ret_mounts[made] = clone_daemons(w, folders[made]);
        r = make_layer(ret_mounts[made++], s->map_fd);
    }
    while (r < 0 && made)
        fd_close(&ret_mounts[--made]);
    return r;
}

/* ---- can it be done here? ----------------------------------------------- */

/* In a child: tries an overlay on the mount. */
static bool lay_over(int mount_fd)
{
    return unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("stage", STAGE, "tmpfs", 0, "mode=0700,size=64k") == 0 &&
           mkdir(STAGE "/over", 0700) == 0 &&
           mkdir(STAGE "/below", 0700) == 0 &&
           move_mount(mount_fd, "", AT_FDCWD, STAGE "/below",
                      MOVE_MOUNT_F_EMPTY_PATH) == 0 &&
           mount("try", STAGE, "overlay", MS_RDONLY,
                 "userxattr,lowerdir=" STAGE "/over:" STAGE "/below") == 0;
}

bool layers_possible(const struct warden *w, int folder)
{
    int map cleanup(fd_close) = make_map(w, w->setup.uid_base);
    int fd cleanup(fd_close) = -1;
    int status = 0;
    pid_t pid;

    if (map < 0)
        return false;
    fd = clone_mount(folder);
    if (make_layer(fd, map) < 0)
        return false;
    pid = fork();
    if (pid == 0)
        _exit(lay_over(fd) ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}
