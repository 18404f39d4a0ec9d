/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps commit ids to commit numbers and back, and reports whether the store
 * and the blobs accept writes. Runs on the caller's thread; changes nothing.
 */
#include "workspace/workspace.h"

#include "base/error.h"
#include "base/mem.h"
#include "store/store.h"

bool workspaces_writable(struct workspaces *w)
{
    return store_writable(workspaces_store(w)) &&
           blobs_writable(workspaces_blobs(w));
}

int workspace_commit_id(struct workspaces *w, const char *id, int64_t seq,
                        char ret[ID_MAX], struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_begin(workspaces_store(w), STORE_READ,
                        "looking for a commit", &tx, err);

    ret[0] = '\0';
    if (r == 0)
        r = store_one(tx, &row, err,
                      "SELECT id FROM commits WHERE workspace = ?1"
                      " AND seq = ?2",
                      "ti", id, seq);
    if (r == 1)
        store_copy(row, 0, ret, ID_MAX);
    return r < 0 ? r : 0;
}

int workspace_commit_number(struct workspaces *w, const struct actor *who,
                            const char *id, const char *commit, int64_t *ret,
                            struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_info info;
    int r = workspace_get(w, who, id, &info, err); /* may it be seen? */

    if (r == 0)
        r = store_begin(workspaces_store(w), STORE_READ,
                        "looking for a commit", &tx, err);
    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT seq FROM commits WHERE id = ?1 AND"
                      " workspace = ?2",
                      "tt", commit, id);
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such commit");
    *ret = store_int(rows, 0);
    return 0;
}
