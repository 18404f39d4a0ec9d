/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files without a wait of their own for the disk. Their bytes must be on
 * disk before the commit that refers to them is (D2); to sync the log they are
 * in (blob/log.c) and then the store's would be two waits one after the other.
 * So the bytes, as they stand in the first log, go into the store as well, in
 * the same commit, and are durable with it. Runs in the daemon on the thread
 * that commits.
 *
 * There are few such rows. When each has been used once the log is synced,
 * which makes all of them superfluous, and they are used again. A start stores
 * what the log has lost of them. When a commit fails after its row was
 * written, the log is synced by the next one, which may refer to the same
 * bytes. Who removes blobs removes the rows first, and empties the store's
 * log: gone bytes are gone from there, too.
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

#define SLOTS 32u

/* All rows are superfluous afterwards. */
static int sync_log(struct workspaces *w, struct error *err)
{
    int r = blobs_sync(w->blobs, err);

    if (r == 0) {
        w->small.slot = 0;
        w->small.unkept = false;
    }
    return r;
}

static int keep(struct store_tx *tx, void *ctx, struct error *err)
{
    struct workspaces *w = ctx;
    struct buf records cleanup(buf_done) = {0};
    int r = blobs_write(w->blobs, &records, err);

    if (r == 0 && (w->small.unkept || w->small.slot == SLOTS))
        return sync_log(w, err); /* these as well */
    if (r < 0 || records.len == 0)
        return r;
    atomic_store(&w->small.used, true);
    r = store_exec(tx, err,
                   "INSERT INTO small_blobs (slot, records) VALUES (?1, ?2)"
                   " ON CONFLICT (slot) DO UPDATE SET"
                   " records = excluded.records",
                   "ib", (int64_t)w->small.slot++, records.data, records.len);
    return MIN(r, 0);
}

/* The row went with the commit, but not the bytes in the log, which the next
 * commit may refer to. */
static void committed(void *ctx, bool kept)
{
    struct workspaces *w = ctx;

    if (!kept)
        w->small.unkept = true;
}

/* ---- forgetting --------------------------------------------------------- */

/* Nobody commits meanwhile, so what is synced here is all that the rows stand
 * for. */
static int clear(struct store_tx *tx, void *ctx, struct error *err)
{
    struct workspaces *w = ctx;
    int r = sync_log(w, err);

    if (r == 0) {
        atomic_store(&w->small.used, false);
        r = store_exec(tx, err, "DELETE FROM small_blobs", "");
    }
    return MIN(r, 0);
}

int workspace_small_forget(struct workspaces *w, struct error *err)
{
    int r;

    if (!atomic_load(&w->small.used))
        return 0;
    r = store_write(w->store, "forgetting small files", clear, w, err);
    if (r == 0)
        r = store_forget(w->store, err);
    if (r < 0)
        atomic_store(&w->small.used, true); /* for the next time */
    atomic_store(&w->small.due, r == -ERR_BUSY);
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

int workspace_small_open(struct workspaces *w, struct error *err)
{
    bool any;
    int r = redo(w, &any, err);

    atomic_init(&w->small.used, true); /* by an earlier run */
    if (r == 0 && any)
        r = store_write(w->store, "forgetting small files", clear, w, err);
    if (r < 0)
        return r;
    w->small.hook =
        (struct store_hook){.before = keep, .after = committed, .ctx = w};
    store_hook_add(w->store, &w->small.hook);
    return 0;
}

void workspace_small_close(struct workspaces *w)
{
    store_hook_remove(w->store, &w->small.hook);
}
