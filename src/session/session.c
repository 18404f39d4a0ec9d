/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions as clients see them: find, show, list, delete. Runs in gloveboxd on
 * the caller's thread. The answer for another tenant's id is the answer for an
 * unknown id (I3). Deleting commits the session's files within a time bound
 * and then makes one call to the warden; a running execution notices by
 * itself.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "node/node.h"
#include "session/session_int.h"

#define SAVE_MS 4000u /* for the last commit of a session that is deleted */

struct session *session_ref(struct session *se)
{
    atomic_fetch_add(&se->refs, 1);
    return se;
}

void session_unref(struct session *se)
{
    if (!se || atomic_fetch_sub(&se->refs, 1) != 1)
        return;
    session_sandbox_unpin_tree(se);
    session_seen_done(se);
    session_over_quota_done(se);
    pool_unref(se->pool);
    network_unref(se->net);
    free(se->name);
    free(se->metadata);
    free(se->identifier);
    free(se->identifier_key);
    free(se->undo);
    mutex_done(&se->lock);
    cond_done(&se->cond);
    free(se);
}

struct session_facts session_facts(const struct session *se)
{
    return (struct session_facts){.sessions = se->m,
                                  .id = se->id,
                                  .workspace = se->workspace,
                                  .tenant = se->tenant->name,
                                  .pool = se->pool,
                                  .runtime = se->runtime,
                                  .limits = &se->limits,
                                  .network = se->net,
                                  .ephemeral = se->ephemeral};
}

bool session_has_workspace(const struct session *se)
{
    return se->made;
}

bool session_is_lost(const struct session *se)
{
    return atomic_load(&se->lost);
}

int session_error_ended(const struct session *se, struct error *err)
{
    if (!session_is_lost(se))
        return error_set(err, ERR_NOT_FOUND, "no such session");
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the node of the session has lost its lease and stopped "
                    "the session");
    (void)error_hint(err, "The session is there again within seconds, with "
                          "its files.");
    return error_retry(err, 2);
}

bool session_is_stopping(const struct session *se)
{
    return atomic_load(&se->m->stopping);
}

struct actor session_actor(const struct session *se)
{
    return (struct actor){.tenant = se->tenant->name,
                          .key = se->owner,
                          .admin = se->owner_admin};
}

struct session *session_at_hand(struct sessions *m, const char *tenant,
                                const char *id)
{
    struct idmap_node *n = idmap_find(&m->table, id);
    struct session *se = n ? container_of(n, struct session, node) : NULL;

    return se && strcmp(se->tenant->name, tenant) == 0 ? session_ref(se)
                                                       : NULL;
}

static bool id_of_session(const char *id)
{
    return ids_valid("sess", id) || ids_valid_dated("cntr", id);
}

static struct session *no_such(struct error *err)
{
    (void)error_set(err, ERR_NOT_FOUND, "no such session");
    return NULL;
}

/* Into the table, unless another thread was first. */
static struct session *table_add(struct sessions *m, struct session *se)
{
    struct session *other;

    mutex_lock(&m->lock);
    session_claim_wait(m, se->id);
    other = session_at_hand(m, se->tenant->name, se->id);
    if (!other && !pool_is_gone(se->pool)) {
        idmap_add(&m->table, &session_ref(se)->node, se->id);
        session_identifier_add(se);
        other = session_ref(se);
    }
    mutex_unlock(&m->lock);
    return other;
}

/* From its row into the table. Deleting takes the row first, so one that is
 * still there after the session is in the table is good. Its sharing may have
 * been changed since the row was read. */
static struct session *load_session(struct sessions *m,
                                    const struct actor *who, const char *id,
                                    struct error *err)
{
    struct session *se, *seated;
    int64_t fence;
    bool mine;
    int rc;

    if (!id_of_session(id))
        return no_such(err);
    se = session_persist_load(m, who, id, err);
    if (!se)
        return session_lease_locate(m, who, id, err) < 0 ? NULL : no_such(err);
    if (m->nodes) {
        if (session_lease_take(se, err) < 0) {
            session_unref(se);
            return NULL;
        }
        /* As the node that had it before has left it. */
        fence = atomic_load(&se->fence);
        session_unref(se);
        se = session_persist_load(m, who, id, err);
        if (!se)
            return NULL;
        atomic_store(&se->fence, fence);
    }
    seated = table_add(m, se);
    mine = seated == se;
    session_unref(se);
    if (!mine)
        return seated ? seated : no_such(err);
    rc = session_sharing_renew(seated, err);
    if (rc > 0)
        return seated;
    (void)session_end(seated);
    session_unref(seated);
    return rc == 0 ? no_such(err) : NULL;
}

struct session *session_find(struct sessions *m, const struct actor *who,
                             const char *id, struct error *err)
{
    struct session *se;

    mutex_lock(&m->lock);
    se = session_at_hand(m, who->tenant, id);
    mutex_unlock(&m->lock);
    if (se && session_visible(se, who)) {
        int rc = session_lease_confirm(se, err);

        if (rc == 0)
            return se;
        (void)session_forget(se);
        if (rc < 0) {
            session_unref(se);
            return NULL;
        }
    }
    /* An invisible session is looked up all the same, so that it costs as much
     * as an unknown one. */
    session_unref(se);
    if (node_hint_find(m->nodes, who->key, id, err) < 0)
        return NULL;
    se = load_session(m, who, id, err);
    if (!se || session_visible(se, who))
        return se;
    session_unref(se);
    return no_such(err);
}

