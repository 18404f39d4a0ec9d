/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress/http: heads, bodies, addresses, paths and TLS hellos are taken in
 * exactly one reading, at any cut of their bytes, and what has two readings is
 * refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "egress/http.h"

static struct span span(const char *text)
{
    return (struct span){text, strlen(text)};
}

/* ---- heads -------------------------------------------------------------- */

static const char *request(const char *text, struct http_head *h)
{
    ssize_t n = egress_head_end(text, strlen(text));

    assert_int_equal(n, strlen(text));
    return egress_head_request(text, (size_t)n, h);
}

static void head_end_is_found_at_any_cut(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nA: b\r\n\r\nrest";

    (void)state;
    for (size_t i = 0; i < sizeof(text); i++)
        assert_int_equal(egress_head_end(text, i), i >= 24 ? 24 : 0);
    assert_int_equal(egress_head_end(NULL, 0), 0); /* it said nothing yet */
    assert_int_equal(egress_head_end("GET /\n", 6), -EBADMSG);
    assert_int_equal(egress_head_end("a\r\nb\n", 5), -EBADMSG);
    assert_int_equal(egress_head_end("\n", 1), -EBADMSG);
    assert_int_equal(egress_head_end("\r\n", 2), -EBADMSG);
}

static void head_is_at_most_32_kib(void **state)
{
    struct buf b cleanup(buf_done) = {0};

    (void)state;
    buf_adds(&b, "GET / HTTP/1.1\r\nA: ");
    while (b.len < HTTP_HEAD_MAX - 4)
        buf_adds(&b, "x");
    buf_adds(&b, "\r\n\r\n");
    assert_int_equal(b.len, HTTP_HEAD_MAX);
    assert_int_equal(egress_head_end(b.data, b.len), HTTP_HEAD_MAX);
    assert_int_equal(egress_head_end(b.data, b.len - 1), 0);
    b.len -= 4;
    buf_adds(&b, "x\r\n\r\n");
    assert_int_equal(egress_head_end(b.data, b.len), -EMSGSIZE);
}

static void request_is_read(void **state)
{
    struct http_head h;

    (void)state;
    assert_null(request("POST http://a/b HTTP/1.1\r\nHost: a\r\nX-Y:  z \t\r\n"
                        "content-LENGTH: 12\r\nExpect: 100-Continue\r\n\r\n",
                        &h));
    assert_memory_equal(h.method.at, "POST", 4);
    assert_int_equal(h.target.len, 10);
    assert_int_equal(h.framing, HTTP_BODY_LENGTH);
    assert_int_equal(h.length, 12);
    assert_true(h.expect);
    assert_int_equal(egress_head_field(&h, "x-y")->value.len, 1);
    assert_null(request("CONNECT a:1 HTTP/1.0\r\n\r\n", &h));
    assert_int_equal(h.minor, 0);
    assert_null(request("PUT http://a/ HTTP/1.1\r\nHost: a\r\n"
                        "Transfer-Encoding: Chunked\r\n\r\n",
                        &h));
    assert_int_equal(h.framing, HTTP_BODY_CHUNKED);
}

