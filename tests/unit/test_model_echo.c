/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model: the built-in model. It answers with the user's text, obeys its
 * little language, streams in pieces that join to the answer, and counts
 * words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "json/json.h"

struct talk {
    struct models *models;
    struct model_result result;
    struct error err;
    struct buf text, arguments, reasoning, refusal;
    unsigned calls, pieces;
    unsigned stop_after; /* pieces; 0: never */
    int r;
};

static const struct actor who = {.tenant = "acme", .key = "key_1"};

static const char tools[] =
    "[{\"type\":\"function\",\"name\":\"python\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"code\":{\"type\":\"string\"}},\"required\":"
    "[\"code\"]}},{\"type\":\"function\",\"name\":\"weather\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
    "\"required\":[\"city\"]}}]";

static bool note(void *ctx, const struct model_event *e)
{
    struct talk *t = ctx;
    struct buf *to = e->kind == MODEL_EVENT_TEXT        ? &t->text
                     : e->kind == MODEL_EVENT_REFUSAL   ? &t->refusal
                     : e->kind == MODEL_EVENT_REASONING ? &t->reasoning
                                                        : &t->arguments;

    if (e->kind == MODEL_EVENT_CALL)
        t->calls++;
    if (e->kind == MODEL_EVENT_CALL || e->kind == MODEL_EVENT_ITEM)
        return true;
    buf_add(to, e->text, e->len);
    return ++t->pieces != t->stop_after;
}

static json_t *parsed(const char *text)
{
    json_t *v = text ? json_loads(text, 0, NULL) : NULL;

    if (text)
        assert_non_null(v);
    return v;
}

static void done(struct talk *t)
{
    model_result_clear(&t->result);
    buf_done(&t->text);
    buf_done(&t->arguments);
    buf_done(&t->reasoning);
    buf_done(&t->refusal);
    models_close(t->models);
}

/* One call with these items; tool_choice and options may be NULL. */
static void call(struct talk *t, const char *input, bool with_tools,
                 const char *choice, const char *options)
{
    json_t *in = parsed(input), *have = parsed(with_tools ? tools : NULL);
    json_t *pick = choice ? json_loads(choice, JSON_DECODE_ANY, NULL) : NULL;
    json_t *opt = parsed(options);
    struct model_request rq = {.model = "echo",
                               .input = in,
                               .tools = have,
                               .tool_choice = pick,
                               .options = opt};

    assert_int_equal(
        models_open(&(struct models_parts){0}, &t->models, &t->err), 0);
    t->r = model_call(t->models, &who, &rq, note, t, &t->result, &t->err);
    json_decref(in);
    json_decref(have);
    json_decref(pick);
    json_decref(opt);
}

static void say(struct talk *t, const char *text, bool with_tools)
{
    json_t *in = json_pack("[{s:s, s:s}]", "role", "user", "content", text);
    char *dump cleanup(mem_free) = json_dumps(in, 0);

    json_decref(in);
    call(t, dump, with_tools, NULL, NULL);
}

static const char *item_text(const struct talk *t, size_t at, const char *name)
{
    return json_string_value(
        json_object_get(json_array_get(t->result.output, at), name));
}

static const char *answer(const struct talk *t)
{
    const json_t *content =
        json_object_get(json_array_get(t->result.output,
                                       json_array_size(t->result.output) - 1),
                        "content");

    return json_string_value(
        json_object_get(json_array_get(content, 0), "text"));
}

static void model_echo_answers_with_the_last_user_text(void **state)
{
    struct talk t cleanup(done) = {0};

    (void)state;
    call(&t,
         "[{\"role\":\"user\",\"content\":\"first\"},{\"type\":\"message\","
         "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
         "\"text\":\"first\"}]},{\"type\":\"message\",\"role\":\"user\","
         "\"content\":[{\"type\":\"input_text\",\"text\":\"gr\\u00fc\\u00df "
         "dich  welt\"}]}]",
         false, NULL, NULL);
    assert_int_equal(t.r, 0);
    assert_string_equal(answer(&t), "grüß dich  welt");
    assert_string_equal(t.text.data, "grüß dich  welt");
    assert_int_equal(t.pieces, 3);
    assert_int_equal(t.result.usage.input, 5);
    assert_int_equal(t.result.usage.output, 3);
    assert_int_equal(t.result.finish, MODEL_FINISH_STOP);
}

