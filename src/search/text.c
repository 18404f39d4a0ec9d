/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of unknown origin made into text for the index; see search_int.h. Runs
 * in the daemon, on the indexer's and the document reader's thread; pure.
 *
 * The text of an HTML page is found by scanning: nothing is loaded, run or
 * laid out. One pass accepts any bytes. Markup that it does not understand
 * stays in as text, so that searches find more, never less.
 */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "search/search_int.h"

/* ---- any bytes -------------------------------------------------------------
 */

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

void search_text_add(struct buf *out, const char *bytes, size_t len)
{
    bool after_word = false; /* a U+200B is due before a spaceless one */

    buf_reserve(out, len);
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c;

        for (n = 0;
             i + n < len && bytes[i + n] >= 0x20 && bytes[i + n] < 0x7f;)
            n++;
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
            bool kept = c == '\n' || c == '\t' || c == '\f';

            buf_add(out, kept ? bytes + i : " ", 1);
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

void search_text_plainly(struct buf *out, const char *text, size_t len)
{
    const size_t mark = strlen(BETWEEN);

    buf_reserve(out, len);
    for (size_t i = 0; i < len;) {
        if (len - i >= mark && memcmp(text + i, BETWEEN, mark) == 0)
            i += mark;
        else
            buf_add(out, text + i++, 1);
    }
    if (!out->data)
        buf_adds(out, "");
}

bool search_text_plain(const char *bytes, size_t len)
{
    return !memchr(bytes, 0, len) &&
           utf8_valid(bytes, len - utf8_partial(bytes, len));
}

/* ---- HTML ------------------------------------------------------------------
 */

struct scan {
    const char *at, *end;
    struct buf *out;
};

/* Drops text up to `to`, but keeps line ends so that line numbers hold. */
static void skip_to(struct scan *s, const char *to)
{
    for (; s->at < to; s->at++)
        if (*s->at == '\n')
            buf_add(s->out, "\n", 1);
}

static bool starts_with(const struct scan *s, const char *word)
{
    size_t len = strlen(word);

    return (size_t)(s->end - s->at) >= len &&
           strncasecmp(s->at, word, len) == 0;
}

/* Where the next `word` begins, or the end. */
static const char *find_word(const struct scan *s, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = s->at; (size_t)(s->end - p) >= len; p++) {
        p = memchr(p, word[0], (size_t)(s->end - p));
        if (!p || (size_t)(s->end - p) < len)
            break;
        if (strncasecmp(p, word, len) == 0)
            return p;
    }
    return s->end;
}

/* ---- entities ----------------------------------------------------------- */

static const struct {
    const char *name, *text;
} entities[] = {
    {"amp", "&"},    {"lt", "<"},     {"gt", ">"},     {"quot", "\""},
    {"apos", "'"},   {"nbsp", " "},   {"copy", "©"},   {"reg", "®"},
    {"trade", "™"},  {"euro", "€"},   {"pound", "£"},  {"yen", "¥"},
    {"sect", "§"},   {"deg", "°"},    {"middot", "·"}, {"bull", "•"},
    {"hellip", "…"}, {"ndash", "–"},  {"mdash", "—"},  {"lsquo", "‘"},
    {"rsquo", "’"},  {"ldquo", "“"},  {"rdquo", "”"},  {"laquo", "«"},
    {"raquo", "»"},  {"times", "×"},  {"auml", "ä"},   {"ouml", "ö"},
    {"uuml", "ü"},   {"Auml", "Ä"},   {"Ouml", "Ö"},   {"Uuml", "Ü"},
    {"szlig", "ß"},  {"eacute", "é"}, {"egrave", "è"}, {"ecirc", "ê"},
    {"euml", "ë"},   {"aacute", "á"}, {"agrave", "à"}, {"acirc", "â"},
    {"atilde", "ã"}, {"aring", "å"},  {"aelig", "æ"},  {"ccedil", "ç"},
    {"iacute", "í"}, {"igrave", "ì"}, {"icirc", "î"},  {"iuml", "ï"},
    {"ntilde", "ñ"}, {"oacute", "ó"}, {"ograve", "ò"}, {"ocirc", "ô"},
    {"otilde", "õ"}, {"oslash", "ø"}, {"oelig", "œ"},  {"uacute", "ú"},
    {"ugrave", "ù"}, {"ucirc", "û"},  {"Eacute", "É"}, {"Aring", "Å"},
    {"AElig", "Æ"},  {"Ccedil", "Ç"}, {"Ntilde", "Ñ"}, {"Oslash", "Ø"},
};

