/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP exchanges for the stopwatch: kept-alive connections to a server on
 * loopback, one write per request, answers with a Content-Length. It has as
 * little of a client in it as can be, because what it costs is added to the
 * product's figures. Bodies too large for that are transfer.c's.
 */
#include "stopwatch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 16384
#define ANSWER_MAX (64 << 20)

/* Connections kept from exchange to exchange; 0 is none, as in a new array. */
static int kept[STOPWATCH_MAX];

int http_connect(const struct server *to)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(to->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        stopwatch_die("connect");
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
        stopwatch_die("TCP_NODELAY");
    return fd;
}

/* A server closes what was idle for long: something to read means its end. */
static bool is_stale(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) != 0;
}

static void connect_all(const struct server *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (kept[i] && is_stale(kept[i])) {
            close(kept[i]);
            kept[i] = 0;
        }
        if (!kept[i])
            kept[i] = http_connect(to);
    }
}

void http_send(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            stopwatch_die("send");
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

/* Finds status and body once all of the answer is there. */
static bool is_complete(struct answer *a)
{
    char *end = memmem(a->raw.data, a->raw.len, "\r\n\r\n", 4), *line, *next;
    size_t length = 0;

    if (!end || sscanf(a->raw.data, "HTTP/1.1 %d", &a->status) != 1)
        return false;
    for (line = a->raw.data; line < end; line = next + 2) {
        next = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            length = strtoul(line + 15, NULL, 10);
    }
    a->body = end + 4;
    a->body_len = a->raw.len - (size_t)(a->body - a->raw.data);
    return a->body_len >= length;
}

bool http_read(int fd, struct answer *a)
{
    char *room = stopwatch_room(&a->raw, READ_SIZE + 1);
    ssize_t n = recv(fd, room, READ_SIZE, 0);

    if (n < 0)
        stopwatch_die("recv");
    if (n == 0 || a->raw.len > ANSWER_MAX) {
        errno = EPROTO;
        stopwatch_die("the answer broke off or has no end");
    }
    a->raw.len += (size_t)n;
    a->raw.data[a->raw.len] = '\0';
    return is_complete(a);
}

static void read_all(size_t count, struct answer *answers)
{
    struct pollfd wait[STOPWATCH_MAX];
    size_t open = count;

    for (size_t i = 0; i < count; i++)
        wait[i] = (struct pollfd){.fd = kept[i], .events = POLLIN};
    while (open > 0) {
        /* One answer is simply waited for in recv. */
        if (count > 1 && poll(wait, count, -1) < 0)
            stopwatch_die("poll");
        for (size_t i = 0; i < count; i++) {
            if (wait[i].fd < 0 || (count > 1 && wait[i].revents == 0))
                continue;
            if (http_read(wait[i].fd, &answers[i])) {
                wait[i].fd = -1;
                open--;
            }
        }
    }
}

/* "A: b|C: d" as lines of a head; owned by caller. */
static char *header_lines(const char *headers)
{
    char *lines = malloc(2 * strlen(headers) + 3), *out = lines;

    if (!lines)
        stopwatch_die("malloc");
    for (; *headers; headers++) {
        if (*headers == '|') {
            *out++ = '\r';
            *out++ = '\n';
        } else {
            *out++ = *headers;
        }
    }
    if (out > lines) {
        *out++ = '\r';
        *out++ = '\n';
    }
    *out = '\0';
    return lines;
}

uint64_t http_exchange(const struct server *to, const char *method,
                       const char *path, const char *body, const char *headers,
                       size_t count, struct answer *ret_answers)
{
    char *text = NULL, *lines = header_lines(headers);
    int len = asprintf(&text,
                       "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                       "Authorization: Bearer %s\r\n"
                       "Content-Type: application/json\r\n%s"
                       "Content-Length: %zu\r\n\r\n%s",
                       method, path, to->key, lines, strlen(body), body);
    uint64_t begun;

    if (len < 0)
        stopwatch_die("asprintf");
    connect_all(to, count);
    begun = stopwatch_now();
    for (size_t i = 0; i < count; i++)
        http_send(kept[i], text, (size_t)len);
    read_all(count, ret_answers);
    begun = stopwatch_now() - begun;
    free(lines);
    free(text);
    return begun;
}
