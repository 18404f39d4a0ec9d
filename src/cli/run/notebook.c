/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a Jupyter notebook (nbformat 4): its code cells in order, one execution
 * each, shown as they run; and puts what they produced into the notebook.
 * Called by run.c.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

/* A cell's text is a string or a list of lines; owned by caller. */
static char *cell_source(const json_t *cell)
{
    const json_t *source = json_object_get(cell, "source"), *line;
    struct buf text cleanup(buf_done) = {0};
    size_t i;

    buf_adds(&text, json_is_string(source) ? json_string_value(source) : "");
    json_array_foreach (source, i, line)
        buf_adds(&text, json_is_string(line) ? json_string_value(line) : "");
    return buf_take(&text, NULL);
}

static void add_stream(json_t *outputs, const char *name,
                       const json_t *execution)
{
    const char *text = cli_json_text(execution, name, "");

    if (*text)
        (void)json_array_append_new(
            outputs, json_pack("{s:s, s:s, s:s}", "output_type", "stream",
                               "name", name, "text", text));
}

static void add_bundle(json_t *outputs, const char *type, const json_t *bundle,
                       size_t count)
{
    json_t *one;

    if (!json_is_object(bundle))
        return;
    one = json_pack("{s:s, s:O, s:{}}", "output_type", type, "data", bundle,
                    "metadata");
    if (count)
        (void)json_object_set_new(one, "execution_count",
                                  json_integer((json_int_t)count));
    (void)json_array_append_new(outputs, one);
}

/* The outputs of an execution in the notebook format. */
static void set_outputs(json_t *cell, const json_t *execution, size_t count)
{
    const json_t *displays = json_object_get(execution, "displays"), *one;
    const json_t *error = json_object_get(execution, "error");
    json_t *outputs = json_array();
    size_t i;

    add_stream(outputs, "stdout", execution);
    add_stream(outputs, "stderr", execution);
    json_array_foreach (displays, i, one)
        add_bundle(outputs, "display_data", one, 0);
    add_bundle(outputs, "execute_result", json_object_get(execution, "result"),
               count);
    if (json_is_object(error)) {
        json_t *lines = json_object_get(error, "traceback");

        (void)json_array_append_new(
            outputs,
            json_pack("{s:s, s:s, s:s, s:o}", "output_type", "error", "ename",
                      cli_json_text(error, "name", "error"), "evalue",
                      cli_json_text(error, "message", ""), "traceback",
                      json_is_array(lines) ? json_incref(lines)
                                           : json_array()));
    }
    (void)json_object_set_new(cell, "outputs", outputs);
    (void)json_object_set_new(cell, "execution_count",
                              json_integer((json_int_t)count));
}

int cli_notebook_run(struct cli *c, const struct cli_execute *what,
                     json_t *notebook, json_t **ret, struct error *err)
{
    json_t *cells = json_object_get(notebook, "cells"), *cell;
    size_t i, count = 0;

    json_array_foreach (cells, i, cell) {
        char *source cleanup(mem_free) = cell_source(cell);
        struct cli_execute one = *what;
        json_t *execution = NULL;
        int r;

        if (strcmp(cli_json_text(cell, "cell_type", ""), "code") != 0 ||
            source[strspn(source, " \t\r\n")] == '\0')
            continue;
        if (c->tty_err && !c->json)
            (void)fprintf(stderr, "cell %zu of %zu\n", i + 1,
                          json_array_size(cells));
        one.code = source;
        one.code_len = strlen(source);
        one.lasting = true;
        r = cli_execute(c, &one, &execution, err);
        if (r < 0)
            return r;
        set_outputs(cell, execution, ++count);
        json_decref(*ret);
        *ret = execution;
        if (cli_outcome_exit(execution) != CLI_EXIT_OK) {
            (void)fprintf(stderr, "glovebox: cell %zu of %zu failed\n", i + 1,
                          json_array_size(cells));
            return 0;
        }
    }
    return *ret ? 0
                : error_set(err, ERR_INVALID,
                            "the notebook has no cell with code");
}
