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
#include "quota/quota.h"
#include "session/network_int.h"
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

/* The secret's own destinations are looked at again: it may have been bound
 * anew since it was asked for. */
static int add_secret(struct session *se, const struct session_destination *d,
                      struct egress_rule *ret, struct error *err)
{
    char *value cleanup(vault_forget) = NULL;
    struct actor who = session_actor(se);
    struct vault_info info;
    int rc = vault_reveal(se->m->parts.vault, &who, d->secret, se->id, &info,
                          &value, err);

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

static int make_rules(struct session *se, struct rules *ret, struct error *err)
{
    const struct session_network *net = &se->net->want.net;
    int rc = 0;

    ret->count = net->destination_count;
    ret->list = xcalloc(ret->count + 1, sizeof(*ret->list));
    for (size_t i = 0; i < ret->count && rc == 0; i++) {
        const struct session_destination *d = &net->destinations[i];
        struct egress_rule *rule = &ret->list[i];

        (void)snprintf(rule->host, sizeof(rule->host), "%s", d->host);
        memcpy(rule->ports, d->ports, sizeof(rule->ports));
        rule->methods = d->methods ? network_spec_methods(d->methods) : 0;
        (void)snprintf(rule->path, sizeof(rule->path), "%s",
                       d->path ? d->path : "");
        rule->inspect = d->inspect;
        if (d->secret)
            rc = add_secret(se, d, rule, err);
    }
    return rc;
}
_Static_assert(sizeof(((struct egress_rule *)0)->ports) ==
                   sizeof(((struct session_destination *)0)->ports),
               "both list as many ports");

/* What is left of a budget; 0 in the settings of a session: the pool's. */
static uint64_t left(uint64_t own, uint64_t pools, uint64_t used)
{
    uint64_t most = own ? MIN(own, pools) : pools;

    return used < most ? most - used : 0;
}

static struct egress_grant make_grant(struct session *se, uint64_t handle)
{
    struct session_net *net = se->net;
    const struct session_network *want = &net->want.net;
    const struct conf_pool *pool = pool_conf(se->pool);
    uint64_t requests = left(want->requests, pool->egress_requests,
                             atomic_load(&net->requests_used));

    return (struct egress_grant){
        .handle = handle,
        .mode = (uint32_t)want->mode, /* the same numbers */
        .rule_count = (uint32_t)want->destination_count,
        .ask = se->m->parts.govern.policy != NULL,
        .packages = want->packages,
        .bytes = left(want->bytes, pool->egress_bytes,
                      atomic_load(&net->bytes_used)),
        .connections =
            (uint32_t)left(want->connections, pool->egress_connections, 0),
        .requests = (uint32_t)requests,
        .lookups = (uint32_t)requests,
    };
}
_Static_assert((int)EGRESS_MODE_ALLOWLIST == (int)SESSION_EGRESS_ALLOWLIST &&
                   (int)EGRESS_MODE_OPEN == (int)SESSION_EGRESS_OPEN,
               "the same numbers");

/* ---- pid 1 and what is around the code ---------------------------------- */

static int tell(struct box *box, enum init_network what, int *ret_fd,
                struct error *err)
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

/* With a NULL value: taken away. */
static void set(struct buf *b, const char *name, const char *value)
{
    if (value)
        buf_addf(b, "%s=%s\n", name, value);
    else
        buf_addf(b, "%s\n", name);
}

/* A secret that is called as a variable is one, without its value: code that
 * asks for it finds that it is there and that it is not for it to have. Names
 * that mean something to programs are left alone. */
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

static void set_secrets(struct buf *b, const struct session_network *net,
                        bool on)
{
    for (size_t i = 0; i < net->destination_count; i++) {
        const char *name = net->destinations[i].secret;

        if (name && may_be_variable(name))
            set(b, name, on ? "added-by-the-proxy" : NULL);
    }
}

static int put_guest_env(struct session *se, bool on, const char *ca,
                         struct error *err)
{
    static const char *const proxies[] = {"HTTP_PROXY",  "HTTPS_PROXY",
                                          "ALL_PROXY",   "http_proxy",
                                          "https_proxy", "all_proxy"};
    static const char *const nowhere[] = {"NO_PROXY", "no_proxy"};
    static const char *const cas[] = {
        "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",  "CURL_CA_BUNDLE",
        "PIP_CERT",      "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"};
    const struct session_network *net = &se->net->want.net;
    struct box *box = se->net->box;
    struct buf b cleanup(buf_done) = {0};
    bool pip = on && net->packages;
    int rc;

