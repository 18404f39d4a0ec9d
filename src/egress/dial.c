/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaching a destination: resolve once, judge every address, connect to one
 * that was judged, never resolve again (E2, E3). Numbers are judged the same
 * way. Runs in glovebox-egress.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "egress/egress_int.h"
#include "egress/host.h"

#define TRIED_MAX 4u

static void dial_finish(struct dial *d, int fd)
{
    d->over = true;
    d->on_done(d->ctx, fd);
}

static void dial_fail(struct dial *d, const char *why)
{
    (void)snprintf(d->why, sizeof(d->why), "%s", why);
    dial_finish(d, -1);
}

static void let_go(struct dial *d)
{
    if (d->fd < 0)
        return;
    egress_loop_watch(d->e, &d->watch, 0);
    fd_close(&d->fd);
}

static void on_connected(void *ctx, uint32_t events);

/* Tries the next checked address; each gets a share of the time. */
static void try_next(struct dial *d)
{
    size_t most = MIN(d->count, TRIED_MAX);

    while (d->at < most) {
        struct sockaddr_storage *a = &d->addresses[d->at++];
        bool v4 = a->ss_family == AF_INET;
        socklen_t len =
            v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

        if (v4)
            ((struct sockaddr_in *)a)->sin_port = htons(d->port);
        else
            ((struct sockaddr_in6 *)a)->sin6_port = htons(d->port);

        const void *bytes =
            a->ss_family == AF_INET
                ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
                : &((const struct sockaddr_in6 *)a)->sin6_addr;

        (void)inet_ntop(a->ss_family, bytes, d->address, sizeof(d->address));

        d->fd = socket(a->ss_family,
                       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (d->fd < 0)
            continue;
        d->deadline_ms =
            clock_mono_ms() + MAX(d->e->setup.connect_ms / most, 1u);
        if (connect(d->fd, (struct sockaddr *)a, len) < 0 &&
            errno != EINPROGRESS) {
            fd_close(&d->fd);
            continue;
        }
        d->watch =
            (struct watch){.fd = d->fd, .on_event = on_connected, .ctx = d};
        egress_loop_watch(d->e, &d->watch, EPOLLOUT);
        return;
    }
    dial_fail(d, "it could not be reached");
}

static void on_connected(void *ctx, uint32_t events)
{
    struct dial *d = ctx;
    socklen_t len = sizeof(int);
    int why = 0;

    (void)events;
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &why, &len) < 0 || why) {
        let_go(d);
        try_next(d);
        return;
    }
    egress_loop_watch(d->e, &d->watch, 0);
    dial_finish(d, take_fd(d->fd));
}

static void on_addresses(void *ctx, int status, const char *why,
                         const struct sockaddr_storage *addresses,
                         size_t count)
{
    struct dial *d = ctx;

    if (status == -EACCES) {
        d->forbidden = true;
        (void)snprintf(d->why, sizeof(d->why),
                       "its address is %s, which no session may reach", why);
        dial_finish(d, -1);
    } else if (status == -ENOENT) {
        dial_fail(d, "there is no such name");
    } else if (status < 0) {
        dial_fail(d, "its name could not be looked up");
    } else {
        memcpy(d->addresses, addresses, count * sizeof(*addresses));
        d->count = count;
        try_next(d);
    }
}

static void use_number(struct dial *d, const struct http_target *t)
{
    struct sockaddr_storage a = {0};
    const char *why = NULL;
    void *bytes;

    if (strchr(t->host, ':')) {
        a.ss_family = AF_INET6;
        bytes = &((struct sockaddr_in6 *)&a)->sin6_addr;
    } else {
        a.ss_family = AF_INET;
        bytes = &((struct sockaddr_in *)&a)->sin_addr;
    }
    if (inet_pton(a.ss_family, t->host, bytes) != 1)
        why = "none";
    else if (!d->any)
        why = egress_host_forbidden(a.ss_family, bytes, &d->e->setup);
    if (why)
        (void)snprintf(d->address, sizeof(d->address), "%.45s", t->host);
    on_addresses(d, why ? -EACCES : 0, why, &a, 1);
}

void egress_dial_start(struct dial *d, struct egress *e,
                       const struct http_target *t, bool any,
                       void (*on_done)(void *ctx, int fd), void *ctx)
{
    *d = (struct dial){.e = e,
                       .fd = -1,
                       .any = any,
                       .deadline_ms = clock_mono_ms() + e->setup.connect_ms,
                       .port = t->port,
                       .on_done = on_done,
                       .ctx = ctx};
    if (t->address)
        use_number(d, t);
    else
        egress_names_find(e->names, t->host, AF_UNSPEC, any, on_addresses, d,
                          &d->query);
}

void egress_dial_cancel(struct dial *d)
{
    if (!d->e || d->over)
        return;
    d->over = true;
    egress_names_cancel(d->query);
    d->query = NULL;
    let_go(d);
}

void egress_dial_tick(struct dial *d, uint64_t now_ms)
{
    if (!d->e || d->over || now_ms < d->deadline_ms)
        return;
    if (d->query) {
        egress_names_cancel(d->query);
        d->query = NULL;
        dial_fail(d, "its name could not be looked up in time");
        return;
    }
    let_go(d);
    try_next(d);
}
