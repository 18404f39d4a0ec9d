/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipart uploads: parts in any order, over any number of connections, with
 * at most a day between two of them. Runs in the daemon on workers. Each part
 * is a blob that its row references. Completing reads the parts from verified
 * blobs, writes them as one blob with constant memory, and commits the file in
 * the transaction that removes the upload. The collector removes abandoned
 * uploads. Uploads to the library (library_uploads.c) use the same rows and
 * the same steps.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workspace/uploads_int.h"

#define UPLOADS_MAX 1000 /* of one workspace at a time */
#define PIECE ((size_t)256 * 1024)

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

/* ---- steps that uploads of the library share -----------------------------
 */

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

int upload_audit(struct workspaces *w, struct store_tx *tx,
                 const struct actor *who, const struct workspace_upload *u,
                 const char *shown, const char *action, const char *detail,
                 struct error *err)
{
    const struct audit_event event = {.action = action,
                                      .workspace = u->workspace,
                                      .object = shown ? shown : u->id,
                                      .path = u->path,
                                      .detail = detail};

    return audit_add(w->audit, tx, who, &event, err);
}

static int check_count(struct store_tx *tx, const char *workspace,
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

int upload_start(struct workspaces *w, struct store_tx *tx,
                 const struct actor *who, const struct workspace_row *row,
                 const char *shown, int64_t life_ms,
                 struct workspace_upload *u, struct error *err)
{
    int r = check_count(tx, row->id, err);

    if (r == 0 && u->size > 0)
        r = workspace_quota_take(w, tx, row, 0, (uint64_t)u->size, err);
    if (r < 0)
        return r;
    ids_make("up", u->id);
    memcpy(u->workspace, row->id, sizeof(u->workspace));
    u->created_at_ms = clock_real_ms();
    u->expires_at_ms = u->created_at_ms + life_ms;
    r = store_exec(tx, err,
                   "INSERT INTO uploads (id, workspace, path, size,"
                   " created_by, created_at_ms, expires_at_ms)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                   "tttitii", u->id, u->workspace, u->path, u->size, who->key,
                   u->created_at_ms, u->expires_at_ms);
    if (r < 0)
        return r;
    return upload_audit(w, tx, who, u, shown, "upload.begin", NULL, err);
}

/* Bytes in other parts: of this upload, and of all uploads of the workspace.
 */
static int sum_parts(struct store_tx *tx, const struct workspace_upload *u,
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

int upload_put_part(struct workspaces *w, struct store_tx *tx,
                    const struct workspace_row *row,
                    const struct workspace_upload *u,
                    const struct upload_part *part, uint64_t spare,
                    struct error *err)
{
    uint64_t own, all, most = (uint64_t)u->size + spare;
    int r = sum_parts(tx, u, part->number, &own, &all, err);

    if (r == 0 && spare == 0) {
        r = upload_size_check(w, part->size, err); /* then the sum is exact */
        if (r == 0)
            r = upload_size_check(w, own + part->size, err);
    }
    if (r < 0)
        return r;
    if (u->size >= 0 && (part->size > most || own > most - part->size))
        return error_set(err, ERR_INVALID,
                         "the parts would have %" PRIu64 " bytes, %" PRId64
                         " were declared",
                         own + part->size, u->size);
    /* Parts are not in the workspace yet, but they are on our disk. */
    r = workspace_quota_take(w, tx, row, all, part->size, err);
    if (r == 0)
        r = store_exec(tx, err,
                       "INSERT INTO upload_parts (upload, number, sha256,"
                       " size) VALUES (?1, ?2, ?3, ?4)"
                       " ON CONFLICT (upload, number) DO UPDATE SET"
                       " sha256 = excluded.sha256, size = excluded.size",
                       "titi", u->id, (int64_t)part->number, part->sha256,
                       (int64_t)part->size);
    return MIN(r, 0);
}

int upload_extend(struct store_tx *tx, const char *id, int64_t life_ms,
                  struct error *err)
{
    int r = store_exec(tx, err,
                       "UPDATE uploads SET expires_at_ms = ?2"
                       " WHERE id = ?1 AND expires_at_ms < ?2",
                       "ti", id, clock_real_ms() + life_ms);

    return MIN(r, 0);
}

int upload_sum_check(const struct workspace_upload *u, struct error *err)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < u->part_count; i++)
        sum += u->parts[i].size;
    if (u->size < 0 || sum == (uint64_t)u->size)
        return 0;
    return error_set(err, ERR_INVALID,
                     "the parts have %" PRIu64 " bytes, %" PRId64
                     " were declared",
                     sum, u->size);
}

int upload_remove(struct store_tx *tx, const char *id, struct error *err)
{
    int r = store_exec(tx, err, "DELETE FROM uploads WHERE id = ?1", "t", id);

    return MIN(r, 0);
}

/* ---- joining ------------------------------------------------------------ */

void upload_whole_done(struct upload_whole *whole)
{
    if (whole->pinned)
        blob_release(whole->blobs, whole->sha256);
}

