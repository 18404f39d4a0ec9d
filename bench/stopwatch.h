/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the benchmark's stopwatch share: a clock, a growing
 * buffer and two things that can be timed, HTTP exchanges and processes.
 * Everything runs in one thread of one process; an error of the stopwatch
 * itself ends it.
 */
#ifndef BENCH_STOPWATCH_H
#define BENCH_STOPWATCH_H

#include <stddef.h>
#include <stdint.h>

/* Most exchanges or processes in flight at once. */
#define STOPWATCH_MAX 1000

/* Bytes that were gathered; zeroed is empty, data is owned by it. */
struct bytes {
    char *data;
    size_t len;
    size_t size;
};

/* Where to send requests, and how they prove who they are. */
struct server {
    uint16_t port; /* of 127.0.0.1 */
    const char *key;
};

/* One answer; body points into raw. */
struct answer {
    struct bytes raw;
    const char *body;
    size_t body_len;
    int status;
};

/* Ends the stopwatch with what failed and errno's text. */
_Noreturn void stopwatch_die(const char *what);
uint64_t stopwatch_now(void);
/* Room for more at the end of b; the pointer holds until the next call. */
char *stopwatch_room(struct bytes *b, size_t more);

/*
 * Sends the same request on count connections at once and reads every answer
 * into ret_answers[count]; returns nanoseconds from the first byte sent to
 * the last one read. Connections are kept from call to call and made before
 * the clock starts. body is "" for none.
 */
uint64_t http_exchange(const struct server *to, const char *method,
                       const char *path, const char *body, size_t count,
                       struct answer *ret_answers);

/*
 * Starts count processes of argv at once, in root unless that is "-", and
 * waits for all; returns nanoseconds from the first start to the last end,
 * and how many did not exit with 0. What they print is added to out.
 */
uint64_t spawn_all(const char *root, char *const argv[], size_t count,
                   size_t *ret_failed, struct bytes *out);

#endif
