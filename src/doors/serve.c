/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine of every request: route, authenticate, check, handle, respond,
 * log. http/ calls serve_request on a worker of the daemon as soon as the head
 * of the request is complete, and with it the body, if it is small. This file
 * has no behaviour of any door.
 */
#include "doors/doors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "disk/disk.h"
#include "govern/govern.h"
#include "node/node.h"
#include "json/json.h"

#define DOORS_FORWARD_TRIES 8

/* The header, or a bare key where this door's clients put theirs. */
static const char *credential(const struct doors_call *call)
{
    const char *value = http_header(call->http, "Authorization");
    const char *const *names = call->door->key_headers;

    for (; !value && names && *names; names++) {
        const char *key = http_header(call->http, *names);

        if (key)
            value = arena_printf(http_arena(call->http), "Bearer %s", key);
    }
    return value;
}

int doors_authenticate(struct doors_call *call, const char *credential,
                       struct error *err)
{
    int r = auth_check(call->doors->auth, credential, http_source(call->http),
                       &call->who, err);

    if (r == 0)
        http_trust(call->http);
    else if (call->who.slowed)
        http_delay(call->http);
    return r;
}

/* The console's cookie counts as nothing where it could have been sent by
 * another site's page (U2). */
static int authenticate_cookie(struct doors_call *call, const char *value,
                               struct error *err)
{
    int r = doors_cookie_need_origin(call, err);

    if (r == 0)
        r = doors_authenticate(
            call, arena_printf(http_arena(call->http), "Bearer %s", value),
            err);
    call->console = r == 0;
    return r;
}

/* Looking up a row does nothing yet: without a valid key an unknown path, a
 * wrong method and a right one are answered alike (I1). */
static int authenticate(struct doors_call *call, struct error *err)
{
    const char *given, *cookie;

    if (call->route && (call->route->flags & DOORS_OPEN))
        return 0;
    given = credential(call);
    cookie = !given && call->door->cookie
                 ? doors_cookie_value(call, DOORS_COOKIE_TOKEN)
                 : NULL;
    return cookie ? authenticate_cookie(call, cookie, err)
                  : doors_authenticate(call, given, err);
}

/* Requests that end or remove something are never refused because their tenant
 * is busy: they may be what makes it less busy. */
static bool stops_something(const struct doors_call *call)
{
    return call->route && ((call->route->flags & DOORS_STOPS) ||
                           strcmp(call->route->method, "DELETE") == 0);
}

/* The thread is the tenant's from here on; a stranger's by its address. Who
 * has many already leaves the rest to others (X4, R8). 1: the request is
 * parked without a thread, and will be served from the start later. */
static int take_thread(const struct doors_call *call, struct error *err)
{
    const char *who =
        call->who.tenant[0] ? call->who.tenant : http_source(call->http);

    bool stops = stops_something(call);

    if (http_work_charge(doors_workers(call), who, stops))
        return 0;
    if ((stops || (call->route && (call->route->flags & DOORS_WAITS))) &&
        http_park(call->http, who, stops))
        return 1;
    (void)error_set(err, ERR_BUSY, "too many requests at once");
    (void)error_hint(err, "wait for some to be answered");
    return error_retry(err, 1);
}

static int check_route(const struct doors_call *call, const char *allow,
                       struct error *err)
{
    if (call->route)
        return 0;
    if (!allow[0] || call->door->no_method)
        return error_set(err, ERR_NOT_FOUND, "no such path");
    http_add_header(call->http, "Allow", allow);
    (void)error_set(err, ERR_METHOD, "this path does not take %.16s",
                    http_method(call->http));
    return error_hint(err, "It takes %s.", allow);
}

static bool has_scope(const struct doors_call *call)
{
    uint32_t need = call->route->scope, has = call->who.scopes;

    return (has & AUTH_ADMIN) || (has & need) == need ||
           ((call->route->flags & DOORS_MANAGE) &&
            (has & AUTH_WORKSPACES_ADMIN));
}

/* Is it about more than a key that is bound may see? */
static bool beyond_bounds(const struct doors_call *call)
{
    const struct doors_route *route = call->route;

    if (!actor_bounded(&call->actor))
        return false;
    return (route->flags & DOORS_TENANT) ||
           ((route->scope & AUTH_WHOLE) && !(route->flags & DOORS_WITHIN));
}

static int check_scope(const struct doors_call *call, struct error *err)
{
    char names[96];
    bool scope;

    if (call->route->flags & DOORS_OPEN)
        return 0;
    scope = has_scope(call);
    if (scope && !beyond_bounds(call))
        return 0;
    /* The key is known, so that this cannot be made to grow by strangers. */
    (void)snprintf(names, sizeof(names), "%s %s", call->route->method,
                   call->route->pattern);
    audit_later(call->doors->core->audit, &call->actor,
                &(struct audit_event){.action = "request.refused",
                                      .result = "forbidden",
                                      .detail = names});
    (void)error_set(err, ERR_FORBIDDEN, "this key may not do that");
    if (scope)
        return error_hint(err, "It is bound to certain pools, workspaces or "
                               "sessions, and this is about all of them.");
    return error_hint(err, "It needs the scope '%s'.",
                      auth_scopes_format(call->route->scope, names));
}

