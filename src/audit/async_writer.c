/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that need not be on disk before their act is answered: a bounded
 * queue and one thread that writes what came together in one transaction; see
 * audit_int.h. Runs in the daemon. A write that fails is tried again while the
 * queue has room; what is lost in the end is counted and told. The piggyback's
 * rows go along, but never hold events up: when both fail, events are tried
 * alone.
 */
#include <stdio.h>
#include <time.h>

#include "audit/audit_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

#define GATHER_MS 100 /* so that events that come together share a sync */
#define AGAIN_MS 1000 /* after a write that failed */
#define TICK_MS 60000 /* between looks at what is due a checkpoint */
#define BATCH 256

/* ---- the queue; the lock is held ---------------------------------------- */

static void push(struct audit *a, struct audit_queued *w)
{
    *a->end = w;
    a->end = &w->next;
    a->count++;
    a->bytes += w->bytes;
}

static void drop_first(struct audit *a)
{
    struct audit_queued *w = a->first;

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

/* How long events have waited: in the trail itself, once they no longer do. */
static int add_resumed(struct audit *a, struct store_tx *tx,
                       int64_t failed_at_ms, struct error *err)
{
    char detail[96];
    struct audit_event event = {.action = "audit.resumed", .detail = detail};

    (void)snprintf(detail, sizeof(detail),
                   "events could not be written for %lld seconds",
                   (long long)(clock_real_ms() - failed_at_ms + 999) / 1000);
    return audit_add(a, tx, NULL, &event, err);
}

/* Taken off the queue without its lock: only this thread takes events off,
 * so the first `count` of them stay where they are. */
struct batch {
    const struct audit_queued *first;
    size_t count;
    uint64_t dropped;
    int64_t failed_at_ms; /* 0: the last one was written */
    struct audit_piggyback piggyback;
};

static int write_batch(struct audit *a, const struct batch *b,
                       bool with_piggyback, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    const struct audit_queued *w = b->first;

    if (store_begin(a->store, STORE_WRITE, "noting acts", &tx, err) < 0)
        return -(int)err->code;
    for (size_t i = 0; i < b->count; i++) {
        if (i) /* the last one's next may be set while we write */
            w = w->next;
        if (audit_chain_add(a->secret, tx, &w->record, err) < 0)
            return -(int)err->code;
    }
    if (b->dropped && add_dropped(a, tx, b->dropped, err) < 0)
        return -(int)err->code;
    if (b->failed_at_ms && add_resumed(a, tx, b->failed_at_ms, err) < 0)
        return -(int)err->code;
    if (with_piggyback && b->piggyback.write(b->piggyback.ctx, tx, err) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

/* Events first: 0 when they are on disk, whatever became of the piggyback. */
static int write_both(struct audit *a, const struct batch *b,
                      struct error *err)
{
    struct error alone;
    int r = write_batch(a, b, b->piggyback.write != NULL, err);

    if (b->piggyback.write)
        b->piggyback.written(b->piggyback.ctx, r < 0 ? err : NULL);
    if (r < 0 && b->piggyback.write &&
        (b->count || b->dropped || b->failed_at_ms))
        r = write_batch(a, b, false, &alone);
    return r;
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
           !(enough == 1 && a->flush_soon) &&
           pthread_cond_timedwait(&a->wake, &a->lock, &until) == 0)
        continue;
}

static void lost(const struct batch *b, const struct error *err)
{
    char count[24];

    (void)snprintf(count, sizeof(count), "%llu",
                   (unsigned long long)b->dropped + b->count);
    log_event(LOG_ERROR, "audit_events_lost", "count", count, "error",
              err->message, NULL);
}

/* One batch, with the lock held but for the writing. */
static void step(struct audit *a)
{
    struct batch b = {.first = a->first,
                      .count = MIN(a->count, (size_t)BATCH),
                      .dropped = a->dropped,
                      .failed_at_ms = a->failing ? a->failed_at_ms : 0,
                      .piggyback = a->piggyback};
    struct error err = {0};
    uint32_t slots[BATCH];
    size_t slot_count = 0;
    int r;

    a->flush_soon = false;
    if (!b.count && !b.dropped && !b.piggyback.write)
        return;
    a->writing = true;
    (void)pthread_mutex_unlock(&a->lock);
    r = write_both(a, &b, &err);
    (void)pthread_mutex_lock(&a->lock);
    a->writing = false;
    (void)pthread_cond_broadcast(&a->idle);
    if (r < 0 && !a->stopping && store_writable(a->store)) {
        if (!a->failing) {
            log_event(LOG_WARN, "audit_events_wait", "error", err.message,
                      NULL);
            a->failed_at_ms = clock_real_ms();
        }
        a->failing = true;
        a->flush_soon = true;
        pause_ms(a, AGAIN_MS, SIZE_MAX);
        return;
    }
    a->failing = false;
    for (size_t i = 0; i < b.count; i++) {
        if (a->first->slot)
            slots[slot_count++] = a->first->slot;
        drop_first(a);
    }
    a->dropped -= b.dropped;
    if (r < 0 && b.count + b.dropped > 0)
        lost(&b, &err);
    if (r < 0 || !slot_count) /* the next start tells of what was lost */
        return;
    (void)pthread_mutex_unlock(&a->lock);
    audit_journal_release(a, slots, slot_count);
    (void)pthread_mutex_lock(&a->lock);
}

/* With the lock held but for the work. */
static void tick(struct audit *a)
{
    struct error err;

    if (clock_mono_ms() < a->tick_ms + TICK_MS || !store_writable(a->store))
        return;
    a->tick_ms = clock_mono_ms();
    (void)pthread_mutex_unlock(&a->lock);
    if (audit_sign_due(a, &err) < 0)
        log_event(LOG_WARN, "audit_not_signed", "error", err.message, NULL);
    (void)pthread_mutex_lock(&a->lock);
    a->flush_soon = true; /* the piggyback may have to look around, too */
}

static void *run(void *arg)
{
    struct audit *a = arg;

    (void)pthread_mutex_lock(&a->lock); /* fails only on misuse */
    a->tick_ms = clock_mono_ms();
    while (!a->stopping || a->count || a->dropped) {
        if (!a->count && !a->flush_soon && !a->dropped)
            pause_ms(a, TICK_MS, 1);
        if (a->count || a->flush_soon || a->dropped) {
            pause_ms(a, GATHER_MS, BATCH);
            step(a);
        }
        if (!a->stopping)
            tick(a);
    }
    (void)pthread_mutex_unlock(&a->lock);
    return NULL;
}

int audit_writer_start(struct audit *a, struct error *err)
{
    pthread_condattr_t attr;
    int r;

    (void)pthread_condattr_init(&attr); /* these cannot fail on Linux */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&a->wake, &attr);
    (void)pthread_cond_init(&a->idle, &attr);
    (void)pthread_condattr_destroy(&attr);
    r = pthread_create(&a->thread, NULL, run, a);
    if (r != 0) {
        (void)pthread_cond_destroy(&a->wake); /* nobody is waiting */
        (void)pthread_cond_destroy(&a->idle);
        return error_errno(err, ERR_INTERNAL, r, "cannot start a thread");
    }
    a->started = true;
    return 0;
}

void audit_writer_stop(struct audit *a)
{
    if (!a->started)
        return;
    (void)pthread_mutex_lock(&a->lock); /* fails only on misuse */
    a->stopping = true;
    (void)pthread_cond_signal(&a->wake);
    (void)pthread_mutex_unlock(&a->lock);
    (void)pthread_join(a->thread, NULL); /* it was started and not joined */
    (void)pthread_cond_destroy(&a->wake);
    (void)pthread_cond_destroy(&a->idle);
}

/* ---- for everybody ------------------------------------------------------ */

/* Those that had begun are no more than there are slots. */
void audit_end(struct audit *a, const struct actor *who,
               const struct audit_event *event, uint32_t begun)
{
    struct audit_queued *w = xcalloc(1, sizeof(*w));
    bool room;

    w->slot = begun;

    audit_record_init(&w->record, who, event);
    w->bytes = audit_record_bytes(&w->record);
    (void)pthread_mutex_lock(&a->lock); /* fails only on misuse */
    room = begun || (a->count < AUDIT_QUEUE_MAX &&
                     a->bytes + w->bytes <= AUDIT_QUEUE_BYTES);
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

void audit_later(struct audit *a, const struct actor *who,
                 const struct audit_event *event)
{
    audit_end(a, who, event, 0);
}

int audit_writable(struct audit *a, struct error *err)
{
    bool good;

    (void)pthread_mutex_lock(&a->lock); /* fails only on misuse */
    good = !a->failing && !a->dropped && a->count < AUDIT_QUEUE_FULL &&
           a->bytes < AUDIT_QUEUE_BYTES / 8 * 7;
    (void)pthread_mutex_unlock(&a->lock);
    if (good && store_writable(a->store))
        return 0;
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the audit trail cannot be written, so nothing may be "
                    "changed");
    if (!store_writable(a->store))
        return error_hint(err, "A sync of the disk has failed; the service "
                               "must be started anew.");
    (void)error_hint(err, "Looking at things goes on; try again once there is "
                          "room on the service's disk.");
    return error_retry(err, 1);
}

void audit_set_piggyback(struct audit *a,
                         const struct audit_piggyback *piggyback)
{
    (void)pthread_mutex_lock(&a->lock); /* fails only on misuse */
    a->piggyback =
        piggyback ? *piggyback : (struct audit_piggyback){.ctx = NULL};
    while (!piggyback && a->writing)
        (void)pthread_cond_wait(&a->idle, &a->lock);
    (void)pthread_mutex_unlock(&a->lock);
}

void audit_flush_soon(struct audit *a)
{
    (void)pthread_mutex_lock(&a->lock); /* fails only on misuse */
    if (!a->flush_soon && a->count == 0)
        (void)pthread_cond_signal(&a->wake);
    a->flush_soon = true;
    (void)pthread_mutex_unlock(&a->lock);
}
