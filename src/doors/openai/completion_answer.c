/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a response as a chat completion: one message with its text, the
 * functions it calls, and the files it names as addresses. Runs on a worker of
 * the daemon, and for streams on the event thread; pure, and waits for
 * nothing.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "doors/openai/completion.h"
#include "json/json.h"

/* What a name of a file begins with; see container_file_citation. */
static const char *const names[] = {"sandbox:", "(/mnt/data/"};

static size_t chars(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* The byte at which the n-th character begins. */
static size_t byte_of(const char *text, size_t len, size_t n)
{
    size_t i = 0;

    for (; i < len && n > 0; n--)
        do
            i++;
        while (i < len && ((unsigned char)text[i] & 0xc0) == 0x80);
    return i;
}

/* Bytes at the end of text that may be the beginning of word. */
static size_t overlap(const char *text, size_t len, const char *word)
{
    size_t most = MIN(strlen(word) - 1, len);

    for (; most > 0; most--)
        if (memcmp(text + len - most, word, most) == 0)
            return most;
    return 0;
}

/* ---- chunks --------------------------------------------------------------
 */

static json_t *head(const struct openai_answer *a, const char *object)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:n}", "id", a->id, "object",
                     object, "created", (json_int_t)a->created, "model",
                     a->model ? a->model : "", "service_tier", "default",
                     "system_fingerprint");
}

static void send_chunk(struct openai_answer *a, json_t *taken)
{
    json_t *chunk cleanup(json_unref) = taken;
    char *text cleanup(mem_free) = json_dumps(chunk, JSON_COMPACT);

    buf_addf(a->out, "data: %s\n\n", text ? text : "{}");
}

/* delta: taken. finish NULL: there is more. */
static json_t *chunk(const struct openai_answer *a, json_t *delta,
                     const char *finish)
{
    json_t *c = head(a, "chat.completion.chunk");

    (void)json_object_set_new(c, "choices",
                              json_pack("[{s:i, s:o, s:n, s:s?}]", "index", 0,
                                        "delta", delta, "logprobs",
                                        "finish_reason", finish));
    if (a->asked->include_usage)
        (void)json_object_set_new(c, "usage", json_null());
    return c;
}

static void send_delta(struct openai_answer *a, json_t *delta)
{
    if (!a->out) {
        json_decref(delta);
        return;
    }
    if (!a->said) {
        a->said = true;
        send_chunk(a, chunk(a,
                            json_pack("{s:s, s:s, s:n}", "role", "assistant",
                                      "content", "", "refusal"),
                            NULL));
    }
    send_chunk(a, chunk(a, delta, NULL));
}

/* ---- text ----------------------------------------------------------------
 */

static void emit(struct openai_answer *a, const char *text, size_t len)
{
    if (len == 0)
        return;
    buf_add(&a->content, text, len);
    a->content_chars += chars(text, len);
    send_delta(a, json_pack("{s:s%}", "content", text, len));
}

/* Text without an end in it: what comes before the first name of a file is
 * sent. */
static void pass(struct openai_answer *a, const char *text, size_t len)
{
    size_t keep = 0, at = len;

    a->part_chars += chars(text, len);
    if (a->held.len) {
        /* The beginning of a name may have turned out to be none. */
        buf_add(&a->held, text, len);
        text = a->held.data;
        at = len = a->held.len;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *found = memmem(text, len, names[i], strlen(names[i]));

        if (found)
            at = MIN(at, (size_t)(found - text));
        keep = MAX(keep, overlap(text, len, names[i]));
    }
    at = MIN(at, len - keep);
    if (a->held.len) {
        emit(a, a->held.data, at);
        buf_consume(&a->held, at);
    } else {
        emit(a, text, at);
        buf_add(&a->held, text + at, len - at);
    }
    a->held_at = a->part_chars - chars(a->held.data, a->held.len);
}

/* Text as the model wrote it. */
static void add_text(struct openai_answer *a, const char *text, size_t len)
{
    size_t keep = 0, end;

    if (a->stopped)
        return;
    buf_add(&a->tail, text, len);
    end = a->tail.len;
    for (size_t i = 0; i < a->asked->stop_count; i++) {
        const char *stop = a->asked->stops[i];
        const char *found =
            memmem(a->tail.data, a->tail.len, stop, strlen(stop));

        if (found) {
            a->stopped = true;
            end = MIN(end, (size_t)(found - a->tail.data));
        }
        keep = MAX(keep, overlap(a->tail.data, a->tail.len, stop));
    }
    if (!a->stopped)
        end = a->tail.len - keep;
    pass(a, a->tail.data, end);
    buf_consume(&a->tail, end);
    if (a->stopped)
        buf_reset(&a->tail);
}

