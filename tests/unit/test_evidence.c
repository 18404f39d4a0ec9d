/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evidence: all that is known of a run is kept, once, for those who may see
 * it and as long as is asked for; nothing of it waits on the disk.
 */
#include "audit_fixture.h"
#include "evidence/evidence_int.h"
#include "json/json.h"

#define EXEC_1 "exec_11111111111111111111111111111111"
#define EXEC_2 "exec_22222222222222222222222222222222"
#define EXEC_3 "exec_33333333333333333333333333333333"

static struct evidence *open_with(struct fixture *f, bool code, uint32_t days)
{
    struct evidence *ev = NULL;
    struct evidence_settings settings = {.code = code, .days = days};

    if (evidence_open(&settings, f->store, f->audit, &ev, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return ev;
}

static struct evidence_run run_of(const char *id, const struct actor *who)
{
    return (struct evidence_run){.execution = id,
                                 .session = "sess_1",
                                 .workspace = "ws_1",
                                 .pool = "default",
                                 .runtime = "minimal",
                                 .who = who,
                                 .language = "python",
                                 .code = "print('x')",
                                 .code_len = strlen("print('x')"),
                                 .commit = "",
                                 .approval = "",
                                 .retry_of = "",
                                 .outcome = "ok",
                                 .created_at_ms = 1000,
                                 .started_at_ms = 2000,
                                 .finished_at_ms = 3000};
}

static json_t *get(struct fixture *f, struct evidence *ev, const char *id)
{
    struct buf text cleanup(buf_done) = {0};
    json_t *page;

    if (evidence_get(ev, &ann, true, id, &text, &f->err) < 0)
        fail_msg("%s", f->err.message);
    page = json_loadb(text.data, text.len, 0, NULL);
    assert_non_null(page);
    return page;
}

static const json_t *at(const json_t *page, const char *one, const char *two)
{
    const json_t *value = json_object_get(page, one);

    return two ? json_object_get(value, two) : value;
}

static void check_text(const json_t *value, const char *expected)
{
    assert_true(json_is_string(value));
    assert_string_equal(json_string_value(value), expected);
}

/* Every check is listed; output only where it is configured, and never of an
 * ephemeral session. At, below and above the number of bytes. */
static void checks_and_output(void **state)
{
    static const struct policy_check checks[] = {{.action = POLICY_EXECUTE,
                                                  .verdict = POLICY_ALLOW,
                                                  .rule = "default",
                                                  .layer = "global",
                                                  .version = 4},
                                                 {.action = POLICY_CONNECT,
                                                  .about = "example.org:443",
                                                  .verdict = POLICY_DENY,
                                                  .rule = "closed",
                                                  .layer = "tenant:acme",
                                                  .version = 4}};
    static const struct {
        size_t max;
        bool ephemeral;
        const char *kept;
        bool cut;
    } cases[] = {{0, false, NULL, false},
                 {4, false, "abc", true},
                 {5, false, "abc\u00e9", false},
                 {6, false, "abc\u00e9", false},
                 {6, true, NULL, false}};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct evidence_settings settings = {.output = cases[i].max};
        struct evidence_run run = run_of(EXEC_1, &ann);
        json_t *page cleanup(json_unref) = NULL;
        struct evidence *ev = NULL;

        assert_int_equal(
            evidence_open(&settings, f->store, f->audit, &ev, &f->err), 0);
        run.checks = checks;
        run.check_count = ARRAY_SIZE(checks);
        run.output = "abc\u00e9";
        run.output_len = strlen(run.output);
        run.ephemeral = cases[i].ephemeral;
        evidence_record(ev, &run);
        page = get(f, ev, EXEC_1);
        assert_int_equal(json_array_size(at(page, "checks", NULL)), 2);
        check_text(json_object_get(json_array_get(at(page, "checks", NULL), 1),
                                   "about"),
                   "example.org:443");
        check_text(json_object_get(json_array_get(at(page, "checks", NULL), 1),
                                   "verdict"),
                   "deny");
        assert_true(json_is_false(at(page, "checks_truncated", NULL)));
        if (cases[i].kept) {
            check_text(at(page, "output", "text"), cases[i].kept);
            assert_int_equal(json_is_true(at(page, "output", "truncated")),
                             cases[i].cut);
        } else {
            assert_true(json_is_null(at(page, "output", NULL)));
        }
        evidence_close(ev);
    }
}

static void a_run_is_kept_whole(void **state)
{
    static const struct policy_decision decision = {.verdict = POLICY_ASK,
                                                    .rule = "careful",
                                                    .layer = "tenant:acme",
                                                    .reason = "it writes",
                                                    .version = 4};
    static const struct evidence_file files[] = {
        {"a.csv", "created", "", "file_1", "ver_1", "ab", 12},
        {"b\xff.csv", "modified", "locked", "", "", "", 3}};
    static const struct evidence_connection tried[] = {
        {EVIDENCE_BLOCKED, 5, "connect", "10.0.0.1", 80, "", "", "no network",
         3, 0, 0},
        {EVIDENCE_ALLOWED, 6, "http", "example.org", 443, "GET", "/x", "", 1,
         10, 20},
        {EVIDENCE_REFUSED, 7, "http", "evil.example", 443, "", "",
         "not listed", 1, 0, 0}};
    static const struct evidence_artifact shown[] = {
        {"display", "image/png", 99}};
    static const char *const reads[] = {"in.csv"};
    struct fixture *f = *state;
    struct evidence *ev = open_with(f, true, 0);
    struct actor who = ann;
    struct evidence_run run = run_of(EXEC_1, &who);
    json_t *page cleanup(json_unref) = NULL;

    who.door = "mcp";
    who.tool = "execute_python";
    run.metadata = "{\"conversation\":\"c1\",\"prompt\":\"why\"}";
    run.conversation = "c1";
    run.message = "m1";
    run.base_commit = "cmt_1";
    run.base_seq = 3;
    run.commit = "cmt_2";
    run.files = files;
    run.file_count = 2;
    run.reads = reads;
    run.read_count = 1;
    run.artifacts = shown;
    run.artifact_count = 1;
    run.connections = tried;
    run.connection_count = 3;
    run.decision = &decision;
    run.approval = "apr_1";
    run.retry_of = EXEC_2;
    run.repeats = 2;
    run.wall_ms = 1500;
    evidence_record(ev, &run);
    page = get(f, ev, EXEC_1);
    check_text(at(page, "who", "key"), "key_ann");
    check_text(at(page, "who", "tool"), "execute_python");
    check_text(at(page, "who", "request"), "req-1");
    check_text(at(page, "trigger", "conversation"), "c1");
    check_text(at(at(page, "trigger", "metadata"), "prompt", NULL), "why");
    check_text(at(page, "code_text", NULL), "print('x')");
    assert_int_equal(json_integer_value(at(page, "code", "bytes")), 10);
    check_text(at(at(page, "files", "mounted"), "commit", NULL), "cmt_1");
    check_text(at(at(page, "files", "read"), "told_by", NULL), "interpreter");
    check_text(json_array_get(at(at(page, "files", "read"), "paths", NULL), 0),
               "in.csv");
    assert_int_equal(json_array_size(at(page, "files", "written")), 2);
    check_text(
        at(json_array_get(at(page, "files", "written"), 1), "fate", NULL),
        "locked");
    assert_int_equal(json_array_size(at(page, "connections", "blocked")), 1);
    assert_int_equal(json_array_size(at(page, "connections", "refused")), 1);
    assert_int_equal(json_array_size(at(page, "connections", "allowed")), 1);
    check_text(at(page, "policy", "verdict"), "ask");
    check_text(at(page, "policy", "rule"), "careful");
    check_text(at(page, "approval", "id"), "apr_1");
    assert_true(json_is_true(at(page, "escalated", NULL)));
    check_text(at(page, "retry_of", NULL), EXEC_2);
    assert_int_equal(json_integer_value(at(page, "usage", "wall_ms")), 1500);
    check_text(
        at(json_array_get(at(page, "artifacts", NULL), 0), "type", NULL),
        "image/png");
    evidence_close(ev);
}

static void it_outlives_a_restart_and_the_last_word_stays(void **state)
{
    struct fixture *f = *state;
    struct evidence *ev = open_with(f, true, 0);
    struct evidence_run run = run_of(EXEC_1, &ann);
    json_t *page cleanup(json_unref) = NULL;

    run.outcome = "pending_approval";
    evidence_record(ev, &run);
    run.outcome = "error";
    evidence_record(ev, &run);
    evidence_close(ev); /* writes what waits */
    reopen(f);
    ev = open_with(f, true, 0);
    page = get(f, ev, EXEC_1);
    check_text(at(page, "outcome", NULL), "error");
    evidence_close(ev);
}

static void code_is_kept_only_where_it_is_to_be(void **state)
{
    struct fixture *f = *state;
    struct evidence *ev = open_with(f, false, 0);
    struct evidence_run run = run_of(EXEC_1, &ann);
    json_t *page cleanup(json_unref) = NULL;

    evidence_record(ev, &run);
    page = get(f, ev, EXEC_1);
    assert_true(json_is_null(at(page, "code_text", NULL)));
    assert_true(json_is_false(at(page, "code", "kept")));
    check_text(at(page, "code", "sha256"), "51d22c08921edc1f0205612a3a6d26ad"
                                           "f703520a4316bd857eeabc38184ff888");
    evidence_close(ev);
}

/* At the limit whole, above it cut between characters. */
static void code_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct evidence *ev = open_with(f, true, 0);
    char *code cleanup(mem_free) = xcalloc(1, EVIDENCE_CODE_MAX + 8);
    static const struct {
        size_t len, kept;
    } cases[] = {{EVIDENCE_CODE_MAX - 1, EVIDENCE_CODE_MAX - 1},
                 {EVIDENCE_CODE_MAX, EVIDENCE_CODE_MAX},
                 {EVIDENCE_CODE_MAX + 3, EVIDENCE_CODE_MAX - 1}};

