/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that come in parts, in any order, over as many connections and days
 * as it takes (at most one day between signs of life). Runs in the daemon on
 * workers. Each part is a blob its row refers to; upload_join.c makes one of
 * them all and commits it. What nobody goes on with the collector takes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/uploads_int.h"

#define UPLOADS_MAX 1000 /* of one workspace at a time */

void workspace_upload_done(struct workspace_upload *u)
{
    free(u->path);
    free(u->parts);
    u->path = NULL;
    u->parts = NULL;
    u->part_count = 0;
}

/* ---- finding ------------------------------------------------------------ */

static int no_such(struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "no such upload");
}

int upload_find(struct workspaces *w, struct store_tx *tx,
                const struct actor *who, const char *id,
                struct workspace_upload *ret, struct workspace_row *ret_row,
                struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT workspace, path, size, created_at_ms,"
                      " expires_at_ms FROM uploads WHERE id = ?1"
                      " AND expires_at_ms > ?2",
                      "ti", id, clock_real_ms());
    bool there = r > 0;

    if (r < 0)
        return r;
    *ret = (struct workspace_upload){0};
    if (there) {
        store_copy(rows, 0, ret->workspace, sizeof(ret->workspace));
        ret->size = store_int(rows, 2);
        ret->created_at_ms = store_int(rows, 3);
        ret->expires_at_ms = store_int(rows, 4);
    }
    /* Asked even of none, so that unknown and foreign ids are the same work
     * (I3). */
    r = workspace_access(tx, w, who, ret->workspace, ROLE_EDITOR, ret_row,
                         err);
    if (r == -ERR_NOT_FOUND || (r == 0 && !there))
        return no_such(err);
    if (r < 0)
        return r;
    (void)snprintf(ret->id, sizeof(ret->id), "%s", id);
    ret->path = xstrdup(store_text(rows, 1));
    return 0;
}

int upload_parts(struct store_tx *tx, struct workspace_upload *u,
                 struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t room = 0;
    int r = store_query(tx, &rows, err,
                        "SELECT number, size, sha256 FROM upload_parts"
                        " WHERE upload = ?1 ORDER BY number LIMIT ?2",
                        "ti", u->id, (int64_t)UPLOAD_PARTS_MAX);

    if (r < 0)
        return r;
    while ((r = store_next(rows, err)) > 0) {
        if (u->part_count == room) {
            room = room ? 2 * room : 16;
            u->parts = xrealloc(u->parts, room * sizeof(*u->parts));
        }
        u->parts[u->part_count].number = (uint32_t)store_int(rows, 0);
        u->parts[u->part_count].size = (uint64_t)store_int(rows, 1);
        store_copy(rows, 2, u->parts[u->part_count].sha256, BLOB_NAME);
        u->part_count++;
    }
    return r;
}

int workspace_upload_get(struct workspaces *w, const struct actor *who,
                         const char *upload, struct workspace_upload *ret,
                         struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_upload u cleanup(workspace_upload_done) = {0};
    struct workspace_row row;
    int r = store_begin(w->store, STORE_READ, "reading an upload", &tx, err);

    if (r == 0)
        r = upload_find(w, tx, who, upload, &u, &row, err);
    if (r == 0)
        r = upload_parts(tx, &u, err);
    if (r < 0)
        return r;
    *ret = u;
    u = (struct workspace_upload){0};
    return 0;
}

/* ---- beginning ---------------------------------------------------------- */

int upload_size_check(const struct workspaces *w, uint64_t size,
                      struct error *err)
{
    uint64_t most =
        w->settings.file_bytes ? w->settings.file_bytes : (uint64_t)INT64_MAX;

    if (size <= most)
        return 0;
    return error_set(err, ERR_TOO_LARGE,
                     "a file by parts may have at most %" PRIu64 " bytes",
                     most);
}

