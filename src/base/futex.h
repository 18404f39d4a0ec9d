/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a word in memory to change, for where a condition variable costs
 * too much: all whom one wakes need its mutex before they can go on. Any
 * thread. Waking is harmless when no thread waits, and when the word is gone
 * by then, as long as its memory is there: who waits looks at the word again.
 */
#ifndef GLOVEBOX_BASE_FUTEX_H
#define GLOVEBOX_BASE_FUTEX_H

#include <stdatomic.h>
#include <time.h>

/* Returns when the word is no longer `value`, when woken, or for no reason: 0;
 * -ETIMEDOUT after `until` (monotonic), NULL: never. */
int futex_wait(atomic_uint *word, unsigned value,
               const struct timespec *until);
void futex_wake(atomic_uint *word, int most);

#endif
