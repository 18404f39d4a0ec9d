/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of a guest: pid 1 of a session in the tier "gvisor". It
 * stands in the session's namespaces, control groups and host uid, runs runsc
 * there, and passes on requests that concern the session's processes. Files
 * are not the guest's to answer for: the supervisor has them mounted too
 * (init.c).
 *
 * Whatever comes from the guest is hostile: a reply or a report of the wrong
 * form, or none in time, ends the guest. A guest that ended (out of memory,
 * say) is reported as the death of its kernel; the next START restores a new
 * one from the checkpoint, over the same files.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"
#include "wire/wire.h"

#define ERRNO_MAX 4095
#define START_MS                                                              \
    28000u              /* restoring and answering START; the daemon waits 30 \
                           seconds */
#define ANSWER_MS 4000u /* any other request; the daemon waits 5 seconds */
#define SIGNAL_MS 1500u /* a guest that is too busy to kill is ended */
#define IMPORT_MS 240000u /* until the imports of a runtime are done */
#define SAVE_MS 60000u
#define LINE_MAX_BYTES 256

static const char root_flag[] = "--root=" SANDBOX_GUEST_STATE;
static const char log_flag[] = "--log=" SANDBOX_GUEST_STATE "/log";
static const char bundle_flag[] = "--bundle=" SANDBOX_GUEST_BUNDLE;
static const char image_flag[] = "--image-path=" SANDBOX_GUEST_CHECKPOINT;

extern char **environ;

/* ---- running runsc ------------------------------------------------------ */

static const char *const flags[] = {
    "runsc",
    root_flag,
    log_flag,
    "--platform=systrap",
    "--network=none",   /* loopback of the guest's own network stack */
    "--ignore-cgroups", /* it is in the session's group already */
    "--overlay2=none",  /* the host's overlay keeps the session's files */
    "--directfs=true",
    "--file-access=exclusive", /* the image: it never changes */
    "--file-access-mounts=shared",
    "--host-uds=none",
    "--host-fifo=none",
};

#define ARGS_MAX (ARRAY_SIZE(flags) + 8)

/* Starts runsc with these as its standard descriptors; pid or -errno. */
static pid_t run_runsc(int runsc, const char *const *args, const int *channels)
{
    const char *argv[ARGS_MAX];
    char *environment[] = {(char *)"PATH=/", NULL};
    size_t count = 0;
    sigset_t none;
    pid_t pid;

    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        argv[count++] = flags[i];
    for (size_t i = 0; args[i] && count < ARGS_MAX - 1; i++)
        argv[count++] = args[i];
    argv[count] = NULL;
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid > 0)
        return pid;
    for (int i = 0; channels && i < GUEST_CHANNELS; i++)
        if (dup3(channels[i], i, 0) < 0) /* theirs are above these */
            _exit(126);
    (void)setsid();
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 1; i < NSIG; i++)
        (void)signal(i, SIG_DFL); /* some cannot be set */
    (void)fexecve(runsc, (char *const *)argv, environment);
    _exit(127);
}

/* Pairs of sockets: ours, and those of the guest. */
static int make_channels(int ours[GUEST_CHANNELS], int theirs[GUEST_CHANNELS])
{
    int r = 0;

    for (int i = 0; i < GUEST_CHANNELS; i++)
        ours[i] = theirs[i] = -1;
    for (int i = 0; r == 0 && i < GUEST_CHANNELS; i++) {
        int pair[2];

        r = fd_socketpair(SOCK_SEQPACKET, pair);
        if (r < 0)
            break;
        ours[i] = pair[0];
        theirs[i] = fd_dup(pair[1], 16);
        fd_close(&pair[1]);
        if (theirs[i] < 0)
            r = theirs[i];
    }
    return r;
}

static void close_channels(int fds[GUEST_CHANNELS])
{
    for (int i = 0; i < GUEST_CHANNELS; i++)
        fd_close(&fds[i]);
}

/* runsc names its files after the guest; all of them are ours. */
static void clear_state(void)
{
    DIR *dir cleanup(fd_closedir) = opendir(SANDBOX_GUEST_STATE);
    struct dirent *d;

    while (dir && (d = readdir(dir)))
        if (d->d_name[0] != '.')
            (void)unlinkat(dirfd(dir), d->d_name, 0);
}

