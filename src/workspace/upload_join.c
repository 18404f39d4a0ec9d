/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an upload become one file. Runs in the daemon on a worker.
 * Read from verified blobs, written as a blob of its own with flat memory,
 * and committed in the transaction that ends the upload: afterwards there is
 * the file and no upload, before it the upload and no file.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workspace/uploads_int.h"

#define PIECE ((size_t)256 * 1024)

void upload_whole_done(struct upload_whole *whole)
{
    if (whole->pinned)
        blob_release(whole->blobs, whole->sha256);
}

/* The upload as it is now, its life long enough for what follows. */
static int load(struct workspaces *w, const struct actor *who,
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
        r = upload_extend(tx, ret->id, err);
    if (r == 0)
        blob_owner(row.tenant, ret_owner);
    return r < 0 ? r : store_commit(&tx, err);
}

static int check_parts(const struct workspace_upload *u, struct error *err)
{
    uint64_t size = 0;

    for (size_t i = 0; i < u->part_count; i++) {
        if (u->parts[i].number != i + 1)
            return error_set(err, ERR_INVALID, "part %zu is missing", i + 1);
        size += u->parts[i].size;
    }
    if (u->part_count == 0 && u->size != 0)
        return error_set(err, ERR_INVALID, "no part has come yet");
    if (u->size >= 0 && size != (uint64_t)u->size)
        return error_set(err, ERR_INVALID,
                         "the parts have %" PRIu64 " bytes, %" PRId64
                         " were declared",
                         size, u->size);
    return 0;
}

/* ---- joining ------------------------------------------------------------ */

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

/* ---- the end of an upload ----------------------------------------------- */

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
    int r = load(w, who, upload, &u, owner, err);

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
