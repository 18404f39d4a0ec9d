/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that people type. */
#ifndef GLOVEBOX_CLI_INPUT_H
#define GLOVEBOX_CLI_INPUT_H

#include <stdbool.h>

struct cli;

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

#endif
