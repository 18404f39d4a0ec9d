/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwards a request whose session is on another node: this node sends the
 * request there with the client's own credentials and relays the answer as it
 * arrives. Runs on the worker that serves the request, called by serve.c.
 *
 * The other node serves the request on the listener for nodes
 * (serve_forwarded) and never forwards it again. It authenticates the client
 * itself. From this node it accepts only the id of the request and the
 * client's address, and only because this node's key is in the store (N4). If
 * the session has moved since, or the other node drains, it answers with
 * REFUSED_HEADER; this node then reads the other nodes again and retries.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/mem.h"
#include "doors/doors.h"
#include "node/node.h"

#define HEADERS_MAX 104u
#define ID_HEADER "Glovebox-Forwarded-Id"
#define SOURCE_HEADER "Glovebox-Forwarded-For"
/* In an answer to another node: nothing was done, look again. */
#define REFUSED_HEADER "Glovebox-Not-Here"
#define REFUSED_WAIT_MS 10u /* doubled with each try */

struct relay {
    struct doors_call *call;
    struct http_pipe *pipe; /* once the head of the answer is there */
    unsigned status;        /* of the answer */
    bool refused;           /* the other node did nothing: look again */
    struct error err;
};

/* Of this connection, or ours alone. */
static bool stays_here(const char *name)
{
    static const char *const names[] = {
        "Connection",
        "Keep-Alive",
        "Transfer-Encoding",
        "Expect",
        "Content-Length",
        "Upgrade",
        "TE",
        "Trailer",
        "Proxy-Authorization",
        ID_HEADER,
        "Proxy-Authenticate",
        SOURCE_HEADER,
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

static ssize_t on_read(void *ctx, void *bytes, size_t len)
{
    struct relay *r = ctx;

    return http_body_read(r->call->http, bytes, len, UINT64_MAX, &r->err);
}

static int on_head(void *ctx, unsigned status,
                   const struct node_header *headers, size_t count,
                   uint64_t length)
{
    struct relay *r = ctx;
    const char *type = NULL;

    for (size_t i = 0; i < count; i++)
        r->refused |= strcasecmp(headers[i].name, REFUSED_HEADER) == 0;
    if (r->refused)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(headers[i].name, "Content-Type") == 0)
            type = arena_strdup(http_arena(r->call->http), headers[i].value);
        else
            http_add_header(r->call->http, headers[i].name, headers[i].value);
    r->status = status;
    r->pipe = http_respond_relay(r->call->http, status, type, length);
    return 0;
}

static int on_write(void *ctx, const void *bytes, size_t len)
{
    struct relay *r = ctx;

    return r->pipe ? http_pipe_write(r->pipe, bytes, len, &r->err) : 0;
}

static bool on_left(void *ctx)
{
    struct relay *r = ctx;

    return http_left(r->call->http);
}

static size_t collect_headers(struct doors_call *call, struct node_header *ret)
{
    struct http_request *req = call->http;
    size_t count = 0;

    for (size_t i = 0; i < http_header_count(req); i++)
        if (!stays_here(http_header_name(req, i)) && count < HEADERS_MAX - 2)
            ret[count++] = (struct node_header){http_header_name(req, i),
                                                http_header_value(req, i)};
    ret[count++] = (struct node_header){ID_HEADER, http_id(req)};
    ret[count++] = (struct node_header){SOURCE_HEADER, http_source(req)};
    return count;
}

/* What this node knew of the others, or of the session, was old. */
static int look_again(struct doors_call *call, unsigned attempt,
                      struct error *err)
{
    uint64_t ns = (uint64_t)REFUSED_WAIT_MS * 1000000 << attempt;
    struct timespec wait = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};

    (void)error_set(err, ERR_UNAVAILABLE,
                    "the session is moving to another node");
    (void)error_retry(err, 1);
    if (!http_body_again(call->http) || http_left(call->http))
        return -ERR_UNAVAILABLE;
    if (attempt)
        (void)nanosleep(&wait, NULL);
    nodes_look(call->doors->nodes);
    return 1;
}

int doors_forward_refuse(struct doors_call *call, struct error *err)
{
    http_add_header(call->http, REFUSED_HEADER, "1");
    return -(int)err->code;
}

int doors_forward(struct doors_call *call, unsigned attempt, struct error *err)
{
    struct node_header headers[HEADERS_MAX];
    struct relay relay = {.call = call};
    struct node_carry carry = {.method = http_method(call->http),
                               .target = http_target(call->http),
                               .headers = headers,
                               .length = http_body_length(call->http),
                               .ctx = &relay,
                               .read = on_read,
                               .head = on_head,
                               .write = on_write,
                               .left = on_left};
    char node[ID_MAX];
    bool sent = false, again;
    int r;

    (void)snprintf(node, sizeof(node), "%s", err->node);
    if (!http_body_again(call->http)) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "the session has moved to another node meanwhile");
        return error_retry(err, 1);
    }
    if (strcmp(node, call->unreachable) == 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the node that has the session cannot be reached"),
               error_hint(err, "If it is down, another node takes over the "
                               "session within seconds."),
               error_retry(err, 2);
    carry.node = node;
    carry.header_count = collect_headers(call, headers);
    r = node_carry(call->doors->nodes, &carry, &sent, err);
    if (r == 0 && relay.pipe && relay.status < 400)
        node_hint_keep(call->doors->nodes, node);
    else
        node_hint_drop(call->doors->nodes);
    if (relay.refused)
        return look_again(call, attempt, err);
    if (relay.pipe) { /* the client has the head: it sees a broken end */
        http_pipe_end(relay.pipe, r == 0);
        return 0;
    }
    if (r == 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the node that has the session gave no answer");
    if (sent)
        return r;
    (void)snprintf(call->unreachable, sizeof(call->unreachable), "%s", node);
    node_avoid(call->doors->nodes, node);
    again = http_body_again(call->http);
    return again ? 1 : r;
}

int doors_forwarded_adopt(struct doors_call *call, struct error *err)
{
    const char *id = http_header(call->http, ID_HEADER);
    const char *source = http_header(call->http, SOURCE_HEADER);
    struct node_info from;

    if (!nodes_by_pin(call->doors->nodes, http_peer_pin(call->http), &from))
        return error_set(err, ERR_FORBIDDEN, "this address is for nodes");
    if (!id || !ids_valid("req", id) || !source ||
        strspn(source, "0123456789abcdefABCDEF.:%") != strlen(source) ||
        strlen(source) > 45)
        return error_set(err, ERR_INVALID, "no request of a node");
    http_adopt(call->http, id, source);
    return 0;
}
