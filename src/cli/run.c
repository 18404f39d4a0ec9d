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
    struct cli_words put, get;
    const char *pool, *runtime, *charts;
    uint64_t timeout_s, memory_bytes;
    /* state */
    char *code;
    size_t code_len;
    char session[ID_MAX];
    bool made; /* the session is ours to delete */
    json_t *execution;
};

static const char notes[] =
    "Code comes from -c, from FILE, or from standard input (-). Output is\n"
    "shown while it runs; the last expression's value is printed as Python's\n"
    "own prompt would; charts are saved as chart-1.png, chart-2.png, ... and\n"
    "never over an existing file. Files are at /mnt/data in the session.\n"
    "Ctrl-C cancels; pressed again, it quits.\n\n"
    "Without a running service an embedded one is started and stopped again.\n"
    "\nExit status: 0 it worked, 1 the code failed (also a shell script that\n"
    "ended with a status other than 0), 2 wrong command line, 3 glovebox\n"
    "itself failed, 4 out of time, 5 a limit or out of memory, 6 killed or\n"
    "crashed, 7 cancelled, 8 a wall could not be built, 9 denied.\n";

static void run_done(struct run *r)
{
    free(r->code);
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

/* ---- the session -------------------------------------------------------- */

static int take_session(struct run *r, struct error *err)
{
    struct cli_session_spec spec = {.pool = r->pool,
                                    .runtime = r->runtime,
                                    .memory_bytes = r->memory_bytes};
    json_t *session cleanup(json_unref) = NULL;
    int result;

    if (r->session_arg)
        return cli_remote_find(r->c, r->session_arg, r->session, err);
    result = cli_remote_create(r->c, &spec, &session, err);
    if (result < 0)
        return result;
    (void)snprintf(r->session, sizeof(r->session), "%s",
                   cli_json_text(session, "id", ""));
    if (!ids_valid("sess", r->session))
        return error_set(err, ERR_INTERNAL, "the service named no session");
    r->made = true;
    return 0;
}

static void drop_session(struct run *r)
{
    char *path cleanup(mem_free) = xasprintf("/api/sessions/%s", r->session);
    struct error err;

    /* An embedded service takes its sessions along. */
    if (!r->made || r->c->embedded)
        return;
    if (cli_http_json(r->c, "DELETE", path, NULL, NULL, &err) < 0)
        (void)fprintf(stderr, "glovebox: session %s was not deleted: %s\n",
                      r->session, err.message);
}

static int put_files(struct run *r, struct error *err)
{
    for (size_t i = 0; i < r->put.count; i++) {
        char *local cleanup(mem_free) = NULL;
        const char *remote;
        int result;

        cli_remote_split(r->put.items[i], true, &local, &remote);
        result = cli_remote_put(r->c, r->session, local, remote, NULL, err);
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
        result = cli_remote_get(r->c, r->session, remote, local, &saved, &why);
        if (result == 0 && saved && r->c->tty_err && !r->c->json)
            (void)fprintf(stderr, "file saved: %s\n", saved);
        if (result < 0 && first == 0) {
            first = result;
            *err = why;
        }
    }
    return first;
}

/* What was made in a session that is about to go, and not asked for. */
static void mention_files(const struct run *r)
{
    const json_t *files = json_object_get(r->execution, "files");
    const json_t *made = json_object_get(files, "created");
    const json_t *one = json_array_get(made, 0);
    const char *path = json_is_string(one) ? json_string_value(one)
                                           : cli_json_text(one, "path", NULL);

    if (!r->made || !r->c->tty_err || r->c->json || r->get.count || !path)
        return;
    (void)fprintf(
        stderr, "%zu file%s made and not kept; `--get %.200s` keeps one\n",
        json_array_size(made), json_array_size(made) == 1 ? "" : "s", path);
}

/* ---- the command -------------------------------------------------------- */

static int work(struct run *r, struct error *err)
{
    struct cli_execute what = {
        .session = r->session,
        .language = r->shell ? "shell" : "python",
        .code = r->code,
        .code_len = r->code_len,
        .timeout_s = r->timeout_s,
        .charts = r->charts    ? r->charts
                  : r->c->json ? NULL
                               : ".",
        .quiet = r->c->json,
        .lasting = !r->made,
    };
    int result = put_files(r, err);

    if (result == 0)
        result = cli_execute(r->c, &what, &r->execution, err);
    if (result < 0)
        return result;
    return get_files(r, err);
}

/* The code's own failure says more than that a file it never made is not
 * there; a failure of ours counts when the code did well. */
static int conclude(struct run *r, int result, const struct error *err)
{
    int status = CLI_EXIT_FAILED;

    if (r->execution) {
        status = cli_render_exit(r->execution);
        if (r->c->json)
            cli_print_json(r->execution);
        mention_files(r);
    }
    if (result == 0)
        return status;
    if (err->errnum == EINTR && !r->execution) {
        (void)fputs("glovebox: interrupted\n", stderr);
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
    if (r->session_arg && (r->pool || r->runtime || r->memory_bytes))
        return cli_usage_error(
            r->c, "--pool, --runtime and --memory are for a new session");
    return CLI_EXIT_OK;
}

int cli_run(int argc, char **argv)
{
    struct cli c;
    struct run r cleanup(run_done) = {.c = &c};
    const struct cli_opt table[] = {
        {"code", 'c', CLI_OPT_TEXT, &r.code_arg, "CODE", "the code itself"},
        {"shell", 0, CLI_OPT_FLAG, &r.shell, NULL, "bash instead of Python"},
        {"session", 's', CLI_OPT_TEXT, &r.session_arg, "S",
         "run in this session (id or name) and keep it"},
        {"put", 0, CLI_OPT_LIST, &r.put, "F[:PATH]",
         "upload a file first; may be repeated"},
        {"get", 0, CLI_OPT_LIST, &r.get, "PATH[:F]",
         "download a file afterwards; may be repeated"},
        {"pool", 0, CLI_OPT_TEXT, &r.pool, "P", "pool of the new session"},
        {"runtime", 0, CLI_OPT_TEXT, &r.runtime, "R",
         "runtime image of the new session"},
        {"timeout", 't', CLI_OPT_SECONDS, &r.timeout_s, "S",
         "seconds the code may run; else the pool's"},
        {"memory", 'm', CLI_OPT_SIZE, &r.memory_bytes, "M",
         "memory of the new session, such as 512m"},
        {"charts", 0, CLI_OPT_TEXT, &r.charts, "DIR",
         "where charts are saved; else here"},
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
    if (result == 0)
        result = cli_connect(
            &c, r.session_arg ? CLI_CONNECT_RUNNING : CLI_CONNECT_OR_EMBED,
            r.pool, r.runtime, &err);
    if (result == 0)
        result = take_session(&r, &err);
    if (result == 0)
        result = work(&r, &err);
    drop_session(&r);
    return conclude(&r, result, &err);
}
