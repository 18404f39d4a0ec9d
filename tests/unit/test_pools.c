/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools made, changed and removed while the service runs, on the real store
 * and the fake warden of session_fake.h.
 */
#include "session_fixture.h"

#include "pool/pool_int.h"

static struct pool_spec spec_of(const char *name)
{
    return (struct pool_spec){.name = name,
                              .kind = -1,
                              .ready = -1,
                              .max_sessions = -1,
                              .cooldown_s = -1,
                              .memory_bytes = -1};
}

/* 0 or -code; the pool's info is read and let go. */
static int put_as(struct fixture *f, const struct actor *who,
                  enum pool_put how, const struct pool_spec *spec,
                  struct pool_info *ret)
{
    struct pool_info info;
    int rc = session_pool_put(f->s, who, how, spec, NULL, &info, &f->err);

    if (rc < 0)
        return rc;
    pool_info_done(&info);
    if (ret)
        *ret = info;
    return 0;
}

static int put_pool(struct fixture *f, enum pool_put how,
                    const struct pool_spec *spec)
{
    return put_as(f, &WHO, how, spec, NULL);
}

static void make_pool(struct fixture *f, const char *name)
{
    struct pool_spec spec = spec_of(name);

    if (put_pool(f, POOL_MAKE, &spec) < 0)
        fail_msg("%s", f->err.message);
}

static void free_list(struct pool_info *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pool_info_done(&list[i]);
    free(list);
}

static struct pool_info look(struct fixture *f, const char *name)
{
    struct pool_info info;

    if (session_pool_get(f->s, ACTOR(TENANT), name, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    pool_info_done(&info);
    return info;
}

static int create_in(struct fixture *f, const char *pool, bool ephemeral,
                     struct session_info *ret)
{
    struct session_spec spec = {.pool = pool, .ephemeral = ephemeral};
    struct session_info info;
    int rc = session_create(f->s, &WHO, &spec, &info, &f->err);

    if (rc < 0)
        return rc;
    session_info_done(&info);
    memcpy(f->id, info.id, sizeof(f->id));
    if (ret)
        *ret = info;
    return 0;
}

static void wait_ready(struct fixture *f, const char *name, unsigned count)
{
    for (int i = 0; i < 5000 && look(f, name).ready_now != count; i++)
        fake_nap(1);
    assert_int_equal(look(f, name).ready_now, count);
}

static int64_t count_events(struct fixture *f, const char *action)
{
    struct audit_filter filter = {.action = action, .limit = 1000};
    struct audit_line *lines;
    size_t count;
    bool more;

    assert_int_equal(
        audit_query(f->audit, &filter, &lines, &count, &more, &f->err), 0);
    audit_lines_free(lines, count);
    return (int64_t)count;
}

static int64_t count_rows(struct fixture *f, const char *pool)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    assert_int_equal(
        store_begin(f->store, STORE_READ, "counting", &tx, &f->err), 0);
    assert_int_equal(store_one(tx, &rows, &f->err,
                               "SELECT count(*) FROM sessions WHERE pool = ?1",
                               "t", pool),
                     1);
    return store_int(rows, 0);
}

static int start(void **state)
{
    (void)set_up_conf(state);
    open_it(*state);
    wait_proven(*state);
    return 0;
}

static int start_wide(void **state)
{
    struct fixture *f;

    (void)set_up_conf(state);
    f = *state;
    f->conf.sessions_per_tenant = 50;
    f->conf.max_sessions = 50;
    open_it(f);
    wait_proven(f);
    return 0;
}

/* ---- what may be asked -------------------------------------------------- */

static void is_as_the_first_where_nothing_is_said(void **state)
{
    struct fixture *f = *state;
    struct pool_info info;

    make_pool(f, "plain");
    info = look(f, "plain");
    assert_string_equal(info.name, "plain");
    assert_string_equal(info.tenant, TENANT);
    assert_string_equal(info.runtime, "fake");
    assert_int_equal(info.kind, POOL_PYTHON);
    assert_false(info.ephemeral);
    assert_int_equal(info.ready, 0);
    assert_int_equal(info.max_sessions, 6);
    assert_int_equal(info.cooldown_s, 100);
    assert_int_equal(info.memory_bytes, 1 << 30);
    assert_int_equal(info.python_timeout_max_s, 30);
    assert_true(info.created_at_ms > 0);
    assert_int_equal(info.created_at_ms, info.updated_at_ms);
    info = look(f, NULL);
    assert_string_equal(info.name, "default");
    assert_string_equal(info.tenant, "");
    assert_int_equal(info.created_at_ms, 0);
}

static void names_are_plain(void **state)
{
    static const char *const good[] = {"a", "a-b", "z9-", "python3"};
    static const char *const bad[] = {"",    "A",   "9a", "-a",  "a_b",
                                      "a b", "a/b", "ä",  "a.b", "a\n"};
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("");
    char longest[65];

    memset(longest, 'n', sizeof(longest));
    longest[64] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        make_pool(f, good[i]);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        spec.name = bad[i];
        assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_INVALID);
        assert_int_equal(put_pool(f, POOL_CHANGE, &spec), -ERR_NOT_FOUND);
    }
    spec.name = longest;
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_INVALID);
    longest[63] = '\0';
    make_pool(f, longest);
    assert_string_equal(look(f, longest).name, longest);
    assert_int_equal(create_in(f, longest, false, NULL), 0);
    assert_string_equal(get(f).pool, longest);
}

