/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a model at a terminal: Markdown, cut anywhere, and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <string.h>

#include "base/mem.h"
#include "cli/chat/chat.h"
#include "cli/common.h"

/* The text as it is shown, fed in pieces of that many bytes. */
static char *show(const char *text, size_t width, size_t piece)
{
    struct cli_markdown *m = cli_markdown_new(width);
    struct buf out cleanup(buf_done) = {0};
    size_t len = strlen(text);

    buf_adds(&out, "");
    for (size_t at = 0; at < len; at += piece)
        cli_markdown_feed(m, text + at, MIN(piece, len - at), &out);
    cli_markdown_finish(m, &out);
    cli_markdown_free(m);
    return buf_take(&out, NULL);
}

/* The same without colours. */
static char *plain(const char *text, size_t width, size_t piece)
{
    char *shown cleanup(mem_free) = show(text, width, piece);
    struct cli_filter filter = {.plain = true};
    struct buf out cleanup(buf_done) = {0};

    buf_adds(&out, "");
    cli_filter_feed(&filter, shown, strlen(shown), &out);
    return buf_take(&out, NULL);
}

static const struct {
    const char *text, *shown;
    size_t width;
} cases[] = {
    {"Hello", "Hello\n", 80},
    {"one two three four five six", "one two three four\nfive six\n", 20},
    {"# Title\n\ntext\n", "Title\n\ntext\n", 80},
    {"a **bold** and *soft* word", "a bold and soft word\n", 80},
    {"2 * 3 * 4 = 24", "2 * 3 * 4 = 24\n", 80},
    {"snake_case_name and __init__", "snake_case_name and init\n", 80},
    {"code `a * b` here", "code a * b here\n", 80},
    {"an open ` tick", "an open ` tick\n", 80},
    {"- one\n- two\n  - three\n",
     " \u2022 one\n \u2022 two\n   \u2022 three\n", 80},
    {"1. first\n2. second\n", " 1. first\n 2. second\n", 80},
    {"> said", "\u2502 said\n", 80},
    {"```python\nx = 1\n  y = **2**\n```\nafter",
     "    x = 1\n      y = **2**\nafter\n", 80},
    {"~~~\n```\n~~~\n", "    ```\n", 80},
    {"[report](sandbox:/mnt/data/report.xlsx)", "report\n", 80},
    {"[a bank](https://evil.example/)", "a bank (https://evil.example/)\n",
     80},
    {"[https://a.example/](https://a.example/)", "https://a.example/\n", 80},
    {"![chart](sandbox:/mnt/data/c.png)", "image: chart\n", 80},
    {"[no link] and [x", "[no link] and [x\n", 80},
    {"| City | People |\n|---|---:|\n| Bern | **140,000** |\n\nend",
     "City  People\nBern  140,000\n\nend\n", 80},
    {"| a | b |\n|---|---|\n| 1 |\n", "a  b\n1\n", 80},
    {"escaped \\*star\\*", "escaped *star*\n", 80},
    {"---\n",
     "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500"
     "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500"
     "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500"
     "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\n",
     80},
    {"caf\u00e9 \u4f60\u597d", "caf\u00e9 \u4f60\u597d\n", 80},
    {"<b onclick=x>html</b>", "<b onclick=x>html</b>\n", 80},
    {"", "", 80},
};

static void markdown_shows_each_form_cut_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t piece = 1; piece < 9; piece++) {
            char *shown cleanup(mem_free) =
                plain(cases[i].text, cases[i].width, piece);

            assert_string_equal(shown, cases[i].shown);
        }
}

static void markdown_colours_end_with_the_text(void **state)
{
    static const char *const open[] = {"**never closed", "`code",
                                       "# head",         "> quote",
                                       "*a\n\nb",        "```\ncode"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(open); i++) {
        char *shown cleanup(mem_free) = show(open[i], 80, 3);
        const char *last = strrchr(shown, '\033');

        if (last) /* the last sequence is the one that ends colours */
            assert_int_equal(strncmp(last, "\033[0m", 4), 0);
    }
}

