/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warden's answers, one per request of wire/warden_msg.h. Each has the
 * name of its stub in call.c. Runs in the warden, called by its loop
 * (serve.c), which has checked the size, type and time of the request and the
 * number of its descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "warden/tier.h"

/* Longer than a warden takes to end (END_MS of serve.c), shorter than the
 * daemon waits for the reply (REPLY_MS of call.c). */
#define ALONE_MS 25000u
#define AGAIN_MS 5

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

static void fill_status(struct warden *w, struct warden_status *ret)
{
    size_t spares = slot_count(w, SLOT_SPARE);

    *ret = (struct warden_status){
        .walls = w->walls,
        .slots =
            (uint32_t)(w->slot_count - spares - slot_count(w, SLOT_MAKING)),
        .spare_scratches = (uint32_t)spares,
        .zygote_restarts = w->zygote_restarts,
        .zygotes_revived = w->zygotes_revived,
        .zygote_images = zygote_images_count(w),
        .cgroup_version = (uint32_t)sandbox_cgroup_version(w->groups),
        .tiers = WARDEN_TIER_PROCESS |
                 (tier_runsc_missing(w) ? 0 : WARDEN_TIER_GVISOR),
    };
    ret->image_swaps = w->image_swaps;
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

/* Waits until no other warden uses this data directory. The warden of a
 * service that was just killed may still be ending its sessions, which have
 * the same host uids and group names as ours will have. */
static bool wait_alone(struct warden *w)
{
    uint64_t deadline = clock_mono_ms() + ALONE_MS;

    while (flock(w->scratch_dir, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK || clock_left_ms(deadline) == 0)
            return false;
        (void)poll(NULL, 0, AGAIN_MS);
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
    zygote_images_open(w);
    tier_runsc_open(w);
    checkpoint_sweep(w);
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

    if (!warden_policy_runtime(w, r, &why)) {
        warden_reply_fail(reply, WARDEN_REFUSED, 0, "%s", why);
        return;
    }
    if (r->replaces) {
        zygote_change(w, &w->runtimes[r->replaces - 1], r, take_fd(fds[0]));
        reply->u.runtime = r->replaces - 1;
        return;
    }
    if (w->runtime_count == WARDEN_RUNTIMES_MAX) {
        warden_reply_fail(reply, WARDEN_FULL, 0, "too many runtimes");
        return;
    }
    *rt = (struct runtime){.spec_fd = take_fd(fds[0]),
                           .fresh_exec = r->fresh_exec,
                           .current = {.sock = -1, .image = {-1, -1}},
                           .next = {.sock = -1, .image = {-1, -1}}};
    memcpy(rt->image, r->image, sizeof(rt->image));
    for (size_t i = 0; i < ZYGOTES_OLD; i++)
        rt->old[i] = rt->current;
    reply->u.runtime = (uint32_t)w->runtime_count++;
    zygote_start_first(w, rt);
}

/* ---- SPAWN ---------------------------------------------------------------
 */

static void warden_serve_spawn(struct warden *w,
                               const struct warden_request *req, int *fds,
                               struct warden_reply *reply)
{
    const struct warden_spawn *spawn = &req->u.spawn;
    const struct tier *tier;
    const char *why = NULL;
    struct slot *s;
    int r;

    if (!warden_policy_spawn(w, spawn, &why)) {
        warden_reply_fail(reply, WARDEN_REFUSED, 0, "%s", why);
        return;
    }
    for (size_t i = 0; (tier = w->tiers[i]); i++)
        if (strcmp(tier->name, spawn->tier) == 0)
            break;
    if (!tier) {
        warden_reply_fail(reply, WARDEN_REFUSED, 0,
                          "isolation %s is not in this build", spawn->tier);
        return;
    }
    if (!tier->prepare(w, spawn, reply))
        return;
    s = slot_take(w, &spawn->limits, spawn->ticket);
    if (!s) {
        if (errno == EAGAIN)
            warden_reply_fail(reply, WARDEN_NOT_READY, 0,
                              "the session's storage is still being made");
        else
            warden_reply_fail(reply,
                              errno == ENOSPC || errno == EMFILE
                                  ? WARDEN_FULL
                                  : WARDEN_FAILED,
                              errno, "cannot prepare the session's storage");

        return;
    }
    if (tier->start(w, spawn, s, fds, reply)) {
        r = sandbox_cgroup_meters(w->groups, s->group, &w->meters);
        if (r == 0) {
            reply->u.spawned.slot = s->number;
            memcpy(reply->u.spawned.zygote, s->zygote, sizeof(s->zygote));
            return;
        }
        warden_reply_fail(reply, WARDEN_FAILED, -r,
                          "cannot measure the session");
    }
    if (s->state == SLOT_ALIVE)
        slot_release(w, s);
}

/* ---- one slot ------------------------------------------------------------
 */

static struct slot *named_slot(struct warden *w,
                               const struct warden_request *req,
                               struct warden_reply *reply)
{
    struct slot *s = slot_find(w, req->u.slot.slot);

    if (!s || s->state == SLOT_SPARE || s->state == SLOT_MAKING) {
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
    r = s->tier->usage(w, s, req->u.slot.reset_peak != 0, &reply->u.usage);
    if (r < 0)
        warden_reply_fail(reply, WARDEN_FAILED, -r, "cannot read the usage");
}

static void warden_serve_sched_class(struct warden *w,
                                     const struct warden_request *req,
                                     int *fds, struct warden_reply *reply)
{
    struct slot *s = named_slot(w, req, reply);

    (void)fds;
    if (s && s->state ==
                 SLOT_ALIVE) /* an ending one is in the background already */
        slot_set_background(w, s, req->u.slot.background != 0);
}

static void warden_serve_cpu_reserve(struct warden *w,
                                     const struct warden_request *req,
                                     int *fds, struct warden_reply *reply)
{
    const struct slot *s = slot_find(w, req->u.cpu_reserve.slot);

    (void)fds;
    (void)reply;
    w->cpu_reserve = req->u.cpu_reserve.on != 0;
    if (w->cpu_reserve)
        sandbox_cpu_reserve_choose(w->groups, s ? s->cpus : NULL);
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i]->background)
            slot_set_background(w, w->slots[i], true);
}

static void warden_serve_kill(struct warden *w,
                              const struct warden_request *req, int *fds,
                              struct warden_reply *reply)
{
    struct slot *s = named_slot(w, req, reply);

    (void)fds;
    if (s)
        s->tier->signal(w, s, SIGKILL);
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
static void warden_serve_zygotes(struct warden *w,
                                 const struct warden_request *req, int *fds,
                                 struct warden_reply *reply)
{
    (void)fds;
    if (req->u.zygotes.count > WARDEN_ZYGOTES_MAX)
        warden_reply_fail(reply, WARDEN_REFUSED, 0, "too many zygotes");
    else if (!w->saver) /* else with the next one */
        zygote_images_trim(w, &req->u.zygotes);
}

const struct warden_answer warden_answers[WARDEN_REQUEST_MAX] = {
    [WARDEN_SETUP] = {true, 0, warden_serve_setup},
    [WARDEN_RUNTIME] = {false, 1, warden_serve_runtime},
    [WARDEN_SPAWN] = {false, 2, warden_serve_spawn},
    [WARDEN_USAGE] = {false, 0, warden_serve_usage},
    [WARDEN_KILL] = {false, 0, warden_serve_kill},
    [WARDEN_RELEASE] = {false, 0, warden_serve_release},
    [WARDEN_STATUS] = {false, 0, warden_serve_status},
    [WARDEN_SCHED_CLASS] = {false, 0, warden_serve_sched_class},
    [WARDEN_CPU_RESERVE] = {false, 0, warden_serve_cpu_reserve},
    [WARDEN_ZYGOTES] = {false, 0, warden_serve_zygotes},
};
