/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a kernel: looked at, saved to an image, continued from one,
 * and kept as undo points. Runs in gloveboxd on the thread that has the turn,
 * while the kernel waits for a cell. The kernel does the work and can lie
 * about it; its answers are numbers from fixed lists. An answer that is late
 * or malformed loses the kernel, as in a cell.
 *
 * Points are copies of the kernel: the kernel makes them, pid 1 keeps the
 * processes, this file keeps their order. They end before the box reaches its
 * memory limit, the oldest first.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/box_int.h"

#define PIPE_BYTES (1u << 20)
#define SAVE_MS 60000u    /* writing an image */
#define WAKE_TRIES 3      /* a process of another number each time */
#define ROOM_PARTS 8u     /* of the memory limit: */
#define ROOM_ADD 5u       /* with more in use, no point is added */
#define ROOM_HALF 6u      /* with more in use, half of the points end */
#define ROOM_NONE 7u      /* with more in use, all end */
#define RELIEF_STEPS 32u  /* of the limit between two reliefs */
#define PROCESSES_PART 4u /* of the process limit that points may take */

/* ---- talking to the kernel ---------------------------------------------- */

static int kernel_fault(struct box *b, const char *why, struct error *err)
{
    log_event(LOG_WARN, "kernel_memory_failed", "why", why, NULL);
    box_kernel_lost(b);
    return error_set(err, ERR_GUEST, "the interpreter %s", why);
}

/* The head of the frame with the descriptor, then its payload. */
static bool send_request(struct box *b, const struct kernel_memory *request,
                         int fd)
{
    struct kernel_frame head = {KERNEL_MEMORY, sizeof(*request)};
    struct iovec iov[2] = {{&head, sizeof(head)},
                           {(void *)request, sizeof(*request)}};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    if (fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    }
    /* Few bytes into an empty socket go at once. */
    return sendmsg(b->frames, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)(sizeof(head) + sizeof(*request));
}

static bool receive(struct box *b, void *to, size_t len, uint64_t deadline)
{
    struct pollfd p = {.fd = b->frames, .events = POLLIN};
    size_t done = 0;

    while (done < len) {
        ssize_t n =
            recv(b->frames, (char *)to + done, len - done, MSG_DONTWAIT);

        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR) ||
                 clock_left_ms(deadline) == 0)
            return false;
        else
            (void)poll(&p, 1, clock_left_ms(deadline)); /* recv tells */
    }
    return true;
}

static int send_ask(struct box *b, enum kernel_memory_what what, int fd,
                    uint64_t most, struct error *err)
{
    struct kernel_memory request = {
        .number = ++b->memory_number, .what = what, .most_bytes = most};

    if (!b->kernel_alive || b->frames < 0)
        return error_set(err, ERR_CONFLICT, "no interpreter is running");
    if (!send_request(b, &request, fd))
        return kernel_fault(b, "cannot be reached", err);
    return 0;
}

static int receive_answer(struct box *b, uint64_t deadline,
                          struct kernel_remembered *ret, struct error *err)
{
    struct kernel_frame head;

    if (!receive(b, &head, sizeof(head), deadline))
        return kernel_fault(b, "did not answer", err);
    if (head.type != KERNEL_REMEMBERED || head.len != sizeof(*ret) ||
        !receive(b, ret, sizeof(*ret), deadline) ||
        ret->number != b->memory_number ||
        ret->result >= KERNEL_MEMORY_RESULTS ||
        ret->uncarried & ~(uint32_t)KERNEL_UNCARRIED_ALL ||
        ret->pid > INIT_POINT_PID_MAX)
        return kernel_fault(b, "sent nonsense", err);
    return 0;
}

static int ask(struct box *b, enum kernel_memory_what what,
               struct kernel_remembered *ret, struct error *err)
{
    int rc = send_ask(b, what, -1, 0, err);

    return rc < 0 ? rc
                  : receive_answer(b, clock_mono_ms() + BOX_CALL_MS, ret, err);
}

/* ---- images ------------------------------------------------------------- */

static int fill_memory(const struct box *b,
                       const struct kernel_remembered *answer,
                       struct box_memory *ret, struct error *err)
{
    *ret = (struct box_memory){.bytes = answer->bytes,
                               .uncarried = answer->uncarried,
                               .refused =
                                   answer->result == KERNEL_MEMORY_REFUSED};
    memcpy(ret->zygote, b->zygote, sizeof(ret->zygote));
    if (answer->result == KERNEL_MEMORY_TOO_LARGE)
        return error_set(err, ERR_LIMIT,
                         "the interpreter's memory is too large to save");
    if (answer->result == KERNEL_MEMORY_FAILED)
        return error_set(err, ERR_GUEST,
                         "the interpreter could not save its memory");
    return 0;
}

