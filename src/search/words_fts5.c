/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The full text index in SQLite: a virtual table of FTS5. Ranking and place of
 * hits are functions of ours inside FTS5, which decide from one document and
 * nothing else. Run in the daemon inside SQLite, on the asking thread.
 *
 *   found_rank(words, BYTES)  the rank, for a body of so many bytes
 *   found_where(words)        what search_words.show returns
 */
#include <sqlite3.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "search/search_int.h"
#include "search/words_sql.h"
#include "store/store.h"

/* ---- how good ----------------------------------------------------------- */

static void count_hits(const Fts5ExtensionApi *api, Fts5Context *fts,
                       int phrase, unsigned ret[2])
{
    Fts5PhraseIter it;
    int column, offset;

    ret[0] = ret[1] = 0;
    if (api->xPhraseFirst(fts, phrase, &it, &column, &offset) != SQLITE_OK)
        return;
    while (column >= 0 && column <= SEARCH_BODY &&
           ret[column] < SEARCH_HITS_COUNTED) {
        ret[column]++;
        api->xPhraseNext(fts, &it, &column, &offset);
    }
}

static void on_rank(const Fts5ExtensionApi *api, Fts5Context *fts,
                    sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    int phrases = api->xPhraseCount(fts);
    int64_t bytes = argc > 0 ? sqlite3_value_int64(argv[0]) : 0;
    int64_t sum = 0;

    for (int i = 0; i < phrases; i++) {
        unsigned hits[2];

        count_hits(api, fts, i, hits);
        sum += search_words_score(hits[SEARCH_PATH] > 0, hits[SEARCH_BODY],
                                  bytes);
    }
    sqlite3_result_int64(ctx, search_words_rank(sum, phrases));
}

/* ---- where -------------------------------------------------------------- */

struct fts5_document {
    const Fts5ExtensionApi *api;
    Fts5Context *fts;
};

static bool hit_get(void *ctx, int i, enum search_column *ret_column,
                    int *ret_from, int *ret_to)
{
    const struct fts5_document *d = ctx;
    int phrase, column, offset;

    if (d->api->xInst(d->fts, i, &phrase, &column, &offset) != SQLITE_OK)
        return false;
    *ret_column = (enum search_column)column;
    *ret_from = offset;
    *ret_to = offset + d->api->xPhraseSize(d->fts, phrase);
    return true;
}

static bool hit_text(void *ctx, enum search_column column,
                     const char **ret_text, size_t *ret_len)
{
    const struct fts5_document *d = ctx;
    int len;

    if (d->api->xColumnText(d->fts, (int)column, ret_text, &len) != SQLITE_OK)
        return false;
    *ret_len = (size_t)len;
    return true;
}

struct reading {
    search_token_fn *fn;
    void *ctx;
};

static int on_token(void *arg, int flags, const char *token, int token_len,
                    int start, int end)
{
    struct reading *r = arg;

    if (flags & FTS5_TOKEN_COLOCATED)
        return SQLITE_OK;
    return r->fn(r->ctx, token, (size_t)token_len, (size_t)start,
                 (size_t)end) == 0
               ? SQLITE_OK
               : SQLITE_DONE;
}

static bool hit_read(void *ctx, const char *text, size_t len,
                     search_token_fn *fn, void *fn_ctx)
{
    const struct fts5_document *d = ctx;
    struct reading r = {fn, fn_ctx};
    int code = d->api->xTokenize(d->fts, text, (int)len, &r, on_token);

    return code == SQLITE_OK || code == SQLITE_DONE;
}

static void on_where(const Fts5ExtensionApi *api, Fts5Context *fts,
                     sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct fts5_document d = {api, fts};
    struct search_hits hits = {
        .ctx = &d, .get = hit_get, .text = hit_text, .read = hit_read};
    struct buf out cleanup(buf_done) = {0};

    (void)argc;
    (void)argv;
    if (api->xInstCount(fts, &hits.count) != SQLITE_OK)
        return;
    search_hits_show(&hits, &out);
    if (out.len)
        sqlite3_result_text(ctx, out.data, (int)out.len, SQLITE_TRANSIENT);
}

/* ---- making them known -------------------------------------------------- */

