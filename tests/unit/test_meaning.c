/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meaning: words become terms, texts become passages, passages become a model
 * whose vectors are orthonormal and put related words together; the model
 * survives storing and no damage to it goes unnoticed; ranking sees what it
 * may see and nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "meaning/meaning_int.h"

/* ---- terms -------------------------------------------------------------- */

static struct meaning_terms terms(const char *text)
{
    struct meaning_terms t;

    meaning_terms_read(&t, text, strlen(text));
    return t;
}

static bool same_terms(const char *a, const char *b)
{
    struct meaning_terms x cleanup(meaning_terms_done) = terms(a);
    struct meaning_terms y cleanup(meaning_terms_done) = terms(b);

    if (x.count != y.count)
        return false;
    for (size_t i = 0; i < x.count; i++)
        if (x.items[i].hash != y.items[i].hash)
            return false;
    return true;
}

static void terms_read_stems_and_folds_case(void **state)
{
    struct meaning_terms t cleanup(meaning_terms_done) =
        terms("The brakes, braking; BRAKE! and a b 7");

    (void)state;
    assert_true(same_terms("running", "runs"));
    assert_true(same_terms("Größe", "grÖße"));
    assert_true(same_terms("ДОМ", "дом"));
    assert_false(same_terms("house", "horse"));
    assert_int_equal(t.count, 2); /* brake and 7 */
    assert_int_equal(t.words, 4);
    assert_true(same_terms("the of and", ""));
    assert_true(same_terms("a\xff\xfe dog", "dog")); /* not UTF-8 */
}

static void terms_read_pairs_characters_without_spaces(void **state)
{
    struct meaning_terms t cleanup(meaning_terms_done) = terms("東京都");

    (void)state;
    assert_int_equal(t.count, 5); /* three characters, two pairs */
    assert_true(same_terms("東京都", "東\u200b京\u200b都\u200b"));
}

static void terms_read_leaves_out_long_runs_and_caps_the_rest(void **state)
{
    struct buf text cleanup(buf_done) = {0};
    char run[65] = "";

    (void)state;
    memset(run, 'x', 60);
    assert_false(same_terms(run, ""));
    memset(run, 'x', 64);
    assert_true(same_terms(run, ""));
    for (unsigned i = 0; i < MEANING_TERMS_MAX + 500; i++)
        buf_addf(&text, "%u ", 100000 + i);
    struct meaning_terms t cleanup(meaning_terms_done) = terms(text.data);

    assert_int_equal(t.count, MEANING_TERMS_MAX);
}

static void terms_pack_round_trip_and_refuse_other_bytes(void **state)
{
    struct meaning_terms t cleanup(meaning_terms_done) =
        terms("one two two three three three");
    struct meaning_terms back cleanup(meaning_terms_done) = {0};
    struct meaning_terms none = {0};
    struct buf packed cleanup(buf_done) = {0};

    (void)state;
    meaning_terms_pack(&packed, &t);
    assert_true(meaning_terms_unpack(&back, packed.data, packed.len));
    assert_int_equal(back.count, t.count);
    assert_int_equal(back.words, 5); /* "one" is a stop word */
    assert_memory_equal(back.items, t.items, t.count * sizeof(*t.items));
    assert_false(meaning_terms_unpack(&none, packed.data, packed.len - 1));
    packed.data[4] = 0; /* a term that does not occur */
    assert_false(meaning_terms_unpack(&none, packed.data, packed.len));
    packed.data[4] = 1;
    memset(packed.data, 0xff, 4); /* out of order */
    assert_false(meaning_terms_unpack(&none, packed.data, packed.len));
    assert_true(meaning_terms_unpack(&none, NULL, 0));
    meaning_terms_done(&none);
}

/* ---- passages ----------------------------------------------------------- */

