/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark's stopwatch: usage stopwatch PORT KEY. bench.mjs says what to
 * time, one line of tab-separated words at a time, and this process does it
 * and answers with one line, so that nothing of Node is in a figure.
 *
 *     http COUNT METHOD PATH BODY    ns, then status and body of each answer
 *     spawn COUNT ROOT PROGRAM ARG…  ns, number that failed, what they printed
 *
 * Line breaks and tabs within an answer are given as spaces.
 */
#include "stopwatch.h"

#include <errno.h>
#include <inttypes.h>
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

static void time_http(const struct server *to, size_t count, char *words[])
{
    struct answer *answers = calloc(count, sizeof(*answers));
    uint64_t ns;

    if (!answers)
        stopwatch_die("calloc");
    ns = http_exchange(to, words[0], words[1], words[2], count, answers);
    printf("%" PRIu64, ns);
    for (size_t i = 0; i < count; i++) {
        printf("\t%d\t", answers[i].status);
        put_flat(answers[i].body, answers[i].body_len);
        free(answers[i].raw.data);
    }
    free(answers);
}

static void time_spawn(size_t count, char *words[])
{
    struct bytes out = {0};
    size_t failed = 0;
    uint64_t ns = spawn_all(words[0], words + 1, count, &failed, &out);

    printf("%" PRIu64 "\t%zu\t", ns, failed);
    put_flat(out.data, out.len);
    free(out.data);
}

int main(int argc, char **argv)
{
    struct server to;
    char *line = NULL, *words[WORDS_MAX];
    size_t size = 0, n, count;

    if (argc != 3) {
        fprintf(stderr, "usage: stopwatch PORT KEY\n");
        return 2;
    }
    to = (struct server){(uint16_t)strtoul(argv[1], NULL, 10), argv[2]};
    while (getline(&line, &size, stdin) > 0) {
        n = split(line, words);
        count = n > 1 ? strtoul(words[1], NULL, 10) : 0;
        errno = EINVAL;
        if (count < 1 || count > STOPWATCH_MAX)
            stopwatch_die("bad count");
        if (n == 5 && strcmp(words[0], "http") == 0)
            time_http(&to, count, words + 2);
        else if (n > 3 && strcmp(words[0], "spawn") == 0)
            time_spawn(count, words + 2);
        else
            stopwatch_die("bad request");
        putchar('\n');
        fflush(stdout);
    }
    free(line);
    return 0;
}