struct joiner {
    struct workspaces *w;
    struct blob_writer *writer; /* NULL: only to be hashed */
    EVP_MD_CTX *md5;            /* NULL: not asked for */
};

static void joiner_done(struct joiner *j)
{
    blob_abort(&j->writer);
    EVP_MD_CTX_free(j->md5);
}

static int begin_md5(struct joiner *j, struct error *err)
{
    j->md5 = EVP_MD_CTX_new();
    if (!j->md5 || EVP_DigestInit_ex(j->md5, EVP_md5(), NULL) != 1)
        return error_set(err, ERR_UNAVAILABLE,
                         "this service cannot check an MD5");
    return 0;
}

static int too_short(struct error *err)
{
    return error_set(err, ERR_INTERNAL, "a part is shorter than it was");
}

/* Each piece is read once for both. */
static int append_pieces(struct joiner *j, int fd, uint64_t size,
                         struct error *err)
{
    char *piece cleanup(mem_free) = xmalloc(PIECE);
    uint64_t at = 0;
    int r = 0;

    while (at < size && r == 0) {
        ssize_t n =
            pread(fd, piece, MIN((uint64_t)PIECE, size - at), (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, ERR_INTERNAL, errno, "cannot read a part");
        if (n == 0)
            return too_short(err);
        if (EVP_DigestUpdate(j->md5, piece, (size_t)n) != 1)
            return error_set(err, ERR_INTERNAL, "cannot add to an MD5");
        if (j->writer)
            r = blob_write(j->writer, piece, (size_t)n, err);
        at += (uint64_t)n;
    }
    return r;
}

static int append(struct joiner *j, const char *sha256, uint64_t size,
                  struct error *err)
{
    uint64_t before = j->writer ? blob_written(j->writer) : 0;
    int fd cleanup(fd_close) = -1;
    int r = blob_open(j->w->blobs, sha256, &fd, NULL, err);

    if (r == 0 && j->md5)
        return append_pieces(j, fd, size, err);
    if (r == 0)
        r = blob_write_fd(j->writer, fd, size, err);
    if (r == 0 && blob_written(j->writer) - before != size)
        r = too_short(err);
    return r;
}

/* A single part is the whole; its own row refers to it until the end. */
static int finish_join(struct joiner *j, const struct workspace_upload *u,
                       struct upload_whole *ret, struct error *err)
{
    int r = 0;

    if (j->md5 && EVP_DigestFinal_ex(j->md5, ret->md5, NULL) != 1)
        return error_set(err, ERR_INTERNAL, "cannot finish an MD5");
    if (!j->writer) {
        assert(u->parts); /* none at all was refused before */
        memcpy(ret->sha256, u->parts[0].sha256, BLOB_NAME);
        ret->size = u->parts[0].size;
        return 0;
    }
    r = blob_finish(&j->writer, ret->sha256, &ret->size, err);
    ret->pinned = r == 0;
    return r;
}

int upload_join(struct workspaces *w, const struct workspace_upload *u,
                const char *owner, bool with_md5, struct upload_whole *ret,
                struct error *err)
{
    struct joiner j cleanup(joiner_done) = {.w = w};
    bool single = u->part_count == 1;
    int r = with_md5 ? begin_md5(&j, err) : 0;

