/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anthropic's Messages API as an upstream. Thinking goes back verbatim with
 * its signature, sealed in a reasoning item. Pure. Runs in glovebox-model.
 */
#include <string.h>

#include "base/mem.h"
#include "upstream/upstream_int.h"

/* Marks thinking that only such a server can read. */
#define SEAL "anthropic:"
/* The server needs a limit; this one holds if none is configured. */
#define MAX_TOKENS 8192u

/* ---- requests ----------------------------------------------------------- */

static bool takes_image(const char *type)
{
    static const char *const types[] = {"image/jpeg", "image/png", "image/gif",
                                        "image/webp"};

    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

static json_t *image_block(const char *url)
{
    char type[64];
    const char *data;

    if (!request_data_uri(url, type, &data))
        return json_pack("{s:s, s:{s:s, s:s}}", "type", "image", "source",
                         "type", "url", "url", url);
    if (!takes_image(type))
        return json_pack("{s:s, s:s+}", "type", "text", "text",
                         "An image was left out; the model does not take ",
                         type);
    return json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "image", "source",
                     "type", "base64", "media_type", type, "data", data);
}

/* Text blocks must not be empty. */
static void add_block(void *ctx, const struct part *part)
{
    json_t *list = ctx;

    if (part->kind == PART_IMAGE)
        (void)json_array_append_new(list, image_block(part->text));
    else if (*part->text)
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s}", "type", "text", "text", part->text));
}

/* The content of the last message if it is of that role, else of a new one. */
static json_t *content_for(json_t *messages, const char *role)
{
    json_t *last = json_array_get(messages, json_array_size(messages)
                                                ? json_array_size(messages) - 1
                                                : 0);

    if (!last || strcmp(upstream_text(last, "role"), role) != 0) {
        last = json_pack("{s:s, s:[]}", "role", role, "content");
        (void)json_array_append_new(messages, last);
    }
    return json_object_get(last, "content");
}

static void add_thinking(json_t *content, const json_t *item)
{
    const char *sealed = upstream_text(item, "encrypted_content");
    json_t *block = NULL;

    if (sealed && strncmp(sealed, SEAL, strlen(SEAL)) == 0)
        block = upstream_json(sealed + strlen(SEAL),
                              strlen(sealed) - strlen(SEAL));
    if (json_is_object(block))
        (void)json_array_append(content, block);
    json_decref(block);
}

static json_t *parse_arguments(const char *text)
{
    json_t *v = text ? upstream_json(text, strlen(text)) : NULL;

    if (json_is_object(v))
        return v;
    json_decref(v);
    return text && *text ? json_pack("{s:s}", "arguments", text)
                         : json_object();
}

static json_t *result_block(const struct turn_call *c)
{
    json_t *content = json_array();

    request_parts(c->output, add_block, content);
    if (!json_array_size(content))
        (void)json_array_append_new(
            content,
            json_pack("{s:s, s:s}", "type", "text", "text",
                      c->output ? "(no output)" : "(no output was recorded)"));
    return json_pack("{s:s, s:s, s:o}", "type", "tool_result", "tool_use_id",
                     upstream_text(c->call, "call_id"), "content", content);
}

static void add_assistant(json_t *messages, const struct turn *t)
{
    json_t *content = content_for(messages, "assistant");

    for (size_t i = 0; t->last && i < t->reasoning_count; i++)
        add_thinking(content, t->reasoning[i]);
    for (size_t i = 0; i < t->message_count; i++)
        request_parts(t->messages[i], add_block, content);
    for (size_t i = 0; i < t->call_count; i++) {
        const json_t *c = t->calls[i].call;

        (void)json_array_append_new(
            content,
            json_pack("{s:s, s:s, s:s, s:o}", "type", "tool_use", "id",
                      upstream_text(c, "call_id"), "name",
                      upstream_text(c, "name"), "input",
                      parse_arguments(upstream_text(c, "arguments"))));
    }
    if (!json_array_size(content))
        (void)json_array_remove(messages, json_array_size(messages) - 1);
    if (t->call_count == 0)
        return;
    content = content_for(messages, "user");
    for (size_t i = 0; i < t->call_count; i++)
        (void)json_array_append_new(content, result_block(&t->calls[i]));
}

