/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating a session: check what is asked, reserve its place under every
 * limit (R8), take a ready sandbox or make one on its workspace, store it,
 * publish it. Runs in gloveboxd on the caller's thread; a refusal comes before
 * anything slow.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "session/session_int.h"

#define TOKEN 1000u /* of the bucket, for one creation */
#define BURST_S 2u  /* this many seconds' worth at once */
#define MEMORY_LOOK_MS 1000u
#define MEMORY_SPARE_KB (192ull << 10)

struct plan {
    struct pool *pool;
    struct runtime *runtime;
    struct warden_limits limits;
    bool ephemeral;
};

/* ---- what is asked ------------------------------------------------------ */

static int check_text(const struct session_spec *spec, struct error *err)
{
    if (spec->name && strlen(spec->name) > SESSION_NAME_MAX)
        return error_set(err, ERR_INVALID, "name is longer than %u bytes",
                         SESSION_NAME_MAX);
    if (spec->name && !path_plain(spec->name, strlen(spec->name)))
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
    plan.ephemeral = spec->ephemeral ||
                     strcmp(plan.pool->conf->persistence, "ephemeral") == 0;
    if (plan.ephemeral && spec->workspace)
        return error_set(err, ERR_INVALID,
                         "an ephemeral session cannot have a workspace");
    *ret = plan;
    return 0;
}

/* One that is named must be there for the actor to see. */
static int check_workspace(struct sessions *m, const struct actor *who,
                           const struct session_spec *spec, struct error *err)
{
    struct workspace_info info;

    if (!spec->workspace)
        return 0;
    return workspace_get(m->workspaces, who, spec->workspace, &info, err);
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

/* ---- it ----------------------------------------------------------------- */

static struct session *session_new(struct sessions *m, struct tenant *t,
                                   const struct plan *plan,
                                   const struct actor *who,
                                   const struct session_spec *spec)
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
    se->ephemeral = plan->ephemeral;
    se->transient = spec->transient;
    se->made = spec->workspace != NULL;
    (void)snprintf(se->owner, sizeof(se->owner), "%s", who->key);
    se->owner_admin = who->admin;
    if (spec->workspace)
        (void)snprintf(se->workspace, sizeof(se->workspace), "%s",
                       spec->workspace);
    else if (!se->ephemeral)
        ids_make("ws", se->workspace);
    (void)pthread_mutex_init(&se->lock, NULL); /* cannot fail on Linux */
    session_cond_init(&se->cond);
    /* Nobody else sees it yet. */
    se->state = SESSION_STARTING;
    se->moving = true;
    return se;
}

/* Ready ones have nothing mounted. */
static bool ready_will_do(const struct session *se)
{
    return se->tree.count == 0 && se->runtime == se->pool->runtime &&
           memcmp(&se->limits, &se->pool->limits, sizeof(se->limits)) == 0;
}

static int get_box(struct session *se, struct box **ret, struct error *err)
{
    struct sessions *m = se->m;
    uint32_t handle;
    int rc = session_mount_begin(se, &se->tree, err);

    if (rc < 0)
        return rc;
    se->base = se->tree.seq;
    *ret = ready_will_do(se) ? session_pool_take(m, se->pool) : NULL;
    session_metrics_add(m, *ret ? &m->counters.ready_taken
                                : &m->counters.ready_missed);
    if (*ret)
        return 0;
    rc = session_runtime_handle(m, se->runtime, &handle, err);
    if (rc == 0)
        rc = session_mount_box(se, handle, &se->tree, ret, err);
    if (rc == 0)
        atomic_store(&se->runtime->up, true);
    return rc;
}

static void settle_in(struct session *se, struct box *box)
{
    struct sessions *m = se->m;

    pthread_mutex_lock(&m->lock);
    /* Listings go by it, so no two are the same. */
    m->last_created_ms = MAX(clock_real_ms(), m->last_created_ms + 1);
    se->created_at_ms = m->last_created_ms;
    pthread_mutex_unlock(&m->lock);
    se->box = box;
    se->interpreter = 1;
    se->woken_ms = clock_mono_ms();
    session_touch(se);
    se->moving = false;
    session_state_set(se, SESSION_IDLE);
}

static void publish(struct session *se)
{
    struct sessions *m = se->m;

    pthread_mutex_lock(&m->lock);
    session_idmap_add(&m->table, &se->node, se->id);
    if (!se->stored) {
        se->older = se->tenant->newest;
        if (se->older)
            se->older->newer = se;
        se->tenant->newest = se;
    }
    atomic_fetch_sub(&m->creating, 1);
    pthread_mutex_unlock(&m->lock);
}

/* It came to nothing: its place and its sandbox are free again. */
static void undo(struct session *se, struct box *box)
{
    if (box) {
        session_box_release(box);
        session_box_unref(box);
    }
    se->box = NULL;
    se->moving = false;
    session_state_set(se, SESSION_ENDED);
    atomic_fetch_sub(&se->m->creating, 1);
    session_unref(se);
}

static int create(struct sessions *m, const struct actor *who,
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
    if (rc == 0)
        rc = check_workspace(m, who, spec, err);
    if (rc < 0)
        return rc;
    assert(plan.pool && plan.runtime);
    pthread_mutex_lock(&m->lock);
    t = session_tenant(m, who->tenant);
    rc = reserve(m, t, plan.pool, err);
    pthread_mutex_unlock(&m->lock);
    if (rc < 0)
        return rc;
    se = session_new(m, t, &plan, who, spec);
    rc = get_box(se, &box, err);
    if (rc == 0) {
        settle_in(se, box);
        if (!se->ephemeral && !se->transient)
            rc = session_persist_insert(se, who, err);
    }
    if (rc < 0) {
        undo(se, box);
        return rc;
    }
    if (!se->stored)
        session_audit(se, who, "session.create");
    session_fill_info(se, ret);
    publish(se);
    return 0;
}

int session_create(struct sessions *s, const struct actor *who,
                   const struct session_spec *spec, struct session_info *ret,
                   struct error *err)
{
    uint64_t started = clock_mono_ns();
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = create(s, who, spec, ret, err);
    if (rc < 0) {
        session_metrics_refused(s, err);
        log_event(LOG_WARN, "session_not_created", "tenant", who->tenant,
                  "code", error_code_name(err->code), "error", err->message,
                  NULL);
    } else {
        session_metrics_add(s, &s->counters.created);
        session_metrics_time(s, &s->counters.start,
                             (clock_mono_ns() - started) / 1000);
        log_event(LOG_INFO, "session_created", "session", ret->id, "tenant",
                  who->tenant, "pool", ret->pool, NULL);
    }
    session_leave(s);
    return rc;
}
