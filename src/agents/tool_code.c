/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A saved tool and its arguments as code to execute. Arguments are written as
 * literals that no interpreter reads as code: of Python, and in single quotes
 * for the shell. Pure.
 */
#include <stdint.h>
#include <string.h>

#include "agents/schema.h"
#include "agents/tools.h"
#include "base/error.h"
#include "base/mem.h"
#include "json/json.h"

void saved_tool_call_done(struct saved_tool_call *c)
{
    buf_done(&c->code);
    free(take_ptr(c->metadata));
}

/* Every parameter has a value: what was given, the default, or null. ret:
 * owned by caller */
static json_t *complete(const json_t *schema, const json_t *arguments)
{
    const json_t *properties = json_object_get(schema, "properties");
    json_t *values = json_deep_copy(arguments);
    const char *name;
    json_t *each;

    schema_defaults(schema, values);
    json_object_foreach ((json_t *)(uintptr_t)properties, name, each) {
        if (!json_object_get(values, name))
            (void)json_object_set_new(values, name, json_null());
    }
    return values;
}

/* JSON as a literal of Python. The escapes of a JSON string mean the same
 * there, because jansson writes other characters than quotes, backslashes and
 * control characters as they are. */
static void write_literal(const json_t *v, struct buf *out)
{
    char *text cleanup(mem_free) = NULL;
    const char *key;
    size_t i, count = 0;
    json_t *each;

    if (json_is_array(v)) {
        buf_adds(out, "[");
        json_array_foreach (v, i, each) {
            buf_adds(out, i ? ", " : "");
            write_literal(each, out);
        }
        buf_adds(out, "]");
        return;
    }
    if (json_is_object(v)) {
        buf_adds(out, "{");
        json_object_foreach ((json_t *)(uintptr_t)v, key, each) {
            json_t *name cleanup(json_unref) = json_string(key);

            buf_adds(out, count++ ? ", " : "");
            write_literal(name, out);
            buf_adds(out, ": ");
            write_literal(each, out);
        }
        buf_adds(out, "}");
        return;
    }
    if (json_is_null(v) || json_is_boolean(v)) {
        buf_adds(out, json_is_null(v)   ? "None"
                      : json_is_true(v) ? "True"
                                        : "False");
        return;
    }
    text = json_dumps(v, JSON_ENCODE_ANY);
    buf_adds(out, text ? text : "None");
}

/* On one line, so that lines of the code move by one only. */
static void write_python(const json_t *values, struct buf *out)
{
    const char *name;
    size_t count = 0;
    json_t *v;

    json_object_foreach ((json_t *)(uintptr_t)values, name, v) {
        buf_addf(out, "%s%s = ", count++ ? "; " : "", name);
        write_literal(v, out);
    }
    buf_adds(out, "\n");
}

static void quote(struct buf *out, const char *text)
{
    buf_adds(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            buf_adds(out, "'\\''");
        else
            buf_add(out, text, 1);
    }
    buf_adds(out, "'");
}

static void write_shell(const json_t *values, struct buf *out)
{
    const char *name;
    json_t *v;

    json_object_foreach ((json_t *)(uintptr_t)values, name, v) {
        char *text cleanup(mem_free) =
            json_is_string(v) || json_is_null(v)
                ? NULL
                : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);

        buf_addf(out, "%s=", name);
        quote(out, json_is_string(v) ? json_string_value(v)
                   : text            ? text
                                     : "");
        buf_adds(out, "\n");
    }
}

int saved_tool_call(const struct saved_tool *tool, const json_t *arguments,
                    struct saved_tool_call *ret, struct error *err)
{
    json_t *none cleanup(json_unref) = json_object();
    json_t *values cleanup(json_unref) = NULL;
    struct saved_tool_call c cleanup(saved_tool_call_done) = {
        .language = tool->language, .timeout_s = tool->timeout_s};
    char *text cleanup(mem_free) = NULL;
    int r;

    if (!arguments || json_is_null(arguments))
        arguments = none;
    text = json_dumps(arguments, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text || strlen(text) > SAVED_TOOL_ARGUMENTS_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "the arguments have more than %u bytes",
                         SAVED_TOOL_ARGUMENTS_MAX);
    r = schema_validate(tool->parameters, arguments, "arguments", NULL, err);
    if (r < 0)
        return error_hint(err,
                          "The parameters of the tool '%s' are "
                          "described by its JSON Schema.",
                          tool->name);
    values = complete(tool->parameters, arguments);
    if (json_object_size(values) > 0) {
        if (tool->language == EXEC_PYTHON)
            write_python(values, &c.code);
        else
            write_shell(values, &c.code);
    }
    buf_adds(&c.code, tool->code);
    c.metadata = xasprintf("{\"tool\":\"%s\",\"tool_version\":%lld}",
                           tool->name, (long long)tool->number);
    *ret = c;
    c = (struct saved_tool_call){.timeout_s = 0};
    return 0;
}
