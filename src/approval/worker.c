/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The approvals' worker thread: expires approvals, carries out approved
 * executions, deletes old rows (forget.c). Runs in gloveboxd; never waits for
 * a webhook or for an execution.
 *
 * Carrying out happens at most once: TAKEN is on disk before the call.
 *
 *   NONE  → TAKEN          [carry_out]
 *   TAKEN → DONE, FAILED   [approval_ran]
 *   TAKEN → NONE           [approval_ran, carry_out: nothing has run]
 *   TAKEN → LOST           [approval_worker_lost: the service ended, or the
 *                           node that had begun it]
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval_int.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#define BATCH 50
#define IDLE_MS 60000

/* ---- reading ------------------------------------------------------------ */

static void list_done(struct approval_info *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        approval_info_done(&list[i]);
}

/* Up to BATCH rows of a statement that takes the time as ?1. */
static int read_due(struct approvals *a, const char *sql, bool payload,
                    struct approval_info *ret, size_t *ret_count,
                    struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc =
        store_begin(a->store, STORE_READ, "looking for approvals", &tx, err);

    *ret_count = 0;
    if (rc == 0)
        rc = store_query(tx, &rows, err, sql, "ii", approval_now(a),
                         (int64_t)BATCH);
    while (rc == 0 && *ret_count < BATCH && (rc = store_next(rows, err)) > 0) {
        approval_rows_read(a, rows, payload, &ret[(*ret_count)++]);
        rc = 0;
    }
    return rc;
}

/* ---- expiry ------------------------------------------------------------- */

static int expire_one(struct approvals *a, struct approval_info *info,
                      struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc =
        store_begin(a->store, STORE_WRITE, "expiring an approval", &tx, err);

    info->state = APPROVAL_EXPIRED;
    info->decided_at_ms = info->expires_at_ms;
    if (rc == 0)
        rc = approval_rows_settle(a, tx, NULL, info, err);
    if (rc == -ERR_CONFLICT)
        return 0; /* another thread was first */
    return rc < 0 ? rc : store_commit(&tx, err);
}

static int expire_due(struct approvals *a, size_t *ret_count,
                      struct error *err)
{
    struct approval_info list[BATCH];
    int rc = read_due(a,
                      "SELECT " APPROVAL_COLUMNS
                      " FROM approvals WHERE " SQL_PENDING
                      " AND expires_at_ms <= ?1"
                      " ORDER BY expires_at_ms LIMIT ?2",
                      false, list, ret_count, err);

    for (size_t i = 0; rc == 0 && i < *ret_count; i++)
        rc = expire_one(a, &list[i], err);
    if (*ret_count)
        worker_wake(&a->poster);
    return rc;
}

/* ---- carrying out ------------------------------------------------------- */

/* From one run to another, or not at all: 1, 0 or -code. */
static int change_run(struct approvals *a, const struct approval_info *info,
                      enum approval_run from, enum approval_run to,
                      int64_t try_at_ms, const char *outcome, const char *note,
                      struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int moved = 0;
    int rc = store_begin(a->store, STORE_WRITE, "carrying out an approval",
                         &tx, err);

    if (rc == 0)
        moved = rc = store_exec(
            tx, err,
            "UPDATE approvals SET run = ?3, try_at_ms = ?4, outcome = ?5"
            " WHERE id = ?1 AND run = ?2 AND " SQL_SETTLED,
            "tiiit", info->id, (int64_t)from, (int64_t)to, try_at_ms, outcome);
    if (rc > 0 && to >= APPROVAL_RUN_DONE)
        rc = approval_forget_code(a, tx, info->id, err);
    if (rc >= 0 && moved > 0 && note)
        rc = approval_note(a, tx, NULL, note, info,
                           outcome[0] ? outcome : NULL, err);
    if (rc >= 0)
        rc = store_commit(&tx, err);
    return rc < 0 ? rc : moved;
}

