/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_write on PostgreSQL; see postgres_int.h. Runs in the daemon on the
 * threads that write. The thread that has the connection also runs the
 * functions of threads that wait for it, in one transaction, and commits for
 * all: one sync of the server, and one turn among the daemons that share the
 * database. From the second function on each has a savepoint, so that undoing
 * one leaves the others. No call returns before the commit: a function that
 * was undone may have read what the others wrote.
 *
 * When the transaction is lost (a concurrent one won, or the connection went
 * before the commit), all functions run again.
 */
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/postgres_int.h"

#define GROUP_MOST 64u
#define LOST_WAIT_MS 5 /* before the second try; doubled for each further */

struct group {
    struct postgres_store *store;
    struct postgres_conn *conn;
    struct postgres_job *jobs, **last;
    unsigned members; /* whose changes are kept */
};

enum group_end {
    GROUP_ENDED,
    GROUP_LOST,
};

/* Runs one function. GROUP_LOST: nothing of the transaction is left. */
static enum group_end run_job(struct group *g, struct postgres_job *job)
{
    struct postgres_tx tx = {.base.engine = &store_postgres,
                             .store = g->store,
                             .conn = g->conn,
                             .mode = STORE_WRITE,
                             .what = job->what,
                             .savepoint = g->members > 0};
    bool touched;

    job->result = job->fn(&tx.base, job->ctx, job->err);
    store_postgres_rows_detach(&tx);
    g->conn = tx.conn;
    if (store_postgres_lost(&tx.failed)) {
        if (job->result >= 0)
            job->result = store_postgres_fail(job->what, &tx.failed, job->err);
        return GROUP_LOST;
    }
    if (job->result >= 0 && tx.failed.state[0])
        job->result = store_postgres_fail(job->what, &tx.failed, job->err);
    touched = g->members && !tx.savepoint; /* the savepoint was set */
    if (job->result == 0) {
        if (touched)
            store_postgres_conn_queue(g->conn, "RELEASE SAVEPOINT j");
        g->members++;
        return GROUP_ENDED;
    }
    if (touched) {
        store_postgres_conn_queue(g->conn, "ROLLBACK TO SAVEPOINT j");
        store_postgres_conn_queue(g->conn, "RELEASE SAVEPOINT j");
    } else if (!g->members) {
        store_postgres_rollback_now(g->conn);
    }
    job->undone = true;
    job->result = MIN(job->result, 0);
    return GROUP_ENDED;
}

/* The error of the commit, for every function whose changes it had. */
static void report_failure(struct group *g, int r, const struct error *err)
{
    for (struct postgres_job *job = g->jobs; job; job = job->next)
        if (!job->undone) {
            job->result = r;
            *job->err = *err;
        }
}

static enum group_end commit_group(struct group *g)
{
    struct postgres_tx tx = {.base.engine = &store_postgres,
                             .store = g->store,
                             .conn = g->conn,
                             .mode = STORE_WRITE,
                             .what = g->jobs->what};
    struct postgres_failure failure;
    struct error err = {0};
    int r;

    if (!g->members)
        return GROUP_ENDED;
    r = store_postgres_commit_now(&tx, &failure, &err);
    g->conn = tx.conn;
    if (r == 0)
        return GROUP_ENDED;
    report_failure(g, r, &err);
    /* A commit that may have happened is not made again. */
    return store_postgres_lost(&failure) &&
                   (!failure.gone || tx.failed.state[0])
               ? GROUP_LOST
               : GROUP_ENDED;
}

static enum group_end try_group(struct group *g)
{
    unsigned count = 0;
    struct error err = {0};
    int r = store_postgres_gate_connect(g->store, STORE_WRITE, g->jobs->what,
                                        &g->conn, &err);

    g->members = 0;
    for (struct postgres_job *job = g->jobs; job; job = job->next)
        job->undone = false;
    if (r < 0) {
        report_failure(g, r, &err);
        return GROUP_LOST;
    }
    for (struct postgres_job *job = g->jobs; job; job = job->next) {
        if (run_job(g, job) == GROUP_LOST) {
            /* All of them, those that have not run included. */
            for (struct postgres_job *j = g->jobs; j; j = j->next)
                if (j != job) {
                    j->result = job->result;
                    *j->err = *job->err;
                }
            return GROUP_LOST;
        }
        if (!job->next && ++count < GROUP_MOST) {
            *g->last = store_postgres_gate_next(g->store);
            if (*g->last)
                g->last = &(*g->last)->next;
        }
    }
    return commit_group(g);
}

int store_postgres_write(struct store *base, const char *what,
                         store_write_fn *fn, void *ctx, struct error *err)
{
    struct postgres_store *s = (struct postgres_store *)base;
    struct postgres_job own = {.what = what, .fn = fn, .ctx = ctx, .err = err};
    struct group g = {.store = s, .jobs = &own, .last = &own.next};
    struct timespec wait = {.tv_nsec = LOST_WAIT_MS * 1000000l};
    int r = store_postgres_gate_offer(s, &own);

    if (r < 0)
        return r;
    if (r > 0)
        return own.result;
    g.conn = s->writer;
    for (unsigned tries = 1;
         try_group(&g) == GROUP_LOST && tries < STORE_LOST_TRIES; tries++) {
        store_postgres_rollback_now(g.conn);
        (void)nanosleep(&wait, NULL); /* a shorter sleep does no harm */
        wait.tv_nsec *= 2;
    }
    store_postgres_rollback_now(g.conn);
    for (struct postgres_job *job = own.next; job;) {
        struct postgres_job *next = job->next;

        store_postgres_gate_wake(s, job); /* its memory is its thread's */
        job = next;
    }
    store_postgres_gate_leave(s, STORE_WRITE, g.conn);
    return own.result;
}
