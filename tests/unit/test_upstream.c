/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream: requests in the dialects of model servers, and their answers as
 * frames, with every deviation that was seen: cut streams, broken JSON, wrong
 * order, CRLF, comments, errors inside a good answer. Each answer is fed whole
 * and byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "upstream/upstream.h"

struct heard {
    struct buf text, reasoning, refusal, arguments, items;
    unsigned calls, item_count, frames;
    char names[256];
    struct model_end end;
    bool ended;
};

static void hear(void *ctx, enum model_frame_type type, unsigned item,
                 const void *data, size_t len)
{
    struct heard *h = ctx;
    size_t n = strlen(h->names);

    (void)item;
    assert_false(h->ended); /* END is the last */
    h->frames++;
    if (type == MODEL_FRAME_TEXT)
        buf_add(&h->text, data, len);
    else if (type == MODEL_FRAME_REASONING)
        buf_add(&h->reasoning, data, len);
    else if (type == MODEL_FRAME_REFUSAL)
        buf_add(&h->refusal, data, len);
    else if (type == MODEL_FRAME_ARGUMENTS)
        buf_add(&h->arguments, data, len);
    else if (type == MODEL_FRAME_ITEM) {
        buf_add(&h->items, data, len);
        buf_adds(&h->items, "\n");
        h->item_count++;
    } else if (type == MODEL_FRAME_CALL) {
        const char *id = data;

        h->calls++;
        (void)snprintf(h->names + n, sizeof(h->names) - n, "%s=%s ", id,
                       id + strlen(id) + 1);
    } else if (type == MODEL_FRAME_END) {
        memcpy(&h->end, data, sizeof(h->end));
        h->ended = true;
    }
}

static void heard_done(struct heard *h)
{
    buf_done(&h->text);
    buf_done(&h->reasoning);
    buf_done(&h->refusal);
    buf_done(&h->arguments);
    buf_done(&h->items);
}

static void feed(enum model_dialect d, long status, const char *headers,
                 const char *bytes, size_t len, size_t step,
                 enum upstream_transport how, struct heard *ret)
{
    struct upstream_answer *a = upstream_answer_new(d, false, true, hear, ret);

    *ret = (struct heard){0};
    buf_adds(&ret->text, "");
    buf_adds(&ret->items, "");
    buf_adds(&ret->arguments, "");
    upstream_answer_status(a, status);
    if (headers)
        upstream_answer_header(a, headers, strlen(headers));
    for (size_t at = 0; at < len; at += step)
        if (!upstream_answer_feed(a, bytes + at, MIN(step, len - at)))
            break;
    upstream_answer_end(a, how, "why");
    assert_true(ret->ended);
    upstream_answer_free(a);
}

/* Whole and byte by byte, with the same result. */
static void answer(enum model_dialect d, const char *bytes, struct heard *ret)
{
    struct heard whole cleanup(heard_done) = {0};

    feed(d, 200, NULL, bytes, strlen(bytes), strlen(bytes), UPSTREAM_COMPLETE,
         &whole);
    feed(d, 200, NULL, bytes, strlen(bytes), 1, UPSTREAM_COMPLETE, ret);
    assert_string_equal(whole.text.data, ret->text.data);
    assert_int_equal(whole.end.outcome, ret->end.outcome);
    assert_int_equal(whole.calls, ret->calls);
}

#define CHUNK(delta, finish)                                                  \
    "data: {\"choices\":[{\"index\":0,\"delta\":{" delta                      \
    "},\"finish_reason\":" finish "}]}\n\n"
#define TEXT(t) CHUNK("\"content\":\"" t "\"", "null")
#define CALL(fields) CHUNK("\"tool_calls\":[{" fields "}]", "null")
#define STOP CHUNK("", "\"stop\"")

/* ---- chat completions --------------------------------------------------- */

static void L4_chat_reads_a_plain_stream(void **state)
{
    struct heard h cleanup(heard_done) = {0};

    (void)state;
    answer(MODEL_DIALECT_CHAT,
           TEXT("Hel") TEXT("lo \\u00e9") STOP
           "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
           "\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_"
           "tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":1}"
           "}}\n\ndata: [DONE]\n\n",
           &h);
    assert_string_equal(h.text.data, "Hello é");
    assert_int_equal(h.end.outcome, MODEL_OK);
    assert_int_equal(h.end.input, 5);
    assert_int_equal(h.end.cached, 4);
    assert_int_equal(h.end.output, 2);
    assert_int_equal(h.end.reasoning, 1);
    assert_int_equal(h.item_count, 1);
}

