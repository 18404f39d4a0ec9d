/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of input: by readline with history on a terminal, else as it
 * comes. Readline runs by its callback interface, so that Ctrl-C is read from
 * the signal descriptor like everywhere else. Called by shell.c only.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "base/mem.h"
#include "cli/cli_int.h"
#include "cli/shell.h"

#define HISTORY_MAX 2000
#define LINE_LEN_MAX (1u << 20)

struct cli_prompt {
    struct cli *c;
    bool interactive;
    char *history;
};

/* Readline's callback has no context; there is one terminal, one thread and
 * one prompt, so these belong to whoever reads at the moment. */
static char *got_line;
static bool got_any;

static void on_line(char *line)
{
    got_line = line;
    got_any = true;
    /* Gives the terminal back while the line is run. */
    rl_callback_handler_remove();
}

/* $XDG_STATE_HOME or ~/.local/state, then glovebox/history; its folders are
 * made. NULL: no history is kept. */
static char *history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char *path;

    if (state && state[0] == '/')
        path = xasprintf("%s/glovebox/history", state);
    else if (home && home[0] == '/')
        path = xasprintf("%s/.local/state/glovebox/history", home);
    else
        return NULL;
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        (void)mkdir(path, 0700); /* mostly there; else writing fails later */
        *p = '/';
    }
    return path;
}

struct cli_prompt *cli_prompt_open(struct cli *c)
{
    struct cli_prompt *p = xcalloc(1, sizeof(*p));

    p->c = c;
    p->interactive = isatty(STDIN_FILENO) == 1 && c->tty_err;
    if (!p->interactive)
        return p;
    rl_catch_signals = 0;  /* ours come from the descriptor */
    rl_outstream = stderr; /* standard output is the code's */
    rl_readline_name = "glovebox";
    (void)rl_bind_key('\t', rl_insert);
    using_history();
    stifle_history(HISTORY_MAX);
    p->history = history_path();
    if (p->history)
        (void)read_history(p->history); /* none yet is fine */
    return p;
}

void cli_prompt_close(struct cli_prompt *p)
{
    if (!p)
        return;
    if (p->history) {
        mode_t mask = umask(077); /* it may hold what was typed by mistake */

        (void)write_history(p->history);
        (void)umask(mask);
        clear_history();
    }
    free(p->history);
    free(p);
}

bool cli_prompt_interactive(const struct cli_prompt *p)
{
    return p->interactive;
}

/* Standard input may be non-blocking or slow; signals are looked at too. */
static int next_signal(struct cli_prompt *p)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = p->c->signal_fd, .events = POLLIN}};
    struct signalfd_siginfo info;

    if (poll(fds, 2, -1) < 0 || !fds[1].revents)
        return 0;
    if (read(p->c->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}

static enum cli_prompt_result abandon_line(int signal_number)
{
    rl_free_line_state();
    rl_callback_sigcleanup();
    rl_callback_handler_remove();
    (void)fputs(signal_number == SIGINT ? "^C\n" : "\n", stderr);
    return signal_number == SIGINT ? CLI_PROMPT_INTERRUPTED
                                   : CLI_PROMPT_STOPPED;
}

static enum cli_prompt_result read_terminal(struct cli_prompt *p,
                                            const char *prompt, char **ret)
{
    got_any = false;
    got_line = NULL;
    rl_callback_handler_install(prompt, on_line);
    while (!got_any) {
        int number = next_signal(p);

        if (number)
            return abandon_line(number);
        rl_callback_read_char();
    }
    if (!got_line) {
        (void)fputc('\n', stderr);
        return CLI_PROMPT_END;
    }
    if (*got_line)
        add_history(got_line);
    *ret = take_ptr(got_line);
    return CLI_PROMPT_LINE;
}

static enum cli_prompt_result read_pipe(char **ret)
{
    char *line cleanup(mem_free) = NULL;
    size_t room = 0;
    ssize_t n = getline(&line, &room, stdin);

    if (n < 0 || (size_t)n > LINE_LEN_MAX)
        return CLI_PROMPT_END;
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
        line[--n] = '\0';
    *ret = take_ptr(line);
    return CLI_PROMPT_LINE;
}

enum cli_prompt_result cli_prompt_read(struct cli_prompt *p,
                                       const char *prompt, char **ret)
{
    return p->interactive ? read_terminal(p, prompt, ret) : read_pipe(ret);
}
