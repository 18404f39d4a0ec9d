/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conversation as a document: JSON with everything that is stored, Markdown
 * to read, or a notebook (nbformat 4.5) to run again. Runs on a worker of the
 * daemon; pure.
 */
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/url.h"
#include "chat/conversations.h"
#include "json/json.h"

#define VERSION 1 /* of the JSON document */

static const struct {
    const char *name, *type, *suffix;
} formats[] = {
    [CHAT_EXPORT_JSON] = {"json", "application/json", ".json"},
    [CHAT_EXPORT_MARKDOWN] = {"markdown", "text/markdown; charset=utf-8",
                              ".md"},
    [CHAT_EXPORT_IPYNB] = {"ipynb", "application/x-ipynb+json", ".ipynb"},
};

bool chat_export_format(const char *name, enum chat_export_format *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (strcmp(name, formats[i].name) == 0) {
            *ret = (enum chat_export_format)i;
            return true;
        }
    return false;
}

const char *chat_export_type(enum chat_export_format format)
{
    return formats[format].type;
}

const char *chat_export_suffix(enum chat_export_format format)
{
    return formats[format].suffix;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static bool is(const struct chat_item *item, const char *type)
{
    return strcmp(chat_item_type(item), type) == 0;
}

/* The address of the very version that an execution left. */
static void add_address(const char *base, const struct chat_item_file *f,
                        struct buf *out)
{
    buf_addf(out, "%s/api/files/%s/content?version=%s", base, f->file,
             f->version);
}

static bool is_gone(const struct chat_item_file *f)
{
    return strcmp(f->change, "deleted") == 0 || !f->version[0];
}

/* ---- JSON ---------------------------------------------------------------
 */

static void write_files(struct json_writer *w, const struct chat_item *item,
                        const char *base)
{
    json_write_open(w, "files", '[');
    for (size_t i = 0; i < item->file_count; i++) {
        const struct chat_item_file *f = &item->files[i];
        struct buf url cleanup(buf_done) = {0};

        add_address(base, f, &url);
        json_write_open(w, NULL, '{');
        json_write_string(w, "path", f->path);
        json_write_string(w, "change", f->change);
        json_write_string(w, "file", f->file[0] ? f->file : NULL);
        json_write_string(w, "version", f->version[0] ? f->version : NULL);
        json_write_int(w, "size", (int64_t)f->size);
        json_write_string(w, "url", is_gone(f) ? NULL : url.data);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

static void write_raw(struct json_writer *w, const char *key,
                      const json_t *value)
{
    char *text cleanup(mem_free) =
        json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

    if (text)
        json_write_raw(w, key, text, strlen(text));
    else
        json_write_string(w, key, NULL);
}

static const char *or_null(const char *text)
{
    return text && text[0] ? text : NULL;
}

static void write_json(const struct chat_conversation *v,
                       const struct chat_items *items, const char *base,
                       struct buf *out)
{
    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "object", "glovebox.conversation");
    json_write_int(&w, "version", VERSION);
    json_write_string(&w, "id", v->id);
    json_write_string(&w, "title", or_null(v->title));
    json_write_raw(&w, "metadata", v->metadata, strlen(v->metadata));
    json_write_string(&w, "session", or_null(v->session));
    json_write_string(&w, "workspace", or_null(v->workspace));
    json_write_string(&w, "model", or_null(v->model));
    json_write_string(&w, "agent", or_null(v->agent));
    json_write_time(&w, "created_at", v->created_at_ms);
    json_write_time(&w, "updated_at", v->updated_at_ms);
    json_write_open(&w, "items", '[');
    for (size_t i = 0; i < items->count; i++) {
        const struct chat_item *item = &items->list[i];

        json_write_open(&w, NULL, '{');
        json_write_time(&w, "created_at", item->created_at_ms);
        json_write_string(&w, "session", or_null(item->session));
        json_write_string(&w, "execution", or_null(item->execution));
        write_files(&w, item, base);
        write_raw(&w, "item", item->body);
        json_write_close(&w, '}');
    }
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    buf_adds(out, "\n");
}

/* ---- what Markdown and notebooks have in common -------------------------
 */

/* A fenced block; the fence is longer than any run of backticks inside. */
static void add_fenced(struct buf *out, const char *language, const char *text)
{
    size_t longest = 2, run = 0;

    for (const char *p = text; *p; p++) {
        run = *p == '`' ? run + 1 : 0;
        longest = MAX(longest, run);
    }
    for (size_t i = 0; i <= longest; i++)
        buf_adds(out, "`");
    buf_addf(out, "%s\n%s%s", language, text,
             text[0] && text[strlen(text) - 1] == '\n' ? "" : "\n");
    for (size_t i = 0; i <= longest; i++)
        buf_adds(out, "`");
    buf_adds(out, "\n");
}

/* Text that must not end or begin markup: in a link's name, on one line. */
static void add_name(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("[]\\`*_<", *text))
            buf_adds(out, "\\");
        buf_add(out, (unsigned char)*text < ' ' ? " " : text, 1);
    }
}

