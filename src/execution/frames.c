/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the frames of the kernel into events. Runs in gloveboxd on the
 * execution's thread. User code can write to this channel, so every length and
 * type is checked, and a frame can only claim what a session may claim about
 * itself. Nothing here blocks.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/mem.h"
#include "base/path.h"
#include "execution/execution_int.h"
#include "wire/wire.h"

#define DRAIN_MOST (1u << 20)
#define BACKLOG_MOST 65536u /* of answers the kernel does not fetch */
#define FLOOD_FRAMES 10000u /* above this, a nap now and then */
#define FLOOD_STEP 128u
#define FLOOD_NAP_MS 1u
#define RESULTS_MAX 20u
#define ERRORS_MAX 8u

/* ---- to the kernel ------------------------------------------------------ */

enum frames_state execution_frames_send(struct collect *c, uint32_t type,
                                        const void *payload, size_t len)
{
    struct kernel_frame head = {.type = type, .len = (uint32_t)len};
    struct iovec iov[2] = {{&head, sizeof(head)}, {(void *)payload, len}};
    size_t sent = 0;

    if (c->out.len == c->out_pos) {
        ssize_t n = box_frames_send(c->box, iov, len ? 2 : 1);

        if (n < 0)
            return FRAMES_CLOSED;
        sent = (size_t)n;
    } else if (c->out.len - c->out_pos > BACKLOG_MOST + c->e->code_len) {
        return FRAMES_NONSENSE; /* it asks and asks but never listens */
    }
    if (sent < sizeof(head)) {
        buf_add(&c->out, (char *)&head + sent, sizeof(head) - sent);
        sent = sizeof(head);
    }
    if (sent - sizeof(head) < len)
        buf_add(&c->out, (const char *)payload + (sent - sizeof(head)),
                len - (sent - sizeof(head)));
    return FRAMES_OPEN;
}

enum frames_state execution_frames_flush(struct collect *c)
{
    struct iovec iov = {c->out.data + c->out_pos, c->out.len - c->out_pos};
    ssize_t n = iov.iov_len ? box_frames_send(c->box, &iov, 1) : 0;

    if (n < 0)
        return FRAMES_CLOSED;
    c->out_pos += (size_t)n;
    if (c->out_pos == c->out.len) {
        buf_reset(&c->out);
        c->out_pos = 0;
    }
    return FRAMES_OPEN;
}

/* ---- from the kernel ---------------------------------------------------- */

static bool pairs_valid(const char *payload, size_t len)
{
    struct kernel_pair pair;
    size_t pos = 0;
    int rc = 1;

    for (unsigned i = 0; i <= KERNEL_PAIRS_MAX; i++) {
        rc = wire_pairs_next(payload, len, &pos, &pair);
        if (rc <= 0)
            break;
    }
    return rc == 0;
}

/* Within what one execution may show? Counts it if so. */
static bool affordable(struct collect *c, uint32_t *count, uint32_t most,
                       size_t len)
{
    if (*count >= most || c->display_bytes + len > COLLECT_DISPLAY_BYTES) {
        c->truncated_displays = true;
        return false;
    }
    (*count)++;
    c->display_bytes += len;
    return true;
}

static bool on_display(struct collect *c, const char *payload, size_t len)
{
    if (!pairs_valid(payload, len))
        return false;
    if (affordable(c, &c->displays, COLLECT_DISPLAYS_MAX, len))
        execution_events_add(c->e, EVENT_DISPLAY, payload, len);
    return true;
}

static bool on_result(struct collect *c, const char *payload, size_t len)
{
    if (!pairs_valid(payload, len))
        return false;
    if (affordable(c, &c->results, RESULTS_MAX, len))
        execution_events_add(c->e, EVENT_RESULT, payload, len);
    return true;
}

/* An error of reasonable size is shown whatever was displayed before. */
static bool on_error(struct collect *c, const char *payload, size_t len)
{
    if (!pairs_valid(payload, len))
        return false;
    if (c->errors < ERRORS_MAX && len <= COLLECT_ERROR_BYTES)
        c->errors++;
    else if (!affordable(c, &c->errors, ERRORS_MAX, len))
        return true;
    execution_events_add(c->e, EVENT_ERROR, payload, len);
    return true;
}

static bool on_clear(struct collect *c, const char *payload, size_t len)
{
    if (c->clears < COLLECT_CLEARS_MAX) {
        c->clears++;
        execution_events_add(c->e, EVENT_CLEAR, payload, len);
    }
    return true;
}

/* The pipes were read empty after the SYNC was received, see below. */
static bool on_sync(struct collect *c, const char *payload, size_t len)
{
    (void)payload;
    (void)len;
    return execution_frames_send(c, KERNEL_SYNCED, NULL, 0) != FRAMES_NONSENSE;
}

static bool on_reads(struct collect *c, const char *payload, size_t len)
{
    return execution_watch_reads(c->e, payload, len);
}

