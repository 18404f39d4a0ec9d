/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Revisions 2025-03-26 to 2025-11-25: a handshake creates a session, and every
 * later message belongs to it. Runs on a worker of the daemon, called by
 * serve.c once a body is known to be of this era; also GET (the standing
 * stream, or a resumed one) and DELETE. An Azure pool has no sessions here:
 * each message stands alone.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/thread.h"
#include "doors/mcp/mcp_int.h"

#define SESSION "Mcp-Session-Id"

/* ---- which session ------------------------------------------------------ */

/* The session named by the header, referenced. NULL: answered. */
static struct mcp_session *need_session(struct doors_call *call,
                                        const json_t *id)
{
    const char *name = http_header(call->http, SESSION);
    struct mcp_session *s;

    if (!name) {
        (void)mcp_reply_refusef(call, 400, id, RPC_INVALID,
                                "the header " SESSION
                                " is missing: begin with initialize");
        return NULL;
    }
    s = mcp_session_find(call->doors->mcp, name, &call->who);
    if (!s)
        (void)mcp_reply_refusef(call, 404, id, RPC_INVALID,
                                "no such session: begin again with "
                                "initialize");
    return s;
}

/* The header of the revision, where there is one, names one of this era. */
static int check_version(struct doors_call *call, const json_t *id)
{
    const char *version = http_header(call->http, "MCP-Protocol-Version");

    if (!version || mcp_rpc_legacy(version))
        return 0;
    return mcp_reply_refusef(call, 400, id, RPC_INVALID,
                             "MCP-Protocol-Version: this revision is not "
                             "served in a session");
}

/* ---- messages ----------------------------------------------------------- */

static void on_notification(struct mcp_session *s, const struct rpc_message *m)
{
    if (s && strcmp(m->method, "notifications/cancelled") == 0)
        mcp_session_cancel(s, json_object_get(m->params, "requestId"));
}

static void run_one(struct doors_call *call, struct mcp_session *s,
                    const struct rpc_message *m, struct buf *batch)
{
    struct mcp_exchange x;

    mcp_exchange_init(&x, call);
    x.era = MCP_LEGACY;
    x.msg = *m;
    x.version = s ? s->version : MCP_LEGACY_BATCH;
    if (s) {
        x.session = mcp_session_ref(s);
        x.caps = s->caps;
    }

    x.batch = batch;
    if (s)
        mcp_session_begin(s, &x);
    mcp_methods_run(&x);
    if (s)
        mcp_session_finish(s, &x);
    mcp_exchange_done(&x);
}

/* ---- batches: of revision 2025-03-26 only ------------------------------- */

static void run_in_batch(struct doors_call *call, struct mcp_session *s,
                         const json_t *value, struct buf *out)
{
    struct rpc_message m;
    struct rpc_fault f = {.code = RPC_INVALID};
    const char *why = mcp_rpc_read(value, &m);

    if (!why && m.kind == RPC_REQUEST && strcmp(m.method, "initialize") == 0)
        why = "initialize cannot be part of a batch";
    if (why) {
        (void)snprintf(f.message, sizeof(f.message), "%s", why);
        buf_adds(out, out->len > 0 ? "," : "[");
        mcp_rpc_write_error(out, m.id, &f);
    } else if (m.kind == RPC_REQUEST) {
        run_one(call, s, &m, out);
    } else if (m.kind == RPC_RESPONSE) {
        if (s)
            mcp_session_take(s, &m);
    } else {
        on_notification(s, &m);
    }
}

static void run_batch(struct doors_call *call, const json_t *body)
{
    bool azure = mcp_table_azure(call);
    struct mcp_session *s = azure ? NULL : need_session(call, NULL);
    struct buf out = {0};
    size_t i;
    json_t *value;

    if (!azure && !s)
        return;
    if (s && strcmp(s->version, MCP_LEGACY_BATCH) != 0) {
        (void)mcp_reply_refusef(call, 400, NULL, RPC_INVALID,
                                "this revision has no batches");
    } else {
        json_array_foreach (body, i, value)
            run_in_batch(call, s, value, &out);
        if (out.len > 0) {
            buf_adds(&out, "]");
            http_respond_json(call->http, 200, &out);
        } else {
            http_respond_empty(call->http, 202);
        }
    }
    mcp_session_unref(s);
}

/* ---- POST, GET, DELETE -------------------------------------------------- */

void mcp_legacy_post(struct doors_call *call, const json_t *body)
{
    bool azure = mcp_table_azure(call);
    struct mcp_session *s = NULL;
    struct rpc_message m;

    if (json_is_array(body)) {
        if (check_version(call, NULL) == 0)
            run_batch(call, body);
        return;
    }
    (void)mcp_rpc_read(body, &m); /* was read before */
    if (check_version(call, m.id) < 0)
        return;
    if (!azure &&
        (m.kind != RPC_REQUEST || strcmp(m.method, "initialize") != 0)) {
        s = need_session(call, m.id);
        if (!s)
            return;
    }
    if (m.kind == RPC_REQUEST) {
        run_one(call, s, &m, NULL);
    } else {
        if (m.kind == RPC_NOTIFICATION)
            on_notification(s, &m);
        else if (s)
            mcp_session_take(s, &m);
        http_respond_empty(call->http, 202);
    }
    mcp_session_unref(s);
}

