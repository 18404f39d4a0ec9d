/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of pools: find, reference, show, list. Runs in gloveboxd on the
 * caller's thread. Configured pools exist from start to end and cost nothing
 * to find; pools created later are reference counted.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "pool/pool_int.h"

/* ---- the table ---------------------------------------------------------- */

size_t pools_count(const struct pools *ps)
{
    mutex_assert_held(&ps->lock);
    return ps->pool_count + ps->made_count;
}

struct pool *pools_at(struct pools *ps, size_t i)
{
    mutex_assert_held(&ps->lock);
    return i < ps->pool_count ? &ps->pools[i] : ps->made[i - ps->pool_count];
}

bool pools_configured(const struct pools *ps, const char *name)
{
    for (size_t i = 0; i < ps->pool_count; i++)
        if (strcmp(ps->conf->pools[i].name, name) == 0)
            return true;
    return false;
}

/* Where it is, or would be. */
static size_t place_of(const struct pools *ps, const char *name)
{
    size_t low = 0, high = ps->made_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(ps->made[middle]->made->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct pool *pools_made_find(struct pools *ps, const char *name)
{
    size_t i = place_of(ps, name);

    return i < ps->made_count && strcmp(ps->made[i]->made->name, name) == 0
               ? ps->made[i]
               : NULL;
}

void pools_made_add(struct pools *ps, struct pool *pool)
{
    size_t i;

    mutex_lock(&ps->lock);
    assert(ps->made_count < POOLS_MADE_MAX);
    i = place_of(ps, pool->made->name);
    memmove(&ps->made[i + 1], &ps->made[i],
            (ps->made_count - i) * sizeof(struct pool *));
    ps->made[i] = pool;
    ps->made_count++;
    cond_signal(&ps->cond);
    mutex_unlock(&ps->lock);
}

void pools_made_drop(struct pools *ps, struct pool *pool)
{
    size_t i;

    mutex_lock(&ps->lock);
    i = place_of(ps, pool->made->name);
    assert(i < ps->made_count && ps->made[i] == pool);
    ps->made_count--;
    memmove(&ps->made[i], &ps->made[i + 1],
            (ps->made_count - i) * sizeof(struct pool *));
    mutex_unlock(&ps->lock);
    pool_unref(pool);
}

/* ---- references --------------------------------------------------------- */

struct pool *pool_ref(struct pool *pool)
{
    if (pool->made)
        atomic_fetch_add(&pool->made->refs, 1);
    return pool;
}

void pool_unref(struct pool *pool)
{
    struct pool_settings *next;

    if (!pool || !pool->made || atomic_fetch_sub(&pool->made->refs, 1) != 1)
        return;
    assert(pool->ready_count == 0);
    for (struct pool_settings *s = pool->made->settings; s; s = next) {
        next = s->next;
        pools_settings_free(s);
    }
    free(pool->made->details);
    free(pool->made);
    free(pool->ready);
    free(pool);
}

void pool_unrefp(struct pool **pool)
{
    pool_unref(*pool);
}

struct pool *pool_find(struct pools *ps, const char *tenant, const char *name)
{
    struct pool *pool;

    if (!name || !name[0])
        return &ps->pools[0];
    for (size_t i = 0; i < ps->pool_count; i++)
        if (strcmp(ps->conf->pools[i].name, name) == 0)
            return &ps->pools[i];
    mutex_lock(&ps->lock);
    pool = pools_made_find(ps, name);
    if (pool && strcmp(pool->made->tenant, tenant) == 0)
        (void)pool_ref(pool);
    else
        pool = NULL;
    mutex_unlock(&ps->lock);
    return pool;
}

struct pool *pool_open(struct pools *ps, const struct actor *who,
                       const char *name)
{
    const char *bound = actor_bound(who, ACTOR_POOLS);
    char first[64];
    struct pool *pool;

    if ((!name || !name[0]) && bound[0]) {
        (void)snprintf(first, sizeof(first), "%.*s", (int)strcspn(bound, ","),
                       bound);
        name = first;
    }
    pool = pool_find(ps, who->tenant, name);
    if (!pool || actor_may(who, ACTOR_POOLS, pool->conf->name))
        return pool;
    pool_unref(pool);
    return NULL;
}

int pool_check(const struct pool *pool, struct error *err)
{
    if (pool && !atomic_load(&pool->gone))
        return 0;
    return error_set(err, ERR_INVALID, "there is no pool of that name");
}

bool pool_is_gone(const struct pool *pool)
{
    return atomic_load(&pool->gone);
}

const struct conf_pool *pool_conf(const struct pool *pool)
{
    return atomic_load(&pool->conf);
}

unsigned pool_sessions(const struct pool *pool)
{
    return atomic_load(&pool->sessions);
}

void pool_sessions_add(struct pool *pool, int delta)
{
    atomic_fetch_add(&pool->sessions, (unsigned)delta);
}

/* ---- show ------------------------------------------------------- */

/* lock is held. */
static void fill_info(struct pool *pool, struct pool_info *ret)
{
    const struct conf_pool *conf = pool->conf;

    *ret = (struct pool_info){
        .kind = POOL_PYTHON,
        .zygote = conf->zygote,
        .ephemeral = strcmp(conf->persistence, "ephemeral") == 0,
        .ready = conf->ready,
        .ready_now = pool->ready_count,
        .sessions = atomic_load(&pool->sessions),
        .max_sessions = conf->max_sessions,
        .cooldown_s = conf->cooldown_s,
        .python_timeout_s = conf->python_timeout_s,
        .python_timeout_max_s = conf->python_timeout_max_s,
        .shell_timeout_s = conf->shell_timeout_s,
        .shell_timeout_max_s = conf->shell_timeout_max_s,
        .memory_bytes = conf->memory_bytes,
        .egress_allow = xstrdup(conf->egress_allow ? conf->egress_allow : ""),
        .packages = conf->packages,
    };
    (void)session_egress_parse(conf->egress ? conf->egress : "none",
                               &ret->egress);
    (void)session_sharing_parse(conf->sharing, &ret->sharing);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", conf->name);
    (void)snprintf(ret->runtime, sizeof(ret->runtime), "%s", conf->runtime);
    if (pool->made) {
        (void)snprintf(ret->tenant, sizeof(ret->tenant), "%s",
                       pool->made->tenant);
        ret->kind = pool->made->kind;
        ret->created_at_ms = pool->made->created_at_ms;
        ret->updated_at_ms = pool->made->updated_at_ms;
        ret->details = xstrdup(pool->made->details);
    }
}

void pools_info(struct pools *ps, struct pool *pool, struct pool_info *ret)
{
    mutex_lock(&ps->lock);
    fill_info(pool, ret);
    mutex_unlock(&ps->lock);
}

void pool_info_done(struct pool_info *info)
{
    free(take_ptr(info->details));
    free(take_ptr(info->egress_allow));
}

int pools_get(struct pools *ps, const struct actor *who, const char *name,
              struct pool_info *ret, struct error *err)
{
    struct pool *pool cleanup(pool_unrefp) = pool_open(ps, who, name);

    if (!pool || atomic_load(&pool->gone))
        return error_set(err, ERR_NOT_FOUND, "no such pool");
    pools_info(ps, pool, ret);
    return 0;
}

void pools_list(struct pools *ps, const struct actor *who,
                struct pool_info **ret, size_t *ret_count)
{
    struct pool_info *list;
    size_t count = 0;

    mutex_lock(&ps->lock);
    list = xcalloc(pools_count(ps), sizeof(*list));
    for (size_t i = 0; i < pools_count(ps); i++) {
        struct pool *p = pools_at(ps, i);

        if (actor_may(who, ACTOR_POOLS, p->conf->name) &&
            (!p->made || (strcmp(p->made->tenant, who->tenant) == 0 &&
                          !atomic_load(&p->gone))))
            fill_info(p, &list[count++]);
    }
    mutex_unlock(&ps->lock);
    *ret = list;
    *ret_count = count;
}

size_t pools_gauges(struct pools *ps, struct pool_gauge *ret, size_t max)
{
    size_t count;

    mutex_lock(&ps->lock);
    count = MIN(pools_count(ps), max);
    for (size_t i = 0; i < count; i++) {
        struct pool *p = pools_at(ps, i);

        ret[i] = (struct pool_gauge){.ready = p->ready_count,
                                     .wanted = p->conf->ready,
                                     .sessions = atomic_load(&p->sessions)};
        (void)snprintf(ret[i].name, sizeof(ret[i].name), "%s", p->conf->name);
    }
    mutex_unlock(&ps->lock);
    return count;
}

/* ---- the module --------------------------------------------------------- */

int pools_open(const struct pools_parts *parts, struct pools **ret,
               struct error *err)
{
    static const struct session_limits nothing_asked;
    struct pools *ps = *ret = xcalloc(1, sizeof(*ps));
    int rc = 0;

    ps->parts = *parts;
    ps->conf = parts->conf;
    mutex_init(&ps->change_lock);
    mutex_init(&ps->lock);
    cond_init(&ps->cond);
    ps->pool_count = ps->conf->pool_count;
    for (size_t i = 0; i < ps->pool_count && rc == 0; i++) {
        ps->pools[i].conf = &ps->conf->pools[i];
        rc = pool_limits_grant(&ps->conf->pools[i], &nothing_asked,
                               &ps->pools[i].limits, err);
    }
    if (rc < 0)
        return rc;
    runtimes_init(ps);
    return pools_load(ps, err);
}

void pools_close(struct pools *ps)
{
    if (!ps)
        return;

    while (ps->made_count) {
        struct pool *pool = ps->made[ps->made_count - 1];

        pool_empty(ps, pool);
        pools_made_drop(ps, pool);
    }

    runtimes_done(ps);
    mutex_done(&ps->change_lock);
    mutex_done(&ps->lock);
    cond_done(&ps->cond);
    free(ps);
}

/* A created pool has a runtime that a configured pool has too. */
bool pools_ready(struct pools *ps)
{
    for (size_t i = 0; i < ps->pool_count; i++)
        if (!atomic_load(&atomic_load(&ps->pools[i].runtime)->up))
            return false;
    return true;
}
