/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request asks besides its path: bodies by tables of fields, pages,
 * times, flags, preconditions and lock tokens. Runs on a worker of the
 * daemon; decodes and checks shapes, nothing else.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- bodies ------------------------------------------------------------- */

int native_read(struct doors_call *call, const struct api_resource *r,
                void *ret, json_t **ret_json, struct error *err)
{
    int rc = http_body_json(call->http, call->doors->conf->json_bytes,
                            ret_json, err);

    return rc < 0 ? rc : api_read(*ret_json, r, ret, err);
}

int native_read_maybe(struct doors_call *call, const struct api_resource *r,
                      void *ret, json_t **ret_json, struct error *err)
{
    int rc = http_body_json_maybe(call->http, call->doors->conf->json_bytes,
                                  ret_json, err);

    return rc < 0 ? rc : api_read(*ret_json, r, ret, err);
}

/* ---- the query ---------------------------------------------------------- */

int native_ask_page(struct doors_call *call, unsigned max, unsigned fallback,
                    unsigned *ret_limit, const char **ret_after,
                    struct error *err)
{
    int64_t limit = 0;
    int r = doors_query_int(call, "limit", 1, max, fallback, &limit, err);

    if (r == 0)
        r = http_query(call->http, "after", ret_after, err);
    if (r == 0)
        *ret_limit = (unsigned)limit;
    return r;
}

int native_ask_flag(struct doors_call *call, const char *name, bool *ret,
                    struct error *err)
{
    const char *text;
    int r = http_query(call->http, name, &text, err);

