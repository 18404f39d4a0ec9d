/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of Chat Completions as the same request of the Responses API, so
 * that one agent loop answers both: messages become items, tools and formats
 * take their flat form. What this service cannot do is refused by name; a
 * parameter is ignored only if it is a hint. Runs on a worker of the daemon;
 * pure.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "doors/openai/completion.h"
#include "json/json.h"

#define MESSAGES_MAX 4096
#define PARTS_MAX 1024
#define TOOLS_MAX 128
#define TOKENS_MAX 100000000
#define CALL_ID_MAX 64
#define AT_MAX 96 /* the path of a value, as param has it */

/* Where what is wrong with a request goes. */
struct blame {
    struct openai_fault *fault;
    struct error *err;
};

static int wrong_type(const struct blame *b, const char *at,
                      const char *wanted)
{
    return openai_invalid(b->fault, "invalid_type", at, b->err,
                          "Invalid type for '%s': expected %s.", at, wanted);
}

static int missing(const struct blame *b, const char *at)
{
    return openai_invalid(b->fault, "missing_required_parameter", at, b->err,
                          "Missing required parameter: '%s'.", at);
}

static int unsupported(const struct blame *b, const char *code, const char *at,
                       const char *why)
{
    return openai_invalid(b->fault, code, at, b->err,
                          "Unsupported parameter: '%s'. %s", at, why);
}

static void join(char ret[AT_MAX], const char *at, const char *name)
{
    (void)snprintf(ret, AT_MAX, "%.64s.%.30s", at, name); /* may cut */
}

/* A member that is an object; at: of what it is in. path: its own. */
static int need_object(const struct blame *b, const json_t *in, const char *at,
                       const char *name, char path[AT_MAX], const json_t **ret)
{
    const json_t *v = json_object_get(in, name);

    join(path, at, name);
    if (!v || json_is_null(v))
        return missing(b, path);
    if (!json_is_object(v))
        return wrong_type(b, path, "an object");
    *ret = v;
    return 0;
}

static int need_text(const struct blame *b, const json_t *in, const char *at,
                     const char *name, size_t max)
{
    const json_t *v = json_object_get(in, name);
    char path[AT_MAX];

    join(path, at, name);
    if (!v || json_is_null(v))
        return missing(b, path);
    if (!json_is_string(v))
        return wrong_type(b, path, "a string");
    if (max && json_string_length(v) > max)
        return openai_invalid(b->fault, "string_above_max_length", path,
                              b->err,
                              "Invalid '%s': string too long. Expected a "
                              "string with at most %zu bytes, but got one "
                              "with %zu.",
                              path, max, json_string_length(v));
    return 0;
}

/* Names are ours and values well formed: jansson cannot refuse these. */
static void put(json_t *to, const char *as, json_t *taken)
{
    (void)json_object_set_new(to, as, taken);
}

/* A member of `from`, unless it is absent or null. */
static void keep(json_t *to, const char *as, const json_t *from,
                 const char *name)
{
    json_t *v = json_object_get(from, name);

    if (v && !json_is_null(v))
        (void)json_object_set(to, as, v);
}

/* ---- content -------------------------------------------------------------
 */

/* A part to one of an item: reads it and fills ret. */
typedef int part_fn(const struct blame *b, const json_t *part, const char *at,
                    const char *as, json_t *ret);

static int text_part(const struct blame *b, const json_t *part, const char *at,
                     const char *as, json_t *ret)
{
    int r = need_text(b, part, at, "text", 0);

    if (r == 0) {
        put(ret, "type", json_string(as));
        keep(ret, "text", part, "text");
    }
    return r;
}

static int refusal_part(const struct blame *b, const json_t *part,
                        const char *at, const char *as, json_t *ret)
{
    int r = need_text(b, part, at, "refusal", 0);

    if (r == 0) {
        put(ret, "type", json_string(as));
        keep(ret, "refusal", part, "refusal");
    }
    return r;
}

