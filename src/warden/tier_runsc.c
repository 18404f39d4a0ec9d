/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The isolation tier "gvisor": the session's code runs under runsc, whose own
 * kernel answers its system calls. The slot, the namespaces, the host uid and
 * the control group around it are those of the tier "process"; pid 1 is a
 * clone of the zygote too, and supervises the guest (kernel/guest.c).
 *
 * A guest is restored from a checkpoint of the runtime's interpreter with all
 * imports done (checkpoint.c). runsc is opened once, so that it is the same
 * program that writes and reads checkpoints.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/tier.h"

#define RUNSC "/usr/bin/runsc"
#define NEEDED_WALLS                                                          \
    (WARDEN_WALL_UIDS | WARDEN_WALL_SCRATCH | WARDEN_WALL_USERNS)
#define MIB ((uint64_t)1 << 20)

/* What runsc itself needs beside the session: its processes and threads, and
 * one for each address space of the guest; its memory. */
#define RUNSC_TASKS 160u
#define RUNSC_MEMORY (96 * MIB)

/* ---- is it there? ------------------------------------------------------- */

void tier_runsc_open(struct warden *w)
{
    struct stat st;

    w->runsc_fd = -1;
    if ((w->walls & NEEDED_WALLS) == NEEDED_WALLS)
        w->runsc_fd = open(RUNSC, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (w->runsc_fd >= 0 && (fstat(w->runsc_fd, &st) < 0 ||
                             !S_ISREG(st.st_mode) || !(st.st_mode & S_IXOTH)))
        fd_close(&w->runsc_fd);
}

const char *tier_runsc_missing(const struct warden *w)
{
    if (w->runsc_fd >= 0)
        return NULL;
    if ((w->walls & NEEDED_WALLS) != NEEDED_WALLS)
        return "isolation gvisor needs the walls uids, scratch and userns";
    return "isolation gvisor needs " RUNSC
           "; install Debian's package runsc (20240729 or newer)";
}

/* ---- the tier ----------------------------------------------------------- */

static bool runsc_prepare(struct warden *w, const struct warden_spawn *spawn,
                          struct warden_reply *reply)
{
    const char *missing = tier_runsc_missing(w);

    if (missing) {
        warden_reply_fail(reply, WARDEN_REFUSED, 0, "%s", missing);
        return false;
    }
    return tier_clone_prepare(w, spawn, reply) &&
           checkpoint_prepare(w, &w->runtimes[spawn->runtime], reply);
}

static bool runsc_start(struct warden *w, const struct warden_spawn *spawn,
                        struct slot *s, int *fds, struct warden_reply *reply)
{
    struct checkpoint *from = w->runtimes[spawn->runtime].checkpoints.current;
    struct clone_kind kind = {.tier = &tier_runsc,
                              .limits = spawn->limits,
                              .guest = SANDBOX_GUEST_SESSION,
                              .fds = {w->runsc_fd, -1},
                              .fd_count = 2};
    bool started;

    kind.limits.memory_bytes += RUNSC_MEMORY;
    kind.limits.processes = 2 * spawn->limits.processes + RUNSC_TASKS;
    kind.fds[1] = checkpoint_mount(from);
    if (kind.fds[1] < 0) {
        warden_reply_fail(reply, WARDEN_FAILED, -kind.fds[1],
                          "cannot mount the checkpoint");
        return false;
    }
    started = tier_clone_start(w, spawn, &kind, s, fds, reply);
    fd_close(&kind.fds[1]);
    if (started) {
        checkpoint_take(from);
        s->checkpoint = from;
    }
    return started;
}

static bool runsc_release(struct warden *w, struct slot *s)
{
    if (!tier_clone_release(w, s))
        return false;
    if (s->checkpoint)
        checkpoint_put(w, s->checkpoint);
    s->checkpoint = NULL;
    return true;
}

const struct tier tier_runsc = {
    .name = WARDEN_TIER_GUEST,
    .prepare = runsc_prepare,
    .start = runsc_start,
    .signal = tier_clone_signal,
    .usage = tier_clone_usage,
    .release = runsc_release,
};
