/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of named agents, and structured inputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "agents/agents.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "json/json.h"

/* ---- templates ---------------------------------------------------------- */

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &why);

    if (!v)
        fail_msg("%s: %s", why.text, text);
    return v;
}

static const char *const VALUES =
    "{\"name\":\"Ann\",\"n\":3,\"zero\":0,\"yes\":true,\"no\":false,"
    "\"nothing\":null,\"empty\":\"\",\"none\":[],\"list\":[\"a\",\"b\"],"
    "\"deep\":{\"x\":{\"y\":\"z\"}},\"rows\":[{\"id\":1},{\"id\":2}],"
    "\"trap\":\"{{name}}\",\"html\":\"<a & b>\"}";

static void expand_shows_values(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"plain", "plain"},
        {"{{name}}", "Ann"},
        {"{{{name}}} {{ name }}", "Ann Ann"},
        {"[{{missing}}{{nothing}}{{empty}}]", "[]"},
        {"{{n}} {{yes}} {{no}}", "3 true false"},
        {"{{deep.x.y}} {{rows.1.id}} {{deep.q.y}}", "z 2 "},
        {"{{list}} {{deep}}", "a,b {\"x\":{\"y\":\"z\"}}"},
        {"{{trap}} {{html}}", "{{name}} <a & b>"},
        {"{{! a note }}x", "x"},
        {"{{#if yes}}a{{else}}b{{/if}}{{#if no}}a{{else}}b{{/if}}", "ab"},
        {"{{#if zero}}1{{/if}}{{#if none}}2{{/if}}{{#if empty}}3{{/if}}"
         "{{#if missing}}4{{/if}}{{#if deep}}5{{/if}}",
         "5"},
        {"{{#unless no}}a{{^}}b{{/unless}}", "a"},
        {"{{#each list}}{{this}}{{#unless @last}}, {{/unless}}{{/each}}",
         "a, b"},
        {"{{#each list}}{{@index}}{{#if @first}}!{{/if}}{{/each}}", "0!1"},
        {"{{#each none}}x{{else}}nobody{{/each}}", "nobody"},
        {"{{#each rows}}{{id}}{{this.id}}{{name}}{{../n}};{{/each}}",
         "11Ann3;22Ann3;"},
        {"{{#each deep}}{{@key}}={{y}}{{/each}}", "x=z"},
        {"{{#if yes}}{{#each list}}{{#if no}}q{{else}}{{this}}{{/if}}{{/each}}"
         "{{/if}}",
         "ab"},
        {"{{#if no}}{{#each list}}{{this}}{{/each}}{{/if}}.", "."},
        {"a } b {c} }}", "a } b {c} }}"},
    };
    json_t *values cleanup(json_unref) = parse(VALUES);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf out cleanup(buf_done) = {0};
        struct error err = {.code = ERR_NONE};

        if (agents_expand(cases[i].text, values, &out, &err) < 0)
            fail_msg("%s: %s", cases[i].text, err.message);
        assert_string_equal(out.data, cases[i].expected);
    }
}

static void expand_without_values_is_the_text(void **state)
{
    struct buf out cleanup(buf_done) = {0};
    struct error err;

    (void)state;
    assert_int_equal(agents_expand("{{#if x}} {{", NULL, &out, &err), 0);
    assert_string_equal(out.data, "{{#if x}} {{");
}

static void expand_refuses_malformed_templates(void **state)
{
    static const char *const wrong[] = {
        "{{",
        "{{name",
        "{{}}",
        "{{ }}",
        "{{a b}}",
        "{{#if}}x{{/if}}",
        "{{#if x}}",
        "{{#if x}}{{/each}}",
        "{{/if}}",
        "{{else}}",
        "{{#with x}}{{/with}}",
        "{{> part}}",
        "{{#if x}}{{else}}{{else}}{{/if}}",
        "{{&x}}",
        "{{x!}}",
    };
    json_t *values cleanup(json_unref) = parse(VALUES);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct buf out cleanup(buf_done) = {0};
        struct error err = {.code = ERR_NONE};

        if (agents_expand(wrong[i], values, &out, &err) != -ERR_INVALID)
            fail_msg("%s was accepted", wrong[i]);
        assert_non_null(strstr(err.message, "template"));
    }
}

static char *repeat(const char *text, size_t times)
{
    struct buf b = {0};

    for (size_t i = 0; i < times; i++)
        buf_adds(&b, text);
    return buf_take(&b, NULL);
}

static void expand_is_bounded(void **state)
{
    char *big = repeat("x", AGENTS_EXPANDED_MAX);
    char *open = repeat("{{#if yes}}", 17), *close = repeat("{{/if}}", 17);
    char *deep = xasprintf("%sx%s", open, close);
    char *eaches = repeat("{{#each many}}", 4), *ends = repeat("{{/each}}", 4);
    char *nested = xasprintf("%s%s", eaches, ends);
    json_t *values = json_pack("{s:s,s:b}", "big", big, "yes", 1);
    json_t *many = json_array();
    struct buf out = {0};
    struct error err;

    (void)state;
    for (int i = 0; i < 100; i++)
        (void)json_array_append_new(many, json_integer(i));
    (void)json_object_set_new(values, "many", many);
    assert_int_equal(agents_expand("{{big}}", values, &out, &err), 0);
    assert_int_equal(out.len, AGENTS_EXPANDED_MAX);
    buf_reset(&out);
    assert_int_equal(agents_expand("{{big}}x", values, &out, &err),
                     -ERR_TOO_LARGE);
    buf_reset(&out);
    assert_int_equal(
        agents_expand(deep + strlen("{{#if yes}}"), values, &out, &err),
        -ERR_INVALID); /* one is not opened */
    buf_reset(&out);
    assert_int_equal(agents_expand(deep, values, &out, &err), -ERR_INVALID);
    deep[strlen(deep) - strlen("{{/if}}")] = '\0';
    buf_reset(&out);
    assert_int_equal(
        agents_expand(deep + strlen("{{#if yes}}"), values, &out, &err), 0);
    buf_reset(&out);
    assert_int_equal(agents_expand(nested, values, &out, &err),
                     -ERR_TOO_LARGE); /* a hundred million steps */
    buf_done(&out);
    json_decref(values);
    free(big);
    free(open);
    free(close);
    free(deep);
    free(nested);
    free(eaches);
    free(ends);
}