static int image_part(const struct blame *b, const json_t *part,
                      const char *at, const char *as, json_t *ret)
{
    const json_t *image = NULL;
    char path[AT_MAX];
    int r = need_object(b, part, at, "image_url", path, &image);

    if (r == 0)
        r = need_text(b, image, path, "url", 0);
    if (r == 0) {
        put(ret, "type", json_string(as));
        keep(ret, "image_url", image, "url");
        keep(ret, "detail", image, "detail");
    }
    return r;
}

static int file_part(const struct blame *b, const json_t *part, const char *at,
                     const char *as, json_t *ret)
{
    const json_t *file = NULL;
    char path[AT_MAX];
    int r = need_object(b, part, at, "file", path, &file);

    if (r == 0 && !json_is_string(json_object_get(file, "file_data")))
        r = need_text(b, file, path, "file_id", 0);
    if (r == 0) {
        put(ret, "type", json_string(as));
        keep(ret, "file_id", file, "file_id");
        keep(ret, "file_data", file, "file_data");
        keep(ret, "filename", file, "filename");
    }
    return r;
}

struct part_kind {
    const char *type; /* NULL: the last */
    const char *as;
    part_fn *read;
};

static const struct part_kind user_parts[] = {
    {"text", "input_text", text_part},
    {"image_url", "input_image", image_part},
    {"file", "input_file", file_part},
    {0},
};
static const struct part_kind system_parts[] = {
    {"text", "input_text", text_part},
    {0},
};
static const struct part_kind assistant_parts[] = {
    {"text", "output_text", text_part},
    {"refusal", "refusal", refusal_part},
    {0},
};

static int one_part(const struct blame *b, const json_t *part, const char *at,
                    const struct part_kind *kinds, json_t *ret)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    char path[AT_MAX];

    if (!json_is_object(part))
        return wrong_type(b, at, "an object");
    join(path, at, "type");
    if (!type)
        return missing(b, path);
    for (; kinds->type; kinds++)
        if (strcmp(type, kinds->type) == 0)
            return kinds->read(b, part, at, kinds->as, ret);
    return openai_invalid(b->fault, "invalid_value", path, b->err,
                          "Invalid value: '%.64s'. A message of this role has "
                          "no parts of this type here.",
                          type);
}

/* Text or a list of parts, as one of the kinds. */
static int read_content(const struct blame *b, const json_t *content,
                        const char *at, const struct part_kind *kinds,
                        json_t **ret)
{
    json_t *list cleanup(json_unref) = json_array();
    size_t count = json_array_size(content);

    if (json_is_string(content)) {
        (void)json_array_append_new(
            list, json_pack("{s:s, s:O}", "type", kinds->as, "text", content));
        *ret = take_ptr(list);
        return 0;
    }
    if (!json_is_array(content) || count == 0 || count > PARTS_MAX)
        return openai_invalid(b->fault, "invalid_type", at, b->err,
                              "Invalid type for '%s': expected a string or 1 "
                              "to %d content parts.",
                              at, PARTS_MAX);
    for (size_t i = 0; i < count; i++) {
        json_t *part = json_object();
        char path[AT_MAX];
        int r;

        (void)json_array_append_new(list, part);
        (void)snprintf(path, sizeof(path), "%.64s[%zu]", at, i);
        r = one_part(b, json_array_get(content, i), path, kinds, part);
        if (r < 0)
            return r;
    }
    *ret = take_ptr(list);
    return 0;
}

/* ---- messages ------------------------------------------------------------
 */

/* The messages on their way to items. */
struct history {
    const struct blame *blame;
    json_t *items; /* borrowed */
    /* Calls of the last assistant message that have no output yet. */
    json_t *open; /* owned; call_id to true */
};

static int add_message(struct history *h, const char *role, json_t *content)
{
    (void)json_array_append_new(h->items,
                                json_pack("{s:s, s:s, s:o}", "type", "message",
                                          "role", role, "content", content));
    return 0;
}

