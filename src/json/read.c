/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From checked text to jansson's values, and from an object to a struct by a
 * table of its fields; base64 too. Runs in the daemon on request bodies, where
 * every error names the field and says what would be right, and in the command
 * line on answers.
 */
#include "json/json.h"

#include <limits.h>
#include <math.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"

#define NAME_MAX_SHOWN 40
#define NEAR_MAX 32 /* longer names are not compared */

/* ---- text to values ------------------------------------------------------
 */

int json_parse(const char *text, size_t len, json_t **ret, struct error *err)
{
    json_error_t why;
    json_t *value;
    int r = json_check(text, len, &json_limits_body, err);

    if (r < 0)
        return r;
    value =
        json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!value && (json_error_code(&why) == json_error_null_character ||
                   json_error_code(&why) == json_error_null_byte_in_key))
        return error_set(err, ERR_INVALID,
                         "text may not hold the character U+0000");
    if (!value)
        return error_set(err, ERR_INVALID, "not valid JSON: %s at byte %d",
                         why.text, why.position);
    *ret = value;
    return 0;
}

void json_unref(json_t **value)
{
    json_decref(*value);
}

/* ---- objects by tables of fields -----------------------------------------
 */

/* Edit distance of two short names: insert, drop, replace. */
static size_t edit_distance(const char *a, const char *b)
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
    size_t least =
        strlen(name) / 2 + 1; /* a larger distance is no typing error */

    for (size_t i = 0; i < count; i++) {
        size_t d = edit_distance(name, known[i]);

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
    struct buf all cleanup(buf_done) = {0};
    const char *known[64] = {0};
    const char *near;

    for (size_t i = 0; i < count && i < ARRAY_SIZE(known); i++)
        known[i] = fields[i].name;
    near = json_nearest(name, known, MIN(count, ARRAY_SIZE(known)));
    (void)error_set(err, ERR_INVALID, "unknown field '%.*s'", NAME_MAX_SHOWN,
                    name);
    for (size_t i = 0; i < MIN(count, ARRAY_SIZE(known)); i++) {
        buf_adds(&all, i ? ", " : "");
        buf_adds(&all, known[i]);
    }
    return error_hint(err, "%s%s%sThe fields are: %s.",
                      near ? "Did you mean '" : "", near ? near : "",
                      near ? "'? " : "", all.data ? all.data : "none");
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

bool json_whole_number(const json_t *v, int64_t *ret)
{
    double real = json_real_value(v);

    if (json_is_integer(v)) {
        *ret = json_integer_value(v);
        return true;
    }
    /* Beyond 2^53 a double does not say which integer was meant. */
    if (!json_is_real(v) || real != floor(real) || fabs(real) > 0x1p53)
        return false;
    *ret = (int64_t)real;
    return true;
}

static int read_int(const struct json_field *f, const json_t *v, int64_t *ret,
                    struct error *err)
{
    int64_t n;

    if (!json_whole_number(v, &n) || n < f->min || n > f->max)
        return error_set(err, ERR_INVALID,
                         "field '%s' must be a whole number from %lld to %lld",
                         f->name, (long long)f->min, (long long)f->max);
    *ret = n;
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

int json_read(const json_t *object, const struct json_field *fields,
              size_t count, void *ret, struct error *err)
{
    const char *name;
    json_t *v;

    if (!json_is_object(object))
        return error_set(err, ERR_INVALID, "a JSON object is expected");
    json_object_foreach ((json_t *)object, name, v) {
        const struct json_field *f = NULL;

        for (size_t i = 0; i < count && !f; i++)
            if (strcmp(fields[i].name, name) == 0)
                f = &fields[i];
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

/* ---- base64 ---------------------------------------------------------------
 */

/* libcrypto accepts padding in the middle and white space around the text, so
 * the alphabet is checked first. */
int json_base64_decode(const char *text, size_t len, unsigned char **ret,
                       size_t *ret_len, struct error *err)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "abcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char *bytes cleanup(mem_free) = NULL;
    size_t padding = 0, i;
    int n;

    while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
        padding++;
    for (i = 0; i < len - padding && text[i] && strchr(alphabet, text[i]); i++)
        ;
    if (len % 4 != 0 || i != len - padding || len > INT_MAX)
        return error_set(err, ERR_INVALID,
                         "not base64: the standard alphabet with padding and "
                         "no white space is expected");
    bytes = xmalloc(len / 4 * 3 + 1); /* less than the text we hold */
    n = len ? EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len)
            : 0;
    if (n < 0)
        return error_set(err, ERR_INVALID, "not base64");
    *ret_len = (size_t)n - padding;
    *ret = take_ptr(bytes);
    return 0;
}
