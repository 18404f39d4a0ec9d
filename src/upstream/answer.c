/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one answer: its items while they grow, the frames sent of
 * them, and the END. Dialects say what a server's words mean; this file keeps
 * the bounds. Pure. Runs in glovebox-model.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/ids.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "upstream/upstream_int.h"

#define ERROR_BODY_MAX ((size_t)64 << 10)
#define PIECE_MAX ((size_t)32 << 10) /* bytes of one frame of text */
#define TEXT_ID_MAX 128u             /* of ids and names */
#define CALL_ID_MAX 64u              /* that clients send back */

static const struct dialect *const dialects[MODEL_DIALECT_MAX] = {
    [MODEL_DIALECT_CHAT] = &dialect_chat,
    [MODEL_DIALECT_RESPONSES] = &dialect_responses,
    [MODEL_DIALECT_ANTHROPIC] = &dialect_anthropic,
};

struct upstream_answer *upstream_answer_new(enum model_dialect dialect,
                                            bool embed, bool tools,
                                            upstream_frame_fn *frame,
                                            void *ctx)
{
    struct upstream_answer *a = xcalloc(1, sizeof(*a));

    a->dialect = dialects[dialect];
    a->embed = embed;
    a->tools = tools;
    a->frame = frame;
    a->ctx = ctx;
    a->should_retry = -1;
    return a;
}

void upstream_answer_free(struct upstream_answer *a)
{
    if (!a)
        return;
    for (unsigned i = 0; i < a->count; i++) {
        struct slot *s = &a->slots[i];

        free(s->id);
        free(s->call_id);
        free(s->name);
        free(s->sealed);
        buf_done(&s->text);
        buf_done(&s->refusal);
    }
    sse_done(&a->sse);
    buf_done(&a->body);
    free(a);
}

bool upstream_answer_said(const struct upstream_answer *a)
{
    return a->said;
}

/* ---- failing ------------------------------------------------------------ */

void answer_fail(struct upstream_answer *a, enum model_outcome outcome,
                 bool retry, const char *fmt, ...)
{
    va_list args;

    if (a->fault.set)
        return;
    a->fault = (struct upstream_fault){
        .set = true, .outcome = outcome, .retry = retry};
    va_start(args, fmt);
    (void)vsnprintf(a->fault.message, sizeof(a->fault.message), fmt, args);
    va_end(args);
    a->stopped = true;
}

/* True while `more` bytes may still be kept. */
static bool has_room(struct upstream_answer *a, size_t more)
{
    if (a->bytes + more <= MODEL_ANSWER_MAX) {
        a->bytes += more;
        return true;
    }
    answer_fail(a, MODEL_NONSENSE, false, "the answer is larger than %u MiB",
                MODEL_ANSWER_MAX >> 20);
    return false;
}

/* ---- slots -------------------------------------------------------------- */

struct slot *answer_open(struct upstream_answer *a, enum slot_kind kind,
                         int64_t index)
{
    struct slot *s;

    if (a->count == MODEL_ITEMS_MAX) {
        answer_fail(a, MODEL_NONSENSE, false, "the answer has over %u items",
                    MODEL_ITEMS_MAX);
        return NULL;
    }
    s = &a->slots[a->count++];
    *s = (struct slot){.kind = kind, .index = index};
    buf_adds(&s->text, "");
    return s;
}

struct slot *answer_current(struct upstream_answer *a, enum slot_kind kind)
{
    struct slot *last = a->count ? &a->slots[a->count - 1] : NULL;

    return last && last->kind == kind && !last->done
               ? last
               : answer_open(a, kind, -1);
}

struct slot *answer_find(struct upstream_answer *a, int64_t index)
{
    for (unsigned i = a->count; i-- > 0;)
        if (!a->slots[i].done && a->slots[i].index == index)
            return &a->slots[i];
    return NULL;
}

static unsigned number_of(const struct upstream_answer *a,
                          const struct slot *s)
{
    return (unsigned)(s - a->slots);
}

static void send_pieces(struct upstream_answer *a, enum model_frame_type type,
                        const struct slot *s, const char *text, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = utf8_cut(text + at, len - at, MIN(len - at, PIECE_MAX));
        if (n == 0)
            n = MIN(len - at, PIECE_MAX);
        a->said = true;
        a->frame(a->ctx, type, number_of(a, s), text + at, n);
    }
}

/* Bytes that are zero end strings elsewhere. */
static size_t add_clean(struct buf *to, const char *text, size_t len)
{
    size_t before = to->len;

    for (size_t at = 0; at < len;) {
        size_t n = strnlen(text + at, len - at);

        buf_add(to, text + at, n);
        at += n + 1;
    }
    return to->len - before;
}

