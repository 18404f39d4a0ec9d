/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions that become durable together; see sqlite_int.h. Runs in the
 * daemon on the threads that write. While others wait for the writing
 * connection, a transaction that is done is not synced by itself: it stays in
 * an open transaction of the engine, which the next one goes on with. The
 * last, or the one that finds the group old or large enough, commits for all
 * with one sync. Nobody's commit returns before that.
 *
 * One that is taken back leaves the others as they are. If all of them are
 * jobs, the whole is taken back and the others are done again: that is rare,
 * while a savepoint to go back to has every page copied that is changed after
 * it. Else there is a savepoint.
 *
 * The group belongs to whoever has the writing connection and is handed on
 * with it, so that it needs no lock of its own; only its end is waited for.
 * Who waits with a job need not even be handed it: the one that has it does
 * the job as well, with everything at hand, and no thread is woken for it. A
 * job is a transaction given as a function (store_write).
 */
#include <limits.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/sqlite_int.h"

/* ---- groups ------------------------------------------------------------- */

#define GROUP_MOST 64u
#define AWAIT_NS 100000u /* the next member */
#define PROBE_EACH 8u

struct sqlite_group {
    unsigned members;                     /* transactions in it, done */
    bool fixed;                           /* one of them was no job */
    struct sqlite_job *kept, **last_kept; /* those that were */
    struct sqlite_turn *jobs, **last_job; /* done here for those who wait */
    bool savepoint;       /* there is one before what joined last */
    bool spoiled;         /* what is left of it may not be committed */
    sqlite3_int64 before; /* rows ever changed, then */
    uint64_t begun_ns;
    int code;            /* how it ended, once it is done */
    struct error barred; /* likewise */
    atomic_uint refs;
    atomic_uint done; /* waited for without a lock: all go on at once */
};

/* A group, if there is none. An SQLite code. */
static int open_group(struct sqlite_store *s)
{
    int code;

    if (s->group)
        return SQLITE_OK;
    code = store_sqlite_conn_run(s->writer, "BEGIN IMMEDIATE");
    if (code != SQLITE_OK)
        return code;
    s->group = xcalloc(1, sizeof(*s->group));
    s->group->begun_ns = clock_mono_ns();
    s->group->last_job = &s->group->jobs;
    s->group->last_kept = &s->group->kept;
    atomic_init(&s->group->refs, 1);
    return SQLITE_OK;
}

int store_sqlite_group_join(struct sqlite_store *s,
                            const struct sqlite_job *job)
{
    int code = open_group(s);
    struct sqlite_group *g = s->group;

    if (code != SQLITE_OK)
        return code;
    g->savepoint = g->members && (g->fixed || !job);
    g->before = sqlite3_total_changes64(s->writer->db);
    return g->savepoint ? store_sqlite_conn_run(s->writer, "SAVEPOINT one")
                        : SQLITE_OK;
}

static void unref(struct sqlite_group *g)
{
    if (atomic_fetch_sub(&g->refs, 1) == 1)
        free(g);
}

/* The first wakes the second, and so on: we have other things to do. */
static void wake_members(struct sqlite_store *s, struct sqlite_group *g)
{
    for (struct sqlite_turn *t = g->jobs; t; t = t->next)
        if (t->job->kept && g->code != SQLITE_OK)
            t->job->result = store_sqlite_not_kept(s, t->job->what, g->code,
                                                   &g->barred, t->job->err);
    store_sqlite_gate_tell(g->jobs);
    atomic_store(&g->done, 1);
    futex_wake(&g->done, INT_MAX);
}

/* An SQLite code. */
static int call_before(struct sqlite_store *s, const char *what,
                       const struct store_hook *hook, struct sqlite_group *g)
{
    struct sqlite_job job = {
        .what = what, .fn = hook->before, .ctx = hook->ctx, .err = &g->barred};
    int code = job.fn ? store_sqlite_job_call(s, &job) : SQLITE_OK;

    return job.result < 0 ? STORE_SQLITE_BARRED : code;
}

/* Commits, between the hooks. The lock is held across the sync; only another
 * thread that adds or removes a hook ever waits for it. An SQLite code. */
