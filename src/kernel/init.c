/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of pid 1 of a session: an untouched copy of the zygote, sealed,
 * with the session's own uid and no capability. It starts kernels and
 * shells, reaps, signals, and opens files for the daemon. It never runs user
 * code, and user code cannot read or signal it. When the daemon's end closes
 * it exits, and with it everything inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"
#include "wire/wire.h"

#define SHELL "/bin/bash"
#define SHELL_ARG_MAX 100000 /* longer scripts go by descriptor */
#define DYING_TRIES 20       /* for a kernel that was killed with the shell */
#define DYING_NS 1000000L
#define HIGH_FD 32 /* above ours, below the least limit (64) */

struct init {
    int ctl, events, signals;
    uint32_t cores;
    pid_t kernel, shell;
    struct broker broker;
    struct scan scan;
    struct net net;
    bool is_kernel; /* we are the fork that returns to Python */
    char payload[INIT_REPLY_MAX];
};

/* A request with what came beside it, and the reply being made. */
struct call {
    struct init_request req;
    int fds[WIRE_FDS_MAX];
    size_t fd_count;
    struct init_reply reply;
    int reply_fd;
};

static void tell(struct init *in, uint32_t type, pid_t pid, int status)
{
    struct init_event event = {
        .type = type, .wait_status = status, .pid = (uint32_t)pid};

    /* A daemon that is gone is noticed on ctl. */
    (void)wire_send(in->events, &event, sizeof(event), NULL, 0);
}

static void note_death(struct init *in, pid_t pid, int status)
{
    if (pid == in->kernel) {
        in->kernel = 0;
        tell(in, INIT_EVENT_KERNEL, pid, status);
    } else if (pid == in->shell) {
        in->shell = 0;
        tell(in, INIT_EVENT_SHELL, pid, status);
    }
}

/* Who kills the shell may have killed the interpreter with it, which takes
 * longer to go. It is told of first, so that nobody gives it a cell. */
static void await_kernel(struct init *in)
{
    int status;

    for (int i = 0; in->kernel && i < DYING_TRIES; i++) {
        if (waitpid(in->kernel, &status, WNOHANG) == in->kernel)
            note_death(in, in->kernel, status);
        else
            (void)nanosleep(&(struct timespec){.tv_nsec = DYING_NS}, NULL);
    }
}

static void reap(struct init *in)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == in->shell && WIFSIGNALED(status) &&
            WTERMSIG(status) == SIGKILL)
            await_kernel(in);
        note_death(in, pid, status);
    }
}

/* Everything but us, at once: a kill of -1 from pid 1 leaves no gap for a
 * fork to slip through. Then wait until nothing is left. */
static void kill_all(struct init *in)
{
    int status;
    pid_t pid;

    (void)kill(-1, SIGKILL); /* fails only when there is nobody */
    while ((pid = waitpid(-1, &status, 0)) > 0 || errno == EINTR)
        if (pid > 0)
            note_death(in, pid, status);
    init_forget_ipc();
}

/* ---- starting things ------------------------------------------------------
 */

/* In a fork: standard descriptors in place, pid 1's own gone. */
static void take_seat(struct init *in, int out, int err, int keep)
{
    sigset_t none;
    int high_out = fd_dup(out, HIGH_FD), high_err = fd_dup(err, HIGH_FD);
    int high_keep = keep < 0 ? -1 : fd_dup(keep, HIGH_FD);

    (void)setsid();
    if (high_out < 0 || high_err < 0 || (keep >= 0 && high_keep < 0) ||
        dup3(high_out, STDOUT_FILENO, 0) < 0 ||
        dup3(high_err, STDERR_FILENO, 0) < 0)
        _exit(126);
    if (keep >= 0 && dup3(high_keep, KERNEL_FRAMES_FD, O_CLOEXEC) < 0)
        _exit(126);
    (void)close_range(keep < 0 ? KERNEL_FRAMES_FD : KERNEL_FRAMES_FD + 1, ~0u,
                      0);
    in->ctl = in->events = in->signals = in->broker.data = -1;
    in->scan.upper = -1;
    in->net.watch = in->net.resolver = in->net.proxy = -1;
    /* Tools inside may look at this process in /proc, unlike at pid 1. */
    (void)prctl(PR_SET_DUMPABLE, 1);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Python ignores these two, and a shell would inherit that. */
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
}

static int start_kernel(struct init *in, struct call *c)
{
    pid_t pid;

    if (c->fd_count != 3)
        return EINVAL;
    kill_all(in);
    pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        take_seat(in, c->fds[1], c->fds[2], c->fds[0]);
        in->is_kernel = true;
        return 0;
    }
    in->kernel = pid;
    c->reply.arg = (uint32_t)pid;
    return 0;
}

