/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A struct as JSON, by the table of its resource. Runs in the daemon wherever
 * answers are written; does not wait.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "json/json.h"

static const struct buf *buf_at(const void *member)
{
    return *(const struct buf *const *)member;
}

static const char *text_at(const struct api_field *f, const void *member)
{
    const char *text =
        f->store == API_STORE_TEXT ? *(const char *const *)member : member;

    return text ? text : "";
}

static int64_t int_at(const struct api_field *f, const void *member)
{
    switch (f->store) {
    case API_STORE_I64:
        return *(const int64_t *)member;
    case API_STORE_U64:
        return (int64_t) * (const uint64_t *)member;
    case API_STORE_I32:
        return *(const int32_t *)member;
    case API_STORE_U32:
        return *(const uint32_t *)member;
    case API_STORE_U16:
        return *(const uint16_t *)member;
    case API_STORE_BOOL:
        return *(const bool *)member;
    case API_STORE_CHARS:
    case API_STORE_TEXT:
    case API_STORE_REAL:
    case API_STORE_JSON:
    case API_STORE_BUF:
    case API_STORE_POINTER:
        break;
    }
    return 0;
}

static bool is_text(const struct api_field *f)
{
    return f->store == API_STORE_CHARS || f->store == API_STORE_TEXT;
}

/* The word of a choice; "" for none. */
static const char *choice_at(const struct api_field *f, const void *member)
{
    int64_t index;

    if (is_text(f))
        return text_at(f, member);
    index = int_at(f, member) - f->min;
    for (int64_t i = 0; f->choices[i]; i++)
        if (i == index)
            return f->choices[i];
    return "";
}

static bool is_empty(const struct api_field *f, const void *member)
{
    switch (f->kind) {
    case API_STRING:
        return f->store == API_STORE_BUF ? !buf_at(member)
                                         : !text_at(f, member)[0];
    case API_CHOICE:
        return !choice_at(f, member)[0];
    case API_INT:
    case API_TIME:
    case API_BOOL:
        return int_at(f, member) == f->none;
    case API_OBJECT:
        return f->store == API_STORE_POINTER
                   ? !*(const void *const *)member
                   : !f->of && !text_at(f, member)[0];
    case API_ARRAY:
        return f->of ? !*(const void *const *)member : !text_at(f, member)[0];
    case API_REAL:
        break;
    }
    return false;
}

/* Strings with commas between them. */
static void write_words(struct json_writer *w, const char *key,
                        const char *rest)
{
    json_write_open(w, key, '[');
    while (*rest) {
        size_t n = strcspn(rest, ",");

        json_write_text(w, NULL, rest, n);
        rest += n + (rest[n] == ',');
    }
    json_write_close(w, ']');
}

static void write_array(struct json_writer *w, const struct api_field *f,
                        const void *object)
{
    const void *member = (const char *)object + f->offset;
    const char *element;
    size_t count;

    if (f->of && f->store == API_STORE_BUF) {
        json_write_open(w, f->name, '[');
        if (buf_at(member) && buf_at(member)->len)
            buf_add(w->out, buf_at(member)->data, buf_at(member)->len);
        json_write_close(w, ']');
        return;
    }
    if (!f->of) {
        write_words(w, f->name, text_at(f, member));
        return;
    }
    element = *(const char *const *)member;
    count = *(const size_t *)(const void *)((const char *)object +
                                            f->count_offset);
    json_write_open(w, f->name, '[');
    for (size_t i = 0; i < count; i++)
        api_write(w, NULL, f->of, element + i * f->of->size);
    json_write_close(w, ']');
}

