/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists by age, a page at a time: the files of the library, and the files of a
 * workspace by the time they were first added. See library.h. Runs in the
 * daemon on the caller's thread; changes nothing.
 *
 * A page of the library is a range of an index, read no further than the
 * limit. It continues after the row of a file, which outlives the file's
 * removal, so that a client that removes what it lists misses nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/library_int.h"

/* ---- the library -----------------------------------------------------------
 */

struct library_page {
    struct store_tx *tx;
    const struct actor *who;
    const char *purpose;
    bool oldest_first;
    size_t limit;
    int64_t from_ms;  /* after this moment */
    const char *from; /* and in it, after this file */
    struct library_file *files;
    size_t count, room;
};

static void library_page_done(struct library_page *p)
{
    library_files_free(p->files, p->count);
}

/* 1, or 0 when the one it shall go on after is unknown. */
static int library_start(struct library_page *p, const char *after,
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    p->from_ms = p->oldest_first ? -1 : INT64_MAX;
    p->from = after ? after : "";
    if (!after)
        return 1;
    r = store_one(
        p->tx, &rows, err,
        "SELECT coalesce(l.created_at_ms, f.created_at_ms)"
        " FROM files AS f"
        " JOIN workspaces AS w ON w.id = f.workspace"
        " LEFT JOIN library AS l ON l.file = f.id"
        " WHERE f.id = ?1 AND w.tenant = ?4 AND w.made_for = ?5"
        " AND w.deleted_at_ms = 0"
        " AND " WORKSPACE_ROLE_SQL("?2", "?3", "?4", "?6", "?7") " > 0",
        "ttitttt", after, p->who->key, (int64_t)p->who->admin, p->who->tenant,
        LIBRARY_MADE_FOR, WORKSPACE_BOUNDS(p->who));
    if (r > 0)
        p->from_ms = store_int(rows, 0);
    return r;
}

/* Its parameters: key, admin, tenant, now, purpose, from_ms, from, limit, and
 * the two of WORKSPACE_BOUNDS. */
#define LIST_SQL(back, on, order)                                             \
    "SELECT " LIBRARY_COLUMNS " FROM library AS l"                            \
    " JOIN files AS f ON f.id = l.file"                                       \
    " JOIN workspaces AS w ON w.id = f.workspace"                             \
    " WHERE l.tenant = ?3 AND (w.tenant = l.tenant) AND f.alive = 1"          \
    " AND w.deleted_at_ms = 0"                                                \
    " AND (l.expires_at_ms = 0 OR l.expires_at_ms > ?4)"                      \
    " AND (?5 IS NULL OR l.purpose = ?5)"                                     \
    " AND l.created_at_ms " back " ?6"                                        \
    " AND (l.created_at_ms " on " ?6 OR l.file " on " ?7)"                    \
    " AND " WORKSPACE_ROLE_SQL("?1", "?2", "?3", "?9",                        \
                               "?10") " > 0"                                  \
                                      " ORDER BY l.created_at_ms " order      \
                                      ", l.file " order " LIMIT ?8"

static int query_library(struct library_page *p, struct store_rows **ret,
                         struct error *err)
{
    static const char oldest[] = LIST_SQL(">=", ">", "ASC");
    static const char newest[] = LIST_SQL("<=", "<", "DESC");

    return store_query(p->tx, ret, err, p->oldest_first ? oldest : newest,
                       "titititi"
                       "tt",
                       p->who->key, (int64_t)p->who->admin, p->who->tenant,
                       clock_real_ms(), p->purpose, p->from_ms, p->from,
                       (int64_t)p->limit + 1, WORKSPACE_BOUNDS(p->who));
}

static struct library_file *next_library_place(struct library_page *p)
{
    if (p->count == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->files = xrealloc(p->files, p->room * sizeof(*p->files));
    }
    return &p->files[p->count++];
}

/* 1: there are more than fit. */
static int read_library_page(struct library_page *p, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = query_library(p, &rows, err);

    while (r == 0 && (r = store_next(rows, err)) > 0) {
        if (p->count == p->limit)
            return 1;
        library_file_read(rows, next_library_place(p));
        r = 0;
    }
    return r;
}

int library_list(struct workspaces *w, const struct actor *who,
                 const char *purpose, bool oldest_first,
                 const struct page *page, struct library_file **ret,
                 struct page_result *ret_page, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_page p cleanup(library_page_done) = {
        .who = who,
        .purpose = purpose,
        .oldest_first = oldest_first,
        .limit = page->limit,
    };
    int r = store_begin(w->store, STORE_READ, "listing files", &tx, err);

    if (p.limit == 0 || p.limit > LIBRARY_LIST_MAX)
        p.limit = LIBRARY_LIST_MAX;
    p.tx = tx;
    if (r == 0)
        r = library_start(&p, page->after, err);
    if (r > 0)
        r = read_library_page(&p, err);
    if (r < 0)
        return r;
    *ret_page = (struct page_result){.count = p.count, .has_more = r > 0};
    *ret = take_ptr(p.files);
    return 0;
}

