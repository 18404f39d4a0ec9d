/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model says, as items and events of the response. Events of a model
 * may interleave several items; clients get them one after another: an item is
 * complete before the next one is added. A call of our tool stays open until
 * its code has run; what comes after it is kept back until then. A message
 * stays open until it is known whether it is the last one, because the last
 * one cites the files that the answer does not name. Runs in gloveboxd on the
 * thread of a response.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "chat/chat_int.h"
#include "json/json.h"

#define SLOTS_MAX 256u                   /* items of one call of a model */
#define PARTIAL_BYTES ((size_t)64 << 10) /* arguments decoded as they come */
#define ITEM_BYTES ((size_t)4 << 20)     /* text or arguments of one item */

enum slot_kind {
    SLOT_NONE,
    SLOT_MESSAGE,
    SLOT_REASONING,
    SLOT_CALL
};

struct slot {
    enum slot_kind kind;
    bool refusal; /* a message that is one */
    struct buf text;
    size_t sent; /* of text; of a code call: of its decoded code */
    char *name, *call_id;
    char *code, *why;
    json_t *done;
    bool opened, closed;
    size_t output;
    char id[ID_MAX];
};

struct chat_writer {
    struct chat_response *r;
    struct slot *slots;
    size_t count;
    size_t at;    /* the one that is written now */
    size_t yield; /* the next that chat_writer_next looks at */
    bool finished, cut;
    struct error err;
};

/* ---- groups of events --------------------------------------------------- */

#define I "output_index", (json_int_t)output, "item_id", id

void chat_item_event(struct chat_response *r, const char *type, const char *id,
                     size_t output)
{
    chat_event_add(r, type, chat_pack("{s:I, s:s}", I), NULL);
}

void chat_item_done_event(struct chat_response *r, size_t output,
                          const struct chat_item *item)
{
    bool code = chat_item_is(item, "code_interpreter_call");

    chat_event_add(r, "response.output_item.done",
                   chat_pack("{s:I, s:o}", "output_index", (json_int_t)output,
                             "item", chat_item_show(item, false)),
                   code ? chat_pack("{s:I, s:o}", "output_index",
                                    (json_int_t)output, "item",
                                    chat_item_show(item, true))
                        : NULL);
}

#define P I, "content_index", (json_int_t)content

static json_t *empty_part(bool refusal)
{
    return refusal ? chat_pack("{s:s, s:s}", "type", "refusal", "refusal", "")
                   : chat_item_output_text("", 0, NULL);
}

void chat_part_open(struct chat_response *r, const char *id, size_t output,
                    size_t content, bool refusal)
{
    chat_event_add(
        r, "response.content_part.added",
        chat_pack("{s:I, s:s, s:I, s:o}", P, "part", empty_part(refusal)),
        NULL);
}

void chat_part_delta(struct chat_response *r, const char *id, size_t output,
                     size_t content, bool refusal, const char *text,
                     size_t len)
{
    if (refusal)
        chat_event_add(r, "response.refusal.delta",
                       chat_pack("{s:I, s:s, s:I, s:o}", P, "delta",
                                 chat_text(text, len)),
                       NULL);
    else
        chat_event_add(r, "response.output_text.delta",
                       chat_pack("{s:I, s:s, s:I, s:o, s:[]}", P, "delta",
                                 chat_text(text, len), "logprobs"),
                       NULL);
}

void chat_part_close(struct chat_response *r, const char *id, size_t output,
                     size_t content, json_t *part)
{
    json_t *annotation;
    size_t i;

    json_array_foreach (json_object_get(part, "annotations"), i, annotation)
        chat_event_add(r, "response.output_text.annotation.added",
                       chat_pack("{s:I, s:s, s:I, s:I, s:O}", P,
                                 "annotation_index", (json_int_t)i,
                                 "annotation", annotation),
                       NULL);
    if (json_object_get(part, "refusal"))
        chat_event_add(r, "response.refusal.done",
                       chat_pack("{s:I, s:s, s:I, s:O}", P, "refusal",
                                 json_object_get(part, "refusal")),
                       NULL);
    else
        chat_event_add(r, "response.output_text.done",
                       chat_pack("{s:I, s:s, s:I, s:O, s:[]}", P, "text",
                                 json_object_get(part, "text"), "logprobs"),
                       NULL);
    chat_event_add(r, "response.content_part.done",
                   chat_pack("{s:I, s:s, s:I, s:O}", P, "part", part), NULL);
}