    memset(code, 'a', EVIDENCE_CODE_MAX + 3);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct evidence_run run = run_of(EXEC_1, &ann);
        json_t *page cleanup(json_unref) = NULL;

        if (cases[i].len > EVIDENCE_CODE_MAX) /* across the limit */
            memcpy(code + EVIDENCE_CODE_MAX - 1, "\xe2\x82\xac", 3);
        run.code = code;
        run.code_len = cases[i].len;
        evidence_record(ev, &run);
        page = get(f, ev, EXEC_1);
        assert_int_equal(json_string_length(at(page, "code_text", NULL)),
                         cases[i].kept);
        assert_int_equal(json_integer_value(at(page, "code", "bytes")),
                         cases[i].len);
    }
    evidence_close(ev);
}

static int can(struct evidence *ev, const struct actor *who, bool every)
{
    struct buf text cleanup(buf_done) = {0};
    struct error err;

    return evidence_get(ev, who, every, EXEC_1, &text, &err);
}

static void I3_foreign_evidence_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct evidence *ev = open_with(f, true, 0);
    struct evidence_run run = run_of(EXEC_1, &ann);
    struct actor_bounds bounds = {.ids = {[ACTOR_SESSIONS] = "sess_2"}};
    struct actor bound = ann;

    evidence_record(ev, &run);
    assert_int_equal(can(ev, &ann, false), 0);
    assert_int_equal(can(ev, &bob, true), 0);
    assert_int_equal(can(ev, &bob, false), -ERR_NOT_FOUND);
    assert_int_equal(can(ev, &eve, true), -ERR_NOT_FOUND);
    bound.bounds = &bounds;
    assert_int_equal(can(ev, &bound, true), -ERR_NOT_FOUND);
    (void)snprintf(bounds.ids[ACTOR_SESSIONS], ACTOR_BOUND_MAX, "sess_1");
    assert_int_equal(can(ev, &bound, true), 0);
    evidence_close(ev);
}

