/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group commit: transactions that become durable with one sync; see
 * sqlite_int.h. Runs in the daemon on the threads that write. While other
 * threads wait for the writing connection, a finished transaction is not
 * synced. It stays in an open SQLite transaction, which the next thread
 * continues. The last thread, or the one that finds the group old or large
 * enough, commits for all with one sync. No commit returns before that.
 *
 * Rolling back one member leaves the others as they are. If all members are
 * jobs, the whole group is rolled back and the others run again. That is rare
 * and cheaper than a savepoint, for which SQLite copies every page that
 * changes after it. A group with a member that is no job uses a savepoint.
 *
 * The group belongs to the thread that has the writing connection and is
 * passed on with it, so it needs no lock; other threads only wait for its end.
 * A job is a transaction given as a function (store_write). The thread that
 * has the connection runs the jobs of waiting threads itself, so that none of
 * them has to be woken.
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
    unsigned members;                     /* transactions that are done */
    bool has_plain;                       /* one of them is no job */
    struct sqlite_job *kept, **last_kept; /* its jobs */
    struct sqlite_turn *jobs, **last_job; /* run here for waiting threads */
    bool savepoint;       /* one was set before the last member */
    bool failed;          /* the rest must not be committed */
    sqlite3_int64 before; /* total_changes before the last member */
    uint64_t begun_ns;
    int code;                /* SQLite code of its end, when done */
    struct error hook_error; /* error of the hook that failed */
    atomic_uint refs;
    atomic_uint done; /* futex: its members wait here */
};

/* Opens a group unless one is open. An SQLite code. */
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
    g->savepoint = g->members && (g->has_plain || !job);
    g->before = sqlite3_total_changes64(s->writer->db);
    return g->savepoint ? store_sqlite_conn_run(s->writer, "SAVEPOINT one")
                        : SQLITE_OK;
}

static void group_unref(struct sqlite_group *g)
{
    if (atomic_fetch_sub(&g->refs, 1) == 1)
        free(g);
}

static int call_hooks(struct store_tx *tx, void *ctx, struct error *err)
{
    return store_hooks_before(ctx, tx, err);
}

/* Commits, with the hooks around it. Their lock is held across the sync; only
 * a thread that adds or removes a hook waits for it. An SQLite code. */
static int commit_with_hooks(struct sqlite_store *s, const char *what,
                             struct sqlite_group *g)
{
    struct sqlite_job hooks = {.what = what,
                               .fn = call_hooks,
                               .ctx = &s->base,
                               .err = &g->hook_error};
    int code = store_sqlite_job_call(s, &hooks);

    if (hooks.result < 0)
        code = STORE_SQLITE_HOOK_FAILED;
    if (code == SQLITE_OK)
        code = store_sqlite_commit_now(s, what);
    store_hooks_after(&s->base, code == SQLITE_OK);
    return code;
}

/* Commits the group and reports the result to its members. cause: why SQLite
 * may have rolled it back already, or SQLITE_OK. */
static int end_group(struct sqlite_store *s, const char *what, int cause)
{
    struct sqlite_group *g = take_ptr(s->group);
    int code = SQLITE_OK;

    if (g->failed || sqlite3_get_autocommit(s->writer->db))
        code = cause != SQLITE_OK ? cause : SQLITE_ABORT;
    else if (g->members)
        code = commit_with_hooks(s, what, g);
    store_sqlite_rollback_now(s, what);
    g->code = code;

    /* Wake the first member, which wakes the next, and so on: this thread has
     * other work. */
    for (struct sqlite_turn *t = g->jobs; t; t = t->next)
        if (t->job->kept && g->code != SQLITE_OK)
            t->job->result = store_sqlite_commit_error(
                s, t->job->what, g->code, &g->hook_error, t->job->err);
    store_sqlite_gate_wake(g->jobs);
    atomic_store(&g->done, 1);
    futex_wake(&g->done, INT_MAX);

    group_unref(g);
    /* The members do not wait for this. */
    if (code == SQLITE_OK)
        store_sqlite_checkpoint(s);
    return code;
}

