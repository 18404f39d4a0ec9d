/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doors: what comes in by HTTP, decoded, passed on in one call to the
 * core, encoded again. serve.c is the spine every request takes; routes.c
 * is the table of them all; below are the folders, one a door. No door has
 * behaviour of its own and none knows another.
 */
#ifndef GLOVEBOX_DOORS_DOORS_H
#define GLOVEBOX_DOORS_DOORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "auth/auth.h"
#include "base/error.h"
#include "http/http.h"

struct conf;
struct search;
struct sessions;
struct workspaces;

/* What handlers work with; filled by main, borrowed, constant. */
struct doors {
    const struct conf *conf;
    struct auth *auth;
    struct sessions *sessions;
    struct workspaces *workspaces;
    struct audit *audit;
    struct search *search;
};

#define DOORS_PARAMS_MAX 4

struct doors_route;

/* One request on its way through the spine. */
struct doors_call {
    const struct doors *doors;
    struct http_request *http;
    const struct doors_route *route;
    struct principal who; /* empty on an open route */
    struct actor actor;   /* the same for the core; borrows from this */
    /* What the braces of the pattern matched, decoded once; request's */
    const char *params[DOORS_PARAMS_MAX];
};

/* Answers and returns 0, or fills err and leaves the answer to the spine. */
typedef int doors_handler_fn(struct doors_call *call, struct error *err);

enum doors_flags {
    DOORS_OPEN = 1 << 0,  /* needs no key */
    DOORS_QUIET = 1 << 1, /* asked so often that it is logged as debug */
};

/*
 * A row of table.c. Patterns: "{x}" matches one part of the path, a last
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

extern const struct doors_route doors_routes[];
extern const size_t doors_routes_count;

/* The row for a method and a path, with the raw text of its parameters; NULL
 * for an unknown path. When only the method is wrong, *ret_allow is the
 * methods that are right ("GET, HEAD"), else it is empty. */
struct doors_part {
    const char *text;
    size_t len;
};

const struct doors_route *doors_routes_find(
    const char *method, const char *path,
    struct doors_part ret_parts[DOORS_PARAMS_MAX], char ret_allow[64]);

/* The spine; an http_handler_fn whose ctx is struct doors. */
void serve_request(void *ctx, struct http_request *req);

/* ---- for all doors ------------------------------------------------------ */

/* The pool that also runs what is submitted. */
struct http_work *doors_workers(const struct doors_call *call);

/* A whole-number query parameter; absent: fallback. */
int doors_query_int(const struct doors_call *call, const char *name,
                    int64_t min, int64_t max, int64_t fallback, int64_t *ret,
                    struct error *err);

/* ---- operators.c -------------------------------------------------------- */

doors_handler_fn doors_operators_health;
doors_handler_fn doors_operators_ready;
doors_handler_fn doors_operators_metrics;

#endif