static int commit(struct sqlite_store *s, const char *what,
                  struct sqlite_group *g)
{
    struct store_hook *hook, *end;
    int code = SQLITE_OK;

    mutex_lock(&s->base.hooks_lock);
    for (hook = s->base.hooks; hook && code == SQLITE_OK; hook = hook->next)
        code = call_before(s, what, hook, g);
    end = hook; /* `before` of this one, and of those behind it, did not run */
    if (code == SQLITE_OK)
        code = store_sqlite_commit_now(s, what);
    for (hook = s->base.hooks; hook != end; hook = hook->next)
        if (hook->after)
            hook->after(hook->ctx, code == SQLITE_OK);
    mutex_unlock(&s->base.hooks_lock);
    return code;
}

/* Commits what is in it and tells everyone. cause: why the engine may have
 * taken all of it back already, or SQLITE_OK. */
static int end_group(struct sqlite_store *s, const char *what, int cause)
{
    struct sqlite_group *g = take_ptr(s->group);
    int code = SQLITE_OK;

    if (g->spoiled || sqlite3_get_autocommit(s->writer->db))
        code = cause != SQLITE_OK ? cause : SQLITE_ABORT;
    else if (g->members)
        code = commit(s, what, g);
    store_sqlite_rollback_now(s, what);
    g->code = code;
    wake_members(s, g);
    unref(g);
    /* They need not wait for this. */
    if (code == SQLITE_OK)
        store_sqlite_fold(s);
    return code;
}

void store_sqlite_group_finish(struct sqlite_store *s, const char *what)
{
    if (s->group)
        (void)end_group(s, what, SQLITE_OK); /* wakes its members */
}

