/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members and ownership; see workspace.h. A member may be a key of another
 * tenant; "*" stands for every key of the workspace's own tenant.
 *
 * Ownership is transferred at once by the owner or an admin, or by a token
 * that its receiver claims once. The workspace then belongs to the new owner's
 * tenant and counts against its quota; the former owner stays an editor. Runs
 * in the daemon on the caller's thread, one transaction a call.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

#define MEMBERS_MAX 1000

/* ---- listing ------------------------------------------------------------ */

static void add_owner(const struct workspace_row *row,
                      struct workspace_member *ret)
{
    (void)snprintf(ret->principal, sizeof(ret->principal), "%s", row->owner);
    (void)snprintf(ret->added_by, sizeof(ret->added_by), "%s", row->owner);
    ret->role = ROLE_OWNER;
    ret->added_at_ms = row->created_at_ms;
}

int workspace_members(struct workspaces *w, const struct actor *who,
                      const char *id, struct workspace_member **ret,
                      size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_member *list cleanup(mem_free) = NULL;
    struct workspace_row row;
    size_t count = 0;
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "listing members", &tx, &row, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT principal, role, added_at_ms, added_by"
                        " FROM members WHERE workspace = ?1"
                        " AND principal <> ?2 ORDER BY principal LIMIT ?3",
                        "tti", id, row.owner, (int64_t)MEMBERS_MAX + 1);
    if (r < 0)
        return r;
    list = xcalloc(MEMBERS_MAX + 2, sizeof(*list));
    add_owner(&row, &list[count++]);
    while ((r = store_next(rows, err)) > 0) {
        struct workspace_member *m = &list[count++];

        store_copy(rows, 0, m->principal, sizeof(m->principal));
        m->role = (enum workspace_role)store_int(rows, 1);
        m->added_at_ms = store_int(rows, 2);
        store_copy(rows, 3, m->added_by, sizeof(m->added_by));
    }
    if (r < 0)
        return r;
    *ret = take_ptr(list);
    *ret_count = count;
    return 0;
}

/* ---- setting ------------------------------------------------------------ */

static int check_entry(const struct workspace_row *row, const char *principal,
                       enum workspace_role role, struct error *err)
{
    bool everybody = strcmp(principal, "*") == 0;

    if (!everybody && !workspace_is_key(principal))
        return error_set(err, ERR_INVALID,
                         "a member is a key's id, or * for the whole tenant");
    if (everybody && role == ROLE_OWNER)
        return error_set(err, ERR_INVALID,
                         "a whole tenant can be viewer or editor, not owner");
    if (strcmp(principal, row->owner) == 0)
        return error_set(err, ERR_CONFLICT,
                         "the owner's role changes only by a transfer");
    return 0;
}

/* ret: the role it had, ROLE_NONE for none. */
static int current_role(struct store_tx *tx, const char *id,
                        const char *principal, enum workspace_role *ret,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT role FROM members WHERE workspace = ?1"
                      " AND principal = ?2",
                      "tt", id, principal);

    *ret = r > 0 ? (enum workspace_role)store_int(rows, 0) : ROLE_NONE;
    return MIN(r, 0);
}

static int check_room(struct store_tx *tx, const char *id, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT count(*) FROM members WHERE workspace = ?1", "t",
                      id);

    if (r > 0 && store_int(rows, 0) >= MEMBERS_MAX)
        return error_set(err, ERR_LIMIT, "a workspace has at most %d members",
                         MEMBERS_MAX);
    return MIN(r, 0);
}

static int store_role(struct store_tx *tx, const struct actor *who,
                      const char *id, const char *principal,
                      enum workspace_role role, struct error *err)
{
    int r;

    if (role == ROLE_NONE)
        r = store_exec(tx, err,
                       "DELETE FROM members WHERE workspace = ?1"
                       " AND principal = ?2",
                       "tt", id, principal);
    else
        r = store_exec(tx, err,
                       "INSERT INTO members (workspace, principal, role,"
                       " added_at_ms, added_by) VALUES (?1, ?2, ?3, ?4, ?5)"
                       " ON CONFLICT (workspace, principal) DO UPDATE"
                       " SET role = excluded.role",
                       "ttiit", id, principal, (int64_t)role, clock_real_ms(),
                       who->key);
    return MIN(r, 0);
}

