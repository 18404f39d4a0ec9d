/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools/list and tools/call over the table of tools. Runs on a worker of the
 * daemon. What a model can act on, bad arguments included, is a tool's
 * answer; an unknown tool, a missing right or a missing capability is not.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "doors/mcp/mcp_int.h"

#define HOUR_MS ((int64_t)3600 * 1000)

/* The product's, then what a test build added; NULL past the end. */
static const struct mcp_tool *tool_at(size_t i)
{
    if (i < mcp_tools_count)
        return &mcp_tools[i];
    i -= mcp_tools_count;
    return i < mcp_fixture_tools_count ? &mcp_fixture_tools[i] : NULL;
}

static bool is_listed(const struct mcp_exchange *x, const struct mcp_tool *t)
{
    return (t->groups & x->groups) != 0;
}

const struct mcp_tool *mcp_call_find(const struct mcp_exchange *x,
                                     const char *name)
{
    const struct mcp_tool *t;

    for (size_t i = 0; (t = tool_at(i)); i++)
        if (is_listed(x, t) && strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

/* ---- tools/list --------------------------------------------------------- */

static void write_tool(struct json_writer *w, const struct mcp_tool *t)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "name", t->name);
    if (t->title)
        json_write_string(w, "title", t->title);
    json_write_string(w, "description", t->description);
    if (t->input)
        api_schema(w, "inputSchema", t->input, API_INLINE);
    else
        json_write_raw(w, "inputSchema", t->schema, strlen(t->schema));
    if (t->output)
        api_schema(w, "outputSchema", t->output, API_INLINE);
    json_write_open(w, "annotations", '{');
    if (t->title)
        json_write_string(w, "title", t->title);
    json_write_bool(w, "readOnlyHint", t->hints & MCP_READ_ONLY);
    json_write_bool(w, "destructiveHint", t->hints & MCP_DESTRUCTIVE);
    json_write_bool(w, "idempotentHint", t->hints & MCP_IDEMPOTENT);
    json_write_bool(w, "openWorldHint", t->hints & MCP_OPEN_WORLD);
    json_write_close(w, '}');
    json_write_close(w, '}');
}

/* The cursor is a place in the table. */
int mcp_call_list(struct mcp_exchange *x)
{
    const char *cursor = mcp_need_cursor(x);
    const struct mcp_tool *t;
    size_t i, listed = 0;
    char next[24], *end;

    if (!cursor)
        return -1;
    i = strtoul(cursor, &end, 10);
    if (*end || (cursor[0] && (cursor[0] < '0' || cursor[0] > '9')) ||
        (i > 0 && !tool_at(i)))
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "params.cursor is none of ours");
    json_write_open(&x->w, "tools", '[');
    for (; (t = tool_at(i)) && listed < MCP_PAGE; i++)
        if (is_listed(x, t)) {
            write_tool(&x->w, t);
            listed++;
        }
    json_write_close(&x->w, ']');
    if (t) {
        (void)snprintf(next, sizeof(next), "%zu", i);
        json_write_string(&x->w, "nextCursor", next);
    }
    mcp_write_caching(x, true, HOUR_MS);
    return 0;
}

/* ---- tools/call --------------------------------------------------------- */

static void write_answer(struct mcp_exchange *x, struct mcp_answer *a)
{
    json_write_open(&x->w, "content", '[');
    buf_add(&x->result, a->content.data, a->content.len);
    json_write_close(&x->w, ']');
    if (a->structured.len > 0)
        json_write_raw(&x->w, "structuredContent", a->structured.data,
                       a->structured.len);
    if (a->is_error)
        json_write_bool(&x->w, "isError", true);
    buf_add(&x->meta, a->meta.data, a->meta.len);
}

