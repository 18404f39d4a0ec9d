/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hits of a search, in their order; see question.h. Runs in the daemon on
 * the asking thread, in its reading transaction. Who may see a row is decided
 * in the statements, before ranking and counting.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "search/question.h"
#include "store/store.h"
#include "workspace/workspace.h"

#define RANK_ONE 1000000.0
#define NAME_RANK 50000 /* below every rank of found_rank */
#define MANY 2000       /* hits: then the workspaces seen are listed first */

/* ---- the statements ----------------------------------------------------- */

/* ?1 key, ?2 admin, ?3 tenant; bounds: where the two are. For few hits each is
 * looked up, for many the workspaces that are seen are listed once. */
#define SEEN_EACH(...)                                                        \
    " AND EXISTS (SELECT 1 FROM workspaces AS w"                              \
    " WHERE w.id = d.workspace AND " SEARCH_SEEN(__VA_ARGS__) ")"
#define SEEN_LISTED(...)                                                      \
    " AND d.workspace IN (SELECT w.id FROM workspaces AS w"                   \
    " WHERE " SEARCH_SEEN(__VA_ARGS__) ")"

#define IN_WORKSPACE " AND (?4 IS NULL OR d.workspace = ?4)"

/* ?5 prefix, ?6 type, ?7 author, ?8 conversation, ?9 from, ?10 to. Looking
 * up the files of a hundred thousand hits takes longer than all the rest, so
 * this is left out when there is no filter. */
#define FILES " CROSS JOIN files AS f ON f.id = d.file"
#define FILTERS                                                               \
    " AND f.alive = 1"                                                        \
    " AND (?5 IS NULL OR substr(f.path, 1, length(?5)) = ?5)"                 \
    " AND (?6 IS NULL OR d.kind = ?6 OR f.mime = ?6"                          \
    "  OR (substr(?6, -1) = '/' AND substr(f.mime, 1, length(?6)) = ?6)"      \
    "  OR lower(substr(f.path, -1 - length(?6))) = '.' || ?6)"                \
    " AND (?7 IS NULL OR EXISTS (SELECT 1 FROM commits AS c"                  \
    "  WHERE c.workspace = f.workspace AND c.seq = f.seq AND c.author = ?7))" \
    " AND (?8 IS NULL OR EXISTS (SELECT 1 FROM versions AS v"                 \
    "  JOIN commits AS c ON c.id = v.commit_id"                               \
    "  WHERE v.file = f.id AND c.conversation = ?8))"                         \
    " AND (?9 = 0 OR f.modified_at_ms >= ?9)"                                 \
    " AND (?10 = 0 OR f.modified_at_ms <= ?10)"

/* ?11 expression, ?12 and ?13 rank and number to go on after, ?14 how many,
 * ?15 and ?16 bounds */
#define BY_WORDS(seen, files, filters)                                        \
    "SELECT d.id, found_rank(words, d.bytes) AS score"                        \
    " FROM words CROSS JOIN documents AS d ON d.id = words.rowid" files       \
    " WHERE words MATCH ?11" IN_WORKSPACE seen("?15", "?16") filters          \
        " AND (?12 < 0 OR found_rank(words, d.bytes) < ?12"                   \
        "  OR (found_rank(words, d.bytes) = ?12 AND d.id < ?13))"             \
        " ORDER BY score DESC, d.id DESC LIMIT ?14"

static const char *const by_words[2][2] = {
    /* many hits, filters */
    {BY_WORDS(SEEN_EACH, "", ""), BY_WORDS(SEEN_EACH, FILES, FILTERS)},
    {BY_WORDS(SEEN_LISTED, "", ""), BY_WORDS(SEEN_LISTED, FILES, FILTERS)},
};

/* ?12 pattern, ?13 number to go on below; newest first, one at a time;
 * ?14 and ?15 bounds */
#define BY_NAME(workspace)                                                    \
    "SELECT d.id, f.path FROM documents AS d" FILES                           \
    " WHERE d.path LIKE ?12 ESCAPE '\\' AND d.id < ?13" workspace SEEN_EACH(  \
        "?14", "?15") FILTERS                                                 \
        " AND d.id NOT IN (SELECT rowid FROM words WHERE words MATCH ?11)"    \
        " ORDER BY d.id DESC"

static const char *const by_name[2] = {
    /* all, one workspace by its index */
    BY_NAME(""),
    BY_NAME(" AND d.workspace = ?4"),
};

/* ---- finding ------------------------------------------------------------ */

/* The first ten parameters of every statement. */
#define PARAMETERS "tittttttii"
#define VALUES(q)                                                             \
    (q)->who->key, (int64_t)(q)->who->admin, (q)->who->tenant,                \
        (q)->spec->workspace, (q)->spec->prefix, (q)->type,                   \
        (q)->spec->author, (q)->spec->conversation, (q)->spec->from_ms,       \
        (q)->spec->to_ms

/* Looks a document's file up. 1, or 0 when it was deleted just now: its words
 * are still to follow. */
