/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions by the names clients give them, containers, and listings by a
 * filter. The sandbox is a fake, the store is real.
 */
#include "session_fixture.h"

#define MANY 8

static int create_spec(struct fixture *f, const struct actor *who,
                       const struct session_spec *spec, char ret_id[ID_MAX])
{
    struct session_info info;
    int rc = session_create(f->s, who, spec, &info, &f->err);

    if (rc == 0) {
        memcpy(ret_id, info.id, ID_MAX);
        session_info_done(&info);
    }
    return rc;
}

static bool ensure(struct fixture *f, const struct session_spec *spec,
                   char ret_id[ID_MAX])
{
    struct session_info info;
    bool made = false;

    if (session_ensure(f->s, &WHO, spec, &made, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_string_equal(info.identifier, spec->identifier);
    memcpy(ret_id, info.id, ID_MAX);
    session_info_done(&info);
    return made;
}

static int identify(struct fixture *f, const char *tenant, const char *pool,
                    const char *identifier, char ret_id[ID_MAX])
{
    struct session_info info;
    int rc = session_identify(f->s, ACTOR(tenant), pool, identifier, &info,
                              &f->err);

    if (rc == 0) {
        memcpy(ret_id, info.id, ID_MAX);
        session_info_done(&info);
    }
    return rc;
}

static void session_identifier_rules(void **state)
{
    char longest[130];
    struct {
        const char *text;
        int rc;
    } cases[] = {
        {"a", 0},
        {"!~", 0},
        {"user:42/chat", 0},
        {longest + 1, 0},
        {longest, -ERR_INVALID},
        {"", -ERR_INVALID},
        {" ", -ERR_INVALID},
        {"a b", -ERR_INVALID},
        {"a\tb", -ERR_INVALID},
        {"a\nb", -ERR_INVALID},
        {"\x7f", -ERR_INVALID},
        {"caf\xc3\xa9", -ERR_INVALID},
    };
    struct fixture *f = *state;
    struct session_spec spec = {0};
    char id[ID_MAX];

    memset(longest, 'x', 129);
    longest[129] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        spec.identifier = cases[i].text;
        assert_int_equal(create_spec(f, &WHO, &spec, id), cases[i].rc);
        assert_int_equal(identify(f, TENANT, NULL, cases[i].text, id),
                         cases[i].rc);
        if (cases[i].rc == 0)
            assert_int_equal(session_delete(f->s, &WHO, id, &f->err), 0);
    }
    spec.identifier = NULL;
    assert_int_equal(session_ensure(f->s, &WHO, &spec, &(bool){false},
                                    &(struct session_info){0}, &f->err),
                     -ERR_INVALID);
}

static void I3_session_identifier_is_of_tenant_and_pool(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.identifier = "same"};
    char first[ID_MAX], other[ID_MAX], second[ID_MAX], id[ID_MAX];

    assert_int_equal(create_spec(f, &WHO, &spec, first), 0);
    /* Taken, and it says by whom. */
    assert_int_equal(create_spec(f, &WHO, &spec, id), -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, first));
    assert_int_equal(identify(f, TENANT, NULL, "same", id), 0);
    assert_string_equal(id, first);
    assert_int_equal(identify(f, TENANT, "default", "same", id), 0);
    /* Elsewhere it is another, or none. */
    assert_int_equal(identify(f, TENANT, "second", "same", id),
                     -ERR_NOT_FOUND);
    assert_int_equal(identify(f, TENANT, "nowhere", "same", id),
                     -ERR_NOT_FOUND);
    assert_int_equal(identify(f, "other", NULL, "same", id), -ERR_NOT_FOUND);
    assert_int_equal(create_spec(f, &OTHER, &spec, other), 0);
    assert_string_not_equal(other, first);
    spec.pool = "second";
    assert_int_equal(create_spec(f, &WHO, &spec, second), 0);
    assert_int_equal(identify(f, TENANT, "second", "same", id), 0);
    assert_string_equal(id, second);
    assert_int_equal(identify(f, "other", NULL, "same", id), 0);
    assert_string_equal(id, other);
    /* Not by what is not quite the name. */
    assert_int_equal(identify(f, TENANT, NULL, "sam", id), -ERR_NOT_FOUND);
    assert_int_equal(identify(f, TENANT, NULL, "Same", id), -ERR_NOT_FOUND);
}

