/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox tools: code that members of a workspace keep as a tool. `save`
 * keeps a file, or the code of an execution; `run` checks the arguments at the
 * service and prints what the code printed.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"
#include "language/language.h"

#define CODE_MAX (64u << 10)
#define DOCUMENT_MAX (256u << 10)

struct tools_flags {
    const char *description, *parameters, *execution, *language;
    const char *arguments, *session;
    uint64_t version, timeout;
};

/* ---- save --------------------------------------------------------------- */

static int add_code(const struct tools_flags *flags, const char *file,
                    json_t *body, struct error *err)
{
    char *code cleanup(mem_free) = NULL;
    const char *language = flags->language;
    size_t len = 0;
    int r = cli_input_read(file, CODE_MAX, &code, &len, err);

    if (r < 0)
        return r;
    if (!language)
        language = language_of_file(file) == EXEC_SHELL ? "shell" : "python";
    if (json_object_set_new(body, "code", json_stringn(code, len)) < 0)
        return error_set(err, ERR_INVALID, "%s is not UTF-8 text", file);
    (void)json_object_set_new(body, "language", json_string(language));
    return 0;
}

static int add_tool(struct cli_call *call, struct error *err)
{
    const struct tools_flags *flags = call->flags;
    const struct cli_words *words = call->words;
    json_t *parameters = NULL;
    int r = 0;

    if ((words->count == 3) == (flags->execution != NULL))
        return cli_usage_error(call->c, "give FILE or --execution");
    call->body = json_pack("{s:s}", "name", words->items[1]);
    if (flags->execution)
        (void)json_object_set_new(call->body, "execution",
                                  json_string(flags->execution));
    else
        r = add_code(flags, words->items[2], call->body, err);
    if (r == 0 && flags->parameters) {
        r = cli_document_read(flags->parameters, DOCUMENT_MAX, &parameters,
                              err);
        if (r == 0)
            (void)json_object_set_new(call->body, "parameters", parameters);
    }
    if (flags->description)
        (void)json_object_set_new(call->body, "description",
                                  json_string(flags->description));
    if (flags->timeout)
        (void)json_object_set_new(call->body, "timeout_s",
                                  json_integer((json_int_t)flags->timeout));
    return r;
}

/* ---- run ---------------------------------------------------------------- */

/* NAME=VALUE, where VALUE is JSON if it can be read as such and text
 * otherwise. NAME=:VALUE is always text. */
static int add_argument(json_t *arguments, const char *word, struct error *err)
{
    const char *equals = strchr(word, '=');
    char *name cleanup(mem_free) = NULL;
    struct error ignored;
    json_t *value = NULL;

    if (!equals || equals == word) {
        (void)error_set(err, ERR_INVALID, "'%.60s' is not an argument", word);
        return error_hint(err, "Write NAME=VALUE.");
    }
    name = xstrndup(word, (size_t)(equals - word));
    if (equals[1] == ':')
        value = json_string(equals + 2);
    else if (json_parse(equals + 1, strlen(equals + 1), &value, &ignored) < 0)
        value = json_string(equals + 1);
    if (json_object_set_new(arguments, name, value) < 0)
        return error_set(err, ERR_INVALID, "'%.60s' is not UTF-8 text", word);
    return 0;
}

static int add_arguments(struct cli_call *call, struct error *err)
{
    const struct tools_flags *flags = call->flags;
    json_t *arguments = NULL;
    int r = flags->arguments ? cli_document_read(flags->arguments,
                                                 DOCUMENT_MAX, &arguments, err)
                             : 0;

    if (r < 0)
        return r;
    if (!arguments)
        arguments = json_object();
    call->body = json_pack("{s:o}", "arguments", arguments);
    if (!json_is_object(arguments))
        return error_set(err, ERR_INVALID, "%s has no object of arguments",
                         flags->arguments);
    for (size_t i = 2; r == 0 && i < call->words->count; i++)
        r = add_argument(arguments, call->words->items[i], err);
    if (flags->version)
        (void)json_object_set_new(call->body, "version",
                                  json_integer((json_int_t)flags->version));
    if (flags->timeout)
        (void)json_object_set_new(call->body, "timeout_s",
                                  json_integer((json_int_t)flags->timeout));
    return r;
}

static void print_error(const json_t *error)
{
    const json_t *lines = json_object_get(error, "traceback");

    for (size_t i = 0; i < json_array_size(lines); i++)
        (void)fprintf(stderr, "%s\n",
                      json_string_value(json_array_get(lines, i)));
}

