/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warden's loop: receives requests and answers them (answers.c), reaps
 * children, and ends everything when the link closes. Runs as root (or as root
 * of its own user namespace), one thread. A request that is malformed, out of
 * order or carries the wrong descriptors closes the link, which ends every
 * session; it is never answered.
 */
#include "warden/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "warden/tier.h"
#include "wire/wire.h"

#define DRAIN_MS 5
#define SLOW_MS 1000u
#define SURPLUS_LOOK_MS 500
#define END_MS 5000u /* shorter than ALONE_MS of answers.c */

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

static const char *const request_names[WARDEN_REQUEST_MAX] = {
    [WARDEN_SETUP] = "setup",
    [WARDEN_RUNTIME] = "runtime",
    [WARDEN_SPAWN] = "spawn",
    [WARDEN_USAGE] = "usage",
    [WARDEN_KILL] = "kill",
    [WARDEN_RELEASE] = "release",
    [WARDEN_STATUS] = "status",
    [WARDEN_SCHED_CLASS] = "sched_class",
    [WARDEN_CPU_RESERVE] = "cpu_reserve",
    [WARDEN_ZYGOTES] = "zygotes",
};

/* The warden has one thread, so every session waited for this step. */
static void note_slow(const char *step, uint64_t started_ms)
{
    uint64_t took = clock_mono_ms() - started_ms;
    char ms[24];

    if (took < SLOW_MS)
        return;
    (void)snprintf(ms, sizeof(ms), "%llu", (unsigned long long)took);
    log_event(LOG_WARN, "slow_step", "step", step, "ms", ms, NULL);
}

/* One request; false ends the link. */
static bool serve_one(struct warden *w)
{
    uint64_t started = clock_mono_ms();
    struct warden_request req = {0};
    struct warden_reply reply = {0};
    int fds[WIRE_FDS_MAX];
    size_t count = 0;
    ssize_t n = wire_recv(w->sock, &req, sizeof(req), fds, &count);
    bool full = n == -EMFILE; /* our descriptor table is full */
    const struct warden_answer *a = (full || n == (ssize_t)sizeof(req)) &&
                                            req.type > 0 &&
                                            req.type < WARDEN_REQUEST_MAX
                                        ? &warden_answers[req.type]
                                        : NULL;
    bool good =
        a && a->before_setup == !w->asked && (w->set_up || a->before_setup) &&
        (full ||
         count ==
             a->fds + (req.type == WARDEN_SPAWN ? req.u.spawn.layers : 0));

    if (good) {
        reply.type = req.type;
        reply.seq = req.seq;
        if (full)
            warden_reply_fail(&reply, WARDEN_FULL, EMFILE,
                              "no descriptors left");
        else
            a->answer(w, &req, fds, &reply);
        note_slow(request_names[req.type], started);
        good = send_reply(w, &reply);
    } else if (n != 0) {
        log_event(LOG_ERROR, "link_closed", "why", "malformed or untimely",
                  NULL);
    }
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    return good;
}

static void reap_children(struct warden *w)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    while (read(w->signals, &info, sizeof(info)) > 0)
        ; /* waitpid finds all of them */
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct slot *s = slot_by_pid(w, pid);

        struct slot *worked_on = s ? NULL : slot_by_helper(w, pid);

        if (s)
            slot_reaped(s, status);
        else if (worked_on)
            worked_on->helper = 0;
        else if (!checkpoint_on_exit(w, pid, status))
            (void)zygote_on_exit(w, pid); /* or a zygote that was retired */
    }
}

static size_t watch_zygotes(struct warden *w, struct pollfd *polls,
                            struct runtime **owners, struct zygote **zygotes)
{
    size_t n = 0;

    for (size_t i = 0; i < w->runtime_count; i++)
        for (size_t k = 0; k < RUNTIME_ZYGOTES; k++) {
            struct zygote *z = zygote_at(&w->runtimes[i], k);

            if (z->pid) {
                polls[n] = (struct pollfd){z->sock, POLLIN, 0};
                owners[n] = &w->runtimes[i];
                zygotes[n++] = z;
            }
        }
    return n;
}

/* Takes over the storage that children have finished. */
static void take_made_storage(struct warden *w)
{
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = w->slots[i];
        struct pollfd p = {.fd = s->helper_sock, .events = POLLIN};

        if (s->state == SLOT_MAKING && poll(&p, 1, 0) == 1)
            slot_made(w, s);
    }
}

/* A killed zygote takes a moment to end; a stopped service must not leave one.
 */
static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void end_everything(struct warden *w)
{
    uint64_t deadline = clock_mono_ms() + END_MS;

    w->ending = true;
    zygote_stop_all(w);
    checkpoint_stop_all(w);
    for (size_t i = 0; i < w->slot_count; i++)
        slot_release(w, w->slots[i]);
    while ((slot_drain(w) || has_children()) && clock_left_ms(deadline) > 0) {
        struct pollfd p = {.fd = w->signals, .events = POLLIN};

        (void)poll(&p, 1, DRAIN_MS);
        reap_children(w);
    }
    if (w->groups)
        sandbox_cgroup_close(w->groups);
}

static int warden_init(struct warden *w, int sock, int mounts)
{
    sigset_t mask;

    *w = (struct warden){.sock = sock,
                         .signals = -1,
                         .meters = METERS_NONE,
                         .tiers = tier_list,
                         .daemon_mounts = mounts,
                         .own_mounts = -1,
                         .scratch_dir = -1,
                         .zygote_dir = -1,
                         .filter_fd = -1,
                         .runsc_fd = -1};
    if (mounts >= 0) {
        w->own_mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        if (w->own_mounts < 0)
            return -errno;
    }
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGCHLD);
    /* The daemon decides when the warden stops, by closing the link. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    /* A closed log does not stop it either. */
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
    struct pollfd polls[FIRST_ZYGOTE + RUNTIME_ZYGOTES * WARDEN_RUNTIMES_MAX];
    struct runtime *owners[RUNTIME_ZYGOTES * WARDEN_RUNTIMES_MAX];
    struct zygote *zygotes[RUNTIME_ZYGOTES * WARDEN_RUNTIMES_MAX];
    bool idle = false;

    if (warden_init(&w, sock, mounts) < 0)
        return 1;
    for (;;) {
        uint64_t started = clock_mono_ms();
        int wait_ms = MIN(zygote_tend(&w), locks_tend(&w));
        size_t n;

        checkpoint_tend(&w);
        n = watch_zygotes(&w, polls + FIRST_ZYGOTE, owners, zygotes);
        note_slow("tend", started);
        started = clock_mono_ms();
        if (slot_drain(&w))
            wait_ms = DRAIN_MS;
        note_slow("drain", started);
        take_made_storage(&w);
        if (idle && slot_tend_spares(&w))
            wait_ms = 0;
        if (slot_count(&w, SLOT_SPARE) > w.setup.spare_scratches)
            wait_ms = MIN(wait_ms, SURPLUS_LOOK_MS);
        polls[LINK] = (struct pollfd){w.sock, POLLIN, 0};
        polls[SIGNALS] = (struct pollfd){w.signals, POLLIN, 0};
        if (poll(polls, FIRST_ZYGOTE + n, wait_ms) < 0 && errno != EINTR)
            break;
        idle = polls[LINK].revents == 0;
        reap_children(&w);
        for (size_t i = 0; i < n; i++)
            if (polls[FIRST_ZYGOTE + i].revents && zygotes[i]->pid)
                zygote_on_readable(&w, owners[i], zygotes[i]);
        if (polls[LINK].revents && !serve_one(&w))
            break;
    }
    end_everything(&w);
    return 0;
}
