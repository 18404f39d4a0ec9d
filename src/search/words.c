/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the implementations of the full text index share: the choice among
 * them, and how good a hit is. Runs in the daemon; pure.
 *
 * The rank of a document depends on that document and on nothing else: the
 * rankings of engines weigh words by how rare they are in all documents, which
 * would tell one tenant about another's (I8).
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "search/search_int.h"
#include "search/words_sql.h"
#include "store/store.h"

static const struct search_words *const implementations[] = {
    &search_words_fts5, &search_words_tsvector};

int search_words_of(const struct store *store, const struct search_words **ret,
                    struct error *err)
{
    const char *engine = store_engine(store);

    for (size_t i = 0; i < ARRAY_SIZE(implementations); i++)
        if (strcmp(implementations[i]->engine, engine) == 0) {
            *ret = implementations[i];
            return 0;
        }
    return error_set(err, ERR_INVALID,
                     "the store engine '%s' has no full text search", engine);
}

int64_t search_words_score(bool in_path, unsigned hits, int64_t bytes)
{
    int64_t body = hits;

    return (in_path ? WORDS_PATH_SHARE : 0) +
           WORDS_BODY_SHARE * body * WORDS_UNIT /
               (body * WORDS_UNIT + WORDS_SPREAD + WORDS_SPREAD_BYTE * bytes);
}

int64_t search_words_rank(int64_t sum, int64_t terms)
{
    return WORDS_LEAST + 9 * (terms > 0 ? sum / terms : 0) / 10;
}
