/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session: pools, sessions, executions, events, files, against a warden, pid
 * 1s and kernels that are threads of this test (session_fake.h).
 */
#include "clock_poll.h"
#include "session_fixture.h"

/* ---- text --------------------------------------------------------------- */

static char *repeat(const char *part, size_t count, const char *tail)
{
    struct buf b = {0};

    for (size_t i = 0; i < count; i++)
        buf_adds(&b, part);
    buf_adds(&b, tail);
    return buf_take(&b, NULL);
}

static void F5_session_text_path_limits(void **state)
{
    static const struct {
        const char *part;
        size_t count;
        const char *tail;
        bool ok;
    } rows[] = {
        {"a", 1, "", true},
        {"a", 254, "", true},
        {"a", 255, "", true},
        {"a", 256, "", false}, /* a part */
        {"a/", 30, "f", true},
        {"a/", 31, "f", true},
        {"a/", 32, "f", false}, /* depth */
        {"0123456789abcdef0123456789abcde/", 31,
         "0123456789abcdef0123456789abcde", true}, /* 1023 */
        {"0123456789abcdef0123456789abcde/", 31,
         "0123456789abcdef0123456789abcdef", true}, /* 1024 */
        {"0123456789abcdef0123456789abcde/", 31,
         "0123456789abcdef0123456789abcdefg", false}, /* 1025 */
        {"", 0, "", false},
        {"", 0, "/a", false},
        {"", 0, "a/", false},
        {"", 0, "a//b", false},
        {"", 0, ".", false},
        {"", 0, "..", false},
        {"", 0, "a/../b", false},
        {"", 0, "a/./b", false},
        {"", 0, "a/..", false},
        {"", 0, "...", true},
        {"", 0, ".hidden", true},
        {"", 0, "a b", true},
        {"", 0, "a\nb", false},
        {"", 0, "a\x7f", false},
        {"", 0, "a\xc2\x85", false}, /* C1 */
        {"", 0, "a\xc2\xa0", true},
        {"", 0, "\xe4\xb8\xad\xe6\x96\x87.csv", true},
        {"", 0, "\xf0\x9f\x93\x88", true},
        {"", 0, "\xff", false},
        {"", 0, "\xc0\xaf", false},         /* overlong */
        {"", 0, "\xed\xa0\x80", false},     /* surrogate */
        {"", 0, "\xf4\x90\x80\x80", false}, /* beyond */
        {"", 0, "\xe4\xb8", false},         /* cut */
    };
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char *path cleanup(mem_free) =
            repeat(rows[i].part, rows[i].count, rows[i].tail);
        int rc = session_path_check(path, strlen(path), &err);

        if ((rc == 0) != rows[i].ok)
            fail_msg("row %zu: '%s'", i, path);
        if (rc < 0)
            assert_int_equal(err.code, ERR_INVALID);
    }
    assert_int_not_equal(session_path_check("a\0b", 3, &err), 0);
}

static void session_limits_grant_ranges(void **state)
{
    struct fixture *f = *state;
    const struct conf_pool *pool = &f->conf.pools[0];
    struct session_limits asked = {0};
    struct warden_limits got;

    assert_int_equal(pool_limits_grant(pool, &asked, &got, &f->err), 0);
    assert_int_equal(got.memory_bytes, 1 << 30);
    assert_int_equal(got.tmp_bytes, 1 << 20);
    asked.memory_bytes = 4ull << 30;
    asked.cores = 2;
    asked.processes = 8;
    assert_int_equal(pool_limits_grant(pool, &asked, &got, &f->err), 0);
    assert_true(got.memory_bytes == 4ull << 30);
    assert_int_equal(got.processes, 8);
    asked.processes = 129;
    assert_int_equal(pool_limits_grant(pool, &asked, &got, &f->err),
                     -ERR_INVALID);
    assert_non_null(strstr(f->err.message, "limits.processes"));
    asked.processes = 7;
    assert_int_equal(pool_limits_grant(pool, &asked, &got, &f->err),
                     -ERR_INVALID);
    asked.processes = 0;
    asked.memory_bytes = (4ull << 30) + 1;
    assert_int_equal(pool_limits_grant(pool, &asked, &got, &f->err),
                     -ERR_INVALID);
}

/* ---- judge -------------------------------------------------------------- */

#define STATUS(code) ((code) << 8)

static void R9_session_judge_table(void **state)
{
    static const struct warden_limits limits = {.memory_bytes = 1 << 30,
                                                .scratch_bytes = 1 << 20,
                                                .scratch_inodes = 100,
                                                .processes = 10};
    static const struct {
        struct observations f;
        enum exec_outcome outcome;
        bool lost;
        bool kill_all;
        const char *limit;
        const char *sentence; /* part of it; NULL: none */
        const char *error;
    } rows[] = {
#define DONE(status) .end = END_DONE, .done_status = KERNEL_DONE_##status
#define SH .language = EXEC_SHELL, .end = END_SHELL
        {{DONE(OK)}, OUTCOME_OK, false, false, NULL, NULL, NULL},
        {{DONE(ERROR)}, OUTCOME_ERROR, false, false, NULL, NULL, NULL},
        /* time */
        {{DONE(ERROR), .timed_out = true, .timeout_s = 7, .wall_ms = 7100},
         OUTCOME_TIMEOUT,
         false,
         false,
         "wall_s",
         "timed out after 7 s; it was interrupted and its variables are kept",
         NULL},
        {{DONE(OK), .timed_out = true},
         OUTCOME_TIMEOUT,
         false,
         false,
         "wall_s",
         "variables are kept",
         NULL},
        {{.end = END_KILLED, .timed_out = true},
         OUTCOME_TIMEOUT,
         true,
         false,
         "wall_s",
         "ignored the interrupt and was killed; the next execution starts a "
         "fresh interpreter",
         NULL},
        {{.end = END_GONE, .timed_out = true},
         OUTCOME_TIMEOUT,
         true,
         false,
         "wall_s",
         "was killed",
         NULL},
        {{.end = END_KERNEL, .wait_status = SIGINT, .timed_out = true},
         OUTCOME_TIMEOUT,
         true,
         false,
         "wall_s",
         "interpreter ended",
         NULL},
        {{SH, .wait_status = SIGINT, .timed_out = true},
         OUTCOME_TIMEOUT,
         false,
         false,
         "wall_s",
         "it was interrupted",
         NULL},
        {{SH, .wait_status = SIGKILL, .timed_out = true, .shell_killed = true},
         OUTCOME_TIMEOUT,
         false,
         false,
         "wall_s",
         "ignored the interrupt",
         NULL},
        {{DONE(ERROR), .timed_out = true, .oom_kills = 1},
         OUTCOME_TIMEOUT,
         false,
         false,
         "wall_s",
         NULL,
         NULL},
        /* cancel and interrupt */
        {{DONE(ERROR), .cancelled = true},
         OUTCOME_CANCELLED,
         false,
         false,
         NULL,
         "cancelled; it was interrupted",
         NULL},
        {{.end = END_KILLED, .cancelled = true},
         OUTCOME_CANCELLED,
         true,
         false,
         NULL,
         "ignored the interrupt",
         NULL},
        {{.end = END_GONE, .cancelled = true, .reason = "deleted"},
         OUTCOME_CANCELLED,
         true,
         false,
         NULL,
         "deleted",
         NULL},
        {{DONE(ERROR), .interrupted = true},
         OUTCOME_CANCELLED,
         false,
         false,
         NULL,
         "interrupted; variables are kept",
         NULL},
        {{DONE(OK), .interrupted = true},
         OUTCOME_OK,
         false,
         false,
         NULL,
         NULL,
         NULL},
        {{SH, .wait_status = STATUS(130), .interrupted = true},
         OUTCOME_CANCELLED,
         false,
         false,
         NULL,
         "interrupted",
         NULL},
        /* memory */
        {{.end = END_KERNEL, .wait_status = SIGKILL, .oom_kills = 1},
         OUTCOME_OOM,
         true,
         true,
         "memory_bytes",
         "1 GiB of memory",
         NULL},
        {{.end = END_GONE, .wait_status = SIGKILL, .oom_kills = 2},
         OUTCOME_OOM,
         true,
         false,
         "memory_bytes",
         "1 GiB",
         NULL},
        {{DONE(ERROR), .oom_kills = 1},
         OUTCOME_OOM,
         true,
         true,
         "memory_bytes",
         "fresh interpreter",
         NULL},
        {{DONE(OK), .oom_kills = 1},
         OUTCOME_OK,
         false,
         false,
         "memory_bytes",
         NULL,
         NULL},
        {{SH, .wait_status = STATUS(137), .oom_kills = 1},
         OUTCOME_OOM,
         true,
         true,
         "memory_bytes",
         NULL,
         NULL},
        {{SH, .wait_status = STATUS(0), .oom_kills = 1},
         OUTCOME_OK,
         false,
         false,
         "memory_bytes",
         NULL,
         NULL},
        /* deaths */
        {{.end = END_KERNEL, .wait_status = SIGKILL},
         OUTCOME_KILLED,
         true,
         false,
         NULL,
         "SIGKILL",
         NULL},
        {{.end = END_KERNEL, .wait_status = SIGSEGV},
         OUTCOME_CRASHED,
         true,
         false,
         NULL,
         "SIGSEGV (Segmentation fault)",
         NULL},
        {{.end = END_KERNEL, .wait_status = STATUS(0)},
         OUTCOME_CRASHED,
         true,
         false,
         NULL,
         "exit status 0",
         NULL},
        {{.end = END_KERNEL, .wait_status = STATUS(9)},
         OUTCOME_CRASHED,
         true,
         false,
         NULL,
         "exit status 9",
         NULL},
        {{.end = END_CLOSED},
         OUTCOME_CRASHED,
         true,
         true,
         NULL,
         "closed the interpreter's channel",
         NULL},
        {{.end = END_BROKEN},
         OUTCOME_CRASHED,
         true,
         true,
         NULL,
         "garbled",
         NULL},
        {{.end = END_GONE, .wait_status = SIGKILL},
         OUTCOME_KILLED,
         true,
         false,
         NULL,
         "sandbox was killed",
         NULL},
        {{.end = END_GONE, .wait_status = STATUS(1)},
         OUTCOME_CRASHED,
         true,
         false,
         NULL,
         "ended unexpectedly",
         NULL},
        {{.end = END_UNMADE, .reason = "no wall"},
         OUTCOME_ISOLATION_FAILED,
         true,
         false,
         NULL,
         "no wall",
         NULL},
        /* limits */
        {{DONE(ERROR), .pids_denied = 4},
         OUTCOME_LIMIT,
         false,
         false,
         "processes",
         "10 processes",
         NULL},
        {{DONE(OK), .pids_denied = 4},
         OUTCOME_OK,
         false,
         false,
         NULL,
         NULL,
         NULL},
        {{DONE(ERROR), .scanned = true, .scratch_free_bytes = 65535,
          .scratch_free_inodes = 5},
         OUTCOME_LIMIT,
         false,
         false,
         "scratch_bytes",
         "1 MiB",
         NULL},
        {{DONE(ERROR), .scanned = true, .scratch_free_bytes = 65536,
          .scratch_free_inodes = 5},
         OUTCOME_ERROR,
         false,
         false,
         NULL,
         NULL,
         NULL},
        {{DONE(ERROR), .scanned = true, .scratch_free_bytes = 1 << 20,
          .scratch_free_inodes = 0},
         OUTCOME_LIMIT,
         false,
         false,
         "scratch_inodes",
         "100",
         NULL},
        {{DONE(ERROR), .scratch_free_bytes = 0},
         OUTCOME_ERROR,
         false,
         false,
         NULL,
         NULL,
         NULL},
        /* shell */
        {{SH, .wait_status = STATUS(0)},
         OUTCOME_OK,
         false,
         false,
         NULL,
         NULL,
         NULL},
        {{SH, .wait_status = STATUS(2)},
         OUTCOME_ERROR,
         false,
         false,
         NULL,
         NULL,
         "ShellError"},
        {{SH, .wait_status = SIGTERM},
         OUTCOME_ERROR,
         false,
         false,
         NULL,
         NULL,
         "ShellError"},
        {{SH, .wait_status = STATUS(0), .kernel_died = true},
         OUTCOME_OK,
         true,
         false,
         NULL,
         NULL,
         NULL},
        {{SH, .wait_status = STATUS(1), .pids_denied = 1},
         OUTCOME_LIMIT,
         false,
         false,
         "processes",
         NULL,
         "ShellError"},
#undef DONE
#undef SH
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct observations f = rows[i].f;
        struct outcome v;

        f.limits = &limits;
        execution_outcome_derive(&f, &v);
        if (v.outcome != rows[i].outcome ||
            v.interpreter_lost != rows[i].lost ||
            v.kill_all != rows[i].kill_all)
            fail_msg("row %zu: %s lost %d kill %d", i,
                     exec_outcome_name(v.outcome), v.interpreter_lost,
                     v.kill_all);
        if (rows[i].limit)
            assert_string_equal(v.limit_name, rows[i].limit);
        else
            assert_null(v.limit_name);
        if (rows[i].sentence && !strstr(v.failure, rows[i].sentence))
            fail_msg("row %zu says '%s'", i, v.failure);
        assert_string_equal(v.error_name, rows[i].error ? rows[i].error : "");
    }
}