/* The zygote had one thread for all of these, so that no library would start
 * more; a session has its cores. glovebox_grant.py does this for Python. */
static void grant_threads(uint32_t cores)
{
    static const char *const names[] = {
        "OMP_NUM_THREADS",   "OPENBLAS_NUM_THREADS",   "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",  "NUMEXPR_NUM_THREADS",    "NUMEXPR_MAX_THREADS",
        "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "POLARS_MAX_THREADS",
        "RAYON_NUM_THREADS", "PYTHON_CPU_COUNT",       "LOKY_MAX_CPU_COUNT",
    };
    char count[12];

    (void)snprintf(count, sizeof(count), "%u", cores);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        (void)setenv(names[i], count, 1); /* no memory: fewer threads */
}

/* In a fork; does not return. Short scripts go by -c, for error messages
 * people know; others by descriptor. */
static void exec_shell(int code)
{
    static char script[SHELL_ARG_MAX + 1];
    const char *by_arg[] = {"bash", "-c", script, NULL};
    const char *by_fd[] = {"bash", "/dev/fd/3", NULL};
    ssize_t n = pread(code, script, sizeof(script), 0);

    if (n >= 0 && n <= SHELL_ARG_MAX && !memchr(script, 0, (size_t)n)) {
        script[n] = '\0';
        (void)close(code);
        (void)execv(SHELL, (char *const *)by_arg);
    } else {
        (void)fcntl(code, F_SETFD, 0);
        (void)execv(SHELL, (char *const *)by_fd);
    }
    _exit(127);
}

static int start_shell(struct init *in, struct call *c)
{
    pid_t pid;

    if (c->fd_count != 3)
        return EINVAL;
    if (in->shell)
        return EBUSY;
    pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        take_seat(in, c->fds[1], c->fds[2], c->fds[0]);
        if (chdir(SANDBOX_DATA) < 0)
            _exit(126);
        grant_threads(in->cores);
        exec_shell(KERNEL_FRAMES_FD);
    }
    in->shell = pid;
    c->reply.arg = (uint32_t)pid;
    return 0;
}

static int send_signal(struct init *in, struct call *c)
{
    switch ((enum init_signal)c->req.arg) {
    case INIT_SIGNAL_INTERRUPT:
        if (in->shell)
            return kill(-in->shell, SIGINT) < 0 ? errno : 0;
        if (in->kernel)
            return kill(-in->kernel, SIGINT) < 0 ? errno : 0;
        return ESRCH;
    case INIT_SIGNAL_KILL_SHELL:
        if (!in->shell)
            return ESRCH;
        return kill(-in->shell, SIGKILL) < 0 ? errno : 0;
    case INIT_SIGNAL_KILL_ALL:
        kill_all(in);
        return 0;
    }
    return EINVAL;
}

/* ---- serving ---------------------------------------------------------------
 */

/* What a scan is asked for, in its arg. */
enum {
    SCAN_GO_ON = 1,
    SCAN_ALL = 2
};

static int do_scan(struct init *in, struct call *c)
{
    struct statvfs vfs;
    int r = c->req.arg == SCAN_GO_ON
                ? 0
                : scan_compare(&in->scan, c->req.arg == SCAN_ALL);

    if (r < 0)
        return -r;
    c->reply.payload_len = (uint32_t)scan_page(
        &in->scan, in->payload, sizeof(in->payload), &c->reply.arg);
    if (fstatvfs(in->broker.data, &vfs) < 0)
        return errno;
    net_serve(&in->net); /* a lookup may have been sent and not waited for */
    c->reply.blocked = net_pending(&in->net);
    c->reply.scratch_free_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    c->reply.scratch_free_inodes = vfs.f_favail;
    return 0;
}

static int do_list(struct init *in, struct call *c)
{
    size_t len = 0;
    int r =
        scan_tree(in->broker.data, c->req.path, c->req.path_len, c->req.arg,
                  in->payload, sizeof(in->payload), &len, &c->reply.arg);

    c->reply.payload_len = (uint32_t)len;
    return -r;
}

static int do_publish(struct init *in, struct call *c)
{
    struct scan_mark mark =
        scan_before(&in->scan, in->broker.data, c->req.path, c->req.path_len);
    int r =
        broker_publish(&in->broker, c->req.arg, c->req.path, c->req.path_len);

    if (r == 0)
        scan_after(&in->scan, c->req.path, c->req.path_len, mark);
    return r;
}

static int do_remove(struct init *in, struct call *c)
{
    struct scan_mark mark =
        scan_before(&in->scan, in->broker.data, c->req.path, c->req.path_len);
    int r = broker_remove(&in->broker, c->req.path, c->req.path_len);

    if (r == 0)
        scan_after(&in->scan, c->req.path, c->req.path_len, mark);
    return r;
}