static void session_ensure_finds_or_makes(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.identifier = "one", .cooldown_s = 7};
    struct session *se;
    char first[ID_MAX], id[ID_MAX];

    assert_true(ensure(f, &spec, first));
    spec.cooldown_s = 9; /* of a session that is there nothing changes */
    assert_false(ensure(f, &spec, id));
    assert_string_equal(id, first);
    /* It counts as a use, and looking does not. */
    memcpy(f->id, first, sizeof(f->id));
    assert_int_equal(get(f).cooldown_s, 7);
    se = session_find(f->s, &WHO, first, &f->err);
    se->last_used_at_ms -= 5000;
    assert_int_equal(identify(f, TENANT, NULL, "one", id), 0);
    assert_true(clock_real_ms() - get(f).last_used_at_ms >= 5000);
    assert_false(ensure(f, &spec, id));
    assert_true(clock_real_ms() - get(f).last_used_at_ms < 5000);
    session_unref(se);
}

/* ---- at once ------------------------------------------------------------ */

struct asker {
    struct fixture *f;
    pthread_t thread;
    struct session_spec spec;
    bool made;
    char id[ID_MAX];
    struct error err;
    int rc;
};

static void *on_ask(void *arg)
{
    struct asker *a = arg;
    struct session_info info;

    a->rc = session_ensure(a->f->s, &WHO, &a->spec, &a->made, &info, &a->err);
    if (a->rc == 0) {
        memcpy(a->id, info.id, ID_MAX);
        session_info_done(&info);
    }
    return NULL;
}

static void ask_at_once(struct fixture *f, const struct session_spec *spec)
{
    struct asker askers[MANY];
    unsigned made = 0, before = atomic_load(&fake.spawns);

    for (int i = 0; i < MANY; i++) {
        askers[i] = (struct asker){.f = f, .spec = *spec};
        assert_int_equal(
            pthread_create(&askers[i].thread, NULL, on_ask, &askers[i]), 0);
    }
    for (int i = 0; i < MANY; i++) {
        pthread_join(askers[i].thread, NULL);
        assert_int_equal(askers[i].rc, 0);
        assert_string_equal(askers[i].id, askers[0].id);
        made += askers[i].made;
    }
    assert_int_equal(made, 1);
    assert_int_equal(atomic_load(&fake.spawns), before + 1);
    assert_null(f->s->claims);
    assert_int_equal(session_delete(f->s, &WHO, askers[0].id, &f->err), 0);
}

static void session_ensure_many_at_once(void **state)
{
    struct fixture *f = *state;
    struct session_spec kept = {.identifier = "race"};
    struct session_spec ephemeral = {.identifier = "race", .ephemeral = true};
    struct session_spec transient = {.identifier = "race", .transient = true};

    for (int i = 0; i < 5; i++) {
        ask_at_once(f, &kept);
        ask_at_once(f, &ephemeral);
        ask_at_once(f, &transient);
    }
    /* One that can be loaded is loaded by one of them and made by none. */
    for (int i = 0; i < 3; i++) {
        struct asker askers[MANY];
        char id[ID_MAX];

        assert_int_equal(create_spec(f, &WHO, &kept, id), 0);
        close_it(f);
        open_it(f);
        wait_proven(f);
        for (int k = 0; k < MANY; k++) {
            askers[k] = (struct asker){.f = f, .spec = kept};
            assert_int_equal(
                pthread_create(&askers[k].thread, NULL, on_ask, &askers[k]),
                0);
        }
        for (int k = 0; k < MANY; k++) {
            pthread_join(askers[k].thread, NULL);
            assert_int_equal(askers[k].rc, 0);
            assert_false(askers[k].made);
            assert_string_equal(askers[k].id, id);
        }
        assert_int_equal(f->s->table.count, 1);
        assert_int_equal(session_delete(f->s, &WHO, id, &f->err), 0);
    }
}

/* Asking, deleting and asking again from all sides: never two at a time, and
 * no answer but a session or a refusal of ours. */
static void *on_churn(void *arg)
{
    struct asker *a = arg;

    for (int i = 0; i < 25; i++) {
        struct error err;

        (void)on_ask(a);
        if (a->rc < 0)
            break;
        if (i % 3 == 0 && session_delete(a->f->s, &WHO, a->id, &err) < 0 &&
            err.code != ERR_NOT_FOUND)
            a->rc = -(int)err.code;
    }
    return NULL;
}