static void write_value(struct json_writer *w, const struct api_field *f,
                        const void *object)
{
    const void *member = (const char *)object + f->offset;
    const char *text;

    switch (f->kind) {
    case API_STRING:
        if (f->store == API_STORE_BUF)
            json_write_text(w, f->name,
                            buf_at(member) && buf_at(member)->data
                                ? buf_at(member)->data
                                : "",
                            buf_at(member) ? buf_at(member)->len : 0);
        else
            json_write_string(w, f->name, text_at(f, member));
        break;
    case API_CHOICE:
        json_write_string(w, f->name, choice_at(f, member));
        break;
    case API_INT:
        json_write_int(w, f->name, int_at(f, member));
        break;
    case API_TIME:
        json_write_time(w, f->name, int_at(f, member));
        break;
    case API_BOOL:
        json_write_bool(w, f->name, int_at(f, member) != 0);
        break;
    case API_REAL:
        json_write_real(w, f->name, *(const double *)member);
        break;
    case API_OBJECT:
        if (f->of) {
            api_write(w, f->name, f->of,
                      f->store == API_STORE_POINTER
                          ? *(const void *const *)member
                          : member);
            break;
        }
        text = text_at(f, member);
        json_write_raw(w, f->name, text[0] ? text : "{}",
                       text[0] ? strlen(text) : 2);
        break;
    case API_ARRAY:
        write_array(w, f, object);
        break;
    }
}

static void write_name(struct json_writer *w, const char *key, const char *id)
{
    char name[64] = "";

    if (w->name_of && id[0])
        w->name_of(w->name_ctx, id, name);
    json_write_string(w, key, name[0] ? name : NULL);
}

static void write_field(struct json_writer *w, const struct api_field *f,
                        const void *object)
{
    const void *member = (const char *)object + f->offset;

    if (f->when) {
        if (!f->when(object))
            return;
    } else if (f->flags & API_OPTIONAL && !f->write && is_empty(f, member)) {
        return;
    }
    if (f->write)
        f->write(w, f->name, object);
    else if (f->flags & API_NAME_OF)
        write_name(w, f->name, text_at(f, member));
    else if (f->flags & API_NULLABLE && is_empty(f, member))
        json_write_string(w, f->name, NULL);
    else
        write_value(w, f, object);
}

void api_write_members(struct json_writer *w, const struct api_resource *r,
                       const void *object)
{
    const struct api_field *f;

    for (size_t i = 0; (f = api_field_at(r, i)); i++)
        write_field(w, f, object);
}

void api_write(struct json_writer *w, const char *key,
               const struct api_resource *r, const void *object)
{
    json_write_open(w, key, '{');
    api_write_members(w, r, object);
    json_write_close(w, '}');
}

/* ---- documents ---------------------------------------------------------- */

/* Writes the value for a field that the document lacks. */
static void write_absent(struct json_writer *w, const struct api_field *f)
{
    if (f->flags & API_OPTIONAL)
        return;
    if (f->flags & API_NULLABLE || f->kind == API_TIME)
        json_write_string(w, f->name, NULL);
    else if (f->kind == API_OBJECT && f->of)
        api_write_json(w, f->name, f->of, NULL);
    else if (f->kind == API_OBJECT || f->kind == API_ARRAY)
        json_write_raw(w, f->name, f->kind == API_OBJECT ? "{}" : "[]", 2);
    else if (f->kind == API_BOOL)
        json_write_bool(w, f->name, false);
    else if (f->kind == API_INT || f->kind == API_REAL)
        json_write_int(w, f->name, 0);
    else
        json_write_string(w, f->name, f->choices ? f->choices[0] : "");
}

void api_write_json(struct json_writer *w, const char *key,
                    const struct api_resource *r, const json_t *object)
{
    const struct api_field *f;
    const json_t *element;
    size_t k;

    json_write_open(w, key, '{');
    for (size_t i = 0; (f = api_field_at(r, i)); i++) {
        const json_t *value = json_object_get(object, f->name);

        if (!value || (json_is_null(value) && !(f->flags & API_NULLABLE))) {
            write_absent(w, f);
        } else if (f->of && json_is_object(value)) {
            api_write_json(w, f->name, f->of, value);
        } else if (f->of && json_is_array(value)) {
            json_write_open(w, f->name, '[');
            json_array_foreach (value, k, element)
                api_write_json(w, NULL, f->of, element);
            json_write_close(w, ']');
        } else {
            char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

            json_write_raw(w, f->name, text ? text : "null",
                           text ? strlen(text) : 4);
            free(text);
        }
    }
    json_write_close(w, '}');
}
