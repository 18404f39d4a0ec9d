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
#include "base/log.h"
#include "base/mem.h"
#include "box/box_int.h"
#include "wire/wire.h"

/* ---- starting ----------------------------------------------------------- */

static int send_start(struct box *b, int frames, uint32_t how, int image,
                      struct error *err)
{
    int fds[4] = {frames, b->writers[0], b->writers[1], image};
    struct broker_request request = {.type = INIT_START,
                                     .arg = how,
                                     .fds = fds,
                                     .fd_count = image < 0 ? 3 : 4};
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

    /* Once pid 1 has answered START, older kernels are dead. Discard what they
     * left in the pipes. */
    char sink[4096];

    (void)box_check(b); /* broken shows in the next step */
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 1024; k++)
            if (read(b->pipes[i], sink, sizeof(sink)) <= 0)
                break;
    buf_done(&b->pending);

    box_helpers_lost(b);
    box_points_lost(b);
    b->kernel_pid = reply.arg;
    return 0;
}

/* What the process that was to continue from an image made of it. */
static enum kernel_image read_image_fate(struct box *b,
                                         const struct kernel_frame *frame,
                                         ssize_t n)
{
    uint32_t why;

    if (n == (ssize_t)sizeof(*frame) && frame->type == KERNEL_READY &&
        frame->len == 0)
        return KERNEL_IMAGE_USABLE;
    if (n != (ssize_t)sizeof(*frame) || frame->type != KERNEL_UNUSABLE ||
        frame->len != sizeof(why) ||
        recv(b->frames, &why, sizeof(why), 0) != (ssize_t)sizeof(why) ||
        why == KERNEL_IMAGE_USABLE || why > KERNEL_IMAGE_AGAIN)
        return KERNEL_IMAGE_DAMAGED;
    return (enum kernel_image)why;
}

/* A kernel that dies while it starts is seen by the end of its channel. With
 * ret_image, that and everything else it does is the fault of the image. */
static int wait_first_frame(struct box *b, uint64_t deadline,
                            enum kernel_image *ret_image, struct error *err)
{
    struct pollfd p = {.fd = b->frames, .events = POLLIN};
    struct kernel_frame frame;
    ssize_t n;

    do
        n = poll(&p, 1, clock_left_ms(deadline));
    while (n < 0 && errno == EINTR);
    if (n <= 0 && !ret_image)
        return box_late("the interpreter did not start", box_times.kernel_ms,
                        err);
    /* Eight bytes written at once into an empty socket come at once. */
    n = recv(b->frames, &frame, sizeof(frame), 0);
    if (ret_image) {
        *ret_image = read_image_fate(b, &frame, n);
        return 0;
    }
    if (n <= 0)
        return error_set(err, ERR_GUEST,
                         "the interpreter ended while it was starting");
    if (n != (ssize_t)sizeof(frame) || frame.type != KERNEL_READY ||
        frame.len != 0)
        return error_set(err, ERR_GUEST, "the interpreter sent nonsense");
    return 0;
}

int box_kernel_start_from(struct box *b, uint32_t how, int image_fd,
                          enum kernel_image *ret_image, struct error *err)
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
    rc = send_start(b, theirs, how, image_fd, err);
    if (rc < 0)
        return rc;
    fd_close(&theirs);
    fd_close(&b->frames);
    b->frames = take_fd(ours);
    rc = wait_first_frame(b, deadline, ret_image, err);
    if (rc < 0 || (ret_image && *ret_image != KERNEL_IMAGE_USABLE))
        return rc;
    b->kernel_alive = true;
    b->cells = 0;
    box_guest_env_reset(b);
    return 0;
}

int box_kernel_start(struct box *b, struct error *err)
{
    b->shells_ran = false;
    return box_kernel_start_from(b, 0, -1, NULL, err);
}

int box_kernel_restart(struct box *b, struct error *err)
{
    return box_kernel_start_from(b, INIT_START_KEEP_SHELL, -1, NULL, err);
}