static void send_call(struct upstream_answer *a, struct slot *s)
{
    struct buf b cleanup(buf_done) = {0};

    buf_add(&b, s->call_id, strlen(s->call_id) + 1);
    buf_add(&b, s->name, strlen(s->name) + 1);
    a->said = s->begun = true;
    a->frame(a->ctx, MODEL_FRAME_CALL, number_of(a, s), b.data, b.len);
}

void answer_text(struct upstream_answer *a, struct slot *s, const char *text,
                 size_t len)
{
    size_t n;

    if (!s || s->done || len == 0 || !has_room(a, len))
        return;
    n = add_clean(&s->text, text, len);
    if (s->kind == SLOT_CALL) {
        if (!s->begun)
            return; /* until its name is known */
        send_pieces(a, MODEL_FRAME_ARGUMENTS, s, s->text.data + s->sent,
                    s->text.len - s->sent);
        s->sent = s->text.len;
        return;
    }
    send_pieces(a,
                s->kind == SLOT_REASONING ? MODEL_FRAME_REASONING
                                          : MODEL_FRAME_TEXT,
                s, s->text.data + s->text.len - n, n);
}

void answer_refusal(struct upstream_answer *a, struct slot *s,
                    const char *text, size_t len)
{
    size_t n;

    if (!s || s->done || len == 0 || !has_room(a, len))
        return;
    n = add_clean(&s->refusal, text, len);
    send_pieces(a, MODEL_FRAME_REFUSAL, s,
                s->refusal.data + s->refusal.len - n, n);
}

/* The server's id, if clients take it: they want 1 to 64 bytes, unique among
 * the calls of an answer. */
static char *make_call_id(const struct upstream_answer *a,
                          const struct slot *s)
{
    bool usable = s->id && strlen(s->id) <= CALL_ID_MAX;
    char made[ID_MAX];

    for (unsigned i = 0; usable && i < a->count; i++)
        usable =
            !a->slots[i].call_id || strcmp(a->slots[i].call_id, s->id) != 0;
    if (usable)
        return xstrdup(s->id);
    ids_make("call", made);
    return xstrdup(made);
}

void answer_call(struct upstream_answer *a, struct slot *s, const char *id,
                 const char *name)
{
    if (!s || s->done)
        return;
    if (!s->id && id && *id)
        s->id = xstrndup(id, utf8_cut(id, strlen(id), TEXT_ID_MAX));
    if (!s->name && name && *name)
        s->name = xstrndup(name, utf8_cut(name, strlen(name), TEXT_ID_MAX));
    if (!s->name || s->begun)
        return;
    s->call_id = make_call_id(a, s);
    send_call(a, s);
    if (s->text.len > s->sent) {
        send_pieces(a, MODEL_FRAME_ARGUMENTS, s, s->text.data, s->text.len);
        s->sent = s->text.len;
    }
}

/* ---- items -------------------------------------------------------------- */

static json_t *message_item(const struct slot *s, bool complete)
{
    json_t *content = json_array();

    if (s->text.len)
        (void)json_array_append_new(
            content,
            json_pack("{s:s, s:s%, s:[]}", "type", "output_text", "text",
                      s->text.data, s->text.len, "annotations"));
    if (s->refusal.len)
        (void)json_array_append_new(
            content, json_pack("{s:s, s:s%}", "type", "refusal", "refusal",
                               s->refusal.data, s->refusal.len));
    return json_pack("{s:s, s:s, s:o, s:s}", "type", "message", "role",
                     "assistant", "content", content, "status",
                     complete ? "completed" : "incomplete");
}

static json_t *reasoning_item(const struct slot *s)
{
    json_t *item = json_pack("{s:s, s:[]}", "type", "reasoning", "summary");

    if (s->text.len)
        (void)json_array_append_new(json_object_get(item, "summary"),
                                    json_pack("{s:s, s:s%}", "type",
                                              "summary_text", "text",
                                              s->text.data, s->text.len));
    if (s->sealed)
        (void)json_object_set_new(item, "encrypted_content",
                                  json_string(s->sealed));
    return item;
}

static json_t *call_item(const struct slot *s)
{
    return json_pack("{s:s, s:s, s:s, s:s%, s:s}", "type", "function_call",
                     "call_id", s->call_id, "name", s->name, "arguments",
                     s->text.len ? s->text.data : "{}",
                     s->text.len ? s->text.len : 2, "status",
                     s->cut ? "incomplete" : "completed");
}

