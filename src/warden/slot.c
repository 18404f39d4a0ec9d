/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: the host's side of sessions; see the drawing in warden_int.h. Runs
 * in the warden. Numbers, and with them uids, go up and around, so that one
 * is not used again while anything of its last owner could still live.
 */
#include <errno.h>
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

static const char *const state_names[] = {
    [SLOT_SPARE] = "spare",
    [SLOT_ALIVE] = "alive",
    [SLOT_DEAD] = "dead",
    [SLOT_DRAINING] = "draining",
};

static const bool allowed[4][4] = {
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

size_t slot_count_spares(const struct warden *w)
{
    size_t n = 0;

    for (size_t i = 0; i < w->slot_count; i++)
        n += w->slots[i]->state == SLOT_SPARE;
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
    s->scratch_fd = s->dev_fd = s->loop_index = s->map_fd = -1;
    s->scratch_bytes = scratch_bytes;
    s->scratch_inodes = scratch_inodes;
    (void)snprintf(s->group, sizeof(s->group), "s%u", s->number);
    r = sandbox_cgroup_make(w->groups, s->group);
    if (r == 0)
        r = scratch_open(w, s);
    if (r < 0) {
        (void)sandbox_cgroup_remove(w->groups, s->group);
        scratch_close(s);
        scratch_remove(w, s);
        free(s);
        errno = -r;
        return NULL;
    }
    w->slots[w->slot_count++] = s;
    return s;
}

struct slot *slot_take(struct warden *w, const struct warden_limits *limits)
{
    w->spare_bytes = limits->scratch_bytes;
    w->spare_inodes = limits->scratch_inodes;
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = w->slots[i];

        if (s->state == SLOT_SPARE &&
            s->scratch_bytes == limits->scratch_bytes &&
            s->scratch_inodes == limits->scratch_inodes)
            return s;
    }
    return slot_make(w, limits->scratch_bytes, limits->scratch_inodes);
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

void slot_release(struct warden *w, struct slot *s)
{
    if (s->state == SLOT_DRAINING)
        return;
    /* The kernel ends the whole pid namespace with its pid 1, at once;
     * nothing inside can be outside of it. */
    if (s->pid) {
        slot_calm(w, s, true);
        s->calm_until_ms = clock_mono_ms() + CALM_MS;
        (void)kill(s->pid, SIGKILL); /* reaped by our loop */
    }
    set_state(s, SLOT_DRAINING);
    scratch_remove(w, s);
    scratch_close(s);
    fd_close(&s->map_fd);
}

static bool drain_one(struct warden *w, struct slot *s)
{
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
    if (scratch_busy(w, s))
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
