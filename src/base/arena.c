/* SPDX-License-Identifier: Apache-2.0 */
/* The request arena; see arena.h. A list of blocks, newest first. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define BLOCK_SIZE ((size_t)8192)
#define ALIGNMENT ((size_t)16)

struct block {
    struct block *next;
    size_t used;
    size_t size;
    _Alignas(16) unsigned char bytes[];
};

struct arena {
    struct block *head;
};

struct arena *arena_new(void)
{
    return xcalloc(1, sizeof(struct arena));
}

void arena_free(struct arena *a)
{
    if (!a)
        return;
    while (a->head) {
        struct block *next = a->head->next;

        free(a->head);
        a->head = next;
    }
    free(a);
}

void *arena_alloc(struct arena *a, size_t size)
{
    struct block *b = a->head;
    void *p;

    if (size > SIZE_MAX / 4)
        abort(); /* callers bound what they ask for */
    size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (!b || b->size - b->used < size) {
        size_t room = MAX(size, BLOCK_SIZE);

        b = xcalloc(1, sizeof(*b) + room);
        b->size = room;
        b->next = a->head;
        a->head = b;
    }
    p = b->bytes + b->used;
    b->used += size;
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
    char *copy = arena_alloc(a, len + 1);

    memcpy(copy, s, len);
    return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    char *s;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap); /* only its length */
    va_end(ap);
    s = arena_alloc(a, (size_t)n + 1);
    va_start(ap, fmt);
    (void)vsnprintf(s, (size_t)n + 1, fmt, ap); /* measured just above */
    va_end(ap);
    return s;
}
