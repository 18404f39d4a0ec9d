/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several nodes on one store; see docs/decisions/nodes.md. A node is a running
 * gloveboxd. It has a row in the store with a lease that it renews, by the
 * time of the database. Other nodes find there its address and the pin of its
 * key, and what it has free.
 *
 * A session that has a sandbox belongs to one node, by a row with a fencing
 * number that grows whenever another node takes the session (N1). Every commit
 * of the session's work checks the number in its own transaction. A node that
 * cannot renew its lease stops its sandboxes before the lease ends. When it
 * has ended, another node ends the executions of the lost node, once (N3).
 *
 * A function that needs something on another node returns ERR_ELSEWHERE with
 * that node's id in the error. The spine of requests (doors/) then sends the
 * whole request to that node and relays its answer. There is one hop at most:
 * a node never sends a forwarded request on. If the session has moved, or the
 * node is draining, it refuses the request, and the first node looks again.
 *
 * Without several nodes (`struct nodes *` is NULL) nothing of this happens.
 */
#ifndef GLOVEBOX_NODE_NODE_H
#define GLOVEBOX_NODE_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/ids.h"

struct actor;
struct audit;
struct error;
struct nodes;
struct store;
struct store_tx;

#define NODE_PIN 65 /* SHA-256 of a public key in hex, and NUL */

enum node_state {
    NODE_ACTIVE,
    NODE_DRAINING, /* takes no new session; what is idle goes elsewhere */
    NODE_GONE,     /* stopped, or its lease has ended */
};
const char *node_state_name(enum node_state state);

/* What a node has free, as told with each renewal. */
struct node_load {
    uint64_t memory_bytes, free_bytes;
    uint32_t cores, ready, awake, queued;
};

struct node_info {
    char id[ID_MAX];
    char tag[IDS_TAG + 1];
    char name[64];
    char address[272]; /* host:port */
    char pin[NODE_PIN];
    char labels[256];
    char version[48];
    enum node_state state;
    int64_t epoch;
    int64_t lease_until_ms; /* by the time of the database */
    int64_t lease_left_ms;  /* when it was read; below 0: it has ended */
    int64_t started_at_ms;
    struct node_load load;
    bool self;
};

struct node_hooks {
    void *ctx;
    void (*load)(void *ctx, struct node_load *ret);
    /* The lease ends soon and could not be renewed, or has been taken: every
     * sandbox must be gone when this returns (N1). */
    void (*on_lost)(void *ctx);
    /* Called every second or so while draining, on a thread of its own: it may
     * take longer than the lease. */
    void (*on_drain)(void *ctx);
};

struct node_settings {
    const char *data_dir; /* node.id and the node's key are kept in it */
    const char *name;     /* "": the host's */
    const char *address;  /* host:port under which other nodes reach it */
    const char *labels;
    const char *version;
    unsigned lease_s;
};

/* Reads or makes the node's identity, and registers it. */
int nodes_open(const struct node_settings *settings, struct store *store,
               struct audit *audit, struct nodes **ret, struct error *err);
/* Starts to renew. Before this, nothing is leased. */
int nodes_start(struct nodes *n, const struct node_hooks *hooks,
                struct error *err);
/* Takes no new session, and says so to the others. */
void nodes_retire(struct nodes *n);
/* Stops the threads and gives every lease back; accepts NULL. */
void nodes_stop(struct nodes *n);
void nodes_close(struct nodes *n);

const char *nodes_self(const struct nodes *n);
/* The lease holds, with a margin. */
bool nodes_alive(struct nodes *n);
enum node_state nodes_state(struct nodes *n);
/* PEM files of its key and certificate; borrowed. */
const char *nodes_key_file(const struct nodes *n);
const char *nodes_certificate_file(const struct nodes *n);

/* All nodes that are not gone, and those that went within a day; owned by
 * caller (free). */
int nodes_list(struct nodes *n, struct node_info **ret, size_t *ret_count,
               struct error *err);
/* By id or by name; ERR_NOT_FOUND. */
int nodes_get(struct nodes *n, const char *id, struct node_info *ret,
              struct error *err);
/* From active to draining, or back. The node itself notices within seconds. */
int nodes_drain(struct nodes *n, const struct actor *who, const char *id,
                bool drain, struct node_info *ret, struct error *err);
/* A node by its key, of those known a moment ago; false: none. */
bool nodes_by_pin(struct nodes *n, const char *pin, struct node_info *ret);
/* Notified when a node starts, drains, stops or is lost. */
#define NODE_CHANNEL "nodes"
/* After such a notification: renews and reads the other nodes at once. */
void nodes_changed(struct nodes *n);
/* Reads the other nodes now, on the caller's thread. A failure is logged. */
void nodes_look(struct nodes *n);

struct node_metrics {
    uint64_t renewals, renewals_failed, lost, takeovers, fenced;
    uint64_t carried, carried_failed;
    int64_t lease_left_ms;
    enum node_state state;
    struct node_load all; /* of every active node together */
    unsigned active, draining;
};
void nodes_metrics(struct nodes *n, struct node_metrics *ret);

/* ---- lease.c: which node has a session ---------------------------------- */

enum node_lease_state {
    NODE_LEASE_ASLEEP, /* no sandbox: any node may take it */
    NODE_LEASE_AWAKE,  /* the node has its sandbox */
    NODE_LEASE_MEMORY, /* asleep, and the node has its memory on disk */
};

