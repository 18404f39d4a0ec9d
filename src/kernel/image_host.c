/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image depends on of the host: the kernel, whose vdso is mapped, and
 * the processor, for which libraries have chosen their functions. Part of the
 * extension and of glovebox-revive, which has no C library.
 */
#include <cpuid.h>
#include <string.h>
#include <sys/utsname.h>

#include "kernel/image.h"

static void learn_cpu(uint32_t out[16])
{
    unsigned a, b, c, d, low, high;

    if (__get_cpuid(0, &a, &b, &c, &d)) {
        out[0] = b;
        out[1] = c;
        out[2] = d;
    }
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        out[3] = a; /* family, model, stepping */
        out[4] = c;
        out[5] = d;
        if (c & bit_OSXSAVE) {
            __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
            out[6] = low;
        }
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        out[7] = b;
        /* Whether the system has enabled protection keys is no feature. */
        out[8] = c;
        out[9] = d;
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d))
        out[10] = a;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) {
        out[11] = c;
        out[12] = d;
    }
}

static size_t add_text(char *to, size_t at, size_t size, const char *text)
{
    while (*text && at + 1 < size)
        to[at++] = *text++;
    return at;
}

void image_host_ids(struct image_ids *ret)
{
    struct utsname host;
    size_t at = 0;

    memset(ret->release, 0, sizeof(ret->release));
    memset(ret->cpu, 0, sizeof(ret->cpu));
    if (uname(&host) < 0)
        return; /* does not happen; equal on both sides */
    at = add_text(ret->release, at, sizeof(ret->release), host.release);
    at = add_text(ret->release, at, sizeof(ret->release), " ");
    (void)add_text(ret->release, at, sizeof(ret->release), host.version);
    learn_cpu(ret->cpu);
}