/* Answers that deviate and are right all the same. */
static void L4_chat_survives_deviations(void **state)
{
    static const struct {
        const char *name, *bytes, *text;
    } rows[] = {
        {"CRLF, comments, no [DONE]",
         ": OPENROUTER PROCESSING\r\n\r\ndata: {\"choices\":[{\"delta\":{"
         "\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\r\n\r\n",
         "Hi"},
        {"CR only",
         "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},"
         "\"finish_reason\":\"stop\"}]}\r\r",
         "Hi"},
        {"no empty line at the end", TEXT("Hi") "data: [DONE]", "Hi"},
        {"null and missing members",
         "data: {\"choices\":null}\n\ndata: {\"choices\":[]}\n\ndata: {}\n\n"
         "data: {\"choices\":[{\"delta\":null}]}\n\n"
         "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":"
         "null,\"tool_calls\":null}}]}\n\n"
         "data: {\"choices\":[{\"delta\":{\"content\":\"\",\"tool_calls\":[]}}"
         "]}\n\n" TEXT("Hi") STOP,
         "Hi"},
        {"Azure's first chunk and filter chunks",
         "data: {\"id\":\"\",\"choices\":[],\"prompt_filter_results\":[]}\n\n"
         "data: {\"choices\":[{\"index\":0,\"content_filter_results\":{}}]}"
         "\n\n" TEXT("Hi") STOP,
         "Hi"},
        {"a byte order mark", "\xef\xbb\xbf" TEXT("Hi") STOP, "Hi"},
        {"no space after the colon",
         "data:{\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_"
         "reason\":\"stop\"}]}\n\n",
         "Hi"},
        {"several data lines",
         "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"Hi\"},\"finish"
         "_reason\":\"stop\"}]}\n\n",
         "Hi"},
        {"a lone surrogate", TEXT("a\\ud83d") TEXT("b") STOP,
         "a\xef\xbf\xbd"
         "b"},
        {"a byte that is not UTF-8", TEXT("a\xff") STOP, "a\xef\xbf\xbd"},
        {"a zero character", TEXT("a\\u0000b") STOP, "ab"},
        {"an answer that is no stream",
         "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":"
         "\"Hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,"
         "\"completion_tokens\":1}}",
         "Hi"},
        {"usage in every chunk",
         "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":{"
         "\"prompt_tokens\":1}}\n\n" STOP,
         "Hi"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct heard h cleanup(heard_done) = {0};

        answer(MODEL_DIALECT_CHAT, rows[i].bytes, &h);
        if (h.end.outcome != MODEL_OK || strcmp(h.text.data, rows[i].text))
            fail_msg("%s: %u %s '%s'", rows[i].name, h.end.outcome,
                     h.end.message, h.text.data);
    }
}

static void L4_chat_assembles_calls(void **state)
{
    static const struct {
        const char *name, *bytes, *names, *arguments;
    } rows[] = {
        {"in fragments",
         CALL("\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\","
              "\"arguments\":\"\"}") CALL("\"index\":0,\"function\":{"
                                          "\"arguments\":\"{\\\"a\\\"\"}")
             CALL("\"index\":0,\"function\":{\"arguments\":\":1}\"}") STOP,
         "c1=f ", "{\"a\":1}"},
        {"index 0 for all parallel calls",
         CALL("\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\","
              "\"arguments\":\"{}\"}")
             CALL("\"index\":0,\"id\":\"c2\",\"function\":{\"name\":\"g\","
                  "\"arguments\":\"{}\"}") STOP,
         "c1=f c2=g ", "{}{}"},
        {"interleaved by index",
         CALL("\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\"}")
             CALL("\"index\":1,\"id\":\"c2\",\"function\":{\"name\":\"g\"}")
                 CALL("\"index\":0,\"function\":{\"arguments\":\"{}\"}") CALL(
                     "\"index\":1,\"function\":{\"arguments\":\"[]\"}") STOP,
         "c1=f c2=g ", "{}[]"},
        {"by id, without index",
         CALL("\"id\":\"c1\",\"function\":{\"name\":\"f\",\"arguments\":\"{"
              "\"}") CALL("\"id\":\"c1\",\"function\":{\"arguments\":\"}\"}")
             STOP,
         "c1=f ", "{}"},
        {"with neither",
         CALL("\"function\":{\"name\":\"f\",\"arguments\":\"{\"}")
             CALL("\"function\":{\"arguments\":\"}\"}") STOP,
         NULL, "{}"},
        {"the name repeated",
         CALL("\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\","
              "\"arguments\":\"{\"}")
             CALL("\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\","
                  "\"arguments\":\"}\"}") STOP,
         "c1=f ", "{}"},
        {"arguments as an object",
         CALL("\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\","
              "\"arguments\":{\"a\":1}}") STOP,
         "c1=f ", "{\"a\":1}"},
        {"arguments before the name",
         CALL("\"index\":0,\"function\":{\"arguments\":\"{}\"}") CALL(
             "\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\"}") STOP,
         "c1=f ", "{}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct heard h cleanup(heard_done) = {0};

        answer(MODEL_DIALECT_CHAT, rows[i].bytes, &h);
        if (h.end.outcome != MODEL_OK ||
            strcmp(h.arguments.data, rows[i].arguments) ||
            (rows[i].names && strcmp(h.names, rows[i].names)))
            fail_msg("%s: %u %s '%s' '%s'", rows[i].name, h.end.outcome,
                     h.end.message, h.names, h.arguments.data);
        if (!rows[i].names) /* an id is made where there is none */
            assert_int_equal(strncmp(h.names, "call_", 5), 0);
    }
}

static void chat_keeps_text_and_calls_apart(void **state)
{
    struct heard h cleanup(heard_done) = {0};

    (void)state;
    answer(MODEL_DIALECT_CHAT,
           CHUNK("\"reasoning_content\":\"Hm\"", "null") TEXT("Let me see")
               CALL("\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\","
                    "\"arguments\":\"{}\"}") TEXT("\\n") STOP,
           &h);
    assert_int_equal(h.item_count, 3);
    assert_string_equal(h.text.data, "Let me see");
    assert_string_equal(
        h.items.data,
        "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\","
        "\"text\":\"Hm\"}]}\n"
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
        "\"output_text\",\"text\":\"Let me see\",\"annotations\":[]}],"
        "\"status\":\"completed\"}\n"
        "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\","
        "\"arguments\":\"{}\",\"status\":\"completed\"}\n");
}

static void L4_chat_fails_clearly(void **state)
{
    static const struct {
        const char *name, *bytes;
        enum model_outcome outcome;
        bool retry;
    } rows[] = {
        {"cut", TEXT("half"), MODEL_CUT, true},
        {"nothing", "", MODEL_CUT, true},
        {"empty answer", STOP, MODEL_NONSENSE, true},
        {"an error chunk in a good stream",
         "data: {\"error\":{\"message\":\"prompt is too long\",\"type\":"
         "\"BadRequestError\",\"code\":400}}\n\n",
         MODEL_TOO_LARGE, false},
        {"an error chunk of overload",
         "data: {\"error\":{\"message\":\"x\",\"type\":\"overloaded_error\"}}"
         "\n\n",
         MODEL_OVERLOADED, true},
        {"the field error",
         "error: {\"code\":500,\"message\":\"x\",\"type\":\"server_error\"}"
         "\n\n",
         MODEL_OVERLOADED, true},
        {"no JSON", "data: {broken\n\n", MODEL_NONSENSE, true},
        {"a page", "<html>It works</html>\n\n", MODEL_CUT, true},
        {"a call without a name",
         CALL("\"index\":0,\"id\":\"c1\",\"function\":{\"arguments\":\"{}\"}")
             STOP,
         MODEL_NONSENSE, true},
        {"flat errors", "data: {\"object\":\"error\",\"message\":\"x\"}\n\n",
         MODEL_OVERLOADED, true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct heard h cleanup(heard_done) = {0};

        answer(MODEL_DIALECT_CHAT, rows[i].bytes, &h);
        if (h.end.outcome != rows[i].outcome ||
            (h.end.retry == MODEL_RETRY_YES) != rows[i].retry)
            fail_msg("%s: %u %u %s", rows[i].name, h.end.outcome, h.end.retry,
                     h.end.message);
    }
}

static void L4_a_call_that_a_limit_cut_is_marked(void **state)
{
    struct heard h cleanup(heard_done) = {0};

    (void)state;
    answer(MODEL_DIALECT_CHAT,
           CALL("\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\","
                "\"arguments\":\"{\\\"a\\\":\"}") CHUNK("", "\"length\""),
           &h);
    assert_int_equal(h.end.finish, 1);
    assert_non_null(strstr(h.items.data, "\"status\":\"incomplete\""));
}

static void L4_too_much_ends_the_answer(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    struct heard h cleanup(heard_done) = {0}, l cleanup(heard_done) = {0},
                   m cleanup(heard_done) = {0};

    (void)state;
    while (b.len < (MODEL_ANSWER_MAX + (1u << 20)) * 2)
        buf_adds(&b, TEXT("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
    feed(MODEL_DIALECT_CHAT, 200, NULL, b.data, b.len, 65536,
         UPSTREAM_COMPLETE, &h);
    assert_int_equal(h.end.outcome, MODEL_NONSENSE);
    assert_true(h.text.len <= MODEL_ANSWER_MAX);
    buf_reset(&b);
    buf_adds(&b, "data: ");
    while (b.len < 9u << 20)
        buf_adds(&b, "                                                      ");
    feed(MODEL_DIALECT_CHAT, 200, NULL, b.data, b.len, 65536,
         UPSTREAM_COMPLETE, &l);
    assert_int_equal(l.end.outcome, MODEL_NONSENSE);
    buf_reset(&b);
    for (unsigned i = 0; i <= MODEL_ITEMS_MAX; i++)
        buf_addf(&b,
                 CALL("\"index\":%u,\"id\":\"c%u\",\"function\":{\"name\":"
                      "\"f\",\"arguments\":\"{}\"}"),
                 i, i);
    feed(MODEL_DIALECT_CHAT, 200, NULL, b.data, b.len, b.len,
         UPSTREAM_COMPLETE, &m);
    assert_int_equal(m.end.outcome, MODEL_NONSENSE);
    assert_int_equal(m.calls, MODEL_ITEMS_MAX);
}

/* ---- statuses ----------------------------------------------------------- */

static void L4_statuses_mean_what_they_mean(void **state)
{
    static const struct {
        long status;
        const char *header, *body;
        enum model_outcome outcome;
        bool retry;
        uint32_t wait_ms;
    } rows[] = {
        {500, NULL, "<html>", MODEL_OVERLOADED, true, 0},
        {529, NULL, "{\"error\":{\"type\":\"overloaded_error\"}}",
         MODEL_OVERLOADED, true, 0},
        {429, "Retry-After: 7\r\n", "{\"error\":\"slow\"}", MODEL_RATE, true,
         7000},
        {429, "retry-after-ms: 1500\r\n", "", MODEL_RATE, true, 1500},
        {429, NULL, "{\"error\":{\"code\":\"insufficient_quota\"}}",
         MODEL_MONEY, false, 0},
        {429, NULL,
         "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\","
         "\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}}}",
         MODEL_MONEY, false, 0},
        {402, NULL, "", MODEL_MONEY, false, 0},
        {401, NULL, "", MODEL_KEY, false, 0},
        {403, NULL, "", MODEL_KEY, false, 0},
        {400, NULL, "{\"error\":{\"code\":\"context_length_exceeded\"}}",
         MODEL_TOO_LARGE, false, 0},
        {400, NULL,
         "{\"error\":{\"code\":400,\"type\":\"exceed_context_size_error\"}}",
         MODEL_TOO_LARGE, false, 0},
        {500, NULL,
         "{\"error\":{\"message\":\"Context size has been "
         "exceeded.\"}}",
         MODEL_TOO_LARGE, false, 0},
        {413, NULL, "", MODEL_TOO_LARGE, false, 0},
        {404, NULL, "{\"detail\":\"no model\"}", MODEL_REFUSED, false, 0},
        {500, "x-should-retry: false\r\n", "", MODEL_OVERLOADED, false, 0},
        {400, "x-should-retry: true\r\n", "", MODEL_REFUSED, true, 0},
        {302, NULL, "", MODEL_REFUSED, false, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct heard h cleanup(heard_done) = {0};

        feed(MODEL_DIALECT_CHAT, rows[i].status, rows[i].header, rows[i].body,
             strlen(rows[i].body), 1, UPSTREAM_COMPLETE, &h);
        if (h.end.outcome != rows[i].outcome ||
            (h.end.retry == MODEL_RETRY_YES) != rows[i].retry ||
            h.end.retry_after_ms != rows[i].wait_ms)
            fail_msg("%zu (%ld): %u %u %u", i, rows[i].status, h.end.outcome,
                     h.end.retry, h.end.retry_after_ms);
    }
}

/* ---- responses ---------------------------------------------------------- */

static void L4_responses_reads_streams(void **state)
{
    struct heard h cleanup(heard_done) = {0}, i cleanup(heard_done) = {0},
                   f cleanup(heard_done) = {0};

    (void)state;
    answer(MODEL_DIALECT_RESPONSES,
           "event: response.output_item.done\ndata: {\"type\":\"response."
           "output_item.done\",\"output_index\":0,\"item\":{\"type\":"
           "\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"encrypted_content\""
           ":\"abc\"}}\n\n"
           "data: {\"type\":\"response.output_text.delta\",\"output_index\":1,"
           "\"delta\":\"Hel\"}\n\n"
           "data: {\"type\":\"response.output_item.done\",\"output_index\":1,"
           "\"item\":{\"type\":\"message\",\"id\":\"msg_1\",\"content\":[{"
           "\"type\":\"output_text\",\"text\":\"Hello\"}]}}\n\n"
           "data: {\"type\":\"response.output_item.done\",\"output_index\":2,"
           "\"item\":{\"type\":\"function_call\",\"id\":\"fc_1\",\"name\":"
           "\"f\",\"arguments\":\"{}\"}}\n\n"
           "data: {\"type\":\"response.completed\",\"response\":{\"status\":"
           "\"completed\",\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}"
           "\n\ndata: [DONE]\n\n",
           &h);
    assert_int_equal(h.end.outcome, MODEL_OK);
    assert_string_equal(h.text.data, "Hello");
    assert_string_equal(h.names, "fc_1=f ");
    assert_int_equal(h.item_count, 3);
    assert_non_null(strstr(h.items.data, "openai:abc"));
    assert_null(strstr(h.items.data, "msg_1")); /* its ids are not ours */
    assert_int_equal(h.end.input, 3);
    /* Nothing but the last event, and it says why it ended. */
    answer(MODEL_DIALECT_RESPONSES,
           "data: {\"type\":\"response.incomplete\",\"response\":{\"status\":"
           "\"incomplete\",\"incomplete_details\":{\"reason\":\"max_output_"
           "tokens\"},\"output\":[{\"type\":\"message\",\"content\":[{"
           "\"type\":\"output_text\",\"text\":\"Hi\"}]}]}}\n\n",
           &i);
    assert_string_equal(i.text.data, "Hi");
    assert_int_equal(i.end.finish, 1);
    answer(MODEL_DIALECT_RESPONSES,
           "data: {\"type\":\"response.failed\",\"response\":{\"error\":{"
           "\"code\":\"rate_limit_exceeded\",\"message\":\"m\"}}}\n\n",
           &f);
    assert_int_equal(f.end.outcome, MODEL_RATE);
}

/* ---- anthropic ---------------------------------------------------------- */

#define EVENT(type, rest)                                                     \
    "event: " type "\ndata: {\"type\":\"" type "\"" rest "}\n\n"

static void L4_anthropic_reads_streams(void **state)
{
    struct heard h cleanup(heard_done) = {0}, e cleanup(heard_done) = {0},
                   c cleanup(heard_done) = {0};

    (void)state;
    answer(MODEL_DIALECT_ANTHROPIC,
           EVENT("message_start",
                 ",\"message\":{\"usage\":{\"input_tokens\":5,\"cache_read_"
                 "input_tokens\":3,\"cache_creation_input_tokens\":2,\"output_"
                 "tokens\":1}}") EVENT("ping", "")
               EVENT("content_block_start",
                     ",\"index\":0,\"content_block\":{\"type\":\"thinking\","
                     "\"thinking\":\"\",\"signature\":\"\"}")
                   EVENT("content_block_delta",
                         ",\"index\":0,\"delta\":{\"type\":\"thinking_delta\","
                         "\"thinking\":\"Hm\"}")
                       EVENT("content_block_delta",
                             ",\"index\":0,\"delta\":{\"type\":\"signature_"
                             "delta\",\"signature\":\"sig\"}")
                           EVENT("content_block_stop", ",\"index\":0") EVENT(
                               "content_block_start",
                               ",\"index\":1,\"content_block\":{\"type\":"
                               "\"text\",\"text\":\"\"}")
                               EVENT("content_block_delta",
                                     ",\"index\":1,\"delta\":{\"type\":"
                                     "\"text_delta\",\"text\":\"Hi\"}")
                                   EVENT("content_block_stop", ",\"index\":1")
                                       EVENT("content_block_start",
                                             ",\"index\":2,\"content_"
                                             "block\":{\"type\":\"tool_use\""
                                             ",\"id\":\"toolu_1\",\"name\":"
                                             "\"f\",\"input\":{}}")
                                           EVENT("content_block_stop",
                                                 ",\"index\":2")
                                               EVENT("new_event", "") EVENT(
                                                   "message_delta",
                                                   ",\"delta\":{\"stop_"
                                                   "reason\":\"tool_"
                                                   "use\"},\"usage\":{"
                                                   "\"output_tokens\":9}")
                                                   EVENT("message_stop", ""),
           &h);
    assert_int_equal(h.end.outcome, MODEL_OK);
    assert_string_equal(h.text.data, "Hi");
    assert_string_equal(h.names, "toolu_1=f ");
    assert_int_equal(h.item_count, 3);
    assert_int_equal(h.end.input, 10);
    assert_int_equal(h.end.cached, 3);
    assert_int_equal(h.end.cache_write, 2);
    assert_int_equal(h.end.output, 9);
    assert_non_null(strstr(h.items.data, "anthropic:{"));
    assert_non_null(strstr(h.items.data, "\"arguments\":\"{}\""));
    answer(MODEL_DIALECT_ANTHROPIC,
           EVENT("error", ",\"error\":{\"type\":\"overloaded_error\","
                          "\"message\":\"Overloaded\"}"),
           &e);
    assert_int_equal(e.end.outcome, MODEL_OVERLOADED);
    assert_int_equal(e.end.retry, MODEL_RETRY_YES);
    answer(MODEL_DIALECT_ANTHROPIC,
           EVENT("content_block_start",
                 ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":"
                 "\"Hi\"}"),
           &c);
    assert_int_equal(c.end.outcome, MODEL_CUT);
}

/* ---- requests ----------------------------------------------------------- */

static void request(enum model_dialect d, const char *url, const char *prompt,
                    struct buf *ret_url, json_t **ret)
{
    struct model_call_msg call = {.dialect = d};
    struct buf body cleanup(buf_done) = {0};
    json_t *p = json_loads(prompt, 0, NULL);
    const char *why = "";

    assert_non_null(p);
    (void)snprintf(call.url, sizeof(call.url), "%s", url);
    (void)snprintf(call.model, sizeof(call.model), "m");
    assert_true(upstream_request(&call, p, ret_url, &body, &why));
    *ret = json_loads(body.data, 0, NULL);
    assert_non_null(*ret);
    json_decref(p);
}

static char *dump(const json_t *v)
{
    return json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
}

static const char talk[] =
    "{\"instructions\":\"Be brief\",\"input\":["
    "{\"role\":\"user\",\"content\":\"go\"},"
    "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":"
    "\"anthropic:{\\\"type\\\":\\\"thinking\\\",\\\"thinking\\\":\\\"t\\\","
    "\\\"signature\\\":\\\"s\\\"}\"},"
    "{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\","
    "\"arguments\":\"{\\\"x\\\":1}\"},"
    "{\"type\":\"function_call\",\"call_id\":\"b\",\"name\":\"g\","
    "\"arguments\":\"{}\"},"
    "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
    "\"output_text\",\"text\":\"working\"}]},"
    "{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":[{"
    "\"type\":\"input_text\",\"text\":\"done\"},{\"type\":\"input_image\","
    "\"image_url\":\"data:image/png;base64,AA==\"}]}],"
    "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{"
    "\"$schema\":\"x\",\"type\":\"object\"},\"strict\":true}],"
    "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},"
    "\"options\":{\"max_output_tokens\":9,\"temperature\":2,"
    "\"parallel_tool_calls\":false,\"text\":{\"format\":{\"type\":"
    "\"json_schema\",\"name\":\"n\",\"schema\":{\"type\":\"object\"},"
    "\"strict\":true}}}}";

static void requests_keep_all_calls_and_outputs_together(void **state)
{
    struct buf url cleanup(buf_done) = {0};
    json_t *body = NULL;
    char *text;

    (void)state;
    request(MODEL_DIALECT_CHAT, "http://h/v1/", talk, &url, &body);
    assert_string_equal(url.data, "http://h/v1/chat/completions");
    text = dump(json_object_get(body, "messages"));
    assert_string_equal(
        text,
        "[{\"role\":\"system\",\"content\":\"Be brief\"},"
        "{\"role\":\"user\",\"content\":\"go\"},"
        "{\"role\":\"assistant\",\"content\":\"working\",\"tool_calls\":[{"
        "\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\","
        "\"arguments\":\"{\\\"x\\\":1}\"}},{\"id\":\"b\",\"type\":"
        "\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"done\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"(no output "
        "was recorded)\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Images "
        "that the functions returned:\"},{\"type\":\"image_url\",\"image_url\""
        ":{\"url\":\"data:image/png;base64,AA==\"}}]}]");
    free(text);
    text = dump(body);
    assert_non_null(strstr(text, "\"max_tokens\":9"));
    assert_non_null(strstr(text, "\"tool_choice\":{\"type\":\"function\","
                                 "\"function\":{\"name\":\"f\"}}"));
    assert_non_null(strstr(text, "\"response_format\":{\"type\":\"json_"
                                 "schema\",\"json_schema\":{\"name\":\"n\""));
    assert_null(strstr(text, "$schema"));
    free(text);
    json_decref(body);
}

static void requests_to_anthropic_begin_with_results(void **state)
{
    struct buf url cleanup(buf_done) = {0};
    json_t *body = NULL;
    char *text;

    (void)state;
    request(MODEL_DIALECT_ANTHROPIC, "https://h", talk, &url, &body);
    assert_string_equal(url.data, "https://h/v1/messages");
    text = dump(json_object_get(body, "messages"));
    assert_string_equal(
        text,
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"go\"}]"
        "},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
        "\"thinking\":\"t\",\"signature\":\"s\"},{\"type\":\"text\",\"text\":"
        "\"working\"},{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\","
        "\"input\":{\"x\":1}},{\"type\":\"tool_use\",\"id\":\"b\",\"name\":"
        "\"g\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":"
        "\"tool_result\",\"tool_use_id\":\"a\",\"content\":[{\"type\":\"text\""
        ",\"text\":\"done\"},{\"type\":\"image\",\"source\":{\"type\":"
        "\"base64\",\"media_type\":\"image/png\",\"data\":\"AA==\"}}]},{"
        "\"type\":\"tool_result\",\"tool_use_id\":\"b\",\"content\":[{"
        "\"type\":\"text\",\"text\":\"(no output was recorded)\"}]}]}]");
    free(text);
    text = dump(body);
    assert_non_null(strstr(text, "\"max_tokens\":9"));
    assert_non_null(strstr(text, "\"temperature\":1.0"));
    assert_non_null(strstr(text, "\"disable_parallel_tool_use\":true"));
    assert_non_null(strstr(text, "\"system\":\"Be brief\""));
    free(text);
    json_decref(body);
}

static void requests_to_responses_are_stateless(void **state)
{
    struct buf url cleanup(buf_done) = {0};
    json_t *body = NULL;
    char *text;

    (void)state;
    request(MODEL_DIALECT_RESPONSES, "https://h/openai/v1?api-version=x", talk,
            &url, &body);
    assert_string_equal(url.data,
                        "https://h/openai/v1/responses?api-version=x");
    text = dump(body);
    assert_non_null(strstr(text, "\"store\":false"));
    assert_null(strstr(text, "anthropic:")); /* another server's seal */
    assert_non_null(strstr(text, "\"call_id\":\"b\",\"output\":\"(no output "
                                 "was recorded)\""));
    free(text);
    json_decref(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(L4_chat_reads_a_plain_stream),
        cmocka_unit_test(L4_chat_survives_deviations),
        cmocka_unit_test(L4_chat_assembles_calls),
        cmocka_unit_test(chat_keeps_text_and_calls_apart),
        cmocka_unit_test(L4_chat_fails_clearly),
        cmocka_unit_test(L4_a_call_that_a_limit_cut_is_marked),
        cmocka_unit_test(L4_too_much_ends_the_answer),
        cmocka_unit_test(L4_statuses_mean_what_they_mean),
        cmocka_unit_test(L4_responses_reads_streams),
        cmocka_unit_test(L4_anthropic_reads_streams),
        cmocka_unit_test(requests_keep_all_calls_and_outputs_together),
        cmocka_unit_test(requests_to_anthropic_begin_with_results),
        cmocka_unit_test(requests_to_responses_are_stateless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
