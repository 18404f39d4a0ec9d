/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting: one epoll for every socket, and a tick for every deadline. Runs in
 * glovebox-egress. A connection or session that ended in an event is freed
 * only after the round, because another event of the same round may point at
 * it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "egress/egress_int.h"

#define EVENTS 256
#define TICK_MS 100

void egress_loop_watch(struct egress *e, struct watch *w, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};

    if (events == w->events && (w->added || !events))
        return;
    if (!events)
        (void)epoll_ctl(e->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    else
        (void)epoll_ctl(e->epoll, w->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
                        w->fd, &ev);
    w->added = events != 0;
    w->events = events;
}

void egress_loop_arm(struct egress *e)
{
    for (struct granted_session *g = e->guests; g; g = g->next)
        egress_grant_arm(g);
}

static void free_dead(struct egress *e)
{
    struct conn **at = &e->conns;
    bool freed = false;

    while (*at) {
        struct conn *c = *at;

        if (c->state != CONN_DEAD) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        egress_conn_free(c);
        freed = true;
    }
    for (struct granted_session *g; (g = e->gone);) {
        e->gone = g->next;
        free(g);
    }
    if (freed)
        egress_loop_arm(e);
}

int egress_loop_run(struct egress *e)
{
    uint64_t next = clock_mono_ms() + TICK_MS;

    while (!e->stop) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(e->epoll, events, EVENTS, clock_left_ms(next));

        if (n < 0 && errno != EINTR)
            return -errno;
        for (int i = 0; i < n && !e->stop; i++) {
            struct watch *w = events[i].data.ptr;

            /* It may have been let go of earlier in this round. */
            if (w->added)
                w->on_event(w->ctx, events[i].events);
        }
        if (clock_left_ms(next) == 0) {
            uint64_t now = clock_mono_ms();

            if (e->names)
                egress_names_tick(e->names);
            egress_lookup_tick(e, now);
            for (struct conn *c = e->conns; c; c = c->next)
                if (c->state != CONN_DEAD)
                    egress_conn_tick(c, now);

            next = clock_mono_ms() + TICK_MS;
        }
        free_dead(e);
    }
    return 0;
}
