/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a file is: `ws_…:path` or `name:path` in a workspace, `file_…` by its
 * own id, or with --session a path below that session's /mnt/data.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

const char *cli_place_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *cli_place_below_data(const char *path)
{
    static const char *const fronts[] = {"sandbox:/mnt/data/", "/mnt/data/",
                                         "./"};

    for (size_t i = 0; i < ARRAY_SIZE(fronts); i++) {
        size_t len = strlen(fronts[i]);

        if (strncmp(path, fronts[i], len) == 0)
            return path + len;
    }
    return path;
}

bool cli_place_is_address(const char *text)
{
    size_t len = strcspn(text, ":/");

    return len > 0 && text[len] == ':';
}

/* A word alone: a session, as it always was, else a workspace. */
static int find_bare(struct cli *c, const char *text, struct cli_place *ret,
                     struct error *err)
{
    struct error second;
    int r;

    ret->path = xstrdup("");
    if (ids_valid("ws", text)) {
        ret->kind = CLI_PLACE_WORKSPACE;
        (void)snprintf(ret->id, sizeof(ret->id), "%s", text);
        return 0;
    }
    ret->kind = CLI_PLACE_SESSION;
    r = cli_remote_find(c, text, ret->id, err);
    if (r == 0 || err->code != ERR_NOT_FOUND)
        return r;
    ret->kind = CLI_PLACE_WORKSPACE;
    r = cli_remote_workspace(c, text, ret->id, &second);
    if (r == 0 || second.code != ERR_NOT_FOUND) {
        *err = second;
        return r;
    }
    (void)error_set(err, ERR_NOT_FOUND,
                    "there is no session or workspace '%.128s'", text);
    return error_hint(err, "A file in a workspace is WORKSPACE:PATH.");
}

int cli_place_find(struct cli *c, const char *text, const char *session,
                   struct cli_place *ret, struct error *err)
{
    char *front cleanup(mem_free) = NULL;
    const char *path;

    *ret = (struct cli_place){0};
    if (session) {
        ret->kind = CLI_PLACE_SESSION;
        ret->path = xstrdup(cli_place_below_data(text));
        return cli_remote_find(c, session, ret->id, err);
    }
    if (ids_valid("file", text)) {
        ret->kind = CLI_PLACE_FILE;
        ret->path = xstrdup("");
        (void)snprintf(ret->id, sizeof(ret->id), "%s", text);
        return 0;
    }
    if (!cli_place_is_address(text))
        return find_bare(c, text, ret, err);
    front = xstrndup(text, strcspn(text, ":"));
    path = strchr(text, ':') + 1;
    ret->kind = CLI_PLACE_WORKSPACE;
    /* "ws:/a/b" is as clear as "ws:a/b". */
    ret->path = xstrdup(path[0] == '/' ? path + 1 : path);
    return cli_remote_workspace(c, front, ret->id, err);
}

void cli_place_done(struct cli_place *p)
{
    free(take_ptr(p->path));
}

/* A file's own id says where it is now. */
static int file_to_workspace(struct cli *c, struct cli_place *p,
                             struct error *err)
{
    char *url cleanup(mem_free) = xasprintf("/api/files/%s", p->id);
    json_t *file cleanup(json_unref) = NULL;
    const char *id, *path;
    int r = cli_http_json(c, "GET", url, NULL, &file, err);

    if (r < 0)
        return r;
    id = cli_json_text(file, "workspace", "");
    path = cli_json_text(file, "path", "");
    if (!ids_valid("ws", id) || !*path)
        return error_set(err, ERR_INTERNAL,
                         "the service did not say where %s is", p->id);
    free(p->path);
    p->path = xstrdup(path);
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    p->kind = CLI_PLACE_WORKSPACE;
    return 0;
}

int cli_place_to_workspace(struct cli *c, struct cli_place *p,
                           struct error *err)
{
    char id[ID_MAX];
    int r;

    switch (p->kind) {
    case CLI_PLACE_WORKSPACE:
        return 0;
    case CLI_PLACE_FILE:
        return file_to_workspace(c, p, err);
    case CLI_PLACE_SESSION:
        break;
    }
    r = cli_remote_session_workspace(c, p->id, id, err);
    if (r < 0)
        return r;
    memcpy(p->id, id, sizeof(p->id));
    p->kind = CLI_PLACE_WORKSPACE;
    return 0;
}

char *cli_place_file_url(const struct cli_place *p)
{
    struct buf url cleanup(buf_done) = {0};

    if (p->kind == CLI_PLACE_FILE)
        return xasprintf("/api/files/%s/content", p->id);
    buf_addf(&url, "/api/%s/%s/files/",
             p->kind == CLI_PLACE_SESSION ? "sessions" : "workspaces", p->id);
    cli_http_escape(&url, p->path, true);
    return buf_take(&url, NULL);
}

char *cli_place_url(const struct cli_place *p, const char *suffix)
{
    return xasprintf("/api/%s/%s/%s",
                     p->kind == CLI_PLACE_SESSION ? "sessions" : "workspaces",
                     p->id, suffix);
}
