/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a fork of the warden to a zygote: builds the runtime's root in a new
 * mount namespace, gives up root for an unprivileged uid with no network and
 * execs the image's python3. Every step is checked; a failure ends the process
 * with a line on standard error.
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
/* A link that an import leaves: where the image's own python3 is. */
#define PYTHON_LINK "/opt/glovebox/python3"
/* For images without a usable Python; not readable either. */
#define PLAIN "/opt/glovebox/lib/glovebox-init"
/* Continues a stored zygote; not readable either. */
#define REVIVE "/opt/glovebox/lib/glovebox-revive"

static _Noreturn void zygote_fail(const char *step)
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
        zygote_fail("bind a folder read-only");
}

static void make_devices(const char *root)
{
    static const char *const nodes[] = {"null", "zero", "full", "random",
                                        "urandom"};
    char from[32], to[WARDEN_PATH_MAX + 128];

    (void)snprintf(to, sizeof(to), "%s/dev", root);
    if (mount("dev", to, "tmpfs", MS_NOSUID | MS_NOEXEC,
              "mode=0755,size=64k") < 0)
        zygote_fail("mount the zygote's /dev");
    for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
        int fd;

        (void)snprintf(from, sizeof(from), "/dev/%s", nodes[i]);
        (void)snprintf(to, sizeof(to), "%s/dev/%s", root, nodes[i]);
        fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (fd < 0)
            zygote_fail("name a device node");
        (void)close(fd);
        if (mount(from, to, NULL, MS_BIND, NULL) < 0)
            zygote_fail("bind a device node");
    }
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
        zygote_fail("make mounts private");
    bind_read_only(root, root);
    /* A second time, without mounts below it: the lower layer of every
     * session's root. */
    (void)snprintf(path, sizeof(path), "%s" SANDBOX_DATA, root);
    bind_read_only(root, path);
    (void)snprintf(path, sizeof(path), "%s/opt/glovebox/lib", root);
    bind_read_only(w->setup.kernel_dir, path);
    make_devices(root);
    (void)snprintf(path, sizeof(path), "%s/proc", root);

    /* An ordinary user may not mount /proc for a pid namespace of another
     * user; the existing one shows no more than that user can see. */
    int r = w->walls & WARDEN_WALL_UIDS
                ? mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                        "hidepid=invisible")
                : mount("/proc", path, NULL, MS_BIND | MS_REC, NULL);

    if (r < 0)
        zygote_fail("mount the zygote's /proc");

    (void)snprintf(path, sizeof(path), "%s/tmp", root);
    if (mount("tmp", path, "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=1777,size=64m") < 0)
        zygote_fail("mount the zygote's /tmp");
    (void)snprintf(path, sizeof(path), "%s" SANDBOX_HOME, root);
    if (mount("home", path, "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=0777,size=16m") < 0)
        zygote_fail("mount the zygote's home");
    if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        zygote_fail("change root to the image");
}

/* They get the numbers from ZYGOTE_SOCKET_FD on, in this order. */
static void arrange_fds(const int *fds, size_t count)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high[4];

    for (size_t i = 0; i < count; i++) {
        high[i] = fd_dup(fds[i], 64);
        if (high[i] < 0)
            zygote_fail("arrange descriptors");
    }
    if (null < 0 || dup3(null, STDIN_FILENO, 0) < 0 ||
        dup3(STDERR_FILENO, STDOUT_FILENO, 0) < 0)
        zygote_fail("arrange descriptors");
    for (size_t i = 0; i < count; i++)
        if (dup3(high[i], ZYGOTE_SOCKET_FD + (int)i, 0) < 0)
            zygote_fail("arrange descriptors");
    if (close_range((unsigned)(ZYGOTE_SOCKET_FD + count), ~0u, 0) < 0)
        zygote_fail("arrange descriptors");
}

/*
 * Some limits also count for the creator of a user namespace, which is the
 * zygote for all sessions: one session at its limit of, say, queued signals
 * would leave none for the others. So the zygote has no limits, and each
 * session sets its own. Without the right to raise them, the host's stay.
 */
