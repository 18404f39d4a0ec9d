/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of json/: checking, parsing, reading by table, writing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "json/json.h"

/* ---- check and parse ---------------------------------------------------- */

static int check(const char *text)
{
    struct error err;

    return json_check(text, strlen(text), &json_limits_body, &err);
}

static void json_check_accepts_values(void **state)
{
    static const char *const good[] = {
        "{}",
        "[]",
        " null ",
        "true",
        "-0.5e+10",
        "\"\\u00e9\"",
        "[1,2,{\"a\":[]}]",
        "{\"a\":1,\"b\":[false]}",
        "\"\xc3\xa9\"",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_int_equal(check(good[i]), 0);
}

static void json_check_refuses_what_is_not_json(void **state)
{
    static const char *const bad[] = {
        "",         "{",
        "[1,]",     "{\"a\":}",
        "{a:1}",    "01",
        "1.",       ".5",
        "+1",       "1e",
        "\"\\x\"",  "\"\\u12\"",
        "\"",       "\"\n\"",
        "nul",      "[1 2]",
        "[1}",      "{\"a\" 1}",
        "1 1",      "[",
        "\"\xff\"", "\"\xc0\xaf\"",
        "NaN",      "{\"a\":1,}",
        "]",        "\"\xed\xa0\x80\"",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(check(bad[i]), -ERR_INVALID);
}

static void json_check_holds_the_depth(void **state)
{
    char text[200];

    (void)state;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    text[128] = '\0';
    assert_int_equal(check(text), 0);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    text[130] = '\0';
    assert_int_equal(check(text), -ERR_INVALID);
}

static void json_check_holds_members_and_numbers(void **state)
{
    struct buf b cleanup(buf_done) = {0};

    (void)state;
    buf_adds(&b, "[0");
    for (int i = 0; i < 9998; i++)
        buf_adds(&b, ",0");
    buf_adds(&b, "]");
    assert_int_equal(check(b.data), 0);
    b.data[b.len - 1] = ',';
    buf_adds(&b, "0]");
    assert_int_equal(check(b.data), -ERR_INVALID);

    buf_reset(&b);
    for (int i = 0; i < 64; i++)
        buf_adds(&b, "1");
    assert_int_equal(check(b.data), 0);
    buf_adds(&b, "1");
    assert_int_equal(check(b.data), -ERR_INVALID);
}

static void json_check_survives_a_million_brackets(void **state)
{
    size_t n = 1000000;
    char *text cleanup(mem_free) = xmalloc(n);
    struct error err;

    (void)state;
    memset(text, '[', n);
    assert_int_equal(json_check(text, n, &json_limits_any, &err),
                     -ERR_INVALID);
}

static void json_parse_refuses_duplicates_and_nul(void **state)
{
    static const char *const bad[] = {"{\"a\":1,\"a\":2}", "\"\\u0000\"",
                                      "123456789012345678901234567890"};
    struct error err;
    json_t *v;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(json_parse(bad[i], strlen(bad[i]), &v, &err),
                         -ERR_INVALID);
}

/* ---- read --------------------------------------------------------------- */

struct target {
    const char *text;
    int64_t number;
    bool flag;
    json_t *object, *array;
    int choice;
};

static const char *const choices[] = {"one", "two", NULL};

static const struct json_field fields[] = {
    {"text", JSON_KIND_STRING, .required = true,
     .offset = offsetof(struct target, text), .min = 1, .max = 5},
    {"timeout_s", JSON_KIND_INT, .offset = offsetof(struct target, number),
     .min = 5, .max = 900},
    {"flag", JSON_KIND_BOOL, .offset = offsetof(struct target, flag)},
    {"object", JSON_KIND_OBJECT, .offset = offsetof(struct target, object)},
    {"array", JSON_KIND_ARRAY, .offset = offsetof(struct target, array),
     .max = 2},
    {"choice", JSON_KIND_CHOICE, .offset = offsetof(struct target, choice),
     .choices = choices},
};

static int read_text(const char *text, struct target *ret, json_t **ret_json,
                     struct error *err)
{
    assert_int_equal(json_parse(text, strlen(text), ret_json, err), 0);
    return json_read(*ret_json, fields, ARRAY_SIZE(fields), ret, err);
}

static void json_read_fills_the_struct(void **state)
{
    struct target t = {.number = 7};
    json_t *json cleanup(json_unref) = NULL;
    struct error err;

    (void)state;
    assert_int_equal(read_text("{\"text\":\"hi\",\"timeout_s\":null,"
                               "\"flag\":true,\"object\":{},\"array\":[1],"
                               "\"choice\":\"two\"}",
                               &t, &json, &err),
                     0);
    assert_string_equal(t.text, "hi");
    assert_int_equal(t.number, 7); /* null leaves it */
    assert_true(t.flag);
    assert_non_null(t.object);
    assert_int_equal(json_array_size(t.array), 1);
    assert_int_equal(t.choice, 1);
}

static void json_read_names_what_is_wrong(void **state)
{
    static const struct {
        const char *body, *message;
    } cases[] = {
        {"{}", "field 'text' is missing"},
        {"{\"text\":null}", "field 'text' is missing"},
        {"{\"text\":1}", "field 'text' must be a string"},
        {"{\"text\":\"\"}", "field 'text' must not be shorter than 1 bytes"},
        {"{\"text\":\"123456\"}",
         "field 'text' must not be longer than 5 bytes"},
        {"{\"text\":\"a\",\"timeout_s\":4}",
         "field 'timeout_s' must be a whole number from 5 to 900"},
        {"{\"text\":\"a\",\"timeout_s\":5.5}",
         "field 'timeout_s' must be a whole number from 5 to 900"},
        {"{\"text\":\"a\",\"flag\":1}", "field 'flag' must be true or false"},
        {"{\"text\":\"a\",\"object\":[]}", "field 'object' must be an object"},
        {"{\"text\":\"a\",\"array\":[1,2,3]}",
         "field 'array' must be an array of at most 2 elements"},
        {"{\"text\":\"a\",\"choice\":\"three\"}",
         "field 'choice' must be one of: 'one', 'two'"},
        {"[]", "a JSON object is expected"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *json cleanup(json_unref) = NULL;
        struct target t = {0};
        struct error err;

        assert_int_equal(read_text(cases[i].body, &t, &json, &err),
                         -ERR_INVALID);
        assert_string_equal(err.message, cases[i].message);
    }
}

static void json_read_suggests_the_nearest_name(void **state)
{
    json_t *json cleanup(json_unref) = NULL;
    json_t *far cleanup(json_unref) = NULL;
    struct target t = {0};
    struct error err;

    (void)state;
    assert_int_equal(
        read_text("{\"text\":\"a\",\"timeout\":9}", &t, &json, &err),
        -ERR_INVALID);
    assert_string_equal(err.message, "unknown field 'timeout'");
    assert_string_equal(err.hint,
                        "Did you mean 'timeout_s'? The fields are: text, "
                        "timeout_s, flag, object, array, choice.");
    assert_int_equal(read_text("{\"text\":\"a\",\"zzz\":9}", &t, &far, &err),
                     -ERR_INVALID);
    assert_string_equal(err.hint, "The fields are: text, timeout_s, flag, "
                                  "object, array, choice.");
}

/* ---- write -------------------------------------------------------------- */

static void json_write_makes_an_object(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    struct json_writer w = {.out = &b};

    (void)state;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "s", "a\"\\\n\x01z");
    json_write_string(&w, "n", NULL);
    json_write_int(&w, "i", -5);
    json_write_bool(&w, "b", true);
    json_write_open(&w, "l", '[');
    json_write_int(&w, NULL, 1);
    json_write_base64(&w, NULL, "\x00\xff", 2);
    json_write_close(&w, ']');
    json_write_key(&w, "k", 1);
    json_write_raw(&w, NULL, "{\n\"x\":1\r}", 9);
    json_write_time(&w, "t", 0);
    json_write_close(&w, '}');
    assert_string_equal(b.data,
                        "{\"s\":\"a\\\"\\\\\\n\\u0001z\",\"n\":null,\"i\":-5,"
                        "\"b\":true,\"l\":[1,\"AP8=\"],\"k\":{ \"x\":1 },"
                        "\"t\":null}");
    assert_false(w.replaced);
}

/* H6: whatever was printed, the answer is valid JSON and says so. */
static void H6_json_write_replaces_what_is_not_utf8(void **state)
{
    static const char bytes[] = "a\xff\xc3\xa9\xc3(\xe2\x82";
    struct buf b cleanup(buf_done) = {0};
    struct json_writer w = {.out = &b};
    struct error err;

    (void)state;
    json_write_text(&w, NULL, bytes, sizeof(bytes) - 1);
    assert_true(w.replaced);
    assert_string_equal(b.data, "\"a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd(\xef\xbf"
                                "\xbd\xef\xbf\xbd\"");
    assert_int_equal(json_check(b.data, b.len, &json_limits_any, &err), 0);
}

static void json_write_base64_crosses_its_chunks(void **state)
{
    size_t len = 100001, got_len;
    unsigned char *bytes cleanup(mem_free) = xmalloc(len);
    unsigned char *got cleanup(mem_free) = NULL;
    struct buf b cleanup(buf_done) = {0};
    struct json_writer w = {.out = &b};
    struct error err;

    (void)state;
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(i * 7);
    json_write_base64(&w, NULL, bytes, len);
    assert_int_equal(
        json_base64_decode(b.data + 1, b.len - 2, &got, &got_len, &err), 0);
    assert_int_equal(got_len, len);
    assert_memory_equal(got, bytes, len);
}

static void json_base64_decode_is_strict(void **state)
{
    static const char *const bad[] = {"A",    "AB=C", "====", "AA==AAAA",
                                      "AAA ", "AA-_", "AAA=A"};
    unsigned char *got cleanup(mem_free) = NULL;
    struct error err;
    size_t len;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(
            json_base64_decode(bad[i], strlen(bad[i]), &got, &len, &err),
            -ERR_INVALID);
    assert_int_equal(json_base64_decode("", 0, &got, &len, &err), 0);
    assert_int_equal(len, 0);
}

static void utf8_cut_keeps_whole_characters(void **state)
{
    static const char text[] = "ab\u00e9c"; /* 5 bytes */

    (void)state;
    assert_int_equal(utf8_cut(text, 5, 0), 0);
    assert_int_equal(utf8_cut(text, 5, 2), 2);
    assert_int_equal(utf8_cut(text, 5, 3), 2);
    assert_int_equal(utf8_cut(text, 5, 4), 4);
    assert_int_equal(utf8_cut(text, 5, 5), 5);
    assert_int_equal(utf8_cut(text, 5, 6), 5);
}

static void utf8_partial_finds_the_start(void **state)
{
    (void)state;
    assert_int_equal(utf8_partial("abc", 3), 0);
    assert_int_equal(utf8_partial("a\xc3", 2), 1);
    assert_int_equal(utf8_partial("a\xe2\x82", 3), 2);
    assert_int_equal(utf8_partial("\xf0\x9f\x98", 3), 3);
    assert_int_equal(utf8_partial("\xf0\x9f\x98\x80", 4), 0);
    assert_int_equal(utf8_partial("a\x82\x82", 3), 0);
    assert_int_equal(utf8_partial("\xe2\x28", 2), 0);
    assert_int_equal(utf8_partial("\xe0\x80", 2), 0);
    assert_int_equal(utf8_partial("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_check_accepts_values),
        cmocka_unit_test(json_check_refuses_what_is_not_json),
        cmocka_unit_test(json_check_holds_the_depth),
        cmocka_unit_test(json_check_holds_members_and_numbers),
        cmocka_unit_test(json_check_survives_a_million_brackets),
        cmocka_unit_test(json_parse_refuses_duplicates_and_nul),
        cmocka_unit_test(json_read_fills_the_struct),
        cmocka_unit_test(json_read_names_what_is_wrong),
        cmocka_unit_test(json_read_suggests_the_nearest_name),
        cmocka_unit_test(json_write_makes_an_object),
        cmocka_unit_test(H6_json_write_replaces_what_is_not_utf8),
        cmocka_unit_test(json_write_base64_crosses_its_chunks),
        cmocka_unit_test(json_base64_decode_is_strict),
        cmocka_unit_test(utf8_cut_keeps_whole_characters),
        cmocka_unit_test(utf8_partial_finds_the_start),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
