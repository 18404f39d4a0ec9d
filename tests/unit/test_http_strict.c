/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of the strict parser of requests: each message of a table gets
 * its verdict whether it comes at once or byte by byte, and each limit is
 * tried at its value, one below and one above.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/http_int.h"

#define HOST "Host: x\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST
#define POST "POST / HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

struct row {
    const char *bytes;
    size_t len;
    unsigned status; /* 0: accepted */
    unsigned heads;
};
#define ROW(text, ...)                                                        \
    {                                                                         \
        text, sizeof(text) - 1, __VA_ARGS__                                   \
    }

/* ---- help --------------------------------------------------------------- */

/* In pieces of `step` bytes. Returns the bytes that were accepted. */
static size_t feed(struct http_strict *s, const char *bytes, size_t len,
                   size_t step)
{
    size_t good = 0;

    http_strict_init(s);
    for (size_t at = 0; at < len; at += step)
        good += http_strict_feed(s, bytes + at, MIN(step, len - at));
    return good;
}

static void expect(const char *bytes, size_t len, unsigned status,
                   unsigned heads)
{
    static const size_t steps[] = {1, 2, 7, SIZE_MAX / 2};
    size_t good = 0;

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        struct http_strict s;
        size_t n = feed(&s, bytes, len, MIN(steps[i], len));

        if (s.status != status || s.heads != heads)
            fail_msg("wanted %u and %u heads, got %u (%s) and %u in steps of "
                     "%zu for: %.200s",
                     status, heads, s.status, s.why ? s.why : "", s.heads,
                     steps[i], bytes);
        assert_int_equal(s.why != NULL, status != 0);
        if (i > 0)
            assert_int_equal(n, good); /* pieces make no difference */
        good = n;
    }
}

static void expect_buf(const struct buf *b, unsigned status)
{
    expect(b->data, b->len, status, status == 0);
}

static void fill(struct buf *b, size_t count, char c)
{
    for (size_t i = 0; i < count; i++)
        buf_add(b, &c, 1);
}

/* ---- the table ---------------------------------------------------------- */

