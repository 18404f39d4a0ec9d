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
#include "cli/common.h"
#include "language/language.h"

#define CODE_MAX (16u << 20) /* the service's own limit is lower */
#define NOTEBOOK_MAX (64u << 20)
#define STDIN_MAX (700u << 10) /* it travels in code, which has 1 MiB */

struct run {
    struct cli *c;
    /* flags */
    const char *code_arg;
    bool shell;
    const char *language_arg;
    const char *session_arg;
    struct cli_words put, get, allow;
    struct cli_session_spec spec;
    bool embedded;
    const char *charts, *conversation, *message, *lock_file;
    uint64_t timeout_s;
    bool wait, detach, stdin_data;
    const char *output; /* of a notebook */
    /* state */
    const struct language *language;
    struct cli_words args; /* of the script; borrowed from argv */
    const char *file;
    json_t *notebook;
    char *data; /* for the script's standard input */
    size_t data_len;
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
    free(r->data);
    json_decref(r->notebook);
    cli_secret_free(&r->lock);
    json_decref(r->execution);
}

/* ---- the code ----------------------------------------------------------- */

static bool is_notebook(const char *file)
{
    size_t len = file ? strlen(file) : 0;

    return len > 6 && strcmp(file + len - 6, ".ipynb") == 0;
}

static int read_code(struct run *r, struct error *err)
{
    int result;

    if (r->code_arg) {
        r->code = xstrdup(r->code_arg);
        r->code_len = strlen(r->code);
    } else {
        result = cli_input_read(r->file ? r->file : "-",
                                is_notebook(r->file) ? NOTEBOOK_MAX : CODE_MAX,
                                &r->code, &r->code_len, err);
        if (result < 0)
            return result;
    }
    if (is_notebook(r->file)) {
        r->notebook = cli_json_load(r->code, r->code_len);
        if (!json_is_array(json_object_get(r->notebook, "cells")))
            return error_set(err, ERR_INVALID,
                             "%.200s is not a notebook of version 4", r->file);
    }
    if (!r->stdin_data)
        return 0;
    result = cli_input_read("-", STDIN_MAX, &r->data, &r->data_len, err);
    return result < 0 && err->code == ERR_TOO_LARGE
               ? error_hint(err, "Upload it with --put FILE instead.")
               : result;
}

/* ---- arguments and standard input ----------------------------------------
 */

/* 'it'\''s' */
static void add_shell_word(struct buf *out, const char *word)
{
    buf_adds(out, "'");
    for (; *word; word++) {
        if (*word == '\'')
            buf_adds(out, "'\\''");
        else
            buf_add(out, word, 1);
    }
    buf_adds(out, "'");
}

/* The code that gives the script its arguments and its standard input: for the
 * shell the beginning of its first line, so that line numbers stay; for Python
 * an execution of its own before the script, because a script may have to
 * begin with a line of its own. */
static void add_prologue(const struct run *r, struct buf *out)
{
    struct buf data cleanup(buf_done) = {0};
    struct json_writer w = {.out = &data};

    if (r->data) /* with its quotes */
        json_write_base64(&w, NULL, r->data, r->data_len);
    if (r->shell) {
        buf_adds(out, "set --");
        for (size_t i = 0; i < r->args.count; i++) {
            buf_adds(out, " ");
            add_shell_word(out, r->args.items[i]);
        }
        buf_adds(out, "; ");
        if (r->data)
            buf_addf(out, "exec < <(printf %%s %s | base64 -d); ", data.data);
        return;
    }
    if (r->file) {
        json_t *argv cleanup(json_unref) = json_array();
        char *text cleanup(mem_free) = NULL;

        (void)json_array_append_new(argv, json_string(r->file));
        for (size_t i = 0; i < r->args.count; i++)
            (void)json_array_append_new(argv, json_string(r->args.items[i]));
        text = json_dumps(argv, JSON_COMPACT); /* as Python writes it, too */
        buf_addf(out, "__import__('sys').argv[:] = %s\n", text ? text : "[]");
    }
    if (r->data)
        buf_addf(out,
                 "__import__('sys').stdin = __import__('io').TextIOWrapper("
                 "__import__('io').BytesIO(__import__('base64').b64decode("
                 "%s)), encoding='utf-8')\n",
                 data.data);
}

