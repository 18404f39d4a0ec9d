/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The response as an object, complete at any time, and the events of one that
 * was read from the store: the same kinds in the same order, with one piece
 * for each text. Runs in gloveboxd on any thread.
 */
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "chat/chat_int.h"

/* ---- JSON --------------------------------------------------------------- */

json_t *chat_text(const char *bytes, size_t len)
{
    struct buf clean cleanup(buf_done) = {0};
    json_t *text;
    size_t from = 0, n;

    for (size_t i = 0; i < len; i += n) {
        n = bytes[i] ? utf8_length(bytes + i, len - i) : 0;
        if (n)
            continue;
        buf_add(&clean, bytes + from, i - from);
        buf_adds(&clean, "\xef\xbf\xbd");
        n = 1;
        from = i + 1;
    }
    buf_add(&clean, bytes + from, len - from);
    buf_add(&clean, "", 0);
    text = json_stringn(clean.data ? clean.data : "", clean.len);
    if (!text)
        abort(); /* out of memory, as the x* wrappers do */
    return text;
}

json_t *chat_pack(const char *fmt, ...)
{
    json_error_t why;
    json_t *value;
    va_list ap;

    va_start(ap, fmt);
    value = json_vpack_ex(&why, 0, fmt, ap);
    va_end(ap);
    if (!value)
        abort(); /* a defect in a format, or out of memory */
    return value;
}

/* ---- the object --------------------------------------------------------- */

/* Codes of typed clients; they know no others. */
json_t *chat_object_error(const struct error *err)
{
    bool rate = err->code == ERR_LIMIT || err->code == ERR_BUSY;

    return chat_pack(
        "{s:s, s:s, s:s, s:n}", "code",
        rate                         ? "rate_limit_exceeded"
        : err->code == ERR_TOO_LARGE ? "invalid_prompt"
                                     : "server_error",
        "message", err->message[0] ? err->message : "the response failed",
        "type", rate ? "rate_limit_error" : "server_error", "param");
}

json_t *chat_object_usage(const struct model_usage *u)
{
    return chat_pack(
        "{s:I, s:{s:I, s:I}, s:I, s:{s:I}, s:I}", "input_tokens",
        (json_int_t)u->input, "input_tokens_details", "cached_tokens",
        (json_int_t)u->cached, "cache_write_tokens",
        (json_int_t)u->cache_write, "output_tokens", (json_int_t)u->output,
        "output_tokens_details", "reasoning_tokens", (json_int_t)u->reasoning,
        "total_tokens", (json_int_t)u->input + (json_int_t)u->output);
}

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static void set(json_t *o, const char *key, json_t *value)
{
    (void)json_object_set_new(o, key, value);
}

static json_t *body_locked(struct chat_response *r)
{
    json_t *o = json_object();
    bool done = r->status != CHAT_QUEUED && r->status != CHAT_IN_PROGRESS;

    mutex_assert_held(&r->lock);
    set(o, "id", json_string(r->id));
    set(o, "object", json_string("response"));
    set(o, "created_at", json_integer(r->created_ms / 1000));
    set(o, "completed_at",
        r->status == CHAT_COMPLETED ? json_integer(r->completed_ms / 1000)
                                    : json_null());
    set(o, "status", json_string(chat_status_name(r->status)));
    set(o, "background", json_boolean(r->background));
    set(o, "error",
        r->status == CHAT_FAILED ? chat_object_error(&r->failure)
                                 : json_null());
    set(o, "incomplete_details",
        r->status == CHAT_INCOMPLETE
            ? chat_pack("{s:s}", "reason",
                        r->incomplete ? r->incomplete : "max_output_tokens")
            : json_null());
    if (r->echo)
        (void)json_object_update_missing(o, r->echo);
    set(o, "model", json_string(r->model));
    set(o, "output", json_array());
    set(o, "previous_response_id", text_or_null(r->previous));
    set(o, "conversation",
        r->conversation[0] ? chat_pack("{s:s}", "id", r->conversation)
                           : json_null());
    set(o, "store", json_boolean(r->stored));
    set(o, "usage", done ? chat_object_usage(&r->usage) : json_null());
    if (r->left_out) /* the model did not get the oldest of the context */
        set(o, "context_items_left_out",
            json_integer((json_int_t)r->left_out));
    if (r->left_out)
        set(o, "context_summary",
            chat_pack("{s:s, s:o}", "through", r->through, "text",
                      r->summary ? chat_text(r->summary, strlen(r->summary))
                                 : json_null()));
    return o;
}

