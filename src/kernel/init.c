/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pid 1 of a session: an untouched clone of the zygote behind all walls, with
 * the session's uid and no capability. It starts, signals and reaps kernels
 * and shells and opens files for the daemon. It never runs user code, and user
 * code cannot read or signal it. When the daemon closes its end, pid 1 exits,
 * and with it everything inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
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
#define PLAIN_SHELL "/bin/sh"
#define SHELL_ARG_MAX 100000 /* longer scripts go by descriptor */
#define DYING_TRIES 20 /* until a kernel killed with the shell has ended */
#define DYING_NS 1000000L
#define HIGH_FD 32 /* above pid 1's, below the smallest limit (64) */

struct init {
    int ctl, events, signals;
    uint32_t cores;
    pid_t kernel, shell;
    pid_t helpers[INIT_HELPERS_MAX]; /* by number - 1 */
    struct points points;            /* copies of the kernel */
    bool shell_clean;                /* the shell that runs has no state */
    struct broker broker;
    struct scan scan;
    struct net net;
    struct guest guest;  /* supervised; guest.runsc is -1 if there is none */
    struct relay *relay; /* in a guest's pid 1, otherwise NULL */
    bool is_kernel;      /* we are the fork that returns to Python */
    int image;           /* is_kernel: to continue from, or -1 */
    char payload[INIT_REPLY_MAX];
};

/* A request with its descriptors, and its reply. */
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

    /* If the daemon is gone, ctl shows it. */
    (void)wire_send(in->events, &event, sizeof(event), NULL, 0);
}

static void note_death(struct init *in, pid_t pid, int status)
{
    if (pid == in->kernel) {
        in->kernel = 0;
        tell(in, INIT_EVENT_KERNEL, pid, status);
    } else if (pid == in->shell) {
        in->shell = 0;
        if (!in->shell_clean)
            shell_state_adopt(status);
        tell(in, INIT_EVENT_SHELL, pid, status);
    } else if (points_ended(&in->points, pid)) {
        tell(in, INIT_EVENT_POINT, pid, status);
    } else {
        for (size_t i = 0; i < INIT_HELPERS_MAX; i++)
            if (pid == in->helpers[i]) {
                in->helpers[i] = 0;
                tell(in, INIT_EVENT_HELPER, pid, status);
            }
    }
}

/* What killed the shell may have killed the kernel too, which takes longer to
 * end. Its death is reported first, so that the daemon sends it no cell. */
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
        if (in->guest.pid && pid == in->guest.pid)
            guest_lost(&in->guest, in->events);
        if (pid == in->shell && WIFSIGNALED(status) &&
            WTERMSIG(status) == SIGKILL)
            await_kernel(in);
        note_death(in, pid, status);
    }
}

union semun { /* as semctl(2) has its callers define it */
    int val;
    struct semid_ds *buf;
    struct seminfo *info;
};

/* Removes System V objects, when no other process is left. They outlive their
 * creator and count as the session's memory, so after a kernel that ran out of
 * memory a new one could not start. */
static void remove_ipc_objects(void)
{
    struct shm_info shm;
    struct shmid_ds shm_one;
    struct msginfo msg;
    struct msqid_ds msg_one;
    struct seminfo sem;
    struct semid_ds sem_one;
    int last;

    /* The highest index in use, or -1. */
    last = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&shm);
    for (int i = 0; i <= last; i++) {
        int id = shmctl(i, SHM_STAT, &shm_one);

        if (id >= 0)
            (void)shmctl(id, IPC_RMID, NULL);
    }
    last = msgctl(0, MSG_INFO, (struct msqid_ds *)(void *)&msg);
    for (int i = 0; i <= last; i++) {
        int id = msgctl(i, MSG_STAT, &msg_one);

        if (id >= 0)
            (void)msgctl(id, IPC_RMID, NULL);
    }
    last = semctl(0, 0, SEM_INFO, (union semun){.info = &sem});
    for (int i = 0; i <= last; i++) {
        int id = semctl(i, 0, SEM_STAT, (union semun){.buf = &sem_one});

        if (id >= 0)
            (void)semctl(id, 0, IPC_RMID);
    }
}

