/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an execution could not reach, told to a model: one sentence, so that
 * it does not try the same again, and the list. Runs on a worker of the
 * daemon.
 */
#include "base/mem.h"
#include "doors/mcp/tool.h"

#define SAID_MAX 5u
#define LISTED_MAX 20u

static bool blocked(const struct exec_info *info, size_t *at)
{
    while (*at < info->connection_count && info->connections[*at].allowed)
        ++*at;
    return *at < info->connection_count;
}

void tool_network_say(struct buf *out, const struct exec_info *info)
{
    size_t said = 0;

    for (size_t i = 0; blocked(info, &i); i++) {
        const struct exec_connection *c = &info->connections[i];

        if (said++ == SAID_MAX) {
            buf_adds(out, ", …");
            break;
        }
        buf_adds(out, said == 1 ? "Blocked by the sandbox: " : ", ");
        buf_adds(out, c->host);
        if (c->port)
            buf_addf(out, ":%u", c->port);
        if (c->count > 1)
            buf_addf(out, " (%u times)", c->count);
    }
    if (said)
        buf_adds(out, info->egress == SESSION_EGRESS_NONE
                          ? ". This session has no network; trying again does "
                            "not help.\n"
                          : ". This session may reach only what it was "
                            "granted.\n");
}

void tool_network_encode(struct json_writer *w, const struct exec_info *info)
{
    size_t i = 0, listed = 0;

    if (!blocked(info, &i))
        return;
    json_write_open(w, "network", '{');
    json_write_string(w, "mode", session_egress_name(info->egress));
    json_write_open(w, "blocked", '[');
    for (; listed < LISTED_MAX && blocked(info, &i); i++, listed++) {
        const struct exec_connection *c = &info->connections[i];

        json_write_open(w, NULL, '{');
        json_write_string(w, "what", c->what);
        json_write_string(w, "host", c->host);
        if (c->port)
            json_write_int(w, "port", c->port);
        else
            json_write_string(w, "port", NULL);
        json_write_int(w, "count", c->count);
        json_write_string(w, "reason", c->reason);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
    json_write_close(w, '}');
}