/* ---- where it comes from ------------------------------------------------ */

static const struct box_starter this_build = {.fresh = box_kernel_start,
                                              .wake = box_memory_wake};

const char *box_image_problem_text(enum box_image_problem problem)
{
    static const char *const texts[BOX_IMAGE_PROBLEMS] = {
        [BOX_IMAGE_USABLE] = "",
        [BOX_IMAGE_UNSUPPORTED] = "this build cannot wake snapshots",
        [BOX_IMAGE_MISMATCH] = "the snapshot was made by another runtime, "
                               "version, kernel or processor",
        [BOX_IMAGE_DAMAGED] = "the snapshot is damaged",
        [BOX_IMAGE_TOO_LARGE] = "the snapshot does not fit into the memory "
                                "limit",
    };

    return problem < BOX_IMAGE_PROBLEMS ? texts[problem]
                                        : texts[BOX_IMAGE_DAMAGED];
}

int box_kernel_begin(struct box *b, const struct box_origin *origin,
                     struct box_start *ret, struct error *err)
{
    const struct box_starter *starter =
        origin->starter ? origin->starter : &this_build;
    int rc = 0;

    *ret = (struct box_start){.how = BOX_STARTED_FRESH};
    if (origin->kind == BOX_ORIGIN_SNAPSHOT) {
        ret->how = BOX_STARTED_WOKEN;
        if (starter->wake)
            rc = starter->wake(b, origin, &ret->problem, err);
        else
            ret->problem = BOX_IMAGE_UNSUPPORTED;
        if (rc < 0)
            return rc;
        if (ret->problem == BOX_IMAGE_USABLE) {
            /* The image holds the environment of its old box, and code has
             * run in it. */
            box_guest_env_reset(b);
            box_touch(b);
            return 0;
        }
        ret->how = BOX_STARTED_INSTEAD;
        log_event(LOG_WARN, "snapshot_unusable", "why",
                  box_image_problem_text(ret->problem), NULL);
    }
    return starter->fresh(b, err);
}

/* ---- a kernel that runs ------------------------------------------------- */

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

bool box_has_run(const struct box *b)
{
    return b->cells > 0 || b->shells_ran || box_helpers_ran(b);
}

void box_cell_begin(struct box *b)
{
    if (b->active)
        b->helpers[b->active - 1].cells++;
    else
        b->cells++;
}

int box_shell_start(struct box *b, int code_fd, int extra_fd, bool clean,
                    struct broker_reply *ret, struct error *err)
{
    int fds[4] = {code_fd, b->writers[0], b->writers[1], extra_fd};
    struct broker_request request = {.type = INIT_SHELL,
                                     .arg = clean ? INIT_SHELL_CLEAN : 0,
                                     .fds = fds,
                                     .fd_count = extra_fd < 0 ? 3 : 4};

    if (!clean)
        b->shells_ran = true;
    return box_broker_call(b, &request, NULL, 0, false, ret, err);
}

int box_pipe_fd(const struct box *b, int which)
{
    return b->pipes[which];
}

/* ---- frames ------------------------------------------------------------- */

int box_frames_fd(const struct box *b)
{
    return b->active ? b->helpers[b->active - 1].frames : b->frames;
}

ssize_t box_frames_send(struct box *b, struct iovec *iov, size_t count)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t n;

    do
        n = sendmsg(box_frames_fd(b), &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    return n;
}

ssize_t box_frames_recv(struct box *b)
{
    struct buf *buf = box_frames_buffer(b);
    ssize_t n;

    buf_reserve(buf, BOX_IO_SIZE);
    do
        n = recv(box_frames_fd(b), buf->data + buf->len, BOX_IO_SIZE,
                 MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    buf->len += (size_t)n;
    return n;
}

struct buf *box_frames_buffer(struct box *b)
{
    return b->active ? &b->helpers[b->active - 1].pending : &b->pending;
}