void store_sqlite_group_finish(struct sqlite_store *s, const char *what)
{
    if (s->group)
        (void)end_group(s, what, SQLITE_OK); /* wakes its members */
}

/* May another transaction join the group? */
static bool may_grow(struct sqlite_store *s)
{
    return !s->group->failed && !sqlite3_get_autocommit(s->writer->db) &&
           s->group->members < GROUP_MOST &&
           clock_mono_ns() - s->group->begun_ns < s->group_ns;
}

/* No thread waits. A sync takes longer than the threads released by the last
 * one need to come back, so waiting a moment for them pays: as long as the
 * group has fewer members than groups had before. Every few complete groups
 * this looks whether one more comes. */
static bool expect_another(struct sqlite_store *s)
{
    unsigned members = s->group->members;

    if (!members) /* nothing to sync */
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

/* Runs the jobs of waiting threads, then passes connection and group to the
 * first thread that waits without a job. False: there was none, and both are
 * still this thread's. *cause: as for end_group. */
static bool run_waiting_jobs(struct sqlite_store *s, int *cause)
{
    struct sqlite_turn *turn;

    while (may_grow(s)) {
        if (!store_sqlite_gate_next(&s->gate, &turn)) {
            if (!expect_another(s))
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

int store_sqlite_group_end_turn(struct sqlite_store *s, const char *what,
                                int cause, struct error *ret_why)
{
    struct sqlite_group *g = s->group;
    int code;

    atomic_fetch_add(&g->refs, 1);
    if (!run_waiting_jobs(s, &cause)) {
        (void)end_group(s, what, cause); /* read below */
        store_sqlite_gate_leave(s, STORE_WRITE, s->writer, false);
    }
    while (!atomic_load(&g->done))
        (void)futex_wait(&g->done, 0, NULL); /* no deadline */
    code = g->code;
    if (code == STORE_SQLITE_HOOK_FAILED)
        *ret_why = g->hook_error;
    group_unref(g);
    return code;
}

/* ---- one member: keep or roll back -------------------------------------- */

int store_sqlite_group_keep_last(struct sqlite_store *s,
                                 struct sqlite_job *job)
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
        g->has_plain = true;
    }
    return SQLITE_OK;
}

static int group_restart(struct sqlite_store *s)
{
    int code = store_sqlite_conn_run(s->writer, "ROLLBACK");

    return code == SQLITE_OK
               ? store_sqlite_conn_run(s->writer, "BEGIN IMMEDIATE")
               : code;
}

/* Runs all kept jobs again. False: one of them failed this time after it had
 * changed something; it is no longer among them. */
static bool repeat_kept(struct sqlite_store *s, int *ret_code)
{
    struct sqlite_group *g = s->group;
    struct sqlite_job *job = g->kept;

    g->members = 0;
    g->last_kept = &g->kept;
    *ret_code = group_restart(s);
    while (job && *ret_code == SQLITE_OK) {
        struct sqlite_job *next = job->later;
        sqlite3_int64 before = sqlite3_total_changes64(s->writer->db);

        job->later = NULL;
        job->kept = false;
        *ret_code = store_sqlite_job_try(s, job);
        if (!sqlite3_get_autocommit(s->writer->db))
            *ret_code = SQLITE_OK; /* if it failed, then alone */
        if (!job->kept && *ret_code == SQLITE_OK &&
            sqlite3_total_changes64(s->writer->db) != before) {
            *g->last_kept = next;
            return false;
        }
        job = next;
    }
    *g->last_kept = job; /* these get the error like the others */
    g->failed = *ret_code != SQLITE_OK;
    return true;
}

int store_sqlite_group_undo_last(struct sqlite_store *s,
                                 const struct sqlite_job *job)
{
    struct sqlite_group *g = s->group;
    int code = SQLITE_OK;

    if (!g || sqlite3_get_autocommit(s->writer->db))
        return SQLITE_OK;
    /* A failure here shows in the commit of the others. */
    if (g->savepoint) {
        (void)store_sqlite_conn_run(s->writer, "ROLLBACK TO one");
        (void)store_sqlite_conn_run(s->writer, "RELEASE one");
    } else if (!job || !g->members) {
        (void)group_restart(s);
    } else if (sqlite3_total_changes64(s->writer->db) != g->before) {
        while (!repeat_kept(s, &code))
            continue;
    }
    return code;
}

int store_sqlite_group_commit(struct sqlite_store *s, const char *what,
                              struct error *ret_why)
{
    int code = store_sqlite_group_keep_last(s, NULL);

    if (code == SQLITE_OK)
        return store_sqlite_group_end_turn(s, what, SQLITE_OK, ret_why);
    store_sqlite_group_rollback(s, what, code);
    return code;
}

/* A transaction that rolls back may have read, and report, what other members
 * have not synced yet. So it waits for the group too. */
void store_sqlite_group_rollback(struct sqlite_store *s, const char *what,
                                 int cause)
{
    struct error theirs;

    if (!s->group) {
        store_sqlite_gate_leave(s, STORE_WRITE, s->writer, false);
        return;
    }
    (void)store_sqlite_group_undo_last(s, NULL);
    /* Reported to the others. */
    (void)store_sqlite_group_end_turn(s, what, cause, &theirs);
}

/* ---- jobs --------------------------------------------------------------- */

/* Runs the job on this thread, which has the connection and gives it away. */
static int run_here(struct sqlite_store *s, struct sqlite_job *job)
{
    int code = store_sqlite_job_run(s, job);
    struct error why;

    if (!s->group) {
        store_sqlite_gate_leave(s, STORE_WRITE, s->writer, false);
        return job->result;
    }
    /* Also for a job that is not kept: it may have read, and report, what
     * other members have not synced yet. */
    code = store_sqlite_group_end_turn(s, job->what, code, &why);
    if (job->kept && code != SQLITE_OK)
        job->result =
            store_sqlite_commit_error(s, job->what, code, &why, job->err);
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
    struct sqlite_tx tx = {.base.engine = &store_sqlite,
                           .store = s,
                           .conn = s->writer,
                           .mode = STORE_WRITE,
                           .what = job->what};

    job->result = job->fn(&tx.base, job->ctx, job->err);
    store_sqlite_rows_detach(&tx);
    if (tx.failed == SQLITE_OK && sqlite3_get_autocommit(s->writer->db))
        return SQLITE_ABORT; /* SQLite rolled back silently */
    return tx.failed;
}

int store_sqlite_job_try(struct sqlite_store *s, struct sqlite_job *job)
{
    int code = store_sqlite_job_call(s, job);

    if (code == SQLITE_OK && job->result == 0)
        code = store_sqlite_group_keep_last(s, job);
    if (code != SQLITE_OK && job->result >= 0)
        job->result =
            store_sqlite_commit_error(s, job->what, code, NULL, job->err);
    job->result = MIN(job->result, 0);
    return code;
}

int store_sqlite_job_run(struct sqlite_store *s, struct sqlite_job *job)
{
    int code, dropped;

    if (s->broken) {
        job->result = store_sqlite_writing_stopped(job->what, job->err);
        return SQLITE_OK;
    }
    code = store_sqlite_group_join(s, job);
    if (code == SQLITE_OK)
        code = store_sqlite_job_try(s, job);
    else
        job->result =
            store_sqlite_commit_error(s, job->what, code, NULL, job->err);
    if (job->kept)
        return SQLITE_OK;
    dropped = store_sqlite_group_undo_last(s, job);
    return code != SQLITE_OK ? code : dropped;
}