int box_memory_look(struct box *b, struct box_memory *ret, struct error *err)
{
    struct kernel_remembered answer;
    int rc = ask(b, KERNEL_MEMORY_LOOK, &answer, err);

    return rc < 0 ? rc : fill_memory(b, &answer, ret, err);
}

/* Moves what the pipe has now; false: `most` would be exceeded, or fd takes no
 * more (*ret_rc). */
static bool move_bytes(int from, int fd, char *room, uint64_t most,
                       uint64_t *moved, int *ret_rc)
{
    ssize_t n;

    *ret_rc = 0;
    while ((n = read(from, room, PIPE_BYTES)) > 0) {
        if ((uint64_t)n > most - *moved)
            *ret_rc = -EFBIG;
        else
            *ret_rc = fd_write_all(fd, room, (size_t)n);
        if (*ret_rc < 0)
            return false;
        *moved += (uint64_t)n;
    }
    return true;
}

/* The answer comes when the writer has ended; the rest is then in the pipe. */
static int receive_image(struct box *b, int from, int fd, uint64_t most,
                         struct kernel_remembered *answer, bool *ret_answered,
                         struct error *err)
{
    char *room cleanup(mem_free) = xmalloc(PIPE_BYTES);
    uint64_t deadline = clock_mono_ms() + SAVE_MS, moved = 0;
    bool answered = false;
    int rc, broken;

    for (;;) {
        struct pollfd p[2] = {{from, POLLIN, 0},
                              {answered ? -1 : b->frames, POLLIN, 0}};

        (void)poll(p, 2, clock_left_ms(deadline)); /* reading tells */
        if (!answered && p[1].revents) {
            rc = receive_answer(b, deadline, answer, err);
            if (rc < 0)
                return rc;
            *ret_answered = answered = true;
        }
        if (!move_bytes(from, fd, room, most, &moved, &broken))
            return broken == -EFBIG
                       ? kernel_fault(b, "sent a larger image than it may",
                                      err)
                       : error_errno(err, ERR_INTERNAL, -broken,
                                     "cannot write a memory image");
        if (answered &&
            (answer->result != KERNEL_MEMORY_DONE || moved == answer->bytes))
            return 0;
        if (answered || clock_left_ms(deadline) == 0)
            return kernel_fault(b, "sent an image of another size", err);
    }
}

int box_memory_save(struct box *b, int fd, uint64_t most_bytes,
                    struct box_memory *ret, struct error *err)
{
    struct kernel_remembered answer;
    int ends[2] = {-1, -1};
    int from cleanup(fd_close) = -1;
    int to cleanup(fd_close) = -1;
    bool answered = false;
    int rc = fd_pipe(ends);

    from = ends[0];
    to = ends[1];
    if (rc == 0)
        rc = fd_set_nonblock(from, 1);
    if (rc < 0)
        return error_errno(err, ERR_BUSY, -rc, "no descriptors for a pipe");
    (void)fcntl(from, F_SETPIPE_SZ, PIPE_BYTES); /* or it takes longer */
    rc = send_ask(b, KERNEL_MEMORY_SAVE, to, most_bytes, err);
    if (rc < 0)
        return rc;
    fd_close(&to);
    rc = receive_image(b, from, fd, most_bytes, &answer, &answered, err);
    /* A kernel that could not get rid of its image answers now. */
    if (rc == -ERR_INTERNAL && !answered) {
        struct error ignored;

        fd_close(&from);
        (void)receive_answer(b, clock_mono_ms() + BOX_CALL_MS, &answer,
                             &ignored);
    }
    return rc < 0 ? rc : fill_memory(b, &answer, ret, err);
}

int box_memory_wake(struct box *b, const struct box_origin *origin,
                    enum box_image_problem *ret_problem, struct error *err)
{
    static const enum box_image_problem problems[] = {
        [KERNEL_IMAGE_USABLE] = BOX_IMAGE_USABLE,
        [KERNEL_IMAGE_UNSUPPORTED] = BOX_IMAGE_UNSUPPORTED,
        [KERNEL_IMAGE_MISMATCH] = BOX_IMAGE_MISMATCH,
        [KERNEL_IMAGE_DAMAGED] = BOX_IMAGE_DAMAGED,
        [KERNEL_IMAGE_TOO_LARGE] = BOX_IMAGE_TOO_LARGE,
        [KERNEL_IMAGE_AGAIN] = BOX_IMAGE_DAMAGED,
    };
    enum kernel_image image = KERNEL_IMAGE_AGAIN;

    if (origin->image_fd < 0) { /* this build holds no images by name */
        *ret_problem = BOX_IMAGE_UNSUPPORTED;
        return 0;
    }
    for (int i = 0; i < WAKE_TRIES && image == KERNEL_IMAGE_AGAIN; i++) {
        int rc = box_kernel_start_from(b, 0, origin->image_fd, &image, err);

        if (rc < 0)
            return rc;
    }
    *ret_problem = problems[image];
    if (image == KERNEL_IMAGE_USABLE)
        b->cells = 1; /* code has run in it, here or elsewhere */
    return 0;
}

