/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search by meaning over a store: passages follow commits, one tenant's model
 * never serves another, a damaged or missing model is made again, a full disk
 * and a stop in the middle leave what was there, and vectors of a model are
 * used where one is configured. Answers over HTTP are tested by the wire
 * tests.
 */
#include "workspace_fixture.h"

#include "base/clock.h"
#include "core/core.h"
#include "meaning/meaning.h"
#include "model/model.h"
#include "search/search_int.h"

struct desk {
    struct fixture *f;
    struct search *s;
    struct models *models;
    const char *embeddings;
};

static void open_search(struct desk *d)
{
    struct search_settings settings = {.text_bytes = 1 << 20,
                                       .models = d->models,
                                       .embeddings = d->embeddings};
    const struct core core = {.store = d->f->store, .blobs = d->f->blobs};

    OK(d->f, search_open(&settings, &core, d->f->w, NULL, &d->s, &d->f->err));
}

static int set_up(void **state)
{
    struct desk *d = xcalloc(1, sizeof(*d));
    void *fixture;

    search_setup();
    (void)fixture_set_up(&fixture);
    d->f = fixture;
    OK(d->f, models_open(
                 &(struct models_parts){
                     .core = &(struct core){.store = d->f->store}},
                 &d->models, &d->f->err));
    open_search(d);
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;
    void *fixture = d->f;

    search_close(d->s);
    models_close(d->models);
    (void)fixture_tear_down(&fixture);
    free(d);
    return 0;
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- short ways --------------------------------------------------------- */

static int64_t number_of(struct desk *d, const char *sql)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    OK(d->f, store_begin(d->f->store, STORE_READ, "test", &tx, &d->f->err));
    OK(d->f, store_one(tx, &rows, &d->f->err, sql, ""));
    return rows ? store_int(rows, 0) : 0;
}

static void change(struct desk *d, const char *sql)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    OK(d->f, store_begin(d->f->store, STORE_WRITE, "test", &tx, &d->f->err));
    OK(d->f, store_exec(tx, &d->f->err, sql, ""));
    OK(d->f, store_commit(&tx, &d->f->err));
}

/* Until the number is as wanted. Moving the clock spares the threads their
 * pauses. */
static void await(struct desk *d, const char *sql, int64_t want)
{
    for (unsigned tries = 0; number_of(d, sql) != want; tries++) {
        if (tries > 20000)
            fail_msg("%s is %lld, not %lld", sql, (long long)number_of(d, sql),
                     (long long)want);
        clock_test_advance(100);
        usleep(1000);
    }
}

#define PASSAGES "SELECT count(*) FROM passages"
#define MODELS "SELECT count(*) FROM meanings"

static void set(struct desk *d, const struct actor *who, const char *id,
                enum workspace_switch to)
{
    struct workspace_patch patch = {.quota_bytes = -1,
                                    .keep_versions = -1,
                                    .keep_days = -1,
                                    .legal_hold = -1,
                                    .intelligence = to};
    struct workspace_info info;

    OK(d->f, workspace_patch(d->f->w, who, id, &patch, &info, &d->f->err));
}

static const char *const texts[] = {
    "holiday leave employee manager days",
    "vacation leave manager days year",
    "holiday days year notice employee",
    "vacation employee notice leave",
    "manager notice year leave",
    "holiday leave notice",
    "vacation days year",
    "dough yeast flour oven",
    "loaf crust oven flour",
    "yeast flour water loaf",
    "dough water oven",
    "crust loaf yeast",
    "flour water dough",
    "oven crust",
};

static void fill(struct desk *d)
{
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        char path[32];

        (void)snprintf(path, sizeof(path), "%s-%zu.txt",
                       i < 7 ? "leave" : "bread", i);
        (void)put(d->f, path, texts[i], NULL);
    }
}

static void learn(struct desk *d)
{
    set(d, &fixture_a, d->f->ws.id, SWITCH_ON);
    fill(d);
    await(d, PASSAGES, ARRAY_SIZE(texts));
    await(d, MODELS, 1);
}

struct found {
    struct search_hit *hits;
    size_t count;
    bool more;
    struct search_quality quality;
};

static struct found ask(struct desk *d, const struct actor *who,
                        enum search_mode mode, const char *query)
{
    struct found r = {0};
    struct search_spec spec = {.query = query, .limit = 50, .mode = mode};

    OK(d->f, search_recall(d->s, who, &spec, &r.hits, &r.count, &r.more,
                           &r.quality, &d->f->err));
    return r;
}