static json_t *make_messages(const json_t *prompt, struct buf *system)
{
    const char *instructions = upstream_text(prompt, "instructions");
    struct turns turns cleanup(turns_done) = {0};
    json_t *messages = json_array();

    if (instructions)
        buf_adds(system, instructions);
    turns_read(json_object_get(prompt, "input"), &turns);
    for (size_t i = 0; i < turns.count; i++) {
        const struct turn *t = &turns.row[i];

        if (t->kind == TURN_ASSISTANT) {
            add_assistant(messages, t);
        } else if (t->kind == TURN_USER) {
            request_parts(t->messages[0], add_block,
                          content_for(messages, "user"));
        } else {
            char *text = request_text(t->messages[0], NULL);

            buf_addf(system, "%s%s", system->len ? "\n\n" : "", text);
            free(text);
        }
    }
    for (size_t i = json_array_size(messages); i-- > 0;)
        if (!json_array_size(
                json_object_get(json_array_get(messages, i), "content")))
            (void)json_array_remove(messages, i);
    return messages;
}

static void add_tools(const json_t *prompt, json_t *body)
{
    const json_t *choice = json_object_get(prompt, "tool_choice"), *tool;
    const char *word = json_string_value(choice);
    json_t *list = json_array(), *how;
    size_t i;

    json_array_foreach (json_object_get(prompt, "tools"), i, tool) {
        json_t *t =
            json_pack("{s:s, s:o}", "name", upstream_text(tool, "name"),
                      "input_schema", request_schema(tool));

        if (upstream_text(tool, "description"))
            (void)json_object_set(t, "description",
                                  json_object_get(tool, "description"));
        (void)json_array_append_new(list, t);
    }
    (void)json_object_set_new(body, "tools", list);
    if (upstream_text(choice, "name"))
        how = json_pack("{s:s, s:s}", "type", "tool", "name",
                        upstream_text(choice, "name"));
    else
        how = json_pack("{s:s}", "type",
                        word && strcmp(word, "required") == 0 ? "any"
                        : word && strcmp(word, "none") == 0   ? "none"
                                                              : "auto");
    if (json_is_false(request_option(prompt, "parallel_tool_calls")) &&
        strcmp(upstream_text(how, "type"), "none") != 0)
        (void)json_object_set_new(how, "disable_parallel_tool_use",
                                  json_true());
    (void)json_object_set_new(body, "tool_choice", how);
}

/* Tokens for thinking, by the effort that was asked for; 0: none. */
static uint64_t thinking_budget(const json_t *prompt)
{
    static const struct {
        const char *effort;
        uint64_t tokens;
    } rows[] = {
        {"low", 2048}, {"medium", 8192}, {"high", 16384}, {"xhigh", 32768}};
    const char *effort =
        upstream_text(request_option(prompt, "reasoning"), "effort");

    /* The server refuses thinking where a function is forced. */
    for (size_t i = 0;
         effort && !request_forces_tool(prompt) && i < ARRAY_SIZE(rows); i++)
        if (strcmp(effort, rows[i].effort) == 0)
            return rows[i].tokens;
    return 0;
}

static void add_sampling(const json_t *prompt, json_t *body)
{
    const json_t *t = request_option(prompt, "temperature");
    const json_t *p = request_option(prompt, "top_p");

    if (json_is_number(t))
        (void)json_object_set_new(body, "temperature",
                                  json_real(MIN(json_number_value(t), 1.0)));
    else if (json_is_number(p)) /* newer models take one of the two */
        (void)json_object_set_new(body, "top_p",
                                  json_real(json_number_value(p)));
}

