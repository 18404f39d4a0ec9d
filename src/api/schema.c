/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON Schema of a resource, from its table. Runs in the daemon for
 * /openapi.json and tools/list.
 *
 * Lengths of strings are published in characters, as JSON Schema counts them,
 * and enforced in bytes: a text beyond ASCII may be refused earlier.
 */
#include <stdio.h>

#include "api/api.h"
#include "json/json.h"

static const struct {
    const char *type, *format;
} types[] = {
    [API_STRING] = {"string", NULL},      [API_INT] = {"integer", "int64"},
    [API_REAL] = {"number", NULL},        [API_BOOL] = {"boolean", NULL},
    [API_TIME] = {"string", "date-time"}, [API_CHOICE] = {"string", NULL},
    [API_OBJECT] = {"object", NULL},      [API_ARRAY] = {"array", NULL},
};

static void write_type(struct json_writer *w, const char *type, bool nullable)
{
    if (!nullable) {
        json_write_string(w, "type", type);
        return;
    }
    json_write_open(w, "type", '[');
    json_write_string(w, NULL, type);
    json_write_string(w, NULL, "null");
    json_write_close(w, ']');
}

static void write_ref(struct json_writer *w, const char *name)
{
    char ref[128];

    (void)snprintf(ref, sizeof(ref), "#/components/schemas/%s", name);
    json_write_string(w, "$ref", ref);
}

/* A bound that only says what the type can hold is not worth a word. */
static void write_bounds(struct json_writer *w, enum api_kind kind,
                         int64_t min, int64_t max)
{
    static const char *const names[][2] = {
        [API_STRING] = {"minLength", "maxLength"},
        [API_INT] = {"minimum", "maximum"},
        [API_ARRAY] = {"minItems", "maxItems"},
    };

    if (kind != API_STRING && kind != API_INT && kind != API_ARRAY)
        return;
    if (min > 0 || (kind == API_INT && min > INT64_MIN))
        json_write_int(w, names[kind][0], min);
    if (max < INT64_MAX)
        json_write_int(w, names[kind][1], max);
}

static void write_resource(struct json_writer *w, const char *key,
                           const struct api_resource *r, const char *help,
                           bool nullable, enum api_style style);

static void write_nested(struct json_writer *w, const char *key,
                         const struct api_resource *of, enum api_style style)
{
    if (style == API_INLINE) {
        api_schema(w, key, of, style);
        return;
    }
    json_write_open(w, key, '{');
    write_ref(w, of->name);
    json_write_close(w, '}');
}

static void write_either(struct json_writer *w, const struct api_resource *of,
                         const char *type, enum api_style style)
{
    json_write_open(w, "anyOf", '[');
    write_nested(w, NULL, of, style);
    json_write_open(w, NULL, '{');
    json_write_string(w, "type", type);
    json_write_close(w, '}');
    json_write_close(w, ']');
}

static void write_items(struct json_writer *w, const struct api_field *f,
                        enum api_style style)
{
    if (f->of && !(f->flags & API_OR_STRINGS)) {
        write_nested(w, "items", f->of, style);
        return;
    }
    json_write_open(w, "items", '{');
    if (f->of) {
        write_either(w, f->of, "string", style);
    } else {
        json_write_string(w, "type", types[f->items].type);
        if (style == API_OPENAPI && types[f->items].format)
            json_write_string(w, "format", types[f->items].format);
        if (f->item_max)
            write_bounds(w, f->items, f->item_min, f->item_max);
    }
    json_write_close(w, '}');
}

static void write_field(struct json_writer *w, const struct api_field *f,
                        bool input, enum api_style style)
{
    bool nullable = f->flags & API_NULLABLE;
    bool object = f->kind == API_OBJECT && f->of;

    if (object && style == API_INLINE) {
        write_resource(w, f->name, f->of, f->help, nullable, style);
        return;
    }
    json_write_open(w, f->name, '{');
    if (f->help)
        json_write_string(w, "description", f->help);
    if (object && nullable)
        write_either(w, f->of, "null", style);
    else if (object)
        write_ref(w, f->of->name);
    else
        write_type(w, types[f->kind].type, nullable);
    if (style == API_OPENAPI && types[f->kind].format)
        json_write_string(w, "format", types[f->kind].format);
    if (f->kind == API_CHOICE) {
        json_write_open(w, "enum", '[');
        for (size_t i = 0; f->choices[i]; i++)
            json_write_string(w, NULL, f->choices[i]);
        if (f->flags & API_NULLABLE)
            json_write_string(w, NULL, NULL);
        json_write_close(w, ']');
    }
    if (f->kind == API_ARRAY)
        write_items(w, f, style);
    if (input)
        write_bounds(w, f->kind, f->min,
                     f->flags & API_NO_MAX ? INT64_MAX : f->max);
    if (f->flags & API_DEFAULT) {
        if (f->kind == API_INT)
            json_write_int(w, "default", f->value);
        else if (f->kind == API_BOOL)
            json_write_bool(w, "default", f->value != 0);
        else if (f->kind == API_CHOICE)
            json_write_string(w, "default", f->choices[f->value - f->min]);
    }
    json_write_close(w, '}');
}

static bool is_required(const struct api_resource *r,
                        const struct api_field *f)
{
    if (r->input)
        return f->flags & API_REQUIRED;
    return !r->partial && !(f->flags & API_OPTIONAL);
}

static size_t count_of(const struct api_resource *r)
{
    return r ? r->count : 0;
}

/* Some readers of tools' schemas refuse an empty list. */
static void write_required(struct json_writer *w, const struct api_resource *r,
                           size_t from, enum api_style style)
{
    bool open = style == API_OPENAPI;
    const struct api_field *f;

    if (open)
        json_write_open(w, "required", '[');
    for (size_t i = from; (f = api_field_at(r, i)); i++) {
        if (!is_required(i < count_of(r->base) ? r->base : r, f))
            continue;
        if (!open)
            json_write_open(w, "required", '[');
        open = true;
        json_write_string(w, NULL, f->name);
    }
    if (open)
        json_write_close(w, ']');
}

/* from: the number of the first field, which the base's are before. */
static void write_object(struct json_writer *w, const struct api_resource *r,
                         size_t from, bool nullable, enum api_style style)
{
    const struct api_field *f;

    write_type(w, "object", nullable);
    json_write_open(w, "properties", '{');
    for (size_t i = from; (f = api_field_at(r, i)); i++)
        write_field(w, f, r->input, style);
    json_write_close(w, '}');
    write_required(w, r, from, style);
    if (r->input)
        json_write_bool(w, "additionalProperties", false);
}

static void write_resource(struct json_writer *w, const char *key,
                           const struct api_resource *r, const char *help,
                           bool nullable, enum api_style style)
{
    json_write_open(w, key, '{');
    if (help ? help : r->help)
        json_write_string(w, "description", help ? help : r->help);
    if (r->base && !r->input && style == API_OPENAPI) {
        json_write_open(w, "allOf", '[');
        write_nested(w, NULL, r->base, style);
        json_write_open(w, NULL, '{');
        write_object(w, r, r->base->count, false, style);
        json_write_close(w, '}');
        json_write_close(w, ']');
    } else {
        write_object(w, r, 0, nullable, style);
    }
    json_write_close(w, '}');
}

void api_schema(struct json_writer *w, const char *key,
                const struct api_resource *r, enum api_style style)
{
    write_resource(w, key, r, NULL, false, style);
}
