/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the keys and their SQL; see auth_int.h. Runs in the daemon on
 * any thread. Every call is one transaction, on disk when it returns.
 */
#include <string.h>

#include "auth/auth_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

/* Commits, and has every node read the keys again. */
static int commit_changed(struct store_tx **tx, struct error *err)
{
    int r = store_notify(*tx, AUTH_CHANNEL, "", err);

    return r < 0 ? r : store_commit(tx, err);
}

int auth_key_store_put(struct store *s, const struct auth_row *row,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(s, STORE_WRITE, "storing a key", &tx, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "INSERT INTO keys (id, hash, tenant, name, scopes,"
                       " created_at_ms, revoked_at_ms, last_used_at_ms,"
                       " pools, workspaces, sessions, parent, root,"
                       " expires_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,"
                       " ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                       "tbttiiiittttti", row->id, row->hash, sizeof(row->hash),
                       row->tenant, row->name, (int64_t)row->scopes,
                       row->created_at_ms, row->revoked_at_ms,
                       row->last_used_at_ms, row->bounds.ids[ACTOR_POOLS],
                       row->bounds.ids[ACTOR_WORKSPACES],
                       row->bounds.ids[ACTOR_SESSIONS], row->parent, row->root,
                       row->expires_at_ms);
    return r < 0 ? r : commit_changed(&tx, err);
}

/* ---- listing ------------------------------------------------------------ */

int auth_key_store_list(struct store *s, struct auth_row **ret_rows,
                        size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct auth_row *list cleanup(mem_free) = NULL;
    size_t count = 0, room = 0;
    int r;

    if (store_begin(s, STORE_READ, "listing keys", &tx, err) < 0 ||
        store_query(tx, &rows, err,
                    "SELECT id, hash, tenant, name, scopes, created_at_ms,"
                    " revoked_at_ms, last_used_at_ms, pools, workspaces,"
                    " sessions, parent, root, expires_at_ms FROM keys"
                    " ORDER BY created_at_ms DESC, id DESC",
                    "") < 0)
        return -(int)err->code;
    while ((r = store_next(rows, err)) == 1) {
        if (count == room) {
            room = room ? 2 * room : 16;
            list = xrealloc(list, room * sizeof(*list));
        }

        struct auth_row *ret = &list[count++];
        size_t len;
        const void *hash = store_bytes(rows, 1, &len);

        memset(ret, 0, sizeof(*ret));
        store_copy(rows, 0, ret->id, sizeof(ret->id));
        if (hash && len == sizeof(ret->hash))
            memcpy(ret->hash, hash, sizeof(ret->hash));
        store_copy(rows, 2, ret->tenant, sizeof(ret->tenant));
        store_copy(rows, 3, ret->name, sizeof(ret->name));
        ret->scopes = (uint32_t)store_int(rows, 4);
        ret->created_at_ms = store_int(rows, 5);
        ret->revoked_at_ms = store_int(rows, 6);
        ret->last_used_at_ms = store_int(rows, 7);
        for (int b = 0; b < ACTOR_BOUNDS; b++)
            store_copy(rows, 8 + b, ret->bounds.ids[b], ACTOR_BOUND_MAX);
        store_copy(rows, 11, ret->parent, sizeof(ret->parent));
        store_copy(rows, 12, ret->root, sizeof(ret->root));
        ret->expires_at_ms = store_int(rows, 13);
    }
    if (r < 0)
        return r;
    *ret_rows = take_ptr(list);
    *ret_count = count;
    return 0;
}

/* ---- changing ----------------------------------------------------------- */

/* Keeps the newest revoked keys and tokens, up to a number of each kind. */
static int forget_revoked(struct store_tx *tx, struct error *err)
{
    int r = store_exec(
        tx, err,
        "DELETE FROM keys WHERE revoked_at_ms > 0 AND parent = ''"
        " AND id NOT IN (SELECT id FROM keys WHERE revoked_at_ms > 0"
        " AND parent = '' ORDER BY revoked_at_ms DESC, created_at_ms DESC,"
        " id DESC LIMIT ?1)",
        "i", (int64_t)AUTH_REVOKED_KEPT);

    if (r >= 0)
        r = store_exec(
            tx, err,
            "DELETE FROM keys WHERE revoked_at_ms > 0 AND parent <> ''"
            " AND id NOT IN (SELECT id FROM keys WHERE revoked_at_ms > 0"
            " AND parent <> '' ORDER BY revoked_at_ms DESC,"
            " created_at_ms DESC, id DESC LIMIT ?1)",
            "i", (int64_t)AUTH_REVOKED_KEPT);
    return MIN(r, 0);
}

