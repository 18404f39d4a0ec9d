/* SPDX-License-Identifier: Apache-2.0 */
/* The system call; see futex.h. */
#include "base/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

int futex_wait(atomic_uint *word, unsigned value, const struct timespec *until)
{
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, until, NULL,
                FUTEX_BITSET_MATCH_ANY) < 0 &&
        errno == ETIMEDOUT)
        return -ETIMEDOUT;
    return 0;
}

void futex_wake(atomic_uint *word, int most)
{
    /* Fails only on misuse. */
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
}
