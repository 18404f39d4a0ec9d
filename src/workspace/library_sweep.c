/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes what has expired in libraries: files, incomplete multipart uploads,
 * and rows of uploads that ended long ago. Runs in a collection, with one
 * transaction each, so that no request waits for it. An expired file is absent
 * from every answer of the library even before this removes it.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/library_int.h"

#define REMEMBERED_MS (24 * 3600 * 1000ll) /* an upload after its end */
#define STEP 500                           /* rows in a transaction */

/* ---- files -------------------------------------------------------------- */

struct expired {
    int64_t at_ms; /* the last one looked at; where to go on */
    char file[ID_MAX];
    char workspace[ID_MAX];
    char *path; /* owned */
    bool alive;
};

static void expired_done(struct expired *e)
{
    free(e->path);
}

/* 1, 0 or -code. */
static int next_expired(struct store_tx *tx, int64_t now_ms, struct expired *e,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(
        tx, &rows, err,
        "SELECT l.expires_at_ms, l.file, f.workspace, f.path, f.alive"
        " FROM library AS l JOIN files AS f ON f.id = l.file"
        " JOIN workspaces AS w ON w.id = f.workspace"
        " WHERE l.expires_at_ms > 0 AND l.expires_at_ms <= ?1"
        " AND l.expires_at_ms >= ?2"
        " AND (l.expires_at_ms > ?2 OR l.file > ?3) AND w.deleted_at_ms = 0"
        " ORDER BY l.expires_at_ms, l.file LIMIT 1",
        "iit", now_ms, e->at_ms, e->file);

    if (r <= 0)
        return r;
    e->at_ms = store_int(rows, 0);
    store_copy(rows, 1, e->file, sizeof(e->file));
    store_copy(rows, 2, e->workspace, sizeof(e->workspace));
    free(e->path);
    e->path = xstrdup(store_text(rows, 3));
    e->alive = store_int(rows, 4) != 0;
    return 1;
}

/* It was deleted in the workspace before it expired. */
static int forget_library_row(struct store_tx *tx, const char *file,
                              struct error *err)
{
    int r =
        store_exec(tx, err, "DELETE FROM library WHERE file = ?1", "t", file);

    return MIN(r, 0);
}

static int delete_expired(struct workspaces *w, struct store_tx *tx,
                          const struct expired *e, struct error *err)
{
    struct workspace_row row;
    struct actor service = {.tenant = row.tenant, .key = "glovebox"};
    int r = workspace_row_get(tx, e->workspace, &row, err);

    if (r == 0)
        r = library_take(w, tx, &service, &row, e->file, e->path,
                         "file.expire", err);
    return r;
}

/* 1: there may be more. One under a lock waits for another round. */
static int sweep_file(struct workspaces *w, int64_t now_ms, struct expired *e,
                      uint64_t *ret_removed, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(w->store, STORE_WRITE, "removing an expired file", &tx,
                        err);

    if (r == 0)
        r = next_expired(tx, now_ms, e, err);
    if (r <= 0)
        return r;
    r = e->alive ? delete_expired(w, tx, e, err)
                 : forget_library_row(tx, e->file, err);
    if (r == -ERR_LOCKED)
        return 1;
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    if (e->alive) {
        workspaces_committed(w);
        ++*ret_removed;
    }
    return 1;
}

static int sweep_files(struct workspaces *w, uint64_t *ret_removed,
                       struct error *err)
{
    struct expired e cleanup(expired_done) = {0};
    int64_t now_ms = clock_real_ms();
    int r;

    do
        r = sweep_file(w, now_ms, &e, ret_removed, err);
    while (r > 0 && !upkeep_wait(w->upkeep, 0));
    return MIN(r, 0);
}

/* ---- uploads ------------------------------------------------------------ */

/* The parts of one that is being completed live on; see library_uploads.c. */
static int next_upload(struct workspaces *w, int64_t now_ms,
                       struct library_parts *ret, char ret_tenant[64],
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(w->store, STORE_READ, "looking for expired uploads",
                        &tx, err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT l.id, l.upload, l.tenant"
                      " FROM library_uploads AS l"
                      " JOIN uploads AS u ON u.id = l.upload"
                      " WHERE l.expires_at_ms <= ?1 AND l.status = ?2"
                      " AND u.expires_at_ms <= ?1 LIMIT 1",
                      "ii", now_ms, (int64_t)LIBRARY_PENDING);
    if (r <= 0)
        return r;
    store_copy(rows, 0, ret->u.id, sizeof(ret->u.id));
    store_copy(rows, 1, ret->under.id, sizeof(ret->under.id));
    store_copy(rows, 2, ret_tenant, 64);
    return 1;
}

/* 1: there may be more. */
static int sweep_upload(struct workspaces *w, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_parts p = {0};
    char tenant[64] = "";
    struct actor service = {.tenant = tenant, .key = "glovebox"};
    struct audit_event event = {.action = "upload.expire", .object = p.u.id};
    int r = next_upload(w, clock_real_ms(), &p, tenant, err);

    if (r <= 0)
        return r;
    r = store_begin(w->store, STORE_WRITE, "dropping an upload", &tx, err);
    if (r == 0)
        r = library_parts_end(tx, &p, LIBRARY_EXPIRED, NULL, err);
    if (r == 0)
        r = audit_add(w->audit, tx, &service, &event, err);
    if (r == 0)
        r = store_commit(&tx, err);
    return r == -ERR_CONFLICT || r == 0 ? 1 : r;
}

/* Rows removed, or -code. */
static int forget_uploads(struct workspaces *w, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int removed;
    int r = store_begin(w->store, STORE_WRITE, "forgetting uploads", &tx, err);

    if (r < 0)
        return r;
    removed = store_exec(tx, err,
                         "DELETE FROM library_uploads WHERE id IN (SELECT id"
                         " FROM library_uploads WHERE expires_at_ms <= ?1"
                         " LIMIT ?2)",
                         "ii", clock_real_ms() - REMEMBERED_MS, (int64_t)STEP);
    if (removed <= 0)
        return removed;
    r = store_commit(&tx, err);
    return r < 0 ? r : removed;
}

int library_sweep(struct workspaces *w, uint64_t *ret_removed,
                  struct error *err)
{
    uint64_t removed = 0;
    int r = sweep_files(w, &removed, err);

    if (r < 0)
        return r;
    do
        r = sweep_upload(w, err);
    while (r > 0 && !upkeep_wait(w->upkeep, 0));
    if (r < 0)
        return r;
    do
        r = forget_uploads(w, err);
    while (r == STEP && !upkeep_wait(w->upkeep, 0));
    if (r < 0)
        return r;
    *ret_removed = removed;
    return 0;
}
