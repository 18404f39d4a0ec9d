/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of http/early_response.c and of http_left: refusals while a body
 * is still being sent, what a refused sender may go on sending, and clients
 * that hang up. A real server on a free loopback port, spoken to over plain
 * sockets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/http.h"
#include "http_client.h"

#define WAIT_MS 10000
#define BODY_MAX ((size_t)8 << 20)
#define SMALL ((size_t)64 << 10) /* collected before a worker sees it */

struct fixture {
    struct http_server *server;
    atomic_int waiting, left, stayed;
};

/* Until the client has gone, or for long enough to say it has not. */
static void handle_left(struct fixture *f, struct http_request *req)
{
    f->waiting++;
    for (int i = 0; i < 2000 && !http_left(req); i++) {
        usleep(1000);
        f->stayed++;
    }
    if (http_left(req))
        f->left++;
    http_respond_empty(req, 204);
    f->waiting--;
}

static void handle_some(struct http_request *req)
{
    struct buf body = {0};
    struct error err;
    char bytes[1000];

    if (http_body_read(req, bytes, sizeof(bytes), BODY_MAX, &err) < 0) {
        http_respond_error(req, &err);
        return;
    }
    buf_adds(&body, "enough");
    http_respond(req, 200, "text/plain", &body);
}

static void handle_all(struct http_request *req)
{
    struct buf body = {0};
    struct error err;
    char bytes[4096];
    ssize_t n;

    do
        n = http_body_read(req, bytes, sizeof(bytes), SMALL, &err);
    while (n > 0);
    if (n < 0)
        http_respond_error(req, &err);
    else
        http_respond(req, 200, "text/plain", &body);
}

static void on_request(void *ctx, struct http_request *req)
{
    const char *path = http_path(req);
    struct buf body = {0};
    struct error err;

    if (strcmp(path, "/left") == 0) {
        handle_left(ctx, req);
    } else if (strcmp(path, "/some") == 0) {
        handle_some(req);
    } else if (strcmp(path, "/all") == 0) {
        handle_all(req);
    } else if (strcmp(path, "/huge") == 0) { /* too much to send early */
        for (int i = 0; i < 20000; i++)
            buf_adds(&body, "no");
        http_respond(req, 400, "text/plain", &body);
    } else if (strcmp(path, "/empty") == 0) {
        http_respond_empty(req, 401);
    } else {
        (void)error_set(&err, ERR_UNAUTHENTICATED, "no");
        http_respond_error(req, &err);
    }
}

static int setup_with(void **state, unsigned workers, unsigned drain_s,
                      uint64_t drain_bytes)
{
    struct http_settings settings = {
        .host = "127.0.0.1",
        .workers = workers,
        .connections = 100,
        .header_timeout_s = 5,
        .idle_timeout_s = 5,
        .body_timeout_s = 60,
        .body_bytes = BODY_MAX,
        .drain_s = drain_s,
        .drain_bytes = drain_bytes,
    };
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct error err;

    *state = f;
    return http_start(&settings, on_request, f, &f->server, &err);
}

static int setup(void **state)
{
    return setup_with(state, 1, 600, 0);
}

static int setup_short(void **state)
{
    return setup_with(state, 1, 1, 0);
}

static int setup_narrow(void **state)
{
    return setup_with(state, 1, 600, BODY_MAX / 2);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    http_stop(f->server, 0);
    free(f);
    return 0;
}

/* ---- help --------------------------------------------------------------- */

static int dial_and_say(const struct fixture *f, const char *text)
{
    int fd = http_client_dial(f->server);

    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    return fd;
}

/* Sends up to max bytes in pieces; returns how many went. */
static size_t send_on(int fd, size_t max, size_t piece, unsigned pause_us)
{
    uint64_t deadline = clock_mono_ms() + WAIT_MS;
    char *bytes cleanup(mem_free) = xcalloc(1, piece);
    size_t sent = 0;

    while (sent < max && clock_left_ms(deadline) > 0) {
        ssize_t n = send(fd, bytes, MIN(piece, max - sent), MSG_NOSIGNAL);

        if (n <= 0)
            break;
        sent += (size_t)n;
        if (pause_us)
            usleep(pause_us);
    }
    return sent;
}

#define HOST "Host: x\r\n"
#define LARGE "Content-Length: 4000000\r\n\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"

static void expect_refused(const struct buf *b, const char *status)
{
    const char *body = strstr(b->data, "\r\n\r\n");

    if (strncmp(b->data, status, strlen(status)) != 0)
        fail_msg("wanted '%s', got:\n%s", status, b->data);
    assert_non_null(body);
    assert_non_null(strstr(b->data, "\r\nConnection: close\r\n"));
    assert_non_null(strstr(b->data, "\r\nX-Request-Id: req_"));
    assert_non_null(strstr(b->data, "\r\nDate: "));
    assert_null(strstr(body, "HTTP/1.1")); /* once */
}

/* ---- refusals ----------------------------------------------------------- */

