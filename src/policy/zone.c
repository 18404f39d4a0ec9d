/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time zones of `hours` and `days`. Runs in the daemon when a policy is
 * loaded; looking a time up is pure.
 *
 * The zone of the whole policy is the C library's, which knows one for the
 * process; nothing else here uses local time. A layer with its own zone reads
 * it from the system's files (RFC 9636). Times after the last change that a
 * file lists follow from the rule at its end, so that is read, too.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "policy/policy_int.h"

/* ---- the zone of the process -------------------------------------------- */

#define ZONES "/usr/share/zoneinfo/"

int policy_zone_path(const char *zone, char ret[POLICY_ZONE_PATH],
                     struct error *err)
{
    int n = snprintf(ret, POLICY_ZONE_PATH, ZONES "%s", zone);
    struct stat st;

    if (zone[0] && n < POLICY_ZONE_PATH && zone[0] != '/' &&
        !strstr(zone, "..") && stat(ret, &st) == 0 && S_ISREG(st.st_mode))
        return 0;
    (void)error_set(err, ERR_INVALID, "no such time zone: %.64s", zone);
    return error_hint(err, "a name such as Europe/Berlin; the package "
                           "tzdata brings them");
}

int policy_zone_set(const char *zone, struct error *err)
{
    char path[POLICY_ZONE_PATH];

    /* The C library takes one it does not know for UTC. */
    if (zone[0] && policy_zone_path(zone, path, err) < 0)
        return -(int)err->code;
    if (zone[0])
        (void)snprintf(path, sizeof(path), ":%s", zone);
    if (setenv("TZ", zone[0] ? path : "UTC0", 1) < 0)
        return error_set(err, ERR_INTERNAL, "cannot set the time zone");
    tzset();
    return 0;
}

/* ---- a layer's own zone ------------------------------------------------- */

#define FILE_MAX ((size_t)64 * 1024)
#define HEAD 44
#define DAY_S 86400
#define HOUR_S 3600

/* "M3.5.0/2": a day of the year, and when on it. */
struct change {
    char kind; /* 'M', 'J' (1 to 365, no 29 February), 'N' (0 to 365) */
    int month, week, day;
    int32_t at_s;
};

struct policy_zone {
    int64_t *at;   /* when */
    int32_t *to_s; /* ahead of UTC from then on */
    size_t count;
    int32_t first_s; /* before all of them */
    /* after the last of them */
    bool ruled, summer;
    int32_t plain_s, summer_s;
    struct change from, until;
};

/* ---- the rule ----------------------------------------------------------- */

static bool number(const char **p, int most, int *ret)
{
    int value = 0, digits = 0;

    for (; **p >= '0' && **p <= '9' && digits < 4; (*p)++, digits++)
        value = 10 * value + **p - '0';
    *ret = value;
    return digits > 0 && value <= most;
}

/* "CET", "<+0330>" */
static bool skip_name(const char **p)
{
    const char *from = *p;

    if (*from == '<') {
        *p = strchr(from, '>');
        return *p && *p - from >= 4 && (*p)++;
    }
    while ((**p | 0x20) >= 'a' && (**p | 0x20) <= 'z')
        (*p)++;
    return *p - from >= 3;
}

/* "[+-]hh[:mm[:ss]]" */
static bool clock_time(const char **p, int hours_most, int32_t *ret)
{
    int part[3] = {0}, sign = **p == '-' ? -1 : 1;

    if (**p == '-' || **p == '+')
        (*p)++;
    if (!number(p, hours_most, &part[0]))
        return false;
    for (int i = 1; i < 3 && **p == ':'; i++) {
        (*p)++;
        if (!number(p, 59, &part[i]))
            return false;
    }
    *ret = sign * (part[0] * HOUR_S + part[1] * 60 + part[2]);
    return true;
}

static bool change_of(const char **p, struct change *ret)
{
    bool good;

    *ret = (struct change){.kind = 'N', .at_s = 2 * HOUR_S};
    if (*(*p)++ != ',')
        return false;
    if (**p == 'M' || **p == 'J')
        ret->kind = *(*p)++;
    if (ret->kind == 'M') {
        good = number(p, 12, &ret->month) && *(*p)++ == '.' &&
               number(p, 5, &ret->week) && *(*p)++ == '.' &&
               number(p, 6, &ret->day) && ret->month > 0 && ret->week > 0;
    } else {
        good = number(p, 365, &ret->day) && (ret->kind != 'J' || ret->day > 0);
    }
    if (good && **p == '/') {
        (*p)++;
        good = clock_time(p, 167, &ret->at_s);
    }
    return good;
}

/* "CET-1CEST,M3.5.0,M10.5.0/3"; what is ahead of UTC is written with "-". */
static bool read_rule(struct policy_zone *z, const char *text)
{
    const char *p = text;

    if (!skip_name(&p) || !clock_time(&p, 24, &z->plain_s))
        return false;
    z->plain_s = -z->plain_s;
    z->ruled = true;
    if (!*p)
        return true;
    z->summer = true;
    z->summer_s = z->plain_s + HOUR_S;
    if (!skip_name(&p))
        return false;
    if (*p != ',') {
        if (!clock_time(&p, 24, &z->summer_s))
            return false;
        z->summer_s = -z->summer_s;
    }
    return change_of(&p, &z->from) && change_of(&p, &z->until) && !*p;
}

/* Days since 1970 of the first of January; years are those of time_t. */
static int64_t days_before(int64_t year)
{
    int64_t y = year - 1;

    return 365 * (year - 1970) + (y / 4 - y / 100 + y / 400) - 477;
}

