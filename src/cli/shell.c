/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox shell: a prompt in a session. Reads a whole statement (lines.c),
 * runs it, shows it, and again; lines that start with a colon are for us.
 * Without a terminal it reads standard input the same way, with no prompts,
 * and ends at the first failure.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/shell.h"

#define STATEMENT_MAX (1u << 20)

static const struct cli_language languages[] = {
    {"python", ">>> ", "... ", cli_lines_python_wants_more},
    {"shell", "$ ", "> ", cli_lines_shell_wants_more},
};

const struct cli_language *cli_shell_language(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
        if (strcmp(languages[i].name, name) == 0)
            return &languages[i];
    return NULL;
}

void cli_shell_failed(struct cli_shell *s, const struct error *err)
{
    int status = cli_fail(s->c, err);

    if (!cli_prompt_interactive(s->prompt)) {
        s->over = true;
        s->status = status;
    }
}

/* ---- code --------------------------------------------------------------- */

static void run_code(struct cli_shell *s, const struct buf *code)
{
    struct cli_execute what = {
        .session = s->temp.session,
        .language = s->language->name,
        .code = code->data,
        .code_len = code->len,
        .charts = s->charts    ? s->charts
                  : s->c->json ? NULL
                               : ".",
        .quiet = s->c->json,
        .interactive = cli_prompt_interactive(s->prompt),
        .lasting = true,
    };
    json_t *execution cleanup(json_unref) = NULL;
    struct error err;

    if (cli_execute(s->c, &what, &execution, &err) < 0) {
        cli_shell_failed(s, &err);
        if (err.errnum == EINTR || err.errnum == ECONNREFUSED) {
            s->over = true;
            s->status =
                err.errnum == EINTR ? CLI_EXIT_CANCELLED : CLI_EXIT_FAILED;
        }
        return;
    }
    cli_file_summary_print(s->c, execution,
                           cli_prompt_interactive(s->prompt) &&
                               !s->c->service &&
                               cli_json_text(execution, "workspace", NULL));
    if (s->c->json) { /* one line each, for a reader of lines */
        (void)json_dumpf(execution, stdout, JSON_COMPACT);
        (void)fputc('\n', stdout);
        (void)fflush(stdout);
    }
    if (!cli_prompt_interactive(s->prompt)) {
        s->status = cli_outcome_exit(execution);
        s->over = s->status != CLI_EXIT_OK;
    }
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\n")] == '\0';
}

/* Adds a line; runs the statement when it is whole. */
static void take_line(struct cli_shell *s, char *line, struct buf *statement)
{
    if (statement->len == 0 && line[0] == ':') {
        cli_shell_command_run(s, line);
        return;
    }
    if (statement->len)
        buf_adds(statement, "\n");
    buf_adds(statement, line);
    if (statement->len > STATEMENT_MAX) {
        (void)fputs("that statement is over 1 MiB; use `glovebox run`\n",
                    stderr);
        buf_reset(statement);
        return;
    }
    if (s->language->wants_more(statement->data))
        return;
    if (!is_blank(statement->data))
        run_code(s, statement);
    buf_reset(statement);
}

static void read_statements(struct cli_shell *s)
{
    struct buf statement cleanup(buf_done) = {0};

    while (!s->over) {
        char *line cleanup(mem_free) = NULL;

        switch (cli_prompt_read(
            s->prompt, statement.len ? s->language->more : s->language->prompt,
            &line)) {
        case CLI_PROMPT_LINE:
            take_line(s, line, &statement);
            break;
        case CLI_PROMPT_INTERRUPTED:
            buf_reset(&statement);
            break;
        case CLI_PROMPT_END:
            if (statement.len && !is_blank(statement.data))
                run_code(s, &statement);
            s->over = true;
            break;
        case CLI_PROMPT_STOPPED:
            s->over = true;
            s->status = CLI_EXIT_CANCELLED;
            break;
        }
    }
}

