/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox shell: a prompt in a session. Reads a whole statement
 * (statement.c), runs it, shows it, and again; lines that start with a colon
 * are for us. Without a terminal it reads standard input the same way, with no
 * prompts, and ends at the first failure.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"
#include "language/language.h"

#define STATEMENT_MAX (1u << 20)

struct prompt_language {
    const char *name;
    const char *prompt, *more;
    bool (*wants_more)(const char *text);
};

struct shell {
    struct cli *c;
    const char *session_arg, *lang, *charts;
    struct cli_session_spec spec;
    bool embedded;
    const struct prompt_language *language;
    struct cli_temp_session temp;
    struct cli_prompt *prompt;
    struct cli_completion *completion;
    bool over;
    int status;
};

static const struct prompt_language languages[] = {
    {"python", ">>> ", "... ", cli_statement_python_wants_more},
    {"shell", "$ ", "> ", cli_statement_shell_wants_more},
    {"javascript", "js> ", "... ", cli_statement_brackets_want_more},
    {"r", "r> ", "+ ", cli_statement_brackets_want_more},
};

#define LANGUAGES "python, shell, javascript or r"

static const struct prompt_language *find_language(const char *name)
{
    int known = language_find(name); /* bash is the shell */

    if (known >= 0)
        name = language_get((enum exec_language)known)->name;
    for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
        if (strcmp(languages[i].name, name) == 0)
            return &languages[i];
    return NULL;
}

static void report_failure(struct shell *s, const struct error *err)
{
    int status = cli_fail(s->c, err);

    if (!cli_prompt_interactive(s->prompt)) {
        s->over = true;
        s->status = status;
    }
}

/* ---- lines that start with a colon -------------------------------------- */

static void shell_help(struct shell *s, char **words);

static void shell_files(struct shell *s, char **words)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    struct error err;

    (void)words;
    if (cli_place_find(s->c, "", s->temp.session, &place, &err) < 0 ||
        cli_files_list(s->c, &place, &err) < 0)
        report_failure(s, &err);
}

static void shell_put(struct shell *s, char **words)
{
    json_t *file cleanup(json_unref) = NULL;
    struct error err;

    if (cli_files_put(s->c, s->temp.session, words[0], words[1], &file, &err) <
        0)
        report_failure(s, &err);
    else if (s->c->tty_err)
        (void)fprintf(stderr, "stored /mnt/data/%s\n",
                      cli_json_text(file, "path", ""));
}

static void shell_get(struct shell *s, char **words)
{
    char *saved cleanup(mem_free) = NULL;
    struct error err;

    if (cli_files_get(s->c, s->temp.session, words[0], words[1], &saved,
                      &err) < 0)
        report_failure(s, &err);
    else if (saved && s->c->tty_err)
        (void)fprintf(stderr, "saved %s\n", saved);
}

/* A request without a body, and what it did. */
static void post_to_session(struct shell *s, const char *verb,
                            const char *done)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/%s", s->temp.session, verb);
    struct error err;

    if (cli_http_json(s->c, "POST", path, NULL, NULL, &err) < 0)
        report_failure(s, &err);
    else if (s->c->tty_err)
        (void)fprintf(stderr, "%s\n", done);
}

static void shell_lang(struct shell *s, char **words)
{
    const struct prompt_language *language = find_language(words[0]);

    if (language)
        s->language = language;
    else
        (void)fprintf(stderr, LANGUAGES ", not '%s'\n", words[0]);
}

static void shell_session(struct shell *s, char **words)
{
    (void)words;
    (void)printf("%s\n", s->temp.session);
}

static void shell_quit(struct shell *s, char **words)
{
    (void)words;
    s->over = true;
}

