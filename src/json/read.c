/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an object by a table of its fields. Runs in the daemon on request
 * bodies; every error names the field and says what would be right.
 */
#include "json/json.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define NAME_MAX_SHOWN 40
#define NEAR_MAX 32 /* longer names are not compared */

/* Edit distance of two short names: insert, drop, replace. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NEAR_MAX + 1], alen = strlen(a), blen = strlen(b);

    if (alen > NEAR_MAX || blen > NEAR_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= blen; j++)
        row[j] = j;
    for (size_t i = 1; i <= alen; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= blen; j++) {
            size_t above = row[j];
            size_t swap = diagonal + (a[i - 1] != b[j - 1]);

            row[j] = MIN(MIN(above, row[j - 1]) + 1, swap);
            diagonal = above;
        }
    }
    return row[blen];
}

const char *json_nearest(const char *name, const char *const *known,
                         size_t count)
{
    const char *best = NULL;
    size_t least = strlen(name) / 2 + 1; /* further off is no typing error */

    for (size_t i = 0; i < count; i++) {
        size_t d = distance(name, known[i]);

        if (d < least) {
            least = d;
            best = known[i];
        }
    }
    return best;
}

static int refuse_unknown(const char *name, const struct json_field *fields,
                          size_t count, struct error *err)
{
    const char *known[64];
    const char *near;

    for (size_t i = 0; i < count && i < ARRAY_SIZE(known); i++)
        known[i] = fields[i].name;
    near = json_nearest(name, known, MIN(count, ARRAY_SIZE(known)));
    (void)error_set(err, ERR_INVALID, "unknown field '%.*s'", NAME_MAX_SHOWN,
                    name);
    if (near)
        (void)error_hint(err, "Did you mean '%s'?", near);
    return -ERR_INVALID;
}

static int refuse_kind(const struct json_field *f, const char *kind,
                       struct error *err)
{
    return error_set(err, ERR_INVALID, "field '%s' must be %s", f->name, kind);
}

static int read_string(const struct json_field *f, const json_t *v,
                       const char **ret, struct error *err)
{
    int64_t len;

    if (!json_is_string(v))
        return refuse_kind(f, "a string", err);
    len = (int64_t)json_string_length(v);
    if (len < f->min)
        return error_set(err, ERR_INVALID,
                         "field '%s' must not be shorter than %lld bytes",
                         f->name, (long long)f->min);
    if (len > f->max)
        return error_set(err, ERR_INVALID,
                         "field '%s' must not be longer than %lld bytes",
                         f->name, (long long)f->max);
    *ret = json_string_value(v);
    return 0;
}

static int read_int(const struct json_field *f, const json_t *v, int64_t *ret,
                    struct error *err)
{
    if (!json_is_integer(v) || json_integer_value(v) < f->min ||
        json_integer_value(v) > f->max)
        return error_set(err, ERR_INVALID,
                         "field '%s' must be a whole number from %lld to %lld",
                         f->name, (long long)f->min, (long long)f->max);
    *ret = json_integer_value(v);
    return 0;
}

static int read_choice(const struct json_field *f, const json_t *v, int *ret,
                       struct error *err)
{
    const char *text = json_string_value(v);

    for (int i = 0; text && f->choices[i]; i++)
        if (strcmp(text, f->choices[i]) == 0) {
            *ret = i;
            return 0;
        }
    (void)refuse_kind(f, "one of:", err);
    for (int i = 0; f->choices[i]; i++) {
        size_t used = strlen(err->message);

        (void)snprintf(err->message + used, sizeof(err->message) - used,
                       "%s '%s'", i ? "," : "", f->choices[i]);
    }
    return -ERR_INVALID;
}

static int read_array(const struct json_field *f, json_t *v, json_t **ret,
                      struct error *err)
{
    int64_t size = (int64_t)json_array_size(v);

    if (!json_is_array(v) || size > f->max)
        return error_set(err, ERR_INVALID,
                         "field '%s' must be an array of at most %lld "
                         "elements",
                         f->name, (long long)f->max);
    if (size < f->min)
        return error_set(err, ERR_INVALID,
                         "field '%s' must be an array of at least %lld "
                         "element%s",
                         f->name, (long long)f->min, f->min == 1 ? "" : "s");
    *ret = v;
    return 0;
}

static int read_field(const struct json_field *f, json_t *v, void *ret,
                      struct error *err)
{
    void *member = (char *)ret + f->offset;

    switch (f->kind) {
    case JSON_KIND_STRING:
        return read_string(f, v, member, err);
    case JSON_KIND_INT:
        return read_int(f, v, member, err);
    case JSON_KIND_CHOICE:
        return read_choice(f, v, member, err);
    case JSON_KIND_BOOL:
        if (!json_is_boolean(v))
            return refuse_kind(f, "true or false", err);
        *(bool *)member = json_is_true(v);
        return 0;
    case JSON_KIND_OBJECT:
        if (!json_is_object(v))
            return refuse_kind(f, "an object", err);
        *(json_t **)member = v;
        return 0;
    case JSON_KIND_ARRAY:
        return read_array(f, v, member, err);
    }
    return refuse_kind(f, "of a known kind", err);
}

static const struct json_field *find(const struct json_field *fields,
                                     size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

int json_read(const json_t *object, const struct json_field *fields,
              size_t count, void *ret, struct error *err)
{
    const char *name;
    json_t *v;

    if (!json_is_object(object))
        return error_set(err, ERR_INVALID, "a JSON object is expected");
    json_object_foreach ((json_t *)object, name, v) {
        const struct json_field *f = find(fields, count, name);

        if (!f)
            return refuse_unknown(name, fields, count, err);
        if (!json_is_null(v)) {
            int r = read_field(f, v, ret, err);

            if (r < 0)
                return r;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (fields[i].required) {
            v = json_object_get(object, fields[i].name);
            if (!v || json_is_null(v))
                return error_set(err, ERR_INVALID, "field '%s' is missing",
                                 fields[i].name);
        }
    return 0;
}
