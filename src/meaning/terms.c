/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to terms; see meaning.h. Words are runs of letters and digits in lower
 * case, reduced to their English stem by libstemmer; a character of a script
 * without spaces is a word, and so is each pair of neighbours. Runs in the
 * daemon on any thread.
 */
#include <libstemmer.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "meaning/meaning.h"

#define WORD_BYTES 64u /* longer runs are no words: keys, encoded data */
#define PACKED 5u      /* bytes of one term */
#define COUNT_MAX 255u

/* ---- characters --------------------------------------------------------- */

static bool is_spaceless(uint32_t c)
{
    return (c >= 0x0e00 && c <= 0x0eff) || (c >= 0x1000 && c <= 0x109f) ||
           (c >= 0x1780 && c <= 0x17ff) || (c >= 0x2e80 && c <= 0x2fdf) ||
           (c >= 0x3040 && c <= 0x31ff) || (c >= 0x3400 && c <= 0xa4cf) ||
           (c >= 0xac00 && c <= 0xd7af) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0xff66 && c <= 0xff9f) || (c >= 0x20000 && c <= 0x3ffff);
}

/* Letters, marks and digits; punctuation and symbols are not. */
static bool is_word(uint32_t c)
{
    if (c < 0x80)
        return (c >= '0' && c <= '9') ||
               ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (c < 0xc0)
        return c == 0xaa || c == 0xb5 || c == 0xba;
    if (c == 0xd7 || c == 0xf7 || (c >= 0x2000 && c <= 0x2bff) ||
        (c >= 0x2e00 && c <= 0x2e7f) || (c >= 0x3000 && c <= 0x3020) ||
        (c >= 0xe000 && c <= 0xf8ff) || (c >= 0xfe10 && c <= 0xfe6f) ||
        (c >= 0xff00 && c <= 0xff0f) || c == 0xfeff || c == 0xfffd ||
        (c >= 0x1f000 && c <= 0x1faff))
        return false;
    return true;
}

/* Of the alphabets that most text is in. */
static uint32_t lower(uint32_t c)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 0x20 : c;
    if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) ||
        (c >= 0x410 && c <= 0x42f))
        return c + 0x20;
    if (c >= 0x400 && c <= 0x40f)
        return c + 0x50;
    if ((c >= 0x100 && c <= 0x137) || (c >= 0x14a && c <= 0x177))
        return c | 1;
    return c;
}

