/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark's stopwatch: usage stopwatch PORT KEY. bench.mjs says what to
 * time, one line of tab-separated words at a time, and this process does it
 * and answers with one line, so that nothing of Node is in a figure.
 *
 * - http COUNT METHOD PATH BODY HEADERS: ns, then status and body of each
 *   answer; headers are separated by "|"
 * - spawn COUNT ROOT PROGRAM ARG…: ns, number that failed, what they printed
 * - puts COUNT WIDTH BYTES PREFIX: ns
 * - insert COUNT BYTES DATABASE: ns
 * - up BYTES PORT PATH SEED FILE: ns, status, body of the answer
 * - form BYTES PORT PATH SEED FILE: the same as the file of a form
 * - down BYTES PORT PATH SEED: ns, status, "same" or "other"
 *
 * PORT 0 is the one it was started with. Line breaks and tabs within an
 * answer are given as spaces.
 */
#include "stopwatch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORDS_MAX 64

void stopwatch_die(const char *what)
{
    fprintf(stderr, "stopwatch: %s: %s\n", what, strerror(errno));
    exit(1);
}

uint64_t stopwatch_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

char *stopwatch_room(struct bytes *b, size_t more)
{
    if (b->len + more > b->size) {
        b->size = 2 * (b->len + more);
        b->data = realloc(b->data, b->size);
        if (!b->data)
            stopwatch_die("realloc");
    }
    return b->data + b->len;
}

/* Xorshift: bytes nothing can shorten, made faster than they are sent. */
void stopwatch_fill(char *bytes, size_t len, uint64_t seed)
{
    uint64_t state = (seed * 0x9e3779b97f4a7c15u) | 1; /* 0 would stay 0 */

    for (size_t i = 0; i < len; i += sizeof(state)) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(bytes + i, &state,
               len - i < sizeof(state) ? len - i : sizeof(state));
    }
}

/* Splits line at tabs; the array ends with NULL. */
static size_t split(char *line, char *words[WORDS_MAX])
{
    size_t n = 0;
    char *word;

    line[strcspn(line, "\n")] = '\0';
    while (n < WORDS_MAX - 1 && (word = strsep(&line, "\t")))
        words[n++] = word;
    words[n] = NULL;
    return n;
}

static void put_flat(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        putchar(text[i] == '\n' || text[i] == '\t' ? ' ' : text[i]);
}

static uint64_t number(const char *word)
{
    char *end;
    uint64_t value = strtoull(word, &end, 10);

    if (*word == '\0' || *end != '\0') {
        errno = EINVAL;
        stopwatch_die(word);
    }
    return value;
}

static size_t in_flight(const char *word)
{
    uint64_t count = number(word);

    if (count < 1 || count > STOPWATCH_MAX) {
        errno = EINVAL;
        stopwatch_die("bad count");
    }
    return count;
}

/* ---- what can be timed -------------------------------------------------- */

static void time_http(const struct server *to, char *words[])
{
    size_t count = in_flight(words[0]);
    struct answer *answers = calloc(count, sizeof(*answers));
    uint64_t ns;

    if (!answers)
        stopwatch_die("calloc");
    ns = http_exchange(to, words[1], words[2], words[3], words[4], count,
                       answers);
    printf("%" PRIu64, ns);
    for (size_t i = 0; i < count; i++) {
        printf("\t%d\t", answers[i].status);
        put_flat(answers[i].body, answers[i].body_len);
        free(answers[i].raw.data);
    }
    free(answers);
}

static void time_spawn(const struct server *to, char *words[])
{
    struct bytes out = {0};
    size_t failed = 0;
    uint64_t ns =
        spawn_all(words[1], words + 2, in_flight(words[0]), &failed, &out);

    (void)to;
    printf("%" PRIu64 "\t%zu\t", ns, failed);
    put_flat(out.data, out.len);
    free(out.data);
}

static void time_puts(const struct server *to, char *words[])
{
    printf("%" PRIu64, upload_many(to, words[3], number(words[2]),
                                   in_flight(words[1]), number(words[0])));
}

static void time_insert(const struct server *to, char *words[])
{
    (void)to;
    printf("%" PRIu64,
           sqlite_insert(words[2], number(words[1]), number(words[0])));
}

static struct server at_port(const struct server *to, const char *word)
{
    struct server other = *to;

    if (number(word) > 0)
        other.port = (uint16_t)number(word);
    return other;
}

static void send_up(const struct server *to, char *words[], bool form)
{
    struct server other = at_port(to, words[1]);
    struct answer answer = {0};
    uint64_t ns = transfer_up(&other, words[2], number(words[0]),
                              number(words[3]), words[4], form, &answer);

    printf("%" PRIu64 "\t%d\t", ns, answer.status);
    put_flat(answer.body, answer.body_len);
    free(answer.raw.data);
}

static void time_up(const struct server *to, char *words[])
{
    send_up(to, words, false);
}

static void time_form(const struct server *to, char *words[])
{
    send_up(to, words, true);
}

static void time_down(const struct server *to, char *words[])
{
    struct server other = at_port(to, words[1]);
    bool same = false;
    int status = 0;
    uint64_t ns = transfer_down(&other, words[2], number(words[0]),
                                number(words[3]), &status, &same);

    printf("%" PRIu64 "\t%d\t%s", ns, status, same ? "same" : "other");
}

static const struct {
    const char *name;
    size_t words; /* after the name */
    bool more;    /* or any number beyond */
    void (*run)(const struct server *to, char *words[]);
} requests[] = {
    {"http", 5, false, time_http}, {"spawn", 3, true, time_spawn},
    {"puts", 4, false, time_puts}, {"insert", 3, false, time_insert},
    {"up", 5, false, time_up},     {"form", 5, false, time_form},
    {"down", 4, false, time_down},
};

static void answer(const struct server *to, char *words[], size_t n)
{
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++)
        if (n > 0 && strcmp(words[0], requests[i].name) == 0 &&
            (n == requests[i].words + 1 ||
             (requests[i].more && n > requests[i].words))) {
            requests[i].run(to, words + 1);
            putchar('\n');
            fflush(stdout);
            return;
        }
    errno = EINVAL;
    stopwatch_die("bad request");
}

int main(int argc, char **argv)
{
    struct server to;
    char *line = NULL, *words[WORDS_MAX];
    size_t size = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: stopwatch PORT KEY\n");
        return 2;
    }
    to = (struct server){(uint16_t)number(argv[1]), argv[2]};
    while (getline(&line, &size, stdin) > 0)
        answer(&to, words, split(line, words));
    free(line);
    return 0;
}
