/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's network as JSON: what doors read and write, and the text of its
 * row, which also holds usage and installed packages. Checks shapes and
 * lengths; network_spec.c checks the values.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "session/network_int.h"
#include "json/json.h"

#define BYTES_MAX ((int64_t)1 << 60)
#define COUNT_MAX ((int64_t)1 << 31)

#define METHODS_MAX 7
#define METHOD_MAX 16 /* bytes of one */

struct body {
    int mode;
    json_t *destinations;
    bool packages;
    int64_t bytes, connections, requests;
};

struct destination {
    const char *host, *path, *secret;
    json_t *ports, *methods;
    bool inspect;
};

#define DESTINATION(member) API_AT(struct destination, member)

static const struct api_field destination_fields[] = {
    {"host", API_STRING, API_REQUIRED, DESTINATION(host), .min = 1, .max = 255,
     .help = "example.org, or *.example.org for all below"},
    {"ports", API_ARRAY, DESTINATION(ports), .max = SESSION_PORTS_MAX,
     .items = API_INT, .item_min = 1, .item_max = 65535,
     .help = "else 80 and 443"},
    {"methods", API_ARRAY, DESTINATION(methods), .max = METHODS_MAX,
     .item_min = 1, .item_max = METHOD_MAX, .help = "of HTTP; else all"},
    {"path", API_STRING, DESTINATION(path), .min = 1, .max = 511,
     .help = "what paths begin with; else all"},
    {"secret", API_STRING, DESTINATION(secret), .min = 1, .max = 63,
     .help = "added on the way out; the code never has it"},
    {"inspect", API_BOOL, API_DEFAULT, DESTINATION(inspect),
     .help = "take TLS apart; needed for methods, path or secret on https"},
};
API_INPUT(session_destination_spec, "DestinationSpec", struct destination,
          destination_fields, "One that may be reached.");

#define BODY(member) API_AT(struct body, member)

static const struct api_field network_fields[] = {
    {"mode", API_CHOICE, API_REQUIRED, BODY(mode),
     .choices = session_egress_names,
     .help = "open: every public address, from code nobody has read"},
    {"destinations", API_ARRAY, API_OR_STRINGS, BODY(destinations),
     .max = SESSION_DESTINATIONS_MAX, .of = &session_destination_spec,
     .help = "a string is just a host"},
    {"packages", API_BOOL, API_DEFAULT, BODY(packages),
     .help = "pip may install what policy allows"},
    {"bytes", API_INT, BODY(bytes), .min = 1, .max = BYTES_MAX,
     .help = "both ways together; else, and at most, the pool's"},
    {"connections", API_INT, BODY(connections), .min = 1, .max = COUNT_MAX,
     .help = "at once; else, and at most, the pool's"},
    {"requests", API_INT, BODY(requests), .min = 1, .max = COUNT_MAX,
     .help = "else, and at most, the pool's"},
};
API_INPUT(session_network_spec, "NetworkSpec", struct body, network_fields,
          "What a session's code may reach.");

/* ---- reading ------------------------------------------------------------ */

static void read_ports(const json_t *list, uint16_t *ret)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        ret[i] = (uint16_t)json_integer_value(json_array_get(list, i));
}

static int read_methods(struct arena *room, const json_t *list,
                        const char **ret, struct error *err)
{
    struct buf b cleanup(buf_done) = {0};

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));

        if (strchr(name, ','))
            return error_set(err, ERR_INVALID,
                             "methods must be a list of names");
        buf_addf(&b, "%s%s", i ? "," : "", name);
    }
    *ret = b.len ? arena_strdup(room, b.data) : NULL;
    return 0;
}

static int read_destination(struct arena *room, const json_t *value,
                            struct session_destination *ret, struct error *err)
{
    struct destination d = {0};
    int rc;

    if (json_is_string(value)) /* just a host */
        d.host = json_string_value(value);
    rc = d.host ? 0 : api_read(value, &session_destination_spec, &d, err);
    *ret = (struct session_destination){.inspect = d.inspect};
    if (rc == 0)
        read_ports(d.ports, ret->ports);
    if (rc == 0)
        rc = read_methods(room, d.methods, &ret->methods, err);
    if (rc < 0)
        return rc;
    ret->host = arena_strdup(room, d.host);
    ret->path = d.path ? arena_strdup(room, d.path) : NULL;
    ret->secret = d.secret ? arena_strdup(room, d.secret) : NULL;
    return 0;
}

int session_network_read(const json_t *object, struct arena *room,
                         struct session_network *ret, struct error *err)
{
    struct session_destination *list;
    struct body b = {0};
    int rc = api_read(object, &session_network_spec, &b, err);
    size_t count = json_array_size(b.destinations);

