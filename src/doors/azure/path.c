/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths, names, ids and routes of the Azure dialect. Pure: it runs before
 * anything is known of a request. The address of a pool is one opaque base to
 * clients: what precedes it does not matter, and a path below
 * …/providers/Microsoft.App/sessionPools/{pool} belongs to the pool unless it
 * is the pool itself. Any call that names a session may create it, so all
 * routes need the scope to execute; those of files need theirs as well.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/azure/azure.h"

#define POOLS "/sessionPools"
#define DATA_ROOT "/mnt/data"

/* ---- where the pool is -------------------------------------------------- */

/* Where these parts of a path stand in the first len bytes, or NULL. */
static const char *find_parts(const char *path, size_t len, const char *parts)
{
    size_t n = strlen(parts);

    for (size_t i = 0; i + n <= len; i++)
        if (strncasecmp(path + i, parts, n) == 0 &&
            (path[i + n] == '/' || path[i + n] == '\0'))
            return path + i;
    return NULL;
}

/* The part that follows, or an empty one. */
static struct doors_part part_after(const char *path, size_t len,
                                    const char *parts)
{
    const char *at = find_parts(path, len, parts);
    struct doors_part part = {"", 0};

    if (!at || at + strlen(parts) >= path + len)
        return part;
    part.text = at + strlen(parts) + 1;
    part.len = MIN(strcspn(part.text, "/"), (size_t)(path + len - part.text));
    return part;
}

/* …/subscriptions/{s}[/resourceGroups/{g}]/providers/Microsoft.App */
static bool is_provider(const char *path, size_t len,
                        const struct doors_part *place)
{
    static const char provider[] = "/providers/Microsoft.App";
    size_t n = sizeof(provider) - 1;

    return place[AZURE_SUBSCRIPTION].len && len >= n &&
           strncasecmp(path + len - n, provider, n) == 0;
}

static const struct {
    const char *rest, *managed;
} actions[] = {
    {"", AZURE_MANAGED "pool"},
    {"/fetchMCPServerCredentials", AZURE_MANAGED "credentials"},
    {"/rotateMCPServerCredentials", AZURE_MANAGED "rotation"},
    {"/regenerateCredentials", AZURE_MANAGED "rotation"},
};

/* The management operation on the pool itself, or NULL. */
static const char *is_managed(const char *rest)
{
    size_t len = strlen(rest);

    if (len && rest[len - 1] == '/')
        len--;
    for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
        if (strlen(actions[i].rest) == len &&
            strncasecmp(rest, actions[i].rest, len) == 0)
            return actions[i].managed;
    return NULL;
}

/* Behind the pool's name: an identifier may come before the call. */
static const char *path_in_pool(const char *rest, struct doors_part *ret)
{
    static const char segment[] = "/identifier/";
    size_t n = sizeof(segment) - 1;

    while (rest[0] == '/' && rest[1] == '/')
        rest++;
    if (strcasecmp(rest, "/mcp") == 0 || strcasecmp(rest, "/mcp/") == 0)
        return NULL; /* another door's */
    if (strncmp(rest, AZURE_MANAGED, sizeof(AZURE_MANAGED) - 1) == 0)
        return AZURE_MANAGED; /* ours alone: no row has it */
    if (strncasecmp(rest, segment, n) == 0) {
        size_t len = strcspn(rest + n, "/");

        if (len && rest[n + len] == '/') {
            ret[AZURE_IDENTIFIER] = (struct doors_part){rest + n, len};
            rest += n + len;
        }
    }
    return rest;
}

/* A call of the data plane right at the origin, for clients that were given
 * the address of the service alone: it goes to the first pool. */
static bool is_bare(const char *path)
{
    static const char *const calls[] = {
        "/python",       "/code",     "/executions",  "/files",     "/session",
        "/listSessions", "/metadata", "/.management", "/identifier"};

    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        size_t len = strlen(calls[i]);

        if (strncasecmp(path, calls[i], len) == 0 &&
            (path[len] == '/' || path[len] == '\0'))
            return true;
    }
    return false;
}

const char *azure_path_enter(const char *path,
                             struct doors_part ret[DOORS_PARAMS_MAX])
{
    const char *at = NULL, *name, *managing;
    size_t before = 0, len;

