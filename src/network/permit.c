/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May a session have this network? Asks policy about every destination and
 * port (or once, for an open network) and about every secret. One denial
 * denies the whole; all approvals that rules require become one request to a
 * person. Without a matching rule a network must stay within the pool's,
 * unless the key may set policy anyway.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "auth/auth.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/call.h"
#include "network/network_int.h"
#include "vault/vault.h"
#include "json/json.h"

struct network_ask network_ask_of(const struct network *net,
                                  const struct actor *who)
{
    return (struct network_ask){.all = net->all,
                                .who = who,
                                .pool = pool_conf(net->pool),
                                .runtime = net->runtime,
                                .session = net->session,
                                .pinned = atomic_load(&net->policy_version)};
}

struct govern_scope network_scope(const struct network_ask *ask,
                                  enum session_egress mode)
{
    return (struct govern_scope){.actor = ask->who,
                                 .session = ask->session,
                                 .pool = ask->pool->name,
                                 .runtime = ask->runtime,
                                 .network = session_egress_name(mode),
                                 .pinned = ask->pinned};
}

struct verdicts {
    bool asks;                     /* a person has to approve */
    struct policy_decision asked;  /* the first such decision, */
    struct govern_request request; /* and its request */
    bool undecided;                /* some default allowed it, and no rule */
    char undecided_host[80];
    int64_t version;
};

/* One request; err is set by a denial. */
static int decide_request(const struct network_ask *ask,
                          struct govern_request rq, struct verdicts *v,
                          struct error *err)
{
    struct policy_decision d;

    rq.object = ask->session ? ask->session : "";
    govern_decide(&ask->all->govern, &rq, &d);
    govern_record(&ask->all->govern, &rq, &d);
    v->version = d.version;
    if (d.verdict == POLICY_DENY)
        return policy_refuse(&d, err);
    if (d.verdict == POLICY_ASK && !v->asks) {
        v->asks = true;
        v->asked = d;
        v->request = rq;
    }
    if (d.verdict == POLICY_ALLOW && !govern_by_rule(&d) && !v->undecided) {
        v->undecided = true;
        (void)snprintf(v->undecided_host, sizeof(v->undecided_host), "%s",
                       rq.ask.host ? rq.ask.host : "");
    }
    return 0;
}

static int decide_destination(const struct network_ask *ask,
                              const struct govern_scope *scope,
                              const struct network_destination *d,
                              struct verdicts *v, struct error *err)
{
    uint16_t ports[NETWORK_PORTS_MAX];
    size_t count = network_spec_ports(d, ports);
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        rc = decide_request(ask, govern_network(scope, d->host, ports[i]), v,
                            err);
    if (rc < 0)
        return error_wrap(err, "destination '%.80s'", d->host);
    return 0;
}

/* The secret must exist, and be bound to that destination. */
static int decide_secret(const struct network_ask *ask,
                         const struct govern_scope *scope,
                         const struct network_destination *d,
                         struct verdicts *v, struct error *err)
{
    struct vault_info info;
    int rc = vault_get(ask->all->core->vault, ask->who, d->secret, &info, err);

    if (rc < 0)
        return rc;
    if (!vault_goes_to(&info, d->host)) {
        (void)error_set(err, ERR_INVALID,
                        "secret '%s' is not for destination '%.80s'",
                        d->secret, d->host);
        return error_hint(err, "it is bound to %.200s", info.destinations);
    }
    rc = decide_request(ask, govern_secret(scope, d->host, d->secret), v, err);
    return rc < 0 ? error_wrap(err, "secret '%s'", d->secret) : 0;
}

/* Every destination, port and secret of the network. */
static int decide_all(const struct network_ask *ask,
                      const struct network_spec *net, struct verdicts *v,
                      struct error *err)
{
    const struct govern_scope scope = network_scope(ask, net->mode);
    int rc = 0;

    if (net->mode == SESSION_EGRESS_NONE && !net->packages)
        return 0; /* nothing is always allowed */
    if (net->mode != SESSION_EGRESS_ALLOWLIST || !net->destination_count)
        rc = decide_request(ask, govern_network(&scope, NULL, 0), v, err);
    for (size_t i = 0; i < net->destination_count && rc == 0; i++) {
        const struct network_destination *d = &net->destinations[i];

        rc = decide_destination(ask, &scope, d, v, err);
        if (rc == 0 && d->secret)
            rc = decide_secret(ask, &scope, d, v, err);
    }
    return rc;
}

static bool has_secret(const struct network_spec *net)
{
    for (size_t i = 0; i < net->destination_count; i++)
        if (net->destinations[i].secret)
            return true;
    return false;
}

/* Destinations that no rule decided must be within the pool's. */
static int check_undecided(const struct network_ask *ask,
                           const struct network_spec *net,
                           const struct verdicts *v, struct error *err)
{
    struct network_info pool cleanup(network_info_done) = {0};
    int rc;

    if (!v->undecided || ask->of_pool || ask->who->admin ||
        (ask->who->scopes & AUTH_POLICY_ADMIN))
        return 0;
    rc = network_pool_read(ask->pool, &pool, err);
    if (rc < 0)
        return rc;
    if (network_spec_within(&pool.net, net) && !has_secret(net))
        return 0;
    (void)error_set(err, ERR_FORBIDDEN,
                    "no rule of the policy allows this session more than its "
                    "pool has%s%s",
                    v->undecided_host[0] ? ": " : "", v->undecided_host);
    return error_hint(err,
                      "pool '%s' has egress '%s'; a rule of the policy, "
                      "or a key with policy:admin, can give more",
                      ask->pool->name, ask->pool->egress);
}

