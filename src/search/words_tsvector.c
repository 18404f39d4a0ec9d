/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The full text index in PostgreSQL. Runs in the daemon on the calling thread.
 * A row of `words` has, beside the text,
 *
 *   path_words, body_words  the words of the text as the tokenizer of FTS5
 *                           cuts and folds them, each between U+0001 and
 *                           U+0002, in order
 *   tokens                  each word once, a tsvector with a GIN index; NULL
 *                           when the words are still to be cut
 *   partial                 1: there are more than a tsvector holds
 *
 * The index gives candidates: documents that have every word of the question.
 * Whether words are a phrase, and how often a term occurs, is then found in
 * path_words and body_words, where a term is a substring. A tsvector alone
 * could not tell: it keeps 256 places of a word, none above 16,383.
 *
 * A question is one text of three parts, between U+001E: the tsquery; the
 * terms as substrings, between U+001F; the terms as regular expressions, if
 * their occurrences can overlap ("a a" in "a a a").
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "search/search_int.h"
#include "search/words_sql.h"
#include "store/store.h"

#define OPEN "\x01"
#define CLOSE "\x02"
#define PART "\x1e"
#define ITEM "\x1f"

#define LEXEME_MAX 1000u /* bytes; PostgreSQL has 2,046 */
/* Of all in a tsvector; PostgreSQL has 1,048,575. */
#define LEXEMES_MAX 1000000u
#define FILL_ROWS 20

/* ---- words -------------------------------------------------------------- */

struct word {
    size_t at, len; /* in `text` */
    size_t start, end;
};

/* The words of a text, in order. */
struct words {
    struct buf text; /* folded, one after the other */
    struct word *all;
    size_t count, room;
};

static void words_done(struct words *w)
{
    buf_done(&w->text);
    free(w->all);
}

static int on_word(void *ctx, const char *word, size_t len, size_t start,
                   size_t end)
{
    struct words *w = ctx;

    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : 64;
        w->all = xrealloc(w->all, w->room * sizeof(*w->all));
    }
    w->all[w->count++] = (struct word){w->text.len, len, start, end};
    buf_add(&w->text, word, len);
    return 0;
}

static int words_read(struct search_tokens *t, const char *text,
                      struct words *ret, struct error *err)
{
    return search_tokens_read(t, text, strlen(text), on_word, ret, err);
}

static const char *word_text(const struct words *w, size_t i)
{
    return w->text.data + w->all[i].at;
}

/* As path_words and body_words have it. */
static void words_join(const struct words *w, struct buf *out)
{
    buf_adds(out, "");
    buf_reserve(out, w->text.len + 2 * w->count);
    for (size_t i = 0; i < w->count; i++) {
        buf_adds(out, OPEN);
        buf_add(out, word_text(w, i), w->all[i].len);
        buf_adds(out, CLOSE);
    }
}

/* How much of a word a tsvector gets: no part of a character. */
static size_t lexeme_length(const char *word, size_t len)
{
    if (len <= LEXEME_MAX)
        return len;
    return LEXEME_MAX - utf8_partial(word, LEXEME_MAX);
}

struct lexeme {
    const char *at;
    size_t len;
};

static int by_bytes(const void *a, const void *b)
{
    const struct lexeme *x = a, *y = b;
    int order = memcmp(x->at, y->at, MIN(x->len, y->len));

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Every word of both once, between ITEMs. Returns whether all fit. */
static bool list_lexemes(const struct words *path, const struct words *body,
                         struct buf *out)
{
    const struct words *const both[] = {path, body};
    size_t count = 0, bytes = 0;
    struct lexeme *all cleanup(mem_free) =
        xcalloc(path->count + body->count + 1, sizeof(*all));

    for (size_t k = 0; k < ARRAY_SIZE(both); k++)
        for (size_t i = 0; i < both[k]->count; i++) {
            const char *word = word_text(both[k], i);

            all[count++] = (struct lexeme){
                word, lexeme_length(word, both[k]->all[i].len)};
        }
    qsort(all, count, sizeof(*all), by_bytes);
    buf_adds(out, "");
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && by_bytes(&all[i - 1], &all[i]) == 0)
            continue;
        bytes += all[i].len;
        if (bytes > LEXEMES_MAX)
            return false;
        if (out->len)
            buf_adds(out, ITEM);
        buf_add(out, all[i].at, all[i].len);
    }
    return true;
}

