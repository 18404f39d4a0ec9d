/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latent semantic analysis; see meaning.h. The passages make a sparse matrix
 * of terms and passages, weighted by how often a term is in a passage and in
 * how few passages it is. Its strongest left singular vectors are found by
 * random projection and a few steps of subspace iteration; LAPACK
 * orthogonalizes and solves the small problem that remains. Terms that occur
 * in the same company get similar vectors.
 *
 * The random numbers are the same every time: one corpus has one model.
 * Runs in the daemon on the thread that trains. At its limits (20,000
 * passages, 20,000 terms, 2 million entries) it takes about 80 MiB of memory.
 */
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "meaning/meaning_int.h"

#define OVERSAMPLE 12u /* columns more than wanted: the rest is noise */
#define STEPS 3u       /* of subspace iteration */
#define EXACT 256u     /* passages or terms up to which nothing is left out */
#define COMMON 0.5     /* share of passages: such a term says nothing */
#define PER_PASSAGE 6u /* passages for each dimension, at least */
#define DIM_LEAST 2u

struct meaning_trainer {
    struct meaning_term *terms; /* of all passages, one after the other */
    size_t count, room;
    uint32_t *ends; /* of each passage in `terms` */
    size_t passages, passage_room;
};

struct meaning_trainer *meaning_trainer_new(void)
{
    return xcalloc(1, sizeof(struct meaning_trainer));
}

void meaning_trainer_free(struct meaning_trainer *t)
{
    if (!t)
        return;
    free(t->terms);
    free(t->ends);
    free(t);
}

bool meaning_trainer_add(struct meaning_trainer *t,
                         const struct meaning_terms *terms)
{
    if (t->passages == MEANING_SAMPLE_MAX ||
        t->count + terms->count > MEANING_SAMPLE_TERMS)
        return false;
    if (terms->count == 0)
        return true;
    while (t->count + terms->count > t->room) {
        t->room = t->room ? 2 * t->room : 4096;
        t->terms = xrealloc(t->terms, t->room * sizeof(*t->terms));
    }
    if (t->passages == t->passage_room) {
        t->passage_room = t->passage_room ? 2 * t->passage_room : 256;
        t->ends = xrealloc(t->ends, t->passage_room * sizeof(*t->ends));
    }
    memcpy(t->terms + t->count, terms->items,
           terms->count * sizeof(*terms->items));
    t->count += terms->count;
    t->ends[t->passages++] = (uint32_t)t->count;
    return true;
}

/* ---- the vocabulary ----------------------------------------------------- */

struct word {
    uint32_t hash;
    uint32_t passages; /* it is in */
};

struct vocabulary {
    struct word *words; /* by hash */
    size_t count;
};

static int by_hash(const void *a, const void *b)
{
    const struct word *x = a, *y = b;

    return (x->hash > y->hash) - (x->hash < y->hash);
}

static int by_use(const void *a, const void *b)
{
    const struct word *x = a, *y = b;

    if (x->passages != y->passages)
        return x->passages < y->passages ? 1 : -1;
    return by_hash(a, b);
}

/* Terms of two passages or more, and not of most of them. */
static void count_words(const struct meaning_trainer *t,
                        struct vocabulary *ret)
{
    struct word *words = xcalloc(MAX(t->count, 1), sizeof(*words));
    size_t kept = 0, different = 0;

    for (size_t i = 0; i < t->count; i++)
        words[i] = (struct word){t->terms[i].hash, 1};
    qsort(words, t->count, sizeof(*words), by_hash);
    for (size_t i = 0; i < t->count; i++) {
        if (different && words[different - 1].hash == words[i].hash)
            words[different - 1].passages++;
        else
            words[different++] = words[i];
    }
    for (size_t i = 0; i < different; i++)
        if (words[i].passages >= 2 &&
            words[i].passages <= COMMON * (double)t->passages)
            words[kept++] = words[i];
    if (kept > MEANING_VOCABULARY) {
        qsort(words, kept, sizeof(*words), by_use);
        kept = MEANING_VOCABULARY;
        qsort(words, kept, sizeof(*words), by_hash);
    }
    *ret = (struct vocabulary){words, kept};
}

static double weight_of(const struct word *w, size_t passages)
{
    return log(1.0 + (double)passages / w->passages);
}

