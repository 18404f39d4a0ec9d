/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network that a client may request and a pool may give: each destination
 * is checked and brought into its canonical form, budgets are checked against
 * the pool's. A pool's network comes from its `egress` and, for an allow list,
 * the words of `egress_allow`, "host[:port],…". At the end the same as JSON:
 * for requests and answers, and for the session's row, which also holds usage
 * and installed packages. Pure; permit.c asks policy and the vault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "egress/host.h"
#include "network/network_int.h"
#include "json/json.h"

/* ---- requests ----------------------------------------------------------- */

#define PATH_MAX_ 511u

static const uint16_t usual_ports[] = {80, 443};

size_t network_spec_ports(const struct network_destination *d,
                          uint16_t ret[NETWORK_PORTS_MAX])
{
    size_t count = 0;

    while (count < NETWORK_PORTS_MAX && d->ports[count]) {
        ret[count] = d->ports[count];
        count++;
    }
    if (count)
        return count;
    memcpy(ret, usual_ports, sizeof(usual_ports));
    return ARRAY_SIZE(usual_ports);
}

static bool has_port(const struct network_destination *d, uint16_t port)
{
    uint16_t ports[NETWORK_PORTS_MAX];
    size_t count = network_spec_ports(d, ports);

    for (size_t i = 0; i < count; i++)
        if (ports[i] == port)
            return true;
    return false;
}

/* ---- one destination ---------------------------------------------------- */

uint32_t network_spec_methods(const char *methods)
{
    static const char *const names[] = {"GET",   "HEAD",   "POST",   "PUT",
                                        "PATCH", "DELETE", "OPTIONS"};
    uint32_t bits = 0;

    while (*methods) {
        size_t len = strcspn(methods, ","), i = 0;

        while (i < ARRAY_SIZE(names) && (strlen(names[i]) != len ||
                                         memcmp(names[i], methods, len) != 0))
            i++;
        if (i == ARRAY_SIZE(names))
            return UINT32_MAX;
        bits |= 1u << i; /* as enum egress_method has them */
        methods += len + (methods[len] == ',');
    }
    return bits ? bits : UINT32_MAX;
}

static int check_path(const char *path, struct error *err)
{
    size_t len = strlen(path);

    if (len > PATH_MAX_)
        return error_set(err, ERR_INVALID, "a path is over %u bytes",
                         PATH_MAX_);
    if (path[0] != '/')
        return error_set(err, ERR_INVALID, "a path must begin with /");
    for (size_t i = 0; i < len; i++)
        if (path[i] <= ' ' || path[i] > '~' || strchr("%?#\\;", path[i]))
            return error_set(err, ERR_INVALID,
                             "a path must be plain: no blanks, no %%, ?, #, ; "
                             "or backslash");
    if (strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../") ||
        (len >= 2 && strcmp(path + len - 2, "/.") == 0) ||
        (len >= 3 && strcmp(path + len - 3, "/..") == 0))
        return error_set(err, ERR_INVALID,
                         "a path must have no empty, . or .. part");
    return 0;
}

static int check_ports(const struct network_destination *d, struct error *err)
{
    for (size_t i = 0; i < NETWORK_PORTS_MAX && d->ports[i]; i++)
        for (size_t j = 0; j < i; j++)
            if (d->ports[i] == d->ports[j])
                return error_set(err, ERR_INVALID, "port %u comes twice",
                                 d->ports[i]);
    return 0;
}

/* Traffic inside TLS can be inspected or changed only by intercepting it. */
static int check_inspect(const struct network_destination *d,
                         struct error *err)
{
    const char *what = d->secret    ? "secret"
                       : d->methods ? "methods"
                       : d->path    ? "path"
                                    : NULL;

    if (!what || d->inspect || !has_port(d, 443))
        return 0;
    (void)error_set(err, ERR_INVALID, "'%s' needs \"inspect\": true for https",
                    what);
    return error_hint(err, "set it, and the proxy takes TLS to this "
                           "destination apart under a certificate authority "
                           "of this session; or list only ports of plain "
                           "http");
}

static int check_destination(struct arena *room,
                             const struct network_destination *d,
                             struct network_destination *ret,
                             struct error *err)
{
    char host[EGRESS_HOST_MAX];
    int rc = egress_host_pattern(d->host, host, err);

    if (rc == 0)
        rc = check_ports(d, err);
    if (rc == 0 && d->methods &&
        network_spec_methods(d->methods) == UINT32_MAX)
        rc = error_set(err, ERR_INVALID,
                       "methods must be of GET, HEAD, POST, PUT, PATCH, "
                       "DELETE and OPTIONS");
    if (rc == 0 && d->path)
        rc = check_path(d->path, err);
    if (rc == 0)
        rc = check_inspect(d, err);
    if (rc < 0)
        return error_wrap(err, "destination '%.80s'", d->host);
    *ret = *d;
    ret->host = arena_strdup(room, host);
    ret->methods = d->methods ? arena_strdup(room, d->methods) : NULL;
    ret->path = d->path ? arena_strdup(room, d->path) : NULL;
    ret->secret = d->secret ? arena_strdup(room, d->secret) : NULL;
    return 0;
}