static void model_echo_runs_code_and_quotes_its_output(void **state)
{
    struct talk t cleanup(done) = {0}, u cleanup(done) = {0};

    (void)state;
    say(&t, "Please:\n```python\nx = 1\nprint(x)\n```\nthanks", true);
    assert_int_equal(t.r, 0);
    assert_int_equal(t.calls, 1);
    assert_string_equal(item_text(&t, 0, "name"), "python");
    assert_string_equal(item_text(&t, 0, "arguments"),
                        "{\"code\":\"x = 1\\nprint(x)\"}");
    assert_string_equal(t.arguments.data, item_text(&t, 0, "arguments"));
    call(&u,
         "[{\"role\":\"user\",\"content\":\"run: print(1)\"},{\"type\":"
         "\"function_call\",\"call_id\":\"c\",\"name\":\"python\","
         "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\""
         ":\"c\",\"output\":\"1\\nfiles: plot.png, /mnt/data/a/b.csv (2 "
         "bytes), v0.5\"}]",
         true, NULL, NULL);
    assert_int_equal(u.r, 0);
    assert_string_equal(answer(&u), "The output was:\n> 1\n> files: plot.png, "
                                    "/mnt/data/a/b.csv (2 bytes), v0.5\n\n"
                                    "[plot.png](sandbox:/mnt/data/plot.png)\n"
                                    "[a/b.csv](sandbox:/mnt/data/a/b.csv)");
}

static void model_echo_calls_functions_one_by_one_or_together(void **state)
{
    struct talk one cleanup(done) = {0}, both cleanup(done) = {0};
    struct talk none cleanup(done) = {0}, forced cleanup(done) = {0};

    (void)state;
    say(&one, "call: weather {\"city\":\"Bonn\"}\nrun: 1", true);
    assert_int_equal(one.calls, 1);
    assert_string_equal(item_text(&one, 0, "arguments"),
                        "{\"city\":\"Bonn\"}");
    say(&both, "parallel\ncall: weather {\"city\":\"Bonn\"}\nrun: 1", true);
    assert_int_equal(both.calls, 2);
    assert_string_not_equal(item_text(&both, 0, "call_id"),
                            item_text(&both, 1, "call_id"));
    call(&none, "[{\"role\":\"user\",\"content\":\"run: 1\"}]", true,
         "\"none\"", NULL);
    assert_int_equal(none.calls, 0);
    assert_string_equal(answer(&none), "run: 1");
    call(&forced, "[{\"role\":\"user\",\"content\":\"hi\"}]", true,
         "{\"type\":\"function\",\"name\":\"weather\"}", NULL);
    assert_string_equal(item_text(&forced, 0, "arguments"),
                        "{\"city\":\"echo\"}");
}

static void model_echo_makes_an_instance_of_a_schema(void **state)
{
    struct talk t cleanup(done) = {0};

    (void)state;
    call(&t, "[{\"role\":\"user\",\"content\":\"hi\"}]", false, NULL,
         "{\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\","
         "\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
         "\"integer\",\"minimum\":3},\"b\":{\"$ref\":\"#/$defs/b\"},\"c\":{"
         "\"anyOf\":[{\"type\":\"null\"}]},\"d\":{\"type\":\"array\",\"items\""
         ":{\"enum\":[\"x\"]},\"minItems\":2},\"e\":{\"type\":[\"string\","
         "\"null\"]}},\"required\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"$defs\":{"
         "\"b\":{\"type\":\"boolean\"}}}}}}");
    assert_int_equal(t.r, 0);
    assert_string_equal(answer(&t), "{\"a\":3,\"b\":false,\"c\":null,\"d\":["
                                    "\"x\",\"x\"],\"e\":\"hi\"}");
}

static void L3_model_echo_stops_at_limits(void **state)
{
    struct talk cut cleanup(done) = {0}, stopped cleanup(done) = {0};
    struct talk exact cleanup(done) = {0};

    (void)state;
    call(&cut, "[{\"role\":\"user\",\"content\":\"long: 11\"}]", false, NULL,
         "{\"max_output_tokens\":10}");
    assert_int_equal(cut.result.finish, MODEL_FINISH_LENGTH);
    assert_int_equal(cut.pieces, 10);
    call(&exact, "[{\"role\":\"user\",\"content\":\"long: 10\"}]", false, NULL,
         "{\"max_output_tokens\":10}");
    assert_int_equal(exact.result.finish, MODEL_FINISH_STOP);
    stopped.stop_after = 2;
    say(&stopped, "one two three four", false);
    assert_int_equal(stopped.r, -ERR_CONFLICT);
    assert_string_equal(stopped.err.message, "cancelled");
}

