/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Schema, the part of it that tools need. Runs in gloveboxd on the
 * caller's thread. Recursion is bounded: a schema by SCHEMA_DEPTH_MAX when it
 * is stored, and a value is only followed where the schema goes on.
 */
#include "agents/schema.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "json/json.h"

/* ---- the schema itself --------------------------------------------------
 */

static const char *const type_names[] = {
    "null", "boolean", "object", "array", "number", "string", "integer"};

struct path {
    char text[SCHEMA_PATH_MAX];
};

static struct path path_name(const struct path *at, const char *name)
{
    struct path p;

    (void)snprintf(p.text, sizeof(p.text), "%.*s.%.60s", 64, at->text,
                   name); /* may cut */
    return p;
}

static struct path path_index(const struct path *at, size_t i)
{
    struct path p;

    (void)snprintf(p.text, sizeof(p.text), "%.*s[%zu]", 100, at->text,
                   i); /* may cut */
    return p;
}

struct checking {
    size_t nodes;
    struct error *err;
};

static int check_node(struct checking *c, const json_t *schema,
                      const struct path *at, unsigned depth);

static int check_type(struct checking *c, const json_t *v,
                      const struct path *at, unsigned depth)
{
    size_t count = json_is_array(v) ? json_array_size(v) : 1;
    bool known = count > 0;

    (void)depth;
    for (size_t i = 0; known && i < count; i++) {
        const char *name =
            json_string_value(json_is_array(v) ? json_array_get(v, i) : v);
        size_t t = 0;

        while (name && t < ARRAY_SIZE(type_names) &&
               strcmp(name, type_names[t]) != 0)
            t++;
        known = name && t < ARRAY_SIZE(type_names);
    }
    return known ? 0
                 : error_set(c->err, ERR_INVALID,
                             "%s must be string, number, integer, boolean, "
                             "object, array or null, or a list of these",
                             at->text);
}

static int check_named(struct checking *c, const json_t *v,
                       const struct path *at, unsigned depth)
{
    const char *name;
    json_t *each;

    if (!json_is_object(v))
        return error_set(c->err, ERR_INVALID, "%s must be an object",
                         at->text);
    json_object_foreach ((json_t *)(uintptr_t)v, name, each) {
        struct path p = path_name(at, name);
        int r = check_node(c, each, &p, depth);

        if (r < 0)
            return r;
    }
    return 0;
}

static int check_schemas(struct checking *c, const json_t *v,
                         const struct path *at, unsigned depth)
{
    if (!json_is_array(v) || json_array_size(v) == 0)
        return error_set(c->err, ERR_INVALID,
                         "%s must be a list of schemas, not empty", at->text);
    for (size_t i = 0; i < json_array_size(v); i++) {
        struct path p = path_index(at, i);
        int r = check_node(c, json_array_get(v, i), &p, depth);

        if (r < 0)
            return r;
    }
    return 0;
}

static bool strings_only(const json_t *v)
{
    if (!json_is_array(v))
        return false;
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!json_is_string(json_array_get(v, i)))
            return false;
    return true;
}

/* Annotations. */
static int check_any(struct checking *c, const json_t *v,
                     const struct path *at, unsigned depth)
{
    (void)c;
    (void)v;
    (void)at;
    (void)depth;
    return 0;
}

static int check_strings(struct checking *c, const json_t *v,
                         const struct path *at, unsigned depth)
{
    (void)depth;
    return strings_only(v)
               ? 0
               : error_set(c->err, ERR_INVALID, "%s must be a list of strings",
                           at->text);
}

static int check_values(struct checking *c, const json_t *v,
                        const struct path *at, unsigned depth)
{
    (void)depth;
    return json_is_array(v) && json_array_size(v) > 0
               ? 0
               : error_set(c->err, ERR_INVALID, "%s must be a list, not empty",
                           at->text);
}

static int check_count(struct checking *c, const json_t *v,
                       const struct path *at, unsigned depth)
{
    int64_t number = 0;

    (void)depth;
    return json_whole_number(v, &number) && number >= 0
               ? 0
               : error_set(c->err, ERR_INVALID,
                           "%s must be a whole number from 0", at->text);
}

static int check_number(struct checking *c, const json_t *v,
                        const struct path *at, unsigned depth)
{
    (void)depth;
    return json_is_number(v) ? 0
                             : error_set(c->err, ERR_INVALID,
                                         "%s must be a number", at->text);
}

