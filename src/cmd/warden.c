/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox-warden: the only privileged process. Started by gloveboxd with
 * one socket at descriptor 3, an empty environment and no other descriptor
 * that matters; or by hand with --doctor, to say what this host can do.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "fair/fair.h"
#include "warden/serve.h"

#define LINK_FD 3

static int map_self(uid_t uid, gid_t gid)
{
    char line[48];
    int r = fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");

    (void)snprintf(line, sizeof(line), "0 %u 1\n", uid);
    if (r == 0)
        r = fd_write_file(AT_FDCWD, "/proc/self/uid_map", line);
    (void)snprintf(line, sizeof(line), "0 %u 1\n", gid);
    if (r == 0)
        r = fd_write_file(AT_FDCWD, "/proc/self/gid_map", line);
    return r;
}

/* An ordinary user becomes root of a user namespace of their own: enough for
 * mounts and sessions, with the walls the host's own root would add missing.
 */
static int become_own_root(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();

    if (uid == 0)
        return 0;
    if (unshare(CLONE_NEWUSER) < 0)
        return -errno;
    return map_self(uid, gid);
}

/* ret_mounts: the namespace we leave, in which the daemon stays. */
static int hide(int *ret_mounts)
{
    struct rlimit no_core = {0, 0};
    struct rlimit files = {65536, 65536};

    *ret_mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (*ret_mounts < 0)
        return -errno;
    /* A mount namespace of our own: nothing we mount is seen outside. A slave
     * of the host's, so that what an administrator unmounts there is unmounted
     * here too, and its device becomes free. */
    if (unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return -errno;
    if (setrlimit(RLIMIT_CORE, &no_core) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return -errno;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0) { /* an ordinary user has less */
        (void)getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    umask(077);
    return 0;
}

static int run_warden(int sock)
{
    int mounts = -1;
    int r = become_own_root();

    if (r == 0)
        r = hide(&mounts);
    if (r < 0) {
        log_event(LOG_ERROR, "warden_failed", "errno", strerrorname_np(-r),
                  NULL);
        return 1;
    }
    fair_priority_raise(); /* requests for a sandbox wait for this process */
    return warden_serve_run(sock, mounts);
}

int main(int argc, char **argv)
{
    int type = 0;
    socklen_t len = sizeof(type);

    log_setup("warden", LOG_INFO, false);
    if (argc == 2 && strcmp(argv[1], "--doctor") == 0) {
        if (become_own_root() < 0)
            return 1;
        return warden_doctor_print();
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("glovebox-warden " GLOVEBOX_VERSION);
        return 0;
    }
    if (argc != 1 ||
        getsockopt(LINK_FD, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
        type != SOCK_SEQPACKET) {
        fputs("glovebox-warden is started by gloveboxd; on its own it takes "
              "--doctor or --version.\n",
              stderr);
        return 2;
    }
    (void)fcntl(LINK_FD, F_SETFD, FD_CLOEXEC); /* not for our helpers */
    return run_warden(LINK_FD);
}
