/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zygotes, seen from the warden: start one per runtime, replace it by age and
 * count, restart it when it dies, ask it to clone a session. A replacement
 * imports beside the old zygote and replaces it when ready, so that no session
 * waits for it. Runs in the warden's only thread.
 *
 * A zygote is started by its imports, or revived from its image
 * (zygote_image.c) with the same memory layout. The layout must not become a
 * constant of the installation (Z5): a revived zygote is as old and as used as
 * its layout, so it is replaced like any other. An older one is revived only
 * for memory that is stored of its sessions, and ends when that is rare.
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
#include "fair/fair.h"
#include "warden/tier.h"
#include "wire/wire.h"
#include "wire/zygote_msg.h"

#define REPLY_MS 5000
#define RESTART_MS 250u /* doubled for each death in a row, up to a minute */
#define FAST_DEATH_MS 10000u
#define SAVE_AFTER_MS                                                         \
    1000u                  /* sessions that wait for the zygote come first    \
                            */
#define SAVE_AGAIN_MS 200u /* another one is being stored */
#define OLD_IDLE_MS 60000u /* after which an older one ends */
#define COUNT_STEP 64u     /* spawns between two notes of their number */

static const unsigned char no_id[WARDEN_ZYGOTE_ID];
#define NO_ZYGOTE                                                             \
    (struct zygote)                                                           \
    {                                                                         \
        .sock = -1, .image = { -1, -1 }                                       \
    }

struct zygote *zygote_at(struct runtime *rt, size_t i)
{
    return i == 0 ? &rt->current : i == 1 ? &rt->next : &rt->old[i - 2];
}

static void start(struct warden *w, struct runtime *rt, struct zygote *z,
                  int stored)
{
    int pair[2];
    pid_t pid;

    if (fd_socketpair(SOCK_SEQPACKET, pair) < 0)
        return; /* tried again later */
    pid = fork();
    if (pid == 0) {
        fair_priority_reset();
        zygote_child_run(w, rt->image, pair[1], rt->spec_fd, stored);
    }
    fd_close(&pair[1]);
    if (pid < 0) {
        fd_close(&pair[0]);
        return;
    }
    *z = NO_ZYGOTE;
    z->pid = pid;
    z->sock = pair[0];
    z->revived = stored >= 0;
    z->started_ms = z->used_ms = clock_mono_ms();
    z->image_number = rt->image_number;
}

void zygote_start(struct warden *w, struct runtime *rt, struct zygote *z,
                  const unsigned char *revives)
{
    unsigned char id[WARDEN_ZYGOTE_ID] = {0};
    uint64_t age_ms = 0;
    uint32_t spawns = 0;
    int stored cleanup(fd_close) = -1;

    if (revives) {
        memcpy(id, revives, sizeof(id));
        stored = zygote_image_find(w, rt, id, &age_ms, &spawns);
    }
    rt->last_start_ms = clock_mono_ms();
    start(w, rt, z, stored);
    if (stored < 0)
        return;
    memcpy(z->id, id, sizeof(id));
    z->lived_ms = age_ms;
    z->spawns = spawns;
}

void zygote_start_first(struct warden *w, struct runtime *rt)
{
    rt->tried_image = true;
    zygote_start(w, rt, &rt->current, no_id);
}

/* Closing its socket ends it; it is reaped by the loop. */
static void zygote_retire(struct warden *w, struct zygote *z)
{
    if (!z->pid)
        return;
    if (z->ready)
        zygote_image_count(w, z);
    fd_close(&z->sock);
    fd_close(&z->image[0]);
    fd_close(&z->image[1]);
    (void)kill(z->pid, SIGKILL); /* in case it is still importing */
    *z = NO_ZYGOTE;
}

void zygote_change(struct warden *w, struct runtime *rt,
                   const struct warden_runtime *to, int spec_fd)
{
    zygote_retire(w, &rt->next);
    for (size_t i = 0; i < ZYGOTES_OLD; i++)
        zygote_retire(w, &rt->old[i]);
    fd_close(&rt->spec_fd);
    rt->spec_fd = spec_fd;
    rt->fresh_exec = to->fresh_exec;
    memcpy(rt->image, to->image, sizeof(rt->image));
    rt->image_number++;
    rt->changed = true;
    rt->tried_image = false;
    rt->fast_deaths = 0;
    rt->checkpoints.failures = 0;
    rt->checkpoints.retry_ms = 0;
}

/* Several deaths soon after the start, in a row, delay the next start. */
static void zygote_note_death(struct warden *w, struct runtime *rt,
                              const struct zygote *z)
{
    bool soon = clock_mono_ms() - z->started_ms < FAST_DEATH_MS;

    rt->revived_deaths = z->revived && soon ? rt->revived_deaths + 1 : 0;
    if (z->revived && (!z->ready || rt->revived_deaths > 1)) {
        /* Other files, another host, a damaged image: no fault of the
         * runtime, which is started by its imports at once. */
        log_event(LOG_WARN, "zygote_not_revived", "image", rt->image, NULL);
        zygote_image_remove(w, z->id);
        return;
    }
    log_event(LOG_WARN, "zygote_died", "image", rt->image, NULL);
    if (soon)
        rt->fast_deaths++;
    w->zygote_restarts++;
}

