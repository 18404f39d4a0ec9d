/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request body into a struct, by the table of its resource. Runs in the
 * daemon on bodies and tool arguments. json_read does the work; this adds
 * what its rows do not say: defaults, inherited fields, elements of arrays.
 */
#include <assert.h>

#include "api/api.h"
#include "base/error.h"
#include "json/json.h"

const struct api_field *api_field_at(const struct api_resource *r, size_t at)
{
    if (r->base) {
        if (at < r->base->count)
            return &r->base->fields[at];
        at -= r->base->count;
    }
    return at < r->count ? &r->fields[at] : NULL;
}

static struct json_field json_row(const struct api_field *f)
{
    static const struct {
        enum json_kind kind;
        enum api_store store;
    } rows[] = {
        [API_STRING] = {JSON_KIND_STRING, API_STORE_TEXT},
        [API_INT] = {JSON_KIND_INT, API_STORE_I64},
        [API_BOOL] = {JSON_KIND_BOOL, API_STORE_BOOL},
        [API_CHOICE] = {JSON_KIND_CHOICE, API_STORE_I32},
        [API_OBJECT] = {JSON_KIND_OBJECT, API_STORE_JSON},
        [API_ARRAY] = {JSON_KIND_ARRAY, API_STORE_JSON},
    };

    assert(f->kind != API_REAL && f->kind != API_TIME);
    assert(f->store == rows[f->kind].store);
    return (struct json_field){
        .name = f->name,
        .kind = rows[f->kind].kind,
        .required = f->flags & API_REQUIRED,
        .offset = f->offset,
        .min = f->min,
        .max = f->flags & (API_NO_MAX | API_LATER) ? INT64_MAX : f->max,
        .choices = f->choices,
    };
}

static void set_default(const struct api_field *f, void *ret)
{
    void *member = (char *)ret + f->offset;

    if (f->kind == API_INT)
        *(int64_t *)member = f->value;
    else if (f->kind == API_CHOICE)
        *(int *)member = (int)f->value;
    else if (f->kind == API_BOOL)
        *(bool *)member = f->value != 0;
}

/* ---- elements ----------------------------------------------------------- */

static bool string_fits(const struct api_field *f, const json_t *v)
{
    int64_t len = (int64_t)json_string_length(v);

    return json_is_string(v) && len >= f->item_min &&
           (!f->item_max || len <= f->item_max);
}

/* The description of the required element, or NULL if this one is valid. */
static const char *fault_of(const struct api_field *f, const json_t *v)
{
    int64_t n = 0;
    bool strings = f->flags & API_OR_STRINGS;

    if (f->of)
        return json_is_object(v) || (strings && json_is_string(v)) ? NULL
               : strings ? "an object or a string"
                         : "an object";
    if (f->items == API_STRING)
        return string_fits(f, v) ? NULL : "a string";
    if (f->items == API_INT)
        return json_whole_number(v, &n) && n >= f->item_min && n <= f->item_max
                   ? NULL
                   : "a whole number";
    return json_is_object(v) ? NULL : "an object";
}

static int check_elements(const struct api_field *f, const json_t *array,
                          struct error *err)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *must = fault_of(f, json_array_get(array, i));

        if (must && !f->of && f->item_max)
            return error_set(err, ERR_INVALID,
                             "field '%s[%zu]' must be %s from %lld to %lld%s",
                             f->name, i, must, (long long)f->item_min,
                             (long long)f->item_max,
                             f->items == API_STRING ? " bytes long" : "");
        if (must)
            return error_set(err, ERR_INVALID, "field '%s[%zu]' must be %s",
                             f->name, i, must);
    }
    return 0;
}

/* Checks what json_read does not: elements, and choices that do not begin at
 * 0. */
static int finish_field(const struct api_field *f, const json_t *v, void *ret,
                        struct error *err)
{
    if (!v || json_is_null(v))
        return 0;
    if (f->kind == API_CHOICE && f->min)
        *(int *)((char *)ret + f->offset) += (int)f->min;
    return f->kind == API_ARRAY ? check_elements(f, v, err) : 0;
}

int api_read(const json_t *object, const struct api_resource *r, void *ret,
             struct error *err)
{
    json_t *nothing cleanup(json_unref) = object ? NULL : json_object();
    struct json_field rows[API_FIELDS_MAX];
    const struct api_field *f;
    size_t count = 0;
    int rc;

    assert(r->input);
    for (; (f = api_field_at(r, count)); count++) {
        assert(count < API_FIELDS_MAX);
        rows[count] = json_row(f);
        if (f->flags & API_DEFAULT)
            set_default(f, ret);
    }
    rc = json_read(object ? object : nothing, rows, count, ret, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        f = api_field_at(r, i);
        rc = finish_field(f, json_object_get(object, f->name), ret, err);
    }
    return rc;
}
