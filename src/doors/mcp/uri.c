/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How files are named to a host: "workspace://ws_…/path/to/file". A scheme of
 * our own, because URL parsers rewrite those they know; everything but plain
 * letters is percent-encoded, so that what comes back is what was sent. Pure.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/mcp_int.h"

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
static bool path_ok(const char *path)
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
        !path_ok(path))
        return false;
    *ret_workspace = id;
    *ret_path = path;
    return true;
}
