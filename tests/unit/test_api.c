/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource tables: every resource of every door is walked, and what its table
 * makes the service read, write and publish is compared, field by field and
 * at, below and above each bound.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "doors/mcp/mcp.h"
#include "doors/native/native.h"
#include "quota/quota.h"
#include "json/json.h"

#define RESOURCES_MAX 400

/* ---- all resources ------------------------------------------------------ */

struct set {
    const struct api_resource *list[RESOURCES_MAX];
    size_t count;
};

/* A resource with those it is made of. */
static void add(struct set *set, const struct api_resource *r)
{
    const struct api_field *f;

    for (size_t i = 0; i < set->count; i++)
        if (set->list[i] == r)
            return;
    assert_true(set->count < RESOURCES_MAX);
    set->list[set->count++] = r;
    for (size_t i = 0; (f = api_field_at(r, i)); i++)
        if (f->of)
            add(set, f->of);
}

static const struct set *all(void)
{
    static struct set set;

    if (set.count)
        return &set;
    for (size_t i = 0; native_resources[i]; i++)
        add(&set, native_resources[i]);
    for (size_t i = 0; i < mcp_tools_count; i++) {
        add(&set, mcp_tools[i].input);
        add(&set, mcp_tools[i].output);
    }
    return &set;
}

static json_t *schema_of(const struct api_resource *r, enum api_style style)
{
    struct buf text cleanup(buf_done) = {0};
    struct json_writer w = {.out = &text};
    struct error err;
    json_t *schema = NULL;

    api_schema(&w, NULL, r, style);
    if (json_parse(text.data, text.len, &schema, &err) < 0)
        fail_msg("%s: %s", r->name, err.message);
    return schema;
}

/* ---- as much of JSON Schema as ours use --------------------------------- */

static bool fits(const json_t *schema, const json_t *v);

static bool is_of_type(const char *type, const json_t *v)
{
    return (strcmp(type, "string") == 0 && json_is_string(v)) ||
           (strcmp(type, "integer") == 0 &&
            (json_is_integer(v) ||
             (json_is_real(v) && fabs(json_real_value(v)) <= 0x1p53 &&
              json_real_value(v) == floor(json_real_value(v))))) ||
           (strcmp(type, "number") == 0 && json_is_number(v)) ||
           (strcmp(type, "boolean") == 0 && json_is_boolean(v)) ||
           (strcmp(type, "object") == 0 && json_is_object(v)) ||
           (strcmp(type, "array") == 0 && json_is_array(v)) ||
           (strcmp(type, "null") == 0 && json_is_null(v));
}

static bool type_fits(const json_t *type, const json_t *v)
{
    json_t *one;
    size_t i;

    if (!type)
        return true;
    if (json_is_string(type))
        return is_of_type(json_string_value(type), v);
    json_array_foreach (type, i, one)
        if (is_of_type(json_string_value(one), v))
            return true;
    return false;
}

static bool within(const json_t *schema, const char *low, const char *high,
                   int64_t n)
{
    const json_t *min = json_object_get(schema, low);
    const json_t *max = json_object_get(schema, high);

    return (!min || n >= json_integer_value(min)) &&
           (!max || n <= json_integer_value(max));
}

static bool object_fits(const json_t *schema, const json_t *v)
{
    const json_t *properties = json_object_get(schema, "properties");
    json_t *one;
    const char *name;
    size_t i;

    json_array_foreach (json_object_get(schema, "required"), i, one)
        if (!json_object_get(v, json_string_value(one)))
            return false;
    json_object_foreach ((json_t *)v, name, one) {
        const json_t *of = json_object_get(properties, name);

        if (properties && (of ? !fits(of, one) : true))
            return false;
    }
    return true;
}

static bool any_fits(const json_t *list, const json_t *v)
{
    json_t *one;
    size_t i;

    json_array_foreach (list, i, one)
        if (fits(one, v))
            return true;
    return false;
}

