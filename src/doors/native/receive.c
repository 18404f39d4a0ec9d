/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's bytes into the store, in pieces: never held whole, pinned when
 * it returns, and durable with the commit that refers to them. Runs on a
 * worker of the daemon. What nobody refers to the collector takes.
 */
#include <string.h>

#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"

ssize_t native_receive_read(void *ctx, void *bytes, size_t len,
                            struct error *err)
{
    struct doors_call *call = ctx;

    return http_body_read(call->http, bytes, len,
                          call->doors->conf->upload_bytes, err);
}

/* As much as fits before it is handed on: fewer and larger writes. */
static ssize_t read_piece(http_read_fn *read, void *ctx, char *bytes,
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
        n = read_piece(read, ctx, bytes, err);
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
