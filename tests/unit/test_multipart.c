/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of http/multipart.c: forms cut into pieces of every size, as
 * clients write them, at each limit, and malformed in every way we know.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "http/http.h"

#define TYPE "multipart/form-data; boundary=XX"

static const char sniffed[] = "the type is wrong, the body tells";

/* A body that comes in pieces of at most `piece` bytes. */
struct source {
    const char *bytes;
    size_t len, at, piece;
};

static ssize_t read_source(void *ctx, void *bytes, size_t len,
                           struct error *err)
{
    struct source *s = ctx;
    size_t n = MIN(MIN(len, s->piece), s->len - s->at);

    (void)err;
    assert_true(len > 0);
    memcpy(bytes, s->bytes + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

/* What a form came to: "name|filename|type|bytes\n" for each part, or why it
 * was refused. */
static char *parse(const char *type, const char *bytes, size_t len,
                   size_t piece)
{
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    struct source source = {bytes, len, 0, piece};
    struct arena *arena = arena_new();
    struct buf out = {0};
    struct http_part part;
    struct error err = {0};
    char chunk[700];
    ssize_t n;
    int r =
        type == sniffed
            ? http_multipart_sniff(read_source, &source, arena, &m, &err)
            : http_multipart_new(type, read_source, &source, arena, &m, &err);

    while (r == 0 && (r = http_multipart_next(m, &part, &err)) > 0) {
        buf_addf(&out, "%s|%s|%s|", part.name,
                 part.filename ? part.filename : "-",
                 part.type ? part.type : "-");
        while ((n = http_multipart_read(m, chunk, sizeof(chunk), &err)) > 0)
            buf_add(&out, chunk, (size_t)n);
        buf_adds(&out, "\n");
        r = n < 0 ? (int)n : 0;
    }
    if (r < 0) {
        assert_int_equal(err.code, ERR_INVALID);
        buf_reset(&out);
        buf_addf(&out, "refused: %s", err.message);
    }
    arena_free(arena);
    buf_adds(&out, "");
    return buf_take(&out, NULL);
}

static void expect_as(const char *type, const char *form, const char *want)
{
    static const size_t pieces[] = {1, 2, 3, 7, 64, 1000000};

    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        char *got cleanup(mem_free) =
            parse(type, form, strlen(form), pieces[i]);

        if (!strstr(got, want))
            fail_msg("in pieces of %zu: wanted '%s', got '%s'", pieces[i],
                     want, got);
    }
}

static void expect(const char *form, const char *want)
{
    expect_as(TYPE, form, want);
}

#define PART(head, body) "--XX\r\n" head "\r\n\r\n" body "\r\n"
#define NAMED "Content-Disposition: form-data; name=\"f\"; filename=\"a.txt\""
#define END "--XX--\r\n"

static void forms_arrive_whole(void **state)
{
    (void)state;
    expect(PART(NAMED, "hello") END, "f|a.txt|-|hello\n");
    expect(PART(NAMED, "") END, "f|a.txt|-|\n");
    expect(PART(NAMED "\r\nContent-Type: text/csv", "x")
               PART("content-disposition: form-data; name=g", "y") END,
           "f|a.txt|text/csv|x\ng|-|-|y\n");
    expect("before\r\n" PART(NAMED, "x") END "after", "f|a.txt|-|x\n");
    expect(END, "");
    /* What only looks like a boundary is the file's. */
    expect(PART(NAMED, "\r\n--X\r\n--\r\r\n-XX --XX") END,
           "f|a.txt|-|\r\n--X\r\n--\r\r\n-XX --XX\n");
    expect(PART(NAMED, "\r\n") END, "f|a.txt|-|\r\n\n");
    expect("--XX \t\r\n" NAMED "\r\n\r\nx\r\n" END, "f|a.txt|-|x\n");
}

static void zero_bytes_are_kept(void **state)
{
    static const char form[] = PART(NAMED, "a\0b\0") END;
    char *got cleanup(mem_free) = parse(TYPE, form, sizeof(form) - 1, 5);

    (void)state;
    assert_memory_equal(got, "f|a.txt|-|a\0b\0\n", 15);
}

static void names_are_read_as_clients_write_them(void **state)
{
    static const struct {
        const char *params, *want;
    } cases[] = {
        {"name=\"a b\"; filename=\"c;d=e\"", "a b|c;d=e|"},
        {"name=f; filename=plain", "f|plain|"},
        {"NAME=f; FileName=\"x\"", "f|x|"},
        {"name=\"f\"; filename=\"a\\\"b\\\\c\\d\"", "f|a\"b\\c\\d|"},
        {"name=\"f\"; filename=\"a%22b%41\"", "f|a\"b%41|"},
        {"name=\"f\"; filename=\"a%0D%0Ab%0d%0a%2\"", "f|a\r\nb\r\n%2|"},
        {"name=\"%22%0A\"", "\"\n|-|"},
        {"name=\"f\"; filename=\"\xc3\xbc/\xf0\x9f\x98\x80\"",
         "f|\xc3\xbc/\xf0\x9f\x98\x80|"},
        {"name=f; filename=x; filename*=UTF-8''%c3%bc%20y", "f|\xc3\xbc y|"},
        {"name=f; filename*=utf-8'de'z", "f|z|"},
        {"name=file; filename=a.txt; filename*=utf-8''a.txt", "file|a.txt|"},
        {"name=file; filename*=utf-8''%F0%9F%98%80.csv; filename=old",
         "file|\xf0\x9f\x98\x80.csv|"},
        {"name=file; filename=\"=?utf-8?B?w7w=?=\"; filename*=utf-8''%C3%BC",
         "file|\xc3\xbc|"},
        {"name=f; filename*=\"utf-8''a%20b\"", "f|a b|"},
        {"name=f; filename=x; filename*=iso-8859-1''%FC", "f|x|"},
        {"name=f; filename=\xc3\xbc.txt", "f|\xc3\xbc.txt|"},
        {"name=expires_after[anchor]", "expires_after[anchor]|-|"},
        {"name=f; filename=/mnt/data/a.txt", "f|/mnt/data/a.txt|"},
        {"name=f; filename=\"\"", "f||"},
        {"name=\"f\"  ;  filename=\"x\"  ", "f|x|"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf form cleanup(buf_done) = {0};

        buf_addf(&form,
                 "--XX\r\nContent-Disposition: form-data; %s\r\n\r\nx\r\n" END,
                 cases[i].params);
        expect(form.data, cases[i].want);
    }
}

/* Each as one known client sends it. */
static void forms_of_clients(void **state)
{
    (void)state;
    /* A browser or undici; the Azure CLI leaves the type out. */
    expect_as("multipart/form-data; boundary=----formdata-undici-0123",
              "------formdata-undici-0123\r\n"
              "Content-Disposition: form-data; name=\"purpose\"\r\n\r\n"
              "assistants\r\n"
              "------formdata-undici-0123\r\n"
              "Content-Disposition: form-data; name=\"file\"; "
              "filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nx\r\n"
              "------formdata-undici-0123--\r\n",
              "purpose|-|-|assistants\nfile|a.txt|text/plain|x\n");
    /* aiohttp: the type first. */
    expect(PART("Content-Type: text/csv\r\nContent-Disposition: form-data; "
                "name=\"file\"; filename=\"a.csv\"",
                "1,2") END,
           "file|a.csv|text/csv|1,2\n");
    expect(PART("Content-Type: application/octet-stream\r\n"
                "Content-Disposition: form-data; name=\"file\"; "
                "filename=\"\xc3\xbc\"; filename*=utf-8''%C3%BC\r\n"
                "Content-Length: 1",
                "x") END,
           "file|\xc3\xbc|application/octet-stream|x\n");
    /* .NET: no quotes in the part, but around the boundary. */
    expect_as("multipart/form-data; "
              "boundary=\"b4cd2f1e-0000-4000-8000-00000000abcd\"",
              "--b4cd2f1e-0000-4000-8000-00000000abcd\r\n"
              "Content-Type: application/octet-stream\r\n"
              "Content-Disposition: form-data; name=file; filename=a.txt; "
              "filename*=utf-8''a.txt\r\n\r\nhi\r\n"
              "--b4cd2f1e-0000-4000-8000-00000000abcd--\r\n",
              "file|a.txt|application/octet-stream|hi\n");
}

static void boundary_is_taken_from_the_first_line(void **state)
{
    static const char *const refused[] = {
        "",
        "-",
        "--",
        "--\r\n",
        "--\r\n" NAMED "\r\n\r\nx\r\n----",
        "--XX",
        "--XX\n" NAMED "\n\nx\n--XX--\n",
        "{\"a\": 1}",
        "\r\n" PART(NAMED, "x") END,
        "before\r\n" PART(NAMED, "x") END,
        "--\x01\r\n" NAMED "\r\n\r\nx\r\n--\x01--",
        "--XX\r\n" NAMED "\r\n\r\nx\r\n",
        END,
    };

    (void)state;
    expect_as(sniffed, PART(NAMED, "hello") END, "f|a.txt|-|hello\n");
    expect_as(sniffed, "--XX \t\r\n" NAMED "\r\n\r\nx\r\n" END,
              "f|a.txt|-|x\n");
    expect_as(sniffed,
              PART(NAMED, "\r\n--X\r\n") PART(NAMED "\r\nX: y", "z") END,
              "f|a.txt|-|\r\n--X\r\n\nf|a.txt|-|z\n");
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        expect_as(sniffed, refused[i], "refused: ");
}

static void H3_first_line_is_bounded(void **state)
{
    static const struct {
        size_t len, blanks;
        bool good;
    } cases[] = {{1, 0, true},
                 {HTTP_BOUNDARY_MAX - 1, 0, true},
                 {HTTP_BOUNDARY_MAX, 0, true},
                 {HTTP_BOUNDARY_MAX, 64, true},
                 {HTTP_BOUNDARY_MAX, 65, false},
                 {HTTP_BOUNDARY_MAX + 1, 0, false},
                 {1, 64, true},
                 {1, 1000, false},
                 {1000000, 0, false}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t piece = 1; piece < 100000; piece *= 313) {
            char *mark cleanup(mem_free) = xcalloc(1, cases[i].len + 1);
            struct buf form cleanup(buf_done) = {0};
            char *got cleanup(mem_free) = NULL;

            memset(mark, 'b', cases[i].len);
            buf_addf(&form, "--%s%*s\r\n" NAMED "\r\n\r\nx\r\n--%s--", mark,
                     (int)cases[i].blanks, "", mark);
            got = parse(sniffed, form.data, form.len, piece);
            assert_int_equal(strstr(got, "refused") == NULL, cases[i].good);
        }
}

static void sniffing_reads_no_further_than_it_must(void **state)
{
    static char endless[1 << 20];
    struct source source = {endless, sizeof(endless), 0, 100};
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    struct arena *arena = arena_new();
    struct error err;

    (void)state;
    memset(endless, '-', sizeof(endless));
    assert_int_equal(
        http_multipart_sniff(read_source, &source, arena, &m, &err),
        -ERR_INVALID);
    assert_null(m);
    assert_true(source.at <= 300);
    arena_free(arena);
}

static void H3_malformed_forms_are_refused(void **state)
{
    static const char *const forms[] = {
        "",
        "no boundary at all",
        "--XX",
        "--XX\r\n",
        "--XX\r\n" NAMED,
        "--XX\r\n" NAMED "\r\n\r\nx",
        "--XX\r\n" NAMED "\r\n\r\nx\r\n--XX",
        "--XX\r\n" NAMED "\r\n\r\nx\r\n--XX-",
        "--XXY\r\n" NAMED "\r\n\r\nx\r\n" END,
        "--XX\n" NAMED "\n\nx\n--XX--\n",
        PART("", "x") END,
        PART("Content-Type: text/plain", "x") END,
        PART("nonsense", "x") END,
        PART(": x", "x") END,
        PART(" folded: x", "x") END,
        PART(NAMED "\r\n folded", "x") END,
        PART(NAMED "\r\n" NAMED, "x") END,
        PART("Content-Disposition: attachment; name=f", "x") END,
        PART("Content-Disposition: form-data", "x") END,
        PART("Content-Disposition: form-data; name", "x") END,
        PART("Content-Disposition: form-data; =x", "x") END,
        PART("Content-Disposition: form-data; name=\"x", "x") END,
        PART("Content-Disposition: form-data; name=\"x\\\"", "x") END,
        PART("Content-Disposition: form-data; name=x y", "x") END,
        PART("Content-Disposition: form-data; name=a; name=b", "x") END,
        PART("Content-Disposition: form-data; name=f; filename*=latin1''x",
             "x") END,
        PART("Content-Disposition: form-data; name=f; filename*=UTF-8''%zz",
             "x") END,
        PART("Content-Disposition: form-data; name=f; filename*=UTF-8''%00",
             "x") END,
        PART("Content-Disposition: form-data; name=\"a\nb\"", "x") END,
        PART("X: \x01", "x") END,
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
        expect(forms[i], "refused: ");
}

static void zero_byte_in_a_header_is_refused(void **state)
{
    static const char form[] = PART("X: a\0b\r\n" NAMED, "x") END;
    char *got cleanup(mem_free) = parse(TYPE, form, sizeof(form) - 1, 5);

    (void)state;
    assert_non_null(strstr(got, "refused: "));
}

static void boundary_is_bounded(void **state)
{
    static const struct {
        size_t len;
        bool good;
    } cases[] = {{0, false},
                 {1, true},
                 {HTTP_BOUNDARY_MAX - 1, true},
                 {HTTP_BOUNDARY_MAX, true},
                 {HTTP_BOUNDARY_MAX + 1, false},
                 {1000, false}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (int quoted = 0; quoted < 2; quoted++) {
            char *mark cleanup(mem_free) = xcalloc(1, cases[i].len + 1);
            struct buf type cleanup(buf_done) = {0};
            struct buf form cleanup(buf_done) = {0};
            char *got cleanup(mem_free) = NULL;

            memset(mark, 'b', cases[i].len);
            buf_addf(&type, "multipart/form-data; boundary=%s%s%s",
                     quoted ? "\"" : "", mark, quoted ? "\"" : "");
            buf_addf(&form, "--%s\r\n" NAMED "\r\n\r\nx\r\n--%s--", mark,
                     mark);
            got = parse(type.data, form.data, form.len, 11);
            assert_int_equal(strstr(got, "refused") == NULL, cases[i].good);
        }
}

static void other_types_are_refused(void **state)
{
    static const char *const types[] = {
        NULL,
        "",
        "text/plain",
        "multipart/mixed; boundary=XX",
        "multipart/form-data",
        "multipart/form-data; boundary",
        "multipart/form-data; boundary=\"a",
        "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=\"a\x01\"",
        "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-databoundary=a",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        char *got cleanup(mem_free) = parse(types[i], END, sizeof(END) - 1, 9);

        assert_non_null(strstr(got, "refused"));
    }
}

static void H3_part_headers_are_bounded(void **state)
{
    static const struct {
        size_t len;
        bool good;
    } cases[] = {{HTTP_PART_HEADER_MAX - 1, true},
                 {HTTP_PART_HEADER_MAX, true},
                 {HTTP_PART_HEADER_MAX + 1, false},
                 {(size_t)1 << 20, false}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t piece = 1; piece < 100000; piece *= 313) {
            struct buf form cleanup(buf_done) = {0};
            char *got cleanup(mem_free) = NULL;
            size_t from;

            buf_adds(&form, "--XX\r\n");
            from = form.len;
            buf_adds(&form, NAMED "\r\nX: ");
            while (form.len - from < cases[i].len)
                buf_adds(&form, "y");
            buf_adds(&form, "\r\n\r\nx\r\n" END);
            got = parse(TYPE, form.data, form.len, piece);
            if (cases[i].good)
                assert_string_equal(got, "f|a.txt|-|x\n");
            else
                assert_non_null(strstr(got, "longer than 8192 bytes"));
        }
}

static void H3_parts_are_bounded(void **state)
{
    (void)state;
    for (unsigned count = HTTP_PARTS_MAX - 1; count <= HTTP_PARTS_MAX + 1;
         count++) {
        struct buf form cleanup(buf_done) = {0};
        char *got cleanup(mem_free) = NULL;

        for (unsigned i = 0; i < count; i++)
            buf_adds(&form, PART(NAMED, "x"));
        buf_adds(&form, END);
        got = parse(TYPE, form.data, form.len, 1000);
        assert_int_equal(strstr(got, "more than 64 parts") != NULL,
                         count > HTTP_PARTS_MAX);
    }
}

static void large_parts_and_skipped_ones(void **state)
{
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    struct buf form cleanup(buf_done) = {0};
    struct arena *arena = arena_new();
    struct source source;
    struct http_part part;
    struct error err;
    size_t total = 0;
    char chunk[5000];
    ssize_t n;

    (void)state;
    buf_adds(&form, "--XX\r\n" NAMED "\r\n\r\n");
    for (int i = 0; i < 50000; i++)
        buf_adds(&form, "\r\n--XY 0123456789");
    buf_adds(&form, "\r\n" PART(NAMED, "second") END);
    for (int skip = 0; skip < 2; skip++) {
        source = (struct source){form.data, form.len, 0, 70000};
        assert_int_equal(
            http_multipart_new(TYPE, read_source, &source, arena, &m, &err),
            0);
        assert_int_equal(http_multipart_next(m, &part, &err), 1);
        while (!skip &&
               (n = http_multipart_read(m, chunk, sizeof(chunk), &err)) > 0)
            total += (size_t)n;
        assert_int_equal(http_multipart_next(m, &part, &err), 1);
        assert_int_equal(http_multipart_read(m, chunk, 3, &err), 3);
        assert_memory_equal(chunk, "sec", 3);
        assert_int_equal(http_multipart_next(m, &part, &err), 0);
        assert_int_equal(http_multipart_next(m, &part, &err), 0);
        assert_int_equal(http_multipart_read(m, chunk, 3, &err), 0);
        http_multipart_free(&m);
    }
    assert_int_equal(total, 50000 * strlen("\r\n--XY 0123456789"));
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_arrive_whole),
        cmocka_unit_test(zero_bytes_are_kept),
        cmocka_unit_test(names_are_read_as_clients_write_them),
        cmocka_unit_test(forms_of_clients),
        cmocka_unit_test(boundary_is_taken_from_the_first_line),
        cmocka_unit_test(H3_first_line_is_bounded),
        cmocka_unit_test(sniffing_reads_no_further_than_it_must),
        cmocka_unit_test(H3_malformed_forms_are_refused),
        cmocka_unit_test(zero_byte_in_a_header_is_refused),
        cmocka_unit_test(boundary_is_bounded),
        cmocka_unit_test(other_types_are_refused),
        cmocka_unit_test(H3_part_headers_are_bounded),
        cmocka_unit_test(H3_parts_are_bounded),
        cmocka_unit_test(large_parts_and_skipped_ones),
    };

    return cmocka_run_group_tests_name("multipart", tests, NULL, NULL);
}
