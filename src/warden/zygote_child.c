/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a fork of the warden to a zygote: builds the runtime's root in a mount
 * namespace of its own, gives up root for an unprivileged uid with no network
 * and execs the image's python3. Every step is checked; a failure ends the
 * process with a line on standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "warden/warden_int.h"
#include "wire/zygote_msg.h"

/* Executable but not readable for others: a session cannot open its own
 * /proc/self/exe and so cannot lock or watch the inode that all sessions of
 * this zygote share. */
#define PYTHON "/opt/glovebox/python"
#define DRIVER "/opt/glovebox/lib/glovebox_zygote.py"

static _Noreturn void fail(const char *step)
{
    log_event(LOG_ERROR, "zygote_failed", "step", step, "errno",
              strerrorname_np(errno), NULL);
    _exit(1);
}

static void bind_read_only(const char *from, const char *to)
{
    if (mount(from, to, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, to, NULL,
              MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV,
              NULL) < 0)
        fail("bind a folder read-only");
}

static void make_devices(const char *root)
{
    static const char *const nodes[] = {"null", "zero", "full", "random",
                                        "urandom"};
    char from[32], to[WARDEN_PATH_MAX + 128];

    (void)snprintf(to, sizeof(to), "%s/dev", root);
    if (mount("dev", to, "tmpfs", MS_NOSUID | MS_NOEXEC,
              "mode=0755,size=64k") < 0)
        fail("mount the zygote's /dev");
    for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
        int fd;

        (void)snprintf(from, sizeof(from), "/dev/%s", nodes[i]);
        (void)snprintf(to, sizeof(to), "%s/dev/%s", root, nodes[i]);
        fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (fd < 0)
            fail("name a device node");
        (void)close(fd);
        if (mount(from, to, NULL, MS_BIND, NULL) < 0)
            fail("bind a device node");
    }
}

/* An ordinary user may not mount one for a pid namespace that is not theirs;
 * what they have already shows them no more than they could see anyway. */
static void mount_proc(const struct warden *w, const char *path)
{
    int r = w->walls & WARDEN_WALL_UIDS
                ? mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                        "hidepid=invisible")
                : mount("/proc", path, NULL, MS_BIND | MS_REC, NULL);

    if (r < 0)
        fail("mount the zygote's /proc");
}

/*
 * Root, every capability, own mount namespace. The image stays where it is
 * and becomes the root; the host's tree is detached. /proc must be whole and
 * uncovered here, or the kernel refuses sessions a /proc of their own; that
 * of other users' processes is hidden.
 */
static void build_root(const struct warden *w, const char *image)
{
    char root[WARDEN_PATH_MAX + WARDEN_NAME_MAX + 8], path[sizeof(root) + 64];

    (void)snprintf(root, sizeof(root), "%s/%s/root", w->setup.cache_dir,
                   image);
    /* Private, unlike the warden's: nothing that the host mounts below the
     * image later may reach a session. The host's own mounts leave with the
     * old root. */
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        fail("make mounts private");
    bind_read_only(root, root);
    /* Once more, without anything mounted below it: what sessions lay their
     * own root over. */
    (void)snprintf(path, sizeof(path), "%s" SANDBOX_DATA, root);
    bind_read_only(root, path);
    (void)snprintf(path, sizeof(path), "%s/opt/glovebox/lib", root);
    bind_read_only(w->setup.kernel_dir, path);
    make_devices(root);
    (void)snprintf(path, sizeof(path), "%s/proc", root);
    mount_proc(w, path);
    (void)snprintf(path, sizeof(path), "%s/tmp", root);
    if (mount("tmp", path, "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=1777,size=64m") < 0)
        fail("mount the zygote's /tmp");
    (void)snprintf(path, sizeof(path), "%s" SANDBOX_HOME, root);
    if (mount("home", path, "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=0777,size=16m") < 0)
        fail("mount the zygote's home");
    if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        fail("change root to the image");
}

static void arrange_fds(int sock, int spec_fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high_sock = fd_dup(sock, 64), high_spec = fd_dup(spec_fd, 64);

    if (null < 0 || high_sock < 0 || high_spec < 0 ||
        dup3(null, STDIN_FILENO, 0) < 0 ||
        dup3(STDERR_FILENO, STDOUT_FILENO, 0) < 0 ||
        dup3(high_sock, ZYGOTE_SOCKET_FD, 0) < 0 ||
        dup3(high_spec, ZYGOTE_SPEC_FD, 0) < 0 ||
        close_range(ZYGOTE_SPEC_FD + 1, ~0u, 0) < 0)
        fail("arrange descriptors");
    if (lseek(ZYGOTE_SPEC_FD, 0, SEEK_SET) < 0)
        fail("rewind the spec");
}

/*
 * Some limits are also counted for the maker of a user namespace, and that is
 * the zygote for all sessions: left as they are, one session at its own limit
 * of, say, queued signals would leave the others none. Their own, smaller
 * limits are set in each session; here there is none. Who lacks the right to
 * raise them, an ordinary user or a root that is kept short, keeps the host's.
 */
static void lift_limits(void)
{
    static const int shared[] = {RLIMIT_NPROC, RLIMIT_SIGPENDING,
                                 RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE};

    for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
        struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

        if (setrlimit(shared[i], &none) < 0 && errno != EPERM)
            fail("lift the limits that sessions share");
    }
}

/* From root to the zygote's uid: no capability outside survives this, and
 * none is regained by exec. */
static void drop_privilege(const struct warden *w)
{
    uid_t uid = w->walls & WARDEN_WALL_UIDS ? w->setup.uid_base : getuid();

    if ((w->walls & WARDEN_WALL_UIDS) &&
        (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
         setresuid(uid, uid, uid) < 0))
        fail("give up root");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        fail("tie the zygote to the warden");
}

/* What a session inherits must not depend on who started the service. */
static void reset_state(void)
{
    /* The kernel's struct sigaction: handler, flags, restorer, mask. */
    static const unsigned long as_born[4] = {(unsigned long)SIG_DFL, 0, 0, 0};
    sigset_t none;

    /* Past the C library, which keeps two signals from us for itself. KILL
     * and STOP cannot be set, and need not. */
    for (int number = 1; number < NSIG; number++)
        (void)syscall(SYS_rt_sigaction, number, &as_born, NULL,
                      (size_t)(NSIG - 1) / 8);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    (void)setsid();
}

_Noreturn void zygote_child_run(const struct warden *w, const char *image,
                                int sock, int spec_fd)
{
    char sock_text[8], spec_text[8];
    /* argv[0] names the readable python3, from which Python derives its
     * prefix. */
    const char *argv[] = {"/usr/bin/python3", DRIVER, sock_text, spec_text,
                          NULL};
    const char *environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                 "HOME=" SANDBOX_HOME, "LANG=C.UTF-8", NULL};
    (void)snprintf(sock_text, sizeof(sock_text), "%d", ZYGOTE_SOCKET_FD);
    (void)snprintf(spec_text, sizeof(spec_text), "%d", ZYGOTE_SPEC_FD);
    reset_state();
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        fail("new namespaces");
    build_root(w, image);
    arrange_fds(sock, spec_fd);
    lift_limits();
    drop_privilege(w);
    /* A process of an unreadable program belongs to root in /proc, where an
     * ordinary user could not map its clones' ids. */
    (void)execve(w->walls & WARDEN_WALL_UIDS ? PYTHON : argv[0],
                 (char *const *)argv, (char *const *)environment);
    fail("exec the image's python3");
}