/* Is it time for the next? Not when it has gone on for long enough. */
static bool goes_on(struct sqlite_store *s)
{
    return !s->group->spoiled && !sqlite3_get_autocommit(s->writer->db) &&
           s->group->members < GROUP_MOST &&
           clock_mono_ns() - s->group->begun_ns < s->group_ns;
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

int store_sqlite_group_see_out(struct sqlite_store *s, const char *what,
                               int cause, struct error *ret_why)
{
    struct sqlite_group *g = s->group;
    int code;

    atomic_fetch_add(&g->refs, 1);
    if (!hand_on(s, &cause)) {
        (void)end_group(s, what, cause); /* read below */
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

/* ---- keeping and taking back --------------------------------------------
 */

int store_sqlite_group_add(struct sqlite_store *s, struct sqlite_job *job)
{
    struct sqlite_group *g = s->group;
    int code = g->savepoint ? store_sqlite_conn_run(s->writer, "RELEASE one")
                            : SQLITE_OK;

    if (code != SQLITE_OK)
        return code;
    g->members++;
    if (job) {
        job->kept = true;
        *g->last_kept = job;
        g->last_kept = &job->later;
    } else {
        g->fixed = true;
    }
    return SQLITE_OK;
}

static int start_over(struct sqlite_store *s)
{
    int code = store_sqlite_conn_run(s->writer, "ROLLBACK");

    return code == SQLITE_OK
               ? store_sqlite_conn_run(s->writer, "BEGIN IMMEDIATE")
               : code;
}

/* Does again all that was kept. False: one of them failed this time, having
 * changed something, and is not among them any more. */
static bool do_again(struct sqlite_store *s, int *ret_code)
{
    struct sqlite_group *g = s->group;
    struct sqlite_job *job = g->kept;

    g->members = 0;
    g->last_kept = &g->kept;
    *ret_code = start_over(s);
    while (job && *ret_code == SQLITE_OK) {
        struct sqlite_job *next = job->later;
        sqlite3_int64 before = sqlite3_total_changes64(s->writer->db);

        job->later = NULL;
        job->kept = false;
        *ret_code = store_sqlite_job_try(s, job);
        if (!sqlite3_get_autocommit(s->writer->db))
            *ret_code = SQLITE_OK; /* it failed alone, if it did */
        if (!job->kept && *ret_code == SQLITE_OK &&
            sqlite3_total_changes64(s->writer->db) != before) {
            *g->last_kept = next;
            return false;
        }
        job = next;
    }
    *g->last_kept = job; /* these hear of the failure like the others */
    g->spoiled = *ret_code != SQLITE_OK;
    return true;
}

int store_sqlite_group_drop(struct sqlite_store *s,
                            const struct sqlite_job *job)
{
    struct sqlite_group *g = s->group;
    int code = SQLITE_OK;

    if (!g || sqlite3_get_autocommit(s->writer->db))
        return SQLITE_OK;
    /* What fails here shows in the commit of the others. */
    if (g->savepoint) {
        (void)store_sqlite_conn_run(s->writer, "ROLLBACK TO one");
        (void)store_sqlite_conn_run(s->writer, "RELEASE one");
    } else if (!job || !g->members) {
        (void)start_over(s);
    } else if (sqlite3_total_changes64(s->writer->db) != g->before) {
        while (!do_again(s, &code))
            continue;
    }
    return code;
}

int store_sqlite_group_keep(struct sqlite_store *s, const char *what,
                            struct error *ret_why)
{
    int code = store_sqlite_group_add(s, NULL);

    if (code == SQLITE_OK)
        return store_sqlite_group_see_out(s, what, SQLITE_OK, ret_why);
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
    (void)store_sqlite_group_drop(s, NULL);
    /* The others are told. */
    (void)store_sqlite_group_see_out(s, what, cause, &theirs);
}

/* ---- jobs --------------------------------------------------------------- */

/* On our own thread, with the connection, which is given away. */
static int run_here(struct sqlite_store *s, struct sqlite_job *job)
{
    int code = store_sqlite_job_run(s, job);
    struct error why;

    if (!s->group) {
        store_sqlite_gate_leave(s, STORE_WRITE, s->writer, false);
        return job->result;
    }
    /* Also if it is not kept: it may have read, and answer by, what others
     * have not on disk yet. */
    code = store_sqlite_group_see_out(s, job->what, code, &why);
    if (job->kept && code != SQLITE_OK)
        job->result =
            store_sqlite_not_kept(s, job->what, code, &why, job->err);
    return job->result;
}

int store_sqlite_write(struct store *base, const char *what,
                       store_write_fn *fn, void *ctx, struct error *err)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    struct sqlite_job job = {.what = what, .fn = fn, .ctx = ctx, .err = err};
    int r = store_sqlite_gate_offer(s, &job);

    if (r == 0)
        return run_here(s, &job);
    return r < 0 ? r : job.result;
}

int store_sqlite_job_call(struct sqlite_store *s, struct sqlite_job *job)
{
    struct sqlite_tx tx = {.base.ops = &store_sqlite_ops,
                           .store = s,
                           .conn = s->writer,
                           .mode = STORE_WRITE,
                           .what = job->what};

    job->result = job->fn(&tx.base, job->ctx, job->err);
    store_sqlite_rows_detach(&tx);
    if (tx.failed == SQLITE_OK && sqlite3_get_autocommit(s->writer->db))
        return SQLITE_ABORT; /* the engine rolled back without a word */
    return tx.failed;
}

int store_sqlite_job_try(struct sqlite_store *s, struct sqlite_job *job)
{
    int code = store_sqlite_job_call(s, job);

    if (code == SQLITE_OK && job->result == 0)
        code = store_sqlite_group_add(s, job);
    if (code != SQLITE_OK && job->result >= 0)
        job->result =
            store_sqlite_not_kept(s, job->what, code, NULL, job->err);
    job->result = MIN(job->result, 0);
    return code;
}

int store_sqlite_job_run(struct sqlite_store *s, struct sqlite_job *job)
{
    int code, dropped;

    if (s->broken) {
        job->result = store_sqlite_refuse(job->what, job->err);
        return SQLITE_OK;
    }
    code = store_sqlite_group_join(s, job);
    if (code == SQLITE_OK)
        code = store_sqlite_job_try(s, job);
    else
        job->result =
            store_sqlite_not_kept(s, job->what, code, NULL, job->err);
    if (job->kept)
        return SQLITE_OK;
    dropped = store_sqlite_group_drop(s, job);
    return code != SQLITE_OK ? code : dropped;
}
