/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backoff for clients that are refused repeatedly (X4). A 429 is cheap to
 * send, but a client that retries at once can keep the event thread busy with
 * refusals alone. This table counts refusals per client: the first thousand
 * are sent at once, then a hundred a second. The server leaves further
 * requests of that client unread for a while, which costs nothing. A client
 * that obeys Retry-After never reaches the limit.
 *
 * Called on any thread; the lock covers memory only. The table has a fixed
 * size: a new client replaces the one with the fewest refusals.
 */
#include "http/http_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#define SETS 64u
#define WAYS 8u
#define STEP_MS 10u     /* cost of one refusal */
#define BURST_MS 10000u /* free debt: a thousand refusals */
#define MAX_MS 12000u   /* highest debt: below BURST_MS again in 2 s */

struct debtor {
    uint64_t flow;     /* the client */
    uint64_t until_ms; /* when its debt of STEP_MS per refusal is paid off */
};

struct http_backoff {
    struct mutex lock;
    struct debtor debtors[SETS][WAYS];
};

struct http_backoff *http_backoff_new(void)
{
    struct http_backoff *p = xcalloc(1, sizeof(*p));

    mutex_init(&p->lock);
    return p;
}

void http_backoff_free(struct http_backoff *p)
{
    if (!p)
        return;
    mutex_done(&p->lock);
    free(p);
}

/* The entry of `flow`; a new one replaces the entry with the least debt. */
static struct debtor *debtor_get(struct http_backoff *p, uint64_t flow)
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

void http_backoff_refused(struct http_backoff *p, uint64_t flow,
                          uint64_t now_ms)
{
    struct debtor *d;

    mutex_lock(&p->lock);
    d = debtor_get(p, flow);
    d->until_ms = MIN(MAX(d->until_ms, now_ms) + STEP_MS, now_ms + MAX_MS);
    mutex_unlock(&p->lock);
}

bool http_backoff_exceeded(struct http_backoff *p, uint64_t flow,
                           uint64_t now_ms)
{
    const struct debtor *set = p->debtors[flow % SETS];
    bool spent = false;

    mutex_lock(&p->lock);
    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].flow == flow)
            spent = set[i].until_ms > now_ms + BURST_MS;
    mutex_unlock(&p->lock);
    return spent;
}
