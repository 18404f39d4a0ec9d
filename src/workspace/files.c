/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as they are now, or as of one of their versions; see workspace.h.
 * Runs in the daemon on the caller's thread; changes nothing.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
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