static bool anthropic_request(const struct model_call_msg *call,
                              const json_t *prompt, json_t *body,
                              const char **why)
{
    const json_t *format =
        json_object_get(request_option(prompt, "text"), "format");
    const char *type = upstream_text(format, "type");
    struct buf system cleanup(buf_done) = {0};
    uint64_t most = request_most_tokens(call, prompt);
    uint64_t thinking = thinking_budget(prompt);
    json_t *messages = make_messages(prompt, &system);

    if (!json_array_size(messages)) {
        json_decref(messages);
        *why = "the prompt has no message";
        return false;
    }
    (void)json_object_set_new(body, "messages", messages);
    (void)json_object_set_new(body, "stream", json_true());
    most = most ? most : MAX_TOKENS;
    (void)json_object_set_new(body, "max_tokens",
                              json_integer((json_int_t)(most + thinking)));
    if (system.len)
        (void)json_object_set_new(body, "system", json_string(system.data));
    if (thinking)
        (void)json_object_set_new(body, "thinking",
                                  json_pack("{s:s, s:I}", "type", "enabled",
                                            "budget_tokens",
                                            (json_int_t)thinking));
    else
        add_sampling(prompt, body);
    if (json_array_size(json_object_get(prompt, "tools")) > 0)
        add_tools(prompt, body);
    if (type && strcmp(type, "json_schema") == 0)
        (void)json_object_set_new(
            body, "output_config",
            json_pack("{s:{s:s, s:O}}", "format", "type", "json_schema",
                      "schema", json_object_get(format, "schema")));
    if (json_is_string(request_option(prompt, "user")))
        (void)json_object_set_new(
            body, "metadata",
            json_pack("{s:O}", "user_id", request_option(prompt, "user")));
    return true;
}

/* ---- answers ------------------------------------------------------------ */

/* Totals: overwritten, never added. */
static void read_usage(struct upstream_answer *a, const json_t *usage)
{
    struct model_end *e = &a->end;
    uint64_t plain, read, written;

    if (!json_is_object(usage))
        return;
    plain = upstream_number(usage, "input_tokens");
    read = upstream_number(usage, "cache_read_input_tokens");
    written = upstream_number(usage, "cache_creation_input_tokens");
    if (plain + read + written > 0) {
        e->cached = read;
        e->cache_write = written;
        e->input = plain + read + written;
    }
    if (json_object_get(usage, "output_tokens"))
        e->output = upstream_number(usage, "output_tokens");
}

static int64_t index_of(const json_t *event)
{
    const json_t *v = json_object_get(event, "index");

    return json_is_integer(v) ? json_integer_value(v) : -1;
}

static void seal(struct slot *s, const json_t *block)
{
    char *text = json_dumps(block, JSON_COMPACT);

    free(s->sealed);
    s->sealed = text ? xasprintf(SEAL "%s", text) : NULL;
    free(text);
}

static void add_string(struct upstream_answer *a, struct slot *s,
                       const json_t *v)
{
    if (json_is_string(v))
        answer_text(a, s, json_string_value(v), json_string_length(v));
}

/* A block begins; whole ones have their content at once. */
static void open_block(struct upstream_answer *a, const json_t *block,
                       int64_t index)
{
    const char *type = upstream_text(block, "type");
    struct slot *s;

    if (!type)
        return;
    if (strcmp(type, "text") == 0) {
        s = answer_open(a, SLOT_MESSAGE, index);
        add_string(a, s, json_object_get(block, "text"));
    } else if (strcmp(type, "tool_use") == 0) {
        const json_t *input = json_object_get(block, "input");

        s = answer_open(a, SLOT_CALL, index);
        answer_call(a, s, upstream_text(block, "id"),
                    upstream_text(block, "name"));
        if (json_object_size(input) > 0) {
            char *text = json_dumps(input, JSON_COMPACT);

            answer_text(a, s, text ? text : "", text ? strlen(text) : 0);
            free(text);
        }
    } else if (strcmp(type, "thinking") == 0) {
        const char *signature = upstream_text(block, "signature");

        s = answer_open(a, SLOT_REASONING, index);
        add_string(a, s, json_object_get(block, "thinking"));
        if (s && signature && *signature)
            s->id = xstrdup(signature);
    } else if (strcmp(type, "redacted_thinking") == 0) {
        s = answer_open(a, SLOT_REASONING, index);
        if (s)
            seal(s, block);
    }
}

