/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam below store.h, with a second engine: it keeps no tables but records
 * every call, answers queries with rows set by the test, and fails where the
 * test wants it to. So what passes here depends on the interface alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "quota/quota_int.h"
#include "store/store_int.h"

#define FIELDS 4

/* ---- the recording engine ----------------------------------------------- */

struct fake_store {
    struct store base;
    struct buf calls; /* "begin exec commit " */
    char last[200];   /* statement */
    struct store_value values[FIELDS];
    const char *(*rows)[FIELDS]; /* of every query */
    size_t row_count;
    unsigned open_rows, open_tx;
    unsigned lose_exec, lose_commit; /* so many are lost to another */
    enum error_code fail_begin, fail_exec, fail_next, fail_commit;
    bool writable;
};

struct fake_tx {
    struct store_tx base;
    struct fake_store *store;
    enum store_mode mode;
};

struct fake_rows {
    struct store_rows base;
    struct fake_store *store;
    size_t at;
};

static void note(struct fake_store *s, const char *call)
{
    buf_addf(&s->calls, "%s ", call);
}

static void fake_close(struct store *base)
{
    note((struct fake_store *)base, "close");
}

static bool fake_writable(struct store *base)
{
    return ((struct fake_store *)base)->writable;
}

static const struct store_engine fake;

static int fake_begin(struct store *base, enum store_mode mode,
                      const char *what, struct store_tx **ret,
                      struct error *err)
{
    struct fake_store *s = (struct fake_store *)base;
    struct fake_tx *tx;

    note(s, mode == STORE_WRITE ? "begin" : "read");
    if (s->fail_begin)
        return error_set(err, s->fail_begin, "%s: fails", what);
    tx = xcalloc(1, sizeof(*tx));
    tx->base.engine = &fake;
    tx->store = s;
    tx->mode = mode;
    s->open_tx++;
    *ret = &tx->base;
    return 0;
}

static int lose(struct fake_tx *tx, unsigned *left, struct error *err)
{
    --*left;
    store_tx_lost(&tx->base);
    return error_set(err, ERR_BUSY, "a concurrent transaction won");
}

static int fake_commit(struct store_tx *base, struct error *err)
{
    struct fake_tx *tx = (struct fake_tx *)base;
    struct fake_store *s = tx->store;
    int r = 0;

    if (tx->mode == STORE_WRITE) {
        r = store_hooks_before(&s->base, base, err);
        if (r == 0 && s->lose_commit)
            r = lose(tx, &s->lose_commit, err);
        else if (r == 0 && s->fail_commit)
            r = error_set(err, s->fail_commit, "the commit fails");
        note(s, r == 0 ? "commit" : "failed");
        store_hooks_after(&s->base, r == 0);
    }
    s->open_tx--;
    free(tx);
    return r;
}

static void fake_rollback(struct store_tx *base)
{
    struct fake_tx *tx = (struct fake_tx *)base;

    note(tx->store, "rollback");
    tx->store->open_tx--;
    free(tx);
}

static int fake_exec(struct store_tx *base, const char *sql,
                     const struct store_value *values, size_t count,
                     struct error *err)
{
    struct fake_tx *tx = (struct fake_tx *)base;
    struct fake_store *s = tx->store;

    note(s, "exec");
    (void)snprintf(s->last, sizeof(s->last), "%s", sql);
    for (size_t i = 0; i < MIN(count, (size_t)FIELDS); i++)
        s->values[i] = values[i];
    if (s->lose_exec)
        return lose(tx, &s->lose_exec, err);
    if (s->fail_exec)
        return error_set(err, s->fail_exec, "the statement fails");
    return 1;
}

static int fake_query(struct store_tx *base, const char *sql,
                      const struct store_value *values, size_t count,
                      struct store_rows **ret, struct error *err)
{
    struct fake_store *s = ((struct fake_tx *)base)->store;
    struct fake_rows *rows = xcalloc(1, sizeof(*rows));

    (void)sql;
    (void)values;
    (void)count;
    (void)err;
    note(s, "query");
    rows->base.engine = &fake;
    rows->store = s;
    s->open_rows++;
    *ret = &rows->base;
    return 0;
}

static int fake_next(struct store_rows *base, struct error *err)
{
    struct fake_rows *rows = (struct fake_rows *)base;

    if (rows->store->fail_next)
        return error_set(err, rows->store->fail_next, "reading fails");
    return rows->at++ < rows->store->row_count ? 1 : 0;
}

static void fake_done(struct store_rows *base)
{
    ((struct fake_rows *)base)->store->open_rows--;
    free(base);
}

