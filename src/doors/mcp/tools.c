/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools/list and tools/call, the content of answers, and the table of tools in
 * the order hosts see them; each tool is in a tool_*.c. Runs on a worker of
 * the daemon. What a model can act on, bad arguments included, is an answer of
 * the tool; an unknown tool, a missing scope or a missing capability is an
 * error of the protocol.
 *
 * An answer has blocks of content for people and models and one structured
 * object for programs. Bytes may be anything a session wrote; the result is
 * valid JSON (H6).
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "doors/mcp/mcp_int.h"
#include "doors/mcp/tool.h"

#define MINUTE_MS ((int64_t)60 * 1000)

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

static void write_tool(struct mcp_exchange *x, const struct mcp_tool *t)
{
    struct json_writer *w = &x->w;

    json_write_open(w, NULL, '{');
    json_write_string(w, "name", t->name);
    if (t->title)
        json_write_string(w, "title", t->title);
    json_write_string(w, "description", mcp_network_words(x, t->description));
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

/* The destinations that sessions of the caller's pool can reach. */
static const char *network_words(const struct mcp_exchange *x)
{
    struct pool_info info cleanup(pool_info_done) = {.details = NULL};
    struct error ignored;

    if (session_pool_get(x->doors->sessions, x->actor, x->pool, &info,
                         &ignored) < 0)
        return "Network access depends on the pool.";
    if (info.egress == SESSION_EGRESS_OPEN)
        return info.packages ? "The network is open, and pip can install "
                               "packages that policy allows."
                             : "The network is open.";
    if (info.egress == SESSION_EGRESS_ALLOWLIST)
        return info.packages
                   ? "The network reaches only what the pool allows, and pip "
                     "can install packages that policy allows."
                   : "The network reaches only what the pool allows.";
    return info.packages ? "There is no network, but pip can install packages "
                           "that policy allows."
                         : "There is no network, and nothing can be "
                           "installed.";
}

const char *mcp_network_words(const struct mcp_exchange *x, const char *text)
{
    const char *at = strstr(text, MCP_NETWORK);

    if (!at)
        return text;
    return arena_printf(x->arena, "%.*s%s%s", (int)(at - text), text,
                        network_words(x), at + strlen(MCP_NETWORK));
}

/* The table's, then the saved ones. Tools whose scope the caller lacks are
 * left out. The cursor is a place in the table and beyond. */
int mcp_call_list(struct mcp_exchange *x)
{
    const char *cursor = mcp_need_cursor(x);
    const struct mcp_tool *t, **saved = NULL;
    size_t built_in = mcp_tools_count + mcp_fixture_tools_count;
    size_t i, all, listed = 0;
    char next[24], *end;

    if (!cursor)
        return -1;
    all = built_in + mcp_saved_rows(x, &saved);
    i = strtoul(cursor, &end, 10);
    if (*end || (cursor[0] && (cursor[0] < '0' || cursor[0] > '9')) ||
        (i > 0 && i >= all))
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "params.cursor is not a cursor of this server");
    json_write_open(&x->w, "tools", '[');
    for (; i < all && listed < MCP_PAGE; i++) {
        t = i < built_in ? tool_at(i) : saved[i - built_in];
        if (is_listed(x, t) && mcp_has_scope(x, t->scope)) {
            write_tool(x, t);
            listed++;
        }
    }
    json_write_close(&x->w, ']');
    if (i < all) {
        (void)snprintf(next, sizeof(next), "%zu", i);
        json_write_string(&x->w, "nextCursor", next);
    }
    mcp_write_caching(x, false, MINUTE_MS); /* depends on key and pool */
    return 0;
}

/* ---- tools/call --------------------------------------------------------- */

static void write_tool_answer(struct mcp_exchange *x, struct mcp_answer *a)
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

