/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding files by name and by what is in them. A thread follows the commits
 * (within seconds, never delaying one), reads text files itself as plain
 * bytes, and has the text of PDF and office files extracted inside a session
 * of its own, never on the host (F9). Queries see only workspaces the actor
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
struct search;
struct sessions;
struct workspaces;

#define SEARCH_QUERY_MAX 1000u
#define SEARCH_LIMIT_MAX 500u

struct search_settings {
    uint64_t text_bytes;     /* of one file: more is indexed up to here */
    uint64_t document_bytes; /* larger PDF and office files: names only */
    const char *pool;        /* where documents are taken apart; NULL: first */
    struct disk *disk;       /* while it is full nothing is added; or NULL */
};

/* Once, before store_open: teaches the store's engine our ranking. */
void search_setup(void);

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

struct search_state {
    uint64_t ready, pending, failed, names_only; /* files */
    int64_t behind_ms; /* age of the oldest commit not yet indexed */
};
int search_state(struct search *s, const struct actor *who,
                 const char *workspace, struct search_state *ret,
                 struct error *err);

#endif
