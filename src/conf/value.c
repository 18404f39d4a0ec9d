/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an option's text to its field and back. The file, the environment, the
 * flags and the defaults all pass here, so that "1GiB" means and fails the
 * same everywhere. Runs in the daemon and the command line; reads no input
 * itself.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "conf/conf_int.h"

static const struct {
    const char *suffix;
    uint64_t bytes;
} units[] = {
    {"TiB", UINT64_C(1) << 40},
    {"GiB", UINT64_C(1) << 30},
    {"MiB", UINT64_C(1) << 20},
    {"KiB", UINT64_C(1) << 10},
};

static void *field(void *base, const struct conf_option *o)
{
    return (char *)base + o->offset;
}

static const void *field_const(const void *base, const struct conf_option *o)
{
    return (const char *)base + o->offset;
}

static void add_number(const struct conf_option *o, uint64_t v,
                       struct buf *out)
{
    for (size_t i = 0; o->type == CONF_SIZE && i < ARRAY_SIZE(units); i++)
        if (v && v % units[i].bytes == 0) {
            buf_addf(out, "%llu%s", (unsigned long long)(v / units[i].bytes),
                     units[i].suffix);
            return;
        }
    buf_addf(out, "%llu", (unsigned long long)v);
}

static void add_choices(const char *choices, struct buf *out)
{
    while (*choices) {
        size_t len = strcspn(choices, "|");

        buf_add(out, choices, len);
        choices += len;
        if (*choices == '|') {
            choices++;
            buf_adds(out, strchr(choices, '|') ? ", " : " or ");
        }
    }
}

void conf_value_range(const struct conf_option *o, struct buf *out)
{
    switch (o->type) {
    case CONF_BOOL:
        buf_adds(out, "true or false");
        return;
    case CONF_U32:
    case CONF_SIZE:
        add_number(o, o->min, out);
        buf_adds(out, " to ");
        add_number(o, o->max, out);
        return;
    case CONF_ENUM:
        add_choices(o->allowed, out);
        return;
    case CONF_STRING:
        buf_addf(out, "%llu to %llu characters", (unsigned long long)o->min,
                 (unsigned long long)o->max);
        if (o->allowed)
            buf_addf(out, " of [%s]", o->allowed);
        return;
    case CONF_PATH:
        buf_addf(out, "a path of at most %llu bytes",
                 (unsigned long long)o->max);
        return;
    case CONF_LISTEN:
        buf_adds(out, "HOST:PORT, port 0 to 65535");
        return;
    }
}

/* Fails with the option's name and what would have been right. */
static int refuse_value(const struct conf_option *o, const char *text,
                        struct error *err)
{
    struct buf range cleanup(buf_done) = {0};

    conf_value_range(o, &range);
    return error_set(err, ERR_INVALID,
                     "%s: \"%.64s%s\" is not allowed; use %s", o->name, text,
                     strnlen(text, 65) > 64 ? "..." : "", range.data);
}

static bool parse_number(const char *text, bool suffixes, uint64_t *ret)
{
    unsigned long long v;
    char *end;

    /* strtoull would take signs and blanks. */
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    v = strtoull(text, &end, 10);
    if (errno)
        return false;
    for (size_t i = 0; suffixes && *end && i < ARRAY_SIZE(units); i++)
        if (strcmp(end, units[i].suffix) == 0) {
            if (v > UINT64_MAX / units[i].bytes)
                return false;
            *ret = v * units[i].bytes;
            return true;
        }
    *ret = v;
    return *end == '\0';
}

static int set_number(void *base, const struct conf_option *o,
                      const char *text, struct error *err)
{
    uint64_t v;

    if (!parse_number(text, o->type == CONF_SIZE, &v) || v < o->min ||
        v > o->max)
        return refuse_value(o, text, err);
    if (o->type == CONF_SIZE)
        *(uint64_t *)field(base, o) = v;
    else
        *(uint32_t *)field(base, o) = (uint32_t)v;
    return 0;
}

static int set_bool(void *base, const struct conf_option *o, const char *text,
                    struct error *err)
{
    bool on = strcmp(text, "true") == 0;

    if (!on && strcmp(text, "false") != 0)
        return refuse_value(o, text, err);
    *(bool *)field(base, o) = on;
    return 0;
}

static void replace(void *base, const struct conf_option *o, char *taken)
{
    char **p = field(base, o);

    free(*p);
    *p = taken;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t want = strlen(text);

    while (*choices) {
        size_t len = strcspn(choices, "|");

        if (len == want && strncmp(choices, text, len) == 0)
            return true;
        choices += len + (choices[len] == '|');
    }
    return false;
}