static bool is_leap(int64_t y)
{
    return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

/* Seconds since 1970, by a clock that is not moved. */
static int64_t when_in(const struct change *c, int64_t year)
{
    static const int before[] = {0,   31,  59,  90,  120, 151, 181,
                                 212, 243, 273, 304, 334, 365};
    int64_t first = days_before(year), day = first + c->day;
    int leap = is_leap(year);

    if (c->kind == 'J') {
        day += (leap && c->day >= 60) - 1;
    } else if (c->kind == 'M') {
        int64_t month = first + before[c->month - 1] + (c->month > 2 && leap);
        int64_t next = first + before[c->month] + (c->month >= 2 && leap);
        int weekday = (int)((month + 4) % 7); /* 1970 began on a Thursday */

        day = month + (c->day - weekday + 7) % 7 + 7 * (c->week - 1);
        while (day >= next) /* the fifth is the last there is */
            day -= 7;
    }
    return day * DAY_S + c->at_s;
}

static int32_t by_rule(const struct policy_zone *z, int64_t at)
{
    time_t local = (time_t)(at + z->plain_s);
    struct tm tm;
    int64_t from, until, year;

    if (!z->summer)
        return z->plain_s;
    (void)gmtime_r(&local, &tm); /* no year that far */
    year = tm.tm_year + 1900;
    from = when_in(&z->from, year) - z->plain_s;
    until = when_in(&z->until, year) - z->summer_s;
    if (from < until)
        return at >= from && at < until ? z->summer_s : z->plain_s;
    return at >= until && at < from ? z->plain_s : z->summer_s;
}

/* ---- the file ----------------------------------------------------------- */

static int64_t big(const unsigned char *p, int bytes)
{
    int64_t value = p[0] & 0x80 ? -1 : 0;

    for (int i = 0; i < bytes; i++)
        value = (int64_t)((uint64_t)value << 8 | p[i]);
    return value;
}

/* In the order of the file. */
struct counts {
    int64_t utc, standard, leaps, times, types, chars;
};

/* Bytes of a block with times of that size; -1: that is none. */
static int64_t block(const unsigned char *p, size_t len, int size,
                     struct counts *ret)
{
    int64_t n[6];

    if (len < HEAD || memcmp(p, "TZif", 4) != 0 || p[4] < '2')
        return -1;
    for (int i = 0; i < 6; i++) {
        n[i] = big(p + 20 + 4 * i, 4);
        if (n[i] < 0 || n[i] > (int64_t)FILE_MAX)
            return -1;
    }
    *ret = (struct counts){n[0], n[1], n[2], n[3], n[4], n[5]};
    return HEAD + ret->times * (size + 1) + ret->types * 6 + ret->chars +
           ret->leaps * (size + 4) + ret->standard + ret->utc;
}

static bool read_changes(struct arena *arena, const unsigned char *p,
                         const struct counts *n, struct policy_zone *z)
{
    const unsigned char *which = p + HEAD + n->times * 8;
    const unsigned char *types = which + n->times;

    z->count = (size_t)n->times;
    z->at = arena_alloc(arena, (z->count + 1) * sizeof(*z->at));
    z->to_s = arena_alloc(arena, (z->count + 1) * sizeof(*z->to_s));
    if (n->types < 1)
        return false;
    z->first_s = (int32_t)big(types, 4);
    for (size_t i = 0; i < z->count; i++) {
        if (which[i] >= n->types)
            return false;
        z->at[i] = big(p + HEAD + 8 * i, 8);
        z->to_s[i] = (int32_t)big(types + 6 * which[i], 4);
        if (i && z->at[i] <= z->at[i - 1])
            return false;
    }
    return true;
}

static bool read_all(struct arena *arena, const unsigned char *p, size_t len,
                     struct policy_zone *z)
{
    struct counts n;
    int64_t skip = block(p, len, 4, &n), size;
    char rule[128];
    size_t rest;

    if (skip < 0 || (size_t)skip > len)
        return false;
    p += skip;
    len -= (size_t)skip;
    size = block(p, len, 8, &n);
    if (size < 0 || (size_t)size > len || !read_changes(arena, p, &n, z))
        return false;
    p += size;
    rest = len - (size_t)size;
    if (rest < 2 || p[0] != '\n' || p[rest - 1] != '\n' ||
        rest - 2 >= sizeof(rule))
        return false;
    memcpy(rule, p + 1, rest - 2);
    rule[rest - 2] = '\0';
    return rest == 2 || read_rule(z, rule);
}

/* ---- public ------------------------------------------------------------ */

int policy_zone_load(struct arena *arena, const char *name,
                     const struct policy_zone **ret, struct error *err)
{
    struct policy_zone *z = arena_alloc(arena, sizeof(*z));
    unsigned char *bytes cleanup(mem_free) = xmalloc(FILE_MAX);
    char path[POLICY_ZONE_PATH];
    int fd cleanup(fd_close) = -1;
    ssize_t n = -1;
    int rc = policy_zone_path(name, path, err);

    if (rc < 0)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        n = fd_read_all(fd, bytes, FILE_MAX);
    if (n < 0 || (size_t)n == FILE_MAX ||
        !read_all(arena, bytes, (size_t)n, z))
        return error_set(err, ERR_INVALID,
                         "the file of the time zone %.64s cannot be read",
                         name);
    *ret = z;
    return 0;
}

int32_t policy_zone_ahead(const struct policy_zone *z, int64_t at)
{
    size_t low = 0, high = z->count;

    while (low < high) { /* how many are not after it */
        size_t middle = (low + high) / 2;

        if (z->at[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == z->count && z->ruled)
        return by_rule(z, at);
    return low ? z->to_s[low - 1] : z->first_s;
}
