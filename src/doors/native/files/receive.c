/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a client into the blob store, in pieces: never held whole, pinned
 * when the function returns, and durable with the commit that refers to them.
 * The collector removes what no commit refers to. Also
 * POST /api/workspaces/{ws}/files: a form with several files, stored as one
 * commit or not at all. Runs on a worker of the daemon.
 */
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"
#include "doors/native/native.h"

ssize_t native_receive_read(void *ctx, void *bytes, size_t len,
                            struct error *err)
{
    struct doors_call *call = ctx;

    return http_body_read(call->http, bytes, len,
                          call->doors->conf->upload_bytes, err);
}

/* Fills the buffer before passing it on, for fewer and larger writes. */
static ssize_t read_chunk(http_read_fn *read, void *ctx, char *bytes,
                          struct error *err)
{
    size_t have = 0;

    while (have < NATIVE_CHUNK) {
        ssize_t n = read(ctx, bytes + have, NATIVE_CHUNK - have, err);

        if (n < 0)
            return n;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

int native_receive_from(struct doors_call *call, const char *workspace,
                        http_read_fn *read, void *ctx, struct native_blob *ret,
                        struct error *err)
{
    struct blob_writer *writer cleanup(blob_abort) = NULL;
    struct blobs *blobs = call->doors->core->blobs;
    char *bytes cleanup(mem_free) = xmalloc(NATIVE_CHUNK);
    ssize_t n = 0;
    int r = 0;

    if (!ret->domain[0])
        r = workspace_blob_owner(call->doors->workspaces, workspace,
                                 ret->domain, err);
    if (r == 0)
        r = blob_begin(blobs, ret->domain, &writer, err);
    while (r == 0) {
        n = read_chunk(read, ctx, bytes, err);
        if (n <= 0)
            break;
        r = blob_write(writer, bytes, (size_t)n, err);
    }
    if (r == 0 && n < 0)
        r = (int)n;
    if (r == 0)
        r = blob_finish_soon(&writer, ret->sha256, &ret->size, err);
    if (r == 0)
        ret->blobs = blobs;
    return r;
}

int native_receive_body(struct doors_call *call, const char *workspace,
                        struct native_blob *ret, struct error *err)
{
    return native_receive_from(call, workspace, native_receive_read, call, ret,
                               err);
}

void native_receive_done(struct native_blob *b)
{
    if (b->blobs)
        blob_release(b->blobs, b->sha256);
    b->blobs = NULL;
}

/* ---- forms -------------------------------------------------------------- */

struct form {
    struct native_blob blobs[HTTP_PARTS_MAX];
    struct workspace_change changes[HTTP_PARTS_MAX];
    size_t count;
};

static void form_free(struct form **form)
{
    for (size_t i = 0; i < (*form)->count; i++)
        native_receive_done(&(*form)->blobs[i]);
    free(*form);
}

static ssize_t read_part(void *ctx, void *bytes, size_t len, struct error *err)
{
    return http_multipart_read(ctx, bytes, len, err);
}

/* Where a part goes: its file name, below the folder. */
static int part_path(struct doors_call *call, const struct form *form,
                     const struct http_part *part, const char *folder,
                     const char **ret, struct error *err)
{
    struct arena *arena = http_arena(call->http);
    const char *path = part->filename, *fault;

    if (!path || !path[0])
        return error_set(err, ERR_INVALID,
                         "field '%.64s' of the form has no file name",
                         part->name);
    if (folder && folder[0])
        path =
            arena_printf(arena, "%s%s%s", folder,
                         folder[strlen(folder) - 1] == '/' ? "" : "/", path);
    fault = path_fault(path, strlen(path));
    if (fault)
        return error_set(err, ERR_INVALID, "the path of file %zu %s",
                         form->count + 1, fault);
    for (size_t i = 0; i < form->count; i++)
        if (strcmp(form->changes[i].path, path) == 0)
            return error_set(err, ERR_INVALID,
                             "the form has file %zu twice, as file %zu", i + 1,
                             form->count + 1);
    *ret = path;
    return 0;
}

static int receive_parts(struct doors_call *call, struct http_multipart *m,
                         const char *folder, struct form *form,
                         struct error *err)
{
    struct http_part part;
    int r;

    while ((r = http_multipart_next(m, &part, err)) > 0) {
        struct workspace_change *change = &form->changes[form->count];
        struct native_blob *blob = &form->blobs[form->count];

        r = part_path(call, form, &part, folder, &change->path, err);
        if (r == 0)
            r = native_receive_from(call, call->params[0], read_part, m, blob,
                                    err);
        if (r < 0)
            return r;
        change->kind = CHANGE_PUT;
        change->sha256 = blob->sha256;
        change->size = blob->size;
        change->mime = native_ask_type(call, part.type);
        change->as_was = true;
        form->count++;
    }
    if (r == 0 && form->count == 0)
        r = error_set(err, ERR_INVALID, "the form has no files");
    return r;
}

int native_form_post(struct doors_call *call, struct error *err)
{
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    struct form *form cleanup(form_free) = xcalloc(1, sizeof(*form));
    struct native_locks locks = {.count = 0};
    struct workspace_commit_spec spec = {.kind = "upload",
                                         .action = "file.put"};
    const char *folder = NULL;
    int r = http_multipart_new(http_header(call->http, "Content-Type"),
                               native_receive_read, call,
                               http_arena(call->http), &m, err);

    if (r == 0)
        r = http_query(call->http, "folder", &folder, err);
    if (r == 0)
        r = native_ask_locks(call, &locks, err);
    if (r == 0)
        r = workspace_check_write(call->doors->workspaces, &call->actor,
                                  call->params[0], form->blobs[0].domain, err);
    if (r == 0)
        r = receive_parts(call, m, folder, form, err);
    if (r < 0)
        return r;
    spec.changes = form->changes;
    spec.count = form->count;
    spec.lock_tokens = locks.tokens;
    spec.lock_count = locks.count;
    r = workspace_commit(call->doors->workspaces, &call->actor,
                         call->params[0], &spec, &made, err);
    if (r < 0)
        return r;
    native_respond(call, 201, &native_commit,
                   &(struct native_commit_view){made, call->params[0]});
    return 0;
}