/* ---- writing ------------------------------------------------------------ */

static int put_row(struct search_tokens *t, struct store_tx *tx, int64_t id,
                   const char *path, const char *body, struct error *err)
{
    struct words in_path cleanup(words_done) = {0};
    struct words in_body cleanup(words_done) = {0};
    struct buf path_words cleanup(buf_done) = {0};
    struct buf body_words cleanup(buf_done) = {0};
    struct buf lexemes cleanup(buf_done) = {0};
    bool all;

    if (words_read(t, path, &in_path, err) < 0 ||
        words_read(t, body, &in_body, err) < 0)
        return -(int)err->code;
    words_join(&in_path, &path_words);
    words_join(&in_body, &body_words);
    all = list_lexemes(&in_path, &in_body, &lexemes);
    if (store_exec(tx, err,
                   "INSERT INTO words (rowid, path, body, path_words,"
                   " body_words, tokens, partial) VALUES (?1, ?2, ?3, ?4, ?5,"
                   " array_to_tsvector(string_to_array(?6, chr(31))), ?7)"
                   " ON CONFLICT (rowid) DO UPDATE SET"
                   " path = excluded.path, body = excluded.body,"
                   " path_words = excluded.path_words,"
                   " body_words = excluded.body_words,"
                   " tokens = excluded.tokens, partial = excluded.partial",
                   "ittttti", id, path, body, path_words.data, body_words.data,
                   lexemes.data, (int64_t)!all) < 0)
        return -(int)err->code;
    return 0;
}

static int tsvector_write(struct search *s, struct store_tx *tx, int64_t id,
                          const char *path, const char *body,
                          struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char *kept cleanup(mem_free) = NULL;
    int r;

    if (path && body)
        return put_row(s->tokens, tx, id, path, body, err);
    r = store_one(tx, &rows, err,
                  "SELECT path, body FROM words WHERE rowid = ?1", "i", id);
    if (r <= 0)
        return r;
    kept = xstrdup(store_text(rows, path ? 1 : 0));
    store_rows_done(&rows);
    return put_row(s->tokens, tx, id, path ? path : kept, path ? kept : body,
                   err);
}

/* Some rows that were copied from another store and have no words yet; how
 * many, or -code. */
static int fill_some(struct search_tokens *t, struct store_tx *tx,
                     struct error *err)
{
    struct row {
        int64_t id;
        char *path, *body;
    } all[FILL_ROWS];
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int count = 0;
    int r = store_query(tx, &rows, err,
                        "SELECT rowid, path, body FROM words"
                        " WHERE tokens IS NULL ORDER BY rowid LIMIT ?1",
                        "i", (int64_t)FILL_ROWS);

    while (r >= 0 && count < FILL_ROWS && (r = store_next(rows, err)) > 0)
        all[count++] =
            (struct row){store_int(rows, 0), xstrdup(store_text(rows, 1)),
                         xstrdup(store_text(rows, 2))};
    store_rows_done(&rows);
    for (int i = 0; i < count; i++) {
        if (r >= 0)
            r = put_row(t, tx, all[i].id, all[i].path, all[i].body, err);
        free(all[i].path);
        free(all[i].body);
    }
    return r < 0 ? r : count;
}

int search_fill(struct store *store, struct store_tx *tx,
                void (*progress)(void *ctx, uint64_t more), void *ctx,
                struct error *err)
{
    struct search_tokens *t = NULL;
    int r = 1;

    if (strcmp(store_engine(store), search_words_tsvector.engine) != 0)
        return 0;
    if (search_tokens_open(&t, err) < 0)
        return -(int)err->code;
    while (r > 0 && (r = fill_some(t, tx, err)) > 0)
        if (progress)
            progress(ctx, (uint64_t)r);
    search_tokens_close(t);
    return r;
}

static int tsvector_open(struct search *s, struct error *err)
{
    int r = search_tokens_open(&s->tokens, err);

    while (r >= 0) {
        struct store_tx *tx cleanup(store_rollback) = NULL;

        r = store_begin(s->store, STORE_WRITE, "filling the index", &tx, err);
        if (r == 0)
            r = fill_some(s->tokens, tx, err);
        if (r == 0)
            break;
        if (r > 0)
            r = store_commit(&tx, err);
    }
    return r;
}

