/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the files of a workspace in byte order of their paths, at the head or
 * as of a commit, all of them or one level of folders. Reads a range of an
 * index and stops at the limit, however many files there are: a folder is
 * one entry and the next search begins behind it. Runs in the daemon on the
 * caller's thread; changes nothing.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "workspace/workspace_int.h"

struct listing {
    struct store_tx *tx;
    const char *id;
    const char *prefix;
    size_t prefix_len;
    int64_t at;
    bool level;
    size_t limit;
    char *start, *end; /* start <= path < end; owned */
    struct workspace_file *files;
    size_t count;
};

static void listing_done(struct listing *l)
{
    workspace_files_free(l->files, l->count);
    free(l->start);
    free(l->end);
}

/* ---- the range ---------------------------------------------------------- */

static int query_head(struct listing *l, struct store_rows **ret,
                      struct error *err)
{
    return store_query(l->tx, ret, err,
                       "SELECT " WORKSPACE_FILE_COLUMNS " FROM files AS f"
                       " WHERE f.workspace = ?1 AND f.alive = 1"
                       " AND f.path >= ?2 AND f.path < ?3 ORDER BY f.path"
                       " LIMIT ?4",
                       "ttti", l->id, l->start, l->end,
                       (int64_t)(l->limit - l->count + 1));
}

/* The versions that were the newest of their files then. */
static int query_then(struct listing *l, struct store_rows **ret,
                      struct error *err)
{
    return store_query(
        l->tx, ret, err,
        "SELECT " WORKSPACE_VERSION_COLUMNS " FROM versions AS v"
        " JOIN commits AS c ON c.workspace = v.workspace AND c.seq = v.seq"
        " WHERE v.workspace = ?1 AND v.path >= ?2 AND v.path < ?3"
        " AND v.seq <= ?5 AND v.sha256 <> ''"
        " AND NOT EXISTS (SELECT 1 FROM versions AS n WHERE n.file = v.file"
        "  AND n.number = v.number + 1 AND n.seq <= ?5)"
        " ORDER BY v.path LIMIT ?4",
        "tttii", l->id, l->start, l->end, (int64_t)(l->limit - l->count + 1),
        l->at);
}

/* The least that follows this entry: past all below it if it is a folder. */
static char *behind(const char *entry)
{
    size_t len = strlen(entry);
    char *next = xasprintf("%s\x01", entry); /* no path has that in it */

    if (len && entry[len - 1] == '/') {
        next[len - 1] = '/' + 1;
        next[len] = '\0';
    }
    return next;
}

static void start_at(struct listing *l, const char *after)
{
    char *next = after ? behind(after) : NULL;

    l->end = workspace_path_end(l->prefix);
    if (next && strcmp(next, l->prefix) > 0) {
        l->start = next;
        return;
    }
    free(next);
    l->start = xstrdup(l->prefix);
}

/* ---- entries ------------------------------------------------------------ */

static void add_folder(struct listing *l, const char *path, size_t len)
{
    struct workspace_file *f = &l->files[l->count++];

    f->path = xstrndup(path, len);
}

/* 1: a folder was met, search again behind it; 0: the end; 2: more than the
 * limit. */
static int take_rows(struct listing *l, struct store_rows *rows,
                     struct error *err)
{
    int r;

    while ((r = store_next(rows, err)) > 0) {
        const char *path = store_text(rows, 4);
        const char *slash =
            l->level ? strchr(path + l->prefix_len, '/') : NULL;

        if (l->count >= l->limit)
            return 2;
        if (slash) {
            add_folder(l, path, (size_t)(slash - path) + 1);
            return 1;
        }
        workspace_file_read(rows, 0, &l->files[l->count++]);
    }
    return r;
}

static int list(struct listing *l, struct error *err)
{
    int r;

    do {
        struct store_rows *rows = NULL;

        r = l->at ? query_then(l, &rows, err) : query_head(l, &rows, err);
        if (r == 0)
            r = take_rows(l, rows, err);
        store_rows_done(&rows); /* they borrow the start */
        if (r == 1) {
            free(l->start);
            l->start = behind(l->files[l->count - 1].path);
        }
    } while (r == 1);
    return r;
}

static int check_text(const char *what, const char *text, struct error *err)
{
    return workspace_text_check(what, text, PATH_BYTES_MAX + 1, err);
}

int workspace_files_list_in(struct store_tx *tx, const char *id,
                            const struct workspace_files_spec *spec,
                            struct workspace_file **ret,
                            struct page_result *ret_page, struct error *err)
{
    struct listing l cleanup(listing_done) = {
        .tx = tx,
        .id = id,
        .prefix = spec->prefix ? spec->prefix : "",
        .at = spec->at,
        .level = spec->level,
        .limit = spec->limit,
    };
    int r = check_text("prefix", spec->prefix, err);

    if (r == 0)
        r = check_text("after", spec->after, err);
    if (r < 0)
        return r;
    if (l.limit == 0 || l.limit > WORKSPACE_LIST_MAX)
        l.limit = WORKSPACE_LIST_MAX;
    l.prefix_len = strlen(l.prefix);
    l.files = xcalloc(l.limit, sizeof(*l.files));
    start_at(&l, spec->after);
    r = list(&l, err);
    if (r < 0)
        return r;
    *ret = take_ptr(l.files);
    *ret_page = (struct page_result){.count = l.count, .has_more = r == 2};
    return 0;
}

int workspace_files_list(struct workspaces *w, const struct actor *who,
                         const char *id,
                         const struct workspace_files_spec *spec,
                         struct workspace_file **ret,
                         struct page_result *ret_page, struct error *err)
{
    struct workspace_files_spec own = *spec;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "listing files", &tx, &row, err);

    if (r < 0)
        return r;
    if (own.at < 0 || own.at > row.head)
        return error_set(err, ERR_NOT_FOUND, "no such commit");
    if (own.at == row.head)
        own.at = 0;
    return workspace_files_list_in(tx, id, &own, ret, ret_page, err);
}