/* Ends every process but this one. kill(-1) of pid 1 is atomic. */
static void end_all(void)
{
    (void)kill(-1, SIGKILL); /* fails only when there is none */
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    clear_state();
}

/* ---- starting and losing a guest ---------------------------------------- */

void guest_setup(struct guest *g, const struct sandbox_fds *fds,
                 const struct sandbox_spec *spec)
{
    *g = (struct guest){.runsc = fds->runsc,
                        .ctl = -1,
                        .events = -1,
                        .spec = *spec,
                        .filter = -1};
    if (g->runsc < 0)
        return;
    g->filter = guest_filter_pack(fds->filter);
    if (g->filter < 0 || guest_config_write() < 0)
        _exit(1);
}

static void report(int events, uint32_t type, pid_t pid, int status)
{
    struct init_event event = {
        .type = type, .wait_status = status, .pid = (uint32_t)pid};

    /* If the daemon is gone, ctl shows it. */
    (void)wire_send(events, &event, sizeof(event), NULL, 0);
}

void guest_lost(struct guest *g, int events)
{
    end_all();
    fd_close(&g->ctl);
    fd_close(&g->events);
    relay_free(take_ptr(g->relay));
    g->pid = 0;
    if (g->shell)
        report(events, INIT_EVENT_SHELL, g->shell, SIGKILL);
    if (g->kernel)
        report(events, INIT_EVENT_KERNEL, g->kernel, SIGKILL);
    g->kernel = g->shell = 0;
}

/* What the session's environment has been set to so far, for a guest that
 * replaces another: a memfd, or -errno. */