/* Kills every process but pid 1 at once: kill(-1) from pid 1 is atomic, so no
 * fork escapes. Then waits until none is left. */
static void kill_all(struct init *in)
{
    int status;
    pid_t pid;

    (void)kill(-1, SIGKILL); /* fails only when there is none */
    while ((pid = waitpid(-1, &status, 0)) > 0 || errno == EINTR)
        if (pid > 0)
            note_death(in, pid, status);
    remove_ipc_objects();
}

/* ---- starting things ---------------------------------------------------- */

/* In a fork: sets up the standard descriptors and closes pid 1's. keep becomes
 * descriptor KERNEL_FRAMES_FD, extra (or -1) INIT_EXTRA_FD. */
static void take_seat(struct init *in, int out, int err, int keep, int extra)
{
    sigset_t none;
    int high_out = fd_dup(out, HIGH_FD), high_err = fd_dup(err, HIGH_FD);
    int high_keep = fd_dup(keep, HIGH_FD);
    int high_extra = extra < 0 ? -1 : fd_dup(extra, HIGH_FD);

    (void)setsid();
    if (high_out < 0 || high_err < 0 || high_keep < 0 ||
        (extra >= 0 && high_extra < 0) ||
        dup3(high_out, STDOUT_FILENO, 0) < 0 ||
        dup3(high_err, STDERR_FILENO, 0) < 0 ||
        dup3(high_keep, KERNEL_FRAMES_FD, O_CLOEXEC) < 0 ||
        (extra >= 0 && dup3(high_extra, INIT_EXTRA_FD, 0) < 0))
        _exit(126);
    /* gVisor refuses a larger last number. Were they not closed, the session's
     * code would hold pid 1's channels. */
    if (close_range(extra < 0 ? INIT_EXTRA_FD : INIT_EXTRA_FD + 1, INT_MAX,
                    0) < 0)
        _exit(126);
    in->ctl = in->events = in->signals = in->broker.data = -1;
    in->scan.upper = -1;
    in->net.watch = in->net.resolver = in->net.proxy = -1;
    in->relay = NULL;
    /* Tools inside may inspect this process in /proc, unlike pid 1. */
    (void)prctl(PR_SET_DUMPABLE, 1);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Python ignores these two signals, and a shell would inherit that. */
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
}

/* An image is not woken in a process of the same number: libraries tell a fork
 * by its pid. The first kernel has the first pid. */
static void skip_pid(void)
{
    pid_t pid = vfork(); /* NOLINT: the child only exits */
    int status;

    if (pid == 0)
        _exit(0);
    if (pid > 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
}

static int start_kernel(struct init *in, struct call *c)
{
    int image = c->fd_count == 4 ? c->fds[3] : -1;
    pid_t pid;

    if (c->fd_count != 3 && c->fd_count != 4)
        return EINVAL;
    kill_all(in);
    if (c->req.arg != INIT_START_KEEP_SHELL)
        shell_state_forget();
    if (image >= 0)
        skip_pid();
    pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        take_seat(in, c->fds[1], c->fds[2], c->fds[0], image);
        in->image = image < 0 ? -1 : INIT_EXTRA_FD;
        in->is_kernel = true;
        return 0;
    }
    in->kernel = pid;
    c->reply.arg = (uint32_t)pid;
    return 0;
}

/* The zygote sets these to one, so that no library starts threads; a session
 * gets its cores. glovebox_grant.py does this for Python. */
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

/* Returns only if the image has no such program. An imported image may keep
 * bash elsewhere, or have a plain sh alone. */
static void exec_first_shell(const char *const *argv)
{
    static const char *const shells[] = {SHELL, "/usr/bin/bash",
                                         "/usr/local/bin/bash", PLAIN_SHELL};

    for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
        (void)execv(shells[i], (char *const *)argv);
}

/* In a fork; does not return. Short scripts are passed by -c, for the usual
 * error messages; long ones by descriptor. */
