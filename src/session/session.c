/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions as clients see them: find, show, list, delete.
 * Runs in gloveboxd on the caller's thread. A foreign id is answered exactly
 * as an unknown one (I3). Deleting first commits what the session has
 * written, within a bound, then is one call to the warden; whatever still runs
 * notices by itself.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session_int.h"

#define LIST_MAX 1000u
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
    session_mount_end(se);
    session_seen_done(se);
    free(se->name);
    free(se->metadata);
    (void)pthread_mutex_destroy(&se->lock);
    (void)pthread_cond_destroy(&se->cond);
    free(se);
}

struct actor session_actor(const struct session *se)
{
    return (struct actor){.tenant = se->tenant->name,
                          .key = se->owner,
                          .admin = se->owner_admin};
}

/* In the table, referenced, or NULL; sessions.lock is held. */
static struct session *at_hand(struct sessions *m, const char *tenant,
                               const char *id)
{
    struct idmap_node *n = session_idmap_find(&m->table, id);
    struct session *se = n ? container_of(n, struct session, node) : NULL;

    return se && strcmp(se->tenant->name, tenant) == 0 ? session_ref(se)
                                                       : NULL;
}

/* From its row into the table, unless someone was quicker. */
static struct session *load(struct sessions *m, const char *tenant,
                            const char *id, struct error *err)
{
    struct session *se, *other;

    if (!ids_valid("sess", id)) {
        (void)error_set(err, ERR_NOT_FOUND, "no such session");
        return NULL;
    }
    se = session_persist_load(m, tenant, id, err);
    if (!se)
        return NULL;
    pthread_mutex_lock(&m->lock);
    other = at_hand(m, tenant, id);
    if (!other)
        session_idmap_add(&m->table, &session_ref(se)->node, se->id);
    pthread_mutex_unlock(&m->lock);
    if (!other)
        return se;
    session_unref(se);
    return other;
}

struct session *session_find(struct sessions *m, const char *tenant,
                             const char *id, struct error *err)
{
    struct session *se;

    pthread_mutex_lock(&m->lock);
    se = at_hand(m, tenant, id);
    pthread_mutex_unlock(&m->lock);
    return se ? se : load(m, tenant, id, err);
}

void session_audit(const struct session *se, const struct actor *who,
                   const char *action)
{
    struct audit_event event = {
        .action = action, .workspace = se->workspace, .object = se->id};

    audit_later(workspaces_audit(se->m->workspaces), who, &event);
}

struct session *session_hold(struct sessions *m, const char *tenant,
                             const char *id, struct error *err)
{
    struct session *se;

    if (session_enter(m, err) < 0)
        return NULL;
    se = session_find(m, tenant, id, err);
    if (!se)
        session_leave(m);
    return se;
}

void session_let(struct session *se)
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
    (void)snprintf(ret->pool, sizeof(ret->pool), "%s", se->pool->conf->name);
    (void)snprintf(ret->runtime, sizeof(ret->runtime), "%s",
                   se->runtime->name);
    if (se->name)
        (void)snprintf(ret->name, sizeof(ret->name), "%s", se->name);
    if (!se->ephemeral)
        memcpy(ret->workspace, se->workspace, sizeof(ret->workspace));
    ret->ephemeral = se->ephemeral;
    ret->metadata = xstrdup(se->metadata);
    ret->created_at_ms = se->created_at_ms;
    ret->limits = (struct session_limits){.memory_bytes = l->memory_bytes,
                                          .scratch_bytes = l->scratch_bytes,
                                          .scratch_inodes = l->scratch_inodes,
                                          .processes = l->processes,
                                          .cores = l->cores,
                                          .descriptors = l->descriptors};
    pthread_mutex_lock(&se->lock);
    /* Dormant is said once its last files are committed and the box is gone.
     */
    ret->state =
        se->state == SESSION_DORMANT && se->moving ? SESSION_IDLE : se->state;
    ret->executions = se->executions;
    ret->queued = se->queued;
    ret->interpreter = se->interpreter;
    ret->last_used_at_ms = se->last_used_at_ms;
    ret->expires_at_ms =
        se->last_used_at_ms + se->pool->conf->cooldown_s * (int64_t)1000;
    pthread_mutex_unlock(&se->lock);
}

void session_info_done(struct session_info *info)
{
    free(take_ptr(info->metadata));
}

int session_get(struct sessions *s, const char *tenant, const char *id,
                struct session_info *ret, struct error *err)
{
    struct session *se = session_hold(s, tenant, id, err);

    if (!se)
        return -(int)err->code;
    session_fill_info(se, ret);
    session_let(se);
    return 0;
}

/* ---- listing: rows, and those without ----------------------------------- */

struct page {
    struct session_info *items;
    size_t count, limit;
    bool more;
};

static void page_add(struct page *p, const struct session_info *info)
{
    p->items[p->count++] = *info;
}

/* What is at hand knows better than its row. */
static void freshen(struct sessions *m, const char *tenant,
                    struct session_info *info)
{
    struct session *se;

    pthread_mutex_lock(&m->lock);
    se = at_hand(m, tenant, info->id);
    pthread_mutex_unlock(&m->lock);
    if (!se)
        return;
    session_info_done(info);
    session_fill_info(se, info);
    session_unref(se);
}

/* The tenant's sessions that have no row, created before before_ms, newest
 * first, at most limit + 1. */
static size_t unstored(struct sessions *m, const char *tenant,
                       int64_t before_ms, unsigned limit,
                       struct session_info *ret)
{
    struct idmap_node *n;
    struct session *se;
    size_t count = 0;