static void E2_request_with_two_readings_is_refused(void **state)
{
#define R "GET http://a/ HTTP/1.1\r\nHost: a\r\n"
    static const char *const bad[] = {
        R "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        R "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
        R "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        R "Content-Length: 1, 1\r\n\r\n",
        R "Content-Length: +1\r\n\r\n",
        R "Content-Length: -1\r\n\r\n",
        R "Content-Length: 0x1\r\n\r\n",
        R "Content-Length: 1 2\r\n\r\n",
        R "Content-Length:\r\n\r\n",
        R "Content-Length: 1234567890123456\r\n\r\n",
        R "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        R "Transfer-Encoding: gzip, chunked\r\n\r\n",
        R "Transfer-Encoding: identity\r\n\r\n",
        R "Transfer-Encoding: xchunked\r\n\r\n",
        R "Transfer-Encoding : chunked\r\n\r\n",
        R "Transfer-Encoding\t: chunked\r\n\r\n",
        R " Transfer-Encoding: chunked\r\n\r\n",
        R "A: b\r\n c: d\r\n\r\n",
        R "A: b\r\n\tc\r\n\r\n",
        R "A: b\rc: d\r\n\r\n",
        R "A: b\x01\r\n\r\n",
        R "A: b\x7f\r\n\r\n",
        R "A\r\n\r\n",
        R ": b\r\n\r\n",
        R "A(: b\r\n\r\n",
        R "A b: c\r\n\r\n",
        R "Host: a\r\n\r\n",
        R "Expect: something\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\n\r\n",
        "GET http://a/ HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET http://a/ HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET http://a/ http/1.1\r\nHost: a\r\n\r\n",
        "GET http://a/\r\nHost: a\r\n\r\n",
        "GET  http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a/ HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET http://a/ x HTTP/1.1\r\nHost: a\r\n\r\n",
        "G\tT http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "ABCDEFGHIJKLMNOP http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "PUT http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    };
#undef R
    struct http_head h;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (!request(bad[i], &h))
            fail_msg("taken: %s", bad[i]);
}

static void request_has_at_most_128_headers(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    struct http_head h;

    (void)state;
    buf_adds(&b, "GET http://a/ HTTP/1.1\r\nHost: a\r\n");
    for (unsigned i = 1; i < HTTP_FIELDS_MAX; i++)
        buf_adds(&b, "a: b\r\n");
    buf_adds(&b, "\r\n");
    assert_null(request(b.data, &h));
    b.len -= 2;
    buf_adds(&b, "a: b\r\n\r\n");
    assert_non_null(request(b.data, &h));
}

static bool hop(const char *fields, const char *name)
{
    struct buf b cleanup(buf_done) = {0};
    struct http_head h;

    buf_addf(&b, "GET http://a/ HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
    assert_null(request(b.data, &h));
    return egress_head_hop(&h, span(name));
}

static void headers_of_one_hop_are_known(void **state)
{
    (void)state;
    assert_true(hop("", "connection"));
    assert_true(hop("", "Proxy-Authorization"));
    assert_true(hop("", "PROXY-anything"));
    assert_true(hop("", "TE"));
    assert_false(hop("", "Accept"));
    assert_true(hop("Connection: close, X-Mine\r\n", "x-mine"));
    assert_true(hop("Connection: a\r\nConnection: x-mine\r\n", "X-Mine"));
    assert_false(hop("Connection: x-mine-too\r\n", "X-Mine"));
}

static const char *answer(const char *text, bool head, struct http_head *h)
{
    ssize_t n = egress_head_end(text, strlen(text));

    assert_true(n > 0);
    return egress_head_answer(text, (size_t)n, head, h);
}

static void answer_is_read(void **state)
{
    struct http_head h;

    (void)state;
    assert_null(
        answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, &h));
    assert_int_equal(h.framing, HTTP_BODY_LENGTH);
    assert_null(answer("HTTP/1.0 200\r\n\r\n", false, &h));
    assert_int_equal(h.framing, HTTP_BODY_CLOSE);
    assert_null(
        answer("HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\n", true, &h));
    assert_int_equal(h.framing, HTTP_BODY_NONE);
    assert_int_equal(h.length, 3);
    assert_null(answer("HTTP/1.1 304 x\r\n\r\n", false, &h));
    assert_int_equal(h.framing, HTTP_BODY_NONE);
    assert_null(answer("HTTP/1.1 100 Continue\r\n\r\n", false, &h));
    assert_int_equal(h.status, 100);
    assert_non_null(answer("HTTP/1.1 2000 OK\r\n\r\n", false, &h));
    assert_non_null(answer("HTTP/1.1 099 OK\r\n\r\n", false, &h));
    assert_non_null(answer("HTTP/1.1 600 OK\r\n\r\n", false, &h));
    assert_non_null(answer("HTTP/1.1 20 OK\r\n\r\n", false, &h));
    assert_non_null(answer("HTTP/3.1 200 OK\r\n\r\n", false, &h));
    assert_non_null(answer("ICY 200 OK really\r\n\r\n", false, &h));
    assert_non_null(answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n",
                           false, &h));
}

/* ---- bodies ------------------------------------------------------------- */

/* Given in pieces of that size; bytes taken, or -1. */
static ssize_t take_all(const char *text, enum http_framing framing,
                        uint64_t length, size_t piece, bool *ret_done)
{
    struct http_body b;
    size_t len = strlen(text), at = 0;

    egress_body_init(&b, framing, length);
    while (at < len && !b.done) {
        ssize_t n = egress_body_take(&b, text + at, MIN(piece, len - at));

        if (n < 0)
            return -1;
        at += (size_t)n;
    }
    *ret_done = b.done;
    return (ssize_t)at;
}

