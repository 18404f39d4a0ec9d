/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions that become durable together; see sqlite_int.h. Runs in the
 * daemon on the threads that write. While others wait for the writing
 * connection, a transaction that is done is not synced by itself: it stays in
 * an open transaction of the engine, which the next one goes on with, behind a
 * savepoint to go back to. The last, or the one that finds the group old or
 * large enough, commits for all with one sync. Nobody's commit returns before
 * that.
 *
 * The group belongs to whoever has the writing connection and is handed on
 * with it, so that it needs no lock of its own; only its end is waited for.
 * Who waits with a job need not even be handed it: the one that has it does
 * the job as well, with everything at hand, and no thread is woken for it.
 */
#include <limits.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/mem.h"
#include "store/sqlite_int.h"

#define GROUP_MOST 64u
#define GROUP_NS                                                              \
    5000000ull /* the first one waits no longer to be handed on               \
                */

#define AWAIT_NS 100000u /* the next member */
#define PROBE_EACH 8u

struct sqlite_group {
    unsigned members;                     /* transactions in it, done */
    struct sqlite_turn *jobs, **last_job; /* done here for those who wait */
    uint64_t begun_ns;
    int code;            /* how it ended, once it is done */
    struct error barred; /* likewise */
    atomic_uint refs;
    atomic_uint done; /* waited for without a lock: all go on at once */
};

int store_sqlite_group_join(struct sqlite_store *s)
{
    int code;

    if (!s->group) {
        code = store_sqlite_conn_run(s->writer, "BEGIN IMMEDIATE");
        if (code != SQLITE_OK)
            return code;
        s->group = xcalloc(1, sizeof(*s->group));
        s->group->begun_ns = clock_mono_ns();
        s->group->last_job = &s->group->jobs;
        atomic_init(&s->group->refs, 1);
    }
    return s->group->members
               ? store_sqlite_conn_run(s->writer, "SAVEPOINT one")
               : SQLITE_OK;
}

static void unref(struct sqlite_group *g)
{
    if (atomic_fetch_sub(&g->refs, 1) == 1)
        free(g);
}

/* The first wakes the second, and so on: we have other things to do. */
static void tell(struct sqlite_store *s, struct sqlite_group *g)
{
    for (struct sqlite_turn *t = g->jobs; t; t = t->next)
        if (t->job->kept && g->code != SQLITE_OK)
            t->job->result = store_sqlite_not_kept(s, t->job->what, g->code,
                                                   &g->barred, t->job->err);
    store_sqlite_gate_tell(g->jobs);
    atomic_store(&g->done, 1);
    futex_wake(&g->done, INT_MAX);
}

/* What is to be durable with them, or before. */
static int call_before(struct sqlite_store *s, const char *what,
                       struct sqlite_group *g)
{
    struct sqlite_job job = {.what = what,
                             .fn = s->base.before_commit,
                             .ctx = s->base.before_commit_ctx,
                             .err = &g->barred};
    int code = job.fn ? store_sqlite_job_call(s, &job) : SQLITE_OK;

    return job.result < 0 ? STORE_SQLITE_BARRED : code;
}

/* Commits what is in it and tells everyone. cause: why the engine may have
 * taken all of it back already, or SQLITE_OK. */
static int end(struct sqlite_store *s, const char *what, int cause)
{
    struct sqlite_group *g = take_ptr(s->group);
    int code = SQLITE_OK;

    if (sqlite3_get_autocommit(s->writer->db))
        code = cause != SQLITE_OK ? cause : SQLITE_ABORT;
    else if (g->members)
        code = call_before(s, what, g);
    if (g->members && code == SQLITE_OK)
        code = store_sqlite_commit_now(s, what);
    store_sqlite_rollback_now(s, what);
    g->code = code;
    tell(s, g);
    unref(g);
    /* They need not wait for this. */
    if (code == SQLITE_OK)
        store_sqlite_fold(s);
    return code;
}

void store_sqlite_group_finish(struct sqlite_store *s, const char *what)
{
    if (s->group)
        (void)end(s, what, SQLITE_OK); /* its members are told */
}

