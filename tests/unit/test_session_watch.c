/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session/watch and session/guest_env: attempts and reads become parts of an
 * execution, at most so many; what pid 1 or a kernel makes up ends the
 * sandbox and is not believed; and both ends of a box are told the same
 * environment, once each.
 */
#include "session_fixture.h"

static struct box *box_of(struct fixture *f)
{
    struct session *se = session_find(f->s, &WHO, f->id, &f->err);
    struct box *box = NULL;

    assert_non_null(se);
    assert_int_equal(session_wake(se, &box, &f->err), 0);
    session_unref(se);
    return box;
}

/* ---- attempts ------------------------------------------------------------
 */

static void E1_attempts_are_in_the_execution(void **state)
{
    struct fixture *f = *state;
    struct execution *e =
        run_for(f, EXEC_PYTHON,
                "block a.example\nblock 192.0.2.1\nblock a.example", 0);
    struct exec_info info;

    execution_info(e, &info);
    assert_int_equal(info.connection_count, 2);
    assert_string_equal(info.connections[0].host, "a.example");
    assert_string_equal(info.connections[0].what, "connect");
    assert_int_equal(info.connections[0].count, 4);
    assert_int_equal(info.connections[0].port, 443);
    assert_int_equal(info.connections[0].at_ms, 1000);
    assert_false(info.connections[0].allowed);
    assert_string_equal(info.connections[0].method, "");
    assert_string_equal(info.connections[1].host, "192.0.2.1");
    assert_false(info.connections_truncated);
    execution_unref(e);
    e = run_for(f, EXEC_PYTHON, "out x", 0);
    execution_info(e, &info);
    assert_int_equal(info.connection_count, 0);
    execution_unref(e);
}

static void E1_pid_1_that_lies_about_attempts_is_killed(void **state)
{
    struct fixture *f = *state;

    for (int i = 1; i <= 6; i++) {
        char code[32];
        struct execution *e;
        struct exec_info info;

        (void)snprintf(code, sizeof(code), "badblock %d", i);
        e = run_for(f, EXEC_PYTHON, code, 0);
        execution_info(e, &info);
        assert_int_equal(info.outcome, OUTCOME_OK);
        assert_int_equal(info.connection_count, 0);
        execution_unref(e);
        assert_int_equal(get(f).state, SESSION_DORMANT);
    }
    check_run(f, "out alive", OUTCOME_OK, false,
              "status:queued|status:running|out:alive|done:");
}

