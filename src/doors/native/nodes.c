/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/nodes: the nodes that share the store, and draining one. Runs on a
 * worker of the daemon. A service that is the only node has an empty list.
 */
#include <stdlib.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "node/node.h"
#include "json/json.h"

#define NODE(member) API_AT(struct node_info, member)

static const char *const states[] = {"active", "draining", "gone", NULL};

static const struct api_field node_fields[] = {
    {"id", API_STRING, NODE(id)},
    {"name", API_STRING, NODE(name)},
    {"state", API_CHOICE, NODE(state), .choices = states,
     .help = "a draining node takes no new session; what is idle there goes "
             "to sleep and wakes on another node"},
    {"self", API_BOOL, NODE(self), .help = "it answered this request"},
    {"address", API_STRING, NODE(address), .help = "for other nodes"},
    {"labels", API_STRING, NODE(labels), .help = "commas between"},
    {"version", API_STRING, NODE(version)},
    {"epoch", API_INT, NODE(epoch), .help = "grows with each start"},
    {"lease_left_ms", API_INT, NODE(lease_left_ms),
     .help = "below 0: it has stopped answering"},
    {"started_at_ms", API_INT, NODE(started_at_ms)},
    {"cores", API_INT, NODE(load.cores)},
    {"memory_bytes", API_INT, NODE(load.memory_bytes)},
    {"free_bytes", API_INT, NODE(load.free_bytes)},
    {"ready", API_INT, NODE(load.ready), .help = "sandboxes kept ready"},
    {"awake", API_INT, NODE(load.awake), .help = "sessions with a sandbox"},
    {"queued", API_INT, NODE(load.queued),
     .help = "executions queued or running"},
};
API_OUTPUT(native_node, "Node", struct node_info, node_fields,
           "One of several services on the same store.");

/* Nodes serve all tenants. */
#define MANAGE_NODES "see and drain nodes"

int native_nodes_list(struct doors_call *call, struct error *err)
{
    struct node_info *all cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    int r = native_operators_only(call, MANAGE_NODES, err);

    if (r == 0 && call->doors->nodes)
        r = nodes_list(call->doors->nodes, &all, &count, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        api_write(&w, NULL, &native_node, &all[i]);
    native_encode_list_end(&w, false);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_nodes_get(struct doors_call *call, struct error *err)
{
    struct node_info info;
    int r = native_operators_only(call, MANAGE_NODES, err);

    if (r == 0)
        r = call->doors->nodes
                ? nodes_get(call->doors->nodes, call->params[0], &info, err)
                : error_set(err, ERR_NOT_FOUND, "no such node");

    if (r == 0)
        native_respond(call, 200, &native_node, &info);
    return r;
}

static int change(struct doors_call *call, bool drain, struct error *err)
{
    struct node_info info;
    int r = native_operators_only(call, MANAGE_NODES, err);

    if (r == 0)
        r = call->doors->nodes
                ? nodes_drain(call->doors->nodes, &call->actor,
                              call->params[0], drain, &info, err)
                : error_set(err, ERR_NOT_FOUND, "no such node");

    if (r == 0)
        native_respond(call, 200, &native_node, &info);
    return r;
}

int native_nodes_drain(struct doors_call *call, struct error *err)
{
    return change(call, true, err);
}

int native_nodes_activate(struct doors_call *call, struct error *err)
{
    return change(call, false, err);
}
