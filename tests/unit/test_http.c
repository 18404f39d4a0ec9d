/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of http/: a real server on a free loopback port with a small
 * handler, spoken to over plain sockets so that odd bytes can be sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/http.h"
#include "http/http_int.h"
#include "http_client.h"
#include "json/json.h"

#define BODY_MAX ((size_t)1 << 20)

/* ---- the handler -------------------------------------------------------- */

struct fixture {
    struct http_server *server;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool open;           /* what waits may go on */
    atomic_int waiting;  /* handlers that do */
    atomic_int closed;   /* feeds that were closed */
    atomic_size_t piped; /* bytes written to pipes */
    atomic_uint refused; /* by /busy */
    unsigned pieces;     /* of the feed that may be sent */
    void (*wake)(void *arg);
    void *wake_arg;
};

static void handle_sum(struct http_request *req)
{
    unsigned char bytes[4096];
    struct buf body = {0};
    struct error err;
    uint64_t sum = 0, len = 0;
    ssize_t n;

    while ((n = http_body_read(req, bytes, sizeof(bytes), BODY_MAX, &err)) > 0)
        for (ssize_t i = 0; i < n; i++, len++)
            sum += bytes[i];
    if (n < 0) {
        http_respond_error(req, &err);
        return;
    }
    buf_addf(&body, "%llu %llu", (unsigned long long)len,
             (unsigned long long)sum);
    http_respond(req, 200, "text/plain", &body);
}

static void handle_json(struct http_request *req)
{
    json_t *json cleanup(json_unref) = NULL;
    struct buf body = {0};
    struct error err;

    if (http_body_json(req, 1000, &json, &err) < 0) {
        http_respond_error(req, &err);
        return;
    }
    buf_adds(&body, "{}");
    http_respond_json(req, 200, &body);
}

static void handle_file(struct http_request *req)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    struct error err;
    struct stat st;

    assert_int_equal(fd_write_all(fd, "0123456789", 10), 0);
    assert_int_equal(fstat(fd, &st), 0);
    st.st_ino = 7;
    st.st_mtim = (struct timespec){1, 2};
    if (http_respond_file(req, fd, &st, "a/\"caf\xc3\xa9\".html", &err) < 0) {
        fd_close(&fd);
        http_respond_error(req, &err);
    }
}

/* ?name is the type it is said to have. */
static void handle_blob(struct http_request *req)
{
    int fd = memfd_create("blob", MFD_CLOEXEC);
    const char *type = NULL;
    struct error err;

    assert_int_equal(http_query(req, "name", &type, &err), 0);
    assert_int_equal(fd_write_all(fd, "0123456789", 10), 0);
    if (http_respond_download(req,
                              &(struct http_download){
                                  .fd = fd,
                                  .size = 10,
                                  .name = "a/b.html",
                                  .type = type,
                                  .etag = "abc",
                                  .modified_ms = 784111777000,
                                  .stable = true,
                              },
                              &err) < 0) {
        fd_close(&fd);
        http_respond_error(req, &err);
    }
}

static void handle_maybe(struct http_request *req)
{
    json_t *json cleanup(json_unref) = NULL;
    struct buf body = {0};
    struct error err;

    if (http_body_json_maybe(req, 1000, &json, &err) < 0) {
        http_respond_error(req, &err);
        return;
    }
    buf_adds(&body, json ? "something" : "nothing");
    http_respond(req, 200, "text/plain", &body);
}

/* ?name says how many bytes, then "!" for an end that is none. */
static void handle_pipe(struct fixture *f, struct http_request *req)
{
    const char *name = NULL;
    struct http_pipe *p;
    char bytes[10000];
    struct error err;
    size_t left;
    char *end;
    int r = 0;

    assert_int_equal(http_query(req, "name", &name, &err), 0);
    left = strtoul(name, &end, 10);
    p = http_respond_pipe(req, "application/zip");
    memset(bytes, 'z', sizeof(bytes));
    f->waiting++;
    while (left > 0 && r == 0) {
        size_t n = MIN(left, sizeof(bytes));

        r = http_pipe_write(p, bytes, n, &err);
        left -= n;
        f->piped += n;
    }
    if (r < 0) {
        assert_int_equal(err.code, ERR_INVALID);
        f->closed++;
    }
    http_pipe_end(p, *end != '!');
    f->waiting--;
}

static void handle_wait(struct fixture *f, struct http_request *req)
{
    pthread_mutex_lock(&f->lock);
    f->waiting++;
    while (!f->open)
        pthread_cond_wait(&f->cond, &f->lock);
    f->waiting--;
    pthread_mutex_unlock(&f->lock);
    http_respond_empty(req, 204);
}

static int feed_next(void *ctx, struct buf *out)
{
    struct fixture *f = ctx;
    int more = 0;

    pthread_mutex_lock(&f->lock);
    if (f->pieces > 0) {
        f->pieces--;
        buf_adds(out, "data: x\n\n");
        more = f->open && f->pieces == 0 ? -1 : 1;
    }
    pthread_mutex_unlock(&f->lock);
    return more;
}

static void feed_watch(void *ctx, void (*wake)(void *arg), void *arg)
{
    struct fixture *f = ctx;
    bool now;

    pthread_mutex_lock(&f->lock);
    now = f->pieces > 0;
    f->wake = now ? NULL : wake;
    f->wake_arg = arg;
    pthread_mutex_unlock(&f->lock);
    if (now)
        wake(arg);
}

static void feed_close(void *ctx)
{
    struct fixture *f = ctx;

    pthread_mutex_lock(&f->lock);
    f->wake = NULL;
    f->closed++;
    pthread_mutex_unlock(&f->lock);
}

static void feed_push(struct fixture *f, unsigned pieces, bool last)
{
    void (*wake)(void *arg);

    pthread_mutex_lock(&f->lock);
    f->pieces += pieces;
    f->open = last;
    wake = take_ptr(f->wake);
    pthread_mutex_unlock(&f->lock);
    if (wake)
        wake(f->wake_arg);
}

