/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object by a table of its fields, as json_read, with what is wrong named
 * the way this dialect's clients expect: a code and the field's path. Runs in
 * the daemon on request bodies; pure.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "json/json.h"

#define NAME_MAX_SHOWN 64

/* One value under its table's row, on its way to where it goes. */
struct value {
    const struct json_field *field;
    const json_t *json;
    char name[96]; /* with what it is in: "expires_after.minutes" */
    struct openai_fault *fault;
    struct error *err;
};

static void name_value(struct value *v, const char *within, const char *name)
{
    (void)snprintf(v->name, sizeof(v->name), "%s%s%.*s", within ? within : "",
                   within ? "." : "", NAME_MAX_SHOWN, name); /* may cut */
}

static const char *kind_of(const json_t *json)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",  [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a decimal",   [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",  [JSON_NULL] = "null",
    };

    return names[json_typeof(json)];
}

static int refuse_type(struct value *v, const char *wanted)
{
    return openai_invalid(
        v->fault, "invalid_type", v->name, v->err,
        "Invalid type for '%s': expected %s, but got %s instead.", v->name,
        wanted, kind_of(v->json));
}

/* ---- one value ---------------------------------------------------------- */

static int read_string(struct value *v, const char **ret)
{
    const struct json_field *f = v->field;
    int64_t len = (int64_t)json_string_length(v->json);

    if (!json_is_string(v->json))
        return refuse_type(v, "a string");
    if (len < f->min || len > f->max)
        return openai_invalid(v->fault, "invalid_value", v->name, v->err,
                              "Invalid value for '%s': expected a string of "
                              "%lld to %lld bytes, but got one of %lld.",
                              v->name, (long long)f->min, (long long)f->max,
                              (long long)len);
    *ret = json_string_value(v->json);
    return 0;
}

static int read_int(struct value *v, int64_t *ret)
{
    const struct json_field *f = v->field;
    int64_t n = json_integer_value(v->json);

    if (!json_is_integer(v->json))
        return refuse_type(v, "an integer");
    if (n < f->min || n > f->max)
        return openai_invalid(v->fault, "invalid_value", v->name, v->err,
                              "Invalid value for '%s': expected an integer "
                              "from %lld to %lld, but got %lld.",
                              v->name, (long long)f->min, (long long)f->max,
                              (long long)n);
    *ret = n;
    return 0;
}

static int read_choice(struct value *v, int *ret)
{
    const char *const *choices = v->field->choices;
    const char *text = json_string_value(v->json);

    if (!text)
        return refuse_type(v, "a string");
    for (int i = 0; choices[i]; i++)
        if (strcmp(text, choices[i]) == 0) {
            *ret = i;
            return 0;
        }
    (void)openai_invalid(
        v->fault, "invalid_value", v->name, v->err,
        "Invalid value: '%.*s'. Supported values are:", NAME_MAX_SHOWN, text);
    for (int i = 0; choices[i]; i++) {
        size_t used = strlen(v->err->message);

        (void)snprintf(v->err->message + used, sizeof(v->err->message) - used,
                       "%s '%s'%s", i ? "," : "", choices[i],
                       choices[i + 1] ? "" : ".");
    }
    return -ERR_INVALID;
}

static int read_array(struct value *v, const json_t **ret)
{
    if (!json_is_array(v->json))
        return refuse_type(v, "an array");
    if ((int64_t)json_array_size(v->json) > v->field->max)
        return openai_invalid(v->fault, "invalid_value", v->name, v->err,
                              "Invalid value for '%s': expected an array of "
                              "at most %lld elements, but got %zu.",
                              v->name, (long long)v->field->max,
                              json_array_size(v->json));
    *ret = v->json;
    return 0;
}

static int read_value(struct value *v, void *ret)
{
    void *member = (char *)ret + v->field->offset;

    switch (v->field->kind) {
    case JSON_KIND_STRING:
        return read_string(v, member);
    case JSON_KIND_INT:
        return read_int(v, member);
    case JSON_KIND_CHOICE:
        return read_choice(v, member);
    case JSON_KIND_ARRAY:
        return read_array(v, member);
    case JSON_KIND_BOOL:
        if (!json_is_boolean(v->json))
            return refuse_type(v, "a boolean");
        *(bool *)member = json_is_true(v->json);
        return 0;
    case JSON_KIND_OBJECT:
        if (!json_is_object(v->json))
            return refuse_type(v, "an object");
        *(const json_t **)member = v->json;
        return 0;
    }
    return refuse_type(v, "something else");
}

/* ---- all of them -------------------------------------------------------- */

static const struct json_field *find(const struct json_field *fields,
                                     size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

int openai_read(const json_t *object, const char *within,
                const struct json_field *fields, size_t count, void *ret,
                struct openai_fault *fault, struct error *err)
{
    struct value v = {.fault = fault, .err = err};
    const char *name;
    json_t *json;

    json_object_foreach ((json_t *)object, name, json) {
        int r = 0;

        name_value(&v, within, name);
        v.field = find(fields, count, name);
        v.json = json;
        if (!v.field)
            return openai_invalid(fault, "unknown_parameter", v.name, err,
                                  "Unknown parameter: '%s'.", v.name);
        if (!json_is_null(json))
            r = read_value(&v, ret);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < count; i++) {
        json = json_object_get(object, fields[i].name);
        if (!fields[i].required || (json && !json_is_null(json)))
            continue;
        name_value(&v, within, fields[i].name);
        return openai_invalid(fault, "missing_required_parameter", v.name, err,
                              "Missing required parameter: '%s'.", v.name);
    }
    return 0;
}

int openai_read_strings(const json_t *array, const char *name, size_t max,
                        struct openai_fault *fault, struct error *err)
{
    static const struct json_field element = {
        .kind = JSON_KIND_STRING, .min = 1, .max = ID_MAX - 1};
    struct value v = {.field = &element, .fault = fault, .err = err};
    const char *ignored;

    for (size_t i = 0; i < json_array_size(array) && i < max; i++) {
        int r;

        v.json = json_array_get(array, i);
        (void)snprintf(v.name, sizeof(v.name), "%s[%zu]", name, i);
        r = read_string(&v, &ignored);
        if (r < 0)
            return r;
    }
    return 0;
}
