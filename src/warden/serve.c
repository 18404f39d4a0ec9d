/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warden's loop and its answers, one per request of wire/warden_msg.h
 * (SPAWN, the long one, is in spawn.c).
 * Runs as root (or as root of its own user namespace), one thread. Answers
 * share their names with the stubs in call.c. A request that is malformed,
 * untimely or carries the wrong descriptors ends the link and with it every
 * session; it is never answered.
 */
#include "warden/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "warden/warden_int.h"
#include "wire/wire.h"

#define DRAIN_MS 5
#define END_MS 5000u
#define ALONE_MS 10000u /* longer than END_MS */

void warden_reply_fail(struct warden_reply *reply, enum warden_result result,
                       int errnum, const char *fmt, ...)
{
    va_list ap;

    reply->result = result;
    reply->errnum = errnum;
    va_start(ap, fmt);
    (void)vsnprintf(reply->text, sizeof(reply->text), fmt, ap); /* may cut */
    va_end(ap);
}

/* ---- answers
 * ----------------------------------------------------------------- */

static void fill_status(struct warden *w, struct warden_status *ret)
{
    size_t spares = slot_count_spares(w);

    *ret = (struct warden_status){
        .walls = w->walls,
        .slots = (uint32_t)(w->slot_count - spares),
        .spare_scratches = (uint32_t)spares,
        .zygote_restarts = w->zygote_restarts,
        .cgroup_version = (uint32_t)sandbox_cgroup_version(w->groups),
    };
    for (size_t i = 0; i < w->runtime_count; i++)
        ret->zygotes += w->runtimes[i].current.ready;
}

/* Fail closed: a wall that does not stand and was not accepted by name. */
static bool walls_suffice(const struct warden *w, struct warden_reply *reply)
{
    static const struct {
        uint32_t wall;
        const char *name;
    } names[] = {
        {WARDEN_WALL_UIDS, "uids"},       {WARDEN_WALL_MEMORY, "memory"},
        {WARDEN_WALL_PIDS, "pids"},       {WARDEN_WALL_CPU, "cpu"},
        {WARDEN_WALL_SCRATCH, "scratch"}, {WARDEN_WALL_LANDLOCK, "landlock"},
        {WARDEN_WALL_SECCOMP, "seccomp"}, {WARDEN_WALL_USERNS, "userns"},
    };
    char list[96] = "";

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (!((w->walls | w->setup.accepted_walls) & names[i].wall)) {
            size_t used = strlen(list);

            (void)snprintf(list + used, sizeof(list) - used, "%s%s",
                           used ? "," : "", names[i].name);
        }
    if (!*list)
        return true;
    warden_reply_fail(reply, WARDEN_REFUSED, 0,
                      "missing walls: %s (see glovebox doctor)", list);
    return false;
}

