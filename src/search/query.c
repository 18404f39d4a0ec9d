/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries. Runs in the daemon on the caller's thread, in one reading
 * transaction:
 *
 *   1. the best matches of the full-text index that the actor may see,
 *   2. when those are exhausted, files whose path holds every term somewhere
 *      inside a word, newest first,
 *   3. line, page and snippet, of the hits on this page alone.
 *
 * Whether the actor may see a row is decided in the statements of 1 and 2,
 * before ranking and counting. A cursor names the last hit's place in that
 * order: "w" and its rank and number for 1, "n" and its number for 2.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "search/search_int.h"
#include "search/words_sql.h"
#include "store/store.h"
#include "workspace/workspace.h"

/* The last hit of the page before. */
struct cursor {
    bool by_name;
    int64_t rank; /* -1: from the best */
    int64_t number;
};

struct question {
    struct search *s;
    const struct actor *who;
    const struct search_spec *spec;
    struct search_expr expr;
    struct buf match; /* expr, for the index */
    char *type;       /* lower case, owned */
    struct cursor cursor;
    struct store_tx *tx;
    struct search_hit *hits; /* room for limit + 1 */
    int64_t *numbers;        /* of their documents */
    bool *paged;
    size_t count;
};

/* ---- finding hits ----------------------------------------------------------
 */

#define RANK_ONE ((double)SEARCH_RANK_ONE)
#define NAME_RANK 50000 /* below every rank of the index */
#define MANY 2000       /* hits: then the workspaces seen are listed first */

/* ---- finding ------------------------------------------------------------ */