static int spoken(struct history *h, const json_t *message, const char *at,
                  const char *role, const struct part_kind *kinds)
{
    const json_t *content = json_object_get(message, "content");
    json_t *parts = NULL;
    char path[AT_MAX];
    int r;

    join(path, at, "content");
    if (!content || json_is_null(content))
        return missing(h->blame, path);
    r = read_content(h->blame, content, path, kinds, &parts);
    return r < 0 ? r : add_message(h, role, parts);
}

static int one_call(struct history *h, const json_t *call, const char *at)
{
    const json_t *function = NULL;
    char path[AT_MAX];
    int r;

    if (!json_is_object(call))
        return wrong_type(h->blame, at, "an object");
    r = need_text(h->blame, call, at, "id", CALL_ID_MAX);
    if (r == 0)
        r = need_object(h->blame, call, at, "function", path, &function);
    if (r == 0)
        r = need_text(h->blame, function, path, "name", CALL_ID_MAX);
    if (r == 0)
        r = need_text(h->blame, function, path, "arguments", 0);
    if (r < 0)
        return r;
    (void)json_array_append_new(
        h->items, json_pack("{s:s, s:O, s:O, s:O}", "type", "function_call",
                            "call_id", json_object_get(call, "id"), "name",
                            json_object_get(function, "name"), "arguments",
                            json_object_get(function, "arguments")));
    put(h->open, json_string_value(json_object_get(call, "id")), json_true());
    return 0;
}

/* Its text, then the functions it called. */
static int assistant(struct history *h, const json_t *message, const char *at)
{
    const json_t *content = json_object_get(message, "content");
    const json_t *refusal = json_object_get(message, "refusal");
    const json_t *calls = json_object_get(message, "tool_calls");
    bool empty = !content || json_is_null(content) ||
                 (json_is_string(content) && json_string_length(content) == 0);
    char path[AT_MAX];
    int r = 0;

    join(path, at, "tool_calls");
    if (calls && !json_is_null(calls) && !json_is_array(calls))
        return wrong_type(h->blame, path, "an array");
    if (json_array_size(calls) > TOOLS_MAX)
        return openai_invalid(h->blame->fault, "array_above_max_length", path,
                              h->blame->err,
                              "Invalid '%s': array too long. Expected at most "
                              "%d elements, but got %zu.",
                              path, TOOLS_MAX, json_array_size(calls));
    if (!empty)
        r = spoken(h, message, at, "assistant", assistant_parts);
    else if (json_is_string(refusal))
        r = add_message(
            h, "assistant",
            json_pack("[{s:s, s:O}]", "type", "refusal", "refusal", refusal));
    else if (json_array_size(calls) == 0) {
        join(path, at, "content");
        return missing(h->blame, path);
    }
    for (size_t i = 0; r == 0 && i < json_array_size(calls); i++) {
        (void)snprintf(path, sizeof(path), "%.48s.tool_calls[%zu]", at, i);
        r = one_call(h, json_array_get(calls, i), path);
    }
    return r;
}

/* What a function gave, as text. */
static int tool(struct history *h, const json_t *message, const char *at)
{
    const json_t *content = json_object_get(message, "content");
    json_t *parts cleanup(json_unref) = NULL;
    const char *id;
    char path[AT_MAX];
    int r = need_text(h->blame, message, at, "tool_call_id", CALL_ID_MAX);

    if (r < 0)
        return r;
    id = json_string_value(json_object_get(message, "tool_call_id"));
    if (json_object_del(h->open, id) < 0) {
        join(path, at, "tool_call_id");
        return openai_invalid(
            h->blame->fault, "invalid_value", path, h->blame->err,
            "Invalid value for '%s': a message of the role 'tool' must answer "
            "a call of the assistant message before it, and '%.64s' is none.",
            path, id);
    }
    join(path, at, "content");
    if (!content || json_is_null(content))
        return missing(h->blame, path);
    r = read_content(h->blame, content, path, system_parts, &parts);
    if (r == 0)
        (void)json_array_append_new(
            h->items,
            json_pack("{s:s, s:s, s:O}", "type", "function_call_output",
                      "call_id", id, "output",
                      json_is_string(content) ? (json_t *)content : parts));
    return r;
}

