/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox mcp: what it makes of messages and answers, without a service. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "cli/mcp/mcp.h"

#define CLAIM                                                                 \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"
#define MODERN(method, params)                                                \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method                      \
    "\",\"params\":{" params CLAIM "}}"

static struct mcp_message read_message(const char *text)
{
    struct mcp_message m;

    assert_true(cli_mcp_message_read(text, strlen(text), &m));
    return m;
}

/* ---- messages ----------------------------------------------------------- */

static void message_read_kinds(void **state)
{
    static const struct {
        const char *text;
        enum mcp_message_kind kind;
        bool modern, id;
    } rows[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", MCP_REQUEST,
         false, true},
        {"{\"id\":\"a\",\"method\":\"ping\"}", MCP_REQUEST, false, true},
        {"{\"id\":null,\"method\":\"ping\"}", MCP_REQUEST, false, false},
        {"{\"id\":{},\"method\":\"ping\"}", MCP_REQUEST, false, false},
        {"{\"method\":\"notifications/initialized\"}", MCP_NOTIFICATION, false,
         false},
        {"{\"id\":1,\"result\":{}}", MCP_RESPONSE, false, true},
        {"{\"id\":1,\"error\":{\"code\":1}}", MCP_RESPONSE, false, true},
        {"[{\"id\":1,\"method\":\"ping\"}]", MCP_BATCH, false, false},
        {"42", MCP_OTHER, false, false},
        {"{}", MCP_OTHER, false, false},
        {"{\"id\":1,\"method\":7}", MCP_OTHER, false, true},
        {MODERN("tools/list", ""), MCP_REQUEST, true, true},
        {"{\"method\":\"notifications/cancelled\",\"params\":{" CLAIM "}}",
         MCP_NOTIFICATION, true, false},
        /* a claim of any kind makes it one; the service says what is wrong */
        {"{\"id\":1,\"method\":\"x\",\"params\":{\"_meta\":{"
         "\"io.modelcontextprotocol/protocolVersion\":5}}}",
         MCP_REQUEST, true, true},
        {"{\"id\":1,\"method\":\"x\",\"params\":{\"_meta\":{\"a\":1}}}",
         MCP_REQUEST, false, true},
        {"{\"id\":1,\"method\":\"x\",\"params\":[1]}", MCP_REQUEST, false,
         true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct mcp_message m cleanup(cli_mcp_message_done) =
            read_message(rows[i].text);

        assert_int_equal(m.kind, rows[i].kind);
        assert_int_equal(m.modern, rows[i].modern);
        assert_int_equal(m.id != NULL, rows[i].id);
        assert_non_null(m.method);
    }
}

static void message_read_refuses_what_is_not_json(void **state)
{
    static const char *const rows[] = {"",     "{",     "{\"a\":}",
                                       "nope", "{} {}", "\"\xff\""};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct mcp_message m;

        assert_false(cli_mcp_message_read(rows[i], strlen(rows[i]), &m));
        cli_mcp_message_done(&m);
    }
}

/* What JSON allows and our reader alone would not. */
static void message_read_takes_odd_values(void **state)
{
    static const char *const rows[] = {
        "{\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"\\u0000\"}}",
        "{\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"\\ud800\"}}",
        "{\"id\":1,\"method\":\"x\",\"params\":{\"a\":1e999}}",
        "{\"id\":1,\"method\":\"x\",\"params\":{\"a\":"
        "123456789012345678901234567890}}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct mcp_message m cleanup(cli_mcp_message_done) =
            read_message(rows[i]);

        assert_int_equal(m.kind, MCP_REQUEST);
        assert_int_equal(json_integer_value(m.id), 1);
    }
}

static void expect_headers(const char *text, const char *want)
{
    struct mcp_message m cleanup(cli_mcp_message_done) = read_message(text);
    struct curl_slist *list = cli_mcp_message_headers(&m, NULL);
    struct buf seen cleanup(buf_done) = {0};

    for (struct curl_slist *at = list; at; at = at->next)
        buf_addf(&seen, "%s\n", at->data);
    curl_slist_free_all(list);
    assert_string_equal(seen.data ? seen.data : "", want);
}