/* Python only; *ret: what became of it if it did not end well. */
static int run_prologue(struct run *r, struct cli_execute what, json_t **ret,
                        struct error *err)
{
    struct buf code cleanup(buf_done) = {0};
    json_t *execution cleanup(json_unref) = NULL;
    int result;

    add_prologue(r, &code);
    what.code = code.data;
    what.code_len = code.len;
    what.quiet = true;
    what.charts = NULL;
    result = cli_execute(r->c, &what, &execution, err);
    if (result == 0 && cli_outcome_exit(execution) != CLI_EXIT_OK)
        *ret = json_incref(execution);
    return result;
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

/* Mentions files that were created: stored, with their place, or about to be
 * lost. */
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
    struct buf shell cleanup(buf_done) = {0};
    struct cli_execute what = {
        .session = r->temp.session,
        .language = r->language->name,
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
        .asleep = r->temp.asleep,
        .has_variables = r->temp.has_variables,
        .wait = r->wait,
    };
    int result = put_files(r, err);

    if (r->shell && (r->args.count || r->data)) {
        add_prologue(r, &shell);
        buf_add(&shell, r->code, r->code_len);
        what.code = shell.data;
        what.code_len = shell.len;
    }
    if (result == 0 && (r->args.count || r->data) && !r->shell)
        result = run_prologue(r, what, &r->execution, err);
    if (result == 0 && !r->execution) {
        if (r->notebook)
            result =
                cli_notebook_run(r->c, &what, r->notebook, &r->execution, err);
        else if (r->detach)
            result = cli_execute_detached(r->c, &what, &r->execution, err);
        else
            result = cli_execute(r->c, &what, &r->execution, err);
    }
    if (result == 0 && r->detach) {
        r->temp.is_new = false; /* it runs there */
        return 0;
    }
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

/* Writes the notebook with its outputs, whole or not at all. */
static int save_notebook(const struct run *r, struct error *err)
{
    char *spare cleanup(mem_free) = xasprintf("%s.new", r->output);

    if (json_dump_file(r->notebook, spare, JSON_INDENT(1)) < 0 ||
        rename(spare, r->output) < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot write %.200s",
                           r->output);
    return 0;
}

/* An execution that goes on without this command. */
static int report_detached(const struct run *r)
{
    const char *id = cli_json_text(r->execution, "id", "");

    if (r->c->json)
        cli_print_json(r->c, r->execution);
    else
        (void)printf("%s\n", id);
    if (r->c->tty_err && !r->c->json)
        (void)fprintf(stderr,
                      "It runs in the session %s, which stays.\n"
                      "`glovebox executions logs -f %s` follows it.\n",
                      r->temp.session, id);
    return CLI_EXIT_OK;
}

/* The command has data on its standard input, and the code asked for it. */
static void mention_stdin(const struct run *r)
{
    const char *name =
        cli_json_text(json_object_get(r->execution, "error"), "name", "");

    if (!r->stdin_data && !r->c->json && !isatty(STDIN_FILENO) &&
        strcmp(name, "StdinUnavailableError") == 0)
        (void)fputs("glovebox: run it with --stdin to give the code this "
                    "command's standard input\n",
                    stderr);
}

/* The code's own failure says more than that a file it never made is not
 * there; a failure of ours counts when the code did well. */
static int report_run(struct run *r, int result, const struct error *err)
{
    int status = CLI_EXIT_FAILED;

    if (result == 0 && r->detach &&
        cli_outcome_exit(r->execution) != CLI_EXIT_PENDING)
        return report_detached(r);
    if (r->execution) {
        status = cli_outcome_exit(r->execution);
        if (r->c->json)
            cli_print_json(r->c, r->execution);
        mention_files(r);
        mention_stdin(r);
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

/* --shell, --language, the suffix of the file, or Python. */
static int choose_language(struct cli *c, struct run *r, const char *file)
{
    int found = r->shell ? EXEC_SHELL : -1;

    if (r->language_arg) {
        found = language_find(r->language_arg);
        if (found < 0 || (r->shell && found != EXEC_SHELL))
            return cli_usage_error(c,
                                   "--language must be python, shell, "
                                   "javascript, r, c, go or java%s",
                                   found < 0 ? "" : ", and not with --shell");
    }
    if (found < 0)
        found = language_of_file(file);
    r->language =
        language_get(found < 0 ? EXEC_PYTHON : (enum exec_language)found);
    r->shell = r->language->how == LANGUAGE_COMMAND;
    return CLI_EXIT_OK;
}

static int run_check(struct cli *c, const struct cli_words *words, void *arg)
{
    struct run *r = arg;
    const char *file = words->count ? words->items[0] : NULL;

    c->embedded = r->embedded;
    if (choose_language(c, r, r->code_arg ? NULL : file) != CLI_EXIT_OK)
        return CLI_EXIT_USAGE;
    if (r->language->how != LANGUAGE_COMMAND &&
        r->language->how != LANGUAGE_KERNEL &&
        (words->count > 1 || r->stdin_data))
        return cli_usage_error(c,
                               "arguments and --stdin are for Python and "
                               "shell code; put data into a file with --put");
    if (r->code_arg && words->count)
        return cli_usage_error(c, "both -c and the file '%s'",
                               words->items[0]);
    if (r->output && cli_opts_format(c, r->output))
        r->output = NULL;
    if (r->output && !is_notebook(words->count ? words->items[0] : NULL))
        return cli_usage_error(c, "--output is json, yaml or wide; a file is "
                                  "for a notebook (.ipynb)");
    if (is_notebook(words->count ? words->items[0] : NULL) &&
        (r->language->how != LANGUAGE_KERNEL || r->detach))
        return cli_usage_error(c, "a notebook is run here, as Python: without "
                                  "--shell and --detach");
    if (r->stdin_data && !r->code_arg &&
        (!words->count || strcmp(words->items[0], "-") == 0))
        return cli_usage_error(c,
                               "--stdin is data for the code: give the code "
                               "as FILE or with -c");
    if (r->detach && (r->get.count || r->charts || r->wait))
        return cli_usage_error(c, "--detach does not wait: without --get, "
                                  "--charts and --wait");
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
    if (r->allow.count) {
        json_t *hosts cleanup(json_unref) =
            cli_network_allow(c, &r->allow, NULL, false);

        if (!hosts)
            return CLI_EXIT_USAGE;
    }
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
    r->file = words->count ? words->items[0] : NULL;
    for (size_t i = 1; i < words->count; i++)
        r->args.items[r->args.count++] = words->items[i];
    result = read_code(r, &err);
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
    if (r->notebook && r->output && r->execution) {
        int saved = save_notebook(r, &err);

        result = result < 0 ? result : saved;
    }
    cli_temp_session_close(c, &r->temp);
    return report_run(r, result, &err);
}

#define AT(member) offsetof(struct run, member)

static const struct cli_option options[] = {
    {"code", 'c', CLI_OPT_TEXT, AT(code_arg), "CODE", "the code itself", NULL},
    {"language", 'l', CLI_OPT_TEXT, AT(language_arg), "L",
     "python, shell, javascript, r, c, go or java", NULL},
    {"shell", 0, CLI_OPT_FLAG, AT(shell), NULL, "the same as --language shell",
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
    {"cores", 0, CLI_OPT_COUNT, AT(spec.cores), "N",
     "processor cores of the new session", NULL},
    {"stdin", 'i', CLI_OPT_FLAG, AT(stdin_data), NULL,
     "standard input is data for the code", NULL},
    {"detach", 'd', CLI_OPT_FLAG, AT(detach), NULL,
     "start it, print its id and leave; see `executions`", NULL},
    {"output", 'o', CLI_OPT_TEXT, AT(output), "FILE|FORMAT",
     "where a notebook is saved; or json, yaml", NULL},
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
    .summary = "Run code in a sealed session",
    .notes =
        "Code comes from -c, from FILE, or from standard input (-). Its language\n"
        "is that of --language, else by the name of FILE (.py, .sh, .js, .R, .c,\n"
        ".go, .java), else Python. Words after\n"
        "FILE are its arguments (sys.argv, $1); put -- before those that begin\n"
        "with a dash. With --stdin the code reads your standard input, at most\n"
        "700 KiB. A notebook (FILE.ipynb) runs cell by cell until one fails;\n"
        "--output saves it with its outputs. Output is\n"
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
            {"", NULL, "[FILE] [ARG...]", .run = run_command,
             .body =
                 "timeout_s={--timeout} limits.memory_bytes={--memory} "
                 "limits.cores={--cores} pool={--pool} runtime={--runtime}"},
            {0},
        },
    .check = run_check,
    .flags_done = run_done,
};
