/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules and a request to a decision: in each layer the first rule that
 * matches, or its default; of all of them the strictest. Pure, allocates
 * nothing, cannot fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "policy/policy_int.h"

static int by_key(const void *key, const void *layer)
{
    return strcmp(key, ((const struct policy_layer *)layer)->key);
}

static const struct policy_layer *find_layer(const struct policy_layer *layers,
                                             size_t count, const char *key)
{
    if (!key || count == 0)
        return NULL;
    return bsearch(key, layers, count, sizeof(*layers), by_key);
}

size_t policy_evaluate_layers(const struct policy_rules *r,
                              const struct policy_request *rq,
                              const struct policy_layer *ret[])
{
    size_t count = 0;

    ret[count++] = &r->global;
    ret[count] = find_layer(r->pools, r->pool_count, rq->pool);
    count += ret[count] != NULL;
    ret[count] = find_layer(r->tenants, r->tenant_count,
                            rq->who ? rq->who->tenant : NULL);
    count += ret[count] != NULL;
    return count;
}

static bool rule_matches(const struct policy_rule *r, struct policy_subject *s)
{
    for (size_t i = 0; i < r->count; i++)
        if (!policy_match_condition(&r->conditions[i], s))
            return false;
    return true;
}

const struct policy_rule *policy_evaluate_first(const struct policy_layer *l,
                                                struct policy_subject *s)
{
    policy_subject_zone(s, l->zone);
    for (size_t i = 0; i < l->count; i++)
        if (rule_matches(&l->rules[i], s))
            return &l->rules[i];
    return NULL;
}

/* The smaller of two caps; 0 is none. */
static void cap(int64_t *most, int64_t other)
{
    if (other && (!*most || other < *most))
        *most = other;
}

/* Of two that are equally strict the one with a name says more. */
static void weigh(struct policy_decision *d, const struct policy_rules *r,
                  const struct policy_layer *l, const struct policy_rule *rule)
{
    enum policy_verdict v = rule ? rule->then : l->otherwise;
    bool named = d->rule[0] && strcmp(d->rule, "default") != 0;

    if (rule) {
        cap(&d->timeout_s, rule->timeout_s);
        cap(&d->output_bytes, rule->output_bytes);
    }
    if (d->rule[0] &&
        (v < d->verdict || (v == d->verdict && (named || !rule))))
        return;
    d->verdict = v;
    d->version = r->number;
    d->expires_s = rule ? rule->expires_s : 0;
    (void)snprintf(d->rule, sizeof(d->rule), "%s",
                   rule ? rule->name : "default");
    (void)snprintf(d->layer, sizeof(d->layer), "%s", l->name);
    (void)snprintf(d->reason, sizeof(d->reason), "%s",
                   rule ? rule->reason : "");
}

static void weigh_all(struct policy_decision *d, const struct policy_rules *r,
                      struct policy_subject *s)
{
    const struct policy_layer *layers[POLICY_LAYERS_OF];
    size_t count = policy_evaluate_layers(r, s->rq, layers);

    for (size_t i = 0; i < count; i++)
        weigh(d, r, layers[i], policy_evaluate_first(layers[i], s));
}

void policy_evaluate(const struct policy_rules *current,
                     const struct policy_rules *pinned,
                     const struct policy_request *rq,
                     struct policy_decision *ret)
{
    struct policy_subject s;

    memset(ret, 0, sizeof(*ret));
    policy_subject_init(&s, rq);
    if (current)
        weigh_all(ret, current, &s);
    if (pinned && pinned != current)
        weigh_all(ret, pinned, &s);
    if (!ret->rule[0]) {
        memcpy(ret->rule, "default", sizeof("default"));
        memcpy(ret->layer, "global", sizeof("global"));
    }
}

static void describe(const struct policy_request *rq, char *ret, size_t size)
{
    if (rq->package)
        (void)snprintf(ret, size, "%s %s", rq->package,
                       rq->version ? rq->version : "");
    else if (rq->host)
        (void)snprintf(ret, size, "%s:%d", rq->host, rq->port);
    else
        (void)snprintf(ret, size, "%s", rq->file ? rq->file : "");
}

size_t policy_evaluate_checks(const struct policy_rules *r,
                              const struct policy_request *rq,
                              struct policy_check ret[POLICY_LAYERS_OF])
{
    const struct policy_layer *layers[POLICY_LAYERS_OF];
    size_t count = policy_evaluate_layers(r, rq, layers);
    struct policy_subject s;

    policy_subject_init(&s, rq);
    for (size_t i = 0; i < count; i++) {
        const struct policy_rule *rule = policy_evaluate_first(layers[i], &s);

        ret[i] = (struct policy_check){.action = rq->action,
                                       .verdict = rule ? rule->then
                                                       : layers[i]->otherwise,
                                       .version = r->number};
        describe(rq, ret[i].about, sizeof(ret[i].about));
        (void)snprintf(ret[i].rule, sizeof(ret[i].rule), "%s",
                       rule ? rule->name : "default");
        (void)snprintf(ret[i].layer, sizeof(ret[i].layer), "%s",
                       layers[i]->name);
    }
    return count;
}

void policy_evaluate_unloadable(struct policy_decision *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->verdict = POLICY_DENY;
    memcpy(ret->rule, "unloadable", sizeof("unloadable"));
    memcpy(ret->layer, "global", sizeof("global"));
    (void)snprintf(ret->reason, sizeof(ret->reason),
                   "the policy cannot be loaded, so nothing is allowed");
}