static void session_outcome_shell_codes(void **state)
{
    struct warden_limits limits = {0};
    struct observations f = {.language = EXEC_SHELL,
                             .end = END_SHELL,
                             .wait_status = STATUS(3),
                             .limits = &limits};
    struct outcome v;

    (void)state;
    execution_outcome_derive(&f, &v);
    assert_int_equal(v.exit_code, 3);
    assert_string_equal(v.error_text, "exit status 3");
    f.wait_status = SIGTERM;
    execution_outcome_derive(&f, &v);
    assert_int_equal(v.exit_code, 128 + SIGTERM);
    assert_string_equal(v.error_text, "ended by SIGTERM");
}

/* ---- executions --------------------------------------------------------- */

static void session_execute_output_and_result(void **state)
{
    struct fixture *f = *state;
    struct exec_info info;
    struct execution *e = run_for(f, EXEC_PYTHON, "out hi\nresult 2", 0);

    execution_info(e, &info);
    assert_true(info.interpreter_fresh);
    assert_int_equal(info.exit_code, -1);
    assert_int_equal(info.cpu_ms, 3);
    assert_int_equal(info.peak_memory_bytes, 5000);
    assert_true(info.created_at_ms <= info.started_at_ms &&
                info.started_at_ms <= info.finished_at_ms);
    expect(e, OUTCOME_OK, false,
           "status:queued|status:running|out:hi|result:2;|done:");
    e = run_for(f, EXEC_PYTHON, "error ValueError", 0);
    execution_info(e, &info);
    assert_false(info.interpreter_fresh);
    expect(e, OUTCOME_ERROR, false,
           "status:queued|status:running|error:ValueError;|done:");
    assert_int_equal(get(f).state, SESSION_IDLE);
    assert_int_equal(get(f).executions, 2);
}

static void session_execute_keeps_order_by_sync(void **state)
{
    check_run(*state, "out a\nsync\nerr b\nsync\nout c\ndisplay 3\nclear",
              OUTCOME_OK, false, NULL);
    struct execution *e =
        run_for(*state, EXEC_PYTHON, "out a\nsync\nerr b\nsync\nout c", 0);

    expect(e, OUTCOME_OK, false,
           "status:queued|status:running|out:a|err:b|out:c|done:");
}

static void session_execute_truncates_output(void **state)
{
    struct fixture *f = *state;
    struct execution *e = run_for(f, EXEC_PYTHON, "flood 3000\nerr x", 0);
    struct exec_event ev;
    struct exec_info info;
    size_t total = 0;

    for (uint32_t n = 0; execution_event(e, n, &ev); n++) {
        assert_true(ev.len <= 65536);
        if (ev.type == EVENT_STDOUT)
            total += ev.len;
    }
    execution_info(e, &info);
    assert_int_equal(total, 1 << 20);
    assert_true(info.truncated_stdout);
    assert_false(info.truncated_stderr);
    expect(e, OUTCOME_OK, false, NULL);
}

static void session_execute_limits_displays(void **state)
{
    struct fixture *f = *state;
    char *code cleanup(mem_free) = repeat("display 2\n", 201, "error Boom");
    struct execution *e = run_for(f, EXEC_PYTHON, code, 0);
    struct exec_event ev;
    struct exec_info info;
    unsigned displays = 0, errors = 0;

    for (uint32_t n = 0; execution_event(e, n, &ev); n++) {
        displays += ev.type == EVENT_DISPLAY;
        errors += ev.type == EVENT_ERROR;
    }
    execution_info(e, &info);
    assert_int_equal(displays, 200);
    assert_int_equal(errors, 1);
    assert_true(info.truncated_displays);
    expect(e, OUTCOME_ERROR, false, NULL);
}

static void session_execute_limits_display_bytes(void **state)
{
    struct fixture *f = *state;
    struct execution *e = run_for(
        f, EXEC_PYTHON,
        "display 16000000\ndisplay 16000000\ndisplay 16000000\ndisplay 5", 0);
    struct exec_event ev;
    size_t total = 0;
    unsigned displays = 0;

    for (uint32_t n = 0; execution_event(e, n, &ev); n++)
        if (ev.type == EVENT_DISPLAY) {
            total += ev.len;
            displays++;
        }
    assert_int_equal(displays, 3);
    assert_true(total <= 32u << 20);
    expect(e, OUTCOME_OK, false, NULL);
}

