/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox serve: becomes gloveboxd, with the flags as they are. The daemon
 * checks them; --help alone is answered here, with the same table.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"
#include "conf/conf.h"

static int print_help(void)
{
    const struct cli_command *command = cli_command_find("serve");

    cli_help_usage(stdout, command, NULL);
    (void)printf("\n%s. The first start makes a key in the data\n"
                 "directory (admin.key) and writes the address there "
                 "(endpoint).\n\n",
                 command->summary);
    conf_help_flags(stdout);
    return CLI_EXIT_OK;
}

int cli_serve(int argc, char **argv)
{
    char *program cleanup(mem_free) = NULL;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help();
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