/* The scratch folder lies in the data directory, which is the daemon's. */
static bool can_lay(struct warden *w)
{
    int data cleanup(fd_close) =
        openat(w->scratch_dir, "..", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (!(w->walls & WARDEN_WALL_UIDS) || !(w->walls & WARDEN_WALL_SCRATCH) ||
        data < 0 || fstat(data, &st) < 0)
        return false;
    w->daemon_uid = st.st_uid;
    w->daemon_gid = st.st_gid;
    return layers_possible(w, data);
}

/* One warden for a data directory. That of a service killed a moment ago may
 * still be ending its sessions, which have the same host uids and names as
 * ours will; its last act is to remove the folder of the groups. */
static bool wait_alone(struct warden *w)
{
    uint64_t deadline = clock_mono_ms() + ALONE_MS;

    while (flock(w->scratch_dir, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK || clock_left_ms(deadline) == 0)
            return false;
        (void)poll(NULL, 0, DRAIN_MS);
    }
    return true;
}

static void warden_serve_setup(struct warden *w,
                               const struct warden_request *req, int *fds,
                               struct warden_reply *reply)
{
    const struct warden_setup *s = &req->u.setup;
    char group[CGROUP_NAME_MAX];
    const char *why = NULL;
    int r;

    (void)fds;
    w->asked = true;
    if (!warden_policy_setup(s, &why)) {
        warden_reply_fail(reply, WARDEN_REFUSED, 0, "%s", why);
        return;
    }
    w->setup = *s;
    w->scratch_dir =
        open(s->scratch_dir, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (w->scratch_dir < 0) {
        warden_reply_fail(reply, WARDEN_FAILED, errno,
                          "cannot open the scratch folder");
        return;
    }
    if (!wait_alone(w)) {
        warden_reply_fail(reply, WARDEN_FAILED, EBUSY,
                          "another service's sessions are still ending here");
        return;
    }
    (void)snprintf(group, sizeof(group), "glovebox-%.40s", s->instance);
    r = sandbox_cgroup_open("/sys/fs/cgroup", "/proc/self/cgroup", group,
                            &w->groups);
    if (r == 0)
        r = sandbox_seccomp_build(&w->filter_fd);
    if (r < 0) {
        warden_reply_fail(reply, WARDEN_FAILED, -r, "cannot build the walls");
        return;
    }
    w->walls = warden_posture_walls(w);
    if (!walls_suffice(w, reply))
        return;
    w->layers = can_lay(w);
    (void)sandbox_cgroup_sweep(w->groups);
    scratch_sweep(w);
    w->slots = xcalloc(s->max_slots + s->spare_scratches, sizeof(*w->slots));
    w->set_up = true;
    fill_status(w, &reply->u.status);
}

static void warden_serve_runtime(struct warden *w,
                                 const struct warden_request *req, int *fds,
                                 struct warden_reply *reply)
{
    const struct warden_runtime *r = &req->u.runtime;
    struct runtime *rt = &w->runtimes[w->runtime_count];
    const char *why = NULL;

    if (!warden_policy_runtime(r, &why)) {
        warden_reply_fail(reply, WARDEN_REFUSED, 0, "%s", why);
        return;
    }
    if (w->runtime_count == WARDEN_RUNTIMES_MAX) {
        warden_reply_fail(reply, WARDEN_FULL, 0, "too many runtimes");
        return;
    }
    *rt = (struct runtime){.spec_fd = take_fd(fds[0]),
                           .fresh_exec = r->fresh_exec,
                           .current = {.sock = -1},
                           .next = {.sock = -1}};
    memcpy(rt->image, r->image, sizeof(rt->image));
    reply->u.runtime = (uint32_t)w->runtime_count++;
    zygote_start(w, rt, &rt->current);
}

static struct slot *named_slot(struct warden *w,
                               const struct warden_request *req,
                               struct warden_reply *reply)
{
    struct slot *s = slot_find(w, req->u.slot.slot);

    if (!s || s->state == SLOT_SPARE) {
        warden_reply_fail(reply, WARDEN_GONE, 0, "no such slot");
        return NULL;
    }
    return s;
}

static void warden_serve_usage(struct warden *w,
                               const struct warden_request *req, int *fds,
                               struct warden_reply *reply)
{
    struct slot *s = named_slot(w, req, reply);
    int r;

    (void)fds;
    if (!s)
        return;
    reply->u.usage.alive = s->state == SLOT_ALIVE;
    reply->u.usage.wait_status = s->wait_status;
    reply->u.usage.locks = s->locks_ended;
    r = sandbox_cgroup_usage(w->groups, s->group, req->u.slot.reset_peak != 0,
                             &reply->u.usage);
    if (r < 0)
        warden_reply_fail(reply, WARDEN_FAILED, -r, "cannot read the usage");
}

static void warden_serve_calm(struct warden *w,
                              const struct warden_request *req, int *fds,
                              struct warden_reply *reply)
{
    struct slot *s = named_slot(w, req, reply);

    (void)fds;
    if (s && s->state == SLOT_ALIVE) /* one that ends is calm by itself */
        slot_calm(w, s, req->u.slot.calm != 0);
}

static void warden_serve_room(struct warden *w,
                              const struct warden_request *req, int *fds,
                              struct warden_reply *reply)
{
    const struct slot *s = slot_find(w, req->u.room.slot);

    (void)fds;
    (void)reply;
    w->room = req->u.room.on != 0;
    if (w->room)
        sandbox_cgroup_room(w->groups, s ? s->cpus : NULL);
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i]->calm)
            slot_calm(w, w->slots[i], true);
}

