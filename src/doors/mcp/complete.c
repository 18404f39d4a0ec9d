/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion/complete: paths and ids by their beginning, for the arguments of
 * prompts and of the resource template. Runs on a worker of the daemon; at
 * most 100 values, of what the caller may see.
 */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "doors/mcp/mcp_int.h"
#include "workspace/workspace.h"

#define VALUES_MAX 100u
#define WORKSPACES_MAX 20u /* whose files are offered when none is named */

struct values {
    struct mcp_exchange *x;
    size_t count;
    bool more;
};

static void offer(struct values *v, const char *text)
{
    if (v->count == VALUES_MAX) {
        v->more = true;
        return;
    }
    v->count++;
    json_write_string(&v->x->w, NULL, text);
}

static bool begins(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

/* A path of a session's own kind is one of the workspace. */
static const char *below_data(const char *value)
{
    static const char *const roots[] = {"sandbox:/mnt/data/", "/mnt/data/"};

    for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
        if (strncmp(value, roots[i], strlen(roots[i])) == 0)
            return value + strlen(roots[i]);
    return value;
}

static void offer_paths(struct values *v, const char *workspace,
                        const char *value)
{
    struct workspace_file *files = NULL;
    struct page_result got = {0};
    struct error err;

    if (workspace_files_list(v->x->doors->workspaces, v->x->actor, workspace,
                             &(struct workspace_files_spec){
                                 .prefix = below_data(value),
                                 .limit = VALUES_MAX - (unsigned)v->count},
                             &files, &got, &err) < 0)
        return; /* not one of the caller's: nothing to offer */
    for (size_t i = 0; i < got.count; i++)
        offer(v, files[i].path);
    v->more |= got.has_more;
    workspace_files_free(files, got.count);
}

/* Ids of workspaces, or the files of the newest. */
static void offer_workspaces(struct values *v, const char *value, bool files)
{
    struct workspace_info *found cleanup(mem_free) = NULL;
    struct page_result got = {0};
    struct error err;

    if (workspace_list(v->x->doors->workspaces, v->x->actor, false,
                       &(struct page){.limit = files ? WORKSPACES_MAX
                                                     : WORKSPACE_LIST_MAX},
                       &found, &got, &err) < 0)
        return;
    for (size_t i = 0; i < got.count; i++)
        if (!files && begins(found[i].id, value))
            offer(v, found[i].id);
        else if (files && found[i].files > 0 && v->count < VALUES_MAX)
            offer_paths(v, found[i].id, value);
}

static const char *context(const struct mcp_exchange *x, const char *name)
{
    const json_t *args = json_object_get(
        json_object_get(x->msg.params, "context"), "arguments");

    return json_string_value(json_object_get(args, name));
}

static void offer_files(struct values *v, const char *value)
{
    const char *workspace = context(v->x, "workspace");

    if (!mcp_has_scope(v->x, AUTH_FILES_READ))
        return;
    if (workspace)
        offer_paths(v, workspace, value);
    else
        offer_workspaces(v, value, true);
}

static int complete_prompt(struct values *v, const json_t *ref,
                           const char *argument, const char *value)
{
    const char *name = json_string_value(json_object_get(ref, "name"));
    const struct mcp_prompt *prompt = name ? mcp_prompts_find(name) : NULL;

    if (!prompt)
        return mcp_rpc_fault(&v->x->fault, RPC_PARAMS, NULL,
                             "params.ref names no prompt");
    for (size_t i = 0; i < MCP_PROMPT_ARGUMENTS; i++) {
        const struct mcp_prompt_argument *a = &prompt->arguments[i];

        if (!a->name || strcmp(a->name, argument) != 0)
            continue;
        if (a->path)
            offer_files(v, value);
        for (const char *const *c = a->choices; c && *c; c++)
            if (begins(*c, value))
                offer(v, *c);
        return 0;
    }
    return mcp_rpc_fault(&v->x->fault, RPC_PARAMS, NULL,
                         "the prompt has no argument '%.100s'", argument);
}

static int complete_ref(struct values *v, const json_t *ref,
                        const char *argument, const char *value)
{
    const char *type = json_string_value(json_object_get(ref, "type"));

    if (type && strcmp(type, "ref/prompt") == 0)
        return complete_prompt(v, ref, argument, value);
    if (!type || strcmp(type, "ref/resource") != 0)
        return mcp_rpc_fault(&v->x->fault, RPC_PARAMS, NULL,
                             "params.ref.type must be ref/prompt or "
                             "ref/resource");
    if (strcmp(argument, "workspace") == 0) {
        if (mcp_has_scope(v->x, AUTH_FILES_READ))
            offer_workspaces(v, value, false);
    } else if (strcmp(argument, "path") == 0) {
        offer_files(v, value);
    }
    return 0;
}

int mcp_complete(struct mcp_exchange *x)
{
    const json_t *asked = json_object_get(x->msg.params, "argument");
    const char *argument = json_string_value(json_object_get(asked, "name"));
    const char *value = json_string_value(json_object_get(asked, "value"));
    struct values v = {.x = x};

    if (!argument || !value)
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "params.argument must have a name and a value");
    json_write_open(&x->w, "completion", '{');
    json_write_open(&x->w, "values", '[');
    if (complete_ref(&v, json_object_get(x->msg.params, "ref"), argument,
                     value) < 0)
        return -1;
    json_write_close(&x->w, ']');
    json_write_bool(&x->w, "hasMore", v.more);
    json_write_close(&x->w, '}');
    return 0;
}
