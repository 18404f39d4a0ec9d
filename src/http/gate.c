/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate between a connection and libmicrohttpd. libmicrohttpd is linked
 * with its calls of recv and gnutls_record_recv redirected to this file (see
 * the Makefile), so every byte of a client, over TLS or not, passes the
 * strict parser first (strict.c). libmicrohttpd sees only bytes of
 * well-formed messages and never the end of a malformed head, so it neither
 * acts on one nor answers it with a page of its own.
 *
 * A malformed message is answered here, once, after the answers to whatever
 * came before it on the connection. Then our side is closed, and what the
 * client still sends is read and dropped for a while: closing at once would
 * make the kernel discard the answer together with the unread bytes.
 *
 * libmicrohttpd calls all of this on its event thread.
 */
#include "http/http_int.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#define LINGER_BYTES ((uint64_t)1 << 20)
#define DROPS_AT_ONCE 64 /* reads, before others have their turn */

/* The server whose event thread this is. */
static _Thread_local struct http_server *my_server;

/* ---- finding the connection --------------------------------------------- */

void http_gate_open(struct http_server *server, struct http_conn *conn)
{
    size_t at = (size_t)conn->fd;

    my_server = server;
    http_strict_init(&conn->strict);
    if (conn->fd < 0)
        return;
    if (at >= server->by_fd_size) {
        size_t size = (at + 1) * 2;

        server->by_fd =
            xrealloc(server->by_fd, size * sizeof(struct http_conn *));
        memset(server->by_fd + server->by_fd_size, 0,
               (size - server->by_fd_size) * sizeof(struct http_conn *));
        server->by_fd_size = size;
    }
    server->by_fd[at] = conn;
}

void http_gate_close(struct http_server *server, struct http_conn *conn)
{
    if (conn->fd >= 0 && server->by_fd[conn->fd] == conn)
        server->by_fd[conn->fd] = NULL;
}

static struct http_conn *conn_of_fd(int fd)
{
    if (!my_server || fd < 0 || (size_t)fd >= my_server->by_fd_size)
        return NULL;
    return my_server->by_fd[fd];
}

/* ---- refusing ----------------------------------------------------------- */

static void send_refusal(struct http_conn *conn)
{
    struct buf answer cleanup(buf_done) = {0};
    struct error err;
    char id[ID_MAX];

    ids_make("req", id);
    (void)error_set(&err, ERR_INVALID, "%s", conn->strict.why);
    http_respond_bytes(conn->strict.status, id, &err, &answer);
    log_event(LOG_DEBUG, "request_refused", "id", id, "source", conn->source,
              "why", conn->strict.why, NULL);
    my_server->classes[conn->strict.status / 100 % 6]++;
    /* A client that reads nothing misses it; the connection ends anyway. */
    if (conn->tls)
        (void)http_tls_send(conn->tls, answer.data, answer.len);
    else
        (void)!send(conn->fd, answer.data, answer.len,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Ends a request whose body is malformed: its handler gets no more bytes and
 * must not answer. Returns whether no answer was sent so far. */
static bool abandon_request(struct http_request *req)
{
    bool silent;

    mutex_lock(&req->lock);
    silent = req->early_sent == 0 && !req->queued;
    req->gone = true;
    req->early_done = true;
    cond_broadcast(&req->more);
    mutex_unlock(&req->lock);
    return silent;
}

void http_gate_settle(struct http_server *server, struct http_conn *conn)
{
    bool in_message = http_strict_in_message(&conn->strict);
    unsigned before = conn->strict.heads - in_message;
    bool silent = true;

    if (!conn->strict.status || conn->refused_ms || conn->done < before)
        return;
    mutex_lock(&server->lock);
    conn->refused_ms = clock_mono_ms();
    mutex_unlock(&server->lock);
    if (in_message && conn->req)
        silent = abandon_request(conn->req);
    if (silent)
        send_refusal(conn);
    if (conn->tls)
        http_tls_end(conn->tls);
    (void)shutdown(conn->fd, SHUT_WR); /* the client may have left */
}

bool http_gate_admits(const struct http_conn *conn)
{
    return !conn->refused_ms && conn->done < conn->strict.heads;
}

bool http_gate_over(const struct http_conn *conn, uint64_t now_ms)
{
    return conn->refused_ms && now_ms > conn->refused_ms + HTTP_LINGER_MS;
}

/* ---- reading ------------------------------------------------------------ */

/* How many of the bytes read libmicrohttpd may see. */
static size_t admit_bytes(struct http_conn *conn, const char *bytes,
                          size_t len)
{
    size_t good;

    if (conn->strict.status) {
        conn->drained += len;
        return 0;
    }
    good = http_strict_feed(&conn->strict, bytes, len);
    conn->drained += len - good;
    http_gate_settle(my_server, conn);
    return conn->refused_ms ? 0 : good;
}

/* Like recv, but returns only well-formed bytes; *ret_wait: none now. */
static ssize_t receive_filtered(struct http_conn *conn, void *bytes,
                                size_t len, int flags, bool *ret_wait)
{
    *ret_wait = false;
    for (int i = 0; i < DROPS_AT_ONCE; i++) {
        ssize_t n = conn->tls ? gnutls_record_recv(conn->tls, bytes, len)
                              : recv(conn->fd, bytes, len, flags);

        if (n <= 0)
            return n;
        conn->quiet = 0;
        n = (ssize_t)admit_bytes(conn, bytes, (size_t)n);
        if (n > 0)
            return n;
        if (conn->drained > LINGER_BYTES)
            return 0; /* as if the client had closed */
    }
    *ret_wait = true;
    return -1;
}

ssize_t http_gate_recv(int fd, void *bytes, size_t len, int flags)
{
    struct http_conn *conn = conn_of_fd(fd);
    bool wait;
    ssize_t n;

    if (!conn) { /* never read what the gate does not know */
        errno = ECONNRESET;
        return -1;
    }
    n = receive_filtered(conn, bytes, len, flags, &wait);
    if (wait)
        errno = EAGAIN;
    return n;
}

ssize_t http_gate_tls_recv(void *session, void *bytes, size_t len)
{
    struct http_conn *conn = conn_of_fd(gnutls_transport_get_int(session));
    bool wait;
    ssize_t n;

    if (!conn || conn->tls != session)
        return GNUTLS_E_INVALID_SESSION;
    n = receive_filtered(conn, bytes, len, 0, &wait);
    return wait ? GNUTLS_E_AGAIN : n;
}