void session_audit(const struct session *se, const struct actor *who,
                   const char *action)
{
    struct audit_event event = {
        .action = action, .workspace = se->workspace, .object = se->id};

    audit_later(se->m->core->audit, who, &event);
}

struct session *session_acquire(struct sessions *m, const struct actor *who,
                                const char *id, struct error *err)
{
    struct session *se;

    if (session_enter(m, err) < 0)
        return NULL;
    se = session_find(m, who, id, err);
    if (!se)
        session_leave(m);
    return se;
}

void session_release(struct session *se)
{
    struct sessions *m = se->m;

    session_unref(se);
    session_leave(m);
}

void session_touch(struct session *se)
{
    se->used_ms = clock_mono_ms();
    se->last_used_at_ms = clock_real_ms();
}

/* ---- what it shows ------------------------------------------------------ */

/* The lock is held. */
static void fill_memory(const struct session *se, struct session_info *ret)
{
    bool asleep = session_asleep(se);

    ret->memory_bytes = asleep ? 0 : se->memory_bytes;
    ret->image_bytes = se->image.bytes;
    ret->image_at_ms = se->image.id[0] ? se->image.made_at_ms : 0;
    ret->uncarried = asleep ? se->image.uncarried : se->uncarried;
    ret->kept_not = session_memory_off(se);
    if (!ret->kept_not && se->memory_refused && !asleep)
        ret->kept_not =
            se->uncarried ? SESSION_LOSS_UNCARRIED : SESSION_LOSS_BUILD;
    ret->hibernates = !ret->kept_not;
    ret->lost_why =
        se->phase == PHASE_DORMANT ? se->image.why : SESSION_LOSS_NONE;
    session_points_fill(se, ret);
}

void session_fill_info(struct session *se, struct session_info *ret)
{
    const struct warden_limits *l = &se->limits;

    memset(ret, 0, sizeof(*ret));
    memcpy(ret->id, se->id, sizeof(ret->id));
    (void)snprintf(ret->pool, sizeof(ret->pool), "%s",
                   pool_conf(se->pool)->name);
    (void)snprintf(ret->runtime, sizeof(ret->runtime), "%s",
                   runtime_name(se->runtime));
    if (se->name)
        (void)snprintf(ret->name, sizeof(ret->name), "%s", se->name);
    if (!se->ephemeral)
        memcpy(ret->workspace, se->workspace, sizeof(ret->workspace));
    if (se->identifier)
        (void)snprintf(ret->identifier, sizeof(ret->identifier), "%s",
                       se->identifier);
    memcpy(ret->owner, se->owner, sizeof(ret->owner));
    ret->sharing = atomic_load(&se->sharing);
    ret->ephemeral = se->ephemeral;
    ret->egress = network_mode(se->net);
    ret->hosts = network_hosts(se->net);
    ret->cooldown_s = session_cooldown(se);
    ret->metadata = xstrdup(se->metadata);
    ret->created_at_ms = se->created_at_ms;
    ret->policy_version = atomic_load(&se->policy_version);
    ret->limits = (struct session_limits){.memory_bytes = l->memory_bytes,
                                          .scratch_bytes = l->scratch_bytes,
                                          .scratch_inodes = l->scratch_inodes,
                                          .processes = l->processes,
                                          .cores = l->cores,
                                          .descriptors = l->descriptors};
    mutex_lock(&se->lock);
    ret->state = session_state_shown(se);
    ret->executions = se->executions;
    ret->queued = se->queued;
    ret->interpreter = se->interpreter;
    ret->last_used_at_ms = se->last_used_at_ms;
    ret->expires_at_ms = session_expires_at(se);
    ret->expired = session_expired(se);
    fill_memory(se, ret);
    mutex_unlock(&se->lock);
    ret->final = ret->expired && session_expiry_final(se->m, se->tenant->name);
}

void session_info_done(struct session_info *info)
{
    free(take_ptr(info->metadata));
    free(take_ptr(info->hosts));
}

int session_get(struct sessions *s, const struct actor *who, const char *id,
                struct session_info *ret, struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);

    if (!se)
        return -(int)err->code;
    session_fill_info(se, ret);
    session_release(se);
    return 0;
}

int session_check_reach(struct sessions *s, const struct actor *who,
                        const char *const *only, struct error *err)
{
    struct workspace_info workspace;
    struct session_info session = {.metadata = NULL};
    struct pool_info pool;

    if (only[ACTOR_POOLS]) {
        if (session_pool_get(s, who, only[ACTOR_POOLS], &pool, err) < 0)
            return -(int)err->code;
        pool_info_done(&pool);
    }
    if (only[ACTOR_SESSIONS]) {
        if (session_get(s, who, only[ACTOR_SESSIONS], &session, err) < 0)
            return -(int)err->code;
        session_info_done(&session);
    }
    if (only[ACTOR_WORKSPACES])
        return workspace_get(s->workspaces, who, only[ACTOR_WORKSPACES],
                             &workspace, err);
    return 0;
}