/* Is it time for the next? Not when it has gone on for long enough. */
static bool goes_on(struct sqlite_store *s)
{
    return !sqlite3_get_autocommit(s->writer->db) &&
           s->group->members < GROUP_MOST &&
           clock_mono_ns() - s->group->begun_ns < GROUP_NS;
}

/* Nobody waits. A sync takes longer than it takes those whom the last one
 * released to come back, so the group may be worth keeping open for them: as
 * long as it has fewer members than it turned out to have before. Now and then
 * it is tried whether there is one more. */
static bool more_come(struct sqlite_store *s)
{
    unsigned members = s->group->members;

    if (!members) /* there is nothing to sync */
        return false;
    if (members >= s->expected) {
        s->complete++;
        if (members < 2 || s->complete < PROBE_EACH)
            return false;
        s->complete = 0;
    }
    if (store_sqlite_gate_await(&s->gate, AWAIT_NS)) {
        s->expected = members + 2;
        return true;
    }
    s->expected = members;
    return false;
}

/* Does the jobs that wait, then hands connection and group on. False: there
 * was nobody to hand them to, and both are still ours. *cause: see end. */
static bool hand_on(struct sqlite_store *s, int *cause)
{
    struct sqlite_turn *turn;

    while (goes_on(s)) {
        if (!store_sqlite_gate_pass(&s->gate, &turn)) {
            if (!more_come(s))
                return false;
            continue;
        }
        if (!turn)
            return true;
        *cause = store_sqlite_job_run(s, turn->job);
        *s->group->last_job = turn;
        s->group->last_job = &turn->next;
    }
    return false;
}

/* Hands it on or ends it, gives the connection away and waits for the end. */
static int see_out(struct sqlite_store *s, const char *what, int cause,
                   struct error *ret_why)
{
    struct sqlite_group *g = s->group;
    int code;

    atomic_fetch_add(&g->refs, 1);
    if (!hand_on(s, &cause)) {
        (void)end(s, what, cause); /* read below */
        store_sqlite_gate_leave(s, STORE_WRITE, s->writer, false);
    }
    while (!atomic_load(&g->done))
        (void)futex_wait(&g->done, 0, NULL); /* no time is set */
    code = g->code;
    if (code == STORE_SQLITE_BARRED)
        *ret_why = g->barred;
    unref(g);
    return code;
}

int store_sqlite_group_add(struct sqlite_store *s)
{
    int code = s->group->members
                   ? store_sqlite_conn_run(s->writer, "RELEASE one")
                   : SQLITE_OK;

    if (code == SQLITE_OK)
        s->group->members++;
    return code;
}

void store_sqlite_group_drop(struct sqlite_store *s)
{
    static const char *const alone[] = {"ROLLBACK", "BEGIN IMMEDIATE"};
    static const char *const beside[] = {"ROLLBACK TO one", "RELEASE one"};
    const char *const *steps = s->group->members ? beside : alone;

    if (sqlite3_get_autocommit(s->writer->db))
        return;
    /* What fails here shows in the commit of the others. */
    (void)store_sqlite_conn_run(s->writer, steps[0]);
    (void)store_sqlite_conn_run(s->writer, steps[1]);
}

int store_sqlite_group_keep(struct sqlite_store *s, const char *what,
                            struct error *ret_why)
{
    int code = store_sqlite_group_add(s);

    if (code == SQLITE_OK)
        return see_out(s, what, SQLITE_OK, ret_why);
    store_sqlite_group_undo(s, what, code);
    return code;
}

/* Whoever takes its own back may have read what others have not yet on disk,
 * and answer by it: it waits for them too. */
void store_sqlite_group_undo(struct sqlite_store *s, const char *what,
                             int cause)
{
    struct error theirs;

    if (!s->group) {
        store_sqlite_gate_leave(s, STORE_WRITE, s->writer, false);
        return;
    }
    store_sqlite_group_drop(s);
    (void)see_out(s, what, cause, &theirs); /* the others are told */
}