static size_t list(struct fixture *f, struct evidence *ev,
                   const struct actor *who, bool every,
                   const struct evidence_filter *filter, bool *more)
{
    struct evidence_row *rows cleanup(mem_free) = NULL;
    size_t count = 0;

    if (evidence_list(ev, who, every, filter, &rows, &count, more, &f->err) <
        0)
        fail_msg("%s", f->err.message);
    for (size_t i = 1; i < count; i++)
        assert_true(rows[i - 1].at_ms >= rows[i].at_ms);
    return count;
}

static void lists_are_filtered_and_in_pages(void **state)
{
    static const char *const ids[] = {EXEC_1, EXEC_2, EXEC_3};
    struct fixture *f = *state;
    struct evidence *ev = open_with(f, true, 0);
    struct evidence_row *rows cleanup(mem_free) = NULL;
    size_t count = 0;
    bool more = false;

    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        struct evidence_run run = run_of(ids[i], i == 2 ? &bob : &ann);

        run.finished_at_ms = 1000 * (int64_t)(i + 1);
        run.outcome = i == 1 ? "error" : "ok";
        run.session = i == 0 ? "sess_0" : "sess_1";
        evidence_record(ev, &run);
    }
    assert_int_equal(
        list(f, ev, &ann, true, &(struct evidence_filter){.limit = 9}, &more),
        3);
    assert_int_equal(
        list(f, ev, &ann, false, &(struct evidence_filter){.limit = 9}, &more),
        2);
    assert_int_equal(
        list(f, ev, &eve, true, &(struct evidence_filter){.limit = 9}, &more),
        0);
    assert_int_equal(
        list(f, ev, &ann, true,
             &(struct evidence_filter){.limit = 9, .outcome = "error"}, &more),
        1);
    assert_int_equal(
        list(f, ev, &ann, true,
             &(struct evidence_filter){.limit = 9, .session = "sess_1"},
             &more),
        2);
    assert_int_equal(list(f, ev, &ann, true,
                          &(struct evidence_filter){
                              .limit = 9, .from_ms = 2000, .to_ms = 2000},
                          &more),
                     1);
    assert_false(more);
    assert_int_equal(
        list(f, ev, &ann, true, &(struct evidence_filter){.limit = 2}, &more),
        2);
    assert_true(more);
    assert_int_equal(
        evidence_list(ev, &ann, true,
                      &(struct evidence_filter){.limit = 2, .after = EXEC_2},
                      &rows, &count, &more, &f->err),
        0);
    assert_int_equal(count, 1);
    assert_string_equal(rows[0].execution, EXEC_1);
    assert_int_equal(
        evidence_list(ev, &ann, true,
                      &(struct evidence_filter){.limit = 2, .after = "exec_x"},
                      &rows, &count, &more, &f->err),
        -ERR_INVALID);
    /* One that may not be seen is none: the third is bob's. */
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        const struct evidence_filter filter = {.limit = 2, .after = ids[i]};

        free(take_ptr(rows));
        assert_int_equal(evidence_list(ev, &ann, false, &filter, &rows, &count,
                                       &more, &f->err),
                         i == 2 ? -ERR_INVALID : 0);
        free(take_ptr(rows));
        assert_int_equal(evidence_list(ev, &eve, true, &filter, &rows, &count,
                                       &more, &f->err),
                         -ERR_INVALID);
    }
    evidence_close(ev);
}