static void exec_shell(int code)
{
    static char script[SHELL_ARG_MAX + 1];
    const char *by_arg[] = {"bash", "-c", script, NULL};
    const char *by_fd[] = {"bash", "/dev/fd/3", NULL};
    ssize_t n = pread(code, script, sizeof(script), 0);

    if (n >= 0 && n <= SHELL_ARG_MAX && !memchr(script, 0, (size_t)n)) {
        script[n] = '\0';
        (void)close(code);
        exec_first_shell(by_arg);
    } else {
        (void)fcntl(code, F_SETFD, 0);
        exec_first_shell(by_fd);
    }
    _exit(127);
}

static int start_shell(struct init *in, struct call *c)
{
    pid_t pid;

    if (c->fd_count != 3 && c->fd_count != 4)
        return EINVAL;
    if (in->shell)
        return EBUSY;
    pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        take_seat(in, c->fds[1], c->fds[2], c->fds[0],
                  c->fd_count == 4 ? c->fds[3] : -1);
        if (chdir(SANDBOX_DATA) < 0)
            _exit(126);
        grant_threads(in->cores);
        if (c->req.arg != INIT_SHELL_CLEAN)
            shell_state_prepare();
        exec_shell(KERNEL_FRAMES_FD);
    }
    in->shell = pid;
    in->shell_clean = c->req.arg == INIT_SHELL_CLEAN;
    c->reply.arg = (uint32_t)pid;
    return 0;
}

/* In a fork; does not return. */
static void exec_helper(const struct init_request *req)
{
    char command[INIT_PATH_MAX + 1];
    const char *argv[] = {"sh", "-c", command, NULL};

    memcpy(command, req->path, req->path_len);
    command[req->path_len] = '\0';
    (void)fcntl(KERNEL_FRAMES_FD, F_SETFD, 0);
    (void)execv(PLAIN_SHELL, (char *const *)argv);
    _exit(127);
}

static int start_helper(struct init *in, struct call *c)
{
    pid_t *seat;
    int status;
    pid_t pid;

    if (c->fd_count != 4 || c->req.arg < 1 || c->req.arg > INIT_HELPERS_MAX ||
        memchr(c->req.path, 0, c->req.path_len))
        return EINVAL;
    seat = &in->helpers[c->req.arg - 1];
    pid = *seat;
    if (pid && kill(-pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid)
        note_death(in, pid, status);
    pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        take_seat(in, c->fds[1], c->fds[2], c->fds[0], c->fds[3]);
        if (chdir(SANDBOX_DATA) < 0)
            _exit(126);
        grant_threads(in->cores);
        exec_helper(&c->req);
    }
    *seat = pid;
    c->reply.arg = (uint32_t)pid;
    return 0;
}

static int signal_helper(struct init *in, uint32_t number, uint32_t what)
{
    pid_t pid = number <= INIT_HELPERS_MAX ? in->helpers[number - 1] : 0;

    if (what != INIT_SIGNAL_INTERRUPT && what != INIT_SIGNAL_KILL_SHELL)
        return EINVAL;
    if (!pid)
        return ESRCH;
    return kill(-pid, what == INIT_SIGNAL_INTERRUPT ? SIGINT : SIGKILL) < 0
               ? errno
               : 0;
}