static void add_code_point(struct buf *out, unsigned long c)
{
    if (c < 0x20 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        buf_add(out, " ", 1);
    else if (c < 0x80)
        buf_add(out, &(char){(char)c}, 1);
    else if (c < 0x800)
        buf_add(out, (char[]){(char)(0xc0 | c >> 6), (char)(0x80 | (c & 63))},
                2);
    else if (c < 0x10000)
        buf_add(out,
                (char[]){(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 63)),
                         (char)(0x80 | (c & 63))},
                3);
    else
        buf_add(out,
                (char[]){(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)),
                         (char)(0x80 | (c >> 6 & 63)),
                         (char)(0x80 | (c & 63))},
                4);
}

/* "&#233;" or "&#xe9;": bytes used, 0 when it is neither. */
static size_t numeric_entity(struct scan *s)
{
    char digits[12] = "";
    size_t len = 2, n = 0;
    int base = 10;
    char *rest;
    unsigned long c;

    if (s->at + len < s->end && (s->at[len] | 0x20) == 'x') {
        base = 16;
        len++;
    }
    while (s->at + len < s->end && n < sizeof(digits) - 1 &&
           strchr("0123456789abcdefABCDEF", s->at[len]) && s->at[len])
        digits[n++] = s->at[len++];
    c = strtoul(digits, &rest, base);
    if (n == 0 || *rest || s->at + len >= s->end || s->at[len] != ';')
        return 0;
    add_code_point(s->out, c);
    return len + 1;
}

static size_t named_entity(struct scan *s)
{
    size_t room = (size_t)(s->end - s->at) - 1;

    for (size_t i = 0; i < ARRAY_SIZE(entities); i++) {
        size_t len = strlen(entities[i].name);

        if (room > len && s->at[1 + len] == ';' &&
            strncmp(s->at + 1, entities[i].name, len) == 0) {
            buf_adds(s->out, entities[i].text);
            return len + 2;
        }
    }
    return 0;
}

static void decode_entity(struct scan *s)
{
    size_t used = starts_with(s, "&#") ? numeric_entity(s) : named_entity(s);

    if (used == 0) {
        buf_add(s->out, "&", 1);
        used = 1;
    }
    s->at += used;
}

/* ---- tags --------------------------------------------------------------- */

/* Past the ">" that ends the tag; one inside quotes does not. */
static const char *tag_end(const struct scan *s)
{
    char quote = 0;

    for (const char *p = s->at; p < s->end; p++) {
        if (quote) {
            if (*p == quote)
                quote = 0;
        } else if (*p == '"' || *p == '\'') {
            quote = *p;
        } else if (*p == '>') {
            return p + 1;
        }
    }
    /* A quote that never ends: the first ">" it is. */
    return MIN(find_word(s, ">") + 1, s->end);
}

static bool is_tag(const struct scan *s)
{
    char c = s->at + 1 < s->end ? s->at[1] : ' ';

    return c == '/' || c == '!' || c == '?' ||
           ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* What is between these is for the browser, not for people. */
static const char *silent_end(const struct scan *s)
{
    static const char *const silent[][2] = {
        {"<script", "</script"},
        {"<style", "</style"},
        {"<template", "</template"},
        {"<!--", "-->"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
        if (starts_with(s, silent[i][0]))
            return silent[i][1];
    return NULL;
}

/* May stand within a word: "H<sub>2</sub>O" is one. */
static bool within_word(const struct scan *s)
{
    static const char list[] = " a b i em strong span u s small sub sup mark "
                               "code font wbr ";
    char name[10] = " ";
    size_t n = 1;
    const char *p = s->at + 1;

    if (p < s->end && *p == '/')
        p++;
    while (p < s->end && n < sizeof(name) - 2 && (*p | 0x20) >= 'a' &&
           (*p | 0x20) <= 'z')
        name[n++] = *p++;
    name[n] = ' ';
    return n > 1 && strcasestr(list, name);
}

static void strip_tag(struct scan *s)
{
    const char *close = silent_end(s);
    bool within = within_word(s);

    if (close)
        skip_to(s, find_word(s, close));
    if (s->at < s->end)
        skip_to(s, tag_end(s));
    if (!within)
        buf_add(s->out, " ", 1); /* "<td>a<td>b" is two words */
}

void search_html_strip(struct buf *out, const char *html, size_t len)
{
    struct scan s = {html, html + len, out};

    while (s.at < s.end) {
        if (*s.at == '<' && is_tag(&s)) {
            strip_tag(&s);
        } else if (*s.at == '&') {
            decode_entity(&s);
        } else {
            buf_add(out, s.at, 1);
            s.at++;
        }
    }
}
