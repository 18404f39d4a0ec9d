/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of `glovebox shell` that are for us: `:files`, `:put`, ... */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/shell.h"

static void shell_help(struct cli_shell *s, char **words);

static void shell_files(struct cli_shell *s, char **words)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    struct error err;

    (void)words;
    if (cli_place_find(s->c, "", s->temp.session, &place, &err) < 0 ||
        cli_files_list(s->c, &place, &err) < 0)
        cli_shell_failed(s, &err);
}

static void shell_put(struct cli_shell *s, char **words)
{
    json_t *file cleanup(json_unref) = NULL;
    struct error err;

    if (cli_files_put(s->c, s->temp.session, words[0], words[1], &file, &err) <
        0)
        cli_shell_failed(s, &err);
    else if (s->c->tty_err)
        (void)fprintf(stderr, "stored /mnt/data/%s\n",
                      cli_json_text(file, "path", ""));
}

static void shell_get(struct cli_shell *s, char **words)
{
    char *saved cleanup(mem_free) = NULL;
    struct error err;

    if (cli_files_get(s->c, s->temp.session, words[0], words[1], &saved,
                      &err) < 0)
        cli_shell_failed(s, &err);
    else if (saved && s->c->tty_err)
        (void)fprintf(stderr, "saved %s\n", saved);
}

/* A request without a body, and what it did. */
static void post_to_session(struct cli_shell *s, const char *verb,
                            const char *done)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/%s", s->temp.session, verb);
    struct error err;

    if (cli_http_json(s->c, "POST", path, NULL, NULL, &err) < 0)
        cli_shell_failed(s, &err);
    else if (s->c->tty_err)
        (void)fprintf(stderr, "%s\n", done);
}

static void shell_lang(struct cli_shell *s, char **words)
{
    const struct cli_language *language = cli_shell_language(words[0]);

    if (language)
        s->language = language;
    else
        (void)fprintf(stderr, "python or shell, not '%s'\n", words[0]);
}

static void shell_session(struct cli_shell *s, char **words)
{
    (void)words;
    (void)printf("%s\n", s->temp.session);
}

static void shell_quit(struct cli_shell *s, char **words)
{
    (void)words;
    s->over = true;
}

static const struct {
    const char *name;
    const char *args;
    int min;
    void (*run)(struct cli_shell *s, char **words);
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
    {"lang", " python|shell", 1, shell_lang, "language of the next lines",
     NULL},
    {"session", "", 0, shell_session, "print the session's id", NULL},
    {"quit", "", 0, shell_quit, "leave; so does Ctrl-D", NULL},
};

static void shell_help(struct cli_shell *s, char **words)
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
               "a blank line ends a\nblock. Ctrl-C interrupts what runs and "
               "keeps variables.");
}

void cli_shell_command_run(struct cli_shell *s, char *line)
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
