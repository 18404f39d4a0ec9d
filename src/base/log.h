/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The logger: one line per event on standard error, as `key=value` text or
 * JSON. Values are escaped, so nothing a client or a session wrote can forge
 * a line or a field. Spine functions log errors, once; debug is free for all.
 *
 * log_event(LOG_INFO, "session_created", "session", id, "pool", pool, NULL)
 */
#ifndef GLOVEBOX_BASE_LOG_H
#define GLOVEBOX_BASE_LOG_H

#include <stdbool.h>

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR,
};

/* Process-wide, set once by main before any thread starts. who: the program */
void log_setup(const char *who, enum log_level least, bool json);
/* "debug", "info", "warn" or "error"; -EINVAL otherwise */
int log_level_parse(const char *name, enum log_level *ret_level);
/* Pairs of key and value strings, ended by NULL. A NULL value is left out. */
void log_event(enum log_level level, const char *event, ...)
    __attribute__((sentinel));

#endif
