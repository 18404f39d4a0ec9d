/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the ranking of src/meaning on a judged set, and how long a query
 * takes over many passages; no service, one process.
 *
 *   judged quality DIR [dev|test]   nDCG@10 of each way to rank
 *   judged speed PASSAGES           milliseconds a query, bytes of memory
 *
 * DIR holds passages.txt ("ID TEXT" a line) and queries.txt ("SET QUESTION |
 * ID=GRADE ..." a line). Prints "name value" lines.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "meaning/meaning.h"

#define PASSAGES_MAX 2000u
#define DEPTH 10u

static double now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long peak_kib(void)
{
    struct rusage u;

    (void)getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* ---- quality ------------------------------------------------------------ */

struct set {
    char *ids[PASSAGES_MAX];
    struct meaning_terms terms[PASSAGES_MAX];
    size_t count;
    struct meaning_model *model;
    struct meaning_index *index;
};

static bool terms_of(void *ctx, int64_t passage, struct meaning_terms *ret)
{
    struct set *s = ctx;
    struct buf packed cleanup(buf_done) = {0};

    meaning_terms_pack(&packed, &s->terms[passage - 1]);
    return meaning_terms_unpack(ret, packed.data, packed.len);
}

static int load(struct set *s, const char *dir)
{
    char *path cleanup(mem_free) = xasprintf("%s/passages.txt", dir);
    struct meaning_trainer *trainer = meaning_trainer_new();
    FILE *file = fopen(path, "re");
    char line[4096];
    struct error err;

    if (!file)
        return -1;
    while (fgets(line, sizeof(line), file) && s->count < PASSAGES_MAX) {
        char *space = strchr(line, ' ');

        if (!space)
            continue;
        *space = '\0';
        s->ids[s->count] = xstrdup(line);
        meaning_terms_read(&s->terms[s->count], space + 1, strlen(space + 1));
        (void)meaning_trainer_add(trainer, &s->terms[s->count++]);
    }
    (void)fclose(file);
    if (meaning_train(trainer, NULL, &s->model, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.message);
        return -1;
    }
    meaning_trainer_free(trainer);
    s->index = meaning_index_new(meaning_model_dim(s->model));
    for (size_t i = 0; i < s->count; i++) {
        float vector[MEANING_DIM_MAX];
        int8_t packed[MEANING_DIM_MAX];
        bool known = meaning_model_fold(s->model, &s->terms[i], vector);

        meaning_vector_pack(vector, meaning_model_dim(s->model), packed);
        (void)meaning_index_add(s->index, (int64_t)i + 1, (int64_t)i + 1, 0,
                                &s->terms[i], known ? packed : NULL);
    }
    return 0;
}

static double grade_of(const char *judgements, const char *id)
{
    size_t len = strlen(id);

    for (const char *at = judgements; (at = strstr(at, id)); at++)
        if ((at == judgements || at[-1] == ' ') && at[len] == '=')
            return at[len + 1] - '0';
    return 0;
}

static double gain(double grade, size_t rank)
{
    return (pow(2, grade) - 1) / log2((double)rank + 2);
}

static double ideal(const char *judgements)
{
    size_t rank = 0;
    double sum = 0;

    for (char grade = '2'; grade >= '1'; grade--)
        for (const char *at = judgements; (at = strchr(at, '=')); at++)
            if (at[1] == grade && rank < DEPTH)
                sum += gain(grade - '0', rank++);
    return sum;
}

static double ndcg(struct set *s, const char *question, const char *judgements,
                   enum meaning_mode mode, bool feedback)
{
    struct meaning_terms terms cleanup(meaning_terms_done) = {0};
    struct meaning_hit hits[DEPTH];
    float vector[MEANING_DIM_MAX];
    bool seen = true;
    struct meaning_query q = {.mode = mode,
                              .terms = &terms,
                              .groups = &seen,
                              .group_count = 1,
                              .limit = DEPTH,
                              .terms_of = feedback ? terms_of : NULL,
                              .ctx = s};
    double sum = 0;
    size_t count;

    meaning_terms_read(&terms, question, strlen(question));
    if (meaning_model_fold(s->model, &terms, vector))
        q.vector = vector;
    count = meaning_index_rank(s->index, &q, hits);
    for (size_t i = 0; i < count; i++)
        sum += gain(grade_of(judgements, s->ids[hits[i].passage - 1]), i);
    return sum / ideal(judgements);
}

static int quality(const char *dir, const char *which)
{
    static const struct {
        const char *name;
        enum meaning_mode mode;
        bool feedback;
    } ways[] = {
        {"bm25", MEANING_WORDS, false},
        {"semantic", MEANING_VECTOR, false},
        {"both", MEANING_BOTH, false},
        {"hybrid", MEANING_BOTH, true},
    };
    static struct set s;
    char *path cleanup(mem_free) = xasprintf("%s/queries.txt", dir);
    double sums[ARRAY_SIZE(ways)] = {0};
    FILE *file = fopen(path, "re");
    size_t queries = 0;
    char line[4096];

    if (!file || load(&s, dir) < 0)
        return 1;
    while (fgets(line, sizeof(line), file)) {
        char *space = strchr(line, ' '), *bar = strrchr(line, '|');

        if (!space || !bar || strncmp(line, which, strlen(which)) != 0)
            continue;
        *bar = '\0';
        bar[strcspn(bar + 1, "\n") + 1] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
            sums[i] +=
                ndcg(&s, space + 1, bar + 2, ways[i].mode, ways[i].feedback);
        queries++;
    }
    (void)fclose(file);
    (void)printf("passages %zu\nqueries %zu\ndimensions %u\n", s.count,
                 queries, meaning_model_dim(s.model));
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
        (void)printf("%s %.4f\n", ways[i].name,
                     queries ? sums[i] / (double)queries : 0);
    return 0;
}

/* ---- speed -------------------------------------------------------------- */

/* Words in about the proportions of real text: the n-th as often as 1/n. */
static uint32_t random_word(uint64_t *state)
{
    double u;

    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    u = (double)(*state >> 11) / 9007199254740992.0;
    return (uint32_t)exp(u * log(60000.0));
}

static void random_text(uint64_t *state, struct buf *out)
{
    buf_reset(out);
    for (unsigned i = 0; i < 110; i++)
        buf_addf(out, "word%u ", random_word(state) * 7919u % 60013u);
}

static struct meaning_model *train(const struct meaning_terms *all,
                                   size_t count)
{
    struct meaning_trainer *t = meaning_trainer_new();
    struct meaning_model *model = NULL;
    size_t step = count / MEANING_SAMPLE_MAX + 1;
    double began;
    struct error err;

    for (size_t i = 0; i < count; i += step)
        (void)meaning_trainer_add(t, &all[i]);
    began = now_ms();
    if (meaning_train(t, NULL, &model, &err) < 0)
        (void)fprintf(stderr, "%s\n", err.message);
    else
        (void)printf("train_ms %.0f\nterms %zu\n", now_ms() - began,
                     meaning_model_terms(model));
    meaning_trainer_free(t);
    return model;
}

struct kept {
    const struct meaning_terms *all;
};

static bool kept_terms(void *ctx, int64_t passage, struct meaning_terms *ret)
{
    struct kept *k = ctx;
    struct buf packed cleanup(buf_done) = {0};

    meaning_terms_pack(&packed, &k->all[passage - 1]);
    return meaning_terms_unpack(ret, packed.data, packed.len);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int speed(size_t count)
{
    struct meaning_terms *all = xcalloc(count, sizeof(*all));
    struct buf text cleanup(buf_done) = {0};
    struct meaning_index *index;
    struct meaning_model *model;
    struct kept kept = {all};
    double times[200];
    uint64_t state = 1;
    bool seen = true;
    double began;

    for (size_t i = 0; i < count; i++) {
        random_text(&state, &text);
        meaning_terms_read(&all[i], text.data, text.len);
    }
    model = train(all, count);
    if (!model)
        return 1;
    index = meaning_index_new(meaning_model_dim(model));
    began = now_ms();
    for (size_t i = 0; i < count; i++) {
        float vector[MEANING_DIM_MAX];
        int8_t packed[MEANING_DIM_MAX];
        bool known = meaning_model_fold(model, &all[i], vector);

        meaning_vector_pack(vector, meaning_model_dim(model), packed);
        (void)meaning_index_add(index, (int64_t)i + 1, (int64_t)i + 1, 0,
                                &all[i], known ? packed : NULL);
    }
    (void)printf("load_ms %.0f\n", now_ms() - began);
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        struct meaning_terms terms cleanup(meaning_terms_done) = {0};
        struct meaning_hit hits[50];
        float vector[MEANING_DIM_MAX];
        struct meaning_query q = {.mode = MEANING_BOTH,
                                  .terms = &terms,
                                  .groups = &seen,
                                  .group_count = 1,
                                  .limit = 50,
                                  .per_document = 1,
                                  .terms_of = kept_terms,
                                  .ctx = &kept};

        buf_reset(&text);
        for (unsigned w = 0; w < 8; w++)
            buf_addf(&text, "word%u ", random_word(&state) * 7919u % 60013u);
        began = now_ms();
        meaning_terms_read(&terms, text.data, text.len);
        if (meaning_model_fold(model, &terms, vector))
            q.vector = vector;
        (void)meaning_index_rank(index, &q, hits);
        times[i] = now_ms() - began;
    }
    qsort(times, ARRAY_SIZE(times), sizeof(times[0]), by_value);
    (void)printf("passages %zu\nquery_p50_ms %.2f\nquery_p95_ms %.2f\n"
                 "index_bytes %zu\nmodel_bytes %zu\npeak_kib %ld\n",
                 count, times[ARRAY_SIZE(times) / 2],
                 times[ARRAY_SIZE(times) * 95 / 100],
                 meaning_index_bytes(index), meaning_model_bytes(model),
                 peak_kib());
    meaning_index_free(index);
    meaning_model_free(model);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "quality") == 0)
        return quality(argv[2], argc > 3 ? argv[3] : "test");
    if (argc == 3 && strcmp(argv[1], "speed") == 0)
        return speed(strtoul(argv[2], NULL, 10));
    (void)fprintf(stderr, "usage: judged quality DIR [dev|test] | speed N\n");
    return 2;
}