static void handle_head(struct http_request *req)
{
    struct buf body = {0};
    const char *name = NULL;
    struct error err;
    char *path;

    if (http_query(req, "name", &name, &err) < 0 ||
        http_decode(http_arena(req), http_path(req), strlen(http_path(req)),
                    &path, &err) < 0) {
        http_respond_error(req, &err);
        return;
    }
    buf_addf(&body, "%s|%s|%s|%s", http_method(req), path, name ? name : "-",
             http_source(req));
    http_respond(req, 200, "text/plain", &body);
}

static void on_request(void *ctx, struct http_request *req)
{
    static const struct http_feed feed = {feed_next, feed_watch, feed_close};
    const char *path = http_path(req);
    struct fixture *f = ctx;
    struct error err;

    if (strcmp(path, "/sum") == 0)
        handle_sum(req);
    else if (strcmp(path, "/json") == 0)
        handle_json(req);
    else if (strcmp(path, "/file") == 0)
        handle_file(req);
    else if (strcmp(path, "/wait") == 0)
        handle_wait(ctx, req);
    else if (strcmp(path, "/blob") == 0)
        handle_blob(req);
    else if (strcmp(path, "/maybe") == 0)
        handle_maybe(req);
    else if (strcmp(path, "/pipe") == 0)
        handle_pipe(ctx, req);
    else if (strcmp(path, "/stream") == 0)
        http_respond_stream(req, &feed, ctx);
    else if (strcmp(path, "/busy") == 0) {
        f->refused++;
        (void)error_set(&err, ERR_BUSY, "no");
        http_respond_error(req, &err);
    } else if (strcmp(path, "/trust") == 0) {
        http_trust(req);
        http_respond_empty(req, 204);
    } else if (strcmp(path, "/delay") == 0) {
        http_delay(req);
        http_respond_empty(req, 204);
    } else if (strcmp(path, "/early") == 0) {
        (void)error_set(&err, ERR_UNAUTHENTICATED, "no");
        http_respond_error(req, &err);
    } else
        handle_head(req);
}

/* ---- help --------------------------------------------------------------- */

static int setup_with(void **state, unsigned workers, unsigned connections)
{
    struct http_settings settings = {
        .host = "127.0.0.1",
        .workers = workers,
        .connections = connections,
        .header_timeout_s = 1,
        .idle_timeout_s = 5,
        .body_timeout_s = 1,
        .body_bytes = BODY_MAX,
    };
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct error err;

    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->cond, NULL);
    if (http_start(&settings, on_request, f, &f->server, &err) < 0)
        return -1;
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 8, 400);
}

static int setup_one_worker(void **state)
{
    return setup_with(state, 1, 400);
}

/* Four for strangers, two of them of one address; eleven trusted ones. */
static int setup_few(void **state)
{
    return setup_with(state, 8, 16);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    http_stop(f->server, 2);
    free(f);
    return 0;
}

/* Sends the bytes, reads all of the answer; the request says close. */
static char *ask(struct fixture *f, const char *bytes, size_t len)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = http_client_dial(f->server);

    /* A refusal may close while we still send. */
    (void)!send(fd, bytes, len, MSG_NOSIGNAL);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    buf_add(&b, "", 0);
    return buf_take(&b, NULL);
}

#define CLOSING "Host: x\r\nConnection: close\r\n"

static void expect_bytes(struct fixture *f, const char *bytes, size_t len,
                         const char *first, const char *second)
{
    char *answer cleanup(mem_free) = ask(f, bytes, len);

    if (!strstr(answer, first) || (second && !strstr(answer, second)))
        fail_msg("wanted '%s' and '%s', got:\n%s", first, second ? second : "",
                 answer);
}

static void expect(struct fixture *f, const char *bytes, const char *first,
                   const char *second)
{
    expect_bytes(f, bytes, strlen(bytes), first, second);
}

/* ---- requests ------------------------------------------------------------
 */

static void request_is_decoded_once(void **state)
{
    expect(*state, "GET /a%2520b?name=%C3%A9+x HTTP/1.1\r\n" CLOSING "\r\n",
           "HTTP/1.1 200 OK", "GET|/a%20b|\xc3\xa9 x|127.0.0.1");
    expect(*state, "GET /%zz HTTP/1.1\r\n" CLOSING "\r\n", " 400 ", NULL);
    expect(*state, "GET /a%00b HTTP/1.1\r\n" CLOSING "\r\n", " 400 ", NULL);
    expect(*state, "GET /?name=%00 HTTP/1.1\r\n" CLOSING "\r\n", " 400 ",
           NULL);
    expect(*state, "GET /?name=1&name=2 HTTP/1.1\r\n" CLOSING "\r\n", " 400 ",
           "given twice");
}

static void answers_carry_the_common_headers(void **state)
{
    expect(*state, "GET / HTTP/1.1\r\n" CLOSING "\r\n", "X-Request-Id: req_",
           "Cache-Control: no-store");
    expect(*state, "GET / HTTP/1.1\r\n" CLOSING "\r\n",
           "X-Content-Type-Options: nosniff", NULL);
}

static void head_has_no_body(void **state)
{
    char *answer cleanup(mem_free) =
        ask(*state, "HEAD /x HTTP/1.1\r\n" CLOSING "\r\n",
            strlen("HEAD /x HTTP/1.1\r\n" CLOSING "\r\n"));

    assert_non_null(strstr(answer, "Content-Length: 19"));
    assert_null(strstr(answer, "HEAD|"));
}