/* U1 for a terminal: nothing of a model's text controls it. */
static void markdown_drops_terminal_control(void **state)
{
    static const char hostile[] =
        "title \033]0;owned\007 clip \033]52;c;aGk=\033\\ dec \033P+q\033\\ "
        "csi \033[31mred\033[2J c1 \xc2\x9b"
        "31m back\b\b\r over";

    (void)state;
    for (size_t piece = 1; piece < 9; piece++) {
        char *shown cleanup(mem_free) = show(hostile, 200, piece);

        assert_null(strchr(shown, '\033'));
        assert_null(strchr(shown, '\007'));
        assert_null(strchr(shown, '\b'));
        assert_null(strchr(shown, '\r'));
        assert_null(strstr(shown, "owned"));
        assert_null(strstr(shown, "\xc2\x9b"));
    }
}

static void markdown_takes_any_length(void **state)
{
    static const char *const starts[] = {"[", "`",  "**",    "|",
                                         "#", "- ", "![a](", "\\"};
    const size_t many = 200000;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
        struct buf text cleanup(buf_done) = {0};
        char *shown cleanup(mem_free) = NULL;

        buf_adds(&text, starts[i]);
        for (size_t n = 0; n < many; n++)
            buf_adds(&text, "x");
        shown = plain(text.data, 0, 1000);
        assert_true(strlen(shown) >= many);
    }
}

/* ---- a run of code in one line ------------------------------------------ */

static char *fold(const char *json)
{
    json_t *item cleanup(json_unref) = json_loads(json, 0, NULL);
    struct buf out cleanup(buf_done) = {0};

    assert_non_null(item);
    cli_chat_turn_fold(item, 3, &out);
    return buf_take(&out, NULL);
}

static void fold_tells_code_and_result(void **state)
{
    static const struct {
        const char *item, *line;
    } folds[] = {
        {"{\"status\":\"completed\",\"code\":\"1+1\",\"outputs\":[{\"type\":"
         "\"logs\",\"logs\":\"2\"}]}",
         "\u25b8 code 3: 1+1 \u2192 1 line of output\n"},
        {"{\"status\":\"completed\",\"code\":\"# note\\nimport "
         "os\\nos.listdir()\\n\",\"outputs\":[]}",
         "\u25b8 code 3: import os (+1 line) \u2192 no output\n"},
        {"{\"status\":\"completed\",\"code\":\"p()\",\"outputs\":[{\"type\":"
         "\"image\",\"url\":\"data:image/png;base64,\"},{\"type\":\"logs\","
         "\"logs\":\"a\\nb\\n\"}]}",
         "\u25b8 code 3: p() \u2192 2 lines of output, 1 chart\n"},
        {"{\"status\":\"completed\",\"code\":\"1/0\",\"outputs\":[{\"type\":"
         "\"logs\",\"logs\":\"Traceback (most recent call last)\\n  "
         "...\\nZeroDivisionError: division by zero\\n\"}]}",
         "\u25b8 code 3: 1/0 \u2192 failed: ZeroDivisionError: division by "
         "zero\n"},
        {"{\"status\":\"incomplete\",\"code\":\"x\",\"outputs\":[{\"type\":"
         "\"logs\",\"logs\":\"held for approval "
         "apr_00112233445566778899aabbccddeeff.\"}]}",
         "\u25b8 code 3: x \u2192 waits for approval "
         "apr_00112233445566778899aabbccddeeff\n"},
        {"{\"status\":\"incomplete\",\"code\":null,\"outputs\":null}",
         "\u25b8 code 3:  \u2192 stopped\n"},
        {"{\"status\":\"completed\",\"code\":\"\\u001b]0;x\\u0007a\\tb\","
         "\"outputs\":[]}",
         "\u25b8 code 3: a b \u2192 no output\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(folds); i++) {
        char *line cleanup(mem_free) = fold(folds[i].item);

        assert_string_equal(line, folds[i].line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markdown_shows_each_form_cut_anywhere),
        cmocka_unit_test(markdown_colours_end_with_the_text),
        cmocka_unit_test(markdown_drops_terminal_control),
        cmocka_unit_test(markdown_takes_any_length),
        cmocka_unit_test(fold_tells_code_and_result),
    };

    (void)setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests_name("cli_markdown", tests, NULL, NULL);
}