static void lift_limits(void)
{
    static const int shared[] = {RLIMIT_NPROC, RLIMIT_SIGPENDING,
                                 RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE};

    for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
        struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

        if (setrlimit(shared[i], &none) < 0 && errno != EPERM)
            zygote_fail("lift the limits that sessions share");
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
        zygote_fail("give up root");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        zygote_fail("tie the zygote to the warden");
}

/* What a session inherits must not depend on how the service was started. */
static void reset_state(void)
{
    /* The kernel's struct sigaction: handler, flags, restorer, mask. */
    static const unsigned long as_born[4] = {(unsigned long)SIG_DFL, 0, 0, 0};
    sigset_t none;

    /* By system call: the C library reserves two signals for itself. KILL and
     * STOP cannot be set. */
    for (int number = 1; number < NSIG; number++)
        (void)syscall(SYS_rt_sigaction, number, &as_born, NULL,
                      (size_t)(NSIG - 1) / 8);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    (void)setsid();
}

/* Before the root is changed: the files are the host's. */
static void load_image(int stored, int ret[2])
{
    int r = zygote_image_load(stored, ret);

    if (r < 0) {
        errno = -r;
        zygote_fail("read the zygote's image");
    }
}

static _Noreturn void run_stored(const struct warden *w, int sock,
                                 const int image[2])
{
    const char *argv[] = {REVIVE, NULL};
    const char *environment[] = {NULL};
    int fds[] = {sock, image[0], image[1], open(PYTHON, O_RDONLY | O_CLOEXEC)};

    if (fds[3] < 0)
        fds[3] = image[0]; /* then it has another program, or none */
    arrange_fds(fds, ARRAY_SIZE(fds));
    lift_limits();
    drop_privilege(w);
    /* As for the image's python3, below. */
    if (!(w->walls & WARDEN_WALL_UIDS) && access(REVIVE, R_OK) < 0)
        zygote_fail("read glovebox-revive");
    (void)execve(REVIVE, (char *const *)argv, (char *const *)environment);
    zygote_fail("exec glovebox-revive");
}

_Noreturn void zygote_child_run(const struct warden *w, const char *image,
                                int sock, int spec_fd, int stored)
{
    char sock_text[8], spec_text[8];
    /* argv[0] names the readable python3, from which Python derives its
     * prefix. */
    char python[64] = "/usr/bin/python3";
    const char *argv[] = {python, DRIVER, sock_text, spec_text, NULL};
    const char *plain[] = {PLAIN, NULL};
    const int fds[] = {sock, spec_fd};
    int loaded[2] = {-1, -1};
    ssize_t n;
    const char *environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                 "HOME=" SANDBOX_HOME, "LANG=C.UTF-8", NULL};
    (void)snprintf(sock_text, sizeof(sock_text), "%d", ZYGOTE_SOCKET_FD);
    (void)snprintf(spec_text, sizeof(spec_text), "%d", ZYGOTE_SPEC_FD);
    reset_state();
    if (stored >= 0)
        load_image(stored, loaded);
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        zygote_fail("new namespaces");
    build_root(w, image);
    if (stored >= 0)
        run_stored(w, sock, loaded);
    arrange_fds(fds, ARRAY_SIZE(fds));
    if (lseek(ZYGOTE_SPEC_FD, 0, SEEK_SET) < 0)
        zygote_fail("rewind the spec");
    lift_limits();
    drop_privilege(w);
    if (access(PYTHON, F_OK) < 0 && errno == ENOENT) {
        (void)execve(PLAIN, (char *const *)plain, (char *const *)environment);
        zygote_fail("exec glovebox-init");
    }
    n = readlink(PYTHON_LINK, python, sizeof(python) - 1);
    if (n > 0)
        python[n] = '\0';
    /* The /proc entry of a process with an unreadable program belongs to root;
     * an ordinary user could not map the ids of its clones. */
    (void)execve(w->walls & WARDEN_WALL_UIDS ? PYTHON : argv[0],
                 (char *const *)argv, (char *const *)environment);
    zygote_fail("exec the image's python3");
}
