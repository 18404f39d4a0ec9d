/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of search/ share. Two threads follow the commits: the
 * indexer (index.c) takes every file the store marks as not yet indexed and
 * writes its words; the reader (documents.c) then fills in the text of
 * documents, which it has taken apart inside sessions. What is left to do is
 * in the store alone, so a restart goes on where the last run stopped.
 *
 *   files.indexed = 0 --index.c--> documents.state: ready
 *                                                   names_only
 *                                                   failed
 *                                                   waiting --documents.c-->
 *                                                           ready or failed
 */
#ifndef GLOVEBOX_SEARCH_SEARCH_INT_H
#define GLOVEBOX_SEARCH_SEARCH_INT_H

#include <stdatomic.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/thread.h"
#include "search/search.h"

struct search_words;
struct store;
struct store_tx;

struct search {
    struct search_settings settings;
    char *pool;       /* what settings.pool points to */
    char *embeddings; /* what settings.embeddings points to */
    struct workspaces *workspaces;
    struct store *store;
    const struct search_words *words; /* of the store's engine */
    struct search_tokens *tokens;     /* its, if it cuts words itself */
    struct blobs *blobs;
    struct sessions *sessions;
    atomic_bool stopping;
    atomic_uint came, seen; /* commits; how many when we last rested */

    struct mutex lock; /* around the following */
    struct cond wake;
    bool commits;         /* for the indexer: some came */
    bool documents;       /* for the reader: some wait */
    char session[ID_MAX]; /* the reader's, "" when it has none */

    bool passages; /* for the keeper of passages: text changed (lock) */

    struct thread indexer, reader, keeper;

    /* The keeper's own. */
    int64_t embedded;         /* passages up to this id have been looked at */
    uint64_t embed_at_ms;     /* not before: the model was not available */
    uint64_t train_at_ms;     /* not before */
    uint64_t look_at_ms;      /* at the latest */
    int64_t looked;           /* at the state of passages with this number */
    atomic_bool embed_failed; /* the last call of the model did */
    atomic_bool retrain;      /* a model was found damaged: look at once */

    struct recall *recall;
};

/*
 * SQL: is `workspaces AS w` one the actor has a role in? ?1 is its key, ?2
 * whether it is an admin, ?3 its tenant; the arguments are the parameters of
 * WORKSPACE_BOUNDS. The same rule as workspace/ has.
 */
#define SEARCH_SEEN(workspaces, sessions)                                            \
    "w.deleted_at_ms = 0 AND " WORKSPACE_WITHIN_SQL(                                 \
        "?3", workspaces,                                                            \
        sessions) " AND (w.owner = ?1 OR (?2 = 1 AND w.tenant = ?3) OR "             \
                  "EXISTS (SELECT 1 FROM members AS m WHERE m.workspace = w.id AND " \
                  "m.role > 0 AND (m.principal = ?1 OR (m.principal = '*' AND "      \
                  "w.tenant = ?3))))"

/* The actor of the service itself. */
extern const struct actor search_self;

/* Waits for *flag, at most that long, and clears it. False: stop. */
bool search_wait(struct search *s, bool *flag, unsigned ms);
/* Was it set? It is not any more. */
bool search_look(struct search *s, bool *flag);
/* May the index grow? Not while the disk is full. */
bool search_has_room(const struct search *s);
void search_wake(struct search *s, bool *flag);

/* ---- index.c, documents.c -----------------------------------------------
 */

void search_indexer_main(void *search);
void search_documents_main(void *search);

/* ---- passages.c ---------------------------------------------------------
 */

#define SEARCH_PASSAGES_MAX 200000 /* of one tenant */

void search_passages_main(void *search);

/* ---- recall.c -----------------------------------------------------------
 */

struct recall *search_recall_new(void);
void search_recall_free(struct recall *r); /* accepts NULL */

/* A passage that was found; strings are owned. */
struct search_passage {
    char workspace[ID_MAX], file[ID_MAX], version[ID_MAX];
    char *path, *mime, *text; /* text: plain, as in the file */
    uint32_t page, line, line_end;
    double score;
    int64_t modified_at_ms;
};
void search_passages_free(struct search_passage *passages, size_t count);