    pthread_mutex_lock(&m->lock);
    n = session_idmap_find(&m->tenants, tenant);
    se = n ? container_of(n, struct tenant, node)->newest : NULL;
    for (; se && count <= limit; se = se->older)
        if (se->created_at_ms < before_ms)
            session_fill_info(se, &ret[count++]);
    pthread_mutex_unlock(&m->lock);
    return count;
}

/* Merges two lists, each newest first. */
static void merge(struct page *p, struct session_info *a, size_t a_count,
                  struct session_info *b, size_t b_count)
{
    size_t i = 0, j = 0;

    while (i < a_count || j < b_count) {
        bool first = j == b_count ||
                     (i < a_count && a[i].created_at_ms >= b[j].created_at_ms);
        struct session_info *next = first ? &a[i++] : &b[j++];

        if (p->count < p->limit) {
            page_add(p, next);
        } else {
            p->more = true;
            session_info_done(next);
        }
    }
}

static int list(struct sessions *m, const char *tenant, int64_t before_ms,
                struct page *p, struct error *err)
{
    unsigned limit = (unsigned)p->limit;
    struct session_info *rows cleanup(mem_free) = NULL;
    struct session_info *others cleanup(mem_free) =
        xcalloc(limit + 1u, sizeof(*others));
    size_t row_count = 0, other_count;
    int rc = session_persist_list(m, tenant, before_ms, limit + 1, &rows,
                                  &row_count, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < row_count; i++)
        freshen(m, tenant, &rows[i]);
    other_count = unstored(m, tenant, before_ms, limit, others);
    p->items = xcalloc(p->limit, sizeof(*p->items));
    merge(p, rows, row_count, others, other_count);
    return 0;
}

int session_list(struct sessions *s, const char *tenant, unsigned limit,
                 const char *after, struct session_info **ret,
                 size_t *ret_count, bool *ret_more, struct error *err)
{
    struct page p = {.limit = limit};
    int64_t before_ms = INT64_MAX;
    struct session *se;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    if (limit == 0 || limit > LIST_MAX)
        rc = error_set(err, ERR_INVALID, "limit must be from 1 to %u",
                       LIST_MAX);
    if (rc == 0 && after) {
        se = session_find(s, tenant, after, err);
        if (se) {
            before_ms = se->created_at_ms;
            session_unref(se);
        } else {
            (void)error_set(err, ERR_INVALID, "after names no session");
            rc = error_hint(err, "start again without it");
        }
    }
    if (rc == 0)
        rc = list(s, tenant, before_ms, &p, err);
    session_leave(s);
    *ret = p.items;
    *ret_count = p.count;
    *ret_more = p.more;
    return rc;
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
        box = session_box_ref(se->box);
    pthread_mutex_unlock(&se->lock);
    if (!box)
        return false;
    session_keep_rest(se, box);
    session_box_unref(box);
    return true;
}

/* sessions.lock is held. */
static void unlink_session(struct sessions *m, struct session *se)
{
    session_idmap_remove(&m->table, &se->node);
    if (se->stored)
        return;
    *(se->newer ? &se->newer->older : &se->tenant->newest) = se->older;
    if (se->older)
        se->older->newer = se->newer;
    se->newer = se->older = NULL;
}

bool session_end(struct session *se)
{
    struct sessions *m = se->m;
    struct execution *waiting, *drop = NULL;
    struct box *box = NULL;

    pthread_mutex_lock(&m->lock);
    pthread_mutex_lock(&se->lock);
    if (se->state == SESSION_ENDED) {
        pthread_mutex_unlock(&se->lock);
        pthread_mutex_unlock(&m->lock);
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
    pthread_cond_broadcast(&se->cond);
    pthread_mutex_unlock(&se->lock);
    pthread_mutex_unlock(&m->lock);

    if (box) {
        session_box_release(box);
        session_box_unref(box);
    }
    session_queue_cancel(waiting, "the session was deleted while it waited");
    session_history_unref(drop);
    session_metrics_add(m, &m->counters.deleted);
    session_unref(se); /* the table's */
    return true;
}

/* A workspace that was made for it and never got a file goes with it. */
static void tidy_workspace(struct session *se)
{
    struct workspaces *w = se->m->workspaces;
    struct actor owner = session_actor(se);
    struct workspace_info info;
    struct error err;

    if (!se->made || workspace_get(w, &owner, se->workspace, &info, &err) < 0)
        return;
    if (info.head == 0 && info.name[0] == '\0' && info.made_for_session &&
        workspace_destroy(w, &owner, se->workspace, &err) < 0)
        log_event(LOG_WARN, "workspace_not_removed", "workspace",
                  se->workspace, "error", err.message, NULL);
}

/* The row first: a session that is gone must not come back after a crash. */
int session_delete(struct sessions *s, const struct actor *who, const char *id,
                   struct error *err)
{
    struct session *se = session_hold(s, who->tenant, id, err);
    int rc = 0;

    if (!se)
        return -(int)err->code;
    if (se->stored)
        rc = session_persist_delete(se, who, err);
    if (rc == 0)
        (void)session_save(se, SAVE_MS); /* with or without, it ends now */
    if (rc == 0 && session_end(se)) {
        if (!se->stored)
            session_audit(se, who, "session.delete");
        if (!se->ephemeral)
            tidy_workspace(se);
        log_event(LOG_INFO, "session_deleted", "session", id, "tenant",
                  who->tenant, NULL);
    }
    session_let(se);
    return rc;
}
