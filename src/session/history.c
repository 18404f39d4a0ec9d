/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executions that can still be found. Every execution is in its session's
 * list and in the table from its creation. Finished executions are counted,
 * and the least recently used are dropped when a session has too many or all
 * of them hold too many bytes. Runs in gloveboxd under sessions.lock;
 * references are dropped outside the lock.
 */
#include "quota/quota.h"
#include "session/session_int.h"

static void lru_unlink(struct sessions *m, struct execution *e)
{
    *(e->older ? &e->older->newer : &m->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &m->latest) = e->older;
    e->older = e->newer = NULL;
}

static void lru_push(struct sessions *m, struct execution *e)
{
    e->older = m->latest;
    e->newer = NULL;
    *(m->latest ? &m->latest->newer : &m->oldest) = e;
    m->latest = e;
}

/* Out of the table and the lists; the table's reference goes to *drop. */
static void forget_one(struct sessions *m, struct session *se,
                       struct execution *e, struct execution **drop)
{
    *(e->prev ? &e->prev->next : &se->first) = e->next;
    *(e->next ? &e->next->prev : &se->last) = e->prev;
    e->prev = e->next = NULL;
    session_idmap_remove(&m->runs, &e->node);
    e->mapped = false;
    if (e->recorded) {
        lru_unlink(m, e);
        m->history_bytes -= e->bytes;
        e->recorded = false;
        se->finished--;
    }
    e->history_next = *drop;
    *drop = e;
}

void session_history_unref(struct execution *drop)
{
    while (drop) {
        struct execution *next = drop->history_next;

        execution_unref(drop);
        drop = next;
    }
}

void session_history_add(struct sessions *m, struct session *se,
                         struct execution *e)
{
    session_idmap_add(&m->runs, &e->node, e->info.id);
    e->mapped = true;
    e->home = se;
    (void)execution_ref(e); /* the table's */
    e->prev = se->last;
    *(se->last ? &se->last->next : &se->first) = e;
    se->last = e;
}

static struct execution *oldest_finished(struct session *se)
{
    struct execution *e = se->first;

    while (e && !e->recorded)
        e = e->next;
    return e;
}

void session_history_record(struct sessions *m, struct session *se,
                            struct execution *e, size_t bytes)
{
    struct execution *drop = NULL;

    mutex_lock(&m->lock);
    if (e->mapped) { /* not when its session was deleted meanwhile */
        e->recorded = true;
        e->bytes = bytes;
        m->history_bytes += bytes;
        se->finished++;
        lru_push(m, e);
        while (se->finished > m->conf->history_per_session)
            forget_one(m, se, oldest_finished(se), &drop);
        while (m->oldest && m->history_bytes > m->conf->history_bytes)
            forget_one(m, m->oldest->home, m->oldest, &drop);
    }
    if (e->counted) {
        e->tenant->active--;
        quota_give(m->parts.quotas, e->tenant->name, QUOTA_EXECUTIONS, 1);
    }
    if (--m->active == 0)
        cond_broadcast(&m->idle);
    mutex_unlock(&m->lock);
    session_history_unref(drop);
}

void session_history_touch(struct sessions *m, struct execution *e)
{
    if (!e->recorded)
        return;
    lru_unlink(m, e);
    lru_push(m, e);
}

void session_history_forget(struct sessions *m, struct session *se,
                            struct execution **drop)
{
    while (se->first)
        forget_one(m, se, se->first, drop);
}
