/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox run: code in, its output out. One execution in a session made for
 * it and deleted afterwards, or in the one that --session names.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
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
    bool embedded;
    const char *charts, *conversation, *message, *lock_file;
    uint64_t timeout_s;
    bool wait;
    /* state */
    char *code;
    size_t code_len;
    char *lock; /* token */
    struct cli_temp_session temp;
    json_t *execution;
};

static void run_done(void *flags)
{
    struct run *r = flags;

    free(r->code);
    cli_secret_free(&r->lock);
    json_decref(r->execution);
}

/* ---- the code ----------------------------------------------------------- */

static int read_code(struct run *r, const char *file, struct error *err)
{
    if (!r->code_arg)
        return cli_input_read(file ? file : "-", CODE_MAX, &r->code,
                              &r->code_len, err);
    r->code = xstrdup(r->code_arg);
    r->code_len = strlen(r->code);
    return 0;
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
            cli_files_put(r->c, r->temp.session, local, remote, NULL, err);
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
            cli_files_get(r->c, r->temp.session, remote, local, &saved, &why);
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
    size_t made = cli_file_summary_count(r->execution);

    cli_file_summary_print(r->c, r->execution, person && kept);
    if (!kept && person && r->temp.is_new && !r->get.count && made)
        (void)fprintf(stderr,
                      "%zu file%s made and not kept; --get PATH fetches one\n",
                      made, made == 1 ? "" : "s");
}

/* ---- the command -------------------------------------------------------- */

