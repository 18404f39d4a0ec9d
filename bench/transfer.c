/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One large body up or down for the stopwatch, from and to memory, so that
 * what is timed is the server's and the kernel's. The bytes are made before
 * the clock starts and compared after it stopped.
 */
#include "stopwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The bytes of a seed repeat after so many: enough to be nobody else's, and
 * little to hold. */
#define PERIOD ((size_t)32 << 20)

static char *period_new(size_t len, uint64_t seed, size_t *ret_size)
{
    size_t size = len < PERIOD ? len : PERIOD;
    char *bytes = malloc(size + 1);

    if (!bytes)
        stopwatch_die("malloc");
    stopwatch_fill(bytes, size, seed);
    *ret_size = size;
    return bytes;
}

/* Around the file of a form. */
static const char form_begin[] =
    "--stopwatch\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n"
    "user_data\r\n--stopwatch\r\nContent-Disposition: form-data; "
    "name=\"file\"; filename=\"bench.bin\"\r\n"
    "Content-Type: application/octet-stream\r\n\r\n";
static const char form_end[] = "\r\n--stopwatch--\r\n";

/* With what of a form comes before the bytes. */
static char *head_new(const struct server *to, const char *method,
                      const char *path, size_t len, bool form)
{
    char *text = NULL;

    if (form)
        len += sizeof(form_begin) - 1 + sizeof(form_end) - 1;
    if (asprintf(&text,
                 "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                 "Authorization: Bearer %s\r\n%s"
                 "Content-Length: %zu\r\n\r\n%s",
                 method, path, to->key,
                 form ? "Content-Type: multipart/form-data; "
                        "boundary=stopwatch\r\n"
                      : "",
                 len, form ? form_begin : "") < 0)
        stopwatch_die("asprintf");
    return text;
}

static void sync_at(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) < 0)
        stopwatch_die(file);
    close(fd);
}

uint64_t transfer_up(const struct server *to, const char *path, size_t len,
                     uint64_t seed, const char *sync_file, bool form,
                     struct answer *ret_answer)
{
    size_t size;
    char *bytes = period_new(len, seed, &size);
    char *head = head_new(to, form ? "POST" : "PUT", path, len, form);
    int fd = http_connect(to);
    uint64_t begun = stopwatch_now();

    http_send(fd, head, strlen(head));
    for (size_t left = len; left > 0;) {
        size_t n = left < size ? left : size;

        http_send(fd, bytes, n);
        left -= n;
    }
    if (form)
        http_send(fd, form_end, sizeof(form_end) - 1);
    while (!http_read(fd, ret_answer))
        continue;
    if (strcmp(sync_file, "-") != 0)
        sync_at(sync_file);
    begun = stopwatch_now() - begun;
    close(fd);
    free(head);
    free(bytes);
    return begun;
}

/* Reads into place until the body, which begins somewhere in the first of
 * it, has come; returns where that is, or NULL when it is not len bytes. */
static char *read_body(int fd, char *room, size_t size, size_t len,
                       int *ret_status)
{
    size_t have = 0;
    char *body = NULL;

    *ret_status = 0;
    while (have < size && (!body || have < (size_t)(body - room) + len)) {
        ssize_t n = recv(fd, room + have, size - have, 0);

        if (n < 0)
            stopwatch_die("recv");
        if (n == 0)
            return NULL;
        have += (size_t)n;
        if (!body && (body = memmem(room, have, "\r\n\r\n", 4))) {
            body += 4;
            if (sscanf(room, "HTTP/1.1 %d", ret_status) != 1 ||
                *ret_status != 200)
                return NULL;
        }
    }
    return body && have == (size_t)(body - room) + len ? body : NULL;
}

static bool is_period(const char *body, size_t len, uint64_t seed)
{
    size_t size, at = 0;
    char *bytes = period_new(len, seed, &size);
    bool same = true;

    while (same && at < len) {
        size_t n = len - at < size ? len - at : size;

        same = memcmp(body + at, bytes, n) == 0;
        at += n;
    }
    free(bytes);
    return same;
}

uint64_t transfer_down(const struct server *to, const char *path, size_t len,
                       uint64_t seed, int *ret_status, bool *ret_same)
{
    size_t size = len + 16384; /* the headers */
    char *room = malloc(size), *head = head_new(to, "GET", path, 0, false),
         *body;
    int fd = http_connect(to);
    uint64_t begun;

    if (!room)
        stopwatch_die("malloc");
    memset(room, 1, size); /* no page fault is timed */
    begun = stopwatch_now();
    http_send(fd, head, strlen(head));
    body = read_body(fd, room, size, len, ret_status);
    begun = stopwatch_now() - begun;
    *ret_same = body && is_period(body, len, seed);
    close(fd);
    free(head);
    free(room);
    return begun;
}