/* The address of a cited file. A kept one has an address that outlives its
 * container. */
static void address(const struct openai_answer *a, const json_t *citation,
                    struct buf *out)
{
    const char *id = json_string_value(json_object_get(citation, "file_id"));
    const char *container =
        json_string_value(json_object_get(citation, "container_id"));
    char file[ID_MAX], library[ID_MAX];

    if (id && doors_file_id(id, file))
        buf_addf(out, "%s/files/%s/content", a->base,
                 doors_file_library(file, library));
    else
        buf_addf(out, "%s/containers/%s/files/%s/content", a->base,
                 container ? container : "", id ? id : "");
}

static void annotate(struct openai_answer *a, const json_t *citation,
                     const char *url, size_t start, size_t end)
{
    const char *name =
        json_string_value(json_object_get(citation, "filename"));

    (void)json_array_append_new(
        a->annotations,
        json_pack("{s:s, s:{s:I, s:I, s:s, s:s}}", "type", "url_citation",
                  "url_citation", "start_index", (json_int_t)start,
                  "end_index", (json_int_t)end, "title", name ? name : "",
                  "url", url));
}

/* The next citation of a place in the text that is still held, by position;
 * NULL: there is none. */
static const json_t *next_citation(const struct openai_answer *a, size_t from)
{
    const json_t *best = NULL, *c;
    size_t i, at = 0;

    json_array_foreach (a->citations, i, c) {
        json_int_t start =
            json_integer_value(json_object_get(c, "start_index"));
        json_int_t end = json_integer_value(json_object_get(c, "end_index"));

        if (start < 0 || end <= start || (size_t)start < from ||
            (size_t)end > a->part_chars)
            continue;
        if (!best || (size_t)start < at) {
            best = c;
            at = (size_t)start;
        }
    }
    return best;
}

/* The part is complete: names become addresses. */
static void end_part(struct openai_answer *a)
{
    struct buf text cleanup(buf_done) = {0};
    size_t from; /* characters of the part that are done */
    const json_t *c;
    size_t i;

    if (a->tail.len) {
        pass(a, a->tail.data, a->tail.len);
        buf_reset(&a->tail);
    }
    text = a->held;
    a->held = (struct buf){0};
    from = a->held_at;
    while (text.len && (c = next_citation(a, from))) {
        struct buf url cleanup(buf_done) = {0};
        size_t start =
            (size_t)json_integer_value(json_object_get(c, "start_index"));
        size_t end =
            (size_t)json_integer_value(json_object_get(c, "end_index"));
        size_t at = byte_of(text.data, text.len, start - from);
        size_t past = byte_of(text.data, text.len, end - from);

        address(a, c, &url);
        emit(a, text.data, at);
        annotate(a, c, url.data, a->content_chars,
                 a->content_chars + chars(url.data, url.len));
        emit(a, url.data, url.len);
        buf_consume(&text, past);
        from = end;
    }
    emit(a, text.data, text.len);
    json_array_foreach (a->citations, i, c) /* files it forgot to name */
        if (json_integer_value(json_object_get(c, "end_index")) == 0 &&
            !a->stopped) {
            struct buf url cleanup(buf_done) = {0},
                           line cleanup(buf_done) = {0};
            const char *name =
                json_string_value(json_object_get(c, "filename"));
            size_t start;

            address(a, c, &url);
            if (a->asked->json) {
                annotate(a, c, url.data, 0, 0);
                continue;
            }
            buf_addf(&line, "%s[%s](", a->content.len ? "\n\n" : "",
                     name ? name : "file");
            start = a->content_chars + chars(line.data, line.len);
            buf_addf(&line, "%s)", url.data);
            emit(a, line.data, line.len);
            annotate(a, c, url.data, start, start + chars(url.data, url.len));
        }
    json_array_clear(a->citations);
    a->part_chars = a->held_at = 0;
}

/* ---- events --------------------------------------------------------------
 */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static void on_created(struct openai_answer *a, const json_t *event)
{
    const json_t *response = json_object_get(event, "response");

    free(a->model);
    a->model = xstrdup(text_of(response, "model"));
}

static void on_text(struct openai_answer *a, const json_t *event)
{
    const json_t *delta = json_object_get(event, "delta");

    if (json_is_string(delta))
        add_text(a, json_string_value(delta), json_string_length(delta));
}

static void on_annotation(struct openai_answer *a, const json_t *event)
{
    json_t *annotation = json_object_get(event, "annotation");

    if (strcmp(text_of(annotation, "type"), "container_file_citation") == 0)
        (void)json_array_append(a->citations, annotation);
}

