/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling priority of our own threads; see fair.h. Runs in the daemon and
 * the warden. A thread with a shorter time slice than others gets the CPU
 * earlier (Linux 6.12 and later; older kernels ignore it), and a lower nice
 * value needs privilege. Either alone helps, and nothing depends on either.
 */
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "fair/fair.h"

/* As in linux/sched/types.h, which cannot be included beside sched.h. */
struct sched_attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static bool raised;
static int nice_before;

static void set_priority(int nice, uint64_t slice_ns)
{
    struct sched_attributes a = {.size = sizeof(a),
                                 .policy = SCHED_OTHER,
                                 .nice = MAX(MIN(nice, 19), -20),
                                 .runtime = slice_ns};

    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}

void fair_priority_raise(void)
{
    if (raised || !fair_enabled(FAIR_PRIORITY))
        return;
    nice_before = getpriority(PRIO_PROCESS, 0);
    raised = true;
    set_priority(nice_before, fair.service_slice_ns); /* unprivileged */
    set_priority(nice_before - (int)fair.service_nice, fair.service_slice_ns);
}

void fair_priority_lower(void)
{
    if (fair_enabled(FAIR_WORKER_REST))
        set_priority(getpriority(PRIO_PROCESS, 0) + (int)fair.worker_nice, 0);
}

void fair_priority_reset(void)
{
    if (raised)
        set_priority(nice_before, 0);
    raised = false;
}
