/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files uploaded for themselves: adding, looking, removing; see library.h.
 * Runs in the daemon on the caller's thread, one transaction a call: the
 * commit that puts the bytes, its audit event and the row that says what they
 * are for exist together or not at all.
 */
#include "workspace/library.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/library_int.h"

#define PURPOSE_MADE "assistants_output"
#define PURPOSE_PUT "user_data"
#define FOLDER_BYTES 8 /* random ones in the name of a file's folder */

void library_file_done(struct library_file *f)
{
    free(f->filename);
    f->filename = NULL;
}

void library_files_free(struct library_file *files, size_t count)
{
    for (size_t i = 0; files && i < count; i++)
        library_file_done(&files[i]);
    free(files);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* A file outside every library is described by its path and its author. */
void library_file_read(struct store_rows *rows, struct library_file *ret)
{
    bool listed = store_text(rows, 9) != NULL;

    memset(ret, 0, sizeof(*ret));
    store_copy(rows, 0, ret->file, sizeof(ret->file));
    store_copy(rows, 1, ret->version, sizeof(ret->version));
    store_copy(rows, 2, ret->workspace, sizeof(ret->workspace));
    ret->filename =
        xstrdup(listed ? store_text(rows, 9) : base_name(store_text(rows, 3)));
    ret->size = (uint64_t)store_int(rows, 4);
    store_copy(rows, 5, ret->sha256, sizeof(ret->sha256));
    store_copy(rows, 6, ret->mime, sizeof(ret->mime));
    ret->created_at_ms = store_int(rows, listed ? 11 : 7);
    ret->expires_at_ms = store_int(rows, 12);
    if (listed)
        store_copy(rows, 10, ret->purpose, sizeof(ret->purpose));
    else
        (void)snprintf(ret->purpose, sizeof(ret->purpose), "%s",
                       store_int(rows, 8) ? PURPOSE_MADE : PURPOSE_PUT);
}

/* ---- adding ------------------------------------------------------------- */

/* A folder for each, so that names need not differ. */
static char *place(const char *name)
{
    unsigned char bytes[FOLDER_BYTES];
    char folder[2 * FOLDER_BYTES + 1];

    ids_random(bytes, sizeof(bytes));
    return xasprintf("%s/%s", ids_hex(bytes, sizeof(bytes), folder), name);
}

static int insert_row(struct store_tx *tx, const struct workspace_row *row,
                      const struct library_file *f, struct error *err)
{
    int r = store_exec(tx, err,
                       "INSERT INTO library (file, tenant, purpose, filename,"
                       " created_at_ms, expires_at_ms)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                       "ttttii", f->file, row->tenant, f->purpose, f->filename,
                       f->created_at_ms, f->expires_at_ms);

    return MIN(r, 0);
}

static void describe_file(const struct workspace_commit *commit,
                          const struct workspace_row *row,
                          const struct library_spec *spec, const char *name,
                          struct library_file *ret)
{
    const struct workspace_file *f = &commit->results[0].file;

    memset(ret, 0, sizeof(*ret));
    memcpy(ret->file, f->file, sizeof(ret->file));
    memcpy(ret->version, f->version, sizeof(ret->version));
    memcpy(ret->workspace, row->id, sizeof(ret->workspace));
    ret->filename = xstrdup(name);
    (void)snprintf(ret->purpose, sizeof(ret->purpose), "%s", spec->purpose);
    ret->size = f->size;
    memcpy(ret->sha256, f->sha256, sizeof(ret->sha256));
    memcpy(ret->mime, f->mime, sizeof(ret->mime));
    ret->created_at_ms = commit->at_ms;
    if (spec->expires_s)
        ret->expires_at_ms = commit->at_ms + 1000 * (int64_t)spec->expires_s;
}

int library_govern(struct workspaces *w, const struct actor *who,
                   const struct library_spec *spec, const char *name,
                   struct error *err)
{
    struct govern_request rq =
        govern_file_in(&(struct govern_scope){.actor = who}, name, spec->mime,
                       (int64_t)spec->size);

    if (govern_idle(&w->govern))
        return 0;
    rq.summary = "upload a file";
    govern_add(&rq, "filename", name);
    govern_add(&rq, "sha256", spec->sha256);
    govern_add(&rq, "purpose", spec->purpose);
    return govern_enforce(&w->govern, &rq, err);
}

int library_put(struct workspaces *w, struct store_tx *tx,
                const struct actor *who, struct workspace_row *row,
                const struct library_spec *spec, const char *name,
                struct library_file *ret, struct error *err)
{
    char *path cleanup(mem_free) = place(name);
    struct workspace_commit commit cleanup(workspace_commit_done) = {0};
    struct library_file file cleanup(library_file_done) = {0};
    const struct workspace_change change = {.kind = CHANGE_PUT,
                                            .path = path,
                                            .sha256 = spec->sha256,
                                            .size = spec->size,
                                            .mime = spec->mime};
    const struct workspace_commit_spec put = {.kind = "upload",
                                              .action = "file.add",
                                              .changes = &change,
                                              .count = 1,
                                              .if_none_match = true};
    int r = workspace_commit_in(w, tx, who, row, &put, &commit, err);

    if (r < 0)
        return r;
    describe_file(&commit, row, spec, name, &file);
    r = insert_row(tx, row, &file, err);
    if (r < 0)
        return r;
    *ret = file;
    file.filename = NULL;
    return 0;
}

int library_add(struct workspaces *w, const struct actor *who,
                const struct library_spec *spec, struct library_file *ret,
                struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_file file cleanup(library_file_done) = {0};
    char *name cleanup(mem_free) = library_name(spec->filename);
    struct workspace_row row;
    int r = library_purpose_check(spec->purpose, err);

    if (r == 0)
        r = library_govern(w, who, spec, name, err);
    if (r == 0)
        r = store_begin(w->store, STORE_WRITE, "adding a file", &tx, err);
    if (r == 0)
        r = library_home_make(w, tx, who, &row, err);
    if (r == 0)
        r = library_put(w, tx, who, &row, spec, name, &file, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    workspaces_committed(w);
    *ret = file;
    file.filename = NULL;
    return 0;
}

/* ---- looking ------------------------------------------------------------ */

/* ret_path: owned by caller. */
static int find_library_file(struct store_tx *tx, const struct actor *who,
                             const char *file, struct library_file *ret,
                             char **ret_path, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(
        tx, &rows, err,
        "SELECT " LIBRARY_COLUMNS " FROM files AS f"
        " JOIN workspaces AS w ON w.id = f.workspace"
        " LEFT JOIN library AS l ON l.file = f.id AND l.tenant = w.tenant"
        " WHERE f.id = ?1 AND f.alive = 1 AND w.deleted_at_ms = 0"
        " AND (coalesce(l.expires_at_ms, 0) = 0 OR l.expires_at_ms > ?5)"
        " AND " WORKSPACE_ROLE_SQL("?2", "?3", "?4", "?6", "?7") " > 0",
        "ttititt", file, who->key, (int64_t)who->admin, who->tenant,
        clock_real_ms(), WORKSPACE_BOUNDS(who));

    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such file");
    library_file_read(rows, ret);
    *ret_path = xstrdup(store_text(rows, 3));
    return 0;
}

int library_get(struct workspaces *w, const struct actor *who,
                const char *file, struct library_file *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char *path cleanup(mem_free) = NULL;
    int r = store_begin(w->store, STORE_READ, "looking for a file", &tx, err);

    return r < 0 ? r : find_library_file(tx, who, file, ret, &path, err);
}

/* ---- removing ----------------------------------------------------------- */

int library_take(struct workspaces *w, struct store_tx *tx,
                 const struct actor *who, struct workspace_row *row,
                 const char *file, const char *path, const char *action,
                 struct error *err)
{
    struct workspace_commit commit cleanup(workspace_commit_done) = {0};
    const struct workspace_change change = {.kind = CHANGE_REMOVE,
                                            .path = path};
    const struct workspace_commit_spec spec = {
        .kind = "delete", .action = action, .changes = &change, .count = 1};
    int r = workspace_commit_in(w, tx, who, row, &spec, &commit, err);

    if (r == 0)
        r = store_exec(tx, err, "DELETE FROM library WHERE file = ?1", "t",
                       file);
    return MIN(r, 0);
}

int library_remove(struct workspaces *w, const struct actor *who,
                   const char *file, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_file found cleanup(library_file_done) = {0};
    char *path cleanup(mem_free) = NULL;
    struct workspace_row row;
    int r = store_begin(w->store, STORE_WRITE, "removing a file", &tx, err);

    if (r == 0)
        r = find_library_file(tx, who, file, &found, &path, err);
    if (r == 0)
        r = workspace_access(tx, w, who, found.workspace, ROLE_EDITOR, &row,
                             err);
    if (r == 0)
        r = library_take(w, tx, who, &row, found.file, path, "file.delete",
                         err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        workspaces_committed(w);
    return r;
}
