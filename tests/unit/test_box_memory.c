/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of a kernel's memory: the order of undo points, and what
 * it believes of a kernel's answers. Kernel and pid 1 are a thread of the test
 * that answers on both channels; the real ones are in tests/memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "box/box_int.h"
#include "wire/wire.h"

enum lie {
    LIE_NONE,
    LIE_NUMBER,
    LIE_RESULT,
    LIE_FLAGS,
    LIE_PID,
    LIE_TYPE,
    LIE_LENGTH,
    LIE_END,
    LIES
};

/* The other side: processes are numbers, a copy remembers nothing. */
static struct {
    struct box box;
    int frames, ctl;
    pthread_t thread;
    uint32_t next_pid, kernel;
    uint32_t points[INIT_POINTS_MAX];
    unsigned count;
    enum lie lie;
    uint32_t result, uncarried;
    uint64_t bytes, writes;
    bool fd_came, busy;
} other;

static bool known(uint32_t pid)
{
    for (unsigned i = 0; i < other.count; i++)
        if (other.points[i] == pid)
            return true;
    return false;
}

static void forget(uint32_t pid)
{
    for (unsigned i = 0; i < other.count; i++)
        if (other.points[i] == pid)
            other.points[i] = other.points[--other.count];
}

static void answer_frame(void)
{
    char bytes[sizeof(struct kernel_frame) + sizeof(struct kernel_memory)];
    struct kernel_remembered a = {.result = other.result,
                                  .uncarried = other.uncarried,
                                  .bytes = other.bytes};
    struct kernel_memory q;
    uint32_t type = KERNEL_REMEMBERED;
    int fds[WIRE_FDS_MAX];
    size_t count = 0;

    if (wire_recv(other.frames, bytes, sizeof(bytes), fds, &count) !=
        (ssize_t)sizeof(bytes))
        return;
    other.fd_came = count == 1;
    for (uint64_t i = 0; count == 1 && i < other.writes; i++)
        (void)!write(fds[0], "x", 1);
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    memcpy(&q, bytes + sizeof(struct kernel_frame), sizeof(q));
    a.number = q.number;
    if (q.what == KERNEL_MEMORY_POINT && a.result == KERNEL_MEMORY_DONE)
        a.pid = ++other.next_pid;
    if (other.lie == LIE_NUMBER)
        a.number++;
    if (other.lie == LIE_RESULT)
        a.result = KERNEL_MEMORY_RESULTS;
    if (other.lie == LIE_FLAGS)
        a.uncarried = KERNEL_UNCARRIED_ALL + 1;
    if (other.lie == LIE_PID)
        a.pid = INIT_POINT_PID_MAX + 1;
    if (other.lie == LIE_TYPE)
        type = KERNEL_DONE;
    if (other.lie == LIE_END)
        (void)shutdown(other.frames, SHUT_RDWR);
    else
        (void)wire_frame_send(other.frames, type, &a,
                              sizeof(a) - (other.lie == LIE_LENGTH));
}

static int answer_point(uint32_t arg)
{
    uint32_t pid = arg & INIT_POINT_PID_MAX;

    switch ((enum init_point)(arg >> 24)) {
    case INIT_POINT_KEEP:
        other.points[other.count++] = pid;
        return 0;
    case INIT_POINT_SWITCH:
        if (other.busy)
            return EBUSY;
        if (!known(pid))
            return ESRCH;
        forget(pid);
        if (other.kernel)
            other.points[other.count++] = other.kernel;
        other.kernel = pid;
        return 0;
    case INIT_POINT_DROP:
        if (pid == 0)
            other.count = 0;
        forget(pid);
        return 0;
    }
    return EINVAL;
}

static void *other_main(void *unused)
{
    struct pollfd p[2] = {{other.frames, POLLIN, 0}, {other.ctl, POLLIN, 0}};

    while (poll(p, 2, -1) > 0) {
        struct init_request q;
        struct init_reply r = {0};

        if (p[0].revents & POLLIN)
            answer_frame();
        if (p[1].revents & POLLIN) {
            if (wire_recv(other.ctl, &q, sizeof(q), NULL, NULL) !=
                (ssize_t)sizeof(q))
                break;
            r.seq = q.seq;
            r.errnum = answer_point(q.arg);
            (void)wire_send(other.ctl, &r, sizeof(r), NULL, 0);
        } else if (p[1].revents) {
            break;
        }
        if (p[0].revents & (POLLHUP | POLLERR))
            p[0].fd = -1;
    }
    return unused;
}

