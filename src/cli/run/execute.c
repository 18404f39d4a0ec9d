/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution over the service's event stream, shown while it runs. A
 * stream that breaks is taken up again after the last event seen. Ctrl-C is
 * passed on: `run` cancels and, pressed again, quits; at a prompt it
 * interrupts first, so that variables survive.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/common.h"
#include "language/language.h"

#define RESUME_TRIES 5
#define HELD_LOOK_MS 1000

struct running {
    struct cli *c;
    const struct cli_execute *what;
    struct cli_render render;
    char id[ID_MAX];
    uint64_t last; /* number of the last event */
    unsigned signals;
    json_t *asked; /* data of an input_request that waits; or NULL */
    json_t *final;
};

/* ---- events ------------------------------------------------------------- */

/* Can a person at this terminal answer input()? */
static bool may_type(const struct cli *c)
{
    return !c->json && c->tty_err && isatty(STDIN_FILENO);
}

static bool keeps_variables(const char *language)
{
    int known = language_find(language);

    return known >= 0 &&
           language_get((enum exec_language)known)->how == LANGUAGE_KERNEL;
}

/* Variables that the code may rely on are gone: said before its output. */
static void note_fresh(struct running *r, const json_t *status)
{
    if (!r->what->has_variables || !keeps_variables(r->what->language) ||
        strcmp(cli_json_text(status, "interpreter", ""), "fresh") != 0)
        return;
    (void)fprintf(stderr,
                  "note: %s; variables of earlier runs are gone, files are in "
                  "place\n",
                  r->what->asleep ? "the session was asleep"
                                  : "this is a new interpreter");
}

/* Shows an event while the execution runs. */
static void show_event(struct running *r, const char *name, const json_t *data)
{
    const json_t *text = json_object_get(data, "text");

    if (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0)
        cli_render_text(&r->render, strcmp(name, "stderr") == 0,
                        json_string_value(text), json_string_length(text));
    else if (strcmp(name, "display") == 0 || strcmp(name, "result") == 0)
        cli_render_bundle(&r->render, data);
    else if (strcmp(name, "error") == 0)
        cli_render_error(&r->render, data);
    else if (strcmp(name, "status") == 0)
        note_fresh(r, data);
}

/* Code in the session waits for a line: has the user type it. Called between
 * two reads of the stream. */
static void answer_input(void *ctx)
{
    struct running *r = ctx;
    json_t *asked cleanup(json_unref) = take_ptr(r->asked);
    json_t *body cleanup(json_unref) = NULL;
    char *line cleanup(cli_secret_free) = NULL;
    char *path cleanup(mem_free) =
        xasprintf("/api/executions/%s/input", r->id);
    struct error err;
    int got;

    if (!asked)
        return;
    (void)fflush(stdout);
    got = cli_input_line(r->c, cli_json_text(asked, "prompt", ""),
                         json_is_true(json_object_get(asked, "password")),
                         &line);
    r->render.out_mid_line = r->render.err_mid_line = false;
    if (got == -EINTR)
        return; /* the signal interrupts the code, and with it the request */
    body = got == 0 ? json_pack("{s:s}", "text", line)
                    : json_pack("{s:b}", "eof", 1);
    if (!body)
        body = json_pack("{s:s}", "text", "\xef\xbf\xbd"); /* no UTF-8 */
    /* A late answer shows in the code's own output. */
    (void)cli_http_json(r->c, "POST", path, body, NULL, &err);
}

static int on_event(void *ctx, const struct cli_sse_event *event)
{
    struct running *r = ctx;
    json_t *data cleanup(json_unref) = cli_json_load(event->data, event->len);
    uint64_t number = strtoull(event->id, NULL, 10);

    if (!data)
        return 0; /* not ours; the format says to ignore what is unknown */
    if (number > 0 && number <= r->last)
        return 0; /* seen before the stream was taken up again */
    r->last = number > 0 ? number : r->last;
    if (!r->id[0] && ids_valid("exec", cli_json_text(data, "id", "")))
        (void)snprintf(r->id, sizeof(r->id), "%s",
                       cli_json_text(data, "id", ""));
    if (strcmp(event->name, "done") == 0) {
        r->final = json_incref(data);
        return 0;
    }
    if (strcmp(event->name, "input_request") == 0 && may_type(r->c)) {
        json_decref(r->asked);
        r->asked = json_incref(data);
    }
    if (!r->what->quiet)
        show_event(r, event->name, data);
    return r->render.unread;
}

/* ---- signals ------------------------------------------------------------ */

