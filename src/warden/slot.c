/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: the host's side of sessions; see the drawing in warden_int.h. Runs
 * in the warden. Numbers, and with them uids, go up and around, so that one
 * is not used again while anything of its last owner could still live.
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
#include "warden/warden_int.h"

#define CALM_MS 2000u /* how long an end may wait for those who answer */
#define MAKERS_MAX 4u /* children at work at a time */
#define FREERS_MAX 8u
#define MAKE_WAIT_MS 25  /* making usually takes less, so few callers retry */
#define TICKET_MS 5000u  /* after which a spare is no longer kept for one */
#define SURPLUS_MS 1000u /* how long a spare too many may stay */

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

static void set_state(struct slot *s, enum slot_state state)
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

static uint32_t next_number(struct warden *w)
{
    uint32_t n = w->last_number;

    do
        n = n + 1 < w->setup.uid_count ? n + 1 : 1;
    while (slot_find(w, n));
    w->last_number = n;
    return n;
}

static void forget(struct warden *w, struct slot *s)
{
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i] == s) {
            w->slots[i] = w->slots[--w->slot_count];
            break;
        }
    free(s);
}

static void become_spare(struct slot *s)
{
    set_state(s, SLOT_SPARE);
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
    s->number = next_number(w);
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
        become_spare(s);
    return s;
}

void slot_made(struct warden *w, struct slot *s)
{
    int r = helper_made(s);

    if (r == 0) {
        become_spare(s);
        return;
    }
    log_event(LOG_ERROR, "storage_failed", "group", s->group, "errno",
              strerrorname_np(-r), NULL);
    w->failed_ticket = s->ticket;
    w->failed_errnum = -r;
    slot_release(w, s);
}

/* ---- taking one ---------------------------------------------------------
 */

static bool slot_fits(const struct slot *s, const struct warden_limits *limits)
{
    return s->scratch_bytes == limits->scratch_bytes &&
           s->scratch_inodes == limits->scratch_inodes;
}

/* Kept for one that has not come back in time, it is for anyone. */
static bool is_promised(const struct slot *s)
{
    return s->ticket && clock_left_ms(s->made_ms + TICKET_MS) > 0;
}

static struct slot *find_own(struct warden *w, uint32_t ticket)
{
    for (size_t i = 0; ticket && i < w->slot_count; i++) {
        struct slot *s = w->slots[i];

        if (s->ticket == ticket &&
            (s->state == SLOT_MAKING || s->state == SLOT_SPARE))
            return s;
    }
    return NULL;
}

static struct slot *find_spare(struct warden *w,
                               const struct warden_limits *limits)
{
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = w->slots[i];

        if (s->state == SLOT_SPARE && !is_promised(s) && slot_fits(s, limits))
            return s;
    }
    return NULL;
}

/* A new one, unless as many as we like are being made. In a full table a
 * spare of another size goes. */
static struct slot *make_for(struct warden *w,
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
        if (w->slots[i]->state == SLOT_SPARE && !is_promised(w->slots[i])) {
            slot_release(w, w->slots[i]);
            errno = EAGAIN;
        }
    return s;
}

struct slot *slot_take(struct warden *w, const struct warden_limits *limits,
                       uint32_t ticket)
{
    struct slot *s = find_own(w, ticket);
    int wait_ms = s ? 0 : MAKE_WAIT_MS; /* who comes back only looks */

    w->spare_bytes = limits->scratch_bytes;
    w->spare_inodes = limits->scratch_inodes;
    if (!s && ticket && w->failed_ticket == ticket) {
        w->failed_ticket = 0;
        errno = w->failed_errnum;
        return NULL;
    }
    if (!s)
        s = find_spare(w, limits);
    if (!s)
        s = make_for(w, limits, ticket);
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

static struct slot *surplus(struct warden *w)
{
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = w->slots[i];

        if (s->state == SLOT_SPARE && !is_promised(s) &&
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
        s = surplus(w);
        if (s)
            slot_release(w, s);
        return s != NULL;
    }
    if (!w->spare_bytes || slot_count(w, SLOT_MAKING) ||
        spares >= w->setup.spare_scratches)
        return false;
    return slot_make(w, w->spare_bytes, w->spare_inodes) != NULL;
}

void slot_spawned(struct slot *s, pid_t pid)
{
    set_state(s, SLOT_ALIVE);
    s->pid = pid;
    s->wait_status = 0;
    s->locks_ended = 0;
}

void slot_reaped(struct slot *s, int status)
{
    s->pid = 0;
    s->wait_status = status;
    if (s->state == SLOT_ALIVE)
        set_state(s, SLOT_DEAD);
}

void slot_calm(struct warden *w, struct slot *s, bool calm)
{
    bool narrow = calm && w->room;

    if (s->calm != calm)
        sandbox_cgroup_calm(w->groups, s->group, calm);
    if (s->narrow != narrow)
        sandbox_cgroup_narrow(w->groups, s->group, narrow);
    s->calm = calm;
    s->narrow = narrow;
}

/* ---- letting it go ------------------------------------------------------
 */

/* Of a session that has ended the warden may hold the last reference to its
 * scratch, and closing that writes back all that the session left unwritten:
 * seconds on a busy disk. A few children do it at a time. */
static void free_storage(struct warden *w, struct slot *s)
{
    size_t busy = 0;

    if (s->freed || s->helper)
        return;
    for (size_t i = 0; i < w->slot_count; i++)
        busy += w->slots[i]->state == SLOT_DRAINING && w->slots[i]->helper;
    if ((w->walls & WARDEN_WALL_SCRATCH) && busy >= FREERS_MAX && !w->ending)
        return; /* slot_drain comes back to it */
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
    /* The kernel ends the whole pid namespace with its pid 1, at once;
     * nothing inside can be outside of it. */
    if (s->pid) {
        slot_calm(w, s, true);
        s->calm_until_ms = clock_mono_ms() + CALM_MS;
        (void)kill(s->pid, SIGKILL); /* reaped by our loop */
    }
    set_state(s, SLOT_DRAINING);
    free_storage(w, s);
    fd_close(&s->map_fd);
}

static bool drain_one(struct warden *w, struct slot *s)
{
    free_storage(w, s);
    if (s->pid && s->calm_until_ms && clock_left_ms(s->calm_until_ms) == 0) {
        slot_calm(w, s, false);
        s->calm_until_ms = 0;
    }
    if (s->pid)
        return false; /* not reaped yet */
    if (sandbox_cgroup_remove(w->groups, s->group) < 0) {
        sandbox_cgroup_kill(w->groups, s->group);
        return false;
    }
    if (!s->freed || s->helper || scratch_busy(w, s))
        return false; /* its uid stays taken until its files are gone */
    forget(w, s);
    return true;
}

bool slot_drain(struct warden *w)
{
    bool left = false;

    for (size_t i = 0; i < w->slot_count;) {
        size_t before = w->slot_count;

        if (w->slots[i]->state == SLOT_DRAINING && !drain_one(w, w->slots[i]))
            left = true;
        if (w->slot_count == before)
            i++;
    }
    return left;
}