static const char *fake_text(struct store_rows *base, int column)
{
    struct fake_rows *rows = (struct fake_rows *)base;

    return rows->store->rows[rows->at - 1][column];
}

static int64_t fake_number(struct store_rows *base, int column)
{
    const char *text = fake_text(base, column);

    return text ? strtoll(text, NULL, 10) : 0;
}

static const void *fake_bytes(struct store_rows *base, int column,
                              size_t *ret_len)
{
    const char *text = fake_text(base, column);

    *ret_len = text ? strlen(text) : 0;
    return text;
}

static int fake_backup(struct store *base, const char *path,
                       void (*progress)(void *ctx, uint64_t done,
                                        uint64_t total),
                       void *ctx, struct error *err)
{
    (void)path;
    note((struct fake_store *)base, "backup");
    if (progress)
        progress(ctx, 1, 1);
    return error_set(err, ERR_SPACE, "the disk is full");
}

static int fake_check(struct store *base, struct error *err)
{
    note((struct fake_store *)base, "check");
    return error_set(err, ERR_CORRUPT, "a page is damaged");
}

static int fake_forget(struct store *base, struct error *err)
{
    note((struct fake_store *)base, "forget");
    return error_set(err, ERR_BUSY, "it is being read");
}

static uint64_t fake_reserve(struct store *base, uint64_t bytes)
{
    note((struct fake_store *)base, "reserve");
    return bytes / 2;
}

static const struct store_engine fake = {
    .name = "fake",
    .close = fake_close,
    .writable = fake_writable,
    .begin = fake_begin,
    .commit = fake_commit,
    .rollback = fake_rollback,
    .exec = fake_exec,
    .query = fake_query,
    .next = fake_next,
    .done = fake_done,
    .text = fake_text,
    .number = fake_number,
    .bytes = fake_bytes,
    .backup = fake_backup,
    .check = fake_check,
    .forget = fake_forget,
    .reserve = fake_reserve,
};

/* ---- fixture ------------------------------------------------------------ */

static int set_up(void **state)
{
    struct fake_store *s = xcalloc(1, sizeof(*s));

    store_base_init(&s->base, &fake);
    s->writable = true;
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct fake_store *s = *state;
    int leaks = s->open_tx || s->open_rows;

    store_base_done(&s->base);
    buf_done(&s->calls);
    free(s);
    return leaks;
}

static const char *calls(struct fake_store *s)
{
    return s->calls.len ? s->calls.data : "";
}

/* ---- choosing an engine --------------------------------------------------
 */

static void refused(const char *engine, const char *sentence)
{
    const struct store_settings settings = {.engine = engine,
                                            .data_dir = "/nowhere/at/all"};
    struct store *s = NULL;
    struct error err = {0};

    assert_int_equal(store_open(&settings, &s, &err), -ERR_INVALID);
    assert_null(s);
    assert_non_null(strstr(err.message, sentence));
    assert_non_null(strstr(err.hint, "postgres://"));
    /* A URL may hold a password. */
    assert_null(strstr(err.message, "hunter2"));
    assert_null(strstr(err.hint, "hunter2"));
}

static void engine_is_chosen_by_name(void **state)
{
    static const char *const known[] = {
        NULL, "", "sqlite", "postgres://u:hunter2@127.0.0.1/glovebox",
        "postgresql://u:hunter2@127.0.0.1/glovebox"};

    (void)state;
    refused("postgres://u:hunter2@[db.example/glovebox", "malformed");
    refused("postgresql://u:hunter2@db.example/?nothing=1", "malformed");
    refused("postgresqlite", "no engine");
    refused("mysql://u:hunter2@db.example", "no engine");
    refused("SQLite", "no engine");
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        const struct store_settings settings = {.engine = known[i],
                                                .data_dir = "/nowhere/at/all"};
        struct store *s = NULL;
        struct error err = {0};

        /* It came to the engine, which misses the directory. */
        assert_int_equal(store_open(&settings, &s, &err), -ERR_INTERNAL);
        assert_int_equal(err.errnum, ENOENT);
    }
}

/* ---- a caller above the interface ----------------------------------------
 * Quotas read rows at the start and write rows when closed.
 */

static const struct quota_limits limits = {0};