/* A slot of reasoning keeps its signature as its id. */
static void close_block(struct upstream_answer *a, struct slot *s)
{
    if (!s)
        return;
    if (s->kind == SLOT_REASONING && !s->sealed && s->id) {
        json_t *block =
            json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking",
                      s->text.data, "signature", s->id);

        seal(s, block);
        json_decref(block);
    }
    if (s->kind == SLOT_CALL && s->text.len) {
        json_t *v = upstream_json(s->text.data, s->text.len);

        s->cut = !v;
        json_decref(v);
        if (s->cut)
            return; /* judged at the end, when the reason is known */
    }
    answer_close(a, s);
}

static void add_delta(struct upstream_answer *a, const json_t *event)
{
    const json_t *delta = json_object_get(event, "delta");
    const char *type = upstream_text(delta, "type");
    struct slot *s = answer_find(a, index_of(event));

    if (!type || !s)
        return;
    if (strcmp(type, "text_delta") == 0 && s->kind == SLOT_MESSAGE)
        add_string(a, s, json_object_get(delta, "text"));
    else if (strcmp(type, "input_json_delta") == 0 && s->kind == SLOT_CALL)
        add_string(a, s, json_object_get(delta, "partial_json"));
    else if (strcmp(type, "thinking_delta") == 0 && s->kind == SLOT_REASONING)
        add_string(a, s, json_object_get(delta, "thinking"));
    else if (strcmp(type, "signature_delta") == 0 &&
             s->kind == SLOT_REASONING && upstream_text(delta, "signature")) {
        free(s->id);
        s->id = xstrdup(upstream_text(delta, "signature"));
    }
}

static void read_stop(struct upstream_answer *a, const char *reason)
{
    if (!reason)
        return;
    a->finished = true;
    if (strcmp(reason, "max_tokens") == 0 ||
        strcmp(reason, "model_context_window_exceeded") == 0) {
        a->end.finish = 1;
    } else if (strcmp(reason, "refusal") == 0) {
        static const char text[] = "The model declined to answer.";

        a->end.finish = 2;
        if (a->count == 0)
            answer_refusal(a, answer_current(a, SLOT_MESSAGE), text,
                           sizeof(text) - 1);
    }
}

static void anthropic_event(struct upstream_answer *a, const char *name,
                            const json_t *data)
{
    const char *type = upstream_text(data, "type");

    if (!type)
        type = name;
#define IS(text) (strcmp(type, text) == 0)
    if (IS("message_start")) {
        read_usage(a,
                   json_object_get(json_object_get(data, "message"), "usage"));
    } else if (IS("content_block_start")) {
        if (!answer_find(a, index_of(data)))
            open_block(a, json_object_get(data, "content_block"),
                       index_of(data));
    } else if (IS("content_block_delta")) {
        add_delta(a, data);
    } else if (IS("content_block_stop")) {
        close_block(a, answer_find(a, index_of(data)));
    } else if (IS("message_delta")) {
        read_usage(a, json_object_get(data, "usage"));
        read_stop(
            a, upstream_text(json_object_get(data, "delta"), "stop_reason"));
    } else if (IS("message_stop")) {
        a->finished = true;
    } else if (IS("error") || (!*type && json_object_get(data, "error"))) {
        answer_error(a, data);
    }
#undef IS
}

static void anthropic_whole(struct upstream_answer *a, const json_t *body)
{
    const json_t *block;
    size_t i;

    read_usage(a, json_object_get(body, "usage"));
    json_array_foreach (json_object_get(body, "content"), i, block)
        open_block(a, block, (int64_t)i);
    for (i = 0; i < a->count; i++)
        close_block(a, &a->slots[i]);
    read_stop(a, upstream_text(body, "stop_reason"));
    a->finished = true;
}

/* A call whose JSON is broken: cut by the limit, or nonsense of the model,
 * which the caller hands back to it. */
static void anthropic_end(struct upstream_answer *a)
{
    for (unsigned i = 0; i < a->count; i++)
        if (a->slots[i].cut)
            a->slots[i].cut = a->end.finish == 1;
}

const struct dialect dialect_anthropic = {
    .path = "/messages",
    .request = anthropic_request,
    .event = anthropic_event,
    .whole = anthropic_whole,
    .end = anthropic_end,
};
