/* SPDX-License-Identifier: Apache-2.0 */
/* The command line's parts that need no service. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <locale.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"
#include "cli/operate/doctor.h"

/* ---- sse ---------------------------------------------------------------- */

struct seen {
    struct buf text; /* name|id|data, one event a line, \n in data as / */
    unsigned count;
    unsigned stop_at;
};

static void seen_done(struct seen *s)
{
    buf_done(&s->text);
}

static int on_event(void *ctx, const struct cli_sse_event *event)
{
    struct seen *s = ctx;

    assert_int_equal(strlen(event->data), event->len);
    buf_addf(&s->text, "%s|%s|", event->name, event->id);
    for (const char *p = event->data; *p; p++)
        buf_add(&s->text, *p == '\n' ? "/" : p, 1);
    buf_adds(&s->text, "\n");
    return ++s->count == s->stop_at ? 7 : 0;
}

/* The stream cut into pieces of every size gives the same events. */
static void expect_events(const char *stream, const char *want)
{
    size_t len = strlen(stream);

    for (size_t piece = 1; piece <= len; piece++) {
        struct seen s cleanup(seen_done) = {0};
        struct cli_sse sse cleanup(cli_sse_done);

        cli_sse_init(&sse);
        for (size_t at = 0; at < len; at += piece)
            assert_int_equal(cli_sse_feed(&sse, stream + at,
                                          MIN(piece, len - at), on_event, &s),
                             0);
        assert_string_equal(s.text.data ? s.text.data : "", want);
    }
}

static void sse_feed_any_chunks(void **state)
{
    (void)state;
    expect_events("id: 1\nevent: stdout\ndata: {\"text\":\"a\"}\n\n"
                  "id: 2\nevent: done\ndata: {}\n\n",
                  "stdout|1|{\"text\":\"a\"}\ndone|2|{}\n");
}

static void sse_feed_line_ends(void **state)
{
    (void)state;
    expect_events("event: a\r\ndata: 1\r\n\r\nevent: b\rdata: 2\r\r"
                  "event: c\ndata: 3\n\n",
                  "a||1\nb||2\nc||3\n");
}

static void sse_feed_comments_and_odd_fields(void **state)
{
    (void)state;
    expect_events(": keep-alive\n\n:\nretry: 10\nunknown\ndata\ndata:x\n"
                  "data:  y\n\n",
                  "message||/x/ y\n");
}

static void sse_feed_byte_order_mark(void **state)
{
    (void)state;
    expect_events("\xef\xbb\xbf"
                  "data: 1\n\n",
                  "message||1\n");
}

static void sse_feed_id_lasts_name_does_not(void **state)
{
    (void)state;
    expect_events("id: 5\nevent: e\ndata: 1\n\ndata: 2\n\n",
                  "e|5|1\nmessage|5|2\n");
}

static void sse_feed_drops_what_is_unfinished(void **state)
{
    (void)state;
    expect_events("data: 1\n\ndata: 2\n", "message||1\n");
    expect_events("event: only-a-name\n\n", "");
}

static void sse_feed_stops_when_told(void **state)
{
    static const char stream[] = "data: 1\n\ndata: 2\n\n";
    struct seen s cleanup(seen_done) = {.stop_at = 1};
    struct cli_sse sse cleanup(cli_sse_done);

    (void)state;
    cli_sse_init(&sse);
    assert_int_equal(cli_sse_feed(&sse, stream, strlen(stream), on_event, &s),
                     7);
    assert_string_equal(s.text.data, "message||1\n");
}

static void sse_feed_refuses_endless_line(void **state)
{
    size_t len = (size_t)8 << 20;
    char *piece cleanup(mem_free) = xmalloc(len);
    struct seen s cleanup(seen_done) = {0};
    struct cli_sse sse cleanup(cli_sse_done);
    int r = 0;

    (void)state;
    memset(piece, 'x', len);
    cli_sse_init(&sse);
    for (int i = 0; i < 16 && r == 0; i++)
        r = cli_sse_feed(&sse, piece, len, on_event, &s);
    assert_int_equal(r, -EFBIG);
}

