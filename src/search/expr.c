/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person typed, as terms and as an expression of FTS5: words and
 * "phrases" that must all be there, a * after one for any ending. Nothing
 * else has a meaning: each term goes into the expression between quotes, with
 * quotes inside it doubled, so no syntax of the engine's can get in. Runs in
 * the daemon on the asking thread; pure.
 */
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "search/search_int.h"

struct term {
    const char *at;
    size_t len;
    bool prefix;
};

static bool is_space(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7f;
}

/* The next term, past any space. A quote without its twin ends with the
 * text. False when there is no more. */
static bool next_term(const char **at, struct term *ret)
{
    const char *p = *at;

    while (*p && is_space(*p))
        p++;
    if (!*p)
        return false;
    if (*p == '"') {
        ret->at = ++p;
        while (*p && *p != '"')
            p++;
        ret->len = (size_t)(p - ret->at);
        p += *p == '"';
        ret->prefix = *p == '*';
        p += *p == '*';
    } else {
        ret->at = p;
        while (*p && *p != '"' && !is_space(*p))
            p++;
        ret->len = (size_t)(p - ret->at);
        ret->prefix = p[-1] == '*';
    }
    *at = p;
    return true;
}

/* Anything in it that could be a word? Of the rest of Unicode the engine
 * decides; a term it finds empty it leaves out. */
static bool has_word(const struct term *t)
{
    for (size_t i = 0; i < t->len; i++)
        if (isalnum((unsigned char)t->at[i]) || (unsigned char)t->at[i] > 0x7f)
            return true;
    return false;
}

static void add_match(struct buf *out, const char *text, bool prefix)
{
    struct buf spaced cleanup(buf_done) = {0};

    search_text_add(&spaced, text, strlen(text));
    if (out->len)
        buf_add(out, " ", 1);
    buf_add(out, "\"", 1);
    for (size_t i = 0; i < spaced.len; i++)
        if (spaced.data[i] == '"')
            buf_adds(out, "\"\"");
        else
            buf_add(out, &spaced.data[i], 1);
    buf_adds(out, prefix ? "\"*" : "\"");
}

static int add_term(struct search_expr *e, const struct term *t,
                    struct error *err)
{
    char *text cleanup(mem_free) = NULL;

    if (!has_word(t))
        return 0;
    /* Lower case, one space for each space character, no trailing '*'. */
    text = xstrndup(t->at, t->len);
    for (char *p = text; *p; p++)
        *p = is_space(*p) ? ' ' : (char)tolower((unsigned char)*p);
    for (size_t n = strlen(text); n && text[n - 1] == '*'; n--)
        text[n - 1] = '\0';
    for (size_t i = 0; i < e->count; i++)
        if (strcmp(e->terms[i], text) == 0)
            return 0;
    if (e->count == SEARCH_TERMS_MAX)
        return error_set(err, ERR_INVALID,
                         "the query has more than %u different words",
                         SEARCH_TERMS_MAX);
    add_match(&e->match, text, t->prefix);
    e->prefix[e->count] = t->prefix;
    e->terms[e->count++] = take_ptr(text);
    return 0;
}

int search_expr_parse(const char *query, struct search_expr *ret,
                      struct error *err)
{
    struct search_expr e cleanup(search_expr_done) = {0};
    size_t len = strnlen(query, SEARCH_QUERY_MAX + 1);
    struct term t;

    if (len == 0)
        return error_set(err, ERR_INVALID, "the query is empty");
    if (len > SEARCH_QUERY_MAX)
        return error_set(err, ERR_INVALID, "the query is longer than %u bytes",
                         SEARCH_QUERY_MAX);
    if (!utf8_valid(query, len))
        return error_set(err, ERR_INVALID, "the query is not UTF-8");
    while (next_term(&query, &t))
        if (add_term(&e, &t, err) < 0)
            return -(int)err->code;
    if (e.count == 0) {
        (void)error_set(err, ERR_INVALID,
                        "the query holds no letter or digit to look for");
        return error_hint(err, "give words, \"a phrase\", or the start of a "
                               "word with * after it");
    }
    *ret = e;
    e = (struct search_expr){0};
    return 0;
}

void search_expr_done(struct search_expr *e)
{
    buf_done(&e->match);
    for (size_t i = 0; i < e->count; i++)
        free(e->terms[i]);
    e->count = 0;
}
