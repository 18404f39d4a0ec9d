/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warden's answers, one per request of wire/warden_msg.h (SPAWN, the long
 * one, is in spawn.c). They share their names with the stubs in call.c. Runs
 * in the warden, called by its loop (serve.c), which has checked that the
 * request is one, is timely and came with its descriptors.
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
#include "warden/warden_int.h"

#define ALONE_MS 10000u /* longer than a warden takes to end (serve.c) */
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
        sandbox_cpu_reserve(w->groups, s ? s->cpus : NULL);
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
const struct warden_answer warden_answers[WARDEN_REQUEST_MAX] = {
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
