/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal text; see hex.h. Pure; runs in every process. */
#include "base/hex.h"

int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(const char *text, unsigned char *ret, size_t len)
{
    for (size_t i = 0; i < 2 * len; i++) {
        int digit = text[i] >= 'A' && text[i] <= 'F' ? -1 : hex_digit(text[i]);

        if (digit < 0)
            return false;
        ret[i / 2] = (unsigned char)(i % 2 ? ret[i / 2] << 4 | digit : digit);
    }
    return true;
}
