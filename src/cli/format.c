/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, durations and near misses, as people read them; no I/O. */
#include <string.h>

#include "base/mem.h"
#include "cli/cli_int.h"

#define NAME_MAX_LEN 32

char *cli_format_size(uint64_t bytes, char ret[16])
{
    static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    uint64_t tenths = 0;

    if (bytes < 1024) {
        (void)snprintf(ret, 16, "%u B", (unsigned)bytes);
        return ret;
    }
    /* Exact in tenths of the unit: the last step keeps the remainder. */
    while (bytes >= 1024 * 1024ull && unit < ARRAY_SIZE(units) - 2) {
        bytes >>= 10;
        unit++;
    }
    tenths = bytes * 10 / 1024;
    unit++;
    if (tenths < 100 && tenths % 10)
        (void)snprintf(ret, 16, "%u.%u %s", (unsigned)(tenths / 10),
                       (unsigned)(tenths % 10), units[unit]);
    else
        (void)snprintf(ret, 16, "%u %s", (unsigned)(tenths / 10), units[unit]);
    return ret;
}

char *cli_format_duration(uint64_t ms, char ret[24])
{
    uint64_t s = ms / 1000;

    if (ms < 1000)
        (void)snprintf(ret, 24, "%u ms", (unsigned)ms);
    else if (s < 60 && ms % 1000 >= 100)
        (void)snprintf(ret, 24, "%u.%u s", (unsigned)s,
                       (unsigned)(ms % 1000 / 100));
    else if (s < 60)
        (void)snprintf(ret, 24, "%u s", (unsigned)s);
    else if (s < 3600)
        (void)snprintf(ret, 24, "%u min %u s", (unsigned)(s / 60),
                       (unsigned)(s % 60));
    else if (s < 86400)
        (void)snprintf(ret, 24, "%u h %u min", (unsigned)(s / 3600),
                       (unsigned)(s % 3600 / 60));
    else
        (void)snprintf(ret, 24, "%u d %u h", (unsigned)(s / 86400 % 1000000),
                       (unsigned)(s % 86400 / 3600));
    return ret;
}

/* Edits (insert, delete, replace, swap neighbours) from a to b. */
static unsigned edits(const char *a, const char *b)
{
    unsigned rows[3][NAME_MAX_LEN + 1];
    unsigned *old = rows[0], *prev = rows[1], *now = rows[2];
    size_t la = strlen(a), lb = strlen(b);

    if (la > NAME_MAX_LEN || lb > NAME_MAX_LEN)
        return NAME_MAX_LEN;
    for (unsigned j = 0; j <= lb; j++)
        old[j] = prev[j] = j;
    for (unsigned i = 1; i <= la; i++) {
        unsigned *spare = old;

        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            unsigned best = prev[j - 1] + (a[i - 1] != b[j - 1]);

            best = MIN(best, prev[j] + 1);
            best = MIN(best, now[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = MIN(best, old[j - 2] + 1);
            now[j] = best;
        }
        old = prev;
        prev = now;
        now = spare;
    }
    return prev[lb];
}

const char *cli_format_nearest(const char *word, const void *names,
                               size_t stride, size_t count)
{
    const char *best = NULL;
    size_t len = strlen(word);
    unsigned least = len < 3 ? 2 : 3; /* exclusive */

    for (size_t i = 0; i < count; i++) {
        const char *name =
            *(const char *const *)((const char *)names + i * stride);
        unsigned n = edits(word, name);

        /* What was merely cut short is near too: "sess" for "sessions". */
        if (len >= 3 && strncmp(word, name, len) == 0)
            n = MIN(n, 1u);
        if (n < least) {
            least = n;
            best = name;
        }
    }
    return best;
}
