/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions as clients see them: find, show, list, delete.
 * Runs in gloveboxd on the caller's thread. A foreign id is answered exactly
 * as an unknown one (I3). Deleting is one call to the warden; whatever still
 * runs notices by itself.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session_int.h"

#define LIST_MAX 1000u

struct session *session_ref(struct session *se)
{
    atomic_fetch_add(&se->refs, 1);
    return se;
}

void session_unref(struct session *se)
{
    if (!se || atomic_fetch_sub(&se->refs, 1) != 1)
        return;
    free(se->name);
    free(se->metadata);
    (void)pthread_mutex_destroy(&se->lock);
    (void)pthread_cond_destroy(&se->cond);
    free(se);
}

struct session *session_find(struct sessions *m, const char *tenant,
                             const char *id, struct error *err)
{
    struct session *se = NULL;
    struct idmap_node *n;

    pthread_mutex_lock(&m->lock);
    n = session_idmap_find(&m->table, id);
    if (n)
        se = container_of(n, struct session, node);
    if (se && strcmp(se->tenant->name, tenant) == 0)
        (void)session_ref(se);
    else
        se = NULL;
    pthread_mutex_unlock(&m->lock);
    if (!se)
        (void)error_set(err, ERR_NOT_FOUND, "no such session");
    return se;
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
    ret->metadata = xstrdup(se->metadata);
    ret->created_at_ms = se->created_at_ms;
    ret->limits = (struct session_limits){.memory_bytes = l->memory_bytes,
                                          .scratch_bytes = l->scratch_bytes,
                                          .scratch_inodes = l->scratch_inodes,
                                          .processes = l->processes,
                                          .cores = l->cores,
                                          .descriptors = l->descriptors};
    pthread_mutex_lock(&se->lock);
    ret->state = se->state;
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
    struct session *se;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    se = session_find(s, tenant, id, err);
    if (se) {
        session_fill_info(se, ret);
        session_unref(se);
    }
    session_leave(s);
    return se ? 0 : -(int)err->code;
}

/* The first of the page, sessions.lock held; false: no such `after`. */
static bool page_start(struct sessions *m, const char *tenant,
                       const char *after, struct session **ret)
{
    struct idmap_node *n;
    struct session *se;

    if (!after) {
        n = session_idmap_find(&m->tenants, tenant);
        *ret = n ? container_of(n, struct tenant, node)->newest : NULL;
        return true;
    }
    n = session_idmap_find(&m->table, after);
    if (!n)
        return false;
    se = container_of(n, struct session, node);
    if (strcmp(se->tenant->name, tenant) != 0)
        return false;
    *ret = se->older;
    return true;
}

static int list(struct sessions *m, const char *tenant, unsigned limit,
                const char *after, struct session_info **ret,
                size_t *ret_count, bool *ret_more, struct error *err)
{
    struct session_info *page;
    struct session *se = NULL;
    size_t count = 0;

    if (limit == 0 || limit > LIST_MAX)
        return error_set(err, ERR_INVALID, "limit must be from 1 to %u",
                         LIST_MAX);
    page = xcalloc(limit, sizeof(*page));
    pthread_mutex_lock(&m->lock);
    if (!page_start(m, tenant, after, &se)) {
        pthread_mutex_unlock(&m->lock);
        free(page);
        (void)error_set(err, ERR_INVALID, "after names no session");
        return error_hint(err, "start again without it");
    }
    for (; se && count < limit; se = se->older)
        session_fill_info(se, &page[count++]);
    *ret_more = se != NULL;
    pthread_mutex_unlock(&m->lock);
    *ret = page;
    *ret_count = count;
    return 0;
}

int session_list(struct sessions *s, const char *tenant, unsigned limit,
                 const char *after, struct session_info **ret,
                 size_t *ret_count, bool *ret_more, struct error *err)
{
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = list(s, tenant, limit, after, ret, ret_count, ret_more, err);
    session_leave(s);
    return rc;
}

/* ---- the end ------------------------------------------------------------ */

/* sessions.lock is held. */
static void unlink_session(struct sessions *m, struct session *se)
{
    session_idmap_remove(&m->table, &se->node);
    *(se->newer ? &se->newer->older : &se->tenant->newest) = se->older;
    if (se->older)
        se->older->newer = se->newer;
    se->newer = se->older = NULL;
    m->session_count--;
    atomic_fetch_sub(&se->pool->sessions, 1);
}

static void let_go(struct session *se, struct box *box, uint32_t slot)
{
    struct error err;

    if (box) {
        session_box_release(box, false);
        session_box_unref(box);
    } else if (slot &&
               warden_call_release(se->m->link, slot, false, &err) < 0) {
        log_event(LOG_ERROR, "slot_release_failed", "session", se->id, "error",
                  err.message, NULL);
    }
}

bool session_end(struct session *se)
{
    struct sessions *m = se->m;
    struct execution *waiting, *drop = NULL;
    struct box *box = NULL;
    uint32_t slot = 0;

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
    if (!se->moving) {
        box = take_ptr(se->box);
        slot = se->slot;
    }
    session_state_set(se, SESSION_ENDED);
    pthread_cond_broadcast(&se->cond);
    pthread_mutex_unlock(&se->lock);
    pthread_mutex_unlock(&m->lock);

    let_go(se, box, slot);
    session_queue_cancel(waiting, "the session was deleted while it waited");
    session_history_unref(drop);
    session_metrics_add(m, &m->counters.deleted);
    session_unref(se); /* the table's */
    return true;
}

int session_delete(struct sessions *s, const char *tenant, const char *id,
                   struct error *err)
{
    struct session *se;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    se = session_find(s, tenant, id, err);
    if (se) {
        if (session_end(se))
            log_event(LOG_INFO, "session_deleted", "session", id, "tenant",
                      tenant, NULL);
        session_unref(se);
    }
    session_leave(s);
    return se ? 0 : -(int)err->code;
}
