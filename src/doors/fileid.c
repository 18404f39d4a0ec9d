/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of one file at different doors; see doors.h. Pure: the names are
 * the same 128 bits, so nothing has to be looked up or kept.
 */
#include <stdio.h>
#include <string.h>

#include "doors/doors.h"

#define OURS "file_"
#define CONTAINER "cfile_"
#define LIBRARY "file-"
#define HEX_DIGITS 32u
#define LONG_DIGITS 22u /* 62^22 > 2^128 */
#define BASE 62u

static const char digits[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

typedef unsigned __int128 number;

static bool read_hex(const char *text, number *ret)
{
    *ret = 0;
    if (strlen(text) != HEX_DIGITS)
        return false;
    for (; *text; text++) {
        const char *at = strchr("0123456789abcdef", *text);

        if (!at)
            return false;
        *ret = *ret << 4 |
               (unsigned)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
    }
    return true;
}

/* False also for what is above 128 bits: one file has one name. */
static bool read_long(const char *text, number *ret)
{
    *ret = 0;
    if (strlen(text) != LONG_DIGITS)
        return false;
    for (; *text; text++) {
        const char *at = strchr(digits, *text);
        unsigned digit = at ? (unsigned)(at - digits) : BASE;

        if (digit >= BASE || *ret > (~(number)0 - digit) / BASE)
            return false;
        *ret = *ret * BASE + digit;
    }
    return true;
}

static void write_hex(const char *prefix, number n, char ret[ID_MAX])
{
    (void)snprintf(ret, ID_MAX, "%s%016llx%016llx", prefix,
                   (unsigned long long)(n >> 64), (unsigned long long)n);
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool doors_file_id(const char *text, char ret[ID_MAX])
{
    number n;
    bool ok = false;

    if (starts(text, OURS))
        ok = read_hex(text + strlen(OURS), &n);
    else if (starts(text, CONTAINER))
        ok = read_hex(text + strlen(CONTAINER), &n);
    else if (starts(text, LIBRARY))
        ok = read_long(text + strlen(LIBRARY), &n);
    if (ok)
        write_hex(OURS, n, ret);
    return ok;
}

char *doors_file_container(const char *file, char ret[ID_MAX])
{
    number n = 0;

    if (starts(file, OURS))
        (void)read_hex(file + strlen(OURS), &n); /* an id of ours */
    write_hex(CONTAINER, n, ret);
    return ret;
}

char *doors_file_library(const char *file, char ret[ID_MAX])
{
    char text[LONG_DIGITS + 1] = "";
    number n = 0;

    if (starts(file, OURS))
        (void)read_hex(file + strlen(OURS), &n); /* an id of ours */
    for (size_t i = LONG_DIGITS; i-- > 0; n /= BASE)
        text[i] = digits[n % BASE];
    (void)snprintf(ret, ID_MAX, LIBRARY "%s", text);
    return ret;
}