static const struct row rows[] = {
    /* What clients send. */
    ROW(GET "\r\n", 0, 1),
    ROW(GET "\r\n" GET "\r\n", 0, 2),
    ROW("GET / HTTP/1.0\r\n\r\n", 0, 1),
    ROW("OPTIONS /a?b=c&d HTTP/1.1\r\nhost:x:80\r\n\r\n", 0, 1),
    ROW("GET /%41%e2%82?a=%20+ HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", 0, 1),
    ROW("GET /caf\xc3\xa9|[]{}^ HTTP/1.1\r\n" HOST "\r\n", 0, 1),
    ROW("GET http://x/a HTTP/1.1\r\n" HOST "\r\n", 0, 1),
    ROW("GET http://X:80?a HTTP/1.1\r\nHost: x:80\r\n\r\n", 0, 1),
    ROW(GET "Under_score: 1\r\nEmpty:\r\nTab:\ta\tb \t\r\n\r\n", 0, 1),
    ROW(GET "Obs-Text: \x80\xff\r\n\r\n", 0, 1),
    ROW(POST "Content-Length: 3\r\n\r\nabc" GET "\r\n", 0, 2),
    ROW(POST "Content-Length:\t 03\r\n\r\nabc", 0, 1),
    ROW(POST "Content-Length: 0\r\nExpect: 100-Continue\r\n\r\n", 0, 1),
    ROW(CHUNKED "3\r\nabc\r\n0\r\n\r\n" GET "\r\n", 0, 2),
    ROW(CHUNKED "00A\r\n0123456789\r\n00\r\nT: 1\r\n\r\n", 0, 1),
    ROW(GET "Accept: a\r\nAccept: b\r\nCookie: a=b; c=d\r\n\r\n", 0, 1),
    /* After Connection: close nothing is read any more. */
    ROW(GET "Connection: a, Close\r\n\r\n\0\n", 0, 1),
    ROW("GET / HTTP/1.0\r\n\r\n\0\n", 0, 1),
    ROW("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\n", 400, 1),

    /* The request line. */
    ROW("\r\n" GET "\r\n", 400, 0),
    ROW("\n" GET "\r\n", 400, 0),
    ROW(" " GET "\r\n", 400, 0),
    ROW("GET  / HTTP/1.1\r\n", 400, 0),
    ROW("GET /  HTTP/1.1\r\n", 400, 0),
    ROW("GET / HTTP/1.1 \r\n", 400, 0),
    ROW("GET\t/ HTTP/1.1\r\n", 400, 0),
    ROW("GET /\tHTTP/1.1\r\n", 400, 0),
    ROW("GET /a b HTTP/1.1\r\n", 400, 0),
    ROW("GET /\r\n", 400, 0),
    ROW("GET\r\n", 400, 0),
    ROW("GET / \r\n", 400, 0),
    ROW("G\xc3\x89T / HTTP/1.1\r\n", 400, 0),
    ROW("GET / HTTP/0.9\r\n", 400, 0),
    ROW("GET / HTTP/1.2\r\n", 400, 0),
    ROW("GET / HTTP/1.10\r\n", 400, 0),
    ROW("GET / HTTP/2.0\r\n", 400, 0),
    ROW("GET / HTTP/2\r\n", 400, 0),
    ROW("GET / http/1.1\r\n", 400, 0),
    ROW("GET / HTTPS/1.1\r\n", 400, 0),
    ROW("GET / HTTP/1.1\n", 400, 0),
    ROW("GET / HTTP/1.1\rHost: x\r\n", 400, 0),
    ROW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 0),
    ROW("\x16\x03\x01\x02\x00", 400, 0),
    ROW("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET a HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("CONNECT x:80 HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET http://y/ HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET http://x:81/ HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET http://u@x/ HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET http:///a HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET ftp://x/ HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET /#a HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET /\0 HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET /%00 HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET /?a=%00 HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET /%zz HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET /%4 HTTP/1.1\r\n" HOST "\r\n", 400, 0),
    ROW("GET /% HTTP/1.1\r\n" HOST "\r\n", 400, 0),

    /* Header lines. */
    ROW("GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\n\tHost: x\r\n\r\n", 400, 0),
    ROW(GET " folded\r\n\r\n", 400, 0),
    ROW(GET "A: b\r\n\tc\r\n\r\n", 400, 0),
    ROW(GET "A : b\r\n\r\n", 400, 0),
    ROW(GET "A\t: b\r\n\r\n", 400, 0),
    ROW(GET ": b\r\n\r\n", 400, 0),
    ROW(GET "A\r\n\r\n", 400, 0),
    ROW(GET "A b: c\r\n\r\n", 400, 0),
    ROW(GET "A\x01: c\r\n\r\n", 400, 0),
    ROW(GET "\xc3\x89: c\r\n\r\n", 400, 0),
    ROW(GET "A\0B: c\r\n\r\n", 400, 0),
    ROW(GET "A(b): c\r\n\r\n", 400, 0),
    ROW(GET "A: b\0c\r\n\r\n", 400, 0),
    ROW(GET "A: b\rc\r\n\r\n", 400, 0),
    ROW(GET "A: b\x01\r\n\r\n", 400, 0),
    ROW(GET "A: b\x7f\r\n\r\n", 400, 0),
    ROW(GET "A: b\n\r\n", 400, 0),
    ROW(GET "A: b\n\n", 400, 0),
    ROW(GET "\n", 400, 0),
    ROW(GET "\rX", 400, 0),
    ROW(GET "A: b\r\r\n\r\n", 400, 0),
    ROW(GET "Authorization: a\r\nauthorization: a\r\n\r\n", 400, 0),
    ROW(GET "api-key: a\r\nAPI-Key: b\r\n\r\n", 400, 0),
    ROW(GET "Content-Type: a\r\nContent-Type: b\r\n\r\n", 400, 0),
    ROW(GET "Expect: 200-ok\r\n\r\n", 417, 0),
    ROW(GET "Expect:\r\n\r\n", 417, 0),

    /* Hosts. */
    ROW("GET / HTTP/1.1\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400, 0),
    ROW(GET HOST "\r\n", 400, 0),
    ROW("GET / HTTP/1.0\r\n" HOST "Host: y\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: a:\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: [x]\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n", 400, 0),

    /* The length of the body. */
    ROW(POST "Content-Length : 55\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 5, 5\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: +5\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: -5\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 0x5\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 5 5\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 5 \r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 5.0\r\n\r\n", 400, 0),
    ROW(POST "Content-Length:\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 9999999999999999999\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 18446744073709551616\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
        0),
    ROW(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400,
        0),
    ROW(POST "Transfer-Encoding: chunked, chunked\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        400, 0),
    ROW(POST "Transfer-Encoding: identity\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: xchunked\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: chunked;q=1\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: chunked \r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding:\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding : chunked\r\n\r\n", 400, 0),
    ROW("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, 0),

    /* Chunks; the head is complete. */
    ROW(CHUNKED "\r\n", 400, 1),
    ROW(CHUNKED "x\r\n", 400, 1),
    ROW(CHUNKED "-1\r\n", 400, 1),
    ROW(CHUNKED "+1\r\n", 400, 1),
    ROW(CHUNKED "0x1\r\n", 400, 1),
    ROW(CHUNKED " 1\r\n", 400, 1),
    ROW(CHUNKED "1 \r\n", 400, 1),
    ROW(CHUNKED "1\n", 400, 1),
    ROW(CHUNKED "1;\r\n", 400, 1),
    ROW(CHUNKED "1;a=b\r\n", 400, 1),
    ROW(CHUNKED "0;a\r\n\r\n", 400, 1),
    ROW(CHUNKED "1\rx", 400, 1),
    ROW(CHUNKED "1000000000000000\r\n", 400, 1),
    ROW(CHUNKED "1\r\naX", 400, 1),
    ROW(CHUNKED "1\r\na\n", 400, 1),
    ROW(CHUNKED "1\r\na\rX", 400, 1),
    ROW(CHUNKED "0\r\nX", 0, 1),
    ROW(CHUNKED "0\r\n X: y\r\n", 400, 1),
    ROW(CHUNKED "0\r\nX : y\r\n", 400, 1),
    ROW(CHUNKED "0\r\nContent-Length: 5\r\n\r\n", 400, 1),
    ROW(CHUNKED "0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, 1),
    ROW(CHUNKED "0\r\nAuthorization: x\r\n\r\n", 400, 1),
    ROW(CHUNKED "0\r\nHost: x\r\n\r\n", 400, 1),
    ROW(CHUNKED "0\r\n\n", 400, 1),
};

static void H1_every_message_has_one_reading(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        expect(rows[i].bytes, rows[i].len, rows[i].status, rows[i].heads);
}

/* What was accepted is a prefix, and never the end of a malformed head. */
static void H1_nothing_of_a_refused_head_is_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct http_strict s;
        size_t good = feed(&s, rows[i].bytes, rows[i].len, rows[i].len);
        size_t before = 0;

        assert_true(good <= rows[i].len);
        for (size_t k = 4; k <= good; k++)
            before += memcmp(rows[i].bytes + k - 4, "\r\n\r\n", 4) == 0;
        if (s.status && s.heads == 0)
            assert_int_equal(before, 0);
    }
}

static void H1_a_refusal_is_final(void **state)
{
    struct http_strict s;

    (void)state;
    (void)feed(&s, "GET  /", 6, 6);
    assert_int_equal(s.status, 400);
    assert_int_equal(http_strict_feed(&s, GET "\r\n", sizeof(GET) + 1), 0);
    assert_int_equal(s.status, 400);
    assert_int_equal(s.heads, 0);
}

/* ---- limits ------------------------------------------------------------- */

static void H3_the_request_line_is_bounded(void **state)
{
    static const char rest[] = "GET / HTTP/1.1";

    (void)state;
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};

        buf_adds(&b, "GET /");
        fill(&b, (size_t)(HTTP_REQUEST_LINE_MAX + more) - strlen(rest), 'a');
        buf_adds(&b, " HTTP/1.1\r\n" HOST "\r\n");
        expect_buf(&b, more > 0 ? 414 : 0);
    }
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};

        fill(&b, (size_t)(HTTP_METHOD_MAX + more), 'M');
        buf_adds(&b, " / HTTP/1.1\r\n" HOST "\r\n");
        expect_buf(&b, more > 0 ? 400 : 0);
    }
}