/* A helper is not waited for when it starts, so its first frame comes here. */
static bool on_ready(struct collect *c, const char *payload, size_t len)
{
    (void)payload;
    (void)len;
    return c->language->how == LANGUAGE_HELPER;
}

/* The answer to a LOOK that was given up. */
static bool on_nothing(struct collect *c, const char *payload, size_t len)
{
    (void)c;
    (void)payload;
    (void)len;
    return true;
}

static bool on_done(struct collect *c, const char *payload, size_t len)
{
    struct kernel_done done;

    memcpy(&done, payload, len);
    if (done.status > KERNEL_DONE_ERROR)
        return false;
    c->observed->end = END_DONE;
    c->observed->done_status = done.status;
    c->ended = true;
    return true;
}

#define READS_BYTES_MAX (1u + KERNEL_READS_MAX * (PATH_BYTES_MAX + 1u))

struct frame_kind {
    uint32_t min, max; /* of the payload */
    bool in_cell;      /* may come only while a cell runs */
    bool (*on)(struct collect *c, const char *payload, size_t len);
};

static const struct frame_kind *kind_of(uint32_t type)
{
    static const struct frame_kind kinds[] = {
        [0] = {0, 0, false, on_ready}, /* KERNEL_READY */
        [KERNEL_DISPLAY -
            KERNEL_READY] = {0, KERNEL_FRAME_MAX, false, on_display},
        [KERNEL_RESULT -
            KERNEL_READY] = {0, KERNEL_FRAME_MAX, true, on_result},
        [KERNEL_ERROR - KERNEL_READY] = {0, KERNEL_FRAME_MAX, true, on_error},
        [KERNEL_DONE - KERNEL_READY] = {sizeof(struct kernel_done),
                                        sizeof(struct kernel_done), true,
                                        on_done},
        [KERNEL_SYNC - KERNEL_READY] = {0, 0, false, on_sync},
        [KERNEL_CLEAR - KERNEL_READY] = {1, 1, false, on_clear},
        [KERNEL_READS - KERNEL_READY] = {1, READS_BYTES_MAX, true, on_reads},
        [KERNEL_INPUT -
            KERNEL_READY] = {sizeof(struct kernel_input),
                             sizeof(struct kernel_input) + KERNEL_PROMPT_MAX,
                             true, execution_input_request},
        [KERNEL_SEEN -
            KERNEL_READY] = {4, KERNEL_FRAME_MAX, false, on_nothing},
    };

    if (type < KERNEL_READY || type - KERNEL_READY >= ARRAY_SIZE(kinds) ||
        !kinds[type - KERNEL_READY].on)
        return NULL;
    return &kinds[type - KERNEL_READY];
}

/* One frame at *pos, if it is complete; then *pos is behind it. */
static enum frames_state parse_one(struct collect *c, size_t *pos)
{
    const struct buf *b = box_frames_buffer(c->box);
    const char *at = b->data + *pos;
    const struct frame_kind *kind;
    struct kernel_frame head;

    memcpy(&head, at, sizeof(head));
    kind = kind_of(head.type);
    if (!kind || head.len < kind->min || head.len > kind->max ||
        (kind->in_cell && !c->in_cell))
        return FRAMES_NONSENSE;
    if (b->len - *pos - sizeof(head) < head.len)
        return FRAMES_OPEN;
    if (!kind->on(c, at + sizeof(head), head.len))
        return FRAMES_NONSENSE;
    *pos += sizeof(head) + head.len;
    if (++c->frames > FLOOD_FRAMES && c->frames % FLOOD_STEP == 0)
        c->nap_ms = clock_mono_ms() + FLOOD_NAP_MS;
    return FRAMES_OPEN;
}

/* Handles the complete frames there are, up to DONE. */
static enum frames_state parse(struct collect *c)
{
    struct buf *b = box_frames_buffer(c->box);
    size_t pos = 0;

    while (!c->ended && b->len - pos >= sizeof(struct kernel_frame)) {
        size_t before = pos;

        if (parse_one(c, &pos) == FRAMES_NONSENSE)
            return FRAMES_NONSENSE;
        if (pos == before)
            break;
    }
    buf_consume(b, pos);
    return FRAMES_OPEN;
}

/*
 * Output that was printed before a frame was sent is in the pipes when the
 * frame arrives. So read the pipes first: print comes before display.
 */
enum frames_state execution_frames_read(struct collect *c, bool *ret_more)
{
    enum frames_state state;
    ssize_t n = box_frames_recv(c->box);

    *ret_more = n > 0;
    if (n > 0)
        execution_output_drain(c, DRAIN_MOST);
    state = parse(c);
    if (state != FRAMES_OPEN || c->ended)
        return state;
    if (n <= 0 && n != -EAGAIN)
        return FRAMES_CLOSED;
    return FRAMES_OPEN;
}
