/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which walls this host can build, found by trying rather than by the kernel's
 * version. Runs in the warden, at set-up and for `glovebox doctor`.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "warden/warden_int.h"

#define NOBODY 65534

/* Real root, with ids to assign? In a user namespace of our own the map has
 * one line with one id. */
static bool has_uids(const struct warden *w)
{
    char *map cleanup(mem_free) = NULL;
    unsigned inner, outer, count;

    return geteuid() == 0 &&
           fd_read_file(AT_FDCWD, "/proc/self/uid_map", 4096, &map, NULL) ==
               0 &&
           sscanf(map, "%u %u %u", &inner, &outer, &count) == 3 &&
           count > 65536 && w->setup.uid_base < count;
}

/* Tried as an unprivileged user, like the zygote: root may do more. Where our
 * own id is the only one, changing it fails, and the zygote has our id. */
static bool has_userns(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        if (setresuid(NOBODY, NOBODY, NOBODY) < 0 && errno != EINVAL)
            _exit(1);
        _exit(unshare(CLONE_NEWUSER) < 0 ? 1 : 0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

uint32_t warden_posture_walls(const struct warden *w)
{
    uint32_t walls = w->groups ? sandbox_cgroup_walls(w->groups) : 0;

    if (has_uids(w))
        walls |= WARDEN_WALL_UIDS;
    if (has_userns())
        walls |= WARDEN_WALL_USERNS;
    if (syscall(SYS_landlock_create_ruleset, NULL, 0,
                LANDLOCK_CREATE_RULESET_VERSION) >= 1)
        walls |= WARDEN_WALL_LANDLOCK;
    if (w->filter_fd >= 0 && prctl(PR_GET_SECCOMP) >= 0)
        walls |= WARDEN_WALL_SECCOMP;
    if ((walls & WARDEN_WALL_UIDS) &&
        access("/dev/loop-control", R_OK | W_OK) == 0 &&
        access("/sbin/mke2fs", X_OK) == 0)
        walls |= WARDEN_WALL_SCRATCH;
    return walls;
}
