/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The logger; see log.h. Runs in every process. The file-static settings are
 * written once before threads start; a line goes out in one write(2), so
 * that lines of several threads and processes do not mix (on a pipe: those of
 * up to 4 KiB, which all but the longest are).
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define VALUE_MAX 600

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static struct {
    const char *who;
    enum log_level least;
    bool json;
} settings = {"glovebox", LOG_INFO, false};

void log_setup(const char *who, enum log_level least, bool json)
{
    settings.who = who;
    settings.least = least;
    settings.json = json;
}

int log_level_parse(const char *name, enum log_level *ret_level)
{
    for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
        if (strcmp(name, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return 0;
        }
    return -EINVAL;
}

static void add_escaped(struct buf *b, const char *value)
{
    size_t len = strnlen(value, VALUE_MAX);

    buf_adds(b, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];

        if (c == '"' || c == '\\')
            buf_addf(b, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            buf_addf(b, "\\u%04x", c);
        else
            buf_add(b, &c, 1);
    }
    buf_adds(b, value[len] ? "...\"" : "\"");
}

static void add_pair(struct buf *b, const char *key, const char *value)
{
    if (settings.json)
        buf_addf(b, ",\"%s\":", key);
    else
        buf_addf(b, " %s=", key);
    add_escaped(b, value);
}

void log_event(enum log_level level, const char *event, ...)
{
    struct buf b cleanup(buf_done) = {0};
    struct timespec now;
    struct tm tm;
    char stamp[40];
    const char *key;
    va_list ap;

    if (level < settings.least)
        return;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
    (void)gmtime_r(&now.tv_sec, &tm);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    if (settings.json)
        buf_addf(&b,
                 "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"who\":\"%s\","
                 "\"event\":\"%s\"",
                 stamp, now.tv_nsec / 1000000, level_names[level],
                 settings.who, event);
    else
        buf_addf(&b, "%s.%03ldZ %-5s %s %s", stamp, now.tv_nsec / 1000000,
                 level_names[level], settings.who, event);
    va_start(ap, event);
    while ((key = va_arg(ap, const char *))) {
        const char *value = va_arg(ap, const char *);

        if (value)
            add_pair(&b, key, value);
    }
    va_end(ap);
    buf_adds(&b, settings.json ? "}\n" : "\n");
    if (write(STDERR_FILENO, b.data, b.len) < 0)
        return; /* a log line that cannot be written has nowhere to go */
}
