/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of a policy, as data: a file has a policy (or several versions of
 * one) and cases, each a request and what is expected of the decision. Pure;
 * run by `glovebox policy test` and by our own tests.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "policy/policy_int.h"
#include "json/json.h"

#define VERSIONS_MAX 16u
#define CASES_MAX 1000u

struct cases {
    struct arena *arena;
    struct policy_rules *versions[VERSIONS_MAX]; /* the last is current */
    size_t version_count;
    const struct yaml_node *list;
};

static void cases_done(struct cases *c)
{
    for (size_t i = 0; i < c->version_count; i++)
        policy_rules_unref(c->versions[i]);
    arena_free(c->arena);
}

static int fault(const struct yaml_node *n, const char *what,
                 struct error *err)
{
    (void)error_set(err, ERR_INVALID, "%s", what);
    return policy_compile_at(n, err);
}

/* ---- as JSON ------------------------------------------------------------ */

static json_t *scalar_json(const struct yaml_node *n)
{
    char *end;
    long long number;

    if (!n->plain)
        return json_string(n->text);
    if (strcmp(n->text, "true") == 0 || strcmp(n->text, "false") == 0)
        return json_boolean(n->text[0] == 't');
    if (strcmp(n->text, "null") == 0 || strcmp(n->text, "~") == 0 ||
        n->len == 0)
        return json_null();
    errno = 0;
    number = strtoll(n->text, &end, 10);
    if (errno == 0 && *end == '\0' && n->text[0] != ' ')
        return json_integer(number);
    return json_string(n->text);
}

/* Plain numbers, true, false and null as such; owned by caller. As deep as the
 * tree may be. */
static json_t *yaml_to_json(const struct yaml_node *n)
{
    json_t *out;

    if (n->kind == NODE_SCALAR)
        return scalar_json(n);
    out = n->kind == NODE_LIST ? json_array() : json_object();
    for (const struct yaml_node *i = n->first; i; i = i->next) {
        if (n->kind == NODE_LIST)
            (void)json_array_append_new(out, yaml_to_json(i));
        else
            (void)json_object_set_new(out, i->key, yaml_to_json(i));
    }
    return out;
}

/* ---- the file ----------------------------------------------------------- */

static int add_version(struct cases *c, const struct yaml_node *n,
                       struct error *err)
{
    if (c->version_count == VERSIONS_MAX)
        return fault(n, "too many versions", err);
    if (policy_compile_node(n, (int64_t)c->version_count + 1,
                            &c->versions[c->version_count], err) < 0)
        return -(int)err->code;
    c->version_count++;
    return 0;
}

static int load_versions(struct cases *c, const struct yaml_node *root,
                         struct error *err)
{
    const struct yaml_node *one = yaml_get(root, "policy");
    const struct yaml_node *many = yaml_get(root, "policies");
    int rc = 0;

    if (c->version_count && (one || many))
        return fault(root, "the policy is given twice", err);
    if (one)
        rc = add_version(c, one, err);
    if (many && many->kind != NODE_LIST)
        return fault(many, "policies is a list, oldest first", err);
    for (const struct yaml_node *i = many ? many->first : NULL; i && rc == 0;
         i = i->next)
        rc = add_version(c, i, err);
    if (rc == 0 && c->version_count == 0)
        rc = fault(root, "there is no policy to test", err);
    return rc;
}

static int load(struct cases *c, const char *text, size_t len,
                struct error *err)
{
    static const char *const known[] = {"zone", "policy", "policies", "cases"};
    const struct yaml_node *zone;
    struct yaml_node *root = NULL;
    int rc = policy_compile_tree(c->arena, text, len, &root, err);

    if (rc == 0)
        rc = policy_compile_map(root, "a file of cases", known,
                                ARRAY_SIZE(known), err);
    if (rc < 0)
        return rc;
    zone = yaml_get(root, "zone");
    if (zone && zone->kind != NODE_SCALAR)
        return fault(zone, "zone is a name", err);
    rc = policy_zone_set(zone ? zone->text : "", err);
    if (rc == 0)
        rc = load_versions(c, root, err);
    c->list = yaml_get(root, "cases");
    if (rc == 0 && (!c->list || c->list->kind != NODE_LIST ||
                    c->list->count == 0 || c->list->count > CASES_MAX))
        rc = fault(c->list ? c->list : root,
                   "cases is a list of 1 to 1000 requests", err);
    return rc;
}

/* ---- one case ----------------------------------------------------------- */

static int compare_text(const struct yaml_node *want, const char *is,
                        char *why, size_t size)
{
    if (strcmp(want->text, is) == 0)
        return 0;
    (void)snprintf(why, size, "%s is %s, not %s", want->key, is, want->text);
    return 1;
}

