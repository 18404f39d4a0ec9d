/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the proxy: what it is told, and the addresses that are our own.
 * Runs in gloveboxd while it still has the starter's rights. A service
 * without it still serves; its sessions then have no network (E4).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "egress/call.h"
#include "service/service_int.h"

static int add_net(struct egress_net nets[EGRESS_NETS_MAX], int family,
                   const void *address, unsigned bits)
{
    size_t len = family == AF_INET ? 4 : 16;

    for (size_t i = 0; i < EGRESS_NETS_MAX; i++) {
        struct egress_net *n = &nets[i];

        if (n->family == (family == AF_INET ? 4 : 6) && n->bits == bits &&
            memcmp(n->address, address, len) == 0)
            return 0;
        if (n->family)
            continue;
        n->family = family == AF_INET ? 4 : 6;
        n->bits = (uint8_t)bits;
        memcpy(n->address, address, len);
        return 0;
    }
    return -ENOSPC;
}

/* Every address of this host: a session must not reach what listens here. */
static int add_own(struct egress_setup *setup)
{
    struct ifaddrs *all = NULL;
    int r = 0;

    if (getifaddrs(&all) < 0)
        return -errno;
    for (struct ifaddrs *i = all; i && r == 0; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

        if (family == AF_INET)
            r = add_net(setup->refused, family,
                        &((struct sockaddr_in *)i->ifa_addr)->sin_addr, 32);
        else if (family == AF_INET6)
            r = add_net(setup->refused, family,
                        &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, 128);
    }
    freeifaddrs(all);
    return r;
}

/* The address we listen on: an address of ours, or one that is ours alone
 * because somebody forwards it here. */
static int add_listener(struct egress_setup *setup, const char *host)
{
    unsigned char a[16];
    static const unsigned char any[16];

    if (inet_pton(AF_INET, host, a) == 1)
        return memcmp(a, any, 4) == 0
                   ? 0
                   : add_net(setup->refused, AF_INET, a, 32);
    if (inet_pton(AF_INET6, host, a) == 1)
        return memcmp(a, any, 16) == 0
                   ? 0
                   : add_net(setup->refused, AF_INET6, a, 128);
    return 0;
}

/* One "address/bits" of egress_lab. */
static int parse_net(const char *text, size_t len,
                     struct egress_net nets[EGRESS_NETS_MAX])
{
    char copy[64], *slash, *end;
    unsigned char a[16];
    unsigned long bits;
    int family;

    if (len >= sizeof(copy))
        return -EINVAL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    slash = strchr(copy, '/');
    if (!slash)
        return -EINVAL;
    *slash = '\0';
    family = strchr(copy, ':') ? AF_INET6 : AF_INET;
    bits = strtoul(slash + 1, &end, 10);
    if (end == slash + 1 || *end || bits > (family == AF_INET ? 32u : 128u) ||
        inet_pton(family, copy, a) != 1)
        return -EINVAL;
    return add_net(nets, family, a, (unsigned)bits);
}

static int add_lab(struct egress_setup *setup, const char *text,
                   struct error *err)
{
    while (*(text += strspn(text, ", "))) {
        size_t len = strcspn(text, ", ");

        if (parse_net(text, len, setup->lab) < 0) {
            (void)error_set(err, ERR_INVALID,
                            "egress_lab: '%.*s' is not a range",
                            (int)MIN(len, (size_t)60), text);
            return error_hint(err, "Write ranges as 10.9.0.0/24,fd00:9::/64.");
        }
        text += len;
    }
    if (setup->lab[0].family)
        log_event(LOG_WARN, "egress_lab", "means",
                  "sessions may reach private addresses", NULL);
    return 0;
}

static int fill(const struct conf *c, struct egress_setup *setup,
                struct error *err)
{
    int r = add_own(setup);

    if (r == 0)
        r = add_listener(setup, c->listen_host);
    if (r < 0)
        return error_errno(err, ERR_UNAVAILABLE, -r,
                           "cannot list our own addresses");
    (void)snprintf(setup->resolver, sizeof(setup->resolver), "%s",
                   c->egress_resolver);
    (void)snprintf(setup->index_url, sizeof(setup->index_url), "%s",
                   c->package_index);
    (void)snprintf(setup->wheels_dir, sizeof(setup->wheels_dir), "%s",
                   c->package_wheels);
    (void)snprintf(setup->ca_file, sizeof(setup->ca_file), "%s",
                   c->egress_ca_file);
    setup->max_connections = c->egress_connections;
    return 0;
}

int service_setup_egress(struct service *s, struct error *err)
{
    struct egress_setup setup = {.resolver = ""};
    struct priv_user user = {s->egress_uid, s->egress_uid};
    char path[PATH_MAX];
    struct error why;
    int r = add_lab(&setup, s->conf->egress_lab, err);

    if (r < 0) /* a setting that is wrong is said, not worked around */
        return r;
    r = service_setup_beside("glovebox-egress", path, sizeof(path), &why);
    if (r == 0)
        r = fill(s->conf, &setup, &why);
    if (r == 0)
        r = egress_call_open(path, s->egress_uid ? &user : NULL, &setup,
                             &s->egress, &why);
    if (r < 0)
        log_event(LOG_ERROR, "egress_not_started", "why", why.message, "means",
                  "sessions have no network", NULL);
    return 0;
}
