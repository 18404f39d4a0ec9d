/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The enforcement point. Code that acts for a client describes the act as a
 * struct govern_request and asks here: may this actor do this to that object,
 * what goes into the audit trail, and does the act wait for a person?
 *
 *   policy/    decides: allow, ask or deny, with the rule and the version
 *   approval/  holds what a person has to approve
 *   govern/    combines the two; the only caller of policy_decide and of
 *              approval_need
 *
 * A request is made by one of the constructors below, so that every field that
 * does not apply has the value policy expects. The caller then adds what is
 * recorded and shown to an approver: object, workspace, summary, details.
 *
 * All functions may be called from any thread, without a lock held and, as
 * govern_enforce and govern_hold write to the store, without a transaction.
 */
#ifndef GLOVEBOX_GOVERN_GOVERN_H
#define GLOVEBOX_GOVERN_GOVERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

struct actor;
struct approval_info;
struct approvals;
struct error;

/* Both are borrowed. policy NULL (unit tests): everything is allowed. */
struct govern {
    struct policy *policy;
    struct approvals *approvals;
};

/* Who acts, and the session it concerns. Everything but the actor is NULL or
 * 0 where no session is involved. Strings are borrowed. */
struct govern_scope {
    const struct actor *actor;
    const char *session, *pool, *runtime;
    const char *network; /* "none", "allowlist", "open" */
    int64_t pinned;      /* policy version the session was made under */
};

#define GOVERN_DETAILS_MAX 8

/* One member of the JSON object that an approver sees, and that tells whether
 * two requests are the same. Borrowed. */
struct govern_detail {
    const char *name, *text;
    bool json; /* text is a JSON value, not a string */
};

struct govern_request {
    struct policy_request ask; /* what the rules see */
    int64_t pinned;
    const char *object;    /* id that is recorded; NULL: the session */
    const char *workspace; /* approvers bound to another may not decide */
    const char *summary;   /* one sentence: "put x into ws_…" */
    struct govern_detail details[GOVERN_DETAILS_MAX];
    size_t detail_count;
};

/* ---- constructors ------------------------------------------------------- */

struct govern_request govern_execute(const struct govern_scope *scope,
                                     const char *language, size_t code_bytes,
                                     uint32_t timeout_s,
                                     uint64_t output_bytes);
/* A program of ours that runs in the session: a search in its files, or a
 * report. Neither has code of the client's. */
struct govern_request govern_search(const struct govern_scope *scope,
                                    uint32_t timeout_s, uint64_t output_bytes);
struct govern_request govern_report(const struct govern_scope *scope,
                                    uint32_t timeout_s, uint64_t output_bytes);
struct govern_request govern_create_session(const struct govern_scope *scope);
/* POLICY_HIBERNATE, POLICY_UNDO or POLICY_BRANCH. */
struct govern_request govern_memory(const struct govern_scope *scope,
                                    enum policy_action action);
/* mime NULL or "": the type that follows from the path. bytes -1: unknown. */
struct govern_request govern_file_in(const struct govern_scope *scope,
                                     const char *path, const char *mime,
                                     int64_t bytes);
struct govern_request govern_file_out(const struct govern_scope *scope,
                                      const char *path, const char *mime,
                                      int64_t bytes);
/* path NULL: a whole workspace, or a member of it. */
struct govern_request govern_share(const struct govern_scope *scope,
                                   const char *path);
struct govern_request govern_transfer(const struct govern_scope *scope);
/* host NULL: a network that names no destination. */
struct govern_request govern_network(const struct govern_scope *scope,
                                     const char *host, int port);
struct govern_request govern_secret(const struct govern_scope *scope,
                                    const char *host, const char *secret);
/* One connection that a session's code tries to open. method, url_path: of
 * plain or inspected HTTP, else NULL. */
struct govern_request govern_connect(const struct govern_scope *scope,
                                     const char *host, int port,
                                     const char *method, const char *url_path);
/* One package file that a session's code tries to install from a host. */
struct govern_request govern_package(const struct govern_scope *scope,
                                     const char *host, int port,
                                     const char *package, const char *version,
                                     const char *sha256);

/* A named agent, or a tool of a workspace, is made, changed or deleted. */
struct govern_request govern_agent(const struct govern_scope *scope);
struct govern_request govern_tool(const struct govern_scope *scope,
                                  const char *language, size_t code_bytes);

/* A change of the policy, of keys, quotas or secrets; see govern_four_eyes.
 */
struct govern_request govern_change(const struct actor *actor);

/* Adds a detail; nothing if the text is NULL or "". */
void govern_add(struct govern_request *rq, const char *name, const char *text);
void govern_add_json(struct govern_request *rq, const char *name,
                     const char *json);

/* ---- asking ------------------------------------------------------------- */

/* No policy was ever put, so that every request would be allowed. */
bool govern_idle(const struct govern *g);

/* The decision alone: nothing is recorded, nothing is held. A file's type is
 * what the client says; where its name implies another, the stricter decision
 * of the two counts. A package that no rule names is denied. */
void govern_decide(const struct govern *g, const struct govern_request *rq,
                   struct policy_decision *ret);
/* Every check of policy behind that decision, for evidence; returns how many.
 * What govern_decide adds for files and packages is no check of a rule. */
size_t govern_checks(const struct govern *g, const struct govern_request *rq,
                     struct policy_check ret[POLICY_CHECKS_OF]);
/* The decision was made by a rule, not by a default. */
bool govern_by_rule(const struct policy_decision *d);
/* Writes the decision to the audit trail. */
void govern_record(const struct govern *g, const struct govern_request *rq,
                   const struct policy_decision *d);

/* Decides and records. 0: go on. ERR_FORBIDDEN: denied. ERR_APPROVAL: held;
 * the message names the approval, and the same request again succeeds once
 * after a person has approved it. */
int govern_enforce(const struct govern *g, const struct govern_request *rq,
                   struct error *err);
/* The same for a decision that the caller made from several requests. */
int govern_apply(const struct govern *g, const struct govern_request *rq,
                 const struct policy_decision *d, struct error *err);
/* Holds a request that was decided and recorded before: as govern_enforce
 * does after "ask". */
int govern_hold(const struct govern *g, const struct govern_request *rq,
                const struct policy_decision *d, struct error *err);
/* Holds a change until another principal has approved it: the same request
 * again then succeeds once. Policy is not consulted, so that no rule can
 * exempt its own change or lock administrators out. */
int govern_four_eyes(const struct govern *g, const struct govern_request *rq,
                     struct error *err);
/* Holds an act that the service itself carries out after the approval, such
 * as an execution. payload: all that is needed for it, a JSON object. */
int govern_hold_payload(const struct govern *g,
                        const struct govern_request *rq,
                        const struct policy_decision *d, const char *payload,
                        struct approval_info *ret, struct error *err);

#endif
