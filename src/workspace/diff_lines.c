/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lines of two texts differ: Myers' O(ND) walk from both ends, which
 * meets in the middle and goes on with the two halves, so that memory is
 * linear. Lines that only one side has are left out beforehand: they differ
 * whatever else does. Pure; runs in the daemon for diff.c on sizes a client
 * chose, hence the bounds: a walk gives up after COST_MAX edits from each
 * end, and all of them together after WORK_MAX steps.
 */
#include "workspace/diff_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define COST_MAX 8192
#define WORK_MAX 200000000 /* some tenths of a second */
#define BOXES_MAX 64       /* halves of halves: far more than 2 * COST_MAX */
#define NOWHERE (INT64_MIN / 4)

/* A side without the lines only it has. */
struct common {
    uint32_t *lines;
    size_t *where; /* in the whole side */
    size_t count;
    bool *changed; /* of the whole side; borrowed */
};

struct walk {
    struct common a, b;
    int64_t work;       /* steps left */
    int64_t *down, *up; /* furthest line of a on a diagonal; by index 0 */
    int64_t *memory;
};

struct box { /* lines from a0 up to a1 and from b0 up to b1 */
    size_t a0, a1, b0, b1;
};

static void mark(struct walk *w, const struct box *box)
{
    for (size_t i = box->a0; i < box->a1; i++)
        w->a.changed[w->a.where[i]] = true;
    for (size_t i = box->b0; i < box->b1; i++)
        w->b.changed[w->b.where[i]] = true;
}

/* Leaves out what is equal at both ends. */
static void trim(const struct walk *w, struct box *box)
{
    while (box->a0 < box->a1 && box->b0 < box->b1 &&
           w->a.lines[box->a0] == w->b.lines[box->b0]) {
        box->a0++;
        box->b0++;
    }
    while (box->a0 < box->a1 && box->b0 < box->b1 &&
           w->a.lines[box->a1 - 1] == w->b.lines[box->b1 - 1]) {
        box->a1--;
        box->b1--;
    }
}

/* How far one more edit leads on diagonal k, inside the box of n by m. */
static int64_t reach(const int64_t *far, int64_t k, int64_t cost, int64_t n,
                     int64_t m)
{
    int64_t left = k == -cost ? NOWHERE : far[k - 1] + 1; /* drop one of a */
    int64_t right = k == cost ? NOWHERE : far[k + 1];     /* add one of b */

    if (cost == 0)
        return 0;
    if (left > n || left - k > m)
        left = NOWHERE;
    if (right > n || right - k > m)
        right = NOWHERE;
    return MAX(left, right) < 0 ? NOWHERE : MAX(left, right);
}

/* The two walks differ in their direction only: `forth` from the start. */
static int64_t slide(struct walk *w, const struct box *box, bool forth,
                     int64_t x, int64_t y)
{
    const int64_t n = (int64_t)(box->a1 - box->a0);
    const int64_t m = (int64_t)(box->b1 - box->b0);
    const uint32_t *a =
        forth ? w->a.lines + box->a0 : w->a.lines + box->a1 - 1;
    const uint32_t *b =
        forth ? w->b.lines + box->b0 : w->b.lines + box->b1 - 1;
    const int64_t way = forth ? 1 : -1;
    int64_t from = x;

    while (x < n && y < m && a[way * x] == b[way * y]) {
        x++;
        y++;
    }
    w->work -= 1 + x - from;
    return x;
}

/* One more edit from one end. True, and the place, where it meets the walk
 * from the other end, which has made `other` edits. */