static bool fits(const json_t *schema, const json_t *v)
{
    const json_t *words = json_object_get(schema, "enum");
    const json_t *items = json_object_get(schema, "items");
    bool known = !words;
    json_t *one;
    size_t i;

    if (json_object_get(schema, "$ref"))
        return json_is_object(v);
    if (json_object_get(schema, "anyOf"))
        return any_fits(json_object_get(schema, "anyOf"), v);
    json_array_foreach (words, i, one)
        known = known || json_equal(one, v);
    if (!known || !type_fits(json_object_get(schema, "type"), v))
        return false;
    if (json_is_string(v) && !within(schema, "minLength", "maxLength",
                                     (int64_t)json_string_length(v)))
        return false;
    if (json_is_number(v) &&
        !within(schema, "minimum", "maximum",
                json_is_real(v) ? (int64_t)json_real_value(v)
                                : json_integer_value(v)))
        return false;
    if (json_is_array(v) &&
        !within(schema, "minItems", "maxItems", (int64_t)json_array_size(v)))
        return false;
    json_array_foreach (v, i, one)
        if (items && !fits(items, one))
            return false;
    return !json_is_object(v) || object_fits(schema, v);
}

/* ---- values to try ------------------------------------------------------ */

static json_t *valid_object(const struct api_resource *r);

static json_t *text_of(int64_t len)
{
    char *text = malloc((size_t)len + 1);
    json_t *v;

    memset(text, 'x', (size_t)len);
    v = json_stringn(text, (size_t)len);
    free(text);
    return v;
}

static json_t *element(const struct api_field *f)
{
    if (f->of)
        return valid_object(f->of);
    if (f->items == API_STRING)
        return text_of(f->item_min ? f->item_min : 1);
    return f->items == API_INT ? json_integer(f->item_min) : json_object();
}

static json_t *array_of(const struct api_field *f, int64_t count)
{
    json_t *array = json_array();

    for (int64_t i = 0; i < count; i++)
        (void)json_array_append_new(array, element(f));
    return array;
}

static json_t *array_with(json_t *one, int64_t count,
                          const struct api_field *f)
{
    json_t *array = array_of(f, count > 1 ? count - 1 : 0);

    (void)json_array_append_new(array, one);
    return array;
}

/* A value of the field's kind, of this length, number or count. */
static json_t *sized(const struct api_field *f, int64_t n)
{
    if (f->kind == API_STRING)
        return text_of(n);
    return f->kind == API_INT ? json_integer(n) : array_of(f, n);
}

static json_t *valid(const struct api_field *f)
{
    if (f->kind == API_BOOL)
        return json_true();
    if (f->kind == API_CHOICE)
        return json_string(f->choices[0]);
    if (f->kind == API_OBJECT)
        return f->of ? valid_object(f->of) : json_object();
    return sized(f, f->min);
}

/* With the fields it must have. */
static json_t *valid_object(const struct api_resource *r)
{
    json_t *object = json_object();
    const struct api_field *f;

    for (size_t i = 0; (f = api_field_at(r, i)); i++)
        if (f->flags & API_REQUIRED)
            (void)json_object_set_new(object, f->name, valid(f));
    return object;
}

/* ---- reading as published ----------------------------------------------- */

static bool reads(const struct api_resource *r, const json_t *object,
                  const char *field)
{
    void *ret = calloc(1, r->size);
    struct error err = {0};
    int rc = api_read(object, r, ret, &err);

    free(ret);
    if (rc < 0 && field && !strstr(err.message, field))
        fail_msg("%s.%s: '%s' does not name the field", r->name, field,
                 err.message);
    return rc == 0;
}

/* v: taken. Whether it is read is what the schemas say of it. */
static bool agree(const struct api_resource *r, const struct api_field *f,
                  json_t *v)
{
    bool taken;

    json_t *object = valid_object(r);

    (void)json_object_set_new(object, f->name, v);
    taken = reads(r, object, f->name);
    for (int style = API_OPENAPI; style <= API_INLINE; style++) {
        json_t *schema = schema_of(r, (enum api_style)style);

        if (fits(schema, object) != taken) {
            char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

            fail_msg("%s.%s: %.60s is %s, which the schema does not say",
                     r->name, f->name, text, taken ? "taken" : "refused");
        }
        json_decref(schema);
    }
    json_decref(object);
    return taken;
}

