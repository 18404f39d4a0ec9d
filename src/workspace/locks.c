/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases on paths: taken for a time, renewed, released, broken; see
 * workspace.h. The holder of the token holds the lock, whatever the key. A
 * path's row outlives its lock, because its fence only grows; so does the hash
 * of the last token, which distinguishes a late holder from a stranger.
 * conflict.c decides what a lock refuses, in the writer's own transaction.
 * Runs in the daemon on the caller's thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/path.h"
#include "workspace/workspace_int.h"

#define HELD_MAX 10000   /* locks of one workspace */
#define PATHS_MAX 100000 /* paths of one that ever had a lock */

void workspace_lock_done(struct workspace_lock *l)
{
    free(l->path);
    l->path = NULL;
}

void workspace_locks_free(struct workspace_lock *locks, size_t count)
{
    for (size_t i = 0; locks && i < count; i++)
        workspace_lock_done(&locks[i]);
    free(locks);
}

#define LOCK_COLUMNS                                                          \
    "id, path, holder, session, label, fence, acquired_at_ms,"                \
    " expires_at_ms, token_hash"
#define LOCK_HASH 8

static void read_lock(struct store_rows *rows, struct workspace_lock *ret)
{
    memset(ret, 0, sizeof(*ret));
    store_copy(rows, 0, ret->id, sizeof(ret->id));
    ret->path = xstrdup(store_text(rows, 1));
    store_copy(rows, 2, ret->holder, sizeof(ret->holder));
    store_copy(rows, 3, ret->session, sizeof(ret->session));
    store_copy(rows, 4, ret->label, sizeof(ret->label));
    ret->fence = store_int(rows, 5);
    ret->acquired_at_ms = store_int(rows, 6);
    ret->expires_at_ms = store_int(rows, 7);
}

static int is_locked(const struct workspace_lock *l, struct error *err)
{
    char until[32], name[WORKSPACE_SHORT];

    return error_set(err, ERR_LOCKED,
                     "locked by %s until %s, fence %" PRId64 ": %s", l->holder,
                     clock_format_ms(l->expires_at_ms, until), l->fence,
                     workspace_path_short(l->path, name));
}

static int check_ttl(uint32_t ttl_s, struct error *err)
{
    if (ttl_s < LOCK_TTL_MIN_S || ttl_s > LOCK_TTL_MAX_S)
        return error_set(err, ERR_INVALID, "ttl_s must be %u to %u",
                         LOCK_TTL_MIN_S, LOCK_TTL_MAX_S);
    return 0;
}

/* ---- taking ------------------------------------------------------------- */

/* Held ones at, above or below the path stand in the way. */
static int check_free(struct store_tx *tx, const char *id, const char *path,
                      int64_t now, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t held = 0;
    int r = store_query(tx, &rows, err,
                        "SELECT " LOCK_COLUMNS " FROM locks"
                        " WHERE workspace = ?1 AND id <> ''",
                        "t", id);

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        const char *other = store_text(rows, 1);

        if (store_int(rows, 7) <= now)
            continue;
        if (path_below(path, other) || path_below(other, path)) {
            struct workspace_lock l cleanup(workspace_lock_done) = {0};

            read_lock(rows, &l);
            return is_locked(&l, err);
        }
        if (++held >= HELD_MAX)
            return error_set(err, ERR_LIMIT,
                             "there are %d locks in this workspace, the most "
                             "there can be",
                             HELD_MAX);
    }
    return r;
}

/* ret: the path's fence so far, 0 when it never had a lock. */
static int last_fence(struct store_tx *tx, const char *id, const char *path,
                      int64_t *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT fence FROM locks WHERE workspace = ?1"
                      " AND path = ?2",
                      "tt", id, path);

    *ret = r > 0 ? store_int(rows, 0) : 0;
    if (r != 0)
        return MIN(r, 0);
    r = store_one(tx, &rows, err,
                  "SELECT count(*) FROM locks WHERE workspace = ?1", "t", id);
    if (r > 0 && store_int(rows, 0) >= PATHS_MAX)
        return error_set(err, ERR_LIMIT,
                         "%d paths of this workspace have had locks, the most "
                         "that can",
                         PATHS_MAX);
    return MIN(r, 0);
}

