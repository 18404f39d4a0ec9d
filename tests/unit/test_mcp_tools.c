/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP tools without a service: their table and schemas, and the pure
 * functions that stand between a model's words and the core.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/mem.h"
#include "doors/mcp/tool.h"

/* ---- the table ---------------------------------------------------------- */

static json_t *parse(const char *text)
{
    struct error err;
    json_t *value = NULL;

    if (json_parse(text, strlen(text), &value, &err) < 0)
        fail_msg("%s in %s", err.message, text);
    return value;
}

static void check_schema(const char *tool, const struct api_resource *r,
                         bool input)
{
    struct buf text cleanup(buf_done) = {0};
    struct json_writer w = {.out = &text};
    json_t *schema cleanup(json_unref) =
        (api_schema(&w, NULL, r, API_INLINE), parse(text.data));
    const json_t *properties = json_object_get(schema, "properties");
    const char *name;
    json_t *v, *required;
    size_t i;

    assert_string_equal(json_string_value(json_object_get(schema, "type")),
                        "object");
    if (input)
        assert_true(
            json_is_false(json_object_get(schema, "additionalProperties")));
    json_object_foreach ((json_t *)properties, name, v)
        if (!json_object_get(v, "type") && !json_object_get(v, "anyOf"))
            fail_msg("%s: %s has no type", tool, name);
    required = json_object_get(schema, "required");
    json_array_foreach (required, i, v)
        if (!json_object_get(properties, json_string_value(v)))
            fail_msg("%s: %s is required but unknown", tool,
                     json_string_value(v));
}

static void test_table(void **state)
{
    (void)state;
    assert_int_equal(mcp_tools_count, 35);
    for (size_t i = 0; i < mcp_tools_count; i++) {
        const struct mcp_tool *t = &mcp_tools[i];

        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(t->name, mcp_tools[k].name);
        assert_non_null(t->title);
        assert_non_null(t->run);
        assert_true(strlen(t->description) > 80);
        assert_true(strlen(t->description) < 4000);
        assert_int_not_equal(t->groups, 0);
        assert_int_not_equal(t->scope, 0);
        check_schema(t->name, t->input, true);
        check_schema(t->name, t->output, false);
    }
}

/* What a schema promises is what the code takes: an argument nobody knows is
 * refused by every tool before anything else is done. */
static void test_unknown_arguments(void **state)
{
    (void)state;
    for (size_t i = 0; i < mcp_tools_count; i++) {
        json_t *args cleanup(json_unref) = parse("{\"no_such_argument\":1}");
        struct actor who = {.tenant = "t", .key = "key_x"};
        struct mcp_call call = {.actor = &who, .arena = arena_new()};
        struct mcp_answer answer;
        struct error err = {0};

        mcp_answer_init(&answer);
        assert_int_equal(mcp_tools[i].run(&call, args, &answer, &err),
                         -ERR_INVALID);
        assert_non_null(strstr(err.message, "unknown field"));
        assert_int_equal(answer.structured.len, 0);
        mcp_answer_done(&answer);
        arena_free(call.arena);
    }
}

/* ---- paths -------------------------------------------------------------- */

static void test_F5_paths(void **state)
{
    static const char *const good[][2] = {
        {"a.csv", "a.csv"},
        {"/mnt/data/a.csv", "a.csv"},
        {"/mnt/data//a.csv", "a.csv"},
        {"sandbox:/mnt/data/x/a.csv", "x/a.csv"},
        {"sandbox:x/a.csv", "x/a.csv"},
        {"./a.csv", "a.csv"},
        {".//./a.csv", "a.csv"},
        {"mnt/data/a", "mnt/data/a"},
        {"..a", "..a"},
        {"é/日本.txt", "é/日本.txt"},
    };
    static const char *const bad[] = {
        "",
        "/",
        "/etc/passwd",
        "/mnt/database/x",
        "/mnt/data",
        "/mnt/data/",
        "..",
        "../x",
        "a/../b",
        "a/..",
        "/mnt/data/../x",
        "sandbox:/etc/passwd",
        "a//b",
        "a/",
        "./",
        "sandbox:",
        "a\nb",
        "a\x7f"
        "b",
        "\xff\xfe",
        "/mnt/data2/x",
    };
    struct arena *arena = arena_new();
    struct error err;
    const char *path;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(tool_path(arena, good[i][0], &path, &err), 0);
        assert_string_equal(path, good[i][1]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        err = (struct error){0};
        if (tool_path(arena, bad[i], &path, &err) != -ERR_INVALID)
            fail_msg("'%s' became '%s'", bad[i], path);
        assert_non_null(strstr(err.message, "the path"));
    }
    arena_free(arena);
}