static void check_bounds(const struct api_resource *r,
                         const struct api_field *f)
{
    bool bounded =
        !(f->flags & (API_NO_MAX | API_LATER)) && f->max < INT64_MAX;

    assert_true(agree(r, f, sized(f, f->min)));
    if (f->kind == API_INT ? f->min > INT64_MIN : f->min > 0)
        assert_false(agree(r, f, sized(f, f->min - 1)));
    if (!bounded)
        return;
    if (f->max < f->min)
        fail_msg("%s.%s has no upper bound", r->name, f->name);
    assert_true(agree(r, f, sized(f, f->max)));
    assert_false(agree(r, f, sized(f, f->max + 1)));
}

static void check_elements(const struct api_resource *r,
                           const struct api_field *f)
{
    int64_t n = f->min ? f->min : 1;

    assert_false(agree(r, f, array_with(json_true(), n, f)));
    if (f->of) {
        assert_int_equal(agree(r, f, array_with(text_of(1), n, f)),
                         (f->flags & API_OR_STRINGS) != 0);
    } else if (f->items == API_STRING) {
        if (f->item_min)
            assert_false(
                agree(r, f, array_with(text_of(f->item_min - 1), n, f)));
        if (!f->item_max)
            return;
        assert_true(agree(r, f, array_with(text_of(f->item_max), n, f)));
        assert_false(agree(r, f, array_with(text_of(f->item_max + 1), n, f)));
    } else if (f->items == API_INT) {
        assert_false(
            agree(r, f, array_with(json_integer(f->item_min - 1), n, f)));
        assert_true(agree(r, f, array_with(json_integer(f->item_max), n, f)));
        assert_false(
            agree(r, f, array_with(json_integer(f->item_max + 1), n, f)));
    }
}

static void check_field(const struct api_resource *r,
                        const struct api_field *f)
{
    /* No field is of two kinds, and none is a fraction; 30.0 is an integer. */
    assert_false(agree(r, f, json_real(1.5)));
    assert_int_equal(agree(r, f, json_real((double)MAX(f->min, 1))),
                     f->kind == API_INT &&
                         (f->max >= 1 || f->min > 0 || f->flags & API_NO_MAX));
    if (f->kind == API_INT)
        assert_false(agree(r, f, json_real(1e300)));
    assert_int_equal(agree(r, f, text_of(f->min > 0 ? f->min : 1)),
                     f->kind == API_STRING);
    assert_int_equal(agree(r, f, json_true()), f->kind == API_BOOL);
    assert_true(agree(r, f, valid(f)));
    if (f->kind == API_CHOICE)
        for (size_t i = 0; f->choices[i]; i++)
            assert_true(agree(r, f, json_string(f->choices[i])));
    if (f->kind == API_STRING || f->kind == API_INT || f->kind == API_ARRAY)
        check_bounds(r, f);
    if (f->kind == API_ARRAY)
        check_elements(r, f);
}

static void test_bodies_are_read_as_published(void **state)
{
    size_t fields = 0;

    (void)state;
    for (size_t k = 0; k < all()->count; k++) {
        const struct api_resource *r = all()->list[k];
        const struct api_field *f;

        for (size_t i = 0; r->input && (f = api_field_at(r, i)); i++) {
            check_field(r, f);
            fields++;
        }
    }
    assert_true(fields > 150);
}

/* The hint of an unknown field lists those that exist. */
static bool names_all_fields(const struct api_resource *r,
                             const json_t *object)
{
    void *ret = calloc(1, r->size);
    struct error err = {0};
    const struct api_field *f;
    bool all = true;

    assert_true(api_read(object, r, ret, &err) < 0);
    free(ret);
    /* A long list is cut at the size of a hint. */
    for (size_t i = 0; (f = api_field_at(r, i)) && i < 8; i++)
        all = all && strstr(err.hint, f->name);
    return all;
}

