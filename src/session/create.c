/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating a session: check what is asked, reserve its place under every
 * limit (R8), take a ready sandbox or make one, publish it. Runs in gloveboxd
 * on the caller's thread; a refusal comes before anything slow.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session_int.h"

#define TOKEN 1000u /* of the bucket, for one creation */
#define BURST_S 2u  /* this many seconds' worth at once */
#define MEMORY_LOOK_MS 1000u
#define MEMORY_SPARE_KB (192ull << 10)

struct plan {
    struct pool *pool;
    struct runtime *runtime;
    struct warden_limits limits;
};

/* ---- what is asked ------------------------------------------------------ */

static int check_text(const struct session_spec *spec, struct error *err)
{
    if (spec->name && strlen(spec->name) > SESSION_NAME_MAX)
        return error_set(err, ERR_INVALID, "name is longer than %u bytes",
                         SESSION_NAME_MAX);
    if (spec->name && !session_text_plain(spec->name, strlen(spec->name)))
        return error_set(err, ERR_INVALID,
                         "name must be UTF-8 without control characters");
    if (spec->metadata && strlen(spec->metadata) > SESSION_METADATA_MAX)
        return error_set(err, ERR_TOO_LARGE, "metadata is over %u bytes",
                         SESSION_METADATA_MAX);
    return 0;
}

static int make_plan(struct sessions *m, const struct session_spec *spec,
                     struct plan *ret, struct error *err)
{
    struct plan plan = {.pool = session_pool_find(m, spec->pool)};

    if (!plan.pool)
        return error_set(err, ERR_INVALID, "there is no pool of that name");
    plan.runtime = session_runtime_find(m, plan.pool, spec->runtime);
    if (!plan.runtime) {
        (void)error_set(err, ERR_INVALID,
                        "no pool is configured with that runtime");
        return error_hint(err, "this pool's runtime is '%s'",
                          plan.pool->conf->runtime);
    }
    if (session_limits_grant(plan.pool->conf, &spec->limits, &plan.limits,
                             err) < 0)
        return -(int)err->code;
    *ret = plan;
    return 0;
}

/* ---- its place ---------------------------------------------------------- */

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

static int reserve(struct sessions *m, struct tenant *t, struct pool *pool,
                   struct error *err)
{
    const struct conf *conf = m->conf;
    int rc = 0;

    if (atomic_load(&t->live) >= conf->sessions_per_tenant)
        rc = error_set(err, ERR_LIMIT,
                       "%u sessions are awake already, which is the most",
                       conf->sessions_per_tenant);
    else if (m->session_count >= conf->max_sessions)
        rc = error_set(err, ERR_BUSY,
                       "the machine holds %u sessions, which is the most",
                       conf->max_sessions);
    else if (atomic_load(&pool->sessions) >= pool->conf->max_sessions)
        rc = error_set(err, ERR_BUSY,
                       "the pool holds %u sessions, which is the most",
                       pool->conf->max_sessions);
    else if (memory_short(m))
        rc = error_set(err, ERR_BUSY,
                       "the machine has less than %u MiB of memory left",
                       (unsigned)(MEMORY_SPARE_KB >> 10));
    if (rc < 0)
        return refused(err, 5);
    if (!take_token(m, t)) {
        (void)error_set(err, ERR_LIMIT,
                        "more than %u sessions a second were created",
                        conf->creations_per_s);
        return refused(err, 1);
    }
    m->session_count++;
    atomic_fetch_add(&pool->sessions, 1);
    atomic_fetch_add(&t->live, 1);
    return 0;
}

static void unreserve(struct sessions *m, struct tenant *t, struct pool *pool)
{
    pthread_mutex_lock(&m->lock);
    m->session_count--;
    pthread_mutex_unlock(&m->lock);
    atomic_fetch_sub(&pool->sessions, 1);
    atomic_fetch_sub(&t->live, 1);
}

/* ---- its sandbox -------------------------------------------------------- */

