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

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define RESUME_TRIES 5
#define HELD_LOOK_S 1

struct running {
    struct cli *c;
    const struct cli_execute *what;
    struct cli_render render;
    char id[ID_MAX];
    uint64_t last; /* number of the last event */
    unsigned signals;
    json_t *final;
};

/* ---- events ------------------------------------------------------------- */

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
    if (!r->what->quiet)
        show_event(r, event->name, data);
    return r->render.unread;
}

/* ---- signals ------------------------------------------------------------ */

static void ask(struct running *r, const char *kind, const char *id,
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
        ask(r, "sessions", r->what->session, "interrupt");
    } else {
        if (show)
            (void)fputs("\ncancelling; Ctrl-C again to quit\n", stderr);
        ask(r, "executions", r->id, "cancel");
    }
    return false;
}

/* ---- the whole of it ---------------------------------------------------- */

static json_t *request_body(const struct cli_execute *what)
{
    json_t *body =
        json_pack("{s:s, s:s%, s:s}", "language", what->language, "code",
                  what->code, what->code_len, "mode", "stream");

    if (body && what->timeout_s)
        (void)json_object_set_new(body, "timeout_s",
                                  json_integer((json_int_t)what->timeout_s));
    if (body && what->conversation)
        (void)json_object_set_new(body, "metadata",
                                  json_pack("{s:s, s:s*}", "conversation",
                                            what->conversation, "message",
                                            what->message));
    return body;
}

static int start(struct cli *c, const struct cli_execute *what,
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
static int resume(struct running *r, const struct cli_stream *stream,
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

/* False when it is time to leave. */
static bool nap(const struct cli *c)
{
    struct timespec ms = {.tv_sec = HELD_LOOK_S};
    sigset_t set;

    (void)nanosleep(&ms, NULL);
    (void)sigpending(&set);
    return !c->interrupted && !sigismember(&set, SIGINT) &&
           !sigismember(&set, SIGTERM) && !sigismember(&set, SIGHUP);
}

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

        if (!nap(r->c)) {
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
    return r->final ? 0 : resume(r, stream, err);
}

int cli_execute(struct cli *c, const struct cli_execute *what, json_t **ret,
                struct error *err)
{
    struct running r = {.c = c, .what = what};
    struct cli_stream stream = {on_event, on_signal, &r};
    json_t *body cleanup(json_unref) = request_body(what);
    int result;

    if (!body)
        return error_set(err, ERR_INVALID, "the code is not valid UTF-8");
    if (memchr(what->code, '\0', what->code_len))
        return error_set(err, ERR_INVALID, "the code holds a zero byte");
    cli_render_init(&r.render, c, what->charts);
    r.render.lasting = what->lasting;
    result = start(c, what, body, &stream, err);
    if (r.render.unread && !r.final) {
        ask(&r, "executions", r.id, "cancel");
        return error_set(err, ERR_UNAVAILABLE,
                         "the output cannot be written any more; cancelled");
    }
    if (!r.final && r.id[0] && (result == 0 || err->errnum != EINTR)) {
        if (result == 0)
            (void)error_set(err, ERR_UNAVAILABLE, "the stream ended early");
        result = resume(&r, &stream, err);
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
