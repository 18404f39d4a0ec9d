/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Approvals: requests for which policy decided "ask" wait here for a person.
 * Each is a row in the store from the start, so a restart loses none. A
 * principal with the scope "approve" (or admin) decides; it must not be the
 * requester or a token of the requester's key. A request that expires is
 * denied.
 *
 * A held execution starts by itself once it is approved, and at most once: the
 * store records the start before the execution begins. If the service stops in
 * between, the next start marks it "lost", shows it, and never runs it again.
 * For anything else (a share, a transfer, a network, a secret) the client
 * repeats its request, which then finds the grant. A grant can be used once,
 * and is valid for as long as the request could have waited.
 *
 * Webhooks notify other systems: signed, in order, and repeated with growing
 * pauses for a day.
 *
 *   rows.c      the SQL of approvals; the one place that changes a state
 *   request.c   creates requests and uses grants
 *   decide.c    approves and denies
 *   list.c      queries
 *   worker.c    the thread for expiry, held executions and removal (forget.c)
 *   webhook.c   stores deliveries; post.c is the thread that sends them
 *
 * Any thread may call.
 */
#ifndef GLOVEBOX_APPROVAL_APPROVAL_H
#define GLOVEBOX_APPROVAL_APPROVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "policy/policy.h"

struct api_resource;
struct actor;
struct approvals;
struct audit;
struct error;
struct store;

enum approval_state {
    APPROVAL_PENDING,
    APPROVAL_APPROVED,
    APPROVAL_DENIED,
    APPROVAL_EXPIRED,
    APPROVAL_WITHDRAWN /* by who asked, or its session is gone */
};

/* How far the carrying out of an execution, or the use of a grant, is. */
enum approval_run {
    APPROVAL_RUN_NONE,
    APPROVAL_RUN_TAKEN,  /* begun */
    APPROVAL_RUN_DONE,   /* ended; or the grant is used up */
    APPROVAL_RUN_FAILED, /* could not be begun: outcome says why */
    APPROVAL_RUN_LOST,   /* the service ended in between */
};

#define APPROVAL_REASON_MAX 500
#define APPROVAL_PAYLOAD_MAX (2u << 20)
/* Of one tenant, waiting: */
#define APPROVAL_PENDING_MAX 1000u
#define APPROVAL_PENDING_BYTES (64u << 20)

struct approval_settings {
    uint32_t expires_s;      /* of one whose rule does not say */
    const char *webhook_url; /* "" none; https, or http of loopback */
    const char *webhook_secret_file;
    const char *public_url;  /* of the service; "" or NULL: not known */
    uint32_t keep_days;      /* settled ones; 0 forever */
    bool forget_payload;     /* as soon as one is settled */
    int64_t (*now_ms)(void); /* NULL: the clock */
    bool still;              /* no threads: tests call approvals_work */
};

struct approval_info {
    char id[ID_MAX]; /* apr_… */
    char tenant[64];
    enum policy_action action;
    enum approval_state state;
    char asked_by[ID_MAX], asked_by_name[64]; /* a name may be "" */
    char pool[64], workspace[ID_MAX];
    char session[ID_MAX],
        object[ID_MAX]; /* object: what it is about; exec_… of a held one */
    char summary[512];  /* one sentence for the person */
    char rule[POLICY_NAME_MAX];
    int64_t policy_version;
    int64_t asked_at_ms, expires_at_ms, decided_at_ms;
    char decided_by[ID_MAX], decided_by_name[64];
    char reason[APPROVAL_REASON_MAX + 4];
    enum approval_run run;
    char outcome[320]; /* of what was carried out, or why not */
    char *payload;     /* JSON: what was asked, whole, but without code once it
                          is settled and carried out; owned; NULL in lists, and
                          once nothing of it need be kept */
};
void approval_info_done(struct approval_info *info);
const char *approval_state_name(enum approval_state state);
int approval_state_parse(const char *name); /* -1: none of them */
const char *approval_run_name(enum approval_run run);
/* Carried out by the service once it is approved; any other request is
 * repeated by the client. */
bool approval_is_execution(enum policy_action action);
/* How all doors and webhooks show it: without the payload. */
extern const struct api_resource approval_resource;

struct approval_spec {
    const struct actor *who;
    enum policy_action action;
    const char *session, *object; /* or NULL */
    /* A principal that is bound to other pools or workspaces may not decide.
     * NULL: no bound principal may. */
    const char *pool, *workspace;
    const char *summary;
    const char *payload; /* JSON object; two asks of the same are the same */
    const struct policy_decision *by;
};

