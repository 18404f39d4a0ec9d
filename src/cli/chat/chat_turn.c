/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question and its answer: a response of the service's OpenAI API, read as
 * a stream of events and shown while it comes. Text is Markdown; each run of
 * code is one line with its result; charts are saved. A stream that breaks is
 * taken up again after the last event seen. Ctrl-C cancels the response at the
 * service; pressed again it stops waiting for that. Called by chat.c.
 */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "cli/chat/chat.h"
#include "cli/common.h"

#define RESUME_TRIES 5
#define LOCKED_TRIES 20 /* a conversation that is still busy */
#define LOCKED_MS 250
#define FOLD_CODE 48u /* columns of the first line of code */
#define FOLD_LINE 72u /* of an error */

struct turn {
    struct cli_chat *chat;
    struct cli_markdown *markdown; /* of the message that is open; or NULL */
    char id[CLI_CHAT_ID];          /* of the response, once it is known */
    int64_t last;                  /* number of the last event */
    unsigned signals;
    bool text_open;     /* a message has been begun and not ended */
    bool text_any;      /* something of it was shown */
    const char *status; /* the passing line, or NULL */
    uint64_t status_ms; /* since when */
    bool status_drawn;
    uint64_t status_s;      /* as it was drawn */
    json_t *cited;          /* of this answer: {path}; owned array */
    json_t *failed;         /* of an `error` event; owned, or NULL */
    json_t *final;          /* the response object; owned, or NULL */
    bool unread;            /* writing failed */
    char held[CLI_CHAT_ID]; /* the approval that was announced last */
};

/* ---- the passing line --------------------------------------------------- */

static void wipe_status(struct turn *t)
{
    if (t->status_drawn)
        (void)fputs("\r\033[K", stderr);
    t->status_drawn = false;
}

static void draw_status(struct turn *t)
{
    const struct cli *c = t->chat->c;
    uint64_t s = (clock_mono_ms() - t->status_ms) / 1000;

    if (!t->status || !c->color_err || t->chat->quiet || t->text_open ||
        (t->status_drawn && t->status_s == s))
        return;
    (void)fflush(stdout);
    if (s > 1)
        (void)fprintf(stderr, "\r\033[K\033[2m%s\u2026 %llu s\033[0m",
                      t->status, (unsigned long long)s);
    else
        (void)fprintf(stderr, "\r\033[K\033[2m%s\u2026\033[0m", t->status);
    t->status_drawn = true;
    t->status_s = s;
}

static void set_status(struct turn *t, const char *status)
{
    if (t->status == status)
        return;
    wipe_status(t);
    t->status_ms = clock_mono_ms();
    t->status = status;
    draw_status(t);
}

static void on_pause(void *ctx)
{
    draw_status(ctx);
}

/* ---- text --------------------------------------------------------------- */

static void write_out(struct turn *t, const struct buf *text)
{
    if (text->len == 0)
        return;
    if (fwrite(text->data, 1, text->len, stdout) != text->len ||
        fflush(stdout) != 0)
        t->unread = true;
}

static void show_delta(struct turn *t, const char *text, size_t len)
{
    struct buf out cleanup(buf_done) = {0};
    const struct cli *c = t->chat->c;

    if (t->chat->quiet || len == 0)
        return;
    wipe_status(t);
    if (!t->text_open &&
        t->text_any) /* messages are paragraphs of their own */
        buf_adds(&out, "\n");
    t->text_open = t->text_any = true;
    if (c->color_out) {
        if (!t->markdown)
            t->markdown = cli_markdown_new(cli_table_terminal());
        cli_markdown_feed(t->markdown, text, len, &out);
        write_out(t, &out);
    } else {
        write_out(t, &out);
        cli_render_text(&t->chat->render, false, text, len);
    }
}

