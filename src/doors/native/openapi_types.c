/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types and schemas of /openapi.json, from the words of openapi_schemas.c.
 * Runs on a worker of the daemon, called by openapi.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/openapi.h"
#include "json/json.h"

/* The next word of a list, which is moved on; false at its end. */
bool native_openapi_word(const char **list, const char *ends,
                         char ret[OPENAPI_WORD])
{
    size_t n;

    if (!*list)
        return false;
    *list += strspn(*list, ends);
    n = strcspn(*list, ends);
    if (n == 0)
        return false;
    (void)snprintf(ret, OPENAPI_WORD, "%.*s", (int)n, *list);
    *list += n;
    return true;
}

static void encode_target(struct json_writer *w, const char *name)
{
    struct buf ref cleanup(buf_done) = {0};

    buf_addf(&ref, "#/components/schemas/%s", name);
    json_write_string(w, "$ref", ref.data);
}

static void encode_ref(struct json_writer *w, const char *key,
                       const char *name)
{
    json_write_open(w, key, '{');
    encode_target(w, name);
    json_write_close(w, '}');
}

/* Our words for the simple types. */
static const struct {
    const char *name, *type, *format;
} simple[] = {
    {"string", "string", NULL},      {"int", "integer", "int64"},
    {"number", "number", NULL},      {"bool", "boolean", NULL},
    {"time", "string", "date-time"}, {"object", "object", NULL},
};

static void encode_plain(struct json_writer *w, const char *type,
                         bool nullable)
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

static void encode_simple(struct json_writer *w, const char *word,
                          bool nullable)
{
    for (size_t i = 0; i < ARRAY_SIZE(simple); i++) {
        if (strcmp(simple[i].name, word) != 0)
            continue;
        encode_plain(w, simple[i].type, nullable);
        if (simple[i].format)
            json_write_string(w, "format", simple[i].format);
    }
}

static void encode_choices(struct json_writer *w, const char *word,
                           bool nullable)
{
    char one[OPENAPI_WORD];

    encode_plain(w, "string", nullable);
    json_write_open(w, "enum", '[');
    while (native_openapi_word(&word, "|", one))
        json_write_string(w, NULL, one);
    if (nullable)
        json_write_string(w, NULL, NULL);
    json_write_close(w, ']');
}

/* "string 1 128": what the two numbers bound depends on the type. */
static void encode_bounds(struct json_writer *w, const char *word,
                          const char *bounds)
{
    static const char *const names[3][2] = {{"minimum", "maximum"},
                                            {"minLength", "maxLength"},
                                            {"minItems", "maxItems"}};
    const char *const *pair =
        names[word[0] == '[' ? 2 : strcmp(word, "string") == 0];
    char *end;

    if (!bounds[0])
        return;
    json_write_int(w, pair[0], strtoll(bounds, &end, 10));
    if (*end)
        json_write_int(w, pair[1], strtoll(end, NULL, 10));
}

static bool is_ref(const char *word)
{
    return word[0] >= 'A' && word[0] <= 'Z';
}

/* A type of openapi_schemas.c; text: what it means, or NULL. */
void native_openapi_type(struct json_writer *w, const char *key,
                         const char *type, const char *text)
{
    char word[256];
    size_t len = strcspn(type, " ");
    bool nullable = type[len - 1] == '?';

    (void)snprintf(word, sizeof(word), "%.*s", (int)(len - nullable), type);
    json_write_open(w, key, '{');
    if (text)
        json_write_string(w, "description", text);
    if (word[0] == '[') {
        word[strlen(word) - 1] = '\0';
        encode_plain(w, "array", nullable);
        native_openapi_type(w, "items", word + 1, NULL);
    } else if (is_ref(word) && nullable) {
        json_write_open(w, "anyOf", '[');
        encode_ref(w, NULL, word);
        json_write_open(w, NULL, '{');
        json_write_string(w, "type", "null");
        json_write_close(w, '}');
        json_write_close(w, ']');
    } else if (is_ref(word)) {
        encode_target(w, word);
    } else if (strchr(word, '|')) {
        encode_choices(w, word, nullable);
    } else {
        encode_simple(w, word, nullable);
    }
    encode_bounds(w, type[0] == '[' ? type : word,
                  type + len + strspn(type + len, " "));
    json_write_close(w, '}');
}

bool native_openapi_optional(const char *field)
{
    return field[strlen(field) - 1] == '?';
}

/* The fields of one schema; returns the row after them. */
static const struct native_name *encode_fields(struct json_writer *w,
                                               const struct native_name *row)
{
    const struct native_name *first = row;
    char name[OPENAPI_WORD];

    json_write_string(w, "type", "object");
    json_write_open(w, "properties", '{');
    for (; row->type; row++) {
        (void)snprintf(
            name, sizeof(name), "%.*s",
            (int)(strlen(row->name) - native_openapi_optional(row->name)),
            row->name);
        native_openapi_type(w, name, row->type, row->text);
    }
    json_write_close(w, '}');
    json_write_open(w, "required", '[');
    for (; first < row; first++)
        if (!native_openapi_optional(first->name))
            json_write_string(w, NULL, first->name);
    json_write_close(w, ']');
    return row;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static void encode_table(struct json_writer *w, const struct native_name *row)
{
    while (row->name) {
        const struct native_name *head = row++;

        json_write_open(w, head->name, '{');
        json_write_string(w, "description", head->text);
        if (row->type && strcmp(row->name, "+") == 0) { /* another, and more */
            json_write_open(w, "allOf", '[');
            encode_ref(w, NULL, row->type);
            json_write_open(w, NULL, '{');
            row = encode_fields(w, row + 1);
            json_write_close(w, '}');
            json_write_close(w, ']');
        } else {
            row = encode_fields(w, row);
            /* In what clients send an unknown field is refused. */
            if (ends_with(head->name, "Spec") ||
                ends_with(head->name, "Patch"))
                json_write_bool(w, "additionalProperties", false);
        }
        json_write_close(w, '}');
    }
}

void native_openapi_encode_schemas(struct json_writer *w)
{
    json_write_open(w, "schemas", '{');
    encode_table(w, native_openapi_schemas);
    encode_table(w, native_openapi_govern);
    for (size_t i = 0; native_resources[i]; i++)
        api_schema(w, native_resources[i]->name, native_resources[i],
                   API_OPENAPI);
    json_write_close(w, '}');
}
