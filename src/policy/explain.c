/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why: the same walk as evaluate.c, told as JSON, with every rule and every
 * condition. Pure.
 */
#include <string.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "policy/policy_int.h"
#include "json/json.h"

#define VALUE_BYTES 1200

static void explain_condition(struct json_writer *w,
                              const struct policy_condition *c,
                              struct policy_subject *s)
{
    char value[VALUE_BYTES];
    bool applies = policy_match_value(c->key, s, value, sizeof(value));

    json_write_open(w, NULL, '{');
    json_write_string(w, "key", c->key->name);
    json_write_string(w, "wants", c->written);
    json_write_string(w, "is", applies ? value : NULL);
    json_write_bool(w, "holds", policy_match_condition(c, s));
    json_write_close(w, '}');
}

static void explain_layer(struct json_writer *w, const struct policy_layer *l,
                          struct policy_subject *s)
{
    const struct policy_rule *first = policy_evaluate_first(l, s);
    bool past = false;

    json_write_open(w, NULL, '{');
    json_write_string(w, "layer", l->name);
    json_write_string(
        w, "verdict",
        policy_verdict_names[first ? first->then : l->otherwise]);
    json_write_string(w, "rule", first ? first->name : "default");
    json_write_string(w, "default", policy_verdict_names[l->otherwise]);
    json_write_open(w, "rules", '[');
    for (size_t i = 0; i < l->count; i++) {
        const struct policy_rule *r = &l->rules[i];

        json_write_open(w, NULL, '{');
        json_write_string(w, "rule", r->name);
        json_write_string(w, "then", policy_verdict_names[r->then]);
        json_write_bool(w, "asked", !past);
        json_write_bool(w, "matches", r == first);
        json_write_open(w, "conditions", '[');
        for (size_t k = 0; !past && k < r->count; k++)
            explain_condition(w, &r->conditions[k], s);
        json_write_close(w, ']');
        json_write_close(w, '}');
        past = past || r == first;
    }
    json_write_close(w, ']');
    json_write_close(w, '}');
}

static void explain_version(struct json_writer *w,
                            const struct policy_rules *r, const char *held,
                            const struct policy_request *rq)
{
    const struct policy_layer *layers[POLICY_LAYERS_OF];
    size_t count = policy_evaluate_layers(r, rq, layers);
    struct policy_subject s;

    policy_subject_init(&s, rq);
    json_write_open(w, NULL, '{');
    json_write_int(w, "version", r->number);
    json_write_string(w, "held", held);
    json_write_open(w, "layers", '[');
    for (size_t i = 0; i < count; i++)
        explain_layer(w, layers[i], &s);
    json_write_close(w, ']');
    json_write_close(w, '}');
}

void policy_explain_decision(struct json_writer *w,
                             const struct policy_decision *d)
{
    json_write_string(w, "verdict", policy_verdict_name(d->verdict));
    json_write_string(w, "rule", d->rule);
    json_write_string(w, "layer", d->layer);
    json_write_string(w, "reason", d->reason[0] ? d->reason : NULL);
    json_write_int(w, "version", d->version);
    json_write_open(w, "limit", '{');
    if (d->timeout_s)
        json_write_int(w, "timeout_s", d->timeout_s);
    if (d->output_bytes)
        json_write_int(w, "output_bytes", d->output_bytes);
    json_write_close(w, '}');
    if (d->expires_s)
        json_write_int(w, "expires_s", d->expires_s);
    else
        json_write_string(w, "expires_s", NULL);
}

void policy_explain_rules(const struct policy_rules *current,
                          const struct policy_rules *pinned,
                          const struct policy_request *rq,
                          const struct policy_decision *d,
                          struct buf *ret_json)
{
    struct json_writer w = {.out = ret_json};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "action", policy_action_name(rq->action));
    policy_explain_decision(&w, d);
    json_write_open(&w, "versions", '[');
    if (current)
        explain_version(&w, current, "current", rq);
    if (pinned && pinned != current)
        explain_version(&w, pinned, "pinned", rq);
    json_write_close(&w, ']');
    json_write_close(&w, '}');
}

int policy_explain_text(const char *text, size_t len,
                        const struct policy_request *rq, struct buf *ret_json,
                        struct error *err)
{
    struct policy_rules *rules = NULL;
    struct policy_decision d;
    int rc = policy_compile(text, len, 0, &rules, err);

    if (rc < 0)
        return rc;
    policy_evaluate(rules, NULL, rq, &d);
    policy_explain_rules(rules, NULL, rq, &d, ret_json);
    policy_rules_unref(rules);
    return 0;
}

int policy_explain_request(const char *text, size_t len, struct json_t *object,
                           struct buf *ret_json, struct error *err)
{
    struct actor who = {.tenant = "default"};
    struct policy_request rq;
    int rc = policy_request_read(object, &rq, &who, err);

    return rc < 0 ? rc : policy_explain_text(text, len, &rq, ret_json, err);
}
