/* SPDX-License-Identifier: Apache-2.0 */
/* The reserve of file descriptors; see reserve.h. Runs in the daemon, on any
 * thread. The limit is asked for each time: it may be changed from outside. */
#include "base/reserve.h"

#include <stdatomic.h>
#include <sys/resource.h>

#include "base/mem.h"

static _Atomic uint64_t reserve;

void reserve_set(uint64_t descriptors)
{
    atomic_store(&reserve, descriptors);
}

bool reserve_holds(int fd)
{
    struct rlimit files;
    uint64_t kept = atomic_load(&reserve);

    if (fd < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
        return false;
    return (uint64_t)fd + 1 + MIN(kept, files.rlim_cur / 2) <= files.rlim_cur;
}
