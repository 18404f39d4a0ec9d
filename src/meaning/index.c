/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passages in memory and their ranking; see meaning.h. For each term there is
 * a list of the passages that have it, for each passage a vector in eight bits
 * a number: a query adds up the lists of its terms and compares its vector
 * with all others. 100,000 passages of 60 terms take about 45 MiB.
 *
 * Relevance feedback takes the three best passages of a first ranking for
 * relevant: their most telling terms join the query with a small weight, and
 * its vector moves towards theirs. Runs in the daemon on the asking thread.
 */
#include <math.h>
#include <string.h>

#include "base/ids.h"
#include "base/mem.h"
#include "meaning/meaning_int.h"

#define ALIGNED 16u /* numbers of a vector are padded to a multiple of it */

/* BM25, as usual. */
#define K1 1.2
#define B 0.75

/* Chosen on the development queries of bench/judged; the test queries were
 * not looked at for it. */
#define WORDS_SHARE 0.7    /* of the score of both; the cosine has the rest */
#define FEEDBACK 3u        /* passages taken for relevant */
#define FEEDBACK_TERMS 20u /* terms that join */
#define FEEDBACK_WEIGHT 0.3f /* of them, against the terms of the query */
#define FEEDBACK_PULL 0.5f   /* of the vector towards theirs */

/* Below these a passage is not found at all. */
#define COSINE_LEAST 0.2
#define COSINE_ALONE 0.3 /* for one without any word of the query */

/* An entry of a list: the number of the passage and how often it has the
 * term, in eight bits. */
#define ENTRY(at, count) ((uint32_t)(at) << 8 | (count))
#define ENTRY_AT(entry) ((entry) >> 8)
#define ENTRY_COUNT(entry) ((entry)&255u)

struct list {
    uint32_t hash;
    uint32_t count, room; /* room 0: a free slot */
    uint32_t *entries;
};

struct passage {
    int64_t id, document;
    uint32_t group, words;
    float norm; /* of its vector; 0: none */
    bool gone;
};

struct meaning_index {
    unsigned dim, width; /* of vectors; padded */
    struct passage *passages;
    int8_t *vectors; /* width numbers each */
    size_t count, room, gone;
    struct list *lists; /* open addressing; slots are a power of two */
    size_t slots, used;
    unsigned shift;
    uint32_t salt; /* odd; keeps chosen words from sharing slots */
    size_t entry_bytes;
};

struct meaning_index *meaning_index_new(unsigned dim)
{
    struct meaning_index *x = xcalloc(1, sizeof(*x));

    x->dim = MIN(dim, MEANING_VECTOR_MAX);
    x->width = (x->dim + ALIGNED - 1) / ALIGNED * ALIGNED;
    x->slots = 1024;
    x->shift = 32 - 10;
    x->lists = xcalloc(x->slots, sizeof(*x->lists));
    ids_random(&x->salt, sizeof(x->salt));
    x->salt |= 1;
    return x;
}

void meaning_index_free(struct meaning_index *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->slots; i++)
        free(x->lists[i].entries);
    free(x->lists);
    free(x->passages);
    free(x->vectors);
    free(x);
}

size_t meaning_index_count(const struct meaning_index *x)
{
    return x->count - x->gone;
}

size_t meaning_index_bytes(const struct meaning_index *x)
{
    return sizeof(*x) + x->slots * sizeof(*x->lists) + x->entry_bytes +
           x->room * (sizeof(*x->passages) + x->width);
}

/* ---- lists -------------------------------------------------------------- */

/* The list of a term, or the free slot where it belongs. */
static struct list *slot_of(const struct meaning_index *x, uint32_t hash)
{
    size_t at = (uint32_t)(hash * x->salt) >> x->shift;

    while (x->lists[at].room && x->lists[at].hash != hash)
        at = (at + 1) & (x->slots - 1);
    return &x->lists[at];
}

static void grow_slots(struct meaning_index *x)
{
    struct list *old = x->lists;
    size_t slots = x->slots;

    x->slots *= 2;
    x->shift--;
    x->lists = xcalloc(x->slots, sizeof(*x->lists));
    for (size_t i = 0; i < slots; i++)
        if (old[i].room)
            *slot_of(x, old[i].hash) = old[i];
    free(old);
}

static void add_entry(struct meaning_index *x, const struct meaning_term *term,
                      size_t at)
{
    struct list *l = slot_of(x, term->hash);

    if (l->count == l->room) {
        uint32_t room = l->room ? l->room + l->room / 2 + 1 : 2;

        if (!l->room) {
            l->hash = term->hash;
            x->used++;
        }
        l->entries = xrealloc(l->entries, room * sizeof(*l->entries));
        x->entry_bytes += (room - l->room) * sizeof(*l->entries);
        l->room = room;
    }
    l->entries[l->count++] = ENTRY(at, MIN(term->count, 255u));
    if (x->used > x->slots / 2)
        grow_slots(x);
}

