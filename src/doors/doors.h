/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doors: the HTTP APIs of the service, one dialect per subfolder. A door
 * decodes a request into the core's structures, makes one call into the core
 * and encodes the answer. It has no behaviour of its own and includes no other
 * door.
 *
 *   serve.c     the spine that every request takes
 *   dispatch.c  selects the door by the path
 *   routes.c    finds the row in the door's table of routes
 *   forward.c   sends a request to the node that has its session
 *   cookie.c    authentication by the cookie of the web console
 *   fileid.c    the ids of one file at different doors
 *   url.c       URLs of this service in answers
 *   health_metrics.c  /healthz, /readyz, /metrics
 */
#ifndef GLOVEBOX_DOORS_DOORS_H
#define GLOVEBOX_DOORS_DOORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "auth/auth.h"
#include "base/buf.h"
#include "base/error.h"
#include "core/core.h"
#include "http/http.h"

struct agents;
struct chat;
struct conf;
struct execution;
struct govern_request;
struct mcp;
struct mirrors;
struct models;
struct native_live;
struct posture;
struct search;
struct sessions;
struct workspaces;

/* What handlers work with: borrowed, and constant once doors_open returned. */
struct doors {
    const struct conf *conf;
    struct auth *auth;
    struct sessions *sessions;
    struct workspaces *workspaces;
    const struct core *core;
    struct search *search;
    struct agents *agents;
    struct chat *chat;
    struct models *models;
    struct mirrors *mirrors;
    struct disk *disk;
    const struct posture *posture;
    struct nodes *nodes;      /* NULL: this is the only node */
    struct native_live *live; /* of the native door; set by doors_open */
    struct mcp
        *mcp; /* that door's state between requests; set by doors_open */
};

#define DOORS_PARAMS_MAX 4

struct doors_door;
struct doors_route;

/* One request on its way through the spine. */
struct doors_call {
    const struct doors *doors;
    struct http_request *http;
    const struct doors_door *door;
    const struct doors_route *route; /* NULL until found */
    struct principal who;            /* empty on an open route */
    struct actor actor; /* the same for the core; borrows from this */
    bool forwarded;     /* another node received it: it goes no further */
    char unreachable[ID_MAX]; /* a node that could not be connected to */
    bool elsewhere;           /* the handler gave up: it must be forwarded */
    bool console;             /* authenticated by the console's cookie */
    /* What the braces of the pattern matched, decoded once; request's */
    const char *params[DOORS_PARAMS_MAX];
    const char *place[DOORS_PARAMS_MAX]; /* the same of the door's prefix */
    uint64_t started_ns;                 /* by clock_mono_ns */
    void *own; /* what the door notes for its refuse(); the request's */
};

/* Answers and returns 0, or fills err and leaves the answer to the spine. */
typedef int doors_handler_fn(struct doors_call *call, struct error *err);

enum doors_flags {
    DOORS_OPEN = 1 << 0,    /* needs no key */
    DOORS_QUIET = 1 << 1,   /* asked so often that it is logged as debug */
    DOORS_UNGATED = 1 << 2, /* goes on while the trail cannot be written: it
                               only looks or only stops something, or asks
                               doors_need_audit itself */
    DOORS_FREES = 1 << 3,   /* goes on while the disk is full, as what reads or
                               deletes does: it frees space or needs none to
                               speak of */
    /* About the tenant or the service as a whole: not for keys that are bound
     * to a part of it. So is every row that needs one of AUTH_WHOLE, */
    DOORS_TENANT = 1 << 4,
    DOORS_WITHIN = 1 << 5, /* unless it looks at the bounds itself. */
    DOORS_MANAGE = 1 << 6, /* workspaces:admin will do in place of its scope */
    DOORS_STOPS = 1 << 7,  /* stops something: never refused because the tenant
                              is busy. So is every DELETE */
    DOORS_ANY_QUERY = 1 << 8, /* unknown parameters are ignored */
    DOORS_WAITS = 1 << 9, /* comes in bursts: it waits for a thread, without
                             one, where others are refused because the tenant
                             is busy */
};

#define AUTH_WHOLE                                                            \
    (AUTH_ADMIN | AUTH_POLICY_ADMIN | AUTH_AUDIT_READ | AUTH_APPROVE)

/*
 * A row of a door's table.c. Patterns: "{x}" matches one part of the path, a
 * last
 * "{x...}" the rest of it, slashes included. A GET row also serves HEAD.
 * The second half says what /openapi.json tells of it; parameters, headers
 * and schemas are explained by name, once, in native/openapi_*.c.
 */
