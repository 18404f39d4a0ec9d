/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blobs the store references: those of versions that are not purged, of
 * parts of uploads, and the code of commits. Everything that iterates over
 * blobs (collector, scrubber, verify, backup) uses these queries, so that
 * there is one answer. Runs in the daemon, and in `glovebox restore`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/store.h"
#include "upkeep/upkeep_int.h"

#define PAGE 500u

int upkeep_refs_page(struct store *store, const char *after, unsigned limit,
                     char **ret, size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char *names cleanup(mem_free) = xcalloc(limit + 1, BLOB_NAME);
    size_t count = 0;
    int r = store_begin(store, STORE_READ, "listing objects", &tx, err);

    /* Each part is read by its index, in order, no further than the limit */
    if (r == 0)
        r = store_query(
            tx, &rows, err,
            "SELECT sha256 FROM versions WHERE purged = 0 AND sha256 > ?1"
            " UNION SELECT sha256 FROM upload_parts WHERE sha256 > ?1"
            " UNION SELECT code_sha256 FROM commits WHERE code_sha256 <> ''"
            "  AND code_sha256 > ?1"
            " ORDER BY 1 LIMIT ?2",
            "ti", after, (int64_t)limit);
    while (r == 0 && count < limit && (r = store_next(rows, err)) > 0) {
        store_copy(rows, 0, names + count++ * BLOB_NAME, BLOB_NAME);
        r = 0;
    }
    if (r < 0)
        return r;
    *ret = take_ptr(names);
    *ret_count = count;
    return 0;
}

int upkeep_refs_has(struct store_tx *tx, const char *sha256, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    return store_one(
        tx, &rows, err,
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM versions"
        "  WHERE purged = 0 AND sha256 = ?1)"
        " OR EXISTS (SELECT 1 FROM upload_parts WHERE sha256 = ?1)"
        " OR EXISTS (SELECT 1 FROM commits WHERE code_sha256 <> ''"
        "  AND code_sha256 = ?1)",
        "t", sha256);
}

void upkeep_refs_done(struct refs_walk *walk)
{
    free(walk->page);
}

int upkeep_refs_next(struct refs_walk *walk, const char **ret,
                     struct error *err)
{
    *ret = NULL;
    if (walk->at == walk->count && !walk->ended) {
        char *page;
        size_t count;
        int r = upkeep_refs_page(walk->store, walk->last, PAGE, &page, &count,
                                 err);

        if (r < 0)
            return r;
        free(walk->page);
        walk->page = page;
        walk->count = count;
        walk->at = 0;
        walk->ended = count == 0;
    }
    if (walk->ended)
        return 0;
    memcpy(walk->last, walk->page + walk->at++ * BLOB_NAME, BLOB_NAME);
    *ret = walk->last;
    return 0;
}