#define SAYS(method)                                                          \
    "MCP-Protocol-Version: 2026-07-28\nMcp-Method: " method "\n"

static void message_headers_repeat_the_body(void **state)
{
    (void)state;
    expect_headers(MODERN("tools/list", ""), SAYS("tools/list"));
    expect_headers(MODERN("tools/call", "\"name\":\"run\","),
                   SAYS("tools/call") "Mcp-Name: run\n");
    expect_headers(MODERN("prompts/get", "\"name\":\"p\","),
                   SAYS("prompts/get") "Mcp-Name: p\n");
    expect_headers(MODERN("resources/read", "\"uri\":\"a://b/c d\","),
                   SAYS("resources/read") "Mcp-Name: a://b/c d\n");
    expect_headers(MODERN("tasks/get", "\"taskId\":\"t1\",\"name\":\"n\","),
                   SAYS("tasks/get") "Mcp-Name: t1\n");
    expect_headers(MODERN("tasks/cancel", "\"taskId\":\"t2\","),
                   SAYS("tasks/cancel") "Mcp-Name: t2\n");
    /* none to repeat, or not of that kind */
    expect_headers(MODERN("tools/call", ""), SAYS("tools/call"));
    expect_headers(MODERN("tools/call", "\"name\":7,"), SAYS("tools/call"));
    /* the legacy era has none of them */
    expect_headers("{\"id\":1,\"method\":\"tools/call\",\"params\":{"
                   "\"name\":\"run\"}}",
                   "");
}

