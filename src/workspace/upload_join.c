/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an upload become one file. Runs in the daemon on a worker.
 * Read from verified blobs, written as a blob of its own with flat memory,
 * and committed in the transaction that ends the upload: afterwards there is
 * the file and no upload, before it the upload and no file.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workspace/uploads_int.h"

/* What the parts gave; pinned if they were joined. */
struct whole {
    struct blobs *blobs;
    char sha256[BLOB_NAME];
    uint64_t size;
    bool pinned;
};

static void whole_done(struct whole *whole)
{
    if (whole->pinned)
        blob_release(whole->blobs, whole->sha256);
}

/* The upload as it is now, its life long enough for what follows. */
static int load(struct workspaces *w, const struct actor *who,
                const char *upload, struct workspace_upload *ret,
                char ret_domain[BLOB_DOMAIN], struct error *err)
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
        blob_domain(row.tenant, ret_domain);
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

static int append(struct workspaces *w, struct blob_writer *writer,
                  const char *sha256, uint64_t size, struct error *err)
{
    uint64_t before = blob_written(writer);
    int fd cleanup(fd_close) = -1;
    int r = blob_open(w->blobs, sha256, &fd, NULL, err);

    if (r == 0)
        r = blob_write_fd(writer, fd, size, err);
    if (r == 0 && blob_written(writer) - before != size)
        r = error_set(err, ERR_INTERNAL, "a part is shorter than it was");
    return r;
}

static int join(struct workspaces *w, const struct workspace_upload *u,
                const char *domain, struct whole *ret, struct error *err)
{
    struct blob_writer *writer cleanup(blob_abort) = NULL;
    int r;

    if (u->part_count == 1) { /* its own row refers to it until the end */
        memcpy(ret->sha256, u->parts[0].sha256, BLOB_NAME);
        ret->size = u->parts[0].size;
        return 0;
    }
    r = blob_begin(w->blobs, domain, &writer, err);
    for (size_t i = 0; i < u->part_count && r == 0; i++)
        r = append(w, writer, u->parts[i].sha256, u->parts[i].size, err);
    if (r == 0)
        r = blob_finish(&writer, ret->sha256, &ret->size, err);
    if (r == 0)
        ret->pinned = true;
    return r;
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
                  const struct whole *whole,
                  const struct workspace_commit_spec *spec,
                  struct workspace_commit *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_upload now cleanup(workspace_upload_done) = {0};
    struct workspace_change change = {.kind = CHANGE_PUT,
                                      .path = was->path,
                                      .sha256 = whole->sha256,
                                      .size = whole->size};
    struct workspace_commit_spec own =
        spec ? *spec : (struct workspace_commit_spec){0};
    struct workspace_commit commit = {0};
    struct workspace_row row;
    int r =
        store_begin(w->store, STORE_WRITE, "completing an upload", &tx, err);

    own.kind = own.kind ? own.kind : "upload";
    own.action = own.action ? own.action : "upload.complete";
    own.changes = &change;
    own.count = 1;
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
    struct whole whole cleanup(whole_done) = {.blobs = w->blobs};
    char domain[BLOB_DOMAIN] = "";
    int r = load(w, who, upload, &u, domain, err);

    if (r == 0)
        r = check_parts(&u, err);
    if (r == 0)
        r = join(w, &u, domain, &whole, err);
    if (r < 0)
        return r;
    if (sha256 && strcmp(sha256, whole.sha256) != 0)
        return error_set(err, ERR_INVALID,
                         "the parts together have the SHA-256 %s, not the one "
                         "declared",
                         whole.sha256);
    return finish(w, who, &u, &whole, spec, ret, err);
}