static void done(struct found *r)
{
    search_hits_free(r->hits, r->count);
}

/* ---- cases -------------------------------------------------------------- */

static void finds_what_is_said_in_other_words(void **state)
{
    struct desk *d = *state;

    learn(d);
    struct found r = ask(d, &fixture_a, SEARCH_SEMANTIC, "vacation");
    bool other = false;

    assert_false(r.quality.degraded);
    assert_true(r.count >= 5);
    for (size_t i = 0; i < r.count; i++) {
        assert_memory_equal(r.hits[i].path, "leave-", 6);
        other |= strstr(r.hits[i].snippet, "holiday") != NULL;
    }
    assert_true(other);
    done(&r);
}

static void I8_a_model_serves_its_tenant_alone(void **state)
{
    struct desk *d = *state;
    struct workspace_spec spec = {.name = "theirs"};
    struct workspace_info theirs;
    struct search_spec query = {
        .query = "vacation", .limit = 10, .mode = SEARCH_HYBRID};
    struct found r = {0};

    learn(d);
    OK(d->f,
       workspace_create(d->f->w, &fixture_x, &spec, &theirs, &d->f->err));
    REFUSED(d->f, ERR_CONFLICT,
            search_recall(d->s, &fixture_x, &query, &r.hits, &r.count, &r.more,
                          &r.quality, &d->f->err));
    set(d, &fixture_x, theirs.id, SWITCH_ON);
    r = ask(d, &fixture_x, SEARCH_HYBRID, "vacation");
    assert_int_equal(r.count, 0);
    done(&r);
    assert_int_equal(number_of(d, MODELS " WHERE tenant <> 'acme'"), 0);

    /* A transferred workspace is cut anew, and its old tenant forgets it. */
    int64_t last = number_of(d, "SELECT max(id) FROM passages");

    change(d, "UPDATE workspaces SET tenant = 'other', owner = '" KEY_X
              "' WHERE name = 'desk'");
    await(d, "SELECT count(*) = 14 AND min(id) > 14 FROM passages", 1);
    assert_true(number_of(d, "SELECT min(id) FROM passages") > last);
    await(d, MODELS " WHERE tenant = 'other'", 1);
    await(d, MODELS " WHERE tenant = 'acme'", 0);
    r = ask(d, &fixture_x, SEARCH_SEMANTIC, "vacation");
    assert_true(r.count >= 5);
    done(&r);
}

static void D10_what_went_is_forgotten_by_the_model_too(void **state)
{
    struct desk *d = *state;
    int64_t number;

    learn(d);
    number = number_of(d, "SELECT number FROM meanings");
    change(d, "UPDATE workspaces SET intelligence = 2");
    await(d, PASSAGES, 0);
    await(d, MODELS, 0); /* too few to learn from: none is kept */
    set(d, &fixture_a, d->f->ws.id, SWITCH_ON);
    await(d, MODELS, 1);
    assert_int_not_equal(number_of(d, "SELECT number FROM meanings"), number);
    /* A few that go are forgotten with the next training. */
    number = number_of(d, "SELECT number FROM meanings");
    change(d, "DELETE FROM passages WHERE id IN (SELECT max(id)"
              " FROM passages)");
    clock_test_advance(700000);
    for (unsigned i = 0; number_of(d, "SELECT number FROM meanings") == number;
         i++) {
        assert_true(i < 20000);
        clock_test_advance(100);
        usleep(1000);
    }
}

/* A model that was trained while files were still coming does not stay for an
 * hour. */
static void a_few_new_passages_are_learned_soon(void **state)
{
    struct desk *d = *state;
    int64_t number;

    learn(d);
    number = number_of(d, "SELECT number FROM meanings");
    (void)put(d->f, "late.txt", texts[0], NULL);
    await(d, PASSAGES, ARRAY_SIZE(texts) + 1);
    for (unsigned i = 0; number_of(d, "SELECT number FROM meanings") == number;
         i++) {
        assert_true(i < 20000); /* of 100 ms: less than an hour */
        clock_test_advance(100);
        usleep(1000);
    }
}

static void D7_a_damaged_model_is_made_again(void **state)
{
    struct desk *d = *state;

    learn(d);
    search_close(d->s);
    d->s = NULL;
    change(d, "UPDATE meanings SET number = 7,"
              " data = substr(data, 1, length(data) - 9)");
    open_search(d);

    struct found r = ask(d, &fixture_a, SEARCH_HYBRID, "vacation");

    assert_true(r.count > 0); /* by words */
    assert_true(r.quality.degraded);
    done(&r);
    await(d, MODELS " WHERE number <> 7", 1);
    r = ask(d, &fixture_a, SEARCH_SEMANTIC, "vacation");
    assert_false(r.quality.degraded);
    assert_true(r.count >= 5);
    done(&r);
}