static void body_ends_where_it_says(void **state)
{
    static const char chunks[] = "5\r\nhello\r\n0a\r\n0123456789\r\n0\r\n\r\n";
    bool done;

    (void)state;
    for (size_t piece = 1; piece < 40; piece++) {
        struct buf b cleanup(buf_done) = {0};

        buf_addf(&b, "%sGET", chunks);
        assert_int_equal(take_all(b.data, HTTP_BODY_CHUNKED, 0, piece, &done),
                         sizeof(chunks) - 1);
        assert_true(done);
        assert_int_equal(take_all("abcdef", HTTP_BODY_LENGTH, 4, piece, &done),
                         4);
        assert_true(done);
        assert_int_equal(take_all("abc", HTTP_BODY_LENGTH, 4, piece, &done),
                         3);
        assert_false(done);
        assert_int_equal(take_all("abc", HTTP_BODY_CLOSE, 0, piece, &done), 3);
        assert_false(done);
    }
    assert_int_equal(take_all("x", HTTP_BODY_NONE, 0, 1, &done), 0);
    assert_true(done);
    assert_int_equal(take_all("x", HTTP_BODY_LENGTH, 0, 1, &done), 0);
    assert_true(done);
}

static void E2_chunks_with_two_readings_are_refused(void **state)
{
    static const char *const bad[] = {
        "5;x=y\r\nhello\r\n",
        "5 \r\nhello\r\n",
        " 5\r\nhello\r\n",
        "+5\r\nhello\r\n",
        "0x5\r\nhello\r\n",
        "5\nhello\n",
        "5\r\nhelloX\r\n",
        "5\r\nhello\n",
        "\r\n",
        "-1\r\n",
        "g\r\n",
        "0\r\nTrailer: x\r\n\r\n",
        "0\r\n\n",
        "0000000000001\r\n",
        "5\r\nhello\r\r\n",
    };
    bool done;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        for (size_t piece = 1; piece < 20; piece++)
            if (take_all(bad[i], HTTP_BODY_CHUNKED, 0, piece, &done) >= 0)
                fail_msg("taken: %s", bad[i]);
}

/* ---- addresses ---------------------------------------------------------- */

static void addresses_are_read(void **state)
{
    struct http_target t;

    (void)state;
    assert_null(egress_url_absolute(span("http://A.example:8080/x?y"), &t));
    assert_string_equal(t.host, "a.example");
    assert_int_equal(t.port, 8080);
    assert_int_equal(t.path.len, 2);
    assert_int_equal(t.query.len, 2);
    assert_null(egress_url_absolute(span("HTTP://a.example"), &t));
    assert_int_equal(t.port, 80);
    assert_memory_equal(t.path.at, "/", 1);
    assert_null(egress_url_absolute(span("http://a.example?q"), &t));
    assert_int_equal(t.query.len, 2);
    assert_null(egress_url_authority(span("[::1]:443"), 0, &t));
    assert_string_equal(t.host, "::1");
    assert_true(t.address);
    assert_null(egress_url_authority(span("a:65535"), 0, &t));
    assert_int_equal(t.port, 65535);
    assert_null(egress_url_authority(span("a:1"), 0, &t));
}

static void E2_addresses_that_hide_another_are_refused(void **state)
{
    static const char *const urls[] = {
        "http://u@a.example/",
        "http://u:p@a.example/",
        "http://a.example#b/",
        "http://a.example/#b",
        "http:/a.example/",
        "http:a.example",
        "https://a.example/",
        "ftp://a.example/",
        "http://",
        "http:///x",
        "http://a.example\\@b/",
        "http://a.example:80:90/",
        "http://[::1]80/",
        "http://a.example:/",
        "http://a%2eexample/",
        "//a.example/",
        "/x",
        "*",
        "http://a.example/ x",
        "http://a.example/\x7f",
    };
    static const char *const authorities[] = {
        "a",    "a:",      "a:0",   "a:65536", "a:080",    "a:+1",   "a:1x",
        ":443", "u@a:443", "[::1]", "[::1]:",  "[::1:443", "a:443/", "",
    };
    struct http_target t;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(urls); i++)
        if (!egress_url_absolute(span(urls[i]), &t))
            fail_msg("taken: %s", urls[i]);
    for (size_t i = 0; i < ARRAY_SIZE(authorities); i++)
        if (!egress_url_authority(span(authorities[i]), 0, &t))
            fail_msg("taken: %s", authorities[i]);
}

