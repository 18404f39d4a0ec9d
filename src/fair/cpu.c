/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU budget of tenants. Each tenant may use fair.budget_cpu_ms at once and
 * gets one millisecond back in fair.refill_ratio milliseconds. A tenant over
 * its budget has all its sandboxes in the background class, because many
 * short executions are one long one. The budget counts for nothing while the
 * tenant is alone. Runs in the daemon; atomics only, no lock.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "fair/fair.h"

bool fair_cpu_alone(struct fair_tenant *t)
{
    struct fair_tenant *last = atomic_exchange(&t->all->last, t);
    uint64_t now = clock_mono_ms();

    if (last && last != t)
        atomic_store(&t->all->shared_until_ms, now + fair.alone_ms);
    return now >= atomic_load(&t->all->shared_until_ms);
}

bool fair_cpu_over_budget(struct fair_tenant *t)
{
    uint64_t budget_ms = (uint64_t)fair.budget_cpu_ms * fair.refill_ratio;

    return !fair_cpu_alone(t) && fair_enabled(FAIR_CPU_BUDGET) &&
           fair_enabled(FAIR_CPU_CLASS) &&
           atomic_load(&t->refilled_ms) > clock_mono_ms() + budget_ms;
}

static void charge_cpu(struct fair_tenant *t, uint64_t cpu_ms)
{
    uint64_t now = clock_mono_ms();
    uint64_t before = atomic_load(&t->refilled_ms);

    while (!atomic_compare_exchange_weak(&t->refilled_ms, &before,
                                         MAX(before, now) +
                                             cpu_ms * fair.refill_ratio))
        ;
}

/* A creation takes about 20 ms of CPU time, but nearly all of it in the
 * kernel, here and in the warden, which does not preempt it for others. The
 * charge is therefore higher. */
bool fair_cpu_charge_create(struct fair_tenant *t)
{
    bool background = fair_cpu_over_budget(t);

    charge_cpu(t, fair.create_cpu_ms);
    return background;
}

/* After a crash the kernel frees all memory of the session without preempting
 * that for others, which costs more than the execution itself took. */
void fair_cpu_charge_run(struct fair_tenant *t, uint64_t cpu_ms, bool crashed)
{
    charge_cpu(t,
               crashed ? fair.crash_cpu_ms : MIN(cpu_ms, fair.run_cpu_max_ms));
}
