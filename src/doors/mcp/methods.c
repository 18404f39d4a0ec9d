/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of methods, and running one. Runs on a worker of the daemon. A
 * method exists exactly where its capability is advertised.
 */
#include <string.h>

#include "base/mem.h"
#include "doors/mcp/mcp_int.h"

#define BOTH (METHOD_MODERN | METHOD_LEGACY)

static const struct mcp_method methods[] = {
    {"server/discover", mcp_modern_discover, METHOD_MODERN | METHOD_AZURE},
    {"initialize", mcp_legacy_initialize, METHOD_LEGACY | METHOD_AZURE},
    {"ping", mcp_legacy_ping, METHOD_LEGACY | METHOD_AZURE},
    {"logging/setLevel", mcp_legacy_set_level, METHOD_LEGACY},
    {"tools/list", mcp_call_list, BOTH | METHOD_AZURE},
    {"tools/call", mcp_call_run, BOTH | METHOD_AZURE | METHOD_ASKS},
    {"resources/list", mcp_resources_list, BOTH},
    {"resources/templates/list", mcp_resources_templates, BOTH},
    {"resources/read", mcp_read, BOTH | METHOD_ASKS},
    {"resources/subscribe", mcp_legacy_subscribe, METHOD_LEGACY},
    {"resources/unsubscribe", mcp_legacy_unsubscribe, METHOD_LEGACY},
    {"prompts/list", mcp_prompts_list, BOTH},
    {"prompts/get", mcp_prompts_get, BOTH | METHOD_ASKS},
    {"completion/complete", mcp_complete, BOTH},
    {"subscriptions/listen", mcp_listen, METHOD_MODERN},
    {"tasks/get", mcp_tasks_get, METHOD_MODERN},
    {"tasks/update", mcp_tasks_update, METHOD_MODERN},
    {"tasks/cancel", mcp_tasks_cancel, METHOD_MODERN},
};

const struct mcp_method *mcp_methods_find(const struct mcp_exchange *x)
{
    unsigned need = (x->era == MCP_MODERN ? METHOD_MODERN : METHOD_LEGACY) |
                    (x->azure ? METHOD_AZURE : 0);

    for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
        if (strcmp(methods[i].name, x->msg.method) == 0)
            return (methods[i].flags & need) == need ? &methods[i] : NULL;
    return NULL;
}

/* /mcp?tools=core|workspace|all */
static int choose_tools(struct mcp_exchange *x)
{
    static const struct {
        const char *name;
        unsigned groups;
    } choices[] = {
        {"core", MCP_CORE},
        {"workspace", MCP_WORKSPACE},
        {"all", MCP_CORE | MCP_WORKSPACE},
    };
    const char *asked = NULL;
    struct error err;

    if (http_query(x->door->http, "tools", &asked, &err) < 0)
        return mcp_rpc_blame(&x->fault, &err);
    x->groups = x->azure ? MCP_AZURE : MCP_CORE | MCP_FIXTURE;
    if (!asked || x->azure)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(choices); i++)
        if (strcmp(asked, choices[i].name) == 0) {
            x->groups = choices[i].groups | MCP_FIXTURE;
            return 0;
        }
    return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                         "the parameter tools must be core, workspace or all");
}

static int run(struct mcp_exchange *x)
{
    const struct mcp_method *method = mcp_methods_find(x);
    int r = choose_tools(x);

    if (r < 0)
        return r;
    if (!method)
        return mcp_rpc_fault(&x->fault, RPC_METHOD, NULL, "no such method");
    if (x->era == MCP_MODERN && (method->flags & METHOD_ASKS))
        r = mcp_state_take(x);
    return r < 0 ? r : method->run(x);
}

void mcp_methods_run(struct mcp_exchange *x)
{
    int r = run(x);

    if (r == MCP_TAKEN)
        return;
    if (r == MCP_PENDING && !x->fault.code)
        mcp_ask_write(x);
    if (x->scope && !x->answered && !x->batch)
        mcp_gate_scope(x);
    else
        mcp_reply(x);
}

/* ---- for the methods ---------------------------------------------------- */

void mcp_write_caching(struct mcp_exchange *x, bool shared, int64_t ttl_ms)
{
    if (x->era != MCP_MODERN)
        return;
    json_write_int(&x->w, "ttlMs", ttl_ms);
    json_write_string(&x->w, "cacheScope", shared ? "public" : "private");
}

const char *mcp_need_string(struct mcp_exchange *x, const char *name)
{
    const json_t *value = json_object_get(x->msg.params, name);

    if (!json_is_string(value))
        (void)mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                            "params.%s must be a string", name);
    return json_string_value(value);
}

const char *mcp_need_cursor(struct mcp_exchange *x)
{
    const json_t *value = json_object_get(x->msg.params, "cursor");

    if (!value)
        return "";
    if (!json_is_string(value))
        (void)mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                            "params.cursor must be a string");
    return json_string_value(value);
}