static int store_lock(struct workspaces *w, struct store_tx *tx,
                      const struct actor *who, const char *id,
                      const struct workspace_lock *l,
                      const unsigned char hash[32], struct error *err)
{
    char fence[24];
    struct audit_event event = {.action = "lock.acquire",
                                .workspace = id,
                                .object = l->id,
                                .path = l->path,
                                .after = fence};
    int r = store_exec(
        tx, err,
        "INSERT INTO locks (workspace, path, fence, id, token_hash, holder,"
        " session, label, acquired_at_ms, expires_at_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
        " ON CONFLICT (workspace, path) DO UPDATE SET fence = excluded.fence,"
        " id = excluded.id, token_hash = excluded.token_hash,"
        " holder = excluded.holder, session = excluded.session,"
        " label = excluded.label, acquired_at_ms = excluded.acquired_at_ms,"
        " expires_at_ms = excluded.expires_at_ms",
        "ttitbtttii", id, l->path, l->fence, l->id, hash, (size_t)HASH_SIZE,
        l->holder, l->session, l->label, l->acquired_at_ms, l->expires_at_ms);

    (void)snprintf(fence, sizeof(fence), "%" PRId64, l->fence);
    return r < 0 ? r : audit_add(w->audit, tx, who, &event, err);
}

static void fill_lock(struct workspace_lock *l, const struct actor *who,
                      const struct workspace_lock_spec *spec, int64_t now)
{
    ids_make("lock", l->id);
    l->path = xstrdup(spec->path);
    (void)snprintf(l->holder, sizeof(l->holder), "%s", who->key);
    (void)snprintf(l->session, sizeof(l->session), "%s",
                   spec->session ? spec->session : "");
    (void)snprintf(l->label, sizeof(l->label), "%s",
                   spec->label ? spec->label : "");
    l->acquired_at_ms = now;
    l->expires_at_ms = now + 1000 * (int64_t)spec->ttl_s;
}

int workspace_lock(struct workspaces *w, const struct actor *who,
                   const char *id, const struct workspace_lock_spec *spec,
                   struct workspace_lock *ret, char ret_token[65],
                   struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_lock l cleanup(workspace_lock_done) = {0};
    unsigned char hash[HASH_SIZE];
    char token[65];
    int64_t now;
    int r = workspace_enter(w, who, id, ROLE_EDITOR, STORE_WRITE,
                            "taking a lock", &tx, NULL, err);

    if (r == 0)
        r = workspace_path_check(spec->path, err);
    if (r == 0)
        r = check_ttl(spec->ttl_s, err);
    if (r == 0)
        r = workspace_text_check("label", spec->label, LOCK_LABEL_MAX, err);
    if (r == 0)
        r = workspace_text_check("session", spec->session, ID_MAX - 1, err);
    if (r < 0)
        return r;
    now = clock_real_ms(); /* after the wait for our turn to write */
    fill_lock(&l, who, spec, now);
    r = check_free(tx, id, spec->path, now, err);
    if (r == 0)
        r = last_fence(tx, id, spec->path, &l.fence, err);
    if (r < 0)
        return r;
    l.fence++;
    workspace_token_make(token, hash);
    r = store_lock(w, tx, who, id, &l, hash, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0) {
        *ret = l;
        l.path = NULL;
        memcpy(ret_token, token, sizeof(token));
    }
    explicit_bzero(token, sizeof(token));
    return r;
}

int workspace_locks(struct workspaces *w, const struct actor *who,
                    const char *id, struct workspace_lock **ret,
                    size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_lock *locks = NULL;
    size_t count = 0, room = 0;
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "listing locks", &tx, NULL, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT " LOCK_COLUMNS " FROM locks"
                        " WHERE workspace = ?1 AND id <> ''"
                        " AND expires_at_ms > ?2 ORDER BY path",
                        "ti", id, clock_real_ms());
    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        if (count == room) {
            room = room ? 2 * room : 16;
            locks = xrealloc(locks, room * sizeof(*locks));
        }
        read_lock(rows, &locks[count++]);
    }
    if (r < 0) {
        workspace_locks_free(locks, count);
        return r;
    }
    *ret = locks;
    *ret_count = count;
    return 0;
}

/* ---- keeping and giving back -------------------------------------------- */

