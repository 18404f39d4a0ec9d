/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy: may this principal do this to that object, now? A policy is one YAML
 * text with rules for all, for single pools and for single tenants. In each of
 * these layers the first rule that matches decides, otherwise the layer's
 * default. The strictest layer wins: deny over ask over allow, and the smaller
 * limit. Every text that was ever in force is stored as a numbered version,
 * and
 * every decision names the rule and the version that made it.
 *
 * If no policy can be loaded, every decision is "deny". A session stays bound
 * to the version it was created under: a later version can tighten its rules,
 * but loosens them only after a principal with the right adopts it
 * (policy_decide takes the stricter of the two).
 *
 * Any thread may call.
 */
#ifndef GLOVEBOX_POLICY_POLICY_H
#define GLOVEBOX_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

struct api_resource;
struct actor;
struct audit;
struct buf;
struct error;
struct policy;
struct store;

/* What a request is about to do; names as in the YAML. */
enum policy_action {
    POLICY_EXECUTE,  /* "execute": run code */
    POLICY_SESSION,  /* "session": make a session */
    POLICY_FILE_IN,  /* "file.in": bring a file, by any door */
    POLICY_FILE_OUT, /* "file.out": fetch a file, by any door */
    POLICY_EGRESS,   /* "egress": give a session a network */
    POLICY_CONNECT,  /* "connect": one destination of a session's code */
    POLICY_PACKAGE,  /* "package": install one */
    POLICY_SHARE,    /* "share": make a link, or a member */
    POLICY_TRANSFER, /* "transfer": give a workspace away */
    POLICY_SECRET,   /* "secret": let a session's traffic carry one */
    /* Kinds of "execute" that run a program of ours, not the client's code; a
     * rule about "execute" covers them, too. Their numbers are in the schema
     * of the store (approvals). */
    POLICY_SEARCH, /* "search": search in a session's files */
    POLICY_REPORT, /* "report": make a PDF of a text */
    POLICY_AGENT,  /* "agent": make, change or delete a named agent */
    POLICY_TOOL,   /* "tool": save or delete a tool of a workspace */
    /* What clients do with the memory of a session. */
    POLICY_HIBERNATE, /* "hibernate": write it to the disk, when told to */
    POLICY_UNDO,      /* "undo": undo or redo executions */
    POLICY_BRANCH,    /* "branch": make sessions that continue from it */
    POLICY_ACTIONS,
    /* Of approvals only, and of no rule: a change that is held under
     * `four_eyes`. Kept in rows. */
    POLICY_CHANGE = 100
};

/* In order of strictness. */
enum policy_verdict {
    POLICY_ALLOW,
    POLICY_ASK,
    POLICY_DENY
};

/* NULL, 0 or -1 where it does not apply; a rule that asks about something
 * that does not apply does not match. Strings are borrowed. */
struct policy_request {
    enum policy_action action;
    const struct actor *who; /* tenant, scopes, door, tool */
    const char *session, *pool, *runtime;
    const char *language; /* a name of language.h */
    int64_t code_bytes;   /* -1: none */
    int64_t timeout_s;
    int64_t output_bytes;
    const char *network;           /* "none", "allowlist", "open" */
    const char *host;              /* canonical: see egress/host.h */
    int port;                      /* 0: none */
    const char *method, *url_path; /* of plain or inspected HTTP */
    const char *package, *version, *sha256;
    const char *file; /* its path */
    const char *mime;
    int64_t file_bytes; /* -1: not known */
    const char *secret; /* its name */
    int64_t at_ms;      /* 0: now */
};

#define POLICY_NAME_MAX 64
#define POLICY_REASON_MAX 256

struct policy_decision {
    enum policy_verdict verdict;
    char rule[POLICY_NAME_MAX];      /* its name; "default", or "unloadable" */
    char layer[POLICY_NAME_MAX + 8]; /* "global", "pool:x", "tenant:y" */
    char reason[POLICY_REASON_MAX];  /* the rule's own words, or "" */
    int64_t version;                 /* 0: no policy was ever put */
    int64_t timeout_s,
        output_bytes;   /* caps of the rules that matched; 0 none */
    uint32_t expires_s; /* of an ask; 0: the service's */
};

struct policy_settings {
    const char *file; /* read at the start and by policy_reload; "" none */
    const char *zone; /* of "hours" and "days"; "" is UTC */
};

/* store, audit: borrowed until close. A file that is named and cannot be read
 * or understood: 0, and everything is denied until a reload works; the log,
 * policy_state and the doctor say why. */
int policy_open(const struct policy_settings *settings, struct store *store,
                struct audit *audit, struct policy **ret, struct error *err);
void policy_close(struct policy *p); /* accepts NULL */

/* Never fails: what cannot be decided is denied. p NULL (unit tests): allow.
 * So is what the service does for itself (its index reads documents).
 * pinned: the version the session was made under; 0: only the newest. */
