/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the files of a workspace: lists, facts, contents, and a folder as a
 * zip archive. The archive is written while it is sent; nothing is sent before
 * the first bytes exist, so that a refusal still has its status. Runs on a
 * worker of the daemon, which a slow client holds back.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- lists -------------------------------------------------------------- */

/* ?delimiter=/ and ?commit */
static int read_view(struct doors_call *call, bool *ret_level, int64_t *ret_at,
                     struct error *err)
{
    const char *delimiter = NULL, *commit = NULL;
    int r = http_query(call->http, "delimiter", &delimiter, err);

    if (r == 0)
        r = http_query(call->http, "commit", &commit, err);
    if (r < 0)
        return r;
    if (delimiter && strcmp(delimiter, "/") != 0)
        return error_set(err, ERR_INVALID, "parameter 'delimiter' must be /");
    *ret_level = delimiter != NULL;
    return commit
               ? workspace_commit_number(call->doors->workspaces, &call->actor,
                                         call->params[0], commit, ret_at, err)
               : 0;
}

int native_tree_list(struct doors_call *call, struct error *err)
{
    struct workspace_file *files = NULL;
    struct buf body = {0};
    struct json_writer w = native_writer(call, &body);
    const char *prefix = NULL, *after = NULL;
    unsigned limit = 0;
    int64_t at = 0;
    struct page_result got = {0};
    bool level = false;
    int r = native_ask_page(call, WORKSPACE_LIST_MAX, WORKSPACE_LIST_MAX,
                            &limit, &after, err);

    if (r == 0)
        r = http_query(call->http, "prefix", &prefix, err);
    if (r == 0)
        r = read_view(call, &level, &at, err);
    if (r == 0)
        r = workspace_files_list(
            call->doors->workspaces, &call->actor, call->params[0],
            &(struct workspace_files_spec){.prefix = prefix,
                                           .at = at,
                                           .level = level,
                                           .limit = limit,
                                           .after = after},
            &files, &got, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < got.count; i++)
        api_write(&w, NULL, &native_entry,
                  &(struct native_file_view){files[i], call->params[0]});
    native_encode_list_end(&w, got.has_more);
    workspace_files_free(files, got.count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

/* ---- one file ----------------------------------------------------------- */

static void respond_file_info(struct doors_call *call, const char *workspace,
                              const struct workspace_file *f)
{
    native_respond(call, 200, &native_file,
                   &(struct native_file_view){*f, workspace});
}

static int respond_file_bytes(struct doors_call *call,
                              const struct workspace_file *f,
                              struct error *err)
{
    int fd cleanup(fd_close) = -1;
    int r = workspace_file_open(call->doors->workspaces, &call->actor, f, &fd,
                                err);

    if (r < 0)
        return r;
    http_add_header(call->http, "X-Glovebox-File", f->file);
    http_add_header(call->http, "X-Glovebox-Version", f->version);
    r = http_respond_download(call->http,
                              &(struct http_download){
                                  .fd = fd,
                                  .size = f->size,
                                  .name = f->path,
                                  .type = f->mime,
                                  .etag = f->sha256,
                                  .modified_ms = f->modified_at_ms,
                                  .stable = true,
                              },
                              err);
    if (r == 0)
        (void)take_fd(fd);
    return r;
}

/* By the path of the route, at ?version or the head. */
static int get_file(struct doors_call *call, struct workspace_file *ret,
                    struct error *err)
{
    const char *version = NULL;
    int r = http_query(call->http, "version", &version, err);

    return r < 0 ? r
                 : workspace_file_get(call->doors->workspaces, &call->actor,
                                      call->params[0], call->params[1],
                                      version, ret, err);
}

int native_tree_info(struct doors_call *call, struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    int r = get_file(call, &f, err);

    if (r == 0)
        respond_file_info(call, call->params[0], &f);
    return r;
}

int native_tree_get(struct doors_call *call, struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    int r = get_file(call, &f, err);

    return r < 0 ? r : respond_file_bytes(call, &f, err);
}

static int find_file(struct doors_call *call, struct workspace_file *ret,
                     char ret_workspace[ID_MAX], struct error *err)
{
    const char *version = NULL;
    int r = http_query(call->http, "version", &version, err);

    return r < 0 ? r
                 : workspace_file_find(call->doors->workspaces, &call->actor,
                                       call->params[0], version, ret,
                                       ret_workspace, err);
}

int native_tree_find(struct doors_call *call, struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    char workspace[ID_MAX];
    int r = find_file(call, &f, workspace, err);

    if (r == 0)
        respond_file_info(call, workspace, &f);
    return r;
}

int native_tree_content(struct doors_call *call, struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    char workspace[ID_MAX];
    int r = find_file(call, &f, workspace, err);

    return r < 0 ? r : respond_file_bytes(call, &f, err);
}

/* ---- archives ----------------------------------------------------------- */

struct zip {
    struct doors_call *call;
    struct http_pipe *pipe; /* NULL until there is something to send */
    struct error gone;      /* why the pipe took no more */
};

/* "folder.zip", or the workspace's id; a plain name. */
static void add_archive_headers(struct doors_call *call)
{
    struct arena *arena = http_arena(call->http);
    const char *prefix = NULL, *from;
    struct error ignored;
    char *name;

    (void)http_query(call->http, "prefix", &prefix, &ignored); /* was read */
    name = arena_strdup(arena, prefix ? prefix : "");
    if (name[0] && name[strlen(name) - 1] == '/')
        name[strlen(name) - 1] = '\0';
    from = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    if (!from[0])
        from = call->params[0];
    http_add_header(call->http, "Content-Security-Policy",
                    "sandbox; default-src 'none'");
    http_add_header(call->http, "Content-Disposition",
                    http_attachment(arena, from, ".zip"));
}

static int on_archive_bytes(void *ctx, const void *bytes, size_t len)
{
    struct zip *z = ctx;

    if (!z->pipe) {
        add_archive_headers(z->call);
        z->pipe = http_respond_pipe(z->call->http, "application/zip");
    }
    return http_pipe_write(z->pipe, bytes, len, &z->gone);
}

int native_archive_get(struct doors_call *call, struct error *err)
{
    struct zip z = {.call = call};
    const char *prefix = NULL;
    int r = http_query(call->http, "prefix", &prefix, err);

    if (r == 0)
        r = workspace_archive(call->doors->workspaces, &call->actor,
                              call->params[0], prefix, on_archive_bytes, &z,
                              err);
    if (!z.pipe)
        return r;
    http_pipe_end(z.pipe, r == 0);
    /* It is too late to answer with it; the client sees a broken transfer. */
    if (r < 0 && !z.gone.code)
        log_event(LOG_ERROR, "archive_failed", "id", http_id(call->http),
                  "error", err->message, NULL);
    return 0;
}