static void cut_keeps_lines_whole_and_counts_them(void **state)
{
    struct buf text cleanup(buf_done) = {0};
    struct meaning_passage *p cleanup(mem_free) = NULL;
    uint32_t next = 1;
    size_t count;

    (void)state;
    for (unsigned i = 1; i <= 200; i++)
        buf_addf(&text, "This is line number %u of the text.\n", i);
    count = meaning_cut(text.data, text.len, false, &p);
    assert_in_range(count, 5, 20);
    for (size_t i = 0; i < count; i++) {
        char begin[64];

        assert_int_equal(p[i].line, next);
        assert_int_equal(p[i].page, 0);
        assert_true(p[i].len <= 1000);
        (void)snprintf(begin, sizeof(begin), "This is line number %u of",
                       p[i].line);
        assert_memory_equal(text.data + p[i].start, begin, strlen(begin));
        next = p[i].line_end + 1;
    }
    assert_int_equal(next, 201);
}

static void cut_ends_at_pages_and_cuts_long_lines(void **state)
{
    struct meaning_passage *p = NULL;
    struct buf text cleanup(buf_done) = {0};
    size_t count = meaning_cut("one\ftwo\n\f\fthree", 15, true, &p);

    (void)state;
    assert_int_equal(count, 3);
    assert_int_equal(p[0].page, 1);
    assert_int_equal(p[1].page, 2);
    assert_int_equal(p[2].page, 4);
    free(p);
    for (unsigned i = 0; i < 2000; i++)
        buf_adds(&text, "äöü"); /* no space to cut at */
    count = meaning_cut(text.data, text.len, false, &p);
    assert_in_range(count, 5, 30);
    for (size_t i = 0, at = 0; i < count; i++) {
        assert_int_equal(p[i].start, at);
        at += p[i].len;
        assert_int_equal(p[i].line, 1);
        assert_int_not_equal(text.data[p[i].start] & 0xc0, 0x80);
    }
    free(p);
    assert_int_equal(meaning_cut("", 0, false, &p), 0);
    free(p);
    assert_int_equal(meaning_cut("\n \n\t\n", 5, false, &p), 0);
    free(p);
}

static void cut_stops_at_its_limit(void **state)
{
    size_t len = (size_t)1000 * (MEANING_PASSAGES_MAX + 10);
    char *text = malloc(len);
    struct meaning_passage *p = NULL;

    (void)state;
    memset(text, 'x', len);
    for (size_t i = 999; i < len; i += 1000)
        text[i] = '\n';
    assert_int_equal(meaning_cut(text, len, false, &p), MEANING_PASSAGES_MAX);
    free(p);
    assert_int_equal(meaning_cut(text, 1000 * 7, false, &p), 7);
    free(p);
    free(text);
}

/* ---- training ----------------------------------------------------------- */

/* Two subjects that share no word. "holiday" and "vacation" are never in one
 * passage, but in the same company. */
static const char *const subjects[2][7] = {
    {"holiday leave employee manager days", "vacation leave manager days year",
     "holiday days year notice employee", "vacation employee notice leave",
     "manager notice year leave", "holiday leave notice",
     "vacation days year"},
    {"dough yeast flour oven", "loaf crust oven flour",
     "yeast flour water loaf", "dough water oven", "crust loaf yeast",
     "flour water dough", "oven crust"},
};

static struct meaning_trainer *trainer_of(unsigned times)
{
    struct meaning_trainer *t = meaning_trainer_new();

    for (unsigned n = 0; n < times; n++)
        for (unsigned s = 0; s < 2; s++)
            for (unsigned i = 0; i < 7; i++) {
                struct meaning_terms one cleanup(meaning_terms_done) =
                    terms(subjects[s][i]);

                assert_true(meaning_trainer_add(t, &one));
            }
    return t;
}

static struct meaning_model *model_of(unsigned times)
{
    struct meaning_trainer *t = trainer_of(times);
    struct meaning_model *m = NULL;
    struct error err;

    assert_int_equal(meaning_train(t, NULL, &m, &err), 0);
    meaning_trainer_free(t);
    return m;
}