/* The first ten parameters of every statement; words_sql.h names them. */
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
    int r;

    *ret = false;
    if (!q->s->words->many)
        return 0;
    r = store_one(q->tx, &rows, err, q->s->words->many, "ti", q->match.data,
                  (int64_t)MANY);
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

    if (store_query(q->tx, &rows, err,
                    q->s->words->by_words[many][has_filter(q->spec)],
                    PARAMETERS "tiiitt", VALUES(q), q->match.data,
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

/* The best matches of the full-text index that the actor may see. */
static int find_words(struct question *q, struct error *err)
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

/* Files whose path holds every term inside a word, newest first, for as much
 * room as is left. */
static int find_names(struct question *q, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char *pattern cleanup(mem_free) = name_pattern(&q->expr);
    int r = 0;

    if (!pattern)
        return 0;
    if (store_query(q->tx, &rows, err,
                    q->s->words->by_name[q->spec->workspace != NULL],
                    PARAMETERS "ttitt", VALUES(q), q->match.data, pattern,
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

/* ---- answering -------------------------------------------------------------
 */

#define FILTER_MAX 1024u
#define SHOW_MS 3000u /* for snippets; after that hits come without */

/* ---- where a page begins ------------------------------------------------ */

static int parse_cursor(const char *text, struct cursor *ret,
                        struct error *err)
{
    char check[64];

    *ret = (struct cursor){.rank = -1, .number = INT64_MAX};
    if (!text || !*text)
        return 0;
    if (sscanf(text, "w%" SCNx64 ".%" SCNx64, (uint64_t *)&ret->rank,
               (uint64_t *)&ret->number) == 2)
        (void)snprintf(check, sizeof(check), "w%" PRIx64 ".%" PRIx64,
                       (uint64_t)ret->rank, (uint64_t)ret->number);
    else if (sscanf(text, "n%" SCNx64, (uint64_t *)&ret->number) == 1)
        (void)snprintf(check, sizeof(check), "n%" PRIx64,
                       (uint64_t)ret->number);
    else
        check[0] = '\0';
    ret->by_name = check[0] == 'n';
    if (strcmp(check, text) != 0 || ret->number < 0 ||
        (!ret->by_name && ret->rank < 0))
        return error_set(err, ERR_INVALID,
                         "'after' is not the cursor of an earlier result");
    return 0;
}

/* ---- the question ------------------------------------------------------- */

static void question_done(struct question *q)
{
    search_expr_done(&q->expr);
    buf_done(&q->match);
    store_rollback(&q->tx);
    if (q->hits)
        search_hits_free(q->hits, q->count);
    free(q->type);
    free(q->numbers);
    free(q->paged);
}

static int check_filter(const char *name, const char *text, struct error *err)
{
    size_t len = text ? strnlen(text, FILTER_MAX + 1) : 0;

    if (text && (len == 0 || len > FILTER_MAX || !utf8_valid(text, len)))
        return error_set(err, ERR_INVALID,
                         "'%s' must be 1 to %u bytes of UTF-8", name,
                         FILTER_MAX);
    return 0;
}

int search_query_check(const struct search_spec *spec, struct error *err)
{
    if (spec->limit < 1 || spec->limit > SEARCH_LIMIT_MAX)
        return error_set(err, ERR_INVALID, "the limit must be 1 to %u",
                         SEARCH_LIMIT_MAX);
    if (check_filter("prefix", spec->prefix, err) < 0 ||
        check_filter("type", spec->type, err) < 0 ||
        check_filter("author", spec->author, err) < 0 ||
        check_filter("conversation", spec->conversation, err) < 0)
        return -(int)err->code;
    if (spec->from_ms < 0 || spec->to_ms < 0)
        return error_set(err, ERR_INVALID, "a time before 1970");
    return 0;
}

/* Types are compared in one form: "CSV" and ".csv" become "csv". Owned by
 * caller; NULL stays NULL. */
static char *plain_type(const char *type)
{
    char *text = xstrdup(type && *type == '.' ? type + 1 : type);
    size_t len = text ? strlen(text) : 0;

    for (size_t i = 0; i < len; i++)
        text[i] = (char)tolower((unsigned char)text[i]);
    if (len > 2 && strcmp(text + len - 2, "/*") == 0)
        text[len - 1] = '\0';
    return text;
}

static int question_begin(struct question *q, struct error *err)
{
    if (search_query_check(q->spec, err) < 0 ||
        parse_cursor(q->spec->after, &q->cursor, err) < 0 ||
        search_expr_parse(q->spec->query, &q->expr, err) < 0 ||
        q->s->words->ask(q->s, &q->expr, &q->match, err) < 0)
        return -(int)err->code;
    if (q->spec->workspace) { /* report an unknown one as an error */
        struct workspace_info info;

        if (workspace_get(q->s->workspaces, q->who, q->spec->workspace, &info,
                          err) < 0)
            return -(int)err->code;
    }

    q->type = plain_type(q->spec->type);
    q->hits = xcalloc(q->spec->limit + 1, sizeof(*q->hits));
    q->numbers = xcalloc(q->spec->limit + 1, sizeof(*q->numbers));
    q->paged = xcalloc(q->spec->limit + 1, sizeof(*q->paged));
    return store_begin(q->s->store, STORE_READ, "searching", &q->tx, err);
}

/* ---- for recall.c ------------------------------------------------------- */

static const char by_filters[] =
    "SELECT d.id FROM workspaces AS w CROSS JOIN documents AS d"
    " ON d.workspace = w.id" WORDS_FILES
    " WHERE w.intelligence = 1 AND d.cut = 1" WORDS_IN_WORKSPACE
    " AND " SEARCH_SEEN("?11", "?12") WORDS_FILTERS " ORDER BY d.id";

int search_query_documents(struct search *s, struct store_tx *tx,
                           const struct actor *who,
                           const struct search_spec *spec, int64_t **ret,
                           size_t *ret_count, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char *type cleanup(mem_free) = plain_type(spec->type);
    struct question q = {.s = s, .who = who, .spec = spec, .type = type};
    int64_t *all cleanup(mem_free) = xmalloc(sizeof(*all));
    size_t count = 0, room = 1;
    int r = store_query(tx, &rows, err, by_filters, PARAMETERS "tt",
                        VALUES(&q), WORKSPACE_BOUNDS(who));

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        if (count == room) {
            room *= 2;
            all = xrealloc(all, room * sizeof(*all));
        }
        all[count++] = store_int(rows, 0);
    }
    if (r < 0)
        return r;
    *ret = take_ptr(all);
    *ret_count = count;
    return 0;
}

/* ---- what is shown of a hit --------------------------------------------- */

static int show_hit(struct question *q, size_t at, struct error *err)
{
    struct buf text cleanup(buf_done) = {0};
    struct search_hit *h = &q->hits[at];
    unsigned line = 0, page = 0;
    int in_name = 0, start = 0;

    if (q->s->words->show(q->s, q->tx, &q->expr, q->match.data, q->numbers[at],
                          &text, err) < 0)
        return -(int)err->code;
    if (!text.len ||
        sscanf(text.data, "%u %u %d%n", &line, &page, &in_name, &start) != 3)
        return 0;
    h->snippet = xstrdup(text.data + start + 1);
    h->in_name = in_name != 0;
    *(q->paged[at] ? &h->page : &h->line) = q->paged[at] ? page : line;
    return 0;
}

/* ---- the call ----------------------------------------------------------- */

static void hit_done(struct search_hit *h)
{
    free(h->path);
    free(h->snippet);
    free(h->mime);
}

/* A file that the actor may not fetch can be found by its name only: neither
 * the snippet nor the hit itself may reveal its contents. */
static void withhold_contents(struct question *q)
{
    size_t kept = 0;

    for (size_t i = 0; i < q->count; i++) {
        struct search_hit *h = &q->hits[i];

        if ((h->line || h->page || !h->in_name) &&
            !workspace_may_fetch(q->s->workspaces, q->who, h->path, h->mime)) {
            if (!h->in_name) {
                hit_done(h);
                continue;
            }
            h->snippet[0] = '\0';
            h->line = h->page = 0;
        }
        q->hits[kept++] = *h;
    }
    q->count = kept;
}

void search_hits_free(struct search_hit *hits, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hit_done(&hits[i]);
    free(hits);
}

int search_query(struct search *s, const struct actor *who,
                 const struct search_spec *spec, struct search_hit **ret,
                 size_t *ret_count, bool *ret_more, struct error *err)
{
    struct question q cleanup(question_done) = {
        .s = s, .who = who, .spec = spec};
    bool more;

    if (question_begin(&q, err) < 0)
        return -(int)err->code;
    if (!q.cursor.by_name && find_words(&q, err) < 0)
        return -(int)err->code;
    if (q.count <= spec->limit && find_names(&q, err) < 0)
        return -(int)err->code;
    more = q.count > spec->limit;
    if (more)
        hit_done(&q.hits[--q.count]);

    /* Snippets take time to make: after SHOW_MS the rest stay empty. */
    uint64_t until = clock_mono_ms() + SHOW_MS;

    for (size_t i = 0; i < q.count; i++) {
        if (!q.hits[i].snippet && clock_mono_ms() < until &&
            show_hit(&q, i, err) < 0)
            return -(int)err->code;
        if (!q.hits[i].snippet)
            q.hits[i].snippet = xstrdup("");
    }

    withhold_contents(&q);
    *ret_count = q.count;
    *ret_more = more;
    *ret = take_ptr(q.hits);
    return 0;
}