static int change_role(struct workspaces *w, struct store_tx *tx,
                       const struct actor *who, const char *id,
                       const char *principal, enum workspace_role role,
                       struct error *err)
{
    enum workspace_role before;
    struct audit_event event = {.action = "member.set",
                                .workspace = id,
                                .object = principal,
                                .after = workspace_role_name(role)};
    int r = current_role(tx, id, principal, &before, err);

    if (r < 0 || before == role)
        return r;
    if (before == ROLE_NONE)
        r = check_room(tx, id, err);
    if (r == 0)
        r = store_role(tx, who, id, principal, role, err);
    event.before = workspace_role_name(before);
    return r < 0 ? r : audit_add(w->audit, tx, who, &event, err);
}

int workspace_member_set(struct workspaces *w, const struct actor *who,
                         const char *id, const char *principal,
                         enum workspace_role role, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    /* Every member may leave, but not through a token of its key. */
    bool leaves = role == ROLE_NONE && strcmp(principal, who->key) == 0 &&
                  !workspace_bounded(who);
    int r = workspace_govern_member(w, who, id, principal, role, err);

    if (r == 0)
        r = workspace_enter(w, who, id, leaves ? ROLE_VIEWER : ROLE_OWNER,
                            STORE_WRITE, "changing a member", &tx, &row, err);
    if (r == 0)
        r = check_entry(&row, principal, role, err);
    if (r == 0)
        r = change_role(w, tx, who, id, principal, role, err);
    return r < 0 ? r : store_commit(&tx, err);
}

int workspace_member_follow(struct workspaces *w, struct store_tx *tx,
                            const struct actor *who, const char *id,
                            const char *made_for, const char *owner,
                            bool whole_tenant, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT 1 FROM workspaces WHERE id = ?1"
                      " AND made_for = ?2 AND owner = ?3",
                      "ttt", id, made_for, owner);

    if (r <= 0)
        return r;
    return change_role(w, tx, who, id, "*",
                       whole_tenant ? ROLE_EDITOR : ROLE_NONE, err);
}

/* ---- ownership -------------------------------------------------------------
 */

#define OFFER_TTL_MAX_S (72u * 3600u)
#define OFFERS_MAX 5

/* ---- handing over ------------------------------------------------------- */

static int set_owner(struct store_tx *tx, const struct actor *who,
                     const struct workspace_row *row, const char *to,
                     const char *tenant, struct error *err)
{
    int64_t now = clock_real_ms();
    int r = store_exec(tx, err,
                       "UPDATE workspaces SET owner = ?2, tenant = ?3,"
                       " updated_at_ms = ?4 WHERE id = ?1",
                       "ttti", row->id, to, tenant, now);

    if (r >= 0)
        r = store_exec(tx, err,
                       "DELETE FROM members WHERE workspace = ?1"
                       " AND principal = ?2",
                       "tt", row->id, to);
    if (r >= 0)
        r = store_exec(tx, err,
                       "INSERT INTO members (workspace, principal, role,"
                       " added_at_ms, added_by) VALUES (?1, ?2, ?3, ?4, ?5)"
                       " ON CONFLICT (workspace, principal) DO UPDATE"
                       " SET role = excluded.role",
                       "ttiit", row->id, row->owner, (int64_t)ROLE_EDITOR, now,
                       who->key);
    if (r >= 0) /* offers were the former owner's word */
        r = store_exec(tx, err, "DELETE FROM transfers WHERE workspace = ?1",
                       "t", row->id);
    return MIN(r, 0);
}

static int hand_over(struct workspaces *w, struct store_tx *tx,
                     const struct actor *who, const struct workspace_row *row,
                     const char *to, const char *tenant, const char *action,
                     struct error *err)
{
    struct audit_event event = {.action = action,
                                .workspace = row->id,
                                .object = row->id,
                                .before = row->owner,
                                .after = to};
    int r = 0;

    if (strcmp(row->owner, to) == 0)
        return error_set(err, ERR_CONFLICT, "that key owns it already");
    if (strcmp(row->tenant, tenant) != 0)
        r = workspace_quota_enter(w, tx, tenant, (uint64_t)row->stored_bytes,
                                  err);
    if (r == 0 && strcmp(row->tenant, tenant) != 0)
        r = library_leave(tx, row, err);
    if (r == 0)
        r = set_owner(tx, who, row, to, tenant, err);
    return r < 0 ? r : audit_add(w->audit, tx, who, &event, err);
}

