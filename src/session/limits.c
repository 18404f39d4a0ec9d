/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource limits of a session: the settings of its pool, lowered on request,
 * raised only where the pool permits it; and the totals of all sessions. Runs
 * in gloveboxd. The warden checks the result again.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session_int.h"

#define NONE ((size_t)-1)

/* One limit: where it is asked, given by default, capped, and granted. */
struct limit_row {
    const char *name;
    bool wide; /* 64 bits, else 32 */
    size_t asked, by_default, most, granted;
    uint64_t least;
};

#define ASKED(field) offsetof(struct session_limits, field)
#define POOL(field) offsetof(struct conf_pool, field)
#define GRANTED(field) offsetof(struct warden_limits, field)

static const struct limit_row rows[] = {
    {"memory_bytes", true, ASKED(memory_bytes), POOL(memory_bytes),
     POOL(max_memory_bytes), GRANTED(memory_bytes), 64u << 20},
    {"scratch_bytes", true, ASKED(scratch_bytes), POOL(scratch_bytes),
     POOL(scratch_bytes), GRANTED(scratch_bytes), 1u << 20},
    {"scratch_inodes", false, ASKED(scratch_inodes), POOL(scratch_inodes),
     POOL(scratch_inodes), GRANTED(scratch_inodes), 64},
    {"processes", false, ASKED(processes), POOL(processes), POOL(processes),
     GRANTED(processes), 8},
    {"cores", false, ASKED(cores), POOL(cores), POOL(max_cores),
     GRANTED(cores), 1},
    {"descriptors", false, ASKED(descriptors), POOL(descriptors),
     POOL(descriptors), GRANTED(descriptors), 64},
    {"tmp_bytes", true, NONE, POOL(tmp_bytes), NONE, GRANTED(tmp_bytes), 0},
    {"shm_bytes", true, NONE, POOL(shm_bytes), NONE, GRANTED(shm_bytes), 0},
};

static uint64_t get(const void *base, size_t offset, bool wide)
{
    const char *at = (const char *)base + offset;

    return wide ? *(const uint64_t *)(const void *)at
                : *(const uint32_t *)(const void *)at;
}

static void set(void *base, size_t offset, bool wide, uint64_t value)
{
    char *at = (char *)base + offset;

    if (wide)
        *(uint64_t *)(void *)at = value;
    else
        *(uint32_t *)(void *)at = (uint32_t)value;
}

int session_limits_grant(const struct conf_pool *pool,
                         const struct session_limits *asked,
                         struct warden_limits *ret, struct error *err)
{
    struct warden_limits granted = {0};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct limit_row *r = &rows[i];
        uint64_t given = get(pool, r->by_default, r->wide);
        uint64_t wish = r->asked == NONE ? 0 : get(asked, r->asked, r->wide);

        if (wish) {
            uint64_t most = MAX(get(pool, r->most, r->wide), given);

            if (wish < MIN(r->least, given) || wish > most)
                return error_set(err, ERR_INVALID,
                                 "limits.%s must be from %llu to %llu in "
                                 "this pool",
                                 r->name,
                                 (unsigned long long)MIN(r->least, given),
                                 (unsigned long long)most);
            given = wish;
        }
        set(&granted, r->granted, r->wide, given);
    }
    *ret = granted;
    return 0;
}

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
    if (atomic_load(&pool->sessions) >= pool->conf->max_sessions)
        return error_set(err, ERR_BUSY,
                         "the pool holds %u sessions, which is the most",
                         pool->conf->max_sessions);
    return check_granted(m, limits, err);
}