static int set_up(void **state)
{
    int frames[2], ctl[2];
    struct box *b = &other.box;

    (void)state;
    memset(&other, 0, sizeof(other));
    assert_int_equal(fd_socketpair(SOCK_STREAM, frames), 0);
    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, ctl), 0);
    assert_int_equal(fd_set_nonblock(frames[0], 1), 0);
    assert_int_equal(fd_set_nonblock(ctl[0], 1), 0);
    b->frames = frames[0];
    b->ctl = ctl[0];
    b->meters = METERS_NONE;
    b->released = true;
    b->kernel_alive = true;
    b->kernel_pid = other.kernel = 2;
    b->limits.processes = 512;
    mutex_init(&b->slot_lock);
    mutex_init(&b->ctl_lock);
    mutex_init(&b->guest_env_lock);
    other.frames = frames[1];
    other.ctl = ctl[1];
    other.next_pid = 2;
    return pthread_create(&other.thread, NULL, other_main, NULL);
}

static int tear_down(void **state)
{
    struct box *b = &other.box;

    (void)state;
    fd_close(&b->ctl);
    pthread_join(other.thread, NULL);
    fd_close(&b->frames);
    fd_close(&other.frames);
    fd_close(&other.ctl);
    buf_done(&b->pending);
    buf_done(&b->environment);
    mutex_done(&b->guest_env_lock);
    mutex_done(&b->slot_lock);
    mutex_done(&b->ctl_lock);
    return 0;
}

static unsigned run_and_add(unsigned most)
{
    struct error err = {0};
    unsigned kept = 99;

    box_cell_begin(&other.box);
    assert_int_equal(box_point_add(&other.box, most, &kept, &err), 0);
    return kept;
}

/* ---- tests -------------------------------------------------------------- */

static void points_are_kept_up_to_the_limit(void **state)
{
    struct error err = {0};
    unsigned kept;

    (void)state;
    assert_int_equal(box_point_add(&other.box, 3, &kept, &err), 0);
    assert_int_equal(kept, 0);
    for (unsigned i = 1; i < 10; i++)
        assert_int_equal(run_and_add(3), MIN(i, 3u));
    assert_int_equal(other.count, 4); /* and the present state */
    assert_int_equal(box_points_alive(&other.box), 4);
    /* The same state is not kept twice. */
    assert_int_equal(box_point_add(&other.box, 3, &kept, &err), 0);
    assert_int_equal(other.count, 4);
    assert_int_equal(run_and_add(1), 1);
    assert_int_equal(other.count, 2);
    assert_int_equal(run_and_add(0), 0);
    assert_int_equal(other.count, 0);
    /* A larger number than there is room for means what there is room for. */
    for (unsigned i = 0; i < 200; i++)
        (void)run_and_add(1000);
    assert_int_equal(box_points_back(&other.box), BOX_POINTS_MAX);
    box_points_drop(&other.box);
    assert_int_equal(other.count, 0);
    assert_int_equal(box_points_back(&other.box), 0);
}

static void points_take_a_part_of_the_process_limit(void **state)
{
    (void)state;
    other.box.limits.processes = 16;
    for (unsigned i = 0; i < 10; i++)
        (void)run_and_add(8);
    assert_int_equal(other.count, 4);
    other.box.limits.processes = 3;
    assert_int_equal(run_and_add(8), 0);
    assert_int_equal(other.count, 0);
}

static void undo_and_redo_go_through_all_states(void **state)
{
    struct box *b = &other.box;
    struct error err = {0};

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        (void)run_and_add(8); /* cells 1 to 5 */
    assert_int_equal(box_point_undo(b, 5, &err), -ERR_CONFLICT);
    assert_int_equal(box_point_undo(b, 0, &err), -ERR_CONFLICT);
    assert_int_equal(box_point_redo(b, 1, &err), -ERR_CONFLICT);
    assert_int_equal(box_point_undo(b, 1, &err), 0);
    assert_int_equal(box_cells(b), 4);
    assert_int_equal(box_point_undo(b, 3, &err), 0);
    assert_int_equal(box_cells(b), 1);
    assert_int_equal(box_points_back(b), 0);
    assert_int_equal(box_points_forward(b), 4);
    assert_int_equal(box_point_redo(b, 4, &err), 0);
    assert_int_equal(box_cells(b), 5);
    assert_int_equal(other.count, 5);
    assert_int_equal(b->kernel_pid, other.kernel);
}

