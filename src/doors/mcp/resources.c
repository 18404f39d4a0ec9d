/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resources/list and resources/templates/list: the files of the caller's
 * workspaces, newest workspace first. Runs on a worker of the daemon. A page
 * is bounded in files and in workspaces looked at; its cursor is the name of
 * the last file told.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "doors/mcp/mcp_int.h"
#include "workspace/workspace.h"

#define WORKSPACES_MAX 50u /* looked at for one page */
#define TTL_MS 5000

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
static bool fits(const char *pattern, const char *uri)
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

        if (r->is_template ? fits(r->uri, uri) : strcmp(r->uri, uri) == 0)
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
        return error_set(err, ERR_INVALID, "params.cursor is none of ours");
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
    mcp_write_caching(x, false, TTL_MS);
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
                             "params.cursor is none of ours");
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