/* ---- a whole network ---------------------------------------------------- */

static int check_budget(const char *name, uint64_t asked, uint64_t most,
                        struct error *err)
{
    if (asked <= most)
        return 0;
    return error_set(err, ERR_INVALID, "%s must be at most %llu, the pool's",
                     name, (unsigned long long)most);
}

static int check_budgets(const struct network_spec *net,
                         const struct conf_pool *pool, struct error *err)
{
    int rc = check_budget("bytes", net->bytes, pool->egress_bytes, err);

    if (rc == 0)
        rc = check_budget("connections", net->connections,
                          pool->egress_connections, err);
    if (rc == 0)
        rc = check_budget("requests", net->requests, pool->egress_requests,
                          err);
    return rc;
}

int network_spec_check(const struct network_spec *net,
                       const struct conf_pool *pool, struct network_info *ret,
                       struct error *err)
{
    size_t count = net->destination_count;
    struct network_info info cleanup(network_info_done) = {.net = *net};
    struct network_destination *list;
    int rc = check_budgets(net, pool, err);

    if (rc == 0 && count > NETWORK_DESTINATIONS_MAX)
        rc = error_set(err, ERR_INVALID, "more than %u destinations",
                       NETWORK_DESTINATIONS_MAX);
    if (rc == 0 && count && net->mode == SESSION_EGRESS_NONE)
        rc = error_set(err, ERR_INVALID,
                       "mode 'none' has no destinations; 'allowlist' has");
    info.room = arena_new();
    list = arena_alloc(info.room, (count + 1) * sizeof(*list));
    for (size_t i = 0; i < count && rc == 0; i++)
        rc =
            check_destination(info.room, &net->destinations[i], &list[i], err);
    if (rc < 0)
        return rc;
    info.net.destinations = list;
    *ret = info;
    info.room = NULL;
    return 0;
}

static char *copy_text(struct arena *room, const char *text)
{
    return text ? arena_strdup(room, text) : NULL;
}

void network_spec_copy(const struct network_info *from,
                       struct network_info *ret)
{
    size_t count = from->net.destination_count;
    struct arena *room = arena_new();
    struct network_destination *list =
        arena_alloc(room, (count + 1) * sizeof(*list));

    for (size_t i = 0; i < count; i++) {
        list[i] = from->net.destinations[i];
        list[i].host = copy_text(room, list[i].host);
        list[i].methods = copy_text(room, list[i].methods);
        list[i].path = copy_text(room, list[i].path);
        list[i].secret = copy_text(room, list[i].secret);
    }
    *ret = *from;
    ret->net.destinations = list;
    ret->installed = NULL;
    ret->installed_count = 0;
    ret->room = room;
}

/* ---- one within another ------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

static bool path_within(const char *outer, const char *inner)
{
    size_t len = outer ? strlen(outer) : 0;

    if (!outer)
        return true;
    if (!inner || strncmp(outer, inner, len) != 0)
        return false;
    return inner[len] == '\0' || inner[len] == '/' || outer[len - 1] == '/';
}

static bool methods_within(const char *outer, const char *inner)
{
    if (!outer)
        return true;
    return inner &&
           !(network_spec_methods(inner) & ~network_spec_methods(outer));
}

static bool ports_within(const struct network_destination *outer,
                         const struct network_destination *inner)
{
    uint16_t ports[NETWORK_PORTS_MAX];
    size_t count = network_spec_ports(inner, ports);

    for (size_t i = 0; i < count; i++)
        if (!has_port(outer, ports[i]))
            return false;
    return true;
}

static bool destination_covers(const struct network_destination *outer,
                               const struct network_destination *inner)
{
    return (strcmp(outer->host, inner->host) == 0 ||
            egress_host_matches(outer->host, inner->host)) &&
           ports_within(outer, inner) &&
           methods_within(outer->methods, inner->methods) &&
           path_within(outer->path, inner->path);
}

bool network_spec_within(const struct network_spec *outer,
                         const struct network_spec *inner)
{
    if (inner->packages && !outer->packages)
        return false;
    if (inner->mode == SESSION_EGRESS_NONE ||
        outer->mode == SESSION_EGRESS_OPEN)
        return true;
    if (outer->mode == SESSION_EGRESS_NONE ||
        inner->mode == SESSION_EGRESS_OPEN)
        return false;
    for (size_t i = 0; i < inner->destination_count; i++) {
        size_t j = 0;

        while (j < outer->destination_count &&
               !destination_covers(&outer->destinations[j],
                                   &inner->destinations[i]))
            j++;
        if (j == outer->destination_count)
            return false;
    }
    return true;
}

static bool same_destination(const struct network_destination *a,
                             const struct network_destination *b)
{
    return strcmp(a->host, b->host) == 0 &&
           memcmp(a->ports, b->ports, sizeof(a->ports)) == 0 &&
           same_text(a->methods, b->methods) && same_text(a->path, b->path) &&
           same_text(a->secret, b->secret) && a->inspect == b->inspect;
}

/* 0 is as much as there is. */
static bool budget_is_less(uint64_t before, uint64_t after)
{
    return after && (!before || after < before);
}

