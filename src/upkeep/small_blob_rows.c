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
 * bytes, syncs the log. Where several daemons share the database, the slots
 * would be each other's, so the log is synced before every commit that has
 * small blobs. Removing blobs clears the rows first and truncates the
 * store's log, so that removed bytes do not remain there.
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "upkeep/upkeep_int.h"

#define SLOTS 32u

/* All rows are redundant afterwards. */
static int sync_log(struct upkeep *u, struct error *err)
{
    int r = blobs_sync(u->blobs, err);

    if (r == 0) {
        u->small_rows.slot = 0;
        u->small_rows.unkept = false;
    }
    return r;
}

static int write_row(struct store_tx *tx, void *ctx, struct error *err)
{
    struct upkeep *u = ctx;
    struct buf records cleanup(buf_done) = {0};
    int r = blobs_write(u->blobs, &records, err);

    if (r == 0 && (u->small_rows.unkept || u->small_rows.slot == SLOTS ||
                   (records.len > 0 && store_shared(u->store))))
        return sync_log(u, err); /* these as well */
    if (r < 0 || records.len == 0)
        return r;
    atomic_store(&u->small_rows.used, true);
    r = store_exec(tx, err,
                   "INSERT INTO small_blobs (slot, records) VALUES (?1, ?2)"
                   " ON CONFLICT (slot) DO UPDATE SET"
                   " records = excluded.records",
                   "ib", (int64_t)u->small_rows.slot++, records.data,
                   records.len);
    return MIN(r, 0);
}

/* A failed commit takes back the row but not the bytes in the log, which the
 * next commit may reference. */
static void row_committed(void *ctx, bool kept)
{
    struct upkeep *u = ctx;

    if (!kept)
        u->small_rows.unkept = true;
}

/* ---- clearing ----------------------------------------------------------- */

/* No other commit runs meanwhile, so the sync covers all rows. */
static int delete_rows(struct store_tx *tx, void *ctx, struct error *err)
{
    struct upkeep *u = ctx;
    int r = sync_log(u, err);

    if (r == 0) {
        atomic_store(&u->small_rows.used, false);
        r = store_exec(tx, err, "DELETE FROM small_blobs", "");
    }
    return MIN(r, 0);
}

int upkeep_small_rows_clear(struct upkeep *u, struct error *err)
{
    int r;

    if (!atomic_load(&u->small_rows.used))
        return 0;
    r = store_write(u->store, "forgetting small files", delete_rows, u, err);
    if (r == 0)
        r = store_forget(u->store, err);
    if (r < 0)
        atomic_store(&u->small_rows.used, true); /* for the next time */
    atomic_store(&u->small_rows.due, r == -ERR_BUSY);
    return r == -ERR_BUSY ? 0 : r;
}

/* ---- starting ----------------------------------------------------------- */

static int redo_rows(struct upkeep *u, bool *ret_any, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r =
        store_begin(u->store, STORE_READ, "looking for small files", &tx, err);

    *ret_any = false;
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT records FROM small_blobs ORDER BY slot", "");
    while (r == 0 && (r = store_next(rows, err)) > 0) {
        size_t len;
        const void *records = store_bytes(rows, 0, &len);

        *ret_any = true;
        r = blobs_redo(u->blobs, records, len, err);
    }
    return r;
}

int upkeep_small_rows_open(struct upkeep *u, struct error *err)
{
    bool any = false;
    bool shared = store_shared(u->store); /* and has no rows, then */
    int r = shared ? 0 : redo_rows(u, &any, err);

    atomic_init(&u->small_rows.used, !shared); /* by an earlier run */
    if (r == 0 && !shared && any)
        r = store_write(u->store, "forgetting small files", delete_rows, u,
                        err);
    if (r < 0)
        return r;
    u->small_rows.hook = (struct store_hook){
        .before = write_row, .after = row_committed, .ctx = u};
    store_hook_add(u->store, &u->small_rows.hook);
    return 0;
}

void upkeep_small_rows_close(struct upkeep *u)
{
    store_hook_remove(u->store, &u->small_rows.hook);
}