static double cosine(const struct meaning_model *m, const char *a,
                     const char *b)
{
    struct meaning_terms x cleanup(meaning_terms_done) = terms(a);
    struct meaning_terms y cleanup(meaning_terms_done) = terms(b);
    float u[MEANING_DIM_MAX], v[MEANING_DIM_MAX];
    double uv = 0, uu = 0, vv = 0;

    assert_true(meaning_model_fold(m, &x, u));
    assert_true(meaning_model_fold(m, &y, v));
    for (unsigned d = 0; d < m->dim; d++) {
        uv += u[d] * v[d];
        uu += u[d] * u[d];
        vv += v[d] * v[d];
    }
    return uv / sqrt(uu * vv);
}

static void train_finds_orthonormal_directions(void **state)
{
    struct meaning_model *m = model_of(4);

    (void)state;
    assert_true(m->dim >= 2);
    for (unsigned d = 0; d < m->dim; d++)
        for (unsigned e = d; e < m->dim; e++) {
            double sum = 0;

            for (size_t i = 0; i < m->count; i++)
                sum += m->factors[i] * m->vectors[i * m->dim + d] *
                       m->factors[i] * m->vectors[i * m->dim + e];
            assert_true(fabs(sum - (d == e)) < 0.05);
        }
    meaning_model_free(m);
}

static void train_puts_words_of_one_company_together(void **state)
{
    struct meaning_model *m = model_of(1);

    (void)state;
    assert_true(cosine(m, "holiday", "vacation") > 0.6);
    assert_true(fabs(cosine(m, "holiday", "dough")) < 0.2);
    /* A text that came later is near its subject. */
    assert_true(cosine(m, "the vacations of an employee", "leave") > 0.6);
    assert_true(fabs(cosine(m, "crusty loaves of flour", "manager")) < 0.2);
    meaning_model_free(m);
}

static void train_gives_the_same_model_for_the_same_text(void **state)
{
    struct meaning_model *a = model_of(2), *b = model_of(2);
    struct buf x cleanup(buf_done) = {0}, y cleanup(buf_done) = {0};

    (void)state;
    meaning_model_pack(&x, a);
    meaning_model_pack(&y, b);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    meaning_model_free(a);
    meaning_model_free(b);
}

/* 48 passages of 8 of 60 words each, forwards or backwards. */
static struct meaning_model *model_in_order(bool backwards)
{
    struct meaning_trainer *t = meaning_trainer_new();
    struct meaning_model *m = NULL;
    struct error err;

    for (unsigned n = 0; n < 48; n++) {
        unsigned passage = backwards ? 47 - n : n, seed = passage * 7919 + 13;
        struct buf text cleanup(buf_done) = {0};

        for (unsigned i = 0; i < 8; i++) {
            seed = seed * 1103515245u + 12345u;
            buf_addf(&text, "word%u ", (seed >> 16) % 60);
        }
        struct meaning_terms one cleanup(meaning_terms_done) =
            terms(text.data);

        assert_true(meaning_trainer_add(t, &one));
    }
    assert_int_equal(meaning_train(t, NULL, &m, &err), 0);
    meaning_trainer_free(t);
    return m;
}

static void train_of_a_small_corpus_ignores_its_order(void **state)
{
    struct meaning_model *a = model_in_order(false);
    struct meaning_model *b = model_in_order(true);

    (void)state;
    assert_int_equal(a->dim, b->dim);
    for (unsigned i = 0; i + 1 < 60; i++) {
        char x[16], y[16];

        (void)snprintf(x, sizeof(x), "word%u", i);
        (void)snprintf(y, sizeof(y), "word%u", i + 1);
        assert_true(fabs(cosine(a, x, y) - cosine(b, x, y)) < 0.03);
    }
    meaning_model_free(a);
    meaning_model_free(b);
}