void answer_close(struct upstream_answer *a, struct slot *s)
{
    json_t *item;
    char *text;

    if (!s || s->done)
        return;
    s->done = true;
    if (s->kind == SLOT_CALL && !s->begun) {
        answer_fail(a, MODEL_NONSENSE, true,
                    "the model called a function without saying which");
        return;
    }
    if (s->kind == SLOT_MESSAGE && !s->text.len && !s->refusal.len)
        return;
    if (s->kind == SLOT_REASONING && !s->text.len && !s->sealed)
        return;
    item = s->kind == SLOT_MESSAGE ? message_item(s, !a->fault.set)
           : s->kind == SLOT_CALL  ? call_item(s)
                                   : reasoning_item(s);
    text = json_dumps(item, JSON_COMPACT);
    json_decref(item);
    if (text) {
        a->said = true;
        a->frame(a->ctx, MODEL_FRAME_ITEM, number_of(a, s), text,
                 strlen(text));
    }
    free(text);
}

void answer_close_text(struct upstream_answer *a)
{
    for (unsigned i = 0; i < a->count; i++)
        if (a->slots[i].kind != SLOT_CALL)
            answer_close(a, &a->slots[i]);
}

void answer_close_all(struct upstream_answer *a)
{
    for (unsigned i = 0; i < a->count; i++)
        answer_close(a, &a->slots[i]);
}

/* ---- bytes in ----------------------------------------------------------- */

void upstream_answer_status(struct upstream_answer *a, long status)
{
    a->status = status;
}

static bool header_is(const char *line, size_t len, const char *name,
                      char *ret, size_t size)
{
    size_t n = strlen(name);

    if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    line += n + 1;
    len -= n + 1;
    while (len && (*line == ' ' || *line == '\t')) {
        line++;
        len--;
    }
    while (len && isspace((unsigned char)line[len - 1]))
        len--;
    len = MIN(len, size - 1);
    for (size_t i = 0; i < len; i++)
        ret[i] = (char)(line[i] >= ' ' && line[i] < 127 ? line[i] : '?');
    ret[len] = '\0';
    return true;
}

void upstream_answer_header(struct upstream_answer *a, const char *line,
                            size_t len)
{
    char v[128];

    if (header_is(line, len, "retry-after-ms", v, sizeof(v)))
        a->end.retry_after_ms = upstream_retry_after(v) / 1000;
    else if (header_is(line, len, "retry-after", v, sizeof(v)) &&
             !a->end.retry_after_ms)
        a->end.retry_after_ms = upstream_retry_after(v);
    else if (header_is(line, len, "x-should-retry", v, sizeof(v)))
        a->should_retry = strcmp(v, "true") == 0;
    else if (header_is(line, len, "x-request-id", v, sizeof(v)) ||
             header_is(line, len, "request-id", v, sizeof(v)))
        (void)snprintf(a->end.request_id, sizeof(a->end.request_id), "%s", v);
}

static bool on_event(void *ctx, const char *name, const char *data, size_t len)
{
    struct upstream_answer *a = ctx;
    json_t *value;

    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        a->finished = true;
        return true; /* what comes after it, if anything, is ignored */
    }
    if (len == 0 || a->stopped)
        return !a->stopped;
    value = upstream_json(data, len);
    if (!value)
        answer_fail(a, MODEL_NONSENSE, true,
                    "an event of the stream is not JSON: %.60s", data);
    else if (strcmp(name, "error") == 0 && !json_is_object(value))
        answer_fail(a, MODEL_OVERLOADED, true, "%.100s", data);
    else
        a->dialect->event(a, name, value);
    json_decref(value);
    return !a->stopped;
}

bool upstream_answer_feed(struct upstream_answer *a, const void *bytes,
                          size_t len)
{
    const char *text = bytes;
    size_t most = a->status >= 400 ? ERROR_BODY_MAX : MODEL_ANSWER_MAX;

    if (a->stopped)
        return false;
    if (!a->started) {
        size_t skip = 0;

        while (skip < len && isspace((unsigned char)text[skip]))
            skip++;
        if (skip == len)
            return true;
        a->started = true;
        a->whole = a->status >= 400 || a->embed || text[skip] == '{' ||
                   text[skip] == '[';
    }
    if (a->whole) {
        if (a->body.len + len > most && a->status < 400)
            answer_fail(a, MODEL_NONSENSE, false,
                        "the answer is larger than %u MiB",
                        MODEL_ANSWER_MAX >> 20);
        else
            buf_add(&a->body, text, MIN(len, most - a->body.len));
        return !a->stopped && a->body.len < most;
    }
    if (sse_feed(&a->sse, text, len, on_event, a) < 0)
        answer_fail(a, MODEL_NONSENSE, false,
                    "a line of the stream is longer than %zu MiB",
                    SSE_LINE_MAX >> 20);
    return !a->stopped;
}

/* ---- the end ------------------------------------------------------------ */