static void post_action(struct running *r, const char *kind, const char *id,
                        const char *verb)
{
    char *path cleanup(mem_free) = xasprintf("/api/%s/%s/%s", kind, id, verb);
    struct error err;

    /* Its answer is the end of the stream; a failure shows there too. */
    (void)cli_http_json(r->c, "POST", path, NULL, NULL, &err);
}

static bool on_signal(void *ctx, int number)
{
    struct running *r = ctx;
    bool show = r->c->tty_err && !r->c->json;
    unsigned step = ++r->signals + (r->what->interactive ? 0 : 1);

    if (number != SIGINT || step > 2 || !r->id[0])
        return true;
    if (step == 1) {
        if (show)
            (void)fputs("\ninterrupting; Ctrl-C again to cancel\n", stderr);
        post_action(r, "sessions", r->what->session, "interrupt");
    } else {
        if (show)
            (void)fputs("\ncancelling; Ctrl-C again to quit\n", stderr);
        post_action(r, "executions", r->id, "cancel");
    }
    return false;
}

/* ---- the whole of it ---------------------------------------------------- */

static json_t *request_body(const struct cli_execute *what, const char *mode,
                            bool input)
{
    json_t *body = json_pack("{s:s, s:s%, s:s}", "language", what->language,
                             "code", what->code, what->code_len, "mode", mode);

    if (body && what->timeout_s)
        (void)json_object_set_new(body, "timeout_s",
                                  json_integer((json_int_t)what->timeout_s));
    if (body && what->conversation)
        (void)json_object_set_new(body, "metadata",
                                  json_pack("{s:s, s:s*}", "conversation",
                                            what->conversation, "message",
                                            what->message));
    if (body && input)
        (void)json_object_set_new(body, "input", json_true());
    return body;
}

static int start_execution(struct cli *c, const struct cli_execute *what,
                           const json_t *body, const struct cli_stream *stream,
                           struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/executions", what->session);
    char *lock cleanup(cli_secret_free) =
        what->lock ? xasprintf("X-Glovebox-Lock: %s", what->lock) : NULL;

    t.method = "POST";
    t.path = path;
    t.body = body;
    t.stream = stream;
    t.headers = (const char *const[]){lock, NULL};
    return cli_transfer_run(c, &t, err);
}

/* Takes the stream up again until the final event has come. */
static int resume_stream(struct running *r, const struct cli_stream *stream,
                         struct error *err)
{
    int result = -(int)err->code;

    for (int i = 0; i < RESUME_TRIES && !r->final; i++) {
        struct timespec nap = {.tv_nsec = 200000000L * (i > 0)};
        char *path cleanup(mem_free) =
            xasprintf("/api/executions/%s/events?after=%llu", r->id,
                      (unsigned long long)r->last);

        (void)nanosleep(&nap, NULL);
        result = cli_http_stream(r->c, "GET", path, NULL, stream, err);
        if (result < 0 && (err->errnum == EINTR || err->code == ERR_NOT_FOUND))
            break;
    }
    return r->final ? 0 : result;
}

/* ---- one that is held --------------------------------------------------- */

static bool has_begun(const json_t *execution)
{
    const char *status = cli_json_text(execution, "status", "");

    return strcmp(status, "running") == 0 || strcmp(status, "completed") == 0;
}

/* Looks until it runs, then shows it as if it had been let at once. */
static int wait_held(struct running *r, const struct cli_stream *stream,
                     struct error *err)
{
    char *path cleanup(mem_free) = xasprintf("/api/executions/%s", r->id);
    char *stream_path cleanup(mem_free) = xasprintf("%s/events", path);
    int result = 0;

    if (!r->what->quiet)
        cli_outcome_show(&r->render, r->final);
    while (!has_begun(r->final)) {
        json_t *old cleanup(json_unref) = take_ptr(r->final);

        if (!cli_sleep(r->c, HELD_LOOK_MS)) {
            (void)error_errno(err, ERR_UNAVAILABLE, EINTR, "interrupted");
            (void)snprintf(err->approval, sizeof(err->approval), "%s",
                           cli_json_text(old, "approval", ""));
            return -(int)err->code;
        }
        result = cli_http_json(r->c, "GET", path, NULL, &r->final, err);
        if (result < 0)
            return result;
    }
    json_decref(take_ptr(r->final));
    r->last = 0;
    result = cli_http_stream(r->c, "GET", stream_path, NULL, stream, err);
    if (!r->final && result == 0)
        result = error_set(err, ERR_UNAVAILABLE, "the stream ended early");
    return r->final ? 0 : resume_stream(r, stream, err);
}

