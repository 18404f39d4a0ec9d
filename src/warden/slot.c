/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: the host's side of sessions; see the drawing in warden_int.h. Runs
 * in the warden. Numbers, and with them uids, count up and wrap around, so
 * that none is reused while a process or file of its last session could exist.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "warden/tier.h"

#define MAKERS_MAX 4u /* children that create storage at a time */
#define FREERS_MAX 8u
#define MAKE_WAIT_MS                                                          \
    25                   /* creating usually takes less, so few callers retry \
                          */
#define TICKET_MS 5000u  /* how long a spare is kept for its ticket */
#define SURPLUS_MS 1000u /* how long a surplus spare may stay */

static const char *const state_names[] = {
    [SLOT_MAKING] = "making",     [SLOT_SPARE] = "spare",
    [SLOT_ALIVE] = "alive",       [SLOT_DEAD] = "dead",
    [SLOT_DRAINING] = "draining",
};

static const bool allowed[5][5] = {
    [SLOT_MAKING][SLOT_SPARE] = true,  [SLOT_MAKING][SLOT_DRAINING] = true,
    [SLOT_SPARE][SLOT_ALIVE] = true,   [SLOT_SPARE][SLOT_DRAINING] = true,
    [SLOT_ALIVE][SLOT_DEAD] = true,    [SLOT_ALIVE][SLOT_DRAINING] = true,
    [SLOT_DEAD][SLOT_DRAINING] = true,
};

static void slot_set_state(struct slot *s, enum slot_state state)
{
    if (!allowed[s->state][state])
        abort(); /* a defect of ours, never an input */
    log_event(LOG_DEBUG, "slot", "group", s->group, "from",
              state_names[s->state], "to", state_names[state], NULL);
    s->state = state;
}

struct slot *slot_find(struct warden *w, uint32_t number)
{
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i]->number == number)
            return w->slots[i];
    return NULL;
}

struct slot *slot_by_pid(struct warden *w, pid_t pid)
{
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i]->pid == pid)
            return w->slots[i];
    return NULL;
}

struct slot *slot_by_helper(struct warden *w, pid_t pid)
{
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i]->helper == pid)
            return w->slots[i];
    return NULL;
}

size_t slot_count(const struct warden *w, enum slot_state state)
{
    size_t n = 0;

    for (size_t i = 0; i < w->slot_count; i++)
        n += w->slots[i]->state == state;
    return n;
}

static void slot_become_spare(struct slot *s)
{
    slot_set_state(s, SLOT_SPARE);
    s->made_ms = clock_mono_ms();
}

struct slot *slot_make(struct warden *w, uint64_t scratch_bytes,
                       uint32_t scratch_inodes)
{
    struct slot *s;
    int r;

    if (w->slot_count >= w->setup.max_slots + w->setup.spare_scratches) {
        errno = ENOSPC;
        return NULL;
    }
    s = xcalloc(1, sizeof(*s));

    uint32_t n = w->last_number;

    do
        n = n + 1 < w->setup.uid_count ? n + 1 : 1;
    while (slot_find(w, n));
    w->last_number = n;
    s->number = n;

    s->state = SLOT_MAKING;
    s->scratch_fd = s->dev_fd = s->loop_index = s->map_fd = -1;
    s->helper_sock = -1;
    s->scratch_bytes = scratch_bytes;
    s->scratch_inodes = scratch_inodes;
    (void)snprintf(s->group, sizeof(s->group), "s%u", s->number);
    r = sandbox_cgroup_make(w->groups, s->group);
    if (r == 0 && (w->walls & WARDEN_WALL_SCRATCH))
        r = helper_make(w, s);
    if (r < 0) {
        (void)sandbox_cgroup_remove(w->groups, s->group);
        free(s);
        errno = -r;
        return NULL;
    }
    w->slots[w->slot_count++] = s;
    if (!s->helper) /* accepted: the session gets a sized tmpfs */
        slot_become_spare(s);
    return s;
}

void slot_made(struct warden *w, struct slot *s)
{
    int r = helper_made(s);

    if (r == 0) {
        slot_become_spare(s);
        return;
    }
    log_event(LOG_ERROR, "storage_failed", "group", s->group, "errno",
              strerrorname_np(-r), NULL);
    w->failed_ticket = s->ticket;
    w->failed_errnum = -r;
    slot_release(w, s);
}

/* ---- taking one --------------------------------------------------------- */

/* A spare whose SPAWN does not come back in time is free for others. */
static bool slot_is_promised(const struct slot *s)
{
    return s->ticket && clock_left_ms(s->made_ms + TICKET_MS) > 0;
}

static struct slot *slot_find_ticket(struct warden *w, uint32_t ticket)
{
    for (size_t i = 0; ticket && i < w->slot_count; i++) {
        struct slot *s = w->slots[i];

        if (s->ticket == ticket &&
            (s->state == SLOT_MAKING || s->state == SLOT_SPARE))
            return s;
    }
    return NULL;
}

static struct slot *slot_find_spare(struct warden *w,
                                    const struct warden_limits *limits)
{
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = w->slots[i];

        if (s->state == SLOT_SPARE && !slot_is_promised(s) &&
            s->scratch_bytes == limits->scratch_bytes &&
            s->scratch_inodes == limits->scratch_inodes)
            return s;
    }
    return NULL;
}

/* A new slot, unless enough are being created. If the table is full, a spare
 * of another size is released. */