    if (r == 0 && !single)
        r = blob_begin(w->blobs, owner, &j.writer, err);
    for (size_t i = 0; i < u->part_count && r == 0; i++)
        if (j.writer || j.md5)
            r = append(&j, u->parts[i].sha256, u->parts[i].size, err);
    return r < 0 ? r : finish_join(&j, u, ret, err);
}

/* ---- uploads to a workspace ----------------------------------------------
 */

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
    u.path = xstrdup(path);
    u.size = size;
    if (r == 0)
        r = upload_start(w, tx, who, &row, NULL, UPLOAD_LIFE_MS, &u, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    *ret = u;
    u = (struct workspace_upload){0};
    return 0;
}

int workspace_upload_part(struct workspaces *w, const struct actor *who,
                          const char *upload, uint32_t number,
                          const char *sha256, uint64_t size, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_upload u cleanup(workspace_upload_done) = {0};
    const struct upload_part part = {
        .number = number, .sha256 = sha256, .size = size};
    struct workspace_row row;
    char detail[32];
    int r;

    if (number < 1 || number > UPLOAD_PARTS_MAX)
        return error_set(err, ERR_INVALID, "parts are numbered from 1 to %u",
                         UPLOAD_PARTS_MAX);
    r = store_begin(w->store, STORE_WRITE, "storing a part", &tx, err);
    if (r == 0)
        r = upload_find(w, tx, who, upload, &u, &row, err);
    if (r == 0)
        r = upload_put_part(w, tx, &row, &u, &part, 0, err);
    if (r == 0)
        r = upload_extend(tx, u.id, UPLOAD_LIFE_MS, err);
    (void)snprintf(detail, sizeof(detail), "part %" PRIu32, number);
    if (r == 0)
        r = upload_audit(w, tx, who, &u, NULL, "upload.part", detail, err);
    return r < 0 ? r : store_commit(&tx, err);
}

int workspace_upload_abort(struct workspaces *w, const struct actor *who,
                           const char *upload, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_upload u cleanup(workspace_upload_done) = {0};
    struct workspace_row row;
    int r = store_begin(w->store, STORE_WRITE, "aborting an upload", &tx, err);

    if (r == 0)
        r = upload_find(w, tx, who, upload, &u, &row, err);
    if (r == 0)
        r = upload_remove(tx, u.id, err);
    if (r == 0)
        r = upload_audit(w, tx, who, &u, NULL, "upload.abort", NULL, err);
    return r < 0 ? r : store_commit(&tx, err);
}

/* ---- completing --------------------------------------------------------- */

/* Reads the upload and its parts, and extends its life for what follows. */
static int load_complete(struct workspaces *w, const struct actor *who,
                         const char *upload, struct workspace_upload *ret,
                         char ret_owner[BLOB_OWNER], struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r =
        store_begin(w->store, STORE_WRITE, "completing an upload", &tx, err);

    if (r == 0)
        r = upload_find(w, tx, who, upload, ret, &row, err);
    if (r == 0)
        r = upload_parts(tx, ret, err);
    if (r == 0)
        r = upload_extend(tx, ret->id, UPLOAD_LIFE_MS, err);
    if (r == 0)
        blob_owner(row.tenant, ret_owner);
    return r < 0 ? r : store_commit(&tx, err);
}

static int check_parts(const struct workspace_upload *u, struct error *err)
{
    for (size_t i = 0; i < u->part_count; i++)
        if (u->parts[i].number != i + 1)
            return error_set(err, ERR_INVALID, "part %zu is missing", i + 1);
    if (u->part_count == 0 && u->size != 0)
        return error_set(err, ERR_INVALID, "no part has come yet");
    return upload_sum_check(u, err);
}

/* Are the parts still those that were joined? Their blobs are kept by rows,
 * so this also says that a single part is still there. */
static int check_same(struct store_tx *tx, const struct workspace_upload *was,
                      struct error *err)
{
    struct workspace_upload now cleanup(workspace_upload_done) = {0};
    int r;

    memcpy(now.id, was->id, sizeof(now.id));
    r = upload_parts(tx, &now, err);
    if (r < 0)
        return r;
    if (now.part_count == was->part_count) {
        size_t i = 0;

        while (i < now.part_count &&
               strcmp(now.parts[i].sha256, was->parts[i].sha256) == 0)
            i++;
        if (i == now.part_count)
            return 0;
    }
    return error_set(err, ERR_CONFLICT,
                     "the upload got another part while it was completed");
}

static int finish(struct workspaces *w, const struct actor *who,
                  const struct workspace_upload *was,
                  const struct upload_whole *whole,
                  const struct workspace_commit_spec *spec,
                  struct workspace_commit *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_upload now cleanup(workspace_upload_done) = {0};
    struct workspace_change change = {.kind = CHANGE_PUT,
                                      .path = was->path,
                                      .sha256 = whole->sha256,
                                      .size = whole->size,
                                      .as_was = true};
    struct workspace_commit_spec own =
        spec ? *spec : (struct workspace_commit_spec){0};
    struct workspace_commit commit = {0};
    struct workspace_row row;
    int r;

    if (own.changes) {
        change.executable = own.changes->executable;
        change.as_was = false;
    }
    own.kind = own.kind ? own.kind : "upload";
    own.action = own.action ? own.action : "upload.complete";
    own.changes = &change;
    own.count = 1;
    r = workspace_govern_commit(w, who, was->workspace, &own, err);
    if (r == 0)
        r = store_begin(w->store, STORE_WRITE, "completing an upload", &tx,
                        err);
    if (r == 0)
        r = upload_find(w, tx, who, was->id, &now, &row, err);
    if (r == 0)
        r = check_same(tx, was, err);
    if (r == 0)
        r = workspace_commit_in(w, tx, who, &row, &own, &commit, err);
    if (r == 0)
        r = upload_remove(tx, was->id, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0) {
        workspace_commit_done(&commit);
        return r;
    }
    if (commit.id[0])
        workspaces_committed(w);
    *ret = commit;
    return 0;
}

int workspace_upload_complete(struct workspaces *w, const struct actor *who,
                              const char *upload, const char *sha256,
                              const struct workspace_commit_spec *spec,
                              struct workspace_commit *ret, struct error *err)
{
    struct workspace_upload u cleanup(workspace_upload_done) = {0};
    struct upload_whole whole cleanup(upload_whole_done) = {.blobs = w->blobs};
    char owner[BLOB_OWNER] = "";
    int r = load_complete(w, who, upload, &u, owner, err);

    if (r == 0)
        r = check_parts(&u, err);
    if (r == 0)
        r = upload_join(w, &u, owner, false, &whole, err);
    if (r < 0)
        return r;
    if (sha256 && strcmp(sha256, whole.sha256) != 0)
        return error_set(err, ERR_INVALID,
                         "the parts together have the SHA-256 %s, not the one "
                         "declared",
                         whole.sha256);
    return finish(w, who, &u, &whole, spec, ret, err);
}
