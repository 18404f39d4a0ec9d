/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a session's network in force. pid 1 hands over its two sockets, the
 * proxy gets them with the rules and the secrets that these need, and the box
 * gets the address of its proxy. Runs in gloveboxd under the network's lock.
 * If any step fails, everything is undone: the session has no network, and a
 * reason (E4). Secrets are in this process only while a grant is made.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/call.h"
#include "network/network_int.h"
#include "quota/quota.h"
#include "vault/vault.h"

#define PROXY_URL "http://127.0.0.1:3128"
_Static_assert(EGRESS_PROXY_PORT == 3128, "the port of PROXY_URL");

/* ---- rules -------------------------------------------------------------- */

struct rules {
    struct egress_rule *list;
    size_t count;
};

static void rules_done(struct rules *r)
{
    if (r->list)
        explicit_bzero(r->list, r->count * sizeof(*r->list));
    free(r->list);
}

/* Checks the secret's destinations again: they may have been changed since the
 * network was requested. */
static int add_secret(struct network *net, const struct network_destination *d,
                      struct egress_rule *ret, struct error *err)
{
    char *value cleanup(vault_forget) = NULL;
    struct actor who = network_actor(net);
    struct vault_info info;
    int rc = vault_reveal(net->all->core->vault, &who, d->secret, net->session,
                          &info, &value, err);

    if (rc < 0)
        return rc;
    if (!vault_goes_to(&info, d->host))
        return error_set(err, ERR_FORBIDDEN,
                         "secret '%s' is not for destination '%.80s' any more",
                         d->secret, d->host);
    (void)snprintf(ret->header, sizeof(ret->header), "%s", info.header);
    (void)snprintf(ret->value, sizeof(ret->value), "%s%s", info.prefix, value);
    return 0;
}

static int make_rules(struct network *net, struct rules *ret,
                      struct error *err)
{
    const struct network_spec *want = &net->want.net;
    int rc = 0;

    ret->count = want->destination_count;
    ret->list = xcalloc(ret->count + 1, sizeof(*ret->list));
    for (size_t i = 0; i < ret->count && rc == 0; i++) {
        const struct network_destination *d = &want->destinations[i];
        struct egress_rule *rule = &ret->list[i];

        (void)snprintf(rule->host, sizeof(rule->host), "%s", d->host);
        memcpy(rule->ports, d->ports, sizeof(rule->ports));
        rule->methods = d->methods ? network_spec_methods(d->methods) : 0;
        (void)snprintf(rule->path, sizeof(rule->path), "%s",
                       d->path ? d->path : "");
        rule->inspect = d->inspect;
        if (d->secret)
            rc = add_secret(net, d, rule, err);
    }
    return rc;
}
_Static_assert(sizeof(((struct egress_rule *)0)->ports) ==
                   sizeof(((struct network_destination *)0)->ports),
               "both list as many ports");

/* The rest of a budget; own 0: the pool's. */
static uint64_t budget_left(uint64_t own, uint64_t pools, uint64_t used)
{
    uint64_t most = own ? MIN(own, pools) : pools;

    return used < most ? most - used : 0;
}

static struct egress_grant make_grant(struct network *net, uint64_t handle)
{
    const struct network_spec *want = &net->want.net;
    const struct conf_pool *pool = pool_conf(net->pool);
    uint64_t requests = budget_left(want->requests, pool->egress_requests,
                                    atomic_load(&net->requests_used));

    return (struct egress_grant){
        .handle = handle,
        .mode = (uint32_t)want->mode, /* the same numbers */
        .rule_count = (uint32_t)want->destination_count,
        .ask = net->all->govern.policy != NULL,
        .packages = want->packages,
        .bytes = budget_left(want->bytes, pool->egress_bytes,
                             atomic_load(&net->bytes_used)),
        .connections = (uint32_t)budget_left(want->connections,
                                             pool->egress_connections, 0),
        .requests = (uint32_t)requests,
        .lookups = (uint32_t)requests,
    };
}
_Static_assert((int)EGRESS_MODE_ALLOWLIST == (int)SESSION_EGRESS_ALLOWLIST &&
                   (int)EGRESS_MODE_OPEN == (int)SESSION_EGRESS_OPEN,
               "the same numbers");

