/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at files of a workspace, by path or by id: lists, facts, bytes.
 * Runs on a worker of the daemon; changes nothing. Bytes were verified by
 * the core before the first is sent and are served inert (F8).
 */
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- lists -------------------------------------------------------------- */

/* ?delimiter=/ and ?commit */
static int ask_view(struct doors_call *call, bool *ret_level, int64_t *ret_at,
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
    struct json_writer w = {.out = &body};
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
        r = ask_view(call, &level, &at, err);
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

static void respond_info(struct doors_call *call, const char *workspace,
                         const struct workspace_file *f)
{
    native_respond(call, 200, &native_file,
                   &(struct native_file_view){*f, workspace});
}

static int respond_bytes(struct doors_call *call,
                         const struct workspace_file *f, struct error *err)
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
        respond_info(call, call->params[0], &f);
    return r;
}

int native_tree_get(struct doors_call *call, struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    int r = get_file(call, &f, err);

    return r < 0 ? r : respond_bytes(call, &f, err);
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
        respond_info(call, workspace, &f);
    return r;
}

int native_tree_content(struct doors_call *call, struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    char workspace[ID_MAX];
    int r = find_file(call, &f, workspace, err);

    return r < 0 ? r : respond_bytes(call, &f, err);
}
