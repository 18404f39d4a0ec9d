/* SPDX-License-Identifier: Apache-2.0 */
/* A search that is being answered: query.c begins and shows it, find.c finds.
 */
#ifndef GLOVEBOX_SEARCH_QUESTION_H
#define GLOVEBOX_SEARCH_QUESTION_H

#include "search/search_int.h"

/* The last hit of the page before. */
struct cursor {
    bool by_name;
    int64_t rank; /* -1: from the best */
    int64_t number;
};

struct question {
    struct search *s;
    const struct actor *who;
    const struct search_spec *spec;
    struct search_expr expr;
    char *type; /* lower case, owned */
    struct cursor cursor;
    struct store_tx *tx;
    struct search_hit *hits; /* room for limit + 1 */
    int64_t *numbers;        /* of their documents */
    bool *paged;
    size_t count;
};

/* The best matches of the full-text index that the actor may see. */
int search_find_words(struct question *q, struct error *err);
/* Files whose path holds every term inside a word, newest first, for as much
 * room as is left. */
int search_find_names(struct question *q, struct error *err);

#endif
