/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping of the index, in steps short enough not to delay queries. Runs
 * in the daemon on the indexer's and the document reader's thread.
 */
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "fair/fair.h"
#include "search/search_int.h"
#include "store/store.h"

#define SWEEP_ROWS 200

void search_housekeeping_rest(struct search *s)
{
    bool busy = atomic_load(&s->came) != atomic_load(&s->seen);
    unsigned us = busy ? fair.index_yield_us : fair.index_rest_us;
    struct timespec time = {.tv_nsec = (long)us * 1000};

    if (!fair_enabled(FAIR_WORKER_REST))
        return;
    (void)nanosleep(&time, NULL); /* a shorter one does no harm */
    atomic_store(&s->seen, atomic_load(&s->came));
}

/* The words of documents whose row is gone, with their file or workspace. */
static int sweep_words(struct search *s, int *ret_swept, struct error *err)
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

/* What is there to do: deleted files, and the chore of forgetting words? */
static int find_work(struct search *s, bool *ret_gone, bool *ret_due,
                     struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (store_begin(s->store, STORE_READ, "looking for deleted files", &tx,
                    err) < 0)
        return -(int)err->code;
    r = store_one(tx, &rows, err,
                  "SELECT EXISTS (SELECT 1 FROM documents_gone),"
                  " EXISTS (SELECT 1 FROM chores"
                  "  WHERE name = 'words' AND due = 1)",
                  "");
    if (r > 0) {
        *ret_gone = store_int(rows, 0) != 0;
        *ret_due = store_int(rows, 1) != 0;
    }
    return MIN(r, 0);
}

/* Words that must go for good. */
static int forget_words(struct search *s, struct error *err)
{
    int r = s->words->purge(s, err);

    if (r <= 0)
        return r;
    r = store_forget(s->store, err);
    return r == -ERR_BUSY ? 0 : r; /* with the collector's next round */
}

int search_housekeeping_sweep(struct search *s, struct error *err)
{
    bool gone = false, due = false;
    int swept = SWEEP_ROWS;

    if (find_work(s, &gone, &due, err) < 0)
        return -(int)err->code;
    while (gone && swept == SWEEP_ROWS && !s->stopping) {
        if (sweep_words(s, &swept, err) < 0)
            return -(int)err->code;
        search_housekeeping_rest(s);
    }
    /* To write the index anew takes as much space as it has. */
    return due && !s->stopping && search_has_room(s) ? forget_words(s, err)
                                                     : 0;
}
