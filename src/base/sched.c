/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler; see sched.h. Runs in the daemon and the warden. A turn that
 * is shorter than others' begins earlier (Linux 6.12 and later; older ones
 * ignore it), and a lower nice value needs privilege. Either alone helps.
 */
#include "base/sched.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORT_NS 100000 /* the shortest the kernel takes */
#define BETTER 10       /* nice values */
#define WORSE 15

/* As in linux/sched/types.h, which does not go together with sched.h. */
struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static bool prompt;
static int usual;

static void set(int nice, uint64_t runtime)
{
    struct attr a = {.size = sizeof(a),
                     .policy = SCHED_OTHER,
                     .nice = nice,
                     .runtime = runtime};

    /* Nothing depends on it. */
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}

void sched_prompt(void)
{
    if (prompt)
        return;
    usual = getpriority(PRIO_PROCESS, 0);
    prompt = true;
    set(usual, SHORT_NS); /* which needs no privilege */
    set(usual - BETTER < -20 ? -20 : usual - BETTER, SHORT_NS);
}

void sched_patient(void)
{
    int nice = getpriority(PRIO_PROCESS, 0);

    set(nice + WORSE > 19 ? 19 : nice + WORSE, 0);
}

void sched_usual(void)
{
    if (prompt)
        set(usual, 0);
    prompt = false;
}
