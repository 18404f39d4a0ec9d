/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several nodes on one store (src/node/). All times are the database's.
 *
 * leases: which node has a session. A row stays as long as its session, since
 * the fence only grows. node_executions: what runs on a node, so that it can
 * be ended when the node is lost.
 */
#ifndef GLOVEBOX_STORE_SCHEMA_NODES_H
#define GLOVEBOX_STORE_SCHEMA_NODES_H

#define STORE_SCHEMA_NODES                                                    \
    "CREATE TABLE nodes ("                                                    \
    "  id TEXT PRIMARY KEY,"                                                  \
    "  tag TEXT NOT NULL UNIQUE," /* of the ids that it makes */              \
    "  name TEXT NOT NULL,"                                                   \
    "  address TEXT NOT NULL," /* host:port for the other nodes */            \
    "  pin TEXT NOT NULL,"     /* of its public key, SHA-256 */               \
    "  labels TEXT NOT NULL,"  /* commas between */                           \
    "  version TEXT NOT NULL,"                                                \
    "  state TEXT NOT NULL,"    /* active, draining or gone */                \
    "  epoch INTEGER NOT NULL," /* grows with each start */                   \
    "  lease_until_ms INTEGER NOT NULL,"                                      \
    "  started_at_ms INTEGER NOT NULL,"                                       \
    "  cores INTEGER NOT NULL,"                                               \
    "  memory_bytes INTEGER NOT NULL,"                                        \
    "  free_bytes INTEGER NOT NULL,"                                          \
    "  ready INTEGER NOT NULL," /* sandboxes kept ready */                    \
    "  awake INTEGER NOT NULL," /* sessions with a sandbox */                 \
    "  queued INTEGER NOT NULL" /* executions queued or running */            \
    ") STRICT;"                                                               \
    "CREATE TABLE leases ("                                                   \
    "  session TEXT PRIMARY KEY,"                                             \
    "  tenant TEXT NOT NULL,"                                                 \
    "  node TEXT NOT NULL,"     /* '' for none */                             \
    "  fence INTEGER NOT NULL," /* grows when another node takes it */        \
    "  state INTEGER NOT NULL"  /* enum node_lease_state */                   \
    ") STRICT;"                                                               \
    "CREATE INDEX leases_by_node ON leases (node) WHERE node <> '';"          \
    "CREATE TABLE node_executions ("                                          \
    "  execution TEXT PRIMARY KEY,"                                           \
    "  node TEXT NOT NULL,"                                                   \
    "  session TEXT NOT NULL,"                                                \
    "  tenant TEXT NOT NULL,"                                                 \
    "  workspace TEXT NOT NULL,"                                              \
    "  language TEXT NOT NULL,"                                               \
    "  author TEXT NOT NULL,"                                                 \
    "  author_name TEXT NOT NULL,"                                            \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  code TEXT NOT NULL"                                                    \
    ") STRICT;"                                                               \
    "CREATE INDEX node_executions_by_node ON node_executions (node);"

#endif