static void end_text(struct turn *t)
{
    struct buf out cleanup(buf_done) = {0};

    if (!t->text_open)
        return;
    t->text_open = false;
    if (t->markdown)
        cli_markdown_finish(t->markdown, &out);
    else if (t->chat->render.out_mid_line)
        buf_adds(&out, "\n");
    t->chat->render.out_mid_line = false;
    write_out(t, &out);
    cli_markdown_free(take_ptr(t->markdown));
}

void cli_chat_turn_text(struct cli_chat *chat, const char *text)
{
    struct turn t = {.chat = chat};

    show_delta(&t, text, strlen(text));
    end_text(&t);
}

/* ---- code --------------------------------------------------------------- */

static size_t count_lines(const char *text)
{
    size_t count = 0;

    while (*text) {
        size_t len = strcspn(text, "\n");

        count += text[strspn(text, " \t\r")] != '\n';
        text += len + (text[len] == '\n');
    }
    return count;
}

/* The last line that is not blank, cut to FOLD_LINE bytes of whole
 * characters. */
static void add_last_line(struct buf *out, const char *text)
{
    const char *last = text;
    size_t len;

    while (*text) {
        len = strcspn(text, "\n");
        if (len > 0 && text[strspn(text, " \t\r")] != '\n')
            last = text;
        text += len + (text[len] == '\n');
    }
    len = strcspn(last, "\n");
    if (len > FOLD_LINE) {
        for (len = FOLD_LINE; ((unsigned char)last[len] & 0xc0) == 0x80;)
            len--;
        buf_add(out, last, len);
        buf_adds(out, "\u2026");
        return;
    }
    buf_add(out, last, len);
}

/* The first line that does something, and how many more there are. */
static void add_code_line(struct buf *out, const char *code)
{
    size_t lines = count_lines(code), len;

    for (;;) {
        code += strspn(code, " \t\r\n");
        if (*code != '#' || !strchr(code, '\n'))
            break;
        code += strcspn(code, "\n"); /* a comment tells less than code */
        lines -= lines > 1;
    }
    len = strcspn(code, "\n");
    if (len > FOLD_CODE) {
        for (len = FOLD_CODE; ((unsigned char)code[len] & 0xc0) == 0x80;)
            len--;
        buf_add(out, code, len);
        buf_adds(out, "\u2026");
    } else {
        buf_add(out, code, len);
    }
    if (lines > 1)
        buf_addf(out, " (+%zu line%s)", lines - 1, lines == 2 ? "" : "s");
}

const char *cli_chat_turn_held(const json_t *item, char ret[CLI_CHAT_ID])
{
    const json_t *outputs = json_object_get(item, "outputs");
    const json_t *one;
    size_t i;

    if (strcmp(cli_json_text(item, "status", ""), "completed") == 0)
        return NULL;
    json_array_foreach (outputs, i, one) {
        const char *at = strstr(cli_json_text(one, "logs", ""), "apr_");
        size_t len = 0;

        while (at && len < 4 + 32 &&
               (isalnum((unsigned char)at[len]) || at[len] == '_'))
            len++;
        if (len > 8) {
            (void)snprintf(ret, CLI_CHAT_ID, "%.*s", (int)len, at);
            return ret;
        }
    }
    return NULL;
}

/* Does a line of it begin a traceback, in the form of Python or of cells? */
static bool has_raised(const char *logs)
{
    static const char *const starts[] = {"Traceback (most recent call last)",
                                         "Cell In["};

    while (*logs) {
        for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
            if (strncmp(logs, starts[i], strlen(starts[i])) == 0)
                return true;
        logs += strcspn(logs, "\n");
        logs += *logs == '\n';
    }
    return false;
}