static void undo_keeps_a_state_that_is_no_point(void **state)
{
    struct box *b = &other.box;
    struct error err = {0};

    (void)state;
    (void)run_and_add(8);
    (void)run_and_add(8);
    box_cell_begin(b); /* cell 3, no point after it */
    assert_int_equal(box_points_back(b), 2);
    assert_int_equal(box_point_undo(b, 1, &err), 0);
    assert_int_equal(box_cells(b), 2);
    assert_int_equal(box_point_redo(b, 1, &err), 0);
    assert_int_equal(box_cells(b), 3);
    assert_int_equal(box_point_undo(b, 2, &err), 0);
    assert_int_equal(box_cells(b), 1);
    /* A cell makes another future; the next point ends the old one. */
    box_cell_begin(b);
    assert_int_equal(box_points_forward(b), 0);
    assert_int_equal(box_point_redo(b, 1, &err), -ERR_CONFLICT);
    assert_int_equal(box_point_add(b, 8, NULL, &err), 0);
    assert_int_equal(other.count, 2);
    assert_int_equal(box_points_back(b), 1);
}

static void undo_brings_back_a_kernel_that_ended(void **state)
{
    struct box *b = &other.box;
    struct error err = {0};

    (void)state;
    (void)run_and_add(8);
    (void)run_and_add(8);
    box_cell_begin(b);
    box_kernel_lost(b);
    other.kernel = 0;
    assert_int_equal(box_point_undo(b, 1, &err), 0);
    assert_true(box_kernel_alive(b));
    assert_int_equal(box_cells(b), 2);
    assert_int_equal(other.count, 2);
}

static void points_that_end_are_forgotten(void **state)
{
    struct box *b = &other.box;
    struct error err = {0};
    uint32_t middle;

    (void)state;
    for (unsigned i = 0; i < 4; i++)
        (void)run_and_add(8);
    middle = b->points[1].pid;
    forget(middle);
    box_point_ended(b, middle);
    box_point_ended(b, 12345); /* nobody we know */
    assert_int_equal(box_points_back(b), 2);
    assert_int_equal(box_point_undo(b, 2, &err), 0);
    assert_int_equal(box_cells(b), 1);
    /* One of which we were not told yet. */
    forget(b->points[1].pid);
    assert_int_equal(box_point_redo(b, 1, &err), -ERR_CONFLICT);
    assert_true(box_kernel_alive(b));
    assert_int_equal(box_point_redo(b, 1, &err), 0);
    assert_int_equal(box_cells(b), 4);
    /* The first and the last. */
    box_point_ended(b, b->points[0].pid);
    box_point_ended(b, b->points[0].pid);
    assert_int_equal(box_points_back(b), 0);
    assert_int_equal(box_point_undo(b, 1, &err), -ERR_CONFLICT);
    other.count = 0;
    assert_int_equal(run_and_add(8), 0);
    assert_int_equal(run_and_add(8), 1);
}

static void undo_fails_when_the_kernel_cannot_be_stopped(void **state)
{
    struct box *b = &other.box;
    struct error err = {0};

    (void)state;
    (void)run_and_add(8);
    (void)run_and_add(8);
    other.busy = true;
    assert_int_equal(box_point_undo(b, 1, &err), -ERR_GUEST);
    assert_int_equal(box_cells(b), 2);
    other.busy = false;
    assert_int_equal(box_point_undo(b, 1, &err), 0);
}

static void points_are_refused_with_a_reason(void **state)
{
    struct error err = {0};

    (void)state;
    other.result = KERNEL_MEMORY_REFUSED;
    other.uncarried = KERNEL_UNCARRIED_THREADS;
    assert_int_equal(box_point_add(&other.box, 8, NULL, &err), -ERR_CONFLICT);
    assert_non_null(strstr(err.message, "thread"));
    other.uncarried = KERNEL_UNCARRIED_CHILDREN;
    assert_int_equal(box_point_add(&other.box, 8, NULL, &err), -ERR_CONFLICT);
    assert_non_null(strstr(err.message, "child"));
    /* No process left for a copy: no error, and no point. */
    other.result = KERNEL_MEMORY_FAILED;
    assert_int_equal(run_and_add(8), 0);
    assert_int_equal(other.count, 0);
    assert_true(box_kernel_alive(&other.box));
}