static int get_box(struct sessions *m, const struct plan *plan,
                   struct box **ret, struct error *err)
{
    struct box *box = NULL;
    uint32_t handle;
    int rc;

    if (plan->runtime == plan->pool->runtime &&
        memcmp(&plan->limits, &plan->pool->limits, sizeof(plan->limits)) == 0)
        box = session_pool_take(m, plan->pool);
    if (box) {
        session_metrics_add(m, &m->counters.ready_taken);
        *ret = box;
        return 0;
    }
    session_metrics_add(m, &m->counters.ready_missed);
    rc = session_runtime_handle(m, plan->runtime, &handle, err);
    if (rc == 0)
        rc = session_box_open(m->link, handle, &plan->limits, 0, &m->stopping,
                              ret, err);
    if (rc == 0)
        atomic_store(&plan->runtime->up, true);
    return rc;
}

static struct session *session_new(struct sessions *m, struct tenant *t,
                                   const struct plan *plan,
                                   const struct session_spec *spec,
                                   struct box *box)
{
    struct session *se = xcalloc(1, sizeof(*se));

    atomic_init(&se->refs, 1);
    se->m = m;
    ids_make("sess", se->id);
    se->tenant = t;
    se->pool = plan->pool;
    se->runtime = plan->runtime;
    se->name = xstrdup(spec->name);
    se->metadata = xstrdup(spec->metadata);
    se->limits = plan->limits;
    se->created_at_ms = clock_real_ms();
    (void)pthread_mutex_init(&se->lock, NULL); /* cannot fail on Linux */
    session_cond_init(&se->cond);
    se->box = box;
    se->interpreter = 1;
    se->woken_ms = clock_mono_ms();
    session_touch(se);
    /* Nobody else sees it yet; STARTING was the time until here. */
    se->state = SESSION_STARTING;
    session_state_set(se, SESSION_IDLE);
    return se;
}

static void publish(struct sessions *m, struct session *se)
{
    pthread_mutex_lock(&m->lock);
    session_idmap_add(&m->table, &se->node, se->id);
    se->older = se->tenant->newest;
    if (se->older)
        se->older->newer = se;
    se->tenant->newest = se;
    pthread_mutex_unlock(&m->lock);
}

static int create(struct sessions *m, const char *tenant,
                  const struct session_spec *spec, struct session_info *ret,
                  struct error *err)
{
    struct plan plan = {0};
    struct session *se;
    struct tenant *t;
    struct box *box = NULL;
    int rc = check_text(spec, err);

    if (rc == 0)
        rc = make_plan(m, spec, &plan, err);
    if (rc < 0)
        return rc;
    assert(plan.pool && plan.runtime);
    pthread_mutex_lock(&m->lock);
    t = session_tenant(m, tenant);
    rc = reserve(m, t, plan.pool, err);
    pthread_mutex_unlock(&m->lock);
    if (rc < 0)
        return rc;
    rc = get_box(m, &plan, &box, err);
    if (!box) {
        unreserve(m, t, plan.pool);
        return rc;
    }
    se = session_new(m, t, &plan, spec, box);
    session_fill_info(se, ret);
    publish(m, se);
    return 0;
}

int session_create(struct sessions *s, const char *tenant,
                   const struct session_spec *spec, struct session_info *ret,
                   struct error *err)
{
    uint64_t started = clock_mono_ns();
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = create(s, tenant, spec, ret, err);
    if (rc < 0) {
        session_metrics_refused(s, err);
        log_event(LOG_WARN, "session_not_created", "tenant", tenant, "code",
                  error_code_name(err->code), "error", err->message, NULL);
    } else {
        session_metrics_add(s, &s->counters.created);
        session_metrics_time(s, &s->counters.start,
                             (clock_mono_ns() - started) / 1000);
        log_event(LOG_INFO, "session_created", "session", ret->id, "tenant",
                  tenant, "pool", ret->pool, NULL);
    }
    session_leave(s);
    return rc;
}