static int compare(const struct yaml_node *expect,
                   const struct policy_decision *d, char *why, size_t size)
{
    char number[24];
    int bad = 0;

    for (const struct yaml_node *n = expect->first; n && !bad; n = n->next) {
        int64_t value = strcmp(n->key, "version") == 0     ? d->version
                        : strcmp(n->key, "timeout_s") == 0 ? d->timeout_s
                        : strcmp(n->key, "expires_s") == 0
                            ? (int64_t)d->expires_s
                            : d->output_bytes;

        (void)snprintf(number, sizeof(number), "%lld", (long long)value);
        if (strcmp(n->key, "verdict") == 0)
            bad = compare_text(n, policy_verdict_name(d->verdict), why, size);
        else if (strcmp(n->key, "rule") == 0)
            bad = compare_text(n, d->rule, why, size);
        else if (strcmp(n->key, "layer") == 0)
            bad = compare_text(n, d->layer, why, size);
        else if (strcmp(n->key, "reason") == 0)
            bad = compare_text(n, d->reason, why, size);
        else
            bad = compare_text(n, number, why, size);
    }
    return bad;
}

static int check_expect(const struct yaml_node *expect, struct error *err)
{
    static const char *const known[] = {
        "verdict",   "rule",         "layer",     "reason",
        "timeout_s", "output_bytes", "expires_s", "version"};
    int rc =
        policy_compile_map(expect, "expect", known, ARRAY_SIZE(known), err);

    for (const struct yaml_node *n = expect->first; n && rc == 0; n = n->next)
        if (n->kind != NODE_SCALAR)
            rc = fault(n, "a single value is expected here", err);
    if (rc == 0 && !yaml_get(expect, "verdict"))
        rc = fault(expect, "a case expects at least a verdict", err);
    return rc;
}

static int pinned_of(const struct cases *c, const struct yaml_node *n,
                     const struct policy_rules **ret, struct error *err)
{
    unsigned long number =
        n->kind == NODE_SCALAR ? strtoul(n->text, NULL, 10) : 0;

    if (number < 1 || number > c->version_count)
        return fault(n, "pinned is the number of one of the policies", err);
    *ret = c->versions[number - 1];
    return 0;
}

/* 0 as expected, 1 not (why), or -code for a case that is no case. */
static int run_case(const struct cases *c, const struct yaml_node *n,
                    char *why, size_t size, struct error *err)
{
    static const char *const known[] = {"name", "request", "expect", "pinned"};
    const struct yaml_node *request, *expect, *pin;
    const struct policy_rules *pinned = NULL;
    json_t *json cleanup(json_unref) = NULL;
    struct actor who = {.tenant = "default", .key = "key_test"};
    struct policy_request rq;
    struct policy_decision d;
    int rc = policy_compile_map(n, "a case", known, ARRAY_SIZE(known), err);

    if (rc < 0)
        return rc;
    request = yaml_get(n, "request");
    expect = yaml_get(n, "expect");
    pin = yaml_get(n, "pinned");
    if (!request || request->kind != NODE_MAP || !expect)
        return fault(n, "a case has a request and what to expect", err);
    rc = check_expect(expect, err);
    if (rc == 0 && pin)
        rc = pinned_of(c, pin, &pinned, err);
    if (rc < 0)
        return rc;
    json = yaml_to_json(request);
    rc = policy_request_read(json, &rq, &who, err);
    if (rc < 0)
        return policy_compile_at(request, err);
    policy_evaluate(c->versions[c->version_count - 1], pinned, &rq, &d);
    return compare(expect, &d, why, size);
}

int policy_cases_run(const char *policy, size_t policy_len, const char *text,
                     size_t len, policy_cases_fn *fn, void *ctx,
                     struct error *err)
{
    struct cases c cleanup(cases_done) = {.arena = arena_new()};
    unsigned number = 0;
    int rc = 0;

    if (policy) {
        rc = policy_compile(policy, policy_len, 1, &c.versions[0], err);
        c.version_count = rc == 0;
    }
    if (rc == 0)
        rc = load(&c, text, len, err);
    for (const struct yaml_node *n = rc == 0 && c.list ? c.list->first : NULL;
         n; n = n->next) {
        const struct yaml_node *name = yaml_get(n, "name");
        char why[512] = "", fallback[32];

        (void)snprintf(fallback, sizeof(fallback), "case %u", ++number);
        rc = run_case(&c, n, why, sizeof(why), err);
        if (rc < 0)
            return rc;
        fn(ctx, n->line,
           name && name->kind == NODE_SCALAR ? name->text : fallback,
           rc == 0 ? NULL : why);
    }
    return MIN(rc, 0);
}