static void H3_parameters_are_bounded(void **state)
{
    (void)state;
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};

        buf_adds(&b, "GET /?a&b");
        for (int i = 2; i < HTTP_QUERY_MAX + more; i++)
            buf_adds(&b, "&c");
        buf_adds(&b, " HTTP/1.1\r\n" HOST "\r\n");
        expect_buf(&b, more > 0 ? 400 : 0);
    }
}

static void one_header(const char *name, size_t max)
{
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};

        buf_adds(&b, GET);
        buf_addf(&b, "%s: ", name);
        fill(&b, max + (size_t)more - strlen(name) - 2, 'v');
        buf_adds(&b, "\r\n\r\n");
        expect_buf(&b, more > 0 ? 431 : 0);
    }
}

static void H3_one_header_is_bounded(void **state)
{
    (void)state;
    one_header("X-Long", HTTP_HEADER_BYTES);
    one_header("Cookie", HTTP_HEADER_BYTES);
    one_header("Authorization", HTTP_CREDENTIAL_BYTES);
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};

        buf_adds(&b, GET);
        fill(&b, HTTP_HEADER_BYTES + (size_t)more - 1, 'n');
        buf_adds(&b, ":\r\n\r\n");
        expect_buf(&b, more > 0 ? 431 : 0);
    }
}