static void refusal_comes_before_the_body(void **state)
{
    static const char *const heads[] = {
        "POST /no HTTP/1.1\r\n" HOST LARGE,
        "POST /no HTTP/1.1\r\n" HOST CHUNKED,
        "POST /no HTTP/1.1\r\n" HOST CHUNKED "3e8\r\nabc",
        "PUT /no HTTP/1.1\r\n" HOST LARGE "some of it",
    };

    for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
        struct buf b cleanup(buf_done) = {0};
        int fd cleanup(fd_close) = dial_and_say(*state, heads[i]);

        /* The end is seen, and yet the rest may be sent. */
        assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
        expect_refused(&b, "HTTP/1.1 401 Unauthorized\r\n");
        assert_non_null(strstr(b.data, "WWW-Authenticate: Bearer"));
        assert_non_null(strstr(b.data, "{\"error\":{\"code\":"));
        if (!strstr(heads[i], "chunked"))
            assert_int_equal(send_on(fd, 3000000, 65536, 0), 3000000);
    }
}

static void larger_than_any_route_takes(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(*state, "POST /no HTTP/1.1\r\n" HOST
                             "Content-Length: 99999999999\r\n\r\n");

    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 413 ");
    assert_int_equal(send_on(fd, BODY_MAX, 65536, 0), BODY_MAX);
}

static void refusal_in_the_middle(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = dial_and_say(
        *state, "POST /all HTTP/1.1\r\n" HOST CHUNKED "400000\r\n");

    assert_int_equal(send_on(fd, 0x400000, 65536, 0), 0x400000);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 413 ");
}

static void refusal_without_a_body(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(*state, "POST /empty HTTP/1.1\r\n" HOST LARGE);

    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 401 ");
    assert_non_null(strstr(b.data, "\r\nContent-Length: 0\r\n"));
}

static void blocking_sender_sees_it_after_all_was_sent(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(*state, "POST /no HTTP/1.1\r\n" HOST LARGE);

    assert_int_equal(send_on(fd, 4000000, 65536, 0), 4000000);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 401 ");
}

/* What follows a refused body is never taken for a request. */
static void H1_nothing_follows_a_refused_body(void **state)
{
    static const char next[] = "GET /left HTTP/1.1\r\n" HOST "\r\n";
    struct fixture *f = *state;
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(f, "POST /no HTTP/1.1\r\n" HOST LARGE);

    assert_int_equal(http_client_read_until(fd, &b, "}}"), 1);
    assert_int_equal(send_on(fd, 4000000, 65536, 0), 4000000);
    /* It may be closed by then. */
    (void)!send(fd, next, sizeof(next) - 1, MSG_NOSIGNAL);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 401 ");
    usleep(50000);
    assert_int_equal(f->waiting + f->left, 0);
}

static void continue_is_said_first(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = dial_and_say(
        *state, "POST /no HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n" LARGE);

    assert_int_equal(http_client_read_until(fd, &b, "100 Continue\r\n\r\n"),
                     1);
    assert_null(strstr(b.data, "401"));
    buf_reset(&b);
    assert_int_equal(send_on(fd, 1000, 1000, 0), 1000);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 401 ");
}

static void expecting_client_is_refused_instead_of_told_to_go_on(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = dial_and_say(
        *state, "POST /no HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n"
                "Content-Length: 99999999999\r\n\r\n");

    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 413 ");
}

static void nearly_complete_bodies_keep_the_connection(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    struct buf body cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        http_client_dial(((struct fixture *)*state)->server);

    /* The rest is small, so it is read and the connection goes on. */
    buf_addf(&body, "POST /no HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
             SMALL);
    assert_int_equal(fd_write_all(fd, body.data, body.len), 0);
    assert_int_equal(send_on(fd, SMALL, 4096, 0), SMALL);
    assert_int_equal(http_client_read_until(fd, &b, "}}"), 1);
    assert_null(strstr(b.data, "Connection: close"));
    buf_reset(&b);
    assert_int_equal(fd_write_all(fd, "GET /x HTTP/1.1\r\n" HOST "\r\n", 28),
                     0);
    assert_int_equal(http_client_read_until(fd, &b, "}}"), 1);
}

static void success_waits_for_the_rest(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(*state, "POST /some HTTP/1.1\r\n" HOST LARGE);

    assert_int_equal(send_on(fd, 4000000, 65536, 0), 4000000);
    assert_int_equal(http_client_read_until(fd, &b, "enough"), 1);
    assert_null(strstr(b.data, "Connection: close"));
    buf_reset(&b);
    assert_int_equal(fd_write_all(fd, "GET /x HTTP/1.1\r\n" HOST "\r\n", 28),
                     0);
    assert_int_equal(http_client_read_until(fd, &b, " 401 "), 1);
}

static void large_refusal_waits_for_the_rest(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(*state, "POST /huge HTTP/1.1\r\n" HOST LARGE);

    assert_int_equal(send_on(fd, 4000000, 65536, 0), 4000000);
    assert_int_equal(http_client_read_until(fd, &b, "Content-Length: 40000"),
                     1);
    assert_non_null(strstr(b.data, " 400 "));
}

/* ---- caps --------------------------------------------------------------- */

