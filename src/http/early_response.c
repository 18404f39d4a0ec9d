/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Responses sent before the end of the request body. A client that is refused
 * while it still sends must be able to read why. If the server closed the
 * connection at once, the kernel would discard the response together with the
 * unread input; if it waited for the end of the body, the client would decide
 * how long that takes.
 *
 * libmicrohttpd accepts a response only before or after the body. So this file
 * writes the response to the socket itself and shuts down the sending side
 * (over TLS at the body's end). The event thread goes on reading and discards
 * the input until the body ends, or until the client has used up its time or
 * its bytes (drain_s, drain_bytes). The response closes the connection, so
 * nothing after it is parsed as a request. Called by the event thread, workers
 * and the clock thread.
 */
#include "http/http_int.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

#define DRAIN_TICK ((uint64_t)256 << 10) /* of a refused body */
#define EARLY_MAX ((size_t)16 << 10)     /* of such an answer */

/* Refusals only: a client whose request succeeded means to send the rest. A
 * short rest is cheaper to read than a new connection. */
static bool worth_it(const struct http_request *req)
{
    return !req->gone && !req->ended && req->response && req->status >= 400 &&
           (req->length == UINT64_MAX ||
            req->length - req->received > HTTP_BODY_SMALL);
}

static enum MHD_Result add_header(void *cls, enum MHD_ValueKind kind,
                                  const char *name, const char *value)
{
    (void)kind;
    if (strcasecmp(name, "Connection") != 0) /* said below */
        buf_addf(cls, "%s: %s\r\n", name, value);
    return MHD_YES;
}

void http_early_prepare(struct http_request *req, const char *body, size_t len)
{
    struct buf b cleanup(buf_done) = {0};
    char date[HTTP_DATE_SIZE];

    if (!worth_it(req))
        return;
    buf_addf(&b, "HTTP/1.1 %u %s\r\n", req->status,
             MHD_get_reason_phrase_for(req->status));
    if (http_respond_date(clock_real_ms(), date))
        buf_addf(&b, "Date: %s\r\n", date);
    (void)MHD_get_response_headers(req->response, add_header, &b);
    buf_addf(&b, "Connection: close\r\nContent-Length: %zu\r\n\r\n", len);
    if (strcmp(req->method, "HEAD") != 0)
        buf_add(&b, body, len);
    if (b.len > EARLY_MAX)
        return;
    req->early = buf_take(&b, &req->early_len);
    req->drain_ms = clock_mono_ms();
    req->drain_from = req->received;
}

/* A client that waits for "100 Continue" gets that from libmicrohttpd, and
 * nothing of ours may come between; with the first byte of the body it has
 * had it. */
static bool may_send(const struct http_request *req)
{
    return req->early && !req->early_done && req->connection && !req->ended &&
           (req->received > 0 || !http_header(req, "Expect"));
}

/* Bytes sent, 0: not now, -1: it failed. */
static ssize_t send_some(struct http_request *req)
{
    const char *at = req->early + req->early_sent;
    size_t len = req->early_len - req->early_sent;
    ssize_t n;

    if (req->tls)
        return http_tls_send(req->tls, at, len);
    n = send(req->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

void http_early_push(struct http_request *req)
{
    ssize_t n;

    if (!may_send(req))
        return;
    n = send_some(req);
    if (n > 0)
        req->early_sent += (size_t)n;
    if (n >= 0 && req->early_sent < req->early_len)
        return; /* with the next bytes, or by the clock */
    req->early_done = true;
    /* Over TLS our side stays open until the body's end: a client that sees
     * the end of TLS fails what it is still writing, and may give up before it
     * has read the answer. */
    if (!req->tls)
        (void)shutdown(req->fd, SHUT_WR); /* it may have left */
}

void http_early_end(struct http_request *req)
{
    if (!req->tls)
        return;
    http_tls_end(req->tls);
    (void)shutdown(req->fd, SHUT_WR); /* as above */
}

bool http_early_enough(struct http_request *req)
{
    if (!req->drain_ms || req->status != 429)
        return false;
    if (req->drain_pause == 0)
        req->drain_pause = req->received + DRAIN_TICK;
    return req->received >= req->drain_pause;
}

bool http_early_over(const struct http_request *req, uint64_t now_ms)
{
    const struct http_settings *s = &req->server->settings;

    /* A sum: now was read before the lock was taken. */
    return req->drain_ms &&
           (now_ms > req->drain_ms + (uint64_t)s->drain_s * 1000 ||
            req->received - req->drain_from > s->drain_bytes);
}
