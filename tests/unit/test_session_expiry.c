/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When sessions expire, what that means, and for whom it is the end. The
 * sandbox is a fake, the store is real; time passes by setting the last use
 * back.
 */
#include "session_fixture.h"

/* As if it had been used so long ago; cooldown_s of the fixture is 100. */
static void age(struct fixture *f, int64_t ms)
{
    struct session *se = session_find(f->s, &WHO, f->id, &f->err);

    assert_non_null(se);
    mutex_lock(&se->lock);
    se->last_used_at_ms = clock_real_ms() - ms;
    mutex_unlock(&se->lock);
    session_unref(se);
}

/* However slow the machine is. */
static void wait_dormant(struct fixture *f)
{
    for (int i = 0; i < 60000 && get(f).state != SESSION_DORMANT; i++)
        fake_nap(1);
    assert_int_equal(get(f).state, SESSION_DORMANT);
}

static struct session_info visit(struct fixture *f)
{
    struct session_info info;

    if (session_visit(f->s, ACTOR(TENANT), f->id, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    session_info_done(&info);
    return info;
}

static int64_t row_used(struct fixture *f)
{
    struct store_tx *tx = NULL;
    struct store_rows *row = NULL;
    int64_t used;

    if (store_begin(f->store, STORE_READ, "a test", &tx, &f->err) < 0 ||
        store_one(tx, &row, &f->err,
                  "SELECT used_at_ms FROM sessions WHERE id = ?1", "t",
                  f->id) != 1)
        fail_msg("%s", f->err.message);
    used = store_int(row, 0);
    store_rows_done(&row);
    store_rollback(&tx);
    return used;
}

static void session_expiry_at_its_end(void **state)
{
    static const int64_t used = 1700000000000;

    (void)state;
    assert_false(session_expiry_past(used, 20, used));
    assert_false(session_expiry_past(used, 20, used + 19999));
    assert_false(session_expiry_past(used, 20, used + 20000));
    assert_true(session_expiry_past(used, 20, used + 20001));
    assert_false(session_expiry_past(used, SESSION_COOLDOWN_MAX_S,
                                     used + INT64_C(2592000000)));
    assert_true(session_expiry_past(used, SESSION_COOLDOWN_MAX_S,
                                    used + INT64_C(2592000001)));
}

static void session_expiry_final_names(void **state)
{
    static const struct {
        const char *list;
        bool final;
    } cases[] = {
        {NULL, false},  {"", false},      {"*", true},        {"acme", true},
        {"acm", false}, {"acmee", false}, {"a,acme,b", true}, {"b,acme", true},
        {"x,*", true},  {",,acme", true}, {"other", false},   {"**", false},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        f->conf.final_expiry_tenants = (char *)cases[i].list;
        assert_int_equal(session_expiry_final(f->s, TENANT), cases[i].final);
    }
}

static void session_expired_is_by_the_clock(void **state)
{
    struct fixture *f = *state;
    struct session_info info = get(f);
    int64_t used;

    assert_int_equal(info.cooldown_s, 100);
    assert_int_equal(info.expires_at_ms, info.last_used_at_ms + 100000);
    assert_false(info.expired);
    age(f, 90000);
    used = get(f).last_used_at_ms;
    assert_false(get(f).expired);
    assert_int_equal(get(f).last_used_at_ms, used);
    /* A visit is a use. */
    info = visit(f);
    assert_true(info.last_used_at_ms > used);
    assert_false(info.expired);
    /* But does not bring back what has expired, nor does looking. */
    age(f, 100001);
    used = get(f).last_used_at_ms;
    info = visit(f);
    assert_true(info.expired);
    assert_false(info.final);
    assert_int_equal(info.last_used_at_ms, used);
    assert_int_equal(get(f).last_used_at_ms, used);
    assert_int_equal(get(f).state, SESSION_IDLE); /* the reaper's clock */
    /* Here it merely wakes. */
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_false(get(f).expired);
}

static void session_cooldown_of_its_own(void **state)
{
    static const struct {
        uint32_t asked, got;
        int rc;
    } cases[] = {
        {0, 100, 0},
        {1, 1, 0},
        {SESSION_COOLDOWN_MAX_S, SESSION_COOLDOWN_MAX_S, 0},
        {SESSION_COOLDOWN_MAX_S + 1, 0, -ERR_INVALID},
    };
    struct fixture *f = *state;
    struct session_info info;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct session_spec spec = {.cooldown_s = cases[i].asked};

        assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err),
                         cases[i].rc);
        if (cases[i].rc < 0)
            continue;
        assert_int_equal(info.cooldown_s, cases[i].got);
        assert_int_equal(info.expires_at_ms,
                         info.last_used_at_ms + cases[i].got * INT64_C(1000));
        memcpy(f->id, info.id, sizeof(f->id));
        session_info_done(&info);
        if (cases[i].asked == 1) /* the pool's is far longer */
            wait_dormant(f);
        else
            assert_int_equal(get(f).state, SESSION_IDLE);
    }
}