/* Says that the call created a session, in words and in _meta. */
static void add_new_session(const struct mcp_call *call, struct mcp_answer *a)
{
    struct json_writer w = {.out = &a->meta, .comma = a->meta.len > 0};

    mcp_answer_text(a, call->new_session_text, strlen(call->new_session_text));
    json_write_string(&w, "com.glovebox/new_session", call->new_session);
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
        else if (call.new_session)
            add_new_session(&call, &answer);
        log_call(&call, tool, &answer, r < 0 ? &err : NULL);
        write_tool_answer(x, &answer);
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
int mcp_call_writable(struct mcp_exchange *x, const struct mcp_tool *tool)
{
    struct error err;

    if ((tool->hints & MCP_READ_ONLY) || strcmp(tool->name, "interrupt") == 0)
        return 0;
    if (doors_need_audit(x->doors, &err) == 0 &&
        (strcmp(tool->name, "unlock_file") == 0 ||
         strcmp(tool->name, "end_session") == 0 ||
         doors_need_room(x->doors, &err) == 0))
        return 0;
    return mcp_rpc_fault(&x->fault, RPC_INTERNAL, NULL, "%s%s%s", err.message,
                         err.hint[0] ? ". " : "", err.hint);
}

static int check_call(struct mcp_exchange *x, const struct mcp_tool *tool,
                      const json_t *args)
{
    struct mcp_headers h = {get_header, x->door->http};
    int r = mcp_call_writable(x, tool);

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
        tool = mcp_saved_find(x, name);
    if (!tool)
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "there is no tool '%.100s' here", name);
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

/* ---- answers ------------------------------------------------------------ */

void mcp_answer_init(struct mcp_answer *a)
{
    memset(a, 0, sizeof(*a));
    a->w.out = &a->content;
}

void mcp_answer_done(struct mcp_answer *a)
{
    buf_done(&a->content);
    buf_done(&a->structured);
    buf_done(&a->meta);
}

void mcp_answer_text_of(struct mcp_answer *a, const char *session,
                        const char *text, size_t len)
{
    json_write_open(&a->w, NULL, '{');
    json_write_string(&a->w, "type", "text");
    json_write_text(&a->w, "text", text, len);
    if (session) {
        json_write_open(&a->w, "_meta", '{');
        json_write_string(&a->w, "container_id", session);
        json_write_close(&a->w, '}');
    }
    json_write_close(&a->w, '}');
}

void mcp_answer_text(struct mcp_answer *a, const char *text, size_t len)
{
    mcp_answer_text_of(a, NULL, text, len);
}

static char *format_text(const char *fmt, va_list ap)
{
    char *text;

    if (vasprintf(&text, fmt, ap) < 0)
        abort(); /* out of memory, as the x* wrappers do */
    return text;
}

void mcp_answer_textf(struct mcp_answer *a, const char *fmt, ...)
{
    char *text cleanup(mem_free) = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = format_text(fmt, ap);
    va_end(ap);
    mcp_answer_text(a, text, strlen(text));
}

void mcp_answer_image(struct mcp_answer *a, const char *type,
                      const void *bytes, size_t len)
{
    json_write_open(&a->w, NULL, '{');
    json_write_string(
        &a->w, "type",
        strncmp(type, "audio/", strlen("audio/")) == 0 ? "audio" : "image");
    json_write_base64(&a->w, "data", bytes, len);
    json_write_string(&a->w, "mimeType", type);
    json_write_close(&a->w, '}');
}

void mcp_answer_link(struct mcp_answer *a, const struct mcp_link *link)
{
    json_write_open(&a->w, NULL, '{');
    json_write_string(&a->w, "type", "resource_link");
    json_write_string(&a->w, "uri", link->uri);
    json_write_string(&a->w, "name", link->name);
    if (link->title)
        json_write_string(&a->w, "title", link->title);
    if (link->description)
        json_write_string(&a->w, "description", link->description);
    if (link->mime)
        json_write_string(&a->w, "mimeType", link->mime);
    if (link->size >= 0)
        json_write_int(&a->w, "size", link->size);
    json_write_close(&a->w, '}');
}

void mcp_answer_resource(struct mcp_answer *a, const char *uri,
                         const char *mime, const void *bytes, size_t len)
{
    json_write_open(&a->w, NULL, '{');
    json_write_string(&a->w, "type", "resource");
    json_write_open(&a->w, "resource", '{');
    json_write_string(&a->w, "uri", uri);
    json_write_string(&a->w, "mimeType", mime);
    if (mcp_resources_text(mime, bytes, len))
        json_write_text(&a->w, "text", bytes, len);
    else
        json_write_base64(&a->w, "blob", bytes, len);
    json_write_close(&a->w, '}');
    json_write_close(&a->w, '}');
}

/* Replaces whatever was said before: a model should see one thing to act on.
 */
static void replace_with_error(struct mcp_answer *a, const char *status,
                               const char *message, const char *hint)
{
    struct json_writer w = {.out = &a->structured};

    buf_reset(&a->content);
    buf_reset(&a->structured);
    a->w = (struct json_writer){.out = &a->content};
    a->is_error = true;
    mcp_answer_textf(a, "%s: %s%s%s", status, message, hint[0] ? ". " : "",
                     hint);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", status);
    json_write_string(&w, "message", message);
    if (hint[0])
        json_write_string(&w, "hint", hint);
    json_write_close(&w, '}');
}

void mcp_answer_error(struct mcp_answer *a, const struct error *err)
{
    bool ours = err->code == ERR_INTERNAL || err->code == ERR_NONE;

    /* As http_error_body: a defect of ours tells nothing of the host (H5). */
    replace_with_error(a, error_code_name(ours ? ERR_INTERNAL : err->code),
                       ours ? "an internal error" : err->message,
                       ours ? "Try again; if it fails again, ask the operator."
                            : err->hint);
}

void mcp_answer_refuse(struct mcp_answer *a, const char *status,
                       const char *fmt, ...)
{
    char *text cleanup(mem_free) = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = format_text(fmt, ap);
    va_end(ap);
    replace_with_error(a, status, text, "");
}

/* ---- the table of tools ------------------------------------------------- */

#define TOOL_AS(name_, fn, title_, groups_, hints_, scope_, long_)            \
    {                                                                         \
        .name = (name_), .title = (title_), .description = tool_##fn##_text,  \
        .input = &tool_##fn##_input, .output = &tool_##fn##_output,           \
        .groups = (groups_), .hints = (hints_), .scope = (scope_),            \
        .long_run = (long_), .run = tool_##fn                                 \
    }
#define TOOL(fn, title_, groups_, hints_, scope_, long_)                      \
    TOOL_AS(#fn, fn, title_, groups_, hints_, scope_, long_)

#define READS (MCP_READ_ONLY | MCP_IDEMPOTENT)

const struct mcp_tool mcp_tools[] = {
    TOOL(execute_python, "Run Python", MCP_CORE, MCP_DESTRUCTIVE, AUTH_EXECUTE,
         true),
    TOOL(run_shell, "Run a shell command", MCP_CORE, MCP_DESTRUCTIVE,
         AUTH_EXECUTE, true),
    TOOL(run_code, "Run code in another language", MCP_CORE, MCP_DESTRUCTIVE,
         AUTH_EXECUTE, true),
    TOOL(generate_pdf_report, "Make a PDF report", MCP_CORE,
         MCP_DESTRUCTIVE | MCP_IDEMPOTENT, AUTH_EXECUTE, true),
    TOOL(read_file, "Read a file", MCP_CORE, READS, AUTH_FILES_READ, false),
    TOOL(search_files, "Search in files", MCP_CORE, READS, AUTH_EXECUTE,
         false),
    TOOL(list_files, "List files", MCP_CORE, READS, AUTH_FILES_READ, false),
    TOOL(download_file, "Download a file", MCP_CORE, READS, AUTH_FILES_READ,
         false),
    TOOL(upload_file, "Upload a file", MCP_CORE,
         MCP_DESTRUCTIVE | MCP_IDEMPOTENT, AUTH_FILES_WRITE, false),
    TOOL(share_file, "Share a file by link", MCP_CORE | MCP_WORKSPACE,
         MCP_OPEN_WORLD, AUTH_FILES_WRITE, false),
    TOOL(upload_link, "Ask the user for a file", MCP_CORE, MCP_OPEN_WORLD,
         AUTH_FILES_WRITE, false),
    TOOL(reset_session, "Restart the interpreter", MCP_CORE, MCP_DESTRUCTIVE,
         AUTH_EXECUTE, false),
    TOOL(interrupt, "Interrupt what runs", MCP_CORE,
         MCP_DESTRUCTIVE | MCP_IDEMPOTENT, AUTH_EXECUTE, false),
    TOOL(list_sessions, "List sessions", MCP_CORE, READS, AUTH_EXECUTE, false),
    TOOL(refresh_session, "Refresh the files of a session", MCP_CORE,
         MCP_IDEMPOTENT, AUTH_EXECUTE, false),
    TOOL(hibernate_session, "Put a session to sleep", MCP_CORE, MCP_IDEMPOTENT,
         AUTH_EXECUTE, false),
    TOOL(undo, "Undo or redo executions", MCP_CORE, MCP_DESTRUCTIVE,
         AUTH_EXECUTE, false),
    TOOL(branch_session, "Branch a session", MCP_CORE, 0, AUTH_EXECUTE, false),
    TOOL(merge_branch, "Merge the files of a branch", MCP_CORE,
         MCP_DESTRUCTIVE, AUTH_EXECUTE, false),
    TOOL(end_session, "End a session", MCP_CORE,
         MCP_DESTRUCTIVE | MCP_IDEMPOTENT, AUTH_EXECUTE, false),
    TOOL(check_approval, "Look at an approval", MCP_CORE, READS, AUTH_EXECUTE,
         false),
    TOOL(list_workspaces, "List workspaces", MCP_WORKSPACE, READS,
         AUTH_FILES_READ, false),
    TOOL(create_workspace, "Create or name a workspace", MCP_WORKSPACE, 0,
         AUTH_FILES_WRITE, false),
    TOOL(search_workspace, "Search workspaces", MCP_WORKSPACE, READS,
         AUTH_FILES_READ, false),
    TOOL(file_history, "History of a file", MCP_WORKSPACE, READS,
         AUTH_FILES_READ, false),
    TOOL(restore_version, "Restore a version", MCP_WORKSPACE,
         MCP_DESTRUCTIVE | MCP_IDEMPOTENT, AUTH_FILES_WRITE, false),
    TOOL(lock_file, "Lock a file", MCP_WORKSPACE, 0, AUTH_FILES_WRITE, false),
    TOOL(unlock_file, "Unlock a file", MCP_WORKSPACE, 0, AUTH_FILES_WRITE,
         false),
    TOOL(share_session, "Share a session", MCP_WORKSPACE, MCP_IDEMPOTENT,
         AUTH_EXECUTE, false),
    TOOL(transfer_workspace, "Hand over a workspace", MCP_WORKSPACE,
         MCP_DESTRUCTIVE | MCP_OPEN_WORLD, AUTH_FILES_WRITE, false),
    TOOL(decide_approval, "Approve or deny", MCP_WORKSPACE, MCP_DESTRUCTIVE,
         AUTH_APPROVE, false),
    TOOL(conversation_files, "Files of a conversation", MCP_WORKSPACE, READS,
         AUTH_FILES_READ, false),
    TOOL_AS("launchShell", launch_shell, "Make an environment", MCP_AZURE, 0,
            AUTH_EXECUTE, false),
    TOOL_AS("runPythonCodeInRemoteEnvironment", run_python_remote,
            "Run Python in an environment", MCP_AZURE, MCP_DESTRUCTIVE,
            AUTH_EXECUTE, false),
    TOOL_AS("runShellCommandInRemoteEnvironment", run_shell_remote,
            "Run a command in an environment", MCP_AZURE, MCP_DESTRUCTIVE,
            AUTH_EXECUTE, false),
};

const size_t mcp_tools_count = ARRAY_SIZE(mcp_tools);
