/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is no longer needed: the code of a held execution once it is settled
 * and carried out (it is in the evidence, where that keeps it), all that an
 * ephemeral session's client wrote with it, held executions whose session is
 * gone, and settled approvals after their time. Runs in gloveboxd, on the
 * thread of worker.c and at the start.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval_int.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

#define PRUNE_EVERY_MS 3600000
#define DAY_MS 86400000ll
#define BATCH 50

/* The rest says which execution it was, for who asks how it ended. */
#define WITHOUT_CODE                                                          \
    "CASE WHEN json_extract(payload, '$.ephemeral') THEN"                     \
    " json_remove(payload, '$.code', '$.metadata', '$.conversation',"         \
    " '$.message') ELSE json_remove(payload, '$.code') END"

int approval_forget_code(struct approvals *a, struct store_tx *tx,
                         const char *id, struct error *err)
{
    const char *sql = a->set.forget_payload
                          ? "UPDATE approvals SET payload = '' WHERE id = ?1"
                          : "UPDATE approvals SET payload = " WITHOUT_CODE
                            " WHERE id = ?1 AND action = 0"
                            " AND json_valid(payload)";

    return MIN(store_exec(tx, err, sql, "t", id), 0);
}

/* ---- sessions that are gone --------------------------------------------- */

static int end_gone(struct approvals *a, struct approval_info *info,
                    struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    bool pending = info->state == APPROVAL_PENDING;
    int rc =
        store_begin(a->store, STORE_WRITE, "ending an approval", &tx, err);

    if (rc < 0)
        return rc;
    if (pending) {
        info->state = APPROVAL_WITHDRAWN;
        info->run = APPROVAL_RUN_DONE;
        info->decided_at_ms = approval_now(a);
        (void)snprintf(info->reason, sizeof(info->reason), "%s",
                       APPROVAL_GONE);
        rc = approval_rows_settle(a, tx, NULL, info, err);
        if (rc == -ERR_CONFLICT)
            return 0; /* somebody was quicker */
    } else {
        rc = MIN(store_exec(tx, err,
                            "UPDATE approvals SET run = 3, outcome = ?2"
                            " WHERE id = ?1 AND run = 0",
                            "tt", info->id, APPROVAL_GONE),
                 0);
        if (rc == 0)
            rc = approval_note(a, tx, NULL, "approval.failed", info,
                               APPROVAL_GONE, err);
        if (rc == 0)
            rc = approval_forget_code(a, tx, info->id, err);
    }
    return rc < 0 ? rc : store_commit(&tx, err);
}

/* Up to BATCH after `after`, in order of their ids. */
static int next_held(struct approvals *a, const char *after,
                     struct approval_info *ret, size_t *ret_count,
                     struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc =
        store_begin(a->store, STORE_READ, "looking for approvals", &tx, err);

    *ret_count = 0;
    if (rc == 0)
        rc = store_query(tx, &rows, err,
                         "SELECT " APPROVAL_COLUMNS
                         " FROM approvals WHERE id > ?1 AND action = 0"
                         " AND (state = 0 OR (state = 1 AND run = 0))"
                         " ORDER BY id LIMIT ?2",
                         "ti", after, (int64_t)BATCH);
    while (rc == 0 && *ret_count < BATCH && (rc = store_next(rows, err)) > 0) {
        approval_rows_read(a, rows, false, &ret[(*ret_count)++]);
        rc = 0;
    }
    return rc;
}

int approvals_end_gone(struct approvals *a,
                       bool (*gone)(void *ctx,
                                    const struct approval_info *info),
                       void *ctx, struct error *err)
{
    struct approval_info list[BATCH];
    char after[ID_MAX] = "";
    size_t count = BATCH;
    int rc = 0;

    while (a && rc == 0 && count == BATCH) {
        rc = next_held(a, after, list, &count, err);
        for (size_t i = 0; rc == 0 && i < count; i++) {
            memcpy(after, list[i].id, sizeof(after));
            if (list[i].state != APPROVAL_EXPIRED && gone(ctx, &list[i]))
                rc = end_gone(a, &list[i], err);
        }
    }
    return rc;
}

/* ---- after their time --------------------------------------------------- */

static int prune_old(struct approvals *a, struct store_tx *tx,
                     struct error *err)
{
    int64_t before = approval_now(a) - a->set.keep_days * DAY_MS;
    int rc;

    if (!a->set.keep_days)
        return 0;
    rc = MIN(store_exec(tx, err,
                        "DELETE FROM webhook_deliveries WHERE state <> 0"
                        " AND done_at_ms < ?1",
                        "i", before),
             0);
    if (rc == 0)
        rc = MIN(store_exec(tx, err,
                            "DELETE FROM approvals WHERE state <> 0"
                            " AND decided_at_ms < ?1"
                            " AND (action <> 0 OR run >= 2)",
                            "i", before),
                 0);
    return rc;
}

/* What an earlier version, or other settings, left. */
static int prune_payloads(struct approvals *a, struct store_tx *tx,
                          struct error *err)
{
    const char *sql = a->set.forget_payload
                          ? "UPDATE approvals SET payload = ''"
                            " WHERE state <> 0 AND payload <> ''"
                            " AND (action <> 0 OR run >= 2)"
                          : "UPDATE approvals SET payload = " WITHOUT_CODE
                            " WHERE state <> 0 AND action = 0 AND run >= 2"
                            " AND json_valid(payload)"
                            " AND json_extract(payload, '$.code') IS NOT NULL";

    return MIN(store_exec(tx, err, sql, ""), 0);
}

int approval_prune(struct approvals *a, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t now = approval_now(a);
    int rc;

    if (now < a->prune_at_ms)
        return 0;
    a->prune_at_ms = now + PRUNE_EVERY_MS;
    rc = store_begin(a->store, STORE_WRITE, "forgetting approvals", &tx, err);
    if (rc == 0)
        rc = prune_old(a, tx, err);
    if (rc == 0)
        rc = prune_payloads(a, tx, err);
    return rc < 0 ? rc : store_commit(&tx, err);
}
