/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Approvals: what policy said "ask" about waits here for a person. Each has a
 * row from the moment it is asked, so that a restart loses none. It is
 * decided by a principal with the scope "approve" (or admin) that is neither
 * the one who asked nor a token of that one; or it expires, which is a no.
 *
 * An execution that is held runs by itself once it is approved; anything else
 * (a share, a transfer, a network, a secret) is asked again by the client and
 * then finds its grant, which is good once.
 *
 * Others are told by webhooks: signed, in order, tried again with growing
 * pauses for a day.
 */
#ifndef GLOVEBOX_APPROVAL_APPROVAL_H
#define GLOVEBOX_APPROVAL_APPROVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "policy/policy.h"

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

#define APPROVAL_REASON_MAX 500
#define APPROVAL_PAYLOAD_MAX (2u << 20)

struct approval_settings {
    uint32_t expires_s;      /* of one whose rule does not say */
    const char *webhook_url; /* "" none */
    const char *webhook_secret_file;
};

struct approval_info {
    char id[ID_MAX]; /* apr_… */
    char tenant[64];
    enum policy_action action;
    enum approval_state state;
    char asked_by[ID_MAX];
    char session[ID_MAX], object[ID_MAX]; /* object: exec_… of a held one */
    char summary[512];                    /* one sentence for the person */
    char rule[POLICY_NAME_MAX];
    int64_t policy_version;
    int64_t asked_at_ms, expires_at_ms, decided_at_ms;
    char decided_by[ID_MAX];
    char reason[APPROVAL_REASON_MAX + 4];
    bool carried_out;
    char *payload; /* JSON: what was asked, whole; owned; NULL in lists */
};
void approval_info_done(struct approval_info *info);
const char *approval_state_name(enum approval_state state);

struct approval_spec {
    const struct actor *who;
    enum policy_action action;
    const char *session, *object; /* or NULL */
    const char *summary;
    const char *payload; /* JSON object; two asks of the same are the same */
    const struct policy_decision *by;
};

/* store, audit: borrowed until close. Starts a thread: expiry, webhooks. */
int approvals_open(const struct approval_settings *settings,
                   struct store *store, struct audit *audit,
                   struct approvals **ret, struct error *err);
void approvals_close(struct approvals *a); /* accepts NULL */
/* Called, on a thread of its own, for each held execution that has been
 * decided and not carried out: at once, and after a restart. 0: done; else it
 * is tried again. Set before the first request. */
typedef int approvals_fn(void *ctx, const struct approval_info *info);
void approvals_on_decided(struct approvals *a, approvals_fn *fn, void *ctx);

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
int approval_withdraw(struct approvals *a, const struct actor *who,
                      const char *id, struct error *err);
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
/* How many wait; for metrics. */
uint64_t approvals_pending(struct approvals *a);

#endif
