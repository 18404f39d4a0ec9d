/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding files by name and by what is in them. A thread follows the commits
 * (within seconds, never delaying one), reads text files itself as plain
 * bytes, and has the text of PDF and office files extracted inside a separate
 * session, never on the host (F9). Queries see only workspaces the actor
 * has a role in: the filter is part of the query, before ranking and
 * counting.
 */
#ifndef GLOVEBOX_SEARCH_SEARCH_H
#define GLOVEBOX_SEARCH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

struct actor;
struct core;
struct disk;
struct error;
struct models;
struct search;
struct sessions;
struct store;
struct store_tx;
struct workspaces;

#define SEARCH_QUERY_MAX 1000u
#define SEARCH_LIMIT_MAX 500u

struct search_settings {
    uint64_t text_bytes;     /* of one file: more is indexed up to here */
    uint64_t document_bytes; /* larger PDF and office files: names only */
    const char *pool;        /* where documents are taken apart; NULL: first */
    struct disk *disk;       /* while it is full nothing is added; or NULL */
    struct models *models;   /* for embeddings and questions; or NULL */
    const char *embeddings;  /* the model that makes vectors; NULL: latent
                                semantic analysis of the tenant's own files */
};

/* Once, before store_open: teaches the store's engine our ranking. */
void search_setup(void);
/* After rows were copied from a store of another engine, in a writing
 * transaction: adds what the index of this engine needs beside the text.
 * progress: so many documents more; or NULL. */
int search_fill(struct store *store, struct store_tx *tx,
                void (*progress)(void *ctx, uint64_t more), void *ctx,
                struct error *err);

/* All borrowed until close; of core: store and blobs. sessions NULL: documents
 * are not read. */
int search_open(const struct search_settings *settings,
                const struct core *core, struct workspaces *w,
                struct sessions *sessions, struct search **ret,
                struct error *err);
/* Before sessions_stop: gives up the document that is being read, for another
 * time, and indexes no more. Queries are still answered. Accepts NULL. */
void search_stop(struct search *s);
/* Stops, if that was not done, and frees; no call may come any more. Accepts
 * NULL. */
void search_close(struct search *s);

enum search_mode {
    SEARCH_LEXICAL,  /* files that have every word */
    SEARCH_SEMANTIC, /* passages by meaning */
    SEARCH_HYBRID,   /* passages by words and by meaning, with feedback */
};

struct search_spec {
    const char *query;     /* words, "phrases", prefix*; 1 to 1000 bytes */
    const char *workspace; /* NULL: all the actor sees */
    const char *prefix;    /* of the path, or NULL */
    const char *type;      /* "csv", "code", "image/png", "image/", or NULL */
    const char *author;    /* key id of the newest version's commit */
    const char *conversation; /* that made any version of the file */
    int64_t from_ms, to_ms;   /* of the newest version; 0: any */
    unsigned limit;           /* 1 to 500 */
    const char *after;        /* a hit's cursor, or NULL */
    enum search_mode mode;    /* of search_recall */
};

struct search_hit {
    char workspace[ID_MAX], file[ID_MAX], version[ID_MAX];
    char *path, *snippet, *mime; /* owned; in the snippet, hits between
                                    U+2068 and U+2069 */
    uint32_t line, page;         /* of the first hit; 0: none (a name) */
    bool in_name;                /* the path matched too */
    double score;                /* 0 to 1, best first */
    int64_t modified_at_ms;
    char cursor[64];
};

int search_query(struct search *s, const struct actor *who,
                 const struct search_spec *spec, struct search_hit **ret,
                 size_t *ret_count, bool *ret_more, struct error *err);
void search_hits_free(struct search_hit *hits, size_t count);

/* ---- recall.c: by meaning ----------------------------------------------- */

#define SEARCH_RECALL_MAX 1000u /* hits, over all pages */

/* What an answer is worth. */
struct search_quality {
    bool degraded;    /* ranked by words alone, or by a part of the files */
    char reason[200]; /* why, as a sentence; "" when it is not */
};

/* The files whose best passage fits best, in workspaces with `intelligence`
 * alone; a hit has the place of that passage. ERR_CONFLICT with a hint: no
 * workspace that was asked for has it. Statistics and models are those of the
 * workspace's tenant, never of another (I8). */
int search_recall(struct search *s, const struct actor *who,
                  const struct search_spec *spec, struct search_hit **ret,
                  size_t *ret_count, bool *ret_more,
                  struct search_quality *ret_quality, struct error *err);

/* ---- ask.c: questions to a model ---------------------------------------- */

#define SEARCH_QUESTION_MAX 8000u /* bytes */
#define SEARCH_ASK_MAX 30u        /* passages that a model is shown */

struct search_question {
    const char *question;
    const char *workspace, *prefix; /* as in search_spec */
    const char *model;              /* NULL: the default one */
    unsigned limit;                 /* passages; 1 to SEARCH_ASK_MAX */
};

/* A passage that the model was shown; strings are owned. */
struct search_source {
    uint32_t number; /* as the answer cites it: [1] */
    char workspace[ID_MAX], file[ID_MAX], version[ID_MAX];
    char *path, *text;
    uint32_t page, line, line_end; /* 0: none */
    double score;
};

struct search_reply {
    char *text;  /* NULL: no passage fits, and no model was asked */
    char *model; /* that was, or would have been asked */
    struct search_source *sources; /* those that are cited first */
    size_t shown, cited;           /* how many; how many of them are cited */
    uint32_t unknown; /* citations of numbers that were not shown */
    bool cut_off;     /* the model stopped at a limit */
    uint64_t input_tokens, output_tokens;
    struct search_quality quality; /* of the passages */
};

/* A piece of the answer as it comes; false ends the call. */
typedef bool search_text_fn(void *ctx, const char *text, size_t len);

/* Answers from passages of workspaces with `intelligence` that the actor may
 * see. Text of files is data to the model, which gets no tools (L1). Errors:
 * of search_recall, of model_find and of model_call. on_text: or NULL. */
int search_ask(struct search *s, const struct actor *who,
               const struct search_question *q, search_text_fn *on_text,
               void *ctx, struct search_reply *ret, struct error *err);
void search_reply_done(struct search_reply *a); /* for cleanup() */

/* ---- progress ------------------------------------------------------------
 */

struct search_state {
    uint64_t ready, pending, failed, names_only; /* files */
    int64_t behind_ms;     /* age of the oldest commit not yet indexed */
    uint64_t passages;     /* of workspaces with intelligence */
    uint64_t uncut;        /* files whose passages are still to come */
    int64_t trained_at_ms; /* the tenant's model; 0: there is none */
};
int search_state(struct search *s, const struct actor *who,
                 const char *workspace, struct search_state *ret,
                 struct error *err);

#endif