static const struct {
    const char *name;
    const char *args;
    int min;
    void (*run)(struct shell *s, char **words);
    const char *help;
    const char *done; /* no run: posts to the session, then says this */
} commands[] = {
    {"help", "", 0, shell_help, "this list", NULL},
    {"files", "", 0, shell_files, "list the session's files", NULL},
    {"put", " FILE [PATH]", 1, shell_put, "upload a file", NULL},
    {"get", " PATH [FILE]", 1, shell_get, "download a file", NULL},
    {"reset", "", 0, NULL, "a new interpreter, same files",
     "a fresh interpreter; files are in place"},
    {"refresh", "", 0, NULL, "bring in what others committed",
     "what others committed is in place"},
    {"interrupt", "", 0, NULL, "stop what runs in the session", "interrupted"},
    {"lang", " LANGUAGE", 1, shell_lang, "language of the next lines", NULL},
    {"session", "", 0, shell_session, "print the session's id", NULL},
    {"quit", "", 0, shell_quit, "leave; so do exit(), quit and Ctrl-D", NULL},
};

static void shell_help(struct shell *s, char **words)
{
    (void)s;
    (void)words;
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        char left[40];

        (void)snprintf(left, sizeof(left), ":%s%s", commands[i].name,
                       commands[i].args);
        (void)printf("  %-20s %s\n", left, commands[i].help);
    }
    (void)puts("An open bracket, quote or block goes on with the next line; "
               "a blank line ends a\nblock. Tab completes names. Ctrl-C "
               "interrupts what runs and keeps variables.");
}

static void run_colon_line(struct shell *s, char *line)
{
    char *words[4] = {NULL};
    char *rest = NULL;
    int count = 0;

    for (char *w = strtok_r(line + 1, " \t", &rest); w && count < 3;
         w = strtok_r(NULL, " \t", &rest))
        words[count++] = w;
    for (size_t i = 0; count > 0 && i < ARRAY_SIZE(commands); i++) {
        if (strcmp(commands[i].name, words[0]) != 0)
            continue;
        if (count - 1 < commands[i].min)
            (void)fprintf(stderr, "usage: :%s%s\n", commands[i].name,
                          commands[i].args);
        else if (commands[i].run)
            commands[i].run(s, words + 1);
        else
            post_to_session(s, words[0], commands[i].done);
        (void)fflush(stdout); /* in order with what code writes next */
        return;
    }
    (void)fprintf(stderr, "no such command; :help lists them\n");
}

/* ---- code --------------------------------------------------------------- */

static void run_code(struct shell *s, const struct buf *code)
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
        .asleep = s->temp.asleep,
        .has_variables = s->temp.has_variables,
    };
    json_t *execution cleanup(json_unref) = NULL;
    struct error err;

    if (cli_execute(s->c, &what, &execution, &err) < 0) {
        report_failure(s, &err);
        if (err.errnum == EINTR || err.errnum == ECONNREFUSED) {
            s->over = true;
            s->status =
                err.errnum == EINTR ? CLI_EXIT_CANCELLED : CLI_EXIT_FAILED;
        }
        return;
    }
    s->temp.asleep = false;
    s->temp.has_variables =
        !json_is_true(json_object_get(execution, "interpreter_lost"));
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

/* "exit", "quit", "exit()", "exit(3)", and for the shell "exit 3": leaves the
 * prompt, not only the interpreter behind it. */
static bool is_exit_line(const struct shell *s, const char *line,
                         int *ret_status)
{
    bool python = strcmp(s->language->name, "python") == 0;
    char *end;

    line += strspn(line, " \t");
    if (strncmp(line, "exit", 4) != 0 && strncmp(line, "quit", 4) != 0)
        return false;
    line += 4;
    *ret_status = s->status;
    if (python && *line == '(') {
        line += 1 + strspn(line + 1, " \t");
        if (isdigit((unsigned char)*line)) {
            *ret_status = (int)(strtoul(line, &end, 10) & 0xff);
            line = end + strspn(end, " \t");
        }
        if (*line++ != ')')
            return false;
    } else if (!python && isblank((unsigned char)*line)) {
        line += strspn(line, " \t");
        if (isdigit((unsigned char)*line)) {
            *ret_status = (int)(strtoul(line, &end, 10) & 0xff);
            line = end;
        }
    }
    return line[strspn(line, " \t;")] == '\0';
}

