/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage and help from the descriptions of commands (command.h), for people
 * and, with `glovebox help --dump`, for programs: documents, manual pages and
 * completions are made of the dump.
 */
#include <string.h>

#include "base/mem.h"
#include "cli/common.h"

#define WIDTH 79u
#define FIRST 7u   /* where "glovebox" begins */
#define INDENT 16u /* of a form's further lines */

static const char exit_codes[] =
    "Exit status:\n"
    "  0  it worked                     5  a limit, or out of memory\n"
    "  1  the code failed               6  killed or crashed\n"
    "  2  wrong command line            7  cancelled\n"
    "  3  glovebox itself failed        8  a wall could not be built\n"
    "  4  the code ran out of time      9  denied by policy\n"
    "                                  10  waits for approval\n";

/* Is the option part of the verb's form? Not if it is another name for an
 * earlier option or for a word. */
static bool is_in_form(const struct cli_command *command,
                       const struct cli_option *option,
                       const struct cli_verb *verb)
{
    if (option->verbs && !cli_command_listed(option->verbs, verb->name))
        return false;
    for (const struct cli_option *o = command->options; o != option; o++)
        if (o->offset == option->offset)
            return false;
    return !option->arg || !cli_command_listed(verb->words, option->arg);
}

/* "[--ttl TIME]", "--lock-file FILE", "[--allow HOST]..." */
static void add_option(struct buf *out, const struct cli_option *o,
                       const struct cli_verb *verb)
{
    bool needed = cli_command_listed(verb->needs, o->name);

    buf_addf(out, "%s--%s%s%s%s%s", needed ? "" : "[", o->name,
             o->arg ? " " : "", o->arg ? o->arg : "", needed ? "" : "]",
             o->type == CLI_OPT_LIST ? "..." : "");
}

/* One form as pieces that are not to be broken, a line end after each. */
static void add_form(struct buf *out, const struct cli_command *command,
                     const struct cli_verb *verb)
{
    bool is_default = verb == command->verbs && !verb->needs &&
                      (!verb->words || verb->words[0] == '[');

    buf_addf(out, "glovebox %s\n", command->name);
    if (*verb->name)
        buf_addf(out, is_default ? "[%s]\n" : "%s\n", verb->name);
    if (verb->words)
        buf_addf(out, "%s\n", verb->words);
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (is_in_form(command, o, verb)) {
            add_option(out, o, verb);
            buf_adds(out, "\n");
        }
}

static void print_form(FILE *out, const char *lead, const char *pieces)
{
    size_t column = 0;

    while (*pieces) {
        size_t len = strcspn(pieces, "\n");

        if (column == 0) {
            (void)fprintf(out, "%-*s%.*s", (int)FIRST, lead, (int)len, pieces);
            column = FIRST + len;
        } else if (column + 1 + len > WIDTH) {
            (void)fprintf(out, "\n%*s%.*s", (int)INDENT, "", (int)len, pieces);
            column = INDENT + len;
        } else {
            (void)fprintf(out, " %.*s", (int)len, pieces);
            column += 1 + len;
        }
        pieces += len + 1;
    }
    (void)fputc('\n', out);
}

void cli_help_usage(FILE *out, const struct cli_command *command,
                    const struct cli_verb *verb)
{
    const char *lead = "usage:";

    for (const struct cli_verb *v = command->verbs; v && v->name; v++) {
        struct buf pieces cleanup(buf_done) = {0};

        if (verb && v != verb)
            continue;
        add_form(&pieces, command, v);
        print_form(out, lead, pieces.data);
        lead = "";
    }
    for (const char *line = command->usage; line && *line;) {
        size_t len = strcspn(line, "\n");

        if (line[0] == ' ')
            (void)fprintf(out, "%*s%.*s\n", (int)INDENT, "", (int)len, line);
        else
            (void)fprintf(out, "%-6s glovebox %.*s\n", lead, (int)len, line);
        lead = "";
        line += len + (line[len] == '\n');
    }
}

void cli_help_verbs(FILE *out, const struct cli_command *command)
{
    if (!command->verbs || !command->verbs->name[0])
        return;
    (void)fputc('\n', out);
    for (const struct cli_verb *v = command->verbs; v->name; v++) {
        (void)fprintf(out, "  %-14s %s\n", v->name, v->help);
    }
}

