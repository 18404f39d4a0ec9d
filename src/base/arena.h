/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request-scoped memory: allocations die together with the arena and are
 * never freed singly. One arena per request, used by one thread.
 */
#ifndef GLOVEBOX_BASE_ARENA_H
#define GLOVEBOX_BASE_ARENA_H

#include <stddef.h>

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *a);
void *arena_alloc(struct arena *a, size_t size); /* zeroed, aligned */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t len);
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));

#endif
