/* SPDX-License-Identifier: Apache-2.0 */
/* Chat Completions: requests to those of the Responses API, events to
 * completions and chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "doors/openai/completion.h"

/* ---- requests ----------------------------------------------------------- */

/* The translated request as compact JSON with sorted keys; or the refusal:
 * "code param". */
static char *translate(const char *body, bool code_tool)
{
    struct openai_completion c;
    struct openai_fault fault = {0};
    struct error err = {0};
    json_t *json = json_loads(body, 0, NULL);
    char *text;

    assert_non_null(json);
    if (openai_completion_request(json, code_tool, &c, &fault, &err) < 0) {
        assert_true(err.message[0] != '\0');
        text = xasprintf("%s %s", fault.code ? fault.code : "-", fault.param);
    } else
        text = json_dumps(c.request, JSON_COMPACT | JSON_SORT_KEYS);
    openai_completion_done(&c);
    json_decref(json);
    return text;
}

static void expect(const char *body, const char *wanted)
{
    char *got = translate(body, false);

    assert_string_equal(got, wanted);
    free(got);
}

#define TEXT ",\"text\":{\"format\":{\"type\":\"text\"}},\"tools\":[]}"

static void request_messages(void **state)
{
    (void)state;
    expect("{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
           "{\"role\":\"user\",\"name\":\"n\",\"content\":[{\"type\":\"text\","
           "\"text\":\"u\"},{\"type\":\"image_url\",\"image_url\":{\"url\":"
           "\"data:x\",\"detail\":\"low\"}},{\"type\":\"file\",\"file\":"
           "{\"file_id\":\"file-1\"}}]}]}",
           "{\"input\":[{\"content\":[{\"text\":\"s\",\"type\":\"input_text\"}"
           "],\"role\":\"system\",\"type\":\"message\"},{\"content\":[{"
           "\"text\":\"u\",\"type\":\"input_text\"},{\"detail\":\"low\","
           "\"image_url\":\"data:x\",\"type\":\"input_image\"},{\"file_id\":"
           "\"file-1\",\"type\":\"input_file\"}],\"role\":\"user\",\"type\":"
           "\"message\"}]" TEXT);
}

static void request_calls_and_outputs(void **state)
{
    (void)state;
    expect("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":"
           "\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\","
           "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
           "\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\","
           "\"content\":\"42\"}]}",
           "{\"input\":[{\"content\":[{\"text\":\"q\",\"type\":\"input_text\"}"
           "],\"role\":\"user\",\"type\":\"message\"},{\"arguments\":\"{}\","
           "\"call_id\":\"c1\",\"name\":\"f\",\"type\":\"function_call\"},{"
           "\"call_id\":\"c1\",\"output\":\"42\",\"type\":"
           "\"function_call_output\"}]" TEXT);
    /* A call without its output, an output without its call. */
    expect("{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":"
           "\"c1\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]},"
           "{\"role\":\"user\",\"content\":\"x\"}]}",
           "- messages");
    expect("{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":"
           "\"c1\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}]}",
           "- messages");
    expect("{\"messages\":[{\"role\":\"tool\",\"tool_call_id\":\"c9\","
           "\"content\":\"x\"}]}",
           "invalid_value messages[0].tool_call_id");
}

static void request_tools_and_format(void **state)
{
    char *got = translate(
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],\"tools\":[{"
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true}}"
        ",{\"type\":\"code_interpreter\",\"container\":\"cntr_1\"}],"
        "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"
        ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
        "\"name\":\"n\",\"schema\":{\"type\":\"object\"}}},"
        "\"max_tokens\":5,\"max_completion_tokens\":7,\"temperature\":0.5,"
        "\"reasoning_effort\":\"low\",\"verbosity\":\"high\"}",
        true);

    (void)state;
    assert_string_equal(
        got,
        "{\"input\":[{\"content\":[{\"text\":\"q\",\"type\":\"input_text\"}],"
        "\"role\":\"user\",\"type\":\"message\"}],\"max_output_tokens\":7,"
        "\"reasoning\":{\"effort\":\"low\"},\"temperature\":0.5,\"text\":{"
        "\"format\":{\"name\":\"n\",\"schema\":{\"type\":\"object\"},"
        "\"type\":\"json_schema\"},\"verbosity\":\"high\"},\"tool_choice\":{"
        "\"name\":\"f\",\"type\":\"function\"},\"tools\":[{\"name\":\"f\","
        "\"strict\":true,\"type\":\"function\"},{\"container\":\"cntr_1\","
        "\"type\":\"code_interpreter\"}]}");
    free(got);
    /* The code tool although nobody asked. */
    got = translate("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}",
                    true);
    assert_non_null(strstr(got, "\"tools\":[{\"container\":{\"type\":\"auto\"}"
                                ",\"type\":\"code_interpreter\"}]"));
    free(got);
}

