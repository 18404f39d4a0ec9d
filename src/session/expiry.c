/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session expiry: a session has expired when it was unused for longer than its
 * cooldown, by the clock alone, whether or not the reaper has seen it yet.
 * Runs in gloveboxd under the session's lock. An expired session becomes
 * dormant; for the tenants that the configuration names, it ends instead.
 * Every call that would wake a session or use its files checks here first.
 */
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "session/session_int.h"

uint32_t session_cooldown(const struct session *se)
{
    return se->cooldown_s ? se->cooldown_s : pool_conf(se->pool)->cooldown_s;
}

bool session_expiry_past(int64_t used_at_ms, uint32_t cooldown_s,
                         int64_t now_ms)
{
    return now_ms > used_at_ms + cooldown_s * (int64_t)1000;
}

/* Something runs, waits, or reads or writes its files. */
static bool session_is_busy(const struct session *se)
{
    return se->running || se->queue_head || se->pins;
}

bool session_expired(const struct session *se)
{
    return !session_is_busy(se) &&
           session_expiry_past(se->last_used_at_ms, session_cooldown(se),
                               clock_real_ms());
}

int64_t session_expires_at(const struct session *se)
{
    int64_t used = session_is_busy(se) ? clock_real_ms() : se->last_used_at_ms;

    return used + session_cooldown(se) * (int64_t)1000;
}

bool session_expiry_final(const struct sessions *m, const char *tenant)
{
    const char *at = m->conf->final_expiry_tenants;
    size_t len = strlen(tenant);

    while (at && *at) {
        size_t n = strcspn(at, ",");

        if ((n == 1 && *at == '*') ||
            (n == len && strncmp(at, tenant, n) == 0))
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

int session_expiry_check(const struct session *se, struct error *err)
{
    if (!session_expired(se) || !session_expiry_final(se->m, se->tenant->name))
        return 0;
    (void)error_set(err, ERR_EXPIRED, "the session has expired");
    return error_hint(err, "create a new one; its files are still in its "
                           "workspace");
}

int session_use(struct session *se, struct error *err)
{
    int rc;

    mutex_lock(&se->lock);
    rc = session_expiry_check(se, err);
    if (rc == 0)
        session_touch(se);
    mutex_unlock(&se->lock);
    return rc;
}
