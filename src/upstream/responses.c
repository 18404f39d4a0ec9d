/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenAI's Responses API as an upstream: stateless (store: false), the whole
 * context each time, only functions as tools. Pure. Runs in glovebox-model.
 */
#include <string.h>

#include "base/mem.h"
#include "upstream/upstream_int.h"

#define SEAL "openai:" /* marks reasoning that only such a server can read */

/* ---- requests ----------------------------------------------------------- */

static json_t *clean_message(const json_t *item)
{
    const char *role = upstream_text(item, "role");

    return json_pack("{s:s, s:s, s:O}", "type", "message", "role",
                     role ? role : "user", "content",
                     json_object_get(item, "content"));
}

static json_t *clean_reasoning(const json_t *item)
{
    const char *sealed = upstream_text(item, "encrypted_content");
    const json_t *summary = json_object_get(item, "summary");

    if (!sealed || strncmp(sealed, SEAL, strlen(SEAL)) != 0)
        return NULL;
    return json_pack("{s:s, s:s, s:o}", "type", "reasoning",
                     "encrypted_content", sealed + strlen(SEAL), "summary",
                     json_is_array(summary) ? json_deep_copy(summary)
                                            : json_array());
}

static void add_item(json_t *list, const json_t *item, bool last)
{
    const char *type = upstream_text(item, "type");
    json_t *clean = NULL;

    if (!type || strcmp(type, "message") == 0)
        clean = clean_message(item);
    else if (strcmp(type, "reasoning") == 0)
        clean = last ? clean_reasoning(item) : NULL;
    else if (strcmp(type, "function_call") == 0)
        clean = json_pack("{s:s, s:s, s:s, s:s}", "type", type, "call_id",
                          upstream_text(item, "call_id"), "name",
                          upstream_text(item, "name"), "arguments",
                          upstream_text(item, "arguments"));
    else
        clean = json_pack("{s:s, s:s, s:O}", "type", type, "call_id",
                          upstream_text(item, "call_id"), "output",
                          json_object_get(item, "output"));
    if (clean)
        (void)json_array_append_new(list, clean);
}

static bool is_output_of(const json_t *item, const char *id)
{
    const char *type = upstream_text(item, "type");
    const char *its = upstream_text(item, "call_id");

    return type && strcmp(type, "function_call_output") == 0 && its &&
           strcmp(its, id) == 0;
}

/* A call without its output is refused by the server. */
static void add_missing_output(json_t *list, const json_t *input, size_t at)
{
    const json_t *call = json_array_get(input, at);
    const char *type = upstream_text(call, "type");
    const char *id = upstream_text(call, "call_id");

    if (!type || strcmp(type, "function_call") != 0 || !id)
        return;
    for (size_t i = at + 1; i < json_array_size(input); i++)
        if (is_output_of(json_array_get(input, i), id))
            return;
    (void)json_array_append_new(
        list, json_pack("{s:s, s:s, s:s}", "type", "function_call_output",
                        "call_id", id, "output", "(no output was recorded)"));
}

static json_t *make_input(const json_t *prompt)
{
    const json_t *input = json_object_get(prompt, "input"), *item;
    json_t *list = json_array();
    size_t i, last = 0;

    json_array_foreach (input, i, item) {
        const char *role = upstream_text(item, "role");

        if (role && strcmp(role, "user") == 0)
            last = i;
    }
    json_array_foreach (input, i, item) {
        add_item(list, item, i > last);
        add_missing_output(list, input, i);
    }
    return list;
}

static json_t *make_tools(const json_t *prompt)
{
    json_t *list = json_array();
    const json_t *tool;
    size_t i;

    json_array_foreach (json_object_get(prompt, "tools"), i, tool) {
        json_t *f = json_pack("{s:s, s:s, s:o, s:b}", "type", "function",
                              "name", upstream_text(tool, "name"),
                              "parameters", request_schema(tool), "strict",
                              json_is_true(json_object_get(tool, "strict")));

        if (upstream_text(tool, "description"))
            (void)json_object_set(f, "description",
                                  json_object_get(tool, "description"));
        (void)json_array_append_new(list, f);
    }
    return list;
}

