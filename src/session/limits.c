/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on the number and the memory of all live sessions (R8). Runs in
 * gloveboxd.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session_int.h"

/* What all live sessions may use together, by the setting; 0: no limit. */
static uint64_t most_granted(const struct conf *conf)
{
    uint64_t machine = conf->machine_memory;

    if (!machine || !conf->memory_overcommit)
        return 0;
    return machine > UINT64_MAX / conf->memory_overcommit
               ? UINT64_MAX
               : machine * conf->memory_overcommit;
}

static int check_granted(const struct sessions *m,
                         const struct warden_limits *limits, struct error *err)
{
    uint64_t most = most_granted(m->conf);
    uint64_t granted = atomic_load(&m->granted);

    if (!most || (limits->memory_bytes <= most &&
                  granted <= most - limits->memory_bytes))
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
static void warn(struct sessions *m, uint64_t granted)
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
        warn(m, atomic_fetch_add(&m->granted, limits->memory_bytes) +
                    limits->memory_bytes);
    else
        warn(m, atomic_fetch_sub(&m->granted, limits->memory_bytes) -
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