static int check_bool(struct checking *c, const json_t *v,
                      const struct path *at, unsigned depth)
{
    (void)depth;
    return json_is_boolean(v)
               ? 0
               : error_set(c->err, ERR_INVALID, "%s must be true or false",
                           at->text);
}

static int check_others(struct checking *c, const json_t *v,
                        const struct path *at, unsigned depth)
{
    return json_is_boolean(v) ? 0 : check_node(c, v, at, depth);
}

static const struct keyword {
    const char *name;
    int (*check)(struct checking *c, const json_t *v, const struct path *at,
                 unsigned depth);
} keywords[] = {
    {"type", check_type},
    {"properties", check_named},
    {"required", check_strings},
    {"additionalProperties", check_others},
    {"minProperties", check_count},
    {"maxProperties", check_count},
    {"items", check_node},
    {"minItems", check_count},
    {"maxItems", check_count},
    {"uniqueItems", check_bool},
    {"enum", check_values},
    {"const", check_any},
    {"anyOf", check_schemas},
    {"minimum", check_number},
    {"maximum", check_number},
    {"exclusiveMinimum", check_number},
    {"exclusiveMaximum", check_number},
    {"multipleOf", check_number},
    {"minLength", check_count},
    {"maxLength", check_count},
    {"title", check_any},
    {"description", check_any},
    {"default", check_any},
    {"examples", check_any},
    {"format", check_any},
    {"deprecated", check_any},
    {"readOnly", check_any},
    {"writeOnly", check_any},
    {"$schema", check_any},
    {"$comment", check_any},
};

static int check_keyword(struct checking *c, const char *name, const json_t *v,
                         const struct path *at, unsigned depth)
{
    struct path p = path_name(at, name);

    for (size_t i = 0; i < ARRAY_SIZE(keywords); i++)
        if (strcmp(keywords[i].name, name) == 0)
            return keywords[i].check(c, v, &p, depth);
    (void)error_set(c->err, ERR_INVALID, "%s: this keyword is not supported",
                    p.text);
    return error_hint(c->err,
                      "Supported: type, properties, required, "
                      "additionalProperties, items, enum, const, anyOf, and "
                      "bounds of numbers, lengths and counts.");
}

static int check_node(struct checking *c, const json_t *schema,
                      const struct path *at, unsigned depth)
{
    const char *name;
    json_t *v;

    if (!json_is_object(schema))
        return error_set(c->err, ERR_INVALID, "%s must be a schema object",
                         at->text);
    if (depth >= SCHEMA_DEPTH_MAX)
        return error_set(c->err, ERR_INVALID,
                         "%s is nested too deeply: %u levels are allowed",
                         at->text, SCHEMA_DEPTH_MAX);
    if (++c->nodes > SCHEMA_NODES_MAX)
        return error_set(c->err, ERR_INVALID,
                         "the schema is too large: %u subschemas are allowed",
                         SCHEMA_NODES_MAX);
    json_object_foreach ((json_t *)(uintptr_t)schema, name, v) {
        int r = check_keyword(c, name, v, at, depth + 1);

        if (r < 0)
            return r;
    }
    return 0;
}

int schema_check(const json_t *schema, const char *root, struct error *err)
{
    struct checking c = {.err = err};
    struct path at;

    (void)snprintf(at.text, sizeof(at.text), "%s", root);
    return check_node(&c, schema, &at, 0);
}

/* ---- a value ------------------------------------------------------------
 */

struct validating {
    struct path at; /* of the fault */
    struct error *err;
};

static int validate(struct validating *v, const json_t *schema,
                    const json_t *value, const struct path *at);

__attribute__((format(printf, 3, 4))) static int fault(struct validating *v,
                                                       const struct path *at,
                                                       const char *fmt, ...)
{
    char text[200];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* may cut */
    va_end(ap);
    v->at = *at;
    return error_set(v->err, ERR_INVALID, "%s %s", at->text, text);
}

static bool is_type(const json_t *value, const char *type)
{
    int64_t whole;

    if (strcmp(type, "string") == 0)
        return json_is_string(value);
    if (strcmp(type, "number") == 0)
        return json_is_number(value);
    if (strcmp(type, "integer") == 0)
        return json_whole_number(value, &whole) ||
               (json_is_real(value) &&
                floor(json_real_value(value)) == json_real_value(value));
    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(value);
    if (strcmp(type, "object") == 0)
        return json_is_object(value);
    if (strcmp(type, "array") == 0)
        return json_is_array(value);
    return json_is_null(value);
}

