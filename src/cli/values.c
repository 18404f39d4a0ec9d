/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, durations, counts and times: from the text of an option, and as
 * people read them; and the name that a mistyped word is nearest to. No I/O.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cli/cli_int.h"

#define NAME_MAX_LEN 32
#define DURATION_MAX (100ull * 366 * 86400)
#define COUNT_MAX 1000000000ull

/* ---- from text ---------------------------------------------------------- */

/* Digits at the start; *ret_end is behind them. */
static int number(const char *text, const char **ret_end, uint64_t *ret)
{
    char *end;
    unsigned long long value;

    if (!isdigit((unsigned char)text[0]))
        return -EINVAL;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno)
        return -ERANGE;
    *ret_end = end;
    *ret = value;
    return 0;
}

int cli_values_size(const char *text, uint64_t *ret)
{
    static const char units[] = "kmgt";
    const char *end;
    uint64_t value;
    unsigned shift = 0;
    int r = number(text, &end, &value);

    if (r < 0)
        return r;
    if (*end) {
        const char *unit = strchr(units, tolower((unsigned char)*end));

        if (unit) {
            shift = 10 * (unsigned)(unit - units + 1);
            end++;
            if (*end == 'i')
                end++;
        }
        if (*end == 'b' || *end == 'B')
            end++;
    }
    if (*end)
        return -EINVAL;
    if (value > (UINT64_MAX >> 1 >> shift))
        return -ERANGE;
    *ret = value << shift;
    return 0;
}

int cli_values_duration(const char *text, uint64_t *ret)
{
    static const struct {
        char unit;
        uint64_t seconds;
    } units[] = {
        {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7 * 86400},
    };
    const char *end;
    uint64_t value, each = 1;
    int r = number(text, &end, &value);

    if (r < 0)
        return r;
    for (size_t i = 0; *end && i < ARRAY_SIZE(units); i++)
        if (units[i].unit == *end) {
            each = units[i].seconds;
            end++;
            break;
        }
    if (*end)
        return -EINVAL;
    if (value < 1 || value > DURATION_MAX / each)
        return -ERANGE;
    *ret = value * each;
    return 0;
}

int cli_values_count(const char *text, uint64_t *ret)
{
    const char *end;
    uint64_t value;
    int r = number(text, &end, &value);

    if (r < 0)
        return r;
    if (*end)
        return -EINVAL;
    if (value > COUNT_MAX)
        return -ERANGE;
    *ret = value;
    return 0;
}

/* "[.123][Z]" and the end; milliseconds, or -1. */
static int fraction(const char *text)
{
    int ms = 0, each = 100;

    if (*text == '.') {
        if (!isdigit((unsigned char)*++text))
            return -1;
        for (; isdigit((unsigned char)*text); text++, each /= 10)
            ms += (*text - '0') * each;
    }
    if (*text == 'Z' || *text == 'z')
        text++;
    return *text ? -1 : ms;
}

int cli_values_time(const char *text, int64_t now_ms, int64_t *ret)
{
    static const char *const forms[] = {
        "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
        "%Y-%m-%d %H:%M",    "%Y-%m-%d",
    };
    uint64_t before;

    if (cli_values_duration(text, &before) == 0) {
        *ret = now_ms - (int64_t)before * 1000;
        return *ret > 0 ? 0 : -ERANGE;
    }
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        struct tm tm = {0}, same;
        const char *end = strptime(text, forms[i], &tm);
        int ms = end ? fraction(end) : -1;
        time_t at;

        if (ms < 0)
            continue;
        same = tm;
        at = timegm(&same);
        /* strptime takes the 31st of every month. */
        if (at <= 0 || same.tm_mday != tm.tm_mday)
            return -ERANGE;
        *ret = (int64_t)at * 1000 + ms;
        return 0;
    }
    return -EINVAL;
}

/* ---- for people --------------------------------------------------------- */

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
