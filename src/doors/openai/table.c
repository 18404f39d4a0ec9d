/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenAI door's prefixes and routes. The same routes hang below each
 * prefix its clients have: OpenAI's own, the two surfaces of Azure (whose
 * api-version says nothing here) and a Foundry project. Runs in the daemon;
 * only looks.
 */
#include <string.h>

#include "base/mem.h"
#include "doors/openai/openai.h"

#define CONTAINER "/containers/{container}"
#define LISTED CONTAINER "/files/{file}"
#define FILE_ "/files/{file}"
#define UPLOAD "/uploads/{upload}"

#define PROJECTS "/api/projects/"

/* ---- prefixes ----------------------------------------------------------- */

/* What follows the prefix, if path is it or is below it. */
static const char *below(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);

    if (strncmp(path, prefix, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return path + len;
}

static const char *enter(const char *path,
                         struct doors_part ret[DOORS_PARAMS_MAX])
{
    static const char *const prefixes[] = {"/openai/v1", "/openai"};
    const char *rest = below(path, "/v1");

    if (rest)
        return rest;
    if (strncmp(path, PROJECTS, sizeof(PROJECTS) - 1) == 0) {
        ret[0].text = path + sizeof(PROJECTS) - 1;
        ret[0].len = strcspn(ret[0].text, "/");
        if (ret[0].len == 0)
            return NULL;
        path = ret[0].text + ret[0].len;
        if (below(path, "/toolboxes")) /* MCP's */
            return NULL;
        rest = path;
    }
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
        const char *found = below(path, prefixes[i]);

        if (found)
            return found;
    }
    return rest;
}

/* ---- routes ------------------------------------------------------------- */

#define PAGE "limit order after"

static const struct doors_route routes[] = {
    {.method = "POST",
     .pattern = "/containers",
     .handle = openai_containers_create,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = "/containers",
     .handle = openai_containers_list,
     .scope = AUTH_EXECUTE,
     .query = PAGE " name"},
    {.method = "GET",
     .pattern = CONTAINER,
     .handle = openai_containers_get,
     .scope = AUTH_EXECUTE},
    {.method = "DELETE",
     .pattern = CONTAINER,
     .handle = openai_containers_delete,
     .scope = AUTH_EXECUTE},

    {.method = "POST",
     .pattern = CONTAINER "/files",
     .handle = openai_attach_post,
     .scope = AUTH_FILES_WRITE},
    {.method = "GET",
     .pattern = CONTAINER "/files",
     .handle = openai_listing_list,
     .scope = AUTH_FILES_READ,
     .query = PAGE},
    {.method = "GET",
     .pattern = LISTED,
     .handle = openai_listing_get,
     .scope = AUTH_FILES_READ},
    {.method = "DELETE",
     .pattern = LISTED,
     .handle = openai_listing_delete,
     .scope = AUTH_FILES_WRITE},
    {.method = "GET",
     .pattern = LISTED "/content",
     .handle = openai_listing_content,
     .scope = AUTH_FILES_READ},

    {.method = "POST",
     .pattern = "/files",
     .handle = openai_files_create,
     .scope = AUTH_FILES_WRITE},
    {.method = "GET",
     .pattern = "/files",
     .handle = openai_files_list,
     .scope = AUTH_FILES_READ,
     .query = PAGE " purpose"},
    {.method = "GET",
     .pattern = FILE_,
     .handle = openai_files_get,
     .scope = AUTH_FILES_READ},
    {.method = "DELETE",
     .pattern = FILE_,
     .handle = openai_files_delete,
     .scope = AUTH_FILES_WRITE},
    {.method = "GET",
     .pattern = FILE_ "/content",
     .handle = openai_files_content,
     .scope = AUTH_FILES_READ},

    {.method = "POST",
     .pattern = "/uploads",
     .handle = openai_uploads_create,
     .scope = AUTH_FILES_WRITE},
    {.method = "POST",
     .pattern = UPLOAD "/parts",
     .handle = openai_uploads_part,
     .scope = AUTH_FILES_WRITE},
    {.method = "POST",
     .pattern = UPLOAD "/complete",
     .handle = openai_uploads_complete,
     .scope = AUTH_FILES_WRITE},
    {.method = "POST",
     .pattern = UPLOAD "/cancel",
     .handle = openai_uploads_cancel,
     .flags = DOORS_FREES,
     .scope = AUTH_FILES_WRITE},
};

static const char *const key_headers[] = {"api-key", NULL};

const struct doors_door doors_openai = {
    .name = "openai",
    .enter = enter,
    .routes = routes,
    .count = ARRAY_SIZE(routes),
    .refuse = openai_refuse,
    .shares = true, /* containers are a project's */
    .key_headers = key_headers,
    .any_query = true,
    .slash = true,
    .no_method = true,
    .body_bytes = OPENAI_UPLOAD_BYTES, /* to refuse it in our own words */
};
