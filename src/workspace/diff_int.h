/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of a diff: finding what differs and writing it down. Only
 * for diff.c and its tests. */
#ifndef GLOVEBOX_WORKSPACE_DIFF_INT_H
#define GLOVEBOX_WORKSPACE_DIFF_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* ---- diff.c ------------------------------------------------------- */

/* One side: equal lines have equal numbers, on both sides. */
struct diff_side {
    uint32_t *lines;
    bool *changed; /* set by diff_lines: not in the other side */
    size_t count;
};

/* Shortest edit while it is near (Myers, in linear space); where the two have
 * next to nothing in common, after a bounded amount of work, the rest is
 * called changed as a whole: longer, but as right. */
void diff_lines(struct diff_side *a, struct diff_side *b);

/* Unified, three lines of context, labels as they are; nothing when the two
 * are the same. */
void diff_unified(const char *a, size_t a_len, const char *b, size_t b_len,
                  const char *a_label, const char *b_label, struct buf *out);

#endif
