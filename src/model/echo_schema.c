/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest value that a JSON Schema accepts, for structured answers and
 * for arguments of functions that the built-in model calls. It knows the
 * keywords that clients of structured output use; of others it makes nothing,
 * so that a schema with them may get a value that it refuses.
 */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "model/model_int.h"

#define DEPTH_MAX 24u
#define REPEAT_MAX 64 /* of minItems and minLength */

struct walk {
    const json_t *root;
    const char *hint; /* NULL once used */
};

static json_t *instance(struct walk *w, const json_t *schema, unsigned depth);

/* "#/$defs/name" within the root. */
static const json_t *resolve(const struct walk *w, const char *ref)
{
    const json_t *at = w->root;

    if (strcmp(ref, "#") == 0)
        return at;
    if (strncmp(ref, "#/", 2) != 0)
        return NULL;
    for (ref += 2; at && *ref;) {
        size_t len = strcspn(ref, "/");
        char *key cleanup(mem_free) = xstrndup(ref, len);

        at = json_object_get(at, key);
        ref += len + (ref[len] == '/');
    }
    return at;
}

static const char *type_of(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");

    if (json_is_array(type)) /* the first that is not null */
        for (size_t i = 0; i < json_array_size(type); i++) {
            const char *t = json_string_value(json_array_get(type, i));

            if (t && strcmp(t, "null") != 0)
                return t;
        }
    if (json_is_string(type))
        return json_string_value(type);
    if (json_object_get(schema, "properties"))
        return "object";
    return json_object_get(schema, "items") ? "array" : "string";
}

static json_int_t whole(const json_t *schema, const char *key,
                        json_int_t fallback)
{
    const json_t *v = json_object_get(schema, key);

    return json_is_number(v) ? (json_int_t)json_number_value(v) : fallback;
}

static json_t *make_string(struct walk *w, const json_t *schema)
{
    static const struct {
        const char *format, *text;
    } formats[] = {
        {"date-time", "2026-01-01T00:00:00Z"},
        {"date", "2026-01-01"},
        {"time", "00:00:00Z"},
        {"duration", "PT0S"},
        {"email", "echo@example.org"},
        {"hostname", "example.org"},
        {"ipv4", "192.0.2.1"},
        {"ipv6", "2001:db8::1"},
        {"uri", "https://example.org/"},
        {"uuid", "00000000-0000-4000-8000-000000000000"},
    };
    const char *format = json_string_value(json_object_get(schema, "format"));
    json_int_t least = MIN(whole(schema, "minLength", 0), REPEAT_MAX);
    json_int_t most = whole(schema, "maxLength", -1);
    struct buf b cleanup(buf_done) = {0};

    for (size_t i = 0; format && i < ARRAY_SIZE(formats); i++)
        if (strcmp(format, formats[i].format) == 0)
            return json_string(formats[i].text);
    buf_adds(&b, "");
    if (w->hint && !json_object_get(schema, "pattern") &&
        (most < 0 || (json_int_t)strlen(w->hint) <= most)) {
        buf_adds(&b, w->hint);
        w->hint = NULL;
    }
    while ((json_int_t)b.len < least)
        buf_adds(&b, "x");
    return json_stringn(b.data, b.len);
}

static json_t *make_number(const json_t *schema, bool integer)
{
    double value = 0, step = 1;
    const json_t *low = json_object_get(schema, "minimum");
    const json_t *above = json_object_get(schema, "exclusiveMinimum");
    const json_t *high = json_object_get(schema, "maximum");
    const json_t *multiple = json_object_get(schema, "multipleOf");

    if (json_is_number(multiple) && json_number_value(multiple) > 0)
        step = json_number_value(multiple);
    if (json_is_number(high) && json_number_value(high) < value)
        value = floor(json_number_value(high) / step) * step;
    if (json_is_number(low) && json_number_value(low) > value)
        value = ceil(json_number_value(low) / step) * step;
    if (json_is_number(above) && json_number_value(above) >= value)
        value = (floor(json_number_value(above) / step) + 1) * step;
    return integer ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *make_array(struct walk *w, const json_t *schema, unsigned depth)
{
    json_t *list = json_array();
    json_int_t least = MIN(whole(schema, "minItems", 0), REPEAT_MAX);
    const json_t *prefix = json_object_get(schema, "prefixItems");

    for (json_int_t i = 0; i < least || (size_t)i < json_array_size(prefix);
         i++) {
        const json_t *of = json_array_get(prefix, (size_t)i);

        (void)json_array_append_new(
            list,
            instance(w, of ? of : json_object_get(schema, "items"), depth));
    }
    return list;
}

/* Strict schemas require every property; others get what they require. */
static json_t *make_object(struct walk *w, const json_t *schema,
                           unsigned depth)
{
    json_t *object = json_object();
    const json_t *properties = json_object_get(schema, "properties"), *row;
    size_t i;

    json_array_foreach (json_object_get(schema, "required"), i, row) {
        const char *name = json_string_value(row);

        if (name)
            (void)json_object_set_new(
                object, name,
                instance(w, json_object_get(properties, name), depth));
    }
    return object;
}

/* The members of allOf, together with the schema itself. */
static json_t *merge_all(const json_t *schema)
{
    json_t *all = json_deep_copy(schema);
    const json_t *part;
    size_t i;

    (void)json_object_del(all, "allOf");
    json_array_foreach (json_object_get(schema, "allOf"), i, part)
        (void)json_object_update_missing(all, (json_t *)(uintptr_t)part);
    return all;
}

static json_t *instance(struct walk *w, const json_t *schema, unsigned depth)
{
    static const char *const given[] = {"const", "default"};
    static const char *const either[] = {"enum", "anyOf", "oneOf"};
    const char *type, *ref;

    if (depth > DEPTH_MAX || !json_is_object(schema))
        return json_is_false(schema) || depth > DEPTH_MAX ? json_null()
                                                          : json_string("");
    ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref)
        return instance(w, resolve(w, ref), depth + 1);
    for (size_t i = 0; i < ARRAY_SIZE(given); i++)
        if (json_object_get(schema, given[i]))
            return json_deep_copy(json_object_get(schema, given[i]));
    for (size_t i = 0; i < ARRAY_SIZE(either); i++) {
        const json_t *first =
            json_array_get(json_object_get(schema, either[i]), 0);

        if (first)
            return i == 0 ? json_deep_copy(first)
                          : instance(w, first, depth + 1);
    }
    if (json_object_get(schema, "allOf")) {
        json_t *all = merge_all(schema);
        json_t *value = instance(w, all, depth + 1);

        json_decref(all);
        return value;
    }
    type = type_of(schema);
    if (strcmp(type, "object") == 0)
        return make_object(w, schema, depth + 1);
    if (strcmp(type, "array") == 0)
        return make_array(w, schema, depth + 1);
    if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0)
        return make_number(schema, type[0] == 'i');
    if (strcmp(type, "boolean") == 0)
        return json_false();
    return strcmp(type, "null") == 0 ? json_null() : make_string(w, schema);
}

json_t *model_echo_instance(const json_t *schema, const char *hint)
{
    struct walk w = {schema, hint};

    return instance(&w, schema, 0);
}