/* Others refuse to be asked for sealed reasoning. */
static bool reasons(const struct model_call_msg *call, const json_t *prompt)
{
    static const char *const names[] = {"o1", "o3", "o4", "gpt-5"};

    if (request_option(prompt, "reasoning"))
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strncmp(call->model, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static bool responses_request(const struct model_call_msg *call,
                              const json_t *prompt, json_t *body,
                              const char **why)
{
    static const char *const plain[] = {"temperature", "top_p",
                                        "reasoning",   "text",
                                        "user",        "parallel_tool_calls"};
    const json_t *choice = json_object_get(prompt, "tool_choice");
    uint64_t most = request_most_tokens(call, prompt);

    (void)why;
    (void)json_object_set_new(body, "input", make_input(prompt));
    (void)json_object_set_new(body, "store", json_false());
    (void)json_object_set_new(body, "stream", json_true());
    if (upstream_text(prompt, "instructions"))
        (void)json_object_set(body, "instructions",
                              json_object_get(prompt, "instructions"));
    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        if (request_option(prompt, plain[i]))
            (void)json_object_set(
                body, plain[i],
                (json_t *)(uintptr_t)request_option(prompt, plain[i]));
    if (most)
        (void)json_object_set_new(body, "max_output_tokens",
                                  json_integer((json_int_t)most));
    if (json_array_size(json_object_get(prompt, "tools")) > 0) {
        (void)json_object_set_new(body, "tools", make_tools(prompt));
        if (choice && !json_is_null(choice))
            (void)json_object_set(body, "tool_choice",
                                  (json_t *)(uintptr_t)choice);
    }
    if (reasons(call, prompt))
        (void)json_object_set_new(
            body, "include", json_pack("[s]", "reasoning.encrypted_content"));
    return true;
}

/* ---- answers ------------------------------------------------------------ */

static void read_usage(struct upstream_answer *a, const json_t *usage)
{
    struct model_end *e = &a->end;

    if (!json_is_object(usage))
        return;
    e->input = upstream_number(usage, "input_tokens");
    e->output = upstream_number(usage, "output_tokens");
    e->cached = upstream_number(json_object_get(usage, "input_tokens_details"),
                                "cached_tokens");
    e->reasoning = upstream_number(
        json_object_get(usage, "output_tokens_details"), "reasoning_tokens");
}

/* Texts of parts of one of these types, with a line end between. */
static void add_texts(const json_t *parts, const char *field, struct buf *to)
{
    const json_t *part;
    size_t i;

    json_array_foreach (parts, i, part) {
        const char *text = upstream_text(part, field);

        if (text)
            buf_addf(to, "%s%s", to->len ? "\n" : "", text);
    }
}

/* Brings what was streamed of an item to what its `done` says: the rest of it
 * where the stream had less, nothing where it had the same. */
static void complete_text(struct upstream_answer *a, struct slot *s,
                          const struct buf *all)
{
    if (all->len > s->text.len &&
        memcmp(all->data, s->text.data, s->text.len) == 0)
        answer_text(a, s, all->data + s->text.len, all->len - s->text.len);
}

static struct slot *slot_of(struct upstream_answer *a, const json_t *event,
                            enum slot_kind kind)
{
    const json_t *index = json_object_get(event, "output_index");
    int64_t number = json_is_integer(index) ? json_integer_value(index) : -1;
    struct slot *s = number >= 0 ? answer_find(a, number) : NULL;

    if (s && s->kind == kind)
        return s;
    if (number < 0 && a->count && !a->slots[a->count - 1].done &&
        a->slots[a->count - 1].kind == kind)
        return &a->slots[a->count - 1];
    return answer_open(a, kind, number);
}

static bool item_kind(const json_t *item, enum slot_kind *ret)
{
    const char *type = upstream_text(item, "type");

    if (!type)
        return false;
    if (strcmp(type, "message") == 0)
        *ret = SLOT_MESSAGE;
    else if (strcmp(type, "reasoning") == 0)
        *ret = SLOT_REASONING;
    else if (strcmp(type, "function_call") == 0)
        *ret = SLOT_CALL;
    else
        return false;
    return true;
}

static const char *call_id(const json_t *item)
{
    const char *id = upstream_text(item, "call_id");

    return id && *id ? id : upstream_text(item, "id");
}

static void item_added(struct upstream_answer *a, const json_t *event)
{
    const json_t *item = json_object_get(event, "item");
    enum slot_kind kind;

    if (item_kind(item, &kind)) {
        struct slot *s = slot_of(a, event, kind);

        if (kind == SLOT_CALL)
            answer_call(a, s, call_id(item), upstream_text(item, "name"));
    }
}

/* `done` of an item is authoritative. */
static void item_done(struct upstream_answer *a, const json_t *event,
                      const json_t *item)
{
    struct buf all cleanup(buf_done) = {0};
    const json_t *content = json_object_get(item, "content");
    enum slot_kind kind;
    struct slot *s;

    if (!item_kind(item, &kind))
        return;
    s = slot_of(a, event, kind);
    if (!s)
        return;
    buf_adds(&all, "");
    if (kind == SLOT_CALL) {
        const char *arguments = upstream_text(item, "arguments");

        answer_call(a, s, call_id(item), upstream_text(item, "name"));
        buf_adds(&all, arguments ? arguments : "");
    } else if (kind == SLOT_MESSAGE) {
        struct buf refusal cleanup(buf_done) = {0};

        add_texts(content, "text", &all);
        add_texts(content, "refusal", &refusal);
        if (refusal.len > s->refusal.len)
            answer_refusal(a, s, refusal.data + s->refusal.len,
                           refusal.len - s->refusal.len);
    } else {
        const char *sealed = upstream_text(item, "encrypted_content");

        add_texts(json_object_get(item, "summary"), "text", &all);
        if (!all.len)
            add_texts(content, "text", &all);
        if (sealed && !s->sealed && strlen(sealed) < MODEL_ANSWER_MAX / 2)
            s->sealed = xasprintf(SEAL "%s", sealed);
    }
    complete_text(a, s, &all);
    answer_close(a, s);
}

static void add_delta(struct upstream_answer *a, const json_t *event,
                      enum slot_kind kind)
{
    const json_t *delta = json_object_get(event, "delta");

    if (json_is_string(delta))
        answer_text(a, slot_of(a, event, kind), json_string_value(delta),
                    json_string_length(delta));
}

/* The last event: usage, why it ended, and items whose `done` never came. */
static void read_response(struct upstream_answer *a, const json_t *response)
{
    const char *status = upstream_text(response, "status");
    const char *why = upstream_text(
        json_object_get(response, "incomplete_details"), "reason");
    const json_t *item;
    size_t i;

    read_usage(a, json_object_get(response, "usage"));
    json_array_foreach (json_object_get(response, "output"), i, item) {
        json_t *event;

        if (i < a->count && a->slots[i].done)
            continue;
        event = json_pack("{s:I}", "output_index", (json_int_t)i);
        item_done(a, event, item);
        json_decref(event);
    }
    a->finished = true;
    if (status && strcmp(status, "incomplete") == 0)
        a->end.finish = why && strcmp(why, "content_filter") == 0 ? 2 : 1;
}

static void responses_event(struct upstream_answer *a, const char *name,
                            const json_t *data)
{
    const char *type = upstream_text(data, "type");
    const json_t *response = json_object_get(data, "response");

    if (!type)
        type = name;
#define IS(text) (strcmp(type, text) == 0)
    if (IS("error") || IS("response.failed") ||
        (!*type && json_object_get(data, "error"))) {
        read_usage(a, json_object_get(response, "usage"));
        answer_error(a, data);
    } else if (IS("response.output_item.added")) {
        item_added(a, data);
    } else if (IS("response.output_item.done")) {
        item_done(a, data, json_object_get(data, "item"));
    } else if (IS("response.output_text.delta")) {
        add_delta(a, data, SLOT_MESSAGE);
    } else if (IS("response.reasoning_summary_text.delta") ||
               IS("response.reasoning_text.delta")) {
        add_delta(a, data, SLOT_REASONING);
    } else if (IS("response.function_call_arguments.delta")) {
        add_delta(a, data, SLOT_CALL);
    } else if (IS("response.refusal.delta")) {
        const json_t *delta = json_object_get(data, "delta");

        if (json_is_string(delta))
            answer_refusal(a, slot_of(a, data, SLOT_MESSAGE),
                           json_string_value(delta),
                           json_string_length(delta));
    } else if (IS("response.completed") || IS("response.incomplete") ||
               IS("response.done")) {
        read_response(a, response);
    }
#undef IS
}

static void responses_whole(struct upstream_answer *a, const json_t *body)
{
    const char *status = upstream_text(body, "status");

    if (status && strcmp(status, "failed") == 0)
        answer_error(a, body);
    else
        read_response(a, body);
}

const struct dialect dialect_responses = {
    .path = "/responses",
    .request = responses_request,
    .event = responses_event,
    .whole = responses_whole,
};