/* True: it is ready, and all that came with that is kept. */
static bool read_ready(struct zygote *z)
{
    struct zygote_reply reply;
    int fds[WIRE_FDS_MAX];
    size_t count = 0;
    ssize_t n = wire_recv(z->sock, &reply, sizeof(reply), fds, &count);
    bool good = n == (ssize_t)sizeof(reply) && reply.type == ZYGOTE_READY &&
                !z->ready && (count == 0 || (count == 2 && !z->revived)) &&
                (!z->revived || memcmp(reply.id, z->id, sizeof(z->id)) == 0);

    for (size_t i = 0; i < count; i++)
        if (good)
            z->image[i] = fds[i];
        else
            fd_close(&fds[i]);
    if (good) {
        memcpy(z->id, reply.id, sizeof(z->id));
        z->save_ms = clock_mono_ms() + SAVE_AFTER_MS;
    }
    return good;
}

void zygote_on_readable(struct warden *w, struct runtime *rt, struct zygote *z)
{
    char ms[24];

    if (!read_ready(z)) {
        zygote_note_death(w, rt, z);
        zygote_retire(w, z);
        return;
    }
    z->ready = true;
    rt->fast_deaths = 0;
    w->zygotes_revived += z->revived;
    (void)snprintf(ms, sizeof(ms), "%llu",
                   (unsigned long long)(clock_mono_ms() - z->started_ms));
    log_event(LOG_INFO, "zygote_ready", "image", rt->image, "ms", ms, "from",
              z->revived ? "its image" : "its imports", NULL);
    if (z != &rt->current && z != &rt->next)
        return;
    if (rt->changed && z->image_number == rt->image_number) {
        rt->changed = false;
        w->image_swaps++;
    }
    if (z == &rt->next) {
        zygote_retire(w, &rt->current);
        rt->current = *z;
        *z = NO_ZYGOTE;
    }
}

bool zygote_on_exit(struct warden *w, pid_t pid)
{
    if (pid == w->saver) {
        w->saver = 0;
        return true;
    }
    for (size_t i = 0; i < w->runtime_count; i++)
        for (size_t k = 0; k < RUNTIME_ZYGOTES; k++) {
            struct zygote *z = zygote_at(&w->runtimes[i], k);

            if (z->pid != pid)
                continue;
            zygote_note_death(w, &w->runtimes[i], z);
            zygote_retire(w, z);
            return true;
        }
    return false;
}

static bool zygote_is_worn(const struct warden *w, const struct zygote *z)
{
    return clock_mono_ms() - z->started_ms + z->lived_ms >
               (uint64_t)w->setup.zygote_max_age_s * 1000 ||
           z->spawns >= w->setup.zygote_max_spawns;
}

static uint64_t zygote_restart_due_ms(const struct runtime *rt)
{
    unsigned shift = MIN(rt->fast_deaths, 8u);

    return rt->last_start_ms + (rt->fast_deaths ? RESTART_MS << shift : 0);
}

/* Stores images that are due; ends older zygotes that have had no use.
 * Returns ms until there is more to do. */
static int tend_images(struct warden *w, struct runtime *rt)
{
    int wait_ms = 60000;

    for (size_t k = 0; k < RUNTIME_ZYGOTES; k++) {
        struct zygote *z = zygote_at(rt, k);

        if (k >= 2 && z->ready && clock_left_ms(z->used_ms + OLD_IDLE_MS) == 0)
            zygote_retire(w, z);
        if (z->image[0] < 0 || !z->pid || rt->fresh_exec)
            continue;
        if (w->saver)
            wait_ms = MIN(wait_ms, (int)SAVE_AGAIN_MS);
        else if (clock_left_ms(z->save_ms) > 0)
            wait_ms = MIN(wait_ms, clock_left_ms(z->save_ms));
        else
            zygote_image_store(w, rt, z);
    }
    return wait_ms;
}

int zygote_tend(struct warden *w)
{
    int wait_ms = 60000;

    for (size_t i = 0; i < w->runtime_count; i++) {
        struct runtime *rt = &w->runtimes[i];
        bool want_next = rt->current.pid && rt->current.ready &&
                         !rt->next.pid &&
                         (rt->current.image_number != rt->image_number ||
                          zygote_is_worn(w, &rt->current));
        bool first = !rt->tried_image || !rt->current.pid;

        wait_ms = MIN(wait_ms, tend_images(w, rt));
        if (!rt->current.pid && rt->next.pid) {
            rt->current = rt->next;
            rt->next = NO_ZYGOTE;
        }
        if (rt->current.pid && !want_next)
            continue;
        if (clock_left_ms(zygote_restart_due_ms(rt)) > 0) {
            wait_ms = MIN(wait_ms, clock_left_ms(zygote_restart_due_ms(rt)));
            continue;
        }
        rt->tried_image = true;
        /* One that died is revived; one that is worn out is not. */
        zygote_start(w, rt, want_next ? &rt->next : &rt->current,
                     first ? no_id : NULL);
    }
    return wait_ms;
}

