/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a definition may contain. It is stored and shown as it was sent,
 * unknown members included; what we act on is checked here, when the version
 * is made, and not again when it is used. Pure.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agents/agents_int.h"
#include "agents/schema.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "json/json.h"

#define MODEL_MAX 256
#define TOOL_CALLS_MAX 10000
#define SECONDS_MAX 86400
#define TOKENS_MIN 16
#define TOKENS_MAX 100000000

int agents_invalid(struct agents_fault *fault, const char *param,
                   struct error *err, const char *fmt, ...)
{
    va_list ap;

    *err = (struct error){.code = ERR_INVALID};
    va_start(ap, fmt);
    (void)vsnprintf(err->message, sizeof(err->message), fmt, ap); /* may cut */
    va_end(ap);
    if (fault)
        (void)snprintf(fault->param, sizeof(fault->param), "%s",
                       param); /* may cut */
    return -ERR_INVALID;
}

size_t agents_characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        if (((unsigned char)*text & 0xc0u) != 0x80u)
            count++;
    return count;
}

static bool alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

bool agents_name_valid(const char *name)
{
    size_t len = strlen(name);

    if (len < 1 || len > AGENTS_NAME_MAX || !alphanumeric(name[0]) ||
        !alphanumeric(name[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!alphanumeric(name[i]) && name[i] != '-')
            return false;
    return true;
}

int agents_check_metadata(const json_t *metadata, struct agents_fault *fault,
                          struct error *err)
{
    const char *key;
    json_t *v;

    if (!metadata || json_is_null(metadata))
        return 0;
    if (!json_is_object(metadata))
        return agents_invalid(fault, "metadata", err,
                              "metadata must be an object of strings");
    if (json_object_size(metadata) > AGENTS_METADATA_MAX)
        return agents_invalid(fault, "metadata", err,
                              "metadata must not have more than %u pairs",
                              AGENTS_METADATA_MAX);
    json_object_foreach ((json_t *)(uintptr_t)metadata, key, v) {
        if (agents_characters(key) > 64 || !json_is_string(v) ||
            agents_characters(json_string_value(v)) > 512)
            return agents_invalid(fault, "metadata", err,
                                  "metadata '%.64s' must be a string of at "
                                  "most 512 characters under a key of at "
                                  "most 64",
                                  key);
    }
    return 0;
}

/* ---- tools --------------------------------------------------------------
 */

static bool tool_name_valid(const char *name)
{
    size_t len = name ? strlen(name) : 0;

    for (size_t i = 0; i < len; i++)
        if (!alphanumeric(name[i]) && name[i] != '_' && name[i] != '-')
            return false;
    return len >= 1 && len <= 64;
}

static int check_container(const json_t *tool, const char *at,
                           struct agents_fault *fault, struct error *err)
{
    const json_t *container = json_object_get(tool, "container");
    const char *type = json_string_value(json_object_get(container, "type"));
    const json_t *ids = json_object_get(container, "file_ids");
    char param[96];

    if (!container || json_is_null(container) || json_is_string(container))
        return 0;
    (void)snprintf(param, sizeof(param), "%s.container", at);
    if (!json_is_object(container) || !type || strcmp(type, "auto") != 0)
        return agents_invalid(fault, param, err,
                              "a container must be an id, or an object of "
                              "type 'auto'");
    if (ids && !json_is_null(ids) &&
        (!json_is_array(ids) || json_array_size(ids) > 50))
        return agents_invalid(fault, param, err,
                              "file_ids must be a list of at most 50 ids");
    for (size_t i = 0; i < json_array_size(ids); i++)
        if (!json_is_string(json_array_get(ids, i)))
            return agents_invalid(fault, param, err,
                                  "file_ids must be a list of strings");
    return 0;
}

static int check_named_tool(const json_t *tool, const char *at,
                            struct agents_fault *fault, struct error *err)
{
    const json_t *parameters = json_object_get(tool, "parameters");
    char param[96];

    (void)snprintf(param, sizeof(param), "%s.name", at);
    if (!tool_name_valid(json_string_value(json_object_get(tool, "name"))))
        return agents_invalid(fault, param, err,
                              "a tool needs a name of 1 to 64 letters, "
                              "digits, '_' and '-'");
    (void)snprintf(param, sizeof(param), "%s.parameters", at);
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return agents_invalid(fault, param, err,
                              "parameters must be a JSON Schema");
    return 0;
}

static int check_mcp_tool(const json_t *tool, const char *at,
                          struct agents_fault *fault, struct error *err)
{
    char param[96];

    (void)snprintf(param, sizeof(param), "%s.server_label", at);
    if (json_string_length(json_object_get(tool, "server_label")) == 0)
        return agents_invalid(fault, param, err,
                              "an mcp tool needs a server_label");
    return 0;
}

static int check_plain_tool(const json_t *tool, const char *at,
                            struct agents_fault *fault, struct error *err)
{
    (void)tool;
    (void)at;
    (void)fault;
    (void)err;
    return 0;
}

static const struct {
    const char *type;
    int (*check)(const json_t *tool, const char *at,
                 struct agents_fault *fault, struct error *err);
} tool_types[] = {
    {"code_interpreter", check_container},
    {"function", check_named_tool},
    {"custom", check_named_tool},
    {"shell", check_plain_tool},
    {"mcp", check_mcp_tool},
};

static int check_tool(const json_t *tool, size_t n, struct agents_fault *fault,
                      struct error *err)
{
    const char *type = json_string_value(json_object_get(tool, "type"));
    char at[48], param[64];

    (void)snprintf(at, sizeof(at), "definition.tools[%zu]", n);
    (void)snprintf(param, sizeof(param), "%s.type", at);
    if (!type)
        return agents_invalid(fault, param, err,
                              "a tool must be an object with a type");
    for (size_t i = 0; i < ARRAY_SIZE(tool_types); i++)
        if (strcmp(tool_types[i].type, type) == 0)
            return tool_types[i].check(tool, at, fault, err);
    return agents_invalid(fault, param, err,
                          "tools of type '%.60s' are not supported; "
                          "code_interpreter, function, custom, shell and mcp "
                          "are",
                          type);
}

static int check_tools(const json_t *tools, struct agents_fault *fault,
                       struct error *err)
{
    int r = 0;

    if (!tools || json_is_null(tools))
        return 0;
    if (!json_is_array(tools) || json_array_size(tools) > AGENTS_TOOLS_MAX)
        return agents_invalid(fault, "definition.tools", err,
                              "tools must be a list of at most %u tools",
                              AGENTS_TOOLS_MAX);
    for (size_t i = 0; r == 0 && i < json_array_size(tools); i++)
        r = check_tool(json_array_get(tools, i), i, fault, err);
    return r;
}

/* ---- inputs and templates -----------------------------------------------
 */

static bool input_name_valid(const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < len; i++)
        if (!alphanumeric(name[i]) && name[i] != '_' && name[i] != '-')
            return false;
    return len >= 1 && len <= 60;
}

static int check_input(const char *name, const json_t *v,
                       struct agents_fault *fault, struct error *err)
{
    const json_t *schema = json_object_get(v, "schema");
    const json_t *required = json_object_get(v, "required");
    const json_t *usual = json_object_get(v, "default_value");
    char param[96];
    int r = 0;

    (void)snprintf(param, sizeof(param), "definition.structured_inputs.%.60s",
                   name);
    if (!input_name_valid(name) || !json_is_object(v))
        return agents_invalid(fault, param, err,
                              "a structured input must be an object under a "
                              "name of 1 to 60 letters, digits, '_' and '-'");
    if (required && !json_is_null(required) && !json_is_boolean(required))
        return agents_invalid(fault, param, err,
                              "required must be true or false");
    if (schema && !json_is_null(schema))
        r = schema_check(schema, "schema", err);
    if (r == 0 && json_is_object(schema) && usual && !json_is_null(usual))
        r = schema_validate(schema, usual, "default_value", NULL, err);
    if (r < 0 && fault)
        memcpy(fault->param, param, sizeof(param));
    return r;
}

/* Templates are expanded once without values, which finds malformed ones. */
static int check_inputs(const json_t *definition, struct agents_fault *fault,
                        struct error *err)
{
    const json_t *inputs = json_object_get(definition, "structured_inputs");
    const char *text =
        json_string_value(json_object_get(definition, "instructions"));
    const json_t *tools = json_object_get(definition, "tools");
    json_t *none cleanup(json_unref) = json_object();
    json_t *copy cleanup(json_unref) = NULL;
    struct buf out cleanup(buf_done) = {0};
    const char *name;
    json_t *v;
    int r = 0;

    if (!inputs || json_is_null(inputs))
        return 0;
    if (!json_is_object(inputs) ||
        json_object_size(inputs) > AGENTS_INPUTS_MAX)
        return agents_invalid(fault, "definition.structured_inputs", err,
                              "structured_inputs must be an object of at "
                              "most %u inputs",
                              AGENTS_INPUTS_MAX);
    json_object_foreach ((json_t *)(uintptr_t)inputs, name, v) {
        r = check_input(name, v, fault, err);
        if (r < 0)
            return r;
    }
    if (json_object_size(inputs) == 0)
        return 0;
    if (text)
        r = agents_expand(text, none, &out, err);
    if (r < 0 && fault)
        (void)snprintf(fault->param, sizeof(fault->param),
                       "definition.instructions");
    if (r == 0 && json_is_array(tools)) {
        r = agents_expand_tools(tools, none, &copy, err);
        if (r < 0 && fault)
            (void)snprintf(fault->param, sizeof(fault->param),
                           "definition.tools");
    }
    return r;
}

/* ---- the whole ----------------------------------------------------------
 */

enum member_kind {
    MEMBER_TEXT,
    MEMBER_NUMBER,
    MEMBER_OBJECT,
    MEMBER_CHOICE, /* a string or an object */
    MEMBER_REFUSED
};

static const struct member {
    const char *name;
    enum member_kind kind;
    double min, max;
} members[] = {
    {"instructions", MEMBER_TEXT, 0, 0}, {"temperature", MEMBER_NUMBER, 0, 2},
    {"top_p", MEMBER_NUMBER, 0, 1},      {"reasoning", MEMBER_OBJECT, 0, 0},
    {"text", MEMBER_OBJECT, 0, 0},       {"tool_choice", MEMBER_CHOICE, 0, 0},
    {"rai_config", MEMBER_OBJECT, 0, 0}, {"limits", MEMBER_OBJECT, 0, 0},
    {"skills", MEMBER_REFUSED, 0, 0},    {"harness", MEMBER_REFUSED, 0, 0},
};

static int check_member(const struct member *m, const json_t *v,
                        struct agents_fault *fault, struct error *err)
{
    char param[64];
    double number = json_number_value(v);

    (void)snprintf(param, sizeof(param), "definition.%s", m->name);
    switch (m->kind) {
    case MEMBER_TEXT:
        return json_is_string(v)
                   ? 0
                   : agents_invalid(fault, param, err, "%s must be a string",
                                    m->name);
    case MEMBER_NUMBER:
        return json_is_number(v) && number >= m->min && number <= m->max
                   ? 0
                   : agents_invalid(fault, param, err,
                                    "%s must be a number from %g to %g",
                                    m->name, m->min, m->max);
    case MEMBER_OBJECT:
        return json_is_object(v)
                   ? 0
                   : agents_invalid(fault, param, err, "%s must be an object",
                                    m->name);
    case MEMBER_CHOICE:
        return json_is_string(v) || json_is_object(v)
                   ? 0
                   : agents_invalid(fault, param, err,
                                    "%s must be a string or an object",
                                    m->name);
    case MEMBER_REFUSED:
        return agents_invalid(fault, param, err, "%s is not supported here",
                              m->name);
    }
    return 0;
}

static const struct limit {
    const char *name;
    int64_t min, max;
    size_t offset;
} limits[] = {
    {"max_tool_calls", 0, TOOL_CALLS_MAX,
     offsetof(struct agent_version, max_tool_calls)},
    {"max_seconds", 1, SECONDS_MAX,
     offsetof(struct agent_version, max_seconds)},
    {"max_output_tokens", TOKENS_MIN, TOKENS_MAX,
     offsetof(struct agent_version, max_output_tokens)},
};

static int check_limits(const json_t *object, struct agents_fault *fault,
                        struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        const json_t *v = json_object_get(object, limits[i].name);
        int64_t number = 0;
        char param[64];

        if (!v || json_is_null(v))
            continue;
        (void)snprintf(param, sizeof(param), "definition.limits.%s",
                       limits[i].name);
        if (!json_whole_number(v, &number) || number < limits[i].min ||
            number > limits[i].max)
            return agents_invalid(fault, param, err,
                                  "%s must be a whole number from %lld to "
                                  "%lld",
                                  limits[i].name, (long long)limits[i].min,
                                  (long long)limits[i].max);
    }
    return 0;
}

