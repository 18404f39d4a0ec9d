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
#define RESPONSE "/responses/{response}"

#define PROJECTS "/api/projects/"

/* ---- prefixes ----------------------------------------------------------- */

/* The rest of the path after the prefix, if the path is at or below it. */
static const char *below(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);

    if (strncmp(path, prefix, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return path + len;
}

/* The endpoint of a named agent, in its present and its former form. */
static bool enter_agent(const char *path, struct doors_part *ret_name,
                        const char **ret_rest)
{
    static const char *const kinds[][2] = {
        {"/agents/", "/endpoint/protocols/openai"},
        {"/applications/", "/protocols/openai"}};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        const char *name = path + strlen(kinds[i][0]), *rest;
        size_t len;

        if (strncmp(path, kinds[i][0], strlen(kinds[i][0])) != 0)
            continue;
        len = strcspn(name, "/");
        rest = below(name + len, kinds[i][1]);
        if (!rest || len == 0)
            continue;
        *ret_name = (struct doors_part){name, len};
        *ret_rest = below(rest, "/v1") ? below(rest, "/v1") : rest;
        return true;
    }
    return false;
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
        while (path[0] == '/' && path[1] == '/') /* a slash too many */
            path++;
        if (below(path, "/toolboxes")) /* MCP's */
            return NULL;
        rest = path;
        if (enter_agent(path, &ret[OPENAI_PLACE_AGENT], &rest))
            return rest;
    }
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
        const char *found = below(path, prefixes[i]);

        if (found)
            return found;
    }
    return rest;
}

/* ---- routes ------------------------------------------------------------- */

#define CONVERSATION "/conversations/{conversation}"
#define COMPLETION "/chat/completions/{completion}"
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

    {.method = "GET",
     .pattern = "/models",
     .handle = openai_models_list,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = "/models/{model}",
     .handle = openai_models_get,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = "/conversations",
     .handle = openai_conversations_create,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = CONVERSATION,
     .handle = openai_conversations_get,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = CONVERSATION,
     .handle = openai_conversations_update,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "DELETE",
     .pattern = CONVERSATION,
     .handle = openai_conversations_delete,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = CONVERSATION "/items",
     .handle = openai_conversation_items_create,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE,
     .query = "include"},
    {.method = "GET",
     .pattern = CONVERSATION "/items",
     .handle = openai_conversation_items_list,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE,
     .query = PAGE " include"},
    {.method = "GET",
     .pattern = CONVERSATION "/items/{item}",
     .handle = openai_conversation_items_get,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE,
     .query = "include"},
    {.method = "DELETE",
     .pattern = CONVERSATION "/items/{item}",
     .handle = openai_conversation_items_delete,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},

    {.method = "POST",
     .pattern = "/chat/completions",
     .handle = openai_completions_create,
     .flags = DOORS_WAITS,
     .scope = AUTH_EXECUTE},
    {.method = "POST", /* where the class AzureOpenAI sends it */
     .pattern = "/deployments/{model}/chat/completions",
     .handle = openai_completions_deployment,
     .flags = DOORS_WAITS,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = "/chat/completions",
     .handle = openai_completions_list,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE,
     .query = PAGE " model"},
    {.method = "GET",
     .pattern = COMPLETION,
     .handle = openai_completions_get,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = COMPLETION,
     .handle = openai_completions_update,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "DELETE",
     .pattern = COMPLETION,
     .handle = openai_completions_delete,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = COMPLETION "/messages",
     .handle = openai_completions_messages,
     .flags = DOORS_TENANT,
     .scope = AUTH_EXECUTE,
     .query = PAGE},
    {.method = "POST",
     .pattern = "/responses",
     .handle = openai_responses_create,
     .flags = DOORS_WAITS,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = "/responses/input_tokens",
     .handle = openai_responses_count,
     .flags = DOORS_UNGATED | DOORS_FREES,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = "/responses/compact",
     .handle = openai_responses_compact,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = RESPONSE,
     .handle = openai_responses_get,
     .scope = AUTH_EXECUTE,
     .query = "include stream starting_after include_obfuscation"},
    {.method = "DELETE",
     .pattern = RESPONSE,
     .handle = openai_responses_delete,
     .scope = AUTH_EXECUTE},
    {.method = "POST",
     .pattern = RESPONSE "/cancel",
     .handle = openai_responses_cancel,
     .flags = DOORS_STOPS,
     .scope = AUTH_EXECUTE},
    {.method = "GET",
     .pattern = RESPONSE "/input_items",
     .handle = openai_responses_input,
     .scope = AUTH_EXECUTE,
     .query = PAGE " include"},
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
