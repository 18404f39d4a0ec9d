/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of POST /responses: a table of its members with their types and
 * limits, the tools, and the choice among them. What the response object
 * repeats of the request is collected on the way, with defaults filled in. A
 * member that is unknown or not served is an error, never silence. Runs on a
 * worker of the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "chat/chat.h"
#include "chat/conversations.h"
#include "doors/openai/openai.h"
#include "doors/openai/responses.h"
#include "json/json.h"

#define NAME_SHOWN 64
#define TOOLS_MAX 128u

/* ---- members ------------------------------------------------------------ */

enum kind {
    KIND_TEXT,
    KIND_INT,
    KIND_NUMBER,
    KIND_BOOL,
    KIND_OBJECT,
    KIND_ARRAY,
    KIND_CHOICE,
    KIND_ANY,
    KIND_NOT_SERVED
};

static const char *const tiers[] = {
    "auto", "default", "flex", "scale", "priority", "fast", "ultrafast", NULL};
static const char *const truncations[] = {"auto", "disabled", NULL};
static const char *const retentions[] = {"in_memory", "in-memory", "24h",
                                         NULL};

static const struct member {
    const char *name;
    enum kind kind;
    int64_t min, max; /* of a number, or of the length of a text or array */
    const char *const *choices;
    const char *fallback; /* JSON of the echo; NULL: no part of it */
    bool option;          /* for the model */
    bool never_null;
} members[] = {
    {.name = "model",
     .kind = KIND_TEXT,
     .min = 1,
     .max = 256,
     .never_null = true},
    {.name = "input", .kind = KIND_ANY},
    {.name = "instructions",
     .kind = KIND_TEXT,
     .min = 0,
     .max = CHAT_STRING_CHARS,
     .fallback = "null"},
    {.name = "tools",
     .kind = KIND_ARRAY,
     .min = 0,
     .max = TOOLS_MAX,
     .fallback = "[]",
     .never_null = true},
    {.name = "tool_choice",
     .kind = KIND_ANY,
     .fallback = "\"auto\"",
     .never_null = true},
    {.name = "parallel_tool_calls",
     .kind = KIND_BOOL,
     .fallback = "true",
     .option = true},
    {.name = "max_tool_calls",
     .kind = KIND_INT,
     .min = 0,
     .max = INT64_MAX,
     .fallback = "null"},
    {.name = "previous_response_id", .kind = KIND_TEXT, .min = 1, .max = 128},
    {.name = "conversation", .kind = KIND_ANY},
    {.name = "store", .kind = KIND_BOOL},
    {.name = "background", .kind = KIND_BOOL},
    {.name = "stream", .kind = KIND_BOOL},
    {.name = "stream_options", .kind = KIND_OBJECT},
    {.name = "include", .kind = KIND_ARRAY, .min = 0, .max = 16},
    {.name = "max_output_tokens",
     .kind = KIND_INT,
     .min = 16,
     .max = INT64_MAX,
     .fallback = "null"},
    {.name = "temperature",
     .kind = KIND_NUMBER,
     .min = 0,
     .max = 2,
     .fallback = "1",
     .option = true},
    {.name = "top_p",
     .kind = KIND_NUMBER,
     .min = 0,
     .max = 1,
     .fallback = "1",
     .option = true},
    {.name = "top_logprobs",
     .kind = KIND_INT,
     .min = 0,
     .max = 20,
     .fallback = "null"},
    {.name = "reasoning",
     .kind = KIND_OBJECT,
     .fallback = "{\"effort\":null,\"summary\":null}",
     .option = true},
    {.name = "text",
     .kind = KIND_OBJECT,
     .fallback = "{\"format\":{\"type\":\"text\"}}",
     .option = true,
     .never_null = true},
    {.name = "metadata", .kind = KIND_OBJECT, .fallback = "{}"},
    {.name = "truncation",
     .kind = KIND_CHOICE,
     .choices = truncations,
     .fallback = "\"disabled\""},
    {.name = "context_management", .kind = KIND_ARRAY, .min = 0, .max = 16},
    {.name = "service_tier",
     .kind = KIND_CHOICE,
     .choices = tiers,
     .fallback = "\"default\""},
    {.name = "prompt_cache_key",
     .kind = KIND_TEXT,
     .min = 0,
     .max = 1024,
     .fallback = "null"},
    {.name = "prompt_cache_retention",
     .kind = KIND_CHOICE,
     .choices = retentions,
     .fallback = "null"},
    {.name = "prompt_cache_options", .kind = KIND_OBJECT},
    {.name = "safety_identifier",
     .kind = KIND_TEXT,
     .min = 0,
     .max = 64,
     .fallback = "null"},
    {.name = "user",
     .kind = KIND_TEXT,
     .min = 0,
     .max = 1024,
     .fallback = "null",
     .option = true},
    {.name = "prompt", .kind = KIND_NOT_SERVED},
    {.name = "moderation", .kind = KIND_NOT_SERVED},
    {.name = "agent", .kind = KIND_ANY},
    {.name = "agent_reference", .kind = KIND_ANY},
    {.name = "structured_inputs", .kind = KIND_OBJECT},
    {.name = "betas", .kind = KIND_ANY},
};