static int send_signal(struct init *in, struct call *c)
{
    if (c->req.arg >= INIT_SIGNAL_HELPER(1))
        return signal_helper(in, c->req.arg >> 8, c->req.arg & 0xff);
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

/* ---- serving ------------------------------------------------------------ */

/* The arg of a SCAN. */
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
    net_serve(&in->net); /* takes lookups that the program did not wait for */
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

static int do_network(struct init *in, struct call *c)
{
    int r;

    if (in->relay)
        return relay_listen(in->relay); /* the supervisor knows the rest */
    r = net_request(&in->net, c->req.arg, in->payload, &c->reply,
                    &c->reply_fd);
    if (r == 0 && c->req.arg == INIT_NETWORK_PROXY && in->guest.runsc >= 0)
        guest_open_proxy(&in->guest, in->events);
    return r;
}

static int dispatch(struct init *in, struct call *c)
{
    if (in->guest.runsc >= 0 && guest_answers(c->req.type))
        return guest_forward(&in->guest, in->events, &c->req, c->fds,
                             c->fd_count, &c->reply);
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
        return do_network(in, c);
    case INIT_ENVIRONMENT:
        return c->fd_count == 1 ? guest_env_set(c->fds[0]) : EINVAL;
    case INIT_CA:
        return guest_ca_set(c->fd_count == 1 ? c->fds[0] : -1);
    case INIT_HELPER:
        return start_helper(in, c);
    case INIT_POINT:
        if (in->guest.runsc >= 0 || in->relay)
            return ENOTSUP;
        return points_request(&in->points, c->req.arg, &in->kernel,
                              &c->reply.arg);
    }
    return EINVAL;
}

static void serve_one(struct init *in)
{
    struct call c = {.reply_fd = -1};
    ssize_t n = wire_recv(in->ctl, &c.req, sizeof(c.req), c.fds, &c.fd_count);

    if (n != (ssize_t)sizeof(c.req) || c.req.path_len > INIT_PATH_MAX)
        _exit(0); /* the daemon is gone, or breaks the protocol */
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
    /* Uploads stay open until they are published, and so do sockets. */
    if (c.req.type == INIT_OPEN)
        fd_close(&c.reply_fd);
}

enum {
    AT_CTL,
    AT_SIGNALS,
    AT_WATCH,
    AT_RESOLVER,
    AT_PROXY,
    AT_GUEST,
    AT_RELAY, /* and those after it */
    AT_COUNT = AT_RELAY + RELAY_POLLS_MAX
};

/* The way to the proxy, on either side of a guest. A guest that breaks it is
 * ended; in a guest, pid 1 ends. */
static void serve_relay(struct init *in, const struct pollfd *polls)
{
    struct relay *relay = in->relay ? in->relay : in->guest.relay;

    if (!relay || relay_serve(relay, polls))
        return;
    if (in->relay)
        _exit(1);
    guest_lost(&in->guest, in->events);
}

int init_run(const struct sandbox_fds *fds, const struct sandbox_spec *spec,
             struct relay *relay)
{
    static struct init in; /* one per process; this process is pid 1 */
    sigset_t mask;
    struct pollfd polls[AT_COUNT] = {0};
    nfds_t count;

    in = (struct init){.ctl = fds->ctl,
                       .events = fds->events,
                       .cores = spec->limits.cores,
                       .relay = relay};
    guest_setup(&in.guest, fds, spec);
    scan_start(&in.scan, fds->upper, spec->layers > 0);
    net_start(&in.net, fds);
    for (size_t i = 0; i < BROKER_UPLOADS_MAX; i++)
        in.broker.uploads[i] = -1;
    /* Blocks all signals, so that handlers installed by Python never run here;
     * children unblock them. */
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
        polls[AT_GUEST] =
            (struct pollfd){.fd = in.guest.runsc >= 0 ? in.guest.events : -1,
                            .events = POLLIN};
        relay = in.relay ? in.relay : in.guest.relay;
        count = AT_RELAY + (relay ? relay_polls(relay, polls + AT_RELAY) : 0);
        if (poll(polls, count, -1) < 0 && errno != EINTR)
            _exit(1);
        if (relay)
            serve_relay(&in, polls + AT_RELAY);
        if (polls[AT_GUEST].revents && in.guest.pid)
            guest_on_event(&in.guest, in.events);
        while (read(in.signals, &info, sizeof(info)) > 0)
            ; /* waitpid finds all of them */
        reap(&in);
        if (polls[AT_WATCH].revents || polls[AT_RESOLVER].revents ||
            polls[AT_PROXY].revents)
            net_serve(&in.net);
        if (polls[AT_CTL].revents)
            serve_one(&in);
    }
    return in.image;
}
