/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /chat/completions. A request becomes one of the agent loop, whose events
 * become the completion. Runs on a worker of the daemon; a stream is written
 * by the event thread, which waits for nothing, and a completion that is to be
 * stored is stored by a worker once the stream has ended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "chat/conversations.h"
#include "conf/conf.h"
#include "doors/openai/completion.h"
#include "doors/openai/responses.h"
#include "json/json.h"

#define LIST_MAX 100
#define LIST_USUAL 20
#define PIECE 65536u /* bytes of a stream written at once */

/* ---- one completion under way -------------------------------------------
 */

/* Lives as long as its stream. */
struct completion {
    json_t *body; /* as the client sent it */
    struct openai_completion asked;
    struct openai_answer answer;
    struct chat_response *response;
    struct buf out;
    char *base;
    int64_t after;  /* number of the last event that was read */
    uint64_t watch; /* of chat_event_watch; 0: none */
    bool ended;
    /* Who asked, for what is stored after the request. */
    struct chat *chat;
    struct http_work *work;
    char tenant[64], key[ID_MAX], request[80], source[64];
};

static void completion_free(struct completion *c)
{
    if (!c)
        return;
    chat_response_unref(&c->response);
    openai_answer_done(&c->answer);
    openai_completion_done(&c->asked);
    buf_done(&c->out);
    json_unref(&c->body);
    free(c->base);
    free(c);
}

static void completion_freep(struct completion **c)
{
    completion_free(*c);
}

/* Hands every event there is to the answer. */
static void follow(struct completion *c)
{
    struct chat_event event;
    int r = 0;

    while (!c->answer.over && !c->answer.stopped && c->out.len < PIECE &&
           (r = chat_event_next(c->response, c->after, false, &event)) > 0) {
        c->after = event.number;
        openai_answer_event(&c->answer, event.type, event.text, event.len);
    }
    if (c->answer.stopped)
        chat_response_cancel(c->response);
    if (!c->ended && (c->answer.over || c->answer.stopped || r < 0)) {
        c->ended = true;
        openai_answer_end(&c->answer);
    }
}

/* ---- storing ------------------------------------------------------------
 */

/* The messages as they are listed later: each with an id. */
static char *messages_text(const struct completion *c)
{
    json_t *list cleanup(json_unref) = json_array();
    const json_t *message;
    char *text;
    size_t i;

    json_array_foreach (json_object_get(c->body, "messages"), i, message) {
        json_t *copy = json_copy((json_t *)message);
        char id[ID_MAX + 24];

        (void)snprintf(id, sizeof(id), "%s-%zu", c->answer.id, i);
        (void)json_object_set_new(copy, "id", json_string(id));
        (void)json_array_append_new(list, copy);
    }
    text = json_dumps(list, JSON_COMPACT);
    return text ? text : xstrdup("[]");
}

static int store(const struct completion *c, struct error *err)
{
    struct actor who = {.tenant = c->tenant,
                        .key = c->key,
                        .door = "openai",
                        .request = c->request,
                        .source = c->source};
    json_t *object cleanup(json_unref) = openai_answer_object(&c->answer);
    const json_t *metadata = json_object_get(c->body, "metadata");
    const json_t *last =
        json_array_get(c->answer.code, json_array_size(c->answer.code) - 1);
    const char *session =
        json_string_value(json_object_get(last, "container_id"));
    struct chat_completion v cleanup(chat_completion_done) = {
        .created_at_ms = c->answer.created * 1000,
        .body = json_dumps(object, JSON_COMPACT),
        .metadata = json_is_object(metadata)
                        ? json_dumps(metadata, JSON_COMPACT)
                        : xstrdup("{}"),
        .messages = messages_text(c)};

    (void)snprintf(v.id, sizeof(v.id), "%s", c->answer.id);
    (void)snprintf(v.response, sizeof(v.response), "%s",
                   chat_response_id(c->response));
    (void)snprintf(v.session, sizeof(v.session), "%s", session ? session : "");
    (void)snprintf(v.model, sizeof(v.model), "%s",
                   c->answer.model ? c->answer.model : "");
    return chat_completions_store(c->chat, &who, &v, err);
}

