/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox run: code in, its output out. One execution in a session made for
 * it and deleted afterwards, or in the one that --session names.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define CODE_MAX (16u << 20) /* the service's own limit is lower */

struct run {
    struct cli *c;
    /* flags */
    const char *code_arg;
    bool shell;
    const char *session_arg;
    struct cli_words put, get, allow;
    struct cli_session_spec spec;
    const char *charts, *conversation, *message, *lock_file;
    uint64_t timeout_s;
    bool wait;
    /* state */
    char *code;
    size_t code_len;
    char *lock; /* token */
    struct cli_lease lease;
    json_t *execution;
};

static const char notes[] =
    "Code comes from -c, from FILE, or from standard input (-). Output is\n"
    "shown while it runs; the last expression's value is printed as Python's\n"
    "own prompt would; charts are saved as chart-1.png, chart-2.png, ... and\n"
    "never over an existing file. Ctrl-C cancels; pressed again, it quits.\n\n"
    "Files are at /mnt/data in the session and are kept in its workspace,\n"
    "each with an id, after the session is gone; --workspace names the one to\n"
    "work on, --ephemeral keeps nothing. With --embedded, or when there is\n"
    "neither a service nor a data directory, a throwaway service is started\n"
    "for this command; its files are discarded at the end.\n"
    "\nExit status: 0 it worked, 1 the code failed (also a shell script that\n"
    "ended with a status other than 0), 2 wrong command line, 3 glovebox\n"
    "itself failed, 4 out of time, 5 a limit or out of memory, 6 killed or\n"
    "crashed, 7 cancelled, 8 a wall could not be built, 9 denied, 10 held\n"
    "until somebody has approved it, in a session that is kept for it.\n";

static void run_done(struct run *r)
{
    free(r->code);
    cli_secret_free(&r->lock);
    json_decref(r->execution);
    cli_done(r->c);
}

/* ---- the code ----------------------------------------------------------- */

static int read_fd(struct run *r, int fd, const char *name, struct error *err)
{
    struct buf text cleanup(buf_done) = {0};
    ssize_t n;

    do {
        buf_reserve(&text, 65536);
        n = read(fd, text.data + text.len, 65536);
        if (n < 0 && errno != EINTR)
            return error_errno(err, ERR_INVALID, errno, "cannot read %s",
                               name);
        text.len += n > 0 ? (size_t)n : 0;
        if (text.len > CODE_MAX)
            return error_set(err, ERR_TOO_LARGE, "%s is over %u MiB", name,
                             CODE_MAX >> 20);
    } while (n != 0);
    r->code = buf_take(&text, &r->code_len);
    return 0;
}