json_t *chat_object_body(struct chat_response *r)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);
    json_t *o = body_locked(r);

    (void)json_object_del(o, "output");
    (void)json_object_set_new(o, "last_event",
                              json_integer((json_int_t)r->line_count));
    return o;
}

static json_t *object_locked(struct chat_response *r, bool outputs)
{
    json_t *o, *output;

    if (r->loaded) {
        o = json_copy(r->echo);
        (void)json_object_del(o, "last_event");
        output = json_array();
        set(o, "output", output);
    } else {
        o = body_locked(r);
        output = json_object_get(o, "output");
    }
    for (size_t i = 0; i < r->output.count; i++)
        (void)json_array_append_new(
            output, chat_item_show(&r->output.list[i], outputs));
    return o;
}

json_t *chat_response_object(struct chat_response *r, bool outputs)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);

    return object_locked(r, outputs);
}

void chat_object_event(struct chat_response *r, const char *type)
{
    bool code = false;
    json_t *bare, *full;

    mutex_lock(&r->lock);
    for (size_t i = 0; i < r->output.count; i++)
        code =
            code || chat_item_is(&r->output.list[i], "code_interpreter_call");
    bare = object_locked(r, false);
    full = code ? object_locked(r, true) : NULL;
    mutex_unlock(&r->lock);
    chat_event_add(r, type, chat_pack("{s:o}", "response", bare),
                   full ? chat_pack("{s:o}", "response", full) : NULL);
}

/* ---- events of one that is over ----------------------------------------- */

static void replay_message(struct chat_response *r, size_t at,
                           const struct chat_item *item)
{
    const json_t *content = json_object_get(item->body, "content");
    const char *id = chat_item_id(item);
    json_t *opened = json_copy(item->body), *part;
    size_t n;

    set(opened, "content", json_array());
    set(opened, "status", json_string("in_progress"));
    chat_event_add(r, "response.output_item.added",
                   chat_pack("{s:I, s:o}", "output_index", (json_int_t)at,
                             "item", opened),
                   NULL);
    json_array_foreach (content, n, part)
        chat_part_events(r, id, at, n, part);
}

static void replay_code(struct chat_response *r, size_t at,
                        const struct chat_item *item)
{
    const char *id = chat_item_id(item);
    const json_t *code = json_object_get(item->body, "code");
    json_t *opened = json_copy(item->body);

    set(opened, "status", json_string("in_progress"));
    set(opened, "code", json_string(""));
    set(opened, "outputs", json_array());
    chat_event_add(r, "response.output_item.added",
                   chat_pack("{s:I, s:o}", "output_index", (json_int_t)at,
                             "item", opened),
                   NULL);
    chat_item_event(r, "response.code_interpreter_call.in_progress", id, at);
    if (json_is_string(code)) {
        chat_event_add(r, "response.code_interpreter_call_code.delta",
                       chat_pack("{s:I, s:s, s:O}", "output_index",
                                 (json_int_t)at, "item_id", id, "delta", code),
                       NULL);
        chat_event_add(r, "response.code_interpreter_call_code.done",
                       chat_pack("{s:I, s:s, s:O}", "output_index",
                                 (json_int_t)at, "item_id", id, "code", code),
                       NULL);
    }
    chat_item_event(r, "response.code_interpreter_call.interpreting", id, at);
    if (strcmp(chat_item_status(item), "completed") == 0)
        chat_item_event(r, "response.code_interpreter_call.completed", id, at);
}

