/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trained model: a weight and a vector for each term; see meaning.h. Stored
 * as
 *
 *   "GBLSA1\n\0", u32 dim, u32 count,
 *   count times u32 hash, float weight, float factor, dim signed bytes,
 *   SHA-256 of all before
 *
 * with numbers in little-endian order. Runs in the daemon on any thread; a
 * model does not change after training.
 */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "meaning/meaning_int.h"

#define MAGIC "GBLSA1\n"
#define HEAD (sizeof(MAGIC) + 8)
#define ENTRY(dim) (12 + (size_t)(dim))
#define FACTOR_ONE 127.0f

struct meaning_model *meaning_model_new(unsigned dim, size_t count)
{
    struct meaning_model *m = xcalloc(1, sizeof(*m));

    m->dim = dim;
    m->count = count;
    m->hashes = xcalloc(MAX(count, 1), sizeof(*m->hashes));
    m->weights = xcalloc(MAX(count, 1), sizeof(*m->weights));
    m->factors = xcalloc(MAX(count, 1), sizeof(*m->factors));
    m->vectors = xcalloc(MAX(count, 1), dim);
    return m;
}

void meaning_model_free(struct meaning_model *m)
{
    if (!m)
        return;
    free(m->hashes);
    free(m->weights);
    free(m->factors);
    free(m->vectors);
    free(m);
}

unsigned meaning_model_dim(const struct meaning_model *m)
{
    return m->dim;
}

size_t meaning_model_terms(const struct meaning_model *m)
{
    return m->count;
}

size_t meaning_model_bytes(const struct meaning_model *m)
{
    return sizeof(*m) + m->count * ENTRY(m->dim);
}

static float largest(const float *vector, unsigned dim)
{
    float most = 0;

    for (unsigned d = 0; d < dim; d++)
        most = fmaxf(most, fabsf(vector[d]));
    return most;
}

void meaning_vector_pack(const float *vector, unsigned dim, int8_t *ret)
{
    float most = largest(vector, dim);
    float factor =
        isfinite(most) && most > 0 ? FACTOR_ONE / most : 0; /* else zeroes */

    for (unsigned d = 0; d < dim; d++)
        ret[d] = factor > 0 && isfinite(factor)
                     ? (int8_t)lrintf(vector[d] * factor)
                     : 0;
}

void meaning_model_set(struct meaning_model *m, size_t i, uint32_t hash,
                       float weight, const float *vector)
{
    m->hashes[i] = hash;
    m->weights[i] = weight;
    m->factors[i] = largest(vector, m->dim) / FACTOR_ONE;
    meaning_vector_pack(vector, m->dim, m->vectors + i * m->dim);
}

/* ---- folding in --------------------------------------------------------- */

/* From *from on, where it is or would be. */
static bool find_term(const struct meaning_model *m, uint32_t hash,
                      size_t *from)
{
    size_t low = *from, high = m->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (m->hashes[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    *from = low;
    return low < m->count && m->hashes[low] == hash;
}

bool meaning_model_fold(const struct meaning_model *m,
                        const struct meaning_terms *terms, float *ret)
{
    size_t at = 0;
    bool known = false;

    memset(ret, 0, m->dim * sizeof(*ret));
    for (size_t i = 0; i < terms->count; i++) {
        const int8_t *vector;
        float factor;

        if (!find_term(m, terms->items[i].hash, &at))
            continue;
        vector = m->vectors + at * m->dim;
        factor = (1 + logf((float)terms->items[i].count)) * m->weights[at] *
                 m->factors[at];
        for (unsigned d = 0; d < m->dim; d++)
            ret[d] += factor * vector[d];
        known = true;
    }
    return known && largest(ret, m->dim) > 0;
}

/* ---- bytes -------------------------------------------------------------- */

static void add_float(struct buf *out, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    buf_add_u32(out, bits);
}

static uint32_t read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

static float read_float(const unsigned char *at)
{
    uint32_t bits = read_u32(at);
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

void meaning_model_pack(struct buf *out, const struct meaning_model *m)
{
    unsigned char sum[HASH_SIZE];

    buf_reset(out);
    buf_reserve(out, HEAD + m->count * ENTRY(m->dim) + sizeof(sum));
    buf_add(out, MAGIC, sizeof(MAGIC));
    buf_add_u32(out, m->dim);
    buf_add_u32(out, (uint32_t)m->count);
    for (size_t i = 0; i < m->count; i++) {
        buf_add_u32(out, m->hashes[i]);
        add_float(out, m->weights[i]);
        add_float(out, m->factors[i]);
        buf_add(out, m->vectors + i * m->dim, m->dim);
    }
    hash_sha256(out->data, out->len, sum);
    buf_add(out, sum, sizeof(sum));
}

static int damaged(struct error *err, const char *why)
{
    return error_set(err, ERR_CORRUPT, "the stored model is damaged: %s", why);
}

/* The sum was right, so a bad entry is a defect of the writer. */
static bool read_entry(struct meaning_model *m, size_t i,
                       const unsigned char *at)
{
    m->hashes[i] = read_u32(at);
    m->weights[i] = read_float(at + 4);
    m->factors[i] = read_float(at + 8);
    memcpy(m->vectors + i * m->dim, at + 12, m->dim);
    return isfinite(m->weights[i]) && isfinite(m->factors[i]) &&
           (i == 0 || m->hashes[i] > m->hashes[i - 1]);
}

int meaning_model_unpack(const void *bytes, size_t len,
                         struct meaning_model **ret, struct error *err)
{
    const unsigned char *at = bytes;
    unsigned char sum[HASH_SIZE];
    struct meaning_model *m;
    uint32_t dim, count;

    if (!bytes || len < HEAD + HASH_SIZE ||
        memcmp(bytes, MAGIC, sizeof(MAGIC)) != 0)
        return damaged(err, "it does not begin as a model does");
    dim = read_u32(at + sizeof(MAGIC));
    count = read_u32(at + sizeof(MAGIC) + 4);
    if (dim == 0 || dim > MEANING_DIM_MAX || count > MEANING_VOCABULARY ||
        len != HEAD + count * ENTRY(dim) + HASH_SIZE)
        return damaged(err, "its length is wrong");
    hash_sha256(bytes, len - HASH_SIZE, sum);
    if (!hash_equal(sum, at + len - HASH_SIZE, HASH_SIZE))
        return damaged(err, "its checksum is wrong");
    m = meaning_model_new(dim, count);
    at += HEAD;
    for (size_t i = 0; i < count; i++, at += ENTRY(dim))
        if (!read_entry(m, i, at)) {
            meaning_model_free(m);
            return damaged(err, "an entry is out of range");
        }
    *ret = m;
    return 0;
}