static int run_code(struct run *r, struct error *err)
{
    struct cli_execute what = {
        .session = r->temp.session,
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
        .lasting = !r->temp.is_new,
        .wait = r->wait,
    };
    int result = put_files(r, err);

    if (result == 0)
        result = cli_execute(r->c, &what, &r->execution, err);
    if (result < 0) {
        /* Given up waiting: the session is where it will run. */
        if (err->approval[0])
            r->temp.is_new = false;
        return result;
    }
    if (cli_outcome_exit(r->execution) == CLI_EXIT_PENDING) {
        r->temp.is_new = false;
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

static int run_check(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct run *r = arg;

    c->embedded = r->embedded;
    if (r->code_arg && words->count)
        return cli_usage_error(c, "both -c and the file '%s'",
                               words->items[0]);
    if (!r->code_arg && !words->count && isatty(STDIN_FILENO) == 1)
        return cli_usage_error(c, "no code: give -c CODE, a FILE or -");
    if (r->session_arg &&
        (r->spec.pool || r->spec.runtime || r->spec.memory_bytes ||
         r->spec.workspace || r->spec.ephemeral || r->allow.count))
        return cli_usage_error(c,
                               "--workspace, --ephemeral, --pool, --runtime, "
                               "--allow and --memory are for a new session");
    if (c->embedded &&
        (r->session_arg || r->spec.workspace || c->url || c->data))
        return cli_usage_error(c, CLI_EMBEDDED_ALONE);
    if (r->spec.workspace && r->spec.ephemeral)
        return cli_usage_error(c, "--workspace keeps files, --ephemeral does "
                                  "not: use one of them");
    if (r->message && !r->conversation)
        return cli_usage_error(c, "--message needs --conversation too");
    return CLI_EXIT_OK;
}

static int run_command(struct cli *c, const struct cli_words *words, void *arg)
{
    struct run *r = arg;
    struct error err = {0};
    int result;

    r->c = c;
    r->spec.allow = &r->allow;
    result = read_code(r, words->count ? words->items[0] : NULL, &err);
    if (result == 0 && r->lock_file)
        result = cli_secret_file(r->lock_file, "lock", &r->lock, &err);
    if (result == 0)
        result =
            cli_connect(c,
                        r->session_arg || r->spec.workspace ? CLI_NEED_RUNNING
                                                            : CLI_NEED_ANY,
                        r->spec.pool, r->spec.runtime, &err);
    if (result == 0)
        result =
            cli_temp_session_open(c, r->session_arg, &r->spec, &r->temp, &err);
    if (result == 0)
        result = run_code(r, &err);
    cli_temp_session_close(c, &r->temp);
    return conclude(r, result, &err);
}

#define AT(member) offsetof(struct run, member)

static const struct cli_option options[] = {
    {"code", 'c', CLI_OPT_TEXT, AT(code_arg), "CODE", "the code itself", NULL},
    {"shell", 0, CLI_OPT_FLAG, AT(shell), NULL, "bash instead of Python",
     NULL},
    {"session", 's', CLI_OPT_TEXT, AT(session_arg), "S",
     "run in this session (id or name) and keep it", NULL},
    {"put", 0, CLI_OPT_LIST, AT(put), "F[:PATH]",
     "upload a file first; may be repeated", NULL},
    {"get", 0, CLI_OPT_LIST, AT(get), "PATH[:F]",
     "download a file afterwards; may be repeated", NULL},
    {"workspace", 'w', CLI_OPT_TEXT, AT(spec.workspace), "WS",
     "work on this workspace (id or name)", NULL},
    {"ephemeral", 0, CLI_OPT_FLAG, AT(spec.ephemeral), NULL,
     "keep nothing of the new session", NULL},
    {"embedded", 0, CLI_OPT_FLAG, AT(embedded), NULL,
     "use a throwaway service of its own; keeps no files", NULL},
    {"pool", 0, CLI_OPT_TEXT, AT(spec.pool), "P", "pool of the new session",
     NULL},
    {"runtime", 0, CLI_OPT_TEXT, AT(spec.runtime), "R",
     "runtime image of the new session", NULL},
    {"timeout", 't', CLI_OPT_SECONDS, AT(timeout_s), "S",
     "seconds the code may run; else the pool's limit", NULL},
    {"memory", 'm', CLI_OPT_SIZE, AT(spec.memory_bytes), "M",
     "memory of the new session, such as 512m", NULL},
    {"allow", 0, CLI_OPT_LIST, AT(allow), "HOST[:PORT]",
     "a host the code may reach; may be repeated", NULL},
    {"conversation", 0, CLI_OPT_TEXT, AT(conversation), "ID",
     "the conversation this run belongs to", NULL},
    {"message", 0, CLI_OPT_TEXT, AT(message), "ID",
     "the message of it that caused the run", NULL},
    {"lock-file", 0, CLI_OPT_TEXT, AT(lock_file), "F",
     "file that holds the token of a lock", NULL},
    {"charts", 0, CLI_OPT_TEXT, AT(charts), "DIR",
     "where charts are saved; else here", NULL},
    {"wait", 0, CLI_OPT_FLAG, AT(wait), NULL,
     "if policy holds the run: wait until it is approved", NULL},
    {0},
};

const struct cli_command cli_run = {
    .name = "run",
    .summary = "Run Python or shell code in a sealed session",
    .notes =
        "Code comes from -c, from FILE, or from standard input (-). Output is\n"
        "shown while it runs; the last expression's value is printed as at\n"
        "Python's own prompt; charts are saved as chart-1.png, chart-2.png,\n"
        "... and never overwrite a file. Ctrl-C cancels; pressed again, it\n"
        "quits.\n\n"
        "Files are at /mnt/data in the session and are kept in its workspace,\n"
        "each with an id, after the session is gone; --workspace names the\n"
        "workspace to use, --ephemeral keeps nothing. With --embedded, or when\n"
        "there is neither a service nor a data directory, a throwaway service\n"
        "is started for this command; its files are discarded at the end.\n"
        "\nExit status: 0 it worked, 1 the code failed (also a shell script\n"
        "that ended with a status other than 0), 2 wrong command line, 3\n"
        "glovebox itself failed, 4 out of time, 5 a limit or out of memory, 6\n"
        "killed or crashed, 7 cancelled, 8 a wall could not be built, 9\n"
        "denied, 10 waits for approval, in a session that is kept for it.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct run),
    .verbs =
        (const struct cli_verb[]){
            {"", NULL, "[FILE]", .run = run_command},
            {0},
        },
    .check = run_check,
    .flags_done = run_done,
};