static void test_F5_folders(void **state)
{
    static const char *const good[][2] = {
        {"", ""},           {".", ""},
        {"/mnt/data", ""},  {"./", ""},
        {"/mnt/data/", ""}, {"a/", "a"},
        {"a/b//", "a/b"},   {"sandbox:/mnt/data/a/", "a"},
    };
    static const char *const bad[] = {"/", "/etc", "..", "a/../..", "/mnt"};
    struct arena *arena = arena_new();
    struct error err;
    const char *path;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(tool_folder(arena, good[i][0], &path, &err), 0);
        assert_string_equal(path, good[i][1]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(tool_folder(arena, bad[i], &path, &err),
                         -ERR_INVALID);
    arena_free(arena);
}

/* ---- cutting ------------------------------------------------------------ */

static void assert_cut(const char *text, size_t most, const char *file,
                       size_t left_out, const char *want)
{
    struct buf out cleanup(buf_done) = {0};

    assert_int_equal(tool_text_cut(&out, text, strlen(text), most, file),
                     left_out);
    buf_adds(&out, "");
    assert_string_equal(out.data, want);
}

static void test_cut(void **state)
{
    (void)state;
    assert_cut("", 4, NULL, 0, "");
    assert_cut("abcd", 4, NULL, 0, "abcd");
    assert_cut("abcde", 4, NULL, 1,
               "ab\n[… 1 characters are left out here …]\nde");
    assert_cut("日本語東京", 4, "f.txt", 1,
               "日本\n[… 1 characters are left out here; all of it is in "
               "/mnt/data/f.txt …]\n東京");
    assert_cut("abcdef", 3, NULL, 3,
               "a\n[… 3 characters are left out here …]\nef");
    /* Broken bytes count one each and are kept as they are. */
    assert_int_equal(tool_text_chars("\xff\xfe\xe6\x97", 4), 4);
    assert_int_equal(tool_text_offset("é\xff"
                                      "a",
                                      4, 2),
                     3);
    assert_int_equal(tool_text_offset("abc", 3, 99), 3);
}

static void test_quote(void **state)
{
    struct buf out cleanup(buf_done) = {0};

    (void)state;
    tool_text_quote(&out, "it's $(x) `y` \"z\" \\");
    assert_string_equal(out.data, "'it'\\''s $(x) `y` \"z\" \\'");
}

/* ---- patterns ----------------------------------------------------------- */

static void test_match(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool match;
    } cases[] = {
        {"*.csv", "a.csv", true},
        {"*.csv", "x/y/a.csv", true},
        {"*.csv", "a.csv.gz", false},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"a/*.csv", "a/b.csv", true},
        {"a/*.csv", "a/b/c.csv", false},
        {"a/**/*.csv", "a/b/c.csv", true},
        {"a/**/*.csv", "a/c.csv", true},
        {"a/**", "a/b/c", true},
        {"**/c", "a/b/c", true},
        {"/**", "a/b", false},
        {"[ab].txt", "b.txt", true},
        {"[!ab].txt", "b.txt", false},
        {"[a-c]1", "b1", true},
        {"[a-c]1", "d1", false},
        {"[]]", "]", true},
        {"[x", "[x", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"*", "", true},
        {"", "", true},
        {"", "a", false},
        {"*a*b*c*", "xxaxxbxxcxx", true},
        {"a*b", "a/b", false},
        {"日*", "日本", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (tool_text_match(cases[i].pattern, cases[i].path) != cases[i].match)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].path);
}

/* A pattern that is exponential for a careless matcher; it would not end
 * within the suite's deadline. */
static void test_match_is_bounded(void **state)
{
    char pattern[201], path[1001];

    (void)state;
    for (size_t i = 0; i < 200; i++)
        pattern[i] = i % 2 ? 'a' : '*';
    pattern[198] = 'b';
    pattern[199] = 'c';
    pattern[200] = '\0';
    memset(path, 'a', 1000);
    path[1000] = '\0';
    assert_false(tool_text_match(pattern, path));
    for (size_t i = 0; i < 198; i += 3) {
        pattern[i] = pattern[i + 1] = '*';
        pattern[i + 2] = 'a';
    }
    assert_false(tool_text_match(pattern, path));
}

/* ---- the report program ------------------------------------------------- */

/* It goes into a here-document, so its end must not be in it. */
static void test_report_program(void **state)
{
    (void)state;
    assert_non_null(strstr(tool_report_program, "def main():"));
    assert_null(strstr(tool_report_program, "GLOVEBOX_REPORT"));
    assert_int_equal(tool_report_program[strlen(tool_report_program) - 1],
                     '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_unknown_arguments),
        cmocka_unit_test(test_F5_paths),
        cmocka_unit_test(test_F5_folders),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_match_is_bounded),
        cmocka_unit_test(test_report_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
