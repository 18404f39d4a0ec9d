/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the free blocks of the zygote's heap; see kernel_int.h. Runs once, in
 * the zygote, as the last step before the freeze.
 *
 * Imports leave free blocks all over the heap. A session would reuse those
 * first, and each lies on a different frozen page, which the session then has
 * to copy. So the zygote allocates them all and keeps them: what a session
 * allocates comes from new memory, side by side. Python's allocator serves a
 * request from the free blocks of its size class, then from free pools, then
 * from a new arena; the C library's from its bins, then from the top of its
 * heap.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "kernel/kernel_int.h"

#define RANGES_MAX 4096
#define SMALL_STEP ((size_t)16) /* Python's sizes, and the C library's */
#define SMALL_MOST ((size_t)512)
#define BIN_LEAST ((size_t)24)
#define BIN_STEP_BELOW ((size_t)1040) /* sizes lie further apart above */
#define BIN_MOST ((size_t)120 << 10)  /* larger ones get their own mapping */
#define PLUGS_MAX 4000000u            /* in all; then the rest stays open */
#define TOP_SLACK ((uintptr_t)8192)   /* what trimming leaves of the top */

struct range {
    uintptr_t start, end;
};

/* Mappings that existed before; a block outside them is in new memory. */
struct known {
    struct range ranges[RANGES_MAX];
    size_t count;
    void *kept;
    unsigned left;
};

static int learn(struct known *k)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");

    if (!maps)
        return -1;
    while (k->count < RANGES_MAX && fgets(line, sizeof(line), maps)) {
        struct range *r = &k->ranges[k->count];

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &r->start, &r->end) == 2)
            k->count++;
    }
    (void)fclose(maps); /* was only read */
    return k->count < RANGES_MAX ? 0 : -1;
}

static bool is_new(const struct known *k, const void *block)
{
    uintptr_t at = (uintptr_t)block;
    size_t low = 0, high = k->count;

    while (low < high) { /* they are in order */
        size_t middle = low + (high - low) / 2;

        if (at >= k->ranges[middle].end)
            low = middle + 1;
        else
            high = middle;
    }
    return low == k->count || at < k->ranges[low].start;
}

/* Kept blocks form a chain, so that leak checkers find a reference. */
static void keep(struct known *k, void *block)
{
    *(void **)block = k->kept;
    k->kept = block;
    k->left--;
}

/* Takes blocks of a size until one is of a new arena; owned by caller. */
static void *fill_size_class(struct known *k, size_t size)
{
    while (k->left) {
        void *block = PyObject_Malloc(size);

        if (!block || is_new(k, block))
            return block;
        keep(k, block);
    }
    return NULL;
}

/* The largest size first: it uses up the free pools, which the others would
 * only begin to fill. The new arena is freed again, for sessions. */
static void fill_python_heap(struct known *k)
{
    void *fresh[SMALL_MOST / SMALL_STEP];

    for (size_t i = ARRAY_SIZE(fresh); i-- > 0;)
        fresh[i] = fill_size_class(k, (i + 1) * SMALL_STEP);
    for (size_t i = 0; i < ARRAY_SIZE(fresh); i++)
        PyObject_Free(fresh[i]);
}

static size_t next_below(size_t size)
{
    return size > BIN_STEP_BELOW ? size - size / 8 : size - SMALL_STEP;
}

static void fill_c_heap(struct known *k)
{
    uintptr_t top;

    (void)malloc_trim(0); /* there may be nothing to trim */
    top = (uintptr_t)sbrk(0) - TOP_SLACK;
    for (size_t size = BIN_MOST; size >= BIN_LEAST; size = next_below(size))
        while (k->left) {
            void *block = malloc(size);

            if (!block || is_new(k, block) || (uintptr_t)block >= top) {
                free(block);
                break;
            }
            keep(k, block);
        }
    (void)malloc_trim(0);
}

void fill_free_blocks(void)
{
    static struct known k; /* not on the heap that is being filled */

    k.left = PLUGS_MAX;
    if (learn(&k) < 0)
        return; /* sessions copy some more pages */
    fill_python_heap(&k);
    fill_c_heap(&k);
}
