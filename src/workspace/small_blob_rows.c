/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes small blobs durable without a sync of their own. The bytes must be on
 * disk before the commit that references them is (D2); syncing the small-blob
 * log (blob/log.c) and then the store's log would be two waits in a row. So
 * the records of the small-blob log are also written to rows of the store, in
 * the same commit, and are durable with it. Runs in the daemon on the
 * committing thread.
 *
 * The rows are SLOTS reusable slots. When all slots are used the small-blob
 * log is synced, which makes every row redundant, and the slots are used
 * again. A start writes back to the log what it has lost. When a commit fails
 * after its row was written, the next commit, which may reference the same
 * bytes, syncs the log. Removing blobs clears the rows first and truncates the
 * store's log, so that removed bytes do not remain there.
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

#define SLOTS 32u

/* All rows are redundant afterwards. */
static int sync_log(struct workspaces *w, struct error *err)
{
    int r = blobs_sync(w->blobs, err);

    if (r == 0) {
        w->small_rows.slot = 0;
        w->small_rows.unkept = false;
    }
    return r;
}

static int write_row(struct store_tx *tx, void *ctx, struct error *err)
{
    struct workspaces *w = ctx;
    struct buf records cleanup(buf_done) = {0};
    int r = blobs_write(w->blobs, &records, err);

    if (r == 0 && (w->small_rows.unkept || w->small_rows.slot == SLOTS))
        return sync_log(w, err); /* these as well */
    if (r < 0 || records.len == 0)
        return r;
    atomic_store(&w->small_rows.used, true);
    r = store_exec(tx, err,
                   "INSERT INTO small_blobs (slot, records) VALUES (?1, ?2)"
                   " ON CONFLICT (slot) DO UPDATE SET"
                   " records = excluded.records",
                   "ib", (int64_t)w->small_rows.slot++, records.data,
                   records.len);
    return MIN(r, 0);
}

/* A failed commit takes back the row but not the bytes in the log, which the
 * next commit may reference. */
static void row_committed(void *ctx, bool kept)
{
    struct workspaces *w = ctx;

    if (!kept)
        w->small_rows.unkept = true;
}

/* ---- clearing ----------------------------------------------------------- */

/* No other commit runs meanwhile, so the sync covers all rows. */
static int delete_rows(struct store_tx *tx, void *ctx, struct error *err)
{
    struct workspaces *w = ctx;
    int r = sync_log(w, err);

    if (r == 0) {
        atomic_store(&w->small_rows.used, false);
        r = store_exec(tx, err, "DELETE FROM small_blobs", "");
    }
    return MIN(r, 0);
}

int workspace_small_blob_rows_clear(struct workspaces *w, struct error *err)
{
    int r;

    if (!atomic_load(&w->small_rows.used))
        return 0;
    r = store_write(w->store, "forgetting small files", delete_rows, w, err);
    if (r == 0)
        r = store_forget(w->store, err);
    if (r < 0)
        atomic_store(&w->small_rows.used, true); /* for the next time */
    atomic_store(&w->small_rows.due, r == -ERR_BUSY);
    return r == -ERR_BUSY ? 0 : r;
}

/* ---- starting ----------------------------------------------------------- */

static int redo(struct workspaces *w, bool *ret_any, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r =
        store_begin(w->store, STORE_READ, "looking for small files", &tx, err);

    *ret_any = false;
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT records FROM small_blobs ORDER BY slot", "");
    while (r == 0 && (r = store_next(rows, err)) > 0) {
        size_t len;
        const void *records = store_bytes(rows, 0, &len);

        *ret_any = true;
        r = blobs_redo(w->blobs, records, len, err);
    }
    return r;
}

int workspace_small_blob_rows_open(struct workspaces *w, struct error *err)
{
    bool any;
    int r = redo(w, &any, err);

    atomic_init(&w->small_rows.used, true); /* by an earlier run */
    if (r == 0 && any)
        r = store_write(w->store, "forgetting small files", delete_rows, w,
                        err);
    if (r < 0)
        return r;
    w->small_rows.hook = (struct store_hook){
        .before = write_row, .after = row_committed, .ctx = w};
    store_hook_add(w->store, &w->small_rows.hook);
    return 0;
}

void workspace_small_blob_rows_close(struct workspaces *w)
{
    store_hook_remove(w->store, &w->small_rows.hook);
}