/* A required field that is missing, and an unknown one. */
static void test_required_and_unknown_fields(void **state)
{
    (void)state;
    for (size_t k = 0; k < all()->count; k++) {
        const struct api_resource *r = all()->list[k];
        json_t *schema cleanup(json_unref) = schema_of(r, API_OPENAPI);
        json_t *object cleanup(json_unref) = NULL;
        const struct api_field *f;

        if (!r->input)
            continue;
        assert_true(
            json_is_false(json_object_get(schema, "additionalProperties")));
        object = valid_object(r);
        assert_true(reads(r, object, NULL));
        (void)json_object_set_new(object, "no_such_field", json_integer(1));
        assert_false(reads(r, object, "no_such_field"));
        assert_true(names_all_fields(r, object));
        (void)json_object_del(object, "no_such_field");
        for (size_t i = 0; (f = api_field_at(r, i)); i++)
            if (f->flags & API_REQUIRED) {
                (void)json_object_del(object, f->name);
                assert_false(reads(r, object, f->name));
                assert_false(fits(schema, object));
                (void)json_object_set_new(object, f->name, valid(f));
            }
    }
}

/* A default is within the bounds, published, and what an absent field is. */
static void test_defaults_are_applied(void **state)
{
    (void)state;
    for (size_t k = 0; k < all()->count; k++) {
        const struct api_resource *r = all()->list[k];
        json_t *schema cleanup(json_unref) = schema_of(r, API_INLINE);
        const json_t *properties = json_object_get(schema, "properties");
        json_t *object cleanup(json_unref) = valid_object(r);
        const struct api_field *f;

        for (size_t i = 0; r->input && (f = api_field_at(r, i)); i++) {
            const json_t *said = json_object_get(
                json_object_get(properties, f->name), "default");
            char *ret = calloc(1, r->size);
            struct error err;

            assert_int_equal(said != NULL, (f->flags & API_DEFAULT) != 0);
            if (said) {
                assert_true(agree(r, f, json_deep_copy(said)));
                assert_int_equal(api_read(object, r, ret, &err), 0);
            }
            if (said && f->kind == API_INT)
                assert_int_equal(*(int64_t *)(void *)(ret + f->offset),
                                 json_integer_value(said));
            if (said && f->kind == API_BOOL)
                assert_int_equal(*(bool *)(ret + f->offset),
                                 json_is_true(said));
            if (said && f->kind == API_CHOICE)
                assert_string_equal(
                    f->choices[*(int *)(void *)(ret + f->offset) - f->min],
                    json_string_value(said));
            free(ret);
        }
    }
}

/* ---- writing as published ----------------------------------------------- */

/* Objects that filled() made; free_filled() frees them all. */
#define FILLED_MAX 1024
static void *made[FILLED_MAX];
static size_t made_count;

static void *filled(const struct api_resource *r, size_t depth);

static void fill_int(const struct api_field *f, void *member, int64_t n)
{
    switch (f->store) {
    case API_STORE_I64:
    case API_STORE_U64:
        *(int64_t *)member = n;
        break;
    case API_STORE_I32:
    case API_STORE_U32:
        *(int32_t *)member = (int32_t)n;
        break;
    case API_STORE_U16:
        *(uint16_t *)member = (uint16_t)n;
        break;
    case API_STORE_BOOL:
        *(bool *)member = n != 0;
        break;
    case API_STORE_REAL:
        *(double *)member = (double)n;
        break;
    case API_STORE_CHARS:
    case API_STORE_TEXT:
    case API_STORE_JSON:
    case API_STORE_BUF:
    case API_STORE_POINTER:
        fail_msg("%s is not held as a number", f->name);
    }
}

static void fill_text(const struct api_field *f, void *member,
                      const char *text)
{
    if (f->store == API_STORE_TEXT)
        *(const char **)member = text;
    else
        memcpy(member, text, strlen(text) + 1);
}

static bool holds_text(const struct api_field *f)
{
    return f->store == API_STORE_TEXT || f->store == API_STORE_CHARS;
}

