/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox conversations: every file that a conversation produced. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

static int files(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column columns[] = {
        {"AT", "at", .kind = CLI_COLUMN_TEXT},
        {"MESSAGE", "message", .kind = CLI_COLUMN_TEXT},
        {"CHANGE", "change", .kind = CLI_COLUMN_TEXT},
        {"WORKSPACE", "workspace", .kind = CLI_COLUMN_TEXT},
        {"PATH", "path", .kind = CLI_COLUMN_TEXT},
        {"SIZE", "size", .kind = CLI_COLUMN_SIZE},
        {"VERSION", "version", .kind = CLI_COLUMN_TEXT},
    };
    json_t *all cleanup(json_unref) = NULL;
    struct buf url cleanup(buf_done) = {0};
    const uint64_t *limit = arg;
    struct error err;

    buf_adds(&url, "/api/conversations/");
    cli_http_escape(&url, words->items[0], false);
    buf_adds(&url, "/files");
    if (cli_remote_list(c, url.data, "version", *limit, &all, &err) < 0)
        return cli_fail(c, &err);
    cli_show_list(c, all, columns, ARRAY_SIZE(columns));
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"files", 1, 1, files},
};

int cli_conversations(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    uint64_t limit = 0;
    const struct cli_opt table[] = {
        {"limit", 'n', CLI_OPT_COUNT, &limit, "N", "at most so many", NULL},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "ID is what runs were given as their conversation: `glovebox run\n"
        "--conversation ID --message ID`, or an execution's metadata. Oldest\n"
        "first; files stay listed after they were changed or deleted.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "conversations");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &limit);
}
