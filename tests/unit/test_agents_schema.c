/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema as saved tools use it, and the code that a call becomes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "agents/schema.h"
#include "agents/tools.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "json/json.h"

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &why);

    if (!v)
        fail_msg("%s: %s", why.text, text);
    return v;
}

/* message NULL: it fits. */
static const struct {
    const char *schema, *value, *message;
} cases[] = {
    {"{}", "[1,{}]", NULL},
    {"{\"type\":\"string\"}", "\"x\"", NULL},
    {"{\"type\":\"string\"}", "1", "v must be of type string"},
    {"{\"type\":\"integer\"}", "2.0", NULL},
    {"{\"type\":\"integer\"}", "2.5", "v must be of type integer"},
    {"{\"type\":\"integer\"}", "1e300", NULL},
    {"{\"type\":\"number\"}", "2", NULL},
    {"{\"type\":\"boolean\"}", "0", "v must be of type boolean"},
    {"{\"type\":\"null\"}", "null", NULL},
    {"{\"type\":[\"string\",\"null\"]}", "null", NULL},
    {"{\"type\":[\"string\",\"null\"]}", "1",
     "v must be of type string or null"},
    {"{\"minimum\":1}", "1", NULL},
    {"{\"minimum\":1}", "0.5", "v must be at least 1"},
    {"{\"maximum\":1}", "1", NULL},
    {"{\"maximum\":1}", "2", "v must be at most 1"},
    {"{\"exclusiveMinimum\":1}", "1", "v must be greater than 1"},
    {"{\"exclusiveMaximum\":1}", "1", "v must be less than 1"},
    {"{\"multipleOf\":0.1}", "0.3", NULL},
    {"{\"multipleOf\":3}", "7", "v must be a multiple of 3"},
    {"{\"minLength\":2}", "\"\xc3\xa4\"", "v must have at least 2 characters"},
    {"{\"maxLength\":1}", "\"\xc3\xa4\"", NULL},
    {"{\"maxLength\":1}", "\"ab\"", "v must have at most 1 characters"},
    {"{\"enum\":[1,\"a\"]}", "1.0", NULL},
    {"{\"enum\":[1,\"a\"]}", "\"b\"", "v must be one of [1,\"a\"]"},
    {"{\"const\":[1]}", "[1]", NULL},
    {"{\"const\":[1]}", "[2]", "v must be [1]"},
    {"{\"items\":{\"type\":\"string\"}}", "[\"a\",1]",
     "v[1] must be of type string"},
    {"{\"minItems\":1}", "[]", "v must have at least 1 elements"},
    {"{\"maxItems\":1}", "[1,2]", "v must have at most 1 elements"},
    {"{\"uniqueItems\":true}", "[1,2,1.0]",
     "v has the same element at 0 and at 2"},
    {"{\"uniqueItems\":true}", "[1,\"1\"]", NULL},
    {"{\"required\":[\"a\"]}", "{}", "v.a is required"},
    {"{\"required\":[\"a\"]}", "{\"a\":null}", NULL},
    {"{\"properties\":{\"a\":{\"properties\":{\"b\":{\"items\":{\"type\":"
     "\"integer\"}}}}}}",
     "{\"a\":{\"b\":[1,2,\"x\"]}}", "v.a.b[2] must be of type integer"},
    {"{\"properties\":{\"alpha\":{}},\"additionalProperties\":false}",
     "{\"alhpa\":1}", "v.alhpa is not known; did you mean 'alpha'?"},
    {"{\"additionalProperties\":{\"type\":\"string\"}}", "{\"x\":1}",
     "v.x must be of type string"},
    {"{\"minProperties\":1}", "{}", "v must have at least 1 members"},
    {"{\"maxProperties\":0}", "{\"a\":1}", "v must have at most 0 members"},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", "1", NULL},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", "true",
     "v fits none of the 2 alternatives of its schema"},
    {"{\"anyOf\":[{\"type\":\"string\"}]}", "1", "v must be of type string"},
    {"{\"minimum\":5,\"maxLength\":1}", "[]", NULL},
};

static void validate_names_path_and_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *schema cleanup(json_unref) = parse(cases[i].schema);
        json_t *value cleanup(json_unref) = parse(cases[i].value);
        struct error err = {.code = ERR_NONE};
        int r;

        assert_int_equal(schema_check(schema, "s", &err), 0);
        r = schema_validate(schema, value, "v", NULL, &err);
        if (!cases[i].message && r < 0)
            fail_msg("%s %s: %s", cases[i].schema, cases[i].value,
                     err.message);
        if (cases[i].message)
            assert_string_equal(r < 0 ? err.message : "it fits",
                                cases[i].message);
    }
}

