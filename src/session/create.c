/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating a session: check the request, reserve a place under every limit
 * (R8), take a ready sandbox or create one on the workspace, store the row,
 * publish the session. Runs in gloveboxd on the caller's thread. Everything
 * that can refuse comes before anything slow.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/thread.h"
#include "node/node.h"
#include "quota/quota.h"
#include "session/session_int.h"

struct plan {
    struct pool *pool; /* referenced */
    struct runtime *runtime;
    struct warden_limits limits;
    struct network *network;
    bool ephemeral;
    bool asleep; /* without a sandbox */
    enum session_sharing sharing;
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
    if (spec->cooldown_s > SESSION_COOLDOWN_MAX_S)
        return error_set(err, ERR_INVALID, "cooldown_s must be from 1 to %u",
                         SESSION_COOLDOWN_MAX_S);
    if (spec->identifier &&
        session_identifier_check(spec->identifier, err) < 0)
        return -(int)err->code;
    return session_attach_check(spec->files, spec->file_count, err);
}

static void plan_done(struct plan *plan)
{
    pool_unref(plan->pool);
    network_unref(plan->network);
}

static int make_plan(struct sessions *m, const struct actor *who,
                     const struct session_spec *spec, struct plan *ret,
                     struct error *err)
{
    struct plan plan cleanup(plan_done) = {
        .pool = pool_open(m->pools, who, spec->pool)};

    if (pool_check(plan.pool, err) < 0)
        return -(int)err->code;
    plan.runtime = runtime_find(m->pools, plan.pool, spec->runtime);
    if (!plan.runtime) {
        (void)error_set(err, ERR_INVALID,
                        "no pool is configured with that runtime");
        return error_hint(err, "this pool's runtime is '%s'",
                          pool_conf(plan.pool)->runtime);
    }
    if (pool_limits_grant(pool_conf(plan.pool), &spec->limits, &plan.limits,
                          err) < 0)
        return -(int)err->code;
    plan.ephemeral =
        spec->ephemeral ||
        strcmp(pool_conf(plan.pool)->persistence, "ephemeral") == 0;
    if (plan.ephemeral && spec->workspace)
        return error_set(err, ERR_INVALID,
                         "an ephemeral session cannot have a workspace");
    /* What an ephemeral one is given, and a network that was asked for, are
     * checked by making them. */
    plan.asleep = spec->asleep && !plan.ephemeral && !spec->network;
    plan.sharing =
        session_sharing_settle(m, who, pool_conf(plan.pool), spec->sharing);
    *ret = plan;
    plan.pool = NULL;
    return 0;
}

/* A principal bound to sessions cannot create any; one bound to workspaces
 * creates sessions there. Checked before any lookup, so that the answer
 * reveals nothing (I3). */
static int check_bounds(const struct actor *who,
                        const struct session_spec *spec, struct error *err)
{
    if (actor_bound(who, ACTOR_SESSIONS)[0]) {
        (void)error_set(err, ERR_FORBIDDEN,
                        "this key is bound to certain sessions");
        return error_hint(err, "it can use those, and make no others");
    }
    if (actor_bound(who, ACTOR_WORKSPACES)[0] &&
        (!spec->workspace || spec->ephemeral)) {
        (void)error_set(err, ERR_FORBIDDEN,
                        "this key is bound to certain workspaces");
        return error_hint(err, "name the one the session is to work in");
    }
    return 0;
}

/* A workspace that is named must be visible to the actor. */
static int check_workspace(struct sessions *m, const struct actor *who,
                           const struct session_spec *spec, struct error *err)
{
    struct workspace_info info;

    if (!spec->workspace)
        return 0;
    return workspace_get(m->workspaces, who, spec->workspace, &info, err);
}

/* ---- it ----------------------------------------------------------------- */