static void H2_endless_sender_is_cut_by_time(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(*state, "POST /no HTTP/1.1\r\n" HOST LARGE);

    /* Fast enough for the least rate, so only the time can end it. */
    assert_true(send_on(fd, 3900000, 1000, 10000) < 3900000);
    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 401 ");
}

static void H2_silent_sender_is_cut_by_time(void **state)
{
    struct fixture *f = *state;
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(f, "POST /no HTTP/1.1\r\n" HOST LARGE);
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    bool gone = false;

    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 401 ");
    /* Our side is half open; a byte tells when the other side is gone. */
    for (int i = 0; i < WAIT_MS / 100 && !gone; i++) {
        usleep(100000);
        gone = send(fd, "x", 1, MSG_NOSIGNAL) < 0 ||
               (poll(&p, 1, 0) == 1 && (p.revents & POLLHUP));
    }
    assert_true(gone);
}

static void H2_endless_sender_is_cut_by_bytes(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(*state, "POST /no HTTP/1.1\r\n" HOST
                             "Content-Length: 99999999999\r\n\r\n");

    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    expect_refused(&b, "HTTP/1.1 413 ");
    /* Below the cap all is taken; above it comes the end. */
    assert_int_equal(send_on(fd, BODY_MAX / 2, 65536, 0), BODY_MAX / 2);
    assert_true(send_on(fd, 8 * BODY_MAX, 65536, 0) < 8 * BODY_MAX);
}

static void R8_refused_senders_hold_no_worker(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    int fds[8], fd;

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        buf_reset(&b);
        fds[i] = dial_and_say(*state, "POST /no HTTP/1.1\r\n" HOST LARGE);
        assert_int_equal(http_client_read_until(fds[i], &b, NULL), 0);
        expect_refused(&b, "HTTP/1.1 401 ");
    }
    buf_reset(&b);
    fd = dial_and_say(*state, "GET /x HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(http_client_read_until(fd, &b, "}}"), 1);
    fd_close(&fd);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fd_close(&fds[i]);
}

static void stop_does_not_wait_for_a_refused_sender(void **state)
{
    struct fixture *f = *state;
    struct buf b cleanup(buf_done) = {0};
    int fd cleanup(fd_close) =
        dial_and_say(f, "POST /no HTTP/1.1\r\n" HOST LARGE);

    assert_int_equal(http_client_read_until(fd, &b, NULL), 0);
    http_stop(f->server, 0);
    free(f);
    assert_int_equal(setup(state), 0);
}

/* ---- clients that hang up ----------------------------------------------- */

static void wait_for(const atomic_int *what, int least)
{
    for (int i = 0; *what < least && i < WAIT_MS; i++)
        usleep(1000);
    assert_true(*what >= least);
}

static void H7_handler_sees_its_client_leave(void **state)
{
    static const char *const more[] = {
        "",
        "GET /pipelined HTTP/1.1\r\n" HOST "\r\n", /* unread when it leaves */
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
        int fd = dial_and_say(f, "GET /left HTTP/1.1\r\n" HOST "\r\n");

        wait_for(&f->waiting, 1);
        f->stayed = 0;
        wait_for(&f->stayed, 20); /* it is here, and is seen to be */
        assert_int_equal(f->left, (int)i);
        assert_int_equal(fd_write_all(fd, more[i], strlen(more[i])), 0);
        fd_close(&fd);
        wait_for(&f->left, (int)i + 1);
        for (int n = 0; f->waiting && n < WAIT_MS; n++)
            usleep(1000);
        assert_int_equal(f->waiting, 0);
    }
}

static void H7_handler_sees_its_client_reset(void **state)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    struct fixture *f = *state;
    int fd = dial_and_say(f, "GET /left HTTP/1.1\r\n" HOST "\r\n");

    wait_for(&f->waiting, 1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)),
                     0);
    fd_close(&fd);
    wait_for(&f->left, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(refusal_comes_before_the_body),
        CASE(larger_than_any_route_takes),
        CASE(refusal_in_the_middle),
        CASE(refusal_without_a_body),
        CASE(blocking_sender_sees_it_after_all_was_sent),
        CASE(H1_nothing_follows_a_refused_body),
        CASE(continue_is_said_first),
        CASE(expecting_client_is_refused_instead_of_told_to_go_on),
        CASE(nearly_complete_bodies_keep_the_connection),
        CASE(success_waits_for_the_rest),
        CASE(large_refusal_waits_for_the_rest),
        cmocka_unit_test_setup_teardown(H2_endless_sender_is_cut_by_time,
                                        setup_short, teardown),
        cmocka_unit_test_setup_teardown(H2_silent_sender_is_cut_by_time,
                                        setup_short, teardown),
        cmocka_unit_test_setup_teardown(H2_endless_sender_is_cut_by_bytes,
                                        setup_narrow, teardown),
        CASE(R8_refused_senders_hold_no_worker),
        CASE(stop_does_not_wait_for_a_refused_sender),
        CASE(H7_handler_sees_its_client_leave),
        CASE(H7_handler_sees_its_client_reset),
    };
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignore, NULL);
    return cmocka_run_group_tests_name("http_early", tests, NULL, NULL);
}