/* ---- lines -------------------------------------------------------------- */

static void lines_python_complete(void **state)
{
    static const char *const texts[] = {
        "",
        "1 + 1",
        "f(1, [2, {3: 4}])",
        "x = 'a (b'",
        "x = \"it's\"",
        "x = '''a\nb'''",
        "# if x:",
        "if x:\n    y\n",
        "def f():\n    return 1\n    ",
        "x = {'a': 1}",
        "%timeit f(",
        "!echo 'a (b",
        "x = 1 # (",
        "'unclosed",
        ")",
        "%%bash\nif true; then\n  echo (\n",
        "x = 5 \\\n  % 3",
        "@f\ndef g():\n    pass\n",
        "x[1:2]",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (cli_statement_python_wants_more(texts[i]))
            fail_msg("wants more: %s", texts[i]);
}

static void lines_python_incomplete(void **state)
{
    static const char *const texts[] = {
        "if x:",
        "if x:  # why",
        "if x:\n    y",
        "if x:\n    y\n    z",
        "f(",
        "f(1,\n  2,",
        "x = [",
        "x = {'a': ':'",
        "x = '''a",
        "x = \"\"\"a ''' b",
        "x = 1 + \\",
        "x = 1 + \\\n",
        "@f",
        "@f\ndef g():",
        "%%bash",
        "%%bash\necho 1",
        "for i in range(3):\n    print(i)\nprint(2)",
        "f('(',\n",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (!cli_statement_python_wants_more(texts[i]))
            fail_msg("complete: %s", texts[i]);
}

static void lines_shell_complete(void **state)
{
    static const char *const texts[] = {
        "",
        "ls -l",
        "echo 'a' \"b\"",
        "if true; then echo 1; fi",
        "for i in 1 2; do\n  echo $i\ndone",
        "case x in\n  a) echo 1;;\n  (b) echo 2;;\nesac",
        "cat <<EOF\nif 'x\nEOF",
        "cat <<'E'\n\"\nE",
        "cat <<< word",
        "f() {\n  ls\n}",
        "echo $(ls)",
        "echo do if {",
        "a | b && c || d",
        "echo ${x#y} $# a#b",
        "ls # if (",
        "sleep 1 &",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (cli_statement_shell_wants_more(texts[i]))
            fail_msg("wants more: %s", texts[i]);
}

static void lines_shell_incomplete(void **state)
{
    static const char *const texts[] = {
        "echo 'a",
        "echo \"a",
        "ls \\",
        "ls |",
        "ls &&",
        "ls ||",
        "if true; then",
        "if true; then echo 1",
        "for i in 1 2; do",
        "while true\ndo\n  ls",
        "case x in\n  a) echo 1;;",
        "cat <<EOF\nx",
        "f() {",
        "echo $(ls",
        "if a; then if b; then c; fi",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (!cli_statement_shell_wants_more(texts[i]))
            fail_msg("complete: %s", texts[i]);
}

/* ---- format ------------------------------------------------------------- */

static void format_duration_units(void **state)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {
        {0, "0 ms"},           {999, "999 ms"},      {1000, "1 s"},
        {1250, "1.2 s"},       {61000, "1 min 1 s"}, {3661000, "1 h 1 min"},
        {90000000, "1 d 1 h"}, {86400000, "1 d"},    {7200000, "2 h"},
        {60000, "1 min"},
    };
    char text[24];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_string_equal(cli_format_duration(cases[i].ms, text),
                            cases[i].text);
}

static void format_nearest_names(void **state)
{
    static const char *const names[] = {"serve", "run", "sessions", "doctor"};
    size_t n = ARRAY_SIZE(names);

    (void)state;
    assert_string_equal(cli_format_nearest("rnu", names, sizeof(*names), n),
                        "run");
    assert_string_equal(
        cli_format_nearest("session", names, sizeof(*names), n), "sessions");
    assert_string_equal(cli_format_nearest("sess", names, sizeof(*names), n),
                        "sessions");
    assert_string_equal(cli_format_nearest("docter", names, sizeof(*names), n),
                        "doctor");
    assert_null(cli_format_nearest("teapot", names, sizeof(*names), n));
    assert_null(cli_format_nearest("", names, sizeof(*names), n));
}

/* ---- table -------------------------------------------------------------- */

static void table_print_aligns(void **state)
{
    static const char *const headings[] = {"ID", "NAME", "SIZE"};
    static const char *const first[] = {"1", "long name", "2 B"};
    static const char *const second[] = {"22", NULL, "3 KiB"};
    static const char *const third[] = {"333", "x", ""};
    struct cli_table *t cleanup(cli_table_free) = cli_table_new(headings, 3);
    struct buf out cleanup(buf_done) = {0};

    (void)state;
    cli_table_row(t, first);
    cli_table_row(t, second);
    cli_table_row(t, third);
    cli_table_print(t, &out);
    assert_string_equal(out.data, "ID   NAME       SIZE\n"
                                  "1    long name  2 B\n"
                                  "22              3 KiB\n"
                                  "333  x\n");
}

static void table_row_shows_no_control(void **state)
{
    static const char *const headings[] = {"A", "B"};
    static const char *const row[] = {"\033[2J\n", "x\xc2\x9by"};
    struct cli_table *t cleanup(cli_table_free) = cli_table_new(headings, 2);
    struct buf out cleanup(buf_done) = {0};

    (void)state;
    cli_table_row(t, row);
    cli_table_print(t, &out);
    assert_string_equal(out.data, "A      B\n?[2J?  x??y\n");
}

/* ---- guard -------------------------------------------------------------- */

static void expect_filtered(bool plain, const char *in, const char *want)
{
    size_t len = strlen(in);

    for (size_t piece = 1; piece <= len; piece++) {
        struct cli_filter g = {.plain = plain};
        struct buf out cleanup(buf_done) = {0};

        for (size_t at = 0; at < len; at += piece)
            cli_filter_feed(&g, in + at, MIN(piece, len - at), &out);
        assert_string_equal(out.data ? out.data : "", want);
    }
}

static void filter_feed_keeps_text_and_colour(void **state)
{
    (void)state;
    expect_filtered(false, "a\tb\r\n\b\xc3\xa9\xc2\xa0 \xe4\xb8\xad",
                    "a\tb\r\n\b\xc3\xa9\xc2\xa0 \xe4\xb8\xad");
    expect_filtered(false, "\033[1;31mred\033[0m\033[2K\033[3A",
                    "\033[1;31mred\033[0m\033[2K\033[3A");
    expect_filtered(true, "\033[1;31mred\033[0m", "red");
}

static void filter_feed_drops_control(void **state)
{
    (void)state;
    expect_filtered(false, "a\033]0;title\007b", "ab");
    expect_filtered(false, "a\033]52;c;ZXZpbA==\033\\b", "ab");
    expect_filtered(false, "a\033P+q\033\\b", "ab");
    expect_filtered(false, "a\033[?1049hb\033[6nc\033[21td", "abcd");
    expect_filtered(false, "a\033cb\033(0c", "abc");
    expect_filtered(false, "a\x07\x7f\x05z", "az");
    expect_filtered(false,
                    "a\xc2\x9b"
                    "31mb",
                    "a31mb");
    expect_filtered(false, "a\033[\033[31mb", "a\033[31mb");
    expect_filtered(false, "a\033]unended\nb", "ab");
}

static void filter_feed_refuses_long_sequence(void **state)
{
    (void)state;
    expect_filtered(
        false, "a\033[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1mb", "ab");
}

/* ---- opts --------------------------------------------------------------- */

static void values_size_units(void **state)
{
    uint64_t v = 0;

    (void)state;
    assert_int_equal(cli_values_size("1048576", &v), 0);
    assert_int_equal(v, 1048576);
    assert_int_equal(cli_values_size("512m", &v), 0);
    assert_int_equal(v, 512u << 20);
    assert_int_equal(cli_values_size("4GiB", &v), 0);
    assert_int_equal(v, (uint64_t)4 << 30);
    assert_int_equal(cli_values_size("1kb", &v), 0);
    assert_int_equal(v, 1024);
    assert_int_equal(cli_values_size("", &v), -EINVAL);
    assert_int_equal(cli_values_size("-1", &v), -EINVAL);
    assert_int_equal(cli_values_size("1.5g", &v), -EINVAL);
    assert_int_equal(cli_values_size("12x", &v), -EINVAL);
    assert_int_equal(cli_values_size("99999999999999999999", &v), -ERANGE);
    assert_int_equal(cli_values_size("99999999t", &v), -ERANGE);
}

struct parsed {
    bool flag;
    const char *text;
    struct cli_words list, words;
    uint64_t seconds;
    int status;
};

static bool parse(int argc, const char *const *argv, struct parsed *ret)
{
    struct cli c = {.command = "run", .signal_fd = -1};
    const struct cli_opt table[] = {
        {"flag", 'f', CLI_OPT_FLAG, &ret->flag, NULL, "", NULL},
        {"text", 'x', CLI_OPT_TEXT, &ret->text, "T", "", NULL},
        {"item", 0, CLI_OPT_LIST, &ret->list, "I", "", NULL},
        {"time", 't', CLI_OPT_SECONDS, &ret->seconds, "S", "", NULL},
    };
    const struct cli_opts opts = {table, ARRAY_SIZE(table), NULL};

    return cli_opts_parse(&c, &opts, argc, (char **)argv, &ret->words,
                          &ret->status);
}

#define PARSE(ret, ...)                                                       \
    parse((int)ARRAY_SIZE(((const char *[]){"run", __VA_ARGS__})),            \
          (const char *[]){"run", __VA_ARGS__}, (ret))

static void opts_parse_mixed(void **state)
{
    struct parsed p = {0};

    (void)state;
    assert_true(PARSE(&p, "a", "--flag", "--text=v=w", "-", "--item", "1",
                      "--item=2", "-t", "5", "--", "--flag"));
    assert_true(p.flag);
    assert_string_equal(p.text, "v=w");
    assert_int_equal(p.list.count, 2);
    assert_string_equal(p.list.items[1], "2");
    assert_int_equal(p.seconds, 5);
    assert_int_equal(p.words.count, 3);
    assert_string_equal(p.words.items[1], "-");
    assert_string_equal(p.words.items[2], "--flag");
}

static void opts_parse_value_may_look_like_a_flag(void **state)
{
    struct parsed p = {0};

    (void)state;
    assert_true(PARSE(&p, "-x", "--help", "-x-1"));
    assert_string_equal(p.text, "-1");
}

static void opts_parse_refuses(void **state)
{
    struct parsed p = {0};

    (void)state;
    assert_false(PARSE(&p, "--falg"));
    assert_int_equal(p.status, CLI_EXIT_USAGE);
    assert_false(PARSE(&p, "-z"));
    assert_false(PARSE(&p, "--text"));
    assert_false(PARSE(&p, "--flag=yes"));
    assert_false(PARSE(&p, "-t", "0"));
    assert_false(PARSE(&p, "-t", "5x"));
    assert_false(PARSE(&p, "-t", "999999"));
    assert_int_equal(p.status, CLI_EXIT_USAGE);
}

/* ---- render, remote, http, checks --------------------------------------- */

static void expect_sentence(const char *json, int status, const char *want)
{
    json_t *e cleanup(json_unref) = json_loads(json, 0, NULL);
    struct buf out cleanup(buf_done) = {0};

    assert_non_null(e);
    assert_int_equal(cli_outcome_exit(e), status);
    assert_int_equal(cli_outcome_sentence(e, &out), want != NULL);
    if (want)
        assert_string_equal(out.data, want);
}

static void outcome_sentences(void **state)
{
    (void)state;
    expect_sentence("{\"outcome\":\"ok\"}", CLI_EXIT_OK, NULL);
    expect_sentence("{\"outcome\":\"error\"}", CLI_EXIT_CODE, NULL);
    expect_sentence("{\"outcome\":\"timeout\",\"limit\":{\"name\":\"wall_s\","
                    "\"value\":2,\"peak\":2}}",
                    CLI_EXIT_TIMEOUT,
                    "the code ran out of time (wall_s: limit 2 s, peak 2 s)");
    expect_sentence("{\"outcome\":\"oom\",\"limit\":{\"name\":"
                    "\"memory_bytes\",\"value\":1073741824}}",
                    CLI_EXIT_LIMIT,
                    "the session ran out of memory (memory_bytes: limit "
                    "1 GiB)");
    expect_sentence(
        "{\"outcome\":\"limit\",\"error\":{\"message\":\"said so\"}}",
        CLI_EXIT_LIMIT, "said so");
    expect_sentence("{\"outcome\":\"crashed\"}", CLI_EXIT_KILLED,
                    "the interpreter crashed");
    expect_sentence("{\"outcome\":\"cancelled\"}", CLI_EXIT_CANCELLED,
                    "cancelled");
    expect_sentence("{\"outcome\":null}", CLI_EXIT_FAILED,
                    "the service did not say how it ended");
}

static void expect_split(const char *text, bool file, const char *left,
                         const char *right)
{
    char *got cleanup(mem_free) = NULL;
    const char *rest;

    cli_remote_split(text, file, &got, &rest);
    assert_string_equal(got, left);
    if (right)
        assert_string_equal(rest, right);
    else
        assert_null(rest);
}

static void remote_split_pairs(void **state)
{
    (void)state;
    expect_split("a.csv", true, "a.csv", NULL);
    expect_split("a.csv:in/b.csv", true, "a.csv", "in/b.csv");
    expect_split("a:b:c", true, "a:b", "c");
    expect_split("a:", true, "a:", NULL);
    expect_split(":a", true, ":a", NULL);
    expect_split("out.csv:here.csv", false, "out.csv", "here.csv");
    expect_split("sandbox:/mnt/data/x", false, "sandbox:/mnt/data/x", NULL);
    expect_split("sandbox:/mnt/data/x:y", false, "sandbox:/mnt/data/x", "y");
}

static void checks_line_fields(void **state)
{
    struct cli_checks *k cleanup(mem_free) = xcalloc(1, sizeof(*k));
    static const char good[] = "seccomp\tok\tyes\tfilter loads\t";
    static const char bad[] = "cgroup\tmissing\tyes\tnone\tmount one\nrest";

    (void)state;
    assert_true(cli_checks_line(k, good, strlen(good)));
    assert_true(cli_checks_line(k, bad, strcspn(bad, "\n")));
    assert_int_equal(k->count, 2);
    assert_true(k->rows[0].required);
    assert_string_equal(k->rows[0].why, "filter loads");
    assert_string_equal(k->rows[1].state, "missing");
    assert_string_equal(k->rows[1].fix, "mount one");
    assert_false(cli_checks_line(k, "hello", 5));
    assert_false(cli_checks_line(k, "a\tgood\tyes", 10));
    assert_false(cli_checks_line(k, "", 0));
}

/* ---- which service ------------------------------------------------------ */

/* Every combination, against the rules in words rather than the table. */
static void service_is_chosen_by_the_rules(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3u * CLI_ENDPOINTS * 4u; i++) {
        enum cli_need need = i % 3u;
        enum cli_endpoint at = i / 3u % CLI_ENDPOINTS;
        bool data = i / 3u / CLI_ENDPOINTS & 1u;
        bool flag = i / 3u / CLI_ENDPOINTS & 2u;
        struct cli_facts facts = {at, data, flag};
        enum cli_choice got = cli_choose(need, &facts);
        bool nothing = at == CLI_ENDPOINT_NONE && !data;
        bool usable = at == CLI_ENDPOINT_NAMED || at == CLI_ENDPOINT_ANSWERS;

        /* Throwaway: asked for, or no sign of a service; run and shell. */
        assert_int_equal(got == CLI_CHOICE_EMBED,
                         need == CLI_NEED_ANY && (flag || nothing));
        assert_int_equal(got == CLI_CHOICE_USE, !flag && usable);
        /* On the data directory: mcp alone, unless a service is there that
         * cannot be verified, or only one that belongs to somebody else. */
        assert_int_equal(got == CLI_CHOICE_START,
                         !flag && need == CLI_NEED_DATA &&
                             (at == CLI_ENDPOINT_NONE ||
                              at == CLI_ENDPOINT_SILENT ||
                              (at == CLI_ENDPOINT_HIDDEN && data)));
        if (at == CLI_ENDPOINT_UNTRUSTED && !flag)
            assert_int_equal(got, CLI_CHOICE_REFUSE);
    }
}

static void format_ago_steps_at_its_units(void **state)
{
    static const struct {
        int64_t seconds; /* before now */
        const char *text;
    } cases[] = {
        {0, "just now"},
        {1, "just now"},
        {2, "2 s ago"},
        {119, "119 s ago"},
        {120, "2 min ago"},
        {7199, "119 min ago"},
        {7200, "2 h ago"},
        {2 * 86400 - 1, "47 h ago"},
        {2 * 86400, "2 d ago"},
        {60 * 86400 - 1, "59 d ago"},
        {60 * 86400, "2 months ago"},
        {730 * 86400, "2 years ago"},
        {-1, "in 1 s"},
        {-7200, "in 2 h"},
    };
    const int64_t now = 4000000000000;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[24];

        assert_string_equal(
            cli_format_ago(now - cases[i].seconds * 1000, now, text),
            cases[i].text);
    }
}

static void completion_knows_the_language_and_what_was_used(void **state)
{
    struct cli_completion *k = cli_completion_new();
    char *first, *second;

    (void)state;
    cli_completion_learn(k, "totals = np.zeros(3); x = totals.sum()");
    first = cli_completion_match(k, true, "tot", 0);
    second = cli_completion_match(k, true, "tot", 1);
    assert_string_equal(first, "totals");
    assert_string_equal(second, "totals.sum");
    assert_null(cli_completion_match(k, true, "tot", 2));
    free(first);
    free(second);
    first = cli_completion_match(k, true, "np.z", 0);
    assert_string_equal(first, "np.zeros");
    free(first);
    first = cli_completion_match(k, true, "lamb", 0);
    assert_string_equal(first, "lambda");
    free(first);
    assert_null(cli_completion_match(k, false, "lamb", 0));
    cli_completion_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format_ago_steps_at_its_units),
        cmocka_unit_test(completion_knows_the_language_and_what_was_used),
        cmocka_unit_test(service_is_chosen_by_the_rules),
        cmocka_unit_test(sse_feed_any_chunks),
        cmocka_unit_test(sse_feed_line_ends),
        cmocka_unit_test(sse_feed_comments_and_odd_fields),
        cmocka_unit_test(sse_feed_byte_order_mark),
        cmocka_unit_test(sse_feed_id_lasts_name_does_not),
        cmocka_unit_test(sse_feed_drops_what_is_unfinished),
        cmocka_unit_test(sse_feed_stops_when_told),
        cmocka_unit_test(sse_feed_refuses_endless_line),
        cmocka_unit_test(lines_python_complete),
        cmocka_unit_test(lines_python_incomplete),
        cmocka_unit_test(lines_shell_complete),
        cmocka_unit_test(lines_shell_incomplete),
        cmocka_unit_test(format_duration_units),
        cmocka_unit_test(format_nearest_names),
        cmocka_unit_test(table_print_aligns),
        cmocka_unit_test(table_row_shows_no_control),
        cmocka_unit_test(filter_feed_keeps_text_and_colour),
        cmocka_unit_test(filter_feed_drops_control),
        cmocka_unit_test(filter_feed_refuses_long_sequence),
        cmocka_unit_test(values_size_units),
        cmocka_unit_test(opts_parse_mixed),
        cmocka_unit_test(opts_parse_value_may_look_like_a_flag),
        cmocka_unit_test(opts_parse_refuses),
        cmocka_unit_test(outcome_sentences),
        cmocka_unit_test(remote_split_pairs),
        cmocka_unit_test(checks_line_fields),
    };

    (void)setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
