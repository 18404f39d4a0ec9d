/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requests of all dialects share: parts of messages, schemas, limits,
 * URLs, and requests for embeddings. Pure. Runs in glovebox-model.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "upstream/upstream_int.h"

static const struct dialect *const dialects[MODEL_DIALECT_MAX] = {
    [MODEL_DIALECT_CHAT] = &dialect_chat,
    [MODEL_DIALECT_RESPONSES] = &dialect_responses,
    [MODEL_DIALECT_ANTHROPIC] = &dialect_anthropic,
};

void request_parts(const json_t *content, part_fn *fn, void *ctx)
{
    const json_t *row;
    size_t i;

    if (json_is_string(content)) {
        fn(ctx, &(struct part){PART_TEXT, json_string_value(content)});
        return;
    }
    json_array_foreach (content, i, row) {
        const json_t *image = json_object_get(row, "image_url");
        const char *text = upstream_text(row, "text");
        const char *url = json_is_object(image) ? upstream_text(image, "url")
                                                : json_string_value(image);

        if (!text)
            text = upstream_text(row, "refusal");
        if (text && *text)
            fn(ctx, &(struct part){PART_TEXT, text});
        else if (url)
            fn(ctx, &(struct part){PART_IMAGE, url});
    }
}

struct joined {
    struct buf text;
    bool images;
};

static void join_part(void *ctx, const struct part *part)
{
    struct joined *j = ctx;

    if (part->kind == PART_IMAGE) {
        j->images = true;
        return;
    }
    if (j->text.len && j->text.data[j->text.len - 1] != '\n')
        buf_adds(&j->text, "\n");
    buf_adds(&j->text, part->text);
}

char *request_text(const json_t *content, bool *ret_images)
{
    struct joined j = {0};

    buf_adds(&j.text, "");
    request_parts(content, join_part, &j);
    if (ret_images)
        *ret_images = j.images;
    return j.text.data;
}

bool request_data_uri(const char *url, char ret_type[64],
                      const char **ret_base64)
{
    const char *end = strchr(url, ';');
    size_t len;

    if (strncmp(url, "data:", 5) != 0 || !end ||
        strncmp(end, ";base64,", 8) != 0)
        return false;
    len = (size_t)(end - url) - 5;
    if (len == 0 || len >= 64)
        return false;
    memcpy(ret_type, url + 5, len);
    ret_type[len] = '\0';
    *ret_base64 = end + 8;
    return true;
}

json_t *request_schema(const json_t *tool)
{
    json_t *schema = json_deep_copy(json_object_get(tool, "parameters"));

    if (!json_is_object(schema)) {
        json_decref(schema);
        schema = json_pack("{s:s, s:{}}", "type", "object", "properties");
    }
    (void)json_object_del(schema, "$schema");
    return schema;
}

const json_t *request_option(const json_t *prompt, const char *name)
{
    const json_t *v =
        json_object_get(json_object_get(prompt, "options"), name);

    return json_is_null(v) ? NULL : v;
}

uint64_t request_most_tokens(const struct model_call_msg *call,
                             const json_t *prompt)
{
    uint64_t asked = upstream_number(json_object_get(prompt, "options"),
                                     "max_output_tokens");

    if (asked && call->max_output_tokens)
        return MIN(asked, call->max_output_tokens);
    return asked ? asked : call->max_output_tokens;
}

bool request_forces_tool(const json_t *prompt)
{
    const json_t *choice = json_object_get(prompt, "tool_choice");
    const char *word = json_string_value(choice);

    return json_is_object(choice) || (word && strcmp(word, "required") == 0);
}

/* The path goes before a query, which Azure's base URLs have. */
static void join_url(const char *base, const char *path, struct buf *ret)
{
    size_t len = strcspn(base, "?");
    const char *query = base + len;

    while (len && base[len - 1] == '/')
        len--;
    buf_add(ret, base, len);
    buf_adds(ret, path);
    buf_adds(ret, query);
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strcspn(text, "?"), b = strlen(end);

    while (a && text[a - 1] == '/')
        a--;
    return a >= b && memcmp(text + a - b, end, b) == 0;
}

bool upstream_request(const struct model_call_msg *call, const json_t *prompt,
                      struct buf *ret_url, struct buf *ret_body,
                      const char **ret_why)
{
    const struct dialect *d = dialects[call->dialect];
    json_t *body = json_object();
    char *text = NULL;
    bool good;

    (void)json_object_set_new(body, "model", json_string(call->model));
    if (call->embed) {
        good = call->dialect != MODEL_DIALECT_ANTHROPIC;
        *ret_why = "servers of this kind have no embeddings";
        (void)json_object_set(body, "input", json_object_get(prompt, "texts"));
        (void)json_object_set_new(body, "encoding_format",
                                  json_string("float"));
        join_url(call->url, "/embeddings", ret_url);
    } else {
        good = d->request(call, prompt, body, ret_why);
        join_url(call->url,
                 call->dialect == MODEL_DIALECT_ANTHROPIC &&
                         !ends_with(call->url, "/v1")
                     ? "/v1/messages"
                     : d->path,
                 ret_url);
    }
    if (good) {
        text = json_dumps(body, JSON_COMPACT);
        good = text != NULL;
        if (good)
            buf_adds(ret_body, text);
    }
    free(text);
    json_decref(body);
    return good;
}