static void carry_out(struct approvals *a, const struct approval_info *info,
                      approvals_fn *fn, void *ctx)
{
    bool yes = info->state == APPROVAL_APPROVED;
    struct error err;
    int rc =
        change_run(a, info, APPROVAL_RUN_NONE, APPROVAL_RUN_TAKEN,
                   approval_now(a), "", yes ? "approval.run" : NULL, &err);

    if (rc > 0 && fn(ctx, info) < 0) /* nothing has run */
        rc = change_run(a, info, APPROVAL_RUN_TAKEN, APPROVAL_RUN_NONE,
                        approval_now(a) + APPROVAL_TRY_EVERY_MS, "", NULL,
                        &err);
    if (rc < 0)
        log_event(LOG_WARN, "approval_not_carried_out", "approval", info->id,
                  "error", err.message, NULL);
}

static int carry_all(struct approvals *a, size_t *ret_count, struct error *err)
{
    struct approval_info list[BATCH];
    approvals_mine_fn *mine;
    approvals_fn *fn;
    void *ctx;
    int rc;

    mutex_lock(&a->lock);
    fn = a->fn;
    mine = a->mine;
    ctx = a->ctx;
    mutex_unlock(&a->lock);
    *ret_count = 0;
    if (!fn)
        return 0;
    rc = read_due(a,
                  "SELECT " APPROVAL_COLUMNS
                  " FROM approvals WHERE " SQL_SETTLED " AND " SQL_RUN_OPEN
                  " AND " SQL_EXECUTION " AND " SQL_NOT_RUN
                  " AND try_at_ms <= ?1"
                  " ORDER BY try_at_ms, decided_at_ms LIMIT ?2",
                  true, list, ret_count, err);
    for (size_t i = 0; rc == 0 && i < *ret_count && !a->worker.stopping; i++)
        if (!mine || mine(ctx, &list[i]))
            carry_out(a, &list[i], fn, ctx);
    list_done(list, *ret_count);
    return rc;
}

void approval_ran(struct approvals *a, const char *id, int rc,
                  const char *outcome)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    bool again = rc == -ERR_BUSY || rc == -ERR_LIMIT || rc == -ERR_UNAVAILABLE;
    struct error err;
    int r = store_begin(a->store, STORE_READ, "an approval's end", &tx, &err);

    if (r == 0)
        r = store_one(tx, &rows, &err,
                      "SELECT " APPROVAL_COLUMNS
                      " FROM approvals WHERE id = ?1",
                      "t", id);
    if (r > 0) {
        approval_rows_read(a, rows, false, &info);
        store_rows_done(&rows);
        store_rollback(&tx);
        if (rc < 0 && again &&
            approval_now(a) < info.decided_at_ms + APPROVAL_TRY_FOR_MS)
            r = change_run(a, &info, APPROVAL_RUN_TAKEN, APPROVAL_RUN_NONE,
                           approval_now(a) + APPROVAL_TRY_EVERY_MS, outcome,
                           NULL, &err);
        else
            r = change_run(a, &info, APPROVAL_RUN_TAKEN,
                           rc < 0 ? APPROVAL_RUN_FAILED : APPROVAL_RUN_DONE, 0,
                           outcome, rc < 0 ? "approval.failed" : NULL, &err);
    }
    if (r < 0) /* then it looks lost at the next start, which is safe */
        log_event(LOG_WARN, "approval_end_not_kept", "approval", id, "error",
                  err.message, NULL);
    worker_wake(&a->worker);
}

/* Of a store that one service has, everything that was taken; of a store that
 * nodes share, what no node has under way (node_executions). */