static int print_run(struct cli_call *call)
{
    const json_t *e = call->answer;
    struct buf sentence cleanup(buf_done) = {0};

    if (call->c->json) {
        cli_print_json(call->c, e);
        return cli_outcome_exit(e);
    }
    (void)fputs(cli_json_text(e, "stdout", ""), stdout);
    (void)fputs(cli_json_text(e, "stderr", ""), stderr);
    if (cli_json_text(json_object_get(e, "result"), "text/plain", NULL))
        (void)puts(
            cli_json_text(json_object_get(e, "result"), "text/plain", ""));
    print_error(json_object_get(e, "error"));
    if (cli_outcome_sentence(e, &sentence))
        (void)fprintf(stderr, "%s\n", sentence.data);
    return cli_outcome_exit(e);
}

/* ---- the table ---------------------------------------------------------- */

static int choose_version(struct cli_call *call, struct error *err)
{
    const struct tools_flags *flags = call->flags;
    struct buf path = {0};
    char workspace[ID_MAX];
    int r;

    if (!cli_command_given(call->c, "version"))
        return 0;
    r = cli_remote_workspace(call->c, call->words->items[0], workspace, err);
    if (r < 0)
        return r;
    buf_addf(&path, "/api/workspaces/%s/tools/", workspace);
    cli_http_escape(&path, call->words->items[1], false);
    buf_addf(&path, "/versions/%llu", (unsigned long long)flags->version);
    call->path = buf_take(&path, NULL);
    return 0;
}

static const struct cli_column columns[] = {
    {"NAME", .member = "name"},
    {"VERSION", .member = "number", .kind = CLI_COLUMN_NUMBER},
    {"LANGUAGE", .member = "language"},
    {"CREATED", .member = "created_at", .kind = CLI_COLUMN_TIME},
    {"BY", .member = "created_by_name", .missing = "-"},
    {"DESCRIPTION", .member = "description"},
    {0},
};

static const struct cli_verb verbs[] = {
    {"list", "ls", "WS", "List the tools of a workspace", "GET",
     "/api/workspaces/{WS}/tools", .columns = columns},
    {"show", "get", "WS NAME", "Show a tool with its code and parameters",
     "GET", "/api/workspaces/{WS}/tools/{NAME}", .prepare = choose_version},
    {"versions", NULL, "WS NAME", "List the versions of a tool", "GET",
     "/api/workspaces/{WS}/tools/{NAME}/versions", .columns = columns},
    {"save", "add", "WS NAME [FILE]",
     "Keep a file, or the code of an execution, as a tool", "POST",
     "/api/workspaces/{WS}/tools", .prepare = add_tool,
     .sentence = "The tool {NAME} has version {number}."},
    {"run", NULL, "WS NAME [ARG=VALUE...]", "Run a tool", "POST",
     "/api/workspaces/{WS}/tools/{NAME}/run", .body = "session={--session}",
     .prepare = add_arguments, .print = print_run},
    {"delete", "remove rm", "WS NAME", "Delete a tool, or one version",
     "DELETE", "/api/workspaces/{WS}/tools/{NAME}", .prepare = choose_version,
     .json = "deleted={NAME}", .sentence = "Deleted {NAME}."},
    {0},
};

#define AT(member) offsetof(struct tools_flags, member)

static const struct cli_option options[] = {
    {"version", 0, CLI_OPT_COUNT, AT(version), "N", "this version",
     "show run delete"},
    {"description", 0, CLI_OPT_TEXT, AT(description), "TEXT",
     "for people and models", "save"},
    {"parameters", 0, CLI_OPT_TEXT, AT(parameters), "FILE",
     "a JSON Schema of the parameters, as YAML or JSON", "save"},
    {"execution", 0, CLI_OPT_TEXT, AT(execution), "ID",
     "keep the code of this execution", "save"},
    {"language", 0, CLI_OPT_TEXT, AT(language), "LANGUAGE",
     "python or shell; else as the file is called", "save"},
    {"arguments", 0, CLI_OPT_TEXT, AT(arguments), "FILE",
     "an object of arguments, as YAML or JSON", "run"},
    {"session", 's', CLI_OPT_TEXT, AT(session), "SESSION",
     "run in this session; else in one that is made for it", "run"},
    {"timeout", 0, CLI_OPT_SECONDS, AT(timeout), "SECONDS",
     "what a run may take", "save run"},
    {0},
};

const struct cli_command cli_tools = {
    .name = "tools",
    .summary = "Saved tools: code with parameters, kept in a workspace",
    .notes =
        "A parameter is a variable of the code. VALUE is JSON where it can be\n"
        "read as JSON, else text; NAME=:VALUE is always text. FILE - is\n"
        "standard input. The exit status of run is that of glovebox run.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct tools_flags),
    .verbs = verbs,
};
