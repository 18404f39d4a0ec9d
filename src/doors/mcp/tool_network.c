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

#define CONNECTION(member) API_AT(struct exec_connection, member)

static const struct api_field connection_fields[] = {
    {"what", API_STRING, CONNECTION(what)},
    {"host", API_STRING, CONNECTION(host)},
    {"port", API_INT, API_NULLABLE, CONNECTION(port)},
    {"count", API_INT, CONNECTION(count)},
    {"reason", API_STRING, CONNECTION(reason)},
};
static API_OUTPUT(connection_resource, "connection", struct exec_connection,
                  connection_fields, NULL);

static const struct api_field network_fields[] = {
    {"mode", API_STRING, API_ELSEWHERE},
    {"blocked", API_ARRAY, .of = &connection_resource},
};
API_SCHEMA(tool_network_resource, "network", NULL, network_fields,
           "Only when something was blocked");

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
    for (; listed < LISTED_MAX && blocked(info, &i); i++, listed++)
        api_write(w, NULL, &connection_resource, &info->connections[i]);
    json_write_close(w, ']');
    json_write_close(w, '}');
}