void policy_decide(struct policy *p, int64_t pinned,
                   const struct policy_request *rq,
                   struct policy_decision *ret);
/* What one layer of one version said about a request. */
struct policy_check {
    enum policy_action action;
    char about[160]; /* "example.org:443", "numpy 2.1.0"; "" the code itself */
    enum policy_verdict verdict;
    char rule[POLICY_NAME_MAX];
    char layer[POLICY_NAME_MAX + 8];
    int64_t version;
};
#define POLICY_CHECKS_OF 6 /* three layers, of the newest and the pinned */
/* Every check behind policy_decide's answer; returns how many. Without a
 * policy there are none. */
size_t policy_checks(struct policy *p, int64_t pinned,
                     const struct policy_request *rq,
                     struct policy_check ret[POLICY_CHECKS_OF]);
/* In the trail, with the rule and the version; what the default allowed, only
 * where `always`. object: the id it is about. */
void policy_record(struct policy *p, const struct policy_request *rq,
                   const struct policy_decision *d, const char *object,
                   bool always);
/* As an error: ERR_FORBIDDEN naming rule and version; 0 for allow. An ask is
 * the caller's to hold (approval/). */
int policy_refuse(const struct policy_decision *d, struct error *err);

const char *policy_action_name(enum policy_action action);
const char *policy_verdict_name(enum policy_verdict verdict);

/* ---- versions ----------------------------------------------------------- */

#define POLICY_TEXT_MAX (256u << 10)

struct policy_version {
    int64_t number;
    int64_t at_ms;
    char by[ID_MAX]; /* a key, or "file" */
    char sha256[65];
    char note[132];
    char *text; /* owned; NULL in lists */
};
void policy_version_done(struct policy_version *v);

struct policy_state {
    int64_t version; /* in force; 0: none was ever put */
    bool loaded;     /* false: everything is denied */
    char problem[320];
};
void policy_state(struct policy *p, struct policy_state *ret);
int64_t policy_current(struct policy *p);
/* Nothing was ever put, so that everything is allowed. */
bool policy_idle(struct policy *p);

/* Checks, keeps and puts in force; the same text again is the same version.
 * ERR_INVALID with line and hint, and then nothing has changed. ERR_CONFLICT
 * where the policy is a file. */
int policy_put(struct policy *p, const struct actor *who, const char *text,
               size_t len, const char *note, struct policy_version *ret,
               struct error *err);
/* The file again. On failure everything is denied. */
/* The newest version of the store, after another node has put one; the
 * notification is on this channel. Versions that this node has already, and
 * nodes whose policy is a file, stay as they are. */
#define POLICY_CHANNEL "policy"
int policy_follow(struct policy *p, struct error *err);
int policy_reload(struct policy *p, struct error *err);
/* number 0: the one in force. */
int policy_get(struct policy *p, int64_t number, struct policy_version *ret,
               struct error *err);
/* Newest first, below `before` (0: all); owned by caller, each done. */
int policy_list(struct policy *p, unsigned limit, int64_t before,
                struct policy_version **ret, size_t *ret_count, bool *ret_more,
                struct error *err);

/* ---- looking at one ----------------------------------------------------- */

/* Pure; the command line uses these without a service. */
int policy_check(const char *text, size_t len, struct error *err);
struct json_writer;
/* The fields of a decision, into an open object. */
void policy_explain_decision(struct json_writer *w,
                             const struct policy_decision *d);
/* Of `hours` and `days`, for the whole process; "" is UTC. ERR_INVALID for
 * one that is not known. */
int policy_zone_set(const char *zone, struct error *err);
/* Tests of a policy as data (docs/POLICY.md): fn is called for each case, why
 * NULL where it is as expected. policy NULL: the cases' own. */
typedef void policy_cases_fn(void *ctx, unsigned line, const char *name,
                             const char *why);
int policy_cases_run(const char *policy, size_t policy_len, const char *text,
                     size_t len, policy_cases_fn *fn, void *ctx,
                     struct error *err);
/* What would happen to a request and why, as JSON: the decision, and for each
 * layer each rule with what of it matched or did not. text NULL: p's own. */
int policy_explain(struct policy *p, int64_t pinned, const char *text,
                   size_t len, const struct policy_request *rq,
                   struct buf *ret_json, struct error *err);
/* From {"action": "execute", "language": "shell", "at": "2026-01-31T23:00Z",
 * "tenant": …, "scopes": […], …}; strings live as long as the JSON, to which a
 * host may be added. ret_who: who it is if the object does not say. */
struct json_t;
extern const struct api_resource policy_request_resource;
int policy_request_read(struct json_t *object, struct policy_request *ret,
                        struct actor *ret_who, struct error *err);
/* Both at once, of a text: what would happen to the request, and why. */
int policy_explain_request(const char *text, size_t len, struct json_t *object,
                           struct buf *ret_json, struct error *err);

#endif
