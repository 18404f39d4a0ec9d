/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resources/list, resources/templates/list and resources/read: the files of
 * the caller's workspaces, newest workspace first. Runs on a worker of the
 * daemon. A page is bounded in files and in workspaces examined; its cursor is
 * the name of the last file listed. A file that is too large for a response is
 * named by the URL it can be fetched from. The core has verified the bytes.
 *
 * Files are named "workspace://ws_…/path/to/file". The scheme is our own
 * because URL parsers rewrite those they know; everything but plain letters is
 * percent-encoded, so that a client sends back what it received.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "doors/mcp/mcp_int.h"
#include "workspace/workspace.h"

#define WORKSPACES_MAX 50u /* looked at for one page */
#define LIST_TTL_MS 5000

/* ---- for all that read -------------------------------------------------- */

bool mcp_resources_text(const char *mime, const char *bytes, size_t len)
{
    static const char *const types[] = {
        "application/json",         "application/xml",
        "application/javascript",   "application/x-ndjson",
        "application/yaml",         "application/toml",
        "application/sql",          "application/x-sh",
        "application/x-ipynb+json", "application/octet-stream",
    };
    const char *plus = strrchr(mime, '+');
    bool text =
        strncmp(mime, "text/", strlen("text/")) == 0 ||
        (plus && (strcmp(plus, "+json") == 0 || strcmp(plus, "+xml") == 0));

    for (size_t i = 0; i < ARRAY_SIZE(types) && !text; i++)
        text = strcmp(mime, types[i]) == 0;
    return text && !memchr(bytes, '\0', len) && utf8_valid(bytes, len);
}

/* Does a template with one {id} fit? */
static bool uri_fits_template(const char *pattern, const char *uri)
{
    const char *open = strchr(pattern, '{'), *close = strchr(pattern, '}');
    size_t head = (size_t)(open - pattern), tail = strlen(close + 1);
    size_t len = strlen(uri);

    return len > head + tail && strncmp(uri, pattern, head) == 0 &&
           strcmp(uri + len - tail, close + 1) == 0;
}

const struct mcp_resource *mcp_resources_find(const char *uri)
{
    for (size_t i = 0; i < mcp_fixture_resources_count; i++) {
        const struct mcp_resource *r = &mcp_fixture_resources[i];

        if (r->is_template ? uri_fits_template(r->uri, uri)
                           : strcmp(r->uri, uri) == 0)
            return r;
    }
    return NULL;
}

/* ---- resources/list ----------------------------------------------------- */

struct listing {
    struct mcp_exchange *x;
    unsigned room;       /* files that still fit */
    unsigned workspaces; /* that may still be looked at */
    const char *last;    /* uri to go on after; arena */
    bool more;
};

static void write_file(struct listing *l, const struct workspace_info *ws,
                       const struct workspace_file *f)
{
    struct json_writer *w = &l->x->w;
    const char *name = strrchr(f->path, '/');

    l->last = mcp_uri_make(l->x->arena, ws->id, f->path);
    json_write_open(w, NULL, '{');
    json_write_string(w, "uri", l->last);
    json_write_string(w, "name", name ? name + 1 : f->path);
    json_write_string(w, "title", f->path);
    json_write_string(w, "mimeType", f->mime);
    json_write_int(w, "size", (int64_t)f->size);
    json_write_open(w, "annotations", '{');
    json_write_time(w, "lastModified", f->modified_at_ms);
    json_write_close(w, '}');
    json_write_close(w, '}');
}

static int list_workspace(struct listing *l, const struct workspace_info *ws,
                          const char *after, struct error *err)
{
    struct workspace_file *files = NULL;
    struct page_result got = {0};
    int r;

    l->last = mcp_uri_make(l->x->arena, ws->id, after ? after : "");
    l->workspaces--;
    if (ws->files == 0)
        return 0;
    r = workspace_files_list(
        l->x->doors->workspaces, l->x->actor, ws->id,
        &(struct workspace_files_spec){.limit = l->room, .after = after},
        &files, &got, err);
    if (r < 0)
        return r == -ERR_NOT_FOUND ? 0 : r; /* deleted meanwhile */
    l->more = got.has_more;
    for (size_t i = 0; i < got.count; i++)
        write_file(l, ws, &files[i]);
    l->room -= (unsigned)got.count;
    workspace_files_free(files, got.count);
    return 0;
}

/* All those after the named one, as far as the page goes. */
static int list_after(struct listing *l, const char *after, struct error *err)
{
    struct workspace_info *found cleanup(mem_free) = NULL;
    struct page_result got = {0};
    int r =
        workspace_list(l->x->doors->workspaces, l->x->actor, false,
                       &(struct page){.limit = WORKSPACES_MAX, .after = after},
                       &found, &got, err);

    for (size_t i = 0; r == 0 && i < got.count; i++) {
        if (l->room == 0 || l->workspaces == 0) {
            l->more = true;
            return 0;
        }
        r = list_workspace(l, &found[i], NULL, err);
        if (l->more)
            return r;
    }
    l->more = l->more || got.has_more;
    return r;
}

static int list_from(struct listing *l, const char *cursor, struct error *err)
{
    const char *id, *path;
    struct workspace_info ws;
    int r;

    if (!cursor[0])
        return list_after(l, NULL, err);
    if (!mcp_uri_parse(l->x->arena, cursor, &id, &path) ||
        workspace_get(l->x->doors->workspaces, l->x->actor, id, &ws, err) < 0)
        return error_set(err, ERR_INVALID,
                         "params.cursor is not a cursor of this server");
    r = path[0] ? list_workspace(l, &ws, path, err) : 0;
    return r < 0 || l->more ? r : list_after(l, id, err);
}

