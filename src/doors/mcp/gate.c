/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission of MCP requests: first Origin, and Host if the service listens on
 * loopback only (M1), then the key. Runs on a worker of the daemon before a
 * byte of the body is read. Also writes what clients need to authenticate:
 * challenges, the metadata of RFC 9728, CORS headers.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/mcp/mcp_int.h"

#define METADATA "/.well-known/oauth-protected-resource"

/* ---- Origin and Host ---------------------------------------------------- */

/* A name that always means this machine, with or without a port. */
bool mcp_gate_loopback(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t n = strlen(names[i]);

        if (strncasecmp(host, names[i], n) == 0 &&
            (host[n] == '\0' ||
             (host[n] == ':' && host[n + 1] &&
              strspn(host + n + 1, "0123456789") == strlen(host + n + 1))))
            return true;
    }
    return false;
}

static bool listens_locally(const struct conf *c)
{
    return strncmp(c->listen_host, "127.", 4) == 0 ||
           strcmp(c->listen_host, "::1") == 0;
}

/* The host of public_url, by which a proxy may forward requests. */
static bool is_public_host(const struct conf *c, const char *host)
{
    const char *own = c->public_url ? strstr(c->public_url, "://") : NULL;

    return own && strlen(host) == strcspn(own + 3, "/") &&
           strncasecmp(own + 3, host, strlen(host)) == 0;
}

/* One of mcp_origins, exactly but for case. */
static bool is_allowed_origin(const struct conf *c, const char *origin)
{
    const char *list = c->mcp_origins;

    while (*(list += strspn(list, ", "))) {
        size_t n = strcspn(list, ", ");

        if (strlen(origin) == n && strncasecmp(origin, list, n) == 0)
            return true;
        list += n;
    }
    return false;
}

/* The origin is this listener's own: no other site can have that name. */
static bool is_own_origin(const char *origin, const char *host)
{
    const char *authority = strstr(origin, "://");

    return authority && host && mcp_gate_loopback(host) &&
           strcasecmp(authority + strlen("://"), host) == 0;
}

int mcp_gate_origin(struct doors_call *call)
{
    const struct conf *c = call->doors->conf;
    const char *host = http_header(call->http, "Host");
    const char *origin = http_header(call->http, "Origin");

    if (listens_locally(c) &&
        (!host || (!mcp_gate_loopback(host) && !is_public_host(c, host))))
        return mcp_reply_refusef(call, 403, NULL, RPC_INVALID,
                                 "the Host header does not name this "
                                 "machine");
    if (!origin)
        return 0;
    if (!is_allowed_origin(c, origin) && !is_own_origin(origin, host))
        return mcp_reply_refusef(call, 403, NULL, RPC_INVALID,
                                 "pages of this origin are not allowed here");

    http_add_header(call->http, "Access-Control-Allow-Origin", origin);
    http_add_header(call->http, "Vary", "Origin");
    http_add_header(call->http, "Access-Control-Expose-Headers",
                    "Mcp-Session-Id, WWW-Authenticate");

    return 0;
}

void mcp_gate_preflight(struct doors_call *call)
{
    const char *asked =
        http_header(call->http, "Access-Control-Request-Headers");

    http_add_header(call->http, "Access-Control-Allow-Methods",
                    "POST, GET, DELETE");
    /* Any header: Mcp-Param-* have names of their own. */
    http_add_header(call->http, "Access-Control-Allow-Headers",
                    asked ? asked
                          : "Authorization, Content-Type, Accept, "
                            "MCP-Protocol-Version, Mcp-Session-Id, "
                            "Mcp-Method, Mcp-Name, Last-Event-ID");
    http_add_header(call->http, "Access-Control-Max-Age", "600");
    http_respond_empty(call->http, 204);
}

/* ---- keys --------------------------------------------------------------- */

/* The configured token issuer; "" : none. */
static const char *token_issuer(const struct doors_call *call)
{
    const char *url = call->doors->conf->jwt_issuer;

    return url ? url : "";
}

