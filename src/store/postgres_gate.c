/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands out connections to PostgreSQL; see postgres_int.h. Runs in the daemon
 * on any thread. Threads write in the order they came, so that none starves.
 * Connections are opened when first needed, and opened again after they were
 * lost; a server that was unreachable is not tried again by every request.
 */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/postgres_int.h"

#define WAIT_MS UINT64_C(60000) /* for a connection */
#define BACKOFF_FIRST_MS UINT64_C(100)
#define BACKOFF_MOST_MS UINT64_C(2000)

void store_postgres_gate_init(struct postgres_gate *g)
{
    mutex_init(&g->lock);
    cond_init(&g->reader_freed);
}

void store_postgres_gate_done(struct postgres_gate *g)
{
    for (size_t i = 0; i < g->idle_count; i++)
        store_postgres_conn_close(g->idle[i]);
    cond_done(&g->reader_freed);
    mutex_done(&g->lock);
}

/* ---- connecting --------------------------------------------------------- */

int store_postgres_gate_connect(struct postgres_store *s, enum store_mode mode,
                                const char *what, struct postgres_conn **conn,
                                struct error *err)
{
    struct postgres_gate *g = &s->gate;
    struct postgres_conn *fresh = NULL;
    bool refused;
    int r;

    if (*conn && !(*conn)->gone)
        return 0;
    mutex_lock(&g->lock);
    refused = clock_mono_ms() < g->refused_until_ms;
    mutex_unlock(&g->lock);
    if (refused) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "%s: the database server cannot be reached", what);
        return error_retry(err, 2);
    }
    r = store_postgres_conn_open(&s->place, mode, &fresh, err);
    mutex_lock(&g->lock);
    if (r < 0) {
        g->backoff_ms = g->backoff_ms ? MIN(g->backoff_ms * 2, BACKOFF_MOST_MS)
                                      : BACKOFF_FIRST_MS;
        g->refused_until_ms = clock_mono_ms() + g->backoff_ms;
    } else {
        g->backoff_ms = g->refused_until_ms = 0;
    }
    mutex_unlock(&g->lock);
    if (r < 0)
        return error_wrap(err, "%s", what);
    /* Rows of the old one are at their end: it had received none of them. */
    store_postgres_conn_close(*conn);
    if (mode == STORE_WRITE)
        s->writer = fresh;
    *conn = fresh;
    return 0;
}

/* ---- writing ------------------------------------------------------------ */

/* Called with the lock held. -ETIMEDOUT, 0 or 1. */
static int turn_wait(struct postgres_gate *g, struct postgres_job *job)
{
    struct postgres_turn turn = {.thread = pthread_self(), .job = job};
    struct postgres_turn **link = &g->turns;
    uint64_t until_ms = clock_mono_ms() + WAIT_MS;
    int r = 0;

    mutex_assert_held(&g->lock);
    cond_init(&turn.changed);
    if (job)
        /* cppcheck-suppress autoVariables ; no one reads it after the wait */
        job->turn = &turn;
    while (*link)
        link = &(*link)->next;
    *link = &turn;
    while (!turn.ours && !turn.done) {
        if (turn.taken) {
            cond_wait(&turn.changed, &g->lock); /* its job runs and will end */
        } else if (!cond_wait_until(&turn.changed, &g->lock, until_ms) &&
                   !turn.taken && !turn.ours && !turn.done) {
            for (link = &g->turns; *link != &turn; link = &(*link)->next)
                continue;
            *link = turn.next;
            r = -ETIMEDOUT;
            break;
        }
    }
    cond_done(&turn.changed);
    return r < 0 ? r : turn.done;
}

/* 0, or 1 when another thread has run the job. */
static int writer_enter(struct postgres_gate *g, struct postgres_job *job)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&g->lock);

    if (!g->writing) {
        g->writing = true;
        g->writer = pthread_self();
        return 0;
    }
    if (pthread_equal(g->writer, pthread_self()))
        return -EDEADLK;
    return turn_wait(g, job);
}

static void writer_leave(struct postgres_gate *g)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&g->lock);
    struct postgres_turn *turn = g->turns;

    if (!turn) {
        g->writing = false;
        return;
    }
    g->turns = turn->next;
    g->writer = turn->thread;
    turn->ours = true;
    cond_signal(&turn->changed);
}

struct postgres_job *store_postgres_gate_next(struct postgres_store *s)
{
    struct postgres_gate *g = &s->gate;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&g->lock);
    struct postgres_turn *turn = g->turns;

    if (!turn || !turn->job)
        return NULL;
    g->turns = turn->next;
    turn->taken = true;
    return turn->job;
}

void store_postgres_gate_wake(struct postgres_store *s,
                              struct postgres_job *job)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&s->gate.lock);

    job->turn->done = true;
    cond_signal(&job->turn->changed);
}

/* ---- reading ------------------------------------------------------------ */

/* *ret_conn NULL: the caller may open one more. */
static int reader_enter(struct postgres_gate *g,
                        struct postgres_conn **ret_conn)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&g->lock);
    uint64_t until_ms = clock_mono_ms() + WAIT_MS;

    while (!g->idle_count && g->readers == STORE_POSTGRES_READERS)
        if (!cond_wait_until(&g->reader_freed, &g->lock, until_ms))
            return -ETIMEDOUT;
    if (g->idle_count) {
        *ret_conn = g->idle[--g->idle_count];
    } else {
        g->readers++;
        *ret_conn = NULL;
    }
    return 0;
}

/* ---- both --------------------------------------------------------------- */

static int refuse_entry(int r, const char *what, struct error *err)
{
    if (r == -EDEADLK)
        return error_set(err, ERR_INTERNAL,
                         "%s: a transaction within a transaction", what);
    (void)error_set(err, ERR_BUSY, "%s: the store is busy", what);
    return error_retry(err, 1);
}

int store_postgres_gate_enter(struct postgres_store *s, enum store_mode mode,
                              const char *what,
                              struct postgres_conn **ret_conn,
                              struct error *err)
{
    struct postgres_conn *conn = NULL;
    int r = mode == STORE_WRITE ? writer_enter(&s->gate, NULL)
                                : reader_enter(&s->gate, &conn);

    if (r < 0)
        return refuse_entry(r, what, err);
    if (mode == STORE_WRITE)
        conn = s->writer;
    r = store_postgres_gate_connect(s, mode, what, &conn, err);
    if (r < 0) {
        store_postgres_gate_leave(s, mode, conn);
        return r;
    }
    *ret_conn = conn;
    return 0;
}

int store_postgres_gate_offer(struct postgres_store *s,
                              struct postgres_job *job)
{
    int r = writer_enter(&s->gate, job);

    return r < 0 ? refuse_entry(r, job->what, job->err) : r;
}

void store_postgres_gate_leave(struct postgres_store *s, enum store_mode mode,
                               struct postgres_conn *conn)
{
    struct postgres_gate *g = &s->gate;
    bool lost = !conn || conn->gone;

    if (lost)
        store_postgres_conn_close(conn);
    if (mode == STORE_WRITE) {
        s->writer = lost ? NULL : conn;
        writer_leave(g);
        return;
    }
    mutex_lock(&g->lock);
    if (lost)
        g->readers--;
    else
        g->idle[g->idle_count++] = conn;
    cond_signal(&g->reader_freed);
    mutex_unlock(&g->lock);
}
