/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on live sessions (R8): their number, their memory, their creation
 * rate, and the memory left on the machine. Runs in gloveboxd. A new session
 * reserves its place under every limit, with sessions.lock held, before
 * anything slow begins.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "quota/quota.h"
#include "session/session_int.h"

#define MEMORY_LOOK_MS 1000u
#define MEMORY_SPARE_KB (192ull << 10)

/* The limit for the memory of all live sessions; 0: no limit. */
static uint64_t most_granted(const struct conf *conf)
{
    uint64_t machine = conf->machine_memory;

    if (!machine || !conf->memory_overcommit)
        return 0;
    return machine > UINT64_MAX / conf->memory_overcommit
               ? UINT64_MAX
               : machine * conf->memory_overcommit;
}

uint64_t session_limits_missing(const struct sessions *m,
                                const struct warden_limits *limits)
{
    uint64_t most = most_granted(m->conf);
    uint64_t granted = atomic_load(&m->granted);

    if (!most)
        return 0;
    if (limits->memory_bytes > most)
        return UINT64_MAX;
    return granted <= most - limits->memory_bytes
               ? 0
               : granted - (most - limits->memory_bytes);
}

static int check_granted(const struct sessions *m,
                         const struct warden_limits *limits, struct error *err)
{
    uint64_t most = most_granted(m->conf);
    uint64_t granted = atomic_load(&m->granted);

    if (session_limits_missing(m, limits) == 0)
        return 0;
    return error_set(err, ERR_BUSY,
                     "live sessions may use %llu MiB of memory together, and "
                     "%llu MiB more would be above the machine's limit of "
                     "%llu MiB",
                     (unsigned long long)(granted >> 20),
                     (unsigned long long)(limits->memory_bytes >> 20),
                     (unsigned long long)(most >> 20));
}

/* Told when it begins, and again only after it was well below. */
static void warn_overcommit(struct sessions *m, uint64_t granted)
{
    uint64_t machine = m->conf->machine_memory;
    char has[32], may[32];

    if (!machine)
        return;
    if (granted <= machine / 8 * 7)
        atomic_store(&m->granted_warned, false);
    if (granted <= machine || atomic_exchange(&m->granted_warned, true))
        return;
    (void)snprintf(may, sizeof(may), "%llu", (unsigned long long)granted);
    (void)snprintf(has, sizeof(has), "%llu", (unsigned long long)machine);
    log_event(LOG_WARN, "memory_overcommitted", "granted_bytes", may,
              "machine_bytes", has, NULL);
}

void session_limits_live(struct sessions *m,
                         const struct warden_limits *limits, bool live)
{
    if (live)
        warn_overcommit(m,
                        atomic_fetch_add(&m->granted, limits->memory_bytes) +
                            limits->memory_bytes);
    else
        warn_overcommit(m,
                        atomic_fetch_sub(&m->granted, limits->memory_bytes) -
                            limits->memory_bytes);
}

int session_limits_room(const struct sessions *m, const struct pool *pool,
                        const struct warden_limits *limits, struct error *err)
{
    const struct conf *conf = m->conf;

    if (atomic_load(&m->live) >= conf->max_sessions)
        return error_set(err, ERR_BUSY,
                         "the machine holds %u sessions, which is the most",
                         conf->max_sessions);
    if (pool_sessions(pool) >= pool_conf(pool)->max_sessions)
        return error_set(err, ERR_BUSY,
                         "the pool holds %u sessions, which is the most",
                         pool_conf(pool)->max_sessions);
    return check_granted(m, limits, err);
}

/* ---- a place for a new session ------------------------------------------ */

struct tenant *session_tenant(struct sessions *m, const char *name)
{
    struct idmap_node *n = idmap_find(&m->tenants, name);
    struct tenant *t;

    if (n)
        return container_of(n, struct tenant, node);
    t = xcalloc(1, sizeof(*t));
    t->m = m;
    t->background.parent = &m->background;
    t->fair.all = &m->fair;
    t->name = xstrdup(name);
    idmap_add(&m->tenants, &t->node, t->name);
    return t;
}

/* The machine's own memory, looked at once a second at most. Where it cannot
 * be read the limits on numbers must do. */
static bool memory_short(struct sessions *m)
{
    uint64_t now = clock_mono_ms();
    char *text cleanup(mem_free) = NULL;
    unsigned long long kb = 0;
    const char *at;

    if (m->memory_checked_ms && now < m->memory_checked_ms + MEMORY_LOOK_MS)
        return m->memory_short;
    m->memory_checked_ms = now;
    m->memory_short = false;
    if (fd_read_file(AT_FDCWD, "/proc/meminfo", 8192, &text, NULL) < 0)
        return false;
    at = strstr(text, "MemAvailable:");
    if (at)
        kb = strtoull(at + strlen("MemAvailable:"), NULL, 10);
    m->memory_short = at && kb < MEMORY_SPARE_KB;
    return m->memory_short;
}

int session_quota_take(struct sessions *m, const char *tenant,
                       const struct warden_limits *limits, struct error *err)
{
    int rc = quota_take(m->core->quotas, tenant, QUOTA_SESSIONS, 1, err);

    if (rc < 0)
        return rc;
    rc = quota_take(m->core->quotas, tenant, QUOTA_MEMORY,
                    limits->memory_bytes, err);
    if (rc < 0)
        quota_give(m->core->quotas, tenant, QUOTA_SESSIONS, 1);
    return rc;
}

void session_quota_give(struct sessions *m, const char *tenant,
                        const struct warden_limits *limits)
{
    quota_give(m->core->quotas, tenant, QUOTA_SESSIONS, 1);
    quota_give(m->core->quotas, tenant, QUOTA_MEMORY, limits->memory_bytes);
}

static int check_machine(struct sessions *m, const struct pool *pool,
                         const struct warden_limits *limits, struct error *err)
{
    int rc = session_limits_room(m, pool, limits, err);

    if (rc == 0 && memory_short(m))
        rc = error_set(err, ERR_BUSY,
                       "the machine has less than %u MiB of memory left",
                       (unsigned)(MEMORY_SPARE_KB >> 10));
    if (rc == 0)
        return 0;
    (void)error_hint(err, "try again later");
    return error_retry(err, 5);
}

int session_reserve(struct sessions *m, struct tenant *t, struct pool *pool,
                    const struct warden_limits *limits, struct error *err)
{
    int rc = session_quota_take(m, t->name, limits, err);

    if (rc < 0)
        return rc;
    rc = check_machine(m, pool, limits, err);
    if (rc == 0)
        rc = quota_take(m->core->quotas, t->name, QUOTA_CREATIONS, 1, err);
    if (rc < 0) {
        session_quota_give(m, t->name, limits);
        return rc;
    }
    atomic_fetch_add(&m->creating, 1);
    atomic_fetch_add(&m->live, 1);
    session_limits_live(m, limits, true);
    pool_sessions_add(pool, 1);
    return 0;
}