/* Every call has its output before anything else is said. */
static int check_answered(const struct history *h, const char *at)
{
    const char *id;
    json_t *v;

    json_object_foreach (h->open, id, v)
        return openai_invalid(
            h->blame->fault, NULL, at, h->blame->err,
            "An assistant message with 'tool_calls' must be followed by tool "
            "messages responding to each 'tool_call_id'. Nothing answers "
            "'%.64s'.",
            id);
    return 0;
}

static int one_message(struct history *h, const json_t *message,
                       const char *at)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    char path[AT_MAX];
    int r;

    if (!json_is_object(message))
        return wrong_type(h->blame, at, "an object");
    join(path, at, "role");
    if (!role)
        return missing(h->blame, path);
    if (strcmp(role, "tool") == 0)
        return tool(h, message, at);
    r = check_answered(h, "messages");
    if (r < 0)
        return r;
    if (strcmp(role, "user") == 0)
        return spoken(h, message, at, role, user_parts);
    if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0)
        return spoken(h, message, at, role, system_parts);
    if (strcmp(role, "assistant") == 0)
        return assistant(h, message, at);
    return openai_invalid(h->blame->fault, "invalid_value", path,
                          h->blame->err,
                          "Invalid value: '%.64s'. Supported values are: "
                          "'system', 'developer', 'user', 'assistant', and "
                          "'tool'.",
                          role);
}

static int read_messages(const struct blame *b, const json_t *messages,
                         json_t *request)
{
    json_t *open cleanup(json_unref) = json_object();
    struct history h = {.blame = b, .items = json_array(), .open = open};
    int r = 0;

    put(request, "input", h.items);
    if (json_array_size(messages) == 0)
        return openai_invalid(b->fault, "empty_array", "messages", b->err,
                              "Invalid 'messages': empty array. Expected an "
                              "array with minimum length 1.");
    for (size_t i = 0; r == 0 && i < json_array_size(messages); i++) {
        char at[AT_MAX];

        (void)snprintf(at, sizeof(at), "messages[%zu]", i);
        r = one_message(&h, json_array_get(messages, i), at);
    }
    return r < 0 ? r : check_answered(&h, "messages");
}

/* ---- tools ---------------------------------------------------------------
 */

static int one_tool(const struct blame *b, const json_t *given, const char *at,
                    json_t *ret)
{
    const char *type = json_string_value(json_object_get(given, "type"));
    const json_t *function = NULL;
    char path[AT_MAX];
    int r;

    if (!json_is_object(given))
        return wrong_type(b, at, "an object");
    join(path, at, "type");
    if (!type)
        return missing(b, path);
    put(ret, "type", json_string(type));
    if (strcmp(type, "code_interpreter") == 0) {
        put(ret, "container", json_pack("{s:s}", "type", "auto"));
        keep(ret, "container", given, "container");
        return 0;
    }
    if (strcmp(type, "mcp") == 0) { /* checked as in a response */
        (void)json_object_update(ret, (json_t *)given);
        return 0;
    }
    if (strcmp(type, "function") != 0)
        return openai_invalid(b->fault, "invalid_value", path, b->err,
                              "Invalid value: '%.64s'. Supported values are: "
                              "'function', 'code_interpreter' and 'mcp'.",
                              type);
    r = need_object(b, given, at, "function", path, &function);
    if (r == 0)
        r = need_text(b, function, path, "name", CALL_ID_MAX);
    if (r == 0) {
        keep(ret, "name", function, "name");
        keep(ret, "description", function, "description");
        keep(ret, "parameters", function, "parameters");
        keep(ret, "strict", function, "strict");
    }
    return r;
}

