/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that go to sleep so that another one of their tenant can start. The
 * sandbox is a fake, the store is real; time passes by setting the last use
 * back.
 */
#include "session_fixture.h"

#define MADE 8

/* Sets the last use back, for the reaper does not look at this clock. */
static void age(struct fixture *f, const char *id, uint64_t ms)
{
    struct session *se = session_find(f->s, &WHO, id, &f->err);

    assert_non_null(se);
    mutex_lock(&se->lock);
    se->used_ms = clock_mono_ms() - ms;
    mutex_unlock(&se->lock);
    session_unref(se);
}

static enum session_state state_of(struct fixture *f, const char *id)
{
    struct session_info info;

    if (session_get(f->s, &WHO, id, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    session_info_done(&info);
    return info.state;
}

static int make(struct fixture *f, const struct session_spec *spec,
                const struct actor *who, char ret_id[ID_MAX])
{
    struct session_info info;
    int rc = session_create(f->s, who, spec, &info, &f->err);

    if (rc == 0) {
        memcpy(ret_id, info.id, ID_MAX);
        session_info_done(&info);
    }
    return rc;
}

static void run_in(struct fixture *f, const char *id, const char *code)
{
    memcpy(f->id, id, ID_MAX);
    check_run(f, code, OUTCOME_OK, false, NULL);
}

static uint64_t made_room(struct fixture *f)
{
    struct session_metrics m;

    sessions_metrics(f->s, &m);
    return m.made_room;
}

/* The one of the fixture, and more up to the tenant's limit of 5; each has
 * run something. ids[0] is unused for longest. */
static void fill(struct fixture *f, char ids[][ID_MAX])
{
    const struct session_spec spec = {0};

    memcpy(ids[0], f->id, ID_MAX);
    for (int i = 1; i < 5; i++)
        assert_int_equal(make(f, &spec, &WHO, ids[i]), 0);
    for (int i = 0; i < 5; i++) {
        run_in(f, ids[i], "out x");
        age(f, ids[i], 60000 - (uint64_t)i * 1000);
    }
}

static void R8_the_longest_idle_session_makes_room(void **state)
{
    struct fixture *f = *state;
    const struct session_spec spec = {0};
    char ids[MADE][ID_MAX];

    fill(f, ids);
    assert_int_equal(made_room(f), 0);
    assert_int_equal(make(f, &spec, &WHO, ids[5]), 0);
    assert_int_equal(state_of(f, ids[0]), SESSION_DORMANT);
    assert_int_equal(state_of(f, ids[1]), SESSION_IDLE);
    assert_int_equal(made_room(f), 1);
    run_in(f, ids[5], "out x");
    /* It wakes for its next call, and the next one makes room for that. */
    run_in(f, ids[0], "out x");
    assert_int_equal(state_of(f, ids[0]), SESSION_IDLE);
    assert_int_equal(state_of(f, ids[1]), SESSION_DORMANT);
    assert_int_equal(made_room(f), 2);
}

static void R8_a_session_that_has_run_nothing_goes_first(void **state)
{
    struct fixture *f = *state;
    const struct session_spec spec = {0};
    char ids[MADE][ID_MAX];

    fill(f, ids);
    assert_int_equal(session_delete(f->s, &WHO, ids[4], &f->err), 0);
    assert_int_equal(make(f, &spec, &WHO, ids[4]), 0); /* newest, unused */
    assert_int_equal(make(f, &spec, &WHO, ids[5]), 0);
    assert_int_equal(state_of(f, ids[4]), SESSION_DORMANT);
    assert_int_equal(state_of(f, ids[0]), SESSION_IDLE);
}

static void R8_sessions_in_use_do_not_make_room(void **state)
{
    struct fixture *f = *state;
    const struct session_spec spec = {0};
    struct session_info info;
    struct bg b = {.f = f, .code = "deaf 600000", .timeout_s = 10};
    char ids[MADE][ID_MAX];

    fill(f, ids);
    /* One runs, one is kept awake, two were just used. */
    memcpy(f->id, ids[0], ID_MAX);
    bg_start(&b);
    wait_state(f, SESSION_RUNNING, 0);
    assert_int_equal(session_keep_awake(f->s, &WHO, ids[1], &info, &f->err),
                     0);
    session_info_done(&info);
    age(f, ids[1], 50000);
    age(f, ids[2], 4000);
    age(f, ids[3], 1000);
    age(f, ids[4], 5001); /* past the grace */
    assert_int_equal(make(f, &spec, &WHO, ids[5]), 0);
    assert_int_equal(state_of(f, ids[4]), SESSION_DORMANT);
    run_in(f, ids[5], "out x");
    /* Nothing is left: the first can go in a second. */
    assert_int_equal(make(f, &spec, &WHO, ids[6]), -ERR_LIMIT);
    assert_int_equal(f->err.retry_after_s, 1);
    assert_non_null(strstr(f->err.hint, "1 in use, 4 used or kept awake"));
    assert_int_equal(made_room(f), 1);
    /* A dormant one is refused as well, and can be woken later. */
    memcpy(f->id, ids[4], ID_MAX);
    assert_int_equal(state_of(f, ids[4]), SESSION_DORMANT);
    age(f, ids[2], 6000);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(state_of(f, ids[2]), SESSION_DORMANT);
    assert_int_equal(session_delete(f->s, &WHO, ids[0], &f->err), 0);
    (void)pthread_join(b.thread, NULL);
    execution_unref(b.e);
}

static void R8_ephemeral_sessions_and_other_tenants_stay(void **state)
{
    struct fixture *f = *state;
    const struct session_spec spec = {0}, brief = {.ephemeral = true};
    char ids[MADE][ID_MAX], other[ID_MAX];

    run_in(f, f->id, "out x");
    memcpy(ids[0], f->id, ID_MAX);
    assert_int_equal(session_delete(f->s, &WHO, ids[0], &f->err), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(make(f, &brief, &WHO, ids[i]), 0);
        age(f, ids[i], 40000);
    }
    assert_int_equal(make(f, &spec, &WHO, ids[5]), -ERR_LIMIT);
    assert_in_range(f->err.retry_after_s, 59, 60); /* of a cooldown of 100 */
    assert_non_null(strstr(f->err.hint, "5 ephemeral"));
    /* The machine is full: nothing of another tenant goes for it. */
    f->conf.max_sessions = 5;
    assert_int_equal(make(f, &spec, &OTHER, other), -ERR_BUSY);
    assert_int_equal(made_room(f), 0);
}

static void R8_the_limits_of_pool_and_machine(void **state)
{
    struct fixture *f = *state;
    const struct session_spec spec = {0}, second = {.pool = "second"};
    char ids[MADE][ID_MAX];

    fill(f, ids);
    f->conf.max_sessions = 5;
    f->conf.sessions_per_tenant = 100;
    set_quota(f, TENANT, QUOTA_SESSIONS, 100);
    assert_int_equal(make(f, &second, &WHO, ids[5]), 0); /* the machine's */
    assert_int_equal(state_of(f, ids[0]), SESSION_DORMANT);
    run_in(f, ids[5], "out x");
    age(f, ids[5], 6000);
    f->conf.max_sessions = 100;
    /* The pool's limit of 1: only its own session makes room. */
    assert_int_equal(make(f, &second, &WHO, ids[6]), 0);
    assert_int_equal(state_of(f, ids[5]), SESSION_DORMANT);
    assert_int_equal(state_of(f, ids[1]), SESSION_IDLE);
    /* Memory: as many as it takes, and none if they would not do. */
    set_quota(f, TENANT, QUOTA_MEMORY, 5 * f->conf.pools[0].memory_bytes);
    for (int i = 1; i < 5; i++)
        age(f, ids[i], 60000 - (uint64_t)i * 1000);
    assert_int_equal(
        make(f,
             &(struct session_spec){.limits.memory_bytes =
                                        2 * f->conf.pools[0].memory_bytes},
             &WHO, ids[7]),
        0);
    assert_int_equal(state_of(f, ids[6]), SESSION_DORMANT); /* ran nothing */
    assert_int_equal(state_of(f, ids[1]), SESSION_DORMANT);
    assert_int_equal(state_of(f, ids[2]), SESSION_IDLE);
    set_quota(f, TENANT, QUOTA_MEMORY, f->conf.pools[0].memory_bytes - 1);
    assert_int_equal(make(f, &spec, &WHO, ids[6]), -ERR_LIMIT);
    assert_int_equal(state_of(f, ids[2]), SESSION_IDLE);
}

static void R8_a_session_created_asleep_holds_nothing(void **state)
{
    struct fixture *f = *state;
    const struct session_spec spec = {.container = true, .asleep = true};
    char ids[20][ID_MAX];
    unsigned before = atomic_load(&fake.spawns);

    run_in(f, f->id, "out x");
    for (int i = 0; i < 20; i++) {
        assert_int_equal(make(f, &spec, &WHO, ids[i]), 0);
        assert_int_equal(state_of(f, ids[i]), SESSION_DORMANT);
    }
    assert_int_equal(atomic_load(&fake.spawns), before);
    assert_int_equal(atomic_load(&f->s->live), 1);
    assert_int_equal(atomic_load(&f->s->creating), 0);
    /* Files need no sandbox either. */
    memcpy(f->id, ids[3], ID_MAX);
    put(f, "a.txt");
    assert_int_equal(atomic_load(&f->s->live), 1);
    run_in(f, ids[3], "out x");
    run_in(f, ids[4], "out x");
    assert_int_equal(get(f).interpreter, 1);
    assert_int_equal(atomic_load(&f->s->live), 3);
    for (int i = 0; i < 20; i++)
        assert_int_equal(session_delete(f->s, &WHO, ids[i], &f->err), 0);
    assert_int_equal(atomic_load(&f->s->live), 1);
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(R8_the_longest_idle_session_makes_room),
        LIVE(R8_a_session_that_has_run_nothing_goes_first),
        LIVE(R8_sessions_in_use_do_not_make_room),
        LIVE(R8_ephemeral_sessions_and_other_tenants_stay),
        LIVE(R8_the_limits_of_pool_and_machine),
        LIVE(R8_a_session_created_asleep_holds_nothing),
    };

    return cmocka_run_group_tests_name("session_room", tests, NULL, NULL);
}