static const struct member *find_member(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        if (strcmp(members[i].name, name) == 0)
            return &members[i];
    return NULL;
}

static int wrong_type(struct openai_fault *fault, const char *name,
                      const char *wanted, struct error *err)
{
    return openai_invalid(fault, "invalid_type", name, err,
                          "Invalid type for '%s': expected %s.", name, wanted);
}

static int check_number(const struct member *m, const json_t *v,
                        struct openai_fault *fault, struct error *err)
{
    bool whole = m->kind == KIND_INT;
    double n = json_number_value(v);
    int64_t exact = 0;

    if (whole ? !json_whole_number(v, &exact) : !json_is_number(v))
        return wrong_type(fault, m->name, whole ? "an integer" : "a decimal",
                          err);
    if (n < (double)m->min)
        return openai_invalid(
            fault,
            whole ? "integer_below_min_value" : "decimal_below_min_value",
            m->name, err,
            "Invalid '%s': %s below minimum value. Expected "
            "a value >= %lld, but got %g instead.",
            m->name, whole ? "integer" : "decimal", (long long)m->min, n);
    if (n > (double)m->max)
        return openai_invalid(
            fault,
            whole ? "integer_above_max_value" : "decimal_above_max_value",
            m->name, err,
            "Invalid '%s': %s above maximum value. Expected "
            "a value <= %lld, but got %g instead.",
            m->name, whole ? "integer" : "decimal", (long long)m->max, n);
    return 0;
}

static int check_size(const struct member *m, size_t len, const char *what,
                      struct openai_fault *fault, struct error *err)
{
    if ((int64_t)len > m->max)
        return openai_invalid(
            fault,
            what[0] == 's' ? "string_above_max_length"
                           : "array_above_max_length",
            m->name, err,
            "Invalid '%s': %s too long. Expected maximum length %lld, but got "
            "length %zu instead.",
            m->name, what, (long long)m->max, len);
    if ((int64_t)len < m->min)
        return openai_invalid(fault, "invalid_value", m->name, err,
                              "Invalid '%s': empty %s.", m->name, what);
    return 0;
}

static int check_choice(const char *name, const char *const *choices,
                        const json_t *v, struct openai_fault *fault,
                        struct error *err)
{
    const char *text = json_string_value(v);
    struct buf known cleanup(buf_done) = {0};

    if (!text)
        return wrong_type(fault, name, "a string", err);
    for (size_t i = 0; choices[i]; i++) {
        if (strcmp(choices[i], text) == 0)
            return 0;
        buf_addf(&known, "%s'%s'", i ? ", " : "", choices[i]);
    }
    return openai_invalid(fault, "invalid_value", name, err,
                          "Invalid value: '%.*s'. Supported values are: %s.",
                          NAME_SHOWN, text, known.data);
}

