/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker pool of the daemon: requests and executions run here, each job
 * to its end. Bounded in threads and in waiting jobs; never runs a job on
 * the caller's thread.
 *
 * No tenant may use the whole pool (X4). Waiting jobs are taken from the
 * accounts in turn; requests that are not authenticated yet are grouped by
 * the credential they claim. Once a request's tenant is known, its thread is
 * charged to that tenant, as are jobs it submits; the fewer threads are left,
 * the fewer one tenant may have, so that some always are left for the others.
 *
 * A request that frees something (a deletion, a cancellation) is not refused
 * for want of a share: an account has a few threads beyond it for those, and
 * what is more is parked without a thread until one of these is free. A
 * request that may come in bursts is parked in the same way until its account
 * has a share again; there can be WAITING_MAX of those in an account.
 */
#include "http/http.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fair/fair.h"

#define IDLE_SECONDS 10
/* Untouched stack costs no memory; sanitizers need the room. */
#define STACK_SIZE ((size_t)512 << 10)

#define BUCKETS 256u
#define WAITING_MAX 1000u

struct job {
    struct job *next;
    void (*run)(void *arg);
    void *arg;
    bool charged; /* its thread is its account's from the start */
};

struct line { /* first in, first out */
    struct job *first, **last;
    size_t count;
};

/* The principal of waiting or running jobs; exists while it has any. */
struct account {
    struct account *next; /* in its bucket */
    struct account *turn; /* in the ring of those with jobs that wait */
    uint64_t id;
    unsigned charged; /* threads, and jobs that will be */
    unsigned extra;   /* of these, beyond the share */
    size_t queued;
    struct job *first, **last;
    struct line freeing; /* parked until an extra thread is free */
    struct line waiting; /* parked until it has a share */
};

struct http_work {
    struct mutex lock;
    struct cond some;  /* a job waits, or stopping */
    struct cond empty; /* the last thread left */
    struct account *accounts[BUCKETS];
    struct account *latest; /* whose turn was last; the ring's tail */
    size_t queued, queue_max;
    unsigned threads, idle, max_threads, charged;
    bool stopping;
};

/* Of a worker: its pool, and the account it works for. */
static _Thread_local struct http_work *my_work;
static _Thread_local struct account *my_account;
static _Thread_local bool my_extra; /* it is one beyond the share */

struct http_work *http_work_new(unsigned max_threads, size_t queue_max)
{
    struct http_work *w = xcalloc(1, sizeof(*w));

    mutex_init(&w->lock);
    cond_init(&w->some);
    cond_init(&w->empty);
    w->max_threads = max_threads;
    w->queue_max = queue_max;
    return w;
}

/* ---- accounts; all under the lock --------------------------------------- */

static struct account *account_get(struct http_work *w, uint64_t id)
{
    struct account **head = &w->accounts[id % BUCKETS], *a = *head;

    mutex_assert_held(&w->lock);
    while (a && a->id != id)
        a = a->next;
    if (a)
        return a;
    a = xcalloc(1, sizeof(*a));
    a->id = id;
    a->last = &a->first;
    a->freeing.last = &a->freeing.first;
    a->waiting.last = &a->waiting.first;
    a->next = *head;
    *head = a;
    return a;
}

static void account_release(struct http_work *w, struct account *a)
{
    struct account **at = &w->accounts[a->id % BUCKETS];

    mutex_assert_held(&w->lock);
    if (a->charged || a->queued || a->freeing.count || a->waiting.count)
        return;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    free(a);
}

static bool has_share(const struct http_work *w, const struct account *a)
{
    return !fair_enabled(FAIR_THREAD_SHARE) ||
           fair_share_allows(a->charged, w->charged, w->max_threads);
}

static void account_charge(struct http_work *w, struct account *a)
{
    a->charged++;
    w->charged++;
}

static void queue_job(struct http_work *w, struct account *a, struct job *job)
{
    mutex_assert_held(&w->lock);
    if (!a->queued) {
        a->turn = w->latest ? w->latest->turn : a;
        if (w->latest)
            w->latest->turn = a;
        w->latest = a;
    }
    *a->last = job;
    a->last = &job->next;
    a->queued++;
    w->queued++;
}

/* Continues the first job of a line. */
static void unpark(struct http_work *w, struct account *a, struct line *line)
{
    struct job *job = line->first;

    mutex_assert_held(&w->lock);
    line->first = job->next;
    line->count--;
    if (!line->first)
        line->last = &line->first;
    job->next = NULL;
    queue_job(w, a, job);
    cond_signal(&w->some);
}

/* Continues a parked job: the account may have another thread now. */
static void account_unpark(struct http_work *w, struct account *a)
{
    if (a->freeing.count)
        unpark(w, a, &a->freeing);
    else if (a->waiting.count && has_share(w, a))
        unpark(w, a, &a->waiting);
}

/* The thread no longer works for the account. */
static void discharge(struct http_work *w, struct account *a, bool extra)
{
    a->charged--;
    a->extra -= extra;
    w->charged--;
    account_unpark(w, a);
    account_release(w, a);
}

bool http_work_charge(struct http_work *work, const char *who, bool beyond)
{
    struct account *a;
    bool room;

    if (my_work != work)
        return true; /* not a thread of this pool */
    mutex_lock(&work->lock);
    if (my_account)
        discharge(work, my_account, my_extra);
    a = account_get(work, http_work_flow(who));
    room = has_share(work, a);
    my_extra = !room && beyond && a->extra < fair.freeing_threads;
    room = room || my_extra;
    a->extra += my_extra;
    my_account = room ? a : NULL;
    if (room)
        account_charge(work, a);
    else
        account_release(work, a);
    mutex_unlock(&work->lock);
    return room;
}