static void send_challenge(struct doors_call *call, const char *more)
{
    struct arena *arena = http_arena(call->http);
    const char *text = "Bearer";

    if (token_issuer(call)[0])
        text = arena_printf(
            arena, "Bearer resource_metadata=\"%s" METADATA "/mcp\"%s%s",
            doors_url_base(call), more[0] ? ", " : "", more);
    else if (more[0])
        text = arena_printf(arena, "Bearer %s", more);
    http_add_header(call->http, "WWW-Authenticate", text);
}

/* A pool of the Azure kind takes its key in a header of its own only. */
static const char *request_credential(const struct doors_call *call,
                                      bool azure)
{
    const char *key;

    if (!azure)
        return http_header(call->http, "Authorization");
    key = http_header(call->http, "x-ms-apikey");
    return key ? arena_printf(http_arena(call->http), "Bearer %s", key) : NULL;
}

int mcp_gate_key(struct doors_call *call, bool azure)
{
    struct error err;

    if (doors_authenticate(call, request_credential(call, azure), &err) < 0) {
        if (err.code == ERR_UNAUTHENTICATED)
            send_challenge(call, "");
        return mcp_reply_refusef(call, http_status_of(err.code), NULL,
                                 RPC_INVALID, "%s%s%s", err.message,
                                 err.hint[0] ? "; " : "", err.hint);
    }
    doors_identify(call);
    /* At an Azure pool's own endpoint every key of the pool, and the one that
     * replaces it in a rotation, has the pool's environments. */
    call->actor.shares = mcp_table_azure(call);
    return 0;
}

/* ---- scopes ------------------------------------------------------------- */

bool mcp_has_scope(const struct mcp_exchange *x, uint32_t scope)
{
    return (x->scopes & AUTH_ADMIN) || (x->scopes & scope) == scope;
}

int mcp_need_scope(struct mcp_exchange *x, uint32_t scope)
{
    char names[96];

    if (mcp_has_scope(x, scope))
        return 0;
    x->scope = scope;
    return mcp_rpc_fault(&x->fault, RPC_INVALID, NULL,
                         "this needs the scope '%s', which the key lacks",
                         auth_scopes_format(scope, names));
}

void mcp_gate_scope(struct mcp_exchange *x)
{
    struct doors_call *call = x->door;
    char names[96], detail[160];

    (void)auth_scopes_format(x->scope, names);
    for (char *at = names; *at; at++)
        if (*at == ',')
            *at = ' ';
    (void)snprintf(detail, sizeof(detail), "mcp %.60s", x->msg.method);
    audit_later(x->doors->core->audit, x->actor,
                &(struct audit_event){.action = "request.refused",
                                      .result = "forbidden",
                                      .detail = detail});
    send_challenge(call,
                   arena_printf(x->arena,
                                "error=\"insufficient_scope\", scope=\"%s\"",
                                names));
    x->answered = true;
    mcp_reply_refuse(call, 403, x->msg.id, &x->fault);
}

/* ---- RFC 9728 ----------------------------------------------------------- */

int mcp_gate_metadata(struct doors_call *call, struct error *err)
{
    const char *from = token_issuer(call);
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    static const char *const scopes[] = {"execute", "files:read",
                                         "files:write"};

    if (!from[0])
        return error_set(err, ERR_NOT_FOUND, "no such path");
    json_write_open(&w, NULL, '{');
    json_write_string(
        &w, "resource",
        arena_printf(http_arena(call->http), "%s/mcp", doors_url_base(call)));
    json_write_open(&w, "authorization_servers", '[');
    json_write_string(&w, NULL, from);
    json_write_close(&w, ']');
    json_write_open(&w, "scopes_supported", '[');
    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
        json_write_string(&w, NULL, scopes[i]);
    json_write_close(&w, ']');
    json_write_open(&w, "bearer_methods_supported", '[');
    json_write_string(&w, NULL, "header");
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    /* Public: readable without a key and from any origin. */
    http_add_header(call->http, "Access-Control-Allow-Origin", "*");
    http_respond_json(call->http, 200, &body);
    return 0;
}