static struct slot *slot_make_for(struct warden *w,
                                  const struct warden_limits *limits,
                                  uint32_t ticket)
{
    struct slot *s = NULL;

    errno = EAGAIN;
    if (slot_count(w, SLOT_MAKING) < MAKERS_MAX)
        s = slot_make(w, limits->scratch_bytes, limits->scratch_inodes);
    if (s)
        s->ticket = ticket;
    for (size_t i = 0; !s && errno == ENOSPC && i < w->slot_count; i++)
        if (w->slots[i]->state == SLOT_SPARE &&
            !slot_is_promised(w->slots[i])) {
            slot_release(w, w->slots[i]);
            errno = EAGAIN;
        }
    return s;
}

struct slot *slot_take(struct warden *w, const struct warden_limits *limits,
                       uint32_t ticket)
{
    struct slot *s = slot_find_ticket(w, ticket);
    int wait_ms = s ? 0 : MAKE_WAIT_MS; /* a repeated SPAWN does not wait */

    w->spare_bytes = limits->scratch_bytes;
    w->spare_inodes = limits->scratch_inodes;
    if (!s && ticket && w->failed_ticket == ticket) {
        w->failed_ticket = 0;
        errno = w->failed_errnum;
        return NULL;
    }
    if (!s)
        s = slot_find_spare(w, limits);
    if (!s)
        s = slot_make_for(w, limits, ticket);
    if (!s)
        return NULL;
    if (s->state == SLOT_MAKING) {
        struct pollfd p = {.fd = s->helper_sock, .events = POLLIN};

        if (poll(&p, 1, wait_ms) == 1)
            slot_made(w, s);
    }
    if (s->state == SLOT_SPARE) {
        s->ticket = 0;
        return s;
    }
    errno = s->state == SLOT_MAKING ? EAGAIN : w->failed_errnum;
    if (s->state != SLOT_MAKING)
        w->failed_ticket = 0;
    return NULL;
}

static struct slot *slot_find_surplus(struct warden *w)
{
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = w->slots[i];

        if (s->state == SLOT_SPARE && !slot_is_promised(s) &&
            clock_left_ms(s->made_ms + SURPLUS_MS) == 0)
            return s;
    }
    return NULL;
}

bool slot_tend_spares(struct warden *w)
{
    size_t spares = slot_count(w, SLOT_SPARE);
    struct slot *s;

    if (spares > w->setup.spare_scratches) {
        s = slot_find_surplus(w);
        if (s)
            slot_release(w, s);
        return s != NULL;
    }
    if (!w->spare_bytes || slot_count(w, SLOT_MAKING) ||
        spares >= w->setup.spare_scratches)
        return false;
    return slot_make(w, w->spare_bytes, w->spare_inodes) != NULL;
}

void slot_spawned(struct slot *s, const struct tier *tier, pid_t pid)
{
    slot_set_state(s, SLOT_ALIVE);
    s->tier = tier;
    s->pid = pid;
    s->wait_status = 0;
    s->locks_ended = 0;
}

void slot_reaped(struct slot *s, int status)
{
    s->pid = 0;
    s->wait_status = status;
    if (s->state == SLOT_ALIVE)
        slot_set_state(s, SLOT_DEAD);
}

void slot_set_background(struct warden *w, struct slot *s, bool background)
{
    bool off_reserve = background && w->cpu_reserve;

    if (s->background != background)
        sandbox_cgroup_set_background(w->groups, s->group, background);
    if (s->off_reserve != off_reserve)
        sandbox_cpu_reserve_apply(w->groups, s->group, off_reserve);
    s->background = background;
    s->off_reserve = off_reserve;
}

/* ---- letting it go ------------------------------------------------------ */

/* The warden may hold the last reference to the scratch of an ended session,
 * and closing it writes back all dirty pages: seconds on a busy disk. A few
 * children at a time do it. */
static void free_storage(struct warden *w, struct slot *s)
{
    size_t busy = 0;

    if (s->freed || s->helper)
        return;
    for (size_t i = 0; i < w->slot_count; i++)
        busy += w->slots[i]->state == SLOT_DRAINING && w->slots[i]->helper;
    if ((w->walls & WARDEN_WALL_SCRATCH) && busy >= FREERS_MAX && !w->ending)
        return; /* slot_drain tries again */
    s->freed = true;
    if ((w->walls & WARDEN_WALL_SCRATCH) && helper_free(w, s) == 0)
        return;
    scratch_remove(w, s);
    scratch_close(s);
}

void slot_release(struct warden *w, struct slot *s)
{
    if (s->state == SLOT_DRAINING)
        return;
    fd_close(&s->helper_sock);
    if (s->helper)
        (void)kill(s->helper, SIGKILL); /* our own child, not yet reaped */
    if (s->tier)
        (void)s->tier->release(w,
                               s); /* slot_drain checks whether it has ended */
    slot_set_state(s, SLOT_DRAINING);
    free_storage(w, s);
    fd_close(&s->map_fd);
}

static bool slot_drain_one(struct warden *w, struct slot *s)
{
    free_storage(w, s);
    if (s->tier && !s->tier->release(w, s))
        return false;
    if (sandbox_cgroup_remove(w->groups, s->group) < 0) {
        sandbox_cgroup_kill(w->groups, s->group);
        return false;
    }
    if (!s->freed || s->helper || scratch_busy(w, s))
        return false; /* its uid stays taken until its files are gone */
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i] == s) {
            w->slots[i] = w->slots[--w->slot_count];
            break;
        }
    free(s);
    return true;
}

bool slot_drain(struct warden *w)
{
    bool left = false;

    for (size_t i = 0; i < w->slot_count;) {
        size_t before = w->slot_count;

        if (w->slots[i]->state == SLOT_DRAINING &&
            !slot_drain_one(w, w->slots[i]))
            left = true;
        if (w->slot_count == before)
            i++;
    }
    return left;
}
