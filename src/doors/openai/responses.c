/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /responses: the agent loop (chat/) at this door. Everything that can be
 * wrong with a request is answered before the headers of a stream. Runs on a
 * worker of the daemon.
 */
#include "doors/openai/responses.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "json/json.h"

#define LIST_MAX 100
#define LIST_USUAL 20

/* ---- refusals ----------------------------------------------------------- */

int responses_refuse(struct doors_call *call, const struct chat_fault *fault,
                     struct error *err)
{
    struct openai_fault *own = openai_fault(call);

    if (fault->code)
        own->code = fault->code;
    if (fault->param[0])
        (void)snprintf(own->param, sizeof(own->param), "%s", fault->param);
    return -(int)err->code;
}

/* Clients repeat what answers with 5xx, so this is for responses that have
 * done nothing yet. An operator's key that a server refuses is our trouble,
 * not the client's. */
int responses_failed(struct doors_call *call, const struct error *failure,
                     struct error *err)
{
    struct openai_fault *own = openai_fault(call);

    *err = *failure;
    if (err->code == ERR_TOO_LARGE) {
        err->code = ERR_INVALID;
        own->code = "context_length_exceeded";
        (void)snprintf(own->param, sizeof(own->param), "input");
    } else if (err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT) {
        own->code = "upstream_error";
    }
    return -(int)err->code;
}

/* ---- answers ------------------------------------------------------------ */

void responses_respond_json(struct doors_call *call, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    struct buf body = {0};

    json_decref(json);
    if (!text)
        abort(); /* out of memory, as the x* wrappers do */
    buf_adds(&body, text);
    free(text);
    openai_respond(call, &body);
}

void responses_respond_items(struct doors_call *call,
                             const struct chat_items *items, bool outputs,
                             bool more)
{
    json_t *data = json_array();

    for (size_t i = 0; i < items->count; i++)
        (void)json_array_append_new(data,
                                    chat_item_show(&items->list[i], outputs));
    responses_respond_json(
        call,
        json_pack(
            "{s:s, s:o, s:s?, s:s?, s:b}", "object", "list", "data", data,
            "first_id", items->count ? chat_item_id(&items->list[0]) : NULL,
            "last_id",
            items->count ? chat_item_id(&items->list[items->count - 1]) : NULL,
            "has_more", (int)more));
}

static void respond_object(struct doors_call *call, struct chat_response *r,
                           bool outputs)
{
    responses_respond_json(call, chat_response_object(r, outputs));
}

/* ---- create ------------------------------------------------------------- */

/* Waits for the end of one that is neither streamed nor in the background. */
static int respond_end(struct doors_call *call, struct chat_response *r,
                       bool outputs, struct error *err)
{
    struct error failure;

    if (!chat_response_wait(r, doors_left, call->http)) {
        chat_response_abandon(r);
        return error_set(err, ERR_UNAVAILABLE, "the client left");
    }
    if (chat_response_status(r) == CHAT_FAILED && !chat_response_ran(r)) {
        chat_response_failure(r, &failure);
        return responses_failed(call, &failure, err);
    }
    respond_object(call, r, outputs);
    return 0;
}

static void add_agent(struct responses_request *rq)
{
    (void)json_object_set_new(
        rq->echo, "agent_reference",
        rq->agent
            ? json_pack("{s:s, s:s, s:s}", "type", "agent_reference", "name",
                        rq->agent_name, "version", rq->agent_version)
            : json_null());
    if (!rq->agent)
        return;
    rq->chat.agent = rq->agent_name;
    rq->chat.max_seconds = rq->agent_seconds;
}

static int start(struct doors_call *call, struct responses_request *rq,
                 struct chat_response **ret, struct error *err)
{
    struct chat_fault fault = {0};
    int r = chat_response_start(call->doors->chat, &call->actor, &rq->chat,
                                ret, &fault, err);

    if (r < 0 && rq->chat.container && !fault.param[0] && !fault.code)
        (void)openai_refuse_container(rq->chat.container, err);
    return r < 0 ? responses_refuse(call, &fault, err) : 0;
}

int openai_responses_create(struct doors_call *call, struct error *err)
{
    struct responses_request rq cleanup(responses_request_done) = {0};
    struct chat_response *response cleanup(chat_response_unref) = NULL;
    json_t *body cleanup(json_unref) = NULL;
    int r = http_body_json(call->http, RESPONSES_BODY_BYTES, &body, err);

    if (r == 0)
        r = responses_agent(call, body, &rq, err);
    if (r == 0)
        r = responses_decode(call, rq.body, &rq, err);
    if (r < 0)
        return r;
    add_agent(&rq);
    r = start(call, &rq, &response, err);
    if (r < 0)
        return r;
    if (rq.stream) {
        responses_stream(call, take_ptr(response), -1, rq.outputs,
                         !rq.chat.background);
        return 0;
    }
    if (rq.chat.background) {
        respond_object(call, response, rq.outputs);
        return 0;
    }
    return respond_end(call, response, rq.outputs, err);
}

/* ---- what starts no response -------------------------------------------- */

static int read_body(struct doors_call *call, struct responses_request *rq,
                     struct error *err)
{
    int r = http_body_json(call->http, RESPONSES_BODY_BYTES, &rq->body, err);

    if (r == 0)
        (void)json_object_del(rq->body,
                              "personality"); /* says how to answer */
    return r < 0 ? r : responses_decode(call, rq->body, rq, err);
}