/* On a worker, after a stream. */
static void store_later(void *arg)
{
    struct completion *c = arg;
    struct error err;

    if (store(c, &err) < 0)
        log_event(LOG_ERROR, "completion_not_stored", "id", c->request,
                  "error", err.message, NULL);
    completion_free(c);
}

/* ---- the stream ---------------------------------------------------------
 */

static int stream_next(void *ctx, struct buf *out)
{
    struct completion *c = ctx;

    follow(c);
    if (c->out.len) {
        buf_add(out, c->out.data, c->out.len);
        buf_reset(&c->out);
        return 1;
    }
    return c->ended ? -1 : 0;
}

static void stream_watch(void *ctx, void (*wake)(void *arg), void *arg)
{
    struct completion *c = ctx;

    c->watch = chat_event_watch(c->response, c->after, wake, arg);
}

static void stream_close(void *ctx)
{
    struct completion *c = ctx;

    if (c->watch)
        chat_event_unwatch(c->response, c->watch);
    if (!c->answer.over)
        chat_response_cancel(c->response);
    if (c->answer.finish && c->asked.store)
        http_work_insist(c->work, store_later, c);
    else
        completion_free(c);
}

static const struct http_feed stream_feed = {
    .next = stream_next, .watch = stream_watch, .close = stream_close};

/* ---- the request --------------------------------------------------------
 */

/* Clients of this API may ask for less than those of the Responses API. */
static int64_t take_tokens(json_t *request)
{
    int64_t n =
        json_integer_value(json_object_get(request, "max_output_tokens"));

    (void)json_object_del(request, "max_output_tokens");
    return n;
}

static int start(struct doors_call *call, struct completion *c,
                 struct error *err)
{
    struct responses_request rq cleanup(responses_request_done) = {0};
    struct chat_fault fault = {0};
    int64_t tokens = take_tokens(c->asked.request);
    int r = responses_decode(call, c->asked.request, &rq, err);

    if (r < 0)
        return r;
    rq.chat.max_output_tokens = tokens;
    rq.chat.store = c->asked.store;
    r = chat_response_start(call->doors->chat, &call->actor, &rq.chat,
                            &c->response, &fault, err);
    if (r < 0 && rq.chat.container && !fault.param[0] && !fault.code)
        (void)openai_refuse_container(rq.chat.container, err);
    return r < 0 ? responses_refuse(call, &fault, err) : 0;
}

static struct completion *completion_new(struct doors_call *call)
{
    struct completion *c = xcalloc(1, sizeof(*c));

    c->after = -1;
    c->chat = call->doors->chat;
    c->work = doors_workers(call);
    c->base = xasprintf("%s/v1", doors_url_base(call));
    (void)snprintf(c->tenant, sizeof(c->tenant), "%s", call->actor.tenant);
    (void)snprintf(c->key, sizeof(c->key), "%s", call->actor.key);
    (void)snprintf(c->request, sizeof(c->request), "%s", http_id(call->http));
    (void)snprintf(c->source, sizeof(c->source), "%s",
                   call->actor.source ? call->actor.source : "");
    return c;
}

/* It failed after it had begun. After code ran, clients must not repeat it. */
static int refuse_failed(struct doors_call *call, struct completion *c,
                         struct error *err)
{
    struct error failure = {0};

    chat_response_failure(c->response, &failure);
    if (failure.code == ERR_NONE)
        (void)error_set(&failure, ERR_UNAVAILABLE,
                        "the answer was stopped before its end");
    if (chat_response_ran(c->response))
        http_add_header(call->http, "x-should-retry", "false");
    return responses_failed(call, &failure, err);
}

static int answer_whole(struct doors_call *call, struct completion *c,
                        struct error *err)
{
    json_t *object cleanup(json_unref) = NULL;
    char *text cleanup(mem_free) = NULL;
    struct buf body = {0};