/* store, audit: borrowed until close. Starts a thread: expiry, webhooks. */
int approvals_open(const struct approval_settings *settings,
                   struct store *store, struct audit *audit,
                   struct approvals **ret, struct error *err);
void approvals_close(struct approvals *a); /* accepts NULL */
/* Ends the threads; nothing is called any more. Accepts NULL. */
void approvals_stop(struct approvals *a);
/* Once at the start: held executions whose session gone() says
 * is no more (an ephemeral one, after a restart) are ended, and their code is
 * dropped. a NULL: nothing. */
int approvals_end_gone(struct approvals *a,
                       bool (*gone)(void *ctx,
                                    const struct approval_info *info),
                       void *ctx, struct error *err);
/* Called, on the thread of worker.c, for each held execution that has been
 * decided and not carried out: at once, and after a restart. 0: it is begun,
 * and approval_ran says how it ended; else it was not, and is tried again. */
typedef int approvals_fn(void *ctx, const struct approval_info *info);
/* False: another node that shares the store has the session, and carries the
 * execution out. NULL: always true. */
typedef bool approvals_mine_fn(void *ctx, const struct approval_info *info);
void approvals_on_decided(struct approvals *a, approvals_fn *fn,
                          approvals_mine_fn *mine, void *ctx);
/* Notified with each decision; then approvals_decided wakes the worker. */
#define APPROVAL_CHANNEL "approvals"
void approvals_decided(struct approvals *a); /* accepts NULL */
/* rc 0: it ended so. ERR_BUSY, ERR_LIMIT, ERR_UNAVAILABLE: nothing has run,
 * and it is tried again for an hour. Anything else: it cannot be. */
void approval_ran(struct approvals *a, const char *id, int rc,
                  const char *outcome);

/* Holds it. */
int approval_ask(struct approvals *a, const struct approval_spec *spec,
                 struct approval_info *ret, struct error *err);
/* For what the client repeats: 0 and used up if it has been approved; else
 * holds it (or finds it held) and gives ERR_APPROVAL, whose message names the
 * id; ERR_FORBIDDEN if it has been denied within the last hour. */
int approval_need(struct approvals *a, const struct approval_spec *spec,
                  struct error *err);
/* ERR_FORBIDDEN for the requester itself; ERR_CONFLICT when it is settled. */
int approval_decide(struct approvals *a, const struct actor *who,
                    const char *id, bool yes, const char *reason,
                    struct approval_info *ret, struct error *err);
/* By who asked alone. ERR_CONFLICT when it is settled. */
int approval_withdraw(struct approvals *a, const struct actor *who,
                      const char *id, struct error *err);
/* Withdraws the requests of a deleted session. fn gets each with its payload;
 * they are not carried out any more. */
void approval_withdraw_session(
    struct approvals *a, const struct actor *who, const char *session,
    void (*fn)(void *ctx, const struct approval_info *info), void *ctx);
/* Withdraws the requests of a revoked key or token, and of its tokens. */
void approval_withdraw_key(struct approvals *a, const char *tenant,
                           const char *key);
/* One may see those one asked for; with the scope, all of the tenant. */
int approval_get(struct approvals *a, const struct actor *who, const char *id,
                 struct approval_info *ret, struct error *err);
/* The held execution's, by exec_… */
int approval_of(struct approvals *a, const struct actor *who,
                const char *object, struct approval_info *ret,
                struct error *err);
/* Newest first; state -1: any. Owned by caller, each done. */
int approval_list(struct approvals *a, const struct actor *who, int state,
                  unsigned limit, const char *after,
                  struct approval_info **ret, size_t *ret_count,
                  bool *ret_more, struct error *err);
struct approval_delivery {
    unsigned number;
    char type[32];
    const char *state;         /* "waiting", "delivered", "given_up" */
    unsigned attempts, status; /* HTTP; 0: no answer yet */
    char error[160];
    int64_t at_ms, next_at_ms, done_at_ms; /* 0: not, or no more */
};
/* Of one the actor may see; in order, owned by caller (free). */
int approval_deliveries(struct approvals *a, const struct actor *who,
                        const char *id, struct approval_delivery **ret,
                        size_t *ret_count, struct error *err);
/* How many wait; for metrics. */
uint64_t approvals_pending(struct approvals *a);

#endif
