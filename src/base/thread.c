/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, mutexes and conditions over pthreads; see thread.h. */
#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

/* How often a wait looks at a clock that a test moves by hand. */
#define TEST_CLOCK_STEP_MS 2u

/* ---- threads ------------------------------------------------------------ */

struct entry {
    char name[THREAD_NAME_MAX + 1];
    void (*fn)(void *arg);
    void *arg;
};

static void *thread_main(void *arg)
{
    struct entry e = *(struct entry *)arg;

    free(arg);
    (void)pthread_setname_np(pthread_self(), e.name); /* fails only if long */
    e.fn(e.arg);
    return NULL;
}

static int start(const char *name, size_t stack_bytes, bool detached,
                 void (*fn)(void *arg), void *arg, pthread_t *ret)
{
    struct entry *e = xcalloc(1, sizeof(*e));
    sigset_t all, before;
    pthread_attr_t attr;
    int r;

    assert(strlen(name) <= THREAD_NAME_MAX);
    memcpy(e->name, name, MIN(strlen(name), (size_t)THREAD_NAME_MAX));
    e->fn = fn;
    e->arg = arg;
    (void)pthread_attr_init(&attr); /* cannot fail on Linux */
    if (stack_bytes)
        (void)pthread_attr_setstacksize(&attr, stack_bytes);
    if (detached)
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /* The new thread inherits the mask: signals belong to the main thread. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(ret, &attr, thread_main, e);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    if (r != 0)
        free(e);
    return -r;
}

int thread_start(struct thread *t, const char *name, void (*fn)(void *arg),
                 void *arg, struct error *err)
{
    int r;

    assert(!t->started);
    r = start(name, 0, false, fn, arg, &t->id);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot start the thread %s",
                           name);
    t->started = true;
    return 0;
}

void thread_join(struct thread *t)
{
    if (!t->started)
        return;
    (void)pthread_join(t->id, NULL); /* started, and not joined before */
    t->started = false;
}

int thread_start_detached(const char *name, size_t stack_bytes,
                          void (*fn)(void *arg), void *arg)
{
    pthread_t id;

    return start(name, stack_bytes, true, fn, arg, &id);
}

/* ---- mutexes ------------------------------------------------------------ */

#ifdef GLOVEBOX_DEBUG
static void set_owner(struct mutex *m)
{
    m->owner = pthread_self();
    m->held = true;
}

static void clear_owner(struct mutex *m)
{
    mutex_assert_held(m);
    m->held = false;
}

void mutex_assert_held(const struct mutex *m)
{
    assert(m->held && pthread_equal(m->owner, pthread_self()));
}
#else
static void set_owner(struct mutex *m)
{
    (void)m;
}

static void clear_owner(struct mutex *m)
{
    (void)m;
}
#endif

static struct timespec timespec_of(uint64_t ms)
{
    return (struct timespec){.tv_sec = (time_t)(ms / 1000),
                             .tv_nsec = (long)(ms % 1000) * 1000000};
}

void mutex_init(struct mutex *m)
{
    *m = (struct mutex)MUTEX_INIT;
}

void mutex_done(struct mutex *m)
{
    (void)pthread_mutex_destroy(&m->lock); /* fails only on misuse */
}

void mutex_lock(struct mutex *m)
{
    (void)pthread_mutex_lock(&m->lock); /* fails only on misuse */
    set_owner(m);
}

void mutex_unlock(struct mutex *m)
{
    clear_owner(m);
    (void)pthread_mutex_unlock(&m->lock);
}

bool mutex_trylock(struct mutex *m)
{
    if (pthread_mutex_trylock(&m->lock) != 0)
        return false;
    set_owner(m);
    return true;
}

bool mutex_lock_until(struct mutex *m, uint64_t deadline_ms)
{
#ifdef __SANITIZE_THREAD__
    /* The runtime of ThreadSanitizer in gcc 12 does not know
     * pthread_mutex_clocklock and reports the unlock as one of a mutex that
     * was never locked. */
    int64_t left_ms = clock_left_ms(deadline_ms);
    struct timespec until = timespec_of((uint64_t)(clock_real_ms() + left_ms));
    int r = pthread_mutex_timedlock(&m->lock, &until);
#else
    struct timespec until = timespec_of(clock_mono_real(deadline_ms));
    int r = pthread_mutex_clocklock(&m->lock, CLOCK_MONOTONIC, &until);
#endif

    if (r != 0)
        return false;
    set_owner(m);
    return true;
}

struct mutex *mutex_hold(struct mutex *m)
{
    mutex_lock(m);
    return m;
}

void mutex_release(struct mutex **m)
{
    if (*m)
        mutex_unlock(*m);
}

/* ---- conditions --------------------------------------------------------- */

void cond_init(struct cond *c)
{
    pthread_condattr_t attr;

    /* None of these can fail on Linux with these arguments. */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&c->cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void cond_done(struct cond *c)
{
    (void)pthread_cond_destroy(&c->cond); /* fails only on misuse */
}

void cond_signal(struct cond *c)
{
    (void)pthread_cond_signal(&c->cond);
}

void cond_broadcast(struct cond *c)
{
    (void)pthread_cond_broadcast(&c->cond);
}

void cond_wait(struct cond *c, struct mutex *m)
{
    clear_owner(m);
    (void)pthread_cond_wait(&c->cond, &m->lock);
    set_owner(m);
}

bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ms)
{
    uint64_t until_ms = deadline_ms;
    struct timespec until;
    int r;

    /* A clock that a test moves wakes no thread, so poll often. */
    if (clock_is_test())
        until_ms = MIN(deadline_ms, clock_mono_ms() + TEST_CLOCK_STEP_MS);
    until = timespec_of(clock_mono_real(until_ms));
    clear_owner(m);
    r = pthread_cond_timedwait(&c->cond, &m->lock, &until);
    set_owner(m);
    return r != ETIMEDOUT || clock_mono_ms() < deadline_ms;
}

/* ---- workers ------------------------------------------------------------ */

void worker_init(struct worker *w)
{
    *w = (struct worker){.woken = false};
    mutex_init(&w->lock);
    cond_init(&w->wake);
}

int worker_start(struct worker *w, const char *name, void (*fn)(void *arg),
                 void *arg, struct error *err)
{
    return thread_start(&w->thread, name, fn, arg, err);
}

void worker_wake(struct worker *w)
{
    mutex_lock(&w->lock);
    w->woken = true;
    cond_signal(&w->wake);
    mutex_unlock(&w->lock);
}

bool worker_wait(struct worker *w, uint64_t ms)
{
    uint64_t deadline = clock_mono_ms() + ms;

    mutex_lock(&w->lock);
    while (!w->woken && cond_wait_until(&w->wake, &w->lock, deadline))
        ;
    w->woken = false;
    mutex_unlock(&w->lock);
    return !w->stopping;
}

void worker_stop(struct worker *w)
{
    if (!w->thread.started)
        return;
    w->stopping = true;
    worker_wake(w);
    thread_join(&w->thread);
}

void worker_done(struct worker *w)
{
    cond_done(&w->wake);
    mutex_done(&w->lock);
}