/* Little-endian hosts only, as the product's. */
static void session_execute_malformed_frames(void **state)
{
    static const char *const bad[] = {
        "raw 0100000000000000",         /* a type of ours */
        "raw ff00000000000000",         /* unknown type */
        "raw 1000000000000000",         /* READY again */
        "raw 1100000001000001",         /* DISPLAY of 16 MiB + 1 */
        "raw 11000000ffffffff",         /* … of 4 GiB */
        "raw 110000000400000001020304", /* half a pair */
        "raw 1100000008000000"
        "00000000ffffffff", /* a value longer than the frame */
        "raw 1100000008000000"
        "0001000000000000",             /* a key of 256 bytes */
        "raw 140000000400000000000000", /* DONE cut */
        "raw 1400000008000000"
        "0300000000000000",       /* DONE with an unknown status */
        "raw 150000000100000000", /* SYNC with a payload */
        "raw 1600000000000000",   /* CLEAR without */
        "pairs 257",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char *code cleanup(mem_free) = repeat(bad[i], 1, "\ndeaf 5000");
        uint32_t before = get(f).interpreter;

        check_run(f, code, OUTCOME_CRASHED, true, NULL);
        check_run(f, "out ok", OUTCOME_OK, false,
                  "status:queued|status:running|out:ok|done:");
        assert_int_equal(get(f).interpreter, before + 1);
    }
    assert_int_equal(fake.spawns, 1);
}

static void session_execute_frames_byte_by_byte(void **state)
{
    /* RESULT {"k": "v"} and then DONE by the kernel */
    check_run(*state,
              "slow 120000000a000000010000000100000078"
              "79",
              OUTCOME_OK, false,
              "status:queued|status:running|result:y;|done:");
    check_run(*state, "pairs 256", OUTCOME_OK, false, NULL);
}

/* A stale DONE cannot end the next cell. */
static void session_execute_forged_done(void **state)
{
    struct fixture *f = *state;

    check_run(f, "out 1\nraw 14000000080000000000000000000000\nout 2",
              OUTCOME_OK, false, NULL);
    check_run(f, "out 3", OUTCOME_CRASHED, true, NULL);
    check_run(f, "out 4", OUTCOME_OK, false,
              "status:queued|status:running|out:4|done:");
}

static void session_execute_deaths(void **state)
{
    static const struct {
        const char *code;
        enum exec_outcome outcome;
        const char *sentence;
    } rows[] = {
        {"die 11", OUTCOME_CRASHED, "SIGSEGV"},
        {"die 9", OUTCOME_KILLED, "SIGKILL"},
        {"leave 3", OUTCOME_CRASHED, "exit status 3"},
        {"oom", OUTCOME_OOM, "memory"},
        {"childoom\nerror CalledProcessError", OUTCOME_OOM, "memory"},
        {"close", OUTCOME_CRASHED, "closed"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct execution *e = run_for(f, EXEC_PYTHON, rows[i].code, 0);
        struct exec_info info;

        execution_info(e, &info);
        if (rows[i].sentence) {
            assert_non_null(info.failure);
            if (!strstr(info.failure, rows[i].sentence))
                fail_msg("%s: %s", rows[i].code, info.failure);
        }
        expect(e, rows[i].outcome, true, NULL);
        e = run_for(f, EXEC_PYTHON, "out ok", 0);
        execution_info(e, &info);
        assert_true(info.interpreter_fresh);
        expect(e, OUTCOME_OK, false,
               "status:queued|status:running|out:ok|done:");
    }
    assert_int_equal(fake.spawns, 1);
    assert_int_equal(fake.spawns, 1);
}

/* A process that the kernel ended is told of, also when the code went on. */
static void R9_children_ended_at_the_memory_limit_are_reported(void **state)
{
    struct fixture *f = *state;
    struct execution *e = run_for(f, EXEC_PYTHON, "childoom\nout on", 0);
    struct exec_info info;

    execution_info(e, &info);
    assert_string_equal(info.limit_name, "memory_bytes");
    assert_int_equal(info.limit_value, f->conf.pools[0].memory_bytes);
    assert_non_null(info.warning);
    assert_non_null(strstr(info.warning, "1 of its processes was ended"));
    assert_non_null(strstr(info.warning, "the interpreter was not"));
    assert_null(info.failure);
    expect(e, OUTCOME_OK, false, NULL);
    /* Only of the execution in which it happened. */
    e = run_for(f, EXEC_PYTHON, "out ok", 0);
    execution_info(e, &info);
    assert_null(info.limit_name);
    assert_null(info.warning);
    expect(e, OUTCOME_OK, false, NULL);
}

static void session_execute_limits(void **state)
{
    struct fixture *f = *state;
    struct execution *e =
        run_for(f, EXEC_PYTHON, "nofork\nerror BlockingIOError", 0);
    struct exec_info info;

    execution_info(e, &info);
    assert_string_equal(info.limit_name, "processes");
    assert_int_equal(info.limit_value, 128);
    expect(e, OUTCOME_LIMIT, false, NULL);
    e = run_for(f, EXEC_PYTHON, "full\nerror OSError", 0);
    execution_info(e, &info);
    assert_string_equal(info.limit_name, "scratch_bytes");
    assert_int_equal(info.limit_peak, 1 << 30);
    expect(e, OUTCOME_LIMIT, false, NULL);
}

static void session_execute_box_gone(void **state)
{
    struct fixture *f = *state;

    check_run(f, "out x\ngone", OUTCOME_KILLED, true, NULL);
    assert_int_equal(get(f).state, SESSION_DORMANT);
    check_run(f, "out ok", OUTCOME_OK, false,
              "status:queued|status:running|out:ok|done:");
    assert_int_equal(fake.spawns, 2);
    assert_int_equal(fake.releases, 1);
}

static bool is_near_id(const char *start, const char *id)
{
    return strncmp(id, start, 4) == 0 && strlen(id) == 44 &&
           strspn(id + 4, "0123456789abcdef") == 40;
}

static void session_execute_file_changes(void **state)
{
    struct fixture *f = *state;
    struct execution *e =
        run_for(f, EXEC_PYTHON, "file a.txt\nfile d/b.txt\nfile bad\x01", 0);
    struct exec_info info;

    execution_info(e, &info);
    assert_int_equal(info.file_count, 3);
    assert_int_equal(info.files[2].fate, EXEC_FILE_SKIPPED);
    assert_string_equal(info.files[0].path, "a.txt");
    assert_string_equal(info.files[0].change, "created");
    assert_string_equal(info.files[1].path, "d/b.txt");
    assert_int_equal(info.files[1].size, strlen("d/b.txt"));
    assert_true(ids_valid("file", info.files[1].file));
    assert_true(is_near_id("ver_", info.files[1].version));
    assert_true(is_near_id("cmt_", info.commit));
    assert_false(info.files_truncated);
    expect(e, OUTCOME_OK, false, NULL);
}

static void session_execute_broken_pid1(void **state)
{
    static const enum fake_fault faults[] = {
        FAULT_SEQ, FAULT_SHORT, FAULT_LENGTH, FAULT_FDS, FAULT_ENTRY};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
        int before = open_fds();
        struct execution *e;
        struct exec_info info;

        atomic_store(&fake.fault, faults[i]);
        e = run_for(f, EXEC_PYTHON, "out x", 0);
        execution_info(e, &info);
        assert_true(info.files_truncated || faults[i] == FAULT_ENTRY);
        expect(e, OUTCOME_OK, false, NULL);
        atomic_store(&fake.fault, FAULT_NONE);
        assert_int_equal(get(f).state, SESSION_DORMANT);
        assert_int_equal(fake.kills, i + 1);
        check_run(f, "out ok", OUTCOME_OK, false,
                  "status:queued|status:running|out:ok|done:");
        assert_int_equal(fake.spawns, i + 2);
        /* The fake keeps two ends of each dead box, the daemon none. */
        assert_true(open_fds() <= before + 6);
    }
}

/* ---- time --------------------------------------------------------------- */

static bool is_running(void *ctx)
{
    return get(ctx).state == SESSION_RUNNING;
}

/* Runs what outlives its limit of 1 s; the clock moves instead of the test
 * waiting, by grace_ms more for each of the steps that follow the limit. */
static struct execution *run_late(struct fixture *f, enum exec_language lang,
                                  const char *code, uint64_t grace_ms)
{
    struct clock_pusher push = {.begin = is_running,
                                .ctx = f,
                                .first_ms = 1000,
                                .further_ms = grace_ms};
    struct execution *e;

    clock_pusher_start(&push);
    e = run_for(f, lang, code, 1);
    clock_pusher_stop(&push);
    return e;
}

static void R1_session_execute_timeout_interrupts(void **state)
{
    struct fixture *f = *state;
    struct execution *e = run_late(f, EXEC_PYTHON, "sleep 9000", 0);
    struct exec_info info;

    execution_info(e, &info);
    assert_string_equal(info.limit_name, "wall_s");
    assert_int_equal(info.limit_value, 1);
    assert_true(info.wall_ms >= 1000 && info.wall_ms < 2000);
    assert_string_equal(info.failure,
                        "the execution timed out after 1 s; it was "
                        "interrupted and its variables are kept");
    expect(e, OUTCOME_TIMEOUT, false, NULL);
    e = run_for(f, EXEC_PYTHON, "out ok", 0);
    execution_info(e, &info);
    assert_false(info.interpreter_fresh);
    expect(e, OUTCOME_OK, false, NULL);
}