static void try_number(struct fixture *f, size_t offset, int64_t value, int rc)
{
    struct pool_spec spec = spec_of("numbers");

    memcpy((char *)&spec + offset, &value, sizeof(value));
    assert_int_equal(put_pool(f, POOL_PUT, &spec), rc);
}

static void numbers_at_below_and_above(void **state)
{
    static const struct {
        size_t offset;
        int64_t least, most;
    } rows[] = {
        {offsetof(struct pool_spec, cooldown_s), 1, 30 * 86400},
        {offsetof(struct pool_spec, max_sessions), 1, 100000},
        {offsetof(struct pool_spec, max_timeout_s), 5, 86400},
        {offsetof(struct pool_spec, memory_bytes), 64 << 20, 4ll << 30},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        try_number(f, rows[i].offset, rows[i].least, 0);
        try_number(f, rows[i].offset, rows[i].most, 0);
        try_number(f, rows[i].offset, rows[i].most + 1, -ERR_INVALID);
        try_number(f, rows[i].offset, -2, -ERR_INVALID);
        if (rows[i].least > 1)
            try_number(f, rows[i].offset, rows[i].least - 1, -ERR_INVALID);
    }
    try_number(f, offsetof(struct pool_spec, ready), 101, -ERR_INVALID);
    assert_int_equal(look(f, "numbers").memory_bytes, 4ull << 30);
}

static void ready_is_bounded_by_sessions_and_by_the_machine(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("a");

    spec.ready = 0;
    spec.max_sessions = 3;
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), 0);
    spec.ready = 4;
    assert_int_equal(put_pool(f, POOL_PUT, &spec), -ERR_INVALID);
    spec.ready = 3;
    assert_int_equal(put_pool(f, POOL_PUT, &spec), 0);
    /* Fewer sessions take the ready ones with them. */
    spec.ready = -1;
    spec.max_sessions = 2;
    assert_int_equal(put_pool(f, POOL_PUT, &spec), 0);
    assert_int_equal(look(f, "a").ready, 2);
    /* Eight on the machine: six are left for others. */
    spec = spec_of("b");
    spec.max_sessions = 100;
    spec.ready = 7;
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_LIMIT);
    spec.ready = 6;
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), 0);
    assert_int_equal(look(f, "b").ready, 6);
}

static void words_are_known(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("words");
    char *big = xmalloc(POOL_DETAILS_MAX + 2);
    struct pool_info info;

    spec.persistence = "sometimes";
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_INVALID);
    spec.persistence = "ephemeral";
    spec.runtime = "unknown";
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_INVALID);
    spec.runtime = "fake";
    spec.kind = POOL_SHELL;
    spec.details = "[1]";
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_INVALID);
    spec.details = "{\"a\":";
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_INVALID);
    (void)snprintf(big, POOL_DETAILS_MAX + 2, "{\"a\":\"%*s\"}",
                   (int)POOL_DETAILS_MAX - 7, "x");
    assert_int_equal(strlen(big), POOL_DETAILS_MAX + 1);
    spec.details = big;
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_TOO_LARGE);
    (void)snprintf(big, POOL_DETAILS_MAX + 2, "{\"a\":\"%*s\"}",
                   (int)POOL_DETAILS_MAX - 8, "x");
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), 0);
    assert_int_equal(
        session_pool_get(f->s, ACTOR(TENANT), "words", &info, &f->err), 0);
    assert_string_equal(info.details, big);
    assert_int_equal(info.kind, POOL_SHELL);
    assert_true(info.ephemeral);
    pool_info_done(&info);
    assert_int_equal(create_in(f, "words", false, NULL), 0);
    assert_true(get(f).ephemeral);
    free(big);
}

