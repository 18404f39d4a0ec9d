/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place for a new session under every limit (R8): how many there are, how
 * fast they come, and what memory the machine has left. Runs in gloveboxd
 * under sessions.lock, before anything slow is begun.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "session/session_int.h"

#define TOKEN 1000u /* of the bucket, for one creation */
#define BURST_S 2u  /* this many seconds' worth at once */
#define MEMORY_LOOK_MS 1000u
#define MEMORY_SPARE_KB (192ull << 10)

struct tenant *session_tenant(struct sessions *m, const char *name)
{
    struct idmap_node *n = session_idmap_find(&m->tenants, name);
    struct tenant *t;

    if (n)
        return container_of(n, struct tenant, node);
    t = xcalloc(1, sizeof(*t));
    t->name = xstrdup(name);
    t->tokens_ms = m->conf->creations_per_s * (uint64_t)TOKEN * BURST_S;
    t->tokens_at_ms = clock_mono_ms();
    session_idmap_add(&m->tenants, &t->node, t->name);
    return t;
}

/* A token bucket: a millisecond brings creations_per_s thousandths. */
static bool take_token(struct sessions *m, struct tenant *t)
{
    uint64_t rate = m->conf->creations_per_s;
    uint64_t now = clock_mono_ms();

    if (rate == 0)
        return true;
    t->tokens_ms += (now - t->tokens_at_ms) * rate;
    t->tokens_ms = MIN(t->tokens_ms, rate * TOKEN * BURST_S);
    t->tokens_at_ms = now;
    if (t->tokens_ms < TOKEN)
        return false;
    t->tokens_ms -= TOKEN;
    return true;
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

static int refused(struct error *err, int retry_s)
{
    (void)error_hint(err, err->code == ERR_LIMIT
                              ? "delete sessions that are no longer needed, "
                                "or try again later"
                              : "try again later");
    return error_retry(err, retry_s);
}

int session_reserve(struct sessions *m, struct tenant *t, struct pool *pool,
                    struct error *err)
{
    int rc = session_limits_room(m, t, pool, err);

    if (rc == 0 && memory_short(m))
        rc = error_set(err, ERR_BUSY,
                       "the machine has less than %u MiB of memory left",
                       (unsigned)(MEMORY_SPARE_KB >> 10));
    if (rc < 0)
        return refused(err, 5);
    if (!take_token(m, t)) {
        (void)error_set(err, ERR_LIMIT,
                        "more than %u sessions a second were created",
                        m->conf->creations_per_s);
        return refused(err, 1);
    }
    atomic_fetch_add(&m->creating, 1);
    atomic_fetch_add(&m->live, 1);
    atomic_fetch_add(&pool->sessions, 1);
    atomic_fetch_add(&t->live, 1);
    return 0;
}
