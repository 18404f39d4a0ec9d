/* SPDX-License-Identifier: Apache-2.0 */
/* Unguessable ids; see ids.h. */
#include "base/ids.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define RANDOM_BYTES 16

void ids_random(void *ret_bytes, size_t len)
{
    unsigned char *p = ret_bytes;

    while (len) {
        ssize_t n = getrandom(p, len, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort();
        p += n;
        len -= (size_t)n;
    }
}

char *ids_hex(const void *bytes, size_t len, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = bytes;

    for (size_t i = 0; i < len; i++) {
        ret[2 * i] = digits[p[i] >> 4];
        ret[2 * i + 1] = digits[p[i] & 15];
    }
    ret[2 * len] = '\0';
    return ret;
}

void ids_make(const char *prefix, char ret[ID_MAX])
{
    unsigned char raw[RANDOM_BYTES];
    char hex[2 * RANDOM_BYTES + 1];

    ids_random(raw, sizeof(raw));
    (void)snprintf(ret, ID_MAX, "%.13s_%s", prefix,
                   ids_hex(raw, sizeof(raw), hex));
}

bool ids_valid(const char *prefix, const char *id)
{
    size_t plen = strlen(prefix);

    return strncmp(id, prefix, plen) == 0 && id[plen] == '_' &&
           strlen(id + plen + 1) == (size_t)(2 * RANDOM_BYTES) &&
           strspn(id + plen + 1, "0123456789abcdef") ==
               (size_t)(2 * RANDOM_BYTES);
}