/* ---- points ------------------------------------------------------------- */

/* Is the kernel at points[at], and has run nothing since? */
static bool at_point(const struct box *b)
{
    return b->kernel_alive && b->at < b->point_count &&
           b->points[b->at].cells == b->cells;
}

unsigned box_points_alive(const struct box *b)
{
    unsigned tasks = 0;

    for (unsigned i = 0; i < b->point_count; i++)
        tasks += b->points[i].tasks;
    return tasks;
}

unsigned box_points_back(const struct box *b)
{
    if (b->at >= b->point_count)
        return 0;
    return at_point(b) ? b->at : b->at + 1;
}

unsigned box_points_forward(const struct box *b)
{
    return at_point(b) ? b->point_count - 1 - b->at : 0;
}

void box_points_lost(struct box *b)
{
    b->point_count = b->at = 0;
}

/* A point that is gone. The kernel is then after the one before it. */
static void remove_point(struct box *b, unsigned i)
{
    memmove(&b->points[i], &b->points[i + 1],
            (b->point_count - i - 1) * sizeof(b->points[0]));
    b->point_count--;
    if (i == 0 && b->at == 0)
        b->at = b->point_count; /* before all: none can be undone */
    else if (i <= b->at)
        b->at--;
}

void box_point_ended(struct box *b, uint32_t pid)
{
    for (unsigned i = 0; i < b->point_count; i++)
        if (b->points[i].pid == pid) {
            remove_point(b, i);
            return;
        }
}

static int tell_init(struct box *b, enum init_point what, uint32_t pid,
                     int *ret_errnum, struct error *err)
{
    struct broker_request request = {.type = INIT_POINT,
                                     .arg = INIT_POINT_ARG(what, pid)};
    struct broker_reply reply;
    int rc = box_broker_call(b, &request, NULL, 0, false, &reply, err);

    if (rc == 0)
        *ret_errnum = reply.errnum;
    return rc;
}

static int drop_points(struct box *b, unsigned first, unsigned count,
                       struct error *err)
{
    int rc = 0, errnum;

    while (count-- > 0 && rc == 0) {
        uint32_t pid = b->points[first].pid;

        remove_point(b, first);
        rc = tell_init(b, INIT_POINT_DROP, pid, &errnum, err);
    }
    return rc;
}

void box_points_drop(struct box *b)
{
    struct error err;
    int errnum;

    if (b->point_count == 0)
        return;
    box_points_lost(b);
    (void)tell_init(b, INIT_POINT_DROP, 0, &errnum, &err); /* or it is gone */
}

/* Bytes in use, as far as the host counts them. */
static bool memory_in_use(struct box *b, bool now, uint64_t *ret)
{
    struct warden_usage usage = {.alive = true};

    /* The peak, begun anew just before, is what is in use. The next execution
     * begins its own. */
    if (now)
        (void)meters_read(&b->meters, true, &usage); /* the next one tells */
    if (b->limits.memory_bytes == 0 ||
        meters_read(&b->meters, false, &usage) < 0 ||
        usage.memory_peak_bytes == 0)
        return false;
    *ret = usage.memory_peak_bytes;
    return true;
}

static bool more_than(const struct box *b, uint64_t bytes, unsigned parts)
{
    return bytes > b->limits.memory_bytes / ROOM_PARTS * parts;
}

/* Ends the oldest points until a new one may be made; false: there is no room
 * for any. */
static bool make_room(struct box *b, struct error *err)
{
    uint64_t used;

    while (memory_in_use(b, true, &used) && more_than(b, used, ROOM_ADD))
        if (b->point_count == 0 || drop_points(b, 0, 1, err) < 0)
            return false;
    return true;
}

static int refused(const struct kernel_remembered *answer, struct error *err)
{
    return error_set(err, ERR_CONFLICT,
                     answer->uncarried & KERNEL_UNCARRIED_THREADS
                         ? "a thread of the session's code is running"
                     : answer->uncarried & KERNEL_UNCARRIED_CHILDREN
                         ? "a child process is running"
                         : "this interpreter keeps no undo points");
}

/* 1: a copy was made and is kept; 0: there was no room for it. */
static int copy_kernel(struct box *b, uint32_t *ret_pid, struct error *err)
{
    struct kernel_remembered answer;
    int errnum = 0;
    int rc = ask(b, KERNEL_MEMORY_POINT, &answer, err);

    if (rc < 0)
        return rc;
    if (answer.result == KERNEL_MEMORY_REFUSED)
        return refused(&answer, err);
    if (answer.result != KERNEL_MEMORY_DONE)
        return 0;
    rc = tell_init(b, INIT_POINT_KEEP, answer.pid, &errnum, err);
    if (rc < 0)
        return rc;
    if (errnum == ENOTSUP)
        return error_set(err, ERR_CONFLICT,
                         "this isolation keeps no undo points");
    if (errnum)
        return 0; /* it did not live to be kept */
    *ret_pid = answer.pid;
    return 1;
}