static void tsvector_close(struct search *s)
{
    search_tokens_close(s->tokens);
    s->tokens = NULL;
}

/* PostgreSQL tends its indexes itself. */
static int tsvector_tend(struct search *s, struct error *err)
{
    (void)s;
    (void)err;
    return 0;
}

/* Words go with their row; what is left of the row goes with store_forget. */
static int tsvector_purge(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s->store, STORE_WRITE, "tending the index", &tx, err) <
            0 ||
        store_exec(tx, err,
                   "DELETE FROM chores WHERE name = 'words'"
                   " AND NOT EXISTS (SELECT 1 FROM documents_gone)",
                   "") < 0 ||
        store_commit(&tx, err) < 0)
        return -(int)err->code;
    return 1;
}

/* ---- questions ---------------------------------------------------------- */

static int term_read(struct search_tokens *t, const char *term,
                     struct words *ret, struct error *err)
{
    struct buf spaced cleanup(buf_done) = {0};

    buf_adds(&spaced, "");
    search_text_add(&spaced, term, strlen(term));
    return words_read(t, spaced.data, ret, err);
}

static void add_lexeme(struct buf *out, const char *word, size_t len,
                       bool prefix)
{
    buf_adds(out, out->len ? " & '" : "'");
    for (size_t i = 0; i < len; i++) {
        if (word[i] == '\'' || word[i] == '\\')
            buf_add(out, &word[i], 1);
        buf_add(out, &word[i], 1);
    }
    buf_adds(out, prefix ? "':*" : "'");
}

/* Can the phrase begin again before it ends? */
static bool overlaps(const struct words *w, bool prefix)
{
    for (size_t i = 1; i < w->count; i++) {
        bool begins = prefix && i + 1 == w->count;

        if (w->all[i].len <= w->all[0].len &&
            (begins || w->all[i].len == w->all[0].len) &&
            memcmp(word_text(w, i), word_text(w, 0), w->all[i].len) == 0)
            return true;
    }
    return false;
}

/* The words of a term as they are side by side in body_words. apart: as a
 * regular expression, which takes the first word and looks at the others.
 * Words are letters and digits, so none means anything in one. */
static void add_pattern(struct buf *out, const struct words *w, bool prefix,
                        bool apart)
{
    for (size_t i = 0; i < w->count; i++) {
        if (apart && i == 1)
            buf_adds(out, "(?=");
        buf_adds(out, OPEN);
        buf_add(out, word_text(w, i), w->all[i].len);
        if (!prefix || i + 1 < w->count)
            buf_adds(out, CLOSE);
    }
    if (apart && w->count > 1)
        buf_adds(out, ")");
}

static int tsvector_ask(struct search *s, const struct search_expr *e,
                        struct buf *ret, struct error *err)
{
    struct buf patterns cleanup(buf_done) = {0};
    struct buf regular cleanup(buf_done) = {0};
    size_t terms = 0;

    for (size_t i = 0; i < e->count; i++) {
        struct words w cleanup(words_done) = {0};

        if (term_read(s->tokens, e->terms[i], &w, err) < 0)
            return -(int)err->code;
        if (!w.count) /* as FTS5, which leaves it out */
            continue;
        if (terms++) {
            buf_adds(&patterns, ITEM);
            buf_adds(&regular, ITEM);
        }
        for (size_t k = 0; k < w.count; k++) {
            size_t len = lexeme_length(word_text(&w, k), w.all[k].len);

            add_lexeme(ret, word_text(&w, k), len,
                       e->prefix[i] && k + 1 == w.count);
        }
        add_pattern(&patterns, &w, e->prefix[i], false);
        if (overlaps(&w, e->prefix[i]))
            add_pattern(&regular, &w, e->prefix[i], true);
    }
    if (!terms) /* no word: a lexeme that no text has */
        add_lexeme(ret, OPEN, strlen(OPEN), false);
    buf_adds(ret, PART);
    buf_add(ret, terms ? patterns.data : OPEN, terms ? patterns.len : 1);
    buf_adds(ret, PART);
    if (regular.len)
        buf_add(ret, regular.data, regular.len);
    return 0;
}

/* ---- where -------------------------------------------------------------- */

struct hit {
    enum search_column column;
    int from, to;
};