static void add_result(struct buf *out, const json_t *item)
{
    const char *status = cli_json_text(item, "status", "");
    const json_t *outputs = json_object_get(item, "outputs"), *one;
    size_t lines = 0, charts = 0, i;
    const char *logs = "", *trace = NULL;
    char held[CLI_CHAT_ID];

    json_array_foreach (outputs, i, one) {
        if (strcmp(cli_json_text(one, "type", ""), "image") == 0) {
            charts++;
            continue;
        }
        logs = cli_json_text(one, "logs", "");
        lines += count_lines(logs);
        if (has_raised(logs))
            trace = logs;
    }
    if (cli_chat_turn_held(item, held)) {
        buf_addf(out, "waits for approval %s", held);
    } else if (trace || strcmp(status, "failed") == 0) {
        buf_adds(out, "failed");
        if (*logs) {
            buf_adds(out, ": ");
            add_last_line(out, trace ? trace : logs);
        }
    } else if (strcmp(status, "completed") != 0) {
        buf_adds(out, "stopped");
    } else if (!charts && !lines) {
        buf_adds(out, "no output");
    } else {
        if (lines)
            buf_addf(out, "%zu line%s of output", lines,
                     lines == 1 ? "" : "s");
        if (charts)
            buf_addf(out, "%s%zu chart%s", lines ? ", " : "", charts,
                     charts == 1 ? "" : "s");
    }
}

void cli_chat_turn_fold(const json_t *item, size_t number, struct buf *out)
{
    struct buf line cleanup(buf_done) = {0};
    struct cli_filter filter = {.plain = true};

    buf_addf(&line, "\u25b8 code %zu: ", number);
    add_code_line(&line, cli_json_text(item, "code", ""));
    buf_adds(&line, " \u2192 ");
    add_result(&line, item);
    for (size_t i = 0; i < line.len; i++) /* one line, whatever it holds */
        if (strchr("\r\n\t\b", line.data[i]))
            line.data[i] = ' ';
    cli_filter_feed(&filter, line.data, line.len, out);
    buf_adds(out, "\n");
}

/* Text of a model or of its code, and a line end after it. */
static void show_plain(struct cli_chat *chat, const char *text)
{
    struct cli_filter filter = {.plain = true};
    struct buf safe cleanup(buf_done) = {0};
    size_t len = strlen(text);

    if (chat->c->tty_out)
        cli_filter_feed(&filter, text, len, &safe);
    else
        buf_add(&safe, text, len);
    if (safe.len && safe.data[safe.len - 1] != '\n')
        buf_adds(&safe, "\n");
    cli_render_text(&chat->render, false, safe.data ? safe.data : "",
                    safe.len);
}

void cli_chat_turn_unfold(struct cli_chat *chat, const json_t *item)
{
    const json_t *outputs = json_object_get(item, "outputs"), *one;
    size_t i;

    show_plain(chat, cli_json_text(item, "code", ""));
    json_array_foreach (outputs, i, one) {
        if (chat->c->color_out)
            (void)fputs("\033[2m", stdout);
        show_plain(chat, cli_json_text(one, "logs", ""));
        if (chat->c->color_out)
            (void)fputs("\033[0m", stdout);
    }
}

/* data:image/png;base64,… of an output, as a bundle that can be saved. */
static void save_chart(struct turn *t, const char *url)
{
    const char *comma = strchr(url, ',');
    const char *base64 = strstr(url, ";base64,");
    char mime[64];
    json_t *bundle cleanup(json_unref) = NULL;

    if (strncmp(url, "data:", 5) != 0 || !comma || !base64 ||
        base64 + 7 != comma || (size_t)(base64 - url) - 5 >= sizeof(mime))
        return;
    (void)snprintf(mime, sizeof(mime), "%.*s", (int)(base64 - url) - 5,
                   url + 5);
    bundle = json_pack("{s:s}", mime, comma + 1);
    if (strncmp(mime, "image/", 6) == 0)
        cli_render_bundle(&t->chat->render, bundle);
}

/* How to decide on code that waits; once per request. */
static void tell_held(struct turn *t, const char *approval)
{
    if (t->chat->quiet || strcmp(t->held, approval) == 0)
        return;
    (void)snprintf(t->held, sizeof(t->held), "%s", approval);
    wipe_status(t);
    (void)fprintf(stderr,
                  "The code waits for approval: `glovebox approvals show %s` "
                  "shows it,\n`glovebox approvals approve %s` lets it run.\n",
                  approval, approval);
}