static void message_headers_wrap_what_is_not_plain(void **state)
{
    static const struct {
        const char *name, *want;
    } rows[] = {
        {"gr\xc3\xb6\xc3\x9f"
         "e",
         "=?base64?Z3LDtsOfZQ==?="},
        {" a", "=?base64?IGE=?="},
        {"a ", "=?base64?YSA=?="},
        {"a\\tb", "=?base64?YQli?="},
        {"a\\r\\nX: 1", "=?base64?YQ0KWDogMQ==?="},
        {"\\u007f", "=?base64?fw==?="},
        {"=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="},
        {"", "=?base64?"
             "?="},
        /* only one end of the wrapper is text like any other */
        {"YQ==?=", "YQ==?="},
        {"a b", "a b"},
        {"~!", "~!"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char *text cleanup(mem_free) =
            xasprintf(MODERN("tools/call", "\"name\":\"%s\","), rows[i].name);
        char *want cleanup(mem_free) =
            xasprintf(SAYS("tools/call") "Mcp-Name: %s\n", rows[i].want);

        expect_headers(text, want);
    }
}

static void message_cancels_names_the_request(void **state)
{
    struct mcp_message a cleanup(cli_mcp_message_done) =
        read_message("{\"method\":\"notifications/cancelled\",\"params\":{"
                     "\"requestId\":\"r\"}}");
    struct mcp_message b cleanup(cli_mcp_message_done) =
        read_message("{\"method\":\"notifications/cancelled\"}");
    struct mcp_message c cleanup(cli_mcp_message_done) =
        read_message("{\"method\":\"x\",\"params\":{\"requestId\":\"r\"}}");

    (void)state;
    assert_string_equal(json_string_value(cli_mcp_message_cancels(&a)), "r");
    assert_null(cli_mcp_message_cancels(&b));
    assert_null(cli_mcp_message_cancels(&c));
}

static void message_repeatable_is_what_changes_nothing(void **state)
{
    static const struct {
        const char *text;
        bool want;
    } rows[] = {
        {MODERN("server/discover", ""), true},
        {"{\"id\":1,\"method\":\"initialize\"}", true},
        {MODERN("tools/list", ""), true},
        {"{\"method\":\"notifications/initialized\"}", true},
        {MODERN("tools/call", ""), false},
        {MODERN("tasks/update", ""), false},
        {"[{\"id\":1,\"method\":\"ping\"}]", false},
        {"{\"id\":1,\"result\":{}}", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct mcp_message m cleanup(cli_mcp_message_done) =
            read_message(rows[i].text);

        assert_int_equal(cli_mcp_message_repeatable(&m), rows[i].want);
    }
}

static void message_error_has_the_id_it_is_given(void **state)
{
    json_t *id cleanup(json_unref) = json_string("a\"b");
    char *with cleanup(mem_free) = cli_mcp_message_error(id, -32603, "no");
    char *without cleanup(mem_free) =
        cli_mcp_message_error(NULL, -32700, "no");

    (void)state;
    assert_string_equal(with, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":"
                              "-32603,\"message\":\"no\"},\"id\":\"a\\\"b\"}");
    assert_string_equal(without, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":"
                                 "-32700,\"message\":\"no\"}}");
}

/* ---- answers ------------------------------------------------------------ */

struct bench {
    struct cli cli;
    struct mcp_bridge b;
    struct mcp_exchange x;
};

static void bench_done(struct bench *t)
{
    cli_mcp_message_done(&t->x.m);
    buf_done(&t->x.answer);
    cli_sse_done(&t->x.sse);
    t->b.out_fd = -1;
    cli_mcp_host_done(&t->b);
}

/* A message on its way, as if it had been sent. */
static void bench_init(struct bench *t, const char *text)
{
    static char base[] = "http://127.0.0.1:1";

    *t = (struct bench){.b = {.out_fd = -1}};
    t->cli.base = base;
    t->b.c = &t->cli;
    t->x.b = &t->b;
    t->x.m = read_message(text);
    cli_sse_init(&t->x.sse);
}

static const char *said(const struct bench *t)
{
    return t->b.out.len ? t->b.out.data : "";
}

static void feed_header(struct bench *t, const char *line)
{
    char *copy cleanup(mem_free) = xstrdup(line);

    assert_int_equal(cli_mcp_exchange_header(copy, 1, strlen(copy), &t->x),
                     strlen(line));
}

static void feed_body(struct bench *t, const char *text)
{
    char *copy cleanup(mem_free) = xstrdup(text);

    assert_int_equal(cli_mcp_exchange_body(copy, 1, strlen(copy), &t->x),
                     strlen(text));
}

static void answer_is_one_line(void **state)
{
    struct bench t cleanup(bench_done);

    (void)state;
    bench_init(&t, "{\"id\":1,\"method\":\"x\"}");
    feed_header(&t, "Content-Type: application/json\r\n");
    feed_body(&t, "{\"id\":1,\n");
    feed_body(&t, "\"result\":{}}\r\n");
    cli_mcp_exchange_complete(&t.x);
    assert_string_equal(said(&t), "{\"id\":1, \"result\":{}}  \n");
    assert_true(t.x.answered);
}

static void answer_of_events_comes_as_they_come(void **state)
{
    struct bench t cleanup(bench_done);

    (void)state;
    bench_init(&t, "{\"id\":1,\"method\":\"x\"}");
    feed_header(&t, "content-type: text/event-stream; charset=utf-8\r\n");
    feed_body(&t, "id: 7\ndata:\n\ndata: {\"method\":\"n\",\"id\":1}\n\nda");
    assert_string_equal(said(&t), "{\"method\":\"n\",\"id\":1}\n");
    assert_false(t.x.answered);
    feed_body(&t, "ta: {\"id\":2,\"result\":1}\n\ndata: nonsense\n\n");
    assert_false(t.x.answered);
    feed_body(&t, "data: {\"id\":1,\"result\":1}\n\n");
    assert_true(t.x.answered);
    assert_string_equal(t.x.sse.id.data, "7");
}

static void answer_is_silent_when_cancelled_or_ours(void **state)
{
    struct bench t cleanup(bench_done);

    (void)state;
    bench_init(&t, "{\"id\":1,\"method\":\"x\"}");
    t.x.muted = true;
    feed_body(&t, "{\"id\":1,\"result\":{}}");
    cli_mcp_exchange_complete(&t.x);
    cli_mcp_exchange_fail(&t.x, "no");
    t.x.muted = false;
    t.x.answered = false;
    t.x.ours = true;
    cli_mcp_exchange_complete(&t.x);
    t.x.answered = false;
    cli_mcp_exchange_fail(&t.x, "no");
    assert_string_equal(said(&t), "");
}

static void answer_fail_says_it_once(void **state)
{
    struct bench t cleanup(bench_done);

    (void)state;
    bench_init(&t, "{\"id\":\"q\",\"method\":\"x\"}");
    cli_mcp_exchange_fail(&t.x, "one");
    cli_mcp_exchange_fail(&t.x, "two");
    assert_string_equal(said(&t),
                        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,"
                        "\"message\":\"one\"},\"id\":\"q\"}\n");
}

static void answer_refused_keeps_the_service_s_words(void **state)
{
    struct bench t cleanup(bench_done), u cleanup(bench_done);

    (void)state;
    bench_init(&t, "{\"id\":3,\"method\":\"x\"}");
    feed_body(&t, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32020,"
                  "\"message\":\"m\",\"data\":{\"a\":1}}}");
    cli_mcp_exchange_refused(&t.x, 400);
    assert_string_equal(said(&t), "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":"
                                  "-32020,\"message\":\"m\",\"data\":{\"a\":"
                                  "1}},\"id\":3}\n");
    bench_init(&u, "{\"id\":3,\"method\":\"x\"}");
    feed_body(&u, "{\"error\":{\"code\":\"busy\",\"message\":\"full\","
                  "\"hint\":\"Wait.\"}}");
    cli_mcp_exchange_refused(&u.x, 429);
    assert_string_equal(said(&u), "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":"
                                  "-32603,\"message\":\"full; Wait.\"},"
                                  "\"id\":3}\n");
}

static void answer_fail_of_a_batch_answers_each(void **state)
{
    struct bench t cleanup(bench_done);

    (void)state;
    bench_init(&t, "[{\"id\":1,\"method\":\"a\"},{\"method\":\"b\"},"
                   "{\"id\":2,\"result\":{}},{\"id\":null,\"method\":\"c\"},"
                   "{\"id\":\"3\",\"method\":\"d\"},7]");
    cli_mcp_exchange_fail(&t.x, "no");
    assert_string_equal(
        said(&t), "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,"
                  "\"message\":\"no\"},\"id\":1}\n{\"jsonrpc\":\"2.0\","
                  "\"error\":{\"code\":-32603,\"message\":\"no\"},\"id\":"
                  "\"3\"}\n");
}

static void answer_of_a_handshake_begins_the_session(void **state)
{
    struct bench t cleanup(bench_done);

    (void)state;
    bench_init(&t, "{\"id\":1,\"method\":\"initialize\"}");
    feed_header(&t, "Mcp-Session-Id: other\r\n"); /* not of a handshake */
    assert_string_equal(t.b.session.id, "");
    t.x.role = MCP_HANDSHAKE;
    feed_header(&t, "MCP-SESSION-ID:  s-1 \r\n");
    feed_body(&t, "{\"id\":1,\"result\":{\"protocolVersion\":"
                  "\"2025-06-18\"}}");
    cli_mcp_exchange_complete(&t.x);
    assert_string_equal(t.b.session.id, "s-1");
    assert_string_equal(t.b.session.version, "2025-06-18");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_read_kinds),
        cmocka_unit_test(message_read_refuses_what_is_not_json),
        cmocka_unit_test(message_read_takes_odd_values),
        cmocka_unit_test(message_headers_repeat_the_body),
        cmocka_unit_test(message_headers_wrap_what_is_not_plain),
        cmocka_unit_test(message_cancels_names_the_request),
        cmocka_unit_test(message_repeatable_is_what_changes_nothing),
        cmocka_unit_test(message_error_has_the_id_it_is_given),
        cmocka_unit_test(answer_is_one_line),
        cmocka_unit_test(answer_of_events_comes_as_they_come),
        cmocka_unit_test(answer_is_silent_when_cancelled_or_ours),
        cmocka_unit_test(answer_fail_says_it_once),
        cmocka_unit_test(answer_refused_keeps_the_service_s_words),
        cmocka_unit_test(answer_fail_of_a_batch_answers_each),
        cmocka_unit_test(answer_of_a_handshake_begins_the_session),
    };

    return cmocka_run_group_tests_name("cli_mcp", tests, NULL, NULL);
}