static void no_more_than_so_many(void **state)
{
    struct fixture *f = *state;
    struct session_metrics *m = xcalloc(1, sizeof(*m));
    struct pool_spec spec = spec_of(NULL);
    struct pool_info *list;
    char name[16];
    size_t count;

    spec.name = name;
    for (unsigned i = 0; i <= POOLS_MADE_MAX; i++) {
        (void)snprintf(name, sizeof(name), "p%03u", (i * 7) % 257);
        assert_int_equal(put_pool(f, POOL_MAKE, &spec),
                         i < POOLS_MADE_MAX ? 0 : -ERR_LIMIT);
    }
    assert_int_equal(
        session_pool_list(f->s, ACTOR(TENANT), &list, &count, &f->err), 0);
    assert_int_equal(count, 2 + POOLS_MADE_MAX);
    assert_string_equal(list[0].name, "default");
    assert_string_equal(list[1].name, "second");
    for (size_t i = 3; i < count; i++)
        assert_true(strcmp(list[i - 1].name, list[i].name) < 0);
    free_list(list, count);
    sessions_metrics(f->s, m);
    assert_int_equal(m->pool_count, ARRAY_SIZE(m->pools));
    assert_string_equal(m->pools[0].name, "default");
    assert_string_equal(m->pools[2].name, "p000");
    free(m);
    assert_int_equal(session_pool_remove(f->s, &WHO, "p100", &f->err), 0);
    make_pool(f, "another");
}

/* ---- whose it is -------------------------------------------------------- */