    list = arena_alloc(room, (count + 1) * sizeof(*list));
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = read_destination(room, json_array_get(b.destinations, i),
                              &list[i], err);
        if (rc < 0)
            (void)error_wrap(err, "destinations[%zu]", i);
    }
    if (rc < 0)
        return rc;
    *ret = (struct session_network){.mode = (enum session_egress)b.mode,
                                    .destinations = list,
                                    .destination_count = count,
                                    .packages = b.packages,
                                    .bytes = (uint64_t)b.bytes,
                                    .connections = (uint32_t)b.connections,
                                    .requests = (uint32_t)b.requests};
    return 0;
}

/* ---- writing ------------------------------------------------------------ */

static void write_words(struct json_writer *w, const char *key,
                        const char *words)
{
    json_write_open(w, key, '[');
    while (*words) {
        size_t len = strcspn(words, ",");

        json_write_text(w, NULL, words, len);
        words += len + (words[len] == ',');
    }
    json_write_close(w, ']');
}

static void write_destination(struct json_writer *w,
                              const struct session_destination *d)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "host", d->host);
    if (d->ports[0]) {
        json_write_open(w, "ports", '[');
        for (size_t i = 0; i < SESSION_PORTS_MAX && d->ports[i]; i++)
            json_write_int(w, NULL, d->ports[i]);
        json_write_close(w, ']');
    }
    if (d->methods)
        write_words(w, "methods", d->methods);
    if (d->path)
        json_write_string(w, "path", d->path);
    if (d->secret)
        json_write_string(w, "secret", d->secret);
    if (d->inspect)
        json_write_bool(w, "inspect", true);
    json_write_close(w, '}');
}

void session_network_write(struct json_writer *w,
                           const struct session_network *net)
{
    json_write_string(w, "mode", session_egress_name(net->mode));
    json_write_open(w, "destinations", '[');
    for (size_t i = 0; i < net->destination_count; i++)
        write_destination(w, &net->destinations[i]);
    json_write_close(w, ']');
    json_write_bool(w, "packages", net->packages);
    if (net->bytes)
        json_write_int(w, "bytes", (int64_t)net->bytes);
    if (net->connections)
        json_write_int(w, "connections", net->connections);
    if (net->requests)
        json_write_int(w, "requests", net->requests);
}

/* ---- the row ------------------------------------------------------------ */

static void write_packages(struct json_writer *w,
                           const struct session_net *net)
{
    json_write_open(w, "installed", '[');
    for (size_t i = 0; i < net->package_count; i++) {
        const struct session_package *p = &net->packages[i];

        json_write_open(w, NULL, '{');
        json_write_string(w, "name", p->name);
        json_write_string(w, "version", p->version);
        json_write_string(w, "sha256", p->sha256);
        json_write_int(w, "at_ms", p->at_ms);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

char *network_json_text(struct session_net *net,
                        const struct session_network_info *want)
{
    struct buf out cleanup(buf_done) = {0};
    struct json_writer w = {.out = &out};

    json_write_open(&w, NULL, '{');
    json_write_open(&w, "network", '{');
    session_network_write(&w, &want->net);
    json_write_close(&w, '}');
    json_write_int(&w, "permitted", want->permitted);
    json_write_int(&w, "bytes_used", (int64_t)atomic_load(&net->bytes_used));
    json_write_int(&w, "requests_used",
                   (int64_t)atomic_load(&net->requests_used));
    write_packages(&w, net);
    json_write_close(&w, '}');
    return buf_take(&out, NULL);
}

static int64_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void load_packages(const json_t *list, struct session_net *net)
{
    size_t count = MIN(json_array_size(list), NETWORK_PACKAGES_MAX);

    for (size_t i = 0; i < count; i++) {
        const json_t *p = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(p, "name"));
        const char *version = json_string_value(json_object_get(p, "version"));
        const char *hash = json_string_value(json_object_get(p, "sha256"));

        if (!name || !version || !hash)
            continue;
        if (!net->packages) {
            net->packages_room = arena_new();
            net->packages =
                xcalloc(NETWORK_PACKAGES_MAX, sizeof(*net->packages));
        }
        net->packages[net->package_count++] = (struct session_package){
            .name = arena_strdup(net->packages_room, name),
            .version = arena_strdup(net->packages_room, version),
            .sha256 = arena_strdup(net->packages_room, hash),
            .at_ms = number(p, "at_ms")};
    }
}

void network_json_load(const char *text, struct session_net *net)
{
    json_t *row cleanup(json_unref) = NULL;
    struct error err;

    if (!text || !text[0])
        return;
    net->want.room = arena_new();
    if (json_parse(text, strlen(text), &row, &err) < 0 ||
        session_network_read(json_object_get(row, "network"), net->want.room,
                             &net->want.net, &err) < 0) {
        (void)snprintf(net->want.problem, sizeof(net->want.problem),
                       "what was kept of its network is damaged");
        return;
    }
    net->want.permitted = number(row, "permitted");
    atomic_store(&net->mode, net->want.net.mode);
    atomic_store(&net->bytes_used, (uint64_t)number(row, "bytes_used"));
    atomic_store(&net->requests_used, (uint64_t)number(row, "requests_used"));
    load_packages(json_object_get(row, "installed"), net);
}