/* ---- the matrix --------------------------------------------------------- */

/* Column p is entries [ends[p - 1], ends[p]). */
struct matrix {
    size_t rows, columns;
    uint32_t *row; /* of each entry */
    float *value;
    uint32_t *ends;
};

static void matrix_done(struct matrix *m)
{
    free(m->row);
    free(m->value);
    free(m->ends);
}

/* Columns have length one: a long passage counts no more than a short one. */
static void scale_column(struct matrix *m, size_t from, size_t to)
{
    double sum = 0;

    for (size_t i = from; i < to; i++)
        sum += (double)m->value[i] * m->value[i];
    if (sum > 0)
        for (size_t i = from; i < to; i++)
            m->value[i] = (float)(m->value[i] / sqrt(sum));
}

static void fill_matrix(const struct meaning_trainer *t,
                        const struct vocabulary *v, struct matrix *ret)
{
    struct matrix m = {.rows = v->count};
    size_t at = 0, n = 0;

    m.row = xmalloc(MAX(t->count, 1) * sizeof(*m.row));
    m.value = xmalloc(MAX(t->count, 1) * sizeof(*m.value));
    m.ends = xmalloc(MAX(t->passages, 1) * sizeof(*m.ends));
    for (size_t p = 0; p < t->passages; p++) {
        size_t from = n, w = 0;

        /* Both are in the order of their hashes. */
        for (; at < t->ends[p]; at++) {
            while (w < v->count && v->words[w].hash < t->terms[at].hash)
                w++;
            if (w == v->count || v->words[w].hash != t->terms[at].hash)
                continue;
            m.row[n] = (uint32_t)w;
            m.value[n++] = (float)((1 + log(t->terms[at].count)) *
                                   weight_of(&v->words[w], t->passages));
        }
        if (n > from) {
            scale_column(&m, from, n);
            m.ends[m.columns++] = (uint32_t)n;
        }
    }
    *ret = m;
}

/* ret (rows x l) = m * x (columns x l) */
static void multiply(const struct matrix *m, const float *x, size_t l,
                     float *ret)
{
    size_t at = 0;

    memset(ret, 0, m->rows * l * sizeof(*ret));
    for (size_t p = 0; p < m->columns; p++)
        for (; at < m->ends[p]; at++)
            cblas_saxpy((int)l, m->value[at], x + p * l, 1,
                        ret + m->row[at] * l, 1);
}

/* ret (columns x l) = transposed m * x (rows x l) */
static void multiply_transposed(const struct matrix *m, const float *x,
                                size_t l, float *ret)
{
    size_t at = 0;

    memset(ret, 0, m->columns * l * sizeof(*ret));
    for (size_t p = 0; p < m->columns; p++)
        for (; at < m->ends[p]; at++)
            cblas_saxpy((int)l, m->value[at], x + m->row[at] * l, 1,
                        ret + p * l, 1);
}

/* ---- the decomposition -------------------------------------------------- */

/* SplitMix64; two of its numbers make a normally distributed one. */
static double random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) / 9007199254740992.0;
}

static void fill_random(float *x, size_t count)
{
    uint64_t state = 1;

    for (size_t i = 0; i < count; i++) {
        double a = random_next(&state), b = random_next(&state);

        x[i] = (float)(sqrt(-2 * log(a)) * cos(6.283185307179586 * b));
    }
}

static int refused(struct error *err, const char *what, int code)
{
    return error_set(err, ERR_INTERNAL, "LAPACK's %s failed with %d", what,
                     code);
}

/* The columns of x (rows x l) become orthonormal. */
static int orthonormalize(float *x, size_t rows, size_t l, struct error *err)
{
    float *tau cleanup(mem_free) = xmalloc(l * sizeof(*tau));
    int code =
        LAPACKE_sgeqrf(LAPACK_ROW_MAJOR, (int)rows, (int)l, x, (int)l, tau);

    if (code != 0)
        return refused(err, "sgeqrf", code);
    code = LAPACKE_sorgqr(LAPACK_ROW_MAJOR, (int)rows, (int)l, (int)l, x,
                          (int)l, tau);
    return code ? refused(err, "sorgqr", code) : 0;
}

static int check_stop(const atomic_bool *stop, struct error *err)
{
    if (stop && atomic_load(stop))
        return error_set(err, ERR_UNAVAILABLE, "the service is stopping");
    return 0;
}

