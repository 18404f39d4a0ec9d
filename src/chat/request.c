/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request on its way to a response: everything that can be wrong is found
 * here, before the first byte of an answer. Then the response is stored and
 * handed to a thread. Runs in gloveboxd on the thread of a request.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "core/core.h"
#include "session/session.h"
#include "store/store.h"
#include "json/json.h"

#define LOCK_WAIT_MS 5000u
#define CONTEXT_MAX (2 * CHAT_ITEMS_MAX)

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* ---- the model ---------------------------------------------------------- */

static int find_model(struct chat_response *r, const struct chat_request *rq,
                      struct chat_fault *fault, struct error *err)
{
    struct model_info info;
    int rc = model_find(r->chat->parts.models, &r->owner.who, rq->model, &info,
                        err);

    if (rc == -ERR_NOT_FOUND) {
        struct error why = *err;

        return chat_invalid(fault, "model_not_found", "model", err, "%s%s%s",
                            why.message, why.hint[0] ? ". " : "", why.hint);
    }
    if (rc < 0)
        return rc;
    r->model = xstrdup(info.name);
    r->images = info.images;
    r->context_tokens = info.context_tokens;
    model_info_clear(&info);
    return 0;
}

/* ---- the context -------------------------------------------------------- */

static void copy_all(struct chat_items *to, const struct chat_items *from)
{
    for (size_t i = 0; i < from->count; i++)
        chat_items_copy(to, &from->list[i]);
}

static bool is_due(void *ctx)
{
    return clock_mono_ms() > *(const uint64_t *)ctx;
}

static int find_previous(struct chat_response *r,
                         const struct chat_request *rq,
                         struct chat_fault *fault, struct error *err)
{
    struct chat_response *p cleanup(chat_response_unref) = NULL;
    uint64_t until = clock_mono_ms() + LOCK_WAIT_MS;
    int rc = chat_response_find(r->chat, &r->owner.who, rq->previous, &p, err);

    if (rc == -ERR_NOT_FOUND)
        return chat_invalid(
            fault, "previous_response_not_found", "previous_response_id", err,
            "Previous response with id '%.80s' not found.", rq->previous);
    if (rc < 0)
        return rc;
    if (!chat_response_wait(p, is_due, &until)) {
        (void)error_set(err, ERR_CONFLICT,
                        "The previous response is still running. Please "
                        "retry in a few seconds.");
        return error_retry(err, 2);
    }
    (void)snprintf(r->previous, sizeof(r->previous), "%s", p->id);
    copy_all(&r->context, &p->context);
    copy_all(&r->context, &p->input);
    copy_all(&r->context, &p->output);
    if (p->loaded) {
        chat_compact_inherit(r, p->echo);
    } else if (p->summary) {
        r->summary = xstrdup(p->summary);
        r->left_out = p->left_out;
        memcpy(r->through, p->through, sizeof(r->through));
    }
    memcpy(r->session, p->session, sizeof(r->session));
    memcpy(r->workspace, p->workspace, sizeof(r->workspace));
    return 0;
}

/* What the newest response of the conversation left out. */
static int inherit_summary(struct store_tx *tx, struct chat_response *r,
                           struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    json_t *body cleanup(json_unref) = NULL;
    int rc = store_one(tx, &row, err,
                       "SELECT body FROM chat_responses"
                       " WHERE conversation = ?1"
                       " ORDER BY created_at_ms DESC, id DESC LIMIT 1",
                       "t", r->conversation);

    if (rc > 0)
        rc = json_parse(store_text(row, 0), strlen(store_text(row, 0)), &body,
                        err);
    if (rc == 0)
        chat_compact_inherit(r, body);
    return MIN(rc, 0);
}

static int find_conversation(struct chat_response *r,
                             const struct chat_request *rq,
                             struct chat_fault *fault, struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.id = ""};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int rc = chat_conversation_find(r->chat, &r->owner.who, rq->conversation,
                                    &v, err);

    (void)snprintf(fault->param, sizeof(fault->param), "conversation");
    if (rc < 0)
        return rc;
    rc = chat_conversation_lock(r->chat, v.id, LOCK_WAIT_MS, err);
    if (rc < 0) {
        fault->code = "conversation_locked";
        return rc;
    }
    r->locked = true;
    memcpy(r->conversation, v.id, sizeof(r->conversation));
    chat_conversation_done(&v);
    /* Again, now that nothing changes any more. */
    rc = chat_conversation_find(r->chat, &r->owner.who, r->conversation, &v,
                                err);
    if (rc == 0)
        rc = store_begin(r->chat->parts.core->store, STORE_READ,
                         "reading a conversation", &tx, err);
    if (rc == 0)
        rc = chat_items_of_conversation(tx, r->conversation, &r->context, err);
    if (rc == 0)
        rc = inherit_summary(tx, r, err);
    if (rc < 0)
        return rc;
    fault->param[0] = '\0';
    memcpy(r->session, v.session, sizeof(r->session));
    memcpy(r->workspace, v.workspace, sizeof(r->workspace));
    return 0;
}

