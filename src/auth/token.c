/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens: keys that end by themselves and are never wider than what they were
 * minted from; see auth.h. Runs in the daemon on a thread that serves a
 * request. They live in the table and the store of the keys, and are checked
 * as those are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

/* ---- minting ------------------------------------------------------------ */

static int narrow_scopes(const struct principal *parent, uint32_t asked,
                         uint32_t *ret, struct error *err)
{
    uint32_t has = parent->scopes;
    char names[96];

    *ret = asked ? asked : has & ~(uint32_t)AUTH_ADMIN;
    if (!(*ret & ~has) || (has & AUTH_ADMIN))
        return 0;
    (void)error_set(err, ERR_FORBIDDEN,
                    "a token cannot have a scope its parent has not: %s",
                    auth_scopes_format(*ret & ~has, names));
    return error_hint(err, "this one has %s", auth_scopes_format(has, names));
}

static int narrow_bounds(const struct principal *parent,
                         const char *const only[ACTOR_BOUNDS],
                         struct actor_bounds *ret, struct error *err)
{
    const struct actor holder = {.bounds = &parent->bounds};

    *ret = parent->bounds;
    for (int b = 0; b < ACTOR_BOUNDS; b++) {
        enum actor_bound what = (enum actor_bound)b;

        if (!only[b])
            continue;
        if (!actor_may(&holder, what, only[b]))
            return error_set(err, ERR_FORBIDDEN,
                             "the parent is bound to other %s",
                             auth_restriction_name(what));
        ret->ids[b][0] = '\0';
        if (auth_restriction_add(ret, what, only[b], err) < 0)
            return -(int)err->code;
    }
    return 0;
}

/* `changes` is held: no one revokes meanwhile. An issuer's subject is in no
 * table; its token was good when the request came. */
static int check_parent(struct auth *a, const struct principal *parent,
                        int64_t now, struct error *err)
{
    const char *id = auth_shown(parent);
    unsigned depth = 1;

    if (parent->expires_at_ms && parent->expires_at_ms <= now)
        return error_set(err, ERR_UNAUTHENTICATED, "the token has expired");
    while (strncmp(id, "jwt_", 4) != 0) {
        const struct auth_entry *e = auth_entry_find(a, id);

        if (!e || auth_row_ended(&e->key, now))
            return error_set(err, ERR_UNAUTHENTICATED, "the key is not valid");
        if (!e->key.parent[0])
            break;
        id = e->key.parent;
        if (++depth > AUTH_TOKEN_DEPTH_MAX)
            return error_set(err, ERR_LIMIT,
                             "tokens of tokens end after %u of them",
                             AUTH_TOKEN_DEPTH_MAX);
    }
    return 0;
}

struct crowd {
    size_t live, ended;
    int64_t first_end_ms; /* of those that live */
};

static void count_tokens(struct auth *a, const char *tenant, int64_t now,
                         struct crowd *ret)
{
    *ret = (struct crowd){.first_end_ms = INT64_MAX};
    for (size_t i = 0; a->tokens && i < AUTH_BUCKETS; i++)
        for (struct auth_entry *e = a->buckets[i]; e; e = e->next) {
            if (!e->key.parent[0] || strcmp(e->key.tenant, tenant) != 0)
                continue;
            if (auth_row_ended(&e->key, now)) {
                ret->ended++;
                continue;
            }
            ret->live++;
            ret->first_end_ms = MIN(ret->first_end_ms, e->key.expires_at_ms);
        }
}

static int plan_token(const struct principal *parent,
                      const struct auth_token_spec *spec, struct auth_row *ret,
                      struct error *err)
{
    const char *name = spec->name ? spec->name : "";

    if (spec->ttl_s < AUTH_TOKEN_TTL_MIN_S ||
        spec->ttl_s > AUTH_TOKEN_TTL_MAX_S)
        return error_set(err, ERR_INVALID, "ttl_s must be from %u to %u",
                         AUTH_TOKEN_TTL_MIN_S, AUTH_TOKEN_TTL_MAX_S);
    if (auth_key_name_check(name, err) < 0 ||
        narrow_scopes(parent, spec->scopes, &ret->scopes, err) < 0 ||
        narrow_bounds(parent, spec->only, &ret->bounds, err) < 0)
        return -(int)err->code;
    (void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", parent->tenant);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
    (void)snprintf(ret->parent, sizeof(ret->parent), "%s", auth_shown(parent));
    (void)snprintf(ret->root, sizeof(ret->root), "%s", parent->key_id);
    return 0;
}

int auth_token_mint(struct auth *a, const struct principal *parent,
                    const struct auth_token_spec *spec,
                    struct auth_key *ret_token, char **ret_secret,
                    struct error *err)
{
    struct auth_row like = {.scopes = 0};
    struct crowd crowd;
    int64_t now = clock_real_ms();
    int r = plan_token(parent, spec, &like, err);

