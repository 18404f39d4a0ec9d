/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text to passages; see meaning.h. A passage is whole lines of about 900
 * bytes. It ends at a page, sooner at an empty line or before a heading, and
 * within a line only where the line alone is too long. Runs in the daemon on
 * any thread.
 */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "meaning/meaning.h"

#define ENOUGH 500u /* bytes: an empty line or a heading ends it */
#define USUAL 900u  /* bytes: any line end ends it */
#define MOST 1600u  /* bytes: a line alone is cut here */

struct cutter {
    const char *text;
    bool paged;
    struct meaning_passage *items;
    size_t count, room;
    size_t start;        /* of the passage that is open */
    uint32_t first_line; /* of it */
    uint32_t line, page; /* where the cutter is */
};

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] > ' ')
            return false;
    return true;
}

/* Ends the open passage before `end`; lines up to `last` are in it. */
static void end_passage(struct cutter *c, size_t end, uint32_t last)
{
    size_t start = c->start;

    c->start = end;
    if (c->count == MEANING_PASSAGES_MAX ||
        is_blank(c->text + start, end - start))
        return;
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 16;
        c->items = xrealloc(c->items, c->room * sizeof(*c->items));
    }
    c->items[c->count++] = (struct meaning_passage){
        .start = start,
        .len = end - start,
        .page = c->paged ? c->page : 0,
        .line = c->paged ? 0 : c->first_line,
        .line_end = c->paged ? 0 : MAX(last, c->first_line),
    };
}

/* A line of more than MOST bytes, in pieces that end at spaces. */
static void cut_long_line(struct cutter *c, size_t from, size_t end)
{
    if (from > c->start)
        end_passage(c, from, c->line - 1);
    c->first_line = c->line;
    while (end - c->start > MOST) {
        size_t n = USUAL;

        while (n > USUAL / 2 && c->text[c->start + n] != ' ')
            n--;
        if (n == USUAL / 2) /* no space: not within a character */
            n = utf8_cut(c->text + c->start, end - c->start, USUAL);
        end_passage(c, c->start + MAX(n, 1), c->line);
    }
}

static void add_line(struct cutter *c, size_t from, size_t end)
{
    size_t open = from - c->start;
    bool heading = c->text[from] == '#';
    bool blank = is_blank(c->text + from, end - from);

    if (end - from > MOST) {
        cut_long_line(c, from, end);
        return;
    }
    if (open && (open + (end - from) > USUAL ||
                 (open >= ENOUGH && (heading || blank)))) {
        end_passage(c, from, c->line - 1);
        c->first_line = c->line;
    }
    if (blank && is_blank(c->text + c->start, from - c->start)) {
        c->start = end; /* a passage does not begin with empty lines */
        c->first_line = c->line + 1;
    }
}

size_t meaning_cut(const char *text, size_t len, bool paged,
                   struct meaning_passage **ret)
{
    struct cutter c = {
        .text = text, .paged = paged, .first_line = 1, .line = 1, .page = 1};
    size_t from = 0;

    while (from < len && c.count < MEANING_PASSAGES_MAX) {
        size_t end = from;

        while (end < len && text[end] != '\n' && text[end] != '\f')
            end++;
        if (end > from)
            add_line(&c, from, end);
        else if (from < len && text[from] == '\n')
            add_line(&c, from, from + 1);
        if (end < len && text[end] == '\f') {
            end_passage(&c, end, c.line);
            c.start = end + 1;
            c.page++;
            c.first_line = c.line;
        } else if (end < len) {
            c.line++;
            if (c.start == end) { /* right behind a long line */
                c.start = end + 1;
                c.first_line = c.line;
            }
        }
        from = end + (end < len);
    }
    if (c.count < MEANING_PASSAGES_MAX)
        end_passage(&c, len,
                    len && text[len - 1] == '\n' ? c.line - 1 : c.line);
    *ret = c.items;
    return c.count;
}