static void fill_field(const struct api_field *f, char *object, size_t depth)
{
    void *member = object + f->offset;

    if (f->write || (f->of && depth == 0))
        return;
    if (f->store == API_STORE_BUF) {
        static struct buf text = {.data = (char *)"x", .len = 1};

        if (!f->of)
            *(const struct buf **)member = &text;
        return;
    }
    if (f->store == API_STORE_POINTER) {
        *(void **)member = filled(f->of, depth - 1);
        return;
    }
    if (f->kind == API_OBJECT && f->of) {
        void *inner = filled(f->of, depth - 1);

        /* Its struct may be the whole one: add to it. */
        for (size_t i = 0; i < f->of->size; i++)
            if (((char *)inner)[i])
                ((char *)member)[i] = ((char *)inner)[i];
    } else if (f->kind == API_ARRAY && f->of) {
        *(void **)member = filled(f->of, depth - 1);
        *(size_t *)(void *)(object + f->count_offset) = 1;
    } else if (f->kind == API_OBJECT) {
        fill_text(f, member, "{}");
    } else if (f->kind == API_CHOICE && holds_text(f)) {
        fill_text(f, member, f->choices[0]);
    } else if (f->kind == API_CHOICE) {
        fill_int(f, member, f->min);
    } else if (f->kind == API_STRING || f->kind == API_ARRAY) {
        fill_text(f, member, "x");
    } else {
        fill_int(f, member, 1);
    }
}

static void *filled(const struct api_resource *r, size_t depth)
{
    char *object = calloc(1, r->size);
    const struct api_field *f;

    assert_true(made_count < FILLED_MAX);
    made[made_count++] = object;
    for (size_t i = 0; (f = api_field_at(r, i)); i++)
        fill_field(f, object, depth);
    return object;
}

static void free_filled(void)
{
    while (made_count)
        free(made[--made_count]);
}

static json_t *written(const struct api_resource *r, const void *object)
{
    struct buf text cleanup(buf_done) = {0};
    struct json_writer w = {.out = &text};
    struct error err;
    json_t *value = NULL;

    api_write(&w, NULL, r, object);
    if (json_parse(text.data, text.len, &value, &err) < 0)
        fail_msg("%s: %s in %s", r->name, err.message, text.data);
    return value;
}

/* Each field of the table in its order, and nothing else; an absent one is
 * said to be optional. */
static void check_members(const struct api_resource *r, const json_t *answer,
                          const json_t *schema, bool full)
{
    const json_t *properties = json_object_get(schema, "properties");
    void *at = json_object_iter((json_t *)answer);
    const struct api_field *f;
    size_t i;

    for (i = 0; (f = api_field_at(r, i)); i++) {
        assert_non_null(json_object_get(properties, f->name));
        if (json_object_get(answer, f->name)) {
            /* A time that is not there is a fault of the caller's. */
            if (json_is_null(json_object_get(answer, f->name)) &&
                !(f->flags & API_NULLABLE) && f->kind != API_TIME && !f->write)
                fail_msg("%s.%s is null", r->name, f->name);
            assert_string_equal(json_object_iter_key(at), f->name);
            at = json_object_iter_next((json_t *)answer, at);
        } else if (!(f->flags & API_OPTIONAL) || (full && !f->when)) {
            fail_msg("%s.%s is not written", r->name, f->name);
        }
    }
    if (at)
        fail_msg("%s.%s is in no table", r->name, json_object_iter_key(at));
    assert_int_equal(json_object_size(properties), i);
}

static json_t *document_of(const struct api_resource *r);

static json_t *member_of(const struct api_field *f)
{
    json_t *array;

    switch (f->kind) {
    case API_STRING:
        return json_string("x");
    case API_CHOICE:
        return json_string(f->choices[0]);
    case API_TIME:
        return json_string("2026-01-01T00:00:00Z");
    case API_INT:
    case API_REAL:
        return json_integer(1);
    case API_BOOL:
        return json_true();
    case API_OBJECT:
        return f->of ? document_of(f->of) : json_pack("{s:i}", "any", 1);
    case API_ARRAY:
        array = json_array();
        (void)json_array_append_new(array, f->of ? document_of(f->of)
                                           : f->items == API_OBJECT
                                               ? json_object()
                                               : json_string("x"));
        return array;
    }
    return NULL;
}

static json_t *document_of(const struct api_resource *r)
{
    json_t *object = json_object();
    const struct api_field *f;

    for (size_t i = 0; (f = api_field_at(r, i)); i++)
        (void)json_object_set_new(object, f->name, member_of(f));
    (void)json_object_set_new(object, "in_no_table", json_true());
    return object;
}

/* Written from JSON: all fields of the table and no others, also when the
 * document lacks them or has more. */
