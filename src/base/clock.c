/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks; see clock.h. */
#include "base/clock.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* How far a test has moved the clocks; 0 in every program. */
static _Atomic uint64_t test_offset_ms;

uint64_t clock_mono_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail */
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec +
           atomic_load_explicit(&test_offset_ms, memory_order_relaxed) *
               1000000u;
}

uint64_t clock_mono_ms(void)
{
    return clock_mono_ns() / 1000000u;
}

int64_t clock_real_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME, &ts); /* cannot fail */
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 +
           (int64_t)atomic_load_explicit(&test_offset_ms,
                                         memory_order_relaxed);
}

char *clock_format_ms(int64_t real_ms, char ret[32])
{
    time_t seconds = (time_t)(real_ms / 1000);
    struct tm tm;
    char stamp[24];

    (void)gmtime_r(&seconds, &tm);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(ret, 32, "%.19s.%03dZ", stamp, (int)(real_ms % 1000));
    return ret;
}

int clock_left_ms(uint64_t deadline_ms)
{
    uint64_t now = clock_mono_ms();

    if (now >= deadline_ms)
        return 0;
    return deadline_ms - now > INT_MAX ? INT_MAX : (int)(deadline_ms - now);
}

void clock_test_advance(uint64_t ms)
{
    atomic_fetch_add(&test_offset_ms, ms);
}

bool clock_is_test(void)
{
    return atomic_load_explicit(&test_offset_ms, memory_order_relaxed) != 0;
}

uint64_t clock_mono_real(uint64_t mono_ms)
{
    uint64_t offset =
        atomic_load_explicit(&test_offset_ms, memory_order_relaxed);

    return mono_ms > offset ? mono_ms - offset : 0;
}