static void callers_read_rows_of_any_engine(void **state)
{
    struct fake_store *s = *state;
    const char *rows[][FIELDS] = {
        {"acme", "executions_per_hour", "7", "0"},
        {"other", "executions_per_hour", "9", "0"},
    };
    struct quotas *q = NULL;
    struct error err = {0};

    s->rows = rows;
    s->row_count = ARRAY_SIZE(rows);
    assert_int_equal(quotas_open(&limits, &s->base, NULL, &q, &err), 0);
    assert_int_equal(quota_most(q, "acme", QUOTA_RUNS_PER_HOUR), 7);
    assert_int_equal(quota_most(q, "other", QUOTA_RUNS_PER_HOUR), 9);
    assert_string_equal(calls(s), "read query query query rollback ");
    quotas_close(q);
}

static void callers_pass_errors_on(void **state)
{
    static const enum error_code codes[] = {ERR_UNAVAILABLE, ERR_CORRUPT,
                                            ERR_BUSY, ERR_INTERNAL};
    struct fake_store *s = *state;

    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        struct quotas *q = NULL;
        struct error err = {0};

        s->fail_begin = codes[i];
        assert_int_equal(quotas_open(&limits, &s->base, NULL, &q, &err),
                         -(int)codes[i]);
        s->fail_begin = ERR_NONE;
        s->fail_next = codes[i];
        assert_int_equal(quotas_open(&limits, &s->base, NULL, &q, &err),
                         -(int)codes[i]);
        s->fail_next = ERR_NONE;
        assert_null(q);
        assert_int_equal(s->open_rows, 0);
        assert_int_equal(s->open_tx, 0);
    }
}

static void values_arrive_typed(void **state)
{
    struct fake_store *s = *state;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err = {0};

    assert_int_equal(store_begin(&s->base, STORE_WRITE, "test", &tx, &err), 0);
    assert_int_equal(store_exec(tx, &err, "UPDATE t SET a = ?1", "tibt", "a",
                                (int64_t)-5, "xyz", (size_t)3, NULL),
                     1);
    assert_string_equal(s->last, "UPDATE t SET a = ?1");
    assert_string_equal(s->values[0].bytes, "a");
    assert_true(s->values[1].number == -5);
    assert_int_equal(s->values[2].len, 3);
    assert_null(s->values[3].bytes);
}

static void report(void *ctx, uint64_t done, uint64_t total)
{
    *(uint64_t *)ctx += done + total;
}

static void the_rest_is_the_engines(void **state)
{
    struct fake_store *s = *state;
    struct error err = {0};
    uint64_t seen = 0;

    assert_true(store_writable(&s->base));
    s->writable = false;
    assert_false(store_writable(&s->base));
    assert_int_equal(store_backup(&s->base, "x", report, &seen, &err),
                     -ERR_SPACE);
    assert_int_equal(seen, 2);
    assert_int_equal(store_check(&s->base, &err), -ERR_CORRUPT);
    assert_int_equal(store_forget(&s->base, &err), -ERR_BUSY);
    assert_int_equal(store_reserve(&s->base, 10), 5);
    store_close(&s->base);
    assert_string_equal(calls(s), "backup check forget reserve close ");
}

/* ---- whole transactions --------------------------------------------------
 */

struct work {
    unsigned runs;
    int result;
};

static int work(struct store_tx *tx, void *ctx, struct error *err)
{
    struct work *w = ctx;
    int r = store_exec(tx, err, "DELETE FROM t", "");

    w->runs++;
    return r < 0 ? r : w->result;
}

static void write_begins_runs_and_commits(void **state)
{
    struct fake_store *s = *state;
    struct work w = {0};
    struct error err = {0};

    assert_int_equal(store_write(&s->base, "test", work, &w, &err), 0);
    assert_int_equal(w.runs, 1);
    assert_string_equal(calls(s), "begin exec commit ");
}

static void write_rolls_back_what_fails(void **state)
{
    struct fake_store *s = *state;
    struct work w = {.result = 1};
    struct error err = {0};

    assert_int_equal(store_write(&s->base, "test", work, &w, &err), 0);
    assert_string_equal(calls(s), "begin exec rollback ");
    w.result = -ERR_LIMIT;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err),
                     -ERR_LIMIT);
    s->fail_exec = ERR_CONFLICT;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err),
                     -ERR_CONFLICT);
    s->fail_exec = ERR_NONE;
    w.result = 0;
    s->fail_commit = ERR_SPACE;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err),
                     -ERR_SPACE);
    s->fail_begin = ERR_UNAVAILABLE;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err),
                     -ERR_UNAVAILABLE);
    assert_int_equal(w.runs, 4);
}

/* Neither a caller's own ERR_BUSY nor the engine's without store_tx_lost is a
 * lost transaction. */