static void I3_a_foreign_pool_is_as_unknown(void **state)
{
    struct fixture *f = *state;
    struct session_spec foreign = {.pool = "mine"}, none = {.pool = "none"};
    struct pool_spec spec = spec_of("mine");
    struct session_info info;
    struct pool_info pool, *list;
    struct error unknown;
    size_t count;

    make_pool(f, "mine");
    assert_int_equal(
        session_pool_get(f->s, ACTOR("other"), "none", &pool, &unknown),
        -ERR_NOT_FOUND);
    assert_int_equal(
        session_pool_get(f->s, ACTOR("other"), "mine", &pool, &f->err),
        -ERR_NOT_FOUND);
    assert_string_equal(f->err.message, unknown.message);
    assert_int_equal(session_create(f->s, &OTHER, &none, &info, &unknown),
                     -ERR_INVALID);
    assert_int_equal(session_create(f->s, &OTHER, &foreign, &info, &f->err),
                     -ERR_INVALID);
    assert_string_equal(f->err.message, unknown.message);
    assert_int_equal(put_as(f, &OTHER, POOL_CHANGE, &spec, NULL),
                     -ERR_NOT_FOUND);
    assert_int_equal(session_pool_remove(f->s, &OTHER, "mine", &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(put_as(f, &OTHER, POOL_MAKE, &spec, NULL), -ERR_CONFLICT);
    assert_int_equal(put_as(f, &OTHER, POOL_PUT, &spec, NULL), -ERR_CONFLICT);
    assert_int_equal(
        session_pool_list(f->s, ACTOR("other"), &list, &count, &f->err), 0);
    assert_int_equal(count, 2);
    free_list(list, count);
    assert_string_equal(look(f, "mine").tenant, TENANT);
}

static void making_changing_and_either(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("default");
    struct pool_info info;
    bool made;

    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_CONFLICT);
    assert_int_equal(put_pool(f, POOL_CHANGE, &spec), -ERR_CONFLICT);
    assert_int_equal(put_pool(f, POOL_PUT, &spec), -ERR_CONFLICT);
    assert_int_equal(session_pool_remove(f->s, &WHO, "second", &f->err),
                     -ERR_CONFLICT);
    spec.name = "new";
    assert_int_equal(put_pool(f, POOL_CHANGE, &spec), -ERR_NOT_FOUND);
    assert_int_equal(session_pool_remove(f->s, &WHO, "new", &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(
        session_pool_put(f->s, &WHO, POOL_PUT, &spec, &made, &info, &f->err),
        0);
    assert_true(made);
    pool_info_done(&info);
    spec.cooldown_s = 7;
    assert_int_equal(
        session_pool_put(f->s, &WHO, POOL_PUT, &spec, &made, &info, &f->err),
        0);
    assert_false(made);
    assert_int_equal(info.cooldown_s, 7);
    pool_info_done(&info);
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_CONFLICT);
    assert_int_equal(session_pool_remove(f->s, &WHO, "new", &f->err), 0);
    assert_int_equal(session_pool_remove(f->s, &WHO, "new", &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(count_events(f, "pool.create"), 1);
    assert_int_equal(count_events(f, "pool.update"), 1);
    assert_int_equal(count_events(f, "pool.delete"), 1);
}

/* ---- changes ------------------------------------------------------------ */

static void a_change_holds_from_now_on(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("p");
    struct session_info info;
    char first[ID_MAX];

    make_pool(f, "p");
    assert_int_equal(create_in(f, "p", false, &info), 0);
    memcpy(first, f->id, sizeof(first));
    assert_int_equal(info.limits.memory_bytes, 1 << 30);
    assert_int_equal(info.cooldown_s, 100);
    spec.cooldown_s = 50;
    spec.memory_bytes = 2ll << 30;
    spec.max_sessions = 1;
    assert_int_equal(put_pool(f, POOL_CHANGE, &spec), 0);
    info = get(f);
    assert_int_equal(info.limits.memory_bytes, 1 << 30);
    assert_int_equal(info.cooldown_s, 50);
    assert_int_equal(look(f, "p").sessions, 1);
    check_run(f, "out hi", OUTCOME_OK, false, NULL); /* so it stays awake */
    assert_int_equal(create_in(f, "p", false, NULL), -ERR_BUSY);
    assert_int_equal(session_delete(f->s, &WHO, first, &f->err), 0);
    assert_int_equal(create_in(f, "p", false, &info), 0);
    assert_int_equal(info.limits.memory_bytes, 2ull << 30);
    check_run(f, "out hi", OUTCOME_OK, false, NULL);
}

static void ready_boxes_follow(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("p");
    unsigned before;

    spec.ready = 2;
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), 0);
    wait_ready(f, "p", 2);
    before = atomic_load(&fake.releases);
    spec.cooldown_s = 9; /* no reason to make them anew */
    assert_int_equal(put_pool(f, POOL_CHANGE, &spec), 0);
    assert_int_equal(look(f, "p").ready_now, 2);
    assert_int_equal(atomic_load(&fake.releases), before);
    spec.memory_bytes = 2ll << 30;
    assert_int_equal(put_pool(f, POOL_CHANGE, &spec), 0);
    assert_int_equal(atomic_load(&fake.releases), before + 2);
    wait_ready(f, "p", 2);
    spec.ready = 1;
    assert_int_equal(put_pool(f, POOL_CHANGE, &spec), 0);
    assert_int_equal(look(f, "p").ready_now, 1);
    assert_int_equal(atomic_load(&fake.releases), before + 3);
    /* Taken by who wants what they are, and by nobody else. */
    before = atomic_load(&fake.spawns);
    assert_int_equal(create_in(f, "p", false, NULL), 0);
    assert_int_equal(get(f).limits.memory_bytes, 2ull << 30);
    wait_ready(f, "p", 1);
    assert_int_equal(atomic_load(&fake.spawns), before + 1);
    before = atomic_load(&fake.releases);
    assert_int_equal(session_pool_remove(f->s, &WHO, "p", &f->err), 0);
    assert_int_equal(atomic_load(&fake.releases), before + 2);
}

static void R8_ready_boxes_make_way(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("p");

    spec.max_sessions = 10;
    spec.ready = 6;
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), 0);
    wait_ready(f, "p", 6);
    for (int i = 0; i < 4; i++)
        assert_int_equal(create_in(f, NULL, true, NULL), 0);
    wait_ready(f, "p", 4); /* eight on the machine */
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    wait_ready(f, "p", 5);
}

