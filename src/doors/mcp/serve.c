/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine of an MCP request: origin, key, media type and size, JSON, shape
 * and era; then the checks of the era, and the method. The first check that
 * fails is the response. Runs on a worker of the daemon, called by
 * doors/serve.c.
 *
 * Also the table of methods (a method exists exactly where its capability is
 * advertised) and the paths: /mcp, the MCP endpoint of an Azure pool, that of
 * a Foundry toolbox, and the metadata of RFC 9728. The routes are open to
 * doors/serve.c because the origin is checked before credentials here; the key
 * is then required before anything else happens (I1).
 */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "conf/conf.h"
#include "doors/mcp/mcp_int.h"
#include "node/node.h"
#include "session/session.h"

#define READ_SIZE ((size_t)64 << 10)

/* ---- before the body ---------------------------------------------------- */

/* Is the type in a list of media types? Parameters are ignored. */
static bool accepts_type(const char *header, const char *type)
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
        !accepts_type(type, "application/json"))
        return mcp_reply_refusef(call, 415, NULL, RPC_INVALID,
                                 "the Content-Type must be application/json");
    /* Clients of Azure pools do not say. */
    if (mcp_table_azure(call) || (accepts_type(accept, "application/json") &&
                                  accepts_type(accept, "text/event-stream")))
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

static int check_request(struct doors_call *call)
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
    if (check_request(call) < 0 || check_types(call) < 0 ||
        read_body(call, &body) < 0)
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
    if (check_request(call) < 0)
        return 0;
    if (mcp_table_azure(call)) {
        refuse_method(call);
    } else if (!accepts_type(http_header(call->http, "Accept"),
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
    if (check_request(call) < 0)
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

/* ---- methods ------------------------------------------------------------ */

#define BOTH (METHOD_MODERN | METHOD_LEGACY)

static const struct mcp_method methods[] = {
    {"server/discover", mcp_modern_discover, METHOD_MODERN | METHOD_AZURE},
    {"initialize", mcp_legacy_initialize, METHOD_LEGACY | METHOD_AZURE},
    {"ping", mcp_legacy_ping, METHOD_LEGACY | METHOD_AZURE},
    {"logging/setLevel", mcp_legacy_set_level, METHOD_LEGACY},
    {"tools/list", mcp_call_list, BOTH | METHOD_AZURE},
    {"tools/call", mcp_call_run, BOTH | METHOD_AZURE | METHOD_ASKS},
    {"resources/list", mcp_resources_list, BOTH},
    {"resources/templates/list", mcp_resources_templates, BOTH},
    {"resources/read", mcp_read, BOTH | METHOD_ASKS},
    {"resources/subscribe", mcp_legacy_subscribe, METHOD_LEGACY},
    {"resources/unsubscribe", mcp_legacy_unsubscribe, METHOD_LEGACY},
    {"prompts/list", mcp_prompts_list, BOTH},
    {"prompts/get", mcp_prompts_get, BOTH | METHOD_ASKS},
    {"completion/complete", mcp_complete, BOTH},
    {"subscriptions/listen", mcp_listen, METHOD_MODERN},
    {"tasks/get", mcp_tasks_get, METHOD_MODERN},
    {"tasks/update", mcp_tasks_update, METHOD_MODERN},
    {"tasks/cancel", mcp_tasks_cancel, METHOD_MODERN},
};

const struct mcp_method *mcp_methods_find(const struct mcp_exchange *x)
{
    unsigned need = (x->era == MCP_MODERN ? METHOD_MODERN : METHOD_LEGACY) |
                    (x->azure ? METHOD_AZURE : 0);

    for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
        if (strcmp(methods[i].name, x->msg.method) == 0)
            return (methods[i].flags & need) == need ? &methods[i] : NULL;
    return NULL;
}

/* /mcp?tools=core|workspace|all */
static int choose_tools(struct mcp_exchange *x)
{
    static const struct {
        const char *name;
        unsigned groups;
    } choices[] = {
        {"core", MCP_CORE},
        {"workspace", MCP_WORKSPACE},
        {"all", MCP_CORE | MCP_WORKSPACE},
    };
    const char *asked = NULL;
    struct error err;

    if (http_query(x->door->http, "tools", &asked, &err) < 0)
        return mcp_rpc_blame(&x->fault, &err);
    x->groups = x->azure ? MCP_AZURE : MCP_CORE | MCP_FIXTURE;
    if (!asked || x->azure)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(choices); i++)
        if (strcmp(asked, choices[i].name) == 0) {
            x->groups = choices[i].groups | MCP_FIXTURE;
            return 0;
        }
    return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                         "the parameter tools must be core, workspace or all");
}

static int run_method(struct mcp_exchange *x)
{
    const struct mcp_method *method = mcp_methods_find(x);
    int r = choose_tools(x);

    if (r < 0)
        return r;
    if (!method)
        return mcp_rpc_fault(&x->fault, RPC_METHOD, NULL, "no such method");
    if (x->era == MCP_MODERN && (method->flags & METHOD_ASKS))
        r = mcp_state_take(x);
    return r < 0 ? r : method->run(x);
}

void mcp_methods_run(struct mcp_exchange *x)
{
    int r = run_method(x);

    if (r == MCP_TAKEN)
        return;
    if (!x->answered && !x->batch && node_was_elsewhere()) {
        x->door->elsewhere = true;
        return;
    }
    if (r == MCP_PENDING && !x->fault.code)
        mcp_ask_write(x);
    if (x->scope && !x->answered && !x->batch)
        mcp_gate_scope(x);
    else
        mcp_reply(x);
}

