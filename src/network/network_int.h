/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/network/; network.h lists the files.
 *
 * network.lock is held over calls of the proxy and of pid 1, and so is taken
 * before every lock of session/, pool/ and box/. networks.lock protects the
 * tables and is never held over a wait; only a connection callback (and so
 * execution.lock) is called with it. An attached box has what `want` says, or
 * nothing (E4).
 */
#ifndef GLOVEBOX_NETWORK_NETWORK_INT_H
#define GLOVEBOX_NETWORK_NETWORK_INT_H

#include <stdatomic.h>

#include "base/ids.h"
#include "base/thread.h"
#include "box/box.h"
#include "conf/conf.h"
#include "core/core.h"
#include "govern/govern.h"
#include "network/network.h"

#define NETWORK_PACKAGES_MAX 500u /* listed for one session */
#define NETWORK_PENDING_MAX 32u   /* reported between executions */
/* Where pip finds the proxy's own index. */
#define NETWORK_INDEX_HOST "packages.glovebox"
#define NETWORK_INDEX_URL "http://" NETWORK_INDEX_HOST "/simple/"
#define NETWORK_BUCKETS 256u
#define NETWORK_QUESTIONS_MAX 1024u
#define NETWORK_LINES_MAX 200u /* audit events of one session in a window */
#define NETWORK_LINES_MS 10000u

struct egress_report;

struct network {
    atomic_uint refs;
    struct networks *all;
    /* Constant after network_bind: */
    char session[ID_MAX], workspace[ID_MAX], key[ID_MAX];
    char *tenant, *runtime;
    bool admin;
    struct pool *pool; /* referenced */
    _Atomic int64_t policy_version;

    struct mutex lock;
    struct network_info want; /* lock, and networks.lock to replace; counters
                                 are those below */
    struct box *box;          /* lock: attached, referenced */
    uint64_t handle;          /* lock, and networks.lock to write */
    bool taken; /* lock: pid 1 knows that its sockets are in use */

    _Atomic int mode;       /* of want */
    atomic_bool wanted;     /* want is more than nothing */
    atomic_bool proxy_lost; /* the proxy that had the grant is gone */
    atomic_uint_least64_t bytes_used, requests_used;
    atomic_bool dirty; /* the row is out of date */
    /* networks.lock: */
    struct network *next;          /* of the bucket */
    struct network *newer, *older; /* of those with a box */
    struct arena *packages_room;
    struct network_package *packages;
    size_t package_count;
    struct network_watcher watcher; /* zero: nothing runs */
    struct net_pending *pending;
    unsigned pending_count;
    uint64_t window_ms; /* of audit events */
    uint32_t lines, unlisted;
};

/* A connection that the proxy reported while nothing ran. */
struct net_pending {
    struct net_pending *next;
    struct network_connection c; /* strings in room */
    char room[];
};

struct net_job {
    struct net_job *next;
    struct network *net;            /* referenced */
    struct egress_report *question; /* owned; NULL: check its grant */
};

struct net_worker {
    struct networks *all;
    struct thread thread;
    struct cond cond; /* with networks.lock */
    struct net_job *first, *last;
    unsigned count;
};

struct networks {
    const struct conf *conf;
    const struct core *core;
    struct govern govern;
    struct egress_link *egress;
    struct mutex lock;
    bool stopping;
    uint64_t next_handle;
    struct network *buckets[NETWORK_BUCKETS]; /* granted, by handle */
    struct network *attached;                 /* newest first */
    struct net_worker answers, grants;
    bool again, all;        /* lock: check grants that failed; all grants */
    int64_t policy_version; /* grants.thread only */
};

/* ---- network.c ---------------------------------------------------------- */

struct network *network_ref(struct network *net);
/* The actor that a network's session acts for; borrows from it. */
struct actor network_actor(const struct network *net);
/* The network with that handle, referenced, or NULL. */
struct network *network_by_handle(struct networks *n, uint64_t handle);
/* Gives the network a new handle; removes it from the table. */
void network_handle_add(struct network *net);
void network_handle_remove(struct network *net);
/* Networks with a box that are more than nothing, each referenced; the list is
 * owned by caller. granted: those with a handle instead. */
struct network **network_list(struct networks *n, bool granted,
                              size_t *ret_count);

/* ---- spec.c ------------------------------------------------------------- */

/* Returns a separate copy, checked and in canonical form. */
int network_spec_check(const struct network_spec *net,
                       const struct conf_pool *pool, struct network_info *ret,
                       struct error *err);
/* A copy as it is. */
void network_spec_copy(const struct network_info *from,
                       struct network_info *ret);
/* Is everything that `inner` allows allowed by `outer`? Secrets aside. */
bool network_spec_within(const struct network_spec *outer,
                         const struct network_spec *inner);
/* Does the change only add, so that open connections may stay? */
bool network_spec_wider(const struct network_spec *before,
                        const struct network_spec *after);
/* The ports a destination means; returns how many. */
size_t network_spec_ports(const struct network_destination *d,
                          uint16_t ret[NETWORK_PORTS_MAX]);
/* "GET,HEAD" as bits of enum egress_method; UINT32_MAX if malformed. */
uint32_t network_spec_methods(const char *methods);
/* The network that the pool's settings give its sessions. */
int network_pool_read(const struct conf_pool *pool, struct network_info *ret,
                      struct error *err);
/* The row's text, with networks.lock held; owned by caller. */
char *network_json_text(struct network *net, const struct network_info *want);
/* And back. Damaged text gives no network, with the problem set. */
void network_json_load(const char *text, struct network *net);

/* ---- permit.c ----------------------------------------------------------- */

struct network_ask {
    struct networks *all;
    const struct actor *who;
    const struct conf_pool *pool;
    const char *runtime;
    const char *session; /* NULL: it is being created */
    int64_t pinned;
    bool of_pool;  /* not requested: the pool's setting */
    bool for_pool; /* every session of the pool would get it */
};
struct network_ask network_ask_of(const struct network *net,
                                  const struct actor *who);
/* What a request about this network tells govern/. */
struct govern_scope network_scope(const struct network_ask *ask,
                                  enum session_egress mode);

/* 0, and net->permitted; or ERR_FORBIDDEN, ERR_APPROVAL, ERR_NOT_FOUND (a
 * secret), ERR_INVALID (a secret that is not for that destination). */
int network_permit(const struct network_ask *ask, struct network_info *net,
                   struct error *err);
/* Is a network that was permitted still permitted? */
int network_permit_again(const struct network_ask *ask,
                         const struct network_info *net, struct error *err);

/* ---- grant.c ------------------------------------------------------------ */

/* All with network.lock held. Puts want in force in the attached box; on
 * failure it has no network, and want.problem says why. */
int network_grant(struct network *net, struct error *err);
/* The same where only more is allowed than before: nothing is cut off. */
int network_grant_more(struct network *net, struct error *err);
void network_revoke(struct network *net);

/* ---- worker.c ----------------------------------------------------------- */

/* Answers a question of the proxy on the thread "net-answers". */
void network_ask_policy(struct network *net, const struct egress_report *r);
/* Checks its grant on the thread "net-grants". */
void network_check_later(struct network *net);
/* Tries grants that failed again. */
void network_retry_later(struct networks *n);

/* ---- report.c ----------------------------------------------------------- */

/* On the thread of the proxy's link. */
void network_report(void *ctx, const struct egress_report *r);

#endif