#define ASK(more) "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]" more
static void request_refusals(void **state)
{
    static const struct {
        const char *body, *wanted;
    } rows[] = {
        {"{}", "missing_required_parameter messages"},
        {"{\"messages\":[]}", "empty_array messages"},
        {"{\"messages\":[{}]}", "missing_required_parameter messages[0].role"},
        {"{\"messages\":[{\"role\":\"user\"}]}",
         "missing_required_parameter messages[0].content"},
        {"{\"messages\":[{\"role\":\"x\",\"content\":\"\"}]}",
         "invalid_value messages[0].role"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"input_audio\"}]}]}",
         "invalid_value messages[0].content[0].type"},
        {ASK(",\"n\":2}"), "unsupported_value n"},
        {ASK(",\"n\":0}"), "invalid_value n"},
        {ASK(",\"logprobs\":true}"), "unsupported_parameter logprobs"},
        {ASK(",\"top_logprobs\":1}"), "unsupported_parameter top_logprobs"},
        {ASK(",\"functions\":[]}"), "unsupported_parameter functions"},
        {ASK(",\"audio\":{}}"), "unsupported_parameter audio"},
        {ASK(",\"modalities\":[\"audio\"]}"), "unsupported_value modalities"},
        {ASK(",\"frequency_penalty\":1}"),
         "unsupported_parameter frequency_penalty"},
        {ASK(",\"presence_penalty\":3}"),
         "decimal_above_max_value presence_penalty"},
        {ASK(",\"logit_bias\":{\"1\":1}}"),
         "unsupported_parameter logit_bias"},
        {ASK(",\"temperature\":2.1}"), "decimal_above_max_value temperature"},
        {ASK(",\"temperature\":\"1\"}"), "invalid_type temperature"},
        {ASK(",\"max_tokens\":0}"), "invalid_value max_tokens"},
        {ASK(",\"tool_choice\":\"any\"}"), "invalid_value tool_choice"},
        {ASK(",\"tools\":[{\"type\":\"web_search\"}]}"),
         "invalid_value tools[0].type"},
        {ASK(",\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\"]}"),
         "array_above_max_length stop"},
        {ASK(",\"stop\":\"\"}"), "invalid_value stop"},
        {ASK(",\"stream_options\":{}}"), "invalid_value stream_options"},
        {ASK(",\"nonsense\":1}"), "unknown_parameter nonsense"},
        {ASK(",\"response_format\":{\"type\":\"xml\"}}"),
         "invalid_value response_format.type"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        expect(rows[i].body, rows[i].wanted);
    /* Hints that no answer depends on, and values that mean nothing. */
    expect(ASK(",\"seed\":1,\"n\":1,\"logprobs\":false,\"top_logprobs\":0,"
               "\"presence_penalty\":0,\"logit_bias\":{},\"prediction\":{},"
               "\"modalities\":[\"text\"],\"stop\":null,\"audio\":null,"
               "\"stop\":[]}"),
           "{\"input\":[{\"content\":[{\"text\":\"q\",\"type\":\"input_text\"}"
           "],\"role\":\"user\",\"type\":\"message\"}]" TEXT);
}

/* ---- answers ------------------------------------------------------------ */

struct answer {
    struct openai_completion asked;
    struct openai_answer a;
    struct buf out;
};

static void begin(struct answer *x, bool stream)
{
    openai_answer_init(&x->a, &x->asked, "http://h/v1",
                       stream ? &x->out : NULL);
}

static void end(struct answer *x)
{
    openai_answer_done(&x->a);
    buf_done(&x->out);
}

static void feed(struct answer *x, const char *type, const char *json)
{
    openai_answer_event(&x->a, type, json, strlen(json));
}

static void say(struct answer *x, const char *text)
{
    json_t *event = json_pack("{s:s}", "delta", text);
    char *json = json_dumps(event, 0);

    feed(x, "response.output_text.delta", json);
    free(json);
    json_decref(event);
}

static void cite(struct answer *x, const char *name, int start, int past)
{
    char *json =
        xasprintf("{\"annotation\":{\"type\":\"container_file_citation\","
                  "\"container_id\":\"cntr_1\",\"file_id\":\"cfile_%032d\","
                  "\"filename\":\"%s\",\"start_index\":%d,\"end_index\":%d}}",
                  1, name, start, past);

    feed(x, "response.output_text.annotation.added", json);
    free(json);
}

static void complete(struct answer *x)
{
    feed(x, "response.output_text.done", "{}");
    feed(x, "response.completed",
         "{\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":"
         "3,\"output_tokens\":4,\"input_tokens_details\":{\"cached_tokens\":1}"
         "}}}");
    openai_answer_end(&x->a);
}

/* The text of a stream, joined from its chunks. */
static char *joined(const struct answer *x)
{
    struct buf text = {0};
    const char *p = x->out.data ? x->out.data : "";

    while ((p = strstr(p, "data: {"))) {
        json_t *chunk = json_loads(p + 6, JSON_DISABLE_EOF_CHECK, NULL);
        json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
        const char *piece = json_string_value(
            json_object_get(json_object_get(choice, "delta"), "content"));

        buf_adds(&text, piece ? piece : "");
        json_decref(chunk);
        p += 6;
    }
    buf_adds(&text, "");
    return buf_take(&text, NULL);
}

static void answer_stops_at_a_sequence_across_pieces(void **state)
{
    static const char *const pieces[] = {"one E", "N", "D two"};

    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        struct answer x = {.asked = {.stops = {"zz", "END"}, .stop_count = 2}};
        char *text;

        begin(&x, stream);
        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++)
            say(&x, pieces[i]);
        assert_true(x.a.stopped);
        say(&x, "never seen");
        openai_answer_end(&x.a);
        assert_string_equal(x.a.content.data, "one ");
        assert_string_equal(x.a.finish, "stop");
        text = joined(&x);
        assert_string_equal(text, stream ? "one " : "");
        free(text);
        end(&x);
    }
}