static void R1_session_execute_timeout_kills(void **state)
{
    struct fixture *f = *state;

    check_run(f, "out a", OUTCOME_OK, false, NULL);
    expect(run_late(f, EXEC_PYTHON, "deaf 20000", 2100), OUTCOME_TIMEOUT, true,
           NULL);
    assert_int_equal(get(f).state, SESSION_IDLE);
    check_run(f, "out ok", OUTCOME_OK, false, NULL);
    assert_int_equal(fake.kills, 0);
}

static void R1_session_execute_timeout_by_warden(void **state)
{
    struct fixture *f = *state;

    atomic_store(&fake.fault, FAULT_SILENT);
    expect(run_late(f, EXEC_PYTHON, "deaf 9000", 2100), OUTCOME_TIMEOUT, true,
           NULL);
    atomic_store(&fake.fault, FAULT_NONE);
    assert_int_equal(get(f).state, SESSION_DORMANT);
    assert_true(fake.kills >= 1);
    check_run(f, "out ok", OUTCOME_OK, false, NULL);
    assert_int_equal(fake.spawns, 2);
}

static void session_execute_shell(void **state)
{
    struct fixture *f = *state;
    struct exec_info info;
    struct execution *e = run_for(f, EXEC_SHELL, "echo hi", 0);

    execution_info(e, &info);
    assert_int_equal(info.exit_code, 0);
    expect(e, OUTCOME_OK, false, "status:queued|status:running|out:hi|done:");
    e = run_for(f, EXEC_SHELL, "exit 3", 0);
    execution_info(e, &info);
    assert_int_equal(info.exit_code, 3);
    expect(e, OUTCOME_ERROR, false,
           "status:queued|status:running|error:ShellError;exit status "
           "3;|done:");
    expect(run_for(f, EXEC_SHELL, "signal 15", 0), OUTCOME_ERROR, false,
           "status:queued|status:running|error:ShellError;ended by "
           "SIGTERM;|done:");
    expect(run_for(f, EXEC_SHELL, "oom", 0), OUTCOME_OOM, true, NULL);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    expect(run_for(f, EXEC_SHELL, "killkernel", 0), OUTCOME_OK, true, NULL);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
}

static void session_execute_shell_timeout(void **state)
{
    struct fixture *f = *state;
    struct exec_info info;
    struct execution *e;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    expect(run_late(f, EXEC_SHELL, "sleep 9000", 0), OUTCOME_TIMEOUT, false,
           NULL);
    fake.shell_ignores = 1;
    e = run_late(f, EXEC_SHELL, "sleep 9000", 2100);
    execution_info(e, &info);
    assert_non_null(strstr(info.failure, "ignored the interrupt"));
    expect(e, OUTCOME_TIMEOUT, false, NULL);
    /* The interpreter lived through both. */
    e = run_for(f, EXEC_PYTHON, "out ok", 0);
    execution_info(e, &info);
    assert_false(info.interpreter_fresh);
    expect(e, OUTCOME_OK, false, NULL);
}

/* ---- queue, cancel, interrupt, reset, delete ---------------------------- */

static void session_execute_queue_order(void **state)
{
    struct fixture *f = *state;
    struct bg runs[5];
    int64_t last = 0;

    for (int i = 0; i < 5; i++) {
        runs[i] = (struct bg){.f = f, .code = i ? "sleep 20" : "sleep 150"};
        bg_start(&runs[i]);
        wait_state(f, SESSION_RUNNING, (uint32_t)i);
    }
    /* One runs, four wait: the next is refused at once. */
    struct exec_spec spec = {.code = "out x", .code_len = 5};
    struct execution *e;

    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err),
                     -ERR_LIMIT);
    assert_int_equal(f->err.retry_after_s, 1);
    for (int i = 0; i < 5; i++) {
        struct exec_info info;

        pthread_join(runs[i].thread, NULL);
        assert_int_equal(runs[i].rc, 0);
        execution_info(runs[i].e, &info);
        assert_true(info.started_at_ms >= last);
        last = info.finished_at_ms - 1; /* clocks are in milliseconds */
        expect(runs[i].e, OUTCOME_OK, false, NULL);
    }
}

static bool room_becomes(bool on)
{
    for (int i = 0; i < 3000 && atomic_load(&fake.cpu_reserve) != on; i++)
        fake_nap(1);
    return atomic_load(&fake.cpu_reserve) == on;
}

/* A processor is kept for short ones while another tenant's are long. */
static void X4_session_room_is_made_beside_a_neighbours_long_run(void **state)
{
    struct fixture *f = *state;
    struct bg run = {.f = f, .code = "sleep 9000"};
    struct actor other = {.tenant = "other", .key = "key_of_other"};
    struct session_info mine, theirs;
    struct exec_spec spec = {.code = "out x", .code_len = 5};
    struct execution *e;

    assert_int_equal(
        session_create(f->s, &WHO, &(struct session_spec){0}, &mine, &f->err),
        0);
    assert_int_equal(session_create(f->s, &other, &(struct session_spec){0},
                                    &theirs, &f->err),
                     0);
    bg_start(&run);
    wait_state(f, SESSION_RUNNING, 0);
    fake_nap(120); /* it is calm by now */
    /* Its own tenant's short ones need no room. */
    assert_int_equal(execution_run(f->s, &WHO, mine.id, &spec, &e, &f->err),
                     0);
    expect(e, OUTCOME_OK, false, NULL);
    fake_nap(50);
    assert_false(atomic_load(&fake.cpu_reserve));
    assert_int_equal(
        execution_run(f->s, &other, theirs.id, &spec, &e, &f->err), 0);
    expect(e, OUTCOME_OK, false, NULL);
    assert_true(room_becomes(true));
    assert_true(room_becomes(false)); /* nothing short any more */
    assert_int_equal(session_interrupt(f->s, ACTOR(TENANT), f->id, &f->err),
                     0);
    pthread_join(run.thread, NULL);
    expect(run.e, OUTCOME_CANCELLED, false, NULL);
    /* And none when nothing long runs. */
    assert_int_equal(
        execution_run(f->s, &other, theirs.id, &spec, &e, &f->err), 0);
    expect(e, OUTCOME_OK, false, NULL);
    fake_nap(50);
    assert_false(atomic_load(&fake.cpu_reserve));
    session_info_done(&mine);
    session_info_done(&theirs);
}

