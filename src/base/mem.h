/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: small allocations that abort when the machine has none left, and
 * the cleanup attributes that free them. Sizes chosen by a client or a guest
 * are limited first and use calloc/malloc with a check instead.
 */
#ifndef GLOVEBOX_BASE_MEM_H
#define GLOVEBOX_BASE_MEM_H

#include <stddef.h>
#include <stdlib.h>

#define cleanup(fn) __attribute__((cleanup(fn)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Never return NULL; owned by caller. */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *old, size_t size);
char *xstrdup(const char *s); /* NULL stays NULL */
char *xstrndup(const char *s, size_t len);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* For `char *s cleanup(mem_free) = NULL;` */
static inline void mem_free(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

/* Hands ownership on: returns the pointer and leaves NULL behind. */
#define take_ptr(p)                                                           \
    ({                                                                        \
        __typeof__(p) taken_ = (p);                                           \
        (p) = NULL;                                                           \
        taken_;                                                               \
    })

#endif