/* ---- sessions ----------------------------------------------------------- */

/* A place for an older zygote: a free one, or that of the one whose last use
 * is longest ago. */
static struct zygote *old_place(struct warden *w, struct runtime *rt)
{
    struct zygote *least = &rt->old[0];

    for (size_t i = 0; i < ZYGOTES_OLD; i++) {
        if (!rt->old[i].pid)
            return &rt->old[i];
        if (rt->old[i].used_ms < least->used_ms)
            least = &rt->old[i];
    }
    zygote_retire(w, least);
    return least;
}

struct zygote *zygote_for(struct warden *w, struct runtime *rt,
                          const unsigned char *want)
{
    struct zygote *current = rt->current.ready ? &rt->current : NULL;
    unsigned char id[WARDEN_ZYGOTE_ID];
    int stored cleanup(fd_close) = -1;
    uint64_t age_ms;
    uint32_t spawns;

    if (!want || memcmp(want, no_id, sizeof(no_id)) == 0 || rt->fresh_exec)
        return current;
    for (size_t k = 0; k < RUNTIME_ZYGOTES; k++) {
        struct zygote *z = zygote_at(rt, k);

        if (z->pid && memcmp(z->id, want, sizeof(z->id)) == 0)
            return z->ready ? z : NULL;
    }
    memcpy(id, want, sizeof(id));
    stored = zygote_image_find(w, rt, id, &age_ms, &spawns);
    /* No zygote fits the memory; the kernel that reads the image refuses it.
     */
    if (stored < 0 || !current)
        return current;
    zygote_start(w, rt, old_place(w, rt), want);
    return NULL;
}

/* A zygote may only report a new child of ours: the warden acts on the
 * reported pid as root. */
static bool is_new_child(struct warden *w, pid_t pid)
{
    siginfo_t info;

    if (pid <= 1 || slot_by_pid(w, pid) || slot_by_helper(w, pid))
        return false;
    if (pid == w->saver || checkpoint_makes(w, pid))
        return false;
    for (size_t i = 0; i < w->runtime_count; i++)
        for (size_t k = 0; k < RUNTIME_ZYGOTES; k++)
            if (zygote_at(&w->runtimes[i], k)->pid == pid)
                return false;
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

int zygote_spawn(struct warden *w, struct runtime *rt,
                 const unsigned char *want, const struct sandbox_spec *spec,
                 const int *fds, size_t count, pid_t *ret_pid,
                 unsigned char *ret_id)
{
    struct zygote_request req = {.type = ZYGOTE_SPAWN, .spec = *spec};
    struct zygote_reply reply;
    struct zygote *z = zygote_for(w, rt, want);
    struct pollfd p = {.fd = z ? z->sock : -1, .events = POLLIN};
    ssize_t n;
    int r;

    if (!z)
        return -EAGAIN;
    r = wire_send(z->sock, &req, sizeof(req), fds, count);
    if (r == 0 && poll(&p, 1, REPLY_MS) != 1)
        r = -ETIMEDOUT;
    if (r < 0) {
        zygote_retire(w, z); /* dead or stuck; a new one is started */
        return -EAGAIN;
    }
    n = wire_recv(z->sock, &reply, sizeof(reply), NULL, NULL);
    if (n != (ssize_t)sizeof(reply) || reply.type != ZYGOTE_SPAWNED) {
        zygote_retire(w, z);
        return -EAGAIN;
    }
    if (reply.errnum > 0)
        return -reply.errnum;
    if (!is_new_child(w, reply.pid)) {
        log_event(LOG_ERROR, "zygote_lied", "image", rt->image, NULL);
        zygote_retire(w, z);
        return -EAGAIN;
    }
    z->spawns++;
    z->used_ms = clock_mono_ms();
    if (z->spawns % COUNT_STEP == 0)
        zygote_image_count(w, z);
    *ret_pid = reply.pid;
    if (ret_id)
        memcpy(ret_id, z->id, sizeof(z->id));
    if (rt->fresh_exec)
        zygote_retire(w, z); /* its memory layout must not be shared */
    return 0;
}

void zygote_stop_all(struct warden *w)
{
    for (size_t i = 0; i < w->runtime_count; i++)
        for (size_t k = 0; k < RUNTIME_ZYGOTES; k++)
            zygote_retire(w, zygote_at(&w->runtimes[i], k));
}
