/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of an execution, a line each: what was stored, with its id and
 * workspace; and what was not stored as the code left it, which is printed
 * even if the output is no terminal.
 */
#include <string.h>

#include "base/mem.h"
#include "cli/cli_int.h"

#define LINES_MAX 20

static void add_done(struct buf *out, const json_t *file, const char *change)
{
    const char *from = cli_json_text(file, "from", "");
    const char *id = cli_json_text(file, "file_id", "");
    char size[16];

    buf_addf(out, "%s %s", change, cli_json_text(file, "path", "?"));
    if (*from)
        buf_addf(out, " (from %s)", from);
    if (json_is_integer(json_object_get(file, "size")) &&
        strcmp(change, "deleted") != 0)
        buf_addf(out, ", %s",
                 cli_format_size(cli_json_number(file, "size"), size));
    if (*id)
        buf_addf(out, ", %s", id);
    buf_adds(out, "\n");
}

/* Not stored as the code left it. */
static void add_other(struct buf *out, const json_t *file, const char *kind)
{
    const char *path = cli_json_text(file, "path", "?");
    const char *wanted = cli_json_text(file, "wanted", path);

    buf_addf(out, "%s %s", kind, wanted);
    if (strcmp(wanted, path) != 0)
        buf_addf(out, ", kept as %s", path);
    buf_addf(out, ": %s\n",
             cli_json_text(file, "reason", "others changed it meanwhile"));
}

/* Lists of an execution's files; done: stored as the code left them. */
static const struct {
    const char *list;
    const char *word;
    bool done;
} kinds[] = {
    {"created", "created", true},      {"modified", "modified", true},
    {"renamed", "renamed", true},      {"deleted", "deleted", true},
    {"conflicts", "conflict:", false}, {"refused", "not kept:", false},
    {"skipped", "not kept:", false},
};

void cli_file_summary_lines(const json_t *execution, bool all, size_t max,
                            struct buf *out)
{
    const json_t *files = json_object_get(execution, "files");
    size_t lines = 0, more = 0;

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        const json_t *list = json_object_get(files, kinds[k].list);

        if (kinds[k].done && !all)
            continue;
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *one = json_array_get(list, i);

            if (lines == max)
                more++;
            else if (kinds[k].done)
                add_done(out, one, kinds[k].word);
            else
                add_other(out, one, kinds[k].word);
            lines += lines < max;
        }
    }
    if (more)
        buf_addf(out, "and %zu more\n", more);
    if (json_is_true(json_object_get(files, "truncated")))
        buf_adds(out, "and more than are listed\n");
    if (all && lines)
        buf_addf(out, "in workspace %s\n",
                 cli_json_text(execution, "workspace", "unknown"));
}

size_t cli_file_summary_count(const json_t *execution)
{
    const json_t *files = json_object_get(execution, "files");

    return json_array_size(json_object_get(files, "created")) +
           json_array_size(json_object_get(files, "modified"));
}

void cli_file_summary_print(const struct cli *c, const json_t *execution,
                            bool all)
{
    struct buf text cleanup(buf_done) = {0};
    struct buf safe cleanup(buf_done) = {0};
    struct cli_filter filter = {.plain = true};

    if (c->json)
        return;
    cli_file_summary_lines(execution, all, LINES_MAX, &text);
    if (!text.len)
        return;
    /* Names come from the session. */
    cli_filter_feed(&filter, text.data, text.len, &safe);
    (void)fflush(stdout);
    (void)fwrite(safe.data, 1, safe.len, stderr);
}
