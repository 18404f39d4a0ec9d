/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the HTTP server's unit tests: a plain connection over
 * loopback, so that a test decides about every byte and when it is sent.
 */
#ifndef GLOVEBOX_TESTS_UNIT_HTTP_CLIENT_H
#define GLOVEBOX_TESTS_UNIT_HTTP_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "http/http.h"

#define HTTP_CLIENT_WAIT_MS 10000

static inline int http_client_dial(struct http_server *server)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(http_port(server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Reads until `text` has come (1), the end (0) or too late (-1). */
static inline int http_client_read_until(int fd, struct buf *b,
                                         const char *text)
{
    uint64_t deadline = clock_mono_ms() + HTTP_CLIENT_WAIT_MS;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char bytes[8192];
        ssize_t n;

        if (text && b->data && strstr(b->data, text))
            return 1;
        if (poll(&p, 1, clock_left_ms(deadline)) <= 0)
            return -1;
        n = read(fd, bytes, sizeof(bytes));
        if (n <= 0)
            return 0;
        buf_add(b, bytes, (size_t)n);
    }
}

#endif