static void add_part(struct buf *out, const json_t *part)
{
    const char *type = text_of(part, "type");
    const char *url = text_of(part, "image_url");

    if (out->len)
        buf_adds(out, "\n\n");
    if (strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0 ||
        strcmp(type, "text") == 0 || strcmp(type, "summary_text") == 0)
        buf_adds(out, text_of(part, "text"));
    else if (strcmp(type, "refusal") == 0)
        buf_adds(out, text_of(part, "refusal"));
    else if (strcmp(type, "input_image") == 0 &&
             strncmp(url, "data:image/", 11) == 0)
        buf_addf(out, "![image](%s)", url);
    else {
        const char *name = text_of(part, "filename");

        buf_addf(out, "*%s ", strcmp(type, "input_file") == 0 ? "file" : type);
        add_name(out, name[0] ? name : text_of(part, "file_id"));
        buf_adds(out, "*");
    }
}

static void add_parts(struct buf *out, const json_t *content)
{
    const json_t *part;
    size_t i;

    if (json_is_string(content))
        buf_adds(out, json_string_value(content));
    json_array_foreach (content, i, part)
        add_part(out, part);
}

static void add_files(struct buf *out, const struct chat_item *item,
                      const char *base)
{
    for (size_t i = 0; i < item->file_count; i++) {
        const struct chat_item_file *f = &item->files[i];

        buf_adds(out, "- ");
        if (!is_gone(f)) {
            buf_adds(out, "[");
            add_name(out, f->path);
            buf_adds(out, "](");
            add_address(base, f, out);
            buf_adds(out, ")");
        } else
            add_name(out, f->path);
        buf_addf(out, " %s\n", f->change);
    }
}

/* What an item that ran no code says, as Markdown; nothing for one that only
 * matters to the model. */
static void add_item(struct buf *out, const struct chat_item *item)
{
    struct buf text cleanup(buf_done) = {0};

    if (is(item, "message")) {
        const char *role = text_of(item->body, "role");

        add_parts(&text, json_object_get(item->body, "content"));
        buf_addf(out, "**%c%s**\n\n%s\n",
                 role[0] >= 'a' && role[0] <= 'z' ? role[0] - 'a' + 'A'
                 : role[0]                        ? role[0]
                                                  : '?',
                 role[0] ? role + 1 : "", text.data ? text.data : "");
    } else if (is(item, "reasoning")) {
        add_parts(&text, json_object_get(item->body, "summary"));
        if (text.len)
            buf_addf(out, "**Reasoning**\n\n%s\n", text.data);
    } else if (is(item, "function_call")) {
        buf_adds(out, "**Function call** `");
        add_name(out, text_of(item->body, "name"));
        buf_adds(out, "`\n\n");
        add_fenced(out, "json", text_of(item->body, "arguments"));
    } else if (is(item, "function_call_output")) {
        add_parts(&text, json_object_get(item->body, "output"));
        buf_adds(out, "**Function output**\n\n");
        add_fenced(out, "", text.data ? text.data : "");
    }
}

/* ---- Markdown -----------------------------------------------------------
 */

static void add_code(struct buf *out, const struct chat_item *item,
                     const char *base)
{
    const json_t *output;
    size_t i;

    buf_adds(out, "**Code**\n\n");
    add_fenced(out, "python", text_of(item->body, "code"));
    json_array_foreach (json_object_get(item->body, "outputs"), i, output) {
        buf_adds(out, "\n");
        if (strcmp(text_of(output, "type"), "logs") == 0)
            add_fenced(out, "text", text_of(output, "logs"));
        else if (strncmp(text_of(output, "url"), "data:image/", 11) == 0)
            buf_addf(out, "![output](%s)\n", text_of(output, "url"));
    }
    if (item->file_count)
        buf_adds(out, "\n");
    add_files(out, item, base);
}

static void write_markdown(const struct chat_conversation *v,
                           const struct chat_items *items, const char *base,
                           struct buf *out)
{
    char at[32];

