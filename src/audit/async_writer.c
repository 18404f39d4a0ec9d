/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit writer: a bounded queue of events that need not be on disk before
 * their request is answered, and one thread that writes them in batches, one
 * transaction each; see audit_int.h. Runs in the daemon.
 *
 * A write that fails is tried again while the queue has room; events that are
 * lost in the end are counted and logged. The rows of another module may be
 * written in the same transaction (struct audit_piggyback). They never hold
 * events up: if a transaction with both fails, the events are written alone.
 */
#include <stdio.h>

#include "audit/audit_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#define GATHER_MS 100 /* wait, so that events of one moment share a sync */
#define RETRY_MS 1000 /* wait after a write that failed */
#define SIGN_MS                                                               \
    60000u /* between checks for chains that are due a checkpoint */
#define BATCH 256u

/* ---- the queue ---------------------------------------------------------- */

static void queue_drop_first(struct audit *a)
{
    struct audit_queued *w = a->first;

    mutex_assert_held(&a->lock);
    a->first = w->next;
    if (!a->first)
        a->end = &a->first;
    a->count--;
    a->bytes -= w->bytes;
    audit_record_done(&w->record);
    free(w);
}

/* ---- a batch ------------------------------------------------------------
 * The writer's thread takes and finishes a batch with the lock held, and
 * writes it without the lock. Only this thread removes events, so the first
 * `count` of the queue stay in place meanwhile. */

struct batch {
    const struct audit_queued *first;
    size_t count;
    uint64_t dropped;     /* events for which the queue had no room */
    int64_t failed_at_ms; /* when writes began to fail; 0: the last one did not
                           */
    struct audit_piggyback piggyback;
};

static bool has_work(const struct audit *a)
{
    mutex_assert_held(&a->lock);
    return a->count || a->dropped || a->flush_soon;
}

static bool is_empty(const struct batch *b)
{
    return !b->count && !b->dropped && !b->piggyback.write;
}

/* Waits until there is work or a checkpoint may be due. False: the service
 * stops and the queue is empty. */
static bool wait_for_batch(struct audit *a, struct batch *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    uint64_t deadline = clock_mono_ms() + SIGN_MS;

    if (a->stopping && !a->count && !a->dropped)
        return false;
    while (!a->stopping && !has_work(a) &&
           cond_wait_until(&a->wake, held, deadline))
        ;
    deadline = clock_mono_ms() + GATHER_MS;
    while (!a->stopping && has_work(a) && a->count < BATCH &&
           cond_wait_until(&a->wake, held, deadline))
        ;
    *ret = (struct batch){.first = a->first,
                          .count = MIN(a->count, (size_t)BATCH),
                          .dropped = a->dropped,
                          .failed_at_ms = a->failing ? a->failed_at_ms : 0};
    if (has_work(a))
        ret->piggyback = a->piggyback;
    a->flush_soon = false;
    a->writing = !is_empty(ret);
    return true;
}

