/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/session/network*.c: what a session's code may reach.
 *
 *   network.c         request, show, change, attach to a box
 *   network_spec.c    what may be requested, and what a pool gives
 *   network_json.c    the same as JSON, for doors and for the session's row
 *   network_permit.c  asks policy
 *   network_grant.c   in force: sockets of pid 1, rules and secrets to the
 *                     proxy, environment into the box; and withdrawn
 *   network_report.c  reports and questions of the proxy; the work queues
 *   network_renew.c   grants checked and made again
 *
 * struct session_net.lock is taken before all locks of session_int.h but
 * pools.change_lock: it is held over calls of the proxy and of pid 1. A box
 * that is attached has what `want` says, or nothing (E4).
 */
#ifndef GLOVEBOX_SESSION_NETWORK_INT_H
#define GLOVEBOX_SESSION_NETWORK_INT_H

#include <stdatomic.h>

#include "session/session_int.h"

#define NETWORK_PACKAGES_MAX 500u /* remembered of one session */
#define NETWORK_PENDING_MAX 32u   /* told between executions */
/* Where pip finds the proxy's own index. */
#define NETWORK_INDEX_HOST "packages.glovebox"
#define NETWORK_INDEX_URL "http://" NETWORK_INDEX_HOST "/simple/"
#define NETWORK_BUCKETS 256u
#define NETWORK_QUESTIONS_MAX 1024u
#define NETWORK_LINES_MAX 200u /* of the trail, of one session in a window */
#define NETWORK_LINES_MS 10000u

struct egress_report;
struct policy_decision;

struct session_net {
    struct mutex lock;
    struct session_network_info want; /* lock, and networks.lock to replace;
                                         counters are those below */
    struct box *box;                  /* lock: attached, referenced */
    uint64_t handle;                  /* lock, and networks.lock to write */
    bool taken; /* lock: pid 1 was told that its sockets are in use */

    _Atomic int mode;   /* of want */
    atomic_bool wanted; /* want is more than nothing */
    atomic_bool void_;  /* the proxy that had the grant is gone */
    atomic_uint_least64_t bytes_used, requests_used;
    atomic_bool dirty; /* the row does not know all of this */
    /* networks.lock: */
    struct session_net *next; /* of the bucket */
    struct session *session;  /* borrowed while in the table */
    struct arena *packages_room;
    struct session_package *packages;
    size_t package_count;
    struct net_pending *pending;
    unsigned pending_count;
    uint64_t window_ms; /* of lines in the trail */
    uint32_t lines, unlisted;
};

/* Something the proxy told of while nothing ran. */
struct net_pending {
    struct net_pending *next;
    struct exec_connection c; /* strings in room */
    char room[];
};

struct net_job {
    struct net_job *next;
    struct session *session;        /* referenced */
    struct egress_report *question; /* owned; NULL: look at its grant */
};

struct net_worker {
    struct sessions *m;
    struct thread thread;
    struct cond cond; /* with networks.lock */
    struct net_job *first, *last;
    unsigned count;
};

struct session_networks {
    struct sessions *m;
    struct mutex lock; /* a leaf */
    bool stopping;
    uint64_t next_handle;
    struct session_net *buckets[NETWORK_BUCKETS];
    struct net_worker answers, grants;
    bool again, all; /* lock: look at grants that failed; at all of them */
    int64_t policy_version; /* grants.thread only */
};

/* ---- network_spec.c ----------------------------------------------------- */

/* A copy of its own, checked and canonical. */
int network_spec_check(const struct session_network *net,
                       const struct conf_pool *pool,
                       struct session_network_info *ret, struct error *err);
/* A copy as it is. */
void network_spec_copy(const struct session_network_info *from,
                       struct session_network_info *ret);
/* Everything `inner` allows `outer` allows too, secrets aside. */
bool network_spec_within(const struct session_network *outer,
                         const struct session_network *inner);
/* Only more than before: what goes on may go on. */
bool network_spec_wider(const struct session_network *before,
                        const struct session_network *after);
/* The ports a destination means; returns how many. */
size_t network_spec_ports(const struct session_destination *d,
                          uint16_t ret[SESSION_PORTS_MAX]);
/* "GET,HEAD" as bits of enum egress_method; UINT32_MAX for nonsense. */
uint32_t network_spec_methods(const char *methods);

/* ---- network_spec.c ----------------------------------------------------- */

/* What the pool's settings give its sessions. */
int network_pool_read(const struct conf_pool *pool,
                      struct session_network_info *ret, struct error *err);

/* May the actor give a pool that network? ctx: struct sessions. ERR_INVALID
 * for malformed destinations. For pools_put. */
int network_pool_permit(void *ctx, const struct actor *who,
                        const struct conf_pool *pool, struct error *err);

/* ---- network_json.c ----------------------------------------------------- */

/* The row's text, with networks.lock held; owned by caller. */
char *network_json_text(struct session_net *net,
                        const struct session_network_info *want);
/* And back; what is damaged is no network, and why. */
void network_json_load(const char *text, struct session_net *net);

/* ---- network_permit.c --------------------------------------------------- */

struct network_ask {
    struct sessions *m;
    const struct actor *who;
    const struct conf_pool *pool;
    const char *runtime;
    const char *session; /* NULL: it is being made */
    int64_t pinned;
    bool of_pool; /* nobody asked: the pool has it so */
};

/* 0, and net->permitted; or ERR_FORBIDDEN, ERR_APPROVAL, ERR_NOT_FOUND (a
 * secret), ERR_INVALID (one that is not for that destination). */
int network_permit(const struct network_ask *ask,
                   struct session_network_info *net, struct error *err);
/* Of one that was permitted: is it still? */
int network_permit_again(const struct network_ask *ask,
                         const struct session_network_info *net,
                         struct error *err);

/* ---- network_grant.c ---------------------------------------------------- */

/* All with net->lock held. Puts want in force in the attached box; on failure
 * it has no network, and want.problem says why. */
int network_grant(struct session *se, struct error *err);
/* The same where only more is allowed than before: nothing is cut. */
int network_grant_more(struct session *se, struct error *err);
void network_revoke(struct session *se);

/* ---- network_report.c -----------------------------------------------------
 */

void network_work_question(struct session *se, const struct egress_report *r);
/* Its grant is to be looked at again. */
void network_work_look(struct session *se);
/* So are those that failed. */
void network_work_retry(struct session_networks *n);
/* With networks.lock held: the same; and the next there is to do, or NULL. */
void network_work_again(struct session_networks *n);
struct net_job *network_work_take(struct net_worker *w);
void network_work_free(struct net_job *job);

/* ---- network_report.c, network_renew.c  -------------------------------- */

void network_answers_main(void *worker);
void network_renew_main(void *worker);
/* The proxy is gone, and every grant with it. */
void network_renew_lost(void *ctx);
/* A secret was changed or removed: who carries it gets the new one, or loses
 * its network; before the call that changed it returns. */
void network_renew_secret(void *ctx, const char *tenant, const char *name);

/* ---- network_report.c: on the proxy link's thread ----------------------- */

void network_report(void *ctx, const struct egress_report *r);
/* The session that has the handle, referenced, or NULL. */
struct session *network_report_find(struct session_networks *n,
                                    uint64_t handle);
/* A fresh handle for the session, which can be found by it; and no more. */
void network_report_enter(struct session *se);
void network_report_leave(struct session *se);

#endif
