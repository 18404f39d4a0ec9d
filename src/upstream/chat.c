/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chat Completions, as OpenAI, Azure, llama.cpp, vLLM, SGLang, Ollama, LM
 * Studio and many bridges speak it, each a little differently. Requests keep
 * to what all of them know; answers are read so that every deviation that was
 * seen is survived. Pure. Runs in glovebox-model.
 */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "upstream/upstream_int.h"

/* ---- requests ----------------------------------------------------------- */

static void add_part(void *ctx, const struct part *part)
{
    json_t *list = ctx;

    if (part->kind == PART_IMAGE)
        (void)json_array_append_new(list, json_pack("{s:s, s:{s:s}}", "type",
                                                    "image_url", "image_url",
                                                    "url", part->text));
    else
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s}", "type", "text", "text", part->text));
}

/* A string where there are no images: every server takes that. */
static void add_message(json_t *messages, const char *role,
                        const json_t *content)
{
    bool images = false;
    char *text = request_text(content, &images);
    json_t *message = json_pack("{s:s}", "role", role);

    if (images) {
        json_t *parts = json_array();

        request_parts(content, add_part, parts);
        (void)json_object_set_new(message, "content", parts);
    } else {
        (void)json_object_set_new(message, "content", json_string(text));
    }
    (void)json_array_append_new(messages, message);
    free(text);
}

static void add_image_only(void *ctx, const struct part *part)
{
    if (part->kind == PART_IMAGE)
        add_part(ctx, part);
}

/* Outputs of functions are text here; their images follow in a message of the
 * user, after all outputs. */
static void add_outputs(json_t *messages, const struct turn *turn)
{
    json_t *images = json_pack("[{s:s, s:s}]", "type", "text", "text",
                               "Images that the functions returned:");

    for (size_t i = 0; i < turn->call_count; i++) {
        const struct turn_call *c = &turn->calls[i];
        bool has = false;
        char *text = request_text(c->output, &has);

        if (!c->output) {
            free(text);
            text = xstrdup("(no output was recorded)");
        } else if (has) {
            request_parts(c->output, add_image_only, images);
        }
        (void)json_array_append_new(
            messages,
            json_pack("{s:s, s:s, s:s}", "role", "tool", "tool_call_id",
                      upstream_text(c->call, "call_id"), "content",
                      *text ? text : "(no output)"));
        free(text);
    }
    if (json_array_size(images) > 1)
        (void)json_array_append_new(
            messages,
            json_pack("{s:s, s:O}", "role", "user", "content", images));
    json_decref(images);
}

static void add_assistant(json_t *messages, const struct turn *turn)
{
    json_t *message = json_pack("{s:s}", "role", "assistant");
    json_t *calls = json_array();
    struct buf text cleanup(buf_done) = {0};

    for (size_t i = 0; i < turn->message_count; i++) {
        char *one = request_text(turn->messages[i], NULL);

        buf_addf(&text, "%s%s", text.len ? "\n" : "", one);
        free(one);
    }
    for (size_t i = 0; i < turn->call_count; i++) {
        const json_t *c = turn->calls[i].call;

        (void)json_array_append_new(
            calls, json_pack("{s:s, s:s, s:{s:s, s:s}}", "id",
                             upstream_text(c, "call_id"), "type", "function",
                             "function", "name", upstream_text(c, "name"),
                             "arguments", upstream_text(c, "arguments")));
    }
    if (!text.len && !turn->call_count) { /* reasoning alone */
        json_decref(message);
        json_decref(calls);
        return;
    }
    (void)json_object_set_new(message, "content",
                              text.len ? json_string(text.data) : json_null());
    if (turn->call_count)
        (void)json_object_set(message, "tool_calls", calls);
    json_decref(calls);
    (void)json_array_append_new(messages, message);
    if (turn->call_count)
        add_outputs(messages, turn);
}

static json_t *make_messages(const json_t *prompt)
{
    const char *instructions = upstream_text(prompt, "instructions");
    json_t *messages = json_array();
    struct turns turns cleanup(turns_done) = {0};

    if (instructions && *instructions)
        (void)json_array_append_new(messages,
                                    json_pack("{s:s, s:s}", "role", "system",
                                              "content", instructions));
    turns_read(json_object_get(prompt, "input"), &turns);
    for (size_t i = 0; i < turns.count; i++) {
        const struct turn *t = &turns.row[i];

        if (t->kind == TURN_ASSISTANT)
            add_assistant(messages, t);
        else
            add_message(messages, t->kind == TURN_USER ? "user" : "system",
                        t->messages[0]);
    }
    return messages;
}

