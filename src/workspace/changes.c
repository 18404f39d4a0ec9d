/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed since a commit, one row a path, as it is now; for a session
 * that catches up and for the trees it mounts. Runs in the daemon on the
 * caller's thread; changes nothing.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

/* A file that left a path for another has one version, at the new one; the
 * old path is in it (workspace_int.h). */
static int query(struct store_tx *tx, const char *id, int64_t from,
                 const char *except, struct store_rows **ret,
                 struct error *err)
{
    return store_query(
        tx, ret, err,
        "SELECT t.touched, " WORKSPACE_FILE_COLUMNS " FROM ("
        " SELECT v.path AS touched FROM versions AS v JOIN commits AS c"
        "  ON c.workspace = v.workspace AND c.seq = v.seq"
        "  WHERE v.workspace = ?1 AND v.seq > ?2"
        "  AND (?3 = '' OR c.session <> ?3)"
        " UNION SELECT v.from_path FROM versions AS v JOIN commits AS c"
        "  ON c.workspace = v.workspace AND c.seq = v.seq"
        "  WHERE v.workspace = ?1 AND v.seq > ?2 AND v.from_path <> ''"
        "  AND v.change IN ('renamed', 'restored')"
        "  AND (?3 = '' OR c.session <> ?3)"
        ") AS t LEFT JOIN files AS f ON f.workspace = ?1"
        " AND f.path = t.touched AND f.alive = 1 ORDER BY t.touched",
        "tit", id, from, except ? except : "");
}

static struct workspace_file *grow(struct workspace_file *files, size_t count,
                                   size_t *room)
{
    if (count < *room)
        return files;
    *room = *room ? 2 * *room : 64;
    return xrealloc(files, *room * sizeof(*files));
}

int workspace_changes_in(struct store_tx *tx, const char *id, int64_t from,
                         const char *except_session,
                         struct workspace_file **ret, size_t *ret_count,
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_file *files = NULL;
    size_t count = 0, room = 0;
    int r = query(tx, id, from, except_session, &rows, err);

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        files = grow(files, count, &room);
        workspace_file_read(rows, 1, &files[count]);
        free(files[count].path); /* NULL when it is gone */
        files[count++].path = xstrdup(store_text(rows, 0));
    }
    if (r < 0) {
        workspace_files_free(files, count);
        return r;
    }
    *ret = files;
    *ret_count = count;
    return 0;
}

int workspace_changes(struct workspaces *w, const struct actor *who,
                      const char *id, int64_t from, const char *except_session,
                      struct workspace_file **ret, size_t *ret_count,
                      int64_t *ret_head, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "looking for changes", &tx, &row, err);

    if (r == 0)
        r = workspace_changes_in(tx, id, from, except_session, ret, ret_count,
                                 err);
    if (r == 0)
        *ret_head = row.head;
    return r;
}