static void warden_serve_kill(struct warden *w,
                              const struct warden_request *req, int *fds,
                              struct warden_reply *reply)
{
    struct slot *s = named_slot(w, req, reply);

    (void)fds;
    if (s && s->pid)
        (void)kill(s->pid, SIGKILL); /* a zombie is as dead as can be */
}

static void warden_serve_release(struct warden *w,
                                 const struct warden_request *req, int *fds,
                                 struct warden_reply *reply)
{
    struct slot *s = named_slot(w, req, reply);

    (void)fds;
    if (s)
        slot_release(w, s);
}

static void warden_serve_status(struct warden *w,
                                const struct warden_request *req, int *fds,
                                struct warden_reply *reply)
{
    (void)req;
    (void)fds;
    fill_status(w, &reply->u.status);
}

/* ---- the loop
 * ------------------------------------------------------------------ */

static const struct {
    bool before_setup; /* allowed only then; all others only after */
    size_t fds;        /* exactly so many come with it, layers aside */
    void (*answer)(struct warden *w, const struct warden_request *req,
                   int *fds, struct warden_reply *reply);
} answers[WARDEN_REQUEST_MAX] = {
    [WARDEN_SETUP] = {true, 0, warden_serve_setup},
    [WARDEN_RUNTIME] = {false, 1, warden_serve_runtime},
    [WARDEN_SPAWN] = {false, 2, warden_serve_spawn},
    [WARDEN_USAGE] = {false, 0, warden_serve_usage},
    [WARDEN_KILL] = {false, 0, warden_serve_kill},
    [WARDEN_RELEASE] = {false, 0, warden_serve_release},
    [WARDEN_STATUS] = {false, 0, warden_serve_status},
    [WARDEN_CALM] = {false, 0, warden_serve_calm},
    [WARDEN_ROOM] = {false, 0, warden_serve_room},
};

static bool send_reply(struct warden *w, struct warden_reply *reply)
{
    int fds[METERS];
    unsigned mask;
    unsigned count = meters_pack(&w->meters, fds, &mask);
    int r;

    if (count)
        reply->u.spawned.meters = mask;
    r = wire_send(w->sock, reply, sizeof(*reply), fds, count);
    meters_close(&w->meters);
    return r == 0;
}

/* One request; false ends the link. */
static bool serve_one(struct warden *w)
{
    struct warden_request req;
    struct warden_reply reply = {0};
    int fds[WIRE_FDS_MAX];
    size_t count = 0;
    ssize_t n = wire_recv(w->sock, &req, sizeof(req), fds, &count);
    bool good =
        n == (ssize_t)sizeof(req) && req.type > 0 &&
        req.type < WARDEN_REQUEST_MAX &&
        answers[req.type].before_setup == !w->asked &&
        (w->set_up || answers[req.type].before_setup) &&
        count == answers[req.type].fds +
                     (req.type == WARDEN_SPAWN ? req.u.spawn.layers : 0);

    if (good) {
        reply.type = req.type;
        reply.seq = req.seq;
        answers[req.type].answer(w, &req, fds, &reply);
        good = send_reply(w, &reply);
    } else if (n != 0) {
        log_event(LOG_ERROR, "link_closed", "why", "malformed or untimely",
                  NULL);
    }
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    return good;
}

static void reap(struct warden *w)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    while (read(w->signals, &info, sizeof(info)) > 0)
        ; /* one is as good as many */
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct slot *s = slot_by_pid(w, pid);

        if (s)
            slot_reaped(s, status);
        else
            (void)zygote_on_exit(w, pid); /* else a helper of ours */
    }
}

