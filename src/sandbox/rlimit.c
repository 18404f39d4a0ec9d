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
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "sandbox/sandbox_int.h"

static int pin(const struct sandbox_spec *spec)
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
    /* EINVAL: just kept off all of them (cpu_reserve.c). It may count one
     * more than it was granted then; the group's quota is the limit. */
    return errno == EINVAL ? 0 : -errno;
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
    return pin(s->spec);
}
