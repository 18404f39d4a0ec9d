/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON-RPC 2.0 as MCP uses it: what a message is, which era it belongs to,
 * and what a failure looks like. Runs on a worker of the daemon on bodies
 * from outside; pure.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "doors/mcp/mcp_int.h"

/* ---- reading ------------------------------------------------------------ */

const char *mcp_rpc_read(const json_t *value, struct rpc_message *ret)
{
    const json_t *id, *method, *version;

    memset(ret, 0, sizeof(*ret));
    if (!json_is_object(value))
        return "a message must be a JSON object";
    id = json_object_get(value, "id");
    if (json_is_string(id) || json_is_integer(id))
        ret->id = id;
    version = json_object_get(value, "jsonrpc");
    if (!json_is_string(version) ||
        strcmp(json_string_value(version), "2.0") != 0)
        return "the member jsonrpc must be \"2.0\"";
    if (id && !ret->id)
        return "the member id must be a string or an integer";
    method = json_object_get(value, "method");
    ret->result = json_object_get(value, "result");
    ret->error = json_object_get(value, "error");
    if (!method && (ret->result || ret->error)) {
        ret->kind = RPC_RESPONSE;
        return ret->id ? NULL : "a response must have an id";
    }
    if (!json_is_string(method) || json_string_length(method) == 0)
        return "the member method must be a string";
    ret->kind = ret->id ? RPC_REQUEST : RPC_NOTIFICATION;
    ret->method = json_string_value(method);
    ret->params = json_object_get(value, "params");
    if (ret->params && !json_is_object(ret->params)) {
        ret->params = NULL;
        return "the member params must be an object";
    }
    ret->meta = json_object_get(ret->params, "_meta");
    return NULL;
}

static const char *const legacy[] = {MCP_LEGACY_NEWEST, "2025-06-18",
                                     MCP_LEGACY_BATCH};

const char *mcp_rpc_legacy(const char *version)
{
    for (size_t i = 0; version && i < ARRAY_SIZE(legacy); i++)
        if (strcmp(version, legacy[i]) == 0)
            return legacy[i];
    return NULL;
}

const char *mcp_rpc_claim(const struct rpc_message *m, bool *ret_has)
{
    const json_t *claim = json_object_get(m->meta, META_VERSION);

    *ret_has = claim != NULL;
    return json_string_value(claim);
}

/* Revisions are dates; what sorts after the last of the old era is new. */
static bool is_modern(const char *version)
{
    return version && strlen(version) == strlen(MCP_VERSION) &&
           version[0] >= '0' && version[0] <= '9' &&
           strcmp(version, MCP_LEGACY_NEWEST) > 0;
}

enum mcp_era mcp_rpc_era(const struct rpc_message *m, const char *header)
{
    bool has;
    const char *claim = mcp_rpc_claim(m, &has);

    if (m->kind == RPC_RESPONSE)
        return MCP_LEGACY;
    if (m->kind == RPC_REQUEST && strcmp(m->method, "initialize") == 0)
        return claim && !mcp_rpc_legacy(claim) ? MCP_MODERN : MCP_LEGACY;
    return has || is_modern(header) ? MCP_MODERN : MCP_LEGACY;
}

/* ---- failing ------------------------------------------------------------ */

int mcp_rpc_fault(struct rpc_fault *f, int code, json_t *data, const char *fmt,
                  ...)
{
    va_list ap;

    mcp_rpc_fault_done(f);
    f->code = code;
    f->data = data;
    va_start(ap, fmt);
    (void)vsnprintf(f->message, sizeof(f->message), fmt, ap); /* may cut */
    va_end(ap);
    return -1;
}

int mcp_rpc_blame(struct rpc_fault *f, const struct error *err)
{
    /* A defect of ours is for the log; the client learns nothing of the host
     * from it (H5). */
    if (err->code == ERR_INTERNAL || err->code == ERR_NONE)
        return mcp_rpc_fault(f, RPC_INTERNAL, NULL, "an internal error");
    return mcp_rpc_fault(
        f, http_status_of(err->code) < 429 ? RPC_PARAMS : RPC_INTERNAL, NULL,
        "%s%s%s", err->message, err->hint[0] ? "; " : "", err->hint);
}

void mcp_rpc_fault_done(struct rpc_fault *f)
{
    json_decref(f->data);
    memset(f, 0, sizeof(*f));
}

/* ---- writing ------------------------------------------------------------ */

void mcp_rpc_write_value(struct json_writer *w, const char *key,
                         const json_t *value)
{
    char *text cleanup(mem_free) =
        json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

    if (text)
        json_write_raw(w, key, text, strlen(text));
    else
        json_write_string(w, key, NULL);
}

void mcp_rpc_write_fault(struct json_writer *w, const char *key,
                         const struct rpc_fault *f)
{
    json_write_open(w, key, '{');
    json_write_int(w, "code", f->code);
    json_write_string(w, "message", f->message);
    if (f->data)
        mcp_rpc_write_value(w, "data", f->data);
    json_write_close(w, '}');
}

void mcp_rpc_write_error(struct buf *out, const json_t *id,
                         const struct rpc_fault *f)
{
    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "jsonrpc", "2.0");
    if (id)
        mcp_rpc_write_value(&w, "id", id);
    mcp_rpc_write_fault(&w, "error", f);
    json_write_close(&w, '}');
}