int box_point_add(struct box *b, unsigned most, unsigned *ret_kept,
                  struct error *err)
{
    unsigned room = b->limits.processes / PROCESSES_PART;
    uint32_t pid = 0;
    int rc = 0;

    b->relieved_at = 0;
    most = MIN(most, BOX_POINTS_MAX);
    if (b->limits.processes && room < most + 1)
        most = room ? room - 1 : 0;
    /* The points after the present state; all of them where none is before. */
    if (b->point_count)
        rc = b->at < b->point_count
                 ? drop_points(b, b->at + 1, b->point_count - b->at - 1, err)
                 : drop_points(b, 0, b->point_count, err);
    if (rc == 0 && !at_point(b)) {
        if (b->point_count > most)
            rc = drop_points(b, 0, b->point_count - most, err);
        if (rc == 0 && most > 0 && make_room(b, err)) {
            rc = copy_kernel(b, &pid, err);
            if (rc == 1)
                b->points[b->point_count++] = (struct box_point){
                    .pid = pid, .cells = b->cells, .tasks = 1};
        }
        b->at = b->point_count ? b->point_count - 1 : 0;
    }
    if (rc >= 0 && ret_kept)
        *ret_kept = box_points_back(b);
    return rc < 0 ? rc : 0;
}

/* The kernel goes on from points[target]. */
static int go_to(struct box *b, unsigned target, struct error *err)
{
    struct box_point point = b->points[target];
    uint32_t old = b->kernel_alive ? b->kernel_pid : 0;
    char sink[4096];
    int rc, errnum = 0;

    /* A kernel that ended may have left half a frame. */
    while (recv(b->frames, sink, sizeof(sink), MSG_DONTWAIT) > 0)
        ;
    buf_reset(&b->pending);
    rc = tell_init(b, INIT_POINT_SWITCH, point.pid, &errnum, err);
    if (rc < 0)
        return rc;
    if (errnum == ESRCH) {
        box_point_ended(b, point.pid);
        return error_set(err, ERR_CONFLICT, "this state is not kept any more");
    }
    if (errnum)
        return error_errno(err, ERR_GUEST, errnum,
                           "the interpreter could not be stopped");
    if (old && at_point(b)) {
        /* Its state is kept by points[at]. */
        rc = tell_init(b, INIT_POINT_DROP, old, &errnum, err);
    } else if (old) {
        /* What was undone before the cells since is another future. */
        rc = drop_points(b, b->at + 1, b->point_count - b->at - 1, err);
        b->points[b->point_count++] = (struct box_point){
            .pid = old, .cells = b->cells, .tasks = MAX(b->alone, 2u) - 1};
    }
    b->kernel_pid = point.pid;
    b->kernel_alive = true;
    b->cells = point.cells;
    b->at = target;
    box_guest_env_reset(b);
    if (rc < 0)
        return rc;
    /* The state stays a point: another copy takes the place of the one that
     * runs now. */
    b->points[target].tasks = 1;
    rc = copy_kernel(b, &b->points[target].pid, err);
    if (rc == 1)
        return 0;
    remove_point(b, target);
    return rc;
}

int box_point_undo(struct box *b, unsigned back, struct error *err)
{
    unsigned most = box_points_back(b);

    if (back == 0 || back > most)
        return error_set(err, ERR_CONFLICT, "only %u earlier states are kept",
                         most);
    return go_to(b, most - back, err);
}

int box_point_redo(struct box *b, unsigned forward, struct error *err)
{
    unsigned most = box_points_forward(b);

    if (forward == 0 || forward > most)
        return error_set(err, ERR_CONFLICT, "only %u later states are kept",
                         most);
    return go_to(b, b->at + forward, err);
}

bool box_has_points(const struct box *b)
{
    return b->point_count > 0;
}

void box_points_relieve(struct box *b)
{
    struct error err;
    uint64_t used;

    if (b->point_count == 0 || !memory_in_use(b, false, &used) ||
        !more_than(b, used, ROOM_HALF))
        return;
    if (more_than(b, used, ROOM_NONE)) {
        box_points_drop(b);
        return;
    }
    /* The peak does not fall when points end: only a higher one counts. */
    if (used < b->relieved_at + b->limits.memory_bytes / RELIEF_STEPS)
        return;
    b->relieved_at = used;
    (void)drop_points(b, 0, (b->point_count + 1) / 2,
                      &err); /* or it is gone */
}