static float norm_of(const int8_t *vector, unsigned dim)
{
    int32_t sum = 0;

    for (unsigned d = 0; d < dim; d++)
        sum += vector[d] * vector[d];
    return sqrtf((float)sum);
}

bool meaning_index_add(struct meaning_index *x, int64_t passage,
                       int64_t document, uint32_t group,
                       const struct meaning_terms *terms, const int8_t *vector)
{
    int8_t *to;

    if (x->count == MEANING_INDEX_MAX ||
        (x->count && x->passages[x->count - 1].id >= passage))
        return false;
    if (x->count == x->room) {
        x->room = x->room ? x->room + x->room / 2 : 256;
        x->passages = xrealloc(x->passages, x->room * sizeof(*x->passages));
        x->vectors = xrealloc(x->vectors, MAX(x->room * x->width, 1));
    }
    to = x->vectors + x->count * x->width;
    memset(to, 0, x->width);
    if (vector)
        memcpy(to, vector, x->dim);
    x->passages[x->count] =
        (struct passage){.id = passage,
                         .document = document,
                         .group = group,
                         .words = terms->words,
                         .norm = vector ? norm_of(vector, x->dim) : 0};
    for (size_t i = 0; i < terms->count; i++)
        add_entry(x, &terms->items[i], x->count);
    x->count++;
    return true;
}

