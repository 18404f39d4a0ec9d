/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one spelling of sizes in output and messages; see size.h. Runs in every
 * program.
 */
#include "base/size.h"

#include <stdio.h>

char *size_format(uint64_t bytes, char ret[SIZE_TEXT_MAX])
{
    static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    unsigned whole, tenths;
    uint64_t rest;

    while (bytes >> (unit * 10) >= 1024)
        unit++; /* at most 6, because bytes has 64 bits */
    /* The remainders change nothing; they show the compiler the range. */
    whole = (unsigned)(bytes >> (unit * 10)) % 1024;
    rest = bytes - ((uint64_t)whole << (unit * 10));
    tenths = (unsigned)(rest * 10 >> (unit * 10)) % 10;
    if (tenths)
        (void)snprintf(ret, SIZE_TEXT_MAX, "%u.%u %s", whole, tenths,
                       units[unit]);
    else
        (void)snprintf(ret, SIZE_TEXT_MAX, "%u %s", whole, units[unit]);
    return ret;
}