static void replay_function(struct chat_response *r, size_t at,
                            const struct chat_item *item)
{
    const char *id = chat_item_id(item);
    const json_t *arguments = json_object_get(item->body, "arguments");
    json_t *opened = json_copy(item->body);

    set(opened, "status", json_string("in_progress"));
    set(opened, "arguments", json_string(""));
    chat_event_add(r, "response.output_item.added",
                   chat_pack("{s:I, s:o}", "output_index", (json_int_t)at,
                             "item", opened),
                   NULL);
    chat_event_add(r, "response.function_call_arguments.delta",
                   chat_pack("{s:I, s:s, s:O}", "output_index", (json_int_t)at,
                             "item_id", id, "delta", arguments),
                   NULL);
    chat_event_add(r, "response.function_call_arguments.done",
                   chat_pack("{s:I, s:s, s:O, s:O}", "output_index",
                             (json_int_t)at, "item_id", id, "arguments",
                             arguments, "name",
                             json_object_get(item->body, "name")),
                   NULL);
}

static void replay_box(struct chat_response *r, size_t at,
                       const struct chat_item *item)
{
    const char *id = chat_item_id(item);
    const json_t *arguments = json_object_get(item->body, "arguments");
    json_t *opened = json_copy(item->body);

    set(opened, "status", json_string("in_progress"));
    set(opened, "arguments", json_string(""));
    set(opened, "output", json_null());
    set(opened, "error", json_null());
    chat_event_add(r, "response.output_item.added",
                   chat_pack("{s:I, s:o}", "output_index", (json_int_t)at,
                             "item", opened),
                   NULL);
    chat_item_event(r, "response.mcp_call.in_progress", id, at);
    chat_event_add(r, "response.mcp_call_arguments.delta",
                   chat_pack("{s:I, s:s, s:O}", "output_index", (json_int_t)at,
                             "item_id", id, "delta", arguments),
                   NULL);
    chat_event_add(r, "response.mcp_call_arguments.done",
                   chat_pack("{s:I, s:s, s:O}", "output_index", (json_int_t)at,
                             "item_id", id, "arguments", arguments),
                   NULL);
    chat_item_event(r,
                    strcmp(chat_item_status(item), "completed") == 0
                        ? "response.mcp_call.completed"
                        : "response.mcp_call.failed",
                    id, at);
}

static void replay_reasoning(struct chat_response *r, size_t at,
                             const struct chat_item *item)
{
    const json_t *summary = json_object_get(item->body, "summary");
    const char *id = chat_item_id(item);
    json_t *opened = json_copy(item->body), *part;
    size_t n;

    set(opened, "summary", json_array());
    chat_event_add(r, "response.output_item.added",
                   chat_pack("{s:I, s:o}", "output_index", (json_int_t)at,
                             "item", opened),
                   NULL);
    json_array_foreach (summary, n, part)
        chat_summary_events(r, id, at, n, json_object_get(part, "text"));
}

static void replay_item(struct chat_response *r, size_t at)
{
    const struct chat_item *item = &r->output.list[at];

    if (chat_item_is(item, "message"))
        replay_message(r, at, item);
    else if (chat_item_is(item, "code_interpreter_call"))
        replay_code(r, at, item);
    else if (chat_item_is(item, "function_call"))
        replay_function(r, at, item);
    else if (chat_item_is(item, "mcp_call"))
        replay_box(r, at, item);
    else if (chat_item_is(item, "reasoning"))
        replay_reasoning(r, at, item);
    else
        chat_event_add(r, "response.output_item.added",
                       chat_pack("{s:I, s:O}", "output_index", (json_int_t)at,
                                 "item", item->body),
                       NULL);
    chat_item_done_event(r, at, item);
}

void chat_object_replay(struct chat_response *r)
{
    struct chat_items output = r->output;
    enum chat_status status = r->status;
    json_t *body = r->echo, *begun = json_deep_copy(body);

    set(begun, "status", json_string("in_progress"));
    set(begun, "usage", json_null());
    set(begun, "error", json_null());
    set(begun, "incomplete_details", json_null());
    set(begun, "completed_at", json_null());
    r->echo = begun; /* as it was at the beginning */
    r->output = (struct chat_items){0};
    chat_object_event(r, "response.created");
    chat_object_event(r, "response.in_progress");
    json_decref(begun);
    r->echo = body;
    r->output = output;
    for (size_t i = 0; i < r->output.count; i++)
        replay_item(r, i);
    chat_object_event(r, status == CHAT_COMPLETED    ? "response.completed"
                         : status == CHAT_INCOMPLETE ? "response.incomplete"
                                                     : "response.failed");
    chat_event_end(r);
}