static int visit(struct sessions *s, const struct actor *who, const char *id,
                 uint64_t keep_ms, struct session_info *ret, struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);

    if (!se)
        return -(int)err->code;
    mutex_lock(&se->lock);
    if (!session_expired(se)) {
        session_touch(se);
        se->keep_ms = MAX(se->keep_ms, keep_ms);
    }
    mutex_unlock(&se->lock);
    session_fill_info(se, ret);
    session_release(se);
    return 0;
}

int session_visit(struct sessions *s, const struct actor *who, const char *id,
                  struct session_info *ret, struct error *err)
{
    return visit(s, who, id, 0, ret, err);
}

int session_keep_awake(struct sessions *s, const struct actor *who,
                       const char *id, struct session_info *ret,
                       struct error *err)
{
    return visit(s, who, id, clock_mono_ms() + SESSION_KEEP_S * 1000ull, ret,
                 err);
}

/* ---- the end ------------------------------------------------------------ */

bool session_save(struct session *se, uint32_t ms)
{
    struct box *box = NULL;
    struct error err;

    if (se->ephemeral ||
        session_quiet(se, REQUEST_END,
                      "the session was deleted while it waited", ms, &err) < 0)
        return false;
    /* A single run is over with its execution. */
    if (se->box && !se->transient)
        box = box_ref(se->box);
    mutex_unlock(&se->lock);
    if (!box)
        return false;
    session_commit_rest(se, box);
    box_unref(box);
    return true;
}

void session_unlist(struct session *se)
{
    if (!se->newer && !se->older && se->tenant->newest != se)
        return; /* it is not in it */
    *(se->newer ? &se->newer->older : &se->tenant->newest) = se->older;
    if (se->older)
        se->older->newer = se->newer;
    se->newer = se->older = NULL;
}

/* sessions.lock is held. */
static void unlink_session(struct sessions *m, struct session *se)
{
    idmap_remove(&m->table, &se->node);
    session_identifier_remove(se);
    session_unlist(se);
}

bool session_end(struct session *se)
{
    struct sessions *m = se->m;
    struct turn *waiting;
    struct box *box = NULL;

    mutex_lock(&m->lock);
    mutex_lock(&se->lock);
    if (se->phase == PHASE_ENDED) {
        mutex_unlock(&se->lock);
        mutex_unlock(&m->lock);
        return false;
    }
    unlink_session(m, se);
    session_queue_request(se, REQUEST_END);
    waiting = session_queue_empty(se);
    /* A box that is being created or dropped is not here: the thread that
     * does so finds the session ended. */
    box = take_ptr(se->box);
    session_state_event(se, EV_END);
    session_state_check(se);
    mutex_unlock(&se->lock);
    mutex_unlock(&m->lock);

    /* First: releasing the box takes time, and the executions of a session
     * that cannot be found must not be found either. */
    session_hooks_forget(se);
    if (box) {
        box_release(box);
        box_unref(box);
    }
    session_queue_cancel(waiting, "the session was deleted while it waited");
    if (!se->stored && atomic_load(&se->fence))
        session_lease_end(se);
    session_metrics_add(m, &m->counters.deleted);
    session_unref(se); /* the table's */
    return true;
}

void session_tidy(struct sessions *m, const struct actor *owner,
                  const char *workspace)
{
    struct workspaces *w = m->workspaces;
    struct workspace_info info;
    struct error err;

    if (workspace_get(w, owner, workspace, &info, &err) < 0)
        return;
    if (info.head == 0 && info.name[0] == '\0' && info.made_for_session &&
        workspace_destroy(w, owner, workspace, &err) < 0)
        log_event(LOG_WARN, "workspace_not_removed", "workspace", workspace,
                  "error", err.message, NULL);
}

static void tidy_workspace(struct session *se)
{
    struct actor owner = session_actor(se);

    if (se->made && !se->ephemeral)
        session_tidy(se->m, &owner, se->workspace);
}

/* The row first: a session that is gone must not come back after a crash. */
int session_delete(struct sessions *s, const struct actor *who, const char *id,
                   struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);
    int rc = 0;

    if (!se)
        return -(int)err->code;
    if (se->stored)
        rc = session_persist_delete(se, who, err);
    if (rc == 0) { /* from now on its identifier is another session's */
        mutex_lock(&s->lock);
        session_identifier_remove(se);
        mutex_unlock(&s->lock);
    }
    if (rc == 0)
        (void)session_save(se, SAVE_MS); /* with or without, it ends now */
    if (rc == 0 && session_end(se)) {
        if (!se->stored)
            session_audit(se, who, "session.delete");
        session_hooks_delete(se, who);
        tidy_workspace(se);
        log_event(LOG_INFO, "session_deleted", "session", id, "tenant",
                  who->tenant, NULL);
    }
    session_release(se);
    return rc;
}