static void session_ensure_while_others_delete(void **state)
{
    struct fixture *f = *state;
    struct asker askers[4];
    struct session_filter filter = {.identified = true, .limit = 10};
    struct session_info *page = NULL;
    size_t count = 0;
    bool more;

    for (int i = 0; i < 4; i++) {
        askers[i] = (struct asker){.f = f, .spec = {.identifier = "churn"}};
        assert_int_equal(
            pthread_create(&askers[i].thread, NULL, on_churn, &askers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(askers[i].thread, NULL);
        assert_int_equal(askers[i].rc, 0);
    }
    assert_int_equal(session_query(f->s, ACTOR(TENANT), &filter, &page, &count,
                                   &more, &f->err),
                     0);
    assert_true(count <= 1);
    for (size_t i = 0; i < count; i++)
        session_info_done(&page[i]);
    free(page);
    assert_int_equal(f->s->identified.count, count);
    assert_null(f->s->claims);
}

/* ---- over time ---------------------------------------------------------- */

static void D1_session_identifier_survives_a_restart(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.identifier = "kept",
                                .cooldown_s = 77,
                                .name = "n",
                                .container = true};
    struct session_spec gone = {.identifier = "gone", .ephemeral = true};
    struct session_info info;
    char first[ID_MAX], id[ID_MAX];

    assert_true(ensure(f, &spec, first));
    assert_true(ids_valid_dated("cntr", first));
    assert_true(ensure(f, &gone, id));
    close_it(f);
    open_it(f);
    assert_int_equal(
        session_identify(f->s, ACTOR(TENANT), NULL, "kept", &info, &f->err),
        0);
    assert_string_equal(info.id, first);
    assert_string_equal(info.identifier, "kept");
    assert_string_equal(info.name, "n");
    assert_int_equal(info.cooldown_s, 77);
    assert_int_equal(info.state, SESSION_DORMANT);
    assert_int_equal(info.expires_at_ms, info.last_used_at_ms + 77000);
    session_info_done(&info);
    assert_false(ensure(f, &spec, id));
    assert_string_equal(id, first);
    memcpy(f->id, first, sizeof(f->id));
    assert_int_equal(get(f).state, SESSION_DORMANT); /* not woken by it */
    assert_int_equal(create_spec(f, &WHO, &spec, id), -ERR_CONFLICT);
    assert_int_equal(identify(f, TENANT, NULL, "gone", id), -ERR_NOT_FOUND);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
}

static void session_identifier_is_free_after_delete(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.identifier = "again"};
    struct exec_info info;
    struct execution *e;
    char first[ID_MAX], id[ID_MAX];

    for (int i = 0; i < 3; i++) {
        spec.ephemeral = i == 2;
        assert_true(ensure(f, &spec, first));
        memcpy(f->id, first, sizeof(f->id));
        e = run_for(f, EXEC_PYTHON, "file a.txt", 0);
        execution_info(e, &info);
        assert_int_equal(info.file_count, 1);
        execution_unref(e);
        if (i == 1) { /* one that must be loaded first */
            close_it(f);
            open_it(f);
        }
        assert_int_equal(session_delete(f->s, &WHO, first, &f->err), 0);
        assert_int_equal(identify(f, TENANT, NULL, "again", id),
                         -ERR_NOT_FOUND);
        assert_true(ensure(f, &spec, id));
        assert_string_not_equal(id, first);
        memcpy(f->id, id, sizeof(f->id));
        assert_int_equal(get(f).executions, 0);
        assert_int_equal(session_delete(f->s, &WHO, id, &f->err), 0);
    }
    assert_int_equal(f->s->identified.count, 0);
}

