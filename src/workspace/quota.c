/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much may be kept. A workspace's own use is a column of its row; its
 * tenant's is the sum over all its workspaces, too long to add up for each
 * commit. So the room a tenant had when last counted is remembered and what
 * is let in is taken off: never more than there is, since all else that
 * changes the sum (the collector, a purge) only makes room. Only when the
 * remembered room is not enough is it counted again. Runs in the daemon,
 * inside the transaction that needs the room.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "base/thread.h"
#include "quota/quota.h"
#include "workspace/workspace_int.h"

uint64_t workspace_quota(const struct workspaces *w,
                         const struct workspace_row *row)
{
    return row->quota_bytes > 0 ? (uint64_t)row->quota_bytes
                                : w->settings.workspace_quota_bytes;
}

/* The tenant's own, where an operator has set one. */
static uint64_t tenant_quota(const struct workspaces *w, const char *tenant)
{
    return w->quotas ? quota_most(w->quotas, tenant, QUOTA_STORAGE)
                     : w->settings.tenant_quota_bytes;
}

static int no_room(struct error *err, const char *whose, uint64_t used,
                   uint64_t quota, uint64_t more)
{
    (void)error_set(err, ERR_SPACE,
                    "no room in the %s: %" PRIu64 " of %" PRIu64
                    " bytes are used and this needs %" PRIu64 " more",
                    whose, used, quota, more);
    return error_hint(err, "older versions count too: keep fewer of them "
                           "(keep_versions, keep_days), or ask for a larger "
                           "quota");
}

static bool quota_fits(uint64_t used, uint64_t more, uint64_t quota)
{
    return more <= quota && used <= quota - more;
}

/* ---- a tenant's room ---------------------------------------------------- */

static int tenant_used(struct store_tx *tx, const char *tenant, uint64_t *ret,
                       struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT coalesce(sum(stored_bytes), 0)"
                      " + (SELECT coalesce(sum(i.bytes), 0) FROM images AS i"
                      "  WHERE i.tenant = ?1)"
                      " + (SELECT coalesce(sum(u.bytes), 0) FROM chat_use AS"
                      "  u WHERE u.tenant = ?1)"
                      " FROM workspaces WHERE tenant = ?1",
                      "t", tenant);

    if (r > 0)
        *ret = (uint64_t)store_int(rows, 0);
    return MIN(r, 0);
}

static struct quota_memo *memo_of(struct workspaces *w, const char *tenant)
{
    return &w->memos[siphash_text(tenant) % QUOTA_MEMOS];
}

static bool take_remembered(struct workspaces *w, const char *tenant,
                            uint64_t quota, uint64_t more)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);
    struct quota_memo *memo = memo_of(w, tenant);

    if (strcmp(memo->tenant, tenant) != 0 || memo->quota != quota ||
        memo->room < more)
        return false;
    memo->room -= more;
    return true;
}

static void remember(struct workspaces *w, const char *tenant, uint64_t quota,
                     uint64_t room)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);
    struct quota_memo *memo = memo_of(w, tenant);

    (void)snprintf(memo->tenant, sizeof(memo->tenant), "%s", tenant);
    memo->quota = quota;
    memo->room = room;
}

/* In a write transaction, so no other thread adds meanwhile. */
static int take_from_tenant(struct workspaces *w, struct store_tx *tx,
                            const char *tenant, uint64_t already,
                            uint64_t more, struct error *err)
{
    uint64_t quota = tenant_quota(w, tenant);
    uint64_t used = 0;
    int r;

    if (!quota || take_remembered(w, tenant, quota, more))
        return 0;
    r = tenant_used(tx, tenant, &used, err);
    if (r < 0)
        return r;
    used += already;
    if (!quota_fits(used, more, quota)) {
        (void)no_room(err, "tenant's quota", used, quota, more);
        return quota_refuse(w->quotas, QUOTA_STORAGE, quota, used, err);
    }
    remember(w, tenant, quota, quota - used - more);
    return 0;
}

/* ---- what commits and transfers ask ------------------------------------- */

int workspace_quota_take(struct workspaces *w, struct store_tx *tx,
                         const struct workspace_row *row, uint64_t already,
                         uint64_t more, struct error *err)
{
    uint64_t quota = workspace_quota(w, row);
    uint64_t used = (uint64_t)row->stored_bytes + already;

    if (more == 0)
        return 0;
    if (quota && !quota_fits(used, more, quota))
        return no_room(err, "workspace", used, quota, more);
    return take_from_tenant(w, tx, row->tenant, already, more, err);
}

/* The bytes that the tenant may certainly add: the cached value, if it is
 * enough. */
static int tenant_room(struct workspaces *w, struct store_tx *tx,
                       const char *tenant, uint64_t want, uint64_t *ret,
                       struct error *err)
{
    uint64_t quota = tenant_quota(w, tenant), used = 0;
    uint64_t room = UINT64_MAX;
    bool known;
    int r;

