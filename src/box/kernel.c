/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of a sandbox: started when the sandbox is created, and again
 * after the old one was lost or reset; and the channel for its frames. Shells
 * are started here too, on the same pipes. Runs in gloveboxd on the thread
 * that creates the sandbox or has the turn. Only starting a kernel waits,
 * until the kernel has sent READY.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "box/box_int.h"
#include "wire/wire.h"

/* ---- starting ----------------------------------------------------------- */

/* Once pid 1 has answered START every older kernel is dead and was reported,
 * and what it left in the pipes is nobody's output any more. */
static void forget_old_kernel(struct box *b)
{
    char sink[4096];

    (void)box_check(b); /* broken shows in the next step */
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 1024; k++)
            if (read(b->pipes[i], sink, sizeof(sink)) <= 0)
                break;
    buf_done(&b->pending);
}

static int send_start(struct box *b, int frames, struct error *err)
{
    int fds[3] = {frames, b->writers[0], b->writers[1]};
    struct broker_request request = {
        .type = INIT_START, .fds = fds, .fd_count = 3};
    struct broker_reply reply;
    int rc;

    /* Where code has run, it may be what keeps pid 1 from answering: then a
     * new sandbox is better than waiting. */
    if (!atomic_load(&b->touched))
        request.timeout_ms = box_times.kernel_ms;
    rc = box_broker_call(b, &request, NULL, 0, false, &reply, err);
    if (rc < 0)
        return rc;
    if (reply.errnum)
        return error_errno(err, ERR_GUEST, reply.errnum,
                           "the interpreter could not be started");
    forget_old_kernel(b);
    b->kernel_pid = reply.arg;
    return 0;
}

/* A kernel that dies while it starts is seen by the end of its channel. */
static int wait_first_frame(struct box *b, uint64_t deadline,
                            struct error *err)
{
    struct pollfd p = {.fd = b->frames, .events = POLLIN};
    struct kernel_frame frame;
    ssize_t n;

    do
        n = poll(&p, 1, clock_left_ms(deadline));
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return box_late("the interpreter did not start", box_times.kernel_ms,
                        err);
    /* Eight bytes written at once into an empty socket come at once. */
    n = recv(b->frames, &frame, sizeof(frame), 0);
    if (n <= 0)
        return error_set(err, ERR_GUEST,
                         "the interpreter ended while it was starting");
    if (n != (ssize_t)sizeof(frame) || frame.type != KERNEL_READY ||
        frame.len != 0)
        return error_set(err, ERR_GUEST, "the interpreter sent nonsense");
    return 0;
}

int box_kernel_start(struct box *b, struct error *err)
{
    int pair[2] = {-1, -1};
    int ours cleanup(fd_close) = -1;
    int theirs cleanup(fd_close) = -1;
    uint64_t deadline = clock_mono_ms() + box_times.kernel_ms;
    int rc = fd_socketpair(SOCK_STREAM, pair);

    ours = pair[0];
    theirs = pair[1];
    if (rc == 0)
        rc = fd_set_nonblock(ours, 1);
    if (rc < 0) {
        (void)error_errno(err, ERR_BUSY, -rc, "no descriptors for a sandbox");
        return error_retry(err, 1);
    }
    b->kernel_alive = false;
    rc = send_start(b, theirs, err);
    if (rc < 0)
        return rc;
    fd_close(&theirs);
    fd_close(&b->frames);
    b->frames = take_fd(ours);
    rc = wait_first_frame(b, deadline, err);
    if (rc < 0)
        return rc;
    b->kernel_alive = true;
    b->cells = 0;
    box_guest_env_reset(b);
    return 0;
}

bool box_kernel_alive(const struct box *b)
{
    return b->kernel_alive;
}

void box_kernel_lost(struct box *b)
{
    b->kernel_alive = false;
}

bool box_is_kernel(const struct box *b, uint32_t pid)
{
    return !b->kernel_pid || pid == b->kernel_pid;
}

uint32_t box_cells(const struct box *b)
{
    return b->cells;
}

void box_cell_begin(struct box *b)
{
    b->cells++;
}

int box_shell_start(struct box *b, int code_fd, struct broker_reply *ret,
                    struct error *err)
{
    int fds[3] = {code_fd, b->writers[0], b->writers[1]};
    struct broker_request request = {
        .type = INIT_SHELL, .fds = fds, .fd_count = 3};

    return box_broker_call(b, &request, NULL, 0, false, ret, err);
}

int box_pipe_fd(const struct box *b, int which)
{
    return b->pipes[which];
}

/* ---- frames ------------------------------------------------------------- */

int box_frames_fd(const struct box *b)
{
    return b->frames;
}

ssize_t box_frames_send(struct box *b, struct iovec *iov, size_t count)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t n;

    do
        n = sendmsg(b->frames, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    return n;
}

ssize_t box_frames_recv(struct box *b)
{
    struct buf *buf = &b->pending;
    ssize_t n;

    buf_reserve(buf, BOX_IO_SIZE);
    do
        n = recv(b->frames, buf->data + buf->len, BOX_IO_SIZE, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    buf->len += (size_t)n;
    return n;
}

struct buf *box_frames_buffer(struct box *b)
{
    return &b->pending;
}
