/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two functions the full-text engine calls for a row that matches: how good
 * it is, and where the first hit is. They see the row and the query and
 * nothing else: the engine's own ranking weighs words by how rare they are in
 * all documents, which would tell one tenant about another's. Run in the
 * daemon inside SQLite, on the asking thread.
 *
 *   found_rank(words, BYTES)
 *                      0 to 1000000, a hit in the path weighing more and one
 *                      in a body of so many bytes the less the longer it is
 *   found_where(words) "LINE PAGE NAME TEXT": of the first hit in the body,
 *                      or "0 0 1 TEXT" when only the path has one; NAME is 1
 *                      when the path has one too; TEXT is the snippet
 */
#include <sqlite3.h>
#include <string.h>

#include "base/mem.h"
#include "search/search_int.h"

enum {
    COLUMN_PATH,
    COLUMN_BODY
};

/* ---- how good ----------------------------------------------------------- */

#define HITS_COUNTED 16    /* of one term in one column: more is the same */
#define USUAL_BYTES 2000.0 /* of a body */
#define PATH_SHARE 0.6     /* of the score; the body has the rest */
#define LEAST 0.1          /* below it are hits inside words of names */
#define RANK_ONE 1000000.0

static void count_hits(const Fts5ExtensionApi *api, Fts5Context *fts,
                       int phrase, unsigned ret[2])
{
    Fts5PhraseIter it;
    int column, offset;

    ret[0] = ret[1] = 0;
    if (api->xPhraseFirst(fts, phrase, &it, &column, &offset) != SQLITE_OK)
        return;
    while (column >= 0 && column <= COLUMN_BODY &&
           ret[column] < HITS_COUNTED) {
        ret[column]++;
        api->xPhraseNext(fts, &it, &column, &offset);
    }
}

static void on_rank(const Fts5ExtensionApi *api, Fts5Context *fts,
                    sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    int phrases = api->xPhraseCount(fts);
    double bytes = argc > 0 ? sqlite3_value_double(argv[0]) : 0;
    double spread = 1.2 * (0.25 + 0.75 * bytes / USUAL_BYTES);
    double sum = 0;

    for (int i = 0; i < phrases; i++) {
        unsigned hits[2];

        count_hits(api, fts, i, hits);
        if (hits[COLUMN_PATH])
            sum += PATH_SHARE;
        sum += (1 - PATH_SHARE) * hits[COLUMN_BODY] /
               (hits[COLUMN_BODY] + spread);
    }
    if (phrases > 0)
        sum /= phrases;
    sqlite3_result_int64(
        ctx, (sqlite3_int64)(RANK_ONE * (LEAST + (1 - LEAST) * sum)));
}

/* ---- where -------------------------------------------------------------- */

#define SPANS_MAX 64u
#define WINDOW_BYTES                                                          \
    1600u /* of text past the first hit: a snippet's worth                    \
           */

struct place {
    const Fts5ExtensionApi *api;
    Fts5Context *fts;
    int column;
    int hit, hits; /* the next hit and how many there are */
    int from, to;  /* its words */
    int word;      /* where the tokenizer is */
    struct search_span spans[SPANS_MAX];
    size_t count;
};

/* Moves to the next hit in the column that ends past this word. */
static bool next_hit(struct place *p, int word)
{
    while (p->hit < p->hits) {
        int phrase, column, offset;

        if (p->api->xInst(p->fts, p->hit, &phrase, &column, &offset) !=
            SQLITE_OK)
            return false;
        p->from = offset;
        p->to = offset + p->api->xPhraseSize(p->fts, phrase);
        if (column == p->column && p->to > word)
            return true;
        p->hit++;
    }
    return false;
}

static int on_token(void *arg, int flags, const char *token, int token_len,
                    int start, int end)
{
    struct place *p = arg;
    int word;

    (void)token;
    (void)token_len;
    if (flags & FTS5_TOKEN_COLOCATED)
        return SQLITE_OK;
    word = p->word++;
    if (word >= p->to && !next_hit(p, word))
        return SQLITE_DONE;
    if (p->count && (p->count == SPANS_MAX ||
                     (size_t)start > p->spans[0].start + WINDOW_BYTES))
        return SQLITE_DONE;
    if (word < p->from)
        return SQLITE_OK;
    /* The words of one phrase are one span. */
    if (p->count && word > p->from)
        p->spans[p->count - 1].end = (size_t)end;
    else
        p->spans[p->count++] =
            (struct search_span){(size_t)start, (size_t)end};
    return SQLITE_OK;
}

/* Finds the hits near the first one in a column; 0 when it has none. */
static size_t find_hits(struct place *p, int column, const char **ret_text,
                        int *ret_len)
{
    int code;

    p->column = column;
    p->hit = p->word = p->to = 0;
    p->count = 0;
    if (!next_hit(p, 0) ||
        p->api->xColumnText(p->fts, column, ret_text, ret_len) != SQLITE_OK)
        return 0;
    code = p->api->xTokenize(p->fts, *ret_text, *ret_len, p, on_token);
    return code == SQLITE_OK || code == SQLITE_DONE ? p->count : 0;
}

static unsigned count_char(const char *text, size_t len, char c)
{
    unsigned n = 0;

    for (const char *p = text; (p = memchr(p, c, len - (size_t)(p - text)));
         p++)
        n++;
    return n;
}

static void on_where(const Fts5ExtensionApi *api, Fts5Context *fts,
                     sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct place p = {.api = api, .fts = fts};
    struct buf out cleanup(buf_done) = {0};
    const char *text;
    int len;
    unsigned line = 0, page = 0;
    bool in_name;

    (void)argc;
    (void)argv;
    if (api->xInstCount(fts, &p.hits) != SQLITE_OK)
        return;
    in_name = find_hits(&p, COLUMN_PATH, &text, &len) > 0;
    if (find_hits(&p, COLUMN_BODY, &text, &len)) {
        line = 1 + count_char(text, p.spans[0].start, '\n');
        page = 1 + count_char(text, p.spans[0].start, '\f');
    } else if (!in_name || !find_hits(&p, COLUMN_PATH, &text, &len)) {
        return;
    }
    buf_addf(&out, "%u %u %d ", line, page, in_name);
    search_snippet(&out, text, (size_t)len, p.spans, p.count);
    sqlite3_result_text(ctx, out.data, (int)out.len, SQLITE_TRANSIENT);
}

/* ---- making them known -------------------------------------------------- */

static fts5_api *api_of(sqlite3 *db)
{
    fts5_api *api = NULL;
    sqlite3_stmt *st = NULL;

    if (sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &st, NULL) ==
        SQLITE_OK) {
        (void)sqlite3_bind_pointer(st, 1, &api, "fts5_api_ptr", NULL);
        (void)sqlite3_step(st); /* fills api, or leaves it NULL */
    }
    (void)sqlite3_finalize(st); /* repeats the code of the step */
    return api;
}

/* SQLite calls it for every connection that is opened. */
static int on_connection(sqlite3 *db, const char **ret_problem,
                         const struct sqlite3_api_routines *unused)
{
    fts5_api *api = api_of(db);
    int code;

    (void)ret_problem;
    (void)unused;
    if (!api)
        return SQLITE_ERROR;
    code = api->xCreateFunction(api, "found_rank", NULL, on_rank, NULL);
    if (code == SQLITE_OK)
        code = api->xCreateFunction(api, "found_where", NULL, on_where, NULL);
    return code;
}

void search_setup(void)
{
    /* SQLite's own signature for it; fails only without memory, and then
     * search_open finds the functions missing. */
    (void)sqlite3_auto_extension((void (*)(void))on_connection);
}