/* ---- the files of a workspace ----------------------------------------------
 */

#define AGED_COLUMNS WORKSPACE_FILE_COLUMNS ", f.created_at_ms, f.by_execution"

struct age_page {
    struct store_tx *tx;
    const char *id;
    bool oldest_first;
    size_t limit;
    int64_t from_ms;  /* after this moment */
    const char *from; /* and in it, after this file */
    struct workspace_aged_file *files;
    size_t count, room;
};

void workspace_list_by_age_free(struct workspace_aged_file *files,
                                size_t count)
{
    for (size_t i = 0; files && i < count; i++)
        workspace_file_done(&files[i].file);
    free(files);
}

static void age_page_done(struct age_page *p)
{
    workspace_list_by_age_free(p->files, p->count);
}

static void read_aged(struct store_rows *rows, struct workspace_aged_file *ret)
{
    workspace_file_read(rows, 0, &ret->file);
    ret->created_at_ms = store_int(rows, WORKSPACE_FILE_COLUMN_COUNT);
    ret->by_execution = store_int(rows, WORKSPACE_FILE_COLUMN_COUNT + 1) != 0;
}

/* 1, or 0 when the one it shall go on after is unknown. One that has left the
 * head since the page before is good all the same. */
static int by_age_start(struct age_page *p, const char *after,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    p->from_ms = p->oldest_first ? -1 : INT64_MAX;
    p->from = after ? after : "";
    if (!after)
        return 1;
    r = store_one(p->tx, &rows, err,
                  "SELECT created_at_ms FROM files WHERE id = ?1"
                  " AND workspace = ?2",
                  "tt", after, p->id);
    if (r > 0)
        p->from_ms = store_int(rows, 0);
    return r;
}

#define AGED_SQL(back, on, order)                                             \
    "SELECT " AGED_COLUMNS " FROM files AS f"                                 \
    " WHERE f.workspace = ?1 AND f.alive = 1"                                 \
    " AND f.created_at_ms " back " ?2"                                        \
    " AND (f.created_at_ms " on " ?2 OR f.id " on " ?3)"                      \
    " ORDER BY f.created_at_ms " order ", f.id " order " LIMIT ?4"

static int query_by_age(struct age_page *p, struct store_rows **ret,
                        struct error *err)
{
    static const char oldest[] = AGED_SQL(">=", ">", "ASC");
    static const char newest[] = AGED_SQL("<=", "<", "DESC");

    return store_query(p->tx, ret, err, p->oldest_first ? oldest : newest,
                       "titi", p->id, p->from_ms, p->from,
                       (int64_t)p->limit + 1);
}

static struct workspace_aged_file *next_by_age_place(struct age_page *p)
{
    if (p->count == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->files = xrealloc(p->files, p->room * sizeof(*p->files));
    }
    return &p->files[p->count++];
}

/* 1: there are more than fit. */
static int read_by_age_page(struct age_page *p, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = query_by_age(p, &rows, err);

    while (r == 0 && (r = store_next(rows, err)) > 0) {
        if (p->count == p->limit)
            return 1;
        read_aged(rows, next_by_age_place(p));
        r = 0;
    }
    return r;
}

int workspace_list_by_age(struct workspaces *w, const struct actor *who,
                          const char *id, bool oldest_first,
                          const struct page *page,
                          struct workspace_aged_file **ret,
                          struct page_result *ret_page, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct age_page p cleanup(age_page_done) = {
        .id = id,
        .oldest_first = oldest_first,
        .limit = page->limit,
    };
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "listing files", &tx, NULL, err);

    if (p.limit == 0 || p.limit > LIBRARY_LIST_MAX)
        p.limit = LIBRARY_LIST_MAX;
    p.tx = tx;
    if (r == 0)
        r = by_age_start(&p, page->after, err);
    if (r > 0)
        r = read_by_age_page(&p, err);
    if (r < 0)
        return r;
    *ret_page = (struct page_result){.count = p.count, .has_more = r > 0};
    *ret = take_ptr(p.files);
    return 0;
}

int workspace_list_by_age_find(struct workspaces *w, const struct actor *who,
                               const char *id, const char *file,
                               struct workspace_aged_file *ret,
                               struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "looking for a file", &tx, NULL, err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT " AGED_COLUMNS " FROM files AS f"
                      " WHERE f.id = ?1 AND f.workspace = ?2 AND f.alive = 1",
                      "tt", file, id);
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such file");
    read_aged(rows, ret);
    return 0;
}
