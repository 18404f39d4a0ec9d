/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking. Runs in the daemon on the asking thread, in one reading
 * transaction:
 *
 *   1. the best matches of the full-text index that the actor may see,
 *   2. when those are all told, files whose path holds every term somewhere
 *      inside a word, newest first,
 *   3. line, page and snippet, of the hits on this page alone.
 *
 * Who may see a row is decided in the statements of 1 and 2 (find.c), before
 * ranking and counting. A cursor names the last hit's place in that order, "w"
 * and its rank and number for 1, "n" and its number for 2.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "search/question.h"
#include "store/store.h"
#include "workspace/workspace.h"

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

static int check_spec(const struct search_spec *spec, struct error *err)
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

/* As it is compared: "CSV" and ".csv" are "csv", "image/" is every image. */
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
    if (check_spec(q->spec, err) < 0 ||
        parse_cursor(q->spec->after, &q->cursor, err) < 0 ||
        search_expr_parse(q->spec->query, &q->expr, err) < 0)
        return -(int)err->code;
    if (q->spec->workspace) { /* an unknown one is told, not left empty */
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

/* ---- what is shown of a hit --------------------------------------------- */

static int show(struct question *q, size_t at, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct search_hit *h = &q->hits[at];
    unsigned line = 0, page = 0;
    int in_name = 0, start = 0;
    const char *text;
    int r = store_one(q->tx, &rows, err,
                      "SELECT found_where(words) FROM words"
                      " WHERE words MATCH ?1 AND rowid = ?2",
                      "ti", q->expr.match.data, q->numbers[at]);

    if (r < 0)
        return r;
    text = r > 0 ? store_text(rows, 0) : NULL;
    if (!text ||
        sscanf(text, "%u %u %d%n", &line, &page, &in_name, &start) != 3)
        return 0;
    h->snippet = xstrdup(text + start + 1);
    h->in_name = in_name != 0;
    *(q->paged[at] ? &h->page : &h->line) = q->paged[at] ? page : line;
    return 0;
}

static int show_all(struct question *q, struct error *err)
{
    uint64_t until = clock_mono_ms() + SHOW_MS;

    for (size_t i = 0; i < q->count; i++) {
        if (!q->hits[i].snippet && clock_mono_ms() < until &&
            show(q, i, err) < 0)
            return -(int)err->code;
        if (!q->hits[i].snippet)
            q->hits[i].snippet = xstrdup("");
    }
    return 0;
}

/* ---- the call ----------------------------------------------------------- */

static void hit_done(struct search_hit *h)
{
    free(h->path);
    free(h->snippet);
    free(h->mime);
}

/* What may not be fetched is found by its name alone: neither a snippet nor
 * the hit itself tells what is in it. */
static void withhold(struct question *q)
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
    if (!q.cursor.by_name && search_find_words(&q, err) < 0)
        return -(int)err->code;
    if (q.count <= spec->limit && search_find_names(&q, err) < 0)
        return -(int)err->code;
    more = q.count > spec->limit;
    if (more)
        hit_done(&q.hits[--q.count]);
    if (show_all(&q, err) < 0)
        return -(int)err->code;
    withhold(&q);
    *ret_count = q.count;
    *ret_more = more;
    *ret = take_ptr(q.hits);
    return 0;
}