static int check_member(const struct member *m, const json_t *v,
                        struct openai_fault *fault, struct error *err)
{
    switch (m->kind) {
    case KIND_TEXT:
        return json_is_string(v)
                   ? check_size(m, json_string_length(v), "string", fault, err)
                   : wrong_type(fault, m->name, "a string", err);
    case KIND_INT:
    case KIND_NUMBER:
        return check_number(m, v, fault, err);
    case KIND_BOOL:
        return json_is_boolean(v)
                   ? 0
                   : wrong_type(fault, m->name, "a boolean", err);
    case KIND_OBJECT:
        return json_is_object(v)
                   ? 0
                   : wrong_type(fault, m->name, "an object", err);
    case KIND_ARRAY:
        return json_is_array(v)
                   ? check_size(m, json_array_size(v), "array", fault, err)
                   : wrong_type(fault, m->name, "an array", err);
    case KIND_CHOICE:
        return check_choice(m->name, m->choices, v, fault, err);
    case KIND_NOT_SERVED:
        return openai_invalid(fault, "unsupported_parameter", m->name, err,
                              "Unsupported parameter: '%s' is not supported "
                              "by this service.",
                              m->name);
    case KIND_ANY:
        break;
    }
    return 0;
}

static int check_members(const json_t *body, struct openai_fault *fault,
                         struct error *err)
{
    const char *key;
    json_t *v;

    if (!json_is_object(body))
        return wrong_type(fault, "body", "an object", err);
    json_object_foreach ((json_t *)body, key, v) {
        const struct member *m = find_member(key);
        int r;

        if (!m)
            return openai_invalid(fault, "unknown_parameter", key, err,
                                  "Unknown parameter: '%.*s'.", NAME_SHOWN,
                                  key);
        if (json_is_null(v) && !m->never_null)
            continue;
        r = check_member(m, v, fault, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- members with rules of their own ------------------------------------ */

static const char *const includes[] = {
    "code_interpreter_call.outputs", "file_search_call.results",
    "web_search_call.results",       "web_search_call.action.sources",
    "message.input_image.image_url", "computer_call_output.output.image_url",
    "reasoning.encrypted_content",   "message.output_text.logprobs",
};

int responses_include(const char *value, bool *ret_outputs,
                      struct openai_fault *fault, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(includes); i++)
        if (strcmp(includes[i], value) == 0) {
            *ret_outputs = *ret_outputs || i == 0;
            return 0;
        }
    return openai_invalid(fault, "invalid_value", "include", err,
                          "Invalid value: '%.*s'. Supported values are: "
                          "'code_interpreter_call.outputs' and seven others.",
                          NAME_SHOWN, value);
}

static int read_include(const json_t *list, bool *ret_outputs,
                        struct openai_fault *fault, struct error *err)
{
    json_t *v;
    size_t i;
    int r = 0;

    json_array_foreach ((json_t *)list, i, v) {
        if (!json_is_string(v))
            return wrong_type(fault, "include", "strings", err);
        r = responses_include(json_string_value(v), ret_outputs, fault, err);
        if (r < 0)
            break;
    }
    return r;
}

/* Members of members that are one of a few words; null means absent. */
static int check_inner_choices(const json_t *body, struct openai_fault *fault,
                               struct error *err)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                          "high", "xhigh",   "max", NULL};
    static const char *const summaries[] = {"auto", "concise", "detailed",
                                            NULL};
    static const char *const contexts[] = {"auto", "current_turn", "all_turns",
                                           NULL};
    static const char *const verbosities[] = {"low", "medium", "high", NULL};
    static const struct {
        const char *outer, *inner, *path;
        const char *const *choices;
    } rows[] = {
        {"reasoning", "effort", "reasoning.effort", efforts},
        {"reasoning", "summary", "reasoning.summary", summaries},
        {"reasoning", "generate_summary", "reasoning.generate_summary",
         summaries},
        {"reasoning", "context", "reasoning.context", contexts},
        {"text", "verbosity", "text.verbosity", verbosities},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
        const json_t *v = json_object_get(json_object_get(body, rows[i].outer),
                                          rows[i].inner);

        if (v && !json_is_null(v))
            r = check_choice(rows[i].path, rows[i].choices, v, fault, err);
    }
    return r;
}

static bool is_function_name(const char *name)
{
    size_t len = name ? strlen(name) : 0;

    return len > 0 && len <= 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789_-") == len;
}

static int check_name(const json_t *object, const char *path,
                      struct openai_fault *fault, struct error *err)
{
    const json_t *name = json_object_get(object, "name");

    if (!name)
        return openai_invalid(fault, "missing_required_parameter", path, err,
                              "Missing required parameter: '%s'.", path);
    if (!is_function_name(json_string_value(name)))
        return openai_invalid(fault, "invalid_value", path, err,
                              "Invalid '%s': expected 1 to 64 letters, "
                              "digits, '_' and '-'.",
                              path);
    return 0;
}