uint64_t http_work_flow(const char *text)
{
    uint64_t hash = 14695981039346656037u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

/* ---- threads ------------------------------------------------------------ */

/* The next job, or NULL when this thread should end. */
static struct job *take_job(struct http_work *w, struct account **ret)
{
    mutex_assert_held(&w->lock);
    while (!w->queued) {
        bool woken;

        if (w->stopping)
            return NULL;
        w->idle++;
        woken = cond_wait_until(&w->some, &w->lock,
                                clock_mono_ms() + IDLE_SECONDS * 1000);
        w->idle--;
        if (!woken && !w->queued)
            return NULL;
    }

    /* From the account whose turn it is; *ret stays while the job is charged.
     */
    struct account *a = w->latest->turn;
    struct job *job = a->first;

    a->first = job->next;
    if (!a->first)
        a->last = &a->first;
    w->queued--;
    if (--a->queued > 0)
        w->latest = a; /* to the end of the line */
    else if (a == w->latest)
        w->latest = NULL;
    else
        w->latest->turn = a->turn;
    *ret = job->charged ? a : NULL;
    account_release(w, a);
    return job;
}

static void http_worker_main(void *arg)
{
    struct http_work *w = arg;
    struct job *job;

    my_work = w;
    mutex_lock(&w->lock);
    while ((job = take_job(w, &my_account))) {
        mutex_unlock(&w->lock);
        job->run(job->arg);
        free(job);
        mutex_lock(&w->lock);
        if (my_account)
            discharge(w, my_account, my_extra);
        my_account = NULL;
        my_extra = false;
    }
    if (--w->threads == 0)
        cond_broadcast(&w->empty);
    mutex_unlock(&w->lock);
}

/* A failure is tolerated while other threads exist. */
static int start_thread(struct http_work *w)
{
    int r =
        thread_start_detached("http-worker", STACK_SIZE, http_worker_main, w);

    mutex_assert_held(&w->lock);
    if (r == 0)
        w->threads++;
    return r;
}

/* -EAGAIN: one more would be too many. */
static int check_room(struct http_work *w, const struct account *a,
                      bool charged, bool insist)
{
    int r = 0;

    mutex_assert_held(&w->lock);
    if (!insist &&
        (a->queued >= w->queue_max || (charged && !has_share(w, a))))
        return -EAGAIN;
    if (w->queued >= w->idle && w->threads < w->max_threads)
        r = start_thread(w);
    return r < 0 && w->threads == 0 ? -EAGAIN : 0;
}

static int add_job(struct http_work *w, uint64_t id, void (*run)(void *),
                   void *arg, bool insist)
{
    struct job *job = xmalloc(sizeof(*job));
    struct account *a;
    int r;

    *job = (struct job){.run = run, .arg = arg};
    mutex_lock(&w->lock);
    /* A job that a worker queues is still charged to its tenant. */
    job->charged = my_work == w && my_account;
    if (!fair_enabled(FAIR_THREAD_TURNS))
        id = 0;
    a = job->charged ? my_account : account_get(w, id);
    r = check_room(w, a, job->charged, insist);
    if (r == 0) {
        if (job->charged)
            account_charge(w, a);
        queue_job(w, a, job);
        cond_signal(&w->some);
    } else {
        account_release(w, a);
        free(job);
    }
    mutex_unlock(&w->lock);
    return r;
}

int http_work_submit(struct http_work *work, uint64_t flow, bool even_if_full,
                     void (*job)(void *arg), void *arg)
{
    return add_job(work, flow, job, arg, even_if_full);
}

bool http_work_park(struct http_work *work, const char *who, bool beyond,
                    void (*run)(void *arg), void *arg)
{
    struct job *job = xmalloc(sizeof(*job));
    struct account *a;
    struct line *line;
    bool room;

    *job = (struct job){.run = run, .arg = arg};
    mutex_lock(&work->lock);
    a = account_get(work, http_work_flow(who));
    line = beyond ? &a->freeing : &a->waiting;
    room = beyond || line->count < WAITING_MAX;
    if (room) {
        *line->last = job;
        line->last = &job->next;
        line->count++;
        /* A thread may have become free meanwhile. */
        if (beyond ? a->extra < fair.freeing_threads : has_share(work, a))
            unpark(work, a, line);
    } else {
        account_release(work, a);
        free(job);
    }
    mutex_unlock(&work->lock);
    return room;
}

void http_work_insist(struct http_work *work, void (*job)(void *arg),
                      void *arg)
{
    if (add_job(work, 0, job, arg, true) < 0)
        job(arg); /* no thread can be made: late is better than never */
}

void http_work_load(struct http_work *work, size_t *ret_queued,
                    unsigned *ret_threads)
{
    mutex_lock(&work->lock);
    *ret_queued = work->queued;
    *ret_threads = work->threads;
    mutex_unlock(&work->lock);
}

void http_work_free(struct http_work *work)
{
    if (!work)
        return;
    mutex_lock(&work->lock);
    work->stopping = true;
    cond_broadcast(&work->some);
    while (work->threads > 0)
        cond_wait(&work->empty, &work->lock);
    mutex_unlock(&work->lock);
    cond_done(&work->some);
    cond_done(&work->empty);
    mutex_done(&work->lock);
    free(work);
}
