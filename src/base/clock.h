/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks. Deadlines use the monotonic one, timestamps the real one. A test
 * may move both forward instead of waiting (clock_test_advance); nothing else
 * calls that.
 */
#ifndef GLOVEBOX_BASE_CLOCK_H
#define GLOVEBOX_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t clock_mono_ns(void);
uint64_t clock_mono_ms(void);
int64_t clock_real_ms(void); /* since the epoch */
/* "2026-01-31T23:59:59.123Z"; ret must hold 32 bytes. Returns ret. */
char *clock_format_ms(int64_t real_ms, char ret[32]);
/* Milliseconds until a monotonic deadline, for poll(2): 0 when passed, at
 * most INT_MAX. */
int clock_left_ms(uint64_t deadline_ms);

/* For tests: moves both clocks forward by so much. Timed waits of base/thread
 * notice; poll(2) and sleeps do not. */
void clock_test_advance(uint64_t ms);
/* A test has moved the clocks. */
bool clock_is_test(void);
/* The kernel's monotonic time that corresponds to one of clock_mono_ms. */
uint64_t clock_mono_real(uint64_t mono_ms);

#endif
