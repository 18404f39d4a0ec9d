/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox conversations: what was said, the code it led to, and every file
 * that a conversation produced; exports and deletes.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/common.h"

struct conversation_flags {
    uint64_t limit;
    const char *format, *output;
};

/* ---- show ---------------------------------------------------------------
 */

static void add_parts(struct buf *out, const json_t *content)
{
    static const char *const members[] = {"text", "refusal", "filename",
                                          "file_id", "type"};
    const json_t *part;
    size_t i;

    if (json_is_string(content))
        buf_adds(out, json_string_value(content));
    json_array_foreach (content, i, part)
        for (size_t k = 0; k < ARRAY_SIZE(members); k++) {
            const char *text = cli_json_text(part, members[k], NULL);

            if (!text)
                continue;
            buf_addf(out, "%s%s%s%s", i ? "\n" : "", k > 1 ? "[" : "", text,
                     k > 1 ? "]" : "");
            break;
        }
}

/* Text with every line moved to the right. */
static void add_indented(struct buf *out, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");

        buf_adds(out, "    ");
        buf_add(out, text, len);
        buf_adds(out, "\n");
        text += len + (text[len] == '\n');
    }
}

static void add_code(struct buf *out, const json_t *item)
{
    const json_t *output;
    size_t i;

    add_indented(out, cli_json_text(item, "code", ""));
    json_array_foreach (json_object_get(item, "outputs"), i, output) {
        const char *logs = cli_json_text(output, "logs", NULL);

        if (logs)
            buf_addf(out, "%s%s", logs,
                     logs[0] && logs[strlen(logs) - 1] != '\n' ? "\n" : "");
        else
            buf_addf(out, "[%s]\n", cli_json_text(output, "type", "output"));
    }
}

static void add_item(struct buf *out, const json_t *row, bool color)
{
    const json_t *item = json_object_get(row, "item"), *file;
    const char *type = cli_json_text(row, "type", "");
    const char *execution = cli_json_text(row, "execution", "");
    struct buf text cleanup(buf_done) = {0};
    size_t i;

    buf_addf(out, "%s%s%s%s%s\n", color ? "\033[1m" : "",
             strcmp(type, "message") == 0 ? cli_json_text(item, "role", type)
                                          : type,
             execution[0] ? " " : "", execution, color ? "\033[0m" : "");
    if (strcmp(type, "message") == 0)
        add_parts(&text, json_object_get(item, "content"));
    else if (strcmp(type, "code_interpreter_call") == 0)
        add_code(&text, item);
    else if (strcmp(type, "reasoning") == 0)
        add_parts(&text, json_object_get(item, "summary"));
    else if (strcmp(type, "function_call") == 0)
        buf_addf(&text, "%s(%s)", cli_json_text(item, "name", ""),
                 cli_json_text(item, "arguments", ""));
    else if (strcmp(type, "function_call_output") == 0)
        add_parts(&text, json_object_get(item, "output"));
    if (text.len)
        buf_addf(out, "%s%s", text.data,
                 text.data[text.len - 1] == '\n' ? "" : "\n");
    json_array_foreach (json_object_get(row, "files"), i, file)
        buf_addf(out, "  %s %s %s\n", cli_json_text(file, "change", ""),
                 cli_json_text(file, "path", ""),
                 cli_json_text(file, "version", ""));
    buf_adds(out, "\n");
}

static int print_items(struct cli_call *call)
{
    const json_t *row;
    size_t i;

    json_array_foreach (call->answer, i, row) {
        struct buf text cleanup(buf_done) = {0};

        add_item(&text, row, call->c->color_out);
        cli_show_text(call->c, text.data, text.len);
    }
    return CLI_EXIT_OK;
}

/* ---- export -------------------------------------------------------------
 */