/* Adds a line; runs the statement when it is whole. */
static void take_line(struct shell *s, char *line, struct buf *statement)
{
    if (statement->len == 0 && line[0] == ':') {
        run_colon_line(s, line);
        return;
    }
    if (statement->len == 0 && is_exit_line(s, line, &s->status)) {
        s->over = true;
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
    if (!is_blank(statement->data)) {
        cli_completion_learn(s->completion, statement->data);
        run_code(s, statement);
    }
    buf_reset(statement);
}

static void read_statements(struct shell *s)
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

/* ---- while a line is typed ---------------------------------------------- */

/* Names of the language and of the statements so far; after a colon, the
 * commands. */
static char *complete_word(void *ctx, const char *line, const char *word,
                           size_t n)
{
    const struct shell *s = ctx;

    if (line[0] != ':')
        return cli_completion_match(
            s->completion, strcmp(s->language->name, "python") == 0, word, n);
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (!strchr(line, ' ') &&
            strncmp(commands[i].name, word, strlen(word)) == 0 && n-- == 0)
            return xstrdup(commands[i].name);
    return NULL;
}

static void on_prompt_idle(void *ctx)
{
    struct shell *s = ctx;

    cli_temp_session_keep_awake(s->c, &s->temp);
}

/* ---- the command -------------------------------------------------------- */

static void print_greeting(const struct shell *s)
{
    if (!cli_prompt_interactive(s->prompt) || s->c->json)
        return;
    (void)fprintf(
        stderr,
        "%s in session %s%s. :help lists commands, exit() or Ctrl-D leaves.\n",
        s->language->name, s->temp.session,
        s->temp.is_new ? ", deleted when you leave" : "");
}

static int shell_check(struct cli *c, const struct cli_words *words, void *arg)
{
    struct shell *s = arg;

    (void)words;
    s->language = find_language(s->lang ? s->lang : "python");
    if (!s->language)
        return cli_usage_error(c, "--lang must be " LANGUAGES ", not '%s'",
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
    struct shell *s = arg;
    struct error err;

    (void)words;
    s->c = c;
    if (cli_connect(c,
                    s->session_arg || s->spec.workspace ? CLI_NEED_RUNNING
                                                        : CLI_NEED_ANY,
                    s->spec.pool, s->spec.runtime, &err) < 0 ||
        cli_temp_session_open(c, s->session_arg, &s->spec, &s->temp, &err) < 0)
        return cli_fail(c, &err);
    s->completion = cli_completion_new();
    s->prompt = cli_prompt_open(
        c, &(const struct cli_prompt_hooks){
               .idle_s = (unsigned)MAX(1, MIN(60, s->temp.cooldown_s / 3)),
               .on_idle = on_prompt_idle,
               .complete = complete_word,
               .ctx = s,
               .history = "history",
               .files_after = ":put ",
           });
    print_greeting(s);
    read_statements(s);
    cli_prompt_close(s->prompt);
    cli_completion_free(s->completion);
    cli_temp_session_close(c, &s->temp);
    return s->status;
}

#define AT(member) offsetof(struct shell, member)

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
        "commands; exit(), quit or Ctrl-D leaves. The session stays awake while\n"
        "the prompt is open. From a pipe it reads the same, without prompts, and ends\n"
        "at the first failure with its exit status (see `glovebox help run`).\n"
        "With --json each execution is one line of JSON.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct shell),
    .verbs =
        (const struct cli_verb[]){
            {"", .run = run_shell,
             .body = "pool={--pool} runtime={--runtime}"},
            {0},
        },
    .check = shell_check,
};