static void add_tools(const json_t *prompt, json_t *body)
{
    const json_t *choice = json_object_get(prompt, "tool_choice"), *tool;
    json_t *list = json_array();
    size_t i;

    json_array_foreach (json_object_get(prompt, "tools"), i, tool) {
        json_t *f =
            json_pack("{s:s, s:o}", "name", upstream_text(tool, "name"),
                      "parameters", request_schema(tool));

        if (upstream_text(tool, "description"))
            (void)json_object_set(f, "description",
                                  json_object_get(tool, "description"));
        if (json_is_true(json_object_get(tool, "strict")))
            (void)json_object_set_new(f, "strict", json_true());
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o}", "type", "function", "function", f));
    }
    (void)json_object_set(body, "tools", list);
    json_decref(list);
    if (json_is_string(choice))
        (void)json_object_set(body, "tool_choice",
                              (json_t *)(uintptr_t)choice);
    else if (upstream_text(choice, "name"))
        (void)json_object_set_new(body, "tool_choice",
                                  json_pack("{s:s, s:{s:s}}", "type",
                                            "function", "function", "name",
                                            upstream_text(choice, "name")));
    if (request_option(prompt, "parallel_tool_calls"))
        (void)json_object_set(body, "parallel_tool_calls",
                              (json_t *)(uintptr_t)request_option(
                                  prompt, "parallel_tool_calls"));
}

static void add_format(const json_t *prompt, json_t *body)
{
    const json_t *format =
        json_object_get(request_option(prompt, "text"), "format");
    const char *type = upstream_text(format, "type");
    json_t *schema;

    if (!type || strcmp(type, "text") == 0)
        return;
    if (strcmp(type, "json_schema") != 0) {
        (void)json_object_set_new(body, "response_format",
                                  json_pack("{s:s}", "type", type));
        return;
    }
    schema =
        json_pack("{s:s, s:O}", "name",
                  upstream_text(format, "name") ? upstream_text(format, "name")
                                                : "answer",
                  "schema", json_object_get(format, "schema"));
    if (json_is_boolean(json_object_get(format, "strict")))
        (void)json_object_set(schema, "strict",
                              json_object_get(format, "strict"));
    (void)json_object_set_new(
        body, "response_format",
        json_pack("{s:s, s:o}", "type", "json_schema", "json_schema", schema));
}

/* OpenAI's reasoning models refuse max_tokens; most others know nothing else.
 */
static bool is_openai(const char *url)
{
    return strstr(url, ".openai.com/") || strstr(url, ".azure.com/") ||
           strstr(url, "//api.openai.com");
}

static bool chat_request(const struct model_call_msg *call,
                         const json_t *prompt, json_t *body, const char **why)
{
    static const char *const plain[] = {"temperature", "top_p", "user"};
    const char *effort =
        upstream_text(request_option(prompt, "reasoning"), "effort");
    uint64_t most = request_most_tokens(call, prompt);

    (void)why;
    (void)json_object_set_new(body, "messages", make_messages(prompt));
    (void)json_object_set_new(body, "stream", json_true());
    (void)json_object_set_new(body, "stream_options",
                              json_pack("{s:b}", "include_usage", 1));
    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        if (request_option(prompt, plain[i]))
            (void)json_object_set(
                body, plain[i],
                (json_t *)(uintptr_t)request_option(prompt, plain[i]));
    if (most)
        (void)json_object_set_new(
            body,
            is_openai(call->url) ? "max_completion_tokens" : "max_tokens",
            json_integer((json_int_t)most));
    if (effort)
        (void)json_object_set_new(body, "reasoning_effort",
                                  json_string(effort));
    if (json_array_size(json_object_get(prompt, "tools")) > 0)
        add_tools(prompt, body);
    add_format(prompt, body);
    return true;
}

/* ---- answers ------------------------------------------------------------ */