/* The format of the answer; *ret_json: it is JSON. */
static int check_format(const json_t *text, bool *ret_json,
                        struct openai_fault *fault, struct error *err)
{
    const json_t *format = json_object_get(text, "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    int r;

    if (!format || json_is_null(format))
        return 0;
    if (!json_is_object(format))
        return wrong_type(fault, "text.format", "an object", err);
    if (!type)
        return openai_invalid(fault, "missing_required_parameter",
                              "text.format.type", err,
                              "Missing required parameter: "
                              "'text.format.type'.");
    if (strcmp(type, "text") == 0)
        return 0;
    *ret_json = true;
    if (strcmp(type, "json_object") == 0)
        return 0;
    if (strcmp(type, "json_schema") != 0)
        return openai_invalid(fault, "invalid_value", "text.format.type", err,
                              "Invalid value: '%.*s'. Supported values are: "
                              "'text', 'json_object', 'json_schema'.",
                              NAME_SHOWN, type);
    r = check_name(format, "text.format.name", fault, err);
    if (r < 0)
        return r;
    if (!json_is_object(json_object_get(format, "schema")))
        return openai_invalid(fault, "missing_required_parameter",
                              "text.format.schema", err,
                              "Missing required parameter: "
                              "'text.format.schema'.");
    return 0;
}

static int read_conversation(const json_t *v, const char **ret,
                             struct openai_fault *fault, struct error *err)
{
    if (json_is_object(v)) {
        v = json_object_get(v, "id");
        if (!v)
            return openai_invalid(fault, "missing_required_parameter",
                                  "conversation.id", err,
                                  "Missing required parameter: "
                                  "'conversation.id'.");
    }
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_string(v) || json_string_length(v) == 0)
        return wrong_type(fault, "conversation", "an id or an object", err);
    *ret = json_string_value(v);
    return 0;
}

/* ---- tools -------------------------------------------------------------- */

static int unknown_key(const json_t *object, const char *const *known,
                       const char *within, struct openai_fault *fault,
                       struct error *err)
{
    const char *key;
    char path[96];
    json_t *v;

    json_object_foreach ((json_t *)object, key, v) {
        bool found = false;

        for (size_t i = 0; known[i] && !found; i++)
            found = strcmp(known[i], key) == 0;
        if (found)
            continue;
        (void)snprintf(path, sizeof(path), "%.48s.%.40s", within, key);
        return openai_invalid(fault, "unknown_parameter", path, err,
                              "Unknown parameter: '%s'.", path);
    }
    return 0;
}

static int read_files(struct doors_call *call, const json_t *ids,
                      const char *at, struct responses_request *ret,
                      struct error *err)
{
    size_t count = json_array_size(ids);
    char path[96];
    int r;

    (void)snprintf(path, sizeof(path), "%.64s.file_ids", at);
    if (!ids || json_is_null(ids))
        return 0;
    if (!json_is_array(ids))
        return wrong_type(openai_fault(call), path, "an array", err);
    if (count > OPENAI_FILES_MAX)
        return openai_invalid(openai_fault(call), "array_above_max_length",
                              path, err,
                              "Invalid '%s': array too long. Expected an "
                              "array with maximum length %u, but got an array "
                              "with length %zu instead.",
                              path, OPENAI_FILES_MAX, count);
    r = openai_read_strings(ids, path, OPENAI_FILES_MAX, openai_fault(call),
                            err);
    for (size_t i = 0; i < count && r == 0; i++) {
        struct library_file file cleanup(library_file_done) = {.filename =
                                                                   NULL};

        r = openai_library(call, json_string_value(json_array_get(ids, i)),
                           path, &file, err);
        if (r < 0)
            break;
        ret->files[i] = (struct session_attach){
            .file = arena_strdup(http_arena(call->http), file.file),
            .path = openai_mount(call, &file)};
        ret->chat.file_count = i + 1;
    }
    return r;
}

