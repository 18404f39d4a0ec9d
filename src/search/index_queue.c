/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of files to be indexed, ordered by the time of their change; see
 * index_int.h. Runs in the daemon on the indexer's thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "search/index_int.h"
#include "search/search_int.h"
#include "store/store.h"

static void read_row(struct store_rows *rows, struct item *ret)
{
    const char *old_sha256 = store_text(rows, 11);

    store_copy(rows, 0, ret->file, sizeof(ret->file));
    store_copy(rows, 1, ret->workspace, sizeof(ret->workspace));
    ret->path = xstrdup(store_text(rows, 2));
    ret->alive = store_int(rows, 3) != 0;
    store_copy(rows, 4, ret->version, sizeof(ret->version));
    store_copy(rows, 5, ret->sha256, sizeof(ret->sha256));
    ret->size = (uint64_t)store_int(rows, 6);
    store_copy(rows, 7, ret->mime, sizeof(ret->mime));
    ret->document = store_int(rows, 8);
    store_copy(rows, 9, ret->old_kind, sizeof(ret->old_kind));
    store_copy(rows, 10, ret->old_state, sizeof(ret->old_state));
    ret->same_bytes = old_sha256 && strcmp(old_sha256, ret->sha256) == 0;
    ret->modified_at_ms = store_int(rows, 12);
}

int search_queue_last(struct search *s, struct place *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r =
        store_begin(s->store, STORE_READ, "finding files to index", &tx, err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT modified_at_ms, id FROM files"
                      " INDEXED BY files_unindexed WHERE indexed = 0"
                      " ORDER BY modified_at_ms DESC, id DESC LIMIT 1",
                      "");
    if (r > 0) {
        ret->at_ms = store_int(rows, 0);
        store_copy(rows, 1, ret->file, sizeof(ret->file));
    }
    return r;
}

int search_queue_page(struct search *s, const struct place *after,
                      const struct place *last, struct queue_page *ret,
                      struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (store_begin(s->store, STORE_READ, "finding files to index", &tx, err) <
            0 ||
        store_query(tx, &rows, err,
                    "SELECT f.id, f.workspace, f.path, f.alive, f.version,"
                    " f.sha256, f.size, f.mime, d.id, d.kind, d.state,"
                    " v.sha256, f.modified_at_ms"
                    " FROM files AS f INDEXED BY files_unindexed"
                    " LEFT JOIN documents AS d ON d.file = f.id"
                    " LEFT JOIN versions AS v ON v.id = d.version"
                    " WHERE f.indexed = 0"
                    " AND (f.modified_at_ms, f.id) > (?1, ?2)"
                    " AND (f.modified_at_ms, f.id) <= (?3, ?4)"
                    " ORDER BY f.modified_at_ms, f.id LIMIT ?5",
                    "ititi", after->at_ms, after->file, last->at_ms,
                    last->file, (int64_t)PAGE_FILES) < 0)
        return -(int)err->code;
    while ((r = store_next(rows, err)) > 0)
        read_row(rows, &ret->items[ret->count++]);
    return r;
}
