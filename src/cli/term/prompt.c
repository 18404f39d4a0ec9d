/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of input: by readline with history on a terminal, else as it
 * comes. Readline runs by its callback interface, so that Ctrl-C is read from
 * the signal descriptor like everywhere else. Called by shell.c
 * and chat.c.
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

#include "base/clock.h"
#include "base/mem.h"
#include "cli/common.h"

#define HISTORY_MAX 2000
#define LINE_LEN_MAX (1u << 20)

struct cli_prompt {
    struct cli *c;
    struct cli_prompt_hooks hooks;
    uint64_t idle_ms; /* when on_idle was called last */
    bool interactive;
    char *history;
};

/* Readline's callbacks have no context; there is one terminal, one thread and
 * one prompt, so these belong to the read in progress. */
static const struct cli_prompt_hooks *hooks;
static char *got_line;
static bool got_any;

static void on_line(char *line)
{
    got_line = line;
    got_any = true;
    /* Gives the terminal back while the line is run. */
    rl_callback_handler_remove();
}

/* ---- Tab -----------------------------------------------------------------
 */

static char *next_completion(const char *word, int number)
{
    static size_t n; /* readline asks until there are no more */

    n = number == 0 ? 0 : n + 1;
    return hooks->complete(hooks->ctx, rl_line_buffer, word, n);
}

/* Files of this machine complete the command that takes one; words complete
 * all else. */
static char **complete_line(const char *word, int start, int end)
{
    (void)start;
    (void)end;
    if (strncmp(rl_line_buffer, hooks->files_after,
                strlen(hooks->files_after)) == 0)
        return NULL;
    rl_attempted_completion_over = 1;
    rl_completion_append_character = '\0'; /* no blank after a name */
    return rl_completion_matches(word, next_completion);
}

/* Tab indents at the beginning of a line of code. */
static int on_tab(int count, int key)
{
    if (hooks->prose)
        return rl_complete(count, key);
    for (int i = 0; i < rl_point; i++)
        if (rl_line_buffer[i] != ' ' && rl_line_buffer[i] != '\t')
            return rl_complete(count, key);
    return rl_insert_text("    ") >= 0 ? 0 : 1;
}

/* ---- the prompt ----------------------------------------------------------
 */

/* $XDG_STATE_HOME or ~/.local/state, then glovebox/NAME; its folders are
 * made. NULL: no history is kept. */
static char *history_path(const char *name)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char *path;

    if (state && state[0] == '/')
        path = xasprintf("%s/glovebox/%s", state, name);
    else if (home && home[0] == '/')
        path = xasprintf("%s/.local/state/glovebox/%s", home, name);
    else
        return NULL;
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        (void)mkdir(path, 0700); /* mostly there; else writing fails later */
        *p = '/';
    }
    return path;
}

struct cli_prompt *cli_prompt_open(struct cli *c,
                                   const struct cli_prompt_hooks *wanted)
{
    struct cli_prompt *p = xcalloc(1, sizeof(*p));

    p->c = c;
    p->hooks = *wanted;
    p->idle_ms = clock_mono_ms();
    p->interactive = isatty(STDIN_FILENO) == 1 && c->tty_err;
    if (!p->interactive)
        return p;
    rl_catch_signals = 0;  /* ours come from the descriptor */
    rl_outstream = stderr; /* standard output is the code's */
    rl_readline_name = "glovebox";
    rl_attempted_completion_function = complete_line;
    rl_basic_word_break_characters = " \t\n\"\\'`@$><=;|&{}()[],:+-*/%^~!#";
    (void)rl_bind_key('\t', on_tab);
    using_history();
    stifle_history(HISTORY_MAX);
    p->history = history_path(wanted->history);
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
    int ready;

    for (;;) {
        uint64_t due = p->idle_ms + p->hooks.idle_s * 1000ull;

        ready = poll(fds, 2, p->hooks.on_idle ? clock_left_ms(due) : -1);
        if (ready != 0 || !p->hooks.on_idle)
            break;
        p->hooks.on_idle(p->hooks.ctx);
        p->idle_ms = clock_mono_ms();
    }
    if (ready < 0 || !fds[1].revents)
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
    hooks = &p->hooks;
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