static int read_auto(struct doors_call *call, const json_t *c, const char *at,
                     struct responses_request *ret, struct error *err)
{
    static const char *const known[] = {"type", "file_ids", "memory_limit",
                                        "network_policy", NULL};
    static const char *const sizes[] = {"1g", "4g", "16g", "64g", NULL};
    static const uint64_t gib[] = {1, 4, 16, 64};
    struct openai_fault *fault = openai_fault(call);
    const char *type = json_string_value(json_object_get(c, "type"));
    const json_t *limit = json_object_get(c, "memory_limit");
    const json_t *policy = json_object_get(c, "network_policy");
    struct openai_network network = {0};
    char path[96];
    int r = unknown_key(c, known, at, fault, err);

    if (r < 0)
        return r;
    if (!type || strcmp(type, "auto") != 0) {
        (void)snprintf(path, sizeof(path), "%.64s.type", at);
        return openai_invalid(fault, "invalid_value", path, err,
                              "Invalid value: '%.*s'. Supported values are: "
                              "'auto'.",
                              NAME_SHOWN, type ? type : "");
    }
    if (limit && !json_is_null(limit)) {
        size_t i = 0;
        const char *text = json_string_value(limit);

        while (sizes[i] && (!text || strcmp(sizes[i], text) != 0))
            i++;
        (void)snprintf(path, sizeof(path), "%.64s.memory_limit", at);
        if (!sizes[i])
            return openai_invalid(fault, "invalid_value", path, err,
                                  "Invalid value: '%.*s'. Supported values "
                                  "are: '1g', '4g', '16g', '64g'.",
                                  NAME_SHOWN, text ? text : "");
        ret->chat.memory_bytes = gib[i] << 30;
        r = openai_check_memory(call, ret->chat.memory_bytes, path, err);
    }
    if (r == 0 && policy && !json_is_null(policy)) {
        r = openai_network_decode(policy, &network, fault, err);
        if (r == 0)
            r = openai_network_spec(call, &network, &ret->chat.network, err);
    }
    return r < 0 ? r
                 : read_files(call, json_object_get(c, "file_ids"), at, ret,
                              err);
}

static int read_code_tool(struct doors_call *call, const json_t *tool,
                          const char *at, struct responses_request *ret,
                          struct error *err)
{
    const json_t *c = json_object_get(tool, "container");
    char path[96];

    (void)snprintf(path, sizeof(path), "%.64s.container", at);
    if (ret->chat.code)
        return openai_invalid(openai_fault(call), "invalid_value", at, err,
                              "Invalid value: a response has one "
                              "'code_interpreter' tool.");
    ret->chat.code = true;
    if (json_is_string(c)) {
        if (json_string_length(c) == 0 || json_string_length(c) > 64)
            return openai_invalid(openai_fault(call), "invalid_value", path,
                                  err, "Invalid '%s': not a container id.",
                                  path);
        ret->chat.container = json_string_value(c);
        return 0;
    }
    if (!c || json_is_null(c)) {
        if (ret->agent) /* definitions of agents leave it out */
            return 0;
        return openai_invalid(openai_fault(call), "missing_required_parameter",
                              path, err, "Missing required parameter: '%s'.",
                              path);
    }
    if (!json_is_object(c))
        return wrong_type(openai_fault(call), path, "a string or an object",
                          err);
    return read_auto(call, c, path, ret, err);
}

static int read_function(struct doors_call *call, const json_t *tool,
                         const char *at, struct responses_request *ret,
                         struct error *err)
{
    const char *name = json_string_value(json_object_get(tool, "name"));
    const json_t *parameters = json_object_get(tool, "parameters");
    const json_t *about = json_object_get(tool, "description");
    json_t *copy;
    char path[96];
    int r;

    (void)snprintf(path, sizeof(path), "%.64s.name", at);
    r = check_name(tool, path, openai_fault(call), err);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "%.64s.parameters", at);
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return openai_invalid(openai_fault(call),
                              "invalid_function_parameters", path, err,
                              "Invalid schema for function '%s': expected an "
                              "object.",
                              name);
    copy = json_pack("{s:s, s:s}", "type", "function", "name", name);
    if (json_is_string(about))
        (void)json_object_set(copy, "description", (json_t *)about);
    if (json_is_object(parameters)) {
        json_t *schema = json_copy((json_t *)parameters);

        (void)json_object_del(schema, "$schema"); /* some servers choke */
        (void)json_object_set_new(copy, "parameters", schema);
    } else {
        (void)json_object_set_new(
            copy, "parameters",
            json_pack("{s:s, s:{}}", "type", "object", "properties"));
    }
    if (json_is_boolean(json_object_get(tool, "strict")))
        (void)json_object_set(copy, "strict", json_object_get(tool, "strict"));
    (void)json_array_append_new(ret->functions, copy);
    return 0;
}