static void old_evidence_goes(void **state)
{
    struct fixture *f = *state;
    struct evidence *ev = open_with(f, true, 0);
    struct evidence_run run = run_of(EXEC_1, &ann);
    uint64_t until = clock_mono_ms() + 20000;

    run.finished_at_ms = clock_real_ms() - 40 * 86400000ll;
    evidence_record(ev, &run);
    run = run_of(EXEC_2, &ann);
    run.finished_at_ms = clock_real_ms();
    evidence_record(ev, &run);
    evidence_close(ev);
    ev = open_with(f, true, 30); /* looks at once */
    while (can(ev, &ann, true) == 0) {
        assert_true(clock_mono_ms() < until);
        usleep(10000);
    }
    json_decref(get(f, ev, EXEC_2));
    evidence_close(ev);
}

static void what_is_too_much_is_dropped_and_told(void **state)
{
    struct fixture *f = *state;
    struct evidence *ev = open_with(f, true, 0);
    struct store_tx *tx = begin(f); /* nothing can be written */
    struct page p cleanup(page_done) = {0};
    uint64_t until = clock_mono_ms() + 30000;

    for (unsigned i = 0; i < EVIDENCE_QUEUE_MAX + 3; i++) {
        char id[ID_MAX];
        struct evidence_run run = run_of(id, &ann);

        ids_make("exec", id);
        evidence_record(ev, &run);
    }
    store_rollback(&tx);
    do {
        struct evidence_run run = run_of(EXEC_1, &ann);

        evidence_record(ev, &run); /* the next that fits tells */
        page_done(&p);
        usleep(100000);
        p = query(f, &(struct audit_filter){.action = "evidence.dropped"});
        assert_true(clock_mono_ms() < until);
    } while (p.count == 0);
    assert_string_equal(p.lines[0].result, "limit");
    evidence_close(ev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(checks_and_output),
        CASE(a_run_is_kept_whole),
        CASE(it_outlives_a_restart_and_the_last_word_stays),
        CASE(code_is_kept_only_where_it_is_to_be),
        CASE(code_is_bounded),
        CASE(I3_foreign_evidence_is_unknown),
        CASE(lists_are_filtered_and_in_pages),
        CASE(old_evidence_goes),
        CASE(what_is_too_much_is_dropped_and_told),
    };

    return cmocka_run_group_tests_name("evidence", tests, NULL, NULL);
}