static void end_code(struct turn *t, json_t *item)
{
    struct cli_chat *chat = t->chat;
    const json_t *outputs = json_object_get(item, "outputs"), *one;
    struct buf line cleanup(buf_done) = {0};
    char held[CLI_CHAT_ID];
    size_t i;

    (void)json_array_append(chat->codes, item);
    (void)snprintf(chat->container, sizeof(chat->container), "%s",
                   cli_json_text(item, "container_id", chat->container));
    set_status(t, NULL);
    wipe_status(t);
    if (!chat->quiet && chat->c->tty_err) {
        cli_chat_turn_fold(item, json_array_size(chat->codes), &line);
        (void)fflush(stdout);
        (void)fprintf(stderr, "%s%s%s", chat->c->color_err ? "\033[2m" : "",
                      line.data, chat->c->color_err ? "\033[0m" : "");
    }
    if (cli_chat_turn_held(item, held))
        tell_held(t, held);
    if (chat->charts)
        json_array_foreach (outputs, i, one)
            if (strcmp(cli_json_text(one, "type", ""), "image") == 0)
                save_chart(t, cli_json_text(one, "url", ""));
    set_status(t, "thinking");
}

/* ---- files -------------------------------------------------------------- */

const char *cli_chat_turn_name(const char *path)
{
    return cli_place_below_data(path);
}

static void add_file(json_t *list, const char *path)
{
    const json_t *one;
    size_t i;

    json_array_foreach (list, i, one)
        if (strcmp(cli_json_text(one, "path", ""), path) == 0)
            return;
    (void)json_array_append_new(list, json_pack("{s:s}", "path", path));
}

static void on_citation(struct turn *t, const json_t *annotation)
{
    const char *name = cli_json_text(annotation, "filename", NULL);

    if (!name || strcmp(cli_json_text(annotation, "type", ""),
                        "container_file_citation") != 0)
        return;
    if (!t->chat->container[0])
        (void)snprintf(t->chat->container, sizeof(t->chat->container), "%s",
                       cli_json_text(annotation, "container_id", ""));
    add_file(t->cited, cli_chat_turn_name(name));
    add_file(t->chat->files, cli_chat_turn_name(name));
}

/* Names the files of the answer, and how to get them. */
static void mention_files(const struct turn *t)
{
    const struct cli_chat *chat = t->chat;
    struct buf line cleanup(buf_done) = {0};
    struct buf safe cleanup(buf_done) = {0};
    struct cli_filter filter = {.plain = true};
    const json_t *one;
    size_t i;

    if (chat->quiet || !chat->c->tty_err || json_array_size(t->cited) == 0)
        return;
    json_array_foreach (t->cited, i, one)
        buf_addf(&line, "%s%s", i ? ", " : "", cli_json_text(one, "path", ""));
    cli_filter_feed(&filter, line.data, line.len, &safe);
    (void)fprintf(stderr, "files: %s", safe.data ? safe.data : "");
    if (chat->interactive)
        (void)fputs(" (/get NAME)", stderr);
    else
        (void)fprintf(stderr, " (`glovebox files get -s %s NAME`)",
                      chat->container);
    (void)fputc('\n', stderr);
}

/* ---- events ------------------------------------------------------------- */

static void on_item_added(struct turn *t, const json_t *event)
{
    const json_t *item = json_object_get(event, "item");
    const char *type = cli_json_text(item, "type", "");

    if (strcmp(type, "code_interpreter_call") == 0) {
        end_text(t);
        set_status(t, "writing code");
    } else if (strcmp(type, "reasoning") == 0) {
        set_status(t, "thinking");
    }
}

