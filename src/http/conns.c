/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits the number of connections and selects the one to close for a new one
 * (H2). A connection is a stranger until a request on it has authenticated.
 * Strangers share a quarter of all connections, and one source half of that
 * quarter. When a share is full, its oldest stranger is closed to admit the
 * new one, so silent connections never keep out a client with a valid key,
 * not even one behind the same proxy.
 *
 * A stranger whose request waits for a worker or is being handled is not
 * closed: it may be about to authenticate, and it takes no longer than the
 * workers do. Trusted connections are closed only for other trusted ones, and
 * only while no request is under way.
 */
#include "http/http_int.h"

#include <sys/socket.h>

#include "base/mem.h"
#include "base/thread.h"

/* ---- lists -------------------------------------------------------------- */

static void unlink_conn(struct http_conn *c)
{
    *(c->prev ? &c->prev->next : &c->list->first) = c->next;
    *(c->next ? &c->next->prev : &c->list->last) = c->prev;
    c->list->count--;
    c->prev = c->next = NULL;
    c->list = NULL;
}

static void append_conn(struct http_conns *list, struct http_conn *c)
{
    c->list = list;
    c->next = NULL;
    c->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = c;
    list->last = c;
    list->count++;
}

static void move_conn(struct http_server *server, struct http_conn *c,
                      struct http_conns *to)
{
    if (c->list == &server->strangers)
        server->strangers_of[c->peer]--;
    unlink_conn(c);
    append_conn(to, c);
    if (to == &server->strangers)
        server->strangers_of[c->peer]++;
}

/* ---- closing ------------------------------------------------------------ */

/* The event thread sees the end of the socket and cleans up. A connection
 * that is suspended sees nothing until it is resumed. */
static void evict_conn(struct http_server *server, struct http_conn *c)
{
    move_conn(server, c, &server->leaving);
    (void)shutdown(c->fd, SHUT_RDWR); /* it may have left by itself */
    if (!c->req)
        return;
    mutex_lock(&c->req->lock);
    c->req->held = false;
    c->req->let_in = true;
    c->req->delay = false;
    c->req->delayed_ms = 0;
    c->req->lingered = true;
    c->req->linger_ms = 0;
    http_request_resume(c->req);
    mutex_unlock(&c->req->lock);
}

/* The oldest stranger of a source, or of any, that may be closed. One that
 * said nothing yet goes before one that has its answer. */
static struct http_conn *oldest_stranger(const struct http_server *server,
                                         const struct http_conn *like)
{
    struct http_conn *answered = NULL;

    for (struct http_conn *c = server->strangers.first; c; c = c->next) {
        if (like && c->peer != like->peer)
            continue;
        if (!c->req || !c->req->dispatched)
            return c;
        if (answered)
            continue;
        /* Not one that a worker handles or will handle. */
        mutex_lock(&c->req->lock);
        if (c->req->answered)
            answered = c;
        mutex_unlock(&c->req->lock);
    }
    return answered;
}

void http_conns_add(struct http_server *server, struct http_conn *conn)
{
    struct http_conn *victim = NULL;

    if (server->strangers_of[conn->peer] >= server->strangers_of_max)
        victim = oldest_stranger(server, conn);
    else if (server->strangers.count >= server->strangers_max)
        victim = oldest_stranger(server, NULL);
    if (victim)
        evict_conn(server, victim);
    append_conn(&server->strangers, conn);
    server->strangers_of[conn->peer]++;
}

void http_conns_remove(struct http_server *server, struct http_conn *conn)
{
    if (conn->list == &server->strangers)
        server->strangers_of[conn->peer]--;
    unlink_conn(conn);
}

void http_conns_used(struct http_conn *conn)
{
    struct http_conns *list = conn->list;

    unlink_conn(conn);
    append_conn(list, conn);
}

/* ---- trusting ----------------------------------------------------------- */

/* Makes room by closing the trusted connection that is idle for longest. */
static bool make_trusted_room(struct http_server *server)
{
    if (server->trusted.count < server->trusted_max)
        return true;
    for (struct http_conn *c = server->trusted.first; c; c = c->next)
        if (!c->req) {
            evict_conn(server, c);
            return true;
        }
    return false;
}

void http_trust(struct http_request *req)
{
    struct http_server *server = req->server;

    if (req->trusted)
        return;
    mutex_lock(&server->lock);
    if (req->conn && req->conn->list == &server->strangers &&
        make_trusted_room(server)) {
        move_conn(server, req->conn, &server->trusted);
        req->trusted = true;
    }
    mutex_unlock(&server->lock);
}

/* A sixteenth is left for those that are being closed. */
void http_conns_set_limits(struct http_server *server)
{
    unsigned all = server->settings.connections;

    server->strangers_max = MAX(all / 4, MIN(4u, all / 2));
    server->strangers_of_max = MAX(server->strangers_max / 2, 2u);
    server->trusted_max = all - server->strangers_max - MAX(all / 16, 1u);
}
