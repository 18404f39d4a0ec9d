/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zygotes, seen from the warden: start one per runtime, replace it by age and
 * count, restart it when it dies, ask it to clone a session. A replacement
 * imports beside the old one and takes over when ready, so that sessions
 * never wait for it. Runs in the warden's only thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sched.h"
#include "warden/warden_int.h"
#include "wire/wire.h"
#include "wire/zygote_msg.h"

#define REPLY_MS 5000
#define RESTART_MS 250u /* doubled for each death in a row, up to a minute */
#define FAST_DEATH_MS 10000u

void zygote_start(struct warden *w, struct runtime *rt, struct zygote *z)
{
    int pair[2];
    pid_t pid;

    rt->last_start_ms = clock_mono_ms();
    if (fd_socketpair(SOCK_SEQPACKET, pair) < 0)
        return; /* tried again later */
    pid = fork();
    if (pid == 0) {
        sched_usual();
        zygote_child_run(w, rt->image, pair[1], rt->spec_fd);
    }
    fd_close(&pair[1]);
    if (pid < 0) {
        fd_close(&pair[0]);
        return;
    }
    *z = (struct zygote){
        .pid = pid, .sock = pair[0], .started_ms = clock_mono_ms()};
}

/* Closing its socket ends it; it is reaped by the loop. */
static void retire(struct zygote *z)
{
    if (!z->pid)
        return;
    fd_close(&z->sock);
    (void)kill(z->pid, SIGKILL); /* in case it is still importing */
    *z = (struct zygote){.sock = -1};
}

static bool is_zygote(const struct warden *w, pid_t pid)
{
    for (size_t i = 0; i < w->runtime_count; i++)
        if (w->runtimes[i].current.pid == pid ||
            w->runtimes[i].next.pid == pid)
            return true;
    return false;
}

/* Deaths soon after the start, in a row, slow the next starts down. */
static void note_death(struct warden *w, struct runtime *rt,
                       const struct zygote *z)
{
    log_event(LOG_WARN, "zygote_died", "image", rt->image, NULL);
    if (clock_mono_ms() - z->started_ms < FAST_DEATH_MS)
        rt->fast_deaths++;
    w->zygote_restarts++;
}

void zygote_on_readable(struct warden *w, struct runtime *rt, struct zygote *z)
{
    struct zygote_reply reply;
    ssize_t n = wire_recv(z->sock, &reply, sizeof(reply), NULL, NULL);
    char ms[24];

    if (n != (ssize_t)sizeof(reply) || reply.type != ZYGOTE_READY ||
        z->ready) {
        note_death(w, rt, z);
        retire(z);
        return;
    }
    z->ready = true;
    rt->fast_deaths = 0;
    (void)snprintf(ms, sizeof(ms), "%llu",
                   (unsigned long long)(clock_mono_ms() - z->started_ms));
    log_event(LOG_INFO, "zygote_ready", "image", rt->image, "ms", ms, NULL);
    if (z == &rt->next) {
        retire(&rt->current);
        rt->current = *z;
        *z = (struct zygote){.sock = -1};
    }
}

bool zygote_on_exit(struct warden *w, pid_t pid)
{
    for (size_t i = 0; i < w->runtime_count; i++) {
        struct runtime *rt = &w->runtimes[i];
        struct zygote *both[] = {&rt->current, &rt->next};

        for (size_t k = 0; k < ARRAY_SIZE(both); k++) {
            struct zygote *z = both[k];

            if (z->pid != pid)
                continue;
            note_death(w, rt, z);
            fd_close(&z->sock);
            *z = (struct zygote){.sock = -1};
            return true;
        }
    }
    return false;
}

static bool zygote_is_worn(const struct warden *w, const struct zygote *z)
{
    return clock_mono_ms() - z->started_ms >
               (uint64_t)w->setup.zygote_max_age_s * 1000 ||
           z->spawns >= w->setup.zygote_max_spawns;
}

static uint64_t restart_due_ms(const struct runtime *rt)
{
    unsigned shift = MIN(rt->fast_deaths, 8u);

    return rt->last_start_ms + (rt->fast_deaths ? RESTART_MS << shift : 0);
}

int zygote_tend(struct warden *w)
{
    int wait_ms = 60000;

    for (size_t i = 0; i < w->runtime_count; i++) {
        struct runtime *rt = &w->runtimes[i];
        bool want_next = rt->current.pid && rt->current.ready &&
                         zygote_is_worn(w, &rt->current) && !rt->next.pid;

        if (!rt->current.pid && rt->next.pid) {
            rt->current = rt->next;
            rt->next = (struct zygote){.sock = -1};
        }
        if (rt->current.pid && !want_next)
            continue;
        if (clock_left_ms(restart_due_ms(rt)) > 0) {
            wait_ms = MIN(wait_ms, clock_left_ms(restart_due_ms(rt)));
            continue;
        }
        zygote_start(w, rt, want_next ? &rt->next : &rt->current);
    }
    return wait_ms;
}

/* A zygote may name only what is a child of ours and new: what we do to the
 * pid it names we do as root. */
static bool is_newborn(struct warden *w, pid_t pid)
{
    siginfo_t info;

    return pid > 1 && !slot_by_pid(w, pid) && !slot_by_helper(w, pid) &&
           !is_zygote(w, pid) &&
           waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

int zygote_spawn(struct warden *w, struct runtime *rt,
                 const struct sandbox_spec *spec, const int *fds, size_t count,
                 pid_t *ret_pid)
{
    struct zygote_request req = {.type = ZYGOTE_SPAWN, .spec = *spec};
    struct zygote_reply reply;
    struct zygote *z = &rt->current;
    struct pollfd p = {.fd = z->sock, .events = POLLIN};
    ssize_t n;
    int r;

    if (!z->pid || !z->ready)
        return -EAGAIN;
    r = wire_send(z->sock, &req, sizeof(req), fds, count);
    if (r == 0 && poll(&p, 1, REPLY_MS) != 1)
        r = -ETIMEDOUT;
    if (r < 0) {
        retire(z); /* dead or stuck; another is started */
        return -EAGAIN;
    }
    n = wire_recv(z->sock, &reply, sizeof(reply), NULL, NULL);
    if (n != (ssize_t)sizeof(reply) || reply.type != ZYGOTE_SPAWNED) {
        retire(z);
        return -EAGAIN;
    }
    if (reply.errnum > 0)
        return -reply.errnum;
    if (!is_newborn(w, reply.pid)) {
        log_event(LOG_ERROR, "zygote_lied", "image", rt->image, NULL);
        retire(z);
        return -EAGAIN;
    }
    z->spawns++;
    *ret_pid = reply.pid;
    if (rt->fresh_exec)
        retire(z); /* this one's memory layout is used up */
    return 0;
}

void zygote_stop_all(struct warden *w)
{
    for (size_t i = 0; i < w->runtime_count; i++) {
        retire(&w->runtimes[i].current);
        retire(&w->runtimes[i].next);
    }
}