int cli_execute_detached(struct cli *c, const struct cli_execute *what,
                         json_t **ret, struct error *err)
{
    json_t *body cleanup(json_unref) = request_body(what, "async", false);
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/executions", what->session);
    char *lock cleanup(cli_secret_free) =
        what->lock ? xasprintf("X-Glovebox-Lock: %s", what->lock) : NULL;

    if (!body)
        return error_set(err, ERR_INVALID, "the code is not valid UTF-8");
    return cli_http_ask(c, "POST", path, body,
                        (const char *const[]){lock, NULL}, ret, err);
}

int cli_execute_follow(struct cli *c, const char *id, const char *charts,
                       json_t **ret, struct error *err)
{
    const struct cli_execute what = {.language = "", .charts = charts};
    struct running r = {.c = c, .what = &what};
    /* Ctrl-C stops the following, not the execution. */
    const struct cli_stream stream = {on_event, NULL, &r, NULL};
    int result;

    (void)snprintf(r.id, sizeof(r.id), "%s", id);
    cli_render_init(&r.render, c, charts);
    (void)error_set(err, ERR_UNAVAILABLE, "the service sent no result");
    result = resume_stream(&r, &stream, err);
    if (result < 0)
        return result;
    cli_outcome_show(&r.render, r.final);
    *ret = r.final;
    return 0;
}

int cli_execute(struct cli *c, const struct cli_execute *what, json_t **ret,
                struct error *err)
{
    struct running r = {.c = c, .what = what};
    struct cli_stream stream = {on_event, on_signal, &r, answer_input};
    json_t *body cleanup(json_unref) =
        request_body(what, "stream", may_type(c));
    int result;

    if (!body)
        return error_set(err, ERR_INVALID, "the code is not valid UTF-8");
    if (memchr(what->code, '\0', what->code_len))
        return error_set(err, ERR_INVALID, "the code holds a zero byte");
    cli_render_init(&r.render, c, what->charts);
    r.render.lasting = what->lasting;
    result = start_execution(c, what, body, &stream, err);
    if (r.render.unread && !r.final) {
        post_action(&r, "executions", r.id, "cancel");
        return error_set(err, ERR_UNAVAILABLE,
                         "the output cannot be written any more; cancelled");
    }
    if (!r.final && r.id[0] && (result == 0 || err->errnum != EINTR)) {
        if (result == 0)
            (void)error_set(err, ERR_UNAVAILABLE, "the stream ended early");
        result = resume_stream(&r, &stream, err);
    }
    if (r.final && what->wait && cli_outcome_exit(r.final) == CLI_EXIT_PENDING)
        result = wait_held(&r, &stream, err);
    if (!r.final)
        return result < 0 ? result
                          : error_set(err, ERR_UNAVAILABLE,
                                      "the service sent no result");
    if (!what->quiet)
        cli_outcome_show(&r.render, r.final);
    else if (what->charts)
        cli_render_charts(&r.render, r.final);
    *ret = r.final;
    return 0;
}

/* ---- outcome ------------------------------------------------------------ */

/* How an execution ended: the exit status, and a sentence about it. */

#define BLOCKED_SHOWN 10u

/* A limit's value in the unit its name ends with. */
static void add_value(struct buf *out, const char *name, json_int_t value)
{
    size_t len = strlen(name);
    char text[24];

    if (len > 6 && strcmp(name + len - 6, "_bytes") == 0)
        buf_adds(out, size_format((uint64_t)value, text));
    else if (len > 2 && strcmp(name + len - 2, "_s") == 0)
        buf_adds(out, cli_format_duration((uint64_t)value * 1000, text));
    else
        buf_addf(out, "%" JSON_INTEGER_FORMAT, value);
}

static void add_limit(struct buf *out, const json_t *limit)
{
    const char *name = cli_json_text(limit, "name", NULL);
    const json_t *value = json_object_get(limit, "value");
    const json_t *peak = json_object_get(limit, "peak");

    if (!name)
        return;
    buf_addf(out, " (%s", name);
    if (json_is_integer(value)) {
        buf_adds(out, ": limit ");
        add_value(out, name, json_integer_value(value));
    }
    if (json_is_integer(peak) && json_integer_value(peak) > 0) {
        buf_adds(out, ", peak ");
        add_value(out, name, json_integer_value(peak));
    }
    buf_adds(out, ")");
}