static bool step(struct walk *w, const struct box *box, bool forth,
                 int64_t cost, int64_t other, int64_t *ret_x, int64_t *ret_y)
{
    const int64_t n = (int64_t)(box->a1 - box->a0);
    const int64_t m = (int64_t)(box->b1 - box->b0);
    int64_t *far = forth ? w->down : w->up;
    const int64_t *facing = forth ? w->up : w->down;

    for (int64_t k = -cost; k <= cost; k += 2) {
        int64_t x = reach(far, k, cost, n, m);
        int64_t seen = n - m - k; /* the same diagonal from the other end */

        if (x >= 0)
            x = slide(w, box, forth, x, x - k);
        far[k] = x;
        if (x < 0 || seen < -other || seen > other || ((seen ^ other) & 1) ||
            facing[seen] < 0 || x + facing[seen] < n)
            continue;
        *ret_x = forth ? x : n - x;
        *ret_y = forth ? x - k : m - (x - k);
        return true;
    }
    return false;
}

/* A point on a shortest way through the box; false when it is too far. */
static bool middle(struct walk *w, const struct box *box, struct box *ret)
{
    const bool odd = ((box->a1 - box->a0) ^ (box->b1 - box->b0)) & 1;
    int64_t x, y;

    for (int64_t cost = 0; cost <= COST_MAX && w->work > 0; cost++) {
        bool met = step(w, box, true, cost, odd ? cost - 1 : -1, &x, &y) ||
                   step(w, box, false, cost, odd ? -1 : cost, &x, &y);

        if (!met)
            continue;
        *ret =
            (struct box){.a0 = box->a0 + (size_t)x, .b0 = box->b0 + (size_t)y};
        return true;
    }
    return false;
}

static void walk(struct walk *w)
{
    struct box boxes[BOXES_MAX];
    size_t count = 0;

    boxes[count++] = (struct box){.a1 = w->a.count, .b1 = w->b.count};
    while (count) {
        struct box box = boxes[--count], at;

        trim(w, &box);
        if (box.a0 == box.a1 || box.b0 == box.b1 || count + 2 > BOXES_MAX ||
            !middle(w, &box, &at) || (at.a0 == box.a0 && at.b0 == box.b0) ||
            (at.a0 == box.a1 && at.b0 == box.b1)) {
            mark(w, &box);
            continue;
        }
        boxes[count++] = (struct box){box.a0, at.a0, box.b0, at.b0};
        boxes[count++] = (struct box){at.a0, box.a1, at.b0, box.b1};
    }
}

/* ---- what both have ----------------------------------------------------- */

static uint32_t highest(const struct diff_side *side)
{
    uint32_t most = 0;

    for (size_t i = 0; i < side->count; i++)
        most = MAX(most, side->lines[i]);
    return most;
}

static void keep_common(const struct diff_side *side,
                        const struct diff_side *other, struct common *ret)
{
    size_t range = (size_t)MAX(highest(side), highest(other)) + 1;
    bool *there cleanup(mem_free) = xcalloc(range, sizeof(bool));

    ret->lines = xcalloc(side->count + 1, sizeof(*ret->lines));
    ret->where = xcalloc(side->count + 1, sizeof(*ret->where));
    ret->changed = side->changed;
    for (size_t i = 0; i < other->count; i++)
        there[other->lines[i]] = true;
    for (size_t i = 0; i < side->count; i++) {
        side->changed[i] = !there[side->lines[i]];
        if (side->changed[i])
            continue;
        ret->lines[ret->count] = side->lines[i];
        ret->where[ret->count++] = i;
    }
}

static void walk_done(struct walk *w)
{
    free(w->a.lines);
    free(w->a.where);
    free(w->b.lines);
    free(w->b.where);
    free(w->memory);
}

void diff_lines(struct diff_side *a, struct diff_side *b)
{
    const size_t width = 2 * (COST_MAX + 2) + 1;
    struct walk w cleanup(walk_done) = {.work = WORK_MAX};

    keep_common(a, b, &w.a);
    keep_common(b, a, &w.b);
    w.memory = xcalloc(2 * width, sizeof(*w.memory));
    w.down = w.memory + COST_MAX + 2;
    w.up = w.memory + width + COST_MAX + 2;
    walk(&w);
}