static int read_tools(const struct blame *b, const json_t *given,
                      bool code_tool, json_t *request)
{
    json_t *tools = json_array();

    put(request, "tools", tools);
    for (size_t i = 0; i < json_array_size(given); i++) {
        json_t *one = json_object();
        char at[AT_MAX];
        int r;

        (void)json_array_append_new(tools, one);
        (void)snprintf(at, sizeof(at), "tools[%zu]", i);
        r = one_tool(b, json_array_get(given, i), at, one);
        if (r < 0)
            return r;
        if (strcmp(json_string_value(json_object_get(one, "type")),
                   "code_interpreter") == 0)
            code_tool = false;
    }
    if (code_tool)
        (void)json_array_append_new(
            tools, json_pack("{s:s, s:{s:s}}", "type", "code_interpreter",
                             "container", "type", "auto"));
    return 0;
}

/* {"type":"function","function":{"name"}} and the like to their flat form. */
static int flat_choice(const struct blame *b, const json_t *given,
                       const char *at, json_t *ret)
{
    const char *type = json_string_value(json_object_get(given, "type"));
    const json_t *function = NULL;
    char path[AT_MAX];
    int r;

    join(path, at, "type");
    if (!type)
        return missing(b, path);
    put(ret, "type", json_string(type));
    if (strcmp(type, "code_interpreter") == 0)
        return 0;
    if (strcmp(type, "mcp") == 0) {
        keep(ret, "server_label", given, "server_label");
        keep(ret, "name", given, "name");
        return 0;
    }
    if (strcmp(type, "function") != 0)
        return openai_invalid(b->fault, "invalid_value", path, b->err,
                              "Invalid value: '%.64s'. Supported values are: "
                              "'function', 'code_interpreter', and "
                              "'allowed_tools'.",
                              type);
    r = need_object(b, given, at, "function", path, &function);
    if (r == 0)
        r = need_text(b, function, path, "name", CALL_ID_MAX);
    if (r == 0)
        keep(ret, "name", function, "name");
    return r;
}

static int allowed_tools(const struct blame *b, const json_t *given,
                         json_t *ret)
{
    const json_t *allowed = NULL, *list;
    json_t *tools = json_array();
    char path[AT_MAX];
    int r =
        need_object(b, given, "tool_choice", "allowed_tools", path, &allowed);

    put(ret, "type", json_string("allowed_tools"));
    put(ret, "tools", tools);
    if (r == 0)
        r = need_text(b, allowed, path, "mode", 0);
    if (r < 0)
        return r;
    keep(ret, "mode", allowed, "mode");
    list = json_object_get(allowed, "tools");
    if (!json_is_array(list) || json_array_size(list) > TOOLS_MAX)
        return wrong_type(b, "tool_choice.allowed_tools.tools", "an array");
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
        json_t *one = json_object();

        (void)json_array_append_new(tools, one);
        (void)snprintf(path, sizeof(path),
                       "tool_choice.allowed_tools.tools[%zu]", i);
        r = flat_choice(b, json_array_get(list, i), path, one);
    }
    return r;
}

static int read_choice(const struct blame *b, const json_t *given,
                       json_t *request)
{
    const char *word = json_string_value(given);
    const char *type = json_string_value(json_object_get(given, "type"));
    json_t *flat;

    if (!given || json_is_null(given))
        return 0;
    if (word) {
        if (strcmp(word, "none") != 0 && strcmp(word, "auto") != 0 &&
            strcmp(word, "required") != 0)
            return openai_invalid(b->fault, "invalid_value", "tool_choice",
                                  b->err,
                                  "Invalid value: '%.64s'. Supported values "
                                  "are: 'none', 'auto', and 'required'.",
                                  word);
        put(request, "tool_choice", json_string(word));
        return 0;
    }
    if (!json_is_object(given))
        return wrong_type(b, "tool_choice", "a string or an object");
    flat = json_object();
    put(request, "tool_choice", flat);
    if (type && strcmp(type, "allowed_tools") == 0)
        return allowed_tools(b, given, flat);
    return flat_choice(b, given, "tool_choice", flat);
}

/* ---- the rest ------------------------------------------------------------
 */