void chat_part_events(struct chat_response *r, const char *id, size_t output,
                      size_t content, json_t *part)
{
    const json_t *refusal = json_object_get(part, "refusal");
    const json_t *text = refusal ? refusal : json_object_get(part, "text");

    chat_part_open(r, id, output, content, refusal != NULL);
    if (json_string_length(text))
        chat_part_delta(r, id, output, content, refusal != NULL,
                        json_string_value(text), json_string_length(text));
    chat_part_close(r, id, output, content, part);
}

#define S I, "summary_index", (json_int_t)index

static void open_summary(struct chat_response *r, const char *id,
                         size_t output, size_t index)
{
    chat_event_add(r, "response.reasoning_summary_part.added",
                   chat_pack("{s:I, s:s, s:I, s:{s:s, s:s}}", S, "part",
                             "type", "summary_text", "text", ""),
                   NULL);
}

static void close_summary(struct chat_response *r, const char *id,
                          size_t output, size_t index, const json_t *text)
{
    chat_event_add(r, "response.reasoning_summary_text.done",
                   chat_pack("{s:I, s:s, s:I, s:O}", S, "text", text), NULL);
    chat_event_add(r, "response.reasoning_summary_part.done",
                   chat_pack("{s:I, s:s, s:I, s:{s:s, s:O}}", S, "part",
                             "type", "summary_text", "text", text),
                   NULL);
}

void chat_summary_events(struct chat_response *r, const char *id,
                         size_t output, size_t index, const json_t *text)
{
    open_summary(r, id, output, index);
    if (json_string_length(text))
        chat_event_add(r, "response.reasoning_summary_text.delta",
                       chat_pack("{s:I, s:s, s:I, s:O}", S, "delta", text),
                       NULL);
    close_summary(r, id, output, index, text);
}

/* ---- items of the response ---------------------------------------------- */

/* Items of an agent name it and the response. */
static void stamp(const struct chat_response *r, json_t *body)
{
    json_t *agent = json_object_get(r->echo, "agent_reference");

    if (!r->agent[0] || !json_is_object(agent))
        return;
    (void)json_object_set(body, "agent_reference", agent);
    (void)json_object_set_new(body, "response_id", json_string(r->id));
}

size_t chat_item_open(struct chat_response *r, json_t *body)
{
    size_t output;

    stamp(r, body);
    mutex_lock(&r->lock);
    (void)chat_items_add(&r->output, body);
    output = r->output.count - 1;
    mutex_unlock(&r->lock);
    chat_event_add(r, "response.output_item.added",
                   chat_pack("{s:I, s:O}", "output_index", (json_int_t)output,
                             "item", body),
                   NULL);
    return output;
}

void chat_item_close(struct chat_response *r, size_t output, json_t *body)
{
    stamp(r, body);
    mutex_lock(&r->lock);
    json_decref(r->output.list[output].body);
    r->output.list[output].body = body;
    mutex_unlock(&r->lock);
    chat_item_done_event(r, output, &r->output.list[output]);
}

void chat_item_replace(struct chat_response *r, size_t output,
                       struct chat_item *item)
{
    stamp(r, item->body);
    mutex_lock(&r->lock);
    chat_item_done(&r->output.list[output]);
    r->output.list[output] = *item;
    mutex_unlock(&r->lock);
    *item = (struct chat_item){0};
    chat_item_done_event(r, output, &r->output.list[output]);
}

/* ---- messages ----------------------------------------------------------- */

static void open_message(struct chat_writer *w, struct slot *s)
{
    ids_make("msg", s->id);
    s->output = chat_item_open(
        w->r, chat_item_message(s->id, "in_progress", json_array()));
    chat_part_open(w->r, s->id, s->output, 0, s->refusal);
    s->opened = true;
}

