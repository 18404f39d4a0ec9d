/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many small uploads for the stopwatch: some connections, each with one file
 * on its way at a time, as that many clients would. Every file has a name and
 * bytes no earlier one had, so that each is stored anew.
 */
#include "stopwatch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD_MAX 2048

/* One client: its connection, what it sends and what it is told. */
struct client {
    int fd;
    char *request; /* HEAD_MAX and the bytes */
    struct answer answer;
};

/* Since the process began: the next one's name. */
static uint64_t files_sent;

static void send_next(struct client *c, const struct server *to,
                      const char *prefix, size_t len)
{
    uint64_t file = ++files_sent;
    int head = snprintf(c->request, HEAD_MAX,
                        "PUT %s%" PRIu64 ".bin HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                        "Authorization: Bearer %s\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        prefix, file, to->key, len);

    if (head < 0 || head >= HEAD_MAX) {
        errno = EMSGSIZE;
        stopwatch_die("request");
    }
    stopwatch_fill(c->request + head, len, stopwatch_now());
    c->answer.raw.len = 0;
    http_send(c->fd, c->request, (size_t)head + len);
}

/* True when the file is stored. */
static bool hear(struct client *c)
{
    if (!http_read(c->fd, &c->answer))
        return false;
    if (c->answer.status != 201) {
        fprintf(stderr, "stopwatch: an upload was answered with %d %s\n",
                c->answer.status, c->answer.body);
        exit(1);
    }
    return true;
}

static void run_all(struct client *clients, size_t width,
                    const struct server *to, const char *prefix, size_t len,
                    size_t count)
{
    struct pollfd wait[STOPWATCH_MAX];
    size_t sent = 0, stored = 0;

    for (size_t i = 0; i < width; i++) {
        wait[i] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
        if (sent < count) {
            send_next(&clients[i], to, prefix, len);
            sent++;
        }
    }
    while (stored < count) {
        if (poll(wait, width, -1) < 0)
            stopwatch_die("poll");
        for (size_t i = 0; i < width; i++) {
            if (!wait[i].revents || !hear(&clients[i]))
                continue;
            stored++;
            if (sent < count) {
                send_next(&clients[i], to, prefix, len);
                sent++;
            }
        }
    }
}

uint64_t upload_many(const struct server *to, const char *prefix, size_t len,
                     size_t width, size_t count)
{
    struct client *clients = calloc(width, sizeof(*clients));
    uint64_t begun;

    if (!clients)
        stopwatch_die("calloc");
    for (size_t i = 0; i < width; i++) {
        clients[i].fd = http_connect(to);
        clients[i].request = malloc(HEAD_MAX + len);
        if (!clients[i].request)
            stopwatch_die("malloc");
    }
    begun = stopwatch_now();
    run_all(clients, width, to, prefix, len, count);
    begun = stopwatch_now() - begun;
    for (size_t i = 0; i < width; i++) {
        close(clients[i].fd);
        free(clients[i].request);
        free(clients[i].answer.raw.data);
    }
    free(clients);
    return begun;
}
