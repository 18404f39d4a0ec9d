/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Foundry door's prefix and routes. It claims the parts of a project that
 * are not OpenAI's; the endpoint of an agent, below the agent's own path, is
 * OpenAI's, too. Runs in the daemon; only looks.
 */
#include <string.h>

#include "base/mem.h"
#include "doors/foundry/foundry.h"

#define PROJECTS "/api/projects/"
#define AGENT "/agents/{name}"

static const char *const claimed[] = {"/agents",      "/deployments",
                                      "/connections", "/datasets",
                                      "/indexes",     "/applications"};

/* At or below the prefix, or the prefix with a colon and a word. */
static bool below(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(path, prefix, len) == 0 &&
           (path[len] == '\0' || path[len] == '/' || path[len] == ':');
}

/* /agents/NAME/endpoint/protocols/openai and what is below it. */
static bool is_endpoint(const char *path)
{
    static const char *const kinds[][2] = {
        {"/agents/", "/endpoint/protocols/openai"},
        {"/applications/", "/protocols/openai"}};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        const char *rest = path + strlen(kinds[i][0]);

        if (strncmp(path, kinds[i][0], strlen(kinds[i][0])) == 0 &&
            below(rest + strcspn(rest, "/"), kinds[i][1]))
            return true;
    }
    return false;
}

static const char *enter(const char *path,
                         struct doors_part ret[DOORS_PARAMS_MAX])
{
    if (strncmp(path, PROJECTS, sizeof(PROJECTS) - 1) != 0)
        return NULL;
    ret[0].text = path + sizeof(PROJECTS) - 1;
    ret[0].len = strcspn(ret[0].text, "/");
    if (ret[0].len == 0)
        return NULL;
    path = ret[0].text + ret[0].len;
    while (path[0] == '/' && path[1] == '/') /* of an endpoint with a slash */
        path++;
    if (is_endpoint(path))
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(claimed); i++)
        if (below(path, claimed[i]))
            return path;
    return NULL;
}

static const struct doors_route routes[] = {
    {.method = "POST",
     .pattern = "/agents",
     .handle = foundry_agents_create,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = "/agents",
     .handle = foundry_agents_list,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = AGENT,
     .handle = foundry_agents_get,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = AGENT,
     .handle = foundry_agents_update,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "PATCH",
     .pattern = AGENT,
     .handle = foundry_agents_patch,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "DELETE",
     .pattern = AGENT,
     .handle = foundry_agents_delete,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = AGENT "/versions",
     .handle = foundry_versions_create,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = AGENT "/versions",
     .handle = foundry_versions_list,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = AGENT "/versions/{version}",
     .handle = foundry_versions_get,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "DELETE",
     .pattern = AGENT "/versions/{version}",
     .handle = foundry_versions_delete,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},

    {.method = "GET",
     .pattern = "/deployments",
     .handle = foundry_deployments_list,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = "/deployments/{name}",
     .handle = foundry_deployments_get,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = "/connections",
     .handle = foundry_empty_list,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = "/connections/{name}",
     .handle = foundry_connection_get,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = "/connections/{name}/getConnectionWithCredentials",
     .handle = foundry_connection_get,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = "/datasets",
     .handle = foundry_empty_list,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = "/indexes",
     .handle = foundry_empty_list,
     .scope = AUTH_EXECUTE},
};

static const char *const key_headers[] = {"api-key", NULL};

const struct doors_door doors_foundry = {
    .name = "foundry",
    .enter = enter,
    .routes = routes,
    .count = ARRAY_SIZE(routes),
    .refuse = foundry_refuse,
    .shares = true, /* agents are a project's */
    .key_headers = key_headers,
    .any_query = true,
    .slash = true,
    .no_method = true,
};
