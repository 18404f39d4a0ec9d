/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the benchmark's stopwatch share: a clock, a growing
 * buffer, bytes to send, and the things that can be timed: HTTP exchanges,
 * small and large uploads, downloads, processes and transactions of SQLite.
 * Everything runs in one thread of one process; an error of the stopwatch
 * itself ends it.
 */
#ifndef BENCH_STOPWATCH_H
#define BENCH_STOPWATCH_H

#include <stdbool.h>
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

/* Bytes that differ from those of any other seed. */
void stopwatch_fill(char *bytes, size_t len, uint64_t seed);

/* The parts of an exchange. http_read reads once: true when a is whole. */
int http_connect(const struct server *to);
void http_send(int fd, const char *data, size_t len);
bool http_read(int fd, struct answer *a);

/*
 * Sends the same request on count connections at once and reads every answer
 * into ret_answers[count]; returns nanoseconds from the first byte sent to
 * the last one read. Connections are kept from call to call and made before
 * the clock starts. body is "" for none; headers are separated by "|".
 */
uint64_t http_exchange(const struct server *to, const char *method,
                       const char *path, const char *body, const char *headers,
                       size_t count, struct answer *ret_answers);

/*
 * Uploads count files of len bytes, each with bytes and a name of its own
 * below the path prefix, on width connections that each wait for an answer
 * before the next; anything but 201 ends the stopwatch. Nanoseconds for all.
 */
uint64_t upload_many(const struct server *to, const char *prefix, size_t len,
                     size_t width, size_t count);

/*
 * One large body up or down, on a connection of its own; nanoseconds from
 * the first byte sent to the last one read. The bytes are those of the seed.
 * sync_file, unless "-", is synced before the clock stops. form: POST as the
 * file of a form with a purpose, instead of PUT. A download is compared
 * afterwards; *ret_same is false when other bytes came.
 */
uint64_t transfer_up(const struct server *to, const char *path, size_t len,
                     uint64_t seed, const char *sync_file, bool form,
                     struct answer *ret_answer);
uint64_t transfer_down(const struct server *to, const char *path, size_t len,
                       uint64_t seed, int *ret_status, bool *ret_same);

/*
 * Inserts count rows of len bytes each into a table of the database at path,
 * made when first needed: a transaction each, WAL, full sync. Nanoseconds.
 */
uint64_t sqlite_insert(const char *path, size_t len, size_t count);

/*
 * Starts count processes of argv at once, in root unless that is "-", and
 * waits for all; returns nanoseconds from the first start to the last end,
 * and how many did not exit with 0. What they print is added to out.
 */
uint64_t spawn_all(const char *root, char *const argv[], size_t count,
                   size_t *ret_failed, struct bytes *out);

#endif