static void H1_odd_framing_is_refused(void **state)
{
    static const char *const bad[] = {
        "POST /sum HTTP/1.1\r\n" CLOSING
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        "POST /sum HTTP/1.1\r\n" CLOSING
        "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "POST /sum HTTP/1.1\r\n" CLOSING "Content-Length: x\r\n\r\nabc",
        "POST /sum HTTP/1.1\r\n" CLOSING "Content-Length: -1\r\n\r\nabc",
        "POST /sum HTTP/1.1\r\n" CLOSING
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\n" CLOSING "Host: y\r\n\r\n",
        "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        expect(*state, bad[i], " 400 ", NULL);
}

static void many_headers_are_refused(void **state)
{
    struct buf b cleanup(buf_done) = {0};

    buf_adds(&b, "GET / HTTP/1.1\r\n" CLOSING);
    for (int i = 0; i < 98; i++)
        buf_addf(&b, "X-%d: y\r\n", i);
    buf_adds(&b, "\r\n");
    expect(*state, b.data, " 200 ", NULL);
    b.len -= 2;
    buf_adds(&b, "X-More: y\r\n\r\n");
    expect(*state, b.data, " 431 ", "more than 100 headers");
}

static void large_headers_are_refused(void **state)
{
    static const struct {
        int count, bytes;
        const char *want;
    } cases[] = {{1, 8000, " 200 "},
                 {1, 8200, " 431 "},
                 {3, 8000, " 200 "},
                 {5, 8000, " 431 "},
                 {1, 70000, " 431 "}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf b cleanup(buf_done) = {0};

        buf_adds(&b, "GET / HTTP/1.1\r\n" CLOSING);
        for (int n = 0; n < cases[i].count; n++) {
            buf_addf(&b, "X-Big-%d: ", n);
            for (int j = 0; j < cases[i].bytes; j++)
                buf_add(&b, "y", 1);
            buf_adds(&b, "\r\n");
        }
        buf_adds(&b, "\r\n");
        expect(*state, b.data, cases[i].want, NULL);
    }
}

/* ---- bodies --------------------------------------------------------------
 */

static void post(struct buf *b, const char *path, size_t len)
{
    buf_addf(b, "POST %s HTTP/1.1\r\n" CLOSING "Content-Length: %zu\r\n\r\n",
             path, len);
    buf_reserve(b, len);
    memset(b->data + b->len, 1, len);
    b->len += len;
}

static void body_sizes_arrive_whole(void **state)
{
    static const size_t sizes[] = {0,     1,      4096,   65536,
                                   65537, 131072, 500000, BODY_MAX};

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct buf b cleanup(buf_done) = {0};
        char want[64];

        post(&b, "/sum", sizes[i]);
        (void)snprintf(want, sizeof(want), "\r\n\r\n%zu %zu", sizes[i],
                       sizes[i]);
        expect_bytes(*state, b.data, b.len, " 200 ", want);
    }
}