static int read_format(const struct blame *b, const json_t *given,
                       const char *verbosity, json_t *request)
{
    const char *type = json_string_value(json_object_get(given, "type"));
    const json_t *schema = NULL;
    json_t *format = json_object(), *text = json_object();
    char path[AT_MAX];
    int r = 0;

    put(text, "format", format);
    put(request, "text", text);
    put(format, "type", json_string(type ? type : "text"));
    if (verbosity)
        put(text, "verbosity", json_string(verbosity));
    if (!given)
        return 0;
    if (!type)
        return missing(b, "response_format.type");
    if (strcmp(type, "text") == 0 || strcmp(type, "json_object") == 0)
        return 0;
    if (strcmp(type, "json_schema") != 0)
        return openai_invalid(b->fault, "invalid_value",
                              "response_format.type", b->err,
                              "Invalid value: '%.64s'. Supported values are: "
                              "'text', 'json_object', and 'json_schema'.",
                              type);
    r = need_object(b, given, "response_format", "json_schema", path, &schema);
    if (r == 0)
        r = need_text(b, schema, path, "name", CALL_ID_MAX);
    if (r == 0) {
        keep(format, "name", schema, "name");
        keep(format, "description", schema, "description");
        put(format, "schema", json_object());
        keep(format, "schema", schema, "schema");
        keep(format, "strict", schema, "strict");
    }
    return r;
}

static int read_number(const struct blame *b, const json_t *body,
                       const char *name, double min, double max,
                       json_t *request)
{
    const json_t *v = json_object_get(body, name);
    double n = json_number_value(v);

    if (!v || json_is_null(v))
        return 0;
    if (!json_is_number(v))
        return wrong_type(b, name, "a number");
    if (n < min || n > max)
        return openai_invalid(b->fault,
                              n < min ? "decimal_below_min_value"
                                      : "decimal_above_max_value",
                              name, b->err,
                              "Invalid '%s': expected a number from %g to %g, "
                              "but got %g instead.",
                              name, min, max, n);
    if (request)
        keep(request, name, body, name);
    else if (n != 0)
        return unsupported(b, "unsupported_parameter", name,
                           "Not every configured model has penalties, so "
                           "only 0 is accepted.");
    return 0;
}

/* One sequence or up to four. */
static int read_stop(const struct blame *b, const json_t *given,
                     struct openai_completion *ret)
{
    size_t count = json_is_string(given) ? 1 : json_array_size(given);

    if (!given || json_is_null(given))
        return 0;
    if (!json_is_string(given) && !json_is_array(given))
        return wrong_type(b, "stop", "a string or an array");
    if (count > OPENAI_STOPS_MAX)
        return openai_invalid(b->fault, "array_above_max_length", "stop",
                              b->err,
                              "Invalid 'stop': array too long. Expected at "
                              "most %u elements, but got %zu.",
                              OPENAI_STOPS_MAX, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *v =
            json_is_string(given) ? given : json_array_get(given, i);
        size_t len = json_string_length(v);

        if (!json_is_string(v))
            return wrong_type(b, "stop", "strings");
        if (len == 0 || len > OPENAI_STOP_BYTES)
            return openai_invalid(b->fault, "invalid_value", "stop", b->err,
                                  "Invalid 'stop': expected strings of 1 to "
                                  "%u bytes, but got one of %zu.",
                                  OPENAI_STOP_BYTES, len);
        ret->stops[ret->stop_count++] = json_string_value(v);
    }
    return 0;
}

struct fields {
    const char *model, *user, *safety_identifier, *prompt_cache_key,
        *prompt_cache_retention;
    const json_t *messages, *tools, *modalities, *stream_options, *metadata,
        *response_format, *logit_bias, *prediction;
    int64_t n, max_tokens, max_completion_tokens, top_logprobs, seed;
    int effort, verbosity, service_tier;
    bool store, stream, logprobs, parallel_tool_calls;
};

#define FIELD(member) .offset = offsetof(struct fields, member)

static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                      "high", "xhigh",   "max", NULL};
static const char *const verbosities[] = {"low", "medium", "high", NULL};
static const char *const tiers[] = {
    "auto", "default", "flex", "scale", "priority", "fast", "ultrafast", NULL};

