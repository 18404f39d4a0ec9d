/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, mutexes and conditions as this program uses them: every thread has
 * a name, every timed wait takes a deadline on the monotonic clock
 * (clock_mono_ms), and every long-lived thread is started and joined through
 * struct thread. docs/THREADS.md lists the threads and the order of locks.
 *
 * In debug flavours (GLOVEBOX_DEBUG: asan, ubsan, tsan) a mutex knows its
 * owner. A function that must be called with a mutex held begins with
 * mutex_assert_held(), which costs nothing in a release build.
 */
#ifndef GLOVEBOX_BASE_THREAD_H
#define GLOVEBOX_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

/* ---- threads ------------------------------------------------------------ */

#define THREAD_NAME_MAX 15 /* bytes; the kernel's limit */

/* All zero: not started. */
struct thread {
    pthread_t id;
    bool started;
};

/* Runs fn(arg) on a new thread, on which all signals are blocked. name is
 * shown by ps, top, gdb and perf. ERR_INTERNAL when the system refuses. */
int thread_start(struct thread *t, const char *name, void (*fn)(void *arg),
                 void *arg, struct error *err);
/* Waits for fn to return; does nothing if the thread was not started. */
void thread_join(struct thread *t);
/* A detached thread. stack_bytes 0: the default. Negative errno. */
int thread_start_detached(const char *name, size_t stack_bytes,
                          void (*fn)(void *arg), void *arg);

/* ---- mutexes ------------------------------------------------------------ */

struct mutex {
    pthread_mutex_t lock;
#ifdef GLOVEBOX_DEBUG
    pthread_t owner; /* meaningful while `held` */
    _Atomic bool held;
#endif
};
#define MUTEX_INIT                                                            \
    {                                                                         \
        .lock = PTHREAD_MUTEX_INITIALIZER                                     \
    }

void mutex_init(struct mutex *m);
void mutex_done(struct mutex *m);
void mutex_lock(struct mutex *m);
void mutex_unlock(struct mutex *m);
bool mutex_trylock(struct mutex *m);
/* False when the deadline passed first. */
bool mutex_lock_until(struct mutex *m, uint64_t deadline_ms);
/* Holds m until the end of a block:
 *     struct mutex *held cleanup(mutex_release) = mutex_hold(&x->lock);
 */
struct mutex *mutex_hold(struct mutex *m);
void mutex_release(struct mutex **m); /* of NULL: nothing */
/* Debug flavours abort if the calling thread does not hold m. */
#ifdef GLOVEBOX_DEBUG
void mutex_assert_held(const struct mutex *m);
#else
static inline void mutex_assert_held(const struct mutex *m)
{
    (void)m;
}
#endif

/* ---- conditions --------------------------------------------------------- */

struct cond {
    pthread_cond_t cond;
};
#define COND_INIT                                                             \
    {                                                                         \
        .cond = PTHREAD_COND_INITIALIZER                                      \
    }

void cond_init(struct cond *c);
void cond_done(struct cond *c);
void cond_signal(struct cond *c);
void cond_broadcast(struct cond *c);
/* The caller holds m, and tests its predicate in a loop. */
void cond_wait(struct cond *c, struct mutex *m);
/* False when the deadline has passed. A condition made by COND_INIT cannot be
 * waited for this way: its clock is not the monotonic one. */
bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ms);

/* ---- workers ------------------------------------------------------------ */

/* A thread that has work at times: it sleeps until a deadline or until it is
 * woken. Its main is
 *     while (worker_wait(w, ms_until_the_next_work))
 *         work;
 */
struct worker {
    struct thread thread;
    struct mutex lock;
    struct cond wake;
    bool woken; /* lock */
    _Atomic bool stopping;
};

void worker_init(struct worker *w);
int worker_start(struct worker *w, const char *name, void (*fn)(void *arg),
                 void *arg, struct error *err);
void worker_wake(struct worker *w);
/* On the worker's thread. False: stop. */
bool worker_wait(struct worker *w, uint64_t ms);
/* Asks fn to return, and joins. Again, or if not started: nothing. */
void worker_stop(struct worker *w);
void worker_done(struct worker *w); /* after worker_stop */

#endif