bool network_spec_wider(const struct network_spec *before,
                        const struct network_spec *after)
{
    if (before->mode != after->mode ||
        before->destination_count > after->destination_count ||
        (before->packages && !after->packages) ||
        budget_is_less(before->bytes, after->bytes) ||
        budget_is_less(before->connections, after->connections) ||
        budget_is_less(before->requests, after->requests))
        return false;
    /* In the same places: the first that matches is the one that counts. */
    for (size_t i = 0; i < before->destination_count; i++)
        if (!same_destination(&before->destinations[i],
                              &after->destinations[i]))
            return false;
    return true;
}

/* ---- pools -------------------------------------------------------------- */

/* The port behind the last colon; an address with several colons is in
 * brackets when a port follows. */
static int split_port(char *word, uint16_t *ret, struct error *err)
{
    char *colon = strrchr(word, ':'), *end;
    unsigned long port;

    if (!colon || (strchr(word, ':') != colon && colon[-1] != ']'))
        return 0;
    port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end || port < 1 || port > 65535)
        return error_set(err, ERR_INVALID,
                         "'%.80s': a port must be from 1 to 65535", word);
    *colon = '\0';
    *ret = (uint16_t)port;
    return 0;
}

/* Ports of the same host are one destination. */
static int add_word(char *word, struct network_destination *list,
                    size_t *count, struct error *err)
{
    struct network_destination d = {.host = word};
    int rc = split_port(word, &d.ports[0], err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < *count; i++) {
        size_t n = 0;

        while (n < NETWORK_PORTS_MAX && list[i].ports[n])
            n++;
        if (strcmp(list[i].host, word) == 0 && n && d.ports[0] &&
            n < NETWORK_PORTS_MAX) {
            list[i].ports[n] = d.ports[0];
            return 0;
        }
    }
    if (*count == NETWORK_DESTINATIONS_MAX)
        return error_set(err, ERR_INVALID, "more than %u destinations",
                         NETWORK_DESTINATIONS_MAX);
    list[(*count)++] = d;
    return 0;
}

int network_pool_read(const struct conf_pool *pool, struct network_info *ret,
                      struct error *err)
{
    struct network_destination list[NETWORK_DESTINATIONS_MAX];
    struct network_spec net = {.destinations = list,
                               .packages = pool->packages};
    char *copy cleanup(mem_free) =
        xstrdup(pool->egress_allow ? pool->egress_allow : "");
    char *rest = copy, *word;
    int rc = 0;

    (void)session_egress_parse(pool->egress ? pool->egress : "none",
                               &net.mode);
    while (rc == 0 && net.mode == SESSION_EGRESS_ALLOWLIST &&
           (word = strsep(&rest, ", ")))
        if (word[0])
            rc = add_word(word, list, &net.destination_count, err);
    if (rc == 0)
        rc = network_spec_check(&net, pool, ret, err);
    return rc < 0 ? error_wrap(err, "pool '%s', egress_allow", pool->name) : 0;
}

