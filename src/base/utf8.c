/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 as the standard has it: shortest forms only, no surrogates, nothing
 * above U+10FFFF. Pure; runs wherever text from outside is looked at.
 */
#include "base/utf8.h"

/* How long a sequence with this first byte is, and the range of its second
 * byte; length 0 where no sequence may start so. */
static unsigned sequence(unsigned char first, unsigned char *ret_low,
                         unsigned char *ret_high)
{
    *ret_low = 0x80;
    *ret_high = 0xbf;
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef) {
        if (first == 0xe0)
            *ret_low = 0xa0;
        if (first == 0xed)
            *ret_high = 0x9f;
        return 3;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        if (first == 0xf0)
            *ret_low = 0x90;
        if (first == 0xf4)
            *ret_high = 0x8f;
        return 4;
    }
    return 0;
}

/* How many of the bytes at text fit a sequence; its length in ret_need. */
static size_t fitting(const unsigned char *text, size_t len,
                      unsigned *ret_need)
{
    unsigned char low, high;
    size_t i;

    *ret_need = sequence(text[0], &low, &high);
    if (*ret_need == 0)
        return 0;
    for (i = 1; i < *ret_need && i < len; i++) {
        if (text[i] < low || text[i] > high)
            break;
        low = 0x80;
        high = 0xbf;
    }
    return i;
}

size_t utf8_length(const char *text, size_t len)
{
    unsigned need;
    size_t fit = fitting((const unsigned char *)text, len, &need);

    return fit && fit == need ? fit : 0;
}

size_t utf8_partial(const char *text, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const unsigned char *p = (const unsigned char *)text + len - back;
        unsigned need;

        if ((*p & 0xc0) == 0x80)
            continue; /* a continuation; its start is further left */
        return fitting(p, back, &need) == back && need > back ? back : 0;
    }
    return 0;
}

bool utf8_valid(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(text + i, len - i);

        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

uint32_t utf8_decode(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t c = len == 1 ? p[0] : p[0] & (0x7fu >> len);

    for (size_t i = 1; i < len; i++)
        c = c << 6 | (p[i] & 0x3fu);
    return c;
}

size_t utf8_cut(const char *text, size_t len, size_t most)
{
    size_t n = len < most ? len : most;

    while (n < len && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}
