/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of meaning/ share. */
#ifndef GLOVEBOX_MEANING_MEANING_INT_H
#define GLOVEBOX_MEANING_MEANING_INT_H

#include "meaning/meaning.h"

/* Terms are in the order of their hashes. Vectors are in eight bits a number
 * with a factor each: term i is factors[i] * vectors[i * dim]... */
struct meaning_model {
    unsigned dim;
    size_t count;
    uint32_t *hashes;
    float *weights; /* of a term: how much it says, for texts of any tenant's
                       corpus that the model was trained on */
    float *factors;
    int8_t *vectors;
};

struct meaning_model *meaning_model_new(unsigned dim, size_t count);
/* Sets the vector of term i. */
void meaning_model_set(struct meaning_model *m, size_t i, uint32_t hash,
                       float weight, const float *vector);

#endif
