/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/sessions/{id}/network: what a session's code may reach, asked for and
 * shown. Runs on a worker of the daemon.
 */
#include "doors/native/native.h"

#include "api/api.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

/* ---- resources ---------------------------------------------------------- */

static bool has_ports(const void *object)
{
    return ((const struct network_destination *)object)->ports[0] != 0;
}

static void write_ports(struct json_writer *w, const char *key,
                        const void *object)
{
    const struct network_destination *d = object;

    json_write_open(w, key, '[');
    for (size_t i = 0; i < NETWORK_PORTS_MAX && d->ports[i]; i++)
        json_write_int(w, NULL, d->ports[i]);
    json_write_close(w, ']');
}

#define DESTINATION(member) API_AT(struct network_destination, member)

static const struct api_field destination_fields[] = {
    {"host", API_STRING, DESTINATION(host)},
    {"ports", API_ARRAY, API_OPTIONAL, .when = has_ports, .write = write_ports,
     .items = API_INT, .help = "else 80 and 443"},
    {"methods", API_ARRAY, API_OPTIONAL, DESTINATION(methods),
     .help = "else all"},
    {"path", API_STRING, API_OPTIONAL, DESTINATION(path)},
    {"secret", API_STRING, API_OPTIONAL, DESTINATION(secret)},
    {"inspect", API_BOOL, API_OPTIONAL, DESTINATION(inspect)},
};
API_OUTPUT(native_destination, "Destination", struct network_destination,
           destination_fields, "One that may be reached.");

#define PACKAGE(member) API_AT(struct network_package, member)

static const struct api_field package_fields[] = {
    {"name", API_STRING, PACKAGE(name)},
    {"version", API_STRING, PACKAGE(version)},
    {"sha256", API_STRING, PACKAGE(sha256)},
    {"at", API_TIME, PACKAGE(at_ms)},
};
API_OUTPUT(native_package, "InstalledPackage", struct network_package,
           package_fields, "What pip installed.");

struct network_view {
    struct network_info info;
    const char *session;
};

static bool is_open(const void *object)
{
    return ((const struct network_view *)object)->info.net.mode ==
           SESSION_EGRESS_OPEN;
}

#define NETWORK(member) API_AT(struct network_view, member)

static const struct api_field session_network_fields[] = {
    {"session", API_STRING, NETWORK(session)},
    {"mode", API_CHOICE, NETWORK(info.net.mode),
     .choices = session_egress_names},
    {"destinations", API_ARRAY,
     API_LIST(struct network_view, info.net.destinations,
              info.net.destination_count),
     .of = &native_destination},
    {"packages", API_BOOL, NETWORK(info.net.packages)},
    {"bytes", API_INT, API_OPTIONAL, NETWORK(info.net.bytes),
     .help = "asked for; else the pool's"},
    {"connections", API_INT, API_OPTIONAL, NETWORK(info.net.connections),
     .help = "asked for; else the pool's"},
    {"requests", API_INT, API_OPTIONAL, NETWORK(info.net.requests),
     .help = "asked for; else the pool's"},
    {"granted", API_BOOL, NETWORK(info.granted),
     .help = "in force now; a dormant session's is once it wakes"},
    {"problem", API_STRING, API_NULLABLE, NETWORK(info.problem),
     .help = "why it is not"},
    {"bytes_used", API_INT, NETWORK(info.bytes_used)},
    {"requests_used", API_INT, NETWORK(info.requests_used)},
    {"installed", API_ARRAY,
     API_LIST(struct network_view, info.installed, info.installed_count),
     .of = &native_package},
    {"warning", API_STRING, API_OPTIONAL, .when = is_open,
     .write = native_encode_open_means, .help = "what open means"},
};
API_OUTPUT(native_session_network, "SessionNetwork", struct network_view,
           session_network_fields,
           "What a session's code may reach, and has.");

/* ---- routes ------------------------------------------------------------- */

static void respond(struct doors_call *call, const char *session,
                    const struct network_info *info)
{
    native_respond(call, 200, &native_session_network,
                   &(struct network_view){*info, session});
}

int native_network_get(struct doors_call *call, struct error *err)
{
    struct network_info info cleanup(network_info_done) = {0};
    int r = session_network_get(call->doors->sessions, &call->actor,
                                call->params[0], &info, err);

    if (r == 0)
        respond(call, call->params[0], &info);
    return r;
}

int native_network_put(struct doors_call *call, struct error *err)
{
    struct network_spec asked = {0};
    struct network_info info cleanup(network_info_done) = {0};
    json_t *json cleanup(json_unref) = NULL;
    int r =
        http_body_json(call->http, call->doors->conf->json_bytes, &json, err);

    if (r == 0)
        r = network_spec_read(json, http_arena(call->http), &asked, err);
    if (r == 0)
        r = session_network_set(call->doors->sessions, &call->actor,
                                call->params[0], &asked, &info, err);
    if (r == 0)
        respond(call, call->params[0], &info);
    return r;
}