static void close_message(struct chat_writer *w, struct slot *s, bool final,
                          const char *status)
{
    json_t *part, *item;

    part = s->refusal ? chat_pack("{s:s, s:o}", "type", "refusal", "refusal",
                                  chat_text(s->text.data ? s->text.data : "",
                                            s->text.len))
                      : chat_item_output_text(
                            s->text.data ? s->text.data : "", s->text.len,
                            chat_cite(w->r, s->text.data ? s->text.data : "",
                                      s->text.len, final));
    chat_part_close(w->r, s->id, s->output, 0, part);
    item = chat_item_message(s->id, status, json_pack("[o]", part));
    (void)json_object_set_new(
        item, "phase", json_string(final ? "final_answer" : "commentary"));
    chat_item_close(w->r, s->output, item);
    s->closed = true;
}

static bool has_calls(const struct chat_writer *w)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->slots[i].kind == SLOT_CALL)
            return true;
    return false;
}

static bool write_message(struct chat_writer *w, struct slot *s)
{
    bool later = w->at + 1 < w->count;

    if (!s->opened && s->text.len)
        open_message(w, s);
    if (s->sent < s->text.len) {
        chat_part_delta(w->r, s->id, s->output, 0, s->refusal,
                        s->text.data + s->sent, s->text.len - s->sent);
        s->sent = s->text.len;
    }
    if (!w->finished && !(s->done && later))
        return false;
    if (s->opened)
        close_message(w, s, w->finished && !later && !has_calls(w),
                      w->cut && !later ? "incomplete" : "completed");
    return true;
}

/* ---- reasoning ---------------------------------------------------------- */

static bool write_reasoning(struct chat_writer *w, struct slot *s)
{
    struct chat_response *r = w->r;
    json_t *text, *item;

    if (!s->opened) {
        ids_make("rs", s->id);
        s->output =
            chat_item_open(r, chat_pack("{s:s, s:s, s:[]}", "id", s->id,
                                        "type", "reasoning", "summary"));
        s->opened = true;
    }
    if (s->sent < s->text.len) {
        if (s->sent == 0)
            open_summary(r, s->id, s->output, 0);
        chat_event_add(r, "response.reasoning_summary_text.delta",
                       chat_pack("{s:I, s:s, s:I, s:o}", "output_index",
                                 (json_int_t)s->output, "item_id", s->id,
                                 "summary_index", (json_int_t)0, "delta",
                                 chat_text(s->text.data + s->sent,
                                           s->text.len - s->sent)),
                       NULL);
        s->sent = s->text.len;
    }
    if (!s->done && !w->finished)
        return false;
    text = chat_text(s->text.data ? s->text.data : "", s->text.len);
    if (s->text.len)
        close_summary(r, s->id, s->output, 0, text);
    item = s->done ? json_copy(s->done) : json_object();
    (void)json_object_set_new(item, "id", json_string(s->id));
    (void)json_object_set_new(item, "type", json_string("reasoning"));
    (void)json_object_set_new(
        item, "summary",
        s->text.len
            ? chat_pack("[{s:s, s:O}]", "type", "summary_text", "text", text)
            : json_array());
    json_decref(text);
    chat_item_close(r, s->output, item);
    s->closed = true;
    return true;
}

/* ---- calls of functions of the client ------------------------------------
 */

static json_t *function_item(const struct slot *s, const char *status,
                             const char *arguments, size_t len)
{
    return chat_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "id", s->id, "type",
                     "function_call", "status", status, "call_id", s->call_id,
                     "name", s->name, "arguments", chat_text(arguments, len));
}

static bool write_function(struct chat_writer *w, struct slot *s)
{
    struct chat_response *r = w->r;
    const char *text = s->text.data ? s->text.data : "";

    if (!s->opened) {
        ids_make("fc", s->id);
        s->output = chat_item_open(r, function_item(s, "in_progress", "", 0));
        s->opened = true;
    }
    if (s->sent < s->text.len) {
        chat_event_add(
            r, "response.function_call_arguments.delta",
            chat_pack("{s:I, s:s, s:o}", "output_index", (json_int_t)s->output,
                      "item_id", s->id, "delta",
                      chat_text(text + s->sent, s->text.len - s->sent)),
            NULL);
        s->sent = s->text.len;
    }
    if (!s->done && !w->finished)
        return false;
    chat_event_add(r, "response.function_call_arguments.done",
                   chat_pack("{s:I, s:s, s:o, s:s}", "output_index",
                             (json_int_t)s->output, "item_id", s->id,
                             "arguments", chat_text(text, s->text.len), "name",
                             s->name),
                   NULL);
    chat_item_close(
        r, s->output,
        function_item(
            s, w->cut && w->at + 1 == w->count ? "incomplete" : "completed",
            text, s->text.len));
    s->closed = true;
    return true;
}

