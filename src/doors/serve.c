/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine of every request: route, authenticate, check, handle, respond,
 * log. Runs on a worker of the daemon; called by http/ once a request's head
 * (and a small body) is in. It holds no behaviour of any door.
 */
#include "doors/doors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json.h"

/* Looking up a row does nothing yet: without a valid key an unknown path, a
 * wrong method and a right one are answered alike (I1). */
static int authenticate(struct doors_call *call, struct error *err)
{
    if (call->route && (call->route->flags & DOORS_OPEN))
        return 0;
    return auth_check(call->doors->auth,
                      http_header(call->http, "Authorization"),
                      http_source(call->http), &call->who, err);
}

static int check_route(const struct doors_call *call, const char *allow,
                       struct error *err)
{
    if (call->route)
        return 0;
    if (!allow[0])
        return error_set(err, ERR_NOT_FOUND, "no such path");
    http_add_header(call->http, "Allow", allow);
    (void)error_set(err, ERR_METHOD, "this path does not take %.16s",
                    http_method(call->http));
    return error_hint(err, "It takes %s.", allow);
}

static int check_scope(const struct doors_call *call, struct error *err)
{
    uint32_t need = call->route->scope;
    char names[96];

    if ((call->route->flags & DOORS_OPEN) || (call->who.scopes & AUTH_ADMIN) ||
        (call->who.scopes & need) == need)
        return 0;
    (void)error_set(err, ERR_FORBIDDEN, "this key may not do that");
    return error_hint(err, "It needs the scope '%s'.",
                      auth_scopes_format(need, names));
}

static bool listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (list && *list) {
        size_t n = strcspn(list, " ");

        if (n == len && memcmp(list, name, n) == 0)
            return true;
        list += n;
        list += strspn(list, " ");
    }
    return false;
}

static int check_query(const struct doors_call *call, struct error *err)
{
    for (size_t i = 0; i < http_query_count(call->http); i++) {
        const char *name = http_query_name(call->http, i);

        if (listed(call->route->query, name))
            continue;
        (void)error_set(err, ERR_INVALID, "unknown parameter '%.40s'", name);
        if (call->route->query)
            (void)error_hint(err, "Known here: %s.", call->route->query);
        return -ERR_INVALID;
    }
    return 0;
}

static int decode_params(struct doors_call *call,
                         const struct doors_part *parts, struct error *err)
{
    for (size_t i = 0; i < DOORS_PARAMS_MAX && parts[i].text; i++) {
        char *text;
        int r = http_decode(http_arena(call->http), parts[i].text,
                            parts[i].len, &text, err);

        if (r < 0)
            return r;
        call->params[i] = text;
    }
    return 0;
}

/* err: NULL when all went well. */
static void log_request(const struct doors_call *call, const struct error *err,
                        uint64_t started_ns)
{
    enum log_level level = LOG_INFO;
    unsigned status = http_status(call->http);
    char code[16], took[32];

    if (status == 500) /* a defect; the others say what they are */
        level = LOG_ERROR;
    else if (call->route && (call->route->flags & DOORS_QUIET))
        level = LOG_DEBUG;
    (void)snprintf(code, sizeof(code), "%u", status);
    (void)snprintf(took, sizeof(took), "%.3f",
                   (double)(clock_mono_ns() - started_ns) / 1e6);
    /* The pattern, not the path: names of files and ids stay out (O2). */
    log_event(level, "request", "id", http_id(call->http), "method",
              http_method(call->http), "route",
              call->route ? call->route->pattern : "-", "status", code, "ms",
              took, "source", http_source(call->http), "tenant",
              call->who.tenant[0] ? call->who.tenant : NULL, "key",
              call->who.key_id[0] ? call->who.key_id : NULL, "error",
              err ? err->message : NULL, NULL);
}

void serve_request(void *ctx, struct http_request *req)
{
    struct doors_call call = {.doors = ctx, .http = req};
    struct doors_part parts[DOORS_PARAMS_MAX] = {{0}};
    struct error err;
    uint64_t started = clock_mono_ns();
    char allow[64];
    int r;

    call.route =
        doors_routes_find(http_method(req), http_path(req), parts, allow);
    r = authenticate(&call, &err);
    if (r == 0)
        r = check_route(&call, allow, &err);
    if (r == 0)
        r = check_scope(&call, &err);
    if (r == 0)
        r = check_query(&call, &err);
    if (r == 0)
        r = decode_params(&call, parts, &err);
    if (r == 0)
        r = call.route->handle(&call, &err);
    if (r < 0)
        http_respond_error(req, &err);
    log_request(&call, r < 0 ? &err : NULL, started);
}

struct http_work *doors_workers(const struct doors_call *call)
{
    return http_workers(http_server_of(call->http));
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
