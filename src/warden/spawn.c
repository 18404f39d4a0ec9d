/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warden's answer to SPAWN: check, take a slot, lay the workspace's
 * layers, set the limits, have the zygote clone, map the newborn's ids, let
 * it go. Runs as root (or as root of its own user namespace).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "warden/warden_int.h"
#include "wire/wire.h"

#define HOPELESS 3u /* starts of a zygote that failed in a row */
#define LAYERS_AT 2 /* among the descriptors of a SPAWN */

/* As many processors as granted, taking turns over those we may use; first of
 * all those that it may use at once. */
static void choose_cpus(struct warden *w, bool narrow,
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

        if (!CPU_ISSET(i, &mine) || (n < CPU_SETSIZE && narrow &&
                                     !sandbox_cgroup_may_use(w->groups, i)))
            continue;
        CPU_CLR(i, &mine);
        spec->cpus[i / 64] |= (uint64_t)1 << (i % 64);
        left--;
        last = i;
    }
    w->next_cpu = (last + 1) % CPU_SETSIZE;
}

static int write_map(pid_t pid, const char *name, uint32_t outer)
{
    char path[48], line[48];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    (void)snprintf(line, sizeof(line), "%d %u 1\n", SANDBOX_UID, outer);
    return fd_write_file(AT_FDCWD, path, line);
}

static int map_ids(struct warden *w, struct slot *s, pid_t pid)
{
    uint32_t outer =
        w->walls & WARDEN_WALL_UIDS ? w->setup.uid_base + s->number : 0;
    char path[48];
    int r;

    if (!(w->walls & WARDEN_WALL_UIDS)) {
        /* Without root a group map is only taken once this is given up. */
        (void)snprintf(path, sizeof(path), "/proc/%d/setgroups", (int)pid);
        (void)fd_write_file(AT_FDCWD, path, "deny");
    }
    r = write_map(pid, "gid_map", outer);
    return r < 0 ? r : write_map(pid, "uid_map", outer);
}

/* The newborn waits for both: its ids exist, and, unless it joins them by
 * itself, its groups come to hold it while it mounts. */
static int admit(struct warden *w, struct slot *s, pid_t pid, bool joins,
                 int go)
{
    int r = map_ids(w, s, pid);

    if (r == 0)
        r = fd_write_all(go, "i", 1);
    if (r == 0 && !joins)
        r = sandbox_cgroup_add(w->groups, s->group, pid);
    return r < 0 ? r : fd_write_all(go, "g", 1);
}

/* fds: ctl, events, then mounts of layers. */
static int clone_into(struct warden *w, const struct warden_spawn *spawn,
                      struct slot *s, const int *fds)
{
    struct sandbox_spec spec = {
        .limits = spawn->limits,
        .has_scratch = s->scratch_fd >= 0,
        .has_dev = s->dev_fd >= 0,
        .layers = spawn->layers,
        .own_uid = !!(w->walls & WARDEN_WALL_UIDS),
        .accept_no_landlock =
            !!(w->setup.accepted_walls & WARDEN_WALL_LANDLOCK),
    };
    int go[2] = {-1, -1};
    int all[WIRE_FDS_MAX];
    size_t count = 0;
    pid_t pid = 0;
    int r = fd_pipe(go);

    if (r < 0)
        return r;
    choose_cpus(w, spawn->calm && w->room, &spec);
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
    r = sandbox_cgroup_limit(w->groups, s->group, &spawn->limits);
    if (spawn->calm)
        slot_calm(w, s, true);
    if (r == 0)
        r = sandbox_cgroup_doors(w->groups, s->group, all + count);
    if (r > 0) {
        spec.groups = (uint32_t)r;
        r = 0;
    }
    if (r == 0)
        r = zygote_spawn(w, &w->runtimes[spawn->runtime], &spec, all,
                         count + spec.groups, &pid);
    if (r == 0) {
        slot_spawned(s, pid);
        r = admit(w, s, pid, spec.groups > 0, go[1]);
    }
    for (uint32_t i = 0; i < spec.groups; i++)
        fd_close(&all[count + i]);
    fd_close(&go[0]);
    fd_close(&go[1]); /* without its bytes, the newborn exits on this */
    return r;
}

/* Mounts take the place of the folders they show. A slot that is not used
 * for it stays a spare. */
static bool lay(struct warden *w, struct slot *s, int *folders, size_t count,
                struct warden_reply *reply)
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

static void no_storage(int errnum, struct warden_reply *reply)
{
    if (errnum == EAGAIN)
        warden_reply_fail(reply, WARDEN_NOT_READY, 0,
                          "the session's storage is still being made");
    else
        warden_reply_fail(reply,
                          errnum == ENOSPC || errnum == EMFILE ? WARDEN_FULL
                                                               : WARDEN_FAILED,
                          errnum, "cannot prepare the session's storage");
}

void warden_serve_spawn(struct warden *w, const struct warden_request *req,
                        int *fds, struct warden_reply *reply)
{
    const struct warden_spawn *spawn = &req->u.spawn;
    const char *why = NULL;
    struct slot *s;
    int r;

    if (!warden_policy_spawn(w, spawn, &why)) {
        warden_reply_fail(reply, WARDEN_REFUSED, 0, "%s", why);
        return;
    }
    if (!w->runtimes[spawn->runtime].current.ready) {
        if (w->runtimes[spawn->runtime].fast_deaths >= HOPELESS)
            warden_reply_fail(reply, WARDEN_FAILED, ECHILD,
                              "the runtime does not start; the service's log "
                              "says at which step");
        else
            reply->result = WARDEN_NOT_READY;
        return;
    }
    s = slot_take(w, &spawn->limits, spawn->ticket);
    if (!s) {
        no_storage(errno, reply);
        return;
    }
    if (!lay(w, s, fds + LAYERS_AT, spawn->layers, reply))
        return;
    r = clone_into(w, spawn, s, fds);
    if (r == 0)
        r = sandbox_cgroup_meters(w->groups, s->group, &w->meters);
    if (r < 0) {
        if (s->state == SLOT_ALIVE)
            slot_release(w, s);
        warden_reply_fail(reply,
                          r == -EAGAIN ? WARDEN_NOT_READY : WARDEN_FAILED, -r,
                          "cannot clone the session");
        return;
    }
    reply->u.spawned.slot = s->number;
}
