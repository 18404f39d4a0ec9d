/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy's text to rules that are quick to ask and never change again.
 * Pure. Everything in the text must be known and make sense; nothing is taken
 * in part.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "policy/policy_int.h"
#include "json/json.h"

#define NAME_BYTES (POLICY_NAME_MAX - 1)
#define TIMEOUT_MAX_S 86400
#define OUTPUT_MAX ((int64_t)1 << 40)
#define EXPIRES_MAX_S (30 * 86400)

struct compiler {
    struct arena *arena;
    struct policy_rules *rules;
    const struct policy_zone *zone; /* of all, until a layer says otherwise */
};

/* ---- faults and their lines --------------------------------------------- */

int policy_compile_at(const struct yaml_node *n, struct error *err)
{
    return error_wrap(err, "line %u", n->line);
}

int policy_compile_unknown(const struct yaml_node *n, const char *what,
                           const char *name, const char *const *known,
                           size_t count, struct error *err)
{
    const char *near = json_nearest(name, known, count);

    (void)error_set(err, ERR_INVALID, "unknown %s \"%.64s\"", what, name);
    if (near)
        (void)error_hint(err, "did you mean \"%s\"?", near);
    else
        (void)error_hint(err, "docs/POLICY.md has the list");
    return policy_compile_at(n, err);
}

int policy_compile_tree(struct arena *arena, const char *text, size_t len,
                        struct yaml_node **ret, struct error *err)
{
    unsigned line = 1;
    int rc = yaml_read(arena, text, len, ret, &line, err);

    if (rc == 0 && !*ret)
        rc = error_set(err, ERR_INVALID, "there is nothing in it");
    return rc < 0 ? error_wrap(err, "line %u", line) : 0;
}

static int fault(const struct yaml_node *n, struct error *err, const char *fmt,
                 ...) __attribute__((format(printf, 3, 4)));
static int fault(const struct yaml_node *n, struct error *err, const char *fmt,
                 ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args); /* may cut */
    va_end(args);
    (void)error_set(err, ERR_INVALID, "%s", text);
    return policy_compile_at(n, err);
}

/* ---- shapes ------------------------------------------------------------- */

int policy_compile_map(const struct yaml_node *n, const char *what,
                       const char *const *known, size_t count,
                       struct error *err)
{
    if (n->kind != NODE_MAP)
        return fault(n, err, "%s must be a mapping", what);
    for (const struct yaml_node *i = n->first; i; i = i->next) {
        size_t k = 0;

        while (k < count && strcmp(known[k], i->key) != 0)
            k++;
        if (k == count)
            return policy_compile_unknown(i, "key", i->key, known, count, err);
    }
    return 0;
}

static int want_verdict(const struct yaml_node *n, enum policy_verdict *ret,
                        struct error *err)
{
    for (int v = POLICY_ALLOW; v <= POLICY_DENY; v++)
        if (n->kind == NODE_SCALAR &&
            strcmp(n->text, policy_verdict_names[v]) == 0) {
            *ret = (enum policy_verdict)v;
            return 0;
        }
    return fault(n, err, "%s must be allow, deny or ask", n->key);
}

static int want_number(const struct yaml_node *n, enum policy_key_kind kind,
                       int64_t most, int64_t *ret, struct error *err)
{
    if (n->kind != NODE_SCALAR)
        return fault(n, err, "%s must be a number", n->key);
    if (policy_value_number(n->text, kind, ret, err) < 0)
        return policy_compile_at(n, err);
    if (*ret < 1 || *ret > most)
        return fault(n, err, "%s must be from 1 to %lld", n->key,
                     (long long)most);
    return 0;
}

/* Something that is only said, not looked up. */
static int want_text(const struct yaml_node *n, size_t most, struct error *err)
{
    if (n->kind != NODE_SCALAR || n->len == 0 || n->len > most ||
        !path_plain(n->text, n->len))
        return fault(n, err, "%s has 1 to %zu bytes of plain text", n->key,
                     most);
    return 0;
}

static int check_name(const struct yaml_node *at, const char *what,
                      const char *name, struct error *err)
{
    size_t len = strlen(name);

    if (len < 1 || len > NAME_BYTES ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                     "0123456789._-") != len)
        return fault(at, err,
                     "the name of a %s has 1 to %u letters, digits, '.', '_' "
                     "and '-'",
                     what, (unsigned)NAME_BYTES);
    return 0;
}

/* ---- a rule ------------------------------------------------------------- */

static int compile_match(struct compiler *c, const struct yaml_node *n,
                         struct policy_rule *r, struct error *err)
{
    const char *const *names;
    size_t count = policy_key_names(&names);
    int rc = policy_compile_map(n, "match", names, count, err);

    if (rc < 0)
        return rc;
    r->conditions =
        arena_alloc(c->arena, MAX(n->count, 1u) * sizeof(*r->conditions));
    for (const struct yaml_node *i = n->first; i && rc == 0; i = i->next) {
        rc = policy_terms_parse(c->arena, policy_key_find(i->key), i,
                                &r->conditions[r->count], err);
        r->count += rc == 0;
    }
    return rc;
}