static const struct {
    const char *outcome;
    int exit;
    const char *sentence; /* NULL: the code's own doing, shown already */
} outcomes[] = {
    {"ok", CLI_EXIT_OK, NULL},
    {"error", CLI_EXIT_CODE, NULL},
    {"timeout", CLI_EXIT_TIMEOUT, "the code ran out of time"},
    {"oom", CLI_EXIT_LIMIT, "the session ran out of memory"},
    {"limit", CLI_EXIT_LIMIT, "the session reached a limit"},
    {"killed", CLI_EXIT_KILLED, "the interpreter was killed"},
    {"crashed", CLI_EXIT_KILLED, "the interpreter crashed"},
    {"cancelled", CLI_EXIT_CANCELLED, "cancelled"},
    {"isolation_failed", CLI_EXIT_ISOLATION,
     "a wall of the session could not be built, so nothing ran"},
    {"lost", CLI_EXIT_KILLED, "the node that ran it stopped answering"},
    {"denied", CLI_EXIT_DENIED, "policy does not allow this"},
};

static size_t outcome_row(const json_t *execution)
{
    const char *outcome = cli_json_text(execution, "outcome", "");
    size_t i = 0;

    while (i < ARRAY_SIZE(outcomes) && strcmp(outcomes[i].outcome, outcome))
        i++;
    return i;
}

static bool is_held(const json_t *execution)
{
    return strcmp(cli_json_text(execution, "status", ""),
                  "pending_approval") == 0;
}

int cli_outcome_exit(const json_t *execution)
{
    size_t row = outcome_row(execution);

    if (is_held(execution))
        return CLI_EXIT_PENDING;

    return row < ARRAY_SIZE(outcomes) ? outcomes[row].exit : CLI_EXIT_FAILED;
}

bool cli_outcome_sentence(const json_t *execution, struct buf *out)
{
    size_t row = outcome_row(execution);
    const char *said =
        cli_json_text(json_object_get(execution, "error"), "message", "");

    if (is_held(execution))
        buf_addf(out,
                 "waits for approval, nothing has run: `glovebox approvals "
                 "approve %s` with another key lets it run as %s",
                 cli_json_text(execution, "approval", "?"),
                 cli_json_text(execution, "id", "?"));
    else if (row == ARRAY_SIZE(outcomes))
        buf_adds(out, "the service did not say how it ended");
    else if (!outcomes[row].sentence)
        return false;
    else if (*said)
        buf_adds(out, said);
    else {
        buf_adds(out, outcomes[row].sentence);
        add_limit(out, json_object_get(execution, "limit"));
    }
    return true;
}

/* A failure of the code without a traceback: the status of a script. */
static bool own_words(const struct cli_render *r, const json_t *execution,
                      struct buf *out)
{
    const json_t *error = json_object_get(execution, "error");
    const char *said = cli_json_text(error, "message", "");
    const json_t *status = json_object_get(execution, "exit_code");

    if (cli_outcome_exit(execution) != CLI_EXIT_CODE || r->error_shown)
        return false;
    if (*said)
        buf_adds(out, said);
    else if (json_is_integer(status))
        buf_addf(out, "ended with status %" JSON_INTEGER_FORMAT,
                 json_integer_value(status));
    return out->len > 0;
}

/* For outcomes whose own sentence does not mention it. */
static void note_lost(const struct cli_render *r, const json_t *execution)
{
    if (r->lasting && cli_outcome_exit(execution) <= CLI_EXIT_CODE &&
        json_is_true(json_object_get(execution, "interpreter_lost")))
        (void)fputs("variables are gone: the next run gets a fresh "
                    "interpreter; files are in place\n",
                    stderr);
}

/* Lists destinations that the code could not reach; its own output may not
 * mention them. */
static void show_blocked(struct cli_render *r, const json_t *execution)
{
    const json_t *network = json_object_get(execution, "network");
    const json_t *blocked = json_object_get(network, "blocked");
    const json_t *one;
    size_t i;

    json_array_foreach (blocked, i, one) {
        const json_t *port = json_object_get(one, "port");
        const json_t *count = json_object_get(one, "count");

        cli_render_fresh_line(r);
        if (i == BLOCKED_SHOWN) {
            (void)fprintf(stderr, "blocked: %zu more\n",
                          json_array_size(blocked) - i);
            break;
        }
        (void)fprintf(stderr, "blocked: %s", cli_json_text(one, "host", "?"));
        if (json_is_integer(port))
            (void)fprintf(stderr, ":%" JSON_INTEGER_FORMAT,
                          json_integer_value(port));
        if (json_integer_value(count) > 1)
            (void)fprintf(stderr, " (%" JSON_INTEGER_FORMAT " times)",
                          json_integer_value(count));
        (void)fputs("\n", stderr);
    }
}

/* A limit that the code reached and outlived. */
static void show_warning(struct cli_render *r, const json_t *execution)
{
    const char *warning = cli_json_text(execution, "warning", NULL);

    if (!warning)
        return;
    cli_render_fresh_line(r);
    (void)fprintf(stderr, "warning: %s\n", warning);
}