static size_t encode(uint32_t c, char *ret)
{
    if (c < 0x80) {
        ret[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        ret[0] = (char)(0xc0 | c >> 6);
        ret[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        ret[0] = (char)(0xe0 | c >> 12);
        ret[1] = (char)(0x80 | (c >> 6 & 63));
        ret[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    ret[0] = (char)(0xf0 | c >> 18);
    ret[1] = (char)(0x80 | (c >> 12 & 63));
    ret[2] = (char)(0x80 | (c >> 6 & 63));
    ret[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* ---- words -------------------------------------------------------------- */

/* English words that say nothing of what a text is about; in order. */
static const char *const stop_words[] = {
    "a",     "about", "after", "all",  "also",  "am",    "an",     "and",
    "any",   "are",   "as",    "at",   "be",    "been",  "being",  "but",
    "by",    "can",   "could", "did",  "do",    "does",  "each",   "else",
    "for",   "from",  "had",   "has",  "have",  "he",    "her",    "here",
    "his",   "how",   "i",     "if",   "in",    "into",  "is",     "it",
    "its",   "many",  "may",   "me",   "more",  "most",  "much",   "must",
    "my",    "no",    "not",   "of",   "on",    "one",   "only",   "or",
    "other", "our",   "out",   "over", "s",     "she",   "should", "so",
    "some",  "such",  "t",     "than", "that",  "the",   "their",  "them",
    "then",  "there", "these", "they", "this",  "those", "to",     "under",
    "up",    "us",    "was",   "we",   "were",  "what",  "when",   "where",
    "which", "while", "who",   "whom", "whose", "why",   "will",   "with",
    "would", "you",   "your",
};

static int compare_words(const void *key, const void *entry)
{
    return strcmp(key, *(const char *const *)entry);
}

struct reader {
    struct sb_stemmer *stemmer;
    struct meaning_term *items; /* in the order they came */
    size_t count, room;
    uint32_t words;
    char word[WORD_BYTES + 8];
    size_t len;
    bool too_long;
    char last[8]; /* the spaceless character just before, or "" */
};

/* FNV-1a. */
static uint32_t hash_of(const char *bytes, size_t len)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)bytes[i]) * 16777619u;
    return h;
}

static void add(struct reader *r, const char *bytes, size_t len)
{
    if (r->count == r->room) {
        r->room = r->room ? 2 * r->room : 64;
        r->items = xrealloc(r->items, r->room * sizeof(*r->items));
    }
    r->items[r->count++] = (struct meaning_term){hash_of(bytes, len), 1};
}

static void end_word(struct reader *r)
{
    const char *stem = r->word;
    size_t len = r->len;

    r->len = 0;
    if (len == 0 || r->too_long) {
        r->too_long = false;
        return;
    }
    r->word[len] = '\0';
    if (len == 1 && (unsigned char)r->word[0] < 0x80 &&
        (r->word[0] < '0' || r->word[0] > '9'))
        return;
    if (bsearch(r->word, stop_words, ARRAY_SIZE(stop_words),
                sizeof(stop_words[0]), compare_words))
        return;
    if (r->stemmer) {
        const sb_symbol *s =
            sb_stemmer_stem(r->stemmer, (const sb_symbol *)r->word, (int)len);

        if (s) { /* else it had no memory */
            stem = (const char *)s;
            len = (size_t)sb_stemmer_length(r->stemmer);
        }
    }
    r->words++;
    add(r, stem, len);
}

/* A character that is a word, and a pair of two. */
static void add_spaceless(struct reader *r, const char *bytes, size_t len)
{
    char pair[16];
    size_t before = strlen(r->last);

    r->words++;
    add(r, bytes, len);
    if (before) {
        memcpy(pair, r->last, before);
        memcpy(pair + before, bytes, len);
        add(r, pair, before + len);
    }
    memcpy(r->last, bytes, len);
    r->last[len] = '\0';
}

static void add_character(struct reader *r, const char *bytes, size_t len)
{
    uint32_t c = utf8_decode(bytes, len);

    if (c == 0x200b) { /* the index puts it around spaceless characters */
        end_word(r);
        return;
    }
    if (is_spaceless(c)) {
        end_word(r);
        add_spaceless(r, bytes, len);
        return;
    }
    r->last[0] = '\0';
    if (!is_word(c)) {
        end_word(r);
    } else if (r->len + 4 > WORD_BYTES) {
        r->too_long = true;
    } else {
        r->len += encode(lower(c), r->word + r->len);
    }
}

static int by_hash(const void *a, const void *b)
{
    const struct meaning_term *x = a, *y = b;

    return (x->hash > y->hash) - (x->hash < y->hash);
}

void meaning_terms_read(struct meaning_terms *ret, const char *text,
                        size_t len)
{
    struct reader r = {.stemmer = sb_stemmer_new("english", NULL)};
    size_t kept = 0;

    for (size_t i = 0, n; i < len; i += n) {
        n = utf8_length(text + i, len - i);
        if (n == 0) {
            end_word(&r);
            n = 1;
        } else {
            add_character(&r, text + i, n);
        }
    }
    end_word(&r);
    sb_stemmer_delete(r.stemmer);

    if (r.count)
        qsort(r.items, r.count, sizeof(*r.items), by_hash);
    for (size_t i = 0; i < r.count; i++) {
        if (kept && r.items[kept - 1].hash == r.items[i].hash)
            r.items[kept - 1].count++;
        else if (kept < MEANING_TERMS_MAX)
            r.items[kept++] = r.items[i];
        else
            break;
    }
    *ret = (struct meaning_terms){r.items, kept, r.words};
}

void meaning_terms_done(struct meaning_terms *t)
{
    free(t->items);
    *t = (struct meaning_terms){0};
}

/* ---- bytes -------------------------------------------------------------- */

void meaning_terms_pack(struct buf *out, const struct meaning_terms *t)
{
    buf_reserve(out, t->count * PACKED);
    for (size_t i = 0; i < t->count; i++) {
        unsigned char count = (unsigned char)MIN(t->items[i].count, COUNT_MAX);

        buf_add_u32(out, t->items[i].hash);
        buf_add(out, &count, 1);
    }
}

bool meaning_terms_unpack(struct meaning_terms *ret, const void *bytes,
                          size_t len)
{
    const unsigned char *at = bytes;
    size_t count = len / PACKED;
    struct meaning_terms t = {.count = count};

    if (len % PACKED || count > MEANING_TERMS_MAX)
        return false;
    t.items = xmalloc(MAX(count, 1) * sizeof(*t.items));
    for (size_t i = 0; i < count; i++, at += PACKED) {
        t.items[i].hash = (uint32_t)at[0] | (uint32_t)at[1] << 8 |
                          (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        t.items[i].count = at[4];
        t.words += at[4];
        if (at[4] == 0 || (i && t.items[i].hash <= t.items[i - 1].hash)) {
            meaning_terms_done(&t);
            return false;
        }
    }
    *ret = t;
    return true;
}