static void train_needs_enough_passages_with_words_in_common(void **state)
{
    struct meaning_trainer *t = meaning_trainer_new();
    struct meaning_model *m = NULL;
    struct meaning_terms one cleanup(meaning_terms_done) = terms("dough oven");
    struct meaning_terms none = {0};
    struct error err;

    (void)state;
    for (unsigned i = 0; i < MEANING_LEAST - 1; i++)
        assert_true(meaning_trainer_add(t, i % 2 ? &one : &one));
    assert_true(meaning_trainer_add(t, &none)); /* does not count */
    assert_int_equal(meaning_train(t, NULL, &m, &err), -ERR_CONFLICT);
    meaning_trainer_free(t);
    t = meaning_trainer_new();
    for (unsigned i = 0; i < MEANING_LEAST; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "lone%u", i);
        struct meaning_terms lone cleanup(meaning_terms_done) = terms(text);

        assert_true(meaning_trainer_add(t, &lone));
    }
    assert_int_equal(meaning_train(t, NULL, &m, &err), -ERR_CONFLICT);
    meaning_trainer_free(t);
}

static void train_stops_when_told(void **state)
{
    struct meaning_trainer *t = trainer_of(1);
    struct meaning_model *m = NULL;
    atomic_bool stop = true;
    struct error err;

    (void)state;
    assert_int_equal(meaning_train(t, &stop, &m, &err), -ERR_UNAVAILABLE);
    assert_null(m);
    meaning_trainer_free(t);
}

static void trainer_is_full_at_its_limit(void **state)
{
    struct meaning_trainer *t = meaning_trainer_new();
    struct meaning_terms one cleanup(meaning_terms_done) = terms("dough oven");

    (void)state;
    for (unsigned i = 0; i < MEANING_SAMPLE_MAX; i++)
        assert_true(meaning_trainer_add(t, &one));
    assert_false(meaning_trainer_add(t, &one));
    meaning_trainer_free(t);
}

/* ---- the model ---------------------------------------------------------- */

static void model_survives_storing(void **state)
{
    struct meaning_model *m = model_of(1), *back = NULL;
    struct buf packed cleanup(buf_done) = {0};
    struct error err;
    double before = cosine(m, "holiday", "vacation year");

    (void)state;
    meaning_model_pack(&packed, m);
    assert_int_equal(
        meaning_model_unpack(packed.data, packed.len, &back, &err), 0);
    assert_true(cosine(back, "holiday", "vacation year") == before);
    meaning_model_free(m);
    meaning_model_free(back);
}

static void D3_model_damage_is_noticed(void **state)
{
    struct meaning_model *m = model_of(1), *back = NULL;
    struct buf packed cleanup(buf_done) = {0};
    struct error err;

    (void)state;
    meaning_model_pack(&packed, m);
    meaning_model_free(m);
    for (size_t i = 0; i < packed.len; i++) {
        packed.data[i] ^= 0x10;
        assert_int_equal(
            meaning_model_unpack(packed.data, packed.len, &back, &err),
            -ERR_CORRUPT);
        packed.data[i] ^= 0x10;
    }
    for (size_t len = 0; len < packed.len; len += 1 + len / 7)
        assert_int_equal(meaning_model_unpack(packed.data, len, &back, &err),
                         -ERR_CORRUPT);
    assert_int_equal(meaning_model_unpack(NULL, 0, &back, &err), -ERR_CORRUPT);
    assert_null(back);
}

static void vector_pack_takes_any_numbers(void **state)
{
    const float odd[4] = {NAN, INFINITY, 1, 0}, zero[4] = {0};
    const float plain[4] = {0.5f, -1, 0.25f, 0};
    int8_t packed[4];

    (void)state;
    meaning_vector_pack(odd, 4, packed);
    assert_int_equal(packed[2], 0);
    meaning_vector_pack(zero, 4, packed);
    assert_int_equal(packed[0], 0);
    meaning_vector_pack(plain, 4, packed);
    assert_int_equal(packed[1], -127);
    assert_int_equal(packed[0], 64);
}

/* ---- ranking ------------------------------------------------------------ */

struct shelf {
    struct meaning_model *model;
    struct meaning_index *index;
    char texts[64][160];
    int64_t last;
};

static bool terms_of(void *ctx, int64_t passage, struct meaning_terms *ret)
{
    struct shelf *s = ctx;

    *ret = terms(s->texts[passage]);
    return true;
}

