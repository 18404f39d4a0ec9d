/* SPDX-License-Identifier: Apache-2.0 */
/* What needs how many file descriptors; see descriptors.h. */
#include "conf/descriptors.h"

#include "base/mem.h"
#include "conf/conf.h"

/* Of one sandbox: ctl, events, frames, two pipes with both ends, five meters,
 * its network; and one for a file on its way. */
#define PER_SESSION 14u
#define PER_WORKER 4u /* files, folders and the database while it serves */
#define FOUNDATION 256u

uint64_t conf_descriptors_reserve(const struct conf *c, uint64_t limit)
{
    uint64_t wanted =
        FOUNDATION + c->connections + (uint64_t)c->workers * PER_WORKER;

    return MIN(wanted, limit / 2);
}

static uint64_t ready_sandboxes(const struct conf *c)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->pool_count; i++)
        n += c->pools[i].ready;
    return n;
}

uint64_t conf_descriptors_sessions(const struct conf *c, uint64_t limit)
{
    uint64_t fit = (limit - conf_descriptors_reserve(c, limit)) / PER_SESSION;
    uint64_t ready = ready_sandboxes(c);

    return fit > ready ? fit - ready : 0;
}

uint64_t conf_descriptors_needed(const struct conf *c)
{
    return FOUNDATION + c->connections + (uint64_t)c->workers * PER_WORKER +
           PER_SESSION * (c->max_sessions + ready_sandboxes(c));
}