static const struct json_field fields[] = {
    {"messages", JSON_KIND_ARRAY, .required = true, FIELD(messages),
     .max = MESSAGES_MAX},
    {"model", JSON_KIND_STRING, FIELD(model), .min = 1, .max = 256},
    {"tools", JSON_KIND_ARRAY, FIELD(tools), .max = TOOLS_MAX},
    {"modalities", JSON_KIND_ARRAY, FIELD(modalities), .max = 2},
    {"stream_options", JSON_KIND_OBJECT, FIELD(stream_options)},
    {"metadata", JSON_KIND_OBJECT, FIELD(metadata)},
    {"response_format", JSON_KIND_OBJECT, FIELD(response_format)},
    {"logit_bias", JSON_KIND_OBJECT, FIELD(logit_bias)},
    {"prediction", JSON_KIND_OBJECT, FIELD(prediction)},
    {"n", JSON_KIND_INT, FIELD(n), .min = 1, .max = 128},
    {"max_tokens", JSON_KIND_INT, FIELD(max_tokens), .min = 1,
     .max = TOKENS_MAX},
    {"max_completion_tokens", JSON_KIND_INT, FIELD(max_completion_tokens),
     .min = 1, .max = TOKENS_MAX},
    {"top_logprobs", JSON_KIND_INT, FIELD(top_logprobs), .min = 0, .max = 20},
    {"seed", JSON_KIND_INT, FIELD(seed), .min = INT64_MIN, .max = INT64_MAX},
    {"reasoning_effort", JSON_KIND_CHOICE, FIELD(effort), .choices = efforts},
    {"verbosity", JSON_KIND_CHOICE, FIELD(verbosity), .choices = verbosities},
    {"service_tier", JSON_KIND_CHOICE, FIELD(service_tier), .choices = tiers},
    {"store", JSON_KIND_BOOL, FIELD(store)},
    {"stream", JSON_KIND_BOOL, FIELD(stream)},
    {"logprobs", JSON_KIND_BOOL, FIELD(logprobs)},
    {"parallel_tool_calls", JSON_KIND_BOOL, FIELD(parallel_tool_calls)},
    {"user", JSON_KIND_STRING, FIELD(user), .max = 512},
    {"safety_identifier", JSON_KIND_STRING, FIELD(safety_identifier),
     .max = 64},
    {"prompt_cache_key", JSON_KIND_STRING, FIELD(prompt_cache_key),
     .max = 512},
    {"prompt_cache_retention", JSON_KIND_STRING, FIELD(prompt_cache_retention),
     .max = 64},
};

/* Of more than one type, or not at all; read apart from the table. */
static const char *const others[] = {
    "stop",  "tool_choice",       "temperature",
    "top_p", "frequency_penalty", "presence_penalty"};

static const struct refusal {
    const char *name, *why;
} refusals[] = {
    {"functions", "Use 'tools'."},
    {"function_call", "Use 'tool_choice'."},
    {"audio", "This service answers in text."},
    {"web_search_options", "This service has no web search."},
    {"moderation", "This service moderates nothing."},
};

struct stream_fields {
    bool include_usage, include_obfuscation;
};

static const struct json_field stream_fields[] = {
    {"include_usage", JSON_KIND_BOOL,
     .offset = offsetof(struct stream_fields, include_usage)},
    {"include_obfuscation", JSON_KIND_BOOL,
     .offset = offsetof(struct stream_fields, include_obfuscation)},
};