static int check_kind(const json_t *definition, struct agents_fault *fault,
                      struct error *err)
{
    const char *kind = json_string_value(json_object_get(definition, "kind"));
    size_t model = json_string_length(json_object_get(definition, "model"));

    if (!kind || strcmp(kind, "prompt") != 0)
        return agents_invalid(fault, "definition.kind", err,
                              "the kind of an agent must be 'prompt'");
    if (model < 1 || model > MODEL_MAX)
        return agents_invalid(fault, "definition.model", err,
                              "model must be the name of a model, of 1 to %d "
                              "bytes",
                              MODEL_MAX);
    return 0;
}

int agents_check_definition(const json_t *definition,
                            struct agents_fault *fault, struct error *err)
{
    int r;

    if (!json_is_object(definition))
        return agents_invalid(fault, "definition", err,
                              "definition must be an object");
    r = check_kind(definition, fault, err);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(members); i++) {
        const json_t *v = json_object_get(definition, members[i].name);

        if (v && !json_is_null(v))
            r = check_member(&members[i], v, fault, err);
    }
    if (r == 0)
        r = check_limits(json_object_get(definition, "limits"), fault, err);
    if (r == 0)
        r = check_tools(json_object_get(definition, "tools"), fault, err);
    if (r == 0)
        r = check_inputs(definition, fault, err);
    return r;
}

/* NULL for null, too. */
static const json_t *member(const json_t *definition, const char *name)
{
    const json_t *v = json_object_get(definition, name);

    return json_is_null(v) ? NULL : v;
}

void agents_read_definition(struct agent_version *v)
{
    const json_t *d = v->definition;

    v->model = json_string_value(member(d, "model"));
    v->instructions = json_string_value(member(d, "instructions"));
    v->tools = member(d, "tools");
    v->tool_choice = member(d, "tool_choice");
    v->temperature = member(d, "temperature");
    v->top_p = member(d, "top_p");
    v->reasoning = member(d, "reasoning");
    v->text = member(d, "text");
    v->structured_inputs = member(d, "structured_inputs");
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        int64_t number = -1;

        (void)json_whole_number(
            json_object_get(json_object_get(d, "limits"), limits[i].name),
            &number); /* absent: stays -1 */
        memcpy((char *)v + limits[i].offset, &number, sizeof(number));
    }
}