/* ---- JSON: fields ------------------------------------------------------- */

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
    {"ports", API_ARRAY, DESTINATION(ports), .max = NETWORK_PORTS_MAX,
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
API_INPUT(network_destination_resource, "DestinationSpec", struct destination,
          destination_fields, "One that may be reached.");

#define BODY(member) API_AT(struct body, member)

static const struct api_field network_fields[] = {
    {"mode", API_CHOICE, API_REQUIRED, BODY(mode),
     .choices = session_egress_names,
     .help = "open: every public address, for untrusted code"},
    {"destinations", API_ARRAY, API_OR_STRINGS, BODY(destinations),
     .max = NETWORK_DESTINATIONS_MAX, .of = &network_destination_resource,
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
API_INPUT(network_resource, "NetworkSpec", struct body, network_fields,
          "What a session's code may reach.");

/* ---- JSON: reading ------------------------------------------------------ */

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
                            struct network_destination *ret, struct error *err)
{
    struct destination d = {0};
    int rc;

    if (json_is_string(value)) /* just a host */
        d.host = json_string_value(value);
    rc = d.host ? 0 : api_read(value, &network_destination_resource, &d, err);
    *ret = (struct network_destination){.inspect = d.inspect};
    if (rc == 0) {
        for (size_t i = 0; i < json_array_size(d.ports); i++)
            ret->ports[i] =
                (uint16_t)json_integer_value(json_array_get(d.ports, i));
    }
    if (rc == 0)
        rc = read_methods(room, d.methods, &ret->methods, err);
    if (rc < 0)
        return rc;
    ret->host = arena_strdup(room, d.host);
    ret->path = d.path ? arena_strdup(room, d.path) : NULL;
    ret->secret = d.secret ? arena_strdup(room, d.secret) : NULL;
    return 0;
}

int network_spec_read(const json_t *object, struct arena *room,
                      struct network_spec *ret, struct error *err)
{
    struct network_destination *list;
    struct body b = {0};
    int rc = api_read(object, &network_resource, &b, err);
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
    *ret = (struct network_spec){.mode = (enum session_egress)b.mode,
                                 .destinations = list,
                                 .destination_count = count,
                                 .packages = b.packages,
                                 .bytes = (uint64_t)b.bytes,
                                 .connections = (uint32_t)b.connections,
                                 .requests = (uint32_t)b.requests};
    return 0;
}

/* ---- JSON: writing ------------------------------------------------------ */

static void write_destination(struct json_writer *w,
                              const struct network_destination *d)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "host", d->host);
    if (d->ports[0]) {
        json_write_open(w, "ports", '[');
        for (size_t i = 0; i < NETWORK_PORTS_MAX && d->ports[i]; i++)
            json_write_int(w, NULL, d->ports[i]);
        json_write_close(w, ']');
    }
    if (d->methods) {
        const char *words = d->methods;
        json_write_open(w, "methods", '[');
        while (*words) {
            size_t len = strcspn(words, ",");

            json_write_text(w, NULL, words, len);
            words += len + (words[len] == ',');
        }
        json_write_close(w, ']');
    }
    if (d->path)
        json_write_string(w, "path", d->path);
    if (d->secret)
        json_write_string(w, "secret", d->secret);
    if (d->inspect)
        json_write_bool(w, "inspect", true);
    json_write_close(w, '}');
}

void network_spec_write(struct json_writer *w, const struct network_spec *net)
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

/* ---- JSON: the session's row ------------------------------------------- */

char *network_json_text(struct network *net, const struct network_info *want)
{
    struct buf out cleanup(buf_done) = {0};
    struct json_writer w = {.out = &out};

    json_write_open(&w, NULL, '{');
    json_write_open(&w, "network", '{');
    network_spec_write(&w, &want->net);
    json_write_close(&w, '}');
    json_write_int(&w, "permitted", want->permitted);
    json_write_int(&w, "bytes_used", (int64_t)atomic_load(&net->bytes_used));
    json_write_int(&w, "requests_used",
                   (int64_t)atomic_load(&net->requests_used));

    json_write_open(&w, "installed", '[');
    for (size_t i = 0; i < net->package_count; i++) {
        const struct network_package *p = &net->packages[i];

        json_write_open(&w, NULL, '{');
        json_write_string(&w, "name", p->name);
        json_write_string(&w, "version", p->version);
        json_write_string(&w, "sha256", p->sha256);
        json_write_int(&w, "at_ms", p->at_ms);
        json_write_close(&w, '}');
    }
    json_write_close(&w, ']');

    json_write_close(&w, '}');
    return buf_take(&out, NULL);
}

static int64_t row_number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

void network_json_load(const char *text, struct network *net)
{
    json_t *row cleanup(json_unref) = NULL;
    struct error err;

    if (!text || !text[0])
        return;
    net->want.room = arena_new();
    if (json_parse(text, strlen(text), &row, &err) < 0 ||
        network_spec_read(json_object_get(row, "network"), net->want.room,
                          &net->want.net, &err) < 0) {
        (void)snprintf(net->want.problem, sizeof(net->want.problem),
                       "what was kept of its network is damaged");
        return;
    }
    net->want.permitted = row_number(row, "permitted");
    atomic_store(&net->mode, net->want.net.mode);
    atomic_store(&net->bytes_used, (uint64_t)row_number(row, "bytes_used"));
    atomic_store(&net->requests_used,
                 (uint64_t)row_number(row, "requests_used"));

    const json_t *list = json_object_get(row, "installed");
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
        net->packages[net->package_count++] = (struct network_package){
            .name = arena_strdup(net->packages_room, name),
            .version = arena_strdup(net->packages_room, version),
            .sha256 = arena_strdup(net->packages_room, hash),
            .at_ms = row_number(p, "at_ms")};
    }
}
