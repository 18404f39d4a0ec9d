/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of the MCP door: /mcp, the MCP endpoint of an Azure pool, that of
 * a Foundry toolbox, and the metadata of RFC 9728. Runs in the daemon, called
 * by dispatch.c and serve.c. The rows are open to the spine because Origin
 * comes before credentials here; serve.c of this folder then asks for the key
 * before anything else happens (I1).
 */
#include <string.h>

#include "base/mem.h"
#include "doors/mcp/mcp_int.h"

#define METADATA "/.well-known/oauth-protected-resource"

static const struct doors_route rows[] = {
    {"POST", "/mcp", mcp_serve_post, 0, DOORS_OPEN | DOORS_UNGATED, "tools",
     NULL, NULL, NULL, NULL, NULL},
    {"GET", "/mcp", mcp_serve_get, 0, DOORS_OPEN, "tools", NULL, NULL, NULL,
     NULL, NULL},
    {"DELETE", "/mcp", mcp_serve_delete, 0, DOORS_OPEN | DOORS_UNGATED,
     "tools", NULL, NULL, NULL, NULL, NULL},
    {"OPTIONS", "/mcp", mcp_serve_options, 0, DOORS_OPEN, "tools", NULL, NULL,
     NULL, NULL, NULL},
    {"GET", METADATA, mcp_gate_metadata, 0, DOORS_OPEN, NULL, NULL, NULL, NULL,
     NULL, NULL},
    {"GET", METADATA "/mcp", mcp_gate_metadata, 0, DOORS_OPEN, NULL, NULL,
     NULL, NULL, NULL, NULL},
};

static bool ends_in_mcp(const char *path)
{
    size_t n = strlen(path);

    return n > strlen("/mcp") &&
           strcmp(path + n - strlen("/mcp"), "/mcp") == 0;
}

/* One part of a path between two texts: "/a/{x}/b". */
static const char *part(const char *at, struct doors_part *ret)
{
    size_t n = strcspn(at, "/");

    *ret = (struct doors_part){at, n};
    return n > 0 ? at + n : NULL;
}

/* /pools/{pool}/mcp, or …/sessionPools/{pool}/mcp */
static bool is_pool(const char *path, struct doors_part *ret)
{
    const char *at = strncmp(path, "/pools/", strlen("/pools/")) == 0
                         ? path
                         : strcasestr(path, "/sessionPools/");

    if (!at)
        return false;
    at = part(strchr(at + 1, '/') + 1, ret);
    return at && strcmp(at, "/mcp") == 0;
}

/* /api/projects/{project}/toolboxes/{name}[/versions/{v}]/mcp */
static bool is_toolbox(const char *path)
{
    static const char start[] = "/api/projects/", middle[] = "/toolboxes/",
                      versions[] = "/versions/";
    struct doors_part ignored;
    const char *at;

    if (strncmp(path, start, strlen(start)) != 0)
        return false;
    at = part(path + strlen(start), &ignored);
    if (!at || strncmp(at, middle, strlen(middle)) != 0)
        return false;
    at = part(at + strlen(middle), &ignored);
    if (at && strncmp(at, versions, strlen(versions)) == 0)
        at = part(at + strlen(versions), &ignored);
    return at && strcmp(at, "/mcp") == 0;
}

static const char *enter(const char *path,
                         struct doors_part ret[DOORS_PARAMS_MAX])
{
    struct doors_part pool;

    if (strcmp(path, "/mcp") == 0 ||
        strncmp(path, METADATA, strlen(METADATA)) == 0)
        return path;
    if (!ends_in_mcp(path))
        return NULL;
    if (is_pool(path, &pool)) {
        ret[0] = pool;
        return path + strlen(path) - strlen("/mcp");
    }
    return is_toolbox(path) ? path + strlen(path) - strlen("/mcp") : NULL;
}

bool mcp_table_azure(const struct doors_call *call)
{
    return call->place[0] != NULL;
}

/* What the spine itself refuses: an unknown method of HTTP, a bad query. */
static void refuse(struct doors_call *call, const struct error *err)
{
    struct rpc_fault f = {0};

    (void)mcp_rpc_blame(&f, err);
    f.code = RPC_INVALID;
    if (err->code == ERR_UNAUTHENTICATED)
        http_add_header(call->http, "WWW-Authenticate", "Bearer");
    mcp_reply_refuse(call, http_status_of(err->code), NULL, &f);
}

const struct doors_door doors_mcp = {
    .name = "mcp",
    .enter = enter,
    .routes = rows,
    .count = ARRAY_SIZE(rows),
    .refuse = refuse,
    .any_query = true,
    .open = mcp_open,
    .stop = mcp_stop,
    .close = mcp_close,
};