/* Makes sure that this node has the session: 0 and its fence. ERR_ELSEWHERE
 * when another node has it, or should wake it. n NULL: 0. */
int node_lease_take(struct nodes *n, const char *tenant, const char *session,
                    const char *labels, int64_t *ret_fence, struct error *err);
/* Another node has the session awake, or keeps its memory. A store that cannot
 * be read: false. n NULL: false. */
bool node_lease_elsewhere(struct nodes *n, const char *session);
/* A new session, in the transaction that stores it; tx NULL: in one of its
 * own. */
int node_lease_add(struct nodes *n, struct store_tx *tx, const char *tenant,
                   const char *session, enum node_lease_state state,
                   int64_t *ret_fence, struct error *err);
/* In a transaction that commits work of the session: fails unless this node
 * still has it with this fence (N1). fence 0: nothing is checked. */
int node_lease_check(struct nodes *n, struct store_tx *tx, const char *session,
                     int64_t fence, struct error *err);
/* Before a sandbox is made, and after it is gone. ERR_ELSEWHERE: another node
 * has taken it. */
int node_lease_set(struct nodes *n, const char *session, int64_t fence,
                   enum node_lease_state state, struct error *err);
int node_lease_delete(struct nodes *n, struct store_tx *tx,
                      const char *session, struct error *err);

/* ---- place.c: where what is new should be made -------------------------- */

/* What the calling thread serves. */
enum node_request {
    NODE_REQUEST_NONE,      /* no request: nothing can be sent elsewhere */
    NODE_REQUEST_FIRST,     /* of a client: it can be sent to another node */
    NODE_REQUEST_FORWARDED, /* of another node: it can be refused, and then
                             * the other node looks again */
};
void node_request_set(enum node_request request);
/* ERR_ELSEWHERE when a new session should be made on another node: the best of
 * three that have the labels. For a forwarded request: when this node drains.
 * 0: here, or the thread serves no request. */
int node_place(struct nodes *n, const char *labels, struct error *err);
/* ERR_ELSEWHERE when the id has the tag of another node that is there. 0: it
 * is not elsewhere, or the thread serves no request of a client. */
int node_locate(struct nodes *n, const char *prefix, const char *id,
                struct error *err);
/* Since node_request_set something was elsewhere: for a handler that writes
 * its errors into its answer. The node ("": any other), or NULL. */
const char *node_was_elsewhere(void);
/* Connecting to it failed: for some seconds nothing is placed there. */
void node_avoid(struct nodes *n, const char *id);

/* ---- hint.c: where a session was a moment ago --------------------------- */

/* ERR_ELSEWHERE when a request of this principal about this session was
 * forwarded before. 0: nothing is known, or the thread serves no request of a
 * client. n NULL: 0. */
int node_hint_find(struct nodes *n, const char *who, const char *session,
                   struct error *err);
/* After a forwarded request: the node has the session that this thread looked
 * for last; or it has not, or it cannot be reached. */
void node_hint_keep(struct nodes *n, const char *node);
void node_hint_drop(struct nodes *n);

/* ---- lost.c: executions of lost nodes ----------------------------------- */

struct node_execution { /* strings borrowed */
    const char *id, *session, *tenant, *workspace, *language;
    const char *author, *author_name, *code;
    int64_t created_at_ms;
};
/* It runs here from now on; when the node is lost, it ends as `lost`. */
int node_execution_add(struct nodes *n, const struct node_execution *e,
                       struct error *err);
/* In the transaction that stores its end. */
int node_execution_remove(struct nodes *n, struct store_tx *tx, const char *id,
                          struct error *err);

/* ---- share.c: the feed of the other nodes ------------------------------- */

struct feed_item;
struct node_share;
/* publish: called with an item of another node, on a thread of the store. On
 * failure *ret may be set: close it. */
int node_share_open(struct nodes *n,
                    void (*publish)(void *ctx, const struct feed_item *item),
                    void *ctx, struct node_share **ret, struct error *err);
void node_share_close(struct node_share *s); /* accepts NULL */
/* An item of this node, for nodes that want it. Quick; s may be NULL. */
void node_share_item(struct node_share *s, const struct feed_item *item);
/* This node has listeners. Call it every few seconds; s may be NULL. */
void node_share_want(struct node_share *s);

/* ---- carry.c: one request to another node ------------------------------- */

struct node_header {
    const char *name, *value;
};

struct node_carry {
    const char *node; /* its id */
    const char *method, *target;
    const struct node_header *headers;
    size_t header_count;
    uint64_t length; /* of the body; UINT64_MAX: not known */
    void *ctx;
    /* Up to len bytes of the body; 0 at its end, below 0: it broke off. */
    ssize_t (*read)(void *ctx, void *bytes, size_t len);
    /* The head of the answer, then its bytes. Not 0: the client has left.
     * length: UINT64_MAX when not known. */
    int (*head)(void *ctx, unsigned status, const struct node_header *headers,
                size_t count, uint64_t length);
    int (*write)(void *ctx, const void *bytes, size_t len);
    bool (*left)(void *ctx);
};
/* Blocks until the answer is complete. *ret_sent: the other node may have seen
 * something of it, so it must not be sent again. ERR_UNAVAILABLE. */
int node_carry(struct nodes *n, const struct node_carry *carry, bool *ret_sent,
               struct error *err);

#endif
