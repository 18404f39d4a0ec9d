/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/policy/. How the pieces work together:
 *
 *   compile.c   the tree to rules: layers, rules, what they match
 *   keys.c      the words of `match`, and where a request has their values
 *   terms.c     one condition's value to terms; value.c has its numbers,
 *               sizes, hours and days
 *   match.c     does a condition hold for a subject (a request, prepared)?
 *   evaluate.c  rules and a subject to a decision; explain.c says why
 *   request.c   names, and a request out of JSON
 *   cases.c     tests of a policy, as data
 *   policy.c    what is in force: current rules, old ones for sessions held
 *               to them, and decisions in the trail; versions.c has the rows
 *
 * All but the last line is pure: no store, no clock but the request's, so
 * that the command line can do without a service.
 */
#ifndef GLOVEBOX_POLICY_POLICY_INT_H
#define GLOVEBOX_POLICY_POLICY_INT_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "policy/policy.h"
#include "yaml/yaml.h"

struct arena;

#define POLICY_RULES_MAX 1000u  /* of a layer */
#define POLICY_LAYERS_MAX 1000u /* pools, and tenants */
#define POLICY_ITEMS_MAX 1000u  /* of a list in `match` */
#define POLICY_ITEM_BYTES 1024u

/* ---- compile.c: the tree and its faults ----------------------------------
 */

/* yaml_read, with "line 7: …" in front of what err says; refuses a text with
 * nothing in it. */
int policy_compile_tree(struct arena *arena, const char *text, size_t len,
                        struct yaml_node **ret, struct error *err);
/* "line 7: …" in front of what err says. */
int policy_compile_at(const struct yaml_node *n, struct error *err);
/* A mapping with no other keys than these. what: names it in errors. */
int policy_compile_map(const struct yaml_node *n, const char *what,
                       const char *const *known, size_t count,
                       struct error *err);
/* ERR_INVALID naming the nearest of those that are known. */
int policy_compile_unknown(const struct yaml_node *n, const char *what,
                           const char *name, const char *const *known,
                           size_t count, struct error *err);

/* ---- keys.c ------------------------------------------------------------- */

enum policy_key_kind {
    KEY_ACTION,
    KEY_TEXT,  /* a pattern; case does not matter */
    KEY_EXACT, /* a pattern; case does */
    KEY_PACKAGE,
    KEY_TYPE, /* of a file */
    KEY_DESTINATION,
    KEY_BYTES,
    KEY_SECONDS,
    KEY_HOURS,
    KEY_DAYS,
    KEY_SCOPES
};

struct policy_subject;

struct policy_key {
    const char *name;
    enum policy_key_kind kind;
    const char *const *choices; /* ended by NULL; NULL: anything */
    /* NULL, or -1, where it does not apply */
    const char *(*text)(const struct policy_request *rq);
    int64_t (*number)(const struct policy_request *rq);
};

const struct policy_key *policy_key_find(const char *name);
/* For hints. */
size_t policy_key_names(const char *const **ret);

/* ---- value.c ------------------------------------------------------------ */

struct policy_range {
    int64_t least, most; /* both included */
};

/* "30", "5m"; "4096", "1MiB". */
int policy_value_number(const char *text, enum policy_key_kind kind,
                        int64_t *ret, struct error *err);
/* Also "> 1MiB", "<= 30", "1KiB..2KiB". */
int policy_value_range(const char *text, enum policy_key_kind kind,
                       struct policy_range *ret, struct error *err);
/* "22:00-06:00": minutes of the day; the second is not included. */
int policy_value_hours(const char *text, int *ret_from, int *ret_to,
                       struct error *err);
/* "mon-fri", "sat": a bit for each, Sunday is 1. */
int policy_value_days(const char *text, unsigned *ret, struct error *err);

/* ---- terms.c, match.c --------------------------------------------------- */

struct policy_term {
    bool negated;
    bool wild;        /* text has * or ? */
    const char *text; /* of patterns, as it is compared */
    int port;         /* of a destination; 0: any */
    struct policy_range range;
    int from, to;  /* hours */
    uint32_t bits; /* days, or a scope */
};

struct policy_condition {
    const struct policy_key *key;
    const char *written;
    struct policy_term *terms;
    size_t count;
    bool any; /* some are not negated: one of these must hold */
};

int policy_terms_parse(struct arena *arena, const struct policy_key *key,
                       const struct yaml_node *n, struct policy_condition *ret,
                       struct error *err);
/* Lower case, and runs of "-", "_" and "." as one "-". */
void policy_terms_package(const char *name, char *ret, size_t size);

/* ---- zone.c ------------------------------------------------------------- */

#define POLICY_ZONE_PATH 96

