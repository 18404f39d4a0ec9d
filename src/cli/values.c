/* SPDX-License-Identifier: Apache-2.0 */
/* What the text of a flag means: sizes, durations, counts, times; no I/O. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cli/cli_int.h"

#define DURATION_MAX (100ull * 366 * 86400)
#define COUNT_MAX 1000000000ull

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