static void body_in_chunks_arrives_whole(void **state)
{
    struct buf b cleanup(buf_done) = {0};

    buf_adds(&b, "POST /sum HTTP/1.1\r\n" CLOSING
                 "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 1000; i++)
        buf_adds(&b, "5\r\n\1\1\1\1\1\r\n");
    buf_adds(&b, "0\r\n\r\n");
    expect_bytes(*state, b.data, b.len, " 200 ", "5000 5000");
}

static void body_over_the_limit_is_refused(void **state)
{
    struct buf b cleanup(buf_done) = {0};

    post(&b, "/sum", BODY_MAX + 1);
    expect_bytes(*state, b.data, b.len, " 413 ", "too_large");
    expect(*state,
           "POST /sum HTTP/1.1\r\n" CLOSING
           "Content-Length: 99999999999\r\n\r\n",
           " 413 ", "Connection: close");
    expect(*state,
           "POST /sum HTTP/1.1\r\n" CLOSING "Expect: 100-continue\r\n"
           "Content-Length: 1048577\r\n\r\n",
           "HTTP/1.1 413 ", NULL);
}

static void body_in_chunks_over_the_limit_is_refused(void **state)
{
    struct buf b cleanup(buf_done) = {0};

    buf_adds(&b, "POST /sum HTTP/1.1\r\n" CLOSING
                 "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 80; i++) {
        buf_adds(&b, "4000\r\n");
        buf_reserve(&b, 16384);
        memset(b.data + b.len, 1, 16384);
        b.len += 16384;
        buf_adds(&b, "\r\n");
    }
    buf_adds(&b, "0\r\n\r\n");
    expect_bytes(*state, b.data, b.len, " 413 ", NULL);
}

static void answer_before_the_body_reaches_the_client(void **state)
{
    struct buf b cleanup(buf_done) = {0};

    post(&b, "/early", BODY_MAX);
    expect_bytes(*state, b.data, b.len, " 401 ", "WWW-Authenticate: Bearer");
}

static void json_body_is_checked(void **state)
{
    static const struct {
        const char *head, *body, *want;
    } cases[] = {
        {"", "{}", " 200 "},
        {"Content-Type: application/json; charset=utf-8\r\n", "{}", " 200 "},
        {"Content-Type: text/plain\r\n", "{}", " 200 "},
        {"Content-Type: application/x-www-form-urlencoded\r\n", "{}", " 200 "},
        {"Content-Type: application/merge-patch+json\r\n", "{}", " 200 "},
        {"Content-Type: +json\r\n", "{}", " 400 "},
        {"Content-Type: multipart/form-data; boundary=x\r\n", "{}", " 400 "},
        {"Content-Type: image/png\r\n", "{}", " 400 "},
        {"", "", "the body is empty"},
        {"", "[]", "must be a JSON object"},
        {"", "{", "not valid JSON"},
        {"", "{\"a\":1,\"a\":1}", "duplicate"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf b cleanup(buf_done) = {0};

        buf_addf(&b,
                 "POST /json HTTP/1.1\r\n" CLOSING "%sContent-Length: %zu\r\n"
                 "\r\n%s",
                 cases[i].head, strlen(cases[i].body), cases[i].body);
        expect(*state, b.data, cases[i].want, NULL);
    }
}

static void H2_slow_body_is_cut(void **state)
{
    struct fixture *f = *state;
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = http_client_dial(f->server);
    static const char head[] = "POST /sum HTTP/1.1\r\nHost: x\r\n"
                               "Content-Length: 100\r\n\r\nabc";

    assert_int_equal(fd_write_all(fd, head, sizeof(head) - 1), 0);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    assert_non_null(strstr(b.data, "408 Request Timeout"));
    assert_non_null(strstr(b.data, "too slowly\"}}"));
}

static void H2_slow_header_is_cut(void **state)
{
    struct fixture *f = *state;
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = http_client_dial(f->server);

    assert_int_equal(fd_write_all(fd, "GET / HT", 8), 0);
    assert_int_equal(http_client_read_until(fd, &b, NULL),
                     0); /* closed, no answer */
}

static void H7_client_leaving_frees_the_reader(void **state)
{
    struct fixture *f = *state;
    static const char head[] = "POST /sum HTTP/1.1\r\nHost: x\r\n"
                               "Content-Length: 100000\r\n\r\nabc";
    size_t queued;
    unsigned threads;

    for (int i = 0; i < 20; i++) {
        int fd cleanup(fd_close) = http_client_dial(f->server);

        assert_int_equal(fd_write_all(fd, head, sizeof(head) - 1), 0);
    }
    expect(f, "GET / HTTP/1.1\r\n" CLOSING "\r\n", " 200 ", NULL);
    http_work_load(http_workers(f->server), &queued, &threads);
    assert_true(threads <= 8);
}

/* ---- files ---------------------------------------------------------------
 */

static void F8_file_is_inert(void **state)
{
    expect(*state, "GET /file HTTP/1.1\r\n" CLOSING "\r\n",
           "Content-Disposition: attachment; filename=\"_caf___.html\"; "
           "filename*=UTF-8''%22caf%C3%A9%22.html",
           "Content-Type: application/octet-stream");
    expect(*state, "GET /file HTTP/1.1\r\n" CLOSING "\r\n",
           "Content-Security-Policy: sandbox; default-src 'none'",
           "\r\n\r\n0123456789");
}

static void file_ranges(void **state)
{
    static const struct {
        const char *range, *status, *want;
    } cases[] = {
        {"bytes=2-4", " 206 ", "Content-Range: bytes 2-4/10"},
        {"bytes=2-4", " 206 ", "\r\n\r\n234"},
        {"bytes=7-", " 206 ", "\r\n\r\n789"},
        {"bytes=-2", " 206 ", "\r\n\r\n89"},
        {"bytes=-99", " 206 ", "\r\n\r\n0123456789"},
        {"bytes=5-99", " 206 ", "Content-Range: bytes 5-9/10"},
        {"bytes=10-", " 416 ", "Content-Range: bytes */10"},
        {"bytes=-0", " 416 ", NULL},
        {"bytes=4-2", " 200 ", "\r\n\r\n0123456789"},
        {"bytes=0-1,3-4", " 200 ", "\r\n\r\n0123456789"},
        {"items=0-1", " 200 ", NULL},
        {"bytes=", " 200 ", NULL},
        {"bytes=99999999999999999999-", " 200 ", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf b cleanup(buf_done) = {0};

        buf_addf(&b, "GET /file HTTP/1.1\r\n" CLOSING "Range: %s\r\n\r\n",
                 cases[i].range);
        expect(*state, b.data, cases[i].status, cases[i].want);
    }
}

static void file_conditions(void **state)
{
    expect(*state, "GET /file HTTP/1.1\r\n" CLOSING "\r\n",
           "ETag: \"7-a-3b9aca02\"", NULL);
    expect(*state,
           "GET /file HTTP/1.1\r\n" CLOSING
           "If-None-Match: \"x\", \"7-a-3b9aca02\"\r\n\r\n",
           " 304 ", NULL);
    expect(*state,
           "GET /file HTTP/1.1\r\n" CLOSING "If-None-Match: \"y\"\r\n\r\n",
           " 200 ", NULL);
    expect(*state,
           "GET /file HTTP/1.1\r\n" CLOSING
           "Range: bytes=0-0\r\nIf-Range: \"y\"\r\n\r\n",
           " 200 ", NULL);
    expect(*state,
           "GET /file HTTP/1.1\r\n" CLOSING
           "Range: bytes=0-0\r\nIf-Range: \"7-a-3b9aca02\"\r\n\r\n",
           " 206 ", "\r\n\r\n0");
    expect(*state, "HEAD /file HTTP/1.1\r\n" CLOSING "\r\n", " 200 ",
           "Content-Length: 10");
}

/* ---- streams -------------------------------------------------------------
 */

static void stream_sleeps_and_wakes(void **state)
{
    struct fixture *f = *state;
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = http_client_dial(f->server);
    static const char head[] = "GET /stream HTTP/1.1\r\n" CLOSING "\r\n";

    assert_int_equal(fd_write_all(fd, head, sizeof(head) - 1), 0);
    assert_int_equal(http_client_read_until(fd, &b, "text/event-stream"), 1);
    for (int i = 0; i < 200; i++) {
        buf_reset(&b);
        feed_push(f, 1, false);
        assert_int_equal(http_client_read_until(fd, &b, "data: x"), 1);
    }
    feed_push(f, 1000, true);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    assert_int_equal(f->closed, 1);
}

static void H7_client_leaving_closes_a_sleeping_stream(void **state)
{
    struct fixture *f = *state;
    struct buf b cleanup(buf_done) = {0};
    int fd = http_client_dial(f->server);
    static const char head[] = "GET /stream HTTP/1.1\r\n" CLOSING "\r\n";

    assert_int_equal(fd_write_all(fd, head, sizeof(head) - 1), 0);
    assert_int_equal(http_client_read_until(fd, &b, "text/event-stream"), 1);
    fd_close(&fd);
    for (int n = 0; !f->closed && n < 500; n++)
        usleep(10000);
    assert_int_equal(f->closed, 1);
}

static void stop_cuts_a_sleeping_stream(void **state)
{
    struct fixture *f = *state;
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = http_client_dial(f->server);
    static const char head[] = "GET /stream HTTP/1.1\r\n" CLOSING "\r\n";

    assert_int_equal(fd_write_all(fd, head, sizeof(head) - 1), 0);
    assert_int_equal(http_client_read_until(fd, &b, "text/event-stream"), 1);
    http_stop(f->server, 0);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    assert_int_equal(f->closed, 1);
    assert_int_equal(setup(state), 0);
    free(f);
}

/* ---- downloads that never change ----------------------------------------
 */

static void F8_download_names_no_type_a_browser_runs(void **state)
{
    static const struct {
        const char *said, *told;
    } cases[] = {
        {"text/csv", "text/csv; charset=utf-8"},
        {"TEXT/CSV", "text/csv; charset=utf-8"},
        {"image/png", "image/png"},
        {"video/mp4", "video/mp4"},
        {"text/html", "application/octet-stream"},
        {"image/svg%2Bxml", "application/octet-stream"},
        {"application/xhtml%2Bxml", "application/octet-stream"},
        {"text/javascript", "application/octet-stream"},
        {"text/csv;x", "application/octet-stream"},
        {"text/css", "application/octet-stream"},
        {"", "application/octet-stream"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf ask_for cleanup(buf_done) = {0};
        struct buf want cleanup(buf_done) = {0};

        buf_addf(&ask_for, "GET /blob?name=%s HTTP/1.1\r\n" CLOSING "\r\n",
                 cases[i].said);
        buf_addf(&want, "Content-Type: %s\r\n", cases[i].told);
        expect(*state, ask_for.data, want.data,
               "Content-Security-Policy: sandbox; default-src 'none'");
        expect(*state, ask_for.data, "X-Content-Type-Options: nosniff",
               "Content-Disposition: attachment; filename=\"b.html\"");
    }
}

static void download_conditions(void **state)
{
    expect(*state, "GET /blob HTTP/1.1\r\n" CLOSING "\r\n", "ETag: \"abc\"",
           "\r\n\r\n0123456789");
    expect(*state, "GET /blob HTTP/1.1\r\n" CLOSING "\r\n",
           "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
           "Content-Type: application/octet-stream");
    expect(*state,
           "GET /blob HTTP/1.1\r\n" CLOSING "If-None-Match: \"abc\"\r\n\r\n",
           " 304 ", "ETag: \"abc\"");
    expect(*state, "GET /blob HTTP/1.1\r\n" CLOSING "Range: bytes=3-5\r\n\r\n",
           " 206 ", "\r\n\r\n345");
    expect(*state, "GET /blob HTTP/1.1\r\n" CLOSING "Range: bytes=10-\r\n\r\n",
           " 416 ", "Content-Range: bytes */10");
    expect(*state, "HEAD /blob HTTP/1.1\r\n" CLOSING "\r\n", " 200 ",
           "Content-Length: 10");
}

static void json_body_may_be_left_out(void **state)
{
    expect(*state, "POST /maybe HTTP/1.1\r\n" CLOSING "\r\n", " 200 ",
           "nothing");
    expect(*state,
           "POST /maybe HTTP/1.1\r\n" CLOSING "Content-Length: 0\r\n"
           "Content-Type: image/png\r\n\r\n",
           " 200 ", "nothing");
    expect(*state,
           "POST /maybe HTTP/1.1\r\n" CLOSING "Content-Length: 2\r\n\r\n{}",
           " 200 ", "something");
    expect(*state,
           "POST /maybe HTTP/1.1\r\n" CLOSING "Content-Length: 2\r\n\r\n[]",
           " 400 ", "JSON object");
    expect(*state,
           "POST /maybe HTTP/1.1\r\n" CLOSING "Content-Length: 2\r\n"
           "Content-Type: image/png\r\n\r\n{}",
           " 400 ", "must be JSON");
    expect(*state, "POST /json HTTP/1.1\r\n" CLOSING "\r\n", " 400 ",
           "the body is empty");
}

/* ---- pipes ---------------------------------------------------------------
 */

/* How many z are in the answer, and does it end as it should? */
static size_t piped(struct fixture *f, const char *path, bool *ret_whole)
{
    struct buf head cleanup(buf_done) = {0};
    char *answer cleanup(mem_free) = NULL;
    size_t count = 0;

    buf_addf(&head, "GET %s HTTP/1.1\r\n" CLOSING "\r\n", path);
    answer = ask(f, head.data, head.len);
    assert_non_null(strstr(answer, " 200 "));
    assert_non_null(strstr(answer, "Content-Type: application/zip"));
    for (const char *p = strstr(answer, "\r\n\r\n"); *p; p++)
        count += *p == 'z';
    *ret_whole = strlen(answer) > 5 &&
                 strcmp(answer + strlen(answer) - 5, "0\r\n\r\n") == 0;
    return count;
}

static void pipe_sends_all_of_any_size(void **state)
{
    static const size_t sizes[] = {0,
                                   1,
                                   HTTP_PIPE_SIZE - 1,
                                   HTTP_PIPE_SIZE,
                                   HTTP_PIPE_SIZE + 1,
                                   (size_t)5 << 20};

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct buf path cleanup(buf_done) = {0};
        bool whole;

        buf_addf(&path, "/pipe?name=%zu", sizes[i]);
        assert_int_equal(piped(*state, path.data, &whole), sizes[i]);
        assert_true(whole);
    }
}

static void pipe_that_fails_has_no_end(void **state)
{
    bool whole;

    assert_int_equal(piped(*state, "/pipe?name=1000!", &whole), 1000);
    assert_false(whole);
    assert_int_equal(piped(*state, "/pipe?name=0!", &whole), 0);
    assert_false(whole);
}

static void pipe_of_a_head_request_is_closed(void **state)
{
    struct fixture *f = *state;
    char *answer cleanup(mem_free) = NULL;
    static const char head[] =
        "HEAD /pipe?name=9000000 HTTP/1.1\r\nHost: x\r\n\r\n";

    answer = ask(f, head, sizeof(head) - 1);
    assert_non_null(strstr(answer, "Content-Type: application/zip"));
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
    for (int n = 0; !f->closed && n < 500; n++)
        usleep(10000);
    assert_int_equal(f->closed, 1);
}

static void R6_slow_reader_of_a_pipe_holds_the_writer(void **state)
{
    static const char head[] =
        "GET /pipe?name=200000000 HTTP/1.1\r\n" CLOSING "\r\n";
    struct fixture *f = *state;
    int fd = http_client_dial(f->server);
    size_t before = 0;

    assert_int_equal(fd_write_all(fd, head, sizeof(head) - 1), 0);
    /* The sockets' own buffers fill, then nothing more is written. */
    for (int n = 0; n < 100; n++) {
        usleep(20000);
        if (f->piped > 0 && f->piped == before)
            break;
        before = f->piped;
    }
    assert_in_range(f->piped, HTTP_PIPE_SIZE, 100000000);
    assert_int_equal(f->closed, 0);
    fd_close(&fd);
    for (int n = 0; !f->closed && n < 800; n++)
        usleep(10000);
    assert_int_equal(f->closed, 1);
}

static void stop_ends_a_pipe(void **state)
{
    static const char head[] =
        "GET /pipe?name=200000000 HTTP/1.1\r\n" CLOSING "\r\n";
    struct fixture *f = *state;
    int fd cleanup(fd_close) = http_client_dial(f->server);

    assert_int_equal(fd_write_all(fd, head, sizeof(head) - 1), 0);
    for (int n = 0; !f->piped && n < 500; n++)
        usleep(10000);
    http_stop(f->server, 0);
    assert_int_equal(f->closed, 1);
    assert_int_equal(setup(state), 0);
    free(f);
}

/* ---- load ----------------------------------------------------------------
 */

static void let_go(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    f->open = true;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->lock);
}

static void R8_full_queue_is_refused_at_once(void **state)
{
    static const char head[] = "GET /wait HTTP/1.1\r\n" CLOSING "\r\n";
    struct fixture *f = *state;
    int fds[258];
    uint64_t started;

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = http_client_dial(f->server);
        assert_int_equal(fd_write_all(fds[i], head, sizeof(head) - 1), 0);
        for (int n = 0; i == 0 && !f->waiting && n < 1000; n++)
            usleep(1000);
    }
    for (int n = 0; n < 1000; n++) {
        size_t queued;
        unsigned threads;

        http_work_load(http_workers(f->server), &queued, &threads);
        if (queued == 256)
            break;
        usleep(1000);
    }
    started = clock_mono_ms();
    expect(f, "GET / HTTP/1.1\r\n" CLOSING "\r\n", " 429 ", "Retry-After: 1");
    assert_true(clock_mono_ms() - started < 1000);
    let_go(f);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fd_close(&fds[i]);
}

/* n requests of one sender that are refused, on one connection. */
static void be_refused(int fd, const char *key, unsigned n)
{
    char head[128];
    int len = snprintf(head, sizeof(head),
                       "GET /busy HTTP/1.1\r\nHost: x\r\n"
                       "Authorization: Bearer %s\r\n\r\n",
                       key);

    for (unsigned i = 0; i < n; i++) {
        struct buf b cleanup(buf_done) = {0};

        assert_int_equal(fd_write_all(fd, head, (size_t)len), 0);
        assert_int_equal(
            http_client_read_until(fd, &b, "\"message\":\"no\"}}"), 1);
        assert_non_null(strstr(b.data, " 429 "));
    }
}

/* A thousand refusals are as fast as they can be. The next is left unread for
 * a while; another sender's, and the same's on another day, are not. */
/* ---- threads for what frees something ----------------------------------- */

#define THREADS 4u
#define FREEING 6u
#define WAITING_MAX 1000u /* as in work.c */

static struct {
    struct http_work *work;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned charged, refused, freeing, parked, freed, served, waited,
        too_many;
    bool let_go, let_free;
} jobs = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .changed = PTHREAD_COND_INITIALIZER};