    if (r < 0)
        return r;
    if (text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return error_set(err, ERR_INVALID,
                         "parameter '%s' must be true or false", name);
    *ret = text && text[0] == 't';
    return 0;
}

/* Exactly `count` digits at *p. */
static bool take_digits(const char **p, int count, int *ret)
{
    *ret = 0;
    for (int i = 0; i < count; i++, (*p)++) {
        if (**p < '0' || **p > '9')
            return false;
        *ret = *ret * 10 + (**p - '0');
    }
    return true;
}

/* Z, or hours and minutes east of it; in seconds. */
static bool take_zone(const char **p, int *ret)
{
    int sign = **p == '-' ? -1 : 1, hours, minutes;

    if (**p == 'Z' || **p == 'z') {
        (*p)++;
        *ret = 0;
        return true;
    }
    if (**p != '+' && **p != '-' && **p != ' ') /* an unescaped plus */
        return false;
    (*p)++;
    if (!take_digits(p, 2, &hours) || *(*p)++ != ':' ||
        !take_digits(p, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *ret = sign * (hours * 3600 + minutes * 60);
    return true;
}

/* "2026-01-31", or "2026-01-31T23:59:59[.123](Z|+01:00)". */
static bool parse_time(const char *p, int64_t *ret)
{
    struct tm tm = {0};
    int zone = 0, ms = 0;

    if (!take_digits(&p, 4, &tm.tm_year) || *p++ != '-' ||
        !take_digits(&p, 2, &tm.tm_mon) || *p++ != '-' ||
        !take_digits(&p, 2, &tm.tm_mday) || tm.tm_mon < 1 || tm.tm_mon > 12 ||
        tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_year < 1970)
        return false;
    if (*p) {
        if ((*p != 'T' && *p != 't') ||
            (p++, !take_digits(&p, 2, &tm.tm_hour)) || *p++ != ':' ||
            !take_digits(&p, 2, &tm.tm_min) || *p++ != ':' ||
            !take_digits(&p, 2, &tm.tm_sec) || tm.tm_hour > 23 ||
            tm.tm_min > 59 || tm.tm_sec > 60)
            return false;
        if (*p == '.') {
            int scale = 100;

            for (p++; isdigit((unsigned char)*p); p++, scale /= 10)
                ms += (*p - '0') * scale;
        }
        if (!take_zone(&p, &zone) || *p)
            return false;
    }
    tm.tm_year -= 1900;
    tm.tm_mon--;
    *ret = ((int64_t)timegm(&tm) - zone) * 1000 + ms;
    return true;
}

int native_ask_time(struct doors_call *call, const char *name, int64_t *ret,
                    struct error *err)
{
    const char *text;
    int64_t ms = 0;
    int r = http_query(call->http, name, &text, err);

    if (r < 0)
        return r;
    if (text && !parse_time(text, &ms)) {
        (void)error_set(err, ERR_INVALID, "parameter '%s' is no time", name);
        return error_hint(err,
                          "Write it as 2026-01-31 or 2026-01-31T23:59:59Z.");
    }
    *ret = ms;
    return 0;
}

int native_ask_text(struct doors_call *call, const char *name, size_t max,
                    const char **ret, struct error *err)
{
    int r = http_query(call->http, name, ret, err);

    if (r == 0 && *ret && strlen(*ret) > max)
        r = error_set(err, ERR_INVALID,
                      "parameter '%s' must not be longer than %zu bytes", name,
                      max);
    return r;
}

/* ---- headers ------------------------------------------------------------ */

int native_ask_locks(struct doors_call *call, struct native_locks *ret,
                     struct error *err)
{
    const char *text = http_header(call->http, "X-Glovebox-Lock");

    ret->count = 0;
    while (text && *text) {
        size_t len;

        text += strspn(text, " \t,");
        len = strcspn(text, " \t,");
        if (len == 0)
            break;
        if (ret->count == NATIVE_LOCKS_MAX)
            return error_set(err, ERR_INVALID,
                             "more than %u tokens in X-Glovebox-Lock",
                             NATIVE_LOCKS_MAX);
        ret->tokens[ret->count++] =
            arena_strndup(http_arena(call->http), text, len);
        text += len;
    }
    return 0;
}

/* One strong tag, a version id, or a star. */
static int read_match(struct doors_call *call, const char *text,
                      const char **ret, struct error *err)
{
    size_t len = strlen(text);

    if (strncmp(text, "W/", 2) == 0)
        return error_set(err, ERR_PRECONDITION,
                         "a weak tag in If-Match never matches");
    if (strchr(text, ',')) {
        (void)error_set(err, ERR_INVALID, "If-Match takes one tag here");
        return error_hint(err, "Send the ETag or the version you have seen.");
    }
    if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
        text++;
        len -= 2;
    }
    if (len == 0)
        return error_set(err, ERR_INVALID, "If-Match is empty");
    *ret = arena_strndup(http_arena(call->http), text, len);
    return 0;
}

int native_ask_conditions(struct doors_call *call,
                          struct workspace_commit_spec *ret, struct error *err)
{
    const char *match = http_header(call->http, "If-Match");
    const char *none = http_header(call->http, "If-None-Match");

    if (none && strcmp(none, "*") != 0)
        return error_set(err, ERR_INVALID,
                         "If-None-Match must be * when something is changed");
    ret->if_none_match = none != NULL;
    return match ? read_match(call, match, &ret->if_match, err) : 0;
}

/* ---- media types -------------------------------------------------------- */

/* The placeholder types that clients send without a real value. */
static bool says_nothing(const char *type)
{
    static const char *const unasked[] = {"application/octet-stream",
                                          "application/x-www-form-urlencoded",
                                          "binary/octet-stream", "text/plain"};

    for (size_t i = 0; i < ARRAY_SIZE(unasked); i++)
        if (strcmp(type, unasked[i]) == 0)
            return true;
    return strncmp(type, "multipart/", 10) == 0;
}

const char *native_ask_type(struct doors_call *call, const char *header)
{
    size_t len = header ? strcspn(header, "; \t") : 0;
    unsigned slashes = 0;
    char *type;

    if (len < 3 || len >= sizeof(((struct workspace_file *)0)->mime))
        return NULL;
    type = arena_strndup(http_arena(call->http), header, len);
    for (char *p = type; *p; p++) {
        if (!isascii(*p) || (!isalnum(*p) && !strchr("/+.-_", *p)))
            return NULL;
        slashes += *p == '/';
        *p = (char)tolower(*p);
    }
    if (slashes != 1 || type[0] == '/' || type[len - 1] == '/')
        return NULL;
    return says_nothing(type) ? NULL : type;
}
