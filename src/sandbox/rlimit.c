/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource limits and processors of a session: caps on what the control
 * groups do not count (descriptors, queued signals, locked memory, message
 * queues, core files) and a second one on processes. A step of
 * sandbox_enter(); inherited by everything inside.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "sandbox/sandbox_int.h"

#define GUEST_FILES 65536

static int pin_to_cpus(const struct sandbox_spec *spec)
{
    cpu_set_t set;
    bool any = false;

    CPU_ZERO(&set);
    for (unsigned i = 0; i < CPU_SETSIZE && i < SANDBOX_CPU_WORDS * 64; i++)
        if (spec->cpus[i / 64] >> (i % 64) & 1) {
            CPU_SET(i, &set);
            any = true;
        }
    if (!any)
        return 0;
    if (sched_setaffinity(0, sizeof(set), &set) == 0)
        return 0;
    /* EINVAL: all of them were just reserved (cpu_reserve.c). The session may
     * then see one more than granted; the quota of its group still holds. */
    return errno == EINVAL ? 0 : -errno;
}

/* The limits on the guest's own processes are set inside
 * (kernel/guest_init.c). runsc needs descriptors for each file that the guest
 * has open. */
int sandbox_guest_limits(struct sandbox_steps *s)
{
    struct rlimit none = {0}, files;

    if (setrlimit(RLIMIT_CORE, &none) < 0 ||
        getrlimit(RLIMIT_NOFILE, &files) < 0)
        return -errno;
    files.rlim_cur = files.rlim_max = MIN(files.rlim_max, (rlim_t)GUEST_FILES);
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return -errno;
    umask(022);
    s->fds->watch = -1; /* no filter, so no notifications */
    return pin_to_cpus(s->spec);
}

int sandbox_rlimit_apply(struct sandbox_steps *s)
{
    const struct warden_limits *l = &s->spec->limits;
    const struct {
        int resource;
        rlim_t value;
    } limits[] = {
        {RLIMIT_CORE, 0},
        {RLIMIT_NOFILE, s->fds->lowest},  /* as granted; see fds.c */
        {RLIMIT_NPROC, l->processes + 2}, /* the group's cap comes first */
        {RLIMIT_SIGPENDING, 1024},
        {RLIMIT_MEMLOCK, 8u << 20},
        {RLIMIT_MSGQUEUE, 819200},
        {RLIMIT_RTPRIO, 0},
        {RLIMIT_RTTIME, 0},
        {RLIMIT_NICE, 0},
        {RLIMIT_STACK, 8u << 20},
    };

    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        struct rlimit r = {limits[i].value, limits[i].value};

        if (setrlimit(limits[i].resource, &r) < 0)
            return -errno;
    }
    umask(022);
    return pin_to_cpus(s->spec);
}
