/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping of the index, in steps that hold up nobody for long. Runs in
 * the daemon on the indexer's and the reader's thread.
 */
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "search/search_int.h"
#include "store/store.h"

#define REST_NS 500000l
#define MERGE_PAGES 24 /* of the index, in one transaction */
#define SWEEP_ROWS 200

void search_tend_rest(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
}

/* The words of documents whose row is gone, with their file or workspace. */
static int sweep(struct search *s, int *ret_swept, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int swept;

    if (store_begin(s->store, STORE_WRITE, "forgetting files", &tx, err) < 0)
        return -(int)err->code;
    if (store_exec(tx, err,
                   "DELETE FROM words WHERE rowid IN (SELECT id"
                   " FROM documents_gone ORDER BY id LIMIT ?1)",
                   "i", (int64_t)SWEEP_ROWS) < 0)
        return -(int)err->code;
    swept = store_exec(tx, err,
                       "DELETE FROM documents_gone WHERE id IN (SELECT id"
                       " FROM documents_gone ORDER BY id LIMIT ?1)",
                       "i", (int64_t)SWEEP_ROWS);
    if (swept < 0 || store_commit(&tx, err) < 0)
        return -(int)err->code;
    *ret_swept = swept;
    return 0;
}

static int any_gone(struct search *s, bool *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (store_begin(s->store, STORE_READ, "looking for deleted files", &tx,
                    err) < 0)
        return -(int)err->code;
    r = store_one(tx, &rows, err, "SELECT 1 FROM documents_gone LIMIT 1", "");
    *ret = r > 0;
    return MIN(r, 0);
}

int search_tend_sweep(struct search *s, struct error *err)
{
    bool gone = false;
    int swept = SWEEP_ROWS;

    if (any_gone(s, &gone, err) < 0)
        return -(int)err->code;
    while (gone && swept == SWEEP_ROWS && !s->stopping) {
        if (sweep(s, &swept, err) < 0)
            return -(int)err->code;
        search_tend_rest();
    }
    return 0;
}

int search_tend_merge(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s->store, STORE_WRITE, "tending the index", &tx, err) <
            0 ||
        store_exec(tx, err,
                   "INSERT INTO words (words, rank) VALUES ('merge', ?1)", "i",
                   (int64_t)MERGE_PAGES) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}