static void E1_attempts_at_and_above_the_limit(void **state)
{
    struct fixture *f = *state;
    struct session *se = session_find(f->s, &WHO, f->id, &f->err);
    struct exec_spec spec = {.code = "", .code_len = 0};
    struct execution *e = execution_new(f->x, se, &WHO, &spec, 5);
    struct network_connection c = {.what = "http",
                                   .allowed = true,
                                   .count = 1,
                                   .bytes_in = 5,
                                   .method = "GET"};
    struct exec_info info;
    char host[600];

    for (unsigned i = 0; i < WATCH_CONNECTIONS_MAX; i++) {
        (void)snprintf(host, sizeof(host), "h%u", i);
        c.host = host;
        assert_true(execution_watch_add(e, &c));
        assert_true(execution_watch_add(e, &c));
    }
    execution_info(e, &info);
    assert_int_equal(info.connection_count, 0); /* not before its end */
    (void)execution_watch_publish(e);
    execution_info(e, &info);
    assert_int_equal(info.connection_count, WATCH_CONNECTIONS_MAX);
    assert_false(info.connections_truncated);
    assert_int_equal(info.connections[255].count, 2);
    assert_int_equal(info.connections[255].bytes_in, 10);
    assert_string_equal(info.connections[255].method, "GET");
    assert_string_equal(info.connections[255].path, "");
    memset(host, 'x', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    assert_true(execution_watch_add(e, &c));
    (void)execution_watch_publish(e);
    execution_info(e, &info);
    assert_int_equal(info.connection_count, WATCH_CONNECTIONS_MAX);
    assert_true(info.connections_truncated);
    e->info.status = EXEC_COMPLETED;
    assert_false(execution_watch_add(e, &c)); /* belongs to no execution */
    execution_unref(e);
    session_unref(se);
}

/* ---- reads ---------------------------------------------------------------
 */

static void reads_are_in_the_execution(void **state)
{
    struct fixture *f = *state;
    /* READS of 9 bytes: not cut, "a/b", "a/b", "" ends nothing */
    struct execution *e =
        run_for(f, EXEC_PYTHON, "raw 170000000900000000612f6200612f6200", 0);
    struct exec_info info;

    execution_info(e, &info);
    assert_int_equal(info.outcome, OUTCOME_OK);
    assert_int_equal(info.read_count, 1);
    assert_string_equal(info.reads[0], "a/b");
    assert_false(info.reads_truncated);
    execution_unref(e);
    /* Names that cannot be: "..", "/x", "a\nb", and one that can. */
    e = run_for(f, EXEC_PYTHON,
                "raw 170000000d000000002e2e002f7800610a62006300", 0);
    execution_info(e, &info);
    assert_int_equal(info.outcome, OUTCOME_OK);
    assert_int_equal(info.read_count, 1);
    assert_string_equal(info.reads[0], "c");
    assert_true(info.reads_truncated);
    execution_unref(e);
}

static void reads_that_are_nonsense_lose_the_kernel(void **state)
{
    static const char *const nonsense[] = {
        "raw 1700000000000000",       /* nothing at all */
        "raw 170000000100000002",     /* neither yes nor no */
        "raw 17000000030000000061ff", /* a name without an end */
        "raw 17000000ffff4000",       /* more than all names together */
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++)
        check_run(f, nonsense[i], OUTCOME_CRASHED, true, NULL);
    check_run(f, "raw 170000000100000001", OUTCOME_OK, false, NULL);
}

static void reads_at_and_above_the_limit(void **state)
{
    struct fixture *f = *state;
    struct session *se = session_find(f->s, &WHO, f->id, &f->err);
    struct exec_spec spec = {.code = "", .code_len = 0};
    struct execution *e = execution_new(f->x, se, &WHO, &spec, 5);
    struct buf payload cleanup(buf_done) = {0};
    struct exec_info info;

    buf_add(&payload, "", 1);
    for (unsigned i = 0; i < KERNEL_READS_MAX; i++) {
        buf_addf(&payload, "f%u", i);
        buf_add(&payload, "", 1);
    }
    assert_true(execution_watch_reads(e, payload.data, payload.len));
    (void)execution_watch_publish(e);
    execution_info(e, &info);
    assert_int_equal(info.read_count, KERNEL_READS_MAX);
    assert_false(info.reads_truncated);
    assert_true(execution_watch_reads(e, "\0one more", 10));
    (void)execution_watch_publish(e);
    execution_info(e, &info);
    assert_int_equal(info.read_count, KERNEL_READS_MAX);
    assert_true(info.reads_truncated);
    execution_unref(e);
    session_unref(se);
}

/* ---- surroundings --------------------------------------------------------
 */

static int say(struct fixture *f, struct box *box, const char *lines)
{
    return box_guest_env_set(box, lines, strlen(lines), &f->err);
}

static void environment_is_told_to_both_ends(void **state)
{
    struct fixture *f = *state;
    struct box *box = box_of(f);

    assert_int_equal(say(f, box, "A=1\nB=x y\n"), 0);
    check_run(f, "env", OUTCOME_OK, false,
              "status:queued|status:running|out:A=1\nB=x y\nA=1\nB=x y\n|"
              "done:");
    /* Said again where it changed, and then all of it. */
    assert_int_equal(say(f, box, "A"), 0);
    check_run(f, "env", OUTCOME_OK, false,
              "status:queued|status:running|out:B=x y\nA\nB=x y\nA\n|done:");
    /* A new kernel is told too. */
    check_run(f, "leave 3", OUTCOME_CRASHED, true, NULL);
    assert_int_equal(say(f, box, "C="), 0);
    check_run(f, "env", OUTCOME_OK, false,
              "status:queued|status:running|out:B=x y\nA\nC=\nB=x y\nA\nC=\n|"
              "done:");
    assert_int_equal(box_guest_ca_set(box, "PEM", 3, &f->err), 0);
    check_run(f, "env", OUTCOME_OK, false,
              "status:queued|status:running|out:B=x y\nA\nC=\nB=x y\nA\nC=\n"
              "PEM|done:");
    assert_int_equal(box_guest_ca_set(box, NULL, 0, &f->err), 0);
    box_unref(box);
}

static void environment_refuses_what_is_not_plain(void **state)
{
    static const char *const lines[] = {
        "",      "=x",         "1A=x", "A-B=x",  "A B=x",
        "A=\tx", "A=x\n\nB=y", "\n",   "A=\x7f", "é=1",
    };
    struct fixture *f = *state;
    struct box *box = box_of(f);
    char *big cleanup(mem_free) = xmalloc(INIT_ENVIRONMENT_MAX + 2);

    assert_int_equal(say(f, box, lines[0]), 0); /* nothing to say */
    for (size_t i = 1; i < ARRAY_SIZE(lines); i++)
        if (say(f, box, lines[i]) != -ERR_INVALID)
            fail_msg("line %zu was taken", i);
    memset(big, 'x', INIT_ENVIRONMENT_MAX + 1);
    memcpy(big, "A=", 2);
    /* With the newline it gets it is as long as it may be. */
    assert_int_equal(
        box_guest_env_set(box, big, INIT_ENVIRONMENT_MAX - 1, &f->err), 0);
    assert_int_equal(
        box_guest_env_set(box, big, INIT_ENVIRONMENT_MAX, &f->err),
        -ERR_INVALID);
    assert_int_equal(
        box_guest_env_set(box, big, INIT_ENVIRONMENT_MAX + 1, &f->err),
        -ERR_INVALID);
    assert_int_equal(say(f, box, "B=1"), -ERR_INVALID); /* no room beside it */
    assert_int_equal(say(f, box, "A=1\nB=1"), 0);       /* but in its place */
    assert_int_equal(box_guest_ca_set(box, big, INIT_CA_MAX, &f->err), 0);
    assert_int_equal(box_guest_ca_set(box, big, INIT_CA_MAX + 1, &f->err),
                     -ERR_INVALID);
    box_unref(box);
}

#define WITH_SESSION(test)                                                    \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SESSION(E1_attempts_are_in_the_execution),
        WITH_SESSION(E1_pid_1_that_lies_about_attempts_is_killed),
        WITH_SESSION(E1_attempts_at_and_above_the_limit),
        WITH_SESSION(reads_are_in_the_execution),
        WITH_SESSION(reads_that_are_nonsense_lose_the_kernel),
        WITH_SESSION(reads_at_and_above_the_limit),
        WITH_SESSION(environment_is_told_to_both_ends),
        WITH_SESSION(environment_refuses_what_is_not_plain),
    };

    return cmocka_run_group_tests_name("session_watch", tests, NULL, NULL);
}