/* A refusal leaves no claim behind. */
static void R8_session_ensure_limits(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {
        .identifier = "a", .pool = "second", .ephemeral = true};
    struct session_info info;
    bool made;
    char first[ID_MAX], id[ID_MAX];

    check_run(f, "out x", OUTCOME_OK, false, NULL); /* it was just used */
    assert_true(ensure(f, &spec, first));
    spec.identifier = "b";
    assert_int_equal(session_ensure(f->s, &WHO, &spec, &made, &info, &f->err),
                     -ERR_BUSY);
    assert_true(f->err.retry_after_s > 0);
    assert_null(f->s->claims);
    spec.identifier = "a"; /* what is there is had all the same */
    assert_false(ensure(f, &spec, id));
    assert_int_equal(session_delete(f->s, &WHO, first, &f->err), 0);
    spec.identifier = "b";
    assert_true(ensure(f, &spec, id));
    /* The tenant's own limit. */
    spec = (struct session_spec){.identifier = "c", .ephemeral = true};
    set_quota(f, TENANT, QUOTA_SESSIONS, 2);
    assert_int_equal(session_ensure(f->s, &WHO, &spec, &made, &info, &f->err),
                     -ERR_LIMIT);
    set_quota(f, TENANT, QUOTA_SESSIONS, 3);
    assert_true(ensure(f, &spec, id));
    /* A sandbox that cannot be made. */
    spec.identifier = "d";
    set_quota(f, TENANT, QUOTA_SESSIONS, 5);
    atomic_store(&fake.fault, FAULT_WALL);
    assert_true(session_ensure(f->s, &WHO, &spec, &made, &info, &f->err) < 0);
    atomic_store(&fake.fault, FAULT_NONE);
    assert_null(f->s->claims);
    assert_true(ensure(f, &spec, id));
    spec.pool = "nowhere";
    assert_true(session_ensure(f->s, &WHO, &spec, &made, &info, &f->err) < 0);
}

/* ---- containers --------------------------------------------------------- */

static void session_container_ids_are_good_everywhere(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.container = true};
    struct session_file *files;
    struct session_info info;
    struct stat st;
    uint32_t changed;
    size_t count;
    bool more;
    int fd;

    assert_int_equal(create_spec(f, &WHO, &spec, f->id), 0);
    assert_true(ids_valid_dated("cntr", f->id));
    assert_false(ids_valid("sess", f->id));
    for (int round = 0; round < 2; round++) {
        check_run(f, "file a.txt", OUTCOME_OK, false, NULL);
        put(f, "b");
        assert_int_equal(session_files_list(f->s, ACTOR(TENANT), f->id, 10,
                                            NULL, &files, &count, &more,
                                            &f->err),
                         0);
        assert_int_equal(count, 2);
        session_files_free(files, count);
        assert_int_equal(session_files_open(f->s, ACTOR(TENANT), f->id, "b",
                                            &fd, &st, &f->err),
                         0);
        fd_close(&fd);
        assert_int_equal(session_files_remove(f->s, &WHO, f->id, "b", &f->err),
                         0);
        assert_int_equal(
            session_visit(f->s, ACTOR(TENANT), f->id, &info, &f->err), 0);
        session_info_done(&info);
        assert_int_equal(
            session_reset(f->s, ACTOR(TENANT), f->id, &info, &f->err), 0);
        session_info_done(&info);
        assert_int_equal(
            session_refresh(f->s, &WHO, f->id, &changed, &info, &f->err), 0);
        session_info_done(&info);
        assert_int_equal(
            session_interrupt(f->s, ACTOR(TENANT), f->id, &f->err), 0);
        assert_int_equal(
            session_get(f->s, ACTOR("other"), f->id, &info, &f->err),
            -ERR_NOT_FOUND);
        close_it(f);
        open_it(f);
        wait_proven(f);
    }
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    assert_int_equal(session_get(f->s, ACTOR(TENANT), f->id, &info, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(
        session_get(f->s, ACTOR(TENANT), "cntr_12", &info, &f->err),
        -ERR_NOT_FOUND);
}

/* ---- listing ------------------------------------------------------------ */

/* The names of a page as one word; a '+' when there is more. */
static void expect_page(struct fixture *f, const struct session_filter *filter,
                        const char *want)
{
    struct buf got cleanup(buf_done) = {0};
    struct session_info *page = NULL;
    size_t count = 0;
    bool more = false;

    if (session_query(f->s, ACTOR(TENANT), filter, &page, &count, &more,
                      &f->err) < 0)
        fail_msg("%s", f->err.message);
    buf_adds(&got, "");
    for (size_t i = 0; i < count; i++) {
        buf_adds(&got, page[i].name[0] ? page[i].name : "-");
        session_info_done(&page[i]);
    }
    if (more)
        buf_adds(&got, "+");
    assert_string_equal(got.data, want);
    free(page);
}

static void session_query_filters(void **state)
{
    static const struct session_spec specs[] = {
        {.name = "a"},
        {.name = "b", .ephemeral = true, .identifier = "ib"},
        {.name = "c", .identifier = "ic"},
        {.name = "d", .pool = "second"},
        {.name = "a", .transient = true},
    };
    struct fixture *f = *state;
    char ids[ARRAY_SIZE(specs)][ID_MAX];

    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++)
        assert_int_equal(create_spec(f, &WHO, &specs[i], ids[i]), 0);
    expect_page(f, &(struct session_filter){.limit = 10}, "adcba");
    expect_page(f, &(struct session_filter){.limit = 5}, "adcba");
    expect_page(f, &(struct session_filter){.limit = 4}, "adcb+");
    expect_page(f, &(struct session_filter){.limit = 1}, "a+");
    expect_page(f, &(struct session_filter){.limit = 10, .oldest_first = true},
                "abcda");
    expect_page(f,
                &(struct session_filter){
                    .limit = 2, .oldest_first = true, .after = ids[1]},
                "cd+");
    expect_page(f, &(struct session_filter){.limit = 2, .after = ids[2]},
                "ba");
    expect_page(f, &(struct session_filter){.limit = 2, .after = ids[0]}, "");
    expect_page(f, &(struct session_filter){.limit = 2, .skip = 1}, "dc+");
    expect_page(
        f, &(struct session_filter){.limit = 2, .skip = 1, .after = ids[3]},
        "ba");
    expect_page(f, &(struct session_filter){.limit = 2, .skip = 5}, "");
    expect_page(f, &(struct session_filter){.limit = 2, .skip = UINT32_MAX},
                "");
    expect_page(f, &(struct session_filter){.limit = 9, .name = "a"}, "aa");
    expect_page(f, &(struct session_filter){.limit = 1, .name = "a"}, "a+");
    expect_page(f, &(struct session_filter){.limit = 9, .name = "x"}, "");
    expect_page(f, &(struct session_filter){.limit = 9, .pool = "second"},
                "d");
    expect_page(f, &(struct session_filter){.limit = 9, .pool = "nowhere"},
                "");
    expect_page(f, &(struct session_filter){.limit = 9, .identified = true},
                "cb");
    expect_page(f,
                &(struct session_filter){.limit = 9,
                                         .pool = "default",
                                         .identified = true,
                                         .oldest_first = true,
                                         .skip = 1},
                "c");
}