static void on_text_done(struct openai_answer *a, const json_t *event)
{
    (void)event;
    end_part(a);
}

static void on_refusal(struct openai_answer *a, const json_t *event)
{
    const json_t *delta = json_object_get(event, "delta");

    if (!json_is_string(delta))
        return;
    buf_add(&a->refusal, json_string_value(delta), json_string_length(delta));
    send_delta(a, json_pack("{s:O}", "refusal", delta));
}

/* A later message of the same answer begins a paragraph of its own. */
static void on_added(struct openai_answer *a, const json_t *event)
{
    const json_t *item = json_object_get(event, "item");
    const char *type = text_of(item, "type");

    if (strcmp(type, "message") == 0 && a->content.len && !a->stopped)
        emit(a, "\n\n", 2);
    if (strcmp(type, "function_call") != 0)
        return;
    send_delta(
        a, json_pack("{s:[{s:I, s:s, s:s, s:{s:s, s:s}}]}", "tool_calls",
                     "index", (json_int_t)json_array_size(a->calls), "id",
                     text_of(item, "call_id"), "type", "function", "function",
                     "name", text_of(item, "name"), "arguments", ""));
}

static void on_arguments(struct openai_answer *a, const json_t *event)
{
    const json_t *delta = json_object_get(event, "delta");

    if (json_is_string(delta))
        send_delta(a, json_pack("{s:[{s:I, s:{s:O}}]}", "tool_calls", "index",
                                (json_int_t)json_array_size(a->calls),
                                "function", "arguments", delta));
}

static void on_item(struct openai_answer *a, const json_t *event)
{
    json_t *item = json_object_get(event, "item");
    const char *type = text_of(item, "type");

    if (strcmp(type, "function_call") == 0)
        (void)json_array_append_new(
            a->calls, json_pack("{s:s, s:s, s:{s:s, s:s}}", "id",
                                text_of(item, "call_id"), "type", "function",
                                "function", "name", text_of(item, "name"),
                                "arguments", text_of(item, "arguments")));
    else if (strcmp(type, "code_interpreter_call") == 0)
        (void)json_array_append(a->code, item);
}

static json_t *usage_of(const json_t *u)
{
    json_int_t cached = 0, reasoning = 0, in = 0, out = 0;

    if (!json_is_object(u))
        return NULL;
    in = json_integer_value(json_object_get(u, "input_tokens"));
    out = json_integer_value(json_object_get(u, "output_tokens"));
    cached = json_integer_value(json_object_get(
        json_object_get(u, "input_tokens_details"), "cached_tokens"));
    reasoning = json_integer_value(json_object_get(
        json_object_get(u, "output_tokens_details"), "reasoning_tokens"));
    return json_pack(
        "{s:I, s:I, s:I, s:{s:I, s:i}, s:{s:I, s:i, s:i, s:i}}",
        "prompt_tokens", in, "completion_tokens", out, "total_tokens",
        in + out, "prompt_tokens_details", "cached_tokens", cached,
        "audio_tokens", 0, "completion_tokens_details", "reasoning_tokens",
        reasoning, "audio_tokens", 0, "accepted_prediction_tokens", 0,
        "rejected_prediction_tokens", 0);
}

static void fail(struct openai_answer *a, const json_t *error)
{
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *message = text_of(error, "message");
    struct json_writer w = {.out = &a->failure};

    json_write_open(&w, NULL, '{');
    json_write_open(&w, "error", '{');
    json_write_string(&w, "message",
                      message[0] ? message
                                 : "The answer was stopped before its end.");
    json_write_string(&w, "type", "server_error");
    json_write_string(&w, "param", NULL);
    json_write_string(&w, "code", code);
    json_write_close(&w, '}');
    json_write_close(&w, '}');
}

/* The last event. */
static void on_end(struct openai_answer *a, const json_t *event)
{
    const json_t *response = json_object_get(event, "response");
    const char *status = text_of(response, "status");
    const char *reason =
        text_of(json_object_get(response, "incomplete_details"), "reason");

    a->over = true;
    a->usage = usage_of(json_object_get(response, "usage"));
    if (a->stopped)
        a->finish = "stop";
    else if (strcmp(status, "completed") == 0)
        a->finish = json_array_size(a->calls) ? "tool_calls" : "stop";
    else if (strcmp(status, "incomplete") == 0)
        a->finish = strcmp(reason, "content_filter") == 0 ? "content_filter"
                                                          : "length";
    else
        fail(a, json_object_get(response, "error"));
}

