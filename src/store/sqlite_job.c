/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction that is given as a function; see sqlite_int.h. Runs in the
 * daemon on the thread that wants it, or on the one that has the writing
 * connection when it is its turn.
 */
#include "base/error.h"
#include "base/mem.h"
#include "store/sqlite_int.h"

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