static void put(struct shelf *s, uint32_t group, int64_t document,
                const char *text)
{
    struct meaning_terms t cleanup(meaning_terms_done) = terms(text);
    float vector[MEANING_DIM_MAX];
    int8_t packed[MEANING_DIM_MAX];
    bool known = meaning_model_fold(s->model, &t, vector);

    meaning_vector_pack(vector, s->model->dim, packed);
    (void)snprintf(s->texts[++s->last], sizeof(s->texts[0]), "%s", text);
    assert_true(meaning_index_add(s->index, s->last, document, group, &t,
                                  known ? packed : NULL));
}

static struct shelf *shelf_new(void)
{
    struct shelf *s = xcalloc(1, sizeof(*s));

    s->model = model_of(1);
    s->index = meaning_index_new(s->model->dim);
    for (unsigned n = 0; n < 2; n++)
        for (unsigned i = 0; i < 7; i++)
            put(s, n, s->last + 1, subjects[n][i]);
    return s;
}

static void shelf_free(struct shelf *s)
{
    meaning_index_free(s->index);
    meaning_model_free(s->model);
    free(s);
}

static size_t rank(struct shelf *s, const char *text, enum meaning_mode mode,
                   const bool *groups, struct meaning_hit *ret)
{
    struct meaning_terms t cleanup(meaning_terms_done) = terms(text);
    float vector[MEANING_DIM_MAX];
    bool known = meaning_model_fold(s->model, &t, vector);

    return meaning_index_rank(
        s->index,
        &(struct meaning_query){.mode = mode,
                                .terms = &t,
                                .vector = known ? vector : NULL,
                                .groups = groups,
                                .group_count = 2,
                                .limit = 20,
                                .terms_of = terms_of,
                                .ctx = s},
        ret);
}

static const bool both[2] = {true, true}, first[2] = {true, false},
                  second[2] = {false, true};

static void rank_by_words_prefers_rare_words_and_short_passages(void **state)
{
    struct shelf *s = shelf_new();
    struct meaning_hit hits[20];
    size_t n = rank(s, "crust oven", MEANING_WORDS, both, hits);

    (void)state;
    assert_int_equal(n, 5);
    assert_string_equal(s->texts[hits[0].passage], "oven crust");
    assert_string_equal(s->texts[hits[1].passage], "loaf crust oven flour");
    assert_true(hits[0].score > hits[1].score && hits[0].score <= 1);
    shelf_free(s);
}

static void rank_by_vector_finds_other_words(void **state)
{
    struct shelf *s = shelf_new();
    struct meaning_hit hits[20];
    size_t n = rank(s, "vacation", MEANING_VECTOR, both, hits);
    bool other = false;

    (void)state;
    assert_true(n >= 5);
    for (size_t i = 0; i < n; i++) {
        assert_true(hits[i].passage <= 7); /* of that subject alone */
        other |= strstr(s->texts[hits[i].passage], "holiday") != NULL;
    }
    assert_true(other);
    n = rank(s, "vacation", MEANING_BOTH, both, hits);
    assert_non_null(strstr(s->texts[hits[0].passage], "vacation"));
    assert_true(n >= 5);
    shelf_free(s);
}

static void I8_rank_uses_statistics_of_what_may_be_found_alone(void **state)
{
    struct shelf *s = shelf_new();
    struct meaning_hit alone[20], beside[20];
    size_t n = rank(s, "oven flour", MEANING_BOTH, second, alone);

    (void)state;
    /* Unseen passages with the same words change no score. */
    for (unsigned i = 0; i < 30; i++)
        put(s, 0, 100 + i, "oven oven flour secret");
    assert_int_equal(rank(s, "oven flour", MEANING_BOTH, second, beside), n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(alone[i].passage, beside[i].passage);
        assert_true(alone[i].score == beside[i].score);
    }
    assert_int_equal(rank(s, "secret", MEANING_WORDS, second, beside), 0);
    assert_int_equal(rank(s, "secret", MEANING_WORDS, first, beside), 20);
    shelf_free(s);
}

