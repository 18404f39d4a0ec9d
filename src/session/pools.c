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
#include "session/pools_int.h"

/* ---- the table ---------------------------------------------------------- */

size_t session_pools_count(const struct sessions *m)
{
    return m->pool_count + m->made_count;
}

struct pool *session_pools_at(struct sessions *m, size_t i)
{
    return i < m->pool_count ? &m->pools[i] : m->made[i - m->pool_count];
}

bool pools_configured(const struct sessions *m, const char *name)
{
    for (size_t i = 0; i < m->pool_count; i++)
        if (strcmp(m->conf->pools[i].name, name) == 0)
            return true;
    return false;
}

/* Where it is, or would be. */
static size_t place_of(const struct sessions *m, const char *name)
{
    size_t low = 0, high = m->made_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(m->made[middle]->made->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct pool *pools_made_find(struct sessions *m, const char *name)
{
    size_t i = place_of(m, name);

    return i < m->made_count && strcmp(m->made[i]->made->name, name) == 0
               ? m->made[i]
               : NULL;
}

void pools_made_add(struct sessions *m, struct pool *pool)
{
    size_t i;

    mutex_lock(&m->pool_lock);
    assert(m->made_count < POOLS_MADE_MAX);
    i = place_of(m, pool->made->name);
    memmove(&m->made[i + 1], &m->made[i],
            (m->made_count - i) * sizeof(struct pool *));
    m->made[i] = pool;
    m->made_count++;
    cond_signal(&m->pool_cond);
    mutex_unlock(&m->pool_lock);
}

void pools_made_drop(struct sessions *m, struct pool *pool)
{
    size_t i;

    mutex_lock(&m->pool_lock);
    i = place_of(m, pool->made->name);
    assert(i < m->made_count && m->made[i] == pool);
    m->made_count--;
    memmove(&m->made[i], &m->made[i + 1],
            (m->made_count - i) * sizeof(struct pool *));
    mutex_unlock(&m->pool_lock);
    session_pool_unref(pool);
}

void session_pools_done(struct sessions *m)
{
    while (m->made_count) {
        struct pool *pool = m->made[m->made_count - 1];

        session_pool_empty(m, pool);
        pools_made_drop(m, pool);
    }
}

/* ---- references --------------------------------------------------------- */

struct pool *session_pool_ref(struct pool *pool)
{
    if (pool->made)
        atomic_fetch_add(&pool->made->refs, 1);
    return pool;
}

void session_pool_unref(struct pool *pool)
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

void session_pool_unrefp(struct pool **pool)
{
    session_pool_unref(*pool);
}

struct pool *session_pool_find(struct sessions *m, const char *tenant,
                               const char *name)
{
    struct pool *pool;

    if (!name || !name[0])
        return &m->pools[0];
    for (size_t i = 0; i < m->pool_count; i++)
        if (strcmp(m->conf->pools[i].name, name) == 0)
            return &m->pools[i];
    mutex_lock(&m->pool_lock);
    pool = pools_made_find(m, name);
    if (pool && strcmp(pool->made->tenant, tenant) == 0)
        (void)session_pool_ref(pool);
    else
        pool = NULL;
    mutex_unlock(&m->pool_lock);
    return pool;
}

struct pool *session_pool_open(struct sessions *m, const struct actor *who,
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
    pool = session_pool_find(m, who->tenant, name);
    if (!pool || actor_may(who, ACTOR_POOLS, pool->conf->name))
        return pool;
    session_pool_unref(pool);
    return NULL;
}

int session_pool_check(const struct pool *pool, struct error *err)
{
    if (pool && !atomic_load(&pool->gone))
        return 0;
    return error_set(err, ERR_INVALID, "there is no pool of that name");
}

/* ---- what it shows ------------------------------------------------------ */

static void fill_made(const struct pool_made *made, struct pool_info *ret)
{
    (void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", made->tenant);
    ret->kind = made->kind;
    ret->created_at_ms = made->created_at_ms;
    ret->updated_at_ms = made->updated_at_ms;
    ret->details = xstrdup(made->details);
}

/* pool_lock is held. */
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
        .python_timeout_max_s = conf->python_timeout_max_s,
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
    if (pool->made)
        fill_made(pool->made, ret);
}

void pools_info(struct sessions *m, struct pool *pool, struct pool_info *ret)
{
    mutex_lock(&m->pool_lock);
    fill_info(pool, ret);
    mutex_unlock(&m->pool_lock);
}

void pool_info_done(struct pool_info *info)
{
    free(take_ptr(info->details));
    free(take_ptr(info->egress_allow));
}

int session_pool_get(struct sessions *s, const struct actor *who,
                     const char *name, struct pool_info *ret,
                     struct error *err)
{
    struct pool *pool cleanup(session_pool_unrefp) = NULL;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    pool = session_pool_open(s, who, name);
    if (pool && !atomic_load(&pool->gone))
        pools_info(s, pool, ret);
    else
        rc = error_set(err, ERR_NOT_FOUND, "no such pool");
    session_leave(s);
    return rc;
}

int session_pool_list(struct sessions *s, const struct actor *who,
                      struct pool_info **ret, size_t *ret_count,
                      struct error *err)
{
    struct pool_info *list;
    size_t count = 0;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    mutex_lock(&s->pool_lock);
    list = xcalloc(session_pools_count(s), sizeof(*list));
    for (size_t i = 0; i < session_pools_count(s); i++) {
        struct pool *p = session_pools_at(s, i);

        if (actor_may(who, ACTOR_POOLS, p->conf->name) &&
            (!p->made || (strcmp(p->made->tenant, who->tenant) == 0 &&
                          !atomic_load(&p->gone))))
            fill_info(p, &list[count++]);
    }
    mutex_unlock(&s->pool_lock);
    session_leave(s);
    *ret = list;
    *ret_count = count;
    return 0;
}
