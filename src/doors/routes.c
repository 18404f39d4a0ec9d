/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of routes, and finding a row in it. Runs in the daemon, called by
 * serve.c before anything else is known of a request, so it only looks.
 */
#include "doors/doors.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "doors/native/native.h"

#define SESSION "/api/sessions/{id}"
#define EXECUTION "/api/executions/{id}"

const struct doors_route doors_routes[] = {
    {"GET", "/healthz", doors_operators_health, 0, DOORS_OPEN | DOORS_QUIET,
     NULL},
    {"GET", "/readyz", doors_operators_ready, 0, DOORS_OPEN | DOORS_QUIET,
     NULL},
    {"GET", "/metrics", doors_operators_metrics, 0, DOORS_QUIET, NULL},

    {"POST", "/api/sessions", native_sessions_create, AUTH_EXECUTE, 0, NULL},
    {"GET", "/api/sessions", native_sessions_list, AUTH_EXECUTE, 0,
     "limit after"},
    {"GET", SESSION, native_sessions_get, AUTH_EXECUTE, 0, NULL},
    {"DELETE", SESSION, native_sessions_delete, AUTH_EXECUTE, 0, NULL},
    {"POST", SESSION "/reset", native_sessions_reset, AUTH_EXECUTE, 0, NULL},
    {"POST", SESSION "/interrupt", native_sessions_interrupt, AUTH_EXECUTE, 0,
     NULL},

    {"POST", SESSION "/executions", native_executions_create, AUTH_EXECUTE, 0,
     NULL},
    {"GET", EXECUTION, native_executions_get, AUTH_EXECUTE, 0, NULL},
    {"GET", EXECUTION "/events", native_executions_events, AUTH_EXECUTE, 0,
     "after"},
    {"POST", EXECUTION "/cancel", native_executions_cancel, AUTH_EXECUTE, 0,
     NULL},
    {"POST", "/api/run", native_run, AUTH_EXECUTE, 0, NULL},

    {"GET", SESSION "/files", native_files_list, AUTH_FILES_READ, 0,
     "limit after"},
    {"GET", SESSION "/files/{path...}", native_files_get, AUTH_FILES_READ, 0,
     NULL},
    {"PUT", SESSION "/files/{path...}", native_files_put, AUTH_FILES_WRITE, 0,
     NULL},
    {"DELETE", SESSION "/files/{path...}", native_files_delete,
     AUTH_FILES_WRITE, 0, NULL},

    {"GET", "/api/pools", native_pools_list, 0, 0, NULL},
    {"GET", "/api/pools/{name}", native_pools_get, 0, 0, NULL},
    {"GET", "/api/runtimes", native_runtimes_list, 0, 0, NULL},
    {"GET", "/api/runtimes/{name}", native_runtimes_get, 0, 0, NULL},
    {"GET", "/api/limits", native_limits_get, 0, 0, NULL},

    {"POST", "/api/keys", native_keys_create, AUTH_ADMIN, 0, NULL},
    {"GET", "/api/keys", native_keys_list, AUTH_ADMIN, 0, NULL},
    {"DELETE", "/api/keys/{id}", native_keys_revoke, AUTH_ADMIN, 0, NULL},
};

const size_t doors_routes_count = ARRAY_SIZE(doors_routes);

/* Does the path fit the pattern? Parts of the path are compared as sent;
 * what the braces match is noted. */
static bool match(const char *pattern, const char *path,
                  struct doors_part *ret_parts)
{
    size_t found = 0;

    while (*pattern && *path) {
        size_t want = strcspn(pattern + 1, "/") + 1;
        size_t have = strcspn(path + 1, "/") + 1;

        if (*path != '/')
            return false;
        if (pattern[1] == '{') {
            bool rest = pattern[want - 2] == '.';

            if (rest)
                have = strlen(path);
            if (have == 1) /* nothing to match */
                return false;
            ret_parts[found++] = (struct doors_part){path + 1, have - 1};
        } else if (want != have || memcmp(pattern, path, want) != 0) {
            return false;
        }
        pattern += want;
        path += have;
    }
    return *pattern == '\0' && *path == '\0';
}

static void allow_too(char allow[64], const char *method)
{
    size_t used = strlen(allow);

    (void)snprintf(allow + used, 64 - used, "%s%s%s", used ? ", " : "", method,
                   strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

const struct doors_route *doors_routes_find(
    const char *method, const char *path,
    struct doors_part ret_parts[DOORS_PARAMS_MAX], char ret_allow[64])
{
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    ret_allow[0] = '\0';
    for (size_t i = 0; i < doors_routes_count; i++) {
        const struct doors_route *row = &doors_routes[i];
        struct doors_part parts[DOORS_PARAMS_MAX] = {{0}};

        if (!match(row->pattern, path, parts))
            continue;
        if (strcmp(method, row->method) == 0) {
            memcpy(ret_parts, parts, sizeof(parts));
            return row;
        }
        allow_too(ret_allow, row->method);
    }
    return NULL;
}