static void settings_are_not_kept_for_ever(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("p");
    struct pool *pool;
    int rc = 0;

    make_pool(f, "p");
    for (int i = 0; i < 5; i++) {
        spec.cooldown_s = 1000 + i;
        assert_int_equal(put_pool(f, POOL_CHANGE, &spec), 0);
    }
    pool = pools_made_find(f->s->pools, "p");
    assert_true(pool->made->settings_count <= 2); /* nobody reads others */
    assert_int_equal(create_in(f, "p", true, NULL), 0);
    for (unsigned i = 0; rc == 0 && i <= POOL_SETTINGS_MAX; i++) {
        spec.cooldown_s = 2000 + i;
        rc = put_pool(f, POOL_CHANGE, &spec);
        if (i == 3) { /* once more the same takes no more room */
            unsigned count = pool->made->settings_count;

            spec.cooldown_s = 2000;
            assert_int_equal(put_pool(f, POOL_CHANGE, &spec), 0);
            assert_int_equal(pool->made->settings_count, count);
        }
    }
    assert_int_equal(rc, -ERR_LIMIT);
    assert_int_equal(pool->made->settings_count, POOL_SETTINGS_MAX);
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    assert_int_equal(put_pool(f, POOL_CHANGE, &spec), 0);
    assert_true(pool->made->settings_count <= 2);
}

/* ---- another life of the service ---------------------------------------- */

static void D1_a_restart_keeps_them(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("kept");
    struct pool_info before, after;

    spec.kind = POOL_SHELL;
    spec.cooldown_s = 77;
    spec.memory_bytes = 2ll << 30;
    spec.max_sessions = 5;
    spec.max_timeout_s = 7200;
    spec.ready = 1;
    spec.details = "{\"a\":1}";
    assert_int_equal(put_as(f, &WHO, POOL_MAKE, &spec, &before), 0);
    spec.cooldown_s = 78;
    assert_int_equal(put_as(f, &WHO, POOL_CHANGE, &spec, &before), 0);
    make_pool(f, "gone");
    assert_int_equal(session_pool_remove(f->s, &WHO, "gone", &f->err), 0);
    assert_int_equal(create_in(f, "kept", false, NULL), 0);
    close_it(f);
    open_it(f);
    after = look(f, "kept");
    assert_int_equal(after.cooldown_s, 78);
    assert_int_equal(after.memory_bytes, 2ull << 30);
    assert_int_equal(after.max_sessions, 5);
    assert_int_equal(after.python_timeout_max_s, 7200);
    assert_int_equal(after.shell_timeout_max_s, 7200);
    assert_int_equal(after.python_timeout_s, 20); /* the first pool's */
    assert_int_equal(after.ready, 1);
    assert_int_equal(after.kind, POOL_SHELL);
    assert_string_equal(after.tenant, TENANT);
    assert_int_equal(after.created_at_ms, before.created_at_ms);
    assert_int_equal(after.updated_at_ms, before.updated_at_ms);
    assert_int_equal(
        session_pool_get(f->s, ACTOR(TENANT), "gone", &after, &f->err),
        -ERR_NOT_FOUND);
    assert_string_equal(get(f).pool, "kept");
    check_run(f, "out hi", OUTCOME_OK, false, NULL);
    assert_int_equal(look(f, "kept").sessions, 1);
    wait_ready(f, "kept", 1);
}

static void another_configuration(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("big");

    spec.memory_bytes = 4ll << 30;
    spec.max_sessions = 100;
    spec.ready = 8;
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), 0);
    make_pool(f, "hidden");
    close_it(f);
    f->conf.max_sessions = 3;
    f->conf.pools[0].max_memory_bytes = 2ull << 30;
    f->conf.pools[0].runtime = (char *)"other-fake";
    f->conf.pools[1].runtime = (char *)"other-fake";
    f->conf.pools[1].name = (char *)"hidden";
    open_it(f);
    assert_int_equal(look(f, "big").memory_bytes, 2ull << 30);
    assert_int_equal(look(f, "big").ready, 3);
    assert_string_equal(look(f, "big").runtime, "other-fake");
    assert_string_equal(look(f, "hidden").tenant, "");
    close_it(f);
    f->conf.pools[1].name = (char *)"second";
    open_it(f);
    assert_string_equal(look(f, "hidden").tenant, TENANT);
}

/* ---- the end of one ----------------------------------------------------- */