static int export_conversation(struct cli *c, const struct cli_words *words,
                               void *arg)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    const struct conversation_flags *f = arg;
    struct buf url cleanup(buf_done) = {0};
    int fd cleanup(fd_close) = -1;
    struct error err;

    buf_adds(&url, "/api/conversations/");
    cli_http_escape(&url, words->items[0], false);
    buf_adds(&url, "/export");
    cli_http_query(&url, "format", f->format);
    t.method = "GET";
    t.path = url.data;
    t.unhurried = true;
    if (cli_transfer_run(c, &t, &err) < 0)
        return cli_fail(c, &err);
    if (t.status != 200) {
        json_t *body cleanup(json_unref) =
            cli_json_load(t.answer.data, t.answer.len);

        (void)cli_refused(body, t.status, c->base, &err);
        return cli_fail(c, &err);
    }
    if (!f->output || strcmp(f->output, "-") == 0) {
        cli_show_text(c, t.answer.data, t.answer.len);
        return CLI_EXIT_OK;
    }
    fd = open(f->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, t.answer.data, t.answer.len) < 0) {
        (void)error_errno(&err, ERR_INVALID, errno, "cannot write %s",
                          f->output);
        return cli_fail(c, &err);
    }
    return CLI_EXIT_OK;
}

/* ---- the command --------------------------------------------------------
 */

static const struct cli_column file_columns[] = {
    {"AT", "at", .kind = CLI_COLUMN_TIME},
    {"MESSAGE", .member = "message"},
    {"CHANGE", .member = "change"},
    {"WORKSPACE", "workspace", .kind = CLI_COLUMN_ID},
    {"PATH", .member = "path"},
    {"SIZE", "size", .kind = CLI_COLUMN_SIZE},
    {"VERSION", "version", .kind = CLI_COLUMN_ID, .wide = true},
    {0},
};

static const struct cli_column columns[] = {
    {"ID", .member = "id"},
    {"TITLE", .member = "title"},
    {"LAST", "last_at", .kind = CLI_COLUMN_TIME},
    {"FIRST", "first_at", .kind = CLI_COLUMN_TIME, .wide = true},
    {"MESSAGES", .member = "messages"},
    {"EXECUTIONS", .member = "executions"},
    {"FILES", .member = "files"},
    {"MODEL", .member = "model", .wide = true},
    {"SESSION", "session", .kind = CLI_COLUMN_ID, .wide = true},
    {0},
};

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List conversations, the most recently used first",
     "GET", "/api/conversations", .cursor = "id", .columns = columns},
    {"show", NULL, "ID",
     "Show what was said, what ran and which files it made", "GET",
     "/api/conversations/{ID}/items", .cursor = "id", .print = print_items},
    {"files", NULL, "ID", "List the files of a conversation, oldest first",
     "GET", "/api/conversations/{ID}/files", .cursor = "version",
     .columns = file_columns},
    {"export", NULL, "ID", "Write a conversation as a document",
     .run = export_conversation},
    {"rename", NULL, "ID TITLE", "Give a conversation a title", "PATCH",
     "/api/conversations/{ID}", .body = "title={TITLE}",
     .sentence = "{ID} is now '{TITLE}'"},
    {"delete", "rm", "ID...",
     "Delete conversations with their responses, sessions and files", "DELETE",
     "/api/conversations/{ID}", .sentence = "deleted {ID}",
     .json = "deleted={ID}"},
    {0},
};

#define AT(member) offsetof(struct conversation_flags, member)

static const struct cli_option options[] = {
    {"limit", 'n', CLI_OPT_COUNT, AT(limit), "N", "list at most N",
     "list show files"},
    {"format", 0, CLI_OPT_TEXT, AT(format), "F",
     "json (the default), markdown or ipynb", "export"},
    {"output", 'o', CLI_OPT_TEXT, AT(output), "FILE",
     "write to this file, not to standard output", "export"},
    {0},
};

const struct cli_command cli_conversations = {
    .name = "conversations",
    .summary = "Conversations: messages, the code they ran, their files",
    .notes =
        "ID is conv_..., or the conversation that executions were given:\n"
        "`glovebox run --conversation ID --message ID`, or an execution's\n"
        "metadata; of these only the files are known. Files stay listed after\n"
        "they were changed or deleted. `delete` keeps a conversation whose\n"
        "workspace is under legal hold, and a workspace that has a name.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct conversation_flags),
    .verbs = verbs,
};