static int read_code(struct run *r, const char *word, struct error *err)
{
    int fd cleanup(fd_close) = -1;

    if (r->code_arg) {
        r->code = xstrdup(r->code_arg);
        r->code_len = strlen(r->code);
        return 0;
    }
    if (!word || strcmp(word, "-") == 0)
        return read_fd(r, STDIN_FILENO, "standard input", err);
    fd = open(word, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot open %s", word);
    return read_fd(r, fd, word, err);
}

/* ---- files -------------------------------------------------------------- */

static int put_files(struct run *r, struct error *err)
{
    for (size_t i = 0; i < r->put.count; i++) {
        char *local cleanup(mem_free) = NULL;
        const char *remote;
        int result;

        cli_remote_split(r->put.items[i], true, &local, &remote);
        result =
            cli_files_put(r->c, r->lease.session, local, remote, NULL, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* All that can be had is fetched; the first failure is the one returned. */
static int get_files(struct run *r, struct error *err)
{
    int first = 0;

    for (size_t i = 0; i < r->get.count; i++) {
        char *remote cleanup(mem_free) = NULL;
        char *saved cleanup(mem_free) = NULL;
        const char *local;
        struct error why;
        int result;

        cli_remote_split(r->get.items[i], false, &remote, &local);
        result =
            cli_files_get(r->c, r->lease.session, remote, local, &saved, &why);
        if (result == 0 && saved && r->c->tty_err && !r->c->json)
            (void)fprintf(stderr, "file saved: %s\n", saved);
        if (result < 0 && first == 0) {
            first = result;
            *err = why;
        }
    }
    return first;
}

/* What was made: kept, and where; or about to go, and not asked for. */
static void mention_files(const struct run *r)
{
    bool person = r->c->tty_err && !r->c->json;
    bool kept = !r->c->service &&
                cli_json_text(r->execution, "workspace", NULL) != NULL;
    size_t made = cli_made_count(r->execution);

    cli_made_show(r->c, r->execution, person && kept);
    if (!kept && person && r->lease.made && !r->get.count && made)
        (void)fprintf(stderr,
                      "%zu file%s made and not kept; --get PATH fetches one\n",
                      made, made == 1 ? "" : "s");
}

/* ---- the command -------------------------------------------------------- */

static int work(struct run *r, struct error *err)
{
    struct cli_execute what = {
        .session = r->lease.session,
        .language = r->shell ? "shell" : "python",
        .code = r->code,
        .code_len = r->code_len,
        .timeout_s = r->timeout_s,
        .conversation = r->conversation,
        .message = r->message,
        .lock = r->lock,
        .charts = r->charts    ? r->charts
                  : r->c->json ? NULL
                               : ".",
        .quiet = r->c->json,
        .lasting = !r->lease.made,
        .wait = r->wait,
    };
    int result = put_files(r, err);

    if (result == 0)
        result = cli_execute(r->c, &what, &r->execution, err);
    if (result < 0) {
        /* Given up waiting: the session is where it will run. */
        if (err->approval[0])
            r->lease.made = false;
        return result;
    }
    if (cli_outcome_exit(r->execution) == CLI_EXIT_PENDING) {
        r->lease.made = false;
        return 0;
    }
    return get_files(r, err);
}

/* The code's own failure says more than that a file it never made is not
 * there; a failure of ours counts when the code did well. */
static int conclude(struct run *r, int result, const struct error *err)
{
    int status = CLI_EXIT_FAILED;

    if (r->execution) {
        status = cli_outcome_exit(r->execution);
        if (r->c->json)
            cli_print_json(r->execution);
        mention_files(r);
    }
    if (result == 0)
        return status;
    if (err->errnum == EINTR && !r->execution) {
        (void)fputs("glovebox: interrupted\n", stderr);
        if (err->approval[0])
            (void)fprintf(stderr,
                          "It still waits; `glovebox approvals withdraw %s` "
                          "takes it back.\n",
                          err->approval);
        return CLI_EXIT_CANCELLED;
    }
    if (r->execution) { /* its object is the one JSON value printed */
        (void)fprintf(stderr, "glovebox: %s\n", err->message);
        return status == CLI_EXIT_OK ? CLI_EXIT_FAILED : status;
    }
    return cli_fail(r->c, err);
}

static int check_line(struct run *r, const struct cli_words *words)
{
    if (words->count > 1)
        return cli_usage_error(r->c, "one FILE at a time, not '%s' as well",
                               words->items[1]);
    if (r->code_arg && words->count)
        return cli_usage_error(r->c, "both -c and the file '%s'",
                               words->items[0]);
    if (!r->code_arg && !words->count && isatty(STDIN_FILENO) == 1)
        return cli_usage_error(r->c, "no code: give -c CODE, a FILE or -");
    if (r->session_arg &&
        (r->spec.pool || r->spec.runtime || r->spec.memory_bytes ||
         r->spec.workspace || r->spec.ephemeral || r->allow.count))
        return cli_usage_error(r->c,
                               "--workspace, --ephemeral, --pool, --runtime, "
                               "--allow and --memory are for a new session");
    if (r->c->embedded &&
        (r->session_arg || r->spec.workspace || r->c->url || r->c->data))
        return cli_usage_error(r->c, CLI_EMBEDDED_ALONE);
    if (r->spec.workspace && r->spec.ephemeral)
        return cli_usage_error(r->c, "--workspace keeps what --ephemeral "
                                     "would not: one of them");
    if (r->message && !r->conversation)
        return cli_usage_error(r->c, "--message wants --conversation too");
    return CLI_EXIT_OK;
}

int cli_run(int argc, char **argv)
{
    struct cli c;
    struct run r cleanup(run_done) = {.c = &c, .spec.allow = &r.allow};
    const struct cli_opt table[] = {
        {"code", 'c', CLI_OPT_TEXT, &r.code_arg, "CODE", "the code itself",
         NULL},
        {"shell", 0, CLI_OPT_FLAG, &r.shell, NULL, "bash instead of Python",
         NULL},
        {"session", 's', CLI_OPT_TEXT, &r.session_arg, "S",
         "run in this session (id or name) and keep it", NULL},
        {"put", 0, CLI_OPT_LIST, &r.put, "F[:PATH]",
         "upload a file first; may be repeated", NULL},
        {"get", 0, CLI_OPT_LIST, &r.get, "PATH[:F]",
         "download a file afterwards; may be repeated", NULL},
        {"workspace", 'w', CLI_OPT_TEXT, &r.spec.workspace, "WS",
         "work on this workspace (id or name)", NULL},
        {"ephemeral", 0, CLI_OPT_FLAG, &r.spec.ephemeral, NULL,
         "keep nothing of the new session", NULL},
        {"embedded", 0, CLI_OPT_FLAG, &c.embedded, NULL,
         "use a throwaway service of its own; keeps no files", NULL},
        {"pool", 0, CLI_OPT_TEXT, &r.spec.pool, "P", "pool of the new session",
         NULL},
        {"runtime", 0, CLI_OPT_TEXT, &r.spec.runtime, "R",
         "runtime image of the new session", NULL},
        {"timeout", 't', CLI_OPT_SECONDS, &r.timeout_s, "S",
         "seconds the code may run; else the pool's", NULL},
        {"memory", 'm', CLI_OPT_SIZE, &r.spec.memory_bytes, "M",
         "memory of the new session, such as 512m", NULL},
        {"allow", 0, CLI_OPT_LIST, &r.allow, "HOST[:PORT]",
         "a host the code may reach; may be repeated", NULL},
        {"conversation", 0, CLI_OPT_TEXT, &r.conversation, "ID",
         "the conversation this run belongs to", NULL},
        {"message", 0, CLI_OPT_TEXT, &r.message, "ID",
         "the message of it that caused the run", NULL},
        {"lock-file", 0, CLI_OPT_TEXT, &r.lock_file, "F",
         "holds the token of a lock to write through", NULL},
        {"charts", 0, CLI_OPT_TEXT, &r.charts, "DIR",
         "where charts are saved; else here", NULL},
        {"wait", 0, CLI_OPT_FLAG, &r.wait, NULL,
         "if policy holds it: until it was approved", NULL},
    };
    const struct cli_opts opts = {table, ARRAY_SIZE(table), notes};
    struct cli_words words;
    struct error err = {0};
    int status, result;

    cli_init(&c, "run");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    status = check_line(&r, &words);
    if (status != CLI_EXIT_OK)
        return status;
    result = read_code(&r, words.count ? words.items[0] : NULL, &err);
    if (result == 0 && r.lock_file)
        result = cli_secret_file(r.lock_file, "lock", &r.lock, &err);
    if (result == 0)
        result =
            cli_connect(&c,
                        r.session_arg || r.spec.workspace ? CLI_NEED_RUNNING
                                                          : CLI_NEED_ANY,
                        r.spec.pool, r.spec.runtime, &err);
    if (result == 0)
        result = cli_lease_take(&c, r.session_arg, &r.spec, &r.lease, &err);
    if (result == 0)
        result = work(&r, &err);
    cli_lease_end(&c, &r.lease);
    return conclude(&r, result, &err);
}
