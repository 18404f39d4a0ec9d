/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts text into words with the tokenizer of FTS5, for an engine of the store
 * that is not SQLite: the same tables of Unicode, so the same words. Runs in
 * the daemon on any thread. The database it opens is in memory and empty:
 * SQLite returns its tokenizers only through a connection.
 */
#include <limits.h>
#include <sqlite3.h>

#include "base/error.h"
#include "base/mem.h"
#include "search/search_int.h"

struct search_tokens {
    sqlite3 *db;
    fts5_tokenizer methods; /* constant from search_tokens_open on */
    void *user;
};

static void closep(struct search_tokens **t)
{
    search_tokens_close(*t);
}

int search_tokens_open(struct search_tokens **ret, struct error *err)
{
    struct search_tokens *t cleanup(closep) = xcalloc(1, sizeof(*t));
    sqlite3_stmt *st = NULL;
    fts5_api *api = NULL;

    if (sqlite3_open_v2(":memory:", &t->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(t->db, "SELECT fts5(?1)", -1, &st, NULL) ==
            SQLITE_OK) {
        (void)sqlite3_bind_pointer(st, 1, &api, "fts5_api_ptr", NULL);
        (void)sqlite3_step(st); /* fills api, or leaves it NULL */
    }
    (void)sqlite3_finalize(st); /* repeats the code of the step */
    if (!api || api->xFindTokenizer(api, "unicode61", &t->user, &t->methods) !=
                    SQLITE_OK)
        return error_set(err, ERR_INTERNAL,
                         "this build of SQLite has no tokenizer 'unicode61'");
    *ret = take_ptr(t);
    return 0;
}

void search_tokens_close(struct search_tokens *t)
{
    if (!t)
        return;
    (void)sqlite3_close(t->db); /* nothing is open on it */
    free(t);
}

struct reading {
    search_token_fn *fn;
    void *ctx;
};

static int on_token(void *arg, int flags, const char *token, int token_len,
                    int start, int end)
{
    struct reading *r = arg;

    (void)flags; /* unicode61 gives one token a place */
    return r->fn(r->ctx, token, (size_t)token_len, (size_t)start,
                 (size_t)end) == 0
               ? SQLITE_OK
               : SQLITE_DONE;
}

int search_tokens_read(struct search_tokens *t, const char *text, size_t len,
                       search_token_fn *fn, void *ctx, struct error *err)
{
    /* As the schema of SQLite names them. */
    const char *options[] = {"remove_diacritics", "2"};
    struct reading r = {fn, ctx};
    Fts5Tokenizer *tokenizer = NULL;
    int code = SQLITE_TOOBIG;

    if (len <= INT_MAX)
        code = t->methods.xCreate(t->user, options, ARRAY_SIZE(options),
                                  &tokenizer);
    if (code == SQLITE_OK) {
        code = t->methods.xTokenize(tokenizer, &r, FTS5_TOKENIZE_DOCUMENT,
                                    text, (int)len, on_token);
        t->methods.xDelete(tokenizer);
    }
    if (code != SQLITE_OK && code != SQLITE_DONE)
        return error_set(err, ERR_INTERNAL,
                         "cannot cut a text of %zu bytes into words (%d)", len,
                         code);
    return 0;
}
