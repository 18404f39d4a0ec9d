/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who else may: the entries beside the owner's; see workspace.h. A key of
 * another tenant can be one; "*" is everybody of the workspace's own tenant.
 * Runs in the daemon on the caller's thread.
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
    /* Anybody may leave; but not their key through a token of theirs. */
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
