/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks: what the code of a session may reach. Nothing, unless it is
 * granted; then only through the proxy (egress/). Runs in gloveboxd.
 *
 *   network.c  one network: planned, loaded, shown, changed, attached
 *   spec.c     which networks may be requested; pools; JSON
 *   permit.c   asks policy whether a network may be had
 *   grant.c    puts a network in force in a sandbox, and withdraws it
 *   worker.c   the threads: answers to the proxy, renewal of grants
 *   report.c   reports of the proxy: counted, listed, audited
 *
 * The module knows no session. A network holds copies of the ids of its
 * session, and while an execution runs a callback that gets its connections.
 * Any thread may call.
 */
#ifndef GLOVEBOX_NETWORK_NETWORK_H
#define GLOVEBOX_NETWORK_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

struct actor;
struct api_resource;
struct arena;
struct box;
struct conf;
struct conf_pool;
struct core;
struct egress_link;
struct error;
struct json_t;
struct json_writer;
struct network;
struct networks;
struct policy_check;
struct pool;
struct store_tx;

/* ---- what may be reached ------------------------------------------------ */

#define NETWORK_DESTINATIONS_MAX 100u
#define NETWORK_PORTS_MAX 8

struct network_destination {
    const char *host;                  /* "example.org", "*.example.org" */
    uint16_t ports[NETWORK_PORTS_MAX]; /* 0: end; none: 80 and 443 */
    const char *methods;               /* "GET,HEAD"; NULL: any */
    const char *path;                  /* a prefix; NULL: any */
    const char *secret;                /* of vault/; NULL: none */
    bool inspect; /* the proxy decrypts TLS, under a certificate authority of
                     this session's own; needed for methods, path or secret
                     on https */
};

struct network_spec {
    enum session_egress mode;
    const struct network_destination *destinations;
    size_t destination_count;
    bool packages;  /* pip may install what policy allows */
    uint64_t bytes; /* budgets; 0: the pool's */
    uint32_t connections, requests;
};

/* A package that pip installed; listed as long as the session is kept. */
struct network_package {
    const char *name, *version, *sha256;
    int64_t at_ms;
};

struct network_info {
    struct network_spec net; /* hosts are canonical */
    bool granted;            /* in force now */
    char problem[200];       /* why it is not, though it should be; or "" */
    uint64_t bytes_used, requests_used;
    const struct network_package *installed;
    size_t installed_count;
    int64_t permitted;  /* the policy version that allowed it */
    struct arena *room; /* holds the strings and lists */
};
void network_info_done(struct network_info *info);

/* A connection that code made, or tried to make. */
struct network_connection {
    int64_t at_ms;
    const char *what; /* "connect", "resolve", "http", "tunnel", "package" */
    const char *host;
    uint16_t port;
    bool allowed;
    const char *method, *path; /* "" none */
    const char *reason;        /* of a refusal */
    uint32_t count;
    uint64_t bytes_out, bytes_in;
};

/* {"mode": …, "destinations": […], …} and back. Checks shapes only. room:
 * borrowed, holds what ret points to. */
extern const struct api_resource network_resource,
    network_destination_resource;
int network_spec_read(const struct json_t *object, struct arena *room,
                      struct network_spec *ret, struct error *err);
/* Its fields, into an open object. */
void network_spec_write(struct json_writer *w, const struct network_spec *net);

/* ---- the module --------------------------------------------------------- */

struct networks_parts { /* all borrowed until networks_close */
    const struct conf *conf;
    const struct core *core;
    struct egress_link *egress; /* NULL: no network can be put in force */
};

/* Checks the settings of configured pools, listens to the proxy and the vault,
 * starts two threads. On failure *ret is set too, to be closed. */
int networks_open(const struct networks_parts *parts, struct networks **ret,
                  struct error *err);
void networks_stop(struct networks *n);  /* accepts NULL */
void networks_close(struct networks *n); /* after stop; accepts NULL */
/* May the actor give a pool that network? ctx: struct networks. ERR_INVALID
 * for malformed destinations. For pools_put. */
int network_pool_permit(void *ctx, const struct actor *who,
                        const struct conf_pool *pool, struct error *err);

/* ---- one network -------------------------------------------------------- */

/* A new network, if policy allows it. asked NULL: the pool's. ret: referenced.
 */
int network_plan(struct networks *n, const struct actor *who,
                 const struct network_spec *asked, struct pool *pool,
                 const char *runtime, struct network **ret, struct error *err);
/* A network from the text of a session's row; referenced. Damaged text gives
 * no network, with the problem set. */
struct network *network_load(struct networks *n, const char *text);
void network_unref(struct network *net); /* accepts NULL */

/* The session that a network is for. Copied, the pool is referenced. */
struct network_owner {
    const char *session, *workspace, *tenant;
    const char *key; /* the principal that made it */
    bool admin;
    struct pool *pool;
    const char *runtime;
    int64_t policy_version;
};
/* Once, before the network is attached, shown or changed. */
void network_bind(struct network *net, const struct network_owner *owner);
/* The session has adopted another policy version. */
void network_set_policy(struct network *net, int64_t version);
/* Logs and audits a network that reaches everything. */
void network_announce(struct network *net, const struct actor *who);

enum session_egress network_mode(const struct network *net);
/* Hosts of an allow list, separated by commas; NULL: not an allow list. Owned
 * by caller. */
char *network_hosts(struct network *net);
void network_show(struct network *net, struct network_info *ret);
/* For the session's row; owned by caller. May be called in a transaction. */
char *network_text(struct network *net);
/* True once after usage has changed: the row is out of date. */
bool network_take_dirty(struct network *net);

/* Writes the text into the session's row, in the transaction of the audit
 * event. */
typedef int network_save_fn(void *ctx, struct store_tx *tx, const char *text,
                            struct error *err);
/* Checks, permits, saves and puts in force. A network wider than the pool's
 * needs a rule of the policy that allows it, or a key with policy:admin.
 * ERR_APPROVAL: policy requires one. ERR_UNAVAILABLE: it is saved, and cannot
 * be put in force now; until it can, the session has no network. */
int network_change(struct network *net, const struct actor *who,
                   const struct network_spec *spec, network_save_fn *save,
                   void *ctx, struct network_info *ret, struct error *err);

/* The box is the network's from now on, until it is released; call before any
 * code runs in it. On failure no network is in force; the sandbox can be used
 * all the same. */
int network_attach(struct network *net, struct box *box, struct error *err);

/* The execution that runs. Its functions are called with a lock held: the
 * first from the thread of the proxy's link (false: it takes no more), the
 * second from the thread that answers the proxy, with what policy checked. */
typedef bool network_connection_fn(void *ctx,
                                   const struct network_connection *c);
typedef void network_checks_fn(void *ctx, const struct policy_check *checks,
                               size_t count);
struct network_watcher {
    network_connection_fn *on_connection;
    network_checks_fn *on_checks;
    void *ctx;
};
/* Connections that the proxy reports go to the watcher from now on, first
 * those that it reported while nothing ran. watcher: copied. */
void network_begin(struct network *net, const struct network_watcher *watcher);
/* After this returns the watcher's functions are not running and will not be
 * called. */
void network_end(struct network *net);

#endif
