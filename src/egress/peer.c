/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a connection: bytes in and out, in the clear or by TLS, never
 * waiting and never holding more than its bounds. TLS works on memory, so
 * that bytes looked at before it began still reach it. Runs in
 * glovebox-egress.
 */
#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"
#include "egress/egress_int.h"

#define CHUNK 16384u

void egress_peer_init(struct peer *p, int fd)
{
    *p = (struct peer){.fd = fd, .ready = true};
    p->watch.fd = fd;
}

void egress_peer_done(struct peer *p)
{
    SSL_free(take_ptr(p->ssl));
    fd_close(&p->fd);
    if (p->in.data) /* may have held a secret */
        explicit_bzero(p->in.data, p->in.cap);
    if (p->out.data)
        explicit_bzero(p->out.data, p->out.cap);
    buf_done(&p->in);
    buf_done(&p->out);
}

/* Moves what TLS wants to send to the socket. */
static void peer_drain(struct peer *p)
{
    char bytes[CHUNK];
    int n;

    while (p->ssl && (n = BIO_read(p->raw_out, bytes, sizeof(bytes))) > 0)
        buf_add(&p->out, bytes, (size_t)n);
}

static void peer_decrypt(struct peer *p)
{
    char bytes[CHUNK];
    int n = 1;

    ERR_clear_error();
    if (!p->ready) {
        n = SSL_do_handshake(p->ssl);
        p->ready = n == 1;
    }
    while (p->ready && n > 0) {
        n = SSL_read(p->ssl, bytes, sizeof(bytes));
        if (n > 0)
            buf_add(&p->in, bytes, (size_t)n);
    }
    if (n <= 0) {
        int why = SSL_get_error(p->ssl, n);

        if (why == SSL_ERROR_ZERO_RETURN)
            p->eof = true;
        else if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
            p->broken = true;
    }
    peer_drain(p); /* an alert, too */
}

void egress_peer_secure(struct peer *p, SSL *ssl)
{
    p->raw_in = BIO_new(BIO_s_mem());
    p->raw_out = BIO_new(BIO_s_mem());
    if (!p->raw_in || !p->raw_out) {
        BIO_free(p->raw_in);
        BIO_free(p->raw_out);
        SSL_free(ssl);
        p->broken = true;
        return;
    }
    (void)BIO_set_mem_eof_return(p->raw_in, -1);
    (void)BIO_set_mem_eof_return(p->raw_out, -1);
    SSL_set_bio(ssl, p->raw_in, p->raw_out);
    p->ssl = ssl;
    p->ready = false;
    if (p->in.len)
        (void)BIO_write(p->raw_in, p->in.data, (int)p->in.len);
    buf_reset(&p->in);
    peer_decrypt(p);
    egress_peer_flush(p);
}

void egress_peer_read(struct peer *p)
{
    char bytes[PEER_IN_MAX];
    ssize_t n;

    if (p->eof || p->broken || p->in.len >= PEER_IN_MAX)
        return;
    do
        n = recv(p->fd, bytes, PEER_IN_MAX - p->in.len, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        p->broken |= errno != EAGAIN;
    } else if (n == 0) {
        /* TLS says when it ends; without that it was cut off. */
        *(p->ssl ? &p->broken : &p->eof) = true;
    } else if (p->ssl) {
        (void)BIO_write(p->raw_in, bytes, (int)n);
        peer_decrypt(p);
        egress_peer_flush(p);
    } else {
        buf_add(&p->in, bytes, (size_t)n);
    }
}

void egress_peer_write(struct peer *p, const void *bytes, size_t len)
{
    const char *at = bytes;

    if (p->broken || p->ended)
        return;
    if (!p->ssl) {
        buf_add(&p->out, bytes, len);
        return;
    }
    while (len) {
        int n = SSL_write(p->ssl, at, (int)MIN(len, CHUNK));

        if (n <= 0) {
            p->broken = true;
            return;
        }
        at += n;
        len -= (size_t)n;
    }
    peer_drain(p);
}

void egress_peer_flush(struct peer *p)
{
    while (p->out.len && !p->broken) {
        ssize_t n = send(p->fd, p->out.data, p->out.len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            p->broken |= errno != EAGAIN;
            return;
        }
        buf_consume(&p->out, (size_t)n);
    }
    if (p->ending && !p->ended && !p->out.len) {
        (void)shutdown(p->fd, SHUT_WR);
        p->ended = true;
    }
}

void egress_peer_end(struct peer *p)
{
    if (p->ending)
        return;
    if (p->ssl && p->ready && !p->broken) {
        (void)SSL_shutdown(p->ssl);
        peer_drain(p);
    }
    p->ending = true;
    egress_peer_flush(p);
}

bool egress_peer_full(const struct peer *p)
{
    return p->out.len >= PEER_OUT_MAX;
}

void egress_peer_arm(struct egress *e, struct peer *p, bool reading)
{
    uint32_t events = 0;

    if (p->fd < 0)
        return;
    if (!p->broken && !p->eof && reading && p->in.len < PEER_IN_MAX)
        events |= EPOLLIN;
    if (!p->broken && (p->out.len || (p->ending && !p->ended)))
        events |= EPOLLOUT;
    egress_loop_watch(e, &p->watch, events);
}