/* ---- calls of our tool -------------------------------------------------- */

static json_t *code_item(const struct chat_response *r, const char *id,
                         const char *status)
{
    return chat_pack("{s:s, s:s, s:s, s:s, s:s, s:[]}", "id", id, "type",
                     "code_interpreter_call", "status", status, "container_id",
                     r->session, "code", "", "outputs");
}

/* Where the text of "code" begins in arguments that are still being written;
 * NULL: not yet, or another form. */
static const char *code_start(const char *text, size_t len)
{
    static const char *const marks[] = {"{", "\"code\"", ":", "\""};
    const char *end = text + len;

    for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
        size_t n = strlen(marks[i]);

        while (text < end && strchr(" \t\r\n", *text))
            text++;
        if ((size_t)(end - text) < n || strncmp(text, marks[i], n) != 0)
            return NULL;
        text += n;
    }
    return text;
}

/* The part of a JSON string that is complete so far. */
static char *decode_partial(const char *text, size_t len)
{
    struct buf quoted cleanup(buf_done) = {0};
    json_t *value cleanup(json_unref) = NULL;
    size_t end = 0;

    while (end < len && text[end] != '"') {
        size_t n = text[end] != '\\'                       ? 1
                   : end + 1 < len && text[end + 1] == 'u' ? 6
                                                           : 2;

        if (n == 6 && end + 2 < len && strchr("dD", text[end + 2]) &&
            end + 3 < len && strchr("89abAB", text[end + 3]))
            n = 12; /* a surrogate pair */
        if (end + n > len)
            break;
        end += n;
    }
    buf_adds(&quoted, "\"");
    buf_add(&quoted, text, end);
    buf_adds(&quoted, "\"");
    value = json_loadb(quoted.data, quoted.len, JSON_DECODE_ANY, NULL);
    return json_is_string(value) ? xstrdup(json_string_value(value)) : NULL;
}

static void send_code(struct chat_writer *w, struct slot *s, const char *code)
{
    size_t len = strlen(code);

    if (len <= s->sent)
        return;
    chat_event_add(w->r, "response.code_interpreter_call_code.delta",
                   chat_pack("{s:I, s:s, s:o}", "output_index",
                             (json_int_t)s->output, "item_id", s->id, "delta",
                             chat_text(code + s->sent, len - s->sent)),
                   NULL);
    s->sent = len;
}

static int open_code(struct chat_writer *w, struct slot *s)
{
    int rc = chat_container_need(w->r, &w->err);

    if (rc < 0)
        return rc;
    ids_make("ci", s->id);
    s->output = chat_item_open(w->r, code_item(w->r, s->id, "in_progress"));
    chat_item_event(w->r, "response.code_interpreter_call.in_progress", s->id,
                    s->output);
    s->opened = true;
    return 0;
}

/* Always false: chat_writer_next goes on. */
static bool write_code(struct chat_writer *w, struct slot *s)
{
    const char *start;
    char *code cleanup(mem_free) = NULL;

    if (!s->opened && open_code(w, s) < 0)
        return false;
    if (!s->text.len || s->text.len > PARTIAL_BYTES || w->finished ||
        chat_saved_is(w->r, s->name))
        return false;
    start = code_start(s->text.data, s->text.len);
    if (!start)
        return false;
    code = decode_partial(start, s->text.len - (size_t)(start - s->text.data));
    if (code)
        send_code(w, s, code);
    return false;
}

/* All arguments are there. */
static void settle_code(struct chat_writer *w, struct slot *s)
{
    bool cut = w->cut && w->at + 1 == w->count;
    const char *arguments = s->text.data ? s->text.data : "";

    if (!cut)
        s->code = chat_saved_is(w->r, s->name)
                      ? chat_saved_code(w->r, s->name, arguments, &s->why)
                      : chat_tool_code(arguments, &s->why);
    if (cut)
        s->why = xstrdup("the model was stopped while it wrote the code");
    if (!s->code)
        return;
    send_code(w, s, s->code);
    chat_event_add(w->r, "response.code_interpreter_call_code.done",
                   chat_pack("{s:I, s:s, s:o}", "output_index",
                             (json_int_t)s->output, "item_id", s->id, "code",
                             chat_text(s->code, strlen(s->code))),
                   NULL);
}

