/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tunnels: bytes both ways, after the session's first bytes were checked. TLS
 * must name the host that the tunnel was allowed for; other protocols are
 * allowed only where the list names their port. Runs in glovebox-egress.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "egress/egress_int.h"
#include "egress/host.h"

const char *egress_tunnel_judge(const struct conn *c, bool *ret_more,
                                bool *ret_tls)
{
    char name[EGRESS_HOST_MAX], canonical[EGRESS_HOST_MAX];
    struct error err;

    *ret_more = *ret_tls = false;
    switch (egress_hello_read(c->client.in.data, c->client.in.len, name)) {
    case HELLO_MORE:
        *ret_more = true;
        return NULL;
    case HELLO_NOT:
        return c->decision.port_listed
                   ? NULL
                   : "what went into the tunnel is not TLS";
    case HELLO_BROKEN:
        return "what went into the tunnel begins as TLS and is none";
    case HELLO_HIDDEN:
        return c->decision.rule || c->inspected
                   ? "TLS hides the name of the host it asks for"
                   : NULL;
    case HELLO_TLS:
        break;
    }
    *ret_tls = true;
    if (!name[0])
        return NULL;
    if (egress_host_canonical(name, strlen(name), canonical, NULL, &err) < 0 ||
        strcmp(canonical, c->target.host) != 0)
        return "TLS names another host than the one the tunnel was allowed for";
    return NULL;
}

bool egress_tunnel_hello(struct conn *c)
{
    bool more = false, tls = false;
    const char *why;
    SSL *ssl;

    if (!c->client.in.len) {
        if (c->client.eof)
            egress_conn_abort(c, "the session hung up");
        return false;
    }
    why = egress_tunnel_judge(c, &more, &tls);
    if (!why && !more && !tls)
        why = "what went into the tunnel is not TLS";
    if (why) {
        egress_conn_abort(c, why);
        return false;
    }
    if (more) {
        if (c->client.eof)
            egress_conn_abort(c, "the session hung up");
        return false;
    }
    ssl = egress_ca_accept(c->guest->ca, c->e->inward, c->target.host,
                           c->target.address);
    if (!ssl) {
        egress_conn_abort(c, "no certificate could be made");
        return false;
    }
    egress_peer_secure(&c->client, ssl);
    egress_conn_state(c, CONN_ACCEPT);
    return true;
}

/* False: it is over. */
static bool tunnel_copy(struct conn *c, struct peer *from, struct peer *to,
                        bool out)
{
    size_t n = from->in.len;

    if (n && !egress_peer_full(to)) {
        if (!egress_conn_charge(c, out, n))
            return false;
        egress_peer_write(to, from->in.data, n);
        buf_reset(&from->in);
    }
    if (from->eof && !from->in.len)
        egress_peer_end(to);
    return true;
}

static bool check_first(struct conn *c)
{
    bool more = false, tls = false;
    const char *why;

    if (c->hello_checked || !c->client.in.len)
        return true;
    why = egress_tunnel_judge(c, &more, &tls);
    if (!why && more && c->client.eof)
        why = "what went into the tunnel begins as TLS and is none";
    if (why) {
        egress_conn_abort(c, why);
        return false;
    }
    c->hello_checked = !more;
    return true;
}

bool egress_tunnel_relay(struct conn *c)
{
    if (!check_first(c))
        return false;
    if ((c->hello_checked || !c->client.in.len) &&
        !tunnel_copy(c, &c->client, &c->server, true))
        return false;
    if (!tunnel_copy(c, &c->server, &c->client, false))
        return false;
    egress_peer_flush(&c->client);
    egress_peer_flush(&c->server);
    if (c->client.ended && c->server.ended)
        egress_conn_end(c, "");
    else if (c->server.broken && !c->server.in.len)
        egress_conn_end(c, "the destination hung up");
    else if (c->client.broken)
        egress_conn_end(c, "the session hung up");
    return false;
}
