/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands out connections; see sqlite_int.h. Runs in the daemon on any thread.
 * The writing connection goes to waiting threads in the order they came, so
 * that none starves; reading connections are opened when first needed. Readers
 * and the writer never wait for each other.
 */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/sqlite_int.h"

#define WAIT_MS UINT64_C(60000) /* for a connection */

void store_sqlite_gate_init(struct sqlite_gate *g)
{
    mutex_init(&g->lock);
    cond_init(&g->reader_freed);
}

void store_sqlite_gate_done(struct sqlite_gate *g)
{
    for (size_t i = 0; i < g->idle_count; i++)
        store_sqlite_conn_close(g->idle[i]);
    cond_done(&g->reader_freed);
    mutex_done(&g->lock);
}

/* By the real clock, which clock_test_advance() does not move. */
static struct timespec deadline(uint64_t ns)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at); /* cannot fail */
    ns += (uint64_t)at.tv_nsec;
    at.tv_sec += (time_t)(ns / 1000000000u);
    at.tv_nsec = (long)(ns % 1000000000u);
    return at;
}

/* ---- the writer --------------------------------------------------------- */

/* Returns the state that ended the wait, or TURN_WAITS after a minute. */
static unsigned turn_sleep(struct sqlite_gate *g, struct sqlite_turn *turn)
{
    struct timespec until = deadline(WAIT_MS * 1000000), *limit = &until;

    while (!atomic_load(&turn->state)) {
        if (futex_wait(&turn->state, TURN_WAITS, limit) == 0)
            continue;
        mutex_lock(&g->lock);
        if (!turn->taken &&
            !atomic_load(&turn->state)) { /* checked again under the lock */
            struct sqlite_turn **link = &g->turns;

            while (*link != turn)
                link = &(*link)->next;
            *link = turn->next;
            mutex_unlock(&g->lock);
            return TURN_WAITS;
        }
        mutex_unlock(&g->lock);
        limit = NULL; /* its job is running and will end */
    }
    return atomic_load(&turn->state);
}

/* Called with the lock held; releases it. `writing` stays set: the thread that
 * leaves passes the connection to its successor. */
static int turn_wait(struct sqlite_gate *g, struct sqlite_job *job)
{
    struct sqlite_turn turn = {.thread = pthread_self(), .job = job};
    struct sqlite_turn **link = &g->turns;
    unsigned state;

    mutex_assert_held(&g->lock);
    while (*link)
        link = &(*link)->next;
    *link = &turn;
    mutex_unlock(&g->lock);
    if (atomic_exchange(&g->awaited, 0))
        futex_wake(&g->awaited, 1);
    state = turn_sleep(g, &turn);
    if (state == TURN_WAITS)
        return -ETIMEDOUT;
    if (state == TURN_OURS)
        return 0;
    store_sqlite_gate_wake(turn.next);
    return 1;
}

bool store_sqlite_gate_await(struct sqlite_gate *g, uint64_t ns)
{
    struct timespec until = deadline(ns);
    bool came;

    atomic_store(&g->awaited, 1);
    mutex_lock(&g->lock);
    came = g->turns != NULL;
    mutex_unlock(&g->lock);
    while (!came && futex_wait(&g->awaited, 1, &until) == 0)
        came = !atomic_load(&g->awaited);
    return !atomic_exchange(&g->awaited, 0) || came;
}

void store_sqlite_gate_wake(struct sqlite_turn *turn)
{
    if (!turn)
        return;
    atomic_store(&turn->state, TURN_DONE);
    futex_wake(&turn->state, 1); /* its stack may be gone by then: futex.h */
}

/* 0, or 1 when another thread has run the job. */
static int writer_enter(struct sqlite_gate *g, struct sqlite_job *job)
{
    int r = 0;

    mutex_lock(&g->lock);
    if (!g->writing) {
        g->writing = true;
        g->writer = pthread_self();
    } else if (pthread_equal(g->writer, pthread_self())) {
        r = -EDEADLK;
    } else {
        return turn_wait(g, job);
    }
    mutex_unlock(&g->lock);
    return r;
}

/* ret_job NULL: gives the connection away, or marks it free when no thread
 * waits. The successor is woken after the lock is released; it may have
 * returned by then (futex.h). */
static bool pass_writer(struct sqlite_gate *g, struct sqlite_turn **ret_job)
{
    struct sqlite_turn *turn;
    atomic_uint *wake = NULL;

    mutex_lock(&g->lock);
    turn = g->turns;
    if (turn)
        g->turns = turn->next;
    else if (!ret_job)
        g->writing = false;
    if (turn && turn->job && ret_job) {
        turn->next = NULL;
        turn->taken = true;
        *ret_job = turn;
    } else if (turn) {
        g->writer = turn->thread;
        wake = &turn->state;
        atomic_store(wake, TURN_OURS);
    }
    mutex_unlock(&g->lock);
    if (wake)
        futex_wake(wake, 1);
    return turn != NULL;
}

bool store_sqlite_gate_next(struct sqlite_gate *g,
                            struct sqlite_turn **ret_turn)
{
    *ret_turn = NULL;
    return pass_writer(g, ret_turn);
}

/* ---- readers ------------------------------------------------------------ */

/* *ret_conn NULL: the caller may open one more. */
static int reader_enter(struct sqlite_gate *g, struct sqlite_conn **ret_conn)
{
    uint64_t until_ms = clock_mono_ms() + WAIT_MS;
    int r = 0;

    mutex_lock(&g->lock);
    while (!g->idle_count && g->readers == STORE_SQLITE_READERS && r == 0)
        r = cond_wait_until(&g->reader_freed, &g->lock, until_ms) ? 0
                                                                  : -ETIMEDOUT;
    if (r == 0 && g->idle_count) {
        *ret_conn = g->idle[--g->idle_count];
    } else if (r == 0) {
        g->readers++;
        *ret_conn = NULL;
    }
    mutex_unlock(&g->lock);
    return r;
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

int store_sqlite_gate_enter(struct sqlite_store *s, enum store_mode mode,
                            const char *what, struct sqlite_conn **ret_conn,
                            struct error *err)
{
    struct sqlite_conn *conn = s->writer;
    int r = mode == STORE_WRITE ? writer_enter(&s->gate, NULL)
                                : reader_enter(&s->gate, &conn);
    int code;

    if (r < 0)
        return refuse_entry(r, what, err);
    if (!conn) {
        code = store_sqlite_conn_open(s->path, STORE_READ, &conn);
        if (code != SQLITE_OK) {
            (void)store_sqlite_fail(s, conn, code, what, err);
            store_sqlite_gate_leave(s, mode, conn, true);
            return -(int)err->code;
        }
    }
    *ret_conn = conn;
    return 0;
}

int store_sqlite_gate_offer(struct sqlite_store *s, struct sqlite_job *job)
{
    int r = writer_enter(&s->gate, job);

    return r < 0 ? refuse_entry(r, job->what, job->err) : r;
}

void store_sqlite_gate_leave(struct sqlite_store *s, enum store_mode mode,
                             struct sqlite_conn *conn, bool broken)
{
    struct sqlite_gate *g = &s->gate;

    if (mode == STORE_WRITE) {
        (void)pass_writer(g, NULL); /* no thread waited */
        return;
    }
    if (broken)
        store_sqlite_conn_close(conn);
    mutex_lock(&g->lock);
    if (broken)
        g->readers--;
    else
        g->idle[g->idle_count++] = conn;
    cond_signal(&g->reader_freed);
    mutex_unlock(&g->lock);
}
