/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every command starts and ends with: its streams, its signals, its
 * complaints. The table of commands is in commands.c.
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

    *c = (struct cli){.command = command, .signal_fd = -1, .watch_fd = -1};
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
    cli_embedded_stop(take_ptr(c->service));
    free(take_ptr(c->base));
    free(take_ptr(c->pin));
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
    if (err->code == ERR_APPROVAL)
        return CLI_EXIT_PENDING;
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
    cli_help_usage(stderr, command, c->verb);
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
