/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the session module. Runs in gloveboxd; main opens and
 * closes it, every other call enters it. Closing lets running executions
 * finish, then cancels them, and frees nothing that a call may still use.
 */
#include <stdio.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "quota/quota.h"
#include "session/session_int.h"

#define CANCEL_MS 8000u /* interrupt, grace, kill, and some */
#define LEAVE_MS 5000u
#define LEAVE_NAP_NS 2000000L

int session_enter(struct sessions *m, struct error *err)
{
    atomic_fetch_add(&m->users, 1);
    if (!atomic_load(&m->stopping))
        return 0;
    session_leave(m);
    return error_set(err, ERR_UNAVAILABLE, "the service is stopping");
}

void session_leave(struct sessions *m)
{
    atomic_fetch_sub(&m->users, 1);
}

void sessions_set_hooks(struct sessions *m, const struct session_hooks *hooks)
{
    mutex_lock(&m->lock);
    m->hooks = *hooks;
    mutex_unlock(&m->lock);
}

/* The reaper runs before the hooks are set. */
static struct session_hooks hooks_of(struct sessions *m)
{
    struct session_hooks hooks;

    mutex_lock(&m->lock);
    hooks = m->hooks;
    mutex_unlock(&m->lock);
    return hooks;
}

void session_hooks_forget(struct session *se)
{
    struct session_hooks hooks = hooks_of(se->m);

    if (hooks.on_forget)
        hooks.on_forget(hooks.ctx, se);
}

void session_hooks_delete(struct session *se, const struct actor *who)
{
    struct session_hooks hooks = hooks_of(se->m);

    if (hooks.on_delete)
        hooks.on_delete(hooks.ctx, se, who);
}

void *sessions_hooks_ctx(const struct sessions *m)
{
    return m->hooks.ctx;
}

/* ---- opening ------------------------------------------------------------ */

static void init_locks(struct sessions *m)
{
    /* Default mutexes cannot fail on Linux. */
    mutex_init(&m->lock);
    mutex_init(&m->sharing_lock);
    mutex_init(&m->counters.lock);
    worker_init(&m->reaper);
    worker_init(&m->points);
    mutex_init(&m->points_lock);
    cond_init(&m->idle);
    session_identifiers_init(m);
}

static void destroy_locks(struct sessions *m)
{
    mutex_done(&m->lock);
    mutex_done(&m->sharing_lock);
    mutex_done(&m->counters.lock);
    worker_done(&m->reaper);
    worker_done(&m->points);
    mutex_done(&m->points_lock);
    cond_done(&m->idle);
}

static void free_tenants(struct sessions *m)
{
    for (size_t i = 0; i < m->tenants.size; i++)
        while (m->tenants.buckets[i]) {
            struct tenant *t =
                container_of(m->tenants.buckets[i], struct tenant, node);

            m->tenants.buckets[i] = t->node.next;
            free(t->name);
            free(t);
        }
}

/* Everything that is left once no thread uses it. */
static void manager_free(struct sessions *m)
{
    fair_queue_free(m->create_queue);
    fair_queue_free(m->create_alone_queue);
    pools_close(m->pools);
    free_tenants(m);
    idmap_done(&m->tenants);
    idmap_done(&m->table);
    session_identifiers_done(m);
    networks_close(m->networks);
    images_close(m);
    destroy_locks(m);
    free(m);
}

int sessions_open(const struct sessions_parts *parts, struct sessions **ret,
                  struct error *err)
{
    struct sessions *m = xcalloc(1, sizeof(*m));
    const struct core *core = parts->core;
    int rc;

    m->conf = parts->conf;
    m->core = core;
    m->link = parts->warden;
    m->workspaces = parts->workspaces;
    m->nodes = core->nodes;
    m->egress = parts->egress;
    m->disk = parts->disk;
    m->memory = &session_memory_of_box;
    m->govern =
        (struct govern){.policy = core->policy, .approvals = core->approvals};
    init_locks(m);
    m->create_queue =
        fair_queue_new((unsigned)get_nprocs() + fair.create_extra);
    m->create_alone_queue =
        fair_queue_new((unsigned)get_nprocs() + fair.create_alone_extra);
    rc = pools_open(&(struct pools_parts){.conf = m->conf,
                                          .link = m->link,
                                          .store = core->store,
                                          .audit = core->audit,
                                          .stopping = &m->stopping,
                                          .live = &m->live,
                                          .active = &m->active},
                    &m->pools, err);
    if (rc == 0)
        rc = networks_open(&(struct networks_parts){.conf = m->conf,
                                                    .core = core,
                                                    .egress = m->egress},
                           &m->networks, err);
    if (rc == 0)
        rc = images_open(m, err);
    if (rc == 0)
        rc = pools_start(m->pools, err);
    if (rc == 0)
        rc = session_sched_start(m, err);
    if (rc == 0)
        rc = session_points_start(m, err);
    if (rc == 0)
        rc = session_reaper_start(m, err);
    if (rc < 0) {
        atomic_store(&m->stopping, true);
        session_points_stop(m);
        pools_stop(m->pools);
        fair_reserve_stop(m->cpu_reserve);
        networks_stop(m->networks);
        manager_free(m);
        return rc;
    }
    *ret = m;
    return 0;
}