int openai_responses_count(struct doors_call *call, struct error *err)
{
    struct responses_request rq cleanup(responses_request_done) = {0};
    struct chat_fault fault = {0};
    uint64_t tokens = 0;
    int r = read_body(call, &rq, err);

    if (r < 0)
        return r;
    r = chat_response_count(call->doors->chat, &call->actor, &rq.chat, &tokens,
                            &fault, err);
    if (r < 0)
        return responses_refuse(call, &fault, err);
    responses_respond_json(
        call, json_pack("{s:s, s:I}", "object", "response.input_tokens",
                        "input_tokens", (json_int_t)tokens));
    return 0;
}

int openai_responses_compact(struct doors_call *call, struct error *err)
{
    struct responses_request rq cleanup(responses_request_done) = {0};
    struct chat_fault fault = {0};
    struct error failure;
    json_t *made = NULL;
    int r = read_body(call, &rq, err);

    if (r < 0)
        return r;
    r = chat_response_compact(call->doors->chat, &call->actor, &rq.chat, &made,
                              &fault, &failure);
    if (r < 0 && (fault.code || fault.param[0])) {
        *err = failure;
        return responses_refuse(call, &fault, err);
    }
    if (r < 0)
        return responses_failed(call, &failure, err);
    responses_respond_json(call, made);
    return 0;
}

/* ---- queries ------------------------------------------------------------ */

int responses_query_include(struct doors_call *call, bool *ret_outputs,
                            struct error *err)
{
    for (size_t i = 0; i < http_query_count(call->http); i++) {
        const char *name = http_query_name(call->http, i);
        int r;

        if (strcmp(name, "include") != 0 && strncmp(name, "include[", 8) != 0)
            continue;
        r = responses_include(http_query_value(call->http, i), ret_outputs,
                              openai_fault(call), err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- retrieve ----------------------------------------------------------- */

static int query_after(struct doors_call *call, int64_t *ret,
                       struct error *err)
{
    const char *text = NULL;
    char *end;
    int r = http_query(call->http, "starting_after", &text, err);

    *ret = -1;
    if (r < 0 || !text)
        return r;
    errno = 0;
    *ret = strtoll(text, &end, 10);
    if (errno || *end || !*text || *ret < 0)
        return openai_invalid(openai_fault(call), "invalid_type",
                              "starting_after", err,
                              "Invalid type for 'starting_after': expected an "
                              "integer.");
    return 0;
}

int openai_responses_get(struct doors_call *call, struct error *err)
{
    struct chat_response *response cleanup(chat_response_unref) = NULL;
    const char *stream = NULL;
    bool outputs = false;
    int64_t after = -1;
    int r = responses_query_include(call, &outputs, err);

    if (r == 0)
        r = query_after(call, &after, err);
    if (r == 0)
        r = http_query(call->http, "stream", &stream, err);
    if (r == 0)
        r = chat_response_find(call->doors->chat, &call->actor,
                               call->params[0], &response, err);
    if (r < 0)
        return r;
    if (stream && strcmp(stream, "true") == 0)
        responses_stream(call, take_ptr(response), after, outputs, false);
    else
        respond_object(call, response, outputs);
    return 0;
}

/* ---- the others --------------------------------------------------------- */

int openai_responses_delete(struct doors_call *call, struct error *err)
{
    int r = chat_response_delete(call->doors->chat, &call->actor,
                                 call->params[0], err);

    if (r == 0)
        openai_respond_deleted(call, call->params[0], "response");
    return r;
}

int openai_responses_cancel(struct doors_call *call, struct error *err)
{
    struct chat_response *response cleanup(chat_response_unref) = NULL;
    int r = chat_response_find(call->doors->chat, &call->actor,
                               call->params[0], &response, err);

    if (r < 0)
        return r;
    if (!chat_response_background(response))
        return openai_invalid(openai_fault(call), NULL, NULL, err,
                              "Cannot cancel a synchronous response.");
    chat_response_cancel(response);
    (void)chat_response_wait(response, doors_left, call->http);
    respond_object(call, response, false);
    return 0;
}

/* The page of a list that is in memory as a whole; true: there is more. An
 * unknown cursor has nothing after it. */
static bool take_page(const struct chat_items *items,
                      const struct openai_page *page, struct chat_items *ret)
{
    bool begun = !page->after;

    for (size_t i = 0; i < items->count; i++) {
        const struct chat_item *item =
            &items->list[page->oldest_first ? i : items->count - 1 - i];

        if (begun && ret->count == page->limit)
            return true;
        if (begun)
            chat_items_copy(ret, item);
        else
            begun = strcmp(chat_item_id(item), page->after) == 0;
    }
    return false;
}

int openai_responses_input(struct doors_call *call, struct error *err)
{
    struct chat_items items cleanup(chat_items_done) = {0};
    struct chat_items shown cleanup(chat_items_done) = {0};
    struct openai_page page;
    bool outputs = false, more;
    int r = openai_page(call, LIST_MAX, LIST_USUAL, &page, err);

    if (r == 0)
        r = responses_query_include(call, &outputs, err);
    if (r == 0)
        r = chat_response_input(call->doors->chat, &call->actor,
                                call->params[0], &items, err);
    if (r < 0)
        return r;
    more = take_page(&items, &page, &shown);
    responses_respond_items(call, &shown, outputs, more);
    return 0;
}
