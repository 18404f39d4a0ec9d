/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace a tenant's library lives in: an ordinary one, made with the
 * first file, that says of itself what it was made for. Runs in the daemon,
 * inside the caller's transaction. Two callers cannot make two: looking and
 * making are one write transaction, and writers take turns.
 *
 * Which one it is would mean to look at all workspaces of the tenant, so the
 * last answer is remembered, and asked after each time.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/library_int.h"

#define LIBRARY_TITLE "Files"
#define DAY_S 86400

/* ---- what is remembered ------------------------------------------------- */

static struct library_memo *memo_of(struct workspaces *w, const char *tenant)
{
    uint32_t hash = 2166136261u;

    for (const char *p = tenant; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    return &w->libraries[hash % LIBRARY_MEMOS];
}

static bool recall(struct workspaces *w, const char *tenant, char ret[ID_MAX])
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);
    const struct library_memo *memo = memo_of(w, tenant);

    if (!memo->id[0] || strcmp(memo->tenant, tenant) != 0)
        return false;
    memcpy(ret, memo->id, ID_MAX);
    return true;
}

static void remember(struct workspaces *w, const char *tenant, const char *id)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);
    struct library_memo *memo = memo_of(w, tenant);

    (void)snprintf(memo->tenant, sizeof(memo->tenant), "%s", tenant);
    (void)snprintf(memo->id, sizeof(memo->id), "%s", id);
}

/* ---- finding and making ------------------------------------------------- */

/* 1, 0 or -code. */
static int still_is(struct store_tx *tx, const char *id, const char *tenant,
                    struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    return store_one(tx, &rows, err,
                     "SELECT 1 FROM workspaces WHERE id = ?1 AND tenant = ?2"
                     " AND made_for = ?3 AND deleted_at_ms = 0",
                     "ttt", id, tenant, LIBRARY_MADE_FOR);
}

/* 1, 0 or -code. There can be two of them once a deleted one was brought
 * back; files of both are found, and new ones go to the older. */
static int find_id(struct workspaces *w, struct store_tx *tx,
                   const char *tenant, char ret[ID_MAX], struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = 0;

    if (recall(w, tenant, ret))
        r = still_is(tx, ret, tenant, err);
    if (r != 0)
        return r;
    r = store_one(tx, &rows, err,
                  "SELECT id FROM workspaces WHERE tenant = ?1"
                  " AND made_for = ?2 AND deleted_at_ms = 0"
                  " ORDER BY created_at_ms, id LIMIT 1",
                  "tt", tenant, LIBRARY_MADE_FOR);
    if (r <= 0)
        return r;
    store_copy(rows, 0, ret, ID_MAX);
    remember(w, tenant, ret);
    return 1;
}

int library_home_find(struct workspaces *w, struct store_tx *tx,
                      const struct actor *who, struct workspace_row *ret,
                      struct error *err)
{
    char id[ID_MAX] = "";
    int r = find_id(w, tx, who->tenant, id, err);

    /* Asked even of none: the same work either way (I3). */
    if (r >= 0)
        r = workspace_access(tx, w, who, id, ROLE_EDITOR, ret, err);
    return r;
}

/* Somebody narrowed the library's members down. */
static int not_shared(struct workspaces *w, const struct actor *who,
                      const char *id, struct error *err)
{
    (void)error_set(err, ERR_FORBIDDEN,
                    "the tenant's library is not shared with this key");
    workspace_refused(w, who, "workspace.access", id, NULL, err);
    return -ERR_FORBIDDEN;
}

/* Whoever removes a file of it means the bytes too, which would else be kept
 * and counted for ever: they stay as long as a deleted workspace does. */
static int make(struct workspaces *w, struct store_tx *tx,
                const struct actor *who, char ret[ID_MAX], struct error *err)
{
    const struct workspace_spec spec = {.name = LIBRARY_TITLE,
                                        .made_for = LIBRARY_MADE_FOR};
    int64_t days = ((int64_t)w->settings.restore_window_s + DAY_S - 1) / DAY_S;
    struct workspace_info info;
    int r = workspace_create_in(w, tx, who, &spec, &info, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE workspaces SET keep_days = ?2 WHERE id = ?1",
                       "ti", info.id, MAX(days, (int64_t)1));
    if (r < 0)
        return r;
    memcpy(ret, info.id, ID_MAX);
    return 0;
}

int library_home_make(struct workspaces *w, struct store_tx *tx,
                      const struct actor *who, struct workspace_row *ret,
                      struct error *err)
{
    char id[ID_MAX];
    int r = find_id(w, tx, who->tenant, id, err);

    if (r == 0 && workspace_bounded(who)) /* as if there were one */
        return not_shared(w, who, "", err);
    if (r == 0)
        r = make(w, tx, who, id, err);
    if (r < 0)
        return r;
    r = workspace_access(tx, w, who, id, ROLE_EDITOR, ret, err);
    return r == -ERR_NOT_FOUND ? not_shared(w, who, id, err) : r;
}

/* ---- before a body is read ---------------------------------------------- */

/* 1: it is there, and open to the actor. */
static int look(struct workspaces *w, const struct actor *who,
                struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    char id[ID_MAX];
    int r =
        store_begin(w->store, STORE_READ, "looking for the library", &tx, err);

    if (r == 0)
        r = find_id(w, tx, who->tenant, id, err);
    if (r <= 0)
        return r;
    r = workspace_access(tx, w, who, id, ROLE_EDITOR, &row, err);
    if (r == -ERR_NOT_FOUND)
        return not_shared(w, who, id, err);
    return r < 0 ? r : 1;
}

int library_blob_owner(struct workspaces *w, const struct actor *who,
                       char ret[BLOB_OWNER], struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r = look(w, who, err);

    if (r == 0) {
        r = store_begin(w->store, STORE_WRITE, "making the library", &tx, err);
        if (r == 0)
            r = library_home_make(w, tx, who, &row, err);
        if (r == 0)
            r = store_commit(&tx, err);
    }
    if (r < 0)
        return r;
    blob_owner(who->tenant, ret);
    return 0;
}

/* ---- going to another tenant -------------------------------------------- */

int library_leave(struct store_tx *tx, const struct workspace_row *row,
                  struct error *err)
{
    int r;

    if (strcmp(row->made_for, LIBRARY_MADE_FOR) != 0)
        return 0;
    r = store_exec(tx, err,
                   "DELETE FROM library WHERE file IN (SELECT id FROM files"
                   " WHERE workspace = ?1)",
                   "t", row->id);
    if (r >= 0)
        r = store_exec(tx, err,
                       "UPDATE workspaces SET made_for = '' WHERE id = ?1",
                       "t", row->id);
    return MIN(r, 0);
}