static void check_refuses_what_cannot_be_checked(void **state)
{
    static const char *const wrong[] = {
        "1",
        "{\"$ref\":\"#\"}",
        "{\"pattern\":\"a\"}",
        "{\"type\":\"text\"}",
        "{\"type\":[]}",
        "{\"type\":[\"string\",1]}",
        "{\"properties\":[]}",
        "{\"properties\":{\"a\":1}}",
        "{\"items\":[{}]}",
        "{\"required\":\"a\"}",
        "{\"required\":[1]}",
        "{\"enum\":[]}",
        "{\"anyOf\":[]}",
        "{\"anyOf\":{}}",
        "{\"minimum\":\"1\"}",
        "{\"minLength\":-1}",
        "{\"minLength\":1.5}",
        "{\"uniqueItems\":1}",
        "{\"additionalProperties\":1}",
        "{\"if\":{}}",
        "{\"allOf\":[{}]}",
        "{\"not\":{}}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        json_t *schema cleanup(json_unref) = parse(wrong[i]);
        struct error err = {.code = ERR_NONE};

        if (schema_check(schema, "parameters", &err) != -ERR_INVALID)
            fail_msg("%s was accepted", wrong[i]);
        assert_non_null(strstr(err.message, "parameters"));
    }
}

static json_t *nest(unsigned levels)
{
    json_t *v = json_object();

    for (unsigned i = 1; i < levels; i++)
        v = json_pack("{s:o}", "items", v);
    return v;
}

static json_t *spread(size_t count)
{
    json_t *properties = json_object();
    char name[24];

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof(name), "p%zu", i);
        (void)json_object_set_new(properties, name, json_object());
    }
    return json_pack("{s:o}", "properties", properties);
}

static void check_has_bounds(void **state)
{
    json_t *deep cleanup(json_unref) = nest(SCHEMA_DEPTH_MAX);
    json_t *deeper cleanup(json_unref) = nest(SCHEMA_DEPTH_MAX + 1);
    json_t *wide cleanup(json_unref) = spread(SCHEMA_NODES_MAX - 1);
    json_t *wider cleanup(json_unref) = spread(SCHEMA_NODES_MAX);
    struct error err;

    (void)state;
    assert_int_equal(schema_check(deep, "s", &err), 0);
    assert_int_equal(schema_check(deeper, "s", &err), -ERR_INVALID);
    assert_int_equal(schema_check(wide, "s", &err), 0);
    assert_int_equal(schema_check(wider, "s", &err), -ERR_INVALID);
}

static void defaults_are_added_where_absent(void **state)
{
    json_t *schema cleanup(json_unref) =
        parse("{\"properties\":{\"a\":{\"default\":1},\"b\":{\"default\":2},"
              "\"c\":{\"properties\":{\"d\":{\"default\":[3]}}},\"e\":{}}}");
    json_t *value cleanup(json_unref) = parse("{\"a\":null,\"c\":{}}");
    json_t *expected cleanup(json_unref) =
        parse("{\"a\":null,\"b\":2,\"c\":{\"d\":[3]}}");

    (void)state;
    schema_defaults(schema, value);
    assert_true(json_equal(value, expected));
}

/* ---- calls -------------------------------------------------------------- */

static void call_quotes_for_the_shell(void **state)
{
    struct saved_tool tool = {
        .name = "t",
        .number = 3,
        .language = EXEC_SHELL,
        .code = (char *)(uintptr_t) "echo",
        .parameters = parse("{\"properties\":{\"a\":{\"type\":\"string\"},"
                            "\"b\":{}},\"additionalProperties\":false}")};
    struct saved_tool_call c cleanup(saved_tool_call_done) = {.timeout_s = 0};
    json_t *args cleanup(json_unref) =
        parse("{\"a\":\"x'; rm -rf / #\\n$(id)\"}");
    struct error err;

    (void)state;
    assert_int_equal(saved_tool_call(&tool, args, &c, &err), 0);
    assert_string_equal(c.code.data,
                        "a='x'\\''; rm -rf / #\n$(id)'\nb=''\necho");
    assert_string_equal(c.metadata, "{\"tool\":\"t\",\"tool_version\":3}");
    json_decref(tool.parameters);
}

static void call_writes_python_literals(void **state)
{
    struct saved_tool tool = {
        .name = "t",
        .number = 1,
        .language = EXEC_PYTHON,
        .code = (char *)(uintptr_t) "print(a)",
        .parameters = parse("{\"properties\":{\"a\":{},\"b\":{},\"c\":{}}}")};
    struct saved_tool_call c cleanup(saved_tool_call_done) = {.timeout_s = 0};
    json_t *args cleanup(json_unref) =
        parse("{\"a\":\"\\\"\\n'''\\\\\\u0001\",\"b\":[1,-2.5,true,null,"
              "{\"k\\\"\":false}]}");
    struct error err;

    (void)state;
    assert_int_equal(saved_tool_call(&tool, args, &c, &err), 0);
    assert_string_equal(c.code.data,
                        "a = \"\\\"\\n'''\\\\\\u0001\"; b = [1, -2.5, True, "
                        "None, {\"k\\\"\": False}]; c = None\nprint(a)");
    json_decref(tool.parameters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validate_names_path_and_reason),
        cmocka_unit_test(check_refuses_what_cannot_be_checked),
        cmocka_unit_test(check_has_bounds),
        cmocka_unit_test(defaults_are_added_where_absent),
        cmocka_unit_test(call_quotes_for_the_shell),
        cmocka_unit_test(call_writes_python_literals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