/* ---- pid 1 and the environment of the code ------------------------------ */

static int network_tell_init(struct box *box, enum init_network what,
                             int *ret_fd, struct error *err)
{
    struct broker_request request = {.type = INIT_NETWORK, .arg = what};
    struct broker_reply reply;
    int rc =
        box_broker_call(box, &request, NULL, 0, ret_fd != NULL, &reply, err);

    if (rc == 0 && reply.errnum)
        rc = error_errno(err, ERR_GUEST, reply.errnum,
                         "the sandbox has no sockets to give");
    if (rc == 0 && ret_fd)
        *ret_fd = reply.fd;
    return rc;
}

/* A NULL value removes the variable. */
static void env_set(struct buf *b, const char *name, const char *value)
{
    if (value)
        buf_addf(b, "%s=%s\n", name, value);
    else
        buf_addf(b, "%s\n", name);
}

/* A secret whose name can be one of a variable becomes a variable without the
 * value, so that code which looks for it finds that it exists. Names that
 * programs interpret are left alone. */
static bool may_be_variable(const char *name)
{
    static const char *const meant[] = {"PATH", "HOME", "LANG",   "LC_",
                                        "LD_",  "PIP_", "PYTHON", "SSL_"};
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

    if (!len || name[len] || (name[0] >= '0' && name[0] <= '9') ||
        strstr(name, "PROXY") || strstr(name, "CA_"))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(meant); i++)
        if (strncmp(name, meant[i], strlen(meant[i])) == 0)
            return false;
    return true;
}

static int put_guest_env(struct network *net, bool on, const char *ca,
                         struct error *err)
{
    static const char *const proxies[] = {"HTTP_PROXY",  "HTTPS_PROXY",
                                          "ALL_PROXY",   "http_proxy",
                                          "https_proxy", "all_proxy"};
    static const char *const nowhere[] = {"NO_PROXY", "no_proxy"};
    static const char *const cas[] = {
        "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",  "CURL_CA_BUNDLE",
        "PIP_CERT",      "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"};
    const struct network_spec *want = &net->want.net;
    struct box *box = net->box;
    struct buf b cleanup(buf_done) = {0};
    bool pip = on && want->packages;
    int rc;

    for (size_t i = 0; i < ARRAY_SIZE(proxies); i++)
        env_set(&b, proxies[i], on ? PROXY_URL : NULL);
    for (size_t i = 0; i < ARRAY_SIZE(nowhere); i++)
        env_set(&b, nowhere[i], on ? "localhost,127.0.0.1,::1" : NULL);
    for (size_t i = 0; i < ARRAY_SIZE(cas); i++)
        env_set(&b, cas[i], ca[0] ? INIT_CA_FILE : NULL);
    env_set(&b, "PIP_INDEX_URL", pip ? NETWORK_INDEX_URL : NULL);
    env_set(&b, "PIP_TRUSTED_HOST", pip ? NETWORK_INDEX_HOST : NULL);

    for (size_t i = 0; i < want->destination_count; i++) {
        const char *name = want->destinations[i].secret;

        if (name && may_be_variable(name))
            env_set(&b, name, on ? "added-by-the-proxy" : NULL);
    }

    rc = box_guest_ca_set(box, ca, strlen(ca), err);
    return rc < 0 ? rc : box_guest_env_set(box, b.data, b.len, err);
}

/* ---- granting ----------------------------------------------------------- */

static int still_permitted(struct network *net, struct error *err)
{
    struct actor who = network_actor(net);
    struct network_ask ask = network_ask_of(net, &who);
    int rc = network_permit_again(&ask, &net->want, err);

    if (rc == 0)
        rc =
            quota_check(net->all->core->quotas, who.tenant, QUOTA_EGRESS, err);
    return rc;
}