static void check_document(const struct api_resource *r, const json_t *schema)
{
    json_t *full cleanup(json_unref) = document_of(r);
    json_t *empty cleanup(json_unref) = json_object();

    for (int i = 0; i < 2; i++) {
        struct buf text cleanup(buf_done) = {0};
        struct json_writer w = {.out = &text};
        json_t *answer cleanup(json_unref) = NULL;
        struct error err;

        api_write_json(&w, NULL, r, i ? full : empty);
        assert_int_equal(json_parse(text.data, text.len, &answer, &err), 0);
        check_members(r, answer, schema, i > 0);
        if (i && !fits(schema, answer))
            fail_msg("%s: %s does not fit its schema", r->name, text.data);
    }
}

static void test_answers_are_written_as_published(void **state)
{
    size_t answers = 0;

    (void)state;
    for (size_t k = 0; k < all()->count; k++) {
        const struct api_resource *r = all()->list[k];
        json_t *schema cleanup(json_unref) = schema_of(r, API_INLINE);
        void *empty, *full;

        if (r->input)
            continue;
        if (r->size == 0) {
            check_document(r, schema);
            continue;
        }
        empty = calloc(1, r->size);
        full = filled(r, 3);
        for (int i = 0; i < 2; i++) {
            json_t *answer cleanup(json_unref) = written(r, i ? full : empty);

            check_members(r, answer, schema, i > 0);
            if (i && !fits(schema, answer)) {
                char *text = json_dumps(answer, JSON_COMPACT);

                fail_msg("%s: %s does not fit its schema", r->name, text);
            }
        }
        free(empty);
        free_filled();
        answers++;
    }
    assert_true(answers > 60);
}

/* ---- the tables themselves ---------------------------------------------- */

static void check_flags(const struct api_resource *r,
                        const struct api_field *f)
{
    unsigned input =
        API_REQUIRED | API_DEFAULT | API_NO_MAX | API_OR_STRINGS | API_LATER;

    if (r->input ? f->flags & API_OPTIONAL || f->write : f->flags & input)
        fail_msg("%s.%s has flags of the other direction", r->name, f->name);
    assert_int_equal(f->kind == API_CHOICE, f->choices != NULL);
    assert_true(!f->when || f->flags & API_OPTIONAL);
    if (f->of)
        assert_true(f->kind == API_OBJECT || f->kind == API_ARRAY);
    if (f->of)
        assert_int_equal(f->of->input, r->input);
}

static void test_tables_are_sound(void **state)
{
    (void)state;
    for (size_t k = 0; k < all()->count; k++) {
        const struct api_resource *r = all()->list[k];
        const struct api_field *f, *g;
        size_t i;

        assert_non_null(r->name);
        for (i = 0; (f = api_field_at(r, i)); i++) {
            check_flags(r, f);
            for (size_t j = 0; j < i && (g = api_field_at(r, j)); j++)
                if (strcmp(g->name, f->name) == 0)
                    fail_msg("%s.%s is there twice", r->name, f->name);
        }
        assert_true(i <= API_FIELDS_MAX);
        if (r->base) {
            assert_null(r->base->base);
            assert_true(!r->size || r->size >= r->base->size);
        }
        assert_true(r->size > 0 || !r->input);
    }
}

/* Every tool has both tables, and its schemas come from them. */
static void test_tools_have_tables(void **state)
{
    (void)state;
    assert_true(mcp_tools_count > 20);
    for (size_t i = 0; i < mcp_tools_count; i++) {
        const struct mcp_tool *t = &mcp_tools[i];

        if (!t->input || !t->output || t->schema)
            fail_msg("%s has no tables", t->name);
        assert_true(t->input->input && t->input->size > 0);
        /* A failure has the status, a message and a hint. */
        assert_true(!t->output->input && t->output->size > 0 &&
                    t->output->partial && t->output->base);
        assert_string_equal(t->output->base->fields[0].name, "status");
        assert_string_equal(t->output->base->fields[1].name, "message");
        assert_string_equal(t->output->base->fields[2].name, "hint");
    }
}

