/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a row of a door's table. Runs in the daemon, called by serve.c
 * before anything else is known of a request, so it only looks.
 */
#include "doors/doors.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"

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

/* ---- all of them -------------------------------------------------------- */

static void print_row(struct json_writer *w, const struct doors_door *door,
                      const struct doors_route *row)
{
    static const struct {
        unsigned flag;
        const char *name;
    } flags[] = {
        {DOORS_OPEN, "open"},     {DOORS_QUIET, "quiet"},
        {DOORS_TENANT, "tenant"}, {DOORS_WITHIN, "within"},
        {DOORS_MANAGE, "manage"}, {DOORS_FREES, "frees"},
    };
    char scopes[96];

    json_write_open(w, NULL, '{');
    json_write_string(w, "door", door->name);
    json_write_string(w, "method", row->method);
    json_write_string(w, "pattern", row->pattern);
    json_write_string(w, "scope", auth_scopes_format(row->scope, scopes));
    json_write_open(w, "flags", '[');
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        if (row->flags & flags[i].flag)
            json_write_string(w, NULL, flags[i].name);
    json_write_close(w, ']');
    json_write_close(w, '}');
}

void doors_routes_print(struct buf *out)
{
    struct json_writer w = {.out = out};
    const struct doors_door *door;

    json_write_open(&w, NULL, '[');
    for (size_t i = 0; (door = doors_at(i)); i++)
        for (size_t j = 0; j < door->count; j++)
            print_row(&w, door, &door->routes[j]);
    json_write_close(&w, ']');
}
