/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the user in the middle of a call. A modern client gets the questions
 * as the result and brings the answers with a new request; a task waits for
 * tasks/update; a legacy client gets requests on the call's own stream and
 * posts its answers. Only what the client says it can do is asked. Runs on
 * the call's worker, which waits, within bounds, in the last two cases.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "doors/mcp/mcp_int.h"

#define ANSWER_S 300
#define LOOK_S 1

bool mcp_capable(const struct mcp_call *call, const char *capability)
{
    const struct mcp_exchange *x = call->ctx;

    return json_object_get(x->caps, capability) != NULL;
}

int mcp_need(struct mcp_call *call, const char *capability)
{
    struct mcp_exchange *x = call->ctx;

    if (mcp_capable(call, capability))
        return 0;
    (void)mcp_rpc_fault(
        &x->fault, x->era == MCP_MODERN ? RPC_CAPABILITY : RPC_PARAMS,
        json_pack("{s:{s:{}}}", "requiredCapabilities", capability),
        "this needs the client capability '%s'", capability);
    return -ERR_INVALID;
}

/* What the client must have declared to be asked that. */
static const char *capability_of(const char *method)
{
    if (strcmp(method, "sampling/createMessage") == 0)
        return "sampling";
    return strcmp(method, "roots/list") == 0 ? "roots" : "elicitation";
}

void mcp_ask(struct mcp_call *call, const char *key, const char *method,
             json_t *params)
{
    struct mcp_exchange *x = call->ctx;
    const json_t *came =
        x->era == MCP_MODERN
            ? json_object_get(json_object_get(x->msg.params, "inputResponses"),
                              key)
            : NULL;
    json_t *asks = x->asks;

    if (!x->asked)
        x->asked = json_object();
    if (json_is_object(came)) {
        (void)json_object_set(x->asked, key, (json_t *)(uintptr_t)came);
        json_decref(params);
        return;
    }
    if (mcp_need(call, capability_of(method)) < 0) {
        json_decref(params);
        return;
    }
    if (!asks)
        asks = x->asks = json_object();
    (void)json_object_set_new(
        asks, key, json_pack("{s:s,s:o}", "method", method, "params", params));
}

const json_t *mcp_asked(struct mcp_call *call, const char *key)
{
    const struct mcp_exchange *x = call->ctx;

    return json_object_get(x->asked, key);
}

void mcp_ask_write(struct mcp_exchange *x)
{
    buf_reset(&x->result);
    x->w = (struct json_writer){.out = &x->result};
    x->result_type = "input_required";
    if (x->asks)
        mcp_rpc_write_value(&x->w, "inputRequests", x->asks);
    if (x->keep)
        json_write_string(&x->w, "requestState", mcp_state_sign(x));
}

/* ---- the legacy way ----------------------------------------------------- */

static void send_request(struct mcp_exchange *x, const char *key,
                         const json_t *ask, json_t *ids)
{
    struct buf message cleanup(buf_done) = {0};
    struct json_writer w = {.out = &message};
    char id[32];

    (void)pthread_mutex_lock(&x->session->lock);
    (void)snprintf(id, sizeof(id), "ask-%llu",
                   (unsigned long long)++x->session->asks_made);
    (void)json_object_set_new(x->session->open, id, json_null());
    (void)pthread_mutex_unlock(&x->session->lock);
    (void)json_object_set_new(ids, key, json_string(id));
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "jsonrpc", "2.0");
    json_write_string(&w, "id", id);
    mcp_rpc_write_value(&w, "method", json_object_get(ask, "method"));
    mcp_rpc_write_value(&w, "params", json_object_get(ask, "params"));
    json_write_close(&w, '}');
    (void)mcp_reply_send(x, &message);
}

/* Session lock held. */
static bool all_there(const struct mcp_session *s, json_t *ids)
{
    const char *key;
    json_t *id;

    json_object_foreach (ids, key, id)
        if (json_is_null(json_object_get(s->open, json_string_value(id))))
            return false;
    return true;
}

static int wait_for(struct mcp_call *call, json_t *ids)
{
    struct mcp_exchange *x = call->ctx;
    struct mcp_session *s = x->session;
    uint64_t until_ms = clock_mono_ms() + ANSWER_S * 1000;
    bool there, over = false;

    (void)pthread_mutex_lock(&s->lock);
    while (!(there = all_there(s, ids)) && !over) {
        struct timespec until;

        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LOOK_S;
        (void)pthread_cond_timedwait(&s->answer, &s->lock, &until);
        over = x->cancelled || s->ended || x->mcp->stopping ||
               clock_mono_ms() > until_ms;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return there ? 0 : -1;
}

/* Takes the answers out of the session, come or not. */
static const char *collect(struct mcp_exchange *x, json_t *ids)
{
    struct mcp_session *s = x->session;
    const char *fault = NULL, *key;
    json_t *id;

    (void)pthread_mutex_lock(&s->lock);
    json_object_foreach (ids, key, id) {
        const json_t *response =
            json_object_get(s->open, json_string_value(id));
        json_t *result = json_object_get(response, "result");

        if (json_is_object(result))
            (void)json_object_set(x->asked, key, result);
        else
            fault = "the client could not answer a question of the tool";
        (void)json_object_del(s->open, json_string_value(id));
    }
    (void)pthread_mutex_unlock(&s->lock);
    return fault;
}

static int ask_legacy(struct mcp_call *call, struct error *err)
{
    struct mcp_exchange *x = call->ctx;
    json_t *ids cleanup(json_unref) = json_object(), *ask;
    const char *key, *fault;
    int r;

    if (!x->session || x->batch)
        return error_set(err, ERR_INVALID,
                         "this tool asks questions, which needs a session");
    json_object_foreach (x->asks, key, ask)
        send_request(x, key, ask, ids);
    r = wait_for(call, ids);
    fault = collect(x, ids);
    (void)json_object_clear(x->asks);
    if (r < 0)
        return error_set(err, ERR_TIMEOUT,
                         "the client did not answer in time");
    return fault ? error_set(err, ERR_INVALID, "%s", fault) : 0;
}

/* ---- waiting ------------------------------------------------------------ */

int mcp_ask_wait(struct mcp_call *call, struct error *err)
{
    struct mcp_exchange *x = call->ctx;

    if (x->fault.code)
        return error_set(err, ERR_INVALID, "%s", x->fault.message);
    if (json_object_size(x->asks) == 0)
        return 0;
    if (x->task && mcp_task_is(x->task))
        return mcp_task_wait(x->task, x, err);
    return x->era == MCP_LEGACY ? ask_legacy(call, err) : MCP_PENDING;
}
