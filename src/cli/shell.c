/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox shell: a prompt in a session. Reads a whole statement (lines.c),
 * runs it, shows it, and again; lines that start with a colon are for us.
 * Without a terminal it reads standard input the same way, with no prompts,
 * and ends at the first failure.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define STATEMENT_MAX (1u << 20)

struct language {
    const char *name;
    const char *prompt, *more;
    bool (*wants_more)(const char *text);
};

static const struct language languages[] = {
    {"python", ">>> ", "... ", cli_lines_python_wants_more},
    {"shell", "$ ", "> ", cli_lines_shell_wants_more},
};

struct shell {
    struct cli *c;
    const char *session_arg, *pool, *runtime, *lang, *charts;
    const struct language *language;
    char session[ID_MAX];
    bool made;
    struct cli_prompt *prompt;
    bool over;
    int status;
};

static void shell_done(struct shell *s)
{
    char *path cleanup(mem_free) = xasprintf("/api/sessions/%s", s->session);
    struct error err;

    cli_prompt_close(s->prompt);
    if (s->made && !s->c->embedded &&
        cli_http_json(s->c, "DELETE", path, NULL, NULL, &err) < 0)
        (void)fprintf(stderr, "glovebox: session %s was not deleted: %s\n",
                      s->session, err.message);
    cli_done(s->c);
}

static const struct language *find_language(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
        if (strcmp(languages[i].name, name) == 0)
            return &languages[i];
    return NULL;
}

/* A failure of ours at the prompt: said, and with no terminal the end. */
static void failed(struct shell *s, const struct error *err)
{
    int status = cli_fail(s->c, err);

    if (!cli_prompt_interactive(s->prompt)) {
        s->over = true;
        s->status = status;
    }
}

/* ---- lines for us ------------------------------------------------------- */

static void colon_help(struct shell *s, char **words);

static void colon_files(struct shell *s, char **words)
{
    struct error err;

    (void)words;
    if (cli_files_list(s->c, s->session, &err) < 0)
        failed(s, &err);
}

static void colon_put(struct shell *s, char **words)
{
    json_t *file cleanup(json_unref) = NULL;
    struct error err;

    if (cli_remote_put(s->c, s->session, words[0], words[1], &file, &err) < 0)
        failed(s, &err);
    else if (s->c->tty_err)
        (void)fprintf(stderr, "stored /mnt/data/%s\n",
                      cli_json_text(file, "path", ""));
}

static void colon_get(struct shell *s, char **words)
{
    char *saved cleanup(mem_free) = NULL;
    struct error err;

    if (cli_remote_get(s->c, s->session, words[0], words[1], &saved, &err) < 0)
        failed(s, &err);
    else if (saved && s->c->tty_err)
        (void)fprintf(stderr, "saved %s\n", saved);
}

static void post(struct shell *s, const char *verb, const char *said)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/%s", s->session, verb);
    struct error err;

    if (cli_http_json(s->c, "POST", path, NULL, NULL, &err) < 0)
        failed(s, &err);
    else if (s->c->tty_err)
        (void)fprintf(stderr, "%s\n", said);
}

static void colon_reset(struct shell *s, char **words)
{
    (void)words;
    post(s, "reset", "a fresh interpreter; files are in place");
}

static void colon_interrupt(struct shell *s, char **words)
{
    (void)words;
    post(s, "interrupt", "interrupted");
}

static void colon_lang(struct shell *s, char **words)
{
    const struct language *language = find_language(words[0]);

    if (language)
        s->language = language;
    else
        (void)fprintf(stderr, "python or shell, not '%s'\n", words[0]);
}

static void colon_session(struct shell *s, char **words)
{
    (void)words;
    (void)printf("%s\n", s->session);
}

static void colon_quit(struct shell *s, char **words)
{
    (void)words;
    s->over = true;
}

static const struct {
    const char *name;
    const char *args;
    int least;
    void (*run)(struct shell *s, char **words);
    const char *help;
} colons[] = {
    {"help", "", 0, colon_help, "this list"},
    {"files", "", 0, colon_files, "list the session's files"},
    {"put", " FILE [PATH]", 1, colon_put, "upload a file"},
    {"get", " PATH [FILE]", 1, colon_get, "download a file"},
    {"reset", "", 0, colon_reset, "a fresh interpreter, same files"},
    {"interrupt", "", 0, colon_interrupt, "stop what runs in the session"},
    {"lang", " python|shell", 1, colon_lang, "what the next lines are"},
    {"session", "", 0, colon_session, "print the session's id"},
    {"quit", "", 0, colon_quit, "leave; so does Ctrl-D"},
};

static void colon_help(struct shell *s, char **words)
{
    (void)s;
    (void)words;
    for (size_t i = 0; i < ARRAY_SIZE(colons); i++) {
        char left[40];

        (void)snprintf(left, sizeof(left), ":%s%s", colons[i].name,
                       colons[i].args);
        (void)printf("  %-20s %s\n", left, colons[i].help);
    }
    (void)puts("An open bracket, quote or block goes on with the next line; "
               "a blank line ends a\nblock. Ctrl-C interrupts what runs and "
               "keeps variables.");
}

