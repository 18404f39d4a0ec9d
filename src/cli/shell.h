/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `glovebox shell` share. */
#ifndef GLOVEBOX_CLI_SHELL_H
#define GLOVEBOX_CLI_SHELL_H

#include "cli/cli_int.h"

/* ---- prompt.c: a line of input ------------------------------------------ */

enum cli_prompt_result {
    CLI_PROMPT_LINE,
    CLI_PROMPT_INTERRUPTED, /* Ctrl-C: what was typed is dropped */
    CLI_PROMPT_END,
    CLI_PROMPT_STOPPED, /* another signal: leave */
};

struct cli_prompt;
struct cli_prompt *cli_prompt_open(struct cli *c); /* c: borrowed */
void cli_prompt_close(struct cli_prompt *p);       /* keeps the history */
bool cli_prompt_interactive(const struct cli_prompt *p);
/* ret: owned by caller, set for CLI_PROMPT_LINE. */
enum cli_prompt_result cli_prompt_read(struct cli_prompt *p,
                                       const char *prompt, char **ret);

/* ---- lines.c: is this input complete? ----------------------------------- */

/* Python: open brackets, an open triple quote or a trailing backslash want
 * more; so does a block until its blank line. */
bool cli_lines_python_wants_more(const char *text);
/* Shell: open quotes, a trailing backslash, pipe, && or ||, an unclosed
 * do/then/{ block or a here-document. */
bool cli_lines_shell_wants_more(const char *text);

/* ---- shell.c, shell_commands.c ------------------------------------------ */

struct cli_language {
    const char *name;
    const char *prompt, *more;
    bool (*wants_more)(const char *text);
};

struct cli_shell {
    struct cli *c;
    const char *session_arg, *lang, *charts;
    struct cli_session_spec spec;
    bool embedded;
    const struct cli_language *language;
    struct cli_temp_session temp;
    struct cli_prompt *prompt;
    bool over;
    int status;
};

/* NULL when there is none of that name. */
const struct cli_language *cli_shell_language(const char *name);
/* A failure of ours at the prompt: said, and with no terminal the end. */
void cli_shell_failed(struct cli_shell *s, const struct error *err);
/* A line that starts with a colon; it is taken apart. */
void cli_shell_command_run(struct cli_shell *s, char *line);

#endif
