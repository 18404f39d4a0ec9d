/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The isolation tier "process": a session is a clone of its runtime's zygote
 * (zygote.c) in namespaces of its own, behind a system call filter and
 * landlock (sandbox/). Starting one means: mount the layers of the workspace,
 * set the limits, have the zygote clone, map the new process's ids, let it
 * continue. Runs in the warden, as root or as root of its own user namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "fair/fair.h"
#include "warden/tier.h"
#include "wire/wire.h"

#define ZYGOTE_FAILURES_MAX 3u /* starts of a zygote in a row */
#define LAYERS_AT 2            /* among the descriptors of a SPAWN */

bool tier_clone_prepare(struct warden *w, const struct warden_spawn *spawn,
                        struct warden_reply *reply)
{
    struct runtime *rt = &w->runtimes[spawn->runtime];

    if (zygote_for(w, rt, spawn->zygote))
        return true;
    if (!rt->current.ready && rt->fast_deaths >= ZYGOTE_FAILURES_MAX)
        warden_reply_fail(reply, WARDEN_FAILED, ECHILD,
                          "the runtime does not start; the service's log "
                          "says at which step");
    else
        reply->result = WARDEN_NOT_READY;
    return false;
}

/* ---- start -------------------------------------------------------------- */

/* Grants as many processors as the limit says, in turn over all that we may
 * use. off_reserve: those outside the reserve first. */
static void choose_cpus(struct warden *w, bool off_reserve,
                        struct sandbox_spec *spec)
{
    cpu_set_t mine;
    unsigned total, left, last = w->next_cpu;

    if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
        return; /* not pinned then; the group's quota still holds */
    total = (unsigned)CPU_COUNT(&mine);
    left = MIN(spec->limits.cores, total);
    for (unsigned n = 0; left && n < 2 * CPU_SETSIZE; n++) {
        unsigned i = (w->next_cpu + n) % CPU_SETSIZE;

        if (!CPU_ISSET(i, &mine) ||
            (n < CPU_SETSIZE && off_reserve &&
             !sandbox_cpu_reserve_allows(w->groups, i)))
            continue;
        CPU_CLR(i, &mine);
        spec->cpus[i / 64] |= (uint64_t)1 << (i % 64);
        left--;
        last = i;
    }
    w->next_cpu = (last + 1) % CPU_SETSIZE;
}

static int write_map(pid_t pid, const char *name, uint32_t inner,
                     uint32_t outer)
{
    char path[48], line[48];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    (void)snprintf(line, sizeof(line), "%u %u 1\n", inner, outer);
    return fd_write_file(AT_FDCWD, path, line);
}

int tier_clone_map(struct warden *w, uint32_t number, uint32_t inner,
                   pid_t pid)
{
    uint32_t outer =
        w->walls & WARDEN_WALL_UIDS ? w->setup.uid_base + number : 0;
    char path[48];
    int r;

    if (!(w->walls & WARDEN_WALL_UIDS)) {
        /* Without root a group map is only taken once this is given up. */
        (void)snprintf(path, sizeof(path), "/proc/%d/setgroups", (int)pid);
        (void)fd_write_file(AT_FDCWD, path, "deny");
    }
    r = write_map(pid, "gid_map", inner, outer);
    return r < 0 ? r : write_map(pid, "uid_map", inner, outer);
}

/* The new process waits for two bytes: "i" when its ids exist, "g" when it is
 * in its control groups, unless it joins them itself. In between it mounts. */
static int admit_clone(struct warden *w, struct slot *s, uint32_t inner,
                       pid_t pid, bool joins, int go)
{
    int r = tier_clone_map(w, s->number, inner, pid);

    if (r == 0)
        r = fd_write_all(go, "i", 1);
    if (r == 0 && !joins)
        r = sandbox_cgroup_add(w->groups, s->group, pid);
    return r < 0 ? r : fd_write_all(go, "g", 1);
}