int upload_count_check(struct store_tx *tx, const char *workspace,
                       struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT count(*) FROM uploads WHERE workspace = ?1", "t",
                      workspace);

    if (r < 0 || store_int(rows, 0) < UPLOADS_MAX)
        return MIN(r, 0);
    (void)error_set(err, ERR_LIMIT,
                    "the workspace has %d unfinished uploads, the most it may",
                    UPLOADS_MAX);
    return error_hint(err, "complete or abort some of them");
}

int upload_insert(struct store_tx *tx, const struct actor *who,
                  const struct workspace_upload *u, struct error *err)
{
    int r = store_exec(tx, err,
                       "INSERT INTO uploads (id, workspace, path, size,"
                       " created_by, created_at_ms, expires_at_ms)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                       "tttitii", u->id, u->workspace, u->path, u->size,
                       who->key, u->created_at_ms, u->expires_at_ms);

    return MIN(r, 0);
}

static int insert(struct workspaces *w, struct store_tx *tx,
                  const struct actor *who, const struct workspace_upload *u,
                  struct error *err)
{
    struct audit_event event = {.action = "upload.begin",
                                .workspace = u->workspace,
                                .object = u->id,
                                .path = u->path};
    int r = upload_insert(tx, who, u, err);

    return r < 0 ? r : audit_add(w->audit, tx, who, &event, err);
}