static int dispatch(struct init *in, struct call *c)
{
    switch ((enum init_request_type)c->req.type) {
    case INIT_START:
        return start_kernel(in, c);
    case INIT_SHELL:
        return start_shell(in, c);
    case INIT_SIGNAL:
        return send_signal(in, c);
    case INIT_SCAN:
        return do_scan(in, c);
    case INIT_OPEN:
        return broker_open(&in->broker, c->req.path, c->req.path_len,
                           &c->reply_fd);
    case INIT_CREATE:
        return broker_create(&in->broker, c->req.arg != 0, &c->reply.arg,
                             &c->reply_fd);
    case INIT_PUBLISH:
        return do_publish(in, c);
    case INIT_DISCARD:
        return broker_discard(&in->broker, c->req.arg);
    case INIT_REMOVE:
        return do_remove(in, c);
    case INIT_LIST:
        return do_list(in, c);
    case INIT_NETWORK:
        return net_request(&in->net, c->req.arg, in->payload, &c->reply,
                           &c->reply_fd);
    case INIT_ENVIRONMENT:
        return c->fd_count == 1 ? surround_environment(c->fds[0]) : EINVAL;
    case INIT_CA:
        return surround_ca(c->fd_count == 1 ? c->fds[0] : -1);
    }
    return EINVAL;
}

static void serve_one(struct init *in)
{
    struct call c = {.reply_fd = -1};
    ssize_t n = wire_recv(in->ctl, &c.req, sizeof(c.req), c.fds, &c.fd_count);

    if (n != (ssize_t)sizeof(c.req) || c.req.path_len > INIT_PATH_MAX)
        _exit(0); /* the daemon is gone, or no longer itself */
    c.reply.seq = c.req.seq;
    c.reply.errnum = dispatch(in, &c);
    if (in->is_kernel)
        return;
    if (c.reply.errnum)
        c.reply.payload_len = 0;
    if (wire_send2(in->ctl, &c.reply, sizeof(c.reply), in->payload,
                   c.reply.payload_len, &c.reply_fd, c.reply_fd >= 0) < 0)
        _exit(0);
    for (size_t i = 0; i < c.fd_count; i++)
        fd_close(&c.fds[i]);
    /* Ours stay open: an upload's until it is published, and sockets. */
    if (c.req.type == INIT_OPEN)
        fd_close(&c.reply_fd);
}

enum {
    AT_CTL,
    AT_SIGNALS,
    AT_WATCH,
    AT_RESOLVER,
    AT_PROXY,
    AT_COUNT
};

void init_run(const struct sandbox_fds *fds, const struct sandbox_spec *spec)
{
    static struct init in; /* one per process; this process is pid 1 */
    sigset_t mask;
    struct pollfd polls[AT_COUNT];

    in = (struct init){
        .ctl = fds->ctl, .events = fds->events, .cores = spec->limits.cores};
    scan_start(&in.scan, fds->upper, spec->layers > 0);
    net_start(&in.net, fds);
    for (size_t i = 0; i < BROKER_UPLOADS_MAX; i++)
        in.broker.uploads[i] = -1;
    /* None gets through, so that what Python left as handlers never runs
     * here; children unblock them. */
    (void)sigfillset(&mask);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
        _exit(1);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGCHLD);
    in.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    in.broker.data =
        open(SANDBOX_DATA, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (in.signals < 0 || in.broker.data < 0)
        _exit(1);
    polls[AT_CTL] = (struct pollfd){.fd = in.ctl, .events = POLLIN};
    polls[AT_SIGNALS] = (struct pollfd){.fd = in.signals, .events = POLLIN};
    polls[AT_WATCH] = (struct pollfd){.fd = in.net.watch, .events = POLLIN};
    while (!in.is_kernel) {
        struct signalfd_siginfo info;

        polls[AT_RESOLVER] = (struct pollfd){
            .fd = in.net.taken ? -1 : in.net.resolver, .events = POLLIN};
        polls[AT_PROXY] =
            (struct pollfd){.fd = net_turns_away(&in.net) ? in.net.proxy : -1,
                            .events = POLLIN};
        if (poll(polls, ARRAY_SIZE(polls), -1) < 0 && errno != EINTR)
            _exit(1);
        while (read(in.signals, &info, sizeof(info)) > 0)
            ; /* one is as good as many */
        reap(&in);
        if (polls[AT_WATCH].revents || polls[AT_RESOLVER].revents ||
            polls[AT_PROXY].revents)
            net_serve(&in.net);
        if (polls[AT_CTL].revents)
            serve_one(&in);
    }
}
