/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved tools of workspaces as tools of this server: "saved_" and the name
 * that a member gave it. They follow the built-in tools in tools/list. A call
 * runs the tool's code in the conversation's session on that workspace, as
 * execute_python and run_shell do. Runs on a worker of the daemon.
 */
#include <string.h>

#include "agents/tools.h"
#include "base/arena.h"
#include "base/mem.h"
#include "doors/mcp/mcp_int.h"
#include "doors/mcp/tool.h"

#define PREFIX "saved_"

static bool is_offered(const struct mcp_exchange *x)
{
    return (x->groups & (MCP_CORE | MCP_WORKSPACE)) != 0 &&
           mcp_has_scope(x, AUTH_EXECUTE);
}

static int tool_saved(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct saved_tool tool cleanup(saved_tool_done) = {.number = 0};
    struct saved_tool_call c cleanup(saved_tool_call_done) = {.timeout_s = 0};
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct exec_spec spec;
    int r = saved_tools_named(call->doors->agents, call->actor,
                              call->actor->tool + strlen(PREFIX), &tool, err);

    if (r == 0)
        r = saved_tool_call(&tool, args, &c, err);
    if (r == 0)
        r = tool_session(call, TOOL_MAKE, tool_held_session(call, NULL),
                         tool.workspace, &session, err);
    if (r < 0)
        return r;
    spec = (struct exec_spec){.language = c.language,
                              .code = c.code.data,
                              .code_len = c.code.len,
                              .timeout_s = c.timeout_s,
                              .metadata = c.metadata};
    r = tool_execute(call, session.id, &spec, &e, err);
    if (r == 0)
        tool_result(call, &session, e,
                    c.language == EXEC_PYTHON ? &tool_execute_python_output
                                              : &tool_run_shell_output,
                    ret);
    return r;
}

/* A row as those of the table have it; the exchange's. */
static const struct mcp_tool *make_row(struct mcp_exchange *x,
                                       const struct saved_tool *tool)
{
    struct mcp_tool *row = arena_alloc(x->arena, sizeof(*row));
    char *schema cleanup(mem_free) =
        json_dumps(tool->parameters, JSON_COMPACT);

    *row = (struct mcp_tool){
        .name = arena_printf(x->arena, PREFIX "%s", tool->unique),
        .description = arena_printf(
            x->arena, "%s%sA saved tool of the workspace %s, in %s.",
            tool->description, tool->description[0] ? "\n" : "",
            tool->workspace,
            tool->language == EXEC_PYTHON ? "Python" : "shell"),
        .schema = arena_strdup(x->arena, schema ? schema : "{}"),
        .output = tool->language == EXEC_PYTHON ? &tool_execute_python_output
                                                : &tool_run_shell_output,
        .groups = MCP_CORE | MCP_WORKSPACE,
        .hints = MCP_DESTRUCTIVE,
        .scope = AUTH_EXECUTE,
        .run = tool_saved};
    return row;
}

size_t mcp_saved_rows(struct mcp_exchange *x, const struct mcp_tool ***ret)
{
    struct saved_tool *list = NULL;
    struct error ignored; /* the other tools are listed all the same */
    size_t count = 0;

    *ret = NULL;
    if (!is_offered(x) || saved_tools_visible(x->doors->agents, x->actor, NULL,
                                              &list, &count, &ignored) < 0)
        return 0;
    *ret = arena_alloc(x->arena, (count + 1) * sizeof(**ret));
    for (size_t i = 0; i < count; i++)
        (*ret)[i] = make_row(x, &list[i]);
    saved_tools_free(list, count);
    return count;
}

const struct mcp_tool *mcp_saved_find(struct mcp_exchange *x, const char *name)
{
    struct saved_tool tool cleanup(saved_tool_done) = {.number = 0};
    struct error ignored;

    if (!is_offered(x) || strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
        saved_tools_named(x->doors->agents, x->actor, name + strlen(PREFIX),
                          &tool, &ignored) < 0)
        return NULL;
    return make_row(x, &tool);
}
