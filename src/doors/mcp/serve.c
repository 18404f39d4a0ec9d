/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine of an MCP request: origin, key, media type and size, JSON, shape,
 * era; then the era's own checks and the method. The first check that fails
 * answers. Runs on a worker of the daemon, called by doors/serve.c.
 */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "conf/conf.h"
#include "doors/mcp/mcp_int.h"
#include "session/session.h"

#define READ_SIZE ((size_t)64 << 10)

/* ---- before the body ---------------------------------------------------- */

/* Is the type in a list of them, whatever its parameters? */
static bool lists(const char *header, const char *type)
{
    const char *at = header;

    while (at && *at) {
        size_t n;

        at += strspn(at, " \t,");
        n = strcspn(at, " \t,;");
        if ((n == strlen(type) && strncasecmp(at, type, n) == 0) ||
            (n == strlen("*/*") && strncmp(at, "*/*", n) == 0))
            return true;
        at += strcspn(at, ",");
    }
    return false;
}

static int check_types(struct doors_call *call)
{
    const char *type = http_header(call->http, "Content-Type");
    const char *accept = http_header(call->http, "Accept");

    if (!type || strncmp(type, "*/*", 3) == 0 ||
        !lists(type, "application/json"))
        return mcp_reply_refusef(call, 415, NULL, RPC_INVALID,
                                 "the Content-Type must be application/json");
    /* Clients of Azure pools do not say. */
    if (mcp_table_azure(call) || (lists(accept, "application/json") &&
                                  lists(accept, "text/event-stream")))
        return 0;
    return mcp_reply_refusef(call, 406, NULL, RPC_INVALID,
                             "the Accept header must list application/json "
                             "and text/event-stream");
}

/* Any JSON value: a batch is none of an object. */
static int read_json(struct doors_call *call, json_t **ret, struct error *err)
{
    uint64_t max = MIN(call->doors->conf->json_bytes, MCP_BODY_MAX);
    struct buf text cleanup(buf_done) = {0};
    ssize_t n;

    do {
        buf_reserve(&text, READ_SIZE);
        n = http_body_read(call->http, text.data + text.len, READ_SIZE, max,
                           err);
        if (n < 0)
            return (int)n;
        text.len += (size_t)n;
    } while (n > 0);
    return json_parse(text.len > 0 ? text.data : "", text.len, ret, err);
}

static int read_body(struct doors_call *call, json_t **ret)
{
    struct error err;

    if (read_json(call, ret, &err) == 0)
        return 0;
    return mcp_reply_refusef(call, http_status_of(err.code), NULL,
                             err.code == ERR_TOO_LARGE ? RPC_INVALID
                                                       : RPC_PARSE,
                             "%s", err.message);
}

/* ---- shape and era ------------------------------------------------------ */

static int check_batch(struct doors_call *call, const json_t *body)
{
    size_t i;
    json_t *value;

    if (json_array_size(body) == 0 || json_array_size(body) > MCP_BATCH_MAX)
        return mcp_reply_refusef(call, 400, NULL, RPC_INVALID,
                                 "a batch holds 1 to %u messages",
                                 MCP_BATCH_MAX);
    json_array_foreach (body, i, value) {
        struct rpc_message m;
        bool has = false;

        if (!mcp_rpc_read(value, &m))
            (void)mcp_rpc_claim(&m, &has);
        if (has)
            return mcp_reply_refusef(call, 400, NULL, RPC_INVALID,
                                     "the revision this asks for has no "
                                     "batches");
    }
    return 0;
}

static const char *get_header(void *ctx, const char *name)
{
    return http_header(ctx, name);
}

static void serve_modern(struct doors_call *call, const struct rpc_message *m)
{
    struct mcp_headers h = {get_header, call->http};
    struct mcp_exchange x;

    if (m->kind == RPC_NOTIFICATION) { /* none that would change anything */
        http_respond_empty(call->http, 202);
        return;
    }
    mcp_exchange_init(&x, call);
    x.era = MCP_MODERN;
    x.msg = *m;
    if (mcp_modern_check(m, &h, x.arena, &x.fault) < 0) {
        mcp_reply_refuse(call, 400, m->id, &x.fault);
    } else {
        mcp_modern_read(&x);
        mcp_methods_run(&x);
    }
    mcp_exchange_done(&x);
}

static void serve_message(struct doors_call *call, const json_t *body)
{
    const char *header = http_header(call->http, "MCP-Protocol-Version");
    struct rpc_message m;
    const char *why = mcp_rpc_read(body, &m);

    if (why)
        (void)mcp_reply_refusef(call, 400, m.id, RPC_INVALID, "%s", why);
    else if (mcp_rpc_era(&m, header) == MCP_MODERN)
        serve_modern(call, &m);
    else if (m.kind == RPC_REQUEST && strcmp(m.method, "initialize") == 0 &&
             header && !mcp_rpc_legacy(header))
        (void)mcp_reply_refusef(call, 400, m.id, RPC_HEADER,
                                "MCP-Protocol-Version names a revision "
                                "without initialize");
    else
        mcp_legacy_post(call, body);
}

/* ---- the methods of HTTP ------------------------------------------------ */

/* Of an Azure path: is there such a pool? */
static int check_pool(struct doors_call *call)
{
    struct pool_info pool;
    struct error err;

    if (!mcp_table_azure(call))
        return 0;
    if (session_pool_get(call->doors->sessions, &call->actor, call->place[0],
                         &pool, &err) < 0)
        return mcp_reply_refusef(call, http_status_of(err.code), NULL,
                                 RPC_INVALID, "%s", err.message);
    pool_info_done(&pool);
    return 0;
}

static int admit(struct doors_call *call)
{
    int r = mcp_gate_origin(call);

    if (r == 0)
        r = mcp_gate_key(call, mcp_table_azure(call));
    return r < 0 ? r : check_pool(call);
}

int mcp_serve_post(struct doors_call *call, struct error *err)
{
    json_t *body cleanup(json_unref) = NULL;

    (void)err; /* every answer is ours */
    if (admit(call) < 0 || check_types(call) < 0 || read_body(call, &body) < 0)
        return 0;
    if (!json_is_array(body))
        serve_message(call, body);
    else if (check_batch(call, body) == 0)
        mcp_legacy_post(call, body);
    return 0;
}

/* Azure pools have no sessions to listen to or to end. */
static void refuse_method(struct doors_call *call)
{
    http_add_header(call->http, "Allow", "POST");
    (void)mcp_reply_refusef(call, 405, NULL, RPC_INVALID,
                            "this endpoint takes POST only");
}

int mcp_serve_get(struct doors_call *call, struct error *err)
{
    (void)err;
    if (admit(call) < 0)
        return 0;
    if (mcp_table_azure(call)) {
        refuse_method(call);
    } else if (!lists(http_header(call->http, "Accept"),
                      "text/event-stream")) {
        (void)mcp_reply_refusef(call, 406, NULL, RPC_INVALID,
                                "the Accept header must list "
                                "text/event-stream");
    } else {
        mcp_legacy_get(call);
    }
    return 0;
}

int mcp_serve_delete(struct doors_call *call, struct error *err)
{
    (void)err;
    if (admit(call) < 0)
        return 0;
    if (mcp_table_azure(call)) {
        refuse_method(call);
    } else {
        mcp_legacy_delete(call);
    }
    return 0;
}

/* A browser asks before it sends; it has no key yet. */
int mcp_serve_options(struct doors_call *call, struct error *err)
{
    (void)err;
    if (mcp_gate_origin(call) == 0)
        mcp_gate_preflight(call);
    return 0;
}