/* Clients resend what the chain has already. */
static void drop_known(struct chat_response *r)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->input.count; i++) {
        bool known = false;

        for (size_t k = 0; k < r->context.count && !known; k++)
            known = r->input.list[i].number &&
                    r->context.list[k].number == r->input.list[i].number;
        if (known)
            chat_item_done(&r->input.list[i]);
        else
            r->input.list[kept++] = r->input.list[i];
    }
    r->input.count = kept;
}

static int read_input(struct chat_response *r, const struct chat_request *rq,
                      struct chat_fault *fault, struct error *err)
{
    /* Clients send "" when a conversation has the question already. */
    bool some = json_array_size(rq->input) > 0 ||
                json_string_length(rq->input) > 0 ||
                (rq->input && !json_is_null(rq->input) &&
                 !json_is_array(rq->input) && !json_is_string(rq->input));
    int rc = 0;

    if (!some && !rq->previous && !rq->conversation)
        return chat_invalid(fault, "missing_required_parameter", "input", err,
                            "Missing required parameter: 'input'.");
    if (some)
        rc = chat_items_read(r->chat, &r->owner.who, rq->input, "input",
                             CHAT_ITEMS_MAX, &r->input, fault, err);
    if (rc < 0)
        return rc;
    drop_known(r);
    if (r->context.count + r->input.count > CONTEXT_MAX)
        return chat_invalid(fault, "context_length_exceeded", "input", err,
                            "The conversation has %zu items; at most %u can "
                            "be answered. Start a new one.",
                            r->context.count + r->input.count, CONTEXT_MAX);
    return 0;
}

/* ---- calls and their outputs -------------------------------------------- */

static bool has_item(const struct chat_response *r, const char *type,
                     const char *call_id)
{
    const struct chat_items *lists[] = {&r->context, &r->input};

    for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
        for (size_t i = 0; i < lists[l]->count; i++)
            if (chat_item_is(&lists[l]->list[i], type) &&
                strcmp(text_of(lists[l]->list[i].body, "call_id"), call_id) ==
                    0)
                return true;
    return false;
}

/* Of a conversation a half may have been deleted; it is left out then. */
static int check_pairs(const struct chat_response *r, struct chat_fault *fault,
                       struct error *err)
{
    const struct chat_items *lists[] = {&r->context, &r->input};

    if (r->conversation[0])
        return 0;
    for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
        for (size_t i = 0; i < lists[l]->count; i++) {
            const struct chat_item *item = &lists[l]->list[i];
            const char *id = text_of(item->body, "call_id");

            if (chat_item_is(item, "function_call") &&
                !has_item(r, "function_call_output", id))
                return chat_invalid(
                    fault, NULL, "input", err,
                    "No tool output found for function call %.64s.", id);
            if (chat_item_is(item, "function_call_output") &&
                !has_item(r, "function_call", id))
                return chat_invalid(fault, NULL, "input", err,
                                    "No tool call found for function call "
                                    "output with call_id %.64s.",
                                    id);
        }
    return 0;
}

/* ---- the rest ----------------------------------------------------------- */

/* What the user said last, for evidence and approvers. */
static char *last_words(const struct chat_response *r)
{
    const struct chat_items *lists[] = {&r->input, &r->context};
    struct buf text = {0};
    json_t *part;
    size_t k;

    for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
        for (size_t i = lists[l]->count; i-- > 0;) {
            const struct chat_item *item = &lists[l]->list[i];

            if (strcmp(chat_item_role(item), "user") != 0)
                continue;
            json_array_foreach (json_object_get(item->body, "content"), k,
                                part) {
                if (text.len)
                    buf_adds(&text, "\n");
                buf_adds(&text, text_of(part, "text"));
            }
            if (text.len)
                return buf_take(&text, NULL);
        }
    return NULL;
}

static bool has_function(const json_t *functions, const char *name)
{
    json_t *f;
    size_t i;

    json_array_foreach ((json_t *)functions, i, f)
        if (strcmp(text_of(f, "name"), name) == 0)
            return true;
    return false;
}

static void copy_request(struct chat_response *r,
                         const struct chat_request *rq)
{
    ids_make_tagged("resp", r->id);
    r->instructions = xstrdup(rq->instructions);
    r->functions = json_deep_copy(rq->functions);
    r->tool_choice = json_deep_copy(rq->tool_choice);
    r->options = json_deep_copy(rq->options);
    r->echo = json_deep_copy(rq->echo);
    r->json_answer = rq->schema != NULL;
    r->truncate = rq->truncate;
    r->stored = rq->store;
    r->background = rq->background;
    r->max_output_tokens = rq->max_output_tokens;
    r->max_tool_calls = rq->max_tool_calls;
    r->max_seconds = rq->max_seconds;
    (void)snprintf(r->agent, sizeof(r->agent), "%s",
                   rq->agent ? rq->agent : "");
    if (rq->code)
        (void)snprintf(r->tool, sizeof(r->tool), "%s",
                       has_function(rq->functions, CHAT_TOOL) ? CHAT_TOOL_OTHER
                                                              : CHAT_TOOL);
}