/* The client's log and ours. */
static void log_call(struct mcp_call *call, const struct mcp_tool *tool,
                     const struct mcp_answer *a, const struct error *err)
{
    struct mcp_exchange *x = call->ctx;
    json_int_t took = (json_int_t)(clock_mono_ms() - x->started_ms);

    if (err && (err->code == ERR_INTERNAL || err->code == ERR_CORRUPT))
        log_event(LOG_ERROR, "tool_failed", "tool", tool->name, "request",
                  x->actor->request, "error", err->message, NULL);
    mcp_log(call, "debug",
            json_pack("{s:s,s:I,s:b}", "tool", tool->name, "ms", took, "error",
                      a->is_error));
}

int mcp_call_tool(struct mcp_exchange *x, const struct mcp_tool *tool,
                  const json_t *args)
{
    struct mcp_answer answer;
    struct mcp_call call;
    struct actor *who;
    struct error err;
    int r;

    mcp_exchange_call(x, &call);
    who = arena_alloc(x->arena, sizeof(*who));
    *who = *x->actor;
    who->tool = tool->name; /* policy may ask which */
    call.actor = who;
    mcp_answer_init(&answer);
    r = tool->run(&call, args, &answer, &err);
    if (x->fault.code) {
        r = -1;
    } else if (r != MCP_PENDING) {
        if (r < 0)
            mcp_answer_error(&answer, &err);
        log_call(&call, tool, &answer, r < 0 ? &err : NULL);
        write_answer(x, &answer);
        r = 0;
    }
    mcp_answer_done(&answer);
    return r;
}

static bool takes_tasks(const struct mcp_exchange *x)
{
    return x->era == MCP_MODERN &&
           json_object_get(json_object_get(x->caps, "extensions"), META_TASKS);
}

static const char *get_header(void *ctx, const char *name)
{
    return http_header(ctx, name);
}

/* Nothing is changed that the trail could not tell of (O3), and nothing is
 * stored on a full disk (D12). */
static int check_writable(struct mcp_exchange *x, const struct mcp_tool *tool)
{
    struct error err;

    if ((tool->hints & MCP_READ_ONLY) || strcmp(tool->name, "interrupt") == 0)
        return 0;
    if (doors_need_audit(x->doors, &err) == 0 &&
        (strcmp(tool->name, "unlock_file") == 0 ||
         doors_need_room(x->doors, &err) == 0))
        return 0;
    return mcp_rpc_fault(&x->fault, RPC_INTERNAL, NULL, "%s%s%s", err.message,
                         err.hint[0] ? ". " : "", err.hint);
}

static int check_call(struct mcp_exchange *x, const struct mcp_tool *tool,
                      const json_t *args)
{
    struct mcp_headers h = {get_header, x->door->http};
    int r = check_writable(x, tool);

    if (r < 0)
        return r;
    if (tool->task_only && !takes_tasks(x))
        return mcp_rpc_fault(
            &x->fault, x->era == MCP_MODERN ? RPC_CAPABILITY : RPC_PARAMS,
            json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions",
                      META_TASKS),
            "this tool needs a client with the tasks extension");
    if (x->era == MCP_MODERN)
        r = mcp_header_params(tool, args, &h, x->arena, &x->fault);
    return r < 0 ? r : mcp_need_scope(x, tool->scope);
}

int mcp_call_run(struct mcp_exchange *x)
{
    const char *name = mcp_need_string(x, "name");
    json_t *none cleanup(json_unref) = json_object();
    const json_t *args = json_object_get(x->msg.params, "arguments");
    const struct mcp_tool *tool;

    if (!name)
        return -1;
    tool = mcp_call_find(x, name);
    if (!tool)
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "no tool '%.100s' is listed here", name);
    if (args && !json_is_object(args))
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "params.arguments must be an object");
    if (!args)
        args = none;
    if (check_call(x, tool, args) < 0)
        return -1;
    x->door->actor.tool = tool->name;
    return (tool->long_run || tool->task_only) && takes_tasks(x)
               ? mcp_task_run(x, tool, args)
               : mcp_call_tool(x, tool, args);
}
