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

struct store;
struct store_tx;

struct search {
    struct search_settings settings;
    char *pool; /* what settings.pool points to */
    struct workspaces *workspaces;
    struct store *store;
    struct blobs *blobs;
    struct sessions *sessions;
    atomic_bool stopping;
    atomic_uint came, seen; /* commits; how many when we last rested */

    struct mutex lock; /* around the following */
    struct cond wake;
    bool commits;         /* for the indexer: some came */
    bool documents;       /* for the reader: some wait */
    char session[ID_MAX]; /* the reader's, "" when it has none */

    struct thread indexer, reader;
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

/* As whom the service itself acts. */
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

/* ---- housekeeping.c
 * -------------------------------------------------------------
 */

/* Between two writing transactions: others who wait get their turn, and most
 * of the time while they commit one after the other. */
void search_housekeeping_rest(struct search *s);
/* Joins parts of the index, a few pages of it; for after each writing. */
int search_housekeeping_merge(struct search *s, struct error *err);
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

/* ---- text.c, html.c -----------------------------------------------------
 */

/*
 * Adds bytes as text that the engine can cut into words: UTF-8 with what is
 * not replaced by U+FFFD, control characters by spaces (tabs, line and page
 * ends stay). Scripts written without spaces get U+200B around each
 * character, which makes every character a word and any part of a sentence a
 * phrase; no search result shows it.
 */
void search_text_add(struct buf *out, const char *bytes, size_t len);
/* No zero byte, and UTF-8 but for a character cut off at the end. */
bool search_text_plain(const char *bytes, size_t len);
/* The text of a page without tags, comments, scripts and styles, entities
 * decoded. Line ends stay where they were, so that lines can be counted. */
void search_html_strip(struct buf *out, const char *html, size_t len);

/* ---- expr.c -------------------------------------------------------------
 */

#define SEARCH_TERMS_MAX 64u

struct search_expr {
    struct buf match; /* in the engine's syntax, every term quoted */
    char *terms[SEARCH_TERMS_MAX]; /* as asked, lower case for ASCII */
    size_t count;
};

int search_expr_parse(const char *query, struct search_expr *ret,
                      struct error *err);
void search_expr_done(struct search_expr *e); /* for cleanup() */

/* ---- fts.c, snippet.c ---------------------------------------------------
 */

/* Places of hits in a text, as byte ranges in order. */
struct search_span {
    size_t start, end;
};

/* One line of about 200 characters around the first hit, all hits in it
 * between U+2068 and U+2069. */
void search_snippet(struct buf *out, const char *text, size_t len,
                    const struct search_span *spans, size_t count);

/* script.c: the program that takes documents apart. */
extern const char search_script[];

#endif