static void D7_a_stop_in_between_is_made_up_for(void **state)
{
    struct desk *d = *state;

    set(d, &fixture_a, d->f->ws.id, SWITCH_ON);
    fill(d);
    for (unsigned i = 0; i < 12; i++) { /* at any point of the work */
        usleep(1000 * i);
        clock_test_advance(200 * i);
        search_close(d->s);
        open_search(d);
    }
    await(d, PASSAGES, ARRAY_SIZE(texts));
    await(d, MODELS, 1);
    assert_int_equal(number_of(d, "SELECT count(DISTINCT document)"
                                  " FROM passages"),
                     ARRAY_SIZE(texts));
}

static void a_damaged_passage_is_left_out(void **state)
{
    struct desk *d = *state;

    learn(d);
    search_close(d->s);
    d->s = NULL;
    change(d, "UPDATE passages SET terms = substr(terms, 1, 1) WHERE id ="
              " (SELECT min(id) FROM passages)");
    open_search(d);
    struct found r = ask(d, &fixture_a, SEARCH_HYBRID, "holiday");

    assert_int_not_equal(r.count, 0);
    done(&r);
}

static void a_tenant_has_a_limit_of_passages(void **state)
{
    struct desk *d = *state;

    learn(d);
    /* Rows up to one below the limit. */
    change(d, "INSERT INTO passages (document, page, line, line_end, start,"
              " bytes, terms) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL"
              " SELECT i + 1 FROM n WHERE i < 199985) SELECT (SELECT min(id)"
              " FROM documents), 0, 1, 1, 0, 1, (SELECT substr(terms, 1, 0)"
              " FROM passages LIMIT 1) FROM n");
    assert_int_equal(number_of(d, PASSAGES), SEARCH_PASSAGES_MAX - 1);
    (void)put(d->f, "last.txt", "the last passage fits", NULL);
    await(d, PASSAGES, SEARCH_PASSAGES_MAX);
    (void)put(d->f, "over.txt", "this passage does not fit", NULL);
    await(d, "SELECT count(*) FROM documents WHERE cut = 2", 1);
    assert_int_equal(number_of(d, PASSAGES), SEARCH_PASSAGES_MAX);
}

static void vectors_of_a_model_are_used(void **state)
{
    struct desk *d = *state;

    search_close(d->s);
    d->embeddings = "echo";
    open_search(d);
    set(d, &fixture_a, d->f->ws.id, SWITCH_ON);
    fill(d);
    await(d, "SELECT count(*) FROM passage_vectors", ARRAY_SIZE(texts));
    struct found r = ask(d, &fixture_a, SEARCH_SEMANTIC, "oven crust");

    assert_false(r.quality.degraded);
    assert_int_not_equal(r.count, 0);
    assert_string_equal(r.hits[0].path, "bread-13.txt");
    done(&r);
    /* They go with their passages. */
    set(d, &fixture_a, d->f->ws.id, SWITCH_OFF);
    await(d, "SELECT count(*) FROM passage_vectors", 0);
}

static void a_model_that_is_down_degrades_the_answer(void **state)
{
    struct desk *d = *state;

    search_close(d->s);
    d->embeddings = "nobody";
    open_search(d);
    set(d, &fixture_a, d->f->ws.id, SWITCH_ON);
    fill(d);
    await(d, PASSAGES, ARRAY_SIZE(texts));
    struct found r = ask(d, &fixture_a, SEARCH_HYBRID, "oven crust");

    assert_true(r.quality.degraded);
    assert_non_null(strstr(r.quality.reason, "not available"));
    assert_string_equal(r.hits[0].path, "bread-13.txt"); /* by words */
    done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(finds_what_is_said_in_other_words),
        CASE(I8_a_model_serves_its_tenant_alone),
        CASE(D10_what_went_is_forgotten_by_the_model_too),
        CASE(a_few_new_passages_are_learned_soon),
        CASE(D7_a_damaged_model_is_made_again),
        CASE(D7_a_stop_in_between_is_made_up_for),
        CASE(a_damaged_passage_is_left_out),
        CASE(a_tenant_has_a_limit_of_passages),
        CASE(vectors_of_a_model_are_used),
        CASE(a_model_that_is_down_degrades_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
