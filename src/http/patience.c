/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is refused again and again waits for the next refusal (X4). To say "too
 * many requests" is cheap, but a sender that asks anew the moment it was told
 * can keep the event thread busy with nothing else. So refusals are counted
 * by sender: the first thousand are as fast as they can be, then a hundred a
 * second; requests above that are left unread for a while, and cost nothing
 * meanwhile. Who waits as it was told to (Retry-After) never gets there.
 *
 * Any thread; the lock is held over memory only. A sender that is not
 * remembered has been refused little: the ones that were the most stay.
 */
#include "http/http_int.h"

#include "base/clock.h"
#include "base/mem.h"

#define SETS 64u
#define WAYS 8u
#define STEP_MS 10u     /* of one refusal */
#define BURST_MS 10000u /* so many of them at once: a thousand */
#define MOST_MS 12000u  /* remembered: two seconds of quiet, and one is in */

struct debtor {
    uint64_t flow;
    uint64_t until_ms; /* when all refusals will have been paid for */
};

struct http_patience {
    pthread_mutex_t lock;
    struct debtor debtors[SETS][WAYS];
};

struct http_patience *http_patience_new(void)
{
    struct http_patience *p = xcalloc(1, sizeof(*p));

    (void)pthread_mutex_init(&p->lock, NULL); /* cannot fail on Linux */
    return p;
}

void http_patience_free(struct http_patience *p)
{
    if (!p)
        return;
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Its own place, or that of who owes the least. Lock held. */
static struct debtor *find(struct http_patience *p, uint64_t flow)
{
    struct debtor *set = p->debtors[flow % SETS], *least = set;

    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].flow == flow)
            return &set[i];
        if (set[i].until_ms < least->until_ms)
            least = &set[i];
    }
    *least = (struct debtor){.flow = flow};
    return least;
}

void http_patience_refused(struct http_patience *p, uint64_t flow,
                           uint64_t now_ms)
{
    struct debtor *d;

    (void)pthread_mutex_lock(&p->lock);
    d = find(p, flow);
    d->until_ms = MIN(MAX(d->until_ms, now_ms) + STEP_MS, now_ms + MOST_MS);
    (void)pthread_mutex_unlock(&p->lock);
}

bool http_patience_spent(struct http_patience *p, uint64_t flow,
                         uint64_t now_ms)
{
    const struct debtor *set = p->debtors[flow % SETS];
    bool spent = false;

    (void)pthread_mutex_lock(&p->lock);
    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].flow == flow)
            spent = set[i].until_ms > now_ms + BURST_MS;
    (void)pthread_mutex_unlock(&p->lock);
    return spent;
}
