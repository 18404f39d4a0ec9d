/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserves some processors for sessions of the normal class (X4). On most
 * hosts the kernel does not interrupt work it does for a process (a fork, a
 * large write, an exit), whatever the priority of others. Short executions
 * are prompt only if there is a processor on which no background session
 * causes such work. The cpuset controller enforces this: a session may choose
 * among its processors but cannot leave its cpuset. It is not a wall; without
 * it background sessions only have a lower priority. Runs in the warden only.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "fair/fair.h"
#include "sandbox/cgroup_int.h"

/* As "0,2,3", without those in `not`; false: none, or it does not fit. */
static bool list_cpus(const cpu_set_t *set, const cpu_set_t * not, char *ret,
                      size_t size)
{
    size_t at = 0;

    for (int i = 0; i < CPU_SETSIZE; i++) {
        int n;

        if (!CPU_ISSET(i, set) || CPU_ISSET(i, not ))
            continue;
        n = snprintf(ret + at, size - at, at ? ",%d" : "%d", i);
        if (n < 0 || (size_t)n >= size - at)
            return false;
        at += (size_t)n;
    }
    return at > 0;
}

static void first_cpus(const cpu_set_t *mine, int count, cpu_set_t *ret)
{
    CPU_ZERO(ret);
    for (int i = 0; i < CPU_SETSIZE && count > 0; i++)
        if (CPU_ISSET(i, mine)) {
            CPU_SET(i, ret);
            count--;
        }
}

bool cpu_reserve_find(struct cgroup_tree *t)
{
    cpu_set_t mine, none;

    CPU_ZERO(&none);
    if (sched_getaffinity(0, sizeof(mine), &mine) < 0 ||
        CPU_COUNT(&mine) < 2 ||
        !list_cpus(&mine, &none, t->cpus_all, sizeof(t->cpus_all)))
        return false;
    sandbox_cpu_reserve_choose(t, NULL);
    return t->cpus_background[0] != '\0';
}

void sandbox_cpu_reserve_choose(struct cgroup_tree *t,
                                const uint64_t cpus[SANDBOX_CPU_WORDS])
{
    cpu_set_t mine, keep;
    int count;

    if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
        return;
    count = CPU_COUNT(&mine);
    CPU_ZERO(&keep);
    for (int i = 0; cpus && i < CPU_SETSIZE && i < SANDBOX_CPU_WORDS * 64; i++)
        if (cpus[i / 64] >> (i % 64) & 1 && CPU_ISSET(i, &mine))
            CPU_SET(i, &keep);
    if (CPU_COUNT(&keep) == 0 || CPU_COUNT(&keep) > count / 2)
        first_cpus(&mine, MAX(1, count / (int)fair.reserve_ratio), &keep);
    if (!list_cpus(&mine, &keep, t->cpus_background,
                   sizeof(t->cpus_background)))
        t->cpus_background[0] = '\0';
    memset(t->reserved, 0, sizeof(t->reserved));
    for (int i = 0; i < SANDBOX_CPU_WORDS * 64 && i < CPU_SETSIZE; i++)
        if (t->cpus_background[0] && CPU_ISSET(i, &keep))
            t->reserved[i / 64] |= (uint64_t)1 << (i % 64);
}

bool sandbox_cpu_reserve_allows(const struct cgroup_tree *t, unsigned cpu)
{
    return cpu >= SANDBOX_CPU_WORDS * 64u || t->dirs[CGROUP_CPUSET] < 0 ||
           !(t->reserved[cpu / 64] >> (cpu % 64) & 1);
}

void sandbox_cpu_reserve_apply(struct cgroup_tree *t, const char *group,
                               int on)
{
    if (t->dirs[CGROUP_CPUSET] >= 0 && t->cpus_background[0]) /* or it stays */
        (void)cgroup_write(t->dirs[CGROUP_CPUSET], group, "cpuset.cpus",
                           on ? t->cpus_background : t->cpus_all);
}