struct document {
    struct search_tokens *tokens;
    const char *texts[2];
    struct hit *hits;
    int count, room;
};

static void document_done(struct document *d)
{
    free(d->hits);
}

static bool hit_get(void *ctx, int i, enum search_column *ret_column,
                    int *ret_from, int *ret_to)
{
    const struct hit *h = &((const struct document *)ctx)->hits[i];

    *ret_column = h->column;
    *ret_from = h->from;
    *ret_to = h->to;
    return true;
}

static bool hit_text(void *ctx, enum search_column column,
                     const char **ret_text, size_t *ret_len)
{
    *ret_text = ((const struct document *)ctx)->texts[column];
    *ret_len = strlen(*ret_text);
    return true;
}

static bool hit_read(void *ctx, const char *text, size_t len,
                     search_token_fn *fn, void *fn_ctx)
{
    const struct document *d = ctx;
    struct error err;

    return search_tokens_read(d->tokens, text, len, fn, fn_ctx, &err) == 0;
}

static bool phrase_at(const struct words *text, size_t at,
                      const struct words *phrase, bool prefix)
{
    if (!phrase->count || at + phrase->count > text->count)
        return false;
    for (size_t i = 0; i < phrase->count; i++) {
        size_t have = text->all[at + i].len, want = phrase->all[i].len;
        bool any_end = prefix && i + 1 == phrase->count;

        if ((any_end ? have < want : have != want) ||
            memcmp(word_text(text, at + i), word_text(phrase, i), want) != 0)
            return false;
    }
    return true;
}

static int find_hits(struct document *d, enum search_column column,
                     const struct words *phrases, const struct search_expr *e,
                     struct error *err)
{
    struct words text cleanup(words_done) = {0};

    if (words_read(d->tokens, d->texts[column], &text, err) < 0)
        return -(int)err->code;
    for (size_t at = 0; at < text.count; at++)
        for (size_t i = 0; i < e->count; i++) {
            if (!phrase_at(&text, at, &phrases[i], e->prefix[i]))
                continue;
            if (d->count == d->room) {
                d->room = d->room ? 2 * d->room : 16;
                d->hits =
                    xrealloc(d->hits, (size_t)d->room * sizeof(*d->hits));
            }
            d->hits[d->count++] =
                (struct hit){column, (int)at, (int)(at + phrases[i].count)};
        }
    return 0;
}

static int tsvector_show(struct search *s, struct store_tx *tx,
                         const struct search_expr *e, const char *match,
                         int64_t id, struct buf *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct document d cleanup(document_done) = {.tokens = s->tokens};
    struct words phrases[SEARCH_TERMS_MAX] = {0};
    int r =
        store_one(tx, &rows, err,
                  "SELECT path, body FROM words WHERE rowid = ?1", "i", id);

    (void)match;
    if (r <= 0)
        return r;
    d.texts[SEARCH_PATH] = store_text(rows, 0);
    d.texts[SEARCH_BODY] = store_text(rows, 1);
    r = 0;
    for (size_t i = 0; r == 0 && i < e->count; i++)
        r = term_read(s->tokens, e->terms[i], &phrases[i], err);
    if (r == 0)
        r = find_hits(&d, SEARCH_PATH, phrases, e, err);
    if (r == 0)
        r = find_hits(&d, SEARCH_BODY, phrases, e, err);
    for (size_t i = 0; i < e->count; i++)
        words_done(&phrases[i]);
    if (r == 0)
        search_hits_show(&(struct search_hits){.ctx = &d,
                                               .count = d.count,
                                               .get = hit_get,
                                               .text = hit_text,
                                               .read = hit_read},
                         ret);
    return r;
}

/* ---- the statements ----------------------------------------------------- */

#define TEXT(number) #number
#define NUMBER(macro) TEXT(macro)

#define CANDIDATE                                                             \
    "(t.tokens @@ CAST(split_part(?11, chr(30), 1) AS tsquery)"               \
    " OR t.partial = 1)"
#define TERMS                                                                 \
    "unnest(string_to_array(split_part(?11, chr(30), 2), chr(31)),"           \
    " string_to_array(split_part(?11, chr(30), 3), chr(31)))"                 \
    " AS x (term, again)"