static void session_query_refusals_and_rows(void **state)
{
    struct fixture *f = *state;
    struct session_info *page = NULL;
    struct session_filter filter = {.limit = 1000};
    size_t count = 0;
    bool more;
    char id[ID_MAX];

    assert_int_equal(
        create_spec(f, &OTHER, &(struct session_spec){.name = "theirs"}, id),
        0);
    expect_page(f, &filter, "-");
    filter.limit = 1001;
    assert_int_equal(session_query(f->s, ACTOR(TENANT), &filter, &page, &count,
                                   &more, &f->err),
                     -ERR_INVALID);
    filter.limit = 0;
    assert_int_equal(session_query(f->s, ACTOR(TENANT), &filter, &page, &count,
                                   &more, &f->err),
                     -ERR_INVALID);
    filter = (struct session_filter){.limit = 1, .after = "sess_1"};
    assert_int_equal(session_query(f->s, ACTOR(TENANT), &filter, &page, &count,
                                   &more, &f->err),
                     -ERR_INVALID);
    filter.after = id; /* another tenant's */
    assert_int_equal(session_query(f->s, ACTOR(TENANT), &filter, &page, &count,
                                   &more, &f->err),
                     -ERR_INVALID);
    /* From rows alone, in the same order. */
    assert_int_equal(
        create_spec(f, &WHO, &(struct session_spec){.name = "z"}, id), 0);
    close_it(f);
    open_it(f);
    expect_page(f, &(struct session_filter){.limit = 5}, "z-");
    expect_page(f, &(struct session_filter){.limit = 5, .oldest_first = true},
                "-z");
    assert_int_equal(f->s->table.count, 0); /* none was loaded for it */
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(session_identifier_rules),
        LIVE(I3_session_identifier_is_of_tenant_and_pool),
        LIVE(session_ensure_finds_or_makes),
        LIVE(session_ensure_many_at_once),
        LIVE(session_ensure_while_others_delete),
        LIVE(D1_session_identifier_survives_a_restart),
        LIVE(session_identifier_is_free_after_delete),
        LIVE(R8_session_ensure_limits),
        LIVE(session_container_ids_are_good_everywhere),
        LIVE(session_query_filters),
        LIVE(session_query_refusals_and_rows),
    };

    return cmocka_run_group_tests_name("session_identify", tests, NULL, NULL);
}