static int read_tools(struct doors_call *call, const json_t *tools,
                      struct responses_request *ret, struct error *err)
{
    json_t *tool;
    size_t i;
    int r = 0;

    json_array_foreach ((json_t *)tools, i, tool) {
        const char *type = json_string_value(json_object_get(tool, "type"));
        char at[48], path[96];

        (void)snprintf(at, sizeof(at), "tools[%zu]", i);
        (void)snprintf(path, sizeof(path), "%s.type", at);
        if (!type)
            return openai_invalid(openai_fault(call),
                                  "missing_required_parameter", path, err,
                                  "Missing required parameter: '%s'.", path);
        if (strcmp(type, "code_interpreter") == 0)
            r = read_code_tool(call, tool, at, ret, err);
        else if (strcmp(type, "function") == 0)
            r = read_function(call, tool, at, ret, err);
        else if (strcmp(type, "mcp") == 0)
            r = responses_toolbox(call, tool, at, ret, err);
        else
            r = openai_invalid(openai_fault(call), "unsupported_value", path,
                               err,
                               "Unsupported value: '%.*s'. This service has "
                               "the tools 'code_interpreter', 'function' and "
                               "'mcp'.",
                               NAME_SHOWN, type);
        if (r < 0)
            break;
    }
    return r;
}

/* ---- the choice --------------------------------------------------------- */

static bool has_function(const struct responses_request *rq, const char *name)
{
    json_t *f;
    size_t i;

    json_array_foreach (rq->functions, i, f) {
        const char *n = json_string_value(json_object_get(f, "name"));

        if (name && n && strcmp(n, name) == 0)
            return true;
    }
    return false;
}

/* One {type, name} that must be a tool of the request. */
static int check_chosen(const struct responses_request *rq, const json_t *c,
                        struct openai_fault *fault, struct error *err)
{
    const char *type = json_string_value(json_object_get(c, "type"));
    const char *name = json_string_value(json_object_get(c, "name"));
    const char *label = json_string_value(json_object_get(c, "server_label"));

    if (type && strcmp(type, "code_interpreter") == 0 && rq->chat.code)
        return 0;
    if (type && strcmp(type, "function") == 0 && has_function(rq, name))
        return 0;
    if (type && strcmp(type, "mcp") == 0 && rq->chat.box &&
        (!label || strcmp(label, CHAT_BOX_LABEL) == 0))
        return 0;
    return openai_invalid(fault, "invalid_value", "tool_choice", err,
                          "Tool choice '%.*s' not found in 'tools' "
                          "parameter.",
                          NAME_SHOWN,
                          name   ? name
                          : type ? type
                                 : "");
}

static int check_tool_choice(const struct responses_request *rq,
                             const json_t *c, struct openai_fault *fault,
                             struct error *err)
{
    const char *text = json_string_value(c);
    const char *type = json_string_value(json_object_get(c, "type"));
    json_t *tool;
    size_t i;
    int r = 0;

    if (!c)
        return 0;
    if (text)
        return strcmp(text, "none") == 0 || strcmp(text, "auto") == 0 ||
                       strcmp(text, "required") == 0
                   ? 0
                   : openai_invalid(fault, "invalid_value", "tool_choice", err,
                                    "Invalid value: '%.*s'. Supported values "
                                    "are: 'none', 'auto', 'required'.",
                                    NAME_SHOWN, text);
    if (!json_is_object(c))
        return wrong_type(fault, "tool_choice", "a string or an object", err);
    if (!type || strcmp(type, "allowed_tools") != 0)
        return check_chosen(rq, c, fault, err);
    text = json_string_value(json_object_get(c, "mode"));
    if (!text || (strcmp(text, "auto") != 0 && strcmp(text, "required") != 0))
        return openai_invalid(fault, "invalid_value", "tool_choice.mode", err,
                              "Invalid value for 'tool_choice.mode'. "
                              "Supported values are: 'auto', 'required'.");
    if (!json_is_array(json_object_get(c, "tools")))
        return wrong_type(fault, "tool_choice.tools", "an array", err);
    json_array_foreach (json_object_get(c, "tools"), i, tool) {
        r = check_chosen(rq, tool, fault, err);
        if (r < 0)
            break;
    }
    return r;
}