static void write_repeats_only_lost_ones(void **state)
{
    struct fake_store *s = *state;
    struct work w = {.result = -ERR_BUSY};
    struct error err = {0};

    assert_int_equal(store_write(&s->base, "test", work, &w, &err), -ERR_BUSY);
    assert_int_equal(w.runs, 1);
    s->fail_begin = ERR_BUSY;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err), -ERR_BUSY);
    assert_int_equal(w.runs, 1);
    s->fail_begin = ERR_NONE;

    w = (struct work){0};
    s->lose_exec = 1;
    s->lose_commit = 1;
    s->calls.len = 0;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err), 0);
    assert_int_equal(w.runs, 3);
    assert_string_equal(calls(s), "begin exec rollback begin exec failed "
                                  "begin exec commit ");
}

static void write_gives_up_at_the_limit(void **state)
{
    struct fake_store *s = *state;
    struct work w = {0};
    struct error err = {0};

    s->lose_commit = STORE_LOST_TRIES - 1;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err), 0);
    assert_int_equal(w.runs, STORE_LOST_TRIES);
    w.runs = 0;
    s->lose_commit = STORE_LOST_TRIES;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err), -ERR_BUSY);
    assert_int_equal(w.runs, STORE_LOST_TRIES);
    assert_int_equal(s->lose_commit, 0);
}

static void lost_begin_and_commit_is_busy(void **state)
{
    struct fake_store *s = *state;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err = {0};

    assert_int_equal(store_begin(&s->base, STORE_WRITE, "test", &tx, &err), 0);
    s->lose_commit = 1;
    assert_int_equal(store_commit(&tx, &err), -ERR_BUSY);
    assert_null(tx);
}

/* ---- hooks ---------------------------------------------------------------
 */

struct seen {
    struct store_hook hook;
    struct fake_store *store;
    const char *name;
    int result;
};

static int before(struct store_tx *tx, void *ctx, struct error *err)
{
    struct seen *seen = ctx;

    buf_addf(&seen->store->calls, "before-%s ", seen->name);
    if (seen->result < 0)
        return error_set(err, (enum error_code) - seen->result, "%s says no",
                         seen->name);
    return store_exec(tx, err, "INSERT INTO t VALUES (1)", "");
}

static void after(void *ctx, bool kept)
{
    const struct seen *seen = ctx;

    buf_addf(&seen->store->calls, "after-%s-%d ", seen->name, kept);
}

static void hooks_run_around_every_commit(void **state)
{
    struct fake_store *s = *state;
    struct seen a = {.store = s, .name = "a"}, b = {.store = s, .name = "b"};
    struct work w = {0};
    struct error err = {0};

    a.hook = (struct store_hook){.before = before, .after = after, .ctx = &a};
    b.hook = (struct store_hook){.before = before, .after = after, .ctx = &b};
    store_hook_add(&s->base, &a.hook);
    store_hook_add(&s->base, &b.hook);
    assert_int_equal(store_write(&s->base, "test", work, &w, &err), 0);
    assert_string_equal(calls(s),
                        "begin exec before-a exec before-b exec commit "
                        "after-a-1 after-b-1 ");

    /* A hook's failure is the commit's; later hooks see neither. */
    s->calls.len = 0;
    a.result = -ERR_LIMIT;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err),
                     -ERR_LIMIT);
    assert_string_equal(err.message, "a says no");
    assert_string_equal(calls(s), "begin exec before-a failed after-a-0 ");

    /* They run again with every try of a lost transaction. */
    s->calls.len = 0;
    a.result = 0;
    store_hook_remove(&s->base, &b.hook);
    s->lose_commit = 1;
    assert_int_equal(store_write(&s->base, "test", work, &w, &err), 0);
    assert_string_equal(calls(s), "begin exec before-a exec failed after-a-0 "
                                  "begin exec before-a exec commit "
                                  "after-a-1 ");

    s->calls.len = 0;
    store_hook_remove(&s->base, &a.hook);
    store_hook_remove(&s->base, &a.hook); /* not added */
    assert_int_equal(store_write(&s->base, "test", work, &w, &err), 0);
    assert_string_equal(calls(s), "begin exec commit ");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_is_chosen_by_name),
        CASE(callers_read_rows_of_any_engine),
        CASE(callers_pass_errors_on),
        CASE(values_arrive_typed),
        CASE(the_rest_is_the_engines),
        CASE(write_begins_runs_and_commits),
        CASE(write_rolls_back_what_fails),
        CASE(write_repeats_only_lost_ones),
        CASE(write_gives_up_at_the_limit),
        CASE(lost_begin_and_commit_is_busy),
        CASE(hooks_run_around_every_commit),
    };

    return cmocka_run_group_tests_name("store_engine", tests, NULL, NULL);
}