int workspace_upload_begin(struct workspaces *w, const struct actor *who,
                           const char *id, const char *path, int64_t size,
                           struct workspace_upload *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_upload u cleanup(workspace_upload_done) = {0};
    struct workspace_row row;
    int r = workspace_path_check(path, err);

    if (r < 0)
        return r;
    if (size < -1)
        return error_set(err, ERR_INVALID, "a size cannot be negative");
    if (size > 0)
        r = upload_size_check(w, (uint64_t)size, err);
    if (r == 0)
        r = workspace_enter(w, who, id, ROLE_EDITOR, STORE_WRITE,
                            "beginning an upload", &tx, &row, err);
    if (r == 0)
        r = upload_count_check(tx, id, err);
    if (r == 0 && size > 0)
        r = workspace_quota_take(w, tx, &row, 0, (uint64_t)size, err);
    if (r < 0)
        return r;
    ids_make("up", u.id);
    memcpy(u.workspace, row.id, sizeof(u.workspace));
    u.path = xstrdup(path);
    u.size = size;
    u.created_at_ms = clock_real_ms();
    u.expires_at_ms = u.created_at_ms + UPLOAD_LIFE_MS;
    r = insert(w, tx, who, &u, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    *ret = u;
    u = (struct workspace_upload){0};
    return 0;
}

/* ---- parts -------------------------------------------------------------- */

int upload_add_up(struct store_tx *tx, const struct workspace_upload *u,
                  uint32_t number, uint64_t *ret_own, uint64_t *ret_all,
                  struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(
        tx, &rows, err,
        "SELECT coalesce(sum(CASE WHEN p.upload = ?2 THEN p.size ELSE 0 END),"
        " 0), coalesce(sum(p.size), 0) FROM upload_parts AS p"
        " JOIN uploads AS u ON u.id = p.upload WHERE u.workspace = ?1"
        " AND NOT (p.upload = ?2 AND p.number = ?3)",
        "tti", u->workspace, u->id, (int64_t)number);

    if (r < 0)
        return r;
    *ret_own = (uint64_t)store_int(rows, 0);
    *ret_all = (uint64_t)store_int(rows, 1);
    return 0;
}

static int check_sizes(struct workspaces *w, struct store_tx *tx,
                       const struct workspace_upload *u,
                       const struct workspace_row *row, uint32_t number,
                       uint64_t size, struct error *err)
{
    uint64_t own, all;
    int r = upload_add_up(tx, u, number, &own, &all, err);

    if (r == 0)
        r = upload_size_check(w, size, err); /* then the sum is a number */
    if (r == 0)
        r = upload_size_check(w, own + size, err);
    if (r < 0)
        return r;
    if (u->size >= 0 && own + size > (uint64_t)u->size)
        return error_set(err, ERR_INVALID,
                         "the parts would have %" PRIu64 " bytes, %" PRId64
                         " were declared",
                         own + size, u->size);
    /* Parts are not in the workspace yet, but they are on our disk. */
    return workspace_quota_take(w, tx, row, all, size, err);
}

int upload_part_insert(struct store_tx *tx, const char *id, uint32_t number,
                       const char *sha256, uint64_t size, struct error *err)
{
    int r = store_exec(tx, err,
                       "INSERT INTO upload_parts (upload, number, sha256,"
                       " size) VALUES (?1, ?2, ?3, ?4)"
                       " ON CONFLICT (upload, number) DO UPDATE SET"
                       " sha256 = excluded.sha256, size = excluded.size",
                       "titi", id, (int64_t)number, sha256, (int64_t)size);

    return MIN(r, 0);
}

static int put_part(struct workspaces *w, struct store_tx *tx,
                    const struct actor *who, const struct workspace_upload *u,
                    uint32_t number, const char *sha256, uint64_t size,
                    struct error *err)
{
    char detail[32];
    struct audit_event event = {.action = "upload.part",
                                .workspace = u->workspace,
                                .object = u->id,
                                .path = u->path,
                                .detail = detail};
    int r = upload_part_insert(tx, u->id, number, sha256, size, err);

    (void)snprintf(detail, sizeof(detail), "part %" PRIu32, number);
    if (r >= 0)
        r = upload_extend(tx, u->id, err);
    return r < 0 ? r : audit_add(w->audit, tx, who, &event, err);
}

int upload_extend(struct store_tx *tx, const char *id, struct error *err)
{
    int r = store_exec(tx, err,
                       "UPDATE uploads SET expires_at_ms = ?2 WHERE id = ?1",
                       "ti", id, clock_real_ms() + UPLOAD_LIFE_MS);

    return MIN(r, 0);
}

int workspace_upload_part(struct workspaces *w, const struct actor *who,
                          const char *upload, uint32_t number,
                          const char *sha256, uint64_t size, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_upload u cleanup(workspace_upload_done) = {0};
    struct workspace_row row;
    int r;

    if (number < 1 || number > UPLOAD_PARTS_MAX)
        return error_set(err, ERR_INVALID, "parts are numbered from 1 to %u",
                         UPLOAD_PARTS_MAX);
    r = store_begin(w->store, STORE_WRITE, "storing a part", &tx, err);
    if (r == 0)
        r = upload_find(w, tx, who, upload, &u, &row, err);
    if (r == 0)
        r = check_sizes(w, tx, &u, &row, number, size, err);
    if (r == 0)
        r = put_part(w, tx, who, &u, number, sha256, size, err);
    return r < 0 ? r : store_commit(&tx, err);
}

int workspace_upload_abort(struct workspaces *w, const struct actor *who,
                           const char *upload, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_upload u cleanup(workspace_upload_done) = {0};
    struct audit_event event = {.action = "upload.abort"};
    struct workspace_row row;
    int r = store_begin(w->store, STORE_WRITE, "aborting an upload", &tx, err);

    if (r == 0)
        r = upload_find(w, tx, who, upload, &u, &row, err);
    if (r == 0)
        r = upload_remove(tx, u.id, err);
    event.workspace = u.workspace;
    event.object = u.id;
    event.path = u.path;
    if (r == 0)
        r = audit_add(w->audit, tx, who, &event, err);
    return r < 0 ? r : store_commit(&tx, err);
}

int upload_remove(struct store_tx *tx, const char *id, struct error *err)
{
    int r = store_exec(tx, err, "DELETE FROM uploads WHERE id = ?1", "t", id);

    return MIN(r, 0);
}
