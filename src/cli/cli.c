/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: the list of commands, help, version, and `serve`, which
 * becomes gloveboxd. Before them, what every command starts and ends with:
 * its streams, its signals, its error messages. Called by cmd/glovebox.c; a
 * command never calls another.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/cli.h"
#include "cli/common.h"
#include "conf/conf.h"

/* A terminal, unless NO_COLOR or TERM=dumb says otherwise. */
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
    free(take_ptr(c->context_url));
    free(take_ptr(c->context_cacert));
    free(take_ptr(c->pin));
    if (c->key)
        explicit_bzero(c->key, strlen(c->key));
    free(take_ptr(c->key));
    fd_close(&c->signal_fd);
}

/* Numbers of bytes as people read them: "67108864" as "64 MiB". */
static void add_sizes(const char *text, struct buf *out)
{
    while (*text) {
        size_t len = strspn(text, "0123456789");
        char size[16];

        if (len >= 4 && len < 19)
            buf_adds(out, size_format(strtoull(text, NULL, 10), size));
        else
            buf_add(out, text, len ? len : 1);
        text += len ? len : 1;
    }
}

/* "field 'timeout_s' must be ..." of the service in the words of the command
 * line: "--timeout must be ...". The names come from the templates of the
 * request's body. */
static void name_flags(const struct cli *c, const char *message,
                       struct buf *out)
{
    const char *template = c->verb ? c->verb->body : NULL;
    char *text cleanup(mem_free) = xstrdup(message);
    bool is_size = false;

    for (const char *p = template ? template : ""; *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, "="), end = len + strcspn(p + len, " ");
        const char *source = p + len + 2;
        size_t name = strcspn(source, "}:");
        char *member cleanup(mem_free) = xstrndup(p, len);
        const char *dot = strrchr(member, '.');
        const char *forms[] = {member, dot ? dot + 1 : member};

        p += end;
        if (source[-1] != '{')
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
            char *quoted cleanup(mem_free) = xasprintf("field '%s'", forms[i]);
            const char *at = strstr(text, quoted);
            size_t cut = strlen(quoted);
            char *renamed;

            if (!at && strncmp(text, forms[i], strlen(forms[i])) == 0 &&
                text[strlen(forms[i])] == ' ') {
                at = text;
                cut = strlen(forms[i]);
            }
            if (!at)
                continue;
            renamed = xasprintf("%.*s%.*s%s", (int)(at - text), text,
                                (int)name, source, at + cut);
            free(text);
            text = renamed;
            is_size = strstr(forms[i], "_bytes") != NULL;
        }
    }
    if (is_size)
        add_sizes(text, out);
    else
        buf_adds(out, text);
}

/* Maps the kind of failure to an exit status. A request that the service calls
 * invalid (see cli_refused) is a usage error; an unreadable file is not. */
static int cli_fail_exit(const struct error *err)
{
    switch ((int)err->code) {
    case ERR_APPROVAL:
        return CLI_EXIT_PENDING;
    case ERR_ISOLATION:
        return CLI_EXIT_ISOLATION;
    case ERR_INVALID:
        return err->errnum == EINVAL ? CLI_EXIT_USAGE : CLI_EXIT_FAILED;
    case ERR_TOO_LARGE:
    case ERR_LIMIT:
    case ERR_BUSY:
    case ERR_SPACE:
        return CLI_EXIT_LIMIT;
    default:
        return CLI_EXIT_FAILED;
    }
}

int cli_fail(const struct cli *c, const struct error *err)
{
    struct buf message cleanup(buf_done) = {0};

    name_flags(c, err->message, &message);
    if (c->json) {
        json_t *out cleanup(json_unref) = json_pack(
            "{s:{s:s, s:s, s:s}}", "error", "code", error_code_name(err->code),
            "message", message.data, "hint", err->hint);

        cli_print_json(c, out);
    }
    (void)fflush(stdout);
    (void)fprintf(stderr, "%sglovebox: %s%s\n", c->color_err ? "\033[31m" : "",
                  message.data, c->color_err ? "\033[0m" : "");
    if (err->hint[0])
        (void)fprintf(stderr, "%s\n", err->hint);
    if (err->retry_after_s > 0)
        (void)fprintf(stderr, "Try again in %d s.\n", err->retry_after_s);
    return cli_fail_exit(err);
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

bool cli_sleep(const struct cli *c, unsigned ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
    sigset_t set;

    (void)nanosleep(&ts, NULL);
    (void)sigpending(&set);
    return !c->interrupted && !sigismember(&set, SIGINT) &&
           !sigismember(&set, SIGTERM) && !sigismember(&set, SIGHUP);
}

void cli_print_json(const struct cli *c, const json_t *value)
{
    if (!value)
        return;
    if (c->yaml) {
        cli_show_yaml(value);
        return;
    }
    (void)json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
    (void)fputc('\n', stdout);
}

/* ---- commands ----------------------------------------------------------- */

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
    &cli_serve,    &cli_login,   &cli_logout,        &cli_whoami,
    &cli_contexts, &cli_console, &cli_run,           &cli_shell,
    &cli_undo,     &cli_redo,    &cli_chat,          &cli_executions,
    &cli_sessions, &cli_pool,    &cli_files,         &cli_workspaces,
    &cli_search,   &cli_ask,     &cli_locks,         &cli_share,
    &cli_agents,   &cli_tools,   &cli_conversations, &cli_approvals,
    &cli_audit,    &cli_policy,  &cli_backup,        &cli_restore,
    &cli_verify,   &cli_migrate, &cli_key,           &cli_token,
    &cli_network,  &cli_secrets, &cli_model,         &cli_quota,
    &cli_runtime,  &cli_mcp,     &cli_doctor,        &cli_scorecard,
    &cli_nodes,    &cli_version, &cli_help,          NULL,
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

        cli_print_json(&(const struct cli){0}, all);
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