    buf_adds(out, "# ");
    add_name(out, v->title && v->title[0] ? v->title : v->id);
    buf_addf(out, "\n\nConversation `%s`, begun %s.\n", v->id,
             clock_format_ms(v->created_at_ms, at));
    for (size_t i = 0; i < items->count; i++) {
        struct buf text cleanup(buf_done) = {0};

        if (is(&items->list[i], "code_interpreter_call"))
            add_code(&text, &items->list[i], base);
        else
            add_item(&text, &items->list[i]);
        if (text.len)
            buf_addf(out, "\n---\n\n%s", text.data);
    }
}

/* ---- notebook -----------------------------------------------------------
 */

/* "data:image/png;base64,…" to its type and data; NULL: no such thing. */
static json_t *bundle(const char *url)
{
    const char *comma = strchr(url, ',');
    size_t head = comma ? (size_t)(comma - url) : 0;
    char type[64];

    if (strncmp(url, "data:image/", 11) != 0 || !comma || head < 12 ||
        head - 5 >= sizeof(type) + 7 || strncmp(comma - 7, ";base64", 7) != 0)
        return NULL;
    memcpy(type, url + 5, head - 5 - 7);
    type[head - 5 - 7] = '\0';
    return json_pack("{s:s}", type, comma + 1);
}

static json_t *outputs_of(const struct chat_item *item)
{
    json_t *list = json_array();
    const json_t *output;
    size_t i;

    json_array_foreach (json_object_get(item->body, "outputs"), i, output) {
        json_t *data = bundle(text_of(output, "url"));

        if (strcmp(text_of(output, "type"), "logs") == 0)
            (void)json_array_append_new(
                list,
                json_pack("{s:s, s:s, s:s}", "output_type", "stream", "name",
                          "stdout", "text", text_of(output, "logs")));
        else if (data)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:O, s:{}}", "output_type",
                                "display_data", "data", data, "metadata"));
        json_decref(data);
    }
    return list;
}

struct notebook {
    json_t *cells;
    unsigned code;
};

static void add_cell(struct notebook *n, json_t *taken)
{
    char id[32];

    (void)snprintf(id, sizeof(id), "cell-%zu", json_array_size(n->cells) + 1);
    (void)json_object_set_new(taken, "id", json_string(id));
    (void)json_object_set_new(taken, "metadata", json_object());
    (void)json_array_append_new(n->cells, taken);
}

static void add_words(struct notebook *n, const struct buf *text)
{
    size_t len = text->len;

    while (len && text->data[len - 1] == '\n')
        len--;
    if (len)
        add_cell(n, json_pack("{s:s, s:s%}", "cell_type", "markdown", "source",
                              text->data, len));
}

static void write_notebook(const struct chat_conversation *v,
                           const struct chat_items *items, const char *base,
                           struct buf *out)
{
    struct notebook n = {.cells = json_array()};
    struct buf title cleanup(buf_done) = {0};
    json_t *book cleanup(json_unref) = json_pack(
        "{s:o, s:{s:{s:s, s:s, s:s}, s:{s:s}, s:{s:s}}, s:i, s:i}", "cells",
        n.cells, "metadata", "kernelspec", "name", "python3", "display_name",
        "Python 3", "language", "python", "language_info", "name", "python",
        "glovebox", "conversation", v->id, "nbformat", 4, "nbformat_minor", 5);
    char *text cleanup(mem_free) = NULL;

    buf_adds(&title, "# ");
    add_name(&title, v->title && v->title[0] ? v->title : v->id);
    add_words(&n, &title);
    for (size_t i = 0; i < items->count; i++) {
        const struct chat_item *item = &items->list[i];
        struct buf words cleanup(buf_done) = {0};

        if (is(item, "code_interpreter_call")) {
            add_cell(&n, json_pack("{s:s, s:s, s:o, s:i}", "cell_type", "code",
                                   "source", text_of(item->body, "code"),
                                   "outputs", outputs_of(item),
                                   "execution_count", (int)++n.code));
            add_files(&words, item, base);
        } else
            add_item(&words, item);
        add_words(&n, &words);
    }
    text = json_dumps(book, JSON_INDENT(1));
    buf_adds(out, text ? text : "{}");
    buf_adds(out, "\n");
}

void chat_export_write(enum chat_export_format format,
                       const struct chat_conversation *conversation,
                       const struct chat_items *items, const char *base,
                       struct buf *out)
{
    switch (format) {
    case CHAT_EXPORT_JSON:
        write_json(conversation, items, base, out);
        return;
    case CHAT_EXPORT_MARKDOWN:
        write_markdown(conversation, items, base, out);
        return;
    case CHAT_EXPORT_IPYNB:
        write_notebook(conversation, items, base, out);
        return;
    }
}
