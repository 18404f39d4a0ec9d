/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program glovebox. Each command is a table (command.h) in a file of its
 * name, in the folder of its topic: run, chat, files, govern, operate,
 * account.
 * cli.c lists them. A command finds the service and uses its native API
 * (client/); the program contains no code of the service. term/ reads from and
 * writes to the terminal, mcp/ is the bridge `glovebox mcp`.
 *
 * The exit status tells a failure of the program from a failure of the code
 * that it ran.
 */
#ifndef GLOVEBOX_CLI_CLI_H
#define GLOVEBOX_CLI_CLI_H

#include <stdbool.h>

enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_CODE = 1,   /* the code that ran failed; doctor, verify, audit
                            verify: something is wrong */
    CLI_EXIT_USAGE = 2,  /* wrong command line */
    CLI_EXIT_FAILED = 3, /* our own failure: no server, refused key, I/O */
    CLI_EXIT_TIMEOUT = 4,
    CLI_EXIT_LIMIT = 5,  /* a limit, or out of memory */
    CLI_EXIT_KILLED = 6, /* killed or crashed */
    CLI_EXIT_CANCELLED = 7,
    CLI_EXIT_ISOLATION = 8, /* a wall could not be built; nothing ran */
    CLI_EXIT_DENIED = 9,    /* refused by policy; nothing ran */
    CLI_EXIT_PENDING = 10,  /* waits for approval; nothing ran */
    CLI_EXIT_FINDINGS = 11, /* scorecard: all works, and there is advice */
};

/* argv[0] is the command's name; returns the exit status. */
typedef int cli_command_fn(int argc, char **argv);

struct cli_command; /* command.h */

/* The whole program; argv as main got it. */
int cli_main(int argc, char **argv);
/* The table's entry of that name, or NULL. */
const struct cli_command *cli_command_find(const char *name);

#endif