    if (!chat_response_wait(c->response, doors_left, call->http)) {
        chat_response_cancel(c->response);
        return error_set(err, ERR_UNAVAILABLE, "the client has left");
    }
    while (!c->ended)
        follow(c);
    if (c->answer.failure.len)
        return refuse_failed(call, c, err);
    if (c->asked.store && store(c, err) < 0)
        return -(int)err->code;
    object = openai_answer_object(&c->answer);
    text = json_dumps(object, JSON_COMPACT);
    buf_adds(&body, text ? text : "{}");
    openai_respond(call, &body);
    return 0;
}

/* deployment: the model, unless the body names one. */
static int create(struct doors_call *call, const char *deployment,
                  struct error *err)
{
    struct completion *c cleanup(completion_freep) = completion_new(call);
    struct chat_fault fault = {0};
    int r = http_body_json(call->http, RESPONSES_BODY_BYTES, &c->body, err);

    if (r == 0 && deployment && json_is_object(c->body) &&
        !json_is_string(json_object_get(c->body, "model")))
        (void)json_object_set_new(c->body, "model", json_string(deployment));
    if (r == 0)
        r = openai_completion_request(c->body,
                                      call->doors->conf->chat_code_tool,
                                      &c->asked, openai_fault(call), err);
    if (r == 0)
        r = chat_metadata_check(json_object_get(c->body, "metadata"), &fault,
                                err);
    if (r < 0)
        return responses_refuse(call, &fault, err);
    openai_answer_init(&c->answer, &c->asked, c->base,
                       c->asked.stream ? &c->out : NULL);
    r = start(call, c, err);
    if (r < 0)
        return r;
    if (!c->asked.stream)
        return answer_whole(call, c, err);
    openai_stamp(call);
    http_respond_stream(call->http, &stream_feed, take_ptr(c));
    return 0;
}

int openai_completions_create(struct doors_call *call, struct error *err)
{
    return create(call, NULL, err);
}

int openai_completions_deployment(struct doors_call *call, struct error *err)
{
    return create(call, call->params[0], err);
}

/* ---- stored ones --------------------------------------------------------
 */

/* The completion as it was sent, and its metadata. */
static json_t *shown(const struct chat_completion *v)
{
    json_t *object = json_loads(v->body, JSON_ALLOW_NUL, NULL);
    json_t *metadata = json_loads(v->metadata, 0, NULL);

    if (!object)
        object = json_object();
    (void)json_object_set_new(object, "metadata",
                              metadata ? metadata : json_object());
    return object;
}

static void respond_json(struct doors_call *call, json_t *taken)
{
    json_t *json cleanup(json_unref) = taken;
    char *text cleanup(mem_free) = json_dumps(json, JSON_COMPACT);
    struct buf body = {0};

    buf_adds(&body, text ? text : "{}");
    openai_respond(call, &body);
}

static json_t *list_of(json_t *data, const char *first, const char *last,
                       bool more)
{
    return json_pack("{s:s, s:o, s:s?, s:s?, s:b}", "object", "list", "data",
                     data, "first_id", first, "last_id", last, "has_more",
                     (int)more);
}

int openai_completions_get(struct doors_call *call, struct error *err)
{
    struct chat_completion v cleanup(chat_completion_done) = {.body = NULL};
    int r = chat_completions_find(call->doors->chat, &call->actor,
                                  call->params[0], &v, err);

    if (r == 0)
        respond_json(call, shown(&v));
    return r;
}

struct update_body {
    const json_t *metadata;
};

static const struct json_field update_fields[] = {
    {"metadata", JSON_KIND_OBJECT, .required = true,
     .offset = offsetof(struct update_body, metadata)},
};

