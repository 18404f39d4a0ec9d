/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of an execution, a short line each: what was kept, under which
 * id and in which workspace; and what was not kept as the code left it, which
 * is said whether anybody watches or not.
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

/* Not kept as the code left it. */
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

/* Lists of an execution's files; what people are told either way. */
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

void cli_made_lines(const json_t *execution, bool mention, size_t most,
                    struct buf *out)
{
    const json_t *files = json_object_get(execution, "files");
    size_t lines = 0, more = 0;

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        const json_t *list = json_object_get(files, kinds[k].list);

        if (kinds[k].done && !mention)
            continue;
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *one = json_array_get(list, i);

            if (lines == most)
                more++;
            else if (kinds[k].done)
                add_done(out, one, kinds[k].word);
            else
                add_other(out, one, kinds[k].word);
            lines += lines < most;
        }
    }
    if (more)
        buf_addf(out, "and %zu more\n", more);
    if (json_is_true(json_object_get(files, "truncated")))
        buf_adds(out, "and more than are listed\n");
    if (mention && lines)
        buf_addf(out, "in workspace %s\n",
                 cli_json_text(execution, "workspace", "unknown"));
}

size_t cli_made_count(const json_t *execution)
{
    const json_t *files = json_object_get(execution, "files");

    return json_array_size(json_object_get(files, "created")) +
           json_array_size(json_object_get(files, "modified"));
}

void cli_made_show(const struct cli *c, const json_t *execution, bool mention)
{
    struct buf text cleanup(buf_done) = {0};
    struct buf safe cleanup(buf_done) = {0};
    struct cli_guard guard = {.plain = true};

    if (c->json)
        return;
    cli_made_lines(execution, mention, LINES_MAX, &text);
    if (!text.len)
        return;
    /* Names come from the session. */
    cli_guard_feed(&guard, text.data, text.len, &safe);
    (void)fflush(stdout);
    (void)fwrite(safe.data, 1, safe.len, stderr);
}
