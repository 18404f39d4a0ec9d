/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permission checks: may this actor do that to this workspace? Every call of
 * workspace/ begins with one, inside its own transaction. The check is part of
 * the query: a workspace that is foreign, deleted or unknown gives the same
 * empty result after the same work (I3). Runs in the daemon.
 *
 * Also the tokens of offers and locks: 256 random bits in hex, of which only
 * the SHA-256 is stored; so many bits need no salt.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

static const char *const role_names[] = {
    [ROLE_NONE] = "none",
    [ROLE_VIEWER] = "viewer",
    [ROLE_EDITOR] = "editor",
    [ROLE_OWNER] = "owner",
};

const char *workspace_role_name(enum workspace_role role)
{
    return (size_t)role < ARRAY_SIZE(role_names) ? role_names[role] : "none";
}

enum workspace_role workspace_role_parse(const char *name)
{
    for (int r = ROLE_VIEWER; r <= ROLE_OWNER; r++)
        if (name && strcmp(name, role_names[r]) == 0)
            return (enum workspace_role)r;
    return ROLE_NONE;
}

/* ---- rows --------------------------------------------------------------- */

void workspace_row_read(struct store_rows *rows, struct workspace_row *ret)
{
    memset(ret, 0, sizeof(*ret));
    store_copy(rows, 0, ret->id, sizeof(ret->id));
    store_copy(rows, 1, ret->tenant, sizeof(ret->tenant));
    store_copy(rows, 2, ret->owner, sizeof(ret->owner));
    store_copy(rows, 3, ret->made_for, sizeof(ret->made_for));
    store_copy(rows, 4, ret->name, sizeof(ret->name));
    ret->created_at_ms = store_int(rows, 5);
    ret->updated_at_ms = store_int(rows, 6);
    ret->deleted_at_ms = store_int(rows, 7);
    ret->head = store_int(rows, 8);
    ret->files = store_int(rows, 9);
    ret->bytes = store_int(rows, 10);
    ret->stored_bytes = store_int(rows, 11);
    ret->quota_bytes = store_int(rows, 12);
    ret->keep_versions = store_int(rows, 13);
    ret->keep_days = store_int(rows, 14);
    ret->legal_hold = store_int(rows, 15) != 0;
    ret->intelligence = store_int(rows, 16) != 0;
    ret->role = (enum workspace_role)store_int(rows, 17);
}

bool workspace_bounded(const struct actor *who)
{
    return actor_bound(who, ACTOR_WORKSPACES)[0] ||
           actor_bound(who, ACTOR_SESSIONS)[0];
}

int workspace_unbound(const struct actor *who, const char *what,
                      struct error *err)
{
    if (!workspace_bounded(who))
        return 0;
    return error_set(err, ERR_FORBIDDEN,
                     "this key is bound to certain workspaces and cannot %s",
                     what);
}

static int no_such(struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "no such workspace");
}

int workspace_row_get(struct store_tx *tx, const char *id,
                      struct workspace_row *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT " WORKSPACE_ROW_COLUMNS "0 FROM workspaces AS w"
                      " WHERE w.id = ?1 AND w.deleted_at_ms = 0",
                      "t", id);

    if (r < 0)
        return r;
    if (r == 0)
        return no_such(err);
    workspace_row_read(rows, ret);
    return 0;
}

int workspace_row_info(struct workspaces *w, struct store_tx *tx,
                       const struct workspace_row *row,
                       struct workspace_info *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    memset(ret, 0, sizeof(*ret));
    memcpy(ret->id, row->id, sizeof(ret->id));
    memcpy(ret->tenant, row->tenant, sizeof(ret->tenant));
    memcpy(ret->name, row->name, sizeof(ret->name));
    memcpy(ret->owner, row->owner, sizeof(ret->owner));
    ret->role = row->role;
    ret->created_at_ms = row->created_at_ms;
    ret->updated_at_ms = row->updated_at_ms;
    ret->deleted_at_ms = row->deleted_at_ms;
    if (row->deleted_at_ms)
        ret->purge_at_ms =
            row->deleted_at_ms + 1000 * (int64_t)w->settings.restore_window_s;
    ret->head = row->head;
    ret->files = (uint64_t)row->files;
    ret->bytes = (uint64_t)row->bytes;
    ret->stored_bytes = (uint64_t)row->stored_bytes;
    ret->quota_bytes = workspace_quota(w, row);
    ret->keep_versions = (uint32_t)row->keep_versions;
    ret->keep_days = (uint32_t)row->keep_days;
    ret->legal_hold = row->legal_hold;
    ret->intelligence = row->intelligence;
    ret->made_for_session = row->made_for[0] != '\0' &&
                            strcmp(row->made_for, LIBRARY_MADE_FOR) != 0;
    if (!row->head)
        return 0;
    r = store_one(tx, &rows, err,
                  "SELECT id FROM commits WHERE workspace = ?1 AND seq = ?2",
                  "ti", row->id, row->head);
    if (r > 0)
        store_copy(rows, 0, ret->head_commit, sizeof(ret->head_commit));
    return MIN(r, 0);
}