/* q (rows x l): an orthonormal basis of what is strongest in m. b (columns x
 * l): transposed m * q. */
static int find_basis(const struct matrix *m, size_t l, float *q, float *b,
                      const atomic_bool *stop, struct error *err)
{
    int r = 0;

    fill_random(b, m->columns * l);
    for (unsigned i = 0; r == 0 && i <= STEPS; i++) {
        multiply(m, b, l, q);
        r = check_stop(stop, err);
        if (r == 0)
            r = orthonormalize(q, m->rows, l, err);
        if (r == 0)
            r = check_stop(stop, err);
        if (r < 0)
            break;
        multiply_transposed(m, q, l, b);
        if (i < STEPS)
            r = orthonormalize(b, m->columns, l, err);
    }
    return r;
}

/* e (l x l): in its columns the directions within the basis, weakest first. */
static int find_directions(const float *b, size_t columns, size_t l, float *e,
                           struct error *err)
{
    float *values cleanup(mem_free) = xmalloc(l * sizeof(*values));
    int code;

    cblas_ssyrk(CblasRowMajor, CblasUpper, CblasTrans, (int)l, (int)columns, 1,
                b, (int)l, 0, e, (int)l);
    code =
        LAPACKE_ssyev(LAPACK_ROW_MAJOR, 'V', 'U', (int)l, e, (int)l, values);
    return code ? refused(err, "ssyev", code) : 0;
}

static void make_model(const struct vocabulary *v, size_t passages,
                       const float *q, const float *e, size_t l, unsigned dim,
                       struct meaning_model **ret)
{
    struct meaning_model *m = meaning_model_new(dim, v->count);
    float vector[MEANING_DIM_MAX];

    for (size_t i = 0; i < v->count; i++) {
        for (unsigned d = 0; d < dim; d++)
            vector[d] =
                cblas_sdot((int)l, q + i * l, 1, e + (l - 1 - d), (int)l);
        meaning_model_set(m, i, v->words[i].hash,
                          (float)weight_of(&v->words[i], passages), vector);
    }
    *ret = m;
}

static int decompose(const struct matrix *m, const struct vocabulary *v,
                     size_t passages, const atomic_bool *stop,
                     struct meaning_model **ret, struct error *err)
{
    size_t most = MIN(m->rows, m->columns);
    unsigned dim = (unsigned)MIN(most, MEANING_DIM_MAX);
    size_t l;
    float *q cleanup(mem_free) = NULL;
    float *b cleanup(mem_free) = NULL;
    float *e cleanup(mem_free) = NULL;
    int r;

    dim = (unsigned)MIN(dim, MAX(m->columns / PER_PASSAGE, DIM_LEAST));
    /* The directions of a small corpus are of similar strength, so a few
     * steps from random vectors would not separate them, and the result would
     * depend on the order of the passages. Its whole space is cheap. */
    l = MIN(most <= EXACT ? most : dim + OVERSAMPLE, most);
    dim = (unsigned)MIN(dim, l);
    q = malloc(m->rows * l * sizeof(*q));
    b = malloc(m->columns * l * sizeof(*b));
    e = calloc(l * l, sizeof(*e));
    if (!q || !b || !e)
        return error_set(err, ERR_BUSY, "there is no memory for training");
    r = find_basis(m, l, q, b, stop, err);
    if (r == 0)
        r = find_directions(b, m->columns, l, e, err);
    if (r == 0)
        make_model(v, passages, q, e, l, dim, ret);
    return r;
}

int meaning_train(struct meaning_trainer *t, const atomic_bool *stop,
                  struct meaning_model **ret, struct error *err)
{
    struct vocabulary v = {0};
    struct matrix m cleanup(matrix_done) = {0};
    struct word *words cleanup(mem_free) = NULL;

    if (t->passages < MEANING_LEAST)
        return error_set(err, ERR_CONFLICT,
                         "%zu passages are too few to train on", t->passages);
    count_words(t, &v);
    words = v.words;
    fill_matrix(t, &v, &m);
    if (m.columns < DIM_LEAST || m.rows < DIM_LEAST)
        return error_set(err, ERR_CONFLICT,
                         "the passages have too few words in common");
    return decompose(&m, &v, t->passages, stop, ret, err);
}