/* SQLite calls it for every connection that is opened. */
static int on_connection(sqlite3 *db, const char **ret_problem,
                         const struct sqlite3_api_routines *unused)
{
    fts5_api *api = NULL;
    sqlite3_stmt *st = NULL;
    int code;

    (void)ret_problem;
    (void)unused;
    /* SQLite returns its FTS5 interface only through a statement. */
    if (sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &st, NULL) ==
        SQLITE_OK) {
        (void)sqlite3_bind_pointer(st, 1, &api, "fts5_api_ptr", NULL);
        (void)sqlite3_step(st); /* fills api, or leaves it NULL */
    }
    (void)sqlite3_finalize(st); /* repeats the code of the step */
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

/* ---- opening ------------------------------------------------------------ */

/* Were our functions made known before the store was opened? */
static int check_setup(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    if (store_begin(s->store, STORE_READ, "opening the index", &tx, err) < 0)
        return -(int)err->code;
    if (store_one(tx, &rows, err,
                  "SELECT found_rank(words, 0) FROM words"
                  " WHERE words MATCH '\"glovebox\"' LIMIT 1",
                  "") < 0)
        return error_hint(err, "search_setup comes before store_open");
    return 0;
}

/* FTS5 merges parts of its index at once when it chooses to, which can delay
 * commits for long; we merge in small steps instead. An earlier start has
 * written the same settings, so a full disk does not stop this one (D12). */
static int set_merge_pace(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(s->store, STORE_WRITE, "opening the index", &tx, err);

    if (r == 0)
        r = store_exec(
            tx, err, "INSERT INTO words (words, rank) VALUES ('automerge', 0)",
            "");
    if (r >= 0)
        r = store_exec(tx, err,
                       "INSERT INTO words (words, rank)"
                       " VALUES ('crisismerge', 256)",
                       "");
    if (r >= 0)
        r = store_commit(&tx, err);
    if (r != -ERR_SPACE)
        return r;
    log_event(LOG_WARN, "search_pace_not_set", "error", err->message, NULL);
    return 0;
}

static int fts5_open(struct search *s, struct error *err)
{
    int r = check_setup(s, err);

    return r < 0 ? r : set_merge_pace(s, err);
}

/* ---- writing ------------------------------------------------------------ */

#define MERGE_PAGES 24 /* of the index, in one transaction */
#define JOIN_STEPS_LEAST 200

static int fts5_write(struct search *s, struct store_tx *tx, int64_t id,
                      const char *path, const char *body, struct error *err)
{
    int r;

    (void)s;
    if (path && body)
        r = store_exec(tx, err,
                       "REPLACE INTO words (rowid, path, body)"
                       " VALUES (?1, ?2, ?3)",
                       "itt", id, path, body);
    else if (path)
        r = store_exec(tx, err, "UPDATE words SET path = ?2 WHERE rowid = ?1",
                       "it", id, path);
    else
        r = store_exec(tx, err, "UPDATE words SET body = ?2 WHERE rowid = ?1",
                       "it", id, body);
    return MIN(r, 0);
}

/* pages: how many are joined; negative: whatever the sizes of the parts. */
static int merge(struct search *s, int64_t pages, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s->store, STORE_WRITE, "tending the index", &tx, err) <
            0 ||
        store_exec(tx, err,
                   "INSERT INTO words (words, rank) VALUES ('merge', ?1)", "i",
                   pages) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

static int fts5_tend(struct search *s, struct error *err)
{
    return merge(s, MERGE_PAGES, err);
}

/* A removal only covers the words in a part of the index; they are gone when
 * all parts have been joined into one. How many there are; leaves: pages of
 * the index. */
static int count_parts(struct search *s, int64_t *ret_parts,
                       int64_t *ret_leaves, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (store_begin(s->store, STORE_READ, "looking at the index", &tx, err) <
        0)
        return -(int)err->code;
    r = store_one(tx, &rows, err,
                  "SELECT count(DISTINCT segid), count(*) FROM words_idx", "");
    if (r > 0) {
        *ret_parts = store_int(rows, 0);
        *ret_leaves = store_int(rows, 1);
    }
    return MIN(r, 0);
}