void chat_writer_code_runs(struct chat_response *r, size_t output)
{
    const char *id = chat_item_id(&r->output.list[output]);

    chat_item_event(r, "response.code_interpreter_call.interpreting", id,
                    output);
}

void chat_writer_code_done(struct chat_response *r, size_t output,
                           struct chat_item *item)
{
    if (strcmp(chat_item_status(item), "completed") == 0)
        chat_item_event(r, "response.code_interpreter_call.completed",
                        chat_item_id(item), output);
    chat_item_replace(r, output, item);
}

/* Clients know no event for this; they ignore members of one that only says
 * that the stream is alive. */
void chat_writer_held(struct chat_response *r, const char *approval,
                      const char *execution)
{
    mutex_lock(&r->lock);
    (void)snprintf(r->pending_approval, sizeof(r->pending_approval), "%s",
                   approval);
    mutex_unlock(&r->lock);
    if (!*approval)
        return;
    chat_event_add(
        r, "keepalive",
        chat_pack("{s:{s:s, s:s, s:s}}", "pending_approval", "id", approval,
                  "execution", execution, "message",
                  "The call waits until a person approves it; nothing of it "
                  "has run."),
        NULL);
}

/* ---- calls of the service's other tools ----------------------------------
 */

/* Always false: chat_writer_next goes on once the tool has run. */
static bool write_box(struct chat_writer *w, struct slot *s)
{
    const char *name = chat_toolbox_name(w->r, s->name);

    if (!s->opened) {
        ids_make("mcp", s->id);
        s->output = chat_item_open(
            w->r, chat_toolbox_item(s->id, name, "in_progress", "", 0));
        chat_item_event(w->r, "response.mcp_call.in_progress", s->id,
                        s->output);
        s->opened = true;
    }
    if (s->sent < s->text.len) {
        chat_event_add(w->r, "response.mcp_call_arguments.delta",
                       chat_pack("{s:I, s:s, s:o}", "output_index",
                                 (json_int_t)s->output, "item_id", s->id,
                                 "delta",
                                 chat_text(s->text.data + s->sent,
                                           s->text.len - s->sent)),
                       NULL);
        s->sent = s->text.len;
    }
    return false;
}

static void settle_box(struct chat_writer *w, struct slot *s)
{
    const char *text = s->text.data ? s->text.data : "";

    (void)write_box(w, s);
    chat_event_add(w->r, "response.mcp_call_arguments.done",
                   chat_pack("{s:I, s:s, s:o}", "output_index",
                             (json_int_t)s->output, "item_id", s->id,
                             "arguments", chat_text(text, s->text.len)),
                   NULL);
    if (w->cut && w->at + 1 == w->count)
        s->why = xstrdup("the model was stopped while it wrote the call");
}

/* ---- slots -------------------------------------------------------------- */

static bool is_ours(const struct chat_writer *w, const struct slot *s)
{
    return w->r->tool[0] && s->name &&
           (strcmp(s->name, w->r->tool) == 0 || chat_saved_is(w->r, s->name));
}

static bool is_box(const struct chat_writer *w, const struct slot *s)
{
    return chat_toolbox_name(w->r, s->name) != NULL;
}

static bool is_theirs(const struct chat_writer *w, const struct slot *s)
{
    json_t *f;
    size_t i;

    json_array_foreach (w->r->functions, i, f) {
        const char *name = json_string_value(json_object_get(f, "name"));

        if (name && s->name && strcmp(name, s->name) == 0)
            return true;
    }
    return false;
}

static struct slot *get_slot(struct chat_writer *w, size_t index)
{
    if (index >= SLOTS_MAX)
        return NULL;
    if (index >= w->count) {
        w->slots = xrealloc(w->slots, (index + 1) * sizeof(*w->slots));
        memset(&w->slots[w->count], 0,
               (index + 1 - w->count) * sizeof(*w->slots));
        w->count = index + 1;
    }
    return &w->slots[index];
}

