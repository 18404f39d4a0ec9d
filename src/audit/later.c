/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that need not be on disk before their act is answered: a bounded
 * queue and one thread that writes what came together in one transaction; see
 * audit_int.h. Runs in the daemon. A write that fails is tried again while the
 * queue has room; what is lost in the end is counted and told.
 */
#include <stdio.h>
#include <time.h>

#include "audit/audit_int.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

#define GATHER_MS 100 /* so that events that come together share a sync */
#define AGAIN_MS 1000 /* after a write that failed */
#define BATCH 256

/* ---- the queue; the lock is held ---------------------------------------- */

static void push(struct audit *a, struct audit_waiting *w)
{
    *a->end = w;
    a->end = &w->next;
    a->count++;
    a->bytes += w->bytes;
}

static void drop_first(struct audit *a)
{
    struct audit_waiting *w = a->first;

    a->first = w->next;
    if (!a->first)
        a->end = &a->first;
    a->count--;
    a->bytes -= w->bytes;
    audit_record_done(&w->record);
    free(w);
}

/* ---- the thread --------------------------------------------------------- */

static int add_dropped(struct audit *a, struct store_tx *tx, uint64_t dropped,
                       struct error *err)
{
    char detail[96];
    struct audit_event event = {
        .action = "audit.dropped", .result = "limit", .detail = detail};

    (void)snprintf(detail, sizeof(detail),
                   "%llu events were not kept: there were too many at once",
                   (unsigned long long)dropped);
    return audit_add(a, tx, NULL, &event, err);
}

/* Without the lock: only this thread takes events off the queue, so the
 * first `count` of them stay where they are. */
static int write_batch(struct audit *a, const struct audit_waiting *first,
                       size_t count, uint64_t dropped, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    const struct audit_waiting *w = first;

    if (store_begin(a->store, STORE_WRITE, "noting acts", &tx, err) < 0)
        return -(int)err->code;
    for (size_t i = 0; i < count; i++) {
        if (i) /* the last one's next may be set while we write */
            w = w->next;
        if (audit_chain_add(a->secret, tx, &w->record, err) < 0)
            return -(int)err->code;
    }
    if (dropped && add_dropped(a, tx, dropped, err) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

/* Waits with the lock held, unless we are to stop or enough have come. */
static void pause_ms(struct audit *a, unsigned ms, size_t enough)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail */
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!a->stopping && a->count < enough &&
           pthread_cond_timedwait(&a->wake, &a->lock, &until) == 0)
        continue;
}

/* One batch, with the lock held but for the writing. */
static void step(struct audit *a)
{
    const struct audit_waiting *first = a->first;
    size_t count = MIN(a->count, (size_t)BATCH);
    uint64_t dropped = a->dropped;
    struct error err = {0};
    int r;

    (void)pthread_mutex_unlock(&a->lock);
    r = write_batch(a, first, count, dropped, &err);
    (void)pthread_mutex_lock(&a->lock);
    if (r < 0 && !a->stopping && store_writable(a->store)) {
        if (!a->failing)
            log_event(LOG_WARN, "audit_events_wait", "error", err.message,
                      NULL);
        a->failing = true;
        pause_ms(a, AGAIN_MS, SIZE_MAX);
        return;
    }
    a->failing = false;
    for (size_t i = 0; i < count; i++)
        drop_first(a);
    a->dropped -= dropped;
    if (r < 0) {
        char lost[24];

        dropped += count;
        (void)snprintf(lost, sizeof(lost), "%llu",
                       (unsigned long long)dropped);
        log_event(LOG_ERROR, "audit_events_lost", "count", lost, "error",
                  err.message, NULL);
    }
}

static void *run(void *arg)
{
    struct audit *a = arg;

    (void)pthread_mutex_lock(&a->lock); /* fails only on misuse */
    while (!a->stopping || a->count || a->dropped) {
        while (!a->stopping && !a->count)
            (void)pthread_cond_wait(&a->wake, &a->lock);
        pause_ms(a, GATHER_MS, BATCH);
        if (a->count || a->dropped)
            step(a);
    }
    (void)pthread_mutex_unlock(&a->lock);
    return NULL;
}

int audit_later_start(struct audit *a, struct error *err)
{
    pthread_condattr_t attr;
    int r;

    (void)pthread_condattr_init(&attr); /* these cannot fail on Linux */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&a->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    r = pthread_create(&a->thread, NULL, run, a);
    if (r != 0) {
        (void)pthread_cond_destroy(&a->wake); /* nobody is waiting */
        return error_errno(err, ERR_INTERNAL, r, "cannot start a thread");
    }
    a->started = true;
    return 0;
}

void audit_later_stop(struct audit *a)
{
    if (!a->started)
        return;
    (void)pthread_mutex_lock(&a->lock); /* fails only on misuse */
    a->stopping = true;
    (void)pthread_cond_signal(&a->wake);
    (void)pthread_mutex_unlock(&a->lock);
    (void)pthread_join(a->thread, NULL); /* it was started and not joined */
    (void)pthread_cond_destroy(&a->wake);
}

/* ---- for everybody ------------------------------------------------------ */

void audit_later(struct audit *a, const struct actor *who,
                 const struct audit_event *event)
{
    struct audit_waiting *w = xcalloc(1, sizeof(*w));
    bool room;

    audit_record_init(&w->record, who, event);
    w->bytes = audit_record_bytes(&w->record);
    (void)pthread_mutex_lock(&a->lock); /* fails only on misuse */
    room =
        a->count < AUDIT_QUEUE_MAX && a->bytes + w->bytes <= AUDIT_QUEUE_BYTES;
    if (room) {
        push(a, w);
        if (a->count == 1 || a->count == BATCH)
            (void)pthread_cond_signal(&a->wake);
    } else {
        a->dropped++;
    }
    (void)pthread_mutex_unlock(&a->lock);
    if (!room) {
        audit_record_done(&w->record);
        free(w);
    }
}