void cli_outcome_show(struct cli_render *r, const json_t *execution)
{
    const json_t *truncated = json_object_get(execution, "truncated");
    struct buf text cleanup(buf_done) = {0};

    if (json_is_true(json_object_get(truncated, "stdout")) ||
        json_is_true(json_object_get(truncated, "stderr"))) {
        cli_render_fresh_line(r);
        (void)fputs("output was longer than is kept and has been cut\n",
                    stderr);
    }
    show_blocked(r, execution);
    show_warning(r, execution);
    if (!cli_outcome_sentence(execution, &text) &&
        !own_words(r, execution, &text)) {
        note_lost(r, execution);
        return;
    }
    cli_render_fresh_line(r);
    (void)fprintf(stderr, "%s%s: %s%s\n", r->c->color_err ? "\033[31m" : "",
                  is_held(execution)
                      ? "held"
                      : cli_json_text(execution, "outcome", "unknown"),
                  text.data, r->c->color_err ? "\033[0m" : "");
    note_lost(r, execution);
}

/* ---- files -------------------------------------------------------------- */

/*
 * The files of an execution, a line each: what was stored, with its id and
 * workspace; and what was not stored as the code left it, which is printed
 * even if the output is no terminal.
 */

#define LINES_MAX 20

static void add_done(struct buf *out, const json_t *file, const char *change)
{
    const char *from = cli_json_text(file, "from", "");
    const char *id = cli_json_text(file, "file_id", "");
    char size[16];

    buf_addf(out, "%s %s", change, cli_json_text(file, "path", "?"));
    if (*from)
        buf_addf(out, " (from %s)", from);
    if (json_is_integer(json_object_get(file, "size")) &&
        strcmp(change, "deleted") != 0)
        buf_addf(out, ", %s",
                 size_format(cli_json_number(file, "size"), size));
    if (*id)
        buf_addf(out, ", %s", id);
    buf_adds(out, "\n");
}

/* Not stored as the code left it. */
static void add_other(struct buf *out, const json_t *file, const char *kind)
{
    const char *path = cli_json_text(file, "path", "?");
    const char *wanted = cli_json_text(file, "wanted", path);

    buf_addf(out, "%s %s", kind, wanted);
    if (strcmp(wanted, path) != 0)
        buf_addf(out, ", kept as %s", path);
    buf_addf(out, ": %s\n",
             cli_json_text(file, "reason", "others changed it meanwhile"));
}

/* Lists of an execution's files; done: stored as the code left them. */
static const struct {
    const char *list;
    const char *word;
    bool done;
} kinds[] = {
    {"created", "created", true},      {"modified", "modified", true},
    {"renamed", "renamed", true},      {"deleted", "deleted", true},
    {"conflicts", "conflict:", false}, {"refused", "not kept:", false},
    {"skipped", "not kept:", false},
};

void cli_file_summary_lines(const json_t *execution, bool all, size_t max,
                            struct buf *out)
{
    const json_t *files = json_object_get(execution, "files");
    size_t lines = 0, more = 0;

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        const json_t *list = json_object_get(files, kinds[k].list);

        if (kinds[k].done && !all)
            continue;
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *one = json_array_get(list, i);

            if (lines == max)
                more++;
            else if (kinds[k].done)
                add_done(out, one, kinds[k].word);
            else
                add_other(out, one, kinds[k].word);
            lines += lines < max;
        }
    }
    if (more)
        buf_addf(out, "and %zu more\n", more);
    if (json_is_true(json_object_get(files, "truncated")))
        buf_adds(out, "and more than are listed\n");
    if (all && lines)
        buf_addf(out, "in workspace %s\n",
                 cli_json_text(execution, "workspace", "unknown"));
}

size_t cli_file_summary_count(const json_t *execution)
{
    const json_t *files = json_object_get(execution, "files");

    return json_array_size(json_object_get(files, "created")) +
           json_array_size(json_object_get(files, "modified"));
}

void cli_file_summary_print(const struct cli *c, const json_t *execution,
                            bool all)
{
    struct buf text cleanup(buf_done) = {0};
    struct buf safe cleanup(buf_done) = {0};
    struct cli_filter filter = {.plain = true};

    if (c->json)
        return;
    cli_file_summary_lines(execution, all, LINES_MAX, &text);
    if (!text.len)
        return;
    /* Names come from the session. */
    cli_filter_feed(&filter, text.data, text.len, &safe);
    (void)fflush(stdout);
    (void)fwrite(safe.data, 1, safe.len, stderr);
}
