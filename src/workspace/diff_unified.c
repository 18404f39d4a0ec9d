/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two texts and what differs between them as a unified diff, such as patch(1)
 * takes. Pure; runs in the daemon for diff.c.
 */
#include "workspace/diff_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define CONTEXT 3u

struct line {
    const char *text; /* borrowed */
    size_t len;       /* with its newline, if it has one */
};

struct text {
    struct line *lines;
    struct diff_side side;
};

static void text_done(struct text *t)
{
    free(t->lines);
    free(t->side.lines);
    free(t->side.changed);
}

static void split(const char *bytes, size_t len, struct text *ret)
{
    size_t count = len && bytes[len - 1] != '\n', at = 0;

    if (len == 0)
        bytes = "";
    for (const char *p = bytes;
         (p = memchr(p, '\n', len - (size_t)(p - bytes))); p++)
        count++;
    ret->lines = xcalloc(count + 1, sizeof(*ret->lines));
    ret->side.lines = xcalloc(count + 1, sizeof(*ret->side.lines));
    ret->side.changed = xcalloc(count + 1, sizeof(*ret->side.changed));
    for (size_t i = 0; i < count; i++) {
        const char *end = memchr(bytes + at, '\n', len - at);
        size_t next = end ? (size_t)(end - bytes) + 1 : len;

        ret->lines[i] = (struct line){bytes + at, next - at};
        at = next;
    }
    ret->side.count = count;
}

/* ---- equal lines get equal numbers -------------------------------------- */

struct numbers {
    const struct line **slots; /* open addressing */
    uint32_t *ids;
    size_t mask;
    uint32_t next;
};

static void numbers_done(struct numbers *n)
{
    free(n->slots);
    free(n->ids);
}

static uint64_t hash_of(const struct line *line)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < line->len; i++)
        hash = (hash ^ (unsigned char)line->text[i]) * 1099511628211u;
    return hash ^ hash >> 29;
}

static uint32_t number_of(struct numbers *n, const struct line *line)
{
    size_t i = (size_t)hash_of(line) & n->mask;

    while (n->slots[i]) {
        if (n->slots[i]->len == line->len &&
            memcmp(n->slots[i]->text, line->text, line->len) == 0)
            return n->ids[i];
        i = (i + 1) & n->mask;
    }
    n->slots[i] = line;
    n->ids[i] = n->next++;
    return n->ids[i];
}

static void number(struct text *a, struct text *b)
{
    struct numbers n cleanup(numbers_done) = {.mask = 15};

    while (n.mask < 2 * (a->side.count + b->side.count))
        n.mask = 2 * n.mask + 1;
    n.slots = xcalloc(n.mask + 1, sizeof(*n.slots));
    n.ids = xcalloc(n.mask + 1, sizeof(*n.ids));
    for (size_t i = 0; i < a->side.count; i++)
        a->side.lines[i] = number_of(&n, &a->lines[i]);
    for (size_t i = 0; i < b->side.count; i++)
        b->side.lines[i] = number_of(&n, &b->lines[i]);
}

/* ---- hunks -------------------------------------------------------------- */

struct place {
    size_t a, b; /* lines before it */
};

static bool changed(const struct text *t, size_t i)
{
    return i < t->side.count && t->side.changed[i];
}

/* Past the changes that begin at p. */
static void pass(const struct text *a, const struct text *b, struct place *p)
{
    while (changed(a, p->a))
        p->a++;
    while (changed(b, p->b))
        p->b++;
}

static bool differs(const struct text *a, const struct text *b,
                    const struct place *p)
{
    return changed(a, p->a) || changed(b, p->b);
}

/* From the first change at `start` to the end of the last one that is too
 * near to the one before to be told apart. */
static struct place hunk_end(const struct text *a, const struct text *b,
                             struct place start)
{
    struct place end = start, at;

    for (;;) {
        size_t equal = 0;

        pass(a, b, &end);
        at = end;
        while (equal <= 2 * CONTEXT && at.a < a->side.count &&
               !differs(a, b, &at)) {
            at.a++;
            at.b++;
            equal++;
        }
        if (equal > 2 * CONTEXT || !differs(a, b, &at))
            return end;
        end = at;
    }
}

static void put_range(struct buf *out, char sign, size_t from, size_t to)
{
    size_t count = to - from;

    /* An empty range names the line before it. */
    buf_addf(out, "%c%zu", sign, count ? from + 1 : from);
    if (count != 1)
        buf_addf(out, ",%zu", count);
}

static void put_line(struct buf *out, char sign, const struct line *line)
{
    buf_add(out, &sign, 1);
    buf_add(out, line->text, line->len);
    if (line->len == 0 || line->text[line->len - 1] != '\n')
        buf_adds(out, "\n\\ No newline at end of file\n");
}

static void put_hunk(const struct text *a, const struct text *b,
                     struct place from, struct place to, struct buf *out)
{
    buf_adds(out, "@@ ");
    put_range(out, '-', from.a, to.a);
    buf_adds(out, " ");
    put_range(out, '+', from.b, to.b);
    buf_adds(out, " @@\n");
    while (from.a < to.a || from.b < to.b) {
        if (changed(a, from.a)) {
            put_line(out, '-', &a->lines[from.a++]);
        } else if (changed(b, from.b)) {
            put_line(out, '+', &b->lines[from.b++]);
        } else {
            put_line(out, ' ', &a->lines[from.a++]);
            from.b++;
        }
    }
}

static void put_hunks(const struct text *a, const struct text *b,
                      struct buf *out)
{
    struct place at = {0};

    while (at.a < a->side.count || at.b < b->side.count) {
        struct place from, to;
        size_t before;

        if (!differs(a, b, &at)) {
            at.a++;
            at.b++;
            continue;
        }
        at = (struct place){at.a, at.b};
        to = hunk_end(a, b, at);
        before = MIN((size_t)CONTEXT, at.a);
        from = (struct place){at.a - before, at.b - before};
        at = to;
        for (size_t i = 0; i < CONTEXT && to.a < a->side.count; i++) {
            to.a++;
            to.b++;
        }
        put_hunk(a, b, from, to, out);
    }
}

void diff_unified(const char *a, size_t a_len, const char *b, size_t b_len,
                  const char *a_label, const char *b_label, struct buf *out)
{
    struct text old cleanup(text_done) = {0}, new cleanup(text_done) = {0};

    if (a_len == b_len && memcmp(a, b, a_len) == 0)
        return;
    split(a, a_len, &old);
    split(b, b_len, &new);
    number(&old, &new);
    diff_lines(&old.side, &new.side);
    buf_addf(out, "--- %s\n+++ %s\n", a_label, b_label);
    put_hunks(&old, &new, out);
}
