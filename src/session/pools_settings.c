/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of made pools in force: kept for as long as anyone could be
 * reading them, shared when the same come back. Runs in gloveboxd under
 * pools_lock.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/pools_int.h"

static void fill_conf(struct sessions *m, const struct pool_row *row,
                      char *name, struct conf_pool *ret)
{
    static char workspace[] = "workspace", ephemeral[] = "ephemeral";
    const struct runtime *rt = pools_runtime(m, row->runtime);

    *ret = m->conf->pools[0];
    for (size_t i = 0; i < m->pool_count; i++)
        if (m->conf->pools[i].runtime == rt->name)
            ret->runtime = m->conf->pools[i].runtime;
    ret->name = name;
    ret->zygote = rt->zygote;
    ret->persistence = row->ephemeral ? ephemeral : workspace;
    ret->memory_bytes = (uint64_t)row->memory_bytes;
    ret->ready = (uint32_t)row->ready;
    ret->max_sessions = (uint32_t)row->max_sessions;
    ret->cooldown_s = (uint32_t)row->cooldown_s;
    ret->egress = (char *)(uintptr_t)session_egress_name(row->egress);
    ret->egress_allow = row->egress_allow; /* until they are kept */
    ret->packages = row->packages;
    ret->sharing = (char *)(uintptr_t)session_sharing_name(row->sharing);
}

/* Both have the same name and are otherwise of the same first pool. */
static bool same(const struct conf_pool *a, const struct conf_pool *b)
{
    return a->runtime == b->runtime && a->persistence == b->persistence &&
           a->memory_bytes == b->memory_bytes && a->ready == b->ready &&
           a->max_sessions == b->max_sessions &&
           a->cooldown_s == b->cooldown_s && a->egress == b->egress &&
           strcmp(a->egress_allow, b->egress_allow) == 0 &&
           a->packages == b->packages && a->sharing == b->sharing;
}

void pools_settings_free(struct pool_settings *s)
{
    free(s->egress_allow);
    free(s);
}

/* With nobody but the table to read them, old ones are of no use. */
static void forget_settings(struct pool *pool)
{
    struct pool_settings **at = &pool->made->settings, *s;

    if (atomic_load(&pool->made->refs) > 1)
        return;
    while ((s = *at)) {
        if (&s->conf == pool->conf) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        pool->made->settings_count--;
        pools_settings_free(s);
    }
}

static struct pool_settings *settings_like(const struct pool_made *made,
                                           const struct conf_pool *conf)
{
    struct pool_settings *s = made->settings;

    while (s && !same(&s->conf, conf))
        s = s->next;
    return s;
}

int pools_settings(struct sessions *m, struct pool *pool,
                   const struct pool_row *row,
                   const struct pool_settings **ret, struct error *err)
{
    struct pool_made *made = pool->made;
    struct pool_settings *s;
    struct conf_pool conf;
    int rc = 0;

    fill_conf(m, row, made->name, &conf);
    mutex_lock(&m->pool_lock);
    forget_settings(pool);
    s = settings_like(made, &conf);
    if (!s && made->settings_count >= POOL_SETTINGS_MAX) {
        (void)error_set(err, ERR_LIMIT,
                        "the pool was changed %u times while sessions of it "
                        "were there",
                        POOL_SETTINGS_MAX);
        rc = error_hint(err, "delete its sessions, or make another pool");
    } else if (!s) {
        s = xcalloc(1, sizeof(*s));
        s->conf = conf;
        s->conf.egress_allow = s->egress_allow = xstrdup(row->egress_allow);
        s->next = made->settings;
        made->settings = s;
        made->settings_count++;
    }
    mutex_unlock(&m->pool_lock);
    *ret = s;
    return rc;
}

void pools_apply(struct sessions *m, struct pool *pool,
                 const struct pool_row *row,
                 const struct pool_settings *settings)
{
    static const struct session_limits nothing_asked;
    struct warden_limits limits;
    struct error ignored;
    char *details = xstrdup(row->details);

    /* Nothing asked is always granted. */
    (void)session_limits_grant(&settings->conf, &nothing_asked, &limits,
                               &ignored);
    session_pool_set(m, pool, &settings->conf, pools_runtime(m, row->runtime),
                     &limits);
    mutex_lock(&m->pool_lock);
    pool->made->kind = row->kind;
    free(pool->made->details);
    pool->made->details = details;
    pool->made->created_at_ms = row->created_at_ms;
    pool->made->updated_at_ms = row->updated_at_ms;
    mutex_unlock(&m->pool_lock);
}

struct pool *pools_make(struct sessions *m, const struct pool_row *row)
{
    struct pool *pool = xcalloc(1, sizeof(*pool));
    const struct pool_settings *settings;
    struct error ignored;

    pool->made = xcalloc(1, sizeof(*pool->made));
    atomic_init(&pool->made->refs, 1);
    (void)snprintf(pool->made->name, sizeof(pool->made->name), "%s",
                   row->name);
    (void)snprintf(pool->made->tenant, sizeof(pool->made->tenant), "%s",
                   row->tenant);
    pool->ready = xcalloc(POOL_READY_MAX, sizeof(struct box *));
    /* The first settings of a pool have room. */
    (void)pools_settings(m, pool, row, &settings, &ignored);
    pools_apply(m, pool, row, settings);
    return pool;
}
