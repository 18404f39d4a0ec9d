/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of user code: two pipes, read until empty, kept up to the pool's cap
 * and discarded above it (R6). Runs in gloveboxd on the execution's thread.
 * Each read becomes one event at once; no event ends inside a UTF-8 character.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "execution/execution_int.h"

#define DISCARD_STEP (1u << 20) /* thrown away between two naps */
#define DISCARD_NAP_MS 5u

/* How many bytes at the end begin a character that is not complete yet. */
static size_t incomplete_tail(const char *bytes, size_t len)
{
    for (size_t k = 1; k <= 3 && k <= len; k++) {
        unsigned char c = (unsigned char)bytes[len - k];
        size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

        if (c < 0x80)
            return 0;
        if (c >= 0xc0)
            return need > k ? k : 0;
    }
    return 0;
}

/* Keeps the end of what is discarded. */
static void note_discarded(struct stream *s, const char *bytes, size_t len)
{
    size_t take = MIN(len, sizeof(s->last));
    size_t stay = MIN(s->last_len, sizeof(s->last) - take);

    memmove(s->last, s->last + s->last_len - stay, stay);
    memcpy(s->last + stay, bytes + len - take, take);
    s->last_len = stay + take;
}

static void output_keep(struct collect *c, struct stream *s, const char *bytes,
                        size_t len)
{
    uint64_t room = c->output_cap - s->kept;
    size_t take = len;

    if (c->outputs >= COLLECT_OUTPUTS_MAX)
        room = 0;
    if (take > room) {
        take = (size_t)room;
        take -= incomplete_tail(bytes, take);
        s->truncated = true;
        s->kept = c->output_cap; /* nothing after a gap */
    } else {
        s->kept += take;
    }
    s->written += len;
    if (take < len)
        note_discarded(s, bytes + take, len - take);
    if (take) {
        execution_events_add(c->e, s->type, bytes, take);
        c->outputs++;
        c->last_output_ms = clock_mono_ms();
    }
    /* A flood above the cap is read, so that the code does not hang, but at
     * a pace that leaves the machine to others. */
    c->discarded += len - take;
    if (c->discarded >= DISCARD_STEP) {
        c->discarded = 0;
        c->nap_ms = clock_mono_ms() + DISCARD_NAP_MS;
    }
}

static void drain_one(struct collect *c, struct stream *s, size_t most)
{
    char *io = c->runner->io;
    size_t total = 0;

    while (total < most) {
        size_t held = s->tail_len;
        size_t want = SESSION_IO_SIZE - held;
        ssize_t n = read(s->fd, io + held, want);
        size_t len;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        memcpy(io, s->tail, held);
        len = held + (size_t)n;
        s->tail_len = incomplete_tail(io, len);
        len -= s->tail_len;
        memcpy(s->tail, io + len, s->tail_len);
        if (len)
            output_keep(c, s, io, len);
        total += (size_t)n;
        if ((size_t)n < want)
            return; /* it was empty then */
    }
}

void execution_output_drain(struct collect *c, size_t most)
{
    drain_one(c, &c->streams[0], most);
    drain_one(c, &c->streams[1], most);
}

void execution_output_flush(struct collect *c)
{
    for (int i = 0; i < 2; i++) {
        struct stream *s = &c->streams[i];
        size_t len = s->tail_len;

        s->tail_len = 0;
        if (len)
            output_keep(c, s, s->tail, len);
    }
}
