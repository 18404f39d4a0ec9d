/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose inodes the blobs of a workspace are: those of the tenant it belongs
 * to, whoever writes them (I8). Runs in the daemon.
 */
#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

int workspace_domain(struct workspaces *w, const char *id,
                     char ret[BLOB_DOMAIN], struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r =
        store_begin(w->store, STORE_READ, "looking for a workspace", &tx, err);

    if (r == 0)
        r = workspace_row_get(tx, id, &row, err);
    if (r == 0)
        blob_domain(row.tenant, ret);
    return r;
}