/* Takes the sockets of pid 1, which only the proxy reads from now on. */
static int take_sockets(struct network *net, int *ret_tcp, int *ret_udp,
                        struct error *err)
{
    struct box *box = net->box;
    int rc = network_tell_init(box, INIT_NETWORK_PROXY, ret_tcp, err);

    if (rc == 0)
        rc = network_tell_init(box, INIT_NETWORK_RESOLVER, ret_udp, err);
    if (rc == 0)
        rc = network_tell_init(box, INIT_NETWORK_TAKEN, NULL, err);
    if (rc == 0)
        net->taken = true;
    return rc;
}

/* again: the proxy has its sockets already. */
static int grant_at_proxy(struct network *net, bool again, struct error *err)
{
    struct rules rules cleanup(rules_done) = {0};
    char ca[EGRESS_CA_MAX] = "";
    struct egress_grant grant;
    int tcp cleanup(fd_close) = -1;
    int udp cleanup(fd_close) = -1;
    int rc = still_permitted(net, err);

    if (rc == 0 && !egress_call_alive(net->all->egress))
        rc = error_set(err, ERR_UNAVAILABLE,
                       "the proxy, a session's only way out, is not there");
    if (rc == 0)
        rc = make_rules(net, &rules, err);
    if (rc == 0 && !again)
        rc = take_sockets(net, &tcp, &udp, err);
    if (rc < 0)
        return rc;
    atomic_store(&net->proxy_lost, false);
    if (!again)
        network_handle_add(net);
    grant = make_grant(net, net->handle);
    rc = egress_call_grant(net->all->egress, &grant, rules.list, tcp, udp, ca,
                           err);
    if (rc == 0)
        rc = put_guest_env(net, true, ca, err);
    return rc;
}

static int grant_finish(struct network *net, int rc, struct error *err)
{
    struct network_info *want = &net->want;

    if (rc == 0) {
        want->problem[0] = '\0';
        return 0;
    }
    network_revoke(net);
    if (strncmp(want->problem, err->message, sizeof(want->problem) - 1) != 0)
        log_event(LOG_WARN, "network_not_granted", "session", net->session,
                  "error", err->message, NULL);
    (void)snprintf(want->problem, sizeof(want->problem), "%.199s",
                   err->message);
    return rc;
}

int network_grant(struct network *net, struct error *err)
{
    int rc = 0;

    network_revoke(net); /* access that is withdrawn ends first */
    if (net->box && atomic_load(&net->wanted))
        rc = grant_at_proxy(net, false, err);
    return grant_finish(net, rc, err);
}

int network_grant_more(struct network *net, struct error *err)
{
    if (!net->handle || atomic_load(&net->proxy_lost))
        return network_grant(net, err);
    return grant_finish(net, grant_at_proxy(net, true, err), err);
}

/* ---- withdrawing -------------------------------------------------------- */

/* The proxy revokes the grant, or is gone itself. If a living proxy does not
 * revoke, killing the sandbox is the only way to be sure. A proxy that was
 * lost may have been replaced by one that never had this grant. */
static void revoke_at_proxy(struct network *net)
{
    struct egress_link *link = net->all->egress;
    bool lost = atomic_load(&net->proxy_lost);
    uint64_t handle = net->handle;
    struct error err;

    network_handle_remove(net);
    if (!egress_call_alive(link) ||
        egress_call_revoke(link, handle, &err) == 0 || lost ||
        !egress_call_alive(link))
        return;
    log_event(LOG_ERROR, "network_not_revoked", "session", net->session,
              "error", err.message, NULL);
    if (net->box)
        box_kill(net->box);
}

void network_revoke(struct network *net)
{
    struct box *box = net->box;
    struct error ignored;

    if (net->handle)
        revoke_at_proxy(net);
    if (!net->taken)
        return;
    net->taken = false;
    if (!box || box_is_broken(box))
        return;
    /* A box that does not take this is broken now, and used no more. */
    if (network_tell_init(box, INIT_NETWORK_BACK, NULL, &ignored) == 0)
        (void)put_guest_env(net, false, "", &ignored);
}
