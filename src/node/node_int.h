/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of node/; see node.h. */
#ifndef GLOVEBOX_NODE_NODE_INT_H
#define GLOVEBOX_NODE_NODE_INT_H

#include <stdatomic.h>

#include "base/thread.h"
#include "node/node.h"

#define NODES_MAX 1000u
#define NODE_AVOID_MS 5000u

struct node_channel; /* carry.c: a connection to another node */
struct node_hint;    /* hint.c: where a session was a moment ago */

/* Another node as this one saw it last. */
struct node_peer {
    struct node_info info;
    uint64_t lease_until_mono_ms; /* by this node's monotonic clock */
    uint64_t avoid_until_ms;
};

struct nodes {
    struct store *store;
    struct audit *audit;
    char id[ID_MAX], tag[IDS_TAG + 1], pin[NODE_PIN];
    char *name, *address, *labels, *version, *key_file, *certificate_file;
    uint64_t lease_ms, margin_ms, renew_ms;
    int id_fd; /* locked: no other process is this node */
    struct node_hooks hooks;
    struct worker renewer; /* "node-lease" */
    struct worker guard;   /* "node-guard" */
    struct worker drainer; /* "node-drain" */

    /* When the lease ends by this node's monotonic clock, less the margin;
     * 0: there is none. */
    _Atomic uint64_t good_until_ms;
    _Atomic int64_t epoch;
    _Atomic(enum node_state) state;
    atomic_bool retired;        /* the service stops */
    _Atomic uint64_t looked_ms; /* when the store was asked for a new node */

    struct mutex lock; /* a leaf: of what follows */
    struct node_peer *peers;
    size_t peer_count;
    struct node_channel *channels;
    unsigned channel_count;
    struct mutex hint_lock;  /* a leaf: of the hints */
    struct node_hint *hints; /* made on first use */

    _Atomic uint64_t renewals, renewals_failed, lost, takeovers, fenced;
    _Atomic uint64_t carried, carried_failed;
};

/* node.c */
int node_register(struct nodes *n, struct error *err);
/* Copies what is known of a node; false: nothing is. */
bool node_peer_get(struct nodes *n, const char *id, struct node_peer *ret);
/* The same, and asks the store for one that is new. */
bool node_peer_find(struct nodes *n, const char *id, struct node_peer *ret);
/* identity.c: node.id, its lock, the key and the certificate. */
int node_identity_open(struct nodes *n, const char *data_dir,
                       struct error *err);
/* place.c: every one of these labels is among those? */
bool node_has_labels(const char *labels, const char *wanted);
/* As node_place; last: the node that has the files at hand, or NULL. */
int node_place_near(struct nodes *n, const char *labels, const char *last,
                    struct error *err);
int node_elsewhere(const char *id, struct error *err);
/* lost.c: marks nodes gone whose lease has ended. */
void node_expire_others(struct nodes *n);
/* The same of a node that stops, or starts again. */
int node_end_work(struct nodes *n, struct store_tx *tx, const char *id,
                  const char *why, struct error *err);
/* place.c: as node_elsewhere, but 0 unless a client's request is served. */
int node_forward_to(const char *id, struct error *err);
/* hint.c: what is elsewhere is not the session that was looked for last. */
void node_hint_clear(void);
void node_hints_free(struct nodes *n);
/* carry.c */
void node_channels_close(struct nodes *n);

#endif