static void jobs_note(unsigned *what, const bool *until)
{
    pthread_mutex_lock(&jobs.lock);
    ++*what;
    pthread_cond_broadcast(&jobs.changed);
    while (until && !*until)
        pthread_cond_wait(&jobs.changed, &jobs.lock);
    pthread_mutex_unlock(&jobs.lock);
}

static void jobs_await(const unsigned *what, unsigned count)
{
    pthread_mutex_lock(&jobs.lock);
    while (*what < count)
        pthread_cond_wait(&jobs.changed, &jobs.lock);
    pthread_mutex_unlock(&jobs.lock);
}

static void jobs_set(bool *what)
{
    pthread_mutex_lock(&jobs.lock);
    *what = true;
    pthread_cond_broadcast(&jobs.changed);
    pthread_mutex_unlock(&jobs.lock);
}

static void job_plain(void *arg)
{
    (void)arg;
    if (http_work_charge(jobs.work, "busy", false))
        jobs_note(&jobs.charged, &jobs.let_go);
    else
        jobs_note(&jobs.refused, NULL);
}

static void job_freeing(void *arg)
{
    if (http_work_charge(jobs.work, "busy", true)) {
        jobs_note(&jobs.freeing, &jobs.let_free);
        jobs_note(&jobs.freed, NULL);
    } else {
        assert_true(http_work_park(jobs.work, "busy", true, job_freeing, arg));
        jobs_note(&jobs.parked, NULL);
    }
}

