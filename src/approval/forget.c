/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes what is no longer needed: the code of a held execution once it is
 * settled and carried out (the evidence has it, where that keeps code), all
 * that the client of an ephemeral session wrote with it, held executions whose
 * session is gone, and settled approvals after approval_keep_days. Runs in
 * gloveboxd, on the thread "approvals" and at the start.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval_int.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json.h"

#define PRUNE_EVERY_MS 3600000
#define DAY_MS 86400000ll
#define BATCH 50

/* A payload without its code and, of an ephemeral session, without the
 * client's other text. What stays says which execution it was. Owned by
 * caller; NULL if there is nothing to remove. */
static char *without_code(const char *payload)
{
    static const char *const texts[] = {"metadata", "conversation", "message"};
    json_t *object cleanup(json_unref) =
        json_loads(payload, JSON_ALLOW_NUL, NULL);
    bool changed = json_object_del(object, "code") == 0;
    char *text;

    changed |= json_object_del(object, "about") == 0;
    if (json_is_true(json_object_get(object, "ephemeral")))
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
            changed |= json_object_del(object, texts[i]) == 0;
    if (!changed)
        return NULL;
    text = json_dumps(object, JSON_COMPACT);
    return text ? text : xstrdup(""); /* no memory: rather none of it */
}

int approval_forget_code(struct approvals *a, struct store_tx *tx,
                         const char *id, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    char *text cleanup(mem_free) = NULL;
    int rc;

    if (a->set.forget_payload)
        return MIN(store_exec(tx, err,
                              "UPDATE approvals SET payload = '' WHERE id = "
                              "?1",
                              "t", id),
                   0);
    rc = store_one(tx, &row, err,
                   "SELECT payload FROM approvals WHERE id = ?1"
                   " AND " SQL_EXECUTION,
                   "t", id);
    if (rc <= 0)
        return rc;
    text = without_code(store_text(row, 0));
    if (!text)
        return 0;
    return MIN(store_exec(tx, err,
                          "UPDATE approvals SET payload = ?2 WHERE id = ?1",
                          "tt", id, text),
               0);
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
            return 0; /* another thread was first */
    } else {
        rc = MIN(store_exec(tx, err,
                            "UPDATE approvals SET run = ?3, outcome = ?2"
                            " WHERE id = ?1 AND " SQL_NOT_RUN,
                            "tti", info->id, APPROVAL_GONE,
                            (int64_t)APPROVAL_RUN_FAILED),
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
                         " FROM approvals WHERE id > ?1 AND " SQL_EXECUTION
                         " AND (" SQL_PENDING " OR (" SQL_APPROVED
                         " AND " SQL_NOT_RUN "))"
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
                        "DELETE FROM webhook_deliveries"
                        " WHERE " SQL_DELIVERY_OVER " AND done_at_ms < ?1",
                        "i", before),
             0);
    if (rc == 0)
        rc =
            MIN(store_exec(tx, err,
                           "DELETE FROM approvals WHERE " SQL_SETTLED
                           " AND decided_at_ms < ?1"
                           " AND (" SQL_NOT_EXECUTION " OR " SQL_RUN_ENDED ")",
                           "i", before),
                0);
    return rc;
}

/* The next executions whose payload may still have code. */
static int next_with_code(struct store_tx *tx, const char *after,
                          char ret[BATCH][ID_MAX], size_t *ret_count,
                          struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_query(tx, &rows, err,
                         "SELECT id FROM approvals WHERE id > ?1"
                         " AND " SQL_SETTLED " AND " SQL_EXECUTION
                         " AND " SQL_RUN_ENDED " AND payload LIKE '%\"code\"%'"
                         " ORDER BY id LIMIT ?2",
                         "ti", after, (int64_t)BATCH);

    *ret_count = 0;
    while (rc == 0 && *ret_count < BATCH && (rc = store_next(rows, err)) > 0) {
        store_copy(rows, 0, ret[(*ret_count)++], ID_MAX);
        rc = 0;
    }
    return rc;
}

/* Payloads that an earlier version, or other settings, left. */
static int prune_payloads(struct approvals *a, struct store_tx *tx,
                          struct error *err)
{
    char ids[BATCH][ID_MAX], after[ID_MAX] = "";
    size_t count = BATCH;
    int rc = 0;

    if (a->set.forget_payload)
        return MIN(store_exec(tx, err,
                              "UPDATE approvals SET payload = ''"
                              " WHERE " SQL_SETTLED " AND payload <> ''"
                              " AND (" SQL_NOT_EXECUTION " OR " SQL_RUN_ENDED
                              ")",
                              ""),
                   0);
    while (rc == 0 && count == BATCH) {
        rc = next_with_code(tx, after, ids, &count, err);
        for (size_t i = 0; rc == 0 && i < count; i++) {
            memcpy(after, ids[i], sizeof(after));
            rc = approval_forget_code(a, tx, ids[i], err);
        }
    }
    return rc;
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