static void resume_stream(struct doors_call *call, struct mcp_session *s,
                          const char *event)
{
    uint64_t after = 0;
    struct mcp_stream *stream = mcp_session_resume(s, event, &after);

    if (stream)
        mcp_stream_attach(stream, call->http, after);
    else
        (void)mcp_reply_refusef(call, 404, NULL, RPC_INVALID,
                                "Last-Event-ID: that stream is not kept any "
                                "more");
    mcp_stream_unref(stream);
}

/* Only a session with an open stream gets notifications. */
static int add_session_listener(struct doors_call *call, struct mcp_session *s)
{
    struct mcp_listener *l = mcp_session_listener(s);
    struct error err;
    int r = 0;

    if (l && mcp_listen_add(call->doors->mcp, l, &err) < 0)
        r = mcp_reply_refusef(call, 429, NULL, RPC_INTERNAL, "%s",
                              err.message);
    mcp_listen_unref(l);
    return r;
}

static void open_standing_stream(struct doors_call *call,
                                 struct mcp_session *s)
{
    struct mcp_stream *stream = mcp_session_standing(s);

    if (!stream)
        (void)mcp_reply_refusef(call, 409, NULL, RPC_INVALID,
                                "the session has a standing stream already");
    else if (add_session_listener(call, s) == 0)
        mcp_stream_attach(stream, call->http, 0);
    mcp_stream_unref(stream);
}

void mcp_legacy_get(struct doors_call *call)
{
    struct mcp_session *s = need_session(call, NULL);
    const char *event = http_header(call->http, "Last-Event-ID");

    if (!s)
        return;
    if (check_version(call, NULL) == 0 && event) {
        resume_stream(call, s, event);
    } else if (http_status(call->http) == 0) {
        open_standing_stream(call, s);
    }
    mcp_session_unref(s);
}

void mcp_legacy_delete(struct doors_call *call)
{
    struct mcp_session *s = need_session(call, NULL);

    if (!s)
        return;
    mcp_session_end(call->doors->mcp, s);
    mcp_session_unref(s);
    http_respond_empty(call->http, 204);
}

/* ---- methods ------------------------------------------------------------ */

static int begin_session(struct mcp_exchange *x)
{
    const json_t *caps = json_object_get(x->msg.params, "capabilities");
    struct mcp_listener *l = mcp_listen_new(&x->door->who);
    struct mcp_session *s;
    struct error err;

    if (mcp_session_create(x->mcp, &x->door->who, x->version,
                           json_is_object(caps) ? caps : NULL, &s, &err) < 0) {
        mcp_listen_unref(l);
        return mcp_rpc_blame(&x->fault, &err);
    }
    l->session = s;
    l->lists = MCP_LIST_TOOLS | MCP_LIST_PROMPTS | MCP_LIST_RESOURCES;
    mutex_lock(&s->lock);
    s->listener = l;
    mutex_unlock(&s->lock);
    http_add_header(x->door->http, SESSION, s->id);
    mcp_session_unref(s);
    return 0;
}

int mcp_legacy_initialize(struct mcp_exchange *x)
{
    const char *asked =
        json_string_value(json_object_get(x->msg.params, "protocolVersion"));
    const char *version = mcp_rpc_legacy(asked);

    if (!version)
        version = x->azure ? MCP_LEGACY_BATCH : MCP_LEGACY_NEWEST;
    x->version = version;
    if (!x->azure && begin_session(x) < 0)
        return -1;
    json_write_string(&x->w, "protocolVersion", version);
    mcp_write_capabilities(x);
    mcp_write_server(x, &x->w, "serverInfo");
    if (!x->azure)
        json_write_string(&x->w, "instructions",
                          mcp_network_words(x, mcp_instructions));
    return 0;
}

int mcp_legacy_ping(struct mcp_exchange *x)
{
    (void)x;
    return 0;
}

int mcp_legacy_set_level(struct mcp_exchange *x)
{
    const char *name = mcp_need_string(x, "level");
    int level = name ? mcp_log_level(name) : -1;

    if (!name)
        return -1;
    if (level < 0)
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "no such level; levels are debug, info, notice, "
                             "warning, error, critical, alert and emergency");
    if (x->session)
        x->session->log_level = level;
    return 0;
}

/* Told of it by the standing stream, once there is one. */
int mcp_legacy_subscribe(struct mcp_exchange *x)
{
    const char *uri = mcp_need_string(x, "uri");
    struct mcp_listener *l;
    int r;

    if (!uri || mcp_need_scope(x, AUTH_FILES_READ) < 0)
        return -1;
    l = x->session ? mcp_session_listener(x->session) : NULL;
    if (!l)
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "subscribing needs a session");
    r = mcp_listen_watch(x, l, uri);
    mcp_listen_unref(l);
    return r;
}

int mcp_legacy_unsubscribe(struct mcp_exchange *x)
{
    const char *uri = mcp_need_string(x, "uri");
    struct mcp_listener *l;

    if (!uri)
        return -1;
    l = x->session ? mcp_session_listener(x->session) : NULL;
    if (l)
        mcp_listen_forget(l, uri);
    mcp_listen_unref(l);
    return 0;
}
