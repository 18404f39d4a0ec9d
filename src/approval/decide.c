/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers: yes, no, never mind. Runs in gloveboxd on the caller's thread, one
 * transaction each: of two answers at once the first counts and the other is
 * told so.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval_int.h"
#include "audit/audit.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"

/* ---- deciding ----------------------------------------------------------- */

static int check_reason(bool yes, const char *reason, struct error *err)
{
    size_t len = reason ? strlen(reason) : 0;

    if (!yes && len == 0) {
        (void)error_set(err, ERR_INVALID, "a denial needs a reason");
        return error_hint(err, "Say why in 'reason', for the requester.");
    }
    if (len > APPROVAL_REASON_MAX)
        return error_set(err, ERR_INVALID, "reason is over %d bytes",
                         APPROVAL_REASON_MAX);
    if (len && !path_plain(reason, len))
        return error_set(err, ERR_INVALID,
                         "reason must be UTF-8 without control characters");
    return 0;
}

/* A requester that tries to approve its own request is recorded. */
static int refuse_own(struct approvals *a, const struct actor *who,
                      const struct approval_info *info, struct error *err)
{
    struct audit_event event = {.action = "approval.refused",
                                .object = info->id,
                                .result = "forbidden",
                                .detail = "requested by the same key"};

    if (a->audit)
        audit_later(a->audit, who, &event);
    (void)error_set(err, ERR_FORBIDDEN,
                    "the key that made this request cannot decide it, nor "
                    "can its tokens");
    return error_hint(err, "It takes another key with the scope 'approve'.");
}

static int refuse_settled(const struct approval_info *info, struct error *err)
{
    return error_set(err, ERR_CONFLICT, "%s is %s%s%s", info->id,
                     approval_state_name(info->state),
                     info->decided_by[0] ? " by " : "",
                     approval_decider(info));
}

/* One the actor may see; as ERR_NOT_FOUND otherwise. */
static int find_visible(struct approvals *a, struct store_tx *tx,
                        const struct actor *who, const char *id,
                        struct approval_info *ret, struct error *err)
{
    int rc = ids_valid("apr", id)
                 ? approval_rows_find(a, tx, who->tenant, id, ret, err)
                 : 0;

    if (rc > 0 && approval_visible(who, ret))
        return 0;
    if (rc > 0)
        approval_info_done(ret);
    return rc < 0 ? rc : error_set(err, ERR_NOT_FOUND, "no such approval");
}

static int settle(struct approvals *a, struct store_tx **tx,
                  const struct actor *who, enum approval_state state,
                  const char *reason, struct approval_info *info,
                  struct error *err)
{
    int64_t wait_ms = info->expires_at_ms - info->asked_at_ms;
    int rc;

    info->state = state;
    info->decided_at_ms = approval_now(a);
    (void)snprintf(info->decided_by, sizeof(info->decided_by), "%s", who->key);
    (void)snprintf(info->decided_by_name, sizeof(info->decided_by_name), "%s",
                   who->name ? who->name : "");
    (void)snprintf(info->reason, sizeof(info->reason), "%s",
                   reason ? reason : "");
    /* A grant is good as long as it could have been waited for. */
    if (state == APPROVAL_APPROVED && !approval_is_execution(info->action))
        info->expires_at_ms = info->decided_at_ms + wait_ms;
    rc = approval_rows_settle(a, *tx, who, info, err);
    if (rc == 0)
        rc = store_commit(tx, err);
    if (rc == 0) {
        worker_wake(&a->worker);
        worker_wake(&a->poster);
    }
    return rc;
}

int approval_decide(struct approvals *a, const struct actor *who,
                    const char *id, bool yes, const char *reason,
                    struct approval_info *ret, struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc = check_reason(yes, reason, err);

    if (rc < 0)
        return rc;
    rc = store_begin(a->store, STORE_WRITE, "deciding an approval", &tx, err);
    if (rc == 0)
        rc = find_visible(a, tx, who, id, &info, err);
    if (rc < 0)
        return rc;
    if (!approval_may_decide(who)) {
        (void)error_set(err, ERR_FORBIDDEN,
                        "this key may not decide approvals");
        return error_hint(err, "It needs the scope 'approve'.");
    }
    if (approval_same(who, &info))
        return refuse_own(a, who, &info, err);
    if (info.state != APPROVAL_PENDING)
        return refuse_settled(&info, err);
    rc = settle(a, &tx, who, yes ? APPROVAL_APPROVED : APPROVAL_DENIED, reason,
                &info, err);
    if (rc < 0)
        return rc;
    *ret = info;
    info.payload = NULL;
    return 0;
}