/* No approval opens what the proxy always refuses (E3), so such a request is
 * refused instead of being held. */
static int check_reachable(const struct network_ask *ask,
                           const struct network_spec *net, struct error *err)
{
    for (size_t i = 0; i < net->destination_count; i++) {
        const char *host = net->destinations[i].host;
        const char *why = egress_call_never(ask->all->egress, host);

        if (!why)
            continue;
        (void)error_set(err, ERR_FORBIDDEN,
                        "destination '%.80s' is never reachable: %s address",
                        host, why);
        return error_hint(err, "No approval can open it. Remove it from the "
                               "list.");
    }
    return 0;
}

#define SUMMARY_MAX 480u /* of struct approval_info's, in bytes */

/* "a.example, b.example:8443 with the secret x, and 3 more". */
static void add_destinations(struct buf *out, const struct network_spec *net)
{
    for (size_t i = 0; i < net->destination_count; i++) {
        const struct network_destination *d = &net->destinations[i];

        if (out->len + strlen(d->host) > SUMMARY_MAX - 120u) {
            buf_addf(out, " and %zu more", net->destination_count - i);
            return;
        }
        buf_addf(out, "%s%s", i ? ", " : "", d->host);
        for (size_t p = 0; p < NETWORK_PORTS_MAX && d->ports[p]; p++)
            buf_addf(out, "%s%u", p ? "," : ":", d->ports[p]);
        if (d->secret)
            buf_addf(out, " with the secret %s", d->secret);
    }
}

/* One sentence for the approver: what is opened, and for which sessions. */
static void add_summary(struct buf *out, const struct network_ask *ask,
                        const struct network_spec *net)
{
    if (ask->for_pool)
        buf_addf(out, "open pool %s, for every session in it, to ",
                 ask->pool->name);
    else if (ask->session)
        buf_addf(out, "open session %s in pool %s to ", ask->session,
                 ask->pool->name);
    else
        buf_addf(out, "open a new session in pool %s to ", ask->pool->name);
    if (net->mode == SESSION_EGRESS_OPEN)
        buf_adds(out, net->destination_count ? "every public address, and to "
                                             : "every public address");
    if (net->destination_count)
        add_destinations(out, net);
    else if (net->mode != SESSION_EGRESS_OPEN)
        buf_adds(out, net->packages ? "packages" : "no destination");
    if (net->packages &&
        (net->destination_count || net->mode == SESSION_EGRESS_OPEN))
        buf_adds(out, ", and to packages");
}

/* The same network is the same question. The details list every destination,
 * which the summary may not have room for. */
static int hold_network(const struct network_ask *ask,
                        const struct network_spec *net,
                        const struct verdicts *v, struct error *err)
{
    struct buf network cleanup(buf_done) = {0};
    struct buf summary cleanup(buf_done) = {0};
    struct json_writer w = {.out = &network};
    struct govern_request rq = v->request;
    int rc = check_reachable(ask, net, err);

    if (rc < 0)
        return rc;
    json_write_open(&w, NULL, '{');
    network_spec_write(&w, net);
    json_write_close(&w, '}');
    add_summary(&summary, ask, net);
    rq.object = NULL;
    rq.summary = summary.data;
    govern_add(&rq, "pool", ask->pool->name);
    govern_add(&rq, "for", ask->for_pool ? "every session of the pool" : NULL);
    govern_add(&rq, "session", ask->session);
    govern_add_json(&rq, "network", network.data);
    return govern_hold(&ask->all->govern, &rq, &v->asked, err);
}

int network_permit(const struct network_ask *ask, struct network_info *net,
                   struct error *err)
{
    struct verdicts v = {0};
    int rc = decide_all(ask, &net->net, &v, err);

    if (rc == 0)
        rc = check_undecided(ask, &net->net, &v, err);
    if (rc == 0 && v.asks && ask->of_pool)
        rc = error_set(err, ERR_FORBIDDEN,
                       "rule '%s' requires an approval: request this network "
                       "explicitly",
                       v.asked.rule);
    else if (rc == 0 && v.asks)
        rc = hold_network(ask, &net->net, &v, err);
    if (rc == 0)
        net->permitted = v.version;
    return rc;
}

int network_permit_again(const struct network_ask *ask,
                         const struct network_info *net, struct error *err)
{
    struct verdicts v = {0};
    int rc = decide_all(ask, &net->net, &v, err);

    /* An approval covers the policy version that it was given for, no other.
     */
    if (rc == 0 && v.asks && v.asked.version != net->permitted)
        rc = error_set(err, ERR_FORBIDDEN,
                       "rule '%s' requires an approval: request this network "
                       "again",
                       v.asked.rule);
    return rc;
}

int network_pool_permit(void *ctx, const struct actor *who,
                        const struct conf_pool *pool, struct error *err)
{
    struct network_info info cleanup(network_info_done) = {0};
    struct networks *n = ctx;
    struct conf_pool first = n->conf->pools[0];
    struct network_ask ask = {.all = n,
                              .who = who,
                              .pool = &first,
                              .runtime = pool->runtime,
                              .for_pool = true};
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