/* ---- paths -------------------------------------------------------------- */

static void paths_have_one_form(void **state)
{
    static const char *const rows[][2] = {
        {"/", "/"},
        {"/a/b", "/a/b"},
        {"/a/b/", "/a/b/"},
        {"/a/./b", "/a/b"},
        {"/a/../b", "/b"},
        {"/..", "/"},
        {"/../../a", "/a"},
        {"/a/b/..", "/a/"},
        {"/a/b/.", "/a/b/"},
        {"/a/b/../..", "/"},
        {"/%61/%2e%2E/b", "/b"},
        {"/%7e%2d%5f", "/~-_"},
        {"/a%20b%c3%bc", "/a%20b%C3%BC"},
        {"/a...b/..c/...", "/a...b/..c/..."},
        {"/a%25", "/a%25"},
        {"/a%25zz", "/a%25zz"},
        {"/a;b=c", "/a;b=c"},
    };
    char got[EGRESS_PATH_MAX];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_null(egress_path_canonical(span(rows[i][0]), got));
        assert_string_equal(got, rows[i][1]);
        assert_null(egress_path_canonical(span(rows[i][1]), got));
        assert_string_equal(got, rows[i][1]);
    }
}

static void E2_paths_with_two_readings_are_refused(void **state)
{
    static const char *const bad[] = {
        "a",      "",         "//",      "/a//b", "/a%2fb",
        "/a%5Cb", "/a\\b",    "/%00",    "/%",    "/%4",
        "/%zz",   "/a/..;/b", "/a/..;x", "/.;/b", "/a/..%3b",
        "/%252e", "/%252fx",  "/a b",    "/\x01", "/\xc3\xbc",
    };
    char got[EGRESS_PATH_MAX], path[600];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (!egress_path_canonical(span(bad[i]), got))
            fail_msg("taken: %s", bad[i]);
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    assert_null(egress_path_canonical((struct span){path, 508}, got));
    assert_null(egress_path_canonical((struct span){path, 509}, got));
    assert_non_null(egress_path_canonical((struct span){path, 510}, got));
}

static void prefixes_end_at_a_segment(void **state)
{
    (void)state;
    assert_true(egress_path_below("/a", ""));
    assert_true(egress_path_below("/a", "/"));
    assert_true(egress_path_below("/a", "/a"));
    assert_true(egress_path_below("/a/b", "/a"));
    assert_true(egress_path_below("/a/", "/a/"));
    assert_false(egress_path_below("/a", "/a/"));
    assert_false(egress_path_below("/ab", "/a"));
    assert_false(egress_path_below("/", "/a"));
}

/* ---- hellos ------------------------------------------------------------- */

static void put(struct buf *b, size_t bytes, size_t v)
{
    for (size_t i = bytes; i-- > 0;) {
        char c = (char)(v >> (8 * i));

        buf_add(b, &c, 1);
    }
}

/* A hello asking for name (NULL: for nobody), with one more extension; cut
 * into records of that size. */
static void make_hello(struct buf *ret, const char *name, unsigned extra,
                       size_t record)
{
    struct buf body cleanup(buf_done) = {0}, ext cleanup(buf_done) = {0};
    char random[34] = {3, 3};

    if (name) {
        size_t n = strlen(name);

        put(&ext, 2, 0);
        put(&ext, 2, n + 5);
        put(&ext, 2, n + 3);
        put(&ext, 1, 0);
        put(&ext, 2, n);
        buf_adds(&ext, name);
    }
    put(&ext, 2, extra);
    put(&ext, 2, 1);
    put(&ext, 1, 0);
    buf_add(&body, random, sizeof(random));
    put(&body, 1, 0);
    put(&body, 2, 2);
    put(&body, 2, 0x1301);
    put(&body, 1, 1);
    put(&body, 1, 0);
    put(&body, 2, ext.len);
    buf_add(&body, ext.data, ext.len);
    buf_reset(&ext);
    put(&ext, 1, 1);
    put(&ext, 3, body.len);
    buf_add(&ext, body.data, body.len);
    for (size_t at = 0; at < ext.len; at += record) {
        size_t n = MIN(record, ext.len - at);

        put(ret, 1, 0x16);
        put(ret, 2, 0x0301);
        put(ret, 2, n);
        buf_add(ret, ext.data + at, n);
    }
}