/* ---- withdrawing -------------------------------------------------------- */

int approval_withdraw(struct approvals *a, const struct actor *who,
                      const char *id, struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc = store_begin(a->store, STORE_WRITE, "withdrawing an approval", &tx,
                         err);

    if (rc == 0)
        rc = find_visible(a, tx, who, id, &info, err);
    if (rc < 0)
        return rc;
    if (!approval_same(who, &info)) {
        (void)error_set(err, ERR_FORBIDDEN,
                        "only the requester can withdraw it");
        return error_hint(err, "Deny it instead.");
    }
    if (info.state != APPROVAL_PENDING)
        return refuse_settled(&info, err);
    return settle(a, &tx, who, APPROVAL_WITHDRAWN, "", &info, err);
}

/* All that match, in one transaction; owned by caller, each done. */
static int withdraw_all(struct approvals *a, const struct actor *who,
                        const char *session, const char *key,
                        struct approval_info **ret, size_t *ret_count,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc =
        store_begin(a->store, STORE_WRITE, "withdrawing approvals", &tx, err);

    if (rc == 0)
        rc =
            store_query(tx, &rows, err,
                        "SELECT " APPROVAL_COLUMNS
                        " FROM approvals WHERE " SQL_PENDING " AND tenant = ?1"
                        " AND (session = ?2 OR ?2 = '')"
                        " AND (asked_by = ?3 OR ?3 = '')",
                        "ttt", who->tenant, session, key);
    while (rc == 0 && (rc = store_next(rows, err)) > 0) {
        *ret = xrealloc(*ret, (*ret_count + 1) * sizeof(**ret));
        approval_rows_read(a, rows, true, &(*ret)[(*ret_count)++]);
        rc = 0;
    }
    for (size_t i = 0; rc == 0 && i < *ret_count; i++) {
        struct approval_info *info = &(*ret)[i];

        info->state = APPROVAL_WITHDRAWN;
        info->decided_at_ms = approval_now(a);
        (void)snprintf(info->decided_by, sizeof(info->decided_by), "%s",
                       who->key);
        (void)snprintf(info->decided_by_name, sizeof(info->decided_by_name),
                       "%s", who->name ? who->name : "");
        (void)snprintf(info->reason, sizeof(info->reason), "%s",
                       session[0] ? "the session was deleted"
                                  : "the key that asked was revoked");
        /* Ownership passes with the list. */
        info->run = session[0] ? APPROVAL_RUN_DONE : APPROVAL_RUN_NONE;
        rc = approval_rows_settle(a, tx, who, info, err);
    }
    if (rc == 0 && *ret_count)
        rc = store_commit(&tx, err);
    return rc;
}

static void withdraw_each(struct approvals *a, const struct actor *who,
                          const char *session, const char *key,
                          void (*fn)(void *ctx,
                                     const struct approval_info *info),
                          void *ctx)
{
    struct approval_info *list cleanup(mem_free) = NULL;
    struct error err;
    size_t count = 0;
    int rc = withdraw_all(a, who, session, key, &list, &count, &err);

    if (rc < 0) /* they run into the end of what they are about, or expire */
        log_event(LOG_WARN, "approvals_not_withdrawn", "session", session,
                  "error", err.message, NULL);
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && fn)
            fn(ctx, &list[i]);
        approval_info_done(&list[i]);
    }
    if (rc == 0 && count) {
        worker_wake(&a->worker);
        worker_wake(&a->poster);
    }
}

void approval_withdraw_session(
    struct approvals *a, const struct actor *who, const char *session,
    void (*fn)(void *ctx, const struct approval_info *info), void *ctx)
{
    if (a && session[0])
        withdraw_each(a, who, session, "", fn, ctx);
}

void approval_withdraw_key(struct approvals *a, const char *tenant,
                           const char *key)
{
    struct actor service = {.tenant = tenant, .key = "glovebox"};

    if (a && key[0])
        withdraw_each(a, &service, "", key, NULL, NULL);
}
