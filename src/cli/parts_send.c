/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a large file on their way, a few at once with one bar. Each is
 * hashed here, sent, and the service's hash of it compared. One that breaks
 * is sent again after a while; a service that has no room for so many gets
 * fewer at a time.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "cli/parts.h"
#include "cli/transfer.h"

#define AT_ONCE 4u
#define TRIES 5u
#define NAP_MS 250u
#define CHUNK ((size_t)1 << 20)

struct part {
    uint64_t number, len; /* number 0: this place is free */
    char sha256[HASH_HEX];
    unsigned tries;
    uint64_t not_before_ms;
    bool running;
    char *url, *line;       /* of the request; owned */
    const char *headers[2]; /* line, NULL */
    struct cli_transfer t;
};

struct sending {
    struct cli_parts *p;
    struct part parts[AT_ONCE];
    size_t width;  /* how many may run */
    uint64_t next; /* number of the next part to look at */
    struct cli_bar bar;
};

static void part_done(struct part *part)
{
    cli_transfer_done(&part->t);
    free(part->url);
    free(part->line);
    *part = (struct part){0};
}

static void sending_done(struct sending *s)
{
    for (size_t i = 0; i < AT_ONCE; i++)
        part_done(&s->parts[i]);
    cli_progress_end(&s->bar.progress);
}

uint64_t cli_parts_size(uint64_t size, uint64_t part, uint64_t number)
{
    uint64_t before = (number - 1) * part;

    return before < size ? MIN(part, size - before) : 0;
}

/* ---- what to send ------------------------------------------------------- */

/* Into the whole's hash, and its own. */
static int hash_part(struct cli_parts *p, uint64_t at, uint64_t len,
                     char ret[HASH_HEX], struct error *err)
{
    char *room cleanup(mem_free) = xmalloc(CHUNK);
    struct hash_stream *own = hash_stream_new();
    unsigned char hash[HASH_SIZE];
    ssize_t n = 1;

    for (uint64_t done = 0; done < len && n > 0; done += (uint64_t)n) {
        n = pread(p->fd, room, MIN((uint64_t)CHUNK, len - done),
                  (off_t)(at + done));
        if (n > 0) {
            hash_stream_add(own, room, (size_t)n);
            hash_stream_add(p->hash, room, (size_t)n);
        }
    }
    hash_stream_end(own, hash);
    (void)ids_hex(hash, sizeof(hash), ret);
    if (n < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot read the file");
    return n > 0 ? 0
                 : error_set(err, ERR_CONFLICT,
                             "the file became shorter while it was sent");
}

static bool is_there(const struct cli_parts *p, uint64_t number, uint64_t len,
                     const char *sha256)
{
    for (size_t i = 0; i < json_array_size(p->there); i++) {
        const json_t *one = json_array_get(p->there, i);

        if (cli_json_number(one, "number") == number)
            return cli_json_number(one, "size") == len &&
                   strcmp(cli_json_text(one, "sha256", ""), sha256) == 0;
    }
    return false;
}

/* The next part that is not there, into a free place. 1, or 0: none is left.
 */
static int find(struct sending *s, struct part *ret, struct error *err)
{
    struct cli_parts *p = s->p;

    for (; cli_parts_size(p->size, p->part, s->next); s->next++) {
        uint64_t len = cli_parts_size(p->size, p->part, s->next);
        char sha256[HASH_HEX];
        int r = hash_part(p, (s->next - 1) * p->part, len, sha256, err);

        if (r < 0)
            return r;
        if (is_there(p, s->next, len, sha256)) {
            s->bar.done += len;
            continue;
        }
        *ret = (struct part){.number = s->next++, .len = len};
        memcpy(ret->sha256, sha256, sizeof(sha256));
        return 1;
    }
    return 0;
}

/* ---- sending ------------------------------------------------------------ */

static void set_out(struct sending *s, struct part *part)
{
    struct cli_parts *p = s->p;
    char suffix[40];

    (void)snprintf(suffix, sizeof(suffix), "/parts/%llu",
                   (unsigned long long)part->number);
    if (!part->url) {
        part->url = cli_parts_url(p, suffix);
        part->line = xasprintf("X-Content-SHA256: %s", part->sha256);
        part->headers[0] = part->line;
    }
    part->t = (struct cli_transfer)CLI_TRANSFER_INIT;
    part->t.method = "PUT";
    part->t.path = part->url;
    part->t.in = p->fd;
    part->t.in_size = part->len;
    part->t.in_place = true;
    part->t.in_from = (part->number - 1) * p->part;
    part->t.headers = part->headers;
    part->t.bar = &s->bar;
    part->running = true;
}

static enum cli_crowd_next on_next(void *ctx, struct cli_transfer **ret,
                                   struct error *err)
{
    struct sending *s = ctx;
    struct part *ready = NULL, *empty = NULL;
    size_t running = 0, waiting = 0;
    int r = 1;

    for (size_t i = 0; i < AT_ONCE; i++) {
        struct part *part = &s->parts[i];

        running += part->running;
        waiting += part->number && !part->running;
        if (!part->number)
            empty = part;
        else if (!part->running && clock_mono_ms() >= part->not_before_ms)
            ready = part;
    }
    if (running >= s->width)
        return CLI_CROWD_LATER;
    if (!ready && empty && running + waiting < s->width) {
        r = find(s, empty, err);
        ready = r > 0 ? empty : NULL;
    }
    if (r < 0)
        return CLI_CROWD_FAILED;
    if (!ready)
        return running + waiting ? CLI_CROWD_LATER : CLI_CROWD_NONE;
    set_out(s, ready);
    *ret = &ready->t;
    return CLI_CROWD_ONE;
}

static int check_answer(struct sending *s, struct part *part,
                        struct error *err)
{
    json_t *answer cleanup(json_unref) = NULL;
    int r = cli_http_answer(s->p->c, &part->t, &answer, err);

    if (r == 0 && strcmp(cli_json_text(answer, "sha256", part->sha256),
                         part->sha256) != 0)
        r = error_set(err, ERR_CONFLICT, "the file changed while it was sent");
    return r;
}

/* Once more, later? Its bytes no longer count as sent. */
static bool put_off(struct sending *s, struct part *part, int r)
{
    bool crowded = part->t.status == 429;
    bool changed = r == -ERR_CONFLICT && part->t.status / 100 == 2;

    s->bar.done -= MIN(s->bar.done, part->t.moved);
    if (!changed && !crowded && !part->t.broken && part->t.status != 408)
        return false;
    if (++part->tries >= TRIES)
        return false;
    if (crowded && s->width > 1)
        s->width--;
    part->not_before_ms =
        clock_mono_ms() + (uint64_t)NAP_MS * part->tries * part->tries;
    cli_transfer_done(&part->t);
    part->running = false;
    return true;
}

static int on_ended(void *ctx, struct cli_transfer *t, int r,
                    struct error *err)
{
    struct sending *s = ctx;
    struct part *part = s->parts;

    while (&part->t != t) /* it is one of them */
        part++;
    if (r == 0)
        r = check_answer(s, part, err);
    if (r < 0)
        return !s->p->c->interrupted && put_off(s, part, r) ? 0 : r;
    part_done(part);
    return 0;
}

int cli_parts_send(struct cli_parts *p, struct error *err)
{
    struct sending s cleanup(sending_done) = {
        .p = p, .width = AT_ONCE, .next = 1};
    const struct cli_crowd crowd = {
        .next = on_next, .ended = on_ended, .ctx = &s};

    cli_progress_start(&s.bar.progress, p->c, p->what->label, p->size);
    return cli_crowd_run(p->c, &crowd, err);
}
