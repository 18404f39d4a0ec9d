/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to approvals and listing them. Runs in gloveboxd on the caller's
 * thread. An approval that the caller may not see is answered exactly as one
 * that does not exist.
 */
#include <string.h>

#include "approval/approval_int.h"
#include "audit/audit.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/mem.h"

/* ---- who may ------------------------------------------------------------ */

/* Tokens act under the key they come from, so that this holds for them too. */
bool approval_same(const struct actor *who, const struct approval_info *info)
{
    return strcmp(who->key, info->asked_by) == 0;
}

/* By scopes alone: actor.admin says who owns workspaces. */
bool approval_may_decide(const struct actor *who)
{
    return (who->scopes & (AUTH_APPROVE | AUTH_ADMIN)) != 0;
}

/* A bound principal sees only requests that are known to concern its
 * bounds. */
static bool within(const struct actor *who, const struct approval_info *info)
{
    const char *const ids[ACTOR_BOUNDS] = {
        [ACTOR_POOLS] = info->pool,
        [ACTOR_WORKSPACES] = info->workspace,
        [ACTOR_SESSIONS] = info->session,
    };

    for (int i = 0; who->bounds && i < ACTOR_BOUNDS; i++)
        if (who->bounds->ids[i][0] &&
            (!ids[i][0] || !actor_may(who, (enum actor_bound)i, ids[i])))
            return false;
    return true;
}

bool approval_visible(const struct actor *who,
                      const struct approval_info *info)
{
    return strcmp(who->tenant, info->tenant) == 0 && within(who, info) &&
           (approval_same(who, info) || approval_may_decide(who));
}

/* ---- one ---------------------------------------------------------------- */

static int get_in(struct approvals *a, struct store_tx *tx,
                  const struct actor *who, const char *id,
                  struct approval_info *ret, struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    int rc = ids_valid("apr", id)
                 ? approval_rows_find(a, tx, who->tenant, id, &info, err)
                 : 0;

    if (rc < 0)
        return rc;
    if (rc == 0 || !approval_visible(who, &info))
        return error_set(err, ERR_NOT_FOUND, "no such approval");
    *ret = info;
    info.payload = NULL;
    return 0;
}

int approval_get(struct approvals *a, const struct actor *who, const char *id,
                 struct approval_info *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc =
        store_begin(a->store, STORE_READ, "looking at an approval", &tx, err);

    return rc < 0 ? rc : get_in(a, tx, who, id, ret, err);
}

/* A caller that may see the session sees its executions, so the tenant and the
 * bounds are asked here. */
int approval_of(struct approvals *a, const struct actor *who,
                const char *object, struct approval_info *ret,
                struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc =
        store_begin(a->store, STORE_READ, "looking at an approval", &tx, err);

    if (rc == 0)
        rc = store_one(tx, &rows, err,
                       "SELECT " APPROVAL_COLUMNS
                       " FROM approvals WHERE object = ?1 AND tenant = ?2"
                       " AND " SQL_EXECUTION,
                       "tt", object, who->tenant);
    if (rc < 0)
        return rc;
    if (rc > 0)
        approval_rows_read(a, rows, true, &info);
    if (rc == 0 || !within(who, &info))
        return error_set(err, ERR_NOT_FOUND, "no such approval");
    *ret = info;
    info.payload = NULL;
    return 0;
}

/* ---- many --------------------------------------------------------------- */

static int read_page(struct approvals *a, struct store_rows *rows,
                     const struct actor *who, unsigned limit,
                     struct approval_info *ret, size_t *ret_count,
                     bool *ret_more, struct error *err)
{
    int rc;

    *ret_count = 0;
    *ret_more = false;
    while ((rc = store_next(rows, err)) > 0) {
        struct approval_info info;

        approval_rows_read(a, rows, false, &info);
        if (!approval_visible(who, &info))
            continue; /* out of its bounds */
        if (*ret_count == limit) {
            *ret_more = true;
            return 0;
        }
        ret[(*ret_count)++] = info;
    }
    return rc;
}

int approval_list(struct approvals *a, const struct actor *who, int state,
                  unsigned limit, const char *after,
                  struct approval_info **ret, size_t *ret_count,
                  bool *ret_more, struct error *err)
{
    struct approval_info *list cleanup(mem_free) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct approval_info last = {.asked_at_ms = INT64_MAX};
    int64_t now = approval_now(a);
    int rc = store_begin(a->store, STORE_READ, "listing approvals", &tx, err);

    if (rc == 0 && after) {
        rc = get_in(a, tx, who, after, &last, err);
        approval_info_done(&last);
        if (rc == -ERR_NOT_FOUND)
            rc = error_set(err, ERR_INVALID, "after is no approval");
    }
    if (rc == 0) /* one whose time is over counts as expired: see rows.c */
        rc = store_query(
            tx, &rows, err,
            "SELECT " APPROVAL_COLUMNS " FROM approvals WHERE tenant = ?1"
            " AND (?2 <> 0 OR asked_by = ?3)"
            " AND (?4 < 0 OR CASE WHEN " SQL_PENDING
            "  AND expires_at_ms <= ?5 THEN ?8 ELSE state END = ?4)"
            " AND (asked_at_ms < ?6 OR (asked_at_ms = ?6 AND id < ?7))"
            " ORDER BY asked_at_ms DESC, id DESC",
            "titiiiti", who->tenant, (int64_t)approval_may_decide(who),
            who->key, (int64_t)state, now, last.asked_at_ms, last.id,
            (int64_t)APPROVAL_EXPIRED);
    if (rc == 0) {
        list = xcalloc(limit + 1, sizeof(*list));
        rc = read_page(a, rows, who, limit, list, ret_count, ret_more, err);
    }
    if (rc < 0)
        return rc;
    *ret = take_ptr(list);
    return 0;
}

uint64_t approvals_pending(struct approvals *a)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err;

    if (!a ||
        store_begin(a->store, STORE_READ, "counting approvals", &tx, &err) <
            0 ||
        store_one(tx, &rows, &err,
                  "SELECT COUNT(*) FROM approvals WHERE " SQL_PENDING
                  " AND expires_at_ms > ?1",
                  "i", approval_now(a)) <= 0)
        return 0;
    return (uint64_t)store_int(rows, 0);
}
