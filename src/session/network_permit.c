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
#include "base/mem.h"
#include "session/network_int.h"
#include "vault/vault.h"
#include "json/json.h"

struct verdicts {
    bool asks;                     /* a person has to approve */
    struct policy_decision asked;  /* the first such decision, */
    struct govern_request request; /* and its request */
    bool undecided;                /* some default allowed it, and no rule */
    char undecided_host[80];
    int64_t version;
};

static bool may_set_policy(const struct actor *who)
{
    return who->admin || (who->scopes & AUTH_POLICY_ADMIN);
}

/* One request; err is set by a denial. */
static int decide(const struct network_ask *ask, struct govern_request rq,
                  struct verdicts *v, struct error *err)
{
    struct policy_decision d;

    rq.object = ask->session ? ask->session : "";
    govern_decide(&ask->m->parts.govern, &rq, &d);
    govern_record(&ask->m->parts.govern, &rq, &d);
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

static struct govern_scope scope_of(const struct network_ask *ask,
                                    const struct session_network *net)
{
    return (struct govern_scope){.actor = ask->who,
                                 .session = ask->session,
                                 .pool = ask->pool->name,
                                 .runtime = ask->runtime,
                                 .network = session_egress_name(net->mode),
                                 .pinned = ask->pinned};
}

static int decide_destination(const struct network_ask *ask,
                              const struct govern_scope *scope,
                              const struct session_destination *d,
                              struct verdicts *v, struct error *err)
{
    uint16_t ports[SESSION_PORTS_MAX];
    size_t count = network_spec_ports(d, ports);
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        rc = decide(ask, govern_network(scope, d->host, ports[i]), v, err);
    if (rc < 0)
        return error_wrap(err, "destination '%.80s'", d->host);
    return 0;
}

/* The secret must exist, and be bound to that destination. */
static int decide_secret(const struct network_ask *ask,
                         const struct govern_scope *scope,
                         const struct session_destination *d,
                         struct verdicts *v, struct error *err)
{
    struct vault_info info;
    int rc = vault_get(ask->m->parts.vault, ask->who, d->secret, &info, err);

    if (rc < 0)
        return rc;
    if (!vault_goes_to(&info, d->host)) {
        (void)error_set(err, ERR_INVALID,
                        "secret '%s' is not for destination '%.80s'",
                        d->secret, d->host);
        return error_hint(err, "it is bound to %.200s", info.destinations);
    }
    rc = decide(ask, govern_secret(scope, d->host, d->secret), v, err);
    return rc < 0 ? error_wrap(err, "secret '%s'", d->secret) : 0;
}

/* Every destination, port and secret of the network. */
static int decide_all(const struct network_ask *ask,
                      const struct session_network *net, struct verdicts *v,
                      struct error *err)
{
    const struct govern_scope scope = scope_of(ask, net);
    int rc = 0;

    if (net->mode == SESSION_EGRESS_NONE && !net->packages)
        return 0; /* nothing is always allowed */
    if (net->mode != SESSION_EGRESS_ALLOWLIST || !net->destination_count)
        rc = decide(ask, govern_network(&scope, NULL, 0), v, err);
    for (size_t i = 0; i < net->destination_count && rc == 0; i++) {
        const struct session_destination *d = &net->destinations[i];

        rc = decide_destination(ask, &scope, d, v, err);
        if (rc == 0 && d->secret)
            rc = decide_secret(ask, &scope, d, v, err);
    }
    return rc;
}

static bool has_secret(const struct session_network *net)
{
    for (size_t i = 0; i < net->destination_count; i++)
        if (net->destinations[i].secret)
            return true;
    return false;
}

/* What no rule decided stays within the pool's. */
static int check_undecided(const struct network_ask *ask,
                           const struct session_network *net,
                           const struct verdicts *v, struct error *err)
{
    struct session_network_info pool cleanup(session_network_info_done) = {0};
    int rc;

    if (!v->undecided || ask->of_pool || may_set_policy(ask->who))
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

/* The same network is the same question. */
static int hold_network(const struct network_ask *ask,
                        const struct session_network *net,
                        const struct verdicts *v, struct error *err)
{
    struct buf network cleanup(buf_done) = {0};
    struct json_writer w = {.out = &network};
    struct govern_request rq = v->request;
    char summary[400];

    json_write_open(&w, NULL, '{');
    session_network_write(&w, net);
    json_write_close(&w, '}');
    (void)snprintf(summary, sizeof(summary),
                   "give %s the network '%s' with %zu destinations%s%s%s%s",
                   ask->session ? ask->session : "a new session",
                   session_egress_name(net->mode), net->destination_count,
                   net->destination_count ? ", the first " : "",
                   net->destination_count ? net->destinations[0].host : "",
                   has_secret(net) ? ", and secrets" : "",
                   net->packages ? ", and packages" : "");
    rq.object = NULL;
    rq.summary = summary;
    govern_add(&rq, "pool", ask->pool->name);
    govern_add(&rq, "session", ask->session);
    govern_add_json(&rq, "network", network.data);
    return govern_hold(&ask->m->parts.govern, &rq, &v->asked, err);
}

int network_permit(const struct network_ask *ask,
                   struct session_network_info *net, struct error *err)
{
    struct verdicts v = {0};
    int rc = decide_all(ask, &net->net, &v, err);

    if (rc == 0)
        rc = check_undecided(ask, &net->net, &v, err);
    if (rc == 0 && v.asks && ask->of_pool)
        rc = error_set(err, ERR_FORBIDDEN,
                       "rule '%s' wants somebody asked first: ask for this "
                       "network by name",
                       v.asked.rule);
    else if (rc == 0 && v.asks)
        rc = hold_network(ask, &net->net, &v, err);
    if (rc == 0)
        net->permitted = v.version;
    return rc;
}

int network_permit_again(const struct network_ask *ask,
                         const struct session_network_info *net,
                         struct error *err)
{
    struct verdicts v = {0};
    int rc = decide_all(ask, &net->net, &v, err);

    /* Somebody said yes to what that version asked; not to what another does.
     */
    if (rc == 0 && v.asks && v.asked.version != net->permitted)
        rc = error_set(err, ERR_FORBIDDEN,
                       "rule '%s' wants somebody asked first: ask for this "
                       "network again",
                       v.asked.rule);
    return rc;
}