static void execution_cancel_queued_and_running(void **state)
{
    struct fixture *f = *state;
    struct bg first = {.f = f, .code = "sleep 9000"};
    struct bg second = {.f = f, .code = "out never"};
    struct session *se;
    char id[ID_MAX];

    bg_start(&first);
    wait_state(f, SESSION_RUNNING, 0);
    bg_start(&second);
    wait_state(f, SESSION_RUNNING, 1);
    se = session_find(f->s, &WHO, f->id, &f->err);
    assert_non_null(se);
    memcpy(id, container_of(se->queue_head, struct execution, turn)->info.id,
           sizeof(id));
    assert_int_equal(execution_cancel(f->s, ACTOR("other"), id, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(execution_cancel(f->s, ACTOR(TENANT), id, &f->err), 0);
    pthread_join(second.thread, NULL);
    expect(second.e, OUTCOME_CANCELLED, false, "status:queued|done:");
    assert_int_equal(execution_cancel(f->s, ACTOR(TENANT), id, &f->err), 0);
    memcpy(id, container_of(se->running, struct execution, turn)->info.id,
           sizeof(id));
    session_unref(se);
    assert_int_equal(execution_cancel(f->s, ACTOR(TENANT), id, &f->err), 0);
    pthread_join(first.thread, NULL);
    expect(first.e, OUTCOME_CANCELLED, false, NULL);
    check_run(f, "out ok", OUTCOME_OK, false, NULL);
}

static void session_interrupt_keeps_state(void **state)
{
    struct fixture *f = *state;
    struct bg run = {.f = f, .code = "sleep 9000"};
    struct bg deaf = {.f = f, .code = "deaf 300\nout done"};

    assert_int_equal(session_interrupt(f->s, ACTOR(TENANT), f->id, &f->err),
                     0);
    bg_start(&run);
    wait_state(f, SESSION_RUNNING, 0);
    fake_nap(20);
    assert_int_equal(session_interrupt(f->s, ACTOR(TENANT), f->id, &f->err),
                     0);
    pthread_join(run.thread, NULL);
    expect(run.e, OUTCOME_CANCELLED, false, NULL);
    /* Code that swallows it goes on and counts as it ends. */
    bg_start(&deaf);
    wait_state(f, SESSION_RUNNING, 0);
    fake_nap(20);
    assert_int_equal(session_interrupt(f->s, ACTOR(TENANT), f->id, &f->err),
                     0);
    pthread_join(deaf.thread, NULL);
    expect(deaf.e, OUTCOME_OK, false, NULL);
    assert_int_equal(get(f).interpreter, 1);
}

static void session_reset_fresh_interpreter(void **state)
{
    struct fixture *f = *state;
    struct bg first = {.f = f, .code = "deaf 9000"};
    struct bg second = {.f = f, .code = "out never"};
    struct session_info info;
    uint64_t started;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(session_reset(f->s, ACTOR(TENANT), f->id, &info, &f->err),
                     0);
    assert_int_equal(info.interpreter, 2);
    session_info_done(&info);
    bg_start(&first);
    wait_state(f, SESSION_RUNNING, 0);
    bg_start(&second);
    wait_state(f, SESSION_RUNNING, 1);
    started = clock_mono_ms();
    assert_int_equal(session_reset(f->s, ACTOR(TENANT), f->id, &info, &f->err),
                     0);
    session_info_done(&info);
    assert_true(clock_mono_ms() - started < 500);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    expect(first.e, OUTCOME_CANCELLED, true, NULL);
    expect(second.e, OUTCOME_CANCELLED, false, NULL);
    assert_int_equal(fake.spawns, 1);
    check_run(f, "out ok", OUTCOME_OK, false, NULL);
}

static void R7_session_delete_while_running(void **state)
{
    struct fixture *f = *state;
    struct bg first = {.f = f, .code = "deaf 9000"};
    struct bg second = {.f = f, .code = "out never"};
    struct session_info info;
    uint64_t started;

    bg_start(&first);
    wait_state(f, SESSION_RUNNING, 0);
    bg_start(&second);
    wait_state(f, SESSION_RUNNING, 1);
    assert_int_equal(session_delete(f->s, &OTHER, f->id, &f->err),
                     -ERR_NOT_FOUND);
    started = clock_mono_ms();
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    assert_true(clock_mono_ms() - started < 200);
    assert_int_equal(fake.releases, 1);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    expect(first.e, OUTCOME_CANCELLED, true, NULL);
    expect(second.e, OUTCOME_CANCELLED, false, NULL);
    assert_int_equal(session_get(f->s, ACTOR(TENANT), f->id, &info, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err),
                     -ERR_NOT_FOUND);
}

static void *on_submitted(void *arg)
{
    void **pair = arg;

    ((void (*)(void *))pair[0])(pair[1]);
    free(pair);
    return NULL;
}

static int submit_thread(void *ctx, void (*job)(void *arg), void *arg)
{
    void **pair;
    pthread_t t;

    if (!ctx)
        return -1;
    pair = xcalloc(2, sizeof(void *));
    pair[0] = (void *)job;
    pair[1] = arg;
    if (pthread_create(&t, NULL, on_submitted, pair) != 0)
        return -1;
    (void)pthread_detach(t);
    return 0;
}

static void session_submit_runs_elsewhere(void **state)
{
    struct fixture *f = *state;
    struct exec_spec spec = {
        .code = "sleep 30\nout hi", .code_len = 15, .metadata = "{\"a\":1}"};
    struct execution *e, *again;
    struct exec_info info;

    assert_int_equal(execution_submit(f->s, &WHO, f->id, &spec, submit_thread,
                                      f, &e, &f->err),
                     0);
    execution_info(e, &info);
    assert_int_not_equal(info.status, EXEC_COMPLETED);
    assert_int_equal(
        execution_find(f->s, ACTOR(TENANT), info.id, &again, &f->err), 0);
    assert_ptr_equal(e, again);
    execution_unref(again);
    assert_int_equal(
        execution_find(f->s, ACTOR("other"), info.id, &again, &f->err),
        -ERR_NOT_FOUND);
    execution_wait(e);
    execution_info(e, &info);
    assert_string_equal(info.metadata, "{\"a\":1}");
    expect(e, OUTCOME_OK, false, "status:queued|status:running|out:hi|done:");
    assert_int_equal(execution_submit(f->s, &WHO, f->id, &spec, submit_thread,
                                      NULL, &e, &f->err),
                     -ERR_BUSY);
    check_run(f, "out ok", OUTCOME_OK, false, NULL);
}

static void session_execute_refusals(void **state)
{
    struct fixture *f = *state;
    char *big cleanup(mem_free) = repeat("x", 4097, "");
    struct exec_spec spec = {.code = big, .code_len = 4097};
    struct execution *e;

    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err),
                     -ERR_TOO_LARGE);
    spec.code_len = 4096;
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err), 0);
    execution_unref(e);
    spec = (struct exec_spec){.code = "\xff", .code_len = 1};
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err),
                     -ERR_INVALID);
    spec = (struct exec_spec){.code = "a\0b", .code_len = 3};
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err),
                     -ERR_INVALID);
    spec = (struct exec_spec){.code = "a", .code_len = 1, .timeout_s = 31};
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err),
                     -ERR_INVALID);
    spec.timeout_s = 30;
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err), 0);
    execution_unref(e);
    assert_int_equal(execution_run(f->s, &OTHER, f->id, &spec, &e, &f->err),
                     -ERR_NOT_FOUND);
    f->conf.max_executions = 0;
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err),
                     -ERR_BUSY);
    assert_int_equal(f->err.retry_after_s, 1);
}

/* ---- events and watchers ------------------------------------------------ */

struct watch {
    struct execution *e;
    atomic_uint calls;
    atomic_bool inside;
    unsigned hold_ms;
    bool again;
};

static void on_watch(void *ctx)
{
    struct watch *w = ctx;

    atomic_store(&w->inside, true);
    fake_nap(w->hold_ms);
    atomic_fetch_add(&w->calls, 1);
    if (w->again) {
        w->again = false;
        (void)execution_watch(w->e, 1000000, on_watch, w);
    }
    atomic_store(&w->inside, false);
}

static struct execution *bare_execution(struct fixture *f)
{
    struct exec_spec spec = {.code = "", .code_len = 0};
    struct execution *e;
    struct session *se;

    se = session_find(f->s, &WHO, f->id, &f->err);
    assert_non_null(se);
    e = execution_new(f->x, se, &WHO, &spec, 1);
    session_unref(se);
    return e;
}

static void execution_event_pointers_are_stable(void **state)
{
    struct execution *e = bare_execution(*state);
    struct exec_event first, later;
    char big[3000];

    memset(big, 'b', sizeof(big));
    assert_true(execution_event(e, 0, &first));
    assert_false(execution_event(e, 1, &later));
    for (int i = 0; i < 5000; i++)
        execution_events_add(e, EVENT_STDOUT, i % 7 ? "tiny" : big,
                             i % 7 ? 4 : sizeof(big));
    execution_events_add(e, EVENT_CLEAR, NULL, 0);
    assert_memory_equal(first.data, "queued", 6);
    for (uint32_t i = 1; i <= 5000; i++) {
        assert_true(execution_event(e, i, &later));
        assert_int_equal(later.number, i + 1);
        assert_memory_equal(later.data, (i - 1) % 7 ? "tiny" : big, later.len);
    }
    assert_true(execution_event(e, 5001, &later));
    assert_int_equal(later.len, 0);
    execution_unref(e);
}

static void execution_watch_once(void **state)
{
    struct execution *e = bare_execution(*state);
    struct watch w = {.e = e};
    uint64_t handle;

    assert_int_equal(execution_watch(e, 0, on_watch, &w), 0);
    assert_int_equal(w.calls, 1); /* at once: event 1 is there */
    handle = execution_watch(e, 1, on_watch, &w);
    assert_int_not_equal(handle, 0);
    assert_int_equal(w.calls, 1);
    execution_events_add(e, EVENT_STDOUT, "a", 1);
    execution_events_add(e, EVENT_STDOUT, "b", 1);
    assert_int_equal(w.calls, 2);
    execution_unwatch(e, handle); /* gone already: no harm */
    handle = execution_watch(e, 3, on_watch, &w);
    execution_unwatch(e, handle);
    execution_events_add(e, EVENT_STDOUT, "c", 1);
    assert_int_equal(w.calls, 2);
    w.again = true; /* watching again from inside is allowed */
    (void)execution_watch(e, 4, on_watch, &w);
    execution_events_add(e, EVENT_STDOUT, "d", 1);
    assert_int_equal(w.calls, 3);
    execution_unref(e); /* with a watcher left */
}

static void *on_append(void *arg)
{
    execution_events_add(arg, EVENT_STDOUT, "x", 1);
    return NULL;
}

static void execution_unwatch_waits_for_the_call(void **state)
{
    struct execution *e = bare_execution(*state);
    struct watch w = {.e = e, .hold_ms = 80};
    uint64_t handle = execution_watch(e, 1, on_watch, &w);
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, on_append, e), 0);
    while (!atomic_load(&w.inside))
        fake_nap(1);
    execution_unwatch(e, handle);
    assert_false(atomic_load(&w.inside));
    assert_int_equal(w.calls, 1);
    pthread_join(t, NULL);
    execution_unref(e);
}

static void *on_reader(void *arg)
{
    struct execution *e = arg;
    struct exec_event ev;
    uint32_t seen = 0;

    for (;;) {
        struct watch w = {.e = e};
        uint64_t handle = execution_watch(e, seen, on_watch, &w);

        while (!atomic_load(&w.calls))
            fake_nap(1);
        execution_unwatch(e, handle);
        while (execution_event(e, seen, &ev)) {
            if (ev.number != ++seen)
                abort();
            if (ev.type == EVENT_DONE)
                return (void *)(uintptr_t)seen;
        }
    }
}