static void save_reports_what_the_kernel_says(void **state)
{
    struct box_memory memory;
    struct error err = {0};
    int fd cleanup(fd_close) = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)state;
    other.bytes = other.writes = 1234;
    other.uncarried = KERNEL_UNCARRIED_SOCKETS;
    assert_int_equal(box_memory_look(&other.box, &memory, &err), 0);
    assert_false(other.fd_came);
    assert_int_equal(box_memory_save(&other.box, fd, 1 << 20, &memory, &err),
                     0);
    assert_true(other.fd_came);
    assert_int_equal(memory.bytes, 1234);
    assert_int_equal(memory.uncarried, BOX_UNCARRIED_SOCKETS);
    assert_false(memory.refused);
    other.result = KERNEL_MEMORY_REFUSED;
    assert_int_equal(box_memory_save(&other.box, fd, 1 << 20, &memory, &err),
                     0);
    assert_true(memory.refused);
    other.result = KERNEL_MEMORY_TOO_LARGE;
    assert_int_equal(box_memory_save(&other.box, fd, 1 << 20, &memory, &err),
                     -ERR_LIMIT);
    other.result = KERNEL_MEMORY_FAILED;
    assert_int_equal(box_memory_save(&other.box, fd, 1 << 20, &memory, &err),
                     -ERR_GUEST);
    assert_true(box_kernel_alive(&other.box));
}

static void save_takes_no_more_than_it_may(void **state)
{
    static const struct {
        uint64_t says, writes, most;
        int rc;
    } cases[] = {
        {1000, 1000, 1000, 0},
        {1000, 1000, 999, -ERR_GUEST}, /* although it was told */
        {1000, 999, 5000, -ERR_GUEST},
        {999, 1000, 5000, -ERR_GUEST},
    };
    int fd cleanup(fd_close) = open("/dev/null", O_RDWR | O_CLOEXEC);
    int full cleanup(fd_close) = open("/dev/full", O_RDWR | O_CLOEXEC);
    struct box_memory memory;
    struct error err = {0};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        other.bytes = cases[i].says;
        other.writes = cases[i].writes;
        assert_int_equal(
            box_memory_save(&other.box, fd, cases[i].most, &memory, &err),
            cases[i].rc);
        assert_true(box_kernel_alive(&other.box) == (cases[i].rc == 0));
        tear_down(state);
        set_up(state);
    }
    /* A full disk is not the kernel's fault. */
    other.bytes = other.writes = 10;
    assert_int_equal(box_memory_save(&other.box, full, 100, &memory, &err),
                     -ERR_INTERNAL);
    assert_true(box_kernel_alive(&other.box));
    assert_int_equal(box_memory_look(&other.box, &memory, &err), 0);
}

/* The bits have the same meaning on both sides. */
static void uncarried_bits_agree(void **state)
{
    (void)state;
    assert_int_equal(BOX_UNCARRIED_THREADS, KERNEL_UNCARRIED_THREADS);
    assert_int_equal(BOX_UNCARRIED_CHILDREN, KERNEL_UNCARRIED_CHILDREN);
    assert_int_equal(BOX_UNCARRIED_SOCKETS, KERNEL_UNCARRIED_SOCKETS);
    assert_int_equal(BOX_UNCARRIED_SHARED, KERNEL_UNCARRIED_SHARED);
    assert_int_equal(BOX_UNCARRIED_TMP, KERNEL_UNCARRIED_TMP);
    assert_int_equal(BOX_UNCARRIED_FILES, KERNEL_UNCARRIED_FILES);
}

static void kernel_that_lies_is_lost(void **state)
{
    struct box_memory memory;
    struct error err = {0};

    for (int lie = LIE_NONE + 1; lie < LIES; lie++) {
        other.lie = (enum lie)lie;
        assert_int_equal(box_memory_look(&other.box, &memory, &err),
                         -ERR_GUEST);
        assert_false(box_kernel_alive(&other.box));
        assert_int_equal(box_memory_look(&other.box, &memory, &err),
                         -ERR_CONFLICT);
        tear_down(state);
        set_up(state);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(points_are_kept_up_to_the_limit),
        CASE(points_take_a_part_of_the_process_limit),
        CASE(undo_and_redo_go_through_all_states),
        CASE(undo_keeps_a_state_that_is_no_point),
        CASE(undo_brings_back_a_kernel_that_ended),
        CASE(points_that_end_are_forgotten),
        CASE(undo_fails_when_the_kernel_cannot_be_stopped),
        CASE(points_are_refused_with_a_reason),
        CASE(save_reports_what_the_kernel_says),
        CASE(save_takes_no_more_than_it_may),
        CASE(uncarried_bits_agree),
        CASE(kernel_that_lies_is_lost),
    };

    return cmocka_run_group_tests_name("box_memory", tests, NULL, NULL);
}