struct doors_route {
    const char *method;
    const char *pattern;
    doors_handler_fn *handle;
    uint32_t scope;    /* AUTH_* it needs; 0: any valid key */
    unsigned flags;    /* DOORS_* */
    const char *query; /* names of its parameters, space-separated; those
                          it cannot do without end with "!" */

    const char *tag;
    const char *summary;
    const char *headers; /* of the request that matter, space-separated */
    const char *body;    /* a schema's name, ending in "?" when it may be left
                            out; or "bytes" or "form"; NULL: none */
    const char *answers; /* "201 Session, 409": statuses, and what the good
                            ones carry; "[X]" a list of X */
};

struct doors_part { /* of a path, as sent */
    const char *text;
    size_t len;
};

/* A dialect: its paths, its words for a refusal, where it keeps its key. */
struct doors_door {
    const char *name; /* "native", for the log */
    /* Where the door's own part of a path begins, or NULL when the path leads
     * elsewhere; ret: what it found on the way, for call->place. NULL: all
     * that no other door takes. */
    const char *(*enter)(const char *path,
                         struct doors_part ret[DOORS_PARAMS_MAX]);
    const struct doors_route *routes;
    size_t count;
    /* Answers with err. NULL: as the native door does. route may be NULL, who
     * empty. */
    void (*refuse)(struct doors_call *call, const struct error *err);
    /* Headers that hold a bare key where Authorization is absent; ended by
     * NULL; NULL: none. */
    const char *const *key_headers;
    /* The default of sessions made here: shared with the tenant, as in the
     * hosted service it stands in for; else private to the principal. */
    bool shares;
    bool cookie;         /* the console's cookie is accepted, see cookie.c */
    bool any_query;      /* unknown parameters are ignored */
    bool slash;          /* a slash at the end of a path is ignored */
    bool no_method;      /* a wrong method is an unknown path: 404, not 405 */
    uint64_t body_bytes; /* larger ones are refused unseen; 0: as for all */
    /* Lifecycle, for doors with state between requests; each may be NULL.
     * stop and close accept a door that was not opened. */
    int (*open)(struct doors *doors, struct error *err);
    void (*stop)(struct doors *doors);  /* ends streams that wait for events */
    void (*close)(struct doors *doors); /* once no request runs */
};

extern const struct doors_door doors_native, doors_openai, doors_azure,
    doors_mcp, doors_console, doors_foundry;

/* serve.c: fills call->who. credential: as in an Authorization header, or
 * NULL. Tells http/ whose connection to keep and whose answer to delay. */
int doors_authenticate(struct doors_call *call, const char *credential,
                       struct error *err);
/* serve.c: call->actor from call->who, once that is known. */
void doors_identify(struct doors_call *call);

/* serve.c: may anything be changed now? Not while the audit trail cannot be
 * written, unless the operator does without (O3). */
int doors_need_audit(const struct doors *doors, struct error *err);
/* serve.c: may anything new be stored or run? Not while the disk is full:
 * ERR_SPACE (D12). */
int doors_need_room(const struct doors *doors, struct error *err);
/* serve.c: under `four_eyes`, 0 once another principal has approved this very
 * change; ERR_APPROVAL until then. rq: of govern_change, with object, summary
 * and everything that makes the change another one as details. */
int doors_need_second(const struct doors_call *call,
                      const struct govern_request *rq, struct error *err);
/* Has the client of an http_request gone away? For exec_spec and session_spec.
 */
bool doors_left(void *http);

/* dispatch.c: the door of a path, never NULL; *ret_rest: the path below that
 * door's prefix. */
const struct doors_door *doors_dispatch(
    const char *path, const char **ret_rest,
    struct doors_part ret[DOORS_PARAMS_MAX]);

/* dispatch.c: the i-th door, to iterate over all; NULL at the end. */
const struct doors_door *doors_at(size_t i);

/* dispatch.c: calls open, stop or close of every door. Before the first
 * request; while requests still run; once none does. */
int doors_open(struct doors *doors, struct error *err);
void doors_stop(struct doors *doors);
void doors_close(struct doors *doors);

/* dispatch.c: the largest body that any door accepts. */
uint64_t doors_body_bytes(const struct conf *conf);