/* Everything that would wake it or touches its files. */
static void expect_all(struct fixture *f, int rc)
{
    struct exec_spec spec = {.code = "out x", .code_len = 5};
    struct session_attach file = {
        .file = "file_00000000000000000000000000000000", .path = "x"};
    struct execution *e = NULL;
    struct session_file *files, one;
    struct session_upload *u = NULL;
    struct session_info info;
    struct stat st;
    uint32_t changed;
    size_t count;
    bool more;
    int fd;

    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err), rc);
    assert_int_equal(
        execution_submit(f->s, &WHO, f->id, &spec, NULL, NULL, &e, &f->err),
        rc);
    assert_int_equal(session_reset(f->s, ACTOR(TENANT), f->id, &info, &f->err),
                     rc);
    assert_int_equal(
        session_refresh(f->s, &WHO, f->id, &changed, &info, &f->err), rc);
    assert_int_equal(session_interrupt(f->s, ACTOR(TENANT), f->id, &f->err),
                     rc);
    assert_int_equal(session_attach(f->s, &WHO, f->id, &file, &one, &f->err),
                     rc);
    assert_int_equal(session_files_list(f->s, ACTOR(TENANT), f->id, 1, NULL,
                                        &files, &count, &more, &f->err),
                     rc);
    assert_int_equal(
        session_files_open(f->s, ACTOR(TENANT), f->id, "a", &fd, &st, &f->err),
        rc);
    assert_int_equal(session_upload_begin(f->s, &WHO, f->id, "a", &u, &f->err),
                     rc);
    assert_int_equal(session_files_remove(f->s, &WHO, f->id, "a", &f->err),
                     rc);
    assert_string_equal(f->err.message, "the session has expired");
}

static void session_final_expiry_refuses(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.identifier = "over"};
    struct session_info info, *page;
    size_t count;
    bool made, more;
    int64_t used;

    f->conf.final_expiry_tenants = (char *)"other,acme";
    assert_int_equal(session_ensure(f->s, &WHO, &spec, &made, &info, &f->err),
                     0);
    memcpy(f->id, info.id, sizeof(f->id));
    session_info_done(&info);
    put(f, "a");
    /* Below: all is well. */
    age(f, 95000);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    age(f, 95000);
    put(f, "a");
    /* Above, its sandbox still there, and after it went. */
    for (int round = 0; round < 3; round++) {
        unsigned spawns;

        age(f, 100500);
        if (round == 1) { /* the reaper's turn */
            struct session *se = session_find(f->s, &WHO, f->id, &f->err);

            mutex_lock(&se->lock);
            se->used_ms -= 200000;
            mutex_unlock(&se->lock);
            session_unref(se);
            wait_dormant(f);
        }
        if (round == 2) {
            close_it(f);
            open_it(f);
            wait_proven(f);
        }
        used = get(f).last_used_at_ms;
        spawns = atomic_load(&fake.spawns);
        expect_all(f, -ERR_EXPIRED);
        /* None of it was a use of it, or woke it. */
        assert_int_equal(get(f).last_used_at_ms, used);
        assert_int_equal(atomic_load(&fake.spawns), spawns);
        assert_true(get(f).expired);
        assert_true(get(f).final);
        assert_true(visit(f).final);
        assert_int_equal(
            session_ensure(f->s, &WHO, &spec, &made, &info, &f->err), 0);
        assert_false(made);
        assert_true(info.final);
        assert_int_equal(info.last_used_at_ms, used);
        session_info_done(&info);
        assert_int_equal(session_list(f->s, ACTOR(TENANT), 1, NULL, &page,
                                      &count, &more, &f->err),
                         0);
        assert_string_equal(page[0].id, f->id);
        assert_true(page[0].final);
        session_info_done(&page[0]);
        free(page);
    }
    /* Its files are in its workspace all the same. */
    info = get(f);
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    {
        struct workspace_file file;

        assert_int_equal(workspace_file_get(f->w, &WHO, info.workspace, "a",
                                            NULL, &file, &f->err),
                         0);
        workspace_file_done(&file);
    }
    assert_int_equal(session_ensure(f->s, &WHO, &spec, &made, &info, &f->err),
                     0);
    assert_true(made);
    session_info_done(&info);
}

