/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an execution tried to reach, as JSON: what was refused and what was
 * let through. Runs in the daemon wherever executions are encoded.
 */
#include "doors/native/native.h"
#include "json/json.h"

void native_encode_open_means(struct json_writer *w, const char *key,
                              const void *object)
{
    (void)object;
    json_write_string(w, key, SESSION_OPEN_MEANS);
}

static void encode_one(struct json_writer *w, const struct exec_connection *c)
{
    json_write_open(w, NULL, '{');
    json_write_time(w, "at", c->at_ms);
    json_write_string(w, "what", c->what);
    json_write_string(w, "host", c->host);
    if (c->port)
        json_write_int(w, "port", c->port);
    else
        json_write_string(w, "port", NULL);
    json_write_int(w, "count", c->count);
    if (c->method[0])
        json_write_string(w, "method", c->method);
    if (c->path[0])
        json_write_string(w, "path", c->path);
    if (c->allowed) {
        json_write_int(w, "bytes_out", (int64_t)c->bytes_out);
        json_write_int(w, "bytes_in", (int64_t)c->bytes_in);
    } else {
        json_write_string(w, "reason", c->reason);
    }
    json_write_close(w, '}');
}

static void encode_list(struct json_writer *w, const char *key,
                        const struct exec_info *info, bool allowed)
{
    json_write_open(w, key, '[');
    for (size_t i = 0; i < info->connection_count; i++)
        if (info->connections[i].allowed == allowed)
            encode_one(w, &info->connections[i]);
    json_write_close(w, ']');
}

void native_encode_exec_network(struct json_writer *w,
                                const struct exec_info *info)
{
    json_write_open(w, "network", '{');
    json_write_string(w, "mode", session_egress_name(info->egress));
    encode_list(w, "blocked", info, false);
    encode_list(w, "allowed", info, true);
    json_write_bool(w, "truncated", info->connections_truncated);
    json_write_close(w, '}');
}