/* ---- the command -------------------------------------------------------- */

static void greet(const struct cli_shell *s)
{
    if (!cli_prompt_interactive(s->prompt) || s->c->json)
        return;
    (void)fprintf(stderr,
                  "%s in session %s%s. :help lists commands, Ctrl-D leaves.\n",
                  s->language->name, s->temp.session,
                  s->temp.is_new ? ", deleted when you leave" : "");
}

static int shell_check(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_shell *s = arg;

    (void)words;
    s->language = cli_shell_language(s->lang ? s->lang : "python");
    if (!s->language)
        return cli_usage_error(c, "--lang must be python or shell, not '%s'",
                               s->lang);
    if (s->session_arg &&
        (s->spec.pool || s->spec.runtime || s->spec.workspace ||
         s->spec.ephemeral || s->spec.share))
        return cli_usage_error(c, "--workspace, --ephemeral, --pool, "
                                  "--runtime and --share are for a new "
                                  "session");
    c->embedded = s->embedded;
    if (c->embedded &&
        (s->session_arg || s->spec.workspace || c->url || c->data))
        return cli_usage_error(c, CLI_EMBEDDED_ALONE);
    if (s->spec.workspace && s->spec.ephemeral)
        return cli_usage_error(c, "--workspace keeps files, --ephemeral does "
                                  "not: use one of them");
    return CLI_EXIT_OK;
}

static int run_shell(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_shell *s = arg;
    struct error err;

    (void)words;
    s->c = c;
    if (cli_connect(c,
                    s->session_arg || s->spec.workspace ? CLI_NEED_RUNNING
                                                        : CLI_NEED_ANY,
                    s->spec.pool, s->spec.runtime, &err) < 0 ||
        cli_temp_session_open(c, s->session_arg, &s->spec, &s->temp, &err) < 0)
        return cli_fail(c, &err);
    s->prompt = cli_prompt_open(c);
    greet(s);
    read_statements(s);
    cli_prompt_close(s->prompt);
    cli_temp_session_close(c, &s->temp);
    return s->status;
}

#define AT(member) offsetof(struct cli_shell, member)

static const struct cli_option options[] = {
    {"session", 's', CLI_OPT_TEXT, AT(session_arg), "S",
     "use this session (id or name) and keep it", NULL},
    {"workspace", 'w', CLI_OPT_TEXT, AT(spec.workspace), "WS",
     "work on this workspace (id or name)", NULL},
    {"ephemeral", 0, CLI_OPT_FLAG, AT(spec.ephemeral), NULL,
     "keep nothing of the new session", NULL},
    {"embedded", 0, CLI_OPT_FLAG, AT(embedded), NULL,
     "use a throwaway service of its own; keeps no files", NULL},
    {"pool", 0, CLI_OPT_TEXT, AT(spec.pool), "P", "pool of the new session",
     NULL},
    {"runtime", 0, CLI_OPT_TEXT, AT(spec.runtime), "R",
     "runtime image of the new session", NULL},
    {"share", 0, CLI_OPT_FLAG, AT(spec.share), NULL,
     "let every key of the tenant use the new session", NULL},
    {"lang", 'l', CLI_OPT_TEXT, AT(lang), "LANG", "python or shell", NULL},
    {"charts", 0, CLI_OPT_TEXT, AT(charts), "DIR",
     "where charts are saved; else here", NULL},
    {0},
};

const struct cli_command cli_shell = {
    .name = "shell",
    .summary = "An interactive prompt in a session",
    .notes =
        "Variables last from line to line; :help at the prompt lists its own\n"
        "commands. From a pipe it reads the same, without prompts, and ends\n"
        "at the first failure with its exit status (see `glovebox help run`).\n"
        "With --json each execution is one line of JSON.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct cli_shell),
    .verbs =
        (const struct cli_verb[]){
            {"", .run = run_shell},
            {0},
        },
    .check = shell_check,
};