/* Comes in bursts: waits for a share without a thread. */
static void job_waiting(void *arg)
{
    if (http_work_charge(jobs.work, "busy", false)) {
        jobs_note(&jobs.served, NULL);
    } else if (http_work_park(jobs.work, "busy", false, job_waiting, arg)) {
        jobs_note(&jobs.waited, NULL);
    } else {
        jobs_note(&jobs.too_many, NULL);
    }
}

static void submit(void (*job)(void *))
{
    assert_int_equal(http_work_submit(jobs.work, 1, true, job, NULL), 0);
}

/* A tenant that has its share of threads is refused another, but not when it
 * is to free something: for that it has four more, and the rest waits without
 * a thread until one of these is free. */
static void X4_what_frees_something_is_parked_not_refused(void **state)
{
    size_t queued;
    unsigned threads;

    (void)state;
    jobs.work = http_work_new(32, 1);
    for (unsigned i = 0; i < 40 && jobs.refused == 0; i++) {
        submit(job_plain);
        while (true) { /* one after the other */
            pthread_mutex_lock(&jobs.lock);
            bool seen = jobs.charged + jobs.refused == i + 1;
            pthread_mutex_unlock(&jobs.lock);
            if (seen)
                break;
            usleep(1000);
        }
    }
    assert_int_equal(jobs.charged, 25); /* three times what is then left */
    assert_int_equal(jobs.refused, 1);
    for (unsigned i = 0; i < FREEING; i++)
        submit(job_freeing);
    jobs_await(&jobs.freeing, THREADS);
    jobs_await(&jobs.parked, FREEING - THREADS);
    for (unsigned i = 0; i < WAITING_MAX + 1; i++)
        submit(job_waiting);
    jobs_await(&jobs.waited, WAITING_MAX);
    jobs_await(&jobs.too_many, 1);
    assert_int_equal(jobs.served, 0);
    http_work_load(jobs.work, &queued, &threads);
    assert_int_equal(queued, 0); /* those that are parked cost no thread */
    assert_int_equal(jobs.freeing, THREADS);
    jobs_set(&jobs.let_free);
    jobs_await(&jobs.freed, FREEING);
    jobs_set(&jobs.let_go);
    jobs_await(&jobs.served, WAITING_MAX); /* each as a thread gets free */
    http_work_free(jobs.work);
}

