/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Approvals as rows. Runs in gloveboxd within the transaction of the caller.
 *
 *   PENDING  → APPROVED, DENIED  [approval_decide]
 *   PENDING  → EXPIRED           [approvals_work, or a late decision]
 *   PENDING  → WITHDRAWN         [approval_withdraw…]
 *
 * Nothing leads back, and every change goes through approval_rows_settle.
 */
#include <string.h>

#include "approval/approval_int.h"
#include "base/error.h"
#include "base/mem.h"

/* What SQL_PENDING and its neighbours in approval_int.h rely on. */
_Static_assert(POLICY_EXECUTE == 0 && POLICY_SEARCH == 10 &&
                   POLICY_REPORT == 11 && APPROVAL_PENDING == 0 &&
                   APPROVAL_APPROVED == 1 && APPROVAL_DENIED == 2 &&
                   APPROVAL_RUN_NONE == 0 && APPROVAL_RUN_TAKEN == 1 &&
                   APPROVAL_RUN_DONE == 2 &&
                   APPROVAL_RUN_FAILED > APPROVAL_RUN_DONE &&
                   APPROVAL_RUN_LOST > APPROVAL_RUN_DONE &&
                   DELIVERY_WAITING == 0,
               "numbers in SQL");

void approval_rows_read(const struct approvals *a, struct store_rows *rows,
                        bool payload, struct approval_info *ret)
{
    const char *text = payload ? store_text(rows, 19) : NULL;

    memset(ret, 0, sizeof(*ret));
    store_copy(rows, 0, ret->id, sizeof(ret->id));
    store_copy(rows, 1, ret->tenant, sizeof(ret->tenant));
    ret->action = (enum policy_action)store_int(rows, 2);
    ret->state = (enum approval_state)store_int(rows, 3);
    store_copy(rows, 4, ret->asked_by, sizeof(ret->asked_by));
    store_copy(rows, 5, ret->session, sizeof(ret->session));
    store_copy(rows, 6, ret->object, sizeof(ret->object));
    store_copy(rows, 7, ret->pool, sizeof(ret->pool));
    store_copy(rows, 8, ret->workspace, sizeof(ret->workspace));
    store_copy(rows, 9, ret->summary, sizeof(ret->summary));
    store_copy(rows, 10, ret->rule, sizeof(ret->rule));
    ret->policy_version = store_int(rows, 11);
    ret->asked_at_ms = store_int(rows, 12);
    ret->expires_at_ms = store_int(rows, 13);
    ret->decided_at_ms = store_int(rows, 14);
    store_copy(rows, 15, ret->decided_by, sizeof(ret->decided_by));
    store_copy(rows, 16, ret->reason, sizeof(ret->reason));
    ret->run = (enum approval_run)store_int(rows, 17);
    store_copy(rows, 18, ret->outcome, sizeof(ret->outcome));
    store_copy(rows, 20, ret->asked_by_name, sizeof(ret->asked_by_name));
    store_copy(rows, 21, ret->decided_by_name, sizeof(ret->decided_by_name));
    if (text && text[0])
        ret->payload = xstrdup(text);
    /* Its time is over, whether or not the thread has been here. */
    if (ret->state == APPROVAL_PENDING &&
        ret->expires_at_ms <= approval_now(a))
        ret->state = APPROVAL_EXPIRED;
}

int approval_rows_insert(struct approvals *a, struct store_tx *tx,
                         const struct actor *who,
                         const struct approval_info *info,
                         const char *fingerprint, struct error *err)
{
    int rc = MIN(
        store_exec(
            tx, err,
            "INSERT INTO approvals (id, tenant, action, state,"
            " asked_by, session, object, pool, workspace, summary,"
            " payload, fingerprint, rule, policy_version, asked_at_ms,"
            " expires_at_ms, asked_by_name) VALUES (?1, ?2, ?3, ?4, ?5, ?6,"
            " ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            "ttiittttt"
            "ttttiiit",
            info->id, info->tenant, (int64_t)info->action,
            (int64_t)APPROVAL_PENDING, info->asked_by, info->session,
            info->object, info->pool, info->workspace, info->summary,
            info->payload, fingerprint, info->rule, info->policy_version,
            info->asked_at_ms, info->expires_at_ms, info->asked_by_name),
        0);

    if (rc == 0)
        rc = approval_note(a, tx, who, "approval.ask", info, info->summary,
                           err);
    if (rc == 0)
        rc = approval_webhook_queue(a, tx, info, "asked", err);
    return rc;
}

int approval_rows_find(struct approvals *a, struct store_tx *tx,
                       const char *tenant, const char *id,
                       struct approval_info *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_one(tx, &rows, err,
                       "SELECT " APPROVAL_COLUMNS
                       " FROM approvals WHERE id = ?1 AND tenant = ?2",
                       "tt", id, tenant);

    if (rc > 0)
        approval_rows_read(a, rows, true, ret);
    return rc;
}

static const char *const acts[] = {
    [APPROVAL_PENDING] = "approval.ask",
    [APPROVAL_APPROVED] = "approval.approve",
    [APPROVAL_DENIED] = "approval.deny",
    [APPROVAL_EXPIRED] = "approval.expire",
    [APPROVAL_WITHDRAWN] = "approval.withdraw",
};

int approval_rows_settle(struct approvals *a, struct store_tx *tx,
                         const struct actor *who,
                         const struct approval_info *info, struct error *err)
{
    int rc = store_exec(
        tx, err,
        "UPDATE approvals SET state = ?2, decided_at_ms = ?3, decided_by = ?4,"
        " reason = ?5, expires_at_ms = ?6, run = ?7, outcome = ?8,"
        " decided_by_name = ?9"
        " WHERE id = ?1 AND " SQL_PENDING,
        "tiittiitt", info->id, (int64_t)info->state, info->decided_at_ms,
        info->decided_by, info->reason, info->expires_at_ms,
        (int64_t)info->run, info->outcome, info->decided_by_name);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return error_set(err, ERR_CONFLICT, "%s is settled", info->id);
    rc = info->run >= APPROVAL_RUN_DONE
             ? approval_forget_code(a, tx, info->id, err)
             : 0;
    if (rc < 0)
        return rc;
    rc = approval_note(a, tx, who, acts[info->state], info,
                       info->reason[0] ? info->reason : NULL, err);
    if (rc == 0)
        rc = approval_webhook_queue(a, tx, info,
                                    approval_state_name(info->state), err);
    if (rc == 0)
        rc = store_notify(tx, APPROVAL_CHANNEL, "", err);
    return rc;
}
