/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network that a client may request and a pool may give: each destination
 * is checked and brought into its canonical form, budgets are checked against
 * the pool's. A pool's network comes from its `egress` and, for an allow list,
 * the words of `egress_allow`, "host[:port],…". Pure, except that
 * network_pool_permit asks policy. What policy and the vault say is checked
 * by network_permit.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/host.h"
#include "session/network_int.h"

/* ---- requests ----------------------------------------------------------- */

#define PATH_MAX_ 511u

static const uint16_t usual_ports[] = {80, 443};

size_t network_spec_ports(const struct session_destination *d,
                          uint16_t ret[SESSION_PORTS_MAX])
{
    size_t count = 0;

    while (count < SESSION_PORTS_MAX && d->ports[count]) {
        ret[count] = d->ports[count];
        count++;
    }
    if (count)
        return count;
    memcpy(ret, usual_ports, sizeof(usual_ports));
    return ARRAY_SIZE(usual_ports);
}

static bool has_port(const struct session_destination *d, uint16_t port)
{
    uint16_t ports[SESSION_PORTS_MAX];
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

static int check_ports(const struct session_destination *d, struct error *err)
{
    for (size_t i = 0; i < SESSION_PORTS_MAX && d->ports[i]; i++)
        for (size_t j = 0; j < i; j++)
            if (d->ports[i] == d->ports[j])
                return error_set(err, ERR_INVALID, "port %u comes twice",
                                 d->ports[i]);
    return 0;
}

/* What goes through TLS is seen, and added to, only by taking it apart. */
static int check_inspect(const struct session_destination *d,
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
                             const struct session_destination *d,
                             struct session_destination *ret,
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

/* ---- all of it ---------------------------------------------------------- */

static int check_budget(const char *name, uint64_t asked, uint64_t most,
                        struct error *err)
{
    if (asked <= most)
        return 0;
    return error_set(err, ERR_INVALID, "%s must be at most %llu, the pool's",
                     name, (unsigned long long)most);
}

static int check_budgets(const struct session_network *net,
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

int network_spec_check(const struct session_network *net,
                       const struct conf_pool *pool,
                       struct session_network_info *ret, struct error *err)
{
    size_t count = net->destination_count;
    struct session_network_info info cleanup(session_network_info_done) = {
        .net = *net};
    struct session_destination *list;
    int rc = check_budgets(net, pool, err);

    if (rc == 0 && count > SESSION_DESTINATIONS_MAX)
        rc = error_set(err, ERR_INVALID, "more than %u destinations",
                       SESSION_DESTINATIONS_MAX);
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

void network_spec_copy(const struct session_network_info *from,
                       struct session_network_info *ret)
{
    size_t count = from->net.destination_count;
    struct arena *room = arena_new();
    struct session_destination *list =
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

static bool ports_within(const struct session_destination *outer,
                         const struct session_destination *inner)
{
    uint16_t ports[SESSION_PORTS_MAX];
    size_t count = network_spec_ports(inner, ports);

    for (size_t i = 0; i < count; i++)
        if (!has_port(outer, ports[i]))
            return false;
    return true;
}

static bool covers(const struct session_destination *outer,
                   const struct session_destination *inner)
{
    return (strcmp(outer->host, inner->host) == 0 ||
            egress_host_matches(outer->host, inner->host)) &&
           ports_within(outer, inner) &&
           methods_within(outer->methods, inner->methods) &&
           path_within(outer->path, inner->path);
}

bool network_spec_within(const struct session_network *outer,
                         const struct session_network *inner)
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
               !covers(&outer->destinations[j], &inner->destinations[i]))
            j++;
        if (j == outer->destination_count)
            return false;
    }
    return true;
}

static bool same(const struct session_destination *a,
                 const struct session_destination *b)
{
    return strcmp(a->host, b->host) == 0 &&
           memcmp(a->ports, b->ports, sizeof(a->ports)) == 0 &&
           same_text(a->methods, b->methods) && same_text(a->path, b->path) &&
           same_text(a->secret, b->secret) && a->inspect == b->inspect;
}

/* 0 is as much as there is. */
static bool less(uint64_t before, uint64_t after)
{
    return after && (!before || after < before);
}

bool network_spec_wider(const struct session_network *before,
                        const struct session_network *after)
{
    if (before->mode != after->mode ||
        before->destination_count > after->destination_count ||
        (before->packages && !after->packages) ||
        less(before->bytes, after->bytes) ||
        less(before->connections, after->connections) ||
        less(before->requests, after->requests))
        return false;
    /* In the same places: the first that matches is the one that counts. */
    for (size_t i = 0; i < before->destination_count; i++)
        if (!same(&before->destinations[i], &after->destinations[i]))
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
static int add_word(char *word, struct session_destination *list,
                    size_t *count, struct error *err)
{
    struct session_destination d = {.host = word};
    int rc = split_port(word, &d.ports[0], err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < *count; i++) {
        size_t n = 0;

        while (n < SESSION_PORTS_MAX && list[i].ports[n])
            n++;
        if (strcmp(list[i].host, word) == 0 && n && d.ports[0] &&
            n < SESSION_PORTS_MAX) {
            list[i].ports[n] = d.ports[0];
            return 0;
        }
    }
    if (*count == SESSION_DESTINATIONS_MAX)
        return error_set(err, ERR_INVALID, "more than %u destinations",
                         SESSION_DESTINATIONS_MAX);
    list[(*count)++] = d;
    return 0;
}

int network_pool_read(const struct conf_pool *pool,
                      struct session_network_info *ret, struct error *err)
{
    struct session_destination list[SESSION_DESTINATIONS_MAX];
    struct session_network net = {.destinations = list,
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

int network_pool_permit(void *ctx, const struct actor *who,
                        const struct conf_pool *pool, struct error *err)
{
    struct session_network_info info cleanup(session_network_info_done) = {0};
    struct sessions *m = ctx;
    struct conf_pool first = m->conf->pools[0];
    struct network_ask ask = {
        .m = m, .who = who, .pool = &first, .runtime = pool->runtime};
    int rc;

    first.name = pool->name;
    rc = network_pool_read(pool, &info, err);
    if (rc == 0)
        rc = network_permit(&ask, &info, err);
    if (rc == 0 && info.net.mode == SESSION_EGRESS_OPEN)
        log_event(LOG_WARN, "pool_egress_open", "pool", pool->name, "means",
                  SESSION_OPEN_MEANS, NULL);
    return rc;
}
