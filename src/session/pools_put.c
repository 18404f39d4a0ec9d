/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and changing pools while the service runs. Runs in gloveboxd on the
 * caller's thread, one call at a time: check, store with the event that tells
 * of it, put in force.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/pools_int.h"

/* A name that only another tenant has is free to none and known to none. */
static int may_put(struct sessions *m, const struct actor *who,
                   enum pool_put how, const char *name, struct pool **ret_old,
                   struct error *err)
{
    struct pool *old = pools_made_find(m, name);
    bool own = old && strcmp(old->made->tenant, who->tenant) == 0;
    bool gone = old && atomic_load(&old->gone);

    *ret_old = old;
    if (pools_configured(m, name)) {
        (void)error_set(err, ERR_CONFLICT,
                        "the pool '%s' is one of the configuration", name);
        return error_hint(err, "it is changed there");
    }
    if (how == POOL_CHANGE)
        return own && !gone ? 0
                            : error_set(err, ERR_NOT_FOUND, "no such pool");
    if (own && gone) {
        (void)error_set(err, ERR_BUSY,
                        "the pool of that name is being removed");
        return error_retry(err, 1);
    }
    if (old && (!own || how == POOL_MAKE))
        return error_set(err, ERR_CONFLICT,
                         "there is a pool of that name already");
    if (!old && m->made_count >= POOLS_MADE_MAX) {
        (void)error_set(err, ERR_LIMIT,
                        "there are %u pools that were made while the service "
                        "ran, which is the most",
                        POOLS_MADE_MAX);
        return error_hint(err, "delete pools that are no longer needed");
    }
    return 0;
}

static int make(struct sessions *m, const struct actor *who,
                struct pool_row *row, struct pool **ret, struct error *err)
{
    int rc;

    row->created_at_ms = row->updated_at_ms;
    (void)snprintf(row->tenant, sizeof(row->tenant), "%s", who->tenant);
    rc = pools_rows_insert(m, who, row, err);
    if (rc < 0)
        return rc;
    *ret = pools_make(m, row);
    pools_made_add(m, *ret);
    return 0;
}

static int change(struct sessions *m, const struct actor *who,
                  const struct pool_row *row, struct pool *pool,
                  struct error *err)
{
    const struct pool_settings *settings;
    int rc = pools_settings(m, pool, row, &settings, err);

    if (rc == 0)
        rc = pools_rows_update(m, who, row, err);
    if (rc == 0)
        pools_apply(m, pool, row, settings);
    return rc;
}

/* pools_lock is held. */
static int put(struct sessions *m, const struct actor *who, enum pool_put how,
               const struct pool_spec *spec, bool *ret_made,
               struct pool_info *ret, struct error *err)
{
    struct pool_row row cleanup(pool_row_done) = {.details = NULL};
    struct pool *pool = NULL;
    int rc = pools_name_check(spec->name, err);

    if (rc < 0 && how == POOL_CHANGE)
        return error_set(err, ERR_NOT_FOUND, "no such pool");
    if (rc == 0)
        rc = may_put(m, who, how, spec->name, &pool, err);
    if (rc == 0)
        rc = pools_spec_row(m, spec, pool, &row, err);
    if (rc == 0 && (spec->egress || spec->egress_allow || spec->packages))
        rc = pools_network_permit(m, who, &row, err);
    if (rc < 0)
        return rc;
    row.updated_at_ms = clock_real_ms();
    *ret_made = pool == NULL;
    rc = pool ? change(m, who, &row, pool, err)
              : make(m, who, &row, &pool, err);
    if (rc == 0)
        pools_info(m, pool, ret);
    return rc;
}

int session_pool_put(struct sessions *s, const struct actor *who,
                     enum pool_put how, const struct pool_spec *spec,
                     bool *ret_made, struct pool_info *ret, struct error *err)
{
    bool made = false;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    mutex_lock(&s->pools_lock);
    rc = put(s, who, how, spec, &made, ret, err);
    mutex_unlock(&s->pools_lock);
    if (rc == 0)
        log_event(LOG_INFO, made ? "pool_created" : "pool_changed", "pool",
                  ret->name, "tenant", who->tenant, NULL);
    if (ret_made)
        *ret_made = made;
    session_leave(s);
    return rc;
}
