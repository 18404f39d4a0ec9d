/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications and who listens to them; see store.h. Runs in the daemon. An
 * engine with its own notifications calls store_notify_deliver from its
 * thread. For the others one thread of this file delivers them; it starts with
 * the first listener.
 *
 * A transaction's notes are kept with it and handed over after its commit, so
 * that none is delivered of a transaction that was rolled back.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/store_int.h"

struct store_note {
    struct store_note *next;
    char channel[STORE_CHANNEL_MAX + 1];
    char payload[]; /* with NUL */
};

struct store_notices {
    /* Held while a listener runs, so that it can be removed. */
    struct mutex listeners_lock;
    struct store_listener *listeners;
    /* Without the engine's own notifications. */
    struct worker worker;
    _Atomic bool working; /* the worker was started: there was a listener */
    struct mutex lock;    /* guards what follows */
    struct store_note *notes, **last;
};

void store_notify_init(struct store *s)
{
    struct store_notices *n = s->notices = xcalloc(1, sizeof(*n));

    mutex_init(&n->listeners_lock);
    mutex_init(&n->lock);
    worker_init(&n->worker);
    n->last = &n->notes;
}

void store_notify_done(struct store *s)
{
    struct store_notices *n = take_ptr(s->notices);

    if (!n)
        return;
    worker_stop(&n->worker);
    worker_done(&n->worker);
    store_notify_drop(n->notes);
    mutex_done(&n->lock);
    mutex_done(&n->listeners_lock);
    free(n);
}

/* ---- sending ------------------------------------------------------------ */

static bool fits_channel(const char *channel)
{
    size_t len = strspn(channel, "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_.");

    return len > 0 && len <= STORE_CHANNEL_MAX && !channel[len];
}

int store_notify(struct store_tx *tx, const char *channel, const char *payload,
                 struct error *err)
{
    size_t size = strlen(payload) + 1;
    struct store_note **end = &tx->notes;
    struct store_note *note;

    if (!fits_channel(channel) || size > STORE_PAYLOAD_MAX + 1)
        return error_set(err, ERR_INTERNAL,
                         "a notification is larger than %d bytes, or its "
                         "channel has no proper name",
                         STORE_PAYLOAD_MAX);
    if (tx->engine->notify)
        return tx->engine->notify(tx, channel, payload, err);
    note = xcalloc(1, sizeof(*note) + size);
    memcpy(note->channel, channel, strlen(channel) + 1);
    memcpy(note->payload, payload, size);
    while (*end)
        end = &(*end)->next;
    *end = note;
    return 0;
}

void store_notify_drop(struct store_note *notes)
{
    while (notes) {
        struct store_note *next = notes->next;

        free(notes);
        notes = next;
    }
}

void store_notify_committed(struct store *s, struct store_note *notes)
{
    struct store_notices *n = s->notices;

    if (!n->working) {
        store_notify_drop(notes);
        return;
    }
    mutex_lock(&n->lock);
    *n->last = notes;
    while (*n->last)
        n->last = &(*n->last)->next;
    mutex_unlock(&n->lock);
    worker_wake(&n->worker);
}

/* ---- delivering --------------------------------------------------------- */

void store_notify_deliver(struct store *s, const char *channel,
                          const char *payload)
{
    struct store_notices *n = s->notices;

    mutex_lock(&n->listeners_lock);
    for (struct store_listener *l = n->listeners; l; l = l->next)
        if (!payload || strcmp(l->channel, channel) == 0)
            l->on_notice(l->ctx, payload);
    mutex_unlock(&n->listeners_lock);
}

static struct store_note *take_note(struct store_notices *n)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&n->lock);
    struct store_note *note = n->notes;

    if (!note)
        return NULL;
    n->notes = note->next;
    if (!n->notes)
        n->last = &n->notes;
    note->next = NULL;
    return note;
}

static void store_notify_main(void *arg)
{
    struct store *s = arg;

    while (worker_wait(&s->notices->worker, 60000)) {
        struct store_note *note;

        while ((note = take_note(s->notices))) {
            store_notify_deliver(s, note->channel, note->payload);
            free(note);
        }
    }
}

/* ---- listening ---------------------------------------------------------- */

int store_listen(struct store *s, struct store_listener *l, struct error *err)
{
    struct store_notices *n = s->notices;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&n->listeners_lock);

    if (!s->engine->notify && !n->working) {
        if (worker_start(&n->worker, "store-notify", store_notify_main, s,
                         err) < 0)
            return -(int)err->code;
        n->working = true;
    }
    l->next = n->listeners;
    n->listeners = l;
    return 0;
}

void store_unlisten(struct store *s, struct store_listener *l)
{
    struct store_notices *n = s->notices;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&n->listeners_lock);
    struct store_listener **at = &n->listeners;

    while (*at && *at != l)
        at = &(*at)->next;
    if (*at)
        *at = l->next;
}