static int prepare(struct chat_response *r, const struct chat_request *rq,
                   struct chat_fault *fault, struct error *err)
{
    int rc = 0;

    copy_request(r, rq);
    if (rq->previous && rq->conversation)
        return chat_invalid(fault, "mutually_exclusive_parameters",
                            "conversation", err,
                            "Mutually exclusive parameters: "
                            "'previous_response_id' and 'conversation'. Send "
                            "one of them.");
    rc = find_model(r, rq, fault, err);
    if (rc == 0 && rq->previous)
        rc = find_previous(r, rq, fault, err);
    if (rc == 0 && rq->conversation)
        rc = find_conversation(r, rq, fault, err);
    if (rc == 0)
        rc = read_input(r, rq, fault, err);
    if (rc == 0)
        rc = check_pairs(r, fault, err);
    if (rc == 0)
        rc = chat_toolbox_settle(r, rq, fault, err);
    if (rc == 0)
        rc = chat_container_settle(r, rq, fault, err);
    if (rc == 0)
        rc = chat_container_files(r, err);
    if (rc == 0)
        r->prompt = last_words(r);
    return rc;
}

int chat_response_start(struct chat *c, const struct actor *who,
                        const struct chat_request *request,
                        struct chat_response **ret, struct chat_fault *fault,
                        struct error *err)
{
    struct chat_response *r cleanup(chat_response_unref) =
        chat_response_new(c, who);
    struct error ignored;
    int rc = prepare(r, request, fault, err);

    r->status = r->background ? CHAT_QUEUED : CHAT_IN_PROGRESS;
    if (rc == 0 && r->stored)
        rc = chat_row_create(r, err);
    if (rc == 0) {
        chat_object_event(r, "response.created");
        if (r->background)
            chat_object_event(r, "response.queued");
        rc = chat_submit(c, r, err);
        if (rc < 0 && r->stored)
            (void)chat_row_delete(c, who, r->id, &ignored);
    }
    if (rc < 0) {
        if (r->locked)
            chat_conversation_unlock(c, r->conversation);
        return rc;
    }
    *ret = take_ptr(r);
    return 0;
}

/* ---- requests that start nothing ---------------------------------------- */

/* The context and input of a request that needs no session. */
static int gather(struct chat_response *r, const struct chat_request *rq,
                  bool needs_input, struct chat_fault *fault,
                  struct error *err)
{
    int rc = 0;

    copy_request(r, rq);
    rc = find_model(r, rq, fault, err);
    if (rc == 0 && rq->previous)
        rc = find_previous(r, rq, fault, err);
    if (rc == 0 && rq->conversation)
        rc = find_conversation(r, rq, fault, err);
    if (rc == 0 &&
        (needs_input || json_is_array(rq->input) || json_is_string(rq->input)))
        rc = read_input(r, rq, fault, err);
    if (r->locked)
        chat_conversation_unlock(r->chat, r->conversation);
    r->locked = false;
    return rc;
}

int chat_response_count(struct chat *c, const struct actor *who,
                        const struct chat_request *request, uint64_t *ret,
                        struct chat_fault *fault, struct error *err)
{
    struct chat_response *r cleanup(chat_response_unref) =
        chat_response_new(c, who);
    char *instructions cleanup(mem_free) = NULL,
                       *tools cleanup(mem_free) = NULL;
    json_t *list cleanup(json_unref) = NULL;
    int rc = gather(r, request, false, fault, err);

    if (rc == 0)
        rc = chat_toolbox_settle(r, request, fault, err);
    if (rc < 0)
        return rc;
    r->session[0] = r->workspace[0] = '\0';
    instructions = chat_view_instructions(r);
    list = chat_view_tools(r);
    tools = json_array_size(list) ? json_dumps(list, JSON_COMPACT) : NULL;
    *ret =
        chat_compact_tokens(r) + ((instructions ? strlen(instructions) : 0) +
                                  (tools ? strlen(tools) : 0)) /
                                     3;
    return 0;
}

int chat_response_compact(struct chat *c, const struct actor *who,
                          const struct chat_request *request, json_t **ret,
                          struct chat_fault *fault, struct error *err)
{
    struct chat_response *r cleanup(chat_response_unref) =
        chat_response_new(c, who);
    char *summary cleanup(mem_free) = NULL;
    int rc = gather(r, request, true, fault, err);

    if (rc < 0)
        return rc;
    summary = chat_compact_all(r, err);
    if (!summary)
        return -(int)err->code;
    *ret = chat_pack("{s:s, s:s, s:I, s:[o], s:o}", "id", r->id, "object",
                     "response.compaction", "created_at",
                     (json_int_t)(r->created_ms / 1000), "output",
                     chat_compact_item(summary), "usage",
                     chat_object_usage(&r->usage));
    return 0;
}