void openai_answer_event(struct openai_answer *a, const char *type,
                         const char *text, size_t len)
{
    static const struct {
        const char *type;
        void (*on)(struct openai_answer *a, const json_t *event);
    } rows[] = {
        {"response.created", on_created},
        {"response.output_item.added", on_added},
        {"response.output_text.delta", on_text},
        {"response.output_text.annotation.added", on_annotation},
        {"response.output_text.done", on_text_done},
        {"response.refusal.delta", on_refusal},
        {"response.function_call_arguments.delta", on_arguments},
        {"response.output_item.done", on_item},
        {"response.completed", on_end},
        {"response.incomplete", on_end},
        {"response.failed", on_end},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strcmp(type, rows[i].type) == 0) {
            /* Written by ourselves: no limits but jansson's own. */
            json_t *event cleanup(json_unref) =
                json_loadb(text, len, JSON_ALLOW_NUL, NULL);

            if (event)
                rows[i].on(a, event);
            return;
        }
}

/* ---- the end ------------------------------------------------------------ */

/* What this service adds: where code ran, and which. */
static json_t *extension(const struct openai_answer *a)
{
    const json_t *last = json_array_get(a->code, json_array_size(a->code) - 1);

    if (!last)
        return NULL;
    return json_pack("{s:s, s:O}", "container_id",
                     text_of(last, "container_id"), "code_interpreter_calls",
                     a->code);
}

static void send_usage(struct openai_answer *a)
{
    json_t *c = head(a, "chat.completion.chunk");

    (void)json_object_set_new(c, "choices", json_array());
    (void)json_object_set_new(c, "usage",
                              a->usage ? json_incref(a->usage) : json_null());
    send_chunk(a, c);
}

void openai_answer_end(struct openai_answer *a)
{
    json_t *last, *more;

    if (!a->over || a->stopped)
        end_part(a);
    if (a->stopped && !a->finish)
        a->finish = "stop";
    if (!a->finish && !a->failure.len)
        fail(a, NULL);
    if (!a->out)
        return;
    if (a->failure.len) {
        buf_addf(a->out, "data: %s\n\n", a->failure.data);
        return;
    }
    if (json_array_size(a->annotations))
        send_delta(a, json_pack("{s:O}", "annotations", a->annotations));
    if (!a->said)
        send_delta(a, json_object());
    last = chunk(a, json_object(), a->finish);
    more = extension(a);
    if (more)
        (void)json_object_set_new(last, "glovebox", more);
    send_chunk(a, last);
    if (a->asked->include_usage)
        send_usage(a);
    buf_adds(a->out, "data: [DONE]\n\n");
}

static json_t *text_or_null(const struct buf *b)
{
    return b->len ? json_stringn(b->data, b->len) : json_null();
}

json_t *openai_answer_object(const struct openai_answer *a)
{
    json_t *object = head(a, "chat.completion"), *more = extension(a);
    json_t *message = json_pack(
        "{s:s, s:o, s:o, s:O}", "role", "assistant", "content",
        a->content.len || !json_array_size(a->calls)
            ? json_stringn(a->content.len ? a->content.data : "",
                           a->content.len)
            : json_null(),
        "refusal", text_or_null(&a->refusal), "annotations", a->annotations);

    if (json_array_size(a->calls))
        (void)json_object_set(message, "tool_calls", a->calls);
    (void)json_object_set_new(object, "choices",
                              json_pack("[{s:i, s:o, s:n, s:s}]", "index", 0,
                                        "message", message, "logprobs",
                                        "finish_reason", a->finish));
    (void)json_object_set_new(object, "usage",
                              a->usage ? json_incref(a->usage) : json_null());
    if (more)
        (void)json_object_set_new(object, "glovebox", more);
    return object;
}

void openai_answer_init(struct openai_answer *a,
                        const struct openai_completion *asked,
                        const char *base, struct buf *out)
{
    unsigned char random[16];
    char hex[2 * sizeof(random) + 1];

    *a = (struct openai_answer){.asked = asked,
                                .base = base,
                                .out = out,
                                .created = clock_real_ms() / 1000,
                                .citations = json_array(),
                                .calls = json_array(),
                                .annotations = json_array(),
                                .code = json_array()};
    ids_random(random, sizeof(random));
    (void)snprintf(a->id, sizeof(a->id), "chatcmpl-%s",
                   ids_hex(random, sizeof(random), hex));
}

void openai_answer_done(struct openai_answer *a)
{
    free(a->model);
    buf_done(&a->content);
    buf_done(&a->refusal);
    buf_done(&a->tail);
    buf_done(&a->held);
    buf_done(&a->failure);
    json_unref(&a->citations);
    json_unref(&a->calls);
    json_unref(&a->annotations);
    json_unref(&a->code);
    json_unref(&a->usage);
}
