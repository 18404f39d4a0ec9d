/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some processors kept free of calm sessions (X4). What runs in the kernel on
 * somebody's behalf (a fork, a large write, an exit) is not interrupted for
 * others on most hosts, whatever their priority; so where short executions
 * are to be prompt, there must be a processor on which none of that happens.
 * By the cpuset controller, since a session may choose among its processors
 * but cannot leave its cpuset. Not a wall: without it the calm are merely
 * idle, everywhere. Runs in the warden only.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/cgroup_int.h"

#define OF_HOW_MANY 8 /* processors one is kept free; at least one is */

/* As "0,2,3", without the first `skip`; false: too long to be told. */
static bool list_cpus(const cpu_set_t *set, int skip, char *ret, size_t size)
{
    size_t at = 0;

    for (int i = 0; i < CPU_SETSIZE; i++) {
        int n;

        if (!CPU_ISSET(i, set) || skip-- > 0)
            continue;
        n = snprintf(ret + at, size - at, at ? ",%d" : "%d", i);
        if (n < 0 || (size_t)n >= size - at)
            return false;
        at += (size_t)n;
    }
    return at > 0;
}

bool cgroup_room_find(struct cgroup_tree *t)
{
    cpu_set_t mine;
    int count;

    if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
        return false;
    count = CPU_COUNT(&mine);
    return count > 1 &&
           list_cpus(&mine, 0, t->cpus_all, sizeof(t->cpus_all)) &&
           list_cpus(&mine, MAX(1, count / OF_HOW_MANY), t->cpus_calm,
                     sizeof(t->cpus_calm));
}

void sandbox_cgroup_narrow(struct cgroup_tree *t, const char *group, int on)
{
    if (t->dirs[CGROUP_CPUSET] >= 0) /* nothing is lost if it fails */
        (void)cgroup_write(t->dirs[CGROUP_CPUSET], group, "cpuset.cpus",
                           on ? t->cpus_calm : t->cpus_all);
}