static int find_lock(struct store_tx *tx, const char *id, const char *lock,
                     const char *token, struct workspace_lock *ret,
                     bool *ret_ours, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    unsigned char hash[HASH_SIZE];
    const void *kept;
    size_t len;
    int r = store_one(tx, &rows, err,
                      "SELECT " LOCK_COLUMNS " FROM locks"
                      " WHERE workspace = ?1 AND id = ?2 AND id <> ''",
                      "tt", id, lock);

    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such lock");
    kept = store_bytes(rows, LOCK_HASH, &len);
    workspace_token_hash(token ? token : "", hash);
    *ret_ours = token && kept && len == sizeof(hash) &&
                hash_equal(kept, hash, sizeof(hash));
    read_lock(rows, ret);
    return 0;
}

static int check_renewable(const struct workspace_lock *l, bool ours,
                           int64_t now, struct error *err)
{
    char until[32];

    if (!ours)
        return is_locked(l, err);
    if (l->expires_at_ms > now)
        return 0;
    (void)error_set(err, ERR_LOCKED, "the lock ran out at %s",
                    clock_format_ms(l->expires_at_ms, until));
    return error_hint(err, "look at the file again, then take a new lock");
}

static int store_renewal(struct workspaces *w, struct store_tx *tx,
                         const struct actor *who, const char *id,
                         const struct workspace_lock *l, struct error *err)
{
    struct audit_event event = {.action = "lock.renew",
                                .workspace = id,
                                .object = l->id,
                                .path = l->path};
    int r = store_exec(tx, err,
                       "UPDATE locks SET expires_at_ms = ?3"
                       " WHERE workspace = ?1 AND path = ?2",
                       "tti", id, l->path, l->expires_at_ms);

    return r < 0 ? r : audit_add(w->audit, tx, who, &event, err);
}

int workspace_lock_renew(struct workspaces *w, const struct actor *who,
                         const char *id, const char *lock, const char *token,
                         uint32_t ttl_s, struct workspace_lock *ret,
                         struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_lock l cleanup(workspace_lock_done) = {0};
    bool ours = false;
    int64_t now;
    int r = workspace_enter(w, who, id, ROLE_EDITOR, STORE_WRITE,
                            "renewing a lock", &tx, NULL, err);

    if (r == 0)
        r = check_ttl(ttl_s, err);
    if (r == 0)
        r = find_lock(tx, id, lock, token, &l, &ours, err);
    now = clock_real_ms();
    if (r == 0)
        r = check_renewable(&l, ours, now, err);
    if (r < 0)
        return r;
    l.expires_at_ms = now + 1000 * (int64_t)ttl_s;
    r = store_renewal(w, tx, who, id, &l, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0) {
        *ret = l;
        l.path = NULL;
    }
    return r;
}

/* Fence and token hash stay behind. */
static int store_release(struct workspaces *w, struct store_tx *tx,
                         const struct actor *who, const char *id,
                         const struct workspace_lock *l, const char *action,
                         struct error *err)
{
    struct audit_event event = {.action = action,
                                .workspace = id,
                                .object = l->id,
                                .path = l->path,
                                .before = l->holder};
    int r = store_exec(tx, err,
                       "UPDATE locks SET id = '', session = '', label = '',"
                       " expires_at_ms = 0 WHERE workspace = ?1"
                       " AND path = ?2",
                       "tt", id, l->path);

    return r < 0 ? r : audit_add(w->audit, tx, who, &event, err);
}

int workspace_unlock(struct workspaces *w, const struct actor *who,
                     const char *id, const char *lock, const char *token,
                     struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_lock l cleanup(workspace_lock_done) = {0};
    bool ours = false;
    int r = workspace_enter(w, who, id, token ? ROLE_EDITOR : ROLE_OWNER,
                            STORE_WRITE, "releasing a lock", &tx, NULL, err);

    if (r == 0)
        r = find_lock(tx, id, lock, token, &l, &ours, err);
    if (r == 0 && token && !ours) {
        r = is_locked(&l, err);
        workspace_refused(w, who, "lock.release", id, l.path, err);
    }
    if (r == 0)
        r = store_release(w, tx, who, id, &l,
                          token ? "lock.release" : "lock.break", err);
    return r < 0 ? r : store_commit(&tx, err);
}