    for (size_t i = 0; i < ARRAY_SIZE(proxies); i++)
        set(&b, proxies[i], on ? PROXY_URL : NULL);
    for (size_t i = 0; i < ARRAY_SIZE(nowhere); i++)
        set(&b, nowhere[i], on ? "localhost,127.0.0.1,::1" : NULL);
    for (size_t i = 0; i < ARRAY_SIZE(cas); i++)
        set(&b, cas[i], ca[0] ? INIT_CA_FILE : NULL);
    set(&b, "PIP_INDEX_URL", pip ? NETWORK_INDEX_URL : NULL);
    set(&b, "PIP_TRUSTED_HOST", pip ? NETWORK_INDEX_HOST : NULL);
    set_secrets(&b, net, on);
    rc = box_guest_ca_set(box, ca, strlen(ca), err);
    return rc < 0 ? rc : box_guest_env_set(box, b.data, b.len, err);
}

/* ---- granting ----------------------------------------------------------- */

static int permitted(struct session *se, struct error *err)
{
    struct actor who = session_actor(se);
    struct network_ask ask = {.m = se->m,
                              .who = &who,
                              .pool = pool_conf(se->pool),
                              .runtime = runtime_name(se->runtime),
                              .session = se->id,
                              .pinned = atomic_load(&se->policy_version)};
    int rc = network_permit_again(&ask, &se->net->want, err);

    if (rc == 0)
        rc = quota_check(se->m->parts.quotas, who.tenant, QUOTA_EGRESS, err);
    return rc;
}

/* Sockets of pid 1 that nobody reads but the proxy from now on. */
static int take_sockets(struct session *se, int *ret_tcp, int *ret_udp,
                        struct error *err)
{
    struct box *box = se->net->box;
    int rc = tell(box, INIT_NETWORK_PROXY, ret_tcp, err);

    if (rc == 0)
        rc = tell(box, INIT_NETWORK_RESOLVER, ret_udp, err);
    if (rc == 0)
        rc = tell(box, INIT_NETWORK_TAKEN, NULL, err);
    if (rc == 0)
        se->net->taken = true;
    return rc;
}

/* again: the proxy has its sockets already. */
static int hand_over(struct session *se, bool again, struct error *err)
{
    struct session_net *net = se->net;
    struct rules rules cleanup(rules_done) = {0};
    char ca[EGRESS_CA_MAX] = "";
    struct egress_grant grant;
    int tcp cleanup(fd_close) = -1;
    int udp cleanup(fd_close) = -1;
    int rc = permitted(se, err);

    if (rc == 0 && !egress_call_alive(se->m->parts.egress))
        rc = error_set(err, ERR_UNAVAILABLE,
                       "the proxy, a session's only way out, is not there");
    if (rc == 0)
        rc = make_rules(se, &rules, err);
    if (rc == 0 && !again)
        rc = take_sockets(se, &tcp, &udp, err);
    if (rc < 0)
        return rc;
    atomic_store(&net->void_, false);
    if (!again)
        network_report_enter(se);
    grant = make_grant(se, net->handle);
    rc = egress_call_grant(se->m->parts.egress, &grant, rules.list, tcp, udp,
                           ca, err);
    if (rc == 0)
        rc = put_guest_env(se, true, ca, err);
    return rc;
}

static bool wants_any(const struct session_net *net)
{
    return net->want.net.mode != SESSION_EGRESS_NONE || net->want.net.packages;
}

static int note_problem(struct session *se, int rc, struct error *err)
{
    struct session_network_info *want = &se->net->want;

    if (rc == 0) {
        want->problem[0] = '\0';
        return 0;
    }
    network_revoke(se);
    if (strncmp(want->problem, err->message, sizeof(want->problem) - 1) != 0)
        log_event(LOG_WARN, "network_not_granted", "session", se->id, "error",
                  err->message, NULL);
    (void)snprintf(want->problem, sizeof(want->problem), "%.199s",
                   err->message);
    return rc;
}

int network_grant(struct session *se, struct error *err)
{
    int rc = 0;

    network_revoke(se); /* what may be less comes first */
    if (se->net->box && wants_any(se->net))
        rc = hand_over(se, false, err);
    return note_problem(se, rc, err);
}

int network_grant_more(struct session *se, struct error *err)
{
    if (!se->net->handle || atomic_load(&se->net->void_))
        return network_grant(se, err);
    return note_problem(se, hand_over(se, true, err), err);
}

/* ---- withdrawing -------------------------------------------------------- */

/* The proxy lets go of it, or is gone itself; a proxy that does neither
 * leaves only one way to be sure. One that was lost may have been followed by
 * another that has this grant or has not. */
static void withdraw(struct session *se)
{
    struct egress_link *link = se->m->parts.egress;
    bool lost = atomic_load(&se->net->void_);
    uint64_t handle = se->net->handle;
    struct error err;

    network_report_leave(se);
    if (!egress_call_alive(link) ||
        egress_call_revoke(link, handle, &err) == 0 || lost ||
        !egress_call_alive(link))
        return;
    log_event(LOG_ERROR, "network_not_revoked", "session", se->id, "error",
              err.message, NULL);
    if (se->net->box)
        box_kill(se->net->box);
}

void network_revoke(struct session *se)
{
    struct session_net *net = se->net;
    struct box *box = net->box;
    struct error ignored;

    if (net->handle)
        withdraw(se);
    if (!net->taken)
        return;
    net->taken = false;
    if (!box || box_is_broken(box))
        return;
    /* A box that does not take this is broken now, and used no more. */
    if (tell(box, INIT_NETWORK_BACK, NULL, &ignored) == 0)
        (void)put_guest_env(se, false, "", &ignored);
}