/* As the actor sees it now, which may be not at all any more. */
static int look_again(struct workspaces *w, struct store_tx *tx,
                      const struct actor *who, const char *id,
                      struct workspace_info *ret, struct error *err)
{
    struct workspace_row row;
    int r = workspace_access(tx, w, who, id, ROLE_VIEWER, &row, err);

    if (r == -ERR_NOT_FOUND)
        r = workspace_row_get(tx, id, &row, err);
    return r < 0 ? r : workspace_row_info(w, tx, &row, ret, err);
}

static int check_target(struct workspaces *w, const struct actor *who,
                        const struct workspace_row *row, const char *to,
                        const char *tenant, struct error *err)
{
    if (!workspace_is_key(to))
        return error_set(err, ERR_INVALID, "the new owner must be a key's id");
    if (!tenant || !tenant[0] || strlen(tenant) >= sizeof(row->tenant))
        return error_set(err, ERR_INVALID, "the new owner has no tenant");
    if (strcmp(tenant, row->tenant) == 0 || who->admin)
        return 0;
    (void)error_set(err, ERR_FORBIDDEN,
                    "only an admin can hand a workspace to another tenant");
    workspace_refused(w, who, "workspace.transfer", row->id, NULL, err);
    return error_hint(err, "make an offer and let the other side claim it");
}

int workspace_transfer(struct workspaces *w, const struct actor *who,
                       const char *id, const char *to, const char *to_tenant,
                       struct workspace_info *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    struct workspace_info info;
    int r = workspace_govern_transfer(w, who, id, to, err);

    if (r == 0)
        r = workspace_enter(w, who, id, ROLE_OWNER, STORE_WRITE,
                            "handing a workspace over", &tx, &row, err);
    if (r == 0)
        r = check_target(w, who, &row, to, to_tenant, err);
    if (r == 0)
        r = hand_over(w, tx, who, &row, to, to_tenant, "workspace.transfer",
                      err);
    if (r == 0)
        r = look_again(w, tx, who, id, &info, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        *ret = info;
    return r;
}

/* ---- offers ------------------------------------------------------------- */

/* Expired offers make room. */
static int check_offers(struct store_tx *tx, const char *id, int64_t now,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_exec(tx, err,
                       "DELETE FROM transfers WHERE workspace = ?1"
                       " AND expires_at_ms <= ?2",
                       "ti", id, now);

    if (r >= 0)
        r = store_one(tx, &rows, err,
                      "SELECT count(*) FROM transfers WHERE workspace = ?1",
                      "t", id);
    if (r < 0)
        return r;
    if (store_int(rows, 0) < OFFERS_MAX)
        return 0;
    (void)error_set(err, ERR_LIMIT,
                    "there are %d open offers of this workspace already",
                    OFFERS_MAX);
    return error_hint(err, "revoke one first");
}

static int store_offer(struct workspaces *w, struct store_tx *tx,
                       const struct actor *who, const char *id,
                       const struct workspace_offer *offer,
                       const unsigned char hash[32], struct error *err)
{
    struct audit_event event = {
        .action = "workspace.offer", .workspace = id, .object = offer->id};
    int r = store_exec(tx, err,
                       "INSERT INTO transfers (id, token_hash, workspace,"
                       " offered_by, created_at_ms, expires_at_ms)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                       "tbttii", offer->id, hash, (size_t)32, id,
                       offer->offered_by, offer->created_at_ms,
                       offer->expires_at_ms);

    return r < 0 ? r : audit_add(w->audit, tx, who, &event, err);
}

int workspace_offer(struct workspaces *w, const struct actor *who,
                    const char *id, uint32_t ttl_s,
                    struct workspace_offer *ret, char ret_token[65],
                    struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_offer offer = {.created_at_ms = clock_real_ms()};
    unsigned char hash[32];
    char token[65];
    int r;

    if (ttl_s > OFFER_TTL_MAX_S)
        return error_set(err, ERR_INVALID, "an offer lasts at most %u seconds",
                         OFFER_TTL_MAX_S);
    r = workspace_govern_transfer(w, who, id, NULL, err);
    if (r == 0)
        r = workspace_enter(w, who, id, ROLE_OWNER, STORE_WRITE,
                            "offering a workspace", &tx, NULL, err);
    if (r == 0)
        r = check_offers(tx, id, offer.created_at_ms, err);
    if (r < 0)
        return r;
    ids_make("xfer", offer.id);
    (void)snprintf(offer.offered_by, sizeof(offer.offered_by), "%s", who->key);
    offer.expires_at_ms = offer.created_at_ms +
                          1000 * (int64_t)(ttl_s ? ttl_s : OFFER_TTL_MAX_S);
    workspace_token_make(token, hash);
    r = store_offer(w, tx, who, id, &offer, hash, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0) {
        *ret = offer;
        memcpy(ret_token, token, sizeof(token));
    }
    explicit_bzero(token, sizeof(token));
    return r;
}

int workspace_offers(struct workspaces *w, const struct actor *who,
                     const char *id, struct workspace_offer **ret,
                     size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_offer *offers cleanup(mem_free) =
        xcalloc(OFFERS_MAX, sizeof(*offers));
    size_t count = 0;
    int r = workspace_enter(w, who, id, ROLE_OWNER, STORE_READ,
                            "listing offers", &tx, NULL, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT id, offered_by, created_at_ms, expires_at_ms"
                        " FROM transfers WHERE workspace = ?1"
                        " AND expires_at_ms > ?2 ORDER BY created_at_ms, id"
                        " LIMIT ?3",
                        "tii", id, clock_real_ms(), (int64_t)OFFERS_MAX);
    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        struct workspace_offer *o = &offers[count++];

        store_copy(rows, 0, o->id, sizeof(o->id));
        store_copy(rows, 1, o->offered_by, sizeof(o->offered_by));
        o->created_at_ms = store_int(rows, 2);
        o->expires_at_ms = store_int(rows, 3);
    }
    if (r < 0)
        return r;
    *ret = take_ptr(offers);
    *ret_count = count;
    return 0;
}

