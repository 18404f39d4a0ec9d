/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an execution tried to reach, as JSON: what was refused and what was
 * let through. Runs in the daemon wherever executions are encoded.
 */
#include "api/api.h"
#include "doors/native/native.h"
#include "json/json.h"

void native_encode_open_means(struct json_writer *w, const char *key,
                              const void *object)
{
    (void)object;
    json_write_string(w, key, SESSION_OPEN_MEANS);
}

static const char *const kinds[] = {"connect", "resolve", "http",
                                    "tunnel",  "package", NULL};

static bool was_allowed(const void *object)
{
    return ((const struct exec_connection *)object)->allowed;
}

static bool was_blocked(const void *object)
{
    return !was_allowed(object);
}

#define CONNECTION(member) API_AT(struct exec_connection, member)

static const struct api_field connection_fields[] = {
    {"at", API_TIME, CONNECTION(at_ms), .help = "the first time"},
    {"what", API_CHOICE, CONNECTION(what), .choices = kinds},
    {"host", API_STRING, CONNECTION(host),
     .help = "a name or an address; ? when it could not be read"},
    {"port", API_INT, API_NULLABLE, CONNECTION(port)},
    {"count", API_INT, CONNECTION(count)},
    {"method", API_STRING, API_OPTIONAL, CONNECTION(method)},
    {"path", API_STRING, API_OPTIONAL, CONNECTION(path)},
    {"bytes_out", API_INT, API_OPTIONAL, CONNECTION(bytes_out),
     .when = was_allowed, .help = "allowed: sent"},
    {"bytes_in", API_INT, API_OPTIONAL, CONNECTION(bytes_in),
     .when = was_allowed, .help = "allowed: received"},
    {"reason", API_STRING, API_OPTIONAL, CONNECTION(reason),
     .when = was_blocked, .help = "blocked: why"},
};
API_OUTPUT(native_connection, "Connection", struct exec_connection,
           connection_fields, "One destination, and how often it was tried.");

static void write_list(struct json_writer *w, const char *key,
                       const struct exec_info *info, bool allowed)
{
    json_write_open(w, key, '[');
    for (size_t i = 0; i < info->connection_count; i++)
        if (info->connections[i].allowed == allowed)
            api_write(w, NULL, &native_connection, &info->connections[i]);
    json_write_close(w, ']');
}

static void write_blocked(struct json_writer *w, const char *key,
                          const void *object)
{
    write_list(w, key, object, false);
}

static void write_allowed(struct json_writer *w, const char *key,
                          const void *object)
{
    write_list(w, key, object, true);
}

#define INFO(member) API_AT(struct exec_info, member)

static const struct api_field execution_network_fields[] = {
    {"mode", API_CHOICE, INFO(egress), .choices = session_egress_names,
     .help = "what it could reach, at its end"},
    {"blocked", API_ARRAY, .write = write_blocked, .of = &native_connection,
     .help = "refused, each destination once"},
    {"allowed", API_ARRAY, .write = write_allowed, .of = &native_connection,
     .help = "let through"},
    {"truncated", API_BOOL, INFO(connections_truncated),
     .help = "there were more than are listed"},
};
API_OUTPUT(native_execution_network, "ExecutionNetwork", struct exec_info,
           execution_network_fields, "What an execution tried to reach.");