static void execution_watch_many_readers(void **state)
{
    struct execution *e = bare_execution(*state);
    pthread_t readers[6];
    void *seen;

    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, on_reader, e), 0);
    for (int i = 0; i < 3000; i++) {
        execution_events_add(e, EVENT_STDOUT, "some bytes", 10);
        if (i % 100 == 0)
            fake_nap(1);
    }
    execution_events_add(e, EVENT_DONE, NULL, 0);
    for (int i = 0; i < 6; i++) {
        pthread_join(readers[i], &seen);
        assert_int_equal((uintptr_t)seen, 3002);
    }
    execution_unref(e);
}

/* ---- history ------------------------------------------------------------ */

static void session_history_evicts(void **state)
{
    struct fixture *f = *state;
    char ids[6][ID_MAX];
    struct execution *e;
    struct exec_info info;

    f->conf.history_per_session = 3;
    for (int i = 0; i < 5; i++) {
        e = run_for(f, EXEC_PYTHON, "out x", 0);
        execution_info(e, &info);
        memcpy(ids[i], info.id, sizeof(ids[i]));
        execution_unref(e);
    }
    for (int i = 0; i < 5; i++) {
        int rc = execution_find(f->s, ACTOR(TENANT), ids[i], &e, &f->err);

        assert_int_equal(rc, i < 2 ? -ERR_NOT_FOUND : 0);
        if (rc == 0)
            execution_unref(e);
    }
    /* By bytes: the one looked at last stays. */
    assert_int_equal(execution_find(f->s, ACTOR(TENANT), ids[2], &e, &f->err),
                     0);
    execution_unref(e);
    f->conf.history_per_session = 50;
    f->conf.history_bytes = f->x->history_bytes;
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(execution_find(f->s, ACTOR(TENANT), ids[2], &e, &f->err),
                     0);
    execution_unref(e);
    assert_int_equal(execution_find(f->s, ACTOR(TENANT), ids[3], &e, &f->err),
                     -ERR_NOT_FOUND);
    f->conf.history_bytes = 0;
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(f->x->history_bytes, 0);
    assert_int_equal(f->x->runs.count, 0);
}

/* ---- files -------------------------------------------------------------- */

static void session_files_round_trip(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct fixture *f = *state;
    struct session_file *files;
    struct session_upload *u;
    struct stat st;
    char text[4] = "";
    size_t count;
    bool more;
    int fd;

    for (size_t i = 0; i < 5; i++)
        put(f, names[i]);
    assert_int_equal(session_files_list(f->s, ACTOR(TENANT), f->id, 3, NULL,
                                        &files, &count, &more, &f->err),
                     0);
    assert_int_equal(count, 3);
    assert_true(more);
    assert_string_equal(files[2].path, "c");
    assert_int_equal(files[0].modified_at_ms, 1700000000000);
    session_files_free(files, count);
    assert_int_equal(session_files_list(f->s, ACTOR(TENANT), f->id, 100, "c",
                                        &files, &count, &more, &f->err),
                     0);
    assert_int_equal(count, 2);
    assert_false(more);
    session_files_free(files, count);
    assert_int_equal(
        session_files_open(f->s, ACTOR(TENANT), f->id, "b", &fd, &st, &f->err),
        0);
    assert_int_equal(read(fd, text, 3), 3);
    assert_string_equal(text, "abc");
    fd_close(&fd);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(
            session_files_remove(f->s, &WHO, f->id, names[i], &f->err), 0);
    assert_int_equal(
        session_files_open(f->s, ACTOR(TENANT), f->id, "b", &fd, &st, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(
        session_upload_begin(f->s, &WHO, f->id, "../x", &u, &f->err),
        -ERR_INVALID);
    assert_int_equal(
        session_upload_begin(f->s, &OTHER, f->id, "x", &u, &f->err),
        -ERR_NOT_FOUND);
}

static void session_upload_limit_and_abort(void **state)
{
    struct fixture *f = *state;
    char *big cleanup(mem_free) = repeat("x", 1001, "");
    struct session_upload *u;
    struct stat st;
    int fd;

    assert_int_equal(session_upload_begin(f->s, &WHO, f->id, "x", &u, &f->err),
                     0);
    assert_int_equal(session_upload_write(u, big, 1001, &f->err),
                     -ERR_TOO_LARGE);
    assert_int_equal(session_upload_write(u, big, 1000, &f->err), 0);
    assert_int_equal(session_upload_write(u, big, 1, &f->err), -ERR_TOO_LARGE);
    session_upload_abort(u);
    assert_int_equal(
        session_files_open(f->s, ACTOR(TENANT), f->id, "x", &fd, &st, &f->err),
        -ERR_NOT_FOUND);
}

static void F2_session_files_hostile_descriptors(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    int fd = -1;
    int before;

    put(f, "a");
    before = open_fds();
    atomic_store(&fake.fault, FAULT_OPEN_DIR);
    assert_int_equal(
        session_files_open(f->s, ACTOR(TENANT), f->id, "a", &fd, &st, &f->err),
        -ERR_GUEST);
    atomic_store(&fake.fault, FAULT_OPEN_WRITE);
    assert_int_equal(
        session_files_open(f->s, ACTOR(TENANT), f->id, "a", &fd, &st, &f->err),
        -ERR_GUEST);
    expect_fds(before);
    assert_int_equal(fake.kills, 0);
    atomic_store(&fake.fault, FAULT_OPEN_NONE);
    assert_int_equal(
        session_files_open(f->s, ACTOR(TENANT), f->id, "a", &fd, &st, &f->err),
        -ERR_GUEST);
    atomic_store(&fake.fault, FAULT_NONE);
    assert_true(fake.kills > 0);
    assert_int_equal(
        session_files_open(f->s, ACTOR(TENANT), f->id, "a", &fd, &st, &f->err),
        0);
    fd_close(&fd);
    assert_int_equal(session_files_remove(f->s, &WHO, f->id, "a", &f->err), 0);
}

static void F7_session_files_list_bounded(void **state)
{
    struct fixture *f = *state;
    struct session_file *files;
    size_t count;
    bool more;

    atomic_store(&fake.fault, FAULT_LIST_ENDLESS);
    assert_int_equal(session_files_list(f->s, ACTOR(TENANT), f->id, 10, NULL,
                                        &files, &count, &more, &f->err),
                     -ERR_GUEST);
    atomic_store(&fake.fault, FAULT_LIST_NAMES);
    assert_int_equal(session_files_list(f->s, ACTOR(TENANT), f->id, 10, NULL,
                                        &files, &count, &more, &f->err),
                     0);
    assert_int_equal(count, 1);
    assert_string_equal(files[0].path, "good");
    session_files_free(files, count);
    assert_int_equal(session_files_list(f->s, ACTOR(TENANT), f->id, 0, NULL,
                                        &files, &count, &more, &f->err),
                     -ERR_INVALID);
    assert_int_equal(session_files_list(f->s, ACTOR(TENANT), f->id, 1001, NULL,
                                        &files, &count, &more, &f->err),
                     -ERR_INVALID);
}

/* ---- creating ----------------------------------------------------------- */

/* Ephemeral ones never go to sleep to make room for another. */
static int try_create(struct fixture *f, const char *tenant, const char *pool)
{
    struct session_spec spec = {.pool = pool, .ephemeral = true};
    struct session_info info;
    struct actor who = {.tenant = tenant, .key = "key_of_test"};
    int rc = session_create(f->s, &who, &spec, &info, &f->err);

    if (rc == 0) {
        memcpy(f->id, info.id, sizeof(f->id));
        session_info_done(&info);
    }
    return rc;
}

static void R8_session_create_limits(void **state)
{
    struct fixture *f = *state;
    struct session_metrics m;
    uint64_t started;

    check_run(f, "out x", OUTCOME_OK, false, NULL); /* it was just used */
    for (int i = 1; i < 5; i++)
        assert_int_equal(try_create(f, TENANT, NULL), 0);
    started = clock_mono_ms();
    assert_int_equal(try_create(f, TENANT, NULL), -ERR_LIMIT); /* tenant: 5 */
    assert_true(clock_mono_ms() - started < 50);
    assert_int_equal(f->err.retry_after_s, 5);
    assert_int_equal(try_create(f, "b", NULL), 0);
    assert_int_equal(try_create(f, "b", NULL), -ERR_BUSY); /* pool: 6 */
    assert_in_range(f->err.retry_after_s, 99, 100);        /* its cooldown */
    assert_int_equal(try_create(f, "b", "second"), 0);
    assert_int_equal(try_create(f, "b", "second"), -ERR_BUSY); /* pool: 1 */
    f->conf.pools[1].max_sessions = 10;
    assert_int_equal(try_create(f, "b", "second"), 0);
    assert_int_equal(try_create(f, "b", "second"), -ERR_BUSY); /* all: 8 */
    assert_int_equal(
        session_delete(f->s,
                       &(struct actor){.tenant = "b", .key = "key_of_test"},
                       f->id, &f->err),
        0);
    assert_int_equal(try_create(f, "b", "second"), 0);
    assert_int_equal(try_create(f, "b", "nowhere"), -ERR_INVALID);
    sessions_metrics(f->s, &m);
    assert_int_equal(m.by_state[SESSION_IDLE], 8);
    assert_int_equal(m.refusals_busy, 3);
    assert_int_equal(m.refusals_limit, 1);
    assert_int_equal(m.created, 9);
    assert_int_equal(m.pools[1].sessions, 2);
}

/* With room for more sessions than any rate lets through. */
static int set_up_roomy(void **state)
{
    struct fixture *f;

    (void)set_up_conf(state);
    f = *state;
    f->conf.pools[0].max_sessions = 100;
    f->conf.max_sessions = 100;
    open_it(f);
    wait_proven(f);
    create(f);
    return 0;
}

static void R8_session_create_rate(void **state)
{
    struct fixture *f = *state;

    set_quota(f, "rate", QUOTA_CREATIONS, 2);
    set_quota(f, "rate", QUOTA_SESSIONS, 100);
    for (int i = 0; i < 4; i++) /* two seconds' worth at once */
        assert_int_equal(try_create(f, "rate", NULL), 0);
    assert_int_equal(try_create(f, "rate", NULL), -ERR_LIMIT);
    assert_int_equal(f->err.retry_after_s, 1);
    assert_int_equal(try_create(f, "other", NULL), 0);
    fake_nap(600);
    assert_int_equal(try_create(f, "rate", NULL), 0);
}

static void session_create_spec(void **state)
{
    struct fixture *f = *state;
    char *name cleanup(mem_free) = repeat("n", 129, "");
    char *meta cleanup(mem_free) = repeat("m", 16385, "");
    struct session_spec spec = {.name = name};
    struct session_info info;

    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err),
                     -ERR_INVALID);
    name[128] = '\0';
    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err), 0);
    assert_string_equal(info.name, name);
    session_info_done(&info);
    spec = (struct session_spec){.name = "a\nb"};
    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err),
                     -ERR_INVALID);
    spec = (struct session_spec){.metadata = meta};
    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err),
                     -ERR_TOO_LARGE);
    meta[16384] = '\0';
    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err), 0);
    assert_string_equal(info.metadata, meta);
    session_info_done(&info);
    spec = (struct session_spec){.runtime = "elsewhere"};
    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err),
                     -ERR_INVALID);
    spec = (struct session_spec){.runtime = "fake",
                                 .limits = {.memory_bytes = 128 << 20}};
    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err), 0);
    assert_int_equal(info.limits.memory_bytes, 128 << 20);
    session_info_done(&info);
}