/* True: the slot is written, and the next one may begin. */
static bool write_slot(struct chat_writer *w, struct slot *s)
{
    switch (s->kind) {
    case SLOT_MESSAGE:
        return write_message(w, s);
    case SLOT_REASONING:
        return write_reasoning(w, s);
    case SLOT_CALL:
        if (is_ours(w, s))
            return write_code(w, s);
        if (is_box(w, s))
            return write_box(w, s);
        return is_theirs(w, s) && write_function(w, s);
    case SLOT_NONE:
        break;
    }
    return w->finished; /* of a kind that clients do not get */
}

static void write_slots(struct chat_writer *w)
{
    while (w->at < w->count && w->err.code == ERR_NONE &&
           write_slot(w, &w->slots[w->at]))
        w->at++;
}

/* What the complete item has that no event told of. */
static void complete_slot(struct slot *s, const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    struct buf text cleanup(buf_done) = {0};
    const char *list = "content", *member = "text";
    json_t *part;
    size_t i;

    if (!type)
        return;
    if (!s->done)
        s->done = json_incref((json_t *)item);
    if (strcmp(type, "message") == 0) {
        s->kind = SLOT_MESSAGE;
    } else if (strcmp(type, "reasoning") == 0) {
        s->kind = SLOT_REASONING;
        list = "summary";
    } else if (strcmp(type, "function_call") == 0) {
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *id = json_string_value(json_object_get(item, "call_id"));
        const char *arguments =
            json_string_value(json_object_get(item, "arguments"));

        s->kind = SLOT_CALL;
        if (!s->name)
            s->name = xstrdup(name ? name : "");
        if (!s->call_id)
            s->call_id = xstrdup(id ? id : "");
        buf_adds(&text, arguments ? arguments : "");
    } else {
        return;
    }
    json_array_foreach (json_object_get(item, list), i, part) {
        const char *t = json_string_value(json_object_get(part, member));
        const char *refusal =
            json_string_value(json_object_get(part, "refusal"));

        if (refusal && !s->text.len && !text.len)
            s->refusal = true;
        buf_adds(&text, t ? t : s->refusal && refusal ? refusal : "");
    }
    if (text.len > s->text.len &&
        (s->text.len == 0 ||
         memcmp(text.data, s->text.data, s->text.len) == 0))
        buf_add(&s->text, text.data + s->text.len, text.len - s->text.len);
}

/* ---- for the loop ------------------------------------------------------- */

struct chat_writer *chat_writer_new(struct chat_response *r)
{
    struct chat_writer *w = xcalloc(1, sizeof(*w));

    w->r = r;
    return w;
}

void chat_writer_free(struct chat_writer **pw)
{
    struct chat_writer *w = take_ptr(*pw);

    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++) {
        struct slot *s = &w->slots[i];

        buf_done(&s->text);
        free(s->name);
        free(s->call_id);
        free(s->code);
        free(s->why);
        json_decref(s->done);
    }
    free(w->slots);
    free(w);
}

const struct error *chat_writer_error(const struct chat_writer *w)
{
    return w->err.code != ERR_NONE ? &w->err : NULL;
}

static void note_kind(struct slot *s, enum slot_kind kind)
{
    if (s->kind == SLOT_NONE)
        s->kind = kind;
}

bool chat_writer_event(void *ctx, const struct model_event *event)
{
    struct chat_writer *w = ctx;
    struct slot *s = get_slot(w, event->item);

    if (!s) {
        (void)error_set(&w->err, ERR_UNAVAILABLE,
                        "the model answered with more than %u items",
                        SLOTS_MAX);
        return false;
    }
    if (s->text.len + event->len > ITEM_BYTES) {
        (void)error_set(&w->err, ERR_UNAVAILABLE,
                        "the model's answer is longer than %zu MiB",
                        ITEM_BYTES >> 20);
        return false;
    }
    switch (event->kind) {
    case MODEL_EVENT_REFUSAL:
        s->refusal = s->refusal || !s->text.len;
        note_kind(s, SLOT_MESSAGE);
        break;
    case MODEL_EVENT_TEXT:
        note_kind(s, SLOT_MESSAGE);
        break;
    case MODEL_EVENT_REASONING:
        note_kind(s, SLOT_REASONING);
        break;
    case MODEL_EVENT_CALL:
        note_kind(s, SLOT_CALL);
        if (!s->name)
            s->name = xstrdup(event->name ? event->name : "");
        if (!s->call_id)
            s->call_id = xstrdup(event->call_id ? event->call_id : "");
        break;
    case MODEL_EVENT_ARGUMENTS:
        note_kind(s, SLOT_CALL);
        break;
    case MODEL_EVENT_ITEM:
        complete_slot(s, event->done);
        break;
    }
    if (event->len && event->kind != MODEL_EVENT_CALL &&
        event->kind != MODEL_EVENT_ITEM)
        buf_add(&s->text, event->text, event->len);
    write_slots(w);
    return w->err.code == ERR_NONE;
}