    /* Files of other doors may be called anything. */
    if (strncmp(path, "/api/", 5) == 0 || strncmp(path, "/s/", 3) == 0)
        return NULL;
    for (size_t i = 0; i < DOORS_PARAMS_MAX; i++)
        ret[i] = (struct doors_part){"", 0};
    if (strncmp(path, "/pools/", 7) == 0) {
        name = path + 7;
    } else {
        at = find_parts(path, strlen(path), POOLS);
        if (!at)
            return is_bare(path) ? path_in_pool(path, ret) : NULL;
        before = (size_t)(at - path);
        ret[AZURE_SUBSCRIPTION] = part_after(path, before, "/subscriptions");
        ret[AZURE_GROUP] = part_after(path, before, "/resourceGroups");
        name = at + strlen(POOLS);
        if (strcmp(name, "") == 0 || strcmp(name, "/") == 0)
            return is_provider(path, before, ret) ? AZURE_MANAGED "pools"
                                                  : NULL;
        name++;
    }
    len = strcspn(name, "/");
    if (len == 0)
        return NULL;
    ret[AZURE_POOL] = (struct doors_part){name, len};
    managing =
        at && is_provider(path, before, ret) ? is_managed(name + len) : NULL;
    return managing ? managing : path_in_pool(name + len, ret);
}

/* ---- names of files ----------------------------------------------------- */

/* Adds the parts of text to a path; false when there is no room. */
static bool add_parts(const char *text, char *ret)
{
    size_t used = strlen(ret);

    while (*text) {
        size_t len = strcspn(text, "/");

        if (len && !(len == 1 && text[0] == '.')) {
            if (used + len + 1 > PATH_BYTES_MAX)
                return false;
            if (used)
                ret[used++] = '/';
            memcpy(ret + used, text, len);
            used += len;
            ret[used] = '\0';
        }
        text += len + (text[len] == '/');
    }
    return true;
}

int azure_path_join(const char *folder, const char *text, char *ret,
                    struct error *err)
{
    size_t root = strlen(DATA_ROOT);
    const char *fault = NULL;

    ret[0] = '\0';
    if (strncmp(text, DATA_ROOT, root) == 0 &&
        (text[root] == '/' || text[root] == '\0')) {
        folder = ""; /* it says all of it */
        text += root;
    }
    if (!add_parts(folder, ret) || !add_parts(text, ret))
        fault = "is longer than 1024 bytes";
    else if (ret[0])
        fault = path_fault(ret, strlen(ret));
    if (fault)
        return error_set(err, ERR_INVALID, "the path %s", fault);
    return 0;
}

int azure_path_name(const char *text, char *ret, struct error *err)
{
    return azure_path_join("", text, ret, err);
}

void azure_path_file(const char *rest, enum azure_version version,
                     char *ret_name, bool *ret_content, bool *ret_doubt)
{
    static const char word[] = "content";
    size_t n = sizeof(word) - 1, len = strlen(rest);
    bool first, last;

    while (len && rest[len - 1] == '/')
        len--;
    first = len > n + 1 && strncmp(rest, word, n) == 0 && rest[n] == '/';
    last = len > n + 1 && rest[len - n - 1] == '/' &&
           memcmp(rest + len - n, word, n) == 0;
    /* Each family has one place for it; the other's is let pass where it can
     * mean nothing else. */
    if (first && last) {
        first = azure_path_family(version) != AZURE_C;
        last = !first;
    }
    *ret_content = first || last;
    *ret_doubt = first && azure_path_family(version) == AZURE_C;
    if (first) {
        rest += n + 1;
        len -= n + 1;
    } else if (last) {
        len -= n + 1;
    }
    memmove(ret_name, rest, len);
    ret_name[len] = '\0';
}

/* ---- versions, identifiers, ids ----------------------------------------- */

static const char *const versions[] = {
    [AZURE_2024_02] = "2024-02-02-preview",
    [AZURE_2024_08] = "2024-08-02-preview",
    [AZURE_2024_10] = "2024-10-02-preview",
    [AZURE_2025_02] = "2025-02-02-preview",
    [AZURE_2025_10] = "2025-10-02-preview",
};

enum azure_version azure_path_version(const char *text)
{
    if (!text || !text[0])
        return AZURE_NONE;
    for (size_t i = AZURE_2024_02; i < ARRAY_SIZE(versions); i++)
        if (strcasecmp(text, versions[i]) == 0)
            return (enum azure_version)i;
    return AZURE_UNKNOWN;
}

enum azure_family azure_path_family(enum azure_version version)
{
    return version < AZURE_2024_10 ? AZURE_B : AZURE_C;
}

