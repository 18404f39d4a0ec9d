/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of `glovebox shell` that are for us: `:files`, `:put`, ... */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/shell.h"

static void colon_help(struct cli_shell *s, char **words);

static void colon_files(struct cli_shell *s, char **words)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    struct error err;

    (void)words;
    if (cli_place_find(s->c, "", s->lease.session, &place, &err) < 0 ||
        cli_files_list(s->c, &place, &err) < 0)
        cli_shell_failed(s, &err);
}

static void colon_put(struct cli_shell *s, char **words)
{
    json_t *file cleanup(json_unref) = NULL;
    struct error err;

    if (cli_files_put(s->c, s->lease.session, words[0], words[1], &file,
                      &err) < 0)
        cli_shell_failed(s, &err);
    else if (s->c->tty_err)
        (void)fprintf(stderr, "stored /mnt/data/%s\n",
                      cli_json_text(file, "path", ""));
}

static void colon_get(struct cli_shell *s, char **words)
{
    char *saved cleanup(mem_free) = NULL;
    struct error err;

    if (cli_files_get(s->c, s->lease.session, words[0], words[1], &saved,
                      &err) < 0)
        cli_shell_failed(s, &err);
    else if (saved && s->c->tty_err)
        (void)fprintf(stderr, "saved %s\n", saved);
}

static void post(struct cli_shell *s, const char *verb, const char *said)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/%s", s->lease.session, verb);
    struct error err;

    if (cli_http_json(s->c, "POST", path, NULL, NULL, &err) < 0)
        cli_shell_failed(s, &err);
    else if (s->c->tty_err)
        (void)fprintf(stderr, "%s\n", said);
}

static void colon_reset(struct cli_shell *s, char **words)
{
    (void)words;
    post(s, "reset", "a fresh interpreter; files are in place");
}

static void colon_refresh(struct cli_shell *s, char **words)
{
    (void)words;
    post(s, "refresh", "what others committed is in place");
}

static void colon_interrupt(struct cli_shell *s, char **words)
{
    (void)words;
    post(s, "interrupt", "interrupted");
}

static void colon_lang(struct cli_shell *s, char **words)
{
    const struct cli_language *language = cli_shell_language(words[0]);

    if (language)
        s->language = language;
    else
        (void)fprintf(stderr, "python or shell, not '%s'\n", words[0]);
}

static void colon_session(struct cli_shell *s, char **words)
{
    (void)words;
    (void)printf("%s\n", s->lease.session);
}

static void colon_quit(struct cli_shell *s, char **words)
{
    (void)words;
    s->over = true;
}

static const struct {
    const char *name;
    const char *args;
    int least;
    void (*run)(struct cli_shell *s, char **words);
    const char *help;
} colons[] = {
    {"help", "", 0, colon_help, "this list"},
    {"files", "", 0, colon_files, "list the session's files"},
    {"put", " FILE [PATH]", 1, colon_put, "upload a file"},
    {"get", " PATH [FILE]", 1, colon_get, "download a file"},
    {"reset", "", 0, colon_reset, "a fresh interpreter, same files"},
    {"refresh", "", 0, colon_refresh, "bring in what others committed"},
    {"interrupt", "", 0, colon_interrupt, "stop what runs in the session"},
    {"lang", " python|shell", 1, colon_lang, "what the next lines are"},
    {"session", "", 0, colon_session, "print the session's id"},
    {"quit", "", 0, colon_quit, "leave; so does Ctrl-D"},
};

static void colon_help(struct cli_shell *s, char **words)
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

void cli_colon_run(struct cli_shell *s, char *line)
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