void chat_writer_finish(struct chat_writer *w, const json_t *output, bool cut)
{
    json_t *item;
    size_t i;

    json_array_foreach (output, i, item) {
        struct slot *s = get_slot(w, i);

        if (s)
            complete_slot(s, item);
    }
    w->finished = true;
    w->cut = cut;
}

bool chat_writer_next(struct chat_writer *w, struct chat_call *ret)
{
    for (;;) {
        struct slot *s;

        write_slots(w);
        if (w->yield >= w->count || w->err.code != ERR_NONE)
            return false;
        s = &w->slots[w->yield++];
        if (s->kind != SLOT_CALL)
            continue;
        *ret = (struct chat_call){.kind = CHAT_CALL_FUNCTION,
                                  .call_id = s->call_id,
                                  .name = s->name,
                                  .output = s->output};
        if (is_ours(w, s)) {
            settle_code(w, s);
            ret->kind = CHAT_CALL_CODE;
            ret->code = s->code;
            ret->why = s->why;
            s->closed = true; /* by chat_tool_run or chat_tool_refuse */
            w->at = w->yield;
        } else if (is_box(w, s)) {
            settle_box(w, s);
            ret->kind = CHAT_CALL_BOX;
            ret->arguments = s->text.data ? s->text.data : "";
            ret->why = s->why;
            ret->output = s->output;
            s->closed = true; /* by chat_toolbox_run or chat_toolbox_refuse */
            w->at = w->yield;
        } else if (!is_theirs(w, s)) {
            ret->kind = CHAT_CALL_UNKNOWN;
            w->at = w->yield;
        }
        return true;
    }
}

bool chat_writer_some(const struct chat_writer *w)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->slots[i].kind == SLOT_CALL ||
            (w->slots[i].kind == SLOT_MESSAGE && w->slots[i].text.len))
            return true;
    return false;
}

void chat_writer_abort(struct chat_writer *w)
{
    for (size_t i = 0; i < w->count; i++) {
        struct slot *s = &w->slots[i];

        if (!s->opened || s->closed)
            continue;
        s->closed = true;
        if (s->kind == SLOT_MESSAGE) {
            close_message(w, s, false, "incomplete");
        } else if (s->kind == SLOT_CALL && is_ours(w, s)) {
            chat_tool_refuse(w->r, s->output, NULL,
                             "the response was stopped");
        } else if (s->kind == SLOT_CALL && is_box(w, s)) {
            chat_toolbox_refuse(w->r, s->output, s->name,
                                s->text.data ? s->text.data : "",
                                "the response was stopped");
        } else if (s->kind == SLOT_CALL) {
            chat_item_close(w->r, s->output,
                            function_item(s, "incomplete",
                                          s->text.data ? s->text.data : "",
                                          s->text.len));
        } else {
            w->finished = true;
            (void)write_reasoning(w, s);
        }
    }
}

void chat_writer_message(struct chat_response *r, const char *text,
                         const char *phase)
{
    bool final = strcmp(phase, "final_answer") == 0;
    json_t *part, *item;
    char id[ID_MAX];
    size_t output;

    ids_make("msg", id);
    output =
        chat_item_open(r, chat_item_message(id, "in_progress", json_array()));
    part = chat_item_output_text(text, strlen(text),
                                 chat_cite(r, text, strlen(text), final));
    chat_part_events(r, id, output, 0, part);
    item = chat_item_message(id, "completed", json_pack("[o]", part));
    (void)json_object_set_new(item, "phase", json_string(phase));
    chat_item_close(r, output, item);
}