bool doors_left(void *http)
{
    return http_left(http);
}

int doors_need_audit(const struct doors *doors, struct error *err)
{
    return doors->conf->audit_required
               ? audit_writable(doors->core->audit, err)
               : 0;
}

/* One check for every door: what only looks goes on (O3). */
static int check_audit(const struct doors_call *call, struct error *err)
{
    const char *method = call->route->method;

    if (strcmp(method, "GET") == 0 || strcmp(method, "OPTIONS") == 0 ||
        (call->route->flags & DOORS_UNGATED))
        return 0;
    return doors_need_audit(call->doors, err);
}

int doors_need_room(const struct doors *doors, struct error *err)
{
    return disk_admit(doors->disk, 0, err);
}

/* One check for every door: a full disk can be read and emptied (D12). */
static int check_room(const struct doors_call *call, struct error *err)
{
    const char *method = call->route->method;

    if (strcmp(method, "GET") == 0 || strcmp(method, "OPTIONS") == 0 ||
        strcmp(method, "DELETE") == 0 ||
        (call->route->flags & (DOORS_UNGATED | DOORS_FREES)))
        return 0;
    return doors_need_room(call->doors, err);
}

int doors_need_second(const struct doors_call *call,
                      const struct govern_request *rq, struct error *err)
{
    const struct core *core = call->doors->core;
    const struct govern g = {core->policy, core->approvals};

    return core->four_eyes ? govern_four_eyes(&g, rq, err) : 0;
}

/* The next name of a list, without the mark that it is needed. */
static bool next_name(const char **list, char ret[32], bool *ret_needed)
{
    size_t n;

    if (!*list || !**list)
        return false;
    n = strcspn(*list, " ");
    *ret_needed = (*list)[n - 1] == '!';
    (void)snprintf(ret, 32, "%.*s", (int)(n - *ret_needed), *list);
    *list += n;
    *list += strspn(*list, " ");
    return true;
}

static int refuse_query(const struct doors_call *call, const char *name,
                        struct error *err)
{
    const char *list = call->route->query;
    char known[200] = "", one[32];
    bool needed;

    while (next_name(&list, one, &needed)) {
        size_t used = strlen(known);

        (void)snprintf(known + used, sizeof(known) - used, "%s%s",
                       used ? " " : "", one);
    }
    (void)error_set(err, ERR_INVALID, "unknown parameter '%.40s'", name);
    return known[0] ? error_hint(err, "Known here: %s.", known) : -ERR_INVALID;
}

static int check_query(const struct doors_call *call, struct error *err)
{
    size_t count = http_query_count(call->http), known = 0;
    const char *list = call->route->query, *value;
    char name[32];
    bool needed;

    while (next_name(&list, name, &needed)) {
        int r = http_query(call->http, name, &value, err);

        if (r < 0)
            return r;
        if (!value && needed)
            return error_set(err, ERR_INVALID, "parameter '%s' is missing",
                             name);
        known += value != NULL;
    }
    if (known == count || call->door->any_query ||
        (call->route->flags & DOORS_ANY_QUERY))
        return 0;
    for (size_t i = 0; i < count; i++) {
        const char *asked = http_query_name(call->http, i);
        bool found = false;

        list = call->route->query;
        while (!found && next_name(&list, name, &needed))
            found = strcmp(name, asked) == 0;
        if (!found)
            return refuse_query(call, asked, err);
    }
    return 0;
}

static int decode(struct doors_call *call, const struct doors_part *parts,
                  const char **ret, struct error *err)
{
    for (size_t i = 0; i < DOORS_PARAMS_MAX && parts[i].text; i++) {
        char *text;
        int r = http_decode(http_arena(call->http), parts[i].text,
                            parts[i].len, &text, err);

        if (r < 0)
            return r;
        ret[i] = text;
    }
    return 0;
}