/* The best passages, from rank `skip` on, at most spec->limit. per_document:
 * as meaning_query has it. */
int search_recall_passages(struct search *s, const struct actor *who,
                           const struct search_spec *spec, size_t skip,
                           unsigned per_document, struct search_passage **ret,
                           size_t *ret_count, bool *ret_more,
                           struct search_quality *ret_quality,
                           struct error *err);

/* ---- housekeeping.c
 * -------------------------------------------------------------
 */

/* Between two writing transactions: others who wait get their turn, and most
 * of the time while they commit one after the other. */
void search_housekeeping_rest(struct search *s);
/* Forgets the words of documents whose row is gone, with its file or its
 * workspace; and, when something was given up for good, leaves none of the
 * words that went in the index or in the store's log (D10). */
int search_housekeeping_sweep(struct search *s, struct error *err);

/* ---- kinds.c ------------------------------------------------------------
 */

enum search_how {
    READ_NOTHING,  /* found by its name only */
    READ_TEXT,     /* the bytes are the text */
    READ_HTML,     /* the text between the tags */
    READ_DOCUMENT, /* in a session */
    READ_GUESS,    /* text if it looks like it */
};

struct search_kind {
    const char *name; /* of documents.kind */
    enum search_how how;
};

const struct search_kind *search_kind_of(const char *path, const char *mime);
/* Has it pages rather than lines? */
bool search_kind_paged(const char *kind);

/* ---- text.c -----------------------------------------------------
 */

/*
 * Adds bytes as text that the engine can cut into words: UTF-8 with what is
 * not replaced by U+FFFD, control characters by spaces (tabs, line and page
 * ends stay). Scripts written without spaces get U+200B around each
 * character, which makes every character a word and any part of a sentence a
 * phrase; no search result shows it.
 */
void search_text_add(struct buf *out, const char *bytes, size_t len);
/* The other way: without the U+200B. */
void search_text_plainly(struct buf *out, const char *text, size_t len);
/* No zero byte, and UTF-8 but for a character cut off at the end. */
bool search_text_plain(const char *bytes, size_t len);
/* The text of a page without tags, comments, scripts and styles, entities
 * decoded. Line ends stay where they were, so that lines can be counted. */
void search_html_strip(struct buf *out, const char *html, size_t len);

/* ---- expr.c -------------------------------------------------------------
 */

#define SEARCH_TERMS_MAX 64u

struct search_expr {
    struct buf match; /* in the syntax of FTS5, every term quoted */
    char *terms[SEARCH_TERMS_MAX]; /* as asked, lower case for ASCII */
    bool prefix[SEARCH_TERMS_MAX]; /* any ending of the last word */
    size_t count;
};

int search_expr_parse(const char *query, struct search_expr *ret,
                      struct error *err);
void search_expr_done(struct search_expr *e); /* for cleanup() */

/* ---- query.c ------------------------------------------------------------
 */

/* Limit, filters and times. */
int search_query_check(const struct search_spec *spec, struct error *err);
/* The documents that pass the filters and that the actor may see, in the order
 * of their ids; *ret is owned by caller. */
int search_query_documents(struct search *s, struct store_tx *tx,
                           const struct actor *who,
                           const struct search_spec *spec, int64_t **ret,
                           size_t *ret_count, struct error *err);

/* ---- words.c: the full text index --------------------------------------
 */

/*
 * The index over words, one implementation for each engine of the store:
 * words_fts5.c (SQLite) and words_tsvector.c (PostgreSQL). Both cut text into
 * words with the tokenizer of FTS5 and count hits as search_words_score does,
 * so that the same files give the same answers in the same order.
 *
 * The table `words` has a row for each document: its key is `rowid`, the
 * number of the document; `path` and `body` are the text as search_text_add
 * made it. All else in it is the implementation's own.
 *
 * ?N are the parameters that query.c and words_sql.h name. `match` is the
 * question in the implementation's own form, one text.
 */
struct search_words {
    const char *engine; /* as store_engine names it */

    /* Prepares the index, when the service starts. */
    int (*open)(struct search *s, struct error *err);
    void (*close)(struct search *s); /* or NULL */