static int compile_limit(const struct yaml_node *n, struct policy_rule *r,
                         struct error *err)
{
    static const char *const known[] = {"timeout_s", "output_bytes"};
    const struct yaml_node *time, *output;
    int rc = policy_compile_map(n, "limit", known, ARRAY_SIZE(known), err);

    if (rc < 0)
        return rc;
    time = yaml_get(n, "timeout_s");
    output = yaml_get(n, "output_bytes");
    if (time)
        rc = want_number(time, KEY_SECONDS, TIMEOUT_MAX_S, &r->timeout_s, err);
    if (rc == 0 && output)
        rc = want_number(output, KEY_BYTES, OUTPUT_MAX, &r->output_bytes, err);
    return rc;
}

static int compile_name(struct compiler *c, const struct yaml_node *rule,
                        const struct policy_layer *l, struct policy_rule *r,
                        struct error *err)
{
    const struct yaml_node *n = yaml_get(rule, "name");

    if (!n)
        return fault(rule, err, "a rule needs a name");
    if (n->kind != NODE_SCALAR)
        return fault(n, err, "name must be text");
    if (check_name(n, "rule", n->text, err) < 0)
        return -(int)err->code;
    if (strcmp(n->text, "default") == 0 || strcmp(n->text, "unloadable") == 0)
        return fault(n, err, "\"%s\" is the name of no rule", n->text);
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->rules[i].name, n->text) == 0)
            return fault(n, err, "there are two rules \"%s\" here", n->text);
    r->name = arena_strdup(c->arena, n->text);
    return 0;
}

static int compile_end(struct compiler *c, const struct yaml_node *rule,
                       struct policy_rule *r, struct error *err)
{
    const struct yaml_node *then = yaml_get(rule, "then");
    const struct yaml_node *reason = yaml_get(rule, "reason");
    const struct yaml_node *limit = yaml_get(rule, "limit");
    const struct yaml_node *expires = yaml_get(rule, "expires_s");
    int64_t seconds = 0;
    int rc;

    if (!then)
        return fault(rule, err,
                     "rule \"%s\" does not say then: allow, deny "
                     "or ask",
                     r->name);
    rc = want_verdict(then, &r->then, err);
    if (rc == 0 && reason)
        rc = want_text(reason, POLICY_REASON_MAX - 1, err);
    if (rc == 0 && limit)
        rc = compile_limit(limit, r, err);
    if (rc == 0 && expires && r->then != POLICY_ASK)
        rc = fault(expires, err, "expires_s is for rules that ask");
    if (rc == 0 && expires)
        rc = want_number(expires, KEY_SECONDS, EXPIRES_MAX_S, &seconds, err);
    r->expires_s = (uint32_t)seconds;
    r->reason = reason && rc == 0 ? arena_strdup(c->arena, reason->text) : "";
    return rc;
}

static int compile_rule(struct compiler *c, const struct yaml_node *n,
                        struct policy_layer *l, struct error *err)
{
    static const char *const known[] = {"name",   "match", "then",
                                        "reason", "limit", "expires_s"};
    struct policy_rule *r = &l->rules[l->count];
    const struct yaml_node *match;
    int rc = policy_compile_map(n, "a rule", known, ARRAY_SIZE(known), err);

    if (rc == 0)
        rc = compile_name(c, n, l, r, err);
    if (rc < 0)
        return rc;
    match = yaml_get(n, "match");
    if (match)
        rc = compile_match(c, match, r, err);
    if (rc == 0)
        rc = compile_end(c, n, r, err);
    l->count += rc == 0;
    return rc;
}

/* ---- layers ------------------------------------------------------------- */

static int compile_zone(struct compiler *c, const struct yaml_node *n,
                        struct policy_layer *l, struct error *err)
{
    const struct yaml_node *zone = yaml_get(n, "timezone");

    l->zone = c->zone;
    if (!zone)
        return 0;
    if (zone->kind != NODE_SCALAR)
        return fault(zone, err, "timezone must be a name");
    if (policy_zone_load(c->arena, zone->text, &l->zone, err) < 0)
        return policy_compile_at(zone, err);
    return 0;
}

/* `default`, `timezone` and `rules` of a mapping that has been looked at. */
static int compile_layer(struct compiler *c, const struct yaml_node *n,
                         struct policy_layer *l, struct error *err)
{
    const struct yaml_node *otherwise = yaml_get(n, "default");
    const struct yaml_node *rules = yaml_get(n, "rules");
    int rc = compile_zone(c, n, l, err);

