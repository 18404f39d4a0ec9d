/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /conversations and their items. Runs on a worker of the daemon; a call that
 * changes items may wait some seconds for a response that runs in the
 * conversation.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "chat/conversations.h"
#include "doors/openai/responses.h"
#include "json/json.h"

#define LIST_MAX 100
#define LIST_USUAL 20

/* What chat/ says of a refusal, in this dialect. */
static int blame(struct doors_call *call, const struct chat_fault *fault,
                 int r, const struct error *err)
{
    struct openai_fault *own = openai_fault(call);

    if (r < 0 && fault && (fault->code || fault->param[0])) {
        own->code = fault->code;
        memcpy(own->param, fault->param, sizeof(own->param));
    } else if (r < 0 && err->code == ERR_CONFLICT && err->retry_after_s > 0)
        own->code = "conversation_locked";
    return r;
}

static void respond_conversation(struct doors_call *call,
                                 const struct chat_conversation *v)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "id", v->id);
    json_write_string(&w, "object", "conversation");
    json_write_int(&w, "created_at", v->created_at_ms / 1000);
    json_write_raw(&w, "metadata", v->metadata, strlen(v->metadata));
    json_write_close(&w, '}');
    openai_respond(call, &body);
}

/* ---- bodies -------------------------------------------------------------
 */

struct body {
    const json_t *items, *metadata;
};

static const struct json_field create_fields[] = {
    {"items", JSON_KIND_ARRAY, .offset = offsetof(struct body, items),
     .max = INT64_MAX},
    {"metadata", JSON_KIND_OBJECT, .offset = offsetof(struct body, metadata)},
};
static const struct json_field update_fields[] = {
    {"metadata", JSON_KIND_OBJECT, .offset = offsetof(struct body, metadata)},
};
static const struct json_field items_fields[] = {
    {"items", JSON_KIND_ARRAY, .required = true,
     .offset = offsetof(struct body, items), .max = INT64_MAX},
};

static int read_body(struct doors_call *call, const struct json_field *fields,
                     size_t count, json_t **ret_json, struct body *ret,
                     struct error *err)
{
    int r =
        http_body_json_maybe(call->http, RESPONSES_BODY_BYTES, ret_json, err);

    return r < 0 ? r
                 : openai_read(*ret_json, NULL, fields, count, ret,
                               openai_fault(call), err);
}

/* ---- conversations ------------------------------------------------------
 */

int openai_conversations_create(struct doors_call *call, struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct chat_fault fault = {0};
    struct body b = {0};
    int r = read_body(call, create_fields, ARRAY_SIZE(create_fields), &json,
                      &b, err);

    if (r == 0)
        r = blame(call, &fault,
                  chat_conversations_create(call->doors->chat, &call->actor,
                                            b.items, b.metadata, &v, &fault,
                                            err),
                  err);
    if (r == 0)
        respond_conversation(call, &v);
    return r;
}

int openai_conversations_get(struct doors_call *call, struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    int r = chat_conversation_find(call->doors->chat, &call->actor,
                                   call->params[0], &v, err);

    if (r == 0)
        respond_conversation(call, &v);
    return r;
}

int openai_conversations_update(struct doors_call *call, struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    json_t *json cleanup(json_unref) = NULL, *none cleanup(json_unref) = NULL;
    struct chat_fault fault = {0};
    struct body b = {0};
    int r = read_body(call, update_fields, ARRAY_SIZE(update_fields), &json,
                      &b, err);

    if (r == 0 && !json_object_get(json, "metadata"))
        r = openai_invalid(openai_fault(call), "missing_required_parameter",
                           "metadata", err,
                           "Missing required parameter: 'metadata'.");
    if (r < 0)
        return r;
    if (!b.metadata) /* null clears it */
        b.metadata = none = json_object();
    r = blame(call, &fault,
              chat_conversations_update(call->doors->chat, &call->actor,
                                        call->params[0], b.metadata, NULL, &v,
                                        &fault, err),
              err);
    if (r == 0)
        respond_conversation(call, &v);
    return r;
}

/* Responses stay as long as responses do, as in the hosted service. */
int openai_conversations_delete(struct doors_call *call, struct error *err)
{
    int r = blame(call, NULL,
                  chat_conversations_delete(call->doors->chat, &call->actor,
                                            call->params[0], false, err),
                  err);

    if (r == 0)
        openai_respond_deleted(call, call->params[0], "conversation.deleted");
    return r;
}

/* ---- items --------------------------------------------------------------
 */

int openai_conversation_items_create(struct doors_call *call,
                                     struct error *err)
{
    struct chat_items items cleanup(chat_items_done) = {0};
    json_t *json cleanup(json_unref) = NULL;
    struct chat_fault fault = {0};
    struct body b = {0};
    bool outputs = false;
    int r = responses_query_include(call, &outputs, err);

    if (r == 0)
        r = read_body(call, items_fields, ARRAY_SIZE(items_fields), &json, &b,
                      err);
    if (r == 0)
        r = blame(call, &fault,
                  chat_conversations_add(call->doors->chat, &call->actor,
                                         call->params[0], b.items, &items,
                                         &fault, err),
                  err);
    if (r == 0)
        responses_respond_items(call, &items, outputs, false);
    return r;
}

int openai_conversation_items_list(struct doors_call *call, struct error *err)
{
    struct chat_items items cleanup(chat_items_done) = {0};
    struct openai_page asked;
    bool outputs = false, more = false;
    int r = openai_page(call, LIST_MAX, LIST_USUAL, &asked, err);

    if (r == 0)
        r = responses_query_include(call, &outputs, err);
    if (r == 0)
        r = chat_conversations_page(
            call->doors->chat, &call->actor, call->params[0],
            &(struct chat_page){.limit = asked.limit,
                                .oldest_first = asked.oldest_first,
                                .after = asked.after},
            &items, &more, err);
    if (r == 0)
        responses_respond_items(call, &items, outputs, more);
    return r;
}

int openai_conversation_items_get(struct doors_call *call, struct error *err)
{
    struct chat_item item cleanup(chat_item_done) = {0};
    bool outputs = false;
    int r = responses_query_include(call, &outputs, err);

    if (r == 0)
        r = chat_conversations_item(call->doors->chat, &call->actor,
                                    call->params[0], call->params[1], &item,
                                    err);
    if (r == 0)
        responses_respond_json(call, chat_item_show(&item, outputs));
    return r;
}

int openai_conversation_items_delete(struct doors_call *call,
                                     struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    int r = blame(call, NULL,
                  chat_conversations_remove(call->doors->chat, &call->actor,
                                            call->params[0], call->params[1],
                                            &v, err),
                  err);

    if (r == 0)
        respond_conversation(call, &v);
    return r;
}