static void E2_hello_is_read_at_any_cut(void **state)
{
    char name[EGRESS_HOST_MAX];

    (void)state;
    for (size_t record = 1; record < 120; record += 7) {
        struct buf b cleanup(buf_done) = {0};

        make_hello(&b, "a.example", 10, record);
        for (size_t i = 0; i < b.len; i++)
            assert_int_equal(egress_hello_read(b.data, i, name), HELLO_MORE);
        assert_int_equal(egress_hello_read(b.data, b.len, name), HELLO_TLS);
        assert_string_equal(name, "a.example");
    }
}

static void E2_hello_without_a_name_or_with_a_hidden_one(void **state)
{
    struct buf a cleanup(buf_done) = {0}, b cleanup(buf_done) = {0};
    struct buf c cleanup(buf_done) = {0};
    char name[EGRESS_HOST_MAX], longest[EGRESS_HOST_MAX + 1];

    (void)state;
    make_hello(&a, NULL, 10, 1000);
    assert_int_equal(egress_hello_read(a.data, a.len, name), HELLO_TLS);
    assert_string_equal(name, "");
    make_hello(&b, "a.example", 0xfe0d, 1000);
    assert_int_equal(egress_hello_read(b.data, b.len, name), HELLO_HIDDEN);
    memset(longest, 'a', sizeof(longest));
    longest[EGRESS_HOST_MAX] = '\0';
    make_hello(&c, longest, 10, 1000);
    assert_int_equal(egress_hello_read(c.data, c.len, name), HELLO_BROKEN);
    buf_reset(&c);
    longest[EGRESS_HOST_MAX - 1] = '\0';
    make_hello(&c, longest, 10, 1000);
    assert_int_equal(egress_hello_read(c.data, c.len, name), HELLO_TLS);
    buf_reset(&c);
    make_hello(&c, "a.example", 0, 1000); /* a second, broken name */
    assert_int_equal(egress_hello_read(c.data, c.len, name), HELLO_BROKEN);
}

static void what_is_no_hello(void **state)
{
    char name[EGRESS_HOST_MAX];

    (void)state;
    assert_int_equal(egress_hello_read("", 0, name), HELLO_MORE);
    assert_int_equal(egress_hello_read("GET /", 5, name), HELLO_NOT);
    assert_int_equal(egress_hello_read("\x16\x02\x00\x00\x05", 5, name),
                     HELLO_NOT);
    assert_int_equal(egress_hello_read("\x16\x03\x01\x00\x00", 5, name),
                     HELLO_BROKEN);
    assert_int_equal(egress_hello_read("\x16\x03\x01\x40\x01", 5, name),
                     HELLO_BROKEN);
    assert_int_equal(egress_hello_read("\x16\x03\x01\x00\x01\x02", 6, name),
                     HELLO_BROKEN);
    assert_int_equal(
        egress_hello_read("\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9, name),
        HELLO_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_end_is_found_at_any_cut),
        cmocka_unit_test(head_is_at_most_32_kib),
        cmocka_unit_test(request_is_read),
        cmocka_unit_test(E2_request_with_two_readings_is_refused),
        cmocka_unit_test(request_has_at_most_128_headers),
        cmocka_unit_test(headers_of_one_hop_are_known),
        cmocka_unit_test(answer_is_read),
        cmocka_unit_test(body_ends_where_it_says),
        cmocka_unit_test(E2_chunks_with_two_readings_are_refused),
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(E2_addresses_that_hide_another_are_refused),
        cmocka_unit_test(paths_have_one_form),
        cmocka_unit_test(E2_paths_with_two_readings_are_refused),
        cmocka_unit_test(prefixes_end_at_a_segment),
        cmocka_unit_test(E2_hello_is_read_at_any_cut),
        cmocka_unit_test(E2_hello_without_a_name_or_with_a_hidden_one),
        cmocka_unit_test(what_is_no_hello),
    };

    return cmocka_run_group_tests_name("egress_http", tests, NULL, NULL);
}
