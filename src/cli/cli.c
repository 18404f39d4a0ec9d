/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands, help and version, and what every command starts
 * with. Called by cmd/glovebox.c; a command never calls another.
 */
#include "cli/cli.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"

static const struct cli_command commands[] = {
    {"serve", "Run the service in the foreground",
     "serve [--config FILE] [--data DIR] [--listen HOST:PORT] [...]",
     cli_serve, false},
    {"run", "Run Python or shell code in a sealed session",
     "run [-c CODE | FILE | -] [--shell] [--session S]\n"
     "    [--put F[:PATH]]... [--get PATH[:F]]... [--pool P]\n"
     "    [--runtime R] [--timeout S] [--memory M] [--charts DIR]\n"
     "    [--json]",
     cli_run, true},
    {"shell", "An interactive prompt in a session",
     "shell [--session S] [--pool P] [--runtime R]\n"
     "    [--lang python|shell] [--charts DIR] [--json]",
     cli_shell, true},
    {"sessions", "List, make, reset and delete sessions",
     "sessions [list]\n"
     "sessions show SESSION\n"
     "sessions create [--name N] [--pool P] [--runtime R] [--memory M]\n"
     "sessions delete SESSION...\n"
     "sessions reset SESSION\n"
     "sessions interrupt SESSION",
     cli_sessions, true},
    {"files", "List, fetch, store and remove a session's files",
     "files list SESSION\n"
     "files get SESSION PATH [FILE | -]\n"
     "files put SESSION FILE [PATH]\n"
     "files rm SESSION PATH...",
     cli_files, true},
    {"key", "Make, list and revoke keys",
     "key create --scope SCOPE[,SCOPE]... [--tenant T] [--name N]\n"
     "key list\n"
     "key revoke KEY-ID",
     cli_key, true},
    {"runtime", "Build, list, show and remove runtime images",
     "runtime build NAME\n"
     "runtime list\n"
     "runtime show NAME\n"
     "runtime remove NAME",
     cli_runtime, false},
    {"doctor", "Say which walls stand on this machine, and what to do",
     "doctor [--json]", cli_doctor, true},
    {"help", "Help for a command", "help [COMMAND]", cli_help, false},
};

static const char exit_codes[] =
    "Exit status:\n"
    "  0  it worked                     5  a limit, or out of memory\n"
    "  1  the code failed               6  killed or crashed\n"
    "  2  wrong command line            7  cancelled\n"
    "  3  glovebox itself failed        8  a wall could not be built\n"
    "  4  the code ran out of time      9  denied by policy\n";

const struct cli_command *cli_command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_help(FILE *out)
{
    (void)fputs("usage: glovebox COMMAND [ARGUMENTS]\n\n"
                "Runs code nobody has read, in sealed sessions that keep "
                "their state.\n\nCommands:\n",
                out);
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        (void)fprintf(out, "  %-9s %s\n", commands[i].name,
                      commands[i].summary);
    (void)fputs(
        "\n`glovebox help COMMAND` says more of one; `glovebox --version` "
        "prints a number.\n\n"
        "The service is found by GLOVEBOX_URL and GLOVEBOX_KEY, else in the "
        "data\ndirectory (--data, GLOVEBOX_DATA_DIR). `run` and `shell` start "
        "one of their\nown when there is none.\n\n",
        out);
    (void)fputs(exit_codes, out);
}

static int unknown_command(const char *name)
{
    const char *near = cli_format_nearest(
        name, &commands[0].name, sizeof(commands[0]), ARRAY_SIZE(commands));

    (void)fprintf(stderr, "glovebox: there is no command '%s'", name);
    if (near)
        (void)fprintf(stderr, "; did you mean '%s'?", near);
    (void)fputs("\nTry `glovebox --help`.\n", stderr);
    return CLI_EXIT_USAGE;
}

int cli_help(int argc, char **argv)
{
    char flag[] = "--help";
    const struct cli_command *command;
    char *words[3] = {NULL, flag, NULL};

    if (argc < 2 || argv[1][0] == '-') {
        print_help(stdout);
        return CLI_EXIT_OK;
    }
    command = cli_command_find(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    if (command->run == cli_help) {
        print_help(stdout);
        return CLI_EXIT_OK;
    }
    words[0] = argv[1];
    return command->run(2, words);
}

int cli_main(int argc, char **argv)
{
    const struct cli_command *command;

    if (argc < 2) {
        print_help(stderr);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return CLI_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("glovebox %s\n", GLOVEBOX_VERSION);
        return CLI_EXIT_OK;
    }
    if (argv[1][0] == '-') {
        (void)fprintf(stderr, "glovebox: unknown option '%s'\n", argv[1]);
        (void)fputs("Try `glovebox --help`.\n", stderr);
        return CLI_EXIT_USAGE;
    }
    command = cli_command_find(argv[1]);
    return command ? command->run(argc - 1, argv + 1)
                   : unknown_command(argv[1]);
}

/* Colour is for people who did not decline it. */
static bool wants_color(bool tty)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return tty && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

void cli_init(struct cli *c, const char *command)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;

    *c = (struct cli){.command = command, .signal_fd = -1};
    c->tty_out = isatty(STDOUT_FILENO) == 1;
    c->tty_err = isatty(STDERR_FILENO) == 1;
    c->color_out = wants_color(c->tty_out);
    c->color_err = wants_color(c->tty_err);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* valid arguments */
    /* A closed pipe is met as a failed write, so that clean-up happens. */
    (void)sigaction(SIGPIPE, &ignore, NULL);
    c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void cli_done(struct cli *c)
{
    cli_embedded_stop(take_ptr(c->embedded));
    free(take_ptr(c->base));
    if (c->key)
        explicit_bzero(c->key, strlen(c->key));
    free(take_ptr(c->key));
    fd_close(&c->signal_fd);
}

int cli_fail(const struct cli *c, const struct error *err)
{
    if (c->json) {
        json_t *out cleanup(json_unref) = json_pack(
            "{s:{s:s, s:s, s:s}}", "error", "code", error_code_name(err->code),
            "message", err->message, "hint", err->hint);

        cli_print_json(out);
    }
    (void)fflush(stdout);
    (void)fprintf(stderr, "%sglovebox: %s%s\n", c->color_err ? "\033[31m" : "",
                  err->message, c->color_err ? "\033[0m" : "");
    if (err->hint[0])
        (void)fprintf(stderr, "%s\n", err->hint);
    if (err->retry_after_s > 0)
        (void)fprintf(stderr, "Try again in %d s.\n", err->retry_after_s);
    return err->code == ERR_ISOLATION ? CLI_EXIT_ISOLATION : CLI_EXIT_FAILED;
}

int cli_usage_error(const struct cli *c, const char *fmt, ...)
{
    const struct cli_command *command = cli_command_find(c->command);
    va_list ap;

    (void)fprintf(stderr, "glovebox %s: ", c->command);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
    cli_opts_usage(stderr, command);
    (void)fprintf(stderr, "`glovebox help %s` says more.\n", c->command);
    return CLI_EXIT_USAGE;
}

void cli_print_json(const json_t *value)
{
    if (!value)
        return;
    (void)json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
    (void)fputc('\n', stdout);
}