static void D10_rank_never_finds_what_was_removed(void **state)
{
    struct shelf *s = shelf_new();
    struct meaning_hit hits[20];

    (void)state;
    assert_true(meaning_index_remove(s->index, 14));
    assert_false(meaning_index_remove(s->index, 14));
    assert_false(meaning_index_remove(s->index, 99));
    assert_int_equal(meaning_index_count(s->index), 13);
    for (enum meaning_mode m = MEANING_WORDS; m <= MEANING_BOTH; m++) {
        size_t n = rank(s, "oven crust", m, both, hits);

        assert_true(n > 0);
        for (size_t i = 0; i < n; i++)
            assert_int_not_equal(hits[i].passage, 14);
    }
    shelf_free(s);
}

static void rank_limits_hits_of_a_document_and_filters(void **state)
{
    struct shelf *s = shelf_new();
    struct meaning_terms t cleanup(meaning_terms_done) = terms("flour");
    struct meaning_hit hits[20];
    const int64_t wanted[2] = {8, 60};
    struct meaning_query q = {.mode = MEANING_WORDS,
                              .terms = &t,
                              .groups = both,
                              .group_count = 2,
                              .limit = 20,
                              .per_document = 2};

    (void)state;
    for (unsigned i = 0; i < 9; i++)
        put(s, 1, 60, "flour and flour again");
    assert_int_equal(meaning_index_rank(s->index, &q, hits), 6);
    q.documents = wanted;
    q.document_count = 2;
    assert_int_equal(meaning_index_rank(s->index, &q, hits), 3);
    q.limit = 1;
    assert_int_equal(meaning_index_rank(s->index, &q, hits), 1);
    q.group_count = 0;
    assert_int_equal(meaning_index_rank(s->index, &q, hits), 0);
    shelf_free(s);
}

static void index_takes_passages_in_order_up_to_its_limit(void **state)
{
    struct meaning_index *x = meaning_index_new(0);
    struct meaning_terms none = {0};

    (void)state;
    assert_true(meaning_index_add(x, 5, 1, 0, &none, NULL));
    assert_false(meaning_index_add(x, 5, 1, 0, &none, NULL));
    assert_false(meaning_index_add(x, 4, 1, 0, &none, NULL));
    for (int64_t i = 1; i < MEANING_INDEX_MAX; i++)
        assert_true(meaning_index_add(x, 5 + i, 1, 0, &none, NULL));
    assert_false(
        meaning_index_add(x, MEANING_INDEX_MAX + 5, 1, 0, &none, NULL));
    meaning_index_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_read_stems_and_folds_case),
        cmocka_unit_test(terms_read_pairs_characters_without_spaces),
        cmocka_unit_test(terms_read_leaves_out_long_runs_and_caps_the_rest),
        cmocka_unit_test(terms_pack_round_trip_and_refuse_other_bytes),
        cmocka_unit_test(cut_keeps_lines_whole_and_counts_them),
        cmocka_unit_test(cut_ends_at_pages_and_cuts_long_lines),
        cmocka_unit_test(cut_stops_at_its_limit),
        cmocka_unit_test(train_finds_orthonormal_directions),
        cmocka_unit_test(train_puts_words_of_one_company_together),
        cmocka_unit_test(train_gives_the_same_model_for_the_same_text),
        cmocka_unit_test(train_of_a_small_corpus_ignores_its_order),
        cmocka_unit_test(train_needs_enough_passages_with_words_in_common),
        cmocka_unit_test(train_stops_when_told),
        cmocka_unit_test(trainer_is_full_at_its_limit),
        cmocka_unit_test(model_survives_storing),
        cmocka_unit_test(D3_model_damage_is_noticed),
        cmocka_unit_test(vector_pack_takes_any_numbers),
        cmocka_unit_test(rank_by_words_prefers_rare_words_and_short_passages),
        cmocka_unit_test(rank_by_vector_finds_other_words),
        cmocka_unit_test(I8_rank_uses_statistics_of_what_may_be_found_alone),
        cmocka_unit_test(D10_rank_never_finds_what_was_removed),
        cmocka_unit_test(rank_limits_hits_of_a_document_and_filters),
        cmocka_unit_test(index_takes_passages_in_order_up_to_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
