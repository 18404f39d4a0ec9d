/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of one execution. One thread appends them; any number of threads
 * read them at any time. Runs in gloveboxd. Bytes are copied once into chunks
 * that never move, so a reader may keep a pointer as long as it keeps its
 * reference to the execution. Watchers are called without any lock held,
 * because resuming a stream takes locks of the HTTP library.
 */
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define CHUNK_FIRST 448u
#define CHUNK_MOST 65536u
#define EVENTS_FIRST 8u

struct event_chunk {
    struct event_chunk *next;
    size_t used;
    size_t size;
    char data[];
};

/* Room for len bytes. What does not fit gets a chunk of its own size, and the
 * started one stays in front for the next small event. */
static char *reserve(struct execution *e, size_t len)
{
    struct event_chunk *head = e->chunks;
    struct event_chunk *c;
    size_t size;

    if (head && head->size - head->used >= len) {
        char *at = head->data + head->used;

        head->used += len;
        return at;
    }
    size = head ? MIN(head->size * 2, CHUNK_MOST) : CHUNK_FIRST;
    if (len > size / 2)
        size = len;
    c = xmalloc(sizeof(*c) + size);
    c->size = size;
    c->used = len;
    e->event_bytes += sizeof(*c) + size;
    if (head && size == len) {
        c->next = head->next;
        head->next = c;
    } else {
        c->next = head;
        e->chunks = c;
    }
    return c->data;
}

void session_events_append(struct execution *e, enum exec_event_type type,
                           const void *data, size_t len)
{
    struct exec_event *event;

    if (e->event_count == e->event_cap) {
        uint32_t cap = e->event_cap ? e->event_cap * 2 : EVENTS_FIRST;

        e->events = xrealloc(e->events, cap * sizeof(*e->events));
        e->event_bytes += (cap - e->event_cap) * sizeof(*e->events);
        e->event_cap = cap;
    }
    event = &e->events[e->event_count];
    event->number = ++e->event_count;
    event->type = type;
    event->len = len;
    event->data = "";
    if (len) {
        char *at = reserve(e, len);

        memcpy(at, data, len);
        event->data = at;
    }
}

/* The next watcher with something to see, marked as being called. */
static struct watcher *next_due(struct execution *e)
{
    for (struct watcher *w = e->watchers; w; w = w->next)
        if (!w->firing && w->after < e->event_count) {
            w->firing = true;
            return w;
        }
    return NULL;
}

static void drop_watcher(struct execution *e, struct watcher *w)
{
    struct watcher **at = &e->watchers;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    free(w);
}

void session_events_fire(struct execution *e)
{
    struct watcher *w;

    mutex_lock(&e->lock);
    while ((w = next_due(e))) {
        mutex_unlock(&e->lock);
        w->fn(w->ctx);
        mutex_lock(&e->lock);
        drop_watcher(e, w);
        cond_broadcast(&e->fired);
    }
    mutex_unlock(&e->lock);
}

void session_events_add(struct execution *e, enum exec_event_type type,
                        const void *data, size_t len)
{
    bool watched;

    mutex_lock(&e->lock);
    session_events_append(e, type, data, len);
    watched = e->watchers != NULL;
    mutex_unlock(&e->lock);
    if (watched)
        session_events_fire(e);
}

void session_events_done(struct execution *e)
{
    struct event_chunk *next;

    for (struct event_chunk *c = e->chunks; c; c = next) {
        next = c->next;
        free(c);
    }
    free(e->events);
    while (e->watchers)
        drop_watcher(e, e->watchers);
}

bool execution_event(struct execution *e, uint32_t after,
                     struct exec_event *ret)
{
    bool there;

    mutex_lock(&e->lock);
    there = after < e->event_count;
    if (there)
        *ret = e->events[after];
    mutex_unlock(&e->lock);
    return there;
}

uint64_t execution_watch(struct execution *e, uint32_t after,
                         void (*fn)(void *ctx), void *ctx)
{
    uint64_t handle = 0;

    mutex_lock(&e->lock);
    if (after >= e->event_count) {
        struct watcher *w = xcalloc(1, sizeof(*w));

        handle = ++e->next_handle;
        *w = (struct watcher){.next = e->watchers,
                              .handle = handle,
                              .after = after,
                              .fn = fn,
                              .ctx = ctx};
        e->watchers = w;
    }
    mutex_unlock(&e->lock);
    if (!handle)
        fn(ctx);
    return handle;
}

static struct watcher *find_watcher(struct execution *e, uint64_t handle)
{
    struct watcher *w = e->watchers;

    while (w && w->handle != handle)
        w = w->next;
    return w;
}

void execution_unwatch(struct execution *e, uint64_t handle)
{
    struct watcher *w;

    if (!handle)
        return;
    mutex_lock(&e->lock);
    while ((w = find_watcher(e, handle)) && w->firing)
        cond_wait(&e->fired, &e->lock);
    if (w)
        drop_watcher(e, w);
    mutex_unlock(&e->lock);
}
