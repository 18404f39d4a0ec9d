/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line a search result shows: the text around the first hit, in one line,
 * with the hits marked. Runs in the daemon on the caller's thread; pure. The
 * text is untrusted: mark and control characters in it are left out, so that
 * all marks are ours.
 */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "search/search_int.h"

#define OPEN "\xe2\x81\xa8"  /* U+2068 */
#define CLOSE "\xe2\x81\xa9" /* U+2069 */
#define MORE "\xe2\x80\xa6"  /* … */
#define BEFORE_BYTES 90u     /* at most, of text before the hit */
#define SHOWN 200u           /* characters */

/* Where to begin: the hit's line, or the last space that is near enough. */
static size_t begin_at(const char *text, size_t hit)
{
    size_t least = hit > BEFORE_BYTES ? hit - BEFORE_BYTES : 0;
    size_t at = hit;

    while (at > least && text[at - 1] != '\n' && text[at - 1] != '\f')
        at--;
    if (at > least || at == 0 || text[at - 1] == '\n')
        return at;
    while (at < hit && text[at] != ' ')
        at++;
    if (at < hit)
        return at + 1;
    for (at = least; at < hit && ((unsigned char)text[at] & 0xc0) == 0x80;)
        at++; /* no space: at least not within a character */
    return at;
}

/* A mark, an index separator, or a character that changes text direction. */
static bool is_hidden(uint32_t c)
{
    return c == 0x200b || c == 0xfeff || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

struct line {
    struct buf *out;
    size_t shown; /* characters so far */
    bool space;   /* one is due before the next character */
    bool open;    /* within a mark */
};

static void add_char(struct line *l, const char *bytes, size_t len, uint32_t c)
{
    if (c <= ' ' || (c >= 0x7f && c < 0xa1) || c == 0x2028 || c == 0x2029) {
        l->space = l->shown > 0;
        return;
    }
    if (l->space) {
        buf_add(l->out, " ", 1);
        l->shown++;
        l->space = false;
    }
    buf_add(l->out, bytes, len);
    l->shown++;
}

/* Opens and closes marks that are due at this byte. */
static void mark_match(struct line *l, size_t at,
                       const struct search_span **span,
                       const struct search_span *last)
{
    if (l->open && at >= (*span)->end) {
        buf_adds(l->out, CLOSE);
        l->open = false;
    }
    while (*span < last && at >= (*span)->end)
        (*span)++;
    if (!l->open && *span < last && at >= (*span)->start) {
        if (l->space)
            buf_add(l->out, " ", 1);
        l->space = false;
        buf_adds(l->out, OPEN);
        l->open = true;
    }
}

void search_snippet(struct buf *out, const char *text, size_t len,
                    const struct search_span *spans, size_t count)
{
    const struct search_span *span = spans, *last = spans + count;
    size_t at = count ? begin_at(text, MIN(spans[0].start, len)) : 0;
    struct line l = {.out = out};

    if (at > 0 && text[at - 1] != '\n' && text[at - 1] != '\f')
        buf_adds(out, MORE);
    while (at < len && l.shown < SHOWN) {
        size_t n = utf8_length(text + at, len - at);
        uint32_t c = n ? utf8_decode(text + at, n) : ' ';

        n = n ? n : 1;
        mark_match(&l, at, &span, last);
        if (!is_hidden(c))
            add_char(&l, text + at, n, c);
        at += n;
    }
    if (l.open)
        buf_adds(out, CLOSE);
    if (at < len)
        buf_adds(out, MORE);
}