static void write_fixed(struct mcp_exchange *x, bool templates)
{
    for (size_t i = 0; i < mcp_fixture_resources_count; i++) {
        const struct mcp_resource *r = &mcp_fixture_resources[i];

        if (r->is_template != templates)
            continue;
        json_write_open(&x->w, NULL, '{');
        json_write_string(&x->w, templates ? "uriTemplate" : "uri", r->uri);
        json_write_string(&x->w, "name", r->name);
        json_write_string(&x->w, "description", r->description);
        json_write_string(&x->w, "mimeType", r->mime);
        json_write_close(&x->w, '}');
    }
}

int mcp_resources_list(struct mcp_exchange *x)
{
    const char *cursor = mcp_need_cursor(x);
    struct listing l = {
        .x = x, .room = MCP_PAGE, .workspaces = WORKSPACES_MAX};
    struct error err;

    if (!cursor)
        return -1;
    json_write_open(&x->w, "resources", '[');
    if (!cursor[0])
        write_fixed(x, false);
    /* Without the right to read there is nothing to list. */
    if (mcp_has_scope(x, AUTH_FILES_READ) && list_from(&l, cursor, &err) < 0)
        return mcp_rpc_blame(&x->fault, &err);
    json_write_close(&x->w, ']');
    if (l.more && l.last)
        json_write_string(&x->w, "nextCursor", l.last);
    mcp_write_caching(x, false, LIST_TTL_MS);
    return 0;
}

int mcp_resources_templates(struct mcp_exchange *x)
{
    struct json_writer *w = &x->w;
    const char *cursor = mcp_need_cursor(x);

    if (!cursor)
        return -1;
    if (cursor[0])
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "params.cursor is not a cursor of this server");
    json_write_open(w, "resourceTemplates", '[');
    json_write_open(w, NULL, '{');
    json_write_string(w, "uriTemplate", "workspace://{workspace}/{+path}");
    json_write_string(w, "name", "workspace_file");
    json_write_string(w, "title", "A file of a workspace");
    json_write_string(w, "description",
                      "A file as it is now, or with a slash at the end a "
                      "folder and the files in it. workspace: an id (ws_…); "
                      "path: below /mnt/data, percent-encoded.");
    json_write_close(w, '}');
    write_fixed(x, true);
    json_write_close(w, ']');
    mcp_write_caching(x, false, (int64_t)3600 * 1000);
    return 0;
}

/* ---- resources/read ----------------------------------------------------- */

#define BYTES_MAX ((size_t)4 << 20) /* of one answer */
#define FOLDER_MAX 100u             /* entries of a folder */
#define READ_TTL_MS 1000

int mcp_resources_unknown(struct mcp_exchange *x, const char *uri)
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

static int load_file(struct mcp_exchange *x, const struct workspace_file *f,
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

static int fault_too_large(struct mcp_exchange *x,
                           const struct workspace_file *f, const char *uri)
{
    const char *url = arena_printf(x->arena, "%s/api/files/%s/content",
                                   x->base_url, f->file);

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
        return fault_too_large(x, f, uri);
    if (load_file(x, f, &bytes, &err) < 0)
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
        return mcp_resources_unknown(x, uri);
    }
    json_write_open(&x->w, "contents", '[');
    write_names(x, uri, files, got.count, strlen(prefix));
    for (size_t i = 0; i < got.count; i++) {
        struct buf bytes cleanup(buf_done) = {0};

        /* A file that is too large, or is gone by now, is only named above. */
        if (!files[i].file[0] || files[i].size > left ||
            load_file(x, &files[i], &bytes, &err) < 0)
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
        r = mcp_resources_unknown(x, uri);
    else if (mcp_need_scope(x, AUTH_FILES_READ) < 0)
        r = -1;
    else
        r = read_path(x, uri, workspace, path);
    if (r == 0)
        mcp_write_caching(x, false, READ_TTL_MS);
    return r;
}

/* ---- URIs --------------------------------------------------------------- */

#define SCHEME "workspace://"

char *mcp_uri_make(struct arena *arena, const char *workspace,
                   const char *path)
{
    struct buf uri cleanup(buf_done) = {0};

    buf_addf(&uri, SCHEME "%s/", workspace);
    doors_url_escape(&uri, path, true);
    return arena_strdup(arena, uri.data);
}

/* A folder's path may end with "/"; "" is all of the workspace. */
static bool is_valid_path(const char *path)
{
    size_t len = strlen(path);

    if (len > 0 && path[len - 1] == '/')
        len--;
    return len == 0 ? path[0] == '\0' : path_fault(path, len) == NULL;
}

bool mcp_uri_parse(struct arena *arena, const char *uri,
                   const char **ret_workspace, const char **ret_path)
{
    const char *id, *slash;
    struct error ignored;
    char *path = NULL;

    if (strncmp(uri, SCHEME, strlen(SCHEME)) != 0)
        return false;
    id = uri + strlen(SCHEME);
    slash = strchr(id, '/');
    if (!slash || slash - id >= ID_MAX)
        return false;
    id = arena_strndup(arena, id, (size_t)(slash - id));
    if (!ids_valid("ws", id) ||
        http_decode(arena, slash + 1, strlen(slash + 1), &path, &ignored) <
            0 ||
        !is_valid_path(path))
        return false;
    *ret_workspace = id;
    *ret_path = path;
    return true;
}
