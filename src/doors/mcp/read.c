/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resources/read: a file of a workspace, or a folder and the files in it.
 * Runs on a worker of the daemon. What is too large for an answer is named by
 * the URL it can be fetched from. Bytes were verified by the core.
 */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/mem.h"
#include "doors/mcp/mcp_int.h"
#include "workspace/workspace.h"

#define BYTES_MAX ((size_t)4 << 20) /* of one answer */
#define FOLDER_MAX 100u             /* entries of a folder */
#define TTL_MS 1000

static int unknown(struct mcp_exchange *x, const char *uri)
{
    return mcp_rpc_fault(&x->fault,
                         x->era == MCP_MODERN ? RPC_PARAMS : RPC_RESOURCE,
                         json_pack("{s:s}", "uri", uri), "no such resource");
}

static void write_content(struct mcp_exchange *x, const char *uri,
                          const char *mime, const char *bytes, size_t len)
{
    json_write_open(&x->w, NULL, '{');
    json_write_string(&x->w, "uri", uri);
    json_write_string(&x->w, "mimeType", mime);
    if (mcp_resources_text(mime, bytes ? bytes : "", len))
        json_write_text(&x->w, "text", bytes ? bytes : "", len);
    else
        json_write_base64(&x->w, "blob", bytes, len);
    json_write_close(&x->w, '}');
}

/* ---- a file ------------------------------------------------------------- */

static int load(struct mcp_exchange *x, const struct workspace_file *f,
                struct buf *ret, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    ssize_t n;
    int r = workspace_file_open(x->doors->workspaces, x->actor, f, &fd, err);

    if (r < 0)
        return r;
    buf_reserve(ret, f->size + 1);
    n = fd_read_all(fd, ret->data, f->size);
    if (n < 0 || (uint64_t)n != f->size)
        return error_errno(err, ERR_INTERNAL, n < 0 ? (int)-n : EIO,
                           "cannot read a file");
    ret->len = f->size;
    return 0;
}

static int too_large(struct mcp_exchange *x, const struct workspace_file *f,
                     const char *uri)
{
    const char *url = arena_printf(x->arena, "%s/api/files/%s/content",
                                   doors_url_origin(x->door), f->file);

    return mcp_rpc_fault(&x->fault, RPC_PARAMS,
                         json_pack("{s:s,s:s,s:I}", "uri", uri, "url", url,
                                   "size", (json_int_t)f->size),
                         "this file is larger than %zu bytes; fetch it from "
                         "%s",
                         BYTES_MAX, url);
}

static int read_file(struct mcp_exchange *x, const char *uri,
                     const struct workspace_file *f)
{
    struct buf bytes cleanup(buf_done) = {0};
    struct error err;

    if (f->size > BYTES_MAX)
        return too_large(x, f, uri);
    if (load(x, f, &bytes, &err) < 0)
        return mcp_rpc_blame(&x->fault, &err);
    json_write_open(&x->w, "contents", '[');
    write_content(x, uri, f->mime, bytes.data, bytes.len);
    json_write_close(&x->w, ']');
    return 0;
}

/* ---- a folder ----------------------------------------------------------- */

/* The names, one a line; folders end with a slash. */
static void write_names(struct mcp_exchange *x, const char *uri,
                        const struct workspace_file *files, size_t count,
                        size_t skip)
{
    struct buf names cleanup(buf_done) = {0};

    for (size_t i = 0; i < count; i++)
        buf_addf(&names, "%s\n", files[i].path + skip);
    json_write_open(&x->w, NULL, '{');
    json_write_string(&x->w, "uri", uri);
    json_write_string(&x->w, "mimeType", "inode/directory");
    json_write_text(&x->w, "text", names.data ? names.data : "", names.len);
    json_write_close(&x->w, '}');
}

static int read_folder(struct mcp_exchange *x, const char *uri,
                       const char *workspace, const char *prefix)
{
    struct workspace_file *files = NULL;
    struct page_result got = {0};
    size_t left = BYTES_MAX;
    struct error err;

    if (workspace_files_list(
            x->doors->workspaces, x->actor, workspace,
            &(struct workspace_files_spec){
                .prefix = prefix, .level = true, .limit = FOLDER_MAX},
            &files, &got, &err) < 0 ||
        (got.count == 0 && prefix[0])) {
        workspace_files_free(files, got.count);
        return unknown(x, uri);
    }
    json_write_open(&x->w, "contents", '[');
    write_names(x, uri, files, got.count, strlen(prefix));
    for (size_t i = 0; i < got.count; i++) {
        struct buf bytes cleanup(buf_done) = {0};

        /* What does not fit, or went meanwhile, is only named above. */
        if (!files[i].file[0] || files[i].size > left ||
            load(x, &files[i], &bytes, &err) < 0)
            continue;
        left -= bytes.len;
        write_content(x, mcp_uri_make(x->arena, workspace, files[i].path),
                      files[i].mime, bytes.data, bytes.len);
    }
    json_write_close(&x->w, ']');
    workspace_files_free(files, got.count);
    return 0;
}

/* ---- which -------------------------------------------------------------- */

static int read_path(struct mcp_exchange *x, const char *uri,
                     const char *workspace, const char *path)
{
    struct workspace_file f;
    size_t len = strlen(path);
    struct error err;
    int r;

    if (len == 0 || path[len - 1] == '/')
        return read_folder(x, uri, workspace, path);
    if (workspace_file_get(x->doors->workspaces, x->actor, workspace, path,
                           NULL, &f, &err) == 0) {
        r = read_file(x, uri, &f);
        workspace_file_done(&f);
        return r;
    }
    if (err.code != ERR_NOT_FOUND)
        return mcp_rpc_blame(&x->fault, &err);
    return read_folder(x, uri, workspace, arena_printf(x->arena, "%s/", path));
}

static int read_fixed(struct mcp_exchange *x, const struct mcp_resource *res,
                      const char *uri)
{
    struct buf bytes cleanup(buf_done) = {0};
    struct mcp_call call;
    struct error err;
    int r;

    mcp_exchange_call(x, &call);
    r = res->read(&call, uri, &bytes, &err);
    if (r != 0)
        return r < 0 && !x->fault.code ? mcp_rpc_blame(&x->fault, &err) : r;
    json_write_open(&x->w, "contents", '[');
    write_content(x, uri, res->mime, bytes.data, bytes.len);
    json_write_close(&x->w, ']');
    return 0;
}

int mcp_read(struct mcp_exchange *x)
{
    const char *uri = mcp_need_string(x, "uri"), *workspace, *path;
    const struct mcp_resource *fixed;
    int r;

    if (!uri)
        return -1;
    fixed = mcp_resources_find(uri);
    if (fixed)
        r = read_fixed(x, fixed, uri);
    else if (!mcp_uri_parse(x->arena, uri, &workspace, &path))
        r = unknown(x, uri);
    else if (mcp_need_scope(x, AUTH_FILES_READ) < 0)
        r = -1;
    else
        r = read_path(x, uri, workspace, path);
    if (r == 0)
        mcp_write_caching(x, false, TTL_MS);
    return r;
}