static void read_usage(struct upstream_answer *a, const json_t *usage)
{
    struct model_end *e = &a->end;

    if (!json_is_object(usage))
        return;
    e->input = upstream_number(usage, "prompt_tokens");
    e->output = upstream_number(usage, "completion_tokens");
    e->cached = upstream_number(
        json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    e->reasoning =
        upstream_number(json_object_get(usage, "completion_tokens_details"),
                        "reasoning_tokens");
}

/*
 * The slot of a fragment: by index if it has one, else by id, else the last
 * call. Several servers give every parallel call index 0: another id together
 * with a name is another call.
 */
static struct slot *call_slot(struct upstream_answer *a, const json_t *piece,
                              const char *id, const char *name)
{
    const json_t *index = json_object_get(piece, "index");
    int64_t number = json_is_integer(index) ? json_integer_value(index) : -1;
    struct slot *s = NULL;

    for (unsigned i = a->count; i-- > 0 && !s;) {
        struct slot *old = &a->slots[i];

        if (old->kind != SLOT_CALL || old->done)
            continue;
        if (number >= 0 ? old->index == number
            : id        ? old->id && strcmp(old->id, id) == 0
                        : true)
            s = old;
    }
    if (s && id && name && s->id && strcmp(s->id, id) != 0)
        s = NULL;
    /* A whole call without index and id: complete JSON ends the one before. */
    if (s && number < 0 && !id && name && s->name)
        s = NULL;
    if (!s) {
        answer_close_text(a);
        s = answer_open(a, SLOT_CALL, number);
    }
    return s;
}

static void read_call(struct upstream_answer *a, const json_t *piece)
{
    const json_t *f = json_object_get(piece, "function"), *arguments;
    const char *id = upstream_text(piece, "id");
    const char *name = upstream_text(f, "name");
    struct slot *s;

    if (!json_is_object(piece))
        return;
    id = id && *id ? id : NULL;
    name = name && *name ? name : NULL;
    s = call_slot(a, piece, id, name);
    answer_call(a, s, id, name);
    arguments = json_object_get(f, "arguments");
    if (json_is_string(arguments)) {
        answer_text(a, s, json_string_value(arguments),
                    json_string_length(arguments));
    } else if (json_is_object(arguments)) {
        char *text = json_dumps(arguments, JSON_COMPACT);

        answer_text(a, s, text ? text : "{}", text ? strlen(text) : 2);
        free(text);
    }
}

static bool is_blank(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return !*text;
}

/* Content is a string, or parts of text. */
static void read_content(struct upstream_answer *a, const json_t *content)
{
    const json_t *part;
    size_t i;

    if (json_is_string(content) && json_string_length(content)) {
        bool calls = a->count && a->slots[a->count - 1].kind == SLOT_CALL;

        if (calls && is_blank(json_string_value(content)))
            return; /* line ends after calls */
        if (a->count && a->slots[a->count - 1].kind == SLOT_REASONING)
            answer_close(a, &a->slots[a->count - 1]);
        answer_text(a, answer_current(a, SLOT_MESSAGE),
                    json_string_value(content), json_string_length(content));
    }
    json_array_foreach (content, i, part)
        read_content(a, json_object_get(part, "text"));
}

/* A delta of a stream or the message of a whole answer. */
static void read_delta(struct upstream_answer *a, const json_t *delta)
{
    static const char *const thinking[] = {"reasoning_content", "reasoning"};
    const json_t *refusal = json_object_get(delta, "refusal"), *call;
    size_t i;

    for (i = 0; i < ARRAY_SIZE(thinking); i++) {
        const json_t *v = json_object_get(delta, thinking[i]);

        if (!json_is_string(v) || !json_string_length(v))
            continue;
        answer_text(a, answer_current(a, SLOT_REASONING), json_string_value(v),
                    json_string_length(v));
        break; /* some servers send both */
    }
    read_content(a, json_object_get(delta, "content"));
    if (json_is_string(refusal) && json_string_length(refusal))
        answer_refusal(a, answer_current(a, SLOT_MESSAGE),
                       json_string_value(refusal),
                       json_string_length(refusal));
    json_array_foreach (json_object_get(delta, "tool_calls"), i, call)
        read_call(a, call);
    if (json_is_object(json_object_get(delta, "function_call"))) {
        json_t *old = json_pack("{s:i, s:O}", "index", 0, "function",
                                json_object_get(delta, "function_call"));

        read_call(a, old);
        json_decref(old);
    }
}

static void read_finish(struct upstream_answer *a, const char *reason)
{
    if (!reason)
        return;
    a->finished = true;
    if (strcmp(reason, "length") == 0)
        a->end.finish = 1;
    else if (strcmp(reason, "content_filter") == 0)
        a->end.finish = 2;
}

static void chat_event(struct upstream_answer *a, const char *name,
                       const json_t *data)
{
    const json_t *error = json_object_get(data, "error");
    const json_t *choice = json_array_get(json_object_get(data, "choices"), 0);
    const char *object = upstream_text(data, "object");

    if ((error && !json_is_null(error)) || strcmp(name, "error") == 0 ||
        (object && strcmp(object, "error") == 0)) {
        answer_error(a, data);
        return;
    }
    read_usage(a, json_object_get(data, "usage"));
    if (a->finished && !choice)
        return;
    if (json_is_object(json_object_get(choice, "delta")))
        read_delta(a, json_object_get(choice, "delta"));
    else if (json_is_object(json_object_get(choice, "message")))
        read_delta(a, json_object_get(choice, "message"));
    read_finish(a, upstream_text(choice, "finish_reason"));
}

static void chat_whole(struct upstream_answer *a, const json_t *body)
{
    const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);

    if (!choice) {
        answer_fail(a, MODEL_NONSENSE, true, "the answer has no choice");
        return;
    }
    read_usage(a, json_object_get(body, "usage"));
    read_delta(a, json_object_get(choice, "message"));
    read_finish(a, upstream_text(choice, "finish_reason"));
    a->finished = true;
}

/* Calls that a limit on tokens cut must not be run. */
static void chat_end(struct upstream_answer *a)
{
    for (unsigned i = 0; i < a->count; i++) {
        struct slot *s = &a->slots[i];
        json_t *v;

        if (s->kind != SLOT_CALL || s->done || a->end.finish != 1)
            continue;
        v = upstream_json(s->text.data, s->text.len);
        s->cut = !v;
        json_decref(v);
    }
}

const struct dialect dialect_chat = {
    .path = "/chat/completions",
    .request = chat_request,
    .event = chat_event,
    .whole = chat_whole,
    .end = chat_end,
};