int approval_worker_lost(struct approvals *a, bool shared, struct error *err)
{
    static const char alone[] =
        "SELECT " APPROVAL_COLUMNS " FROM approvals WHERE " SQL_SETTLED
        " AND " SQL_RUN_OPEN " AND " SQL_EXECUTION " AND " SQL_RUNNING
        " AND ?1 >= 0 AND NOT EXISTS (SELECT 1 FROM nodes"
        " WHERE nodes.state <> 'gone')"
        " LIMIT ?2";
    static const char several[] =
        "SELECT " APPROVAL_COLUMNS " FROM approvals WHERE " SQL_SETTLED
        " AND " SQL_RUN_OPEN " AND " SQL_EXECUTION " AND " SQL_RUNNING
        " AND try_at_ms < ?1 - 120000 AND EXISTS (SELECT 1 FROM nodes"
        " WHERE nodes.state <> 'gone') AND NOT EXISTS (SELECT 1"
        " FROM node_executions e WHERE e.execution = approvals.object)"
        " LIMIT ?2";
    const char *sql = shared ? several : alone;
    struct approval_info list[BATCH];
    size_t count = BATCH;
    int rc = 0;

    while (rc == 0 && count == BATCH) {
        rc = read_due(a, sql, false, list, &count, err);
        for (size_t i = 0; rc >= 0 && i < count; i++) {
            bool yes = list[i].state == APPROVAL_APPROVED;

            /* Of a no only the record may be missing, which can be made
             * again; what may have run is not begun a second time. */
            rc = change_run(
                a, &list[i], APPROVAL_RUN_TAKEN,
                yes ? APPROVAL_RUN_LOST : APPROVAL_RUN_NONE, 0,
                yes ? "the service ended before its end was known; it "
                      "is not run a second time"
                    : "",
                yes ? "approval.lost" : NULL, err);
            if (rc > 0 && yes)
                log_event(LOG_WARN, "approved_execution_lost", "approval",
                          list[i].id, "execution", list[i].object, NULL);
        }
        rc = MIN(rc, 0);
    }
    return rc;
}

/* ---- the thread --------------------------------------------------------- */

static int next_due(struct approvals *a, int64_t *ret_wait_ms,
                    struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t now = approval_now(a);
    int rc =
        store_begin(a->store, STORE_READ, "looking for approvals", &tx, err);

    if (rc == 0)
        rc = store_one(tx, &rows, err,
                       "SELECT MIN(at) FROM ("
                       "SELECT MIN(expires_at_ms) AS at FROM approvals"
                       " WHERE " SQL_PENDING " UNION ALL"
                       " SELECT MIN(try_at_ms) FROM approvals"
                       " WHERE " SQL_SETTLED " AND " SQL_RUN_OPEN
                       " AND " SQL_EXECUTION " AND " SQL_NOT_RUN
                       " AND try_at_ms > ?1) AS due",
                       "i", now);
    if (rc > 0 && store_int(rows, 0) > 0)
        *ret_wait_ms = MIN(*ret_wait_ms, MAX(store_int(rows, 0) - now, 1));
    return MIN(rc, 0);
}

int64_t approvals_work(struct approvals *a)
{
    size_t expired = 0, carried = 0;
    int64_t wait_ms = IDLE_MS;
    struct error err;
    int rc = expire_due(a, &expired, &err);

    if (rc == 0)
        rc = carry_all(a, &carried, &err);
    if (rc == 0)
        rc = approval_worker_lost(a, true, &err);
    if (rc == 0)
        rc = approval_prune(a, &err);
    if (rc == 0 && (expired == BATCH || carried == BATCH))
        return 1; /* there may be more */
    if (rc == 0)
        rc = next_due(a, &wait_ms, &err);
    if (rc < 0) {
        log_event(LOG_WARN, "approvals_not_tended", "error", err.message,
                  NULL);
        return APPROVAL_TRY_EVERY_MS;
    }
    return wait_ms;
}

static void approval_worker_main(void *arg)
{
    struct approvals *a = arg;

    while (worker_wait(&a->worker, approvals_work(a)))
        ;
}

int approval_worker_start(struct approvals *a, struct error *err)
{
    return worker_start(&a->worker, "approvals", approval_worker_main, a, err);
}
