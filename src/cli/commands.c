/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of commands, help, version, and `serve`, which becomes gloveboxd.
 * Called by cmd/glovebox.c; a command never calls another.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"
#include "conf/conf.h"

static cli_command_fn run_serve, run_help;

static const struct cli_command cli_serve = {
    .name = "serve",
    .summary = "Run the service in the foreground",
    .usage = "serve [--config FILE] [--data DIR] [--listen HOST:PORT] [...]",
    .main = run_serve,
};

static const struct cli_command cli_help = {
    .name = "help",
    .summary = "Help for a command; --dump: all of them as JSON",
    .usage = "help [COMMAND | --dump]",
    .main = run_help,
};

const struct cli_command *const cli_commands[] = {
    &cli_serve,   &cli_run,       &cli_shell,         &cli_sessions,
    &cli_pool,    &cli_files,     &cli_workspaces,    &cli_search,
    &cli_locks,   &cli_share,     &cli_conversations, &cli_approvals,
    &cli_audit,   &cli_policy,    &cli_backup,        &cli_restore,
    &cli_verify,  &cli_key,       &cli_token,         &cli_network,
    &cli_secrets, &cli_quota,     &cli_runtime,       &cli_mcp,
    &cli_doctor,  &cli_scorecard, &cli_help,          NULL,
};

const struct cli_command *cli_command_find(const char *name)
{
    for (size_t i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

static int run_command(const struct cli_command *command, int argc,
                       char **argv)
{
    return command->main ? command->main(argc, argv)
                         : cli_command_run(command, argc, argv);
}

static int unknown_command(const char *name)
{
    const char *names[ARRAY_SIZE(cli_commands)] = {NULL};
    const char *near;
    size_t count = 0;

    for (; cli_commands[count]; count++)
        names[count] = cli_commands[count]->name;
    near = cli_format_nearest(name, names, sizeof(names[0]), count);
    (void)fprintf(stderr, "glovebox: there is no command '%s'", name);
    if (near)
        (void)fprintf(stderr, "; did you mean '%s'?", near);
    (void)fputs("\nTry `glovebox --help`.\n", stderr);
    return CLI_EXIT_USAGE;
}

/* ---- serve -------------------------------------------------------------- */

static int print_serve_help(void)
{
    cli_help_usage(stdout, &cli_serve, NULL);
    (void)printf("\n%s. The first start makes a key in the data\n"
                 "directory (admin.key) and writes the address there "
                 "(endpoint).\n\n",
                 cli_serve.summary);
    conf_help_flags(stdout);
    return CLI_EXIT_OK;
}

static int run_serve(int argc, char **argv)
{
    char *program cleanup(mem_free) = NULL;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_serve_help();
    if (cli_connect_program("gloveboxd", &program) < 0) {
        (void)fputs("glovebox: gloveboxd is neither beside this program nor "
                    "in ../libexec/glovebox\n",
                    stderr);
        return CLI_EXIT_FAILED;
    }
    argv[0] = program;
    (void)execv(program, argv);
    (void)fprintf(stderr, "glovebox: cannot start %s: %s\n", program,
                  strerror(errno));
    return CLI_EXIT_FAILED;
}

/* ---- help and main ------------------------------------------------------ */

static int run_help(int argc, char **argv)
{
    const struct cli_command *command;
    char flag[] = "--help";

    if (argc > 1 && strcmp(argv[1], "--dump") == 0) {
        json_t *all cleanup(json_unref) = cli_help_dump();

        cli_print_json(all);
        return CLI_EXIT_OK;
    }
    if (argc < 2 || argv[1][0] == '-' || strcmp(argv[1], "help") == 0) {
        cli_help_program(stdout);
        return CLI_EXIT_OK;
    }
    command = cli_command_find(argv[1]);
    return command ? run_command(command, 2, (char *[]){argv[1], flag, NULL})
                   : unknown_command(argv[1]);
}

int cli_main(int argc, char **argv)
{
    const struct cli_command *command;

    if (argc < 2) {
        cli_help_program(stderr);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        cli_help_program(stdout);
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
    return command ? run_command(command, argc - 1, argv + 1)
                   : unknown_command(argv[1]);
}
