/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserves a place for a new session under every limit (R8): the number of
 * sessions, their creation rate, and the memory left on the machine. Runs in
 * gloveboxd under sessions.lock, before anything slow begins.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "quota/quota.h"
#include "session/session_int.h"

#define MEMORY_LOOK_MS 1000u
#define MEMORY_SPARE_KB (192ull << 10)

struct tenant *session_tenant(struct sessions *m, const char *name)
{
    struct idmap_node *n = session_idmap_find(&m->tenants, name);
    struct tenant *t;

    if (n)
        return container_of(n, struct tenant, node);
    t = xcalloc(1, sizeof(*t));
    t->m = m;
    t->background.parent = &m->background;
    t->name = xstrdup(name);
    session_idmap_add(&m->tenants, &t->node, t->name);
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
    int rc = quota_take(m->parts.quotas, tenant, QUOTA_SESSIONS, 1, err);

    if (rc < 0)
        return rc;
    rc = quota_take(m->parts.quotas, tenant, QUOTA_MEMORY,
                    limits->memory_bytes, err);
    if (rc < 0)
        quota_give(m->parts.quotas, tenant, QUOTA_SESSIONS, 1);
    return rc;
}

void session_quota_give(struct sessions *m, const char *tenant,
                        const struct warden_limits *limits)
{
    quota_give(m->parts.quotas, tenant, QUOTA_SESSIONS, 1);
    quota_give(m->parts.quotas, tenant, QUOTA_MEMORY, limits->memory_bytes);
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
        rc = quota_take(m->parts.quotas, t->name, QUOTA_CREATIONS, 1, err);
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
