/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the items of a request: messages, function calls and their outputs
 * as the Responses API writes them. Used by call.c to refuse what no adapter
 * could translate, and by the built-in model.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "model/model_int.h"

#define ITEMS_MAX 20000u
#define TOOLS_MAX 256u

const char *model_item_type(const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));

    if (type)
        return type;
    return json_object_get(item, "role") ? "message" : "";
}

void model_item_text(const json_t *content, struct buf *out)
{
    size_t i;
    const json_t *part;

    if (json_is_string(content)) {
        buf_add(out, json_string_value(content), json_string_length(content));
        return;
    }
    json_array_foreach (content, i, part) {
        const json_t *text = json_object_get(part, "text");

        if (!json_is_string(text))
            text = json_object_get(part, "refusal");
        if (!json_is_string(text))
            continue;
        if (out->len && out->data[out->len - 1] != '\n')
            buf_adds(out, "\n");
        buf_add(out, json_string_value(text), json_string_length(text));
    }
}

static bool has_content(const json_t *value)
{
    return json_is_string(value) || json_is_array(value);
}

static bool has_text(const json_t *item, const char *name)
{
    const char *text = json_string_value(json_object_get(item, name));

    return text && *text;
}

static int check_item(const json_t *item, size_t at, struct error *err)
{
    const char *type = model_item_type(item);
    bool good;

    if (strcmp(type, "message") == 0)
        good = has_text(item, "role") &&
               has_content(json_object_get(item, "content"));
    else if (strcmp(type, "function_call") == 0)
        good = has_text(item, "call_id") && has_text(item, "name") &&
               json_is_string(json_object_get(item, "arguments"));
    else if (strcmp(type, "function_call_output") == 0)
        good = has_text(item, "call_id") &&
               has_content(json_object_get(item, "output"));
    else
        good = strcmp(type, "reasoning") == 0;
    return good ? 0
                : error_set(err, ERR_INVALID,
                            "item %zu of the prompt (%.40s) cannot be sent to "
                            "a model: its type is unknown or a field is "
                            "missing",
                            at, *type ? type : "no type");
}

int model_items_check(const struct model_request *rq, struct error *err)
{
    size_t i;
    const json_t *row;

    if (!json_is_array(rq->input) || json_array_size(rq->input) == 0)
        return error_set(err, ERR_INVALID, "the prompt has no item");
    if (json_array_size(rq->input) > ITEMS_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "the prompt has over %u items; shorten it",
                         ITEMS_MAX);
    json_array_foreach (rq->input, i, row) {
        int r = check_item(row, i, err);

        if (r < 0)
            return r;
    }
    if (json_array_size(rq->tools) > TOOLS_MAX)
        return error_set(err, ERR_INVALID, "over %u tools", TOOLS_MAX);
    json_array_foreach (rq->tools, i, row) {
        if (!has_text(row, "name"))
            return error_set(err, ERR_INVALID, "tool %zu has no name", i);
    }
    return 0;
}