static void on_item_done(struct turn *t, const json_t *event)
{
    json_t *item = json_object_get(event, "item");
    const char *type = cli_json_text(item, "type", "");

    if (strcmp(type, "code_interpreter_call") == 0)
        end_code(t, item);
    else if (strcmp(type, "message") == 0)
        end_text(t);
    else if (strcmp(type, "function_call") == 0 && !t->chat->quiet)
        (void)fprintf(stderr,
                      "the model called the function %s, which this "
                      "program does not have\n",
                      cli_json_text(item, "name", "?"));
}

static void on_delta(struct turn *t, const json_t *event)
{
    const json_t *delta = json_object_get(event, "delta");

    show_delta(t, json_string_value(delta), json_string_length(delta));
}

static void on_annotation(struct turn *t, const json_t *event)
{
    on_citation(t, json_object_get(event, "annotation"));
}

static void on_writing(struct turn *t, const json_t *event)
{
    (void)event;
    set_status(t, "writing code");
}

static void on_interpreting(struct turn *t, const json_t *event)
{
    (void)event;
    set_status(t, "running code");
}

/* Sent while the model is silent; reports code that waits for approval. */
static void on_keepalive(struct turn *t, const json_t *event)
{
    const json_t *held = json_object_get(event, "pending_approval");
    const char *approval = cli_json_text(held, "id", NULL);

    if (!approval || strlen(approval) >= CLI_CHAT_ID ||
        strspn(approval, "abcdefghijklmnopqrstuvwxyz0123456789_") !=
            strlen(approval))
        return;
    tell_held(t, approval);
    set_status(t, "waiting for approval");
}

static void on_response(struct turn *t, const json_t *event)
{
    const json_t *response = json_object_get(event, "response");

    (void)snprintf(t->id, sizeof(t->id), "%s",
                   cli_json_text(response, "id", t->id));
    set_status(t, "thinking");
}

static void on_final(struct turn *t, const json_t *event)
{
    on_response(t, event);
    json_decref(t->final);
    t->final = json_incref(json_object_get(event, "response"));
}

static void on_error(struct turn *t, const json_t *event)
{
    json_t *error = json_object_get(event, "error");

    json_decref(t->failed); /* nested, or flat */
    t->failed =
        json_is_object(error) ? json_incref(error) : json_deep_copy(event);
}

static const struct {
    const char *type; /* without "response." */
    void (*run)(struct turn *t, const json_t *event);
} events[] = {
    {"created", on_response},
    {"queued", on_response},
    {"in_progress", on_response},
    {"completed", on_final},
    {"failed", on_final},
    {"incomplete", on_final},
    {"cancelled", on_final},
    {"output_item.added", on_item_added},
    {"output_item.done", on_item_done},
    {"output_text.delta", on_delta},
    {"refusal.delta", on_delta},
    {"output_text.annotation.added", on_annotation},
    {"code_interpreter_call_code.delta", on_writing},
    {"code_interpreter_call.interpreting", on_interpreting},
    {"keepalive", on_keepalive},
    {"error", on_error},
};

static int on_event(void *ctx, const struct cli_sse_event *event)
{
    struct turn *t = ctx;
    json_t *data cleanup(json_unref) = cli_json_load(event->data, event->len);
    const json_t *number = json_object_get(data, "sequence_number");
    const char *type = cli_json_text(data, "type", "");

    if (!json_is_object(data))
        return 0; /* not ours; the format says to ignore what is unknown */
    if (json_is_integer(number)) {
        if (json_integer_value(number) <= t->last)
            return 0; /* seen before the stream was taken up again */
        t->last = json_integer_value(number);
    }
    if (strncmp(type, "response.", 9) == 0)
        type += 9;
    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        if (strcmp(events[i].type, type) == 0)
            events[i].run(t, data);
    return t->unread || t->chat->render.unread;
}

/* ---- Ctrl-C ------------------------------------------------------------- */

