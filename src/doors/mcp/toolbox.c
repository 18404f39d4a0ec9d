/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools of this door for the agent loop (chat/): those that read, list and
 * search files, and make reports. The loop runs them by the same code, with
 * the same arguments, checks and scopes, as a host that calls tools/call; the
 * caller is the principal that asked, and policy sees that a model decided.
 * Runs in gloveboxd on the thread of a response.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "chat/chat.h"
#include "doors/mcp/mcp_int.h"

#define IMAGES_MAX 4u

static const char *const offered[] = {"list_files", "read_file",
                                      "search_files", "search_workspace",
                                      "generate_pdf_report"};

static const struct mcp_tool *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(offered); i++)
        for (size_t k = 0;
             strcmp(offered[i], name) == 0 && k < mcp_tools_count; k++)
            if (strcmp(mcp_tools[k].name, name) == 0)
                return &mcp_tools[k];
    return NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* ---- the list ----------------------------------------------------------- */

/* The arguments of a tool for a model; the loop names the session itself. */
static json_t *schema_of(const struct mcp_tool *tool, bool *ret_session)
{
    struct buf text cleanup(buf_done) = {0};
    struct json_writer w = {.out = &text};
    json_t *schema = NULL;
    struct error ignored; /* the text is ours */

    api_schema(&w, NULL, tool->input, API_INLINE);
    if (json_parse(text.data, text.len, &schema, &ignored) < 0)
        return json_object();
    *ret_session = json_object_del(json_object_get(schema, "properties"),
                                   "session_id") == 0;
    return schema;
}

static json_t *list_tools(void *self, uint32_t scopes)
{
    json_t *list = json_array();

    (void)self;
    for (size_t i = 0; i < ARRAY_SIZE(offered); i++) {
        const struct mcp_tool *t = find(offered[i]);
        bool session = false;
        json_t *schema;

        if ((scopes & t->scope) != t->scope && !(scopes & AUTH_ADMIN))
            continue;
        schema = schema_of(t, &session);
        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:o, s:{s:b}, s:b}", "name", t->name,
                      "description", t->description, "input_schema", schema,
                      "annotations", "read_only",
                      (t->hints & MCP_READ_ONLY) != 0, "session", session));
    }
    return list;
}

/* ---- a call ------------------------------------------------------------- */

/* Blocks of content for the loop: text, and images as data: URIs. */
static void take_content(const json_t *content, struct chat_box_answer *ret)
{
    struct buf text cleanup(buf_done) = {0};
    json_t *block;
    size_t i;

    ret->images = json_array();
    json_array_foreach (content, i, block) {
        const char *type = text_of(block, "type");

        if (strcmp(type, "text") == 0)
            buf_addf(&text, "%s%s", text.len ? "\n" : "",
                     text_of(block, "text"));
        else if (strcmp(type, "image") == 0 &&
                 json_array_size(ret->images) < IMAGES_MAX)
            (void)json_array_append_new(
                ret->images,
                json_sprintf("data:%s;base64,%s", text_of(block, "mimeType"),
                             text_of(block, "data")));
    }
    ret->text = text.len ? buf_take(&text, NULL) : xstrdup("(no output)");
}

/* What the structured answer says of a file that was made, and of a person
 * that has to approve first. */
static void take_structured(const json_t *structured,
                            struct chat_box_answer *ret)
{
    const json_t *file = json_object_get(structured, "file");

    if (strcmp(text_of(structured, "status"), "pending_approval") == 0) {
        (void)snprintf(ret->approval, sizeof(ret->approval), "%s",
                       text_of(structured, "approval_id"));
        (void)snprintf(ret->execution, sizeof(ret->execution), "%s",
                       text_of(structured, "execution_id"));
    }
    if (!*text_of(file, "file_id"))
        return;
    (void)snprintf(ret->file.file, sizeof(ret->file.file), "%s",
                   text_of(file, "file_id"));
    (void)snprintf(ret->file.version, sizeof(ret->file.version), "%s",
                   text_of(file, "version"));
    (void)snprintf(ret->file.change, sizeof(ret->file.change), "%s",
                   text_of(file, "change"));
    ret->file.path = xstrdup(text_of(file, "path"));
    ret->file.size =
        (uint64_t)json_integer_value(json_object_get(file, "size"));
}

static void take_result(const struct mcp_exchange *x,
                        struct chat_box_answer *ret)
{
    struct buf text cleanup(buf_done) = {0};
    json_t *result cleanup(json_unref) = NULL;
    struct error err;

    if (x->fault.code) {
        ret->failed = true;
        ret->text = xstrdup(x->fault.message);
        return;
    }
    mcp_reply_object(x, &text);
    if (json_parse(text.data, text.len, &result, &err) < 0) {
        ret->failed = true;
        ret->text = xasprintf("the answer of the tool cannot be read: %s",
                              err.message);
        return;
    }
    ret->failed = json_is_true(json_object_get(result, "isError"));
    take_content(json_object_get(result, "content"), ret);
    take_structured(json_object_get(result, "structuredContent"), ret);
}

static void run_tool(void *self, const struct chat_box_call *c,
                     struct chat_box_answer *ret)
{
    const struct doors *doors = self;
    const struct mcp_tool *tool = find(c->name);
    struct arena *arena = arena_new();
    json_t *meta cleanup(json_unref) =
        json_pack("{s:s, s:s}", META_CONVERSATION, c->conversation,
                  META_MESSAGE, c->message);
    struct mcp_exchange x = {
        .mcp = doors->mcp,
        .doors = doors,
        .actor = c->who,
        .scopes = c->scopes,
        .arena = arena,
        .era = MCP_MODERN,
        .base_url = c->base_url,
        .groups = MCP_CORE | MCP_WORKSPACE,
        .msg.meta = meta,
        .log_level = LOG_NONE,
        .started_ms = clock_mono_ms(),
        .stop = c->stop,
        .stop_ctx = c->ctx,
        .on_held = c->on_held,
        .held_wait_ms = c->held_wait_ms,
        .prompt = c->prompt,
    };

    x.w.out = &x.result;
    if (!tool) {
        (void)mcp_rpc_fault(&x.fault, RPC_PARAMS, NULL,
                            "there is no tool '%.100s' here", c->name);
    } else if (mcp_need_scope(&x, tool->scope) < 0) {
        (void)mcp_rpc_fault(&x.fault, RPC_PARAMS, NULL,
                            "this key may not use the tool %s", tool->name);
    } else if (mcp_call_writable(&x, tool) == 0) {
        (void)mcp_call_tool(&x, tool, c->arguments);
    }
    take_result(&x, ret);
    mcp_exchange_done(&x);
    arena_free(arena);
}

void mcp_toolbox_open(struct doors *doors)
{
    static const struct chat_box box = {list_tools, run_tool};

    if (doors->chat)
        chat_box_set(doors->chat, &box, doors);
}