static void session_running_does_not_expire(void **state)
{
    struct fixture *f = *state;
    struct bg b = {.f = f, .code = "sleep 400"};
    struct bg next = {.f = f, .code = "out x"};
    struct session_upload *u;

    f->conf.final_expiry_tenants = (char *)"*";
    bg_start(&b);
    wait_state(f, SESSION_RUNNING, 0);
    age(f, 200000);
    assert_false(get(f).expired);
    assert_true(get(f).expires_at_ms > clock_real_ms());
    bg_start(&next); /* waits for its turn */
    wait_state(f, SESSION_RUNNING, 1);
    age(f, 200000);
    pthread_join(b.thread, NULL);
    pthread_join(next.thread, NULL);
    assert_int_equal(b.rc, 0);
    assert_int_equal(next.rc, 0);
    expect(b.e, OUTCOME_OK, false, NULL);
    expect(next.e, OUTCOME_OK, false, NULL);
    assert_false(get(f).expired);
    /* Nor does one that a file is going into. */
    assert_int_equal(session_upload_begin(f->s, &WHO, f->id, "a", &u, &f->err),
                     0);
    age(f, 200000);
    assert_false(get(f).expired);
    session_upload_abort(u);
    assert_false(get(f).expired);
}

/* What its row says is near enough whenever the service ends. */
static void session_last_use_is_written_down(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.cooldown_s = 4}; /* so: once a second */
    struct session_info info;
    char first[ID_MAX]; /* of the pool's cooldown */
    int64_t used;

    memcpy(first, f->id, sizeof(first));
    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err), 0);
    memcpy(f->id, info.id, sizeof(f->id));
    session_info_done(&info);
    assert_int_equal(row_used(f), info.last_used_at_ms);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    used = get(f).last_used_at_ms;
    for (int i = 0; i < 10000 && row_used(f) != used; i++)
        fake_nap(1);
    assert_int_equal(row_used(f), used);
    close_it(f);
    open_it(f);
    assert_int_equal(get(f).last_used_at_ms, used);
    /* A use of one that sleeps is not lost by a stop either. */
    memcpy(f->id, first, sizeof(f->id));
    assert_int_equal(get(f).state, SESSION_DORMANT);
    used = visit(f).last_used_at_ms;
    assert_true(used > row_used(f));
    close_it(f);
    open_it(f);
    assert_int_equal(get(f).last_used_at_ms, used);
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_expiry_at_its_end),
        LIVE(session_expiry_final_names),
        LIVE(session_expired_is_by_the_clock),
        LIVE(session_cooldown_of_its_own),
        LIVE(session_final_expiry_refuses),
        LIVE(session_running_does_not_expire),
        LIVE(session_last_use_is_written_down),
    };

    return cmocka_run_group_tests_name("session_expiry", tests, NULL, NULL);
}
