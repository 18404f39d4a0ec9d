/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backoff for clients that are refused repeatedly: a 429 is cheap to
 * send, but a client that retries at once can keep the event thread busy with
 * refusals alone. This table counts refusals per client: the first thousand
 * are sent at once, then a hundred a second. The server leaves further
 * requests of that client unread for a while, which costs nothing. A client
 * that obeys Retry-After never reaches the limit.
 *
 * Called on any thread; the lock covers memory only. The table has a fixed
 * size: a new client replaces the one with the fewest refusals.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fair/fair.h"

#define SETS 64u
#define WAYS 8u

struct debtor {
    uint64_t client;
    uint64_t until_ms; /* when its debt of refusal_cost_ms each is paid off */
};

struct fair_backoff {
    struct mutex lock;
    struct debtor debtors[SETS][WAYS];
};

struct fair_backoff *fair_backoff_new(void)
{
    struct fair_backoff *b = xcalloc(1, sizeof(*b));

    mutex_init(&b->lock);
    return b;
}

void fair_backoff_free(struct fair_backoff *b)
{
    if (!b)
        return;
    mutex_done(&b->lock);
    free(b);
}

/* The entry of `client`; a new one replaces the entry with the least debt. */
static struct debtor *debtor_get(struct fair_backoff *b, uint64_t client)
{
    struct debtor *set = b->debtors[client % SETS], *least = set;

    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].client == client)
            return &set[i];
        if (set[i].until_ms < least->until_ms)
            least = &set[i];
    }
    *least = (struct debtor){.client = client};
    return least;
}

void fair_backoff_refused(struct fair_backoff *b, uint64_t client,
                          uint64_t now_ms)
{
    struct debtor *d;

    mutex_lock(&b->lock);
    d = debtor_get(b, client);
    d->until_ms = MIN(MAX(d->until_ms, now_ms) + fair.refusal_cost_ms,
                      now_ms + fair.refusal_max_ms);
    mutex_unlock(&b->lock);
}

bool fair_backoff_exceeded(struct fair_backoff *b, uint64_t client,
                           uint64_t now_ms)
{
    const struct debtor *set = b->debtors[client % SETS];
    bool exceeded = false;

    if (!fair_enabled(FAIR_REFUSAL_BACKOFF))
        return false;
    mutex_lock(&b->lock);
    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].client == client)
            exceeded = set[i].until_ms > now_ms + fair.refusal_free_ms;
    mutex_unlock(&b->lock);
    return exceeded;
}