static void answer_keeps_what_only_looks_like_a_stop(void **state)
{
    struct answer x = {.asked = {.stops = {"END"}, .stop_count = 1}};

    (void)state;
    begin(&x, true);
    say(&x, "a EN");
    say(&x, "E sandbo");
    say(&x, "y EN");
    complete(&x);
    assert_string_equal(x.a.content.data, "a ENE sandboy EN");
    end(&x);
}

static void answer_links_files(void **state)
{
    struct answer x = {.asked = {.include_usage = true}};
    char *text, library[ID_MAX], file[ID_MAX], *wanted;

    (void)state;
    begin(&x, true);
    feed(&x, "response.created", "{\"response\":{\"model\":\"m\"}}");
    say(&x, "\xc3\xa4 [get it](sand");
    say(&x, "box:/mnt/data/a.csv) and more");
    cite(&x, "a.csv", 11, 34);
    cite(&x, "chart.png", 0, 0);
    complete(&x);
    assert_true(doors_file_id("cfile_00000000000000000000000000000001", file));
    (void)doors_file_library(file, library);
    wanted = xasprintf("\xc3\xa4 [get it](http://h/v1/files/%s/content) and "
                       "more\n\n[chart.png](http://h/v1/files/%s/content)",
                       library, library);
    text = joined(&x);
    assert_string_equal(text, wanted);
    assert_string_equal(x.a.content.data, wanted);
    /* The places are those of the text that was sent. */
    assert_int_equal(json_array_size(x.a.annotations), 2);
    for (size_t i = 0; i < 2; i++) {
        json_t *c = json_object_get(json_array_get(x.a.annotations, i),
                                    "url_citation");
        size_t at =
            (size_t)json_integer_value(json_object_get(c, "start_index"));
        size_t past =
            (size_t)json_integer_value(json_object_get(c, "end_index"));
        const char *url = json_string_value(json_object_get(c, "url"));

        /* One character of two bytes comes before both. */
        assert_memory_equal(wanted + at + 1, url, strlen(url));
        assert_int_equal(past - at, strlen(url));
    }
    assert_non_null(strstr(x.out.data, "\"prompt_tokens\":3"));
    assert_non_null(strstr(x.out.data, "\"cached_tokens\":1"));
    assert_string_equal(x.out.data + x.out.len - 14, "data: [DONE]\n\n");
    free(text);
    free(wanted);
    end(&x);
}