/* Passages are in the order of their ids. */
static struct passage *find_passage(const struct meaning_index *x, int64_t id)
{
    size_t low = 0, high = x->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (x->passages[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < x->count && x->passages[low].id == id ? &x->passages[low]
                                                       : NULL;
}

bool meaning_index_remove(struct meaning_index *x, int64_t passage)
{
    struct passage *p = find_passage(x, passage);

    if (!p || p->gone)
        return false;
    p->gone = true;
    x->gone++;
    memset(x->vectors + (size_t)(p - x->passages) * x->width, 0, x->width);
    return true;
}

/* ---- scores ------------------------------------------------------------- */

struct ranking {
    struct meaning_index *x;
    const struct meaning_query *q;
    uint8_t *seen;   /* may be found */
    size_t passages; /* that may */
    double average;  /* words of them */
    float *spread;   /* of BM25, by the passage's length */
    float *words, *cosine, *score;
};

static bool has_document(const struct meaning_query *q, int64_t document)
{
    size_t low = 0, high = q->document_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (q->documents[middle] < document)
            low = middle + 1;
        else
            high = middle;
    }
    return low < q->document_count && q->documents[low] == document;
}

static void mark_seen(struct ranking *r)
{
    double words = 0;

    for (size_t i = 0; i < r->x->count; i++) {
        const struct passage *p = &r->x->passages[i];

        r->seen[i] = !p->gone && p->group < r->q->group_count &&
                     r->q->groups[p->group] &&
                     (!r->q->documents || has_document(r->q, p->document));
        r->passages += r->seen[i];
        words += r->seen[i] ? p->words : 0;
    }
    r->average = r->passages ? MAX(words / (double)r->passages, 1) : 1;
    for (size_t i = 0; i < r->x->count; i++)
        r->spread[i] =
            (float)(K1 * (1 - B + B * r->x->passages[i].words / r->average));
}

/* How telling a term is among the passages that may be found. */
static double rarity(const struct ranking *r, uint32_t hash)
{
    const struct list *l = slot_of(r->x, hash);
    size_t has = l->count;

    if (r->passages < r->x->count) {
        has = 0;
        for (uint32_t i = 0; i < l->count; i++)
            has += r->seen[ENTRY_AT(l->entries[i])];
    }
    if (!has)
        return 0;
    return log(1 + ((double)(r->passages - has) + 0.5) / ((double)has + 0.5));
}

static void add_words(struct ranking *r, uint32_t hash, double weight)
{
    const struct list *l = slot_of(r->x, hash);
    float rare = (float)(weight * rarity(r, hash) * (K1 + 1));

    if (rare <= 0)
        return;
    for (uint32_t i = 0; i < l->count; i++) {
        size_t at = ENTRY_AT(l->entries[i]);
        float count = (float)ENTRY_COUNT(l->entries[i]);

        if (r->seen[at])
            r->words[at] += rare * count / (count + r->spread[at]);
    }
}

static int32_t product(const int8_t *a, const int8_t *b, unsigned width)
{
    int32_t sum = 0;

    for (unsigned d = 0; d < width; d++)
        sum += a[d] * b[d];
    return sum;
}

static void compare_vectors(struct ranking *r, const float *vector)
{
    int8_t *packed cleanup(mem_free) = xcalloc(r->x->width + 1, 1);
    float norm;

    meaning_vector_pack(vector, r->x->dim, packed);
    norm = norm_of(packed, r->x->dim);
    for (size_t i = 0; i < r->x->count; i++) {
        const struct passage *p = &r->x->passages[i];

        r->cosine[i] =
            r->seen[i] && p->norm > 0 && norm > 0
                ? (float)product(packed, r->x->vectors + i * r->x->width,
                                 r->x->width) /
                      (p->norm * norm)
                : 0;
    }
}

static void combine(struct ranking *r, enum meaning_mode mode)
{
    float most = 0;
    double share = mode == MEANING_WORDS    ? 1
                   : mode == MEANING_VECTOR ? 0
                                            : WORDS_SHARE;

    for (size_t i = 0; i < r->x->count; i++)
        most = fmaxf(most, r->words[i]);
    for (size_t i = 0; i < r->x->count; i++) {
        double words = most > 0 ? r->words[i] / most : 0;
        double cosine = r->cosine[i];
        bool found = r->seen[i] &&
                     ((share > 0 && words > 0) ||
                      (share < 1 &&
                       cosine >= (share > 0 ? COSINE_ALONE : COSINE_LEAST)));

        r->score[i] =
            found ? (float)(share * words + (1 - share) * MAX(cosine, 0)) : 0;
    }
}

/* ---- the best ----------------------------------------------------------- */

/* By score, then the older passage first: the order is always the same. */
static bool better(const struct ranking *r, uint32_t a, uint32_t b)
{
    return r->score[a] != r->score[b] ? r->score[a] > r->score[b] : a < b;
}

/* heap[0] is the worst that is kept. */
static void sift(const struct ranking *r, uint32_t *heap, size_t count,
                 size_t at)
{
    for (;;) {
        size_t worst = at, left = 2 * at + 1;
        uint32_t swap;

        if (left < count && better(r, heap[worst], heap[left]))
            worst = left;
        if (left + 1 < count && better(r, heap[worst], heap[left + 1]))
            worst = left + 1;
        if (worst == at)
            return;
        swap = heap[at];
        heap[at] = heap[worst];
        heap[worst] = swap;
        at = worst;
    }
}

/* The best `most` that have a score, best first; how many. */
static size_t best(const struct ranking *r, uint32_t *ret, size_t most)
{
    size_t count = 0;

    for (size_t i = 0; i < r->x->count; i++) {
        if (r->score[i] <= 0)
            continue;
        if (count < most) {
            ret[count++] = (uint32_t)i;
            if (count == most)
                for (size_t at = count / 2 + 1; at-- > 0;)
                    sift(r, ret, count, at);
        } else if (better(r, (uint32_t)i, ret[0])) {
            ret[0] = (uint32_t)i;
            sift(r, ret, count, 0);
        }
    }
    if (count < most)
        for (size_t at = count / 2 + 1; count && at-- > 0;)
            sift(r, ret, count, at);
    for (size_t end = count; end > 1; end--) {
        uint32_t swap = ret[0];

        ret[0] = ret[end - 1];
        ret[end - 1] = swap;
        sift(r, ret, end - 1, 0);
    }
    return count;
}

/* ---- relevance feedback ------------------------------------------------- */

struct candidate {
    uint32_t hash;
    float weight;
};

static int by_hash(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return (x->hash > y->hash) - (x->hash < y->hash);
}

static int by_weight(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return by_hash(a, b);
}

static bool asked(const struct meaning_terms *terms, uint32_t hash)
{
    for (size_t i = 0; i < terms->count; i++)
        if (terms->items[i].hash == hash)
            return true;
    return false;
}

/* Terms of the passages, each once with its weight, the best first. */
static size_t telling_terms(struct ranking *r, const uint32_t *top,
                            size_t count, struct candidate **ret)
{
    struct candidate *all = NULL;
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < count; i++) {
        const struct passage *p = &r->x->passages[top[i]];
        struct meaning_terms terms = {0};

        if (!r->q->terms_of(r->q->ctx, p->id, &terms))
            continue;
        all = xrealloc(all, (n + terms.count + 1) * sizeof(*all));
        for (size_t t = 0; t < terms.count; t++)
            if (!asked(r->q->terms, terms.items[t].hash))
                all[n++] = (struct candidate){
                    terms.items[t].hash,
                    (float)(r->score[top[i]] * terms.items[t].count /
                            MAX(terms.words, 1u))};
        meaning_terms_done(&terms);
    }
    if (n)
        qsort(all, n, sizeof(*all), by_hash);
    for (size_t i = 0; i < n; i++) {
        if (kept && all[kept - 1].hash == all[i].hash)
            all[kept - 1].weight += all[i].weight;
        else
            all[kept++] = all[i];
    }
    for (size_t i = 0; i < kept; i++)
        all[i].weight *= (float)rarity(r, all[i].hash);
    if (kept)
        qsort(all, kept, sizeof(*all), by_weight);
    *ret = all;
    return kept;
}