int workspace_offer_revoke(struct workspaces *w, const struct actor *who,
                           const char *id, const char *offer,
                           struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {
        .action = "workspace.offer_revoke", .workspace = id, .object = offer};
    int r = workspace_enter(w, who, id, ROLE_OWNER, STORE_WRITE,
                            "revoking an offer", &tx, NULL, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "DELETE FROM transfers WHERE id = ?1"
                       " AND workspace = ?2",
                       "tt", offer, id);
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such offer");
    if (r > 0)
        r = audit_add(w->audit, tx, who, &event, err);
    return r < 0 ? r : store_commit(&tx, err);
}

/* Unknown, expired, used, revoked and of a deleted workspace are one. */
static int find_offer(struct store_tx *tx, const char *token,
                      char ret_id[ID_MAX], struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    unsigned char hash[32];
    int r;

    workspace_token_hash(token, hash);
    r = store_one(tx, &rows, err,
                  "SELECT t.workspace FROM transfers AS t"
                  " JOIN workspaces AS w ON w.id = t.workspace"
                  " WHERE t.token_hash = ?1 AND t.expires_at_ms > ?2"
                  " AND w.deleted_at_ms = 0",
                  "bi", hash, sizeof(hash), clock_real_ms());
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such offer");
    store_copy(rows, 0, ret_id, ID_MAX);
    return 0;
}

int workspace_claim(struct workspaces *w, const struct actor *who,
                    const char *token, struct workspace_info *ret,
                    struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    struct workspace_info info;
    char id[ID_MAX];
    int r;

    if (!workspace_is_key(who->key))
        return error_set(err, ERR_FORBIDDEN, "only a key can own a workspace");
    r = workspace_unbound(who, "take others over", err);
    if (r == 0)
        r = workspace_govern_claim(w, who, err);
    if (r == 0)
        r = store_begin(w->store, STORE_WRITE, "claiming a workspace", &tx,
                        err);
    if (r == 0)
        r = find_offer(tx, token, id, err);
    if (r == 0)
        r = workspace_row_get(tx, id, &row, err);
    if (r == 0)
        r = hand_over(w, tx, who, &row, who->key, who->tenant,
                      "workspace.claim", err);
    if (r == 0)
        r = look_again(w, tx, who, id, &info, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        *ret = info;
    return r;
}
