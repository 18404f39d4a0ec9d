/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping of the index, in steps short enough not to delay queries. Runs
 * in the daemon on the indexer's and the document reader's thread.
 */
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "search/search_int.h"
#include "store/store.h"

#define REST_NS 500000l
#define YIELD_NS 12000000l /* while others commit: they come first */
#define MERGE_PAGES 24     /* of the index, in one transaction */
#define SWEEP_ROWS 200
#define JOIN_STEPS_LEAST 200

void search_housekeeping_rest(struct search *s)
{
    bool busy = atomic_load(&s->came) != atomic_load(&s->seen);
    struct timespec time = {.tv_nsec = busy ? YIELD_NS : REST_NS};

    (void)nanosleep(&time, NULL); /* a shorter one does no harm */
    atomic_store(&s->seen, atomic_load(&s->came));
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

/* ---- words that must go ------------------------------------------------- */

/* A removal only covers the words in a part of the index; they are gone when
 * all parts have been joined into one. How many there are; leaves: pages of
 * the index. */
static int count_parts(struct search *s, int64_t *ret_parts,
                       int64_t *ret_leaves, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (store_begin(s->store, STORE_READ, "looking at the index", &tx, err) <
        0)
        return -(int)err->code;
    r = store_one(tx, &rows, err,
                  "SELECT count(DISTINCT segid), count(*) FROM words_idx", "");
    if (r > 0) {
        *ret_parts = store_int(rows, 0);
        *ret_leaves = store_int(rows, 1);
    }
    return MIN(r, 0);
}

/* One step of joining all parts, whatever their sizes. */
static int join_step(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s->store, STORE_WRITE, "tending the index", &tx, err) <
            0 ||
        store_exec(tx, err,
                   "INSERT INTO words (words, rank) VALUES ('merge', ?1)", "i",
                   (int64_t)-MERGE_PAGES) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

/* Unless more has gone meanwhile: then it stays due. */
static int chore_done(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s->store, STORE_WRITE, "tending the index", &tx, err) <
            0 ||
        store_exec(tx, err,
                   "DELETE FROM chores WHERE name = 'words'"
                   " AND NOT EXISTS (SELECT 1 FROM documents_gone)"
                   " AND (SELECT count(DISTINCT segid) FROM words_idx) <= 1",
                   "") < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

/* What is indexed meanwhile makes new parts; hence a bound, and what is left
 * over stays due. */
static int forget_words(struct search *s, struct error *err)
{
    int64_t parts = 0, leaves = 0, steps = 0;
    int r = count_parts(s, &parts, &leaves, err);
    int64_t most = JOIN_STEPS_LEAST + 4 * leaves / MERGE_PAGES;

    while (r == 0 && parts > 1 && steps++ < most && !s->stopping) {
        r = join_step(s, err);
        search_housekeeping_rest(s);
        if (r == 0)
            r = count_parts(s, &parts, &leaves, err);
    }
    if (r < 0 || parts > 1)
        return r;
    r = chore_done(s, err);
    if (r == 0)
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
        if (sweep(s, &swept, err) < 0)
            return -(int)err->code;
        search_housekeeping_rest(s);
    }
    /* To join the parts takes as much space as they have. */
    return due && !s->stopping && search_has_room(s) ? forget_words(s, err)
                                                     : 0;
}

int search_housekeeping_merge(struct search *s, struct error *err)
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