static void run_colon(struct shell *s, char *line)
{
    char *words[4] = {NULL};
    char *rest = NULL;
    int count = 0;

    for (char *w = strtok_r(line + 1, " \t", &rest); w && count < 3;
         w = strtok_r(NULL, " \t", &rest))
        words[count++] = w;
    for (size_t i = 0; count > 0 && i < ARRAY_SIZE(colons); i++) {
        if (strcmp(colons[i].name, words[0]) != 0)
            continue;
        if (count - 1 < colons[i].least)
            (void)fprintf(stderr, "usage: :%s%s\n", colons[i].name,
                          colons[i].args);
        else
            colons[i].run(s, words + 1);
        (void)fflush(stdout); /* in order with what code writes next */
        return;
    }
    (void)fprintf(stderr, "no such command; :help lists them\n");
}

/* ---- code --------------------------------------------------------------- */

static void run_code(struct shell *s, const struct buf *code)
{
    struct cli_execute what = {
        .session = s->session,
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
        failed(s, &err);
        if (err.errnum == EINTR || err.errnum == ECONNREFUSED) {
            s->over = true;
            s->status =
                err.errnum == EINTR ? CLI_EXIT_CANCELLED : CLI_EXIT_FAILED;
        }
        return;
    }
    if (s->c->json) { /* one line each, for a reader of lines */
        (void)json_dumpf(execution, stdout, JSON_COMPACT);
        (void)fputc('\n', stdout);
        (void)fflush(stdout);
    }
    if (!cli_prompt_interactive(s->prompt)) {
        s->status = cli_render_exit(execution);
        s->over = s->status != CLI_EXIT_OK;
    }
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\n")] == '\0';
}

/* Adds a line; runs the statement when it is whole. */
static void take_line(struct shell *s, char *line, struct buf *statement)
{
    if (statement->len == 0 && line[0] == ':') {
        run_colon(s, line);
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

static void loop(struct shell *s)
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

static int take_session(struct shell *s, struct error *err)
{
    struct cli_session_spec spec = {.pool = s->pool, .runtime = s->runtime};
    json_t *session cleanup(json_unref) = NULL;
    int r;

    if (s->session_arg)
        return cli_remote_find(s->c, s->session_arg, s->session, err);
    r = cli_remote_create(s->c, &spec, &session, err);
    if (r < 0)
        return r;
    (void)snprintf(s->session, sizeof(s->session), "%s",
                   cli_json_text(session, "id", ""));
    if (!ids_valid("sess", s->session))
        return error_set(err, ERR_INTERNAL, "the service named no session");
    s->made = true;
    return 0;
}

static void greet(const struct shell *s)
{
    if (!cli_prompt_interactive(s->prompt) || s->c->json)
        return;
    (void)fprintf(stderr,
                  "%s in session %s%s. :help lists commands, Ctrl-D leaves.\n",
                  s->language->name, s->session,
                  s->made ? ", deleted when you leave" : "");
}

int cli_shell(int argc, char **argv)
{
    struct cli c;
    struct shell s cleanup(shell_done) = {.c = &c, .lang = "python"};
    const struct cli_opt table[] = {
        {"session", 's', CLI_OPT_TEXT, &s.session_arg, "S",
         "use this session (id or name) and keep it"},
        {"pool", 0, CLI_OPT_TEXT, &s.pool, "P", "pool of the new session"},
        {"runtime", 0, CLI_OPT_TEXT, &s.runtime, "R",
         "runtime image of the new session"},
        {"lang", 'l', CLI_OPT_TEXT, &s.lang, "LANG", "python or shell"},
        {"charts", 0, CLI_OPT_TEXT, &s.charts, "DIR",
         "where charts are saved; else here"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "Variables last from line to line; :help at the prompt lists its own\n"
        "commands. From a pipe it reads the same, prompts nothing and ends at\n"
        "the first failure with its exit status (see `glovebox help run`).\n"
        "With --json each execution is one line of JSON.\n"};
    struct cli_words words;
    struct error err;
    int status;

    cli_init(&c, "shell");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    s.language = find_language(s.lang);
    if (!s.language)
        return cli_usage_error(&c, "--lang is python or shell, not '%s'",
                               s.lang);
    if (words.count)
        return cli_usage_error(&c, "unexpected '%s'", words.items[0]);
    if (s.session_arg && (s.pool || s.runtime))
        return cli_usage_error(&c, "--pool and --runtime are for a new "
                                   "session");
    if (cli_connect(&c,
                    s.session_arg ? CLI_CONNECT_RUNNING : CLI_CONNECT_OR_EMBED,
                    s.pool, s.runtime, &err) < 0 ||
        take_session(&s, &err) < 0)
        return cli_fail(&c, &err);
    s.prompt = cli_prompt_open(&c);
    greet(&s);
    loop(&s);
    return s.status;
}
