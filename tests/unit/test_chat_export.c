/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation as JSON, Markdown and a notebook. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "chat/conversations.h"

static char id[] = "conv_1", metadata[] = "{\"k\":\"v\"}",
            title[] = "A [title]";

static void add(struct chat_items *items, const char *json)
{
    json_t *body = json_loads(json, 0, NULL);

    assert_non_null(body);
    (void)chat_items_add(items, body);
}

static void fill(struct chat_items *items)
{
    struct chat_item_file *f;
    struct chat_item *run;

    add(items, "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"user\","
               "\"content\":[{\"type\":\"input_text\",\"text\":\"plot it\"},"
               "{\"type\":\"input_file\",\"filename\":\"a*b.csv\"}]}");
    add(items, "{\"id\":\"ci_1\",\"type\":\"code_interpreter_call\","
               "\"code\":\"print('```')\",\"outputs\":[{\"type\":\"logs\","
               "\"logs\":\"```\\n\"},{\"type\":\"image\",\"url\":"
               "\"data:image/png;base64,AAAA\"},{\"type\":\"image\",\"url\":"
               "\"http://elsewhere/x.png\"}]}");
    run = &items->list[items->count - 1];
    run->file_count = 2;
    run->files = xcalloc(2, sizeof(*run->files));
    f = run->files;
    for (int i = 0; i < 2; i++, f++) {
        f->path = xstrdup(i ? "old.txt" : "chart.png");
        (void)snprintf(f->file, sizeof(f->file), "file_%d", i);
        (void)snprintf(f->version, sizeof(f->version), "ver_%d", i);
        (void)snprintf(f->change, sizeof(f->change), "%s",
                       i ? "deleted" : "created");
    }
    (void)snprintf(run->execution, sizeof(run->execution), "exec_1");
    add(items, "{\"id\":\"rs_1\",\"type\":\"reasoning\",\"summary\":[]}");
    add(items, "{\"id\":\"fc_1\",\"type\":\"function_call\",\"name\":\"f\","
               "\"arguments\":\"{}\",\"call_id\":\"c\"}");
    add(items, "{\"id\":\"msg_2\",\"type\":\"message\",\"role\":\"assistant\","
               "\"content\":[{\"type\":\"output_text\",\"text\":\"done\"}]}");
}

static void export(enum chat_export_format format, struct buf *out)
{
    struct chat_conversation v = {
        .metadata = metadata, .title = title, .created_at_ms = 1};
    struct chat_items items cleanup(chat_items_done) = {0};

    memcpy(v.id, id, sizeof(id));
    fill(&items);
    chat_export_write(format, &v, &items, "http://h", out);
}

static void json_has_everything(void **state)
{
    struct buf out cleanup(buf_done) = {0};
    json_t *doc, *run;

    (void)state;
    export(CHAT_EXPORT_JSON, &out);
    doc = json_loads(out.data, 0, NULL);
    assert_non_null(doc);
    assert_string_equal(json_string_value(json_object_get(doc, "title")),
                        title);
    assert_int_equal(json_array_size(json_object_get(doc, "items")), 5);
    run = json_array_get(json_object_get(doc, "items"), 1);
    assert_string_equal(json_string_value(json_object_get(run, "execution")),
                        "exec_1");
    assert_int_equal(json_array_size(json_object_get(
                         json_object_get(run, "item"), "outputs")),
                     3);
    assert_string_equal(
        json_string_value(json_object_get(
            json_array_get(json_object_get(run, "files"), 0), "url")),
        "http://h/api/files/file_0/content?version=ver_0");
    assert_true(json_is_null(json_object_get(
        json_array_get(json_object_get(run, "files"), 1), "url")));
    json_decref(doc);
}

static void markdown_keeps_text_apart_from_markup(void **state)
{
    static const char *const parts[] = {
        "# A \\[title\\]\n",
        "**User**\n\nplot it\n\n*file a\\*b.csv*\n",
        "````python\nprint('```')\n````\n",
        "````text\n```\n````\n",
        "![output](data:image/png;base64,AAAA)\n",
        "- [chart.png](http://h/api/files/file_0/content?version=ver_0) "
        "created\n- old.txt deleted\n",
        "**Assistant**\n\ndone\n",
    };
    struct buf out cleanup(buf_done) = {0};

    (void)state;
    export(CHAT_EXPORT_MARKDOWN, &out);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (!strstr(out.data, parts[i]))
            fail_msg("missing: %s\nin: %s", parts[i], out.data);
    assert_null(strstr(out.data, "elsewhere"));
    assert_null(strstr(out.data, "Reasoning"));
}

static void notebook_has_cells_and_outputs(void **state)
{
    struct buf out cleanup(buf_done) = {0};
    json_t *doc, *cells, *code, *outputs;

    (void)state;
    export(CHAT_EXPORT_IPYNB, &out);
    doc = json_loads(out.data, 0, NULL);
    assert_non_null(doc);
    assert_int_equal(
        json_integer_value(json_object_get(doc, "nbformat_minor")), 5);
    cells = json_object_get(doc, "cells");
    /* title, question, code, its files, function call, answer */
    assert_int_equal(json_array_size(cells), 6);
    code = json_array_get(cells, 2);
    assert_string_equal(json_string_value(json_object_get(code, "cell_type")),
                        "code");
    outputs = json_object_get(code, "outputs");
    assert_int_equal(json_array_size(outputs), 2);
    assert_string_equal(
        json_string_value(json_object_get(
            json_object_get(json_array_get(outputs, 1), "data"), "image/png")),
        "AAAA");
    json_decref(doc);
}

static void format_names(void **state)
{
    enum chat_export_format f = CHAT_EXPORT_JSON;

    (void)state;
    assert_true(chat_export_format("ipynb", &f) && f == CHAT_EXPORT_IPYNB);
    assert_true(chat_export_format("markdown", &f) &&
                f == CHAT_EXPORT_MARKDOWN);
    assert_false(chat_export_format("pdf", &f));
    assert_string_equal(chat_export_suffix(CHAT_EXPORT_MARKDOWN), ".md");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_everything),
        cmocka_unit_test(markdown_keeps_text_apart_from_markup),
        cmocka_unit_test(notebook_has_cells_and_outputs),
        cmocka_unit_test(format_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