/* Unless more has gone meanwhile: then it stays due. */
static int chore_done(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s->store, STORE_WRITE, "tending the index", &tx, err) <
            0 ||
        store_exec(tx, err,
                   "DELETE FROM chores WHERE name = 'words'"
                   " AND NOT EXISTS (SELECT 1 FROM documents_gone)"
                   " AND (SELECT count(DISTINCT segid) FROM words_idx) <= 1",
                   "") < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

/* What is indexed meanwhile makes new parts; hence a bound, and what is left
 * over stays due. */
static int fts5_purge(struct search *s, struct error *err)
{
    int64_t parts = 0, leaves = 0, steps = 0;
    int r = count_parts(s, &parts, &leaves, err);
    int64_t most = JOIN_STEPS_LEAST + 4 * leaves / MERGE_PAGES;

    while (r == 0 && parts > 1 && steps++ < most && !s->stopping) {
        r = merge(s, -MERGE_PAGES, err);
        search_housekeeping_rest(s);
        if (r == 0)
            r = count_parts(s, &parts, &leaves, err);
    }
    if (r < 0 || parts > 1)
        return r;
    r = chore_done(s, err);
    return r < 0 ? r : 1;
}

/* ---- questions ---------------------------------------------------------- */

static int fts5_ask(struct search *s, const struct search_expr *e,
                    struct buf *ret, struct error *err)
{
    (void)s;
    (void)err;
    buf_add(ret, e->match.data, e->match.len);
    return 0;
}

static int fts5_show(struct search *s, struct store_tx *tx,
                     const struct search_expr *e, const char *match,
                     int64_t id, struct buf *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    const char *text;
    int r = store_one(tx, &rows, err,
                      "SELECT found_where(words) FROM words"
                      " WHERE words MATCH ?1 AND rowid = ?2",
                      "ti", match, id);

    (void)s;
    (void)e;
    text = r > 0 ? store_text(rows, 0) : NULL;
    if (text)
        buf_adds(ret, text);
    return MIN(r, 0);
}

/* ?12 and ?13 rank and number to go on after, ?14 how many, ?15 and ?16
 * bounds */
#define BY_WORDS(seen, files, filters)                                        \
    "SELECT d.id, found_rank(words, d.bytes) AS score"                        \
    " FROM words CROSS JOIN documents AS d ON d.id = words.rowid" files       \
    " WHERE words MATCH ?11" WORDS_IN_WORKSPACE seen("?15", "?16") filters    \
        " AND (?12 < 0 OR found_rank(words, d.bytes) < ?12"                   \
        "  OR (found_rank(words, d.bytes) = ?12 AND d.id < ?13))"             \
        " ORDER BY score DESC, d.id DESC LIMIT ?14"

/* ?12 pattern, ?13 number to go on below; newest first, one at a time;
 * ?14 and ?15 bounds */
#define BY_NAME(workspace)                                                    \
    "SELECT d.id, f.path FROM documents AS d" WORDS_FILES                     \
    " WHERE d.path LIKE ?12 ESCAPE '\\' AND d.id < ?13" workspace             \
        WORDS_SEEN_EACH("?14", "?15") WORDS_FILTERS                           \
        " AND d.id NOT IN (SELECT rowid FROM words WHERE words MATCH ?11)"    \
        " ORDER BY d.id DESC"

#define SLICE "substr(CAST(t.body AS BLOB), p.start + 1, p.bytes)"

const struct search_words search_words_fts5 = {
    .engine = "sqlite",
    .open = fts5_open,
    .write = fts5_write,
    .tend = fts5_tend,
    .purge = fts5_purge,
    .ask = fts5_ask,
    .show = fts5_show,
    .many = "SELECT count(*) FROM (SELECT 1 FROM words"
            " WHERE words MATCH ?1 LIMIT ?2)",
    .by_words = {{BY_WORDS(WORDS_SEEN_EACH, "", ""),
                  BY_WORDS(WORDS_SEEN_EACH, WORDS_FILES, WORDS_FILTERS)},
                 {BY_WORDS(WORDS_SEEN_LISTED, "", ""),
                  BY_WORDS(WORDS_SEEN_LISTED, WORDS_FILES, WORDS_FILTERS)}},
    .by_name = {BY_NAME(""), BY_NAME(" AND d.workspace = ?4")},
    .next_passages = WORDS_NEXT_PASSAGES(SLICE),
    .passage = WORDS_PASSAGE(SLICE),
};