bool azure_path_identifier(const char *text)
{
    size_t len = strlen(text);

    if (len < AZURE_IDENTIFIER_MIN || len > AZURE_IDENTIFIER_MAX)
        return false;
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

char *azure_path_guid(const char *id, char ret[37])
{
    const char *hex = strchr(id, '_');

    hex = hex ? hex + 1 : id;
    (void)snprintf(
        ret, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex,
        strlen(hex) > 8 ? hex + 8 : "", strlen(hex) > 12 ? hex + 12 : "",
        strlen(hex) > 16 ? hex + 16 : "", strlen(hex) > 20 ? hex + 20 : "");
    return ret;
}

bool azure_path_unguid(const char *guid, const char *prefix, char ret[ID_MAX])
{
    char hex[33];
    size_t used = 0;

    for (; *guid; guid++) {
        if (*guid == '-')
            continue;
        if (used == sizeof(hex) - 1 || !isxdigit((unsigned char)*guid))
            return false;
        hex[used++] = (char)tolower((unsigned char)*guid);
    }
    hex[used] = '\0';
    (void)snprintf(ret, ID_MAX, "%.20s_%s", prefix, hex);
    return ids_valid(prefix, ret);
}

/* ---- routes ------------------------------------------------------------- */

#define READ (AUTH_EXECUTE | AUTH_FILES_READ)
#define WRITE (AUTH_EXECUTE | AUTH_FILES_WRITE)

#define ROW_AS(method, pattern, handle, scope, flags)                         \
    {                                                                         \
        method, pattern, handle, scope, flags, NULL, NULL, NULL, NULL, NULL,  \
            NULL                                                              \
    }
#define ROW(method, pattern, handle, scope)                                   \
    ROW_AS(method, pattern, handle, scope, 0)

static const struct doors_route routes[] = {
    ROW("POST", "/python/execute", azure_executions_legacy, AUTH_EXECUTE),
    ROW("POST", "/python/uploadFile", azure_upload_legacy, WRITE),
    ROW("GET", "/python/files", azure_files_legacy, READ),
    ROW("GET", "/python/downloadFile", azure_files_fetch, READ),

    ROW("POST", "/code/execute", azure_executions_wrapped, AUTH_EXECUTE),
    ROW("POST", "/executions", azure_executions_create, AUTH_EXECUTE),
    ROW("GET", "/executions/{id}", azure_executions_get, AUTH_EXECUTE),

    ROW("GET", "/files", azure_files_list, READ),
    ROW("POST", "/files", azure_upload, WRITE),
    ROW("POST", "/files/upload", azure_upload, WRITE),
    ROW("GET", "/files/{name...}", azure_files_get, READ),
    ROW("DELETE", "/files/{name...}", azure_files_delete, WRITE),

    ROW("GET", "/session", azure_sessions_get, AUTH_EXECUTE),
    ROW("DELETE", "/session", azure_sessions_delete, AUTH_EXECUTE),
    ROW("GET", "/listSessions", azure_sessions_list, AUTH_EXECUTE),
    ROW("GET", "/metadata", azure_metadata_get, AUTH_EXECUTE),
    ROW_AS("POST", "/.management/stopSession", azure_sessions_stop,
           AUTH_EXECUTE, DOORS_FREES | DOORS_STOPS),
    ROW_AS("POST", "/.management/getSession", azure_sessions_look,
           AUTH_EXECUTE, DOORS_FREES),
    ROW_AS("POST", "/.management/listSessions", azure_sessions_listed,
           AUTH_EXECUTE, DOORS_FREES),

    /* What path.c makes of …/providers/Microsoft.App/sessionPools */
    ROW("GET", AZURE_MANAGED "pools", azure_pools_list, AUTH_ADMIN),
    ROW("GET", AZURE_MANAGED "pool", azure_pools_get, AUTH_ADMIN),
    ROW("PUT", AZURE_MANAGED "pool", azure_pools_put, AUTH_ADMIN),
    ROW("PATCH", AZURE_MANAGED "pool", azure_pools_patch, AUTH_ADMIN),
    ROW("DELETE", AZURE_MANAGED "pool", azure_pools_delete, AUTH_ADMIN),
    ROW_AS("POST", AZURE_MANAGED "credentials", azure_credentials_fetch,
           AUTH_ADMIN, DOORS_FREES),
    ROW_AS("POST", AZURE_MANAGED "rotation", azure_credentials_rotate,
           AUTH_ADMIN, DOORS_FREES),
};

const struct doors_door doors_azure = {
    .name = "azure",
    .enter = azure_path_enter,
    .routes = routes,
    .count = ARRAY_SIZE(routes),
    .refuse = azure_refuse,
    .shares = true, /* identifiers are a pool's */
    .any_query = true,
    .slash = true,
    .body_bytes = AZURE_UPLOAD_MAX + AZURE_FORM_MAX,
};
