/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks. Deadlines use the monotonic one, timestamps the real one. */
#ifndef GLOVEBOX_BASE_CLOCK_H
#define GLOVEBOX_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_mono_ns(void);
uint64_t clock_mono_ms(void);
int64_t clock_real_ms(void); /* since the epoch */
/* "2026-01-31T23:59:59.123Z"; ret must hold 32 bytes. Returns ret. */
char *clock_format_ms(int64_t real_ms, char ret[32]);
/* Milliseconds until a monotonic deadline, for poll(2): 0 when passed, at
 * most INT_MAX. */
int clock_left_ms(uint64_t deadline_ms);

#endif
