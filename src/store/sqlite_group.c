/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions that become durable together; see sqlite_int.h. Runs in the
 * daemon on the threads that write. While others wait for the writing
 * connection, a transaction that is done is not synced by itself: it is a
 * savepoint in an open transaction of the engine, which the next one goes on
 * with. The last, or the one that finds the group old or large enough,
 * commits for all with one sync. Nobody's commit returns before that.
 *
 * The group belongs to whoever has the writing connection and is handed on
 * with it, so that it needs no lock of its own; only its end is waited for.
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

struct sqlite_group {
    unsigned members; /* transactions in it, done */
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
        atomic_init(&s->group->refs, 1);
    }
    return store_sqlite_conn_run(s->writer, "SAVEPOINT one");
}

static void unref(struct sqlite_group *g)
{
    if (atomic_fetch_sub(&g->refs, 1) == 1)
        free(g);
}

/* Commits what is in it and tells everyone. cause: why the engine may have
 * taken all of it back already, or SQLITE_OK. */
static int end(struct sqlite_store *s, const char *what, int cause)
{
    struct sqlite_group *g = take_ptr(s->group);
    int code = SQLITE_OK;

    if (sqlite3_get_autocommit(s->writer->db))
        code = cause != SQLITE_OK ? cause : SQLITE_ABORT;
    else if (g->members && s->base.before_commit &&
             s->base.before_commit(s->base.before_commit_ctx, &g->barred) < 0)
        code = STORE_SQLITE_BARRED;
    else if (g->members)
        code = store_sqlite_commit_now(s, what);
    store_sqlite_rollback_now(s, what);
    g->code = code;
    atomic_store(&g->done, 1);
    futex_wake(&g->done, INT_MAX);
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

/* Hands connection and group on to who waits. False: nobody does, or it has
 * gone on for long enough, and both are still ours. */
static bool hand_on(struct sqlite_store *s)
{
    return !sqlite3_get_autocommit(s->writer->db) &&
           s->group->members < GROUP_MOST &&
           clock_mono_ns() - s->group->begun_ns < GROUP_NS &&
           store_sqlite_gate_pass(&s->gate);
}

/* Hands it on or ends it, gives the connection away and waits for the end. */
static int see_out(struct sqlite_store *s, const char *what, int cause,
                   struct error *ret_why)
{
    struct sqlite_group *g = s->group;
    int code;

    atomic_fetch_add(&g->refs, 1);
    if (!hand_on(s)) {
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

int store_sqlite_group_keep(struct sqlite_store *s, const char *what,
                            struct error *ret_why)
{
    int code = store_sqlite_conn_run(s->writer, "RELEASE one");

    if (code != SQLITE_OK) {
        store_sqlite_group_undo(s, what, code);
        return code;
    }
    s->group->members++;
    return see_out(s, what, SQLITE_OK, ret_why);
}

/* Whoever takes its own back may have read what others have not yet on disk,
 * and answer by it: it waits for them too. */
void store_sqlite_group_undo(struct sqlite_store *s, const char *what,
                             int cause)
{
    struct error theirs;

    if (s->group && !sqlite3_get_autocommit(s->writer->db)) {
        /* What fails here shows in the commit of the others. */
        (void)store_sqlite_conn_run(s->writer, "ROLLBACK TO one");
        (void)store_sqlite_conn_run(s->writer, "RELEASE one");
    }
    if (s->group)
        (void)see_out(s, what, cause, &theirs); /* the others are told */
    else
        store_sqlite_gate_leave(s, STORE_WRITE, s->writer, false);
}