static struct session *session_new(struct sessions *m, struct tenant *t,
                                   struct plan *plan, const struct actor *who,
                                   const struct session_spec *spec)
{
    struct session *se = xcalloc(1, sizeof(*se));

    atomic_init(&se->refs, 1);
    se->m = m;
    if (spec->container)
        ids_make_dated("cntr", se->id);
    else
        ids_make("sess", se->id);
    se->tenant = t;
    se->pool = pool_ref(plan->pool);
    se->runtime = plan->runtime;
    se->name = xstrdup(spec->name);
    se->metadata = xstrdup(spec->metadata);
    atomic_init(&se->sharing, plan->sharing);
    se->identifier = xstrdup(spec->identifier);
    if (spec->identifier)
        se->identifier_key = session_identifier_key(
            t->name, pool_conf(plan->pool)->name,
            session_identifier_space(plan->sharing, who->key),
            spec->identifier);
    se->cooldown_s = spec->cooldown_s;
    se->limits = plan->limits;
    se->net = take_ptr(plan->network);
    se->ephemeral = plan->ephemeral;
    se->transient = spec->transient;
    se->source = spec->source;
    se->left = spec->left;
    se->left_ctx = spec->left_ctx;
    se->made = spec->workspace != NULL;
    (void)snprintf(se->owner, sizeof(se->owner), "%s", who->key);
    se->owner_admin = who->admin;
    atomic_init(&se->policy_version, policy_current(m->govern.policy));
    if (spec->workspace)
        (void)snprintf(se->workspace, sizeof(se->workspace), "%s",
                       spec->workspace);
    else if (!se->ephemeral)
        ids_make("ws", se->workspace);
    session_bind_network(se);
    mutex_init(&se->lock); /* cannot fail on Linux */
    cond_init(&se->cond);
    session_state_init(se, plan->asleep ? PHASE_DORMANT : PHASE_CREATING);
    return se;
}

int session_still_wanted(const struct session *se, struct error *err)
{
    if (!se->left || !se->left(se->left_ctx))
        return 0;
    return error_set(err, ERR_CONFLICT,
                     "the client disconnected while the session was created");
}

static void settle_in(struct session *se, struct box *box)
{
    struct sessions *m = se->m;

    mutex_lock(&m->lock);
    /* Listings go by it, so no two are the same. */
    m->last_created_ms = MAX(clock_real_ms(), m->last_created_ms + 1);
    se->created_at_ms = m->last_created_ms;
    mutex_unlock(&m->lock);
    se->left = NULL; /* what it would ask is its maker's alone */
    session_touch(se);
    if (box) { /* no other thread sees it yet */
        se->box = box;
        se->interpreter = 1;
        se->woken_ms = clock_mono_ms();
        session_state_event(se, EV_CREATED);
    }
    session_state_check(se);
}

/* Not in a pool that was removed meanwhile: its sessions have been ended. */
static int publish_session(struct session *se, struct error *err)
{
    struct sessions *m = se->m;
    int rc;

    mutex_lock(&m->lock);
    rc = pool_check(se->pool, err);
    if (rc < 0) {
        mutex_unlock(&m->lock);
        return rc;
    }
    idmap_add(&m->table, &se->node, se->id);
    session_identifier_add(se);
    if (!se->stored) {
        se->older = se->tenant->newest;
        if (se->older)
            se->older->newer = se;
        se->tenant->newest = se;
    }
    if (se->box)
        atomic_fetch_sub(&m->creating, 1);
    mutex_unlock(&m->lock);
    session_state_publish(se);
    return 0;
}

/* It came to nothing: its place and its sandbox are free again. */
static void undo_create(struct session *se, struct box *box)
{
    bool counted = se->phase != PHASE_DORMANT;

    if (box) {
        box_release(box);
        box_unref(box);
    }
    se->box = NULL;
    session_state_event(se, EV_END);
    if (counted)
        atomic_fetch_sub(&se->m->creating, 1);
    session_unref(se);
}

/* A workspace made for it alone goes with it. */
static void undo_workspace(struct session *se, const struct actor *who,
                           const struct session_spec *spec)
{
    struct error err;

    if (spec->workspace || !se->made || se->stored)
        return;
    if (workspace_destroy(se->m->workspaces, who, se->workspace, &err) < 0)
        log_event(LOG_WARN, "workspace_not_removed", "workspace",
                  se->workspace, "error", err.message, NULL);
}

/* Its files are below the sandbox when that starts, or copied into it. */
static int furnish(struct session *se, const struct actor *who,
                   const struct session_spec *spec, struct box **ret,
                   struct error *err)
{
    int rc = 0;

