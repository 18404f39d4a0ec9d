/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes, hours and days as people write them. Pure. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"
#include "policy/policy_int.h"

#define DAY_MIN (24 * 60)

static const struct unit {
    const char *name;
    enum policy_key_kind kind;
    int64_t times;
} units[] = {
    {"", KEY_BYTES, 1},
    {"b", KEY_BYTES, 1},
    {"k", KEY_BYTES, 1 << 10},
    {"kib", KEY_BYTES, 1 << 10},
    {"m", KEY_BYTES, 1 << 20},
    {"mib", KEY_BYTES, 1 << 20},
    {"g", KEY_BYTES, 1 << 30},
    {"gib", KEY_BYTES, 1 << 30},
    {"t", KEY_BYTES, (int64_t)1 << 40},
    {"tib", KEY_BYTES, (int64_t)1 << 40},
    {"", KEY_SECONDS, 1},
    {"s", KEY_SECONDS, 1},
    {"m", KEY_SECONDS, 60},
    {"h", KEY_SECONDS, 3600},
    {"d", KEY_SECONDS, 86400},
};

static int no_number(const char *text, enum policy_key_kind kind,
                     struct error *err)
{
    (void)error_set(err, ERR_INVALID, "\"%.64s\" is not a %s", text,
                    kind == KEY_BYTES ? "size" : "number of seconds");
    return error_hint(err, kind == KEY_BYTES ? "such as 4096, 64KiB or 1MiB"
                                             : "such as 30, 5m or 1h");
}

int policy_value_number(const char *text, enum policy_key_kind kind,
                        int64_t *ret, struct error *err)
{
    char *end;
    long long n;

    if (!isdigit((unsigned char)text[0]))
        return no_number(text, kind, err);
    errno = 0;
    n = strtoll(text, &end, 10);
    while (*end == ' ')
        end++;
    for (size_t i = 0; errno == 0 && i < ARRAY_SIZE(units); i++) {
        int64_t value;

        if (units[i].kind != kind || strcasecmp(units[i].name, end) != 0)
            continue;
        if (__builtin_mul_overflow((int64_t)n, units[i].times, &value))
            break;
        *ret = value;
        return 0;
    }
    return no_number(text, kind, err);
}

static int between(const char *text, const char *dots,
                   enum policy_key_kind kind, struct policy_range *ret,
                   struct error *err)
{
    char *least cleanup(mem_free) = xstrndup(text, (size_t)(dots - text));
    const char *most = dots + 2;
    int rc;

    while (*most == ' ')
        most++;
    rc = policy_value_number(least, kind, &ret->least, err);
    if (rc == 0)
        rc = policy_value_number(most, kind, &ret->most, err);
    if (rc == 0 && ret->least > ret->most)
        rc = error_set(err, ERR_INVALID,
                       "\"%.64s\": the first is larger than the second", text);
    return rc;
}

int policy_value_range(const char *text, enum policy_key_kind kind,
                       struct policy_range *ret, struct error *err)
{
    const char *dots = strstr(text, "..");
    const char *number = text + strspn(text, "<>=");
    size_t sign = (size_t)(number - text);
    struct policy_range r = {0, INT64_MAX};
    int64_t n = 0;
    int rc;

    if (dots) {
        rc = between(text, dots, kind, ret, err);
        return rc;
    }
    number += strspn(number, " ");
    rc = policy_value_number(number, kind, &n, err);
    if (rc < 0)
        return rc;
    if (sign == 0 || (sign == 1 && text[0] == '='))
        r = (struct policy_range){n, n};
    else if (sign == 2 && strncmp(text, ">=", 2) == 0)
        r.least = n;
    else if (sign == 2 && strncmp(text, "<=", 2) == 0)
        r.most = n;
    else if (sign == 1 && text[0] == '>' && n < INT64_MAX)
        r.least = n + 1;
    else if (sign == 1 && text[0] == '<' && n > 0)
        r.most = n - 1;
    else
        return error_set(err, ERR_INVALID,
                         "\"%.64s\" compares with nothing there is", text);
    *ret = r;
    return 0;
}

/* ---- time --------------------------------------------------------------- */

/* "6:00" or "06:00"; "24:00" is the end of the day. NULL: it is none. */
static const char *clock_time(const char *p, int *ret)
{
    int digits = 0, hour = 0, minute = 0;

    for (; digits < 2 && isdigit((unsigned char)*p); p++, digits++)
        hour = 10 * hour + *p - '0';
    if (digits == 0 || *p++ != ':')
        return NULL;
    for (digits = 0; digits < 2 && isdigit((unsigned char)*p); p++, digits++)
        minute = 10 * minute + *p - '0';
    *ret = 60 * hour + minute;
    if (digits != 2 || minute > 59 || *ret > DAY_MIN)
        return NULL;
    return p;
}

int policy_value_hours(const char *text, int *ret_from, int *ret_to,
                       struct error *err)
{
    int from = 0, to = 0;
    const char *p = clock_time(text, &from);

    p = p && *p == '-' ? clock_time(p + 1, &to) : NULL;
    if (!p || *p || from == to || from == DAY_MIN) {
        (void)error_set(err, ERR_INVALID, "\"%.64s\" is not a part of the day",
                        text);
        return error_hint(err, "such as 08:00-18:00, or 22:00-06:00 across "
                               "midnight");
    }
    *ret_from = from;
    *ret_to = to;
    return 0;
}

static const char *const day_names[] = {"sun", "mon", "tue", "wed",
                                        "thu", "fri", "sat"};

static int day(const char *text, size_t len)
{
    for (int i = 0; i < (int)ARRAY_SIZE(day_names); i++)
        if (len == 3 && strncasecmp(text, day_names[i], 3) == 0)
            return i;
    return -1;
}

int policy_value_days(const char *text, unsigned *ret, struct error *err)
{
    const char *dash = strchr(text, '-');
    int from = day(text, dash ? (size_t)(dash - text) : strlen(text));
    int to = dash ? day(dash + 1, strlen(dash + 1)) : from;
    unsigned bits = 0;

    if (from < 0 || to < 0) {
        (void)error_set(err, ERR_INVALID, "\"%.64s\" is no day", text);
        return error_hint(err, "days are mon, tue, wed, thu, fri, sat and "
                               "sun, or a span such as mon-fri");
    }
    for (int i = from;; i = (i + 1) % 7) {
        bits |= 1u << i;
        if (i == to)
            break;
    }
    *ret = bits;
    return 0;
}
