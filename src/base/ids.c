/* SPDX-License-Identifier: Apache-2.0 */
/* Unguessable ids; see ids.h. */
#include "base/ids.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"

#define RANDOM_BYTES 16
#define DATED_BYTES 20 /* random ones, after four of time */
#define MOMENT_MS 50u

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

/* lead: digits before the random ones, of which there are 2 * len. */
static void make(const char *prefix, const char *lead, size_t len,
                 char ret[ID_MAX])
{
    unsigned char raw[DATED_BYTES];
    char hex[2 * DATED_BYTES + 1];

    ids_random(raw, len);
    (void)snprintf(ret, ID_MAX, "%.13s_%s%s", prefix, lead,
                   ids_hex(raw, len, hex));
}

void ids_make(const char *prefix, char ret[ID_MAX])
{
    make(prefix, "", RANDOM_BYTES, ret);
}

void ids_make_dated(const char *prefix, char ret[ID_MAX])
{
    char date[9];

    (void)snprintf(date, sizeof(date), "%08x", (unsigned)time(NULL));
    make(prefix, date, DATED_BYTES, ret);
}

/* The prefix of ids made at this moment. */
static uint32_t this_moment(void)
{
    static _Atomic uint64_t known; /* which moment, and what it is called */
    uint64_t moment = clock_mono_ms() / MOMENT_MS + 1;
    uint64_t seen = atomic_load(&known);
    uint32_t name;

    if (seen >> 32 == (uint32_t)moment)
        return (uint32_t)seen;
    ids_random(&name, sizeof(name));
    /* If another was faster, both names are good. */
    (void)atomic_compare_exchange_strong(&known, &seen, moment << 32 | name);
    return name;
}

void ids_make_near(const char *prefix, char ret[ID_MAX])
{
    char moment[9];

    (void)snprintf(moment, sizeof(moment), "%08x", (unsigned)this_moment());
    make(prefix, moment, RANDOM_BYTES, ret);
}

static bool valid(const char *prefix, const char *id, size_t digits)
{
    size_t plen = strlen(prefix);

    return strncmp(id, prefix, plen) == 0 && id[plen] == '_' &&
           strlen(id + plen + 1) == digits &&
           strspn(id + plen + 1, "0123456789abcdef") == digits;
}

bool ids_valid(const char *prefix, const char *id)
{
    return valid(prefix, id, (size_t)(2 * RANDOM_BYTES)) ||
           valid(prefix, id, (size_t)(2 * RANDOM_BYTES + IDS_TAG));
}

static char own_tag[IDS_TAG + 1];

void ids_set_tag(const char *tag)
{
    (void)snprintf(own_tag, sizeof(own_tag), "%s", tag);
}

void ids_make_tagged(const char *prefix, char ret[ID_MAX])
{
    make(prefix, own_tag, RANDOM_BYTES, ret);
}

bool ids_tag(const char *prefix, const char *id, char ret[IDS_TAG + 1])
{
    if (!valid(prefix, id, (size_t)(2 * RANDOM_BYTES + IDS_TAG)))
        return false;
    (void)snprintf(ret, IDS_TAG + 1, "%s", id + strlen(prefix) + 1);
    return true;
}

bool ids_valid_dated(const char *prefix, const char *id)
{
    return valid(prefix, id, (size_t)(2 * (4 + DATED_BYTES)));
}