    if (spec->source) {
        rc = session_branch_files(se, who, spec->source, err);
        return rc < 0 ? rc : session_branch_box(se, spec->source, ret, err);
    }
    if (!se->ephemeral)
        rc = session_attach_link(se, who, spec->files, spec->file_count, err);
    if (rc == 0 && se->phase == PHASE_CREATING)
        rc = session_sandbox_first(se, ret, err);
    if (rc == 0 && se->ephemeral)
        rc = session_attach_copy(se, who, *ret, spec->files, spec->file_count,
                                 err);
    return rc;
}

/* Fails if the client asked for a network and there is none. The network of a
 * pool is optional. */
static int connect_box(struct session *se, const struct session_spec *spec,
                       struct box *box, struct error *err)
{
    struct error why;
    int rc = network_attach(se->net, box, &why);

    if (rc == 0 || !spec->network)
        return 0;
    *err = why;
    return rc;
}

/* Its row, and its place in the tables. A thread that finds the row before the
 * session is in the tables waits for it. */
static int store_and_publish(struct session *se, const struct actor *who,
                             struct session_info *ret, struct error *err)
{
    struct claim claim = {0};
    int rc = 0;

    (void)session_ref(se);
    if (!se->ephemeral && !se->transient) {
        session_claim_id(se->m, se->id, &claim);
        rc = session_persist_insert(se, who, err);
    } else if (!se->transient && se->m->nodes) {
        int64_t fence = 0;

        rc = node_lease_add(se->m->nodes, NULL, se->tenant->name, se->id,
                            NODE_LEASE_AWAKE, &fence, err);
        atomic_store(&se->fence, fence);
    }
    if (rc == 0) {
        session_fill_info(se, ret);
        rc = publish_session(se, err);
        if (rc < 0)
            session_info_done(ret);
        else if (!se->stored)
            session_audit(se, who, "session.create");
    }
    if (rc == 0)
        network_announce(se->net, who);
    session_claim_done(se->m, &claim);
    session_unref(se);
    return rc;
}

/* A place under every limit; idle sessions of the tenant go to sleep for it.
 * Another thread may take the place that they leave, hence the loop. */
static int reserve_place(struct sessions *m, const struct actor *who,
                         const struct plan *plan, struct tenant **ret,
                         struct error *err)
{
    struct session_room room = {0};
    int rc = 0;

    mutex_lock(&m->lock);
    *ret = session_tenant(m, who->tenant);
    mutex_unlock(&m->lock);
    if (plan->asleep) /* its place is looked for when it wakes */
        return quota_take(m->core->quotas, who->tenant, QUOTA_CREATIONS, 1,
                          err);
    for (unsigned i = 0; i < SESSION_ROOM_TRIES; i++) {
        session_make_room(m, *ret, plan->pool, &plan->limits, &room);
        mutex_lock(&m->lock);
        rc = session_reserve(m, *ret, plan->pool, &plan->limits, err);
        mutex_unlock(&m->lock);
        if (rc == 0 || !room.made)
            break;
    }
    return rc < 0 ? session_room_explain(&room, err) : 0;
}

static int create_planned(struct sessions *m, const struct actor *who,
                          const struct session_spec *spec, struct plan *plan,
                          struct session_info *ret, struct error *err)
{
    struct session *se;
    struct tenant *t;
    struct box *box = NULL;
    int rc;

    assert(plan->pool && plan->runtime);
    rc = session_admit_create(m, who, spec, plan->pool, plan->runtime, err);
    if (rc == 0 && spec->sharing == SESSION_SHARING_TENANT)
        rc = session_admit_share(m, who, plan->pool, NULL, err);
    if (rc < 0)
        return rc;
    rc = reserve_place(m, who, plan, &t, err);
    if (rc < 0)
        return rc;
    se = session_new(m, t, plan, who, spec);
    rc = furnish(se, who, spec, &box, err);
    if (rc == 0 && box)
        rc = connect_box(se, spec, box, err);
    if (rc == 0)
        rc = session_still_wanted(se, err);
    if (rc == 0) {
        settle_in(se, box);
        rc = store_and_publish(se, who, ret, err);
    }
    if (rc < 0) {
        undo_workspace(se, who, spec);
        undo_create(se, box);
    }
    return rc;
}

