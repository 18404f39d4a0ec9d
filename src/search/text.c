/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of unknown origin made into text for the index; see search_int.h.
 * Runs in the daemon, on the indexer's and the reader's thread; pure.
 */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "search/search_int.h"

#define BETWEEN "\xe2\x80\x8b" /* U+200B, no part of a word to the engine */
#define REPLACED "\xef\xbf\xbd"

/* Written without spaces between words (or, Korean, with endings attached). */
static bool spaceless(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x0e00, 0x0eff},   /* Thai, Lao */
        {0x1000, 0x109f},   /* Myanmar */
        {0x1780, 0x17ff},   /* Khmer */
        {0x2e80, 0x2fdf},   /* radicals */
        {0x3005, 0x3007},   /* iteration and closing marks, zero */
        {0x3040, 0x31bf},   /* kana, bopomofo */
        {0x31f0, 0x31ff},   /* small katakana */
        {0x3400, 0x4dbf},   /* ideographs */
        {0x4e00, 0xa4cf},   /* ideographs, Yi */
        {0xac00, 0xd7af},   /* Hangul */
        {0xf900, 0xfaff},   /* compatibility ideographs */
        {0xff66, 0xff9f},   /* half-width katakana */
        {0x20000, 0x3ffff}, /* rarer ideographs */
    };

    if (c < ranges[0].first)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

static size_t plain_run(const char *bytes, size_t len)
{
    size_t n = 0;

    while (n < len && bytes[n] >= 0x20 && bytes[n] < 0x7f)
        n++;
    return n;
}

static void add_control(struct buf *out, char c)
{
    buf_add(out, c == '\n' || c == '\t' || c == '\f' ? &c : " ", 1);
}

void search_text_add(struct buf *out, const char *bytes, size_t len)
{
    bool after_word = false; /* a U+200B is due before a spaceless one */

    buf_reserve(out, len);
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c;

        n = plain_run(bytes + i, len - i);
        if (n) {
            buf_add(out, bytes + i, n);
            after_word = bytes[i + n - 1] != ' ';
            continue;
        }
        n = utf8_length(bytes + i, len - i);
        if (n == 0) {
            buf_adds(out, REPLACED);
            n = 1;
            continue;
        }
        c = utf8_decode(bytes + i, n);
        if (c < 0x20 || c == 0x7f) {
            add_control(out, bytes[i]);
            after_word = false;
        } else if (spaceless(c)) {
            if (after_word)
                buf_adds(out, BETWEEN);
            buf_add(out, bytes + i, n);
            buf_adds(out, BETWEEN);
            after_word = false;
        } else {
            buf_add(out, bytes + i, n);
            after_word = true;
        }
    }
}

bool search_text_plain(const char *bytes, size_t len)
{
    return !memchr(bytes, 0, len) &&
           utf8_valid(bytes, len - utf8_partial(bytes, len));
}