/* fds: ctl, events, then mounts of layers. */
static int clone_into(struct warden *w, const struct warden_spawn *spawn,
                      const struct clone_kind *kind, struct slot *s,
                      const int *fds)
{
    struct sandbox_spec spec = {
        .limits = spawn->limits,
        .has_scratch = s->scratch_fd >= 0,
        .has_dev = s->dev_fd >= 0,
        .layers = spawn->layers,
        .own_uid = !!(w->walls & WARDEN_WALL_UIDS),
        .accept_no_landlock =
            !!(w->setup.accepted_walls & WARDEN_WALL_LANDLOCK),
        .guest = kind->guest,
    };
    int go[2] = {-1, -1};
    int all[WIRE_FDS_MAX];
    size_t count = 0;
    pid_t pid = 0;
    int r = fd_pipe(go);

    if (r < 0)
        return r;
    choose_cpus(w, spawn->background && w->cpu_reserve, &spec);
    memcpy(s->cpus, spec.cpus, sizeof(s->cpus));
    all[count++] = fds[0];
    all[count++] = fds[1];
    all[count++] = go[0];
    all[count++] = w->filter_fd;
    if (spec.has_scratch)
        all[count++] = s->scratch_fd;
    if (spec.has_dev)
        all[count++] = s->dev_fd;
    for (uint32_t i = 0; i < spec.layers; i++)
        all[count++] = fds[LAYERS_AT + i];
    r = sandbox_cgroup_limit(w->groups, s->group, &kind->limits);
    if (spawn->background)
        slot_set_background(w, s, true);
    if (r == 0)
        r = sandbox_cgroup_doors(w->groups, s->group, all + count);
    if (r > 0) {
        spec.groups = (uint32_t)r;
        r = 0;
    }
    for (size_t i = 0; i < kind->fd_count; i++)
        all[count + spec.groups + i] = kind->fds[i];
    if (r == 0)
        r = zygote_spawn(w, &w->runtimes[spawn->runtime], spawn->zygote, &spec,
                         all, count + spec.groups + kind->fd_count, &pid,
                         s->zygote);
    if (r == 0) {
        slot_spawned(s, kind->tier, pid);
        r = admit_clone(w, s, kind->guest ? 0 : SANDBOX_UID, pid,
                        spec.groups > 0, go[1]);
    }
    for (uint32_t i = 0; i < spec.groups; i++)
        fd_close(&all[count + i]);
    fd_close(&go[0]);
    fd_close(&go[1]); /* a process that misses its bytes exits on this */
    return r;
}

/* Replaces each folder by a mount of it. */
static bool mount_layers(struct warden *w, struct slot *s, int *folders,
                         size_t count, struct warden_reply *reply)
{
    int mounts[WARDEN_LAYERS_MAX];
    int r = layers_open(w, s, folders, count, mounts);

    if (r == -EPERM)
        warden_reply_fail(reply, WARDEN_REFUSED, 0,
                          "layers: not a folder of the service's own");
    else if (r < 0)
        warden_reply_fail(reply, WARDEN_FAILED, -r,
                          "cannot lay files below the session");
    if (r < 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        fd_close(&folders[i]);
        folders[i] = mounts[i];
    }
    return true;
}

bool tier_clone_start(struct warden *w, const struct warden_spawn *spawn,
                      const struct clone_kind *kind, struct slot *s, int *fds,
                      struct warden_reply *reply)
{
    int r;

    if (!mount_layers(w, s, fds + LAYERS_AT, spawn->layers, reply))
        return false;
    r = clone_into(w, spawn, kind, s, fds);
    if (r < 0)
        warden_reply_fail(reply,
                          r == -EAGAIN ? WARDEN_NOT_READY : WARDEN_FAILED, -r,
                          "cannot clone the session");
    return r == 0;
}

static bool clone_start(struct warden *w, const struct warden_spawn *spawn,
                        struct slot *s, int *fds, struct warden_reply *reply)
{
    struct clone_kind kind = {.tier = &tier_clone, .limits = spawn->limits};

    return tier_clone_start(w, spawn, &kind, s, fds, reply);
}

/* ---- while it lives, and its end ---------------------------------------- */

void tier_clone_signal(struct warden *w, struct slot *s, int sig)
{
    (void)w;
    if (s->pid)
        (void)kill(s->pid, sig); /* our own child, not yet reaped */
}

int tier_clone_usage(struct warden *w, struct slot *s, bool reset_peak,
                     struct warden_usage *ret)
{
    ret->alive = s->state == SLOT_ALIVE;
    ret->wait_status = s->wait_status;
    ret->locks = s->locks_ended;
    return sandbox_cgroup_usage(w->groups, s->group, reset_peak, ret);
}

/* The kernel ends a whole pid namespace with its pid 1, and no process of the
 * session is outside of it. Its memory is freed in the background class, but
 * only for a while, so that it ends on a busy machine too. */
bool tier_clone_release(struct warden *w, struct slot *s)
{
    if (!s->pid)
        return true;
    if (s->state != SLOT_DRAINING) {
        if (fair_enabled(FAIR_END_YIELD))
            slot_set_background(w, s, true);
        s->background_until_ms = clock_mono_ms() + fair.end_yield_ms;
        tier_clone_signal(w, s, SIGKILL); /* reaped by the warden's loop */
    } else if (s->background_until_ms &&
               clock_left_ms(s->background_until_ms) == 0) {
        slot_set_background(w, s, false);
        s->background_until_ms = 0;
    }
    return false;
}

const struct tier tier_clone = {
    .name = WARDEN_TIER_DEFAULT,
    .prepare = tier_clone_prepare,
    .start = clone_start,
    .signal = tier_clone_signal,
    .usage = tier_clone_usage,
    .release = tier_clone_release,
};

const struct tier *const tier_list[] = {&tier_clone, &tier_runsc, NULL};
