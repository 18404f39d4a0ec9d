/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits file locks, the one resource that a session could take without end:
 * Linux neither charges them to a control group nor limits their number. Once
 * a second the warden reads the host's list of locks and ends a session that
 * holds too many. Runs in the warden's loop; it reads a bounded part of a list
 * that only the host's kernel writes.
 *
 * Locks of open file descriptions name no holder and are refused by the
 * system call filter; flock() locks are bounded by descriptors but count
 * here like the others.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "warden/tier.h"

#define LOOK_MS 1000u
#define AGAIN_MS 100u
#define IDLE_MS 60000
/* Reading is slow: each page of the list blocks all locking on the machine and
 * restarts the walk in the kernel. */
#define LINES_MAX 6000u
#define NOTABLE                                                               \
    500u /* from here a session may be ended when the list is cut */
#define KNOWN 256u

/* A cache, so that each process is looked up about once per pass. */
struct known {
    pid_t pid;
    struct slot *slot;
};

static bool any_alive(const struct warden *w)
{
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i]->state == SLOT_ALIVE)
            return true;
    return false;
}

/* By its host uid, which no other session has. */
static struct slot *lock_owner(struct warden *w, pid_t pid)
{
    char path[32];
    char *status cleanup(mem_free) = NULL;
    const char *line;
    unsigned long uid;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (fd_read_file(AT_FDCWD, path, 16384, &status, NULL) < 0)
        return NULL; /* it ended */
    line = strstr(status, "\nUid:\t");
    uid = line ? strtoul(line + strlen("\nUid:\t"), NULL, 10) : 0;
    if (uid <= w->setup.uid_base || uid - w->setup.uid_base > UINT32_MAX)
        return NULL;
    return slot_find(w, (uint32_t)(uid - w->setup.uid_base));
}

static struct slot *lock_owner_cached(struct warden *w, struct known *all,
                                      pid_t pid)
{
    struct known *k = &all[(unsigned)pid % KNOWN];

    if (k->pid != pid)
        *k = (struct known){pid, lock_owner(w, pid)};
    return k->slot;
}

/* Counts for every slot; true when the list was longer than we read. */
static bool count_locks(struct warden *w)
{
    struct known all[KNOWN] = {{0}};
    char line[160];
    FILE *list = fopen("/proc/locks", "re");
    unsigned n = 0;

    for (size_t i = 0; i < w->slot_count; i++)
        w->slots[i]->locks = 0;
    if (!list)
        return false; /* a kernel without file locks */
    for (; n < LINES_MAX && fgets(line, sizeof(line), list); n++) {
        struct slot *s = NULL;
        int pid;

        if (sscanf(line, "%*s %*s %*s %*s %d", &pid) == 1 && pid > 0)
            s = lock_owner_cached(w, all, pid);
        if (s && ++s->locks > WARDEN_LOCKS_MAX)
            break; /* it is ended; others at the next look */
    }
    (void)fclose(list); /* was only read */
    return n == LINES_MAX;
}

static void locks_end_session(struct warden *w, struct slot *s)
{
    char number[16];

    if (s->state != SLOT_ALIVE || s->locks_ended)
        return;
    (void)snprintf(number, sizeof(number), "%u", s->locks);
    log_event(LOG_WARN, "too_many_locks", "group", s->group, "locks", number,
              NULL);
    s->locks_ended = s->locks;
    s->tier->signal(w, s, SIGKILL);
}

int locks_tend(struct warden *w)
{
    struct slot *most = NULL;
    bool more;

    /* Without a uid per session, sessions cannot be told apart. */
    if (!(w->walls & WARDEN_WALL_UIDS) || !any_alive(w))
        return IDLE_MS;
    if (clock_left_ms(w->locks_due_ms) > 0)
        return clock_left_ms(w->locks_due_ms);
    more = count_locks(w);
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = w->slots[i];

        if (s->locks > WARDEN_LOCKS_MAX)
            locks_end_session(w, s);
        if (!most || s->locks > most->locks)
            most = s;
    }
    /* The list was cut, so others may hold more; the largest is ended first.
     */
    if (more && most && most->locks > NOTABLE)
        locks_end_session(w, most);
    w->locks_due_ms = clock_mono_ms() + (more ? AGAIN_MS : LOOK_MS);
    return more ? AGAIN_MS : LOOK_MS;
}