static void model_echo_fails_as_told(void **state)
{
    static const struct {
        const char *how;
        int r;
        enum model_finish finish;
    } rows[] = {
        {"fail: rate", -ERR_LIMIT, MODEL_FINISH_STOP},
        {"fail: overload", -ERR_UNAVAILABLE, MODEL_FINISH_STOP},
        {"fail: key", -ERR_UNAVAILABLE, MODEL_FINISH_STOP},
        {"fail: cut", -ERR_UNAVAILABLE, MODEL_FINISH_STOP},
        {"fail: context", -ERR_TOO_LARGE, MODEL_FINISH_STOP},
        {"fail: refuse", 0, MODEL_FINISH_STOP},
        {"fail: filter", 0, MODEL_FINISH_FILTER},
        {"fail: nothing", -ERR_INVALID, MODEL_FINISH_STOP},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct talk t cleanup(done) = {0};

        say(&t, rows[i].how, false);
        assert_int_equal(t.r, rows[i].r);
        assert_int_equal(t.result.finish, rows[i].finish);
    }
}

static void model_find_without_a_default_says_how_to_add_one(void **state)
{
    struct talk t cleanup(done) = {0};
    struct model_info info, *list = NULL;
    struct error err;
    size_t n = 0;

    (void)state;
    say(&t, "hi", false);
    assert_int_equal(model_find(t.models, &who, NULL, &info, &err),
                     -ERR_NOT_FOUND);
    assert_non_null(strstr(err.hint, "glovebox model add"));
    assert_int_equal(model_find(t.models, &who, "gpt", &info, &err),
                     -ERR_NOT_FOUND);
    assert_int_equal(model_find(t.models, &who, "echo", &info, &err), 0);
    assert_int_equal(info.kind, MODEL_ECHO);
    model_info_clear(&info);
    assert_int_equal(model_list(t.models, &who, &list, &n, &err), 0);
    assert_int_equal(n, 1);
    model_info_clear(&list[0]);
    free(list);
}

static void model_call_refuses_items_it_cannot_send(void **state)
{
    static const char *const bad[] = {
        "[]", "[{\"type\":\"item_reference\",\"id\":\"x\"}]",
        "[{\"role\":\"user\"}]",
        "[{\"type\":\"function_call\",\"name\":\"x\",\"arguments\":\"{}\"}]",
        "[{\"type\":\"function_call_output\",\"call_id\":\"x\"}]"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct talk t cleanup(done) = {0};

        call(&t, bad[i], false, NULL, NULL);
        assert_int_equal(t.r, -ERR_INVALID);
    }
}

static void model_embed_is_the_same_for_the_same_words(void **state)
{
    static const char *const texts[] = {"red apple", "Apple, red!", "blue"};
    struct talk t cleanup(done) = {0};
    struct error err;
    float *v cleanup(mem_free) = NULL;
    size_t dim = 0;
    double same = 0, other = 0;

    (void)state;
    say(&t, "hi", false);
    assert_int_equal(
        model_embed(t.models, &who, "echo", texts, 3, &v, &dim, &err), 0);
    for (size_t i = 0; i < dim; i++) {
        same += (double)v[i] * v[dim + i];
        other += (double)v[i] * v[2 * dim + i];
    }
    assert_true(same > 0.999 && same < 1.001);
    assert_true(other < 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_echo_answers_with_the_last_user_text),
        cmocka_unit_test(model_echo_runs_code_and_quotes_its_output),
        cmocka_unit_test(model_echo_calls_functions_one_by_one_or_together),
        cmocka_unit_test(model_echo_makes_an_instance_of_a_schema),
        cmocka_unit_test(L3_model_echo_stops_at_limits),
        cmocka_unit_test(model_echo_fails_as_told),
        cmocka_unit_test(model_find_without_a_default_says_how_to_add_one),
        cmocka_unit_test(model_call_refuses_items_it_cannot_send),
        cmocka_unit_test(model_embed_is_the_same_for_the_same_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
