/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools of the service in the loop: a request asks for the MCP server
 * `glovebox`, and the model may then read, list and search files and make
 * reports. Each call is an item of the type mcp_call. The tools are those of
 * the MCP door, which offers them by chat_box_set; they work in the session of
 * the response and with the rights of the principal that asked. Runs in
 * gloveboxd on the thread of a response.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "chat/chat_int.h"
#include "conf/conf.h"
#include "json/json.h"

#define TEXT_BYTES ((size_t)24 << 10) /* of an answer, for the model */
#define OTHER_PREFIX                                                          \
    "glovebox_" /* where the client has a function so called */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

void chat_box_set(struct chat *c, const struct chat_box *box, void *self)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);

    c->box = box;
    c->box_self = self;
}

void chat_box_answer_done(struct chat_box_answer *a)
{
    free(a->text);
    free(a->file.path);
    json_decref(a->images);
    *a = (struct chat_box_answer){0};
}

/* ---- which there are ---------------------------------------------------- */

static bool has_name(const json_t *list, const char *name)
{
    json_t *v;
    size_t i;

    json_array_foreach ((json_t *)list, i, v) {
        const char *own = json_is_string(v)
                              ? json_string_value(v)
                              : text_of(v, "name"); /* of a function */

        if (own && strcmp(own, name) == 0)
            return true;
    }
    return false;
}

static int check_names(const json_t *names, const json_t *all,
                       struct chat_fault *fault, struct error *err)
{
    json_t *v;
    size_t i;

    json_array_foreach ((json_t *)names, i, v)
        if (!has_name(all, json_string_value(v)))
            return chat_invalid(fault, "invalid_value", "tools", err,
                                "The server '" CHAT_BOX_LABEL
                                "' has no tool '%.64s', or "
                                "this key lacks its scope.",
                                json_string_value(v));
    return 0;
}

int chat_toolbox_settle(struct chat_response *r, const struct chat_request *rq,
                        struct chat_fault *fault, struct error *err)
{
    json_t *all cleanup(json_unref) = NULL, *tool;
    size_t i;
    int rc;

    if (!rq->box)
        return 0;
    if (!r->chat->box)
        return error_set(err, ERR_UNAVAILABLE,
                         "the tools of the service are not available");
    r->scopes = rq->scopes;
    r->base_url = xstrdup(rq->base_url ? rq->base_url : "");
    all = r->chat->box->list(r->chat->box_self, rq->scopes);
    rc = check_names(rq->box_names, all, fault, err);
    if (rc < 0)
        return rc;
    r->box = json_array();
    json_array_foreach (all, i, tool) {
        const char *name = text_of(tool, "name");
        bool reads = json_is_true(json_object_get(
            json_object_get(tool, "annotations"), "read_only"));

        if ((rq->box_names && !has_name(rq->box_names, name)) ||
            (rq->box_read_only && !reads))
            continue;
        (void)json_object_set_new(tool, "called",
                                  has_name(rq->functions, name)
                                      ? json_sprintf(OTHER_PREFIX "%s", name)
                                      : json_string(name));
        (void)json_array_append(r->box, tool);
    }
    return 0;
}

static const json_t *find(const struct chat_response *r, const char *called)
{
    json_t *tool;
    size_t i;

    json_array_foreach (r->box, i, tool)
        if (called && strcmp(text_of(tool, "called"), called) == 0)
            return tool;
    return NULL;
}

const char *chat_toolbox_name(const struct chat_response *r,
                              const char *called)
{
    const json_t *tool = find(r, called);

    return tool ? text_of(tool, "name") : NULL;
}

void chat_toolbox_offer(struct chat_response *r, json_t *tools)
{
    json_t *tool;
    size_t i;

    json_array_foreach (r->box, i, tool)
        (void)json_array_append_new(
            tools,
            chat_pack("{s:s, s:O, s:O, s:O, s:b}", "type", "function", "name",
                      json_object_get(tool, "called"), "description",
                      json_object_get(tool, "description"), "parameters",
                      json_object_get(tool, "input_schema"), "strict", 0));
}

/* ---- the item that lists them ------------------------------------------- */

static bool is_listed(const struct chat_items *items)
{
    for (size_t i = 0; i < items->count; i++)
        if (chat_item_is(&items->list[i], "mcp_list_tools"))
            return true;
    return false;
}

void chat_toolbox_list(struct chat_response *r)
{
    json_t *item, *tools = json_array(), *tool;
    char id[ID_MAX];
    size_t output, i;

    if (!r->box || is_listed(&r->context) || is_listed(&r->input)) {
        json_decref(tools);
        return;
    }
    ids_make("mcpl", id);
    item =
        chat_pack("{s:s, s:s, s:s, s:[]}", "id", id, "type", "mcp_list_tools",
                  "server_label", CHAT_BOX_LABEL, "tools");
    output = chat_item_open(r, json_copy(item));
    chat_item_event(r, "response.mcp_list_tools.in_progress", id, output);
    json_array_foreach (r->box, i, tool)
        (void)json_array_append_new(
            tools,
            chat_pack("{s:O, s:O, s:O, s:O}", "name",
                      json_object_get(tool, "name"), "description",
                      json_object_get(tool, "description"), "input_schema",
                      json_object_get(tool, "input_schema"), "annotations",
                      json_object_get(tool, "annotations")));
    (void)json_object_set_new(item, "tools", tools);
    chat_item_event(r, "response.mcp_list_tools.completed", id, output);
    chat_item_close(r, output, item);
}