void cli_help_program(FILE *out)
{
    (void)fputs("usage: glovebox COMMAND [ARGUMENTS]\n\n"
                "Runs untrusted code in isolated sessions that keep their "
                "state.\n\nCommands:\n",
                out);
    for (size_t i = 0; cli_commands[i]; i++)
        (void)fprintf(out, "  %-13s %s\n", cli_commands[i]->name,
                      cli_commands[i]->summary);
    (void)fputs(
        "\n`glovebox help COMMAND` explains a command; `glovebox --version` "
        "prints the version.\n\n"
        "The service is found by GLOVEBOX_URL and GLOVEBOX_KEY, else in the "
        "data\ndirectory (--data, GLOVEBOX_DATA_DIR). `run` and `shell` can use "
        "a throwaway\nservice of their own: with --embedded, or when there is "
        "no service and no data\ndirectory.\n\n",
        out);
    (void)fputs(exit_codes, out);
}

/* ---- the dump ----------------------------------------------------------- */

static void set_text(json_t *object, const char *member, const char *text)
{
    if (text)
        (void)json_object_set_new(object, member, json_string(text));
}

static json_t *dump_option(const struct cli_option *o)
{
    static const char *const types[] = {
        [CLI_OPT_FLAG] = "flag",         [CLI_OPT_TEXT] = "text",
        [CLI_OPT_COMMAS] = "list",       [CLI_OPT_SWITCH] = "on|off",
        [CLI_OPT_LIST] = "repeated",     [CLI_OPT_SECONDS] = "seconds",
        [CLI_OPT_DURATION] = "duration", [CLI_OPT_COUNT] = "number",
        [CLI_OPT_SIZE] = "size",         [CLI_OPT_TIME] = "time",
        [CLI_OPT_FORMAT] = "format",
    };
    json_t *out = json_pack("{s:s, s:s, s:s}", "name", o->name, "type",
                            types[o->type], "help", o->help);

    if (o->letter)
        (void)json_object_set_new(out, "letter", json_stringn(&o->letter, 1));
    set_text(out, "argument", o->arg);
    set_text(out, "verbs", o->verbs);
    return out;
}

static bool has_option(const struct cli_command *command, const char *name)
{
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (strcmp(o->name, name) == 0)
            return true;
    return false;
}

static json_t *dump_verb(const struct cli_command *command,
                         const struct cli_verb *v)
{
    json_t *out = json_pack("{s:s}", "name", v->name);
    struct buf form cleanup(buf_done) = {0};

    add_form(&form, command, v);
    form.data[form.len - 1] = '\0';
    for (char *p = form.data; *p; p++)
        if (*p == '\n')
            *p = ' ';
    set_text(out, "usage", form.data);
    set_text(out, "help", v->help);
    set_text(out, "aliases", v->aliases);
    set_text(out, "words", v->words);
    set_text(out, "needs", v->needs);
    set_text(out, "method", v->method);
    set_text(out, "path", v->path);
    set_text(out, "prints", v->value);
    if (v->columns) {
        json_t *columns = json_array();

        for (const struct cli_column *c = v->columns; c->heading; c++)
            (void)json_array_append_new(columns, json_string(c->heading));
        (void)json_object_set_new(out, "columns", columns);
    }
    return out;
}

json_t *cli_help_dump(void)
{
    json_t *all = json_array();

    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *command = cli_commands[i];
        json_t *verbs = json_array(), *options = json_array();
        json_t *one =
            json_pack("{s:s, s:s, s:o, s:o}", "name", command->name, "summary",
                      command->summary, "verbs", verbs, "options", options);

        struct cli unused = {0};
        struct cli_opt common[CLI_OPTS_COMMON];
        size_t common_count =
            cli_opts_common(&unused, command->online, common);

        for (const struct cli_verb *v = command->verbs; v && v->name; v++)
            (void)json_array_append_new(verbs, dump_verb(command, v));
        for (const struct cli_option *o = command->options; o && o->name; o++)
            (void)json_array_append_new(options, dump_option(o));
        for (size_t k = 0; !command->main && k < common_count; k++) {
            if (has_option(command, common[k].name))
                continue;

            const struct cli_option o = {.name = common[k].name,
                                         .letter = common[k].letter,
                                         .type = common[k].type,
                                         .arg = common[k].arg,
                                         .help = common[k].help};
            json_t *row = dump_option(&o);

            (void)json_object_set_new(row, "common", json_true());
            (void)json_array_append_new(options, row);
        }
        set_text(one, "usage", command->usage);
        set_text(one, "notes", command->notes);
        (void)json_array_append_new(all, one);
    }
    return all;
}