    *ret = UINT64_MAX;
    if (!quota)
        return 0;
    (void)mutex_hold(&w->lock);
    known = strcmp(memo_of(w, tenant)->tenant, tenant) == 0 &&
            memo_of(w, tenant)->quota == quota;
    room = known ? memo_of(w, tenant)->room : 0;
    mutex_unlock(&w->lock);
    if (room < want) {
        r = tenant_used(tx, tenant, &used, err);
        if (r < 0)
            return r;
        room = quota > used ? quota - used : 0;
    }
    *ret = room;
    return 0;
}

int workspace_room(struct workspaces *w, const struct actor *who,
                   const char *id, uint64_t want, uint64_t *ret,
                   struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row = {0};
    uint64_t quota = w->settings.workspace_quota_bytes, used = 0, room = 0;
    int r;

    if (id) {
        r = workspace_enter(w, who, id, ROLE_EDITOR, STORE_READ,
                            "looking for room", &tx, &row, err);
        quota = workspace_quota(w, &row);
        used = (uint64_t)row.stored_bytes;
    } else {
        r = store_begin(w->store, STORE_READ, "looking for room", &tx, err);
    }
    if (r == 0)
        r = tenant_room(w, tx, id ? row.tenant : who->tenant, want, &room,
                        err);
    if (r < 0)
        return r;
    if (quota)
        room = MIN(room, quota > used ? quota - used : 0);
    *ret = room;
    return 0;
}

static int check_count(struct workspaces *w, struct store_tx *tx,
                       const char *tenant, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    uint64_t most = w->settings.tenant_workspaces;
    int r;

    if (!most)
        return 0;
    /* By the index alone; only when that is too many do deleted ones matter */
    r = store_one(tx, &rows, err,
                  "SELECT count(*) FROM workspaces WHERE tenant = ?1", "t",
                  tenant);
    if (r < 0 || (uint64_t)store_int(rows, 0) < most)
        return MIN(r, 0);
    store_rows_done(&rows);
    r = store_one(tx, &rows, err,
                  "SELECT count(*) FROM workspaces WHERE tenant = ?1"
                  " AND deleted_at_ms = 0",
                  "t", tenant);
    if (r < 0 || (uint64_t)store_int(rows, 0) < most)
        return MIN(r, 0);
    (void)error_set(err, ERR_LIMIT,
                    "the tenant has %" PRIu64 " workspaces, the most it may",
                    most);
    return error_hint(err, "delete some that are no longer needed");
}

int workspace_quota_enter(struct workspaces *w, struct store_tx *tx,
                          const char *tenant, uint64_t bytes,
                          struct error *err)
{
    int r = check_count(w, tx, tenant, err);

    if (r < 0 || bytes == 0)
        return r;
    return take_from_tenant(w, tx, tenant, 0, bytes, err);
}

/* What the image before it had is counted until the row is replaced, in the
 * same transaction: it is room for this one. */
int workspace_storage_take(struct workspaces *w, struct store_tx *tx,
                           const char *tenant, const char *session,
                           uint64_t bytes, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r =
        store_one(tx, &rows, err,
                  "SELECT bytes FROM images WHERE session = ?1", "t", session);
    uint64_t had = r > 0 ? (uint64_t)store_int(rows, 0) : 0;

    if (r < 0 || bytes <= had)
        return MIN(r, 0);
    return take_from_tenant(w, tx, tenant, 0, bytes - had, err);
}

int workspace_storage_add(struct workspaces *w, struct store_tx *tx,
                          const char *tenant, uint64_t bytes,
                          struct error *err)
{
    return bytes ? take_from_tenant(w, tx, tenant, 0, bytes, err) : 0;
}

int workspace_usage(struct workspaces *w, const struct actor *who,
                    struct workspace_usage *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = workspace_unbound(who, "look at the tenant's use", err);

    if (r == 0)
        r = store_begin(w->store, STORE_READ, "adding up the use", &tx, err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT coalesce(sum(CASE WHEN deleted_at_ms = 0 THEN 1"
                      " ELSE 0 END), 0), coalesce(sum(stored_bytes), 0)"
                      " + (SELECT coalesce(sum(i.bytes), 0) FROM images AS i"
                      "  WHERE i.tenant = ?1)"
                      " + (SELECT coalesce(sum(u.bytes), 0) FROM chat_use AS"
                      "  u WHERE u.tenant = ?1)"
                      " FROM workspaces WHERE tenant = ?1",
                      "t", who->tenant);
    if (r < 0)
        return r;
    ret->workspaces = (uint64_t)store_int(rows, 0);
    ret->max_workspaces = w->settings.tenant_workspaces;
    ret->stored_bytes = (uint64_t)store_int(rows, 1);
    ret->quota_bytes = tenant_quota(w, who->tenant);
    return 0;
}