static int add_hit(struct question *q, int64_t number, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct search_hit *h = &q->hits[q->count];
    int r = store_one(q->tx, &rows, err,
                      "SELECT f.id, f.workspace, f.version, f.path, f.mime,"
                      " f.modified_at_ms, d.kind FROM documents AS d"
                      " JOIN files AS f ON f.id = d.file"
                      " WHERE d.id = ?1 AND f.alive = 1",
                      "i", number);

    if (r <= 0)
        return r;
    store_copy(rows, 0, h->file, sizeof(h->file));
    store_copy(rows, 1, h->workspace, sizeof(h->workspace));
    store_copy(rows, 2, h->version, sizeof(h->version));
    h->path = xstrdup(store_text(rows, 3));
    h->mime = xstrdup(store_text(rows, 4));
    h->modified_at_ms = store_int(rows, 5);
    q->paged[q->count] = search_kind_paged(store_text(rows, 6));
    q->numbers[q->count++] = number;
    return 1;
}

static int many_hits(struct question *q, bool *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(q->tx, &rows, err,
                      "SELECT count(*) FROM (SELECT 1 FROM words"
                      " WHERE words MATCH ?1 LIMIT ?2)",
                      "ti", q->expr.match.data, (int64_t)MANY);

    *ret = r > 0 && store_int(rows, 0) == MANY;
    return MIN(r, 0);
}

static bool has_filter(const struct search_spec *spec)
{
    return spec->prefix || spec->type || spec->author || spec->conversation ||
           spec->from_ms || spec->to_ms;
}

/* As many as are still wanted from the cursor on, which moves. ret: rows. */
static int find_some(struct question *q, bool many, size_t *ret,
                     struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t seen = 0;
    int r = 0;

    if (store_query(q->tx, &rows, err, by_words[many][has_filter(q->spec)],
                    PARAMETERS "tiiitt", VALUES(q), q->expr.match.data,
                    q->cursor.rank, q->cursor.number,
                    (int64_t)q->spec->limit + 1, WORKSPACE_BOUNDS(q->who)) < 0)
        return -(int)err->code;
    while (q->count <= q->spec->limit && (r = store_next(rows, err)) > 0) {
        struct search_hit *h = &q->hits[q->count];

        seen++;
        q->cursor.number = store_int(rows, 0);
        q->cursor.rank = store_int(rows, 1);
        r = add_hit(q, q->cursor.number, err);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        h->score = (double)q->cursor.rank / RANK_ONE;
        (void)snprintf(h->cursor, sizeof(h->cursor), "w%" PRIx64 ".%" PRIx64,
                       (uint64_t)q->cursor.rank, (uint64_t)q->cursor.number);
    }
    *ret = seen;
    return MIN(r, 0);
}

int search_find_words(struct question *q, struct error *err)
{
    size_t rows = 0;
    bool many;

    if (many_hits(q, &many, err) < 0)
        return -(int)err->code;
    do {
        if (find_some(q, many, &rows, err) < 0)
            return -(int)err->code;
    } while (q->count <= q->spec->limit && rows > q->spec->limit);
    return 0;
}

/* Marks where each term is in the path; false when one is nowhere. */
static bool name_snippet(const struct search_expr *e, const char *path,
                         struct buf *ret)
{
    struct search_span spans[SEARCH_TERMS_MAX];

    for (size_t i = 0; i < e->count; i++) {
        const char *at = strcasestr(path, e->terms[i]);
        struct search_span span;
        size_t n = i;

        if (!at)
            return false;
        span.start = (size_t)(at - path);
        span.end = span.start + strlen(e->terms[i]);
        while (n > 0 && spans[n - 1].start > span.start) {
            spans[n] = spans[n - 1];
            n--;
        }
        spans[n] = span;
    }
    search_snippet(ret, path, strlen(path), spans, e->count);
    return true;
}

/* The longest term, which the fewest paths hold; NULL when one is so short
 * that most would. Owned by caller. */
static char *name_pattern(const struct search_expr *e)
{
    const char *longest = "";
    struct buf out cleanup(buf_done) = {0};

    for (size_t i = 0; i < e->count; i++) {
        if (strlen(e->terms[i]) < 2)
            return NULL;
        if (strlen(e->terms[i]) > strlen(longest))
            longest = e->terms[i];
    }
    buf_add(&out, "%", 1);
    for (; *longest; longest++) {
        if (strchr("%_\\", *longest))
            buf_add(&out, "\\", 1);
        buf_add(&out, longest, 1);
    }
    buf_add(&out, "%", 1);
    return buf_take(&out, NULL);
}

int search_find_names(struct question *q, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char *pattern cleanup(mem_free) = name_pattern(&q->expr);
    int r = 0;

    if (!pattern)
        return 0;
    if (store_query(q->tx, &rows, err, by_name[q->spec->workspace != NULL],
                    PARAMETERS "ttitt", VALUES(q), q->expr.match.data, pattern,
                    q->cursor.by_name ? q->cursor.number : INT64_MAX,
                    WORKSPACE_BOUNDS(q->who)) < 0)
        return -(int)err->code;
    while (q->count <= q->spec->limit && (r = store_next(rows, err)) > 0) {
        struct buf text cleanup(buf_done) = {0};
        struct search_hit *h = &q->hits[q->count];
        int64_t number = store_int(rows, 0);

        if (!name_snippet(&q->expr, store_text(rows, 1), &text))
            continue;
        if (add_hit(q, number, err) < 0)
            return -(int)err->code;
        h->snippet = buf_take(&text, NULL);
        h->in_name = true;
        h->score = NAME_RANK / RANK_ONE;
        (void)snprintf(h->cursor, sizeof(h->cursor), "n%" PRIx64,
                       (uint64_t)number);
    }
    return MIN(r, 0);
}