static bool on_signal(void *ctx, int number)
{
    struct turn *t = ctx;
    struct error err;

    if (number != SIGINT || t->signals++ > 0 || !t->id[0])
        return true;
    wipe_status(t);
    if (t->chat->c->tty_err && !t->chat->quiet)
        (void)fputs("\ncancelling; Ctrl-C again to stop waiting\n", stderr);
    {
        char *path cleanup(mem_free) =
            xasprintf("/v1/responses/%s/cancel", t->id);

        /* Its effect is the end of the stream. Refused: stop reading. */
        if (cli_http_json(t->chat->c, "POST", path, NULL, NULL, &err) < 0)
            return true;
    }
    set_status(t, "cancelling");
    return false;
}

/* ---- the request -------------------------------------------------------- */

static json_t *request_body(const struct cli_chat *chat, const char *question)
{
    json_t *content = json_deep_copy(chat->attached);
    json_t *text =
        json_pack("{s:s, s:s}", "type", "input_text", "text", question);

    if (!text) {
        json_decref(content);
        return NULL;
    }
    (void)json_array_insert_new(content, 0, text);
    return json_pack(
        "{s:s*, s:s*, s:[{s:s, s:s, s:o}], s:[{s:s, s:{s:s}}], s:[s], s:b, "
        "s:b, s:b}",
        "model", chat->model, "conversation",
        chat->conversation[0] ? chat->conversation : NULL, "input", "type",
        "message", "role", "user", "content", content, "tools", "type",
        "code_interpreter", "container", "type", "auto", "include",
        "code_interpreter_call.outputs", "stream", 1, "background", 1, "store",
        1);
}

/* The code of a refusal of this API ("conversation_locked"); "" : none. */
static void refusal_code(const struct cli_transfer *t, char ret[64])
{
    json_t *body cleanup(json_unref) =
        cli_json_load(t->answer.data, t->answer.len);

    (void)snprintf(ret, 64, "%s",
                   cli_json_text(json_object_get(body, "error"), "code", ""));
}

static int post_question(struct turn *t, const json_t *body,
                         const struct cli_stream *stream, struct error *err)
{
    struct cli *c = t->chat->c;

    for (int i = 0;; i++) {
        struct cli_transfer x cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
        char code[64] = "";
        int r;

        x.method = "POST";
        x.path = "/v1/responses";
        x.body = body;
        x.stream = stream;
        r = cli_transfer_run(c, &x, err);
        if (r == 0 || x.status < 400)
            return r;
        refusal_code(&x, code);
        if (strcmp(code, "conversation_locked") == 0 && i < LOCKED_TRIES &&
            cli_sleep(c, LOCKED_MS))
            continue; /* the answer before is being stored */
        if (x.status == 404 && !code[0] && err->code == ERR_NOT_FOUND &&
            !strstr(err->message, "onversation"))
            return error_hint(err,
                              "The service at %s may be older than this "
                              "program.",
                              c->base);
        if (strcmp(code, "model_not_found") == 0 && !err->hint[0] &&
            !strstr(err->message, "glovebox model"))
            return error_hint(
                err, "`glovebox model list` shows the models, `glovebox model "
                     "add` adds one; `-m echo` is a built-in one for trials.");
        return r;
    }
}

static int resume(struct turn *t, const struct cli_stream *stream,
                  struct error *err)
{
    int result = -(int)err->code;

    for (int i = 0; i < RESUME_TRIES && !t->final; i++) {
        char *path cleanup(mem_free) =
            xasprintf("/v1/responses/%s?stream=true&starting_after=%lld"
                      "&include[]=code_interpreter_call.outputs",
                      t->id, (long long)t->last);
        struct timespec nap = {.tv_nsec = 200000000L * (i > 0)};

        (void)nanosleep(&nap, NULL);
        result = cli_http_stream(t->chat->c, "GET", path, NULL, stream, err);
        if (result < 0 && (err->errnum == EINTR || err->code == ERR_NOT_FOUND))
            break;
    }
    return t->final ? 0 : result;
}