int openai_completions_update(struct doors_call *call, struct error *err)
{
    struct chat_completion v cleanup(chat_completion_done) = {.body = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct chat_fault fault = {0};
    struct update_body b = {0};
    int r = openai_body(call, &json, err);

    if (r == 0)
        r = openai_read(json, NULL, update_fields, ARRAY_SIZE(update_fields),
                        &b, openai_fault(call), err);
    if (r == 0)
        r = chat_completions_update(call->doors->chat, &call->actor,
                                    call->params[0], b.metadata, &v, &fault,
                                    err);
    if (r < 0)
        return responses_refuse(call, &fault, err);
    if (r == 0)
        respond_json(call, shown(&v));
    return r;
}

int openai_completions_delete(struct doors_call *call, struct error *err)
{
    int r = chat_completions_delete(call->doors->chat, &call->actor,
                                    call->params[0], err);

    if (r == 0)
        openai_respond_deleted(call, call->params[0],
                               "chat.completion.deleted");
    return r;
}

/* This list and that of messages begin with the oldest. */
static int ask_page(struct doors_call *call, struct openai_page *ret,
                    struct error *err)
{
    const char *order = NULL;
    int r = openai_page(call, LIST_MAX, LIST_USUAL, ret, err);

    if (r == 0)
        r = http_query(call->http, "order", &order, err);
    if (r == 0 && !order)
        ret->oldest_first = true;
    return r;
}

/* A filter that was ignored would show what was not asked for. */
static int refuse_filters(struct doors_call *call, struct error *err)
{
    for (size_t i = 0; i < http_query_count(call->http); i++)
        if (strncmp(http_query_name(call->http, i), "metadata", 8) == 0)
            return openai_invalid(openai_fault(call), "unsupported_parameter",
                                  "metadata", err,
                                  "Unsupported parameter: 'metadata'. This "
                                  "list has the filter 'model' alone.");
    return 0;
}

int openai_completions_list(struct doors_call *call, struct error *err)
{
    struct chat_completion *list = NULL;
    const char *model = NULL;
    struct openai_page page;
    json_t *data;
    size_t count = 0;
    bool more = false;
    int r = ask_page(call, &page, err);

    if (r == 0)
        r = refuse_filters(call, err);
    if (r == 0)
        r = http_query(call->http, "model", &model, err);
    if (r == 0)
        r = chat_completions_list(
            call->doors->chat, &call->actor, model,
            &(struct chat_page){.limit = page.limit,
                                .oldest_first = page.oldest_first,
                                .after = page.after},
            &list, &count, &more, err);
    if (r < 0)
        return r;
    data = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(data, shown(&list[i]));
    respond_json(call, list_of(data, count ? list[0].id : NULL,
                               count ? list[count - 1].id : NULL, more));
    chat_completions_free(list, count);
    return 0;
}

int openai_completions_messages(struct doors_call *call, struct error *err)
{
    struct chat_completion v cleanup(chat_completion_done) = {.body = NULL};
    json_t *all cleanup(json_unref) = NULL, *data;
    struct openai_page page;
    size_t count, from, i;
    bool begun;
    int r = ask_page(call, &page, err);

    if (r == 0)
        r = chat_completions_find(call->doors->chat, &call->actor,
                                  call->params[0], &v, err);
    if (r < 0)
        return r;
    all = json_loads(v.messages, JSON_ALLOW_NUL, NULL);
    count = json_array_size(all);
    data = json_array();
    begun = !page.after;
    for (i = 0; i < count && json_array_size(data) < page.limit; i++) {
        json_t *m = json_array_get(all, page.oldest_first ? i : count - 1 - i);
        const char *id = json_string_value(json_object_get(m, "id"));

        if (begun)
            (void)json_array_append(data, m);
        else if (id && strcmp(id, page.after) == 0)
            begun = true;
    }
    from = json_array_size(data);
    respond_json(call,
                 list_of(data,
                         from ? json_string_value(json_object_get(
                                    json_array_get(data, 0), "id"))
                              : NULL,
                         from ? json_string_value(json_object_get(
                                    json_array_get(data, from - 1), "id"))
                              : NULL,
                         i < count));
    return 0;
}
