/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Azure door's table. Whatever touches a session may make it, so all of
 * it needs the right to execute; files need theirs too. Data only.
 */
#include "base/mem.h"
#include "doors/azure/azure.h"

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