/* err: NULL when all went well. */
static void log_request(const struct doors_call *call, const struct error *err)
{
    enum log_level level = LOG_INFO;
    unsigned status = http_status(call->http);
    char number[16], took[32];

    if (status == 500) /* a defect; the others say what they are */
        level = LOG_ERROR;
    else if (call->route && (call->route->flags & DOORS_QUIET))
        level = LOG_DEBUG;
    (void)snprintf(number, sizeof(number), "%u", status);
    (void)snprintf(took, sizeof(took), "%.3f",
                   (double)(clock_mono_ns() - call->started_ns) / 1e6);
    /* The pattern, not the path: names of files and ids stay out. Sentences of
     * refusals may quote what was sent; only ours about ourselves are kept
     * (O2). */
    log_event(level, "request", "id", http_id(call->http), "method",
              http_method(call->http), "door", call->door->name, "route",
              call->route ? call->route->pattern : "-", "status", number, "ms",
              took, "source", http_source(call->http), "tenant",
              call->who.tenant[0] ? call->who.tenant : NULL, "key",
              call->who.key_id[0] ? call->who.key_id : NULL, "token",
              call->who.token[0] ? call->who.token : NULL, "refused",
              err ? error_code_name(err->code) : NULL, "error",
              err && status >= 500 ? err->message : NULL, NULL);
}

static void refuse(struct doors_call *call, const struct error *err)
{
    if (call->door->refuse)
        call->door->refuse(call, err);
    else
        http_respond_error(call->http, err);
}

void doors_identify(struct doors_call *call)
{
    call->actor = auth_actor(&call->who);
    call->actor.door = call->door->name;
    call->actor.shares = call->door->shares;
    call->actor.request = http_id(call->http);
    call->actor.source = http_source(call->http);
}

static enum node_request kind_of(const struct doors_call *call)
{
    if (!call->doors->nodes)
        return NODE_REQUEST_NONE;
    return call->forwarded ? NODE_REQUEST_FORWARDED : NODE_REQUEST_FIRST;
}

/* What the handler needs may be on another node; then that node answers. While
 * a session moves, the node it was on refuses, and this node looks again. */
static int handle(struct doors_call *call, struct error *err)
{
    int r;

    for (unsigned i = 0; i < DOORS_FORWARD_TRIES; i++) {
        node_request_set(kind_of(call));
        r = call->route->handle(call, err);
        if (r == 0 && call->elsewhere) {
            r = error_set(err, ERR_ELSEWHERE, "it is on another node");
            (void)snprintf(err->node, sizeof(err->node), "%s",
                           node_was_elsewhere());
            call->elsewhere = false;
        }
        node_request_set(NODE_REQUEST_NONE);
        if (r != -ERR_ELSEWHERE)
            return r;
        if (call->forwarded)
            return doors_forward_refuse(call, err);
        r = doors_forward(call, i, err);
        if (r <= 0)
            return r;
    }
    return -(int)err->code;
}

static void serve(void *ctx, struct http_request *req, bool forwarded)
{
    struct doors_call call = {.doors = ctx,
                              .http = req,
                              .forwarded = forwarded,
                              .started_ns = clock_mono_ns()};
    struct doors_part place[DOORS_PARAMS_MAX];
    struct doors_part parts[DOORS_PARAMS_MAX] = {{0}};
    struct error err;
    const char *rest;
    char allow[64];
    int r;

    call.door = doors_dispatch(http_path(req), &rest, place);
    call.route =
        doors_routes_find(call.door, http_method(req), rest, parts, allow);
    r = forwarded ? doors_forwarded_adopt(&call, &err) : 0;
    if (r == 0)
        r = authenticate(&call, &err);
    doors_identify(&call);
    if (r == 0)
        r = take_thread(&call, &err);
    if (r > 0)
        return;
    if (r == 0)
        r = check_route(&call, allow, &err);
    if (r == 0)
        r = check_scope(&call, &err);
    if (r == 0)
        r = check_query(&call, &err);
    if (r == 0)
        r = check_audit(&call, &err);
    if (r == 0)
        r = check_room(&call, &err);
    if (r == 0)
        r = decode(&call, place, call.place, &err);
    if (r == 0)
        r = decode(&call, parts, call.params, &err);
    if (r == 0)
        r = handle(&call, &err);
    if (r < 0)
        refuse(&call, &err);
    log_request(&call, r < 0 ? &err : NULL);
}

void serve_request(void *ctx, struct http_request *req)
{
    serve(ctx, req, false);
}

void serve_forwarded(void *ctx, struct http_request *req)
{
    serve(ctx, req, true);
}

struct http_work *doors_workers(const struct doors_call *call)
{
    return http_workers(http_server_of(call->http));
}

int doors_submit(void *ctx, void (*job)(void *arg), void *arg)
{
    return http_work_submit(ctx, 0, false, job, arg);
}

int doors_query_int(const struct doors_call *call, const char *name,
                    int64_t min, int64_t max, int64_t fallback, int64_t *ret,
                    struct error *err)
{
    const char *text;
    char *end;
    long long n;
    int r = http_query(call->http, name, &text, err);

    if (r < 0)
        return r;
    if (!text) {
        *ret = fallback;
        return 0;
    }
    n = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || n < min || n > max)
        return error_set(err, ERR_INVALID,
                         "parameter '%s' must be a whole number from %lld to "
                         "%lld",
                         name, (long long)min, (long long)max);
    *ret = n;
    return 0;
}