    if (rc == 0 && otherwise)
        rc = want_verdict(otherwise, &l->otherwise, err);
    if (rc < 0 || !rules)
        return rc;
    if (rules->kind != NODE_LIST)
        return fault(rules, err, "rules must be a list");
    if (rules->count > POLICY_RULES_MAX)
        return fault(rules, err, "%zu rules; at most %u are allowed here",
                     rules->count, POLICY_RULES_MAX);
    l->rules =
        arena_alloc(c->arena, MAX(rules->count, 1u) * sizeof(*l->rules));
    for (const struct yaml_node *i = rules->first; i && rc == 0; i = i->next)
        rc = compile_rule(c, i, l, err);
    c->rules->rule_count += l->count;
    return rc;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct policy_layer *)a)->key,
                  ((const struct policy_layer *)b)->key);
}

/* The mapping of pools, or of tenants. */
static int compile_layers(struct compiler *c, const struct yaml_node *n,
                          const char *what, struct policy_layer **ret,
                          size_t *ret_count, struct error *err)
{
    static const char *const known[] = {"default", "timezone", "rules"};
    struct policy_layer *layers;
    size_t count = 0;
    int rc = 0;

    if (!n)
        return 0;
    if (n->kind != NODE_MAP)
        return fault(n, err, "%ss must be a mapping of names", what);
    if (n->count > POLICY_LAYERS_MAX)
        return fault(n, err, "%zu %ss; at most %u are allowed", n->count, what,
                     POLICY_LAYERS_MAX);
    layers = arena_alloc(c->arena, MAX(n->count, 1u) * sizeof(*layers));
    for (const struct yaml_node *i = n->first; i && rc == 0; i = i->next) {
        struct policy_layer *l = &layers[count++];

        rc = check_name(i, what, i->key, err);
        l->key = i->key;
        l->name = arena_printf(c->arena, "%s:%s", what, i->key);
        if (rc == 0)
            rc = policy_compile_map(i, l->name, known, ARRAY_SIZE(known), err);
        if (rc == 0)
            rc = compile_layer(c, i, l, err);
        l->key = arena_strdup(c->arena, i->key);
    }
    qsort(layers, count, sizeof(*layers), by_key);
    *ret = layers;
    *ret_count = count;
    return rc;
}

static int compile_root(struct compiler *c, const struct yaml_node *root,
                        struct error *err)
{
    static const char *const known[] = {"version", "default", "timezone",
                                        "rules",   "pools",   "tenants"};
    struct policy_rules *r = c->rules;
    const struct yaml_node *version;
    int rc =
        policy_compile_map(root, "a policy", known, ARRAY_SIZE(known), err);

    if (rc < 0)
        return rc;
    version = yaml_get(root, "version");
    if (!version)
        return fault(root, err, "a policy begins with version: 1");
    if (version->kind != NODE_SCALAR || strcmp(version->text, "1") != 0)
        return fault(version, err, "the only version there is is 1");
    r->global.key = "";
    r->global.name = "global";
    rc = compile_layer(c, root, &r->global, err);
    c->zone = r->global.zone;
    if (rc == 0)
        rc = compile_layers(c, yaml_get(root, "pools"), "pool", &r->pools,
                            &r->pool_count, err);
    if (rc == 0)
        rc = compile_layers(c, yaml_get(root, "tenants"), "tenant",
                            &r->tenants, &r->tenant_count, err);
    return rc;
}

/* ---- all of it ---------------------------------------------------------- */

struct policy_rules *policy_rules_ref(struct policy_rules *r)
{
    if (r)
        atomic_fetch_add(&r->refs, 1);
    return r;
}

void policy_rules_unref(struct policy_rules *r)
{
    if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    arena_free(r->arena);
    free(r);
}

void policy_rules_unrefp(struct policy_rules **r)
{
    policy_rules_unref(*r);
}

int policy_compile_node(const struct yaml_node *root, int64_t number,
                        struct policy_rules **ret, struct error *err)
{
    struct policy_rules *r cleanup(policy_rules_unrefp) =
        xcalloc(1, sizeof(*r));
    struct compiler c = {.rules = r};
    int rc;

    atomic_init(&r->refs, 1);
    r->arena = c.arena = arena_new();
    r->number = number;
    rc = compile_root(&c, root, err);
    if (rc == 0)
        *ret = take_ptr(r);
    return rc;
}

static void arena_freep(struct arena **arena)
{
    arena_free(*arena);
}

int policy_compile(const char *text, size_t len, int64_t number,
                   struct policy_rules **ret, struct error *err)
{
    struct arena *tree cleanup(arena_freep) = NULL;
    struct yaml_node *root = NULL;
    int rc;

    if (len > POLICY_TEXT_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "the policy is larger than %u KiB",
                         POLICY_TEXT_MAX >> 10);
    tree = arena_new();
    rc = policy_compile_tree(tree, text, len, &root, err);
    return rc < 0 ? rc : policy_compile_node(root, number, ret, err);
}

int policy_check(const char *text, size_t len, struct error *err)
{
    struct policy_rules *rules cleanup(policy_rules_unrefp) = NULL;

    return policy_compile(text, len, 0, &rules, err);
}