/* ---- all of it ---------------------------------------------------------- */

/* What the response repeats, and what goes to the model. */
static void collect(const json_t *body, struct responses_request *ret)
{
    ret->echo = json_object();
    ret->options = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        const struct member *m = &members[i];
        json_t *v = json_object_get(body, m->name);
        bool given = v && !json_is_null(v);

        if (m->fallback)
            (void)json_object_set_new(
                ret->echo, m->name,
                given ? json_deep_copy(v)
                      : json_loads(m->fallback, JSON_DECODE_ANY, NULL));
        if (m->option && given)
            (void)json_object_set(ret->options, m->name, v);
    }
    (void)json_object_set_new(ret->echo, "service_tier",
                              json_string("default"));
    if (!json_object_get(json_object_get(ret->echo, "text"), "format"))
        (void)json_object_set_new(json_object_get(ret->echo, "text"), "format",
                                  json_pack("{s:s}", "type", "text"));
}

static bool get_bool(const json_t *body, const char *name, bool fallback)
{
    const json_t *v = json_object_get(body, name);

    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

static int read_rest(struct doors_call *call, const json_t *body,
                     struct responses_request *ret, struct error *err)
{
    struct openai_fault *fault = openai_fault(call);
    struct chat_fault why = {0};
    struct chat_request *c = &ret->chat;
    bool json = false;
    int r = chat_metadata_check(json_object_get(body, "metadata"), &why, err);

    if (r < 0)
        return responses_refuse(call, &why, err);
    if (r == 0)
        r = read_include(json_object_get(body, "include"), &ret->outputs,
                         fault, err);
    if (r == 0)
        r = check_inner_choices(body, fault, err);
    if (r == 0)
        r = check_format(json_object_get(body, "text"), &json, fault, err);
    if (r == 0)
        r = read_conversation(json_object_get(body, "conversation"),
                              &c->conversation, fault, err);
    if (r < 0)
        return r;
    c->model = json_string_value(json_object_get(body, "model"));
    c->instructions = json_string_value(json_object_get(body, "instructions"));
    c->input = json_object_get(body, "input");
    c->previous =
        json_string_value(json_object_get(body, "previous_response_id"));
    c->schema = json ? json_object_get(body, "text") : NULL;
    c->max_output_tokens =
        json_integer_value(json_object_get(body, "max_output_tokens"));
    c->max_tool_calls =
        json_is_integer(json_object_get(body, "max_tool_calls"))
            ? json_integer_value(json_object_get(body, "max_tool_calls"))
            : -1;
    c->store = get_bool(body, "store", true);
    c->background = get_bool(body, "background", false);
    ret->stream = get_bool(body, "stream", false);
    if (c->background && !c->store)
        return openai_invalid(fault, "invalid_value", "background", err,
                              "A background response has to be stored: leave "
                              "out 'store' or set it to true.");
    return 0;
}

int responses_decode(struct doors_call *call, const json_t *body,
                     struct responses_request *ret, struct error *err)
{
    struct openai_fault *fault = openai_fault(call);
    const char *truncation;
    int r = check_members(body, fault, err);

    if (r < 0)
        return r;
    ret->functions = json_array();
    ret->chat.files = ret->files;
    r = read_rest(call, body, ret, err);
    if (r == 0)
        r = read_tools(call, json_object_get(body, "tools"), ret, err);
    if (r == 0)
        r = check_tool_choice(ret, json_object_get(body, "tool_choice"), fault,
                              err);
    if (r < 0)
        return r;
    collect(body, ret);
    truncation = json_string_value(json_object_get(body, "truncation"));
    ret->chat.truncate = truncation && strcmp(truncation, "auto") == 0;
    ret->chat.functions = ret->functions;
    ret->chat.tool_choice = json_object_get(body, "tool_choice");
    ret->chat.options = ret->options;
    ret->chat.echo = ret->echo;
    return 0;
}

void responses_request_done(struct responses_request *rq)
{
    json_decref(rq->functions);
    json_decref(rq->echo);
    json_decref(rq->options);
    json_decref(rq->body);
}