/* One vector per text, as {"data":[{"index","embedding":[…]}]}. */
static void read_vectors(struct upstream_answer *a, const json_t *body)
{
    const json_t *row, *number;
    size_t i, k;

    a->end.input =
        upstream_number(json_object_get(body, "usage"), "prompt_tokens");
    json_array_foreach (json_object_get(body, "data"), i, row) {
        const json_t *list = json_object_get(row, "embedding");
        const json_t *index = json_object_get(row, "index");
        size_t n = json_array_size(list);
        float *v cleanup(mem_free) = NULL;

        if (n == 0 || n > MODEL_DIMENSIONS_MAX || i >= MODEL_TEXTS_MAX) {
            answer_fail(a, MODEL_NONSENSE, false,
                        "the server sent no usable vector");
            return;
        }
        v = xcalloc(n, sizeof(*v));
        json_array_foreach (list, k, number)
            v[k] = (float)json_number_value(number);
        a->frame(a->ctx, MODEL_FRAME_VECTOR,
                 json_is_integer(index) ? (unsigned)json_integer_value(index)
                                        : (unsigned)i,
                 v, n * sizeof(*v));
        a->vectors++;
    }
    if (a->vectors)
        a->finished = true;
}

static void read_whole(struct upstream_answer *a)
{
    json_t *body;

    if (a->status >= 400) {
        answer_refused(a);
        return;
    }
    body = upstream_json(a->body.data ? a->body.data : "", a->body.len);
    if (!json_is_object(body))
        answer_fail(a, MODEL_NONSENSE, true,
                    "the server's answer is not JSON");
    else if (json_object_get(body, "error") &&
             !json_is_null(json_object_get(body, "error")))
        answer_error(a, body);
    else if (a->embed)
        read_vectors(a, body);
    else
        a->dialect->whole(a, body);
    json_decref(body);
}

static bool has_items(const struct upstream_answer *a)
{
    for (unsigned i = 0; i < a->count; i++)
        if (a->slots[i].text.len || a->slots[i].refusal.len ||
            a->slots[i].name || a->slots[i].sealed)
            return true;
    return a->vectors > 0;
}

static void judge_end(struct upstream_answer *a, enum upstream_transport how,
                      const char *why)
{
    if (how == UPSTREAM_UNREACHABLE)
        answer_fail(a, MODEL_UNREACHABLE, true, "%.250s", why ? why : "");
    else if (how == UPSTREAM_SLOW)
        answer_fail(a, MODEL_SLOW, false, "%.250s", why ? why : "");
    else if (!a->finished)
        answer_fail(a, MODEL_CUT, true,
                    "the stream ended before the answer was complete");
    else if (!has_items(a))
        answer_fail(a, MODEL_NONSENSE, true,
                    "the answer is empty; perhaps the prompt is longer than "
                    "the server's context");
}

/* A function called in plain text: the server's parser of calls is off. */
static bool looks_leaked(const struct upstream_answer *a)
{
    bool text = false;

    for (unsigned i = 0; i < a->count; i++) {
        if (a->slots[i].kind == SLOT_CALL)
            return false;
        if (a->slots[i].kind == SLOT_MESSAGE && a->slots[i].text.len &&
            (strstr(a->slots[i].text.data, "<tool_call>") ||
             strstr(a->slots[i].text.data, "<function=") ||
             strstr(a->slots[i].text.data, "[TOOL_CALLS]")))
            text = true;
    }
    return a->tools && text;
}

void upstream_answer_end(struct upstream_answer *a,
                         enum upstream_transport how, const char *why)
{
    struct model_end *e = &a->end;

    if (a->status >= 300 && a->status < 400)
        answer_fail(a, MODEL_REFUSED, false,
                    "it redirects elsewhere (%ld), which is not followed",
                    a->status);
    else if (how == UPSTREAM_COMPLETE || how == UPSTREAM_BROKEN) {
        if (a->whole)
            read_whole(a);
        else if (a->status >= 400)
            answer_refused(a);
        else if (!a->stopped && sse_end(&a->sse, on_event, a) < 0)
            answer_fail(a, MODEL_NONSENSE, false, "an event is too long");
        if (!a->fault.set && a->dialect->end)
            a->dialect->end(a);
    }
    judge_end(a, how, why);
    if (!a->fault.set)
        answer_close_all(a);
    e->status = (uint32_t)a->status;
    e->leaked = looks_leaked(a);
    if (a->fault.set) {
        e->outcome = a->fault.outcome;
        e->retry = a->fault.retry ? MODEL_RETRY_YES : MODEL_RETRY_NO;
        for (size_t i = 0; a->fault.message[i]; i++)
            if ((unsigned char)a->fault.message[i] < 0x20)
                a->fault.message[i] = ' ';
        memcpy(e->message, a->fault.message,
               utf8_cut(a->fault.message, strlen(a->fault.message),
                        sizeof(e->message) - 1));
    }
    a->frame(a->ctx, MODEL_FRAME_END, 0, e, sizeof(*e));
}