/* What no request of this service can have. */
static int check_abilities(const struct blame *b, const json_t *body,
                           const struct fields *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
        const json_t *v = json_object_get(body, refusals[i].name);

        if (v && !json_is_null(v))
            return unsupported(b, "unsupported_parameter", refusals[i].name,
                               refusals[i].why);
    }
    if (f->n > 1)
        return unsupported(b, "unsupported_value", "n",
                           "This service gives one choice; send the request "
                           "again for another one.");
    if (f->logprobs || f->top_logprobs > 0)
        return unsupported(b, "unsupported_parameter",
                           f->logprobs ? "logprobs" : "top_logprobs",
                           "This service does not report probabilities of "
                           "tokens.");
    if (json_object_size(f->logit_bias) > 0)
        return unsupported(b, "unsupported_parameter", "logit_bias",
                           "Not every configured model has it, so only an "
                           "empty object is accepted.");
    for (size_t i = 0; i < json_array_size(f->modalities); i++) {
        const char *word = json_string_value(json_array_get(f->modalities, i));

        if (!word || strcmp(word, "text") != 0)
            return unsupported(b, "unsupported_value", "modalities",
                               "This service answers in text.");
    }
    return 0;
}

static int read_fields(const struct blame *b, const json_t *body,
                       struct fields *f)
{
    json_t *plain cleanup(json_unref) = json_copy((json_t *)body);

    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        (void)json_object_del(plain, others[i]);
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
        (void)json_object_del(plain, refusals[i].name);
    return openai_read(plain, NULL, fields, ARRAY_SIZE(fields), f, b->fault,
                       b->err);
}

static void put_options(const json_t *body, const struct fields *f,
                        json_t *request)
{
    static const char *const same[] = {"model",
                                       "user",
                                       "safety_identifier",
                                       "prompt_cache_key",
                                       "metadata",
                                       "parallel_tool_calls",
                                       "service_tier"};

    for (size_t i = 0; i < ARRAY_SIZE(same); i++)
        keep(request, same[i], body, same[i]);
    keep(request, "max_output_tokens", body, "max_tokens");
    keep(request, "max_output_tokens", body, "max_completion_tokens");
    if (f->effort >= 0)
        put(request, "reasoning",
            json_pack("{s:s}", "effort", efforts[f->effort]));
}

int openai_completion_request(const json_t *body, bool code_tool,
                              struct openai_completion *ret,
                              struct openai_fault *fault, struct error *err)
{
    struct blame b = {fault, err};
    struct fields f = {.effort = -1, .verbosity = -1, .service_tier = -1};
    struct stream_fields s = {0};
    json_t *request = json_object();
    int r;

    *ret = (struct openai_completion){.request = request};
    r = read_fields(&b, body, &f);
    if (r == 0)
        r = check_abilities(&b, body, &f);
    if (r == 0)
        r = read_messages(&b, f.messages, request);
    if (r == 0)
        r = read_tools(&b, f.tools, code_tool, request);
    if (r == 0)
        r = read_choice(&b, json_object_get(body, "tool_choice"), request);
    if (r == 0)
        r = read_format(&b, f.response_format,
                        f.verbosity < 0 ? NULL : verbosities[f.verbosity],
                        request);
    if (r == 0)
        r = read_number(&b, body, "temperature", 0, 2, request);
    if (r == 0)
        r = read_number(&b, body, "top_p", 0, 1, request);
    if (r == 0)
        r = read_number(&b, body, "frequency_penalty", -2, 2, NULL);
    if (r == 0)
        r = read_number(&b, body, "presence_penalty", -2, 2, NULL);
    if (r == 0)
        r = read_stop(&b, json_object_get(body, "stop"), ret);
    if (r == 0 && f.stream_options && !f.stream)
        r = openai_invalid(fault, "invalid_value", "stream_options", err,
                           "Invalid 'stream_options': it is only allowed when "
                           "'stream' is true.");
    if (r == 0 && f.stream_options)
        r = openai_read(f.stream_options, "stream_options", stream_fields,
                        ARRAY_SIZE(stream_fields), &s, fault, err);
    if (r < 0)
        return r;
    put_options(body, &f, request);
    ret->stream = f.stream;
    ret->include_usage = s.include_usage;
    ret->store = f.store;
    ret->json =
        strcmp(json_string_value(json_object_get(
                   json_object_get(json_object_get(request, "text"), "format"),
                   "type")),
               "text") != 0;
    return 0;
}

void openai_completion_done(struct openai_completion *c)
{
    json_unref(&c->request);
}