/* native/table.c: that door's rows, for /openapi.json */
extern const struct doors_route doors_routes[];
extern const size_t doors_routes_count;

/* routes.c: every door's rows as JSON, for `gloveboxd --routes`. */
void doors_routes_print(struct buf *out);

/* routes.c: the row for a method and a path, with the raw text of its
 * parameters; NULL for an unknown path. When only the method is wrong,
 * *ret_allow is the methods that are right ("GET, HEAD"), else it is empty. */
const struct doors_route *doors_routes_find(
    const struct doors_door *door, const char *method, const char *path,
    struct doors_part ret_parts[DOORS_PARAMS_MAX], char ret_allow[64]);

/* The spine; an http_handler_fn whose ctx is struct doors. */
void serve_request(void *ctx, struct http_request *req);

/* The same for requests that another node has received; see forward.c. */
void serve_forwarded(void *ctx, struct http_request *req);
/* forward.c: sends the request to the node of err and relays the answer. 0: it
 * was answered; 1: call the handler again, since another node may have the
 * session by now; else err has the reason. attempt: counts from 0. */
int doors_forward(struct doors_call *call, unsigned attempt,
                  struct error *err);
/* For a request that another node forwarded here in vain: marks the refusal so
 * that the other node looks again. Returns err's code. */
int doors_forward_refuse(struct doors_call *call, struct error *err);
/* Takes over the id and the source of a request that another node received. */
int doors_forwarded_adopt(struct doors_call *call, struct error *err);

/* ---- for all doors ------------------------------------------------------ */

/* The pool that also runs what is submitted, and how (a execution_submit_fn
 * whose ctx is the pool). */
struct http_work *doors_workers(const struct doors_call *call);
int doors_submit(void *ctx, void (*job)(void *arg), void *arg);

/* url.c: what URLs in the answer begin with: public_url, or "http://host:port"
 * as this client reached us. Without a slash at its end. arena */
const char *doors_url_base(const struct doors_call *call);
/* Did this client reach us by HTTPS, directly or by a trusted proxy? */
bool doors_url_secure(const struct doors_call *call);
/* Adds text with everything but unreserved characters escaped. */
void doors_url_escape(struct buf *out, const char *text, bool keep_slash);

/* A whole-number query parameter; absent: fallback. */
int doors_query_int(const struct doors_call *call, const char *name,
                    int64_t min, int64_t max, int64_t fallback, int64_t *ret,
                    struct error *err);

/* ---- cookie.c: the console's cookie --------------------------------------
 */

/* Does a request come from the console's own page? It has the header
 * X-Glovebox-Console: 1, names a host that is ours, and its Origin is ours or,
 * where a browser sends none, Sec-Fetch-Site says same-origin. */
bool doors_cookie_same_origin(const struct doors_call *call);
int doors_cookie_need_origin(const struct doors_call *call,
                             struct error *err); /* ERR_FORBIDDEN */
/* The same for a navigation, which has no such header: the host alone. */
int doors_cookie_need_host(const struct doors_call *call,
                           struct error *err); /* ERR_FORBIDDEN */

enum doors_cookie {
    DOORS_COOKIE_TOKEN,  /* of the browser that is signed in */
    DOORS_COOKIE_TICKET, /* of one that signs in with the issuer */
};
/* The value as sent, unchecked; NULL: none was. arena */
const char *doors_cookie_value(const struct doors_call *call,
                               enum doors_cookie which);
/* ttl_s 0: the browser forgets it. */
void doors_cookie_set(struct doors_call *call, enum doors_cookie which,
                      const char *value, uint32_t ttl_s);

/* ---- fileid.c: one file, three names --------------------------------------
 * A file's id is 128 bits: file_ and 32 hex digits here, cfile_ and the same
 * digits for a container's file, file- and 22 letters and digits (the same
 * number in base 62) for one of the library. All are good everywhere. */

/* To our own form; false: not one of the three. */
bool doors_file_id(const char *text, char ret[ID_MAX]);
/* file_… to the others; ret: ID_MAX. */
char *doors_file_container(const char *file, char ret[ID_MAX]);
char *doors_file_library(const char *file, char ret[ID_MAX]);

/* ---- health_metrics.c --------------------------------------------------- */

doors_handler_fn doors_health;
doors_handler_fn doors_readiness;
/* The name of the check that fails, and why; NULL: the service is ready. */
const char *doors_ready(const struct doors *doors, struct error *err);
doors_handler_fn doors_metrics;

#endif