/* Idle time goes into spares, one at a time so that requests never wait. */
static bool make_spare(struct warden *w)
{
    struct slot *s;

    if (!w->spare_bytes || slot_count_spares(w) >= w->setup.spare_scratches)
        return false;
    s = slot_make(w, w->spare_bytes, w->spare_inodes);
    if (s && w->layers)
        (void)layers_prepare(w, s); /* tried again when they are asked for */
    return s != NULL;
}

static size_t watch_zygotes(struct warden *w, struct pollfd *polls,
                            struct runtime **owners, struct zygote **zygotes)
{
    size_t n = 0;

    for (size_t i = 0; i < w->runtime_count; i++) {
        struct zygote *both[] = {&w->runtimes[i].current,
                                 &w->runtimes[i].next};

        for (size_t k = 0; k < ARRAY_SIZE(both); k++)
            if (both[k]->pid) {
                polls[n] = (struct pollfd){both[k]->sock, POLLIN, 0};
                owners[n] = &w->runtimes[i];
                zygotes[n++] = both[k];
            }
    }
    return n;
}

/* A killed zygote takes a moment to go; who stopped the service may look. */
static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void end_everything(struct warden *w)
{
    uint64_t deadline = clock_mono_ms() + END_MS;

    zygote_stop_all(w);
    for (size_t i = 0; i < w->slot_count; i++)
        slot_release(w, w->slots[i]);
    while ((slot_drain(w) || has_children()) && clock_left_ms(deadline) > 0) {
        struct pollfd p = {.fd = w->signals, .events = POLLIN};

        (void)poll(&p, 1, DRAIN_MS);
        reap(w);
    }
    if (w->groups)
        sandbox_cgroup_close(w->groups);
}

static int prepare(struct warden *w, int sock, int mounts)
{
    sigset_t mask;

    *w = (struct warden){.sock = sock,
                         .signals = -1,
                         .meters = METERS_NONE,
                         .daemon_mounts = mounts,
                         .own_mounts = -1,
                         .scratch_dir = -1,
                         .filter_fd = -1};
    if (mounts >= 0) {
        w->own_mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        if (w->own_mounts < 0)
            return -errno;
    }
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGCHLD);
    /* The daemon's end of the link decides when we stop, not a terminal. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    /* Nor does a log that nobody reads any more. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
        return -errno;
    w->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return w->signals < 0 ? -errno : 0;
}

int warden_serve_run(int sock, int mounts)
{
    enum {
        LINK,
        SIGNALS,
        FIRST_ZYGOTE
    };
    static struct warden w; /* the state of the process */
    struct pollfd polls[FIRST_ZYGOTE + 2 * WARDEN_RUNTIMES_MAX];
    struct runtime *owners[2 * WARDEN_RUNTIMES_MAX];
    struct zygote *zygotes[2 * WARDEN_RUNTIMES_MAX];
    bool idle = false;

    if (prepare(&w, sock, mounts) < 0)
        return 1;
    for (;;) {
        int wait_ms = MIN(zygote_tend(&w), locks_tend(&w));
        size_t n = watch_zygotes(&w, polls + FIRST_ZYGOTE, owners, zygotes);

        if (slot_drain(&w))
            wait_ms = DRAIN_MS;
        if (idle && make_spare(&w))
            wait_ms = 0;
        polls[LINK] = (struct pollfd){w.sock, POLLIN, 0};
        polls[SIGNALS] = (struct pollfd){w.signals, POLLIN, 0};
        if (poll(polls, FIRST_ZYGOTE + n, wait_ms) < 0 && errno != EINTR)
            break;
        idle = polls[LINK].revents == 0;
        reap(&w);
        for (size_t i = 0; i < n; i++)
            if (polls[FIRST_ZYGOTE + i].revents && zygotes[i]->pid)
                zygote_on_readable(&w, owners[i], zygotes[i]);
        if (polls[LINK].revents && !serve_one(&w))
            break;
    }
    end_everything(&w);
    return 0;
}