/* ---- the question ------------------------------------------------------- */

void workspace_refused(struct workspaces *w, const struct actor *who,
                       const char *action, const char *id, const char *path,
                       const struct error *err)
{
    struct audit_event event = {
        .action = action,
        .workspace = id,
        .object = id,
        .path = path,
        .result = error_code_name(err->code),
        .detail = err->message,
    };

    audit_later(w->audit, who, &event);
}

/* A principal bound to some workspaces works in them; giving them away or
 * adding members takes workspaces:admin by name. */
static enum workspace_role most_of(const struct actor *who)
{
    return workspace_bounded(who) && !who->admin ? ROLE_EDITOR : ROLE_OWNER;
}

static int check_role(struct workspaces *w, const struct actor *who,
                      struct store_rows *rows, enum workspace_role least,
                      struct workspace_row *ret, struct error *err)
{
    struct workspace_row row;

    workspace_row_read(rows, &row);
    row.role = MIN(row.role, most_of(who));
    if (row.role < least) {
        (void)error_set(
            err, ERR_FORBIDDEN, "this takes the role %s here; yours is %s",
            workspace_role_name(least), workspace_role_name(row.role));
        workspace_refused(w, who, "workspace.access", row.id, NULL, err);
        return -ERR_FORBIDDEN;
    }
    if (ret)
        *ret = row;
    return 0;
}

#define ACCESS_SQL(deleted)                                                       \
    "SELECT * FROM (SELECT " WORKSPACE_ROW_COLUMNS WORKSPACE_ROLE_SQL(            \
        "?2", "?3", "?4", "?5",                                                   \
        "?6") " AS role FROM workspaces AS w WHERE w.id = ?1 AND w.deleted_at_ms" \
              " " deleted " 0) AS a WHERE role > 0"

int workspace_access(struct store_tx *tx, struct workspaces *w,
                     const struct actor *who, const char *id,
                     enum workspace_role least, struct workspace_row *ret,
                     struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err, ACCESS_SQL("="), "ttittt", id, who->key,
                      (int64_t)who->admin, who->tenant, WORKSPACE_BOUNDS(who));

    if (r < 0)
        return r;
    return r ? check_role(w, who, rows, least, ret, err) : no_such(err);
}

int workspace_access_deleted(struct store_tx *tx, struct workspaces *w,
                             const struct actor *who, const char *id,
                             enum workspace_role least,
                             struct workspace_row *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err, ACCESS_SQL(">"), "ttittt", id, who->key,
                      (int64_t)who->admin, who->tenant, WORKSPACE_BOUNDS(who));

    if (r < 0)
        return r;
    return r ? check_role(w, who, rows, least, ret, err) : no_such(err);
}

int workspace_enter(struct workspaces *w, const struct actor *who,
                    const char *id, enum workspace_role least,
                    enum store_mode mode, const char *what,
                    struct store_tx **ret_tx, struct workspace_row *ret,
                    struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(w->store, mode, what, &tx, err);

    if (r == 0)
        r = workspace_access(tx, w, who, id, least, ret, err);
    if (r == 0)
        *ret_tx = take_ptr(tx);
    return r;
}

/* ---- tokens of offers and locks --------------------------------------------
 */

void workspace_token_hash(const char *token, unsigned char ret_hash[32])
{
    hash_sha256(token, strlen(token), ret_hash);
}

void workspace_token_make(char ret_token[65], unsigned char ret_hash[32])
{
    unsigned char raw[32];

    ids_random(raw, sizeof(raw));
    (void)ids_hex(raw, sizeof(raw), ret_token);
    explicit_bzero(raw, sizeof(raw));
    workspace_token_hash(ret_token, ret_hash);
}
