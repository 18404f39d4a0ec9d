/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as they are now, or as of one of their versions, and lists of them;
 * see workspace.h. Runs in the daemon on the caller's thread; changes nothing.
 *
 * A list is in byte order of paths, at the head or as of a commit, of all
 * files or of one level of folders. It reads a range of an index and stops at
 * the limit, however many files there are: a folder is one entry, and the next
 * search begins behind it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "workspace/workspace_int.h"

void workspace_file_done(struct workspace_file *f)
{
    free(f->path);
    f->path = NULL;
}

void workspace_files_free(struct workspace_file *files, size_t count)
{
    for (size_t i = 0; files && i < count; i++)
        workspace_file_done(&files[i]);
    free(files);
}

void workspace_file_read(struct store_rows *rows, int first,
                         struct workspace_file *ret)
{
    const char *path = store_text(rows, first + 4);

    memset(ret, 0, sizeof(*ret));
    store_copy(rows, first, ret->file, sizeof(ret->file));
    store_copy(rows, first + 1, ret->version, sizeof(ret->version));
    ret->number = store_int(rows, first + 2);
    ret->seq = store_int(rows, first + 3);
    ret->path = xstrdup(path ? path : "");
    store_copy(rows, first + 5, ret->sha256, sizeof(ret->sha256));
    ret->size = (uint64_t)store_int(rows, first + 6);
    store_copy(rows, first + 7, ret->mime, sizeof(ret->mime));
    ret->executable = store_int(rows, first + 8) != 0;
    ret->modified_at_ms = store_int(rows, first + 9);
}

static int no_such(struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "no such file");
}

int workspace_file_at(struct store_tx *tx, const char *id, const char *path,
                      struct workspace_file *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT " WORKSPACE_FILE_COLUMNS " FROM files AS f"
                      " WHERE f.workspace = ?1 AND f.path = ?2"
                      " AND f.alive = 1",
                      "tt", id, path);

    if (r < 0)
        return r;
    if (r == 0)
        return no_such(err);
    workspace_file_read(rows, 0, ret);
    return 0;
}

/* One with bytes that can still be had. */
static int read_version(struct store_rows *rows, struct workspace_file *ret,
                        struct error *err)
{
    if (store_text(rows, 5)[0] == '\0')
        return error_set(err, ERR_NOT_FOUND,
                         "that version is the file's deletion");
    if (store_int(rows, WORKSPACE_FILE_COLUMN_COUNT) != 0)
        return error_set(err, ERR_NOT_FOUND,
                         "the bytes of that version were given up by "
                         "retention");
    workspace_file_read(rows, 0, ret);
    return 0;
}

#define VERSION_SQL                                                           \
    "SELECT " WORKSPACE_VERSION_COLUMNS ", v.purged, v.workspace"             \
    " FROM versions AS v"                                                     \
    " JOIN commits AS c ON c.workspace = v.workspace AND c.seq = v.seq"

/* Also one from before the file was called so. */
static int version_at(struct store_tx *tx, const char *id, const char *path,
                      const char *version, struct workspace_file *ret,
                      struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      VERSION_SQL
                      " WHERE v.id = ?3 AND v.workspace = ?1"
                      " AND (v.path = ?2 OR v.file IN (SELECT id FROM files"
                      " WHERE workspace = ?1 AND path = ?2 AND alive = 1))",
                      "ttt", id, path, version);

    if (r < 0)
        return r;
    return r ? read_version(rows, ret, err) : no_such(err);
}

int workspace_file_get(struct workspaces *w, const struct actor *who,
                       const char *id, const char *path, const char *version,
                       struct workspace_file *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "looking for a file", &tx, NULL, err);

    if (r == 0)
        r = workspace_path_check(path, err);
    if (r < 0)
        return r;
    return version ? version_at(tx, id, path, version, ret, err)
                   : workspace_file_at(tx, id, path, ret, err);
}

/* ---- by id -------------------------------------------------------------- */

#define VISIBLE_SQL                                                           \
    " AND w.deleted_at_ms = 0"                                                \
    " AND " WORKSPACE_ROLE_SQL("?2", "?3", "?4", "?5", "?6") " > 0"

static int find_head(struct store_tx *tx, const struct actor *who,
                     const char *file_id, struct workspace_file *ret,
                     char *ret_workspace, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT " WORKSPACE_FILE_COLUMNS ", f.workspace"
                      " FROM files AS f JOIN workspaces AS w"
                      " ON w.id = f.workspace WHERE f.id = ?1"
                      " AND f.alive = 1" VISIBLE_SQL,
                      "ttittt", file_id, who->key, (int64_t)who->admin,
                      who->tenant, WORKSPACE_BOUNDS(who));

    if (r < 0)
        return r;
    if (r == 0)
        return no_such(err);
    workspace_file_read(rows, 0, ret);
    store_copy(rows, WORKSPACE_FILE_COLUMN_COUNT, ret_workspace, ID_MAX);
    return 0;
}

static int find_version(struct store_tx *tx, const struct actor *who,
                        const char *file_id, const char *version,
                        struct workspace_file *ret, char *ret_workspace,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r =
        store_one(tx, &rows, err,
                  VERSION_SQL " JOIN workspaces AS w ON w.id = v.workspace"
                              " WHERE v.id = ?7 AND v.file = ?1" VISIBLE_SQL,
                  "ttitttt", file_id, who->key, (int64_t)who->admin,
                  who->tenant, WORKSPACE_BOUNDS(who), version);

    if (r < 0)
        return r;
    if (r == 0)
        return no_such(err);
    r = read_version(rows, ret, err);
    if (r == 0)
        store_copy(rows, WORKSPACE_FILE_COLUMN_COUNT + 1, ret_workspace,
                   ID_MAX);
    return r;
}

int workspace_file_find(struct workspaces *w, const struct actor *who,
                        const char *file_id, const char *version,
                        struct workspace_file *ret, char *ret_workspace,
                        struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(w->store, STORE_READ, "looking for a file", &tx, err);

    if (r < 0)
        return r;
    return version ? find_version(tx, who, file_id, version, ret,
                                  ret_workspace, err)
                   : find_head(tx, who, file_id, ret, ret_workspace, err);
}

/* ---- bytes -------------------------------------------------------------- */

int workspace_file_open(struct workspaces *w, const struct actor *who,
                        const struct workspace_file *f, int *ret_fd,
                        struct error *err)
{
    int fd cleanup(fd_close) = -1;
    uint64_t size = 0;
    int r = who ? workspace_govern_fetch(w, who, f, err) : 0;

    if (r == 0)
        r = blob_open(w->blobs, f->sha256, &fd, &size, err);
    if (r < 0)
        return r;
    if (size != f->size)
        return error_set(err, ERR_CORRUPT,
                         "object %s does not have the size it was stored "
                         "with",
                         f->sha256);
    *ret_fd = take_fd(fd);
    return 0;
}

/* ---- lists -----------------------------------------------------------------
 */

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
