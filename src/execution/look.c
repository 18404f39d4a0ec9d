/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion, inspection and the list of variables: the kernel looks at its
 * live namespace between two executions. Runs in gloveboxd on the caller's
 * thread, with the session's turn. No code of the user runs and nothing is
 * woken for it: a session without an interpreter has nothing to show.
 *
 * The answer is the session's own word, like its output: it is checked to be
 * a JSON object within a limit, and passed on.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "execution/execution_int.h"
#include "json/json.h"

#define LOOK_MS 1500u
#define PENDING_MAX (2u * KERNEL_FRAME_MAX)

/* Takes the SEEN with that number out of the buffer. Other frames stay there
 * for the next execution. 1: done, 0: not there yet, -1: nonsense. */
static int take_seen(struct buf *b, uint32_t number, struct buf *ret)
{
    struct kernel_frame head;
    size_t pos = 0;

    while (b->len - pos >= sizeof(head)) {
        size_t whole;
        uint32_t seen = 0;

        memcpy(&head, b->data + pos, sizeof(head));
        whole = sizeof(head) + head.len;
        if (head.len > KERNEL_FRAME_MAX)
            return -1;
        if (b->len - pos < whole)
            return 0;
        if (head.type == KERNEL_SEEN && head.len >= sizeof(seen))
            memcpy(&seen, b->data + pos + sizeof(head), sizeof(seen));
        if (head.type == KERNEL_SEEN && seen == number) {
            buf_add(ret, b->data + pos + sizeof(head) + sizeof(seen),
                    head.len - sizeof(seen));
            memmove(b->data + pos, b->data + pos + whole,
                    b->len - pos - whole);
            b->len -= whole;
            return 1;
        }
        pos += whole;
    }
    return 0;
}

static int failed(struct box *box, const char *why, struct error *err)
{
    box_kernel_lost(box); /* half a frame was sent, or nonsense received */
    return error_set(err, ERR_GUEST, "%s", why);
}

/* With the turn. */
static int ask_kernel(struct box *box, const struct kernel_look *look,
                      const char *code, size_t len, struct buf *ret,
                      struct error *err)
{
    struct kernel_frame head = {.type = KERNEL_LOOK,
                                .len = (uint32_t)(sizeof(*look) + len)};
    struct iovec iov[3] = {{&head, sizeof(head)},
                           {(void *)look, sizeof(*look)},
                           {(void *)code, len}};
    uint64_t deadline = clock_mono_ms() + LOOK_MS;
    struct buf *pending = box_frames_buffer(box);
    int found = 0;

    /* The kernel waits for the next frame with an empty socket, so that a
     * small one is taken whole. */
    if (box_frames_send(box, iov, len ? 3 : 2) !=
        (ssize_t)(sizeof(head) + head.len))
        return failed(box, "the interpreter does not listen", err);
    while (found == 0 && clock_left_ms(deadline) > 0) {
        struct pollfd p = {.fd = box_frames_fd(box), .events = POLLIN};
        ssize_t n;

        if (poll(&p, 1, clock_left_ms(deadline)) <= 0)
            continue;
        n = box_frames_recv(box);
        if (n == -EAGAIN)
            continue;
        found = n > 0 ? take_seen(pending, look->number, ret) : -1;
        if (pending->len > PENDING_MAX)
            found = -1;
    }
    if (found < 0)
        return failed(box, "the interpreter sent nonsense", err);
    if (found == 0) { /* its answer is skipped when it comes */
        (void)error_set(err, ERR_TIMEOUT,
                        "the interpreter did not answer within %u ms",
                        LOOK_MS);
        return error_hint(err, "a thread of earlier code keeps it busy");
    }
    return 0;
}

static int check_answer(const struct buf *text, json_t **ret,
                        struct error *err)
{
    if (text->len == 0 || text->len > EXEC_LOOK_MAX ||
        json_parse(text->data, text->len, ret, err) < 0 ||
        !json_is_object(*ret)) {
        json_unref(ret);
        return error_set(err, ERR_GUEST, "the interpreter sent nonsense");
    }
    return 0;
}

int execution_look(struct sessions *s, const struct actor *who, const char *id,
                   enum exec_look what, const char *code, size_t len,
                   uint32_t cursor, json_t **ret, struct error *err)
{
    static atomic_uint numbers; /* any that differ will do */
    struct kernel_look look = {.number = atomic_fetch_add(&numbers, 1) + 1,
                               .what = what,
                               .cursor = cursor};
    struct session *se = session_acquire(s, who, id, err);
    struct turn turn = {.wake = -1};
    struct buf text cleanup(buf_done) = {0};
    struct box *box = NULL;
    int rc;

    if (!se)
        return -(int)err->code;
    rc = session_turn_try(se, &turn, &box, err);
    if (box) {
        if (box_check(box) && box_kernel_alive(box))
            rc = ask_kernel(box, &look, code, len, &text, err);
        session_turn_release(se);
        box_unref(box);
    }
    session_release(se);
    if (rc == 0 && text.len)
        return check_answer(&text, ret, err);
    if (rc == 0)
        *ret = json_object();
    return rc;
}