static int taken(const struct session *se, const struct actor *who,
                 struct error *err)
{
    if (!session_visible(se, who))
        return error_set(err, ERR_CONFLICT, "the identifier is taken");
    (void)error_set(err, ERR_CONFLICT, "the identifier is taken by %s",
                    se->id);
    return error_hint(err, "use that session, or delete it first");
}

/* An identifier that already selects a session for the creator counts as
 * taken, too. */
static int claim_identifier(struct sessions *m, const struct actor *who,
                            const struct plan *plan, const char *identifier,
                            struct claim *claim, struct session **ret_found,
                            struct error *err)
{
    const char *pool = pool_conf(plan->pool)->name;
    int rc = session_identifier_find(m, who, pool, identifier, plan->sharing,
                                     ret_found, err);

    if (rc == 0 && !*ret_found)
        rc = session_claim(m, who, pool, identifier,
                           session_identifier_space(plan->sharing, who->key),
                           claim, ret_found, err);
    return rc;
}

/* A principal bound to one workspace means that workspace. */
static void settle_workspace(const struct actor *who,
                             struct session_spec *spec)
{
    const char *bound = actor_bound(who, ACTOR_WORKSPACES);

    if (!spec->workspace && !spec->ephemeral && bound[0] &&
        !strchr(bound, ','))
        spec->workspace = bound;
}

static int check_and_create(struct sessions *m, const struct actor *who,
                            const struct session_spec *asked,
                            struct session **ret_found,
                            struct session_info *ret, struct error *err)
{
    struct session_spec narrowed = *asked, *spec = &narrowed;
    struct plan plan cleanup(plan_done) = {0};
    struct claim claim = {0};
    struct session *found = NULL;
    int rc = session_gate(m, err);

    settle_workspace(who, spec);
    if (rc == 0)
        rc = check_text(spec, err);
    if (rc == 0)
        rc = check_bounds(who, spec, err);
    if (rc == 0)
        rc = session_sharing_may(who, spec->sharing, err);
    if (rc == 0)
        rc = make_plan(m, who, spec, &plan, err);
    assert(rc < 0 || plan.pool);
    if (rc == 0)
        rc = check_workspace(m, who, spec, err);
    if (rc == 0 && !spec->identifier) /* else it may exist already */
        rc =
            session_admit_possible(m, who, spec, plan.pool, plan.runtime, err);
    if (rc == 0)
        rc = network_plan(m->networks, who, spec->network, plan.pool,
                          runtime_name(plan.runtime), &plan.network, err);
    if (rc == 0 && spec->identifier)
        rc = claim_identifier(m, who, &plan, spec->identifier, &claim, &found,
                              err);
    if (rc == 0 && !found && !spec->source)
        rc = node_place(m->nodes, pool_conf(plan.pool)->node_labels, err);
    if (rc < 0) {
        session_claim_done(m, &claim);
        return rc;
    }
    if (!found) {
        rc = create_planned(m, who, spec, &plan, ret, err);
        session_claim_done(m, &claim);
    } else if (ret_found && session_visible(found, who)) {
        *ret_found = found;
    } else {
        rc = taken(found, who, err);
        session_unref(found);
    }
    return rc;
}

int session_create_or_find(struct sessions *m, const struct actor *who,
                           const struct session_spec *spec,
                           struct session **ret_found,
                           struct session_info *ret, struct error *err)
{
    uint64_t started = clock_mono_ns();
    int rc = check_and_create(m, who, spec, ret_found, ret, err);

    if (rc < 0) {
        session_metrics_refused(m, err);
        log_event(LOG_WARN, "session_not_created", "tenant", who->tenant,
                  "code", error_code_name(err->code), "error", err->message,
                  NULL);
    } else if (!ret_found || !*ret_found) {
        session_metrics_add(m, &m->counters.created);
        session_metrics_time(m, &m->counters.start,
                             (clock_mono_ns() - started) / 1000);
        log_event(LOG_INFO, "session_created", "session", ret->id, "tenant",
                  who->tenant, "pool", ret->pool, NULL);
    }
    return rc;
}

int session_create(struct sessions *s, const struct actor *who,
                   const struct session_spec *spec, struct session_info *ret,
                   struct error *err)
{
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = session_create_or_find(s, who, spec, NULL, ret, err);
    session_leave(s);
    return rc;
}
