/* SPDX-License-Identifier: Apache-2.0 */
/* The command line's files, workspaces and times: what needs no service. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/common.h"

static const char WS[] = "ws_00112233445566778899aabbccddeeff";
static const char SESSION[] = "sess_00112233445566778899aabbccddeeff";
static const char FILE_ID[] = "file_00112233445566778899aabbccddeeff";

/* ---- values ------------------------------------------------------------- */

static void values_duration_units(void **state)
{
    static const struct {
        const char *text;
        int result;
        uint64_t seconds;
    } cases[] = {
        {"1", 0, 1},
        {"90s", 0, 90},
        {"15m", 0, 900},
        {"2h", 0, 7200},
        {"7d", 0, 604800},
        {"4w", 0, 2419200},
        {"36600d", 0, 36600ull * 86400},
        {"36601d", -ERANGE, 0},
        {"0", -ERANGE, 0},
        {"0h", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"1y", -EINVAL, 0},
        {"1h30", -EINVAL, 0},
        {"99999999999999999999", -ERANGE, 0},
        {"9999999999999999999w", -ERANGE, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t got = 0;

        assert_int_equal(cli_values_duration(cases[i].text, &got),
                         cases[i].result);
        assert_int_equal(got, cases[i].seconds);
    }
}

static void values_count_limits(void **state)
{
    uint64_t v = 7;

    (void)state;
    assert_int_equal(cli_values_count("0", &v), 0);
    assert_int_equal(v, 0);
    assert_int_equal(cli_values_count("1000000000", &v), 0);
    assert_int_equal(v, 1000000000);
    assert_int_equal(cli_values_count("1000000001", &v), -ERANGE);
    assert_int_equal(cli_values_count("1k", &v), -EINVAL);
    assert_int_equal(cli_values_count("", &v), -EINVAL);
    assert_int_equal(v, 1000000000);
}

static void values_time_forms(void **state)
{
    static const struct {
        const char *text;
        int result;
        int64_t ms;
    } cases[] = {
        {"2026-01-31", 0, 1769817600000},
        {"2026-01-31T12:00", 0, 1769860800000},
        {"2026-01-31 12:00", 0, 1769860800000},
        {"2026-01-31T12:00:01Z", 0, 1769860801000},
        {"2026-01-31T12:00:01.5", 0, 1769860801500},
        {"2026-01-31T12:00:01.123Z", 0, 1769860801123},
        {"2h", 0, 1769860800000 - 7200000},
        {"1", 0, 1769860800000 - 1000},
        {"2026-02-30", -ERANGE, 0},
        {"1969-12-31", -ERANGE, 0},
        {"2026-01-31T25:00", -EINVAL, 0},
        {"2026-01-31x", -EINVAL, 0},
        {"2026-01-31T12:00:01.", -EINVAL, 0},
        {"yesterday", -EINVAL, 0},
        {"", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t got = 0;
        int r = cli_values_time(cases[i].text, 1769860800000, &got);

        if (r != cases[i].result || got != cases[i].ms)
            fail_msg("%s: %d %lld", cases[i].text, r, (long long)got);
    }
}

/* ---- places ------------------------------------------------------------- */

static void place_is_address_forms(void **state)
{
    (void)state;
    assert_true(cli_place_is_address("reports:q3.csv"));
    assert_true(cli_place_is_address("reports:"));
    assert_true(cli_place_is_address("a b:c:d"));
    assert_false(cli_place_is_address("reports"));
    assert_false(cli_place_is_address(":x"));
    assert_false(cli_place_is_address("./a:b"));
    assert_false(cli_place_is_address("/tmp/a:b"));
    assert_false(cli_place_is_address(""));
}

static void expect_place(const char *text, const char *session,
                         enum cli_place_kind kind, const char *id,
                         const char *path, const char *url)
{
    struct cli_place p cleanup(cli_place_done) = {0};
    struct cli c = {.signal_fd = -1};
    char *got cleanup(mem_free) = NULL;
    struct error err;

    assert_int_equal(cli_place_find(&c, text, session, &p, &err), 0);
    assert_int_equal(p.kind, kind);
    assert_string_equal(p.id, id);
    assert_string_equal(p.path, path);
    got = cli_place_file_url(&p);
    assert_string_equal(got, url);
}

/* Ids need no service; names do. */
static void place_find_by_ids(void **state)
{
    char *text cleanup(mem_free) = xasprintf("%s:a/b c.csv", WS);
    char *rooted cleanup(mem_free) = xasprintf("%s:/a", WS);
    char *colon cleanup(mem_free) = xasprintf("%s:a:b", WS);
    char *u1 cleanup(mem_free) =
        xasprintf("/api/workspaces/%s/files/a/b%%20c.csv", WS);
    char *u2 cleanup(mem_free) = xasprintf("/api/workspaces/%s/files/a", WS);
    char *u3 cleanup(mem_free) =
        xasprintf("/api/workspaces/%s/files/a%%3Ab", WS);
    char *u4 cleanup(mem_free) =
        xasprintf("/api/sessions/%s/files/x", SESSION);
    char *u5 cleanup(mem_free) = xasprintf("/api/files/%s/content", FILE_ID);
    char *u6 cleanup(mem_free) = xasprintf(
        "/api/sessions/%s/files/x%%20y%%3F%%23%%25%%C3%%A9", SESSION);

    (void)state;
    expect_place(text, NULL, CLI_PLACE_WORKSPACE, WS, "a/b c.csv", u1);
    expect_place(rooted, NULL, CLI_PLACE_WORKSPACE, WS, "a", u2);
    expect_place(colon, NULL, CLI_PLACE_WORKSPACE, WS, "a:b", u3);
    expect_place("/mnt/data/x", SESSION, CLI_PLACE_SESSION, SESSION, "x", u4);
    expect_place("sandbox:/mnt/data/x", SESSION, CLI_PLACE_SESSION, SESSION,
                 "x", u4);
    expect_place("./x", SESSION, CLI_PLACE_SESSION, SESSION, "x", u4);
    expect_place("x y?#%\xc3\xa9", SESSION, CLI_PLACE_SESSION, SESSION,
                 "x y?#%\xc3\xa9", u6);
    expect_place(FILE_ID, NULL, CLI_PLACE_FILE, FILE_ID, "", u5);
}

static void place_names(void **state)
{
    (void)state;
    assert_string_equal(cli_place_base_name("a/b/c.txt"), "c.txt");
    assert_string_equal(cli_place_base_name("c.txt"), "c.txt");
    assert_string_equal(cli_place_base_name("a/"), "");
    assert_string_equal(cli_place_below_data("/mnt/data/a"), "a");
    assert_string_equal(cli_place_below_data("/etc/a"), "/etc/a");
}

/* ---- requests ----------------------------------------------------------- */

static void http_query_is_escaped(void **state)
{
    struct buf url cleanup(buf_done) = {0};

    (void)state;
    buf_adds(&url, "/api/search");
    cli_http_query(&url, "q", "a&b=c \xc3\xa9/+");
    cli_http_query(&url, "none", NULL);
    cli_http_query(&url, "empty", "");
    cli_http_query_number(&url, "limit", 5);
    cli_http_query_number(&url, "zero", 0);
    cli_http_query_time(&url, "from", 1769860801123);
    cli_http_query_time(&url, "to", 0);
    assert_string_equal(url.data,
                        "/api/search?q=a%26b%3Dc%20%C3%A9%2F%2B&limit=5"
                        "&from=2026-01-31T12%3A00%3A01.123Z");
}

static void upload_headers_as_asked(void **state)
{
    struct cli_upload what = {
        .if_match = "ver_1", .create = true, .lock = "secret"};
    struct buf room cleanup(buf_done) = {0}, none cleanup(buf_done) = {0};
    const char *lines[CLI_UPLOAD_HEADERS];

    (void)state;
    cli_upload_headers(&what, &room, lines);
    assert_string_equal(lines[0], "If-Match: ver_1");
    assert_string_equal(lines[1], "If-None-Match: *");
    assert_string_equal(lines[2], "X-Glovebox-Lock: secret");
    assert_null(lines[3]);
    cli_upload_headers(&(struct cli_upload){.local = "x"}, &none, lines);
    assert_null(lines[0]);
}

static void multipart_part_size_covers_all(void **state)
{
    static const struct {
        uint64_t size, part;
    } cases[] = {{1, 64}, {63, 64}, {64, 64}, {65, 64}, {1000, 7}, {128, 64}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t sum = 0, n = 1, len;

        while ((len = cli_multipart_part_size(cases[i].size, cases[i].part,
                                              n)) > 0) {
            assert_true(len <= cases[i].part);
            sum += len;
            n++;
        }
        assert_int_equal(sum, cases[i].size);
        assert_int_equal(n - 1,
                         (cases[i].size + cases[i].part - 1) / cases[i].part);
    }
}

/* ---- what people read --------------------------------------------------- */

static void file_summary_lines_tell_fates(void **state)
{
    static const char text[] =
        "{\"workspace\":\"ws_1\",\"files\":{"
        "\"created\":[{\"path\":\"a.csv\",\"size\":1536,"
        "\"file_id\":\"file_1\"}],"
        "\"modified\":[],\"deleted\":[{\"path\":\"old\",\"size\":0,"
        "\"file_id\":\"file_2\"}],"
        "\"renamed\":[{\"path\":\"n\",\"from\":\"o\",\"size\":2,"
        "\"file_id\":\"file_3\"}],"
        "\"conflicts\":[{\"path\":\"b (conflict).txt\",\"wanted\":\"b.txt\"}],"
        "\"refused\":[{\"path\":\"c\",\"reason\":\"locked by key_1\"}],"
        "\"skipped\":[{\"path\":\"pipe\",\"reason\":\"not a file\"}]}}";
    json_t *e cleanup(json_unref) = cli_json_load(text, strlen(text));
    struct buf all cleanup(buf_done) = {0}, bad cleanup(buf_done) = {0},
                   few cleanup(buf_done) = {0};

    (void)state;
    cli_file_summary_lines(e, true, 100, &all);
    assert_string_equal(all.data,
                        "created a.csv, 1.5 KiB, file_1\n"
                        "renamed n (from o), 2 B, file_3\n"
                        "deleted old, file_2\n"
                        "conflict: b.txt, kept as b (conflict).txt: others "
                        "changed it meanwhile\n"
                        "not kept: c: locked by key_1\n"
                        "not kept: pipe: not a file\n"
                        "in workspace ws_1\n");
    cli_file_summary_lines(e, false, 100, &bad);
    assert_null(strstr(bad.data, "created"));
    assert_non_null(strstr(bad.data, "not kept: c: locked by key_1\n"));
    cli_file_summary_lines(e, true, 2, &few);
    assert_string_equal(few.data, "created a.csv, 1.5 KiB, file_1\n"
                                  "renamed n (from o), 2 B, file_3\n"
                                  "and 4 more\nin workspace ws_1\n");
    assert_int_equal(cli_file_summary_count(e), 1);
}

static void search_line_marks_hits(void **state)
{
    static const char text[] =
        "{\"workspace\":\"ws_1\",\"path\":\"a.py\",\"line\":12,\"snippet\":"
        "\"  x =\\n\\u2068total\\u2069\\t(1)\\u001b[2J \"}";
    json_t *hit cleanup(json_unref) = cli_json_load(text, strlen(text));
    struct buf plain cleanup(buf_done) = {0}, color cleanup(buf_done) = {0};

    (void)state;
    cli_search_line(hit, "ws_1", false, &plain);
    assert_string_equal(plain.data, "ws_1:a.py:12: x = total (1) [2J\n");
    cli_search_line(hit, "reports", true, &color);
    assert_string_equal(color.data, "\033[35mreports:a.py\033[0m:12: x = "
                                    "\033[1;31mtotal\033[0m (1) [2J\n");
}

static void search_line_of_pages_and_names(void **state)
{
    static const char page[] = "{\"path\":\"a.pdf\",\"line\":null,\"page\":3,"
                               "\"snippet\":\"x\"}";
    static const char name[] = "{\"path\":\"a.bin\",\"snippet\":\"\"}";
    json_t *one cleanup(json_unref) = cli_json_load(page, strlen(page));
    json_t *two cleanup(json_unref) = cli_json_load(name, strlen(name));
    struct buf out cleanup(buf_done) = {0};

    (void)state;
    cli_search_line(one, "w", false, &out);
    cli_search_line(two, "w", false, &out);
    assert_string_equal(out.data, "w:a.pdf:page 3: x\nw:a.bin:\n");
}

static void restore_line_is_exact(void **state)
{
    uint64_t done = 0, total = 0;
    char what[48] = "";

    (void)state;
    assert_true(cli_restore_line("restore blobs 3 10", what, &done, &total));
    assert_string_equal(what, "blobs");
    assert_int_equal(done, 3);
    assert_int_equal(total, 10);
    assert_false(cli_restore_line("restore blobs 3", what, &done, &total));
    assert_false(cli_restore_line("restore a b c", what, &done, &total));
    assert_false(cli_restore_line("restore x 1 2 3", what, &done, &total));
    assert_false(cli_restore_line("", what, &done, &total));
}

/* ---- folders ------------------------------------------------------------ */

static void touch(const char *dir, const char *name, const char *text)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", dir, name);
    int fd cleanup(fd_close) =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void make_dir(const char *dir, const char *name)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", dir, name);

    assert_int_equal(mkdir(path, 0700), 0);
}

static void tree_read_skips_what_is_no_file(void **state)
{
    char dir[] = "/tmp/glovebox-test-XXXXXX";
    char *link_path cleanup(mem_free) = NULL, *pipe cleanup(mem_free) = NULL;
    struct cli_tree tree cleanup(cli_tree_done) = {0};
    struct error err;

    (void)state;
    assert_non_null(mkdtemp(dir));
    make_dir(dir, "b");
    make_dir(dir, "b/empty");
    touch(dir, "z", "123");
    touch(dir, "b/y", "45");
    touch(dir, "b/x", "");
    link_path = xasprintf("%s/link", dir);
    pipe = xasprintf("%s/pipe", dir);
    assert_int_equal(symlink("/etc", link_path), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(cli_tree_read(dir, &tree, &err), 0);
    assert_int_equal(tree.count, 3);
    assert_string_equal(tree.paths[0], "b/x");
    assert_string_equal(tree.paths[1], "b/y");
    assert_string_equal(tree.paths[2], "z");
    assert_int_equal(tree.bytes, 5);
    assert_int_equal(tree.skipped, 2);
    assert_true(cli_tree_read("/nonexistent-folder", &tree, &err) < 0);
    assert_int_equal(err.code, ERR_INVALID);
    for (const char *const *p =
             (const char *const[]){"b/x", "b/y", "b/empty", "b", "z", "link",
                                   "pipe", "", NULL};
         *p; p++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", dir, *p);

        assert_int_equal(remove(path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_duration_units),
        cmocka_unit_test(values_count_limits),
        cmocka_unit_test(values_time_forms),
        cmocka_unit_test(place_is_address_forms),
        cmocka_unit_test(place_find_by_ids),
        cmocka_unit_test(place_names),
        cmocka_unit_test(http_query_is_escaped),
        cmocka_unit_test(upload_headers_as_asked),
        cmocka_unit_test(multipart_part_size_covers_all),
        cmocka_unit_test(file_summary_lines_tell_fates),
        cmocka_unit_test(search_line_marks_hits),
        cmocka_unit_test(search_line_of_pages_and_names),
        cmocka_unit_test(restore_line_is_exact),
        cmocka_unit_test(tree_read_skips_what_is_no_file),
    };

    return cmocka_run_group_tests_name("cli_files", tests, NULL, NULL);
}