/* set: single characters and ranges, "a-z0-9_-". */
static bool is_made_of(const char *set, const char *text)
{
    for (; *text; text++) {
        const char *p = set;

        while (*p && *p != *text &&
               !(p[1] == '-' && p[2] && p[0] <= *text && *text <= p[2]))
            p++;
        if (!*p)
            return false;
    }
    return true;
}

static int set_string(void *base, const struct conf_option *o,
                      const char *text, struct error *err)
{
    size_t len = strlen(text);

    if (o->type == CONF_ENUM ? !is_choice(o->allowed, text)
                             : len < o->min || len > o->max)
        return refuse_value(o, text, err);
    if (o->type == CONF_STRING && o->allowed && !is_made_of(o->allowed, text))
        return refuse_value(o, text, err);
    replace(base, o, xstrdup(text));
    return 0;
}

static int set_path(void *base, const struct conf_option *o, const char *text,
                    struct error *err)
{
    char *cwd cleanup(mem_free) = NULL;
    char *path cleanup(mem_free) = NULL;

    if (!text[0] && o->min > 0)
        return refuse_value(o, text, err);
    if (!text[0]) {
        path = xstrdup(""); /* none */
    } else if (text[0] != '/') {
        cwd = getcwd(NULL, 0);
        if (!cwd)
            return error_errno(err, ERR_INVALID, errno,
                               "%s: no working directory", o->name);
        path = xasprintf("%s/%s", cwd, text);
    } else {
        path = xstrdup(text);
    }
    if (strlen(path) > o->max)
        return refuse_value(o, text, err);
    replace(base, o, take_ptr(path));
    return 0;
}

/* "127.0.0.1:80" or "[::1]:80"; names are not resolved, so that what is
 * bound is what was written. */
static int set_listen(void *base, const struct conf_option *o,
                      const char *text, struct error *err)
{
    struct conf *c = base;
    const char *colon = strrchr(text, ':');
    char *host cleanup(mem_free) = NULL;
    unsigned char raw[sizeof(struct in6_addr)];
    uint64_t port;
    size_t len;

    if (!colon || !parse_number(colon + 1, false, &port) || port > o->max)
        return refuse_value(o, text, err);
    len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        host = xstrndup(text + 1, len - 2);
        if (inet_pton(AF_INET6, host, raw) != 1)
            return refuse_value(o, text, err);
    } else {
        host = xstrndup(text, len);
        if (strcmp(host, "localhost") == 0) {
            free(host);
            host = xstrdup("127.0.0.1");
        }
        if (inet_pton(AF_INET, host, raw) != 1)
            return refuse_value(o, text, err);
    }
    replace(base, o, take_ptr(host));
    c->listen_port = (uint16_t)port;
    return 0;
}

int conf_value_set(void *base, const struct conf_option *o, const char *text,
                   struct error *err)
{
    if (strnlen(text, CONF_TEXT_MAX + 1) > CONF_TEXT_MAX)
        return error_set(err, ERR_INVALID, "%s is longer than %d bytes",
                         o->name, CONF_TEXT_MAX);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return error_set(err, ERR_INVALID, "%s holds a control character",
                             o->name);
    switch (o->type) {
    case CONF_BOOL:
        return set_bool(base, o, text, err);
    case CONF_U32:
    case CONF_SIZE:
        return set_number(base, o, text, err);
    case CONF_STRING:
    case CONF_ENUM:
        return set_string(base, o, text, err);
    case CONF_PATH:
        return set_path(base, o, text, err);
    case CONF_LISTEN:
        return set_listen(base, o, text, err);
    }
    return error_set(err, ERR_INTERNAL, "%s has no type", o->name);
}

void conf_value_format(const void *base, const struct conf_option *o,
                       struct buf *out)
{
    const struct conf *c = base;

    switch (o->type) {
    case CONF_BOOL:
        buf_adds(out, *(const bool *)field_const(base, o) ? "true" : "false");
        return;
    case CONF_U32:
        add_number(o, *(const uint32_t *)field_const(base, o), out);
        return;
    case CONF_SIZE:
        add_number(o, *(const uint64_t *)field_const(base, o), out);
        return;
    case CONF_STRING:
    case CONF_ENUM:
    case CONF_PATH:
        buf_adds(out, *(char *const *)field_const(base, o));
        return;
    case CONF_LISTEN:
        buf_addf(out, strchr(c->listen_host, ':') ? "[%s]:%u" : "%s:%u",
                 c->listen_host, c->listen_port);
        return;
    }
}

void conf_value_free(void *base, const struct conf_option *o)
{
    switch (o->type) {
    case CONF_BOOL:
    case CONF_U32:
    case CONF_SIZE:
        return;
    case CONF_STRING:
    case CONF_ENUM:
    case CONF_PATH:
    case CONF_LISTEN:
        replace(base, o, NULL);
        return;
    }
}
