/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a row of a door's table. Runs in the daemon, called by serve.c
 * before anything else is known of a request, so it only looks.
 */
#include "doors/doors.h"

#include <stdio.h>
#include <string.h>

/* Does the path fit the pattern? Parts of the path are compared as sent;
 * what the braces match is noted. slash: one at the end does not count. */
static bool match(const char *pattern, const char *path, bool slash,
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
    if (slash && strcmp(path, "/") == 0)
        path++;
    return *pattern == '\0' && *path == '\0';
}

static void allow_too(char allow[64], const char *method)
{
    size_t used = strlen(allow);

    (void)snprintf(allow + used, 64 - used, "%s%s%s", used ? ", " : "", method,
                   strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

const struct doors_route *doors_routes_find(
    const struct doors_door *door, const char *method, const char *path,
    struct doors_part ret_parts[DOORS_PARAMS_MAX], char ret_allow[64])
{
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    ret_allow[0] = '\0';
    for (size_t i = 0; i < door->count; i++) {
        const struct doors_route *row = &door->routes[i];
        struct doors_part parts[DOORS_PARAMS_MAX] = {{0}};

        if (!match(row->pattern, path, door->slash, parts))
            continue;
        if (strcmp(method, row->method) == 0) {
            memcpy(ret_parts, parts, sizeof(parts));
            return row;
        }
        allow_too(ret_allow, row->method);
    }
    return NULL;
}