static void session_create_faults(void **state)
{
    static const struct {
        enum fake_fault fault;
        int code;
    } rows[] = {
        {FAULT_FULL, ERR_BUSY},
        {FAULT_WALL, ERR_ISOLATION},
        {FAULT_DIES_EARLY, ERR_ISOLATION},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        atomic_store(&fake.fault, rows[i].fault);
        assert_int_equal(try_create(f, TENANT, NULL), -rows[i].code);
        atomic_store(&fake.fault, FAULT_NONE);
    }
    assert_int_equal(fake.releases, 2);
    atomic_store(&fake.fault, FAULT_NOT_READY);
    assert_int_equal(try_create(f, TENANT, NULL), 0);
    atomic_store(&fake.fault, FAULT_NONE);
}

/* Limits of live sessions together: at what the setting allows, and above. */
static void R2_memory_is_granted_up_to_the_overcommit(void **state)
{
    struct fixture *f = *state;
    const struct actor maker = {.tenant = TENANT, .key = "key_of_test"};
    uint64_t each = f->conf.pools[0].memory_bytes;

    check_run(f, "out x", OUTCOME_OK, false, NULL); /* it was just used */
    f->conf.machine_memory = each; /* one session is there already */
    f->conf.memory_overcommit = 3;
    assert_int_equal(try_create(f, TENANT, NULL), 0); /* below */
    assert_int_equal(try_create(f, TENANT, NULL), 0); /* at */
    assert_int_equal(atomic_load(&f->s->granted), 3 * each);
    assert_true(atomic_load(&f->s->granted_warned));
    assert_int_equal(try_create(f, TENANT, NULL), -ERR_BUSY); /* above */
    assert_true(f->err.retry_after_s > 0);
    assert_int_equal(session_delete(f->s, &maker, f->id, &f->err), 0);
    assert_int_equal(atomic_load(&f->s->granted), 2 * each);
    f->conf.machine_memory -= 1; /* not enough for a third any more */
    assert_int_equal(try_create(f, TENANT, NULL), -ERR_BUSY);
    f->conf.memory_overcommit = 0; /* no limit */
    assert_int_equal(try_create(f, TENANT, NULL), 0);
}

/* A sandbox that is late, and one there is no room for, are an overload of the
 * service and not a session that misbehaves or a wall that is missing. */
static void R9_overload_is_told_as_overload(void **state)
{
    static const enum fake_fault faults[] = {
        FAULT_LATE_READY, FAULT_LATE_START, FAULT_FULL, FAULT_NO_MEMORY};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
        struct clock_pusher push = {.further_ms = 3100};
        int r;

        atomic_store(&fake.fault, faults[i]);
        clock_pusher_start(&push);
        r = try_create(f, TENANT, NULL);
        clock_pusher_stop(&push);
        assert_int_equal(r, -ERR_BUSY);
        assert_true(f->err.retry_after_s > 0);
        atomic_store(&fake.fault, FAULT_NONE);
    }
    assert_int_equal(fake.releases, 2); /* of the late ones */
    /* A race for a slot that is lost is run again. */
    atomic_store(&fake.not_ready, 0);
    atomic_store(&fake.fault, FAULT_FULL_ONCE);
    assert_int_equal(try_create(f, TENANT, NULL), 0);
    atomic_store(&fake.fault, FAULT_NONE);
}

static void session_create_runtime_not_built(void **state)
{
    struct fixture *f = *state;

    atomic_store(&fake.fault, FAULT_NOT_BUILT);
    open_it(f);
    assert_int_equal(try_create(f, TENANT, NULL), -ERR_UNAVAILABLE);
    assert_string_equal(f->err.hint, "run 'glovebox runtime build fake'");
    assert_false(sessions_ready(f->s));
    atomic_store(&fake.fault, FAULT_NONE);
    assert_int_equal(try_create(f, TENANT, NULL), 0);
    assert_true(sessions_ready(f->s));
}

static void session_list_pages(void **state)
{
    struct fixture *f = *state;
    struct session_info *page;
    char ids[3][ID_MAX];
    size_t count;
    bool more;

    memcpy(ids[0], f->id, ID_MAX);
    for (int i = 1; i < 3; i++) {
        create(f);
        memcpy(ids[i], f->id, ID_MAX);
    }
    assert_int_equal(try_create(f, "other", NULL), 0);
    assert_int_equal(session_list(f->s, ACTOR(TENANT), 2, NULL, &page, &count,
                                  &more, &f->err),
                     0);
    assert_int_equal(count, 2);
    assert_true(more);
    assert_string_equal(page[0].id, ids[2]);
    assert_string_equal(page[1].id, ids[1]);
    free(page);
    assert_int_equal(session_list(f->s, ACTOR(TENANT), 2, ids[1], &page,
                                  &count, &more, &f->err),
                     0);
    assert_int_equal(count, 1);
    assert_false(more);
    assert_string_equal(page[0].id, ids[0]);
    free(page);
    /* A foreign id is as unknown as any. */
    assert_int_equal(session_list(f->s, ACTOR(TENANT), 2, f->id, &page, &count,
                                  &more, &f->err),
                     -ERR_INVALID);
    assert_int_equal(session_list(f->s, ACTOR("nobody"), 2, NULL, &page,
                                  &count, &more, &f->err),
                     0);
    assert_int_equal(count, 0);
    free(page);
}

static void session_pool_hands_over(void **state)
{
    struct fixture *f = *state;
    struct session_metrics m;

    f->conf.pools[0].ready = 3;
    open_it(f);
    for (int i = 0; i < 1000; i++) {
        sessions_metrics(f->s, &m);
        if (m.pools[0].ready == 3)
            break;
        fake_nap(1);
    }
    assert_int_equal(m.pools[0].ready, 3);
    assert_true(sessions_ready(f->s));
    create(f);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    for (int i = 0; i < 1000; i++) {
        sessions_metrics(f->s, &m);
        if (m.pools[0].ready == 3)
            break;
        fake_nap(1);
    }
    assert_int_equal(m.pools[0].ready, 3);
    assert_int_equal(m.ready_taken, 1);
    assert_int_equal(m.ready_missed, 0);
    assert_int_equal(m.start.count, 1);
    assert_int_equal(m.execution.count, 1);
    assert_int_equal(m.outcomes[OUTCOME_OK], 1);
}

/* ---- sleep -------------------------------------------------------------- */

#define LOOK_MS 1000u /* how often the service looks for idle sessions */

/* The configuration has been changed so that the session goes dormant. */
static void wait_dormant(struct fixture *f)
{
    clock_test_advance(LOOK_MS);
    wait_state(f, SESSION_DORMANT, 0);
}