static void H3_all_headers_are_bounded(void **state)
{
    (void)state;
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};
        size_t left = HTTP_HEADERS_BYTES + (size_t)more - strlen("Host: x");

        buf_adds(&b, GET);
        while (left > 0) {
            size_t n = MIN(left, (size_t)1000);

            if (left - n == 1) /* no header of one byte */
                n--;
            buf_adds(&b, "a:");
            fill(&b, n - 2, 'v');
            buf_adds(&b, "\r\n");
            left -= n;
        }
        buf_adds(&b, "\r\n");
        expect_buf(&b, more > 0 ? 431 : 0);
    }
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};

        buf_adds(&b, GET);
        for (int i = 1; i < HTTP_HEADERS_MAX + more; i++)
            buf_adds(&b, "a: b\r\n");
        buf_adds(&b, "\r\n");
        expect_buf(&b, more > 0 ? 431 : 0);
    }
}

static void H3_cookies_are_bounded(void **state)
{
    (void)state;
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};

        buf_adds(&b, GET "Cookie: a=b");
        for (int i = 1; i < HTTP_COOKIES_MAX + more; i++)
            buf_adds(&b, ";c");
        buf_adds(&b, "\r\n\r\n");
        expect_buf(&b, more > 0 ? 431 : 0);
    }
}

static void H3_trailers_are_bounded(void **state)
{
    (void)state;
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};

        buf_adds(&b, CHUNKED "0\r\n");
        for (int i = 0; i < HTTP_TRAILERS_MAX + more; i++)
            buf_adds(&b, "t: 1\r\n");
        buf_adds(&b, "\r\n");
        expect(b.data, b.len, more > 0 ? 431 : 0, 1);
    }
    for (int more = -1; more <= 1; more++) {
        struct buf b cleanup(buf_done) = {0};

        buf_adds(&b, CHUNKED "0\r\nt:");
        fill(&b, HTTP_TRAILER_BYTES + (size_t)more - 2, 'x');
        buf_adds(&b, "\r\n\r\n");
        expect(b.data, b.len, more > 0 ? 431 : 0, 1);
    }
}

/* A body of any content and any length is skipped, not read. */
static void H1_bodies_are_not_looked_at(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    struct http_strict s;

    (void)state;
    buf_adds(&b, POST "Content-Length: 300\r\n\r\n");
    for (int i = 0; i < 300; i++) {
        char c = (char)i;

        buf_add(&b, &c, 1);
    }
    buf_adds(&b, GET "\r\n");
    expect(b.data, b.len, 0, 2);
    (void)feed(&s, b.data, 100, 100);
    assert_true(http_strict_in_message(&s));
    (void)feed(&s, b.data, b.len, b.len);
    assert_false(http_strict_in_message(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(H1_every_message_has_one_reading),
        cmocka_unit_test(H1_nothing_of_a_refused_head_is_complete),
        cmocka_unit_test(H1_a_refusal_is_final),
        cmocka_unit_test(H1_bodies_are_not_looked_at),
        cmocka_unit_test(H3_the_request_line_is_bounded),
        cmocka_unit_test(H3_parameters_are_bounded),
        cmocka_unit_test(H3_one_header_is_bounded),
        cmocka_unit_test(H3_all_headers_are_bounded),
        cmocka_unit_test(H3_cookies_are_bounded),
        cmocka_unit_test(H3_trailers_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