/* The numbers of the ranking as text. */
#define LEAST NUMBER(WORDS_LEAST)
#define PATH_SHARE NUMBER(WORDS_PATH_SHARE)
#define BODY_SHARE NUMBER(WORDS_BODY_SHARE)
#define UNIT NUMBER(WORDS_UNIT)
#define SPREAD NUMBER(WORDS_SPREAD)
#define SPREAD_BYTE NUMBER(WORDS_SPREAD_BYTE)
#define COUNTED NUMBER(SEARCH_HITS_COUNTED)

/* For each term, whether it is in the path, and how often in the body. OFFSET
 * 0 keeps the planner from computing it wherever it is used. */
#define HITS                                                                  \
    "SELECT CASE WHEN strpos(t.path_words, x.term) > 0 THEN 1 ELSE 0 END"     \
    "  AS in_path,"                                                           \
    " CAST(least(" COUNTED ", CASE WHEN coalesce(x.again, '') = '' THEN"      \
    "   (octet_length(t.body_words)"                                          \
    "    - octet_length(replace(t.body_words, x.term, '')))"                  \
    "   / octet_length(x.term)"                                               \
    "  ELSE (SELECT count(*) FROM"                                            \
    "   regexp_matches(t.body_words, x.again, 'g')) END) AS bigint) AS hits"  \
    " FROM " TERMS " OFFSET 0"

/* search_words_rank of the sum of search_words_score, or -1 when a term is
 * missing. */
#define RANK                                                                  \
    "SELECT CASE WHEN min(h.in_path + h.hits) > 0 THEN " LEAST " + 9 *"       \
    " (CAST(sum(" PATH_SHARE " * h.in_path"                                   \
    " + " BODY_SHARE " * h.hits * " UNIT " / (h.hits * " UNIT " + " SPREAD    \
    " + " SPREAD_BYTE " * d.bytes))"                                          \
    " AS bigint) / count(*)) / 10 ELSE -1 END AS score FROM (" HITS ") AS h"

/* The parameters are those of words_fts5.c. */
#define BY_WORDS(files, filters)                                              \
    "SELECT d.id, r.score FROM words AS t"                                    \
    " JOIN documents AS d ON d.id = t.rowid" files                            \
    " CROSS JOIN LATERAL (" RANK ") AS r"                                     \
    " WHERE " CANDIDATE WORDS_IN_WORKSPACE WORDS_SEEN_EACH("?15", "?16")      \
        filters " AND r.score >= 0 AND (?12 < 0 OR r.score < ?12"             \
                "  OR (r.score = ?12 AND d.id < ?13))"                        \
                " ORDER BY r.score DESC, d.id DESC LIMIT ?14"

#define BY_NAME(workspace)                                                    \
    "SELECT d.id, f.path FROM documents AS d" WORDS_FILES                     \
    " WHERE lower(d.path COLLATE \"C\") LIKE ?12 ESCAPE '\\'"                 \
    " AND d.id < ?13" workspace WORDS_SEEN_EACH("?14", "?15") WORDS_FILTERS   \
        " AND NOT EXISTS (SELECT 1 FROM words AS t WHERE t.rowid = d.id"      \
        "  AND " CANDIDATE " AND NOT EXISTS (SELECT 1 FROM " TERMS            \
        "   WHERE strpos(t.path_words, x.term) = 0"                           \
        "   AND strpos(t.body_words, x.term) = 0))"                           \
        " ORDER BY d.id DESC"

#define SLICE                                                                 \
    "substr(convert_to(t.body, 'UTF8'), CAST(p.start + 1 AS integer),"        \
    " CAST(p.bytes AS integer))"

#define ALL BY_WORDS("", "")
#define FILTERED BY_WORDS(WORDS_FILES, WORDS_FILTERS)

const struct search_words search_words_tsvector = {
    .engine = "postgres",
    .open = tsvector_open,
    .close = tsvector_close,
    .write = tsvector_write,
    .tend = tsvector_tend,
    .purge = tsvector_purge,
    .ask = tsvector_ask,
    .show = tsvector_show,
    .by_words = {{ALL, FILTERED}, {ALL, FILTERED}},
    .by_name = {BY_NAME(""), BY_NAME(" AND d.workspace = ?4")},
    .next_passages = WORDS_NEXT_PASSAGES(SLICE),
    .passage = WORDS_PASSAGE(SLICE),
};
