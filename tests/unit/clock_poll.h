/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A poll(2) that follows the clock of the test, so that clock_test_advance
 * ends a wait of the code under test as time would. It replaces libc's in the
 * test program that includes this header. The clock is looked at every few
 * milliseconds.
 *
 * clock_pusher moves the clock while the test itself is inside a call that
 * blocks until a time limit has passed.
 */
#ifndef GLOVEBOX_TESTS_CLOCK_POLL_H
#define GLOVEBOX_TESTS_CLOCK_POLL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define CLOCK_POLL_STEP_MS 5

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    uint64_t deadline =
        timeout_ms < 0 ? UINT64_MAX : clock_mono_ms() + (uint64_t)timeout_ms;

    for (;;) {
        int left = clock_left_ms(deadline);
        struct timespec step = {
            .tv_nsec = (long)MIN(left, CLOCK_POLL_STEP_MS) * 1000000};
        long r = syscall(SYS_ppoll, fds, count, &step, NULL, 0);

        if (r != 0 || left == 0)
            return (int)r;
    }
}

struct clock_pusher {
    bool (*begin)(void *ctx); /* the wait to be shortened has begun */
    void *ctx;
    uint64_t first_ms;   /* the time limit */
    uint64_t further_ms; /* what follows it, again and again; 0: nothing */
    atomic_bool over;
    pthread_t thread;
};

static inline bool clock_pusher_pause(struct clock_pusher *p, unsigned ms)
{
    for (unsigned i = 0; i < ms && !atomic_load(&p->over); i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return !atomic_load(&p->over);
}

/* The pauses grow, so that what follows the limit is not overtaken by the
 * clock on a slow machine. */
static inline void *clock_pusher_main(void *arg)
{
    struct clock_pusher *p = arg;
    unsigned pause = 100;

    while (p->begin && !p->begin(p->ctx))
        if (!clock_pusher_pause(p, 1))
            return NULL;
    clock_test_advance(p->first_ms);
    while (p->further_ms && clock_pusher_pause(p, pause)) {
        clock_test_advance(p->further_ms);
        pause = MIN(pause * 3, 2000u);
    }
    return NULL;
}

static inline void clock_pusher_start(struct clock_pusher *p)
{
    atomic_store(&p->over, false);
    if (pthread_create(&p->thread, NULL, clock_pusher_main, p) != 0)
        abort();
}

static inline void clock_pusher_stop(struct clock_pusher *p)
{
    atomic_store(&p->over, true);
    (void)pthread_join(p->thread, NULL);
}

#endif