/* ---- a call ------------------------------------------------------------- */

json_t *chat_toolbox_item(const char *id, const char *name, const char *status,
                          const char *arguments, size_t len)
{
    return chat_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:n}", "id", id,
                     "type", "mcp_call", "status", status, "server_label",
                     CHAT_BOX_LABEL, "name", name, "arguments",
                     chat_text(arguments, len), "output", "error",
                     "approval_request_id");
}

/* The arguments with the session in which the tool works. NULL: *ret_why has
 * the reason, for the model. */
static json_t *read_arguments(struct chat_response *r, const json_t *tool,
                              const char *text, char **ret_why)
{
    json_t *args = NULL;
    struct error err;

    if (text[strspn(text, " \t\r\n")] == '\0') {
        args = json_object();
    } else if (json_parse(text, strlen(text), &args, &err) < 0) {
        *ret_why =
            xasprintf("The arguments are not valid JSON (%s).", err.message);
        return NULL;
    }
    if (!json_is_object(args)) {
        json_decref(args);
        *ret_why = xstrdup("The arguments must be a JSON object.");
        return NULL;
    }
    (void)json_object_del(args, "session_id");
    if (json_is_true(json_object_get(tool, "session")) &&
        !json_object_get(args, "workspace")) {
        if (chat_container_need(r, &err) < 0) {
            json_decref(args);
            *ret_why = xasprintf("The tool did not run: %s.", err.message);
            return NULL;
        }
        (void)json_object_set_new(args, "session_id", json_string(r->session));
    }
    return args;
}

static void cut_text(struct chat_box_answer *a)
{
    size_t len = strlen(a->text), kept = utf8_cut(a->text, len, TEXT_BYTES);

    if (len <= TEXT_BYTES)
        return;
    char *cut = xasprintf("%.*s\n[… %zu bytes are left out here. Ask for less "
                          "at a time.]",
                          (int)kept, a->text, len - kept);

    free(a->text);
    a->text = cut;
}

static void on_held(void *ctx, const char *approval, const char *execution)
{
    chat_writer_held(ctx, approval, execution);
}

static void call_tool(struct chat_response *r, const json_t *tool,
                      const char *item, const char *arguments,
                      struct chat_box_answer *ret)
{
    char *why = NULL;
    json_t *args cleanup(json_unref) =
        read_arguments(r, tool, arguments, &why);
    struct chat_box_call c = {
        .who = &r->owner.who,
        .scopes = r->scopes,
        .base_url = r->base_url,
        .name = text_of(tool, "name"),
        .arguments = args,
        .conversation = r->conversation[0] ? r->conversation : r->id,
        .message = item,
        .prompt = r->prompt,
        .stop = chat_is_left,
        .on_held = on_held,
        .held_wait_ms = r->chat->parts.conf->chat_approval_wait_s * 1000,
        .ctx = r,
    };

    if (!args) {
        ret->failed = true;
        ret->text = why;
        return;
    }
    r->chat->box->run(r->chat->box_self, &c, ret);
    cut_text(ret);
}

static void close_call(struct chat_response *r, size_t output,
                       const char *name, const char *arguments,
                       const char *status, const struct chat_box_answer *a)
{
    struct chat_item item = {.created_at_ms = clock_real_ms()};
    const char *id = chat_item_id(&r->output.list[output]);

    chat_item_event(r,
                    a->failed ? "response.mcp_call.failed"
                              : "response.mcp_call.completed",
                    id, output);
    item.body =
        chat_toolbox_item(id, name, status, arguments, strlen(arguments));
    (void)json_object_set_new(item.body, a->failed ? "error" : "output",
                              chat_text(a->text, strlen(a->text)));
    item.result = xstrdup(a->text);
    memcpy(item.session, r->session, sizeof(item.session));
    (void)snprintf(item.execution, sizeof(item.execution), "%s", a->execution);
    if (a->file.path)
        chat_item_add_file(&item, a->file.file, a->file.version, a->file.path,
                           a->file.change, a->file.size);
    chat_item_replace(r, output, &item);
}

void chat_toolbox_refuse(struct chat_response *r, size_t output,
                         const char *called, const char *arguments,
                         const char *why)
{
    struct chat_box_answer a = {.text = (char *)why, .failed = true};
    const char *name = chat_toolbox_name(r, called);

    close_call(r, output, name ? name : called, arguments, "incomplete", &a);
}

void chat_toolbox_run(struct chat_response *r, size_t output,
                      const char *called, const char *arguments,
                      struct chat_run *ret)
{
    struct chat_box_answer a cleanup(chat_box_answer_done) = {.text = NULL};
    const json_t *tool = find(r, called);
    char *item cleanup(mem_free) =
        xstrdup(chat_item_id(&r->output.list[output]));

    call_tool(r, tool, item, arguments, &a);
    mutex_lock(&r->lock);
    r->ran = true;
    mutex_unlock(&r->lock);
    ret->text = xstrdup(a.text);
    ret->images = json_incref(a.images);
    ret->failed = a.failed;
    ret->held = a.approval[0] != '\0';
    a.failed = a.failed || ret->held; /* nothing came of it yet */
    close_call(r, output, text_of(tool, "name"), arguments,
               ret->held     ? "incomplete"
               : ret->failed ? "failed"
                             : "completed",
               &a);
}