    if (r < 0)
        return r;
    like.expires_at_ms = now + 1000 * (int64_t)spec->ttl_s;
    if (parent->expires_at_ms)
        like.expires_at_ms = MIN(like.expires_at_ms, parent->expires_at_ms);
    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);

        count_tokens(a, parent->tenant, now, &crowd);
        r = check_parent(a, parent, now, err);
        if (r == 0 && crowd.live >= AUTH_TOKENS_MAX) {
            (void)error_set(err, ERR_LIMIT,
                            "the tenant has %u live tokens already",
                            AUTH_TOKENS_MAX);
            (void)error_hint(err, "revoke some, or give them less time");
            r = error_retry(err, (int)((crowd.first_end_ms - now) / 1000 + 1));
        }
        if (r == 0)
            r = auth_key_keep(a, &like, ret_token, ret_secret, err);
    }
    /* Ended tokens are kept only to report that they ended; limit them too. */
    if (r == 0 && crowd.ended >= AUTH_TOKENS_MAX) {
        struct error ignored;

        (void)auth_sweep(a, now, &ignored); /* tried again in a minute */
    }
    return r;
}

/* ---- whose they are ----------------------------------------------------- */

/* Is it below that token, or it? With either lock held. */
static bool is_below_token(struct auth *a, const struct auth_entry *e,
                           const char *top)
{
    for (unsigned n = 0; e && n <= AUTH_TOKEN_DEPTH_MAX; n++) {
        if (strcmp(e->key.id, top) == 0)
            return true;
        e = e->key.parent[0] ? auth_entry_find(a, e->key.parent) : NULL;
    }
    return false;
}

static bool is_admin(const struct principal *who)
{
    const struct actor actor = {.bounds = &who->bounds};

    return (who->scopes & AUTH_ADMIN) && !actor_bounded(&actor);
}

static bool may_see(struct auth *a, const struct principal *who,
                    const struct auth_entry *e)
{
    if (!e->key.parent[0] || strcmp(e->key.tenant, who->tenant) != 0)
        return false;
    if (is_admin(who))
        return true;
    return strcmp(e->key.root, who->key_id) == 0 &&
           (!who->token[0] || is_below_token(a, e, who->token));
}

/* ---- listing ------------------------------------------------------------ */

static int newest_first(const void *a, const void *b)
{
    const struct auth_row *x = &(*(struct auth_entry *const *)a)->key;
    const struct auth_row *y = &(*(struct auth_entry *const *)b)->key;

    if (x->created_at_ms != y->created_at_ms)
        return x->created_at_ms > y->created_at_ms ? -1 : 1;
    return strcmp(y->id, x->id);
}

/* Lock held; borrowed from the table. */
static struct auth_entry **gather_tokens(struct auth *a,
                                         const struct principal *who,
                                         size_t *ret_count)
{
    struct auth_entry **all = xcalloc(a->tokens + 1, sizeof(*all));
    int64_t now = clock_real_ms();

    *ret_count = 0;
    for (size_t i = 0; a->tokens && i < AUTH_BUCKETS; i++)
        for (struct auth_entry *e = a->buckets[i]; e; e = e->next)
            if (!auth_row_ended(&e->key, now) && may_see(a, who, e))
                all[(*ret_count)++] = e;
    qsort(all, *ret_count, sizeof(*all), newest_first);
    return all;
}

int auth_token_list(struct auth *a, const struct principal *who,
                    unsigned limit, const char *after,
                    struct auth_key **ret_tokens, size_t *ret_count,
                    bool *ret_more, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    size_t count, from = 0, n;
    struct auth_entry **all cleanup(mem_free) = gather_tokens(a, who, &count);

    if (limit == 0 || limit > AUTH_TOKEN_LIST_MAX)
        return error_set(err, ERR_INVALID, "limit must be from 1 to %d",
                         AUTH_TOKEN_LIST_MAX);
    if (after) {
        while (from < count && strcmp(all[from]->key.id, after) != 0)
            from++;
        if (from++ == count)
            return error_set(err, ERR_INVALID, "after names no token");
    }
    n = MIN(count - from, (size_t)limit);
    *ret_tokens = xcalloc(n + 1, sizeof(**ret_tokens));
    for (size_t i = 0; i < n; i++)
        auth_key_public(&all[from + i]->key, &(*ret_tokens)[i]);
    *ret_count = n;
    *ret_more = from + n < count;
    return 0;
}

/* ---- revoking ----------------------------------------------------------- */

int auth_token_revoke(struct auth *a, const struct principal *who,
                      const char *id, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);
    const struct auth_entry *e =
        ids_valid("tok", id) ? auth_entry_find(a, id) : NULL;

    if (!e || !(may_see(a, who, e) || is_admin(who)))
        return error_set(err, ERR_NOT_FOUND, "no such token");
    if (auth_key_store_revoke(a->store, id, clock_real_ms(), err) < 0)
        return -(int)err->code;
    auth_entry_remove(a, id);
    return 0;
}