static void answer_that_is_json_gets_no_links(void **state)
{
    struct answer x = {.asked = {.json = true}};

    (void)state;
    begin(&x, false);
    say(&x, "{}");
    cite(&x, "a.csv", 0, 0);
    complete(&x);
    assert_string_equal(x.a.content.data, "{}");
    assert_int_equal(json_array_size(x.a.annotations), 1);
    end(&x);
}

static void answer_calls_functions(void **state)
{
    struct answer x = {0};
    json_t *object;
    char *json;

    (void)state;
    begin(&x, true);
    for (int i = 0; i < 2; i++) {
        char *item = xasprintf("{\"item\":{\"type\":\"function_call\","
                               "\"call_id\":\"c%d\",\"name\":\"f\","
                               "\"arguments\":\"{}\"}}",
                               i);

        feed(&x, "response.output_item.added", item);
        feed(&x, "response.function_call_arguments.delta",
             "{\"delta\":\"{}\"}");
        feed(&x, "response.output_item.done", item);
        free(item);
    }
    feed(&x, "response.completed",
         "{\"response\":{\"status\":\"completed\"}}");
    openai_answer_end(&x.a);
    assert_non_null(strstr(x.out.data, "\"index\":1,\"id\":\"c1\""));
    assert_non_null(strstr(x.out.data, "\"finish_reason\":\"tool_calls\""));
    object = openai_answer_object(&x.a);
    json = json_dumps(object, JSON_COMPACT);
    assert_non_null(strstr(json, "\"content\":null"));
    assert_non_null(strstr(json, "\"tool_calls\":[{\"id\":\"c0\""));
    free(json);
    json_decref(object);
    end(&x);
}

static void answer_that_failed_ends_with_an_error(void **state)
{
    struct answer x = {0};

    (void)state;
    begin(&x, true);
    say(&x, "half");
    feed(&x, "response.failed",
         "{\"response\":{\"status\":\"failed\",\"error\":{\"code\":"
         "\"server_error\",\"message\":\"the model is gone\"}}}");
    openai_answer_end(&x.a);
    assert_null(x.a.finish);
    assert_non_null(strstr(x.out.data, "data: {\"error\":{\"message\":\"the "
                                       "model is gone\""));
    assert_null(strstr(x.out.data, "[DONE]"));
    end(&x);
}

static void answer_that_was_cut_says_why(void **state)
{
    static const struct {
        const char *reason, *finish;
    } rows[] = {{"max_output_tokens", "length"},
                {"content_filter", "content_filter"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct answer x = {0};
        char *json = xasprintf("{\"response\":{\"status\":\"incomplete\","
                               "\"incomplete_details\":{\"reason\":\"%s\"}}}",
                               rows[i].reason);

        begin(&x, false);
        say(&x, "part");
        feed(&x, "response.incomplete", json);
        openai_answer_end(&x.a);
        assert_string_equal(x.a.finish, rows[i].finish);
        assert_string_equal(x.a.content.data, "part");
        free(json);
        end(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_messages),
        cmocka_unit_test(request_calls_and_outputs),
        cmocka_unit_test(request_tools_and_format),
        cmocka_unit_test(request_refusals),
        cmocka_unit_test(answer_stops_at_a_sequence_across_pieces),
        cmocka_unit_test(answer_keeps_what_only_looks_like_a_stop),
        cmocka_unit_test(answer_links_files),
        cmocka_unit_test(answer_that_is_json_gets_no_links),
        cmocka_unit_test(answer_calls_functions),
        cmocka_unit_test(answer_that_failed_ends_with_an_error),
        cmocka_unit_test(answer_that_was_cut_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