static void R8_a_deletion_has_a_place_in_a_full_line(void **state)
{
    (void)state;
    jobs.charged = jobs.freeing = jobs.parked = jobs.freed = 0;
    jobs.let_go = jobs.let_free = false;
    jobs.work = http_work_new(1, 1);
    submit(job_plain);
    jobs_await(&jobs.charged, 1); /* the only thread */
    assert_int_equal(http_work_submit(jobs.work, 1, false, job_freeing, NULL),
                     0);
    assert_int_equal(http_work_submit(jobs.work, 1, false, job_freeing, NULL),
                     -EAGAIN);
    assert_int_equal(http_work_submit(jobs.work, 1, true, job_freeing, NULL),
                     0);
    jobs_set(&jobs.let_free);
    jobs_set(&jobs.let_go);
    jobs_await(&jobs.freed, 2);
    http_work_free(jobs.work);
}

static void X4_who_is_refused_again_and_again_waits(void **state)
{
    static const char next[] = "GET /busy HTTP/1.1\r\nHost: x\r\n"
                               "Authorization: Bearer loud\r\n\r\n";
    static const char upload[] =
        "PUT /busy HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n"
        "Authorization: Bearer loud\r\n\r\nsome";
    struct fixture *f = *state;
    int fd cleanup(fd_close) = http_client_dial(f->server);
    int other cleanup(fd_close) = -1;
    int up cleanup(fd_close) = -1;
    struct buf held cleanup(buf_done) = {0};
    struct buf refused cleanup(buf_done) = {0};
    unsigned before;

    be_refused(fd, "loud", 1000);
    for (before = f->refused + 5000; f->refused < before;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        struct buf b cleanup(buf_done) = {0};

        assert_int_equal(fd_write_all(fd, next, sizeof(next) - 1), 0);
        if (poll(&p, 1, 150) == 0)
            break; /* held */
        assert_int_equal(
            http_client_read_until(fd, &b, "\"message\":\"no\"}}"), 1);
    }
    assert_true(f->refused < before);
    up = http_client_dial(
        f->server); /* not earlier: the server closes idle connections */
    other = http_client_dial(f->server);
    assert_int_equal(fd_write_all(up, upload, sizeof(upload) - 1), 0);
    be_refused(other, "quiet", 5);
    /* Nobody waits for ever. */
    assert_int_equal(http_client_read_until(fd, &held, "\"message\":\"no\"}}"),
                     1);
    assert_int_equal(http_client_read_until(up, &refused, " 429 "), 1);
}

/* ---- connections -------------------------------------------------------- */

/* Asks on an open connection; the answer has no body. */
static void ask_on(int fd, const char *path, const char *status)
{
    struct buf b cleanup(buf_done) = {0};
    char bytes[200];

    (void)snprintf(bytes, sizeof(bytes), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n",
                   path);
    assert_int_equal(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL),
                     strlen(bytes));
    assert_int_equal(http_client_read_until(fd, &b, "\r\n\r\n"), 1);
    assert_non_null(strstr(b.data, status));
}

static bool is_open(int fd)
{
    char c;

    return recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
}

static void H2_the_oldest_stranger_makes_room(void **state)
{
    struct fixture *f = *state;
    int trusted[11], silent[60];
    struct buf b cleanup(buf_done) = {0};

    for (size_t i = 0; i < ARRAY_SIZE(trusted); i++) {
        trusted[i] = http_client_dial(f->server);
        ask_on(trusted[i], "/trust", "204");
    }
    for (size_t i = 0; i < ARRAY_SIZE(silent); i++) {
        silent[i] = http_client_dial(f->server);
        if (i % 2)
            assert_int_equal(send(silent[i], "GET / H", 7, MSG_NOSIGNAL), 7);
        if (i % 10 == 0) { /* a new client is served each time */
            int fd cleanup(fd_close) = http_client_dial(f->server);

            ask_on(fd, "/x", "200");
        }
    }
    for (size_t i = 0; i + 2 < ARRAY_SIZE(silent); i++)
        assert_int_equal(http_client_read_until(silent[i], &b, NULL), 0);
    assert_int_equal(b.len, 0);
    for (size_t i = 0; i < ARRAY_SIZE(trusted); i++)
        ask_on(trusted[i], "/trust", "204");
    /* One more that is trusted: of those the one idle for longest goes. */
    silent[0] = (fd_close(&silent[0]), http_client_dial(f->server));
    ask_on(silent[0], "/trust", "204");
    assert_int_equal(http_client_read_until(trusted[0], &b, NULL), 0);
    for (size_t i = 1; i < ARRAY_SIZE(trusted); i++)
        assert_true(is_open(trusted[i]));
    for (size_t i = 0; i < ARRAY_SIZE(trusted); i++)
        fd_close(&trusted[i]);
    for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
        fd_close(&silent[i]);
}