static const struct api_field *field_named(const struct api_resource *r,
                                           const char *name)
{
    const struct api_field *f;

    for (size_t i = 0; (f = api_field_at(r, i)); i++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

/* Tools that answer with fewer fields than their own table has: what a run
 * that waits for approval says, and what check_approval says before it. */
static void test_short_answers_fit_the_schema(void **state)
{
    static const struct {
        const char *tool, *says;
    } rows[] = {{"check_approval", "decide_approval"}};
    const struct api_resource *of[2] = {NULL};
    const struct api_field *f;

    (void)state;
    for (size_t i = 0; i < mcp_tools_count; i++) {
        if (strcmp(mcp_tools[i].name, rows[0].tool) == 0)
            of[0] = mcp_tools[i].output;
        if (strcmp(mcp_tools[i].name, rows[0].says) == 0)
            of[1] = mcp_tools[i].output;
    }
    assert_true(of[0] && of[1]);
    for (size_t i = 0; (f = api_field_at(of[1], i)); i++) {
        const struct api_field *g = field_named(of[0], f->name);

        if (!g || g->kind != f->kind || g->of != f->of)
            fail_msg("check_approval has no field %s", f->name);
    }
}

static const struct api_resource *resource_named(const char *name, size_t len)
{
    for (size_t i = 0; native_resources[i]; i++)
        if (strlen(native_resources[i]->name) == len &&
            memcmp(native_resources[i]->name, name, len) == 0)
            return native_resources[i];
    return NULL;
}

/* Bodies and answers of every route are resources of the right direction;
 * each answer has a status, and held ones are 202. */
static void test_routes_name_resources(void **state)
{
    static const char *const plain[] = {"text",  "object", "events", "bytes",
                                        "zip",   "diff",   "held",   "csv",
                                        "lines", "form",   "ndjson", NULL};

    (void)state;
    assert_true(doors_routes_count > 60);
    for (size_t i = 0; i < doors_routes_count; i++) {
        const struct doors_route *route = &doors_routes[i];
        const char *at = route->answers;
        size_t good = 0;

        if (route->body && route->body[0] >= 'A' && route->body[0] <= 'Z') {
            const struct api_resource *r =
                resource_named(route->body, strcspn(route->body, "?"));

            if (!r || !r->input)
                fail_msg("%s %s: body %s", route->method, route->pattern,
                         route->body);
        }
        while (at && *at) {
            unsigned status = (unsigned)strtoul(at, NULL, 10);

            assert_in_range(status, 200, 599);
            good += status < 400;
            at += 3;
            while (*at && *at != ',') {
                size_t n;
                bool known = false;

                at += strspn(at, " []|");
                n = strcspn(at, " []|,");
                if (!n)
                    break;
                for (size_t k = 0; plain[k]; k++)
                    known |=
                        strlen(plain[k]) == n && memcmp(plain[k], at, n) == 0;
                if (*at >= 'A' && *at <= 'Z') {
                    const struct api_resource *r = resource_named(at, n);

                    known = r && !r->input;
                }
                if (!known)
                    fail_msg("%s %s answers with an unknown %.*s",
                             route->method, route->pattern, (int)n, at);
                if (n == 4 && memcmp(at, "held", 4) == 0)
                    assert_int_equal(status, 202);
                at += n;
                at += strspn(at, "]");
            }
            at += strspn(at, ", ");
        }
        assert_true(good > 0);
    }
}

/* The body that sets quotas has one field per quota, in their order. */
static void test_quotas_have_their_names(void **state)
{
    (void)state;
    assert_int_equal(native_quota_values.count, QUOTA_KINDS);
    for (size_t i = 0; i < QUOTA_KINDS; i++)
        assert_string_equal(native_quota_values.fields[i].name,
                            quota_name((enum quota_kind)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_are_sound),
        cmocka_unit_test(test_bodies_are_read_as_published),
        cmocka_unit_test(test_required_and_unknown_fields),
        cmocka_unit_test(test_defaults_are_applied),
        cmocka_unit_test(test_answers_are_written_as_published),
        cmocka_unit_test(test_tools_have_tables),
        cmocka_unit_test(test_short_answers_fit_the_schema),
        cmocka_unit_test(test_routes_name_resources),
        cmocka_unit_test(test_quotas_have_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