/* The tokens minted from a key or token, and those minted from them. */
static int revoke_tokens(struct store_tx *tx, const char *id, int64_t at_ms,
                         struct error *err)
{
    int r = store_exec(tx, err,
                       "WITH RECURSIVE below (id) AS (SELECT id FROM keys"
                       " WHERE parent = ?1 AND parent <> '' UNION"
                       " SELECT k.id FROM keys AS k JOIN below ON"
                       " k.parent = below.id AND k.parent <> '')"
                       " UPDATE keys SET revoked_at_ms = ?2 WHERE"
                       " revoked_at_ms = 0 AND id <> ?1"
                       " AND id IN (SELECT id FROM below)",
                       "ti", id, at_ms);

    return r < 0 ? r : forget_revoked(tx, err);
}

int auth_key_store_revoke(struct store *s, const char *id, int64_t at_ms,
                          struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int changed;

    if (store_begin(s, STORE_WRITE, "revoking a key", &tx, err) < 0)
        return -(int)err->code;
    changed =
        store_exec(tx, err,
                   "UPDATE keys SET revoked_at_ms ="
                   " CASE revoked_at_ms WHEN 0 THEN ?2 ELSE revoked_at_ms END"
                   " WHERE id = ?1",
                   "ti", id, at_ms);
    if (changed < 0)
        return changed;
    if (changed == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such key");
    if (revoke_tokens(tx, id, at_ms, err) < 0)
        return -(int)err->code;
    return commit_changed(&tx, err);
}

int auth_key_store_change(struct store *s, const struct auth_row *row,
                          bool tokens, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int changed;

    if (store_begin(s, STORE_WRITE, "changing a key", &tx, err) < 0)
        return -(int)err->code;
    changed = store_exec(
        tx, err,
        "UPDATE keys SET hash = ?2, name = ?3, scopes = ?4, pools = ?5,"
        " workspaces = ?6, sessions = ?7, expires_at_ms = ?8"
        " WHERE id = ?1 AND revoked_at_ms = 0",
        "tbtittti", row->id, row->hash, sizeof(row->hash), row->name,
        (int64_t)row->scopes, row->bounds.ids[ACTOR_POOLS],
        row->bounds.ids[ACTOR_WORKSPACES], row->bounds.ids[ACTOR_SESSIONS],
        row->expires_at_ms);
    if (changed < 0)
        return changed;
    if (changed == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such key");
    if (!tokens && revoke_tokens(tx, row->id, clock_real_ms(), err) < 0)
        return -(int)err->code;
    return commit_changed(&tx, err);
}

int auth_key_store_expire(struct store *s, const char *id, int64_t at_ms,
                          struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s, STORE_WRITE, "ending a key", &tx, err) < 0 ||
        store_exec(tx, err,
                   "UPDATE keys SET expires_at_ms = ?2"
                   " WHERE (id = ?1 OR root = ?1) AND revoked_at_ms = 0"
                   " AND (expires_at_ms = 0 OR expires_at_ms > ?2)",
                   "ti", id, at_ms) < 0)
        return -(int)err->code;
    return commit_changed(&tx, err);
}

int auth_key_store_sweep(struct store *s, int64_t before_ms, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s, STORE_WRITE, "sweeping keys", &tx, err) < 0 ||
        store_exec(tx, err,
                   "DELETE FROM keys WHERE expires_at_ms > 0"
                   " AND expires_at_ms <= ?1 AND parent <> ''",
                   "i", before_ms) < 0 ||
        store_exec(tx, err,
                   "UPDATE keys SET revoked_at_ms = expires_at_ms WHERE"
                   " expires_at_ms > 0 AND expires_at_ms <= ?1"
                   " AND revoked_at_ms = 0",
                   "i", before_ms) < 0 ||
        forget_revoked(tx, err) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

int auth_key_store_touch(struct store *s, const struct auth_touch *rows,
                         size_t count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s, STORE_WRITE, "noting the use of keys", &tx, err) < 0)
        return -(int)err->code;
    for (size_t i = 0; i < count; i++)
        if (store_exec(tx, err,
                       "UPDATE keys SET last_used_at_ms = ?2"
                       " WHERE id = ?1 AND last_used_at_ms < ?2",
                       "ti", rows[i].id, rows[i].used_at_ms) < 0)
            return -(int)err->code;
    return store_commit(&tx, err);
}