/* A stranger whose request is being handled is not closed for another. */
static void H2_a_request_under_way_is_not_closed(void **state)
{
    static const char bytes[] = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n";
    struct fixture *f = *state;
    int busy cleanup(fd_close) = http_client_dial(f->server);
    struct buf b cleanup(buf_done) = {0};

    assert_int_equal(send(busy, bytes, sizeof(bytes) - 1, MSG_NOSIGNAL),
                     sizeof(bytes) - 1);
    while (f->waiting == 0)
        usleep(1000);
    for (int i = 0; i < 20; i++) {
        int fd cleanup(fd_close) = http_client_dial(f->server);

        ask_on(fd, "/x", "200");
    }
    pthread_mutex_lock(&f->lock);
    f->open = true;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->lock);
    assert_int_equal(http_client_read_until(busy, &b, "204"), 1);
}

static void I5_delayed_answers_hold_no_worker(void **state)
{
    struct fixture *f = *state; /* with one worker */
    uint64_t begun = clock_mono_ms();
    int fds[20];

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        static const char bytes[] = "GET /delay HTTP/1.1\r\nHost: x\r\n\r\n";

        fds[i] = http_client_dial(f->server);
        assert_int_equal(send(fds[i], bytes, sizeof(bytes) - 1, MSG_NOSIGNAL),
                         sizeof(bytes) - 1);
    }
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        struct buf b cleanup(buf_done) = {0};

        assert_int_equal(http_client_read_until(fds[i], &b, "204"), 1);
        fd_close(&fds[i]);
    }
    /* All of them waited, and together, not one after the other. */
    assert_true(clock_mono_ms() - begun >= 300);
    assert_true(clock_mono_ms() - begun < 20 * 300);
}

static void H1_a_malformed_message_waits_for_its_turn(void **state)
{
    static const char bytes[] = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
                                "GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
                                "GET /x HTTP/1.1\nHost: x\r\n\r\n"
                                "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
    struct fixture *f = *state;
    int fd cleanup(fd_close) = http_client_dial(f->server);
    struct buf b cleanup(buf_done) = {0};
    const char *first, *second, *third;

    assert_int_equal(send(fd, bytes, sizeof(bytes) - 1, MSG_NOSIGNAL),
                     sizeof(bytes) - 1);
    while (f->waiting == 0)
        usleep(1000);
    assert_true(is_open(fd)); /* nothing is answered before its turn */
    pthread_mutex_lock(&f->lock);
    f->open = true;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->lock);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    first = strstr(b.data, "HTTP/1.1 204");
    second = strstr(b.data, "HTTP/1.1 200");
    third = strstr(b.data, "HTTP/1.1 400");
    assert_true(first && second && third && first < second && second < third);
    assert_null(strstr(third, "HTTP/1.1 2"));
}

static void connection_is_kept_alive(void **state)
{
    static const char head[] = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
    struct fixture *f = *state;
    int fd cleanup(fd_close) = http_client_dial(f->server);

    for (int i = 0; i < 500; i++) {
        struct buf b cleanup(buf_done) = {0};

        assert_int_equal(fd_write_all(fd, head, sizeof(head) - 1), 0);
        assert_int_equal(http_client_read_until(fd, &b, "GET|/x|-"), 1);
    }
}

static void stop_waits_for_a_handler(void **state)
{
    static const char head[] = "GET /wait HTTP/1.1\r\n" CLOSING "\r\n";
    struct fixture *f = *state;
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = http_client_dial(f->server);

    assert_int_equal(fd_write_all(fd, head, sizeof(head) - 1), 0);
    for (int n = 0; !f->waiting && n < 1000; n++)
        usleep(1000);
    http_quiesce(f->server);
    let_go(f);
    http_stop(f->server, 5);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    assert_non_null(strstr(b.data, " 204 "));
    assert_int_equal(setup(state), 0);
    free(f);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(request_is_decoded_once),
        CASE(answers_carry_the_common_headers),
        CASE(head_has_no_body),
        CASE(H1_odd_framing_is_refused),
        CASE(many_headers_are_refused),
        CASE(large_headers_are_refused),
        CASE(body_sizes_arrive_whole),
        CASE(body_in_chunks_arrives_whole),
        CASE(body_over_the_limit_is_refused),
        CASE(body_in_chunks_over_the_limit_is_refused),
        CASE(answer_before_the_body_reaches_the_client),
        CASE(json_body_is_checked),
        CASE(H2_slow_body_is_cut),
        CASE(H2_slow_header_is_cut),
        CASE(H7_client_leaving_frees_the_reader),
        CASE(F8_file_is_inert),
        CASE(file_ranges),
        CASE(file_conditions),
        CASE(stream_sleeps_and_wakes),
        CASE(H7_client_leaving_closes_a_sleeping_stream),
        CASE(stop_cuts_a_sleeping_stream),
        CASE(F8_download_names_no_type_a_browser_runs),
        CASE(download_conditions),
        CASE(json_body_may_be_left_out),
        CASE(pipe_sends_all_of_any_size),
        CASE(pipe_that_fails_has_no_end),
        CASE(pipe_of_a_head_request_is_closed),
        CASE(R6_slow_reader_of_a_pipe_holds_the_writer),
        CASE(stop_ends_a_pipe),
        cmocka_unit_test_setup_teardown(R8_full_queue_is_refused_at_once,
                                        setup_one_worker, teardown),
        CASE(X4_who_is_refused_again_and_again_waits),
        cmocka_unit_test(X4_what_frees_something_is_parked_not_refused),
        cmocka_unit_test(R8_a_deletion_has_a_place_in_a_full_line),
        cmocka_unit_test_setup_teardown(H2_the_oldest_stranger_makes_room,
                                        setup_few, teardown),
        cmocka_unit_test_setup_teardown(H2_a_request_under_way_is_not_closed,
                                        setup_few, teardown),
        cmocka_unit_test_setup_teardown(I5_delayed_answers_hold_no_worker,
                                        setup_one_worker, teardown),
        CASE(H1_a_malformed_message_waits_for_its_turn),
        CASE(connection_is_kept_alive),
        CASE(stop_waits_for_a_handler),
    };
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignore, NULL);
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
