/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox nodes: the services that share a store, and emptying one of them
 * before it is stopped.
 */
#include "cli/common.h"

static const struct cli_column columns[] = {
    {"NAME", .member = "name"},       {"STATE", .member = "state"},
    {"AWAKE", .member = "awake"},     {"QUEUED", .member = "queued"},
    {"READY", .member = "ready"},     {"CORES", .member = "cores"},
    {"VERSION", .member = "version"}, {"ADDRESS", .member = "address"},
    {"ID", .member = "id"},           {0},
};

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List the nodes that share the store", "GET",
     "/api/nodes", .columns = columns},
    {"show", NULL, "NODE", "Show a node, by name or id", "GET",
     .path = "/api/nodes/{NODE}"},
    {"drain", NULL, "NODE",
     "Take no new session on a node; what is idle wakes elsewhere", "POST",
     "/api/nodes/{NODE}/drain",
     .sentence = "{name} is draining. It can be stopped without loss once "
                 "`glovebox nodes show` says that none is awake."},
    {"activate", NULL, "NODE", "Take new sessions on a node again", "POST",
     "/api/nodes/{NODE}/activate", .sentence = "{name} is active."},
    {0},
};

const struct cli_command cli_nodes = {
    .name = "nodes",
    .summary = "List, show and drain the nodes that share a store",
    .notes =
        "These verbs need a key of scope admin. A service whose store is\n"
        "sqlite is the only node, and the list is empty. Keys that all nodes\n"
        "share are copied by hand: see docs/SCALE.md.\n",
    .online = true,
    .verbs = verbs,
};
