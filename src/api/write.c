/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A struct as JSON, by the table of its resource. Runs in the daemon wherever
 * answers are written; does not wait.
 */
#include <string.h>

#include "api/api.h"
#include "json/json.h"

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
        return !text_at(f, member)[0];
    case API_CHOICE:
        return !choice_at(f, member)[0];
    case API_INT:
    case API_TIME:
    case API_BOOL:
        return int_at(f, member) == f->none;
    case API_OBJECT:
        return !f->of && !text_at(f, member)[0];
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
            api_write(w, f->name, f->of, member);
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