static int validate_type(struct validating *v, const json_t *type,
                         const json_t *value, const struct path *at)
{
    char names[96] = "";

    if (!type)
        return 0;
    if (json_is_string(type))
        return is_type(value, json_string_value(type))
                   ? 0
                   : fault(v, at, "must be of type %s",
                           json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *name = json_string_value(json_array_get(type, i));
        size_t used = strlen(names);

        if (is_type(value, name))
            return 0;
        (void)snprintf(names + used, sizeof(names) - used, "%s%s",
                       i ? " or " : "", name); /* may cut */
    }
    return fault(v, at, "must be of type %s", names);
}

/* jansson tells 1 and 1.0 apart; JSON Schema does not. */
static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b) == 1;
}

static int validate_choice(struct validating *v, const json_t *schema,
                           const json_t *value, const struct path *at)
{
    const json_t *list = json_object_get(schema, "enum");
    const json_t *constant = json_object_get(schema, "const");
    char *text cleanup(mem_free) = NULL;
    size_t i = 0;

    if (constant && !same(constant, value)) {
        text = json_dumps(constant, JSON_COMPACT | JSON_ENCODE_ANY);
        return fault(v, at, "must be %.120s", text ? text : "the constant");
    }
    while (i < json_array_size(list) && !same(json_array_get(list, i), value))
        i++;
    if (!list || i < json_array_size(list))
        return 0;
    text = json_dumps(list, JSON_COMPACT | JSON_ENCODE_ANY);
    return fault(v, at, "must be one of %.150s", text ? text : "the list");
}

static int validate_number(struct validating *v, const json_t *schema,
                           double value, const struct path *at)
{
    const json_t *min = json_object_get(schema, "minimum");
    const json_t *max = json_object_get(schema, "maximum");
    const json_t *above = json_object_get(schema, "exclusiveMinimum");
    const json_t *below = json_object_get(schema, "exclusiveMaximum");
    double step = json_number_value(json_object_get(schema, "multipleOf"));

    if (min && value < json_number_value(min))
        return fault(v, at, "must be at least %g", json_number_value(min));
    if (max && value > json_number_value(max))
        return fault(v, at, "must be at most %g", json_number_value(max));
    if (above && value <= json_number_value(above))
        return fault(v, at, "must be greater than %g",
                     json_number_value(above));
    if (below && value >= json_number_value(below))
        return fault(v, at, "must be less than %g", json_number_value(below));
    if (step > 0 &&
        fabs(value / step - round(value / step)) > 1e-9 * fabs(value / step))
        return fault(v, at, "must be a multiple of %g", step);
    return 0;
}

/* One of the pairs minLength and maxLength, minItems and maxItems, … */
static int validate_count(struct validating *v, const json_t *schema,
                          const char *least, const char *most, size_t count,
                          const char *unit, const struct path *at)
{
    const json_t *min = json_object_get(schema, least);
    const json_t *max = json_object_get(schema, most);

    if (min && (double)count < json_number_value(min))
        return fault(v, at, "must have at least %.0f %s",
                     json_number_value(min), unit);
    if (max && (double)count > json_number_value(max))
        return fault(v, at, "must have at most %.0f %s",
                     json_number_value(max), unit);
    return 0;
}

static size_t characters(const json_t *string)
{
    const char *text = json_string_value(string);
    size_t count = 0;

    for (size_t i = 0; i < json_string_length(string); i++)
        if (((unsigned char)text[i] & 0xc0u) != 0x80u)
            count++;
    return count;
}

#define UNIQUE_MAX 1000u /* elements; comparing is quadratic */

static int validate_array(struct validating *v, const json_t *schema,
                          const json_t *value, const struct path *at)
{
    const json_t *items = json_object_get(schema, "items");
    size_t count = json_array_size(value);
    int r = validate_count(v, schema, "minItems", "maxItems", count,
                           "elements", at);

    for (size_t i = 0; r == 0 && items && i < count; i++) {
        struct path p = path_index(at, i);

        r = validate(v, items, json_array_get(value, i), &p);
    }
    if (r < 0 || !json_is_true(json_object_get(schema, "uniqueItems")))
        return r;
    if (count > UNIQUE_MAX)
        return fault(v, at,
                     "must have at most %u elements, as they must be "
                     "unique",
                     UNIQUE_MAX);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (same(json_array_get(value, i), json_array_get(value, j)))
                return fault(v, at, "has the same element at %zu and at %zu",
                             j, i);
    return 0;
}