static void pull_vector(const struct ranking *r, const uint32_t *top,
                        size_t count, float *vector)
{
    unsigned dim = r->x->dim;
    double length = 0;

    for (unsigned d = 0; d < dim; d++)
        length += (double)vector[d] * vector[d];
    if (length <= 0)
        return;
    for (unsigned d = 0; d < dim; d++)
        vector[d] = (float)(vector[d] / sqrt(length));
    for (size_t i = 0; i < count; i++) {
        const struct passage *p = &r->x->passages[top[i]];

        for (unsigned d = 0; p->norm > 0 && d < dim; d++)
            vector[d] += FEEDBACK_PULL / (float)count *
                         r->x->vectors[top[i] * r->x->width + d] / p->norm;
    }
}

static void feed_back(struct ranking *r)
{
    struct candidate *terms cleanup(mem_free) = NULL;
    float *vector cleanup(mem_free) = NULL;
    uint32_t top[FEEDBACK];
    size_t count = best(r, top, FEEDBACK);
    size_t n = count ? telling_terms(r, top, count, &terms) : 0;

    for (size_t i = 0; i < MIN(n, FEEDBACK_TERMS); i++)
        add_words(r, terms[i].hash,
                  FEEDBACK_WEIGHT * terms[i].weight / terms[0].weight);
    if (!r->q->vector || !count)
        return;
    vector = xmalloc((r->x->dim + 1) * sizeof(*vector));
    memcpy(vector, r->q->vector, r->x->dim * sizeof(*vector));
    pull_vector(r, top, count, vector);
    compare_vectors(r, vector);
}

/* ---- answering ---------------------------------------------------------- */

/* Leaves out what is over the limit of a document. */
static size_t pick(const struct ranking *r, const uint32_t *top, size_t count,
                   struct meaning_hit *ret)
{
    size_t n = 0;
    float most = 0;

    for (size_t i = 0; i < r->x->count; i++)
        most = fmaxf(most, r->words[i]);
    for (size_t i = 0; i < count && n < r->q->limit; i++) {
        const struct passage *p = &r->x->passages[top[i]];
        unsigned same = 0;

        for (size_t k = 0; r->q->per_document && k < n; k++)
            same += ret[k].document == p->document;
        if (r->q->per_document && same >= r->q->per_document)
            continue;
        ret[n++] = (struct meaning_hit){
            .passage = p->id,
            .document = p->document,
            .score = MIN(MAX((double)r->score[top[i]], 0), 1),
            .words = most > 0 ? r->words[top[i]] / most : 0,
            .cosine = r->cosine[top[i]],
        };
    }
    return n;
}

static size_t answer(const struct ranking *r, struct meaning_hit *ret)
{
    size_t most = MIN((size_t)r->q->limit * 4 + 16, MAX(r->x->count, 1));

    for (;;) {
        uint32_t *top cleanup(mem_free) = xmalloc(most * sizeof(*top));
        size_t count = best(r, top, most);
        size_t n = pick(r, top, count, ret);

        if (n == r->q->limit || count < most || most == r->x->count)
            return n;
        most = MIN(most * 4, r->x->count);
    }
}

size_t meaning_index_rank(struct meaning_index *x,
                          const struct meaning_query *q,
                          struct meaning_hit *ret)
{
    uint8_t *seen cleanup(mem_free) = xcalloc(x->count + 1, 1);
    float *scores cleanup(mem_free) =
        xcalloc(4 * (x->count + 1), sizeof(*scores));
    struct ranking r = {.x = x,
                        .q = q,
                        .seen = seen,
                        .words = scores,
                        .cosine = scores + x->count,
                        .score = scores + 2 * x->count,
                        .spread = scores + 3 * x->count};
    enum meaning_mode mode = q->vector ? q->mode : MEANING_WORDS;

    mark_seen(&r);
    if (!r.passages || !q->limit)
        return 0;
    for (size_t i = 0; mode != MEANING_VECTOR && i < q->terms->count; i++)
        add_words(&r, q->terms->items[i].hash, 1);
    if (mode != MEANING_WORDS)
        compare_vectors(&r, q->vector);
    combine(&r, mode);
    if (q->mode == MEANING_BOTH && q->terms_of) {
        feed_back(&r);
        combine(&r, mode);
    }
    return answer(&r, ret);
}
