/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which hits of a document are shown, and where they are: the first in the
 * body, or in the path if the body has none, with those near it. Runs in the
 * daemon on the asking thread, for every engine; pure.
 */
#include <string.h>

#include "base/mem.h"
#include "search/search_int.h"

#define SPANS_MAX 64u
#define WINDOW_BYTES                                                          \
    1600u /* of text past the first hit: a snippet's worth                    \
           */

struct place {
    const struct search_hits *hits;
    enum search_column column;
    int hit;      /* the next */
    int from, to; /* its words */
    int word;     /* where the tokenizer is */
    struct search_span spans[SPANS_MAX];
    size_t count;
};

/* Moves to the next hit in the column that ends past this word. */
static bool next_hit(struct place *p, int word)
{
    while (p->hit < p->hits->count) {
        enum search_column column;

        if (!p->hits->get(p->hits->ctx, p->hit, &column, &p->from, &p->to))
            return false;
        if (column == p->column && p->to > word)
            return true;
        p->hit++;
    }
    return false;
}

static int on_token(void *ctx, const char *token, size_t token_len,
                    size_t start, size_t end)
{
    struct place *p = ctx;
    int word = p->word++;

    (void)token;
    (void)token_len;
    if (word >= p->to && !next_hit(p, word))
        return 1;
    if (p->count &&
        (p->count == SPANS_MAX || start > p->spans[0].start + WINDOW_BYTES))
        return 1;
    if (word < p->from)
        return 0;
    /* The words of one phrase are one span. */
    if (p->count && word > p->from)
        p->spans[p->count - 1].end = end;
    else
        p->spans[p->count++] = (struct search_span){start, end};
    return 0;
}

/* Finds the hits near the first one in a column; 0 when it has none. */
static size_t find_hits(struct place *p, enum search_column column,
                        const char **ret_text, size_t *ret_len)
{
    const struct search_hits *h = p->hits;

    p->column = column;
    p->hit = p->word = p->to = 0;
    p->count = 0;
    if (!next_hit(p, 0) || !h->text(h->ctx, column, ret_text, ret_len) ||
        !h->read(h->ctx, *ret_text, *ret_len, on_token, p))
        return 0;
    return p->count;
}

static unsigned count_char(const char *text, size_t len, char c)
{
    unsigned n = 0;

    for (const char *p = text; (p = memchr(p, c, len - (size_t)(p - text)));
         p++)
        n++;
    return n;
}

void search_hits_show(const struct search_hits *h, struct buf *out)
{
    struct place p = {.hits = h};
    const char *text;
    size_t len;
    unsigned line = 0, page = 0;
    bool in_name = find_hits(&p, SEARCH_PATH, &text, &len) > 0;

    if (find_hits(&p, SEARCH_BODY, &text, &len)) {
        line = 1 + count_char(text, p.spans[0].start, '\n');
        page = 1 + count_char(text, p.spans[0].start, '\f');
    } else if (!in_name || !find_hits(&p, SEARCH_PATH, &text, &len)) {
        return;
    }
    buf_addf(out, "%u %u %d ", line, page, in_name);
    search_snippet(out, text, len, p.spans, p.count);
}