/* One transaction. */
static int write_batch(struct audit *a, const struct batch *b,
                       bool with_piggyback, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    const struct audit_queued *w = b->first;
    char detail[96];

    if (store_begin(a->store, STORE_WRITE, "noting acts", &tx, err) < 0)
        return -(int)err->code;
    for (size_t i = 0; i < b->count; i++) {
        if (i) /* the last event's next may be set while we write */
            w = w->next;
        if (audit_chain_add(a->secret, tx, &w->record, err) < 0)
            return -(int)err->code;
    }
    if (b->dropped) {
        const struct audit_event event = {
            .action = "audit.dropped", .result = "limit", .detail = detail};

        (void)snprintf(detail, sizeof(detail),
                       "%llu events were not kept: there were too many at "
                       "once",
                       (unsigned long long)b->dropped);
        if (audit_add(a, tx, NULL, &event, err) < 0)
            return -(int)err->code;
    }
    if (b->failed_at_ms) {
        const struct audit_event event = {.action = "audit.resumed",
                                          .detail = detail};

        (void)snprintf(detail, sizeof(detail),
                       "events could not be written for %lld seconds",
                       (long long)(clock_real_ms() - b->failed_at_ms + 999) /
                           1000);
        if (audit_add(a, tx, NULL, &event, err) < 0)
            return -(int)err->code;
    }
    if (with_piggyback && b->piggyback.write(b->piggyback.ctx, tx, err) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

/* 0 when the events are on disk, even if the piggyback's rows are not. */
static int write_events_first(struct audit *a, const struct batch *b,
                              struct error *err)
{
    bool with_piggyback = b->piggyback.write != NULL;
    bool has_events = b->count || b->dropped || b->failed_at_ms;
    struct error alone;
    int r = write_batch(a, b, with_piggyback, err);

    if (with_piggyback)
        b->piggyback.written(b->piggyback.ctx, r < 0 ? err : NULL);
    if (r < 0 && with_piggyback && has_events)
        r = write_batch(a, b, false, &alone);
    return r;
}

/* Removes the batch from the queue, or leaves it there for another try after a
 * pause. err NULL: the batch is on disk. */
static void finish_batch(struct audit *a, const struct batch *b,
                         const struct error *err)
{
    bool retry = err && !a->stopping && store_writable(a->store);
    uint64_t deadline = clock_mono_ms() + RETRY_MS;
    uint32_t slots[BATCH];
    size_t slot_count = 0;
    char lost[24];

    mutex_lock(&a->lock);
    a->writing = false;
    cond_broadcast(&a->idle);
    if (retry) {
        if (!a->failing) {
            log_event(LOG_WARN, "audit_events_wait", "error", err->message,
                      NULL);
            a->failed_at_ms = clock_real_ms();
        }
        a->failing = true;
        a->flush_soon = true;
        while (!a->stopping && cond_wait_until(&a->wake, &a->lock, deadline))
            ;
    } else {
        a->failing = false;
        for (size_t i = 0; i < b->count; i++) {
            if (a->first->slot)
                slots[slot_count++] = a->first->slot;
            queue_drop_first(a);
        }
        a->dropped -= b->dropped;
    }
    mutex_unlock(&a->lock);
    if (err && !retry && b->count + b->dropped > 0) {
        (void)snprintf(lost, sizeof(lost), "%llu",
                       (unsigned long long)b->dropped + b->count);
        log_event(LOG_ERROR, "audit_events_lost", "count", lost, "error",
                  err->message, NULL);
    }
    /* The journal keeps lost events: the next start reports them. */
    if (!err && slot_count)
        audit_journal_release(a, slots, slot_count);
}

/* ---- the thread --------------------------------------------------------- */

static void audit_writer_main(void *arg)
{
    struct audit *a = arg;
    uint64_t sign_ms = clock_mono_ms() + SIGN_MS;
    struct error err = {0};
    struct batch b;

    while (wait_for_batch(a, &b)) {
        if (!is_empty(&b)) {
            int r = write_events_first(a, &b, &err);

            finish_batch(a, &b, r < 0 ? &err : NULL);
            audit_announce(a);
        }
        if (a->stopping || clock_mono_ms() < sign_ms ||
            !store_writable(a->store))
            continue;
        sign_ms = clock_mono_ms() + SIGN_MS;
        if (audit_sign_due(a, &err) < 0)
            log_event(LOG_WARN, "audit_not_signed", "error", err.message,
                      NULL);
        audit_flush_soon(a); /* the piggyback has periodic work, too */
    }
}

int audit_writer_start(struct audit *a, struct error *err)
{
    cond_init(&a->wake);
    cond_init(&a->idle);
    return thread_start(&a->writer, "audit-writer", audit_writer_main, a, err);
}

void audit_writer_stop(struct audit *a)
{
    if (!a->writer.started)
        return;
    mutex_lock(&a->lock);
    a->stopping = true;
    cond_signal(&a->wake);
    mutex_unlock(&a->lock);
    thread_join(&a->writer);
    cond_done(&a->wake);
    cond_done(&a->idle);
}

/* ---- for all threads ---------------------------------------------------- */

/* An event with a slot of the journal is never dropped; there are no more of
 * them than slots. */
void audit_end(struct audit *a, const struct actor *who,
               const struct audit_event *event, uint32_t begun)
{
    struct audit_queued *w = xcalloc(1, sizeof(*w));
    bool room;

    w->slot = begun;
    audit_record_init(&w->record, who, event);
    w->bytes = audit_record_bytes(&w->record);
    mutex_lock(&a->lock);
    room = begun || (a->count < AUDIT_QUEUE_MAX &&
                     a->bytes + w->bytes <= AUDIT_QUEUE_BYTES);
    if (room) {
        mutex_assert_held(&a->lock);
        *a->end = w;
        a->end = &w->next;
        a->count++;
        a->bytes += w->bytes;

        if (a->count == 1 || a->count == BATCH)
            cond_signal(&a->wake);
    } else {
        a->dropped++;
    }
    mutex_unlock(&a->lock);
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

    mutex_lock(&a->lock);
    good = !a->failing && !a->dropped && a->count < AUDIT_QUEUE_FULL &&
           a->bytes < AUDIT_QUEUE_BYTES / 8 * 7;
    mutex_unlock(&a->lock);
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
    mutex_lock(&a->lock);
    a->piggyback =
        piggyback ? *piggyback : (struct audit_piggyback){.ctx = NULL};
    while (!piggyback && a->writing)
        cond_wait(&a->idle, &a->lock);
    mutex_unlock(&a->lock);
}

void audit_flush_soon(struct audit *a)
{
    mutex_lock(&a->lock);
    if (!a->flush_soon && a->count == 0)
        cond_signal(&a->wake);
    a->flush_soon = true;
    mutex_unlock(&a->lock);
}
