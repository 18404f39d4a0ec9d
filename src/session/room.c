/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for short executions (X4). While one tenant's sessions are calm
 * (calm.c) and another runs something, the calm ones are kept off a processor
 * of that one's, so that it finds it free of work that the kernel would not
 * interrupt. When nobody has run anything short for a moment, the calm have
 * all of the machine again, as has a tenant that is alone. Runs in gloveboxd:
 * whoever begins an execution asks, a thread of its own tells the warden, so
 * that nobody waits for it.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session_int.h"
#include "warden/call.h"

#define KEEP_MS 500u /* after the last short execution */

struct room {
    pthread_mutex_t lock; /* a leaf: only for waiting */
    pthread_cond_t changed;
    pthread_t thread;
    _Atomic uint64_t until_ms;
    atomic_uint slot; /* who asked for it */
    atomic_bool on;   /* as the warden was last told */
    bool stop;
};

void session_room_want(struct tenant *t, const struct box *b)
{
    struct room *room = t->m->room;

    /* Only where calm ones are, and they are somebody else's. */
    if (atomic_load(&t->m->calm) <= atomic_load(&t->calm))
        return;
    atomic_store(&room->until_ms, clock_mono_ms() + KEEP_MS);
    if (atomic_load(&room->on))
        return;
    atomic_store(&room->slot, b->slot);
    pthread_mutex_lock(&room->lock);
    (void)pthread_cond_signal(&room->changed);
    pthread_mutex_unlock(&room->lock);
}

static void tell(struct sessions *m, bool on)
{
    struct error err;

    if (warden_call_room(m->link, on, atomic_load(&m->room->slot), &err) < 0)
        log_event(LOG_DEBUG, "room_failed", "error", err.message, NULL);
    atomic_store(&m->room->on, on);
}

static void *keep_room(void *arg)
{
    struct sessions *m = arg;
    struct room *room = m->room;

    pthread_mutex_lock(&room->lock);
    while (!room->stop) {
        uint64_t until = atomic_load(&room->until_ms);
        bool on = atomic_load(&room->on);
        bool want = clock_left_ms(until) > 0;

        if (want != on) {
            pthread_mutex_unlock(&room->lock);
            tell(m, want);
            pthread_mutex_lock(&room->lock);
        } else if (want) {
            (void)session_cond_wait(&room->changed, &room->lock, until);
        } else {
            (void)pthread_cond_wait(&room->changed, &room->lock);
        }
    }
    pthread_mutex_unlock(&room->lock);
    return NULL;
}

int session_room_start(struct sessions *m, struct error *err)
{
    struct room *room = xcalloc(1, sizeof(*room));
    int r;

    (void)pthread_mutex_init(&room->lock, NULL); /* cannot fail on Linux */
    session_cond_init(&room->changed);
    m->room = room;
    r = pthread_create(&room->thread, NULL, keep_room, m);
    if (r == 0)
        return 0;
    m->room = NULL;
    free(room);
    return error_errno(err, ERR_INTERNAL, r, "cannot start a thread");
}

void session_room_stop(struct sessions *m)
{
    struct room *room = m->room;

    if (!room)
        return;
    pthread_mutex_lock(&room->lock);
    room->stop = true;
    (void)pthread_cond_signal(&room->changed);
    pthread_mutex_unlock(&room->lock);
    (void)pthread_join(room->thread, NULL);
    (void)pthread_mutex_destroy(&room->lock);
    (void)pthread_cond_destroy(&room->changed);
    free(room);
    m->room = NULL;
}