static void removal_ends_sessions_and_keeps_workspaces(void **state)
{
    struct fixture *f = *state;
    struct session_info kept, empty, asleep, info;
    struct workspace_info ws;
    char away[ID_MAX];

    make_pool(f, "p");
    assert_int_equal(create_in(f, "p", true, &info), 0);
    memcpy(away, f->id, sizeof(away));
    assert_int_equal(create_in(f, "p", false, &empty), 0);
    assert_int_equal(create_in(f, "p", false, &asleep), 0);
    check_run(f, "file old", OUTCOME_OK, false, NULL);
    assert_int_equal(create_in(f, "p", false, &kept), 0);
    check_run(f, "file a", OUTCOME_OK, false, NULL);
    check_run(f, "file b", OUTCOME_OK, false, NULL);
    assert_int_equal(count_rows(f, "p"), 3);
    assert_int_equal(session_pool_remove(f->s, &WHO, "p", &f->err), 0);
    assert_int_equal(count_rows(f, "p"), 0);
    assert_int_equal(session_get(f->s, ACTOR(TENANT), kept.id, &info, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(
        session_get(f->s, ACTOR(TENANT), asleep.id, &info, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(session_get(f->s, ACTOR(TENANT), away, &info, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(workspace_get(f->w, &WHO, kept.workspace, &ws, &f->err),
                     0);
    assert_int_equal(ws.files, 2);
    assert_int_equal(workspace_get(f->w, &WHO, asleep.workspace, &ws, &f->err),
                     0);
    /* One that never got a file goes with its session, as always. */
    assert_int_equal(workspace_get(f->w, &WHO, empty.workspace, &ws, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(count_events(f, "session.delete") >= 3, 1);
    assert_int_equal(create_in(f, "p", false, NULL), -ERR_INVALID);
    assert_int_equal(fake.releases, fake.spawns);
    /* The name is free, for anybody. */
    assert_int_equal(
        put_as(f, &OTHER, POOL_MAKE, &(struct pool_spec){.name = "p"}, NULL),
        0);
}

static void removal_of_what_sleeps_in_the_store(void **state)
{
    struct fixture *f = *state;
    struct session_info kept, info;
    struct workspace_info ws;

    make_pool(f, "p");
    for (int i = 0; i < 5; i++)
        assert_int_equal(create_in(f, "p", false, &kept), 0);
    check_run(f, "file a", OUTCOME_OK, false, NULL);
    close_it(f);
    open_it(f);
    assert_int_equal(count_rows(f, "p"), 5);
    assert_int_equal(session_pool_remove(f->s, &WHO, "p", &f->err), 0);
    assert_int_equal(count_rows(f, "p"), 0);
    assert_int_equal(count_events(f, "session.delete"), 5);
    assert_int_equal(session_get(f->s, ACTOR(TENANT), kept.id, &info, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(workspace_get(f->w, &WHO, kept.workspace, &ws, &f->err),
                     0);
    assert_int_equal(ws.files, 1);
}

static void removal_ends_what_runs(void **state)
{
    struct fixture *f = *state;
    struct bg b = {.f = f, .code = "file a\nsleep 20000"};
    struct workspace_info ws;
    struct session_info info;

    make_pool(f, "p");
    assert_int_equal(create_in(f, "p", false, &info), 0);
    bg_start(&b);
    wait_state(f, SESSION_RUNNING, 0);
    assert_int_equal(session_pool_remove(f->s, &WHO, "p", &f->err), 0);
    (void)pthread_join(b.thread, NULL);
    assert_int_equal(b.rc, 0);
    expect(b.e, OUTCOME_CANCELLED, true, NULL);
    assert_int_equal(workspace_get(f->w, &WHO, info.workspace, &ws, &f->err),
                     0);
    assert_int_equal(ws.files, 1);
}

static void refused_while_stopping(void **state)
{
    struct fixture *f = *state;
    struct pool_spec spec = spec_of("late");

    make_pool(f, "early");
    sessions_stop(f->s, 1);
    assert_int_equal(put_pool(f, POOL_MAKE, &spec), -ERR_UNAVAILABLE);
    assert_int_equal(session_pool_remove(f->s, &WHO, "early", &f->err),
                     -ERR_UNAVAILABLE);
}

/* ---- all at once -------------------------------------------------------- */

struct crowd {
    struct fixture *f;
    atomic_bool stop;
    atomic_uint made, refused;
};

static void *creates(void *arg)
{
    struct crowd *c = arg;

    for (unsigned i = 0; !atomic_load(&c->stop); i++) {
        struct session_spec spec = {.pool = "busy", .ephemeral = i % 3 == 0};
        struct exec_spec run = {.code = "file x", .code_len = 6};
        struct session_info info;
        struct execution *e;
        struct error err;

        if (session_create(c->f->s, &WHO, &spec, &info, &err) < 0) {
            /* No pool, or no room: nothing else may go wrong. */
            if (err.code != ERR_INVALID && err.code != ERR_LIMIT &&
                err.code != ERR_BUSY)
                fail_msg("%s", err.message);
            atomic_fetch_add(&c->refused, 1);
            fake_nap(1);
            continue;
        }
        atomic_fetch_add(&c->made, 1);
        session_info_done(&info);
        if (execution_run(c->f->s, &WHO, info.id, &run, &e, &err) == 0)
            execution_unref(e);
        if (i % 2)
            (void)session_delete(c->f->s, &WHO, info.id, &err);
    }
    return NULL;
}

static void *changes(void *arg)
{
    struct crowd *c = arg;

    for (unsigned i = 0; !atomic_load(&c->stop); i++) {
        struct pool_spec spec = spec_of("busy");
        struct session_metrics *m = xcalloc(1, sizeof(*m));
        struct pool_info *list, info;
        struct error err;
        size_t count;

        spec.cooldown_s = 100 + i % 7;
        spec.ready = i % 3;
        spec.memory_bytes = (1 + i % 2) * (1ll << 30);
        if (session_pool_put(c->f->s, &WHO, POOL_CHANGE, &spec, NULL, &info,
                             &err) == 0)
            pool_info_done(&info);
        if (session_pool_list(c->f->s, ACTOR(TENANT), &list, &count, &err) ==
            0)
            free_list(list, count);
        sessions_metrics(c->f->s, m);
        free(m);
    }
    return NULL;
}

static void create_change_remove_at_once(void **state)
{
    struct fixture *f = *state;
    struct crowd c = {.f = f};
    pthread_t threads[4];
    struct pool_spec spec = spec_of("busy");
    struct pool_info info;
    struct error err;

    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, creates, &c), 0);
    assert_int_equal(pthread_create(&threads[3], NULL, changes, &c), 0);
    for (int i = 0; i < 12; i++) {
        spec.ready = 1;
        spec.max_sessions = 20;
        assert_int_equal(
            session_pool_put(f->s, &WHO, POOL_MAKE, &spec, NULL, &info, &err),
            0);
        pool_info_done(&info);
        fake_nap(40);
        assert_int_equal(session_pool_remove(f->s, &WHO, "busy", &err), 0);
        assert_int_equal(count_rows(f, "busy"), 0);
    }
    atomic_store(&c.stop, true);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    assert_true(atomic_load(&c.made) > 0);
    assert_int_equal(atomic_load(&f->s->live), 0);
    assert_int_equal(f->s->table.count, 0);
    assert_int_equal(count_rows(f, "busy"), 0);
    for (int i = 0; i < 2000 && fake.releases != fake.spawns; i++)
        fake_nap(1);
    assert_int_equal(fake.releases, fake.spawns);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(is_as_the_first_where_nothing_is_said),
        TEST(names_are_plain),
        TEST(numbers_at_below_and_above),
        TEST(ready_is_bounded_by_sessions_and_by_the_machine),
        TEST(words_are_known),
        TEST(no_more_than_so_many),
        TEST(I3_a_foreign_pool_is_as_unknown),
        TEST(making_changing_and_either),
        TEST(a_change_holds_from_now_on),
        TEST(ready_boxes_follow),
        TEST(R8_ready_boxes_make_way),
        TEST(settings_are_not_kept_for_ever),
        TEST(D1_a_restart_keeps_them),
        TEST(another_configuration),
        TEST(removal_ends_sessions_and_keeps_workspaces),
        TEST(removal_of_what_sleeps_in_the_store),
        TEST(removal_ends_what_runs),
        TEST(refused_while_stopping),
        cmocka_unit_test_setup_teardown(create_change_remove_at_once,
                                        start_wide, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