/* ---- for the methods ---------------------------------------------------- */

void mcp_write_caching(struct mcp_exchange *x, bool shared, int64_t ttl_ms)
{
    if (x->era != MCP_MODERN)
        return;
    json_write_int(&x->w, "ttlMs", ttl_ms);
    json_write_string(&x->w, "cacheScope", shared ? "public" : "private");
}

const char *mcp_need_string(struct mcp_exchange *x, const char *name)
{
    const json_t *value = json_object_get(x->msg.params, name);

    if (!json_is_string(value))
        (void)mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                            "params.%s must be a string", name);
    return json_string_value(value);
}

const char *mcp_need_cursor(struct mcp_exchange *x)
{
    const json_t *value = json_object_get(x->msg.params, "cursor");

    if (!value)
        return "";
    if (!json_is_string(value))
        (void)mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                            "params.cursor must be a string");
    return json_string_value(value);
}

/* ---- paths -------------------------------------------------------------- */

#define METADATA "/.well-known/oauth-protected-resource"

static const struct doors_route rows[] = {
    {"POST", "/mcp", mcp_serve_post, 0, DOORS_OPEN | DOORS_UNGATED, "tools",
     NULL, NULL, NULL, NULL, NULL},
    {"GET", "/mcp", mcp_serve_get, 0, DOORS_OPEN, "tools", NULL, NULL, NULL,
     NULL, NULL},
    {"DELETE", "/mcp", mcp_serve_delete, 0, DOORS_OPEN | DOORS_UNGATED,
     "tools", NULL, NULL, NULL, NULL, NULL},
    {"OPTIONS", "/mcp", mcp_serve_options, 0, DOORS_OPEN, "tools", NULL, NULL,
     NULL, NULL, NULL},
    {"GET", METADATA, mcp_gate_metadata, 0, DOORS_OPEN, NULL, NULL, NULL, NULL,
     NULL, NULL},
    {"GET", METADATA "/mcp", mcp_gate_metadata, 0, DOORS_OPEN, NULL, NULL,
     NULL, NULL, NULL, NULL},
};

static bool ends_in_mcp(const char *path)
{
    size_t n = strlen(path);

    return n > strlen("/mcp") &&
           strcmp(path + n - strlen("/mcp"), "/mcp") == 0;
}

/* One part of a path between two texts: "/a/{x}/b". */
static const char *path_part(const char *at, struct doors_part *ret)
{
    size_t n = strcspn(at, "/");

    *ret = (struct doors_part){at, n};
    return n > 0 ? at + n : NULL;
}

/* /pools/{pool}/mcp, or …/sessionPools/{pool}/mcp */
static bool is_pool(const char *path, struct doors_part *ret)
{
    const char *at = strncmp(path, "/pools/", strlen("/pools/")) == 0
                         ? path
                         : strcasestr(path, "/sessionPools/");

    if (!at)
        return false;
    at = path_part(strchr(at + 1, '/') + 1, ret);
    return at && strcmp(at, "/mcp") == 0;
}

/* /api/projects/{project}/toolboxes/{name}[/versions/{v}]/mcp */
static bool is_toolbox(const char *path)
{
    static const char start[] = "/api/projects/", middle[] = "/toolboxes/",
                      versions[] = "/versions/";
    struct doors_part ignored;
    const char *at;

    if (strncmp(path, start, strlen(start)) != 0)
        return false;
    at = path_part(path + strlen(start), &ignored);
    if (!at || strncmp(at, middle, strlen(middle)) != 0)
        return false;
    at = path_part(at + strlen(middle), &ignored);
    if (at && strncmp(at, versions, strlen(versions)) == 0)
        at = path_part(at + strlen(versions), &ignored);
    return at && strcmp(at, "/mcp") == 0;
}

static const char *match_path(const char *path,
                              struct doors_part ret[DOORS_PARAMS_MAX])
{
    struct doors_part pool;

    if (strcmp(path, "/mcp") == 0 ||
        strncmp(path, METADATA, strlen(METADATA)) == 0)
        return path;
    if (!ends_in_mcp(path))
        return NULL;
    if (is_pool(path, &pool)) {
        ret[0] = pool;
        return path + strlen(path) - strlen("/mcp");
    }
    return is_toolbox(path) ? path + strlen(path) - strlen("/mcp") : NULL;
}

bool mcp_table_azure(const struct doors_call *call)
{
    return call->place[0] != NULL;
}

/* Refusals by the spine itself: an unknown HTTP method, a bad query. */
static void refuse_request(struct doors_call *call, const struct error *err)
{
    struct rpc_fault f = {0};

    (void)mcp_rpc_blame(&f, err);
    f.code = RPC_INVALID;
    if (err->code == ERR_UNAUTHENTICATED)
        http_add_header(call->http, "WWW-Authenticate", "Bearer");
    mcp_reply_refuse(call, http_status_of(err->code), NULL, &f);
}

const struct doors_door doors_mcp = {
    .name = "mcp",
    .enter = match_path,
    .routes = rows,
    .count = ARRAY_SIZE(rows),
    .refuse = refuse_request,
    .any_query = true,
    .open = mcp_open,
    .stop = mcp_stop,
    .close = mcp_close,
};