/* how: the beginning of the notice; NULL: there is none. */
static void check_notice(struct fixture *f, const struct exec_spec *spec,
                         const char *how)
{
    struct exec_info info;
    struct execution *e;

    assert_int_equal(execution_run(f->s, &WHO, f->id, spec, &e, &f->err), 0);
    execution_info(e, &info);
    if (!how) {
        assert_null(info.notice);
    } else {
        assert_non_null(info.notice);
        assert_memory_equal(info.notice, how, strlen(how));
        assert_non_null(strstr(info.notice, ": variables of earlier "
                                            "executions are gone"));
    }
    execution_unref(e);
}

static void session_wake_notice_says_how_variables_were_lost(void **state)
{
    static const struct exec_spec cell = {.code = "out x", .code_len = 5};
    static const struct exec_spec fresh = {
        .code = "out x", .code_len = 5, .fresh = true};
    static const struct exec_spec command = {
        .language = EXEC_SHELL, .code = "true", .code_len = 4};
    struct fixture *f = *state;
    struct session_info info;

    check_notice(f, &command, NULL);
    check_notice(f, &cell, NULL);
    check_notice(f, &cell, NULL);
    check_run(f, "die 11", OUTCOME_CRASHED, true, NULL);
    check_notice(f, &cell, "The session's interpreter ended");
    check_run(f, "oom", OUTCOME_OOM, true, NULL);
    check_notice(f, &cell, "The session's interpreter ended");
    check_notice(f, &cell, NULL);
    check_notice(f, &fresh, NULL); /* it was asked for */
    check_notice(f, &cell, NULL);
    assert_int_equal(session_reset(f->s, &WHO, f->id, &info, &f->err), 0);
    session_info_done(&info);
    check_notice(f, &command, NULL);
    check_notice(f, &cell, "The session was reset");
    check_run(f, "die 11", OUTCOME_CRASHED, true, NULL);
    f->conf.pools[0].cooldown_s = 0;
    wait_dormant(f);
    f->conf.pools[0].cooldown_s = 100;
    check_notice(f, &cell, "The session was asleep");
    check_notice(f, &cell, NULL);
}

static void session_goes_dormant_and_wakes(void **state)
{
    struct fixture *f = *state;
    struct exec_info info;
    struct execution *e;

    f->conf.pools[0].cooldown_s = 0;
    wait_dormant(f);
    f->conf.pools[0].cooldown_s = 100;
    for (int i = 0; i < 2000 && fake.releases < 1; i++)
        fake_nap(1); /* dormant from the moment nobody may use it */
    assert_int_equal(fake.releases, 1);
    e = run_for(f, EXEC_PYTHON, "out x", 0);
    execution_info(e, &info);
    assert_true(info.interpreter_fresh);
    expect(e, OUTCOME_OK, false, NULL);
    assert_int_equal(fake.spawns, 2);
    assert_int_equal(get(f).interpreter, 2);
    /* Files do not wake it: the workspace has them. */
    f->conf.pools[0].lifetime_s = 0;
    wait_dormant(f);
    f->conf.pools[0].lifetime_s = 1000;
    put(f, "a");
    assert_int_equal(get(f).state, SESSION_DORMANT);
    assert_int_equal(session_files_remove(f->s, &WHO, f->id, "a", &f->err), 0);
    /* And a dormant one can be deleted. */
    f->conf.pools[0].cooldown_s = 0;
    wait_dormant(f);
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    assert_int_equal(fake.releases, 2);
}

static int submit_here(void *ctx, void (*job)(void *arg), void *arg)
{
    (void)ctx;
    job(arg);
    return 0;
}

static void session_wake_failure_is_an_outcome(void **state)
{
    struct fixture *f = *state;
    struct exec_spec spec = {.code = "out x", .code_len = 5};
    struct execution *e;
    struct exec_info info;

    f->conf.pools[0].cooldown_s = 0;
    wait_dormant(f);
    f->conf.pools[0].cooldown_s = 100;
    atomic_store(&fake.fault, FAULT_WALL);
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err), 0);
    expect(e, OUTCOME_ISOLATION_FAILED, true, NULL);
    atomic_store(&fake.fault, FAULT_FULL);
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err),
                     -ERR_BUSY);
    /* Whoever asks for its outcome is told the same. */
    assert_int_equal(execution_submit(f->s, &WHO, f->id, &spec, submit_here,
                                      NULL, &e, &f->err),
                     0);
    execution_info(e, &info);
    assert_string_equal(info.limit_name, "capacity");
    assert_non_null(strstr(info.failure, "nothing was run"));
    expect(e, OUTCOME_LIMIT, true, NULL);
    atomic_store(&fake.fault, FAULT_NONE);
    assert_int_equal(get(f).state, SESSION_DORMANT);
    check_run(f, "out ok", OUTCOME_OK, false, NULL);
}

/* ---- closing ------------------------------------------------------------ */

static void sessions_close_cancels(void **state)
{
    struct fixture *f = *state;
    struct bg run = {.f = f, .code = "deaf 9000"};
    struct session_spec spec = {0};
    struct session_info info;
    uint64_t started = clock_mono_ms();

    bg_start(&run);
    wait_state(f, SESSION_RUNNING, 0);
    close_sessions(f, 0);
    assert_true(clock_mono_ms() - started < 5000);
    pthread_join(run.thread, NULL);
    expect(run.e, OUTCOME_CANCELLED, true, NULL);
    open_it(f);
    sessions_stop(f->s, 1);
    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err),
                     -ERR_UNAVAILABLE);
}

/* Nothing is left behind by many runs, sessions and sandboxes. */
static void R7_sessions_leave_no_descriptor(void **state)
{
    struct fixture *f = *state;
    int before;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    before = open_fds();
    for (int i = 0; i < 300; i++) {
        char die[16];

        /* Another code each time: the same would be slowed. */
        (void)snprintf(die, sizeof(die), "die 11%*s", i / 50, "");
        check_run(f, i % 50 ? "out x" : die,
                  i % 50 ? OUTCOME_OK : OUTCOME_CRASHED, i % 50 == 0, NULL);
    }
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    expect_fds(before);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
        create(f);
    }
    assert_int_equal(f->s->table.count, 1);
    assert_int_equal(atomic_load(&f->s->live), 1);
    assert_true(open_fds() <= before + 2 * 50 + 20); /* the fake's ends */
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define CLOSED(test)                                                          \
    cmocka_unit_test_setup_teardown(test, set_up_conf, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(F5_session_text_path_limits),
        CLOSED(session_limits_grant_ranges),
        cmocka_unit_test(R9_session_judge_table),
        cmocka_unit_test(session_outcome_shell_codes),
        LIVE(session_execute_output_and_result),
        LIVE(session_execute_keeps_order_by_sync),
        LIVE(session_execute_truncates_output),
        LIVE(session_execute_limits_displays),
        LIVE(session_execute_limits_display_bytes),
        LIVE(session_execute_malformed_frames),
        LIVE(session_execute_frames_byte_by_byte),
        LIVE(session_execute_forged_done),
        LIVE(session_execute_deaths),
        LIVE(R9_children_ended_at_the_memory_limit_are_reported),
        LIVE(session_execute_limits),
        LIVE(session_execute_box_gone),
        LIVE(session_execute_file_changes),
        LIVE(session_execute_broken_pid1),
        LIVE(R1_session_execute_timeout_interrupts),
        LIVE(R1_session_execute_timeout_kills),
        LIVE(R1_session_execute_timeout_by_warden),
        LIVE(session_execute_shell),
        LIVE(session_execute_shell_timeout),
        LIVE(session_execute_queue_order),
        LIVE(execution_cancel_queued_and_running),
        LIVE(session_interrupt_keeps_state),
        LIVE(session_reset_fresh_interpreter),
        LIVE(R7_session_delete_while_running),
        LIVE(session_submit_runs_elsewhere),
        LIVE(session_execute_refusals),
        LIVE(execution_event_pointers_are_stable),
        LIVE(execution_watch_once),
        LIVE(execution_unwatch_waits_for_the_call),
        LIVE(execution_watch_many_readers),
        LIVE(session_history_evicts),
        LIVE(session_files_round_trip),
        LIVE(session_upload_limit_and_abort),
        LIVE(F2_session_files_hostile_descriptors),
        LIVE(F7_session_files_list_bounded),
        LIVE(R8_session_create_limits),
        LIVE(X4_session_room_is_made_beside_a_neighbours_long_run),
        cmocka_unit_test_setup_teardown(R8_session_create_rate, set_up_roomy,
                                        tear_down),
        LIVE(session_create_spec),
        LIVE(session_create_faults),
        LIVE(R9_overload_is_told_as_overload),
        LIVE(R2_memory_is_granted_up_to_the_overcommit),
        CLOSED(session_create_runtime_not_built),
        LIVE(session_list_pages),
        CLOSED(session_pool_hands_over),
        LIVE(session_wake_notice_says_how_variables_were_lost),
        LIVE(session_goes_dormant_and_wakes),
        LIVE(session_wake_failure_is_an_outcome),
        LIVE(sessions_close_cancels),
        LIVE(R7_sessions_leave_no_descriptor),
    };

    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
