/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a pool: the names of its network modes and sharing modes, and
 * the resource limits that it grants to a session: the pool's own, lowered on
 * request, raised only where the pool permits it. Pure. The warden checks
 * limits again.
 */
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "pool/pool_int.h"

/* ---- names -------------------------------------------------------------- */

const char *const session_egress_names[] = {"none", "allowlist", "open", NULL};

const char *session_egress_name(enum session_egress mode)
{
    return session_egress_names[mode];
}

int session_egress_parse(const char *name, enum session_egress *ret)
{
    for (size_t i = 0; session_egress_names[i]; i++)
        if (strcmp(session_egress_names[i], name) == 0) {
            *ret = (enum session_egress)i;
            return 0;
        }
    return -ERR_INVALID;
}

static const char *const sharing_names[] = {
    [SESSION_SHARING_DEFAULT] = "default",
    [SESSION_SHARING_PRINCIPAL] = "principal",
    [SESSION_SHARING_TENANT] = "tenant",
};

const char *session_sharing_name(enum session_sharing sharing)
{
    return sharing_names[sharing];
}

int session_sharing_parse(const char *name, enum session_sharing *ret)
{
    if (!name || !*name) {
        *ret = SESSION_SHARING_DEFAULT;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(sharing_names); i++)
        if (strcmp(name, sharing_names[i]) == 0) {
            *ret = (enum session_sharing)i;
            return 0;
        }
    return -ERR_INVALID;
}

/* ---- limits --------------------------------------------------------------
 */

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

static const struct limit_row limits[] = {
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

static uint64_t limit_get(const void *base, size_t offset, bool wide)
{
    const char *at = (const char *)base + offset;

    return wide ? *(const uint64_t *)(const void *)at
                : *(const uint32_t *)(const void *)at;
}

int pool_limits_grant(const struct conf_pool *pool,
                      const struct session_limits *asked,
                      struct warden_limits *ret, struct error *err)
{
    struct warden_limits granted = {0};

    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        const struct limit_row *r = &limits[i];
        uint64_t given = limit_get(pool, r->by_default, r->wide);
        uint64_t wish =
            r->asked == NONE ? 0 : limit_get(asked, r->asked, r->wide);

        if (wish) {
            uint64_t most = MAX(limit_get(pool, r->most, r->wide), given);

            if (wish < MIN(r->least, given) || wish > most)
                return error_set(err, ERR_INVALID,
                                 "limits.%s must be from %llu to %llu in "
                                 "this pool",
                                 r->name,
                                 (unsigned long long)MIN(r->least, given),
                                 (unsigned long long)most);
            given = wish;
        }

        char *at = (char *)&granted + r->granted;

        if (r->wide)
            *(uint64_t *)(void *)at = given;
        else
            *(uint32_t *)(void *)at = (uint32_t)given;
    }
    *ret = granted;
    return 0;
}