static int fail_from_event(const struct turn *t, struct error *err)
{
    const json_t *error = json_object_get(t->final, "error");
    const char *message = cli_json_text(
        json_is_object(error) ? error : t->failed, "message", NULL);
    const char *code =
        cli_json_text(json_is_object(error) ? error : t->failed, "code", "");
    bool limit = strstr(code, "rate_limit") || strstr(code, "quota") ||
                 strstr(code, "budget");

    return error_set(err, limit ? ERR_LIMIT : ERR_UNAVAILABLE, "%s",
                     message ? message : "the answer failed without a reason");
}

int cli_chat_turn_exit(const json_t *response)
{
    const char *status = cli_json_text(response, "status", "");
    const json_t *output = json_object_get(response, "output"), *item;
    char held[CLI_CHAT_ID];
    size_t i;

    json_array_foreach (output, i, item)
        if (cli_chat_turn_held(item, held))
            return CLI_EXIT_PENDING;
    if (strcmp(status, "completed") == 0)
        return CLI_EXIT_OK;
    if (strcmp(status, "incomplete") == 0)
        return CLI_EXIT_LIMIT;
    if (strcmp(status, "cancelled") == 0)
        return CLI_EXIT_CANCELLED;
    return CLI_EXIT_FAILED;
}

/* Says why an answer is shorter than it could be. */
static void tell_end(const struct turn *t)
{
    const char *status = cli_json_text(t->final, "status", "");
    const char *reason = cli_json_text(
        json_object_get(t->final, "incomplete_details"), "reason", "");

    if (t->chat->quiet)
        return;
    if (strcmp(status, "cancelled") == 0)
        (void)fputs("cancelled; the conversation goes on\n", stderr);
    else if (strcmp(status, "incomplete") == 0)
        (void)fprintf(stderr, "the answer is incomplete: %s\n",
                      strcmp(reason, "max_output_tokens") == 0
                          ? "its limit of tokens was reached"
                      : strcmp(reason, "content_filter") == 0
                          ? "the model's server withheld the rest"
                          : "it was stopped");
}

static void turn_done(struct turn *t)
{
    cli_markdown_free(t->markdown);
    json_decref(t->cited);
    json_decref(t->failed);
    json_decref(t->final);
}

int cli_chat_turn_run(struct cli_chat *chat, const char *question,
                      json_t **ret, struct error *err)
{
    struct turn t cleanup(turn_done) = {
        .chat = chat, .last = -1, .cited = json_array()};
    const struct cli_stream stream = {on_event, on_signal, &t, on_pause};
    json_t *body cleanup(json_unref) = request_body(chat, question);
    int result;

    *ret = NULL;
    if (!body)
        return error_set(err, ERR_INVALID, "the question is not valid UTF-8");
    set_status(&t, "thinking");
    result = post_question(&t, body, &stream, err);
    if (!t.final && !t.unread && t.id[0] &&
        (result == 0 || err->errnum != EINTR)) {
        if (result == 0)
            (void)error_set(err, ERR_UNAVAILABLE, "the stream ended early");
        result = resume(&t, &stream, err);
    }
    set_status(&t, NULL);
    wipe_status(&t);
    end_text(&t);
    if (result < 0 && err->errnum == EINTR) {
        chat->c->interrupted = false; /* the chat goes on */
        return result;
    }
    if (t.unread || chat->render.unread)
        return error_set(err, ERR_UNAVAILABLE,
                         "the output cannot be written any more");
    if (!t.final)
        return t.failed ? fail_from_event(&t, err)
               : result < 0
                   ? result
                   : error_set(err, ERR_UNAVAILABLE, "%s",
                               t.id[0] ? "the answer ended early"
                                       : "the service sent no answer");
    *ret = json_incref(t.final);
    mention_files(&t);
    tell_end(&t);
    if (strcmp(cli_json_text(t.final, "status", ""), "failed") == 0)
        return fail_from_event(&t, err);
    return 0;
}
