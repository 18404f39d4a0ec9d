/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside a guest, before a session's code: waits at the point where the
 * checkpoint is taken, and after being restored takes the session's grant,
 * gives up the guest's root and becomes pid 1 (init.c). Runs under gVisor,
 * whose kernel answers every system call here; a failed step ends the guest.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"
#include "wire/wire.h"

#define GROUPS "/sys/fs/cgroup" /* gVisor's */
#define AGAIN_NS 2000000L
#define CHANNELS_AT 64 /* above what its children use */

/* Until the checkpoint is restored this waits on a socket of the process that
 * takes it; that one closes, or fails, at some point in between. */
static void await_grant(struct guest_grant *ret, int *ret_filter)
{
    for (;;) {
        int fds[WIRE_FDS_MAX];
        size_t count = 0;
        ssize_t n = wire_recv(GUEST_CTL, ret, sizeof(*ret), fds, &count);

        if (n == (ssize_t)sizeof(*ret) && ret->magic == GUEST_MAGIC &&
            count == 1) {
            *ret_filter = fds[0];
            return;
        }
        for (size_t i = 0; i < count; i++)
            fd_close(&fds[i]);
        (void)nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
    }
}

static int map_id(const char *path)
{
    char line[32];

    (void)snprintf(line, sizeof(line), "%d 0 1\n", SANDBOX_UID);
    return fd_write_file(AT_FDCWD, path, line);
}

/* gVisor counts the guest's processes and threads in a control group of its
 * own, but for pid 1 and the kernel. The group is out of reach afterwards,
 * like the host's. */
static int limit_processes(uint32_t most)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", most > 3 ? most - 2 : 1);
    return fd_write_file(AT_FDCWD, GROUPS "/pids/pids.max", text);
}

/* What a namespace inherits cannot be unmounted in it, but covered. */
static int hide_groups(void)
{
    return mount("none", GROUPS, "tmpfs", MS_RDONLY, "mode=0555") < 0 ? -errno
                                                                      : 0;
}

/* From the guest's root, the owner of the session's files, to the session's
 * user: the same owner, seen from a user namespace. */
static int become_user(void)
{
    int r;

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return -errno;
    r = map_id("/proc/self/uid_map");
    if (r == 0)
        r = map_id("/proc/self/gid_map");
    if (r == 0 && mount("/run/shm", "/dev/shm", NULL, MS_BIND, NULL) < 0)
        r = -errno;
    if (r == 0)
        r = hide_groups();
    if (r == 0 && (getuid() != SANDBOX_UID || getgid() != SANDBOX_UID))
        r = -EPERM;
    return r;
}

/* Device nodes that gVisor always creates and a session does not need. Their
 * folder belongs to the session's user, so this is no wall. */
static void remove_devices(void)
{
    static const char *const nodes[] = {"/dev/fuse", "/dev/net/tun",
                                        "/dev/ptmx", "/dev/tty"};

    for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
        (void)unlink(nodes[i]); /* there may be none */
    (void)rmdir("/dev/net");
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};

    for (unsigned long cap = 0; cap <= CAP_LAST_CAP; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap); /* gVisor may know fewer */
    if (syscall(SYS_capset, &head, none) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0) < 0)
        return -errno;
    return 0;
}

static int set_limits(const struct warden_limits *l)
{
    const struct {
        int resource;
        rlim_t value;
    } limits[] = {
        {RLIMIT_CORE, 0},
        {RLIMIT_NOFILE, l->descriptors},
        /* The group alone is not exact: gVisor sometimes lets two more pass.
         */
        {RLIMIT_NPROC, l->processes},
        {RLIMIT_STACK, 8u << 20},
    };
    cpu_set_t all, mine;
    unsigned left = l->cores;

    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        struct rlimit r = {limits[i].value, limits[i].value};

        if (setrlimit(limits[i].resource, &r) < 0)
            return -errno;
    }
    umask(022);
    /* The group's quota holds whatever this says; programs ask it how many
     * threads to start. */
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        return 0;
    for (unsigned i = 0; left && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &mine);
            left--;
        }
    (void)sched_setaffinity(0, sizeof(mine), &mine);
    return 0;
}

/* The channels leave the standard numbers. */
static int move_channels(int ret[GUEST_CHANNELS])
{
    int null cleanup(fd_close) = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -errno;
    for (int i = 0; i < GUEST_CHANNELS; i++) {
        ret[i] = fd_dup(i, CHANNELS_AT);
        if (ret[i] < 0 || dup3(null, i, 0) < 0)
            return -errno;
    }
    return 0;
}

void guest_serve(struct kernel_seat *ret_seat)
{
    struct init_event ready = {.type = INIT_EVENT_READY, .pid = 1};
    struct init_event failed = {.type = INIT_EVENT_FAILED};
    struct sandbox_fds fds = {
        .upper = -1, .resolver = -1, .proxy = -1, .watch = -1, .runsc = -1};
    struct guest_grant grant;
    struct relay *relay;
    int channels[GUEST_CHANNELS] = {-1, -1, -1};
    int filter = -1, r;

    if (wire_send(GUEST_EVENTS, &ready, sizeof(ready), NULL, 0) < 0)
        _exit(1);
    await_grant(&grant, &filter);
    if (move_channels(channels) < 0)
        _exit(1);
    fds.ctl = channels[GUEST_CTL];
    fds.events = channels[GUEST_EVENTS];
    remove_devices();
    r = limit_processes(grant.spec.limits.processes);
    if (r == 0)
        r = become_user();
    if (r == 0)
        r = set_limits(&grant.spec.limits);
    if (r == 0)
        r = drop_capabilities();
    if (r == 0 && chdir(SANDBOX_DATA) < 0)
        r = -errno;
    relay = relay_new(true, channels[GUEST_RELAY]);
    if (r == 0 && grant.proxy)
        r = -relay_listen(relay);
    if (r == 0) /* last, so that it need not allow the above */
        r = guest_filter_load(filter);
    fd_close(&filter);
    if (r < 0) {
        failed.errnum = -r;
        (void)wire_send(fds.events, &failed, sizeof(failed), NULL, 0);
        _exit(1);
    }
    ret_seat->grant = grant.spec;
    ret_seat->image = init_run(&fds, &grant.spec, relay);
}