static int pack_environment(void)
{
    int fd cleanup(fd_close) = memfd_create("environment", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : 0;

    for (char **e = environ; r == 0 && *e; e++)
        if (!strchr(*e, '\n')) {
            r = fd_write_all(fd, *e, strlen(*e));
            if (r == 0)
                r = fd_write_all(fd, "\n", 1);
        }
    return r < 0 ? r : take_fd(fd);
}

/* One request, one reply; 0 or an errno. The guest is still there when it is
 * 0, or when ret->errnum says why not. */
static int ask(struct guest *g, const struct init_request *req, const int *fds,
               size_t fd_count, uint32_t ms, struct init_reply *ret)
{
    struct pollfd p = {.fd = g->ctl, .events = POLLIN};
    uint64_t deadline = clock_mono_ms() + ms;
    struct init_reply reply;
    ssize_t n;
    int ready;

    if (wire_send(g->ctl, req, sizeof(*req), fds, fd_count) < 0)
        return EPIPE;
    do
        ready = poll(&p, 1, clock_left_ms(deadline));
    while (ready < 0 && errno == EINTR);
    if (ready != 1)
        return ETIMEDOUT;
    n = wire_recv(g->ctl, &reply, sizeof(reply), NULL, NULL);
    if (n == 0)
        return EPIPE;
    if (n != (ssize_t)sizeof(reply) || reply.seq != req->seq ||
        reply.payload_len || reply.errnum < 0 || reply.errnum > ERRNO_MAX)
        return EBADMSG;
    ret->errnum = reply.errnum;
    ret->arg = reply.arg;
    return 0;
}

/* Why a guest that does not answer could not be started, if it said so. */
static int failure(struct guest *g, int otherwise)
{
    struct init_event event;

    (void)fd_set_nonblock(g->events, 1);
    if (wire_recv(g->events, &event, sizeof(event), NULL, NULL) ==
            (ssize_t)sizeof(event) &&
        event.type == INIT_EVENT_FAILED && event.errnum > 0 &&
        event.errnum <= ERRNO_MAX)
        return event.errnum;
    return otherwise;
}

/* Sends the grant and, to a guest that replaces another, the environment. */
static int greet(struct guest *g)
{
    struct guest_grant grant = {
        .magic = GUEST_MAGIC, .proxy = g->proxy, .spec = g->spec};
    struct init_request env = {.type = INIT_ENVIRONMENT};
    struct init_reply reply = {0};
    int fd cleanup(fd_close) = -1;
    int r;

    if (wire_send(g->ctl, &grant, sizeof(grant), &g->filter, 1) < 0)
        return EPIPE;
    if (g->starts == 1)
        return 0;
    fd = pack_environment();
    if (fd < 0)
        return -fd;
    r = ask(g, &env, &fd, 1, START_MS, &reply);
    return r ? r : reply.errnum;
}

static int start(struct guest *g, int events)
{
    int ours[GUEST_CHANNELS], theirs[GUEST_CHANNELS];
    char id[16];
    const char *args[] = {"restore", bundle_flag, image_flag, id, NULL};
    int r = make_channels(ours, theirs);
    pid_t pid = 0;

    (void)snprintf(id, sizeof(id), "g%u", ++g->starts);
    if (r == 0) {
        pid = run_runsc(g->runsc, args, theirs);
        r = pid < 0 ? (int)pid : 0;
    }
    close_channels(theirs);
    if (r < 0) {
        close_channels(ours);
        return -r;
    }
    g->pid = pid;
    g->ctl = ours[GUEST_CTL];
    g->events = ours[GUEST_EVENTS];
    g->relay = relay_new(false, ours[GUEST_RELAY]);
    r = greet(g);
    if (r)
        guest_lost(g, events);
    return r;
}

/* ---- requests ----------------------------------------------------------- */

bool guest_answers(uint32_t type)
{
    return type == INIT_START || type == INIT_SHELL || type == INIT_SIGNAL ||
           type == INIT_ENVIRONMENT || type == INIT_CA;
}

/* What a request means where no guest runs. */
static bool needs_guest(const struct init_request *req, int *ret)
{
    if (req->type != INIT_SIGNAL)
        return true;
    *ret = req->arg == INIT_SIGNAL_KILL_ALL ? 0 : ESRCH;
    return false;
}

/* The pids that the guest's deaths are reported with. */
static void note_started(struct guest *g, const struct init_request *req,
                         const struct init_reply *reply)
{
    if (req->type == INIT_START)
        g->kernel = (pid_t)reply->arg;
    else if (req->type == INIT_SHELL)
        g->shell = (pid_t)reply->arg;
}

int guest_forward(struct guest *g, int events, const struct init_request *req,
                  const int *fds, size_t fd_count, struct init_reply *reply)
{
    bool slow = req->type == INIT_START || !g->pid;
    int r = 0;

    if (req->type == INIT_ENVIRONMENT) /* for guests to come */
        r = fd_count == 1 ? guest_env_set(fds[0]) : EINVAL;
    if (r)
        return r;
    if (!g->pid) {
        if (!needs_guest(req, &r))
            return r;
        r = start(g, events);
        if (r)
            return r;
    }
    if (req->type == INIT_START)
        g->kernel = g->shell = 0; /* it ends them first, and waits */
    r = ask(g, req, fds, fd_count,
            slow                       ? START_MS
            : req->type == INIT_SIGNAL ? SIGNAL_MS
                                       : ANSWER_MS,
            reply);
    if (r) {
        r = failure(g, r);
        guest_lost(g, events);
        return r;
    }
    if (reply->errnum == 0)
        note_started(g, req, reply);
    return reply->errnum;
}

void guest_open_proxy(struct guest *g, int events)
{
    struct init_request req = {.type = INIT_NETWORK,
                               .arg = INIT_NETWORK_PROXY};
    struct init_reply reply = {0};

    g->proxy = true; /* also in the grant of a later guest */
    if (g->pid && ask(g, &req, NULL, 0, ANSWER_MS, &reply))
        guest_lost(g, events);
}

void guest_on_event(struct guest *g, int events)
{
    struct init_event event;
    ssize_t n = wire_recv(g->events, &event, sizeof(event), NULL, NULL);

    if (n == -EAGAIN)
        return;
    if (n == (ssize_t)sizeof(event) && event.type == INIT_EVENT_KERNEL) {
        /* Of a kernel that START has replaced, no news is due. */
        if (g->kernel && event.pid == (uint32_t)g->kernel) {
            g->kernel = 0;
            report(events, INIT_EVENT_KERNEL, (pid_t)event.pid,
                   event.wait_status);
        }
    } else if (n == (ssize_t)sizeof(event) && event.type == INIT_EVENT_SHELL) {
        if (g->shell && event.pid == (uint32_t)g->shell) {
            g->shell = 0;
            report(events, INIT_EVENT_SHELL, (pid_t)event.pid,
                   event.wait_status);
        }
    } else {
        guest_lost(g, events);
    }
}

/* ---- the checkpoint ----------------------------------------------------- */

static _Noreturn void prepare_failed(int events, const char *step, int errnum)
{
    struct init_event event = {.type = INIT_EVENT_FAILED, .errnum = errnum};

    (void)snprintf(event.step, sizeof(event.step), "%s", step);
    (void)wire_send(events, &event, sizeof(event), NULL, 0);
    end_all();
    _exit(1);
}

/* Puts the runtime's spec where the guest reads it. */
static int place_spec(int spec)
{
    int to cleanup(fd_close) =
        open(SANDBOX_GUEST_PRIVATE GUEST_SPEC,
             O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
    char buf[4096];
    off_t at = 0;
    ssize_t n;
    int r = to < 0 ? -errno : 0;

    while (r == 0 && (n = pread(spec, buf, sizeof(buf), at)) > 0) {
        r = fd_write_all(to, buf, (size_t)n);
        at += n;
    }
    return r;
}

/* Waits until the guest's imports are done. Its lines are kept: the last one
 * says why not. */
static bool await_imports(int events, int lines, char last[LINE_MAX_BYTES])
{
    uint64_t deadline = clock_mono_ms() + IMPORT_MS;
    struct pollfd p[] = {{.fd = lines, .events = POLLIN},
                         {.fd = events, .events = POLLIN}};
    struct init_event event;

    for (;;) {
        ssize_t n = poll(p, ARRAY_SIZE(p), clock_left_ms(deadline));

        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        if (p[0].revents) {
            n = read(lines, last, LINE_MAX_BYTES - 1);
            if (n <= 0)
                return false;
            last[n] = '\0';
        } else if (p[1].revents) {
            return wire_recv(events, &event, sizeof(event), NULL, NULL) ==
                       (ssize_t)sizeof(event) &&
                   event.type == INIT_EVENT_READY;
        }
    }
}

/* Of a checkpoint: 0 when runsc says that it is written. */
static int await_exit(pid_t pid, uint32_t ms)
{
    uint64_t deadline = clock_mono_ms() + ms;
    int status;

    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (clock_left_ms(deadline) == 0)
            return ETIMEDOUT;
        (void)poll(NULL, 0, 5);
    }
    return status == 0 ? 0 : EIO;
}

_Noreturn void guest_prepare(const struct sandbox_fds *fds,
                             const struct sandbox_spec *spec)
{
    static const char *const run[] = {"run", bundle_flag, "prepare", NULL};
    static const char *const save[] = {"checkpoint", "--compression=none",
                                       image_flag, "prepare", NULL};
    struct init_event done = {.type = INIT_EVENT_READY};
    int ours[GUEST_CHANNELS] = {-1, -1, -1};
    int theirs[GUEST_CHANNELS] = {-1, -1, -1};
    char last[LINE_MAX_BYTES] = "the guest did not start";
    pid_t pid;
    int r = place_spec(fds->spec);

    (void)spec;
    if (r == 0)
        r = guest_config_write();
    if (r == 0)
        r = make_channels(ours, theirs);
    if (r < 0)
        prepare_failed(fds->events, "prepare the guest's files", -r);
    pid = run_runsc(fds->runsc, run, theirs);
    close_channels(theirs);
    if (pid < 0)
        prepare_failed(fds->events, "start runsc", (int)-pid);
    if (!await_imports(ours[GUEST_EVENTS], ours[GUEST_RELAY], last))
        prepare_failed(fds->events, last, ECHILD);
    pid = run_runsc(fds->runsc, save, NULL);
    r = pid < 0 ? (int)-pid : await_exit(pid, SAVE_MS);
    if (r)
        prepare_failed(fds->events, "write the checkpoint", r);
    (void)wire_send(fds->events, &done, sizeof(done), NULL, 0);
    end_all();
    _exit(0);
}
