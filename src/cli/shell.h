/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of `glovebox shell` share: shell.c and colon.c. */
#ifndef GLOVEBOX_CLI_SHELL_H
#define GLOVEBOX_CLI_SHELL_H

#include "cli/cli_int.h"
#include "cli/input.h"

struct cli_language {
    const char *name;
    const char *prompt, *more;
    bool (*wants_more)(const char *text);
};

struct cli_shell {
    struct cli *c;
    const char *session_arg, *lang, *charts;
    struct cli_session_spec spec;
    const struct cli_language *language;
    struct cli_lease lease;
    struct cli_prompt *prompt;
    bool over;
    int status;
};

/* NULL when there is none of that name. */
const struct cli_language *cli_shell_language(const char *name);
/* A failure of ours at the prompt: said, and with no terminal the end. */
void cli_shell_failed(struct cli_shell *s, const struct error *err);
/* A line that starts with a colon; it is taken apart. */
void cli_colon_run(struct cli_shell *s, char *line);

#endif
