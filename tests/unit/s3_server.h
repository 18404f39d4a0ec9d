/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An S3 server for unit tests: tests/lib/s3-server.mjs, which misbehaves on
 * request, or tests/lib/swift-s3.py, which is a real one. It is a child that
 * ends with this process, because its standard input is then closed.
 */
#ifndef GLOVEBOX_TESTS_S3_SERVER_H
#define GLOVEBOX_TESTS_S3_SERVER_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "fetch/fetch.h"
#include "s3/s3.h"

struct s3_server {
    pid_t pid;
    int in, out; /* its standard input; its output */
    int port;
    char endpoint[64];
    char key_file[512];
};

/* argv: the program; waits until it says that it is ready. False: it does not
 * start here. */
static inline bool s3_server_start(struct s3_server *s,
                                   const char *const argv[], const char *dir)
{
    int to[2], from[2];
    char line[128] = "";
    size_t n = 0;
    FILE *keys;

    *s = (struct s3_server){.in = -1, .out = -1};
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        return false;
    s->pid = fork();
    if (s->pid == 0) {
        (void)dup2(to[0], 0);
        (void)dup2(from[1], 1);
        (void)execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    s->in = to[1];
    s->out = from[0];
    while (n + 1 < sizeof(line) && read(s->out, line + n, 1) == 1 &&
           line[n] != '\n')
        n++;
    if (sscanf(line, "ready %d", &s->port) != 1)
        return false;
    (void)snprintf(s->endpoint, sizeof(s->endpoint), "http://127.0.0.1:%d",
                   s->port);
    (void)snprintf(s->key_file, sizeof(s->key_file), "%s/keys", dir);
    keys = fopen(s->key_file, "w");
    if (!keys)
        return false;
    fputs("access_key_id=test:tester\nsecret_access_key=testing\n", keys);
    return fclose(keys) == 0;
}

static inline void s3_server_stop(struct s3_server *s)
{
    if (s->pid <= 0)
        return;
    (void)close(s->in);
    (void)close(s->out);
    (void)kill(s->pid, SIGTERM);
    (void)waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

/* A request to the scripted server itself: arms a fault and its like. ret: the
 * answer, or NULL. */
static inline void s3_server_ask(struct s3_server *s, const char *path,
                                 const char *json, struct buf *ret)
{
    char url[128];
    struct buf answer cleanup(buf_done) = {0};
    struct error err;
    long status = 0;

    (void)snprintf(url, sizeof(url), "%s%s", s->endpoint, path);
    if (fetch(&(struct fetch_request){.url = url,
                                      .body = json,
                                      .body_len = json ? strlen(json) : 0,
                                      .answer_max = 1 << 20,
                                      .total_ms = 10000},
              ret ? ret : &answer, &status, &err) < 0 ||
        status != 200) {
        (void)fprintf(stderr, "the S3 server of the test: %s\n", err.message);
        abort();
    }
    if (ret)
        buf_add(ret, "", 1);
}

static inline struct s3_settings s3_server_settings(const struct s3_server *s,
                                                    const char *bucket)
{
    return (struct s3_settings){.name = bucket,
                                .endpoint = s->endpoint,
                                .region = "us-east-1",
                                .bucket = bucket,
                                .prefix = "",
                                .key_file = s->key_file,
                                .connections = 8,
                                .deadline_ms = 20000,
                                .stall_ms = 1000,
                                .part_bytes = 1 << 20};
}

#endif