static int validate_member(struct validating *v, const json_t *schema,
                           const char *name, const json_t *value,
                           const struct path *at)
{
    const json_t *known = json_object_get(schema, "properties");
    const json_t *property = json_object_get(known, name);
    const json_t *others = json_object_get(schema, "additionalProperties");
    struct path p = path_name(at, name);
    const char *names[SCHEMA_NODES_MAX], *near, *key;
    size_t count = 0;
    json_t *each;

    if (property)
        return validate(v, property, value, &p);
    if (json_is_object(others))
        return validate(v, others, value, &p);
    if (!json_is_false(others))
        return 0;
    json_object_foreach ((json_t *)(uintptr_t)known, key, each)
        if (count < SCHEMA_NODES_MAX)
            names[count++] = key;
    near = json_nearest(name, names, count);
    if (near)
        return fault(v, &p, "is not known; did you mean '%s'?", near);
    return fault(v, &p, "is not known");
}

static int validate_object(struct validating *v, const json_t *schema,
                           const json_t *value, const struct path *at)
{
    const json_t *required = json_object_get(schema, "required");
    const char *name;
    json_t *each;
    int r = validate_count(v, schema, "minProperties", "maxProperties",
                           json_object_size(value), "members", at);

    for (size_t i = 0; r == 0 && i < json_array_size(required); i++) {
        const char *need = json_string_value(json_array_get(required, i));

        if (!json_object_get(value, need)) {
            struct path p = path_name(at, need);

            r = fault(v, &p, "is required");
        }
    }
    if (r < 0)
        return r;
    json_object_foreach ((json_t *)(uintptr_t)value, name, each) {
        r = validate_member(v, schema, name, each, at);
        if (r < 0)
            return r;
    }
    return 0;
}

static int validate_any(struct validating *v, const json_t *list,
                        const json_t *value, const struct path *at)
{
    struct validating first = {.err = v->err};

    for (size_t i = 0; i < json_array_size(list); i++) {
        struct error ignored = {.code = ERR_NONE};
        struct validating each = {.err = &ignored};

        if (validate(&each, json_array_get(list, i), value, at) == 0)
            return 0;
        if (i == 0) {
            first.at = each.at;
            *v->err = ignored;
        }
    }
    if (!list)
        return 0;
    if (json_array_size(list) == 1) {
        v->at = first.at;
        return -(int)v->err->code;
    }
    return fault(v, at, "fits none of the %zu alternatives of its schema",
                 json_array_size(list));
}

static int validate(struct validating *v, const json_t *schema,
                    const json_t *value, const struct path *at)
{
    int r = validate_type(v, json_object_get(schema, "type"), value, at);

    if (r == 0)
        r = validate_choice(v, schema, value, at);
    if (r == 0 && json_is_number(value))
        r = validate_number(v, schema, json_number_value(value), at);
    if (r == 0 && json_is_string(value))
        r = validate_count(v, schema, "minLength", "maxLength",
                           characters(value), "characters", at);
    if (r == 0 && json_is_array(value))
        r = validate_array(v, schema, value, at);
    if (r == 0 && json_is_object(value))
        r = validate_object(v, schema, value, at);
    if (r == 0)
        r = validate_any(v, json_object_get(schema, "anyOf"), value, at);
    return r;
}

int schema_validate(const json_t *schema, const json_t *value,
                    const char *root, char ret_path[SCHEMA_PATH_MAX],
                    struct error *err)
{
    struct validating v = {.err = err};
    struct path at;
    int r;

    (void)snprintf(at.text, sizeof(at.text), "%s", root);
    r = validate(&v, schema, value, &at);
    if (r < 0 && ret_path)
        memcpy(ret_path, v.at.text, sizeof(v.at.text));
    return r;
}

void schema_defaults(const json_t *schema, json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    const char *name;
    json_t *each;

    if (!json_is_object(value))
        return;
    json_object_foreach ((json_t *)(uintptr_t)properties, name, each) {
        json_t *have = json_object_get(value, name);
        json_t *usual = json_object_get(each, "default");

        if (have)
            schema_defaults(each, have);
        else if (usual)
            (void)json_object_set_new(value, name, json_deep_copy(usual));
    }
}
