/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker pool of the daemon: requests and executions run here, each job
 * to its end. Bounded in threads and in waiting jobs; never runs a job on
 * the caller's thread.
 */
#include "http/http.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/mem.h"

#define IDLE_SECONDS 10
/* Untouched stack costs no memory; sanitizers need the room. */
#define STACK_SIZE ((size_t)512 << 10)

struct job {
    struct job *next;
    void (*run)(void *arg);
    void *arg;
};

struct http_work {
    pthread_mutex_t lock;
    pthread_cond_t some;  /* a job waits, or stopping */
    pthread_cond_t empty; /* the last thread left */
    struct job *first, **last;
    size_t queued, queue_max;
    unsigned threads, idle, max_threads;
    bool stopping;
};

struct http_work *http_work_new(unsigned max_threads, size_t queue_max)
{
    struct http_work *w = xcalloc(1, sizeof(*w));
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr); /* these four cannot fail on Linux */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->some, &attr);
    (void)pthread_cond_init(&w->empty, NULL);
    (void)pthread_condattr_destroy(&attr);
    w->last = &w->first;
    w->max_threads = max_threads;
    w->queue_max = queue_max;
    return w;
}

/* The next job, or NULL when this thread should leave. Lock held. */
static struct job *take_job(struct http_work *w)
{
    struct job *job;

    while (!w->first) {
        struct timespec until;
        int r;

        if (w->stopping)
            return NULL;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += IDLE_SECONDS;
        w->idle++;
        r = pthread_cond_timedwait(&w->some, &w->lock, &until);
        w->idle--;
        if (r == ETIMEDOUT && !w->first)
            return NULL;
    }
    job = w->first;
    w->first = job->next;
    if (!w->first)
        w->last = &w->first;
    w->queued--;
    return job;
}

static void *worker(void *arg)
{
    struct http_work *w = arg;
    struct job *job;

    (void)pthread_mutex_lock(&w->lock);
    while ((job = take_job(w))) {
        (void)pthread_mutex_unlock(&w->lock);
        job->run(job->arg);
        free(job);
        (void)pthread_mutex_lock(&w->lock);
    }
    if (--w->threads == 0)
        (void)pthread_cond_broadcast(&w->empty);
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Lock held. Failing is tolerated while other threads exist. */
static int start_thread(struct http_work *w)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    (void)pthread_attr_init(&attr); /* cannot fail on Linux */
    (void)pthread_attr_setstacksize(&attr, STACK_SIZE);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /* Signals are main's; a worker must not be interrupted by one. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&thread, &attr, worker, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    if (r == 0)
        w->threads++;
    return -r;
}

static int add_job(struct http_work *w, void (*run)(void *), void *arg,
                   size_t queue_max)
{
    struct job *job = xmalloc(sizeof(*job));
    int r = 0;

    *job = (struct job){.run = run, .arg = arg};
    (void)pthread_mutex_lock(&w->lock);
    if (w->queued >= queue_max)
        r = -EAGAIN;
    else if (w->queued >= w->idle && w->threads < w->max_threads)
        r = start_thread(w);
    if (r < 0 && (w->threads == 0 || w->queued >= queue_max)) {
        (void)pthread_mutex_unlock(&w->lock);
        free(job);
        return -EAGAIN;
    }
    *w->last = job;
    w->last = &job->next;
    w->queued++;
    (void)pthread_cond_signal(&w->some);
    (void)pthread_mutex_unlock(&w->lock);
    return 0;
}

int http_work_submit(struct http_work *work, void (*job)(void *arg), void *arg)
{
    return add_job(work, job, arg, work->queue_max);
}

void http_work_insist(struct http_work *work, void (*job)(void *arg),
                      void *arg)
{
    if (add_job(work, job, arg, SIZE_MAX) < 0)
        job(arg); /* no thread can be made: late is better than never */
}

void http_work_load(struct http_work *work, size_t *ret_queued,
                    unsigned *ret_threads)
{
    (void)pthread_mutex_lock(&work->lock);
    *ret_queued = work->queued;
    *ret_threads = work->threads;
    (void)pthread_mutex_unlock(&work->lock);
}

void http_work_free(struct http_work *work)
{
    if (!work)
        return;
    (void)pthread_mutex_lock(&work->lock);
    work->stopping = true;
    (void)pthread_cond_broadcast(&work->some);
    while (work->threads > 0)
        (void)pthread_cond_wait(&work->empty, &work->lock);
    (void)pthread_mutex_unlock(&work->lock);
    (void)pthread_cond_destroy(&work->some);
    (void)pthread_cond_destroy(&work->empty);
    (void)pthread_mutex_destroy(&work->lock);
    free(work);
}