    /* Writes path, body or both; NULL keeps what is there. The first time
     * both are given. */
    int (*write)(struct search *s, struct store_tx *tx, int64_t id,
                 const char *path, const char *body, struct error *err);
    /* Spreads the index's own housekeeping; for after each writing. */
    int (*tend)(struct search *s, struct error *err);
    /* Leaves none of the words that went (D10). 1, or 0: some are left, try
     * again later. */
    int (*purge)(struct search *s, struct error *err);

    /* The question as `match`. */
    int (*ask)(struct search *s, const struct search_expr *e, struct buf *ret,
               struct error *err);
    /* "LINE PAGE NAME TEXT": of the first hit in the body of a document, or
     * "0 0 1 TEXT" when only its path has one; NAME is 1 when the path has one
     * too; TEXT is the snippet. Empty: it has none. */
    int (*show)(struct search *s, struct store_tx *tx,
                const struct search_expr *e, const char *match, int64_t id,
                struct buf *ret, struct error *err);

    const char *many;           /* counts hits, up to a limit; or NULL */
    const char *by_words[2][2]; /* [many hits][filters] */
    const char *by_name[2];     /* [in one workspace] */
    const char *next_passages;  /* of passages.c, and */
    const char *passage;        /* of recall.c: both read a part of a body */
};

extern const struct search_words search_words_fts5;
extern const struct search_words search_words_tsvector;

/* The implementation for the store's engine; ERR_INVALID: there is none. */
int search_words_of(const struct store *store, const struct search_words **ret,
                    struct error *err);

/* Share of one term in the rank of a document, 0 to SEARCH_RANK_ONE: whether
 * the path has it, how often the body of so many bytes has it. In whole
 * numbers, so that an engine that computes it in SQL gets the same. The rank
 * itself is search_words_rank of the sum over all terms. */
#define SEARCH_RANK_ONE 1000000
#define SEARCH_HITS_COUNTED 16 /* of one term in a body: more is the same */
int64_t search_words_score(bool in_path, unsigned hits, int64_t bytes);
int64_t search_words_rank(int64_t sum, int64_t terms);

/* ---- tokens.c -----------------------------------------------------------
 */

/* The tokenizer of FTS5 as the index of SQLite uses it ("unicode61
 * remove_diacritics 2"), for an engine that has no such. Any thread may call
 * search_tokens_read. */
struct search_tokens;
int search_tokens_open(struct search_tokens **ret, struct error *err);
void search_tokens_close(struct search_tokens *t); /* accepts NULL */
/* Called for each word: its folded form, and its place in the text. Nonzero
 * ends the reading. */
typedef int search_token_fn(void *ctx, const char *word, size_t len,
                            size_t start, size_t end);
int search_tokens_read(struct search_tokens *t, const char *text, size_t len,
                       search_token_fn *fn, void *ctx, struct error *err);

/* ---- hits.c, snippet.c --------------------------------------------------
 */

/* Places of hits in a text, as byte ranges in order. */
struct search_span {
    size_t start, end;
};

/* One line of about 200 characters around the first hit, all hits in it
 * between U+2068 and U+2069. */
void search_snippet(struct buf *out, const char *text, size_t len,
                    const struct search_span *spans, size_t count);

enum search_column {
    SEARCH_PATH,
    SEARCH_BODY
};

/* The hits of a question in one document. */
struct search_hits {
    void *ctx;
    int count; /* in order of their first word, then of terms */
    /* The words [from, to) of a column that hit i covers. */
    bool (*get)(void *ctx, int i, enum search_column *ret_column,
                int *ret_from, int *ret_to);
    bool (*text)(void *ctx, enum search_column column, const char **ret_text,
                 size_t *ret_len);
    /* Calls fn for each word of a text; false: it failed. */
    bool (*read)(void *ctx, const char *text, size_t len, search_token_fn *fn,
                 void *fn_ctx);
};
/* As search_words.show returns it. */
void search_hits_show(const struct search_hits *h, struct buf *out);

/* script.c: the program that takes documents apart. */
extern const char search_script[];

#endif