/* ---- inputs ------------------------------------------------------------- */

static void inputs_have_defaults_and_requirements(void **state)
{
    json_t *declared cleanup(json_unref) =
        parse("{\"a\":{\"default_value\":\"x\"},\"b\":{\"required\":true,"
              "\"schema\":{\"type\":\"integer\"}},\"c\":{}}");
    json_t *given cleanup(json_unref) = parse("{\"b\":2,\"other\":1}");
    json_t *wrong cleanup(json_unref) = parse("{\"b\":\"two\"}");
    json_t *values cleanup(json_unref) = NULL;
    json_t *expected cleanup(json_unref) =
        parse("{\"a\":\"x\",\"b\":2,\"other\":1}");
    json_t *none = (json_t *)1;
    char param[96];
    struct error err;

    (void)state;
    assert_int_equal(agents_inputs(declared, given, &values, param, &err), 0);
    assert_true(json_equal(values, expected));
    assert_int_equal(agents_inputs(declared, NULL, &none, param, &err),
                     -ERR_INVALID);
    assert_string_equal(param, "structured_inputs.b");
    assert_int_equal(agents_inputs(declared, wrong, &none, param, &err),
                     -ERR_INVALID);
    assert_non_null(strstr(err.message, "structured_inputs.b must be of type "
                                        "integer"));
    assert_int_equal(agents_inputs(NULL, NULL, &none, param, &err), 0);
    assert_null(none); /* nothing is expanded then */
}

static void tools_are_expanded_where_they_may_be(void **state)
{
    json_t *tools cleanup(json_unref) = parse(
        "[{\"type\":\"code_interpreter\",\"container\":\"{{c}}\"},"
        "{\"type\":\"code_interpreter\",\"container\":{\"type\":\"auto\","
        "\"file_ids\":[\"{{f}}\",\"{{gone}}\",\"fixed\"]}},"
        "{\"type\":\"file_search\",\"vector_store_ids\":[\"{{gone}}\"]},"
        "{\"type\":\"mcp\",\"server_label\":\"{{c}}\",\"server_url\":"
        "\"https://{{c}}\",\"headers\":{\"x\":\"{{c}}\"}},"
        "{\"type\":\"function\",\"name\":\"{{c}}\"}]");
    json_t *expected cleanup(json_unref) = parse(
        "[{\"type\":\"code_interpreter\",\"container\":\"C\"},"
        "{\"type\":\"code_interpreter\",\"container\":{\"type\":\"auto\","
        "\"file_ids\":[\"F\",\"fixed\"]}},"
        "{\"type\":\"file_search\",\"vector_store_ids\":[]},"
        "{\"type\":\"mcp\",\"server_label\":\"C\",\"server_url\":"
        "\"https://C\",\"headers\":{\"x\":\"C\"}},"
        "{\"type\":\"function\",\"name\":\"{{c}}\"}]");
    json_t *before cleanup(json_unref) = json_deep_copy(tools);
    json_t *values cleanup(json_unref) = parse("{\"c\":\"C\",\"f\":\"F\"}");
    json_t *out cleanup(json_unref) = NULL;
    struct error err;

    (void)state;
    assert_int_equal(agents_expand_tools(tools, values, &out, &err), 0);
    assert_true(json_equal(out, expected));
    assert_true(json_equal(tools, before));
}

static void input_of_users_is_never_expanded(void **state)
{
    json_t *input cleanup(json_unref) =
        parse("[{\"role\":\"user\",\"content\":\"{{c}}\"},"
              "{\"role\":\"system\",\"content\":\"{{c}}\"},"
              "{\"role\":\"developer\",\"content\":[{\"type\":\"input_text\","
              "\"text\":\"{{c}}!\"}]},{\"type\":\"function_call_output\","
              "\"output\":\"{{c}}\"}]");
    json_t *expected cleanup(json_unref) =
        parse("[{\"role\":\"user\",\"content\":\"{{c}}\"},"
              "{\"role\":\"system\",\"content\":\"C\"},"
              "{\"role\":\"developer\",\"content\":[{\"type\":\"input_text\","
              "\"text\":\"C!\"}]},{\"type\":\"function_call_output\","
              "\"output\":\"{{c}}\"}]");
    json_t *values cleanup(json_unref) = parse("{\"c\":\"C\"}");
    json_t *out cleanup(json_unref) = NULL;
    struct error err;

    (void)state;
    assert_int_equal(agents_expand_input(input, values, &out, &err), 0);
    assert_true(json_equal(out, expected));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expand_shows_values),
        cmocka_unit_test(expand_without_values_is_the_text),
        cmocka_unit_test(expand_refuses_malformed_templates),
        cmocka_unit_test(expand_is_bounded),
        cmocka_unit_test(inputs_have_defaults_and_requirements),
        cmocka_unit_test(tools_are_expanded_where_they_may_be),
        cmocka_unit_test(input_of_users_is_never_expanded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
