/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls without the C library: for code that replaces the memory which
 * the C library is in, and for glovebox-revive, which has none. A negative
 * result is -errno.
 */
#ifndef GLOVEBOX_KERNEL_RAW_CALL_H
#define GLOVEBOX_KERNEL_RAW_CALL_H

#include <stdint.h>

static inline long call6(long n, uint64_t a, uint64_t b, uint64_t c,
                         uint64_t d, uint64_t e, uint64_t f)
{
    long r;
    register uint64_t r10 __asm__("r10") = d;
    register uint64_t r8 __asm__("r8") = e;
    register uint64_t r9 __asm__("r9") = f;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

#define CALL3(n, a, b, c)                                                     \
    call6(n, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), 0, 0, 0)
#define CALL4(n, a, b, c, d)                                                  \
    call6(n, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), (uint64_t)(d), 0, 0)

#endif
