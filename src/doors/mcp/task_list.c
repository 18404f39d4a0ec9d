/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks there are, bounded for each key and in all; see task.c. Found by
 * who called alone, cancelled, answered, and forgotten when their time is
 * over. Under mcp->lock.
 */
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "doors/mcp/task_int.h"

int mcp_task_enlist(struct mcp_exchange *x, struct mcp_task *t)
{
    struct mcp *m = x->mcp;
    size_t own = 0;
    bool full;

    (void)pthread_mutex_lock(&m->lock);
    for (struct mcp_task *o = m->tasks; o; o = o->next)
        own += strcmp(o->who.key_id, t->who.key_id) == 0 &&
               strcmp(o->who.tenant, t->who.tenant) == 0;
    full = m->stopping || own >= MCP_TASKS_PER_KEY ||
           m->task_count >= MCP_TASKS_MAX;
    if (!full) {
        t->next = m->tasks;
        m->tasks = t;
        m->task_count++;
        t->refs++;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return full ? -1 : 0;
}

void mcp_task_delist(struct mcp_task *t)
{
    struct mcp *m = t->mcp;
    struct mcp_task **at;

    (void)pthread_mutex_lock(&m->lock);
    for (at = &m->tasks; *at && *at != t; at = &(*at)->next)
        ;
    if (*at) {
        *at = t->next;
        m->task_count--;
        t->refs--; /* the caller has one */
    }
    (void)pthread_mutex_unlock(&m->lock);
}

struct mcp_task *mcp_task_find(struct mcp_exchange *x, const char *id)
{
    struct mcp *m = x->mcp;
    struct mcp_task *t;

    (void)pthread_mutex_lock(&m->lock);
    for (t = m->tasks; t; t = t->next)
        if (strcmp(t->id, id) == 0 &&
            strcmp(t->who.tenant, x->actor->tenant) == 0 &&
            strcmp(auth_shown(&t->who), actor_credential(x->actor)) == 0)
            break;
    if (t)
        t->refs++;
    (void)pthread_mutex_unlock(&m->lock);
    return t;
}

void mcp_task_cancel(struct mcp_task *t)
{
    (void)pthread_mutex_lock(&t->lock);
    if (!mcp_task_over(t)) {
        t->cancelled = true;
        (void)pthread_cond_broadcast(&t->change);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

void mcp_task_answer(struct mcp_task *t, const json_t *responses)
{
    const char *key;
    json_t *value;

    (void)pthread_mutex_lock(&t->lock);
    if (t->status == TASK_INPUT) {
        json_object_foreach ((json_t *)(uintptr_t)responses, key, value) {
            if (!json_is_object(value) || !json_object_get(t->x.asks, key))
                continue;
            (void)json_object_set_new(t->x.asked, key, json_deep_copy(value));
            (void)json_object_del(t->x.asks, key);
        }
        (void)pthread_cond_broadcast(&t->change);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

/* Those whose time is over; a running one keeps its worker until it ends. */
void mcp_task_sweep(struct mcp *m)
{
    int64_t now = clock_real_ms();
    struct mcp_task *gone = NULL, **at;

    (void)pthread_mutex_lock(&m->lock);
    for (at = &m->tasks; *at;) {
        struct mcp_task *t = *at;

        if (now < t->created_ms + MCP_TASK_TTL_MS) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        m->task_count--;
        t->next = gone;
        gone = t;
    }
    (void)pthread_mutex_unlock(&m->lock);
    while (gone) {
        struct mcp_task *t = gone;

        gone = t->next;
        mcp_task_cancel(t);
        mcp_task_unref(t);
    }
}

struct mcp_task *mcp_task_next(const struct mcp_task *t)
{
    return t->next;
}

void mcp_task_stop(struct mcp *m)
{
    (void)pthread_mutex_lock(&m->lock);
    for (struct mcp_task *t = m->tasks; t; t = t->next)
        t->cancelled = true; /* its worker looks every second */
    (void)pthread_mutex_unlock(&m->lock);
}