bool sessions_ready(struct sessions *s)
{
    return pools_ready(s->pools);
}

/* ---- the gate: whether code may run at all; see posture/ --------------- */

void sessions_gate(struct sessions *s, const char *check, const char *why)
{
    mutex_lock(&s->lock);
    (void)snprintf(s->closed_why, sizeof(s->closed_why), "%s: %s",
                   check ? check : "", why);
    atomic_store(&s->closed, check != NULL);
    mutex_unlock(&s->lock);
}

int session_gate(struct sessions *m, struct error *err)
{
    if (!atomic_load(&m->closed))
        return 0;
    mutex_lock(&m->lock);
    (void)error_set(err, ERR_ISOLATION, "no code is run here now; %.280s",
                    m->closed_why);
    mutex_unlock(&m->lock);
    return error_hint(err, "The operator sees why with `glovebox doctor "
                           "--gate`.");
}

/* ---- closing ------------------------------------------------------------ */

static bool wait_idle(struct sessions *m, uint64_t deadline_ms)
{
    bool in_time = true;

    mutex_lock(&m->lock);
    while (m->active && in_time)
        in_time = cond_wait_until(&m->idle, &m->lock, deadline_ms);
    mutex_unlock(&m->lock);
    return in_time;
}

/* Any session still in the table, referenced, or NULL. */
static struct session *any_session(struct sessions *m)
{
    struct session *se = NULL;

    mutex_lock(&m->lock);
    for (size_t i = 0; i < m->table.size && !se; i++)
        if (m->table.buckets[i])
            se = session_ref(
                container_of(m->table.buckets[i], struct session, node));
    mutex_unlock(&m->lock);
    return se;
}

/* All at once, so that their ends are waited for together. */
static void ask_all(struct sessions *m)
{
    mutex_lock(&m->lock);
    for (size_t i = 0; i < m->table.size; i++)
        for (struct idmap_node *n = m->table.buckets[i]; n; n = n->next) {
            struct session *se = container_of(n, struct session, node);

            mutex_lock(&se->lock);
            session_queue_request(se, REQUEST_END);
            mutex_unlock(&se->lock);
        }
    mutex_unlock(&m->lock);
}

/* Rows stay: the next start has the sessions again. */
static void end_all(struct sessions *m)
{
    uint64_t deadline = clock_mono_ms() + CANCEL_MS;
    struct session *se;

    ask_all(m);
    while ((se = any_session(m))) {
        if (session_save(se, (uint32_t)clock_left_ms(deadline))) {
            enum session_loss off = session_memory_off(se);

            if (off == SESSION_LOSS_NONE)
                session_image_lose(se, SESSION_LOSS_STOPPED);
            else if (off == SESSION_LOSS_NO_ZYGOTE)
                session_image_lose(se, off);
            session_persist_note(se);
        }
        (void)session_end(se); /* false: another thread ended it */
        session_unref(se);
    }
}

static bool wait_users(struct sessions *m)
{
    uint64_t deadline = clock_mono_ms() + LEAVE_MS;

    while (atomic_load(&m->users) && clock_left_ms(deadline))
        (void)nanosleep(&(struct timespec){.tv_nsec = LEAVE_NAP_NS}, NULL);
    return atomic_load(&m->users) == 0;
}

void sessions_stop(struct sessions *s, unsigned deadline_s)
{
    uint64_t deadline_ms = clock_mono_ms() + deadline_s * 1000ull;

    if (!s || atomic_exchange(&s->stopping, true))
        return;
    session_reaper_stop(s);
    session_points_stop(s);
    pools_stop(s->pools);
    /* Those that run something hibernate when it has ended. */
    session_hibernate_all(s, deadline_ms);
    if (!wait_idle(s, deadline_ms))
        log_event(LOG_WARN, "stop_deadline_passed", NULL);
    end_all(s);
    (void)wait_idle(s, clock_mono_ms() + CANCEL_MS); /* close looks again */
}

bool sessions_close(struct sessions *s, unsigned deadline_s)
{
    if (!s)
        return true;
    sessions_stop(s, deadline_s);
    if (!wait_users(s)) {
        /* Better a leak at the end of the process than a use after free. */
        log_event(LOG_ERROR, "calls_still_running_at_stop", NULL);
        return false;
    }
    end_all(s); /* a session that was being made meanwhile */
    networks_stop(s->networks);
    fair_reserve_stop(s->cpu_reserve);
    manager_free(s);
    return true;
}
