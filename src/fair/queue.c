/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fair queue between tenants: a free place goes to the tenant that holds
 * the fewest, and among equals to the request that came first. A tenant with
 * many requests therefore waits behind its own. Runs in gloveboxd; callers
 * wait on their own threads, whose number bounds the queue.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fair/fair.h"

#define CANCEL_MS 20u /* between two looks at a flag */

/* A tenant that holds places or waits for one. */
struct holder {
    struct holder *next;
    char *tenant;
    unsigned held, waiting;
};

struct waiter {
    struct waiter *next; /* in order of coming */
    struct holder *who;
    struct cond go;
    bool granted;
};

struct fair_queue {
    struct mutex lock;
    unsigned width, taken;
    struct holder *holders;
    struct waiter *first, **last;
};

struct fair_queue *fair_queue_new(unsigned width)
{
    struct fair_queue *f = xcalloc(1, sizeof(*f));

    mutex_init(&f->lock);
    f->width = MAX(width, 1u);
    f->last = &f->first;
    return f;
}

void fair_queue_free(struct fair_queue *f)
{
    if (!f)
        return;
    while (f->holders) {
        struct holder *h = f->holders;

        f->holders = h->next;
        free(h->tenant);
        free(h);
    }
    mutex_done(&f->lock);
    free(f);
}

static struct holder *holder_get(struct fair_queue *f, const char *tenant)
{
    struct holder *h = f->holders;

    while (h && strcmp(h->tenant, tenant) != 0)
        h = h->next;
    if (h)
        return h;
    h = xcalloc(1, sizeof(*h));
    h->tenant = xstrdup(tenant);
    h->next = f->holders;
    f->holders = h;
    return h;
}

static void holder_release(struct fair_queue *f, struct holder *gone)
{
    struct holder **at = &f->holders;

    if (gone->held || gone->waiting)
        return;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone->tenant);
    free(gone);
}

static void unlink_waiter(struct fair_queue *f, struct waiter *w)
{
    struct waiter **at = &f->first;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (f->last == &w->next)
        f->last = at;
    w->who->waiting--;
}

static void grant_places(struct fair_queue *f)
{
    while (f->taken < f->width && f->first) {
        struct waiter *next = f->first;

        for (struct waiter *w = next->next; w; w = w->next)
            if (w->who->held < next->who->held)
                next = w;
        unlink_waiter(f, next);
        next->who->held++;
        f->taken++;
        next->granted = true;
        cond_signal(&next->go);
    }
}

static bool wait_for_place(struct fair_queue *f, struct holder *who,
                           uint64_t deadline_ms, const _Atomic bool *cancel)
{
    struct waiter me = {.who = who};

    mutex_assert_held(&f->lock);
    cond_init(&me.go);
    *f->last = &me;
    /* Unlinked before this returns. */
    /* cppcheck-suppress autoVariables */
    f->last = &me.next;
    who->waiting++;
    grant_places(f);
    while (!me.granted && !(cancel && atomic_load(cancel))) {
        uint64_t now = clock_mono_ms();

        if (!cond_wait_until(&me.go, &f->lock,
                             cancel ? MIN(deadline_ms, now + CANCEL_MS)
                                    : deadline_ms) &&
            clock_mono_ms() >= deadline_ms)
            break;
    }
    if (!me.granted)
        unlink_waiter(f, &me);
    cond_done(&me.go);
    return me.granted;
}

bool fair_queue_enter(struct fair_queue *f, const char *tenant,
                      uint64_t deadline_ms)
{
    return fair_queue_enter_unless(f, tenant, deadline_ms, NULL);
}

bool fair_queue_enter_unless(struct fair_queue *f, const char *tenant,
                             uint64_t deadline_ms, const _Atomic bool *cancel)
{
    struct holder *who;
    bool in = true;

    if (!f)
        return true;
    mutex_lock(&f->lock);
    who = holder_get(f, tenant);
    if (f->taken < f->width) { /* no other request waits */
        who->held++;
        f->taken++;
    } else {
        in = wait_for_place(f, who, deadline_ms, cancel);
    }
    if (!in)
        holder_release(f, who);
    mutex_unlock(&f->lock);
    return in;
}

void fair_queue_leave(struct fair_queue *f, const char *tenant)
{
    struct holder *who;

    if (!f)
        return;
    mutex_lock(&f->lock);
    who = holder_get(f, tenant);
    who->held--;
    f->taken--;
    grant_places(f);
    holder_release(f, who);
    mutex_unlock(&f->lock);
}
