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
    session_net_free(se->net);
    free(se->name);
    free(se->metadata);
    free(se->identifier);
    free(se->identifier_key);
    mutex_done(&se->lock);
    cond_done(&se->cond);
    free(se);
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
    struct idmap_node *n = session_idmap_find(&m->table, id);
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

/* Into the table, unless someone was quicker. */
static struct session *seat(struct sessions *m, struct session *se)
{
    struct session *other;

    mutex_lock(&m->lock);
    session_claim_wait(m, se->id);
    other = session_at_hand(m, se->tenant->name, se->id);
    if (!other && !pool_is_gone(se->pool)) {
        session_idmap_add(&m->table, &session_ref(se)->node, se->id);
        session_identifier_add(se);
        other = session_ref(se);
    }
    mutex_unlock(&m->lock);
    return other;
}

/* From its row into the table. Deleting takes the row first, so one that is
 * still there after the session is in the table is good. Its sharing may have
 * been changed since the row was read. */
static struct session *load(struct sessions *m, const struct actor *who,
                            const char *id, struct error *err)
{
    struct session *se, *seated;
    bool mine;
    int rc;

    if (!id_of_session(id))
        return no_such(err);
    se = session_persist_load(m, who, id, err);
    if (!se)
        return NULL;
    seated = seat(m, se);
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
    if (se && session_visible(se, who))
        return se;
    /* One that is not visible is looked for all the same: it costs what an
     * unknown one costs. */
    session_unref(se);
    se = load(m, who, id, err);
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

    audit_later(workspaces_audit(se->m->workspaces), who, &event);
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
    ret->egress = session_network_mode(se);
    ret->hosts = session_net_hosts(se);
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
    /* Dormant is said once its last files are committed and the box is gone.
     */
    ret->state =
        se->state == SESSION_DORMANT && se->moving ? SESSION_IDLE : se->state;
    ret->executions = se->executions;
    ret->queued = se->queued;
    ret->interpreter = se->interpreter;
    ret->last_used_at_ms = se->last_used_at_ms;
    ret->expires_at_ms = session_expires_at(se);
    ret->expired = session_expired(se);
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

int session_visit(struct sessions *s, const struct actor *who, const char *id,
                  struct session_info *ret, struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);

    if (!se)
        return -(int)err->code;
    mutex_lock(&se->lock);
    if (!session_expired(se))
        session_touch(se);
    mutex_unlock(&se->lock);
    session_fill_info(se, ret);
    session_release(se);
    return 0;
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
    session_idmap_remove(&m->table, &se->node);
    session_identifier_remove(se);
    session_unlist(se);
}

bool session_end(struct session *se)
{
    struct sessions *m = se->m;
    struct execution *waiting, *drop = NULL;
    struct box *box = NULL;

    mutex_lock(&m->lock);
    mutex_lock(&se->lock);
    if (se->state == SESSION_ENDED) {
        mutex_unlock(&se->lock);
        mutex_unlock(&m->lock);
        return false;
    }
    unlink_session(m, se);
    session_history_forget(m, se, &drop);
    session_queue_request(se, REQUEST_END);
    waiting = session_queue_empty(se);
    /* While someone moves the box it is theirs to undo. */
    if (!se->moving)
        box = take_ptr(se->box);
    session_state_set(se, SESSION_ENDED);
    se->exclusive = false;
    cond_broadcast(&se->cond);
    mutex_unlock(&se->lock);
    mutex_unlock(&m->lock);

    if (box) {
        box_release(box);
        box_unref(box);
    }
    session_queue_cancel(waiting, "the session was deleted while it waited");
    session_history_unref(drop);
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
        session_pending_withdraw(se, who);
        tidy_workspace(se);
        log_event(LOG_INFO, "session_deleted", "session", id, "tenant",
                  who->tenant, NULL);
    }
    session_release(se);
    return rc;
}