struct policy_zone;

/* Where the zone of that name is; ERR_INVALID: there is none. */
int policy_zone_path(const char *zone, char ret[POLICY_ZONE_PATH],
                     struct error *err);
int policy_zone_load(struct arena *arena, const char *name,
                     const struct policy_zone **ret, struct error *err);
/* How many seconds its clocks are ahead of UTC at that time. */
int32_t policy_zone_ahead(const struct policy_zone *z, int64_t at);

/* A request with what only some rules need, worked out once. */
struct policy_subject {
    const struct policy_request *rq;
    const struct policy_zone *zone; /* the layer's; NULL: the service's */
    bool timed;
    struct tm tm;
    char package[256];
    char type[128]; /* without parameters */
};

void policy_subject_init(struct policy_subject *s,
                         const struct policy_request *rq);
/* What follows is asked for a layer with that zone. */
void policy_subject_zone(struct policy_subject *s,
                         const struct policy_zone *zone);
bool policy_match_condition(const struct policy_condition *c,
                            struct policy_subject *s);
/* What the subject has there, for people; false: it does not apply. */
bool policy_match_value(const struct policy_key *key, struct policy_subject *s,
                        char *ret, size_t size);

/* ---- compile.c ---------------------------------------------------------- */

struct policy_rule {
    const char *name, *reason;
    enum policy_verdict then;
    int64_t timeout_s, output_bytes; /* 0: none */
    uint32_t expires_s;
    struct policy_condition *conditions;
    size_t count;
};

struct policy_layer {
    const char *key;  /* the pool, the tenant; "" */
    const char *name; /* "global", "pool:x" */
    enum policy_verdict otherwise;
    const struct policy_zone *zone; /* NULL: the service's */
    struct policy_rule *rules;
    size_t count;
};

/* Never changes once made, so that readers need no lock. */
struct policy_rules {
    atomic_uint refs;
    struct arena *arena;
    int64_t number; /* of the version */
    struct policy_layer global;
    struct policy_layer *pools, *tenants; /* in order of key */
    size_t pool_count, tenant_count, rule_count;
};

int policy_compile(const char *text, size_t len, int64_t number,
                   struct policy_rules **ret, struct error *err);
int policy_compile_node(const struct yaml_node *root, int64_t number,
                        struct policy_rules **ret, struct error *err);
struct policy_rules *policy_rules_ref(struct policy_rules *r);
void policy_rules_unref(struct policy_rules *r);   /* accepts NULL */
void policy_rules_unrefp(struct policy_rules **r); /* for cleanup() */

/* ---- evaluate.c, explain.c ---------------------------------------------- */

/* The layers a request meets, the global one first; returns how many. */
#define POLICY_LAYERS_OF 3
size_t policy_evaluate_layers(const struct policy_rules *r,
                              const struct policy_request *rq,
                              const struct policy_layer *ret[]);
const struct policy_rule *policy_evaluate_first(const struct policy_layer *l,
                                                struct policy_subject *s);
/* Of both, the strictest; pinned may be NULL. */
void policy_evaluate(const struct policy_rules *current,
                     const struct policy_rules *pinned,
                     const struct policy_request *rq,
                     struct policy_decision *ret);
/* Adds what each layer of r says; returns how many. */
size_t policy_evaluate_checks(const struct policy_rules *r,
                              const struct policy_request *rq,
                              struct policy_check ret[POLICY_LAYERS_OF]);
void policy_evaluate_unloadable(struct policy_decision *ret);

/* current NULL: nothing was ever put, or (not loaded) cannot be used. */
void policy_explain_rules(const struct policy_rules *current,
                          const struct policy_rules *pinned,
                          const struct policy_request *rq,
                          const struct policy_decision *d,
                          struct buf *ret_json);

int policy_explain_text(const char *text, size_t len,
                        const struct policy_request *rq, struct buf *ret_json,
                        struct error *err);

/* ---- versions.c: rows of the store -------------------------------------- */

struct audit;
struct store;

/* number 0: the newest. */
int policy_versions_get(struct store *store, int64_t number,
                        struct policy_version *ret, struct error *err);
/* text, by and note are given; the rest is filled. Its event is part of it.
 * before: the number that was in force. */
int policy_versions_add(struct store *store, struct audit *audit,
                        const struct actor *who, int64_t before,
                        struct policy_version *v, struct error *err);
int policy_versions_list(struct store *store, unsigned limit, int64_t before,
                         struct policy_version **ret, size_t *ret_count,
                         bool *ret_more, struct error *err);

/* ---- request.c ---------------------------------------------------------- */

extern const char *const policy_action_names[];
extern const char *const policy_verdict_names[];

#endif
