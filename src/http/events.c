/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd's callbacks, all on the event thread: a connection opens, a
 * request's head, body and end arrive, a request is over, the connection
 * closes. They move bytes and refuse what needs no thought; they never wait
 * and never run a handler.
 *
 *   head ──▶ refused (framing): answered, closed
 *     └─▶ refused (too large, too busy): answered, body dropped, closed
 *     └─▶ small body: collected ──▶ end: to a worker, suspended ──▶ answered
 *     └─▶ large body: to a worker at once; ring full: suspended
 */
#include "http/http_int.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

/* ---- connections -------------------------------------------------------- */

/* Clients are distinguished by address; the first half of an IPv6 address
 * names the network of one client. */
static unsigned peer_of(const char *source)
{
    struct in6_addr v6;
    char network[INET6_ADDRSTRLEN];

    if (inet_pton(AF_INET6, source, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6)) {
        memset(v6.s6_addr + 8, 0, 8);
        if (inet_ntop(AF_INET6, &v6, network, sizeof(network)))
            source = network;
    }
    return (unsigned)(http_work_flow(source) % HTTP_PEERS);
}

static void source_of(struct MHD_Connection *c, char *ret, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *addr = info ? info->client_addr : NULL;
    const void *from = NULL;

    if (addr && addr->sa_family == AF_INET)
        from = &((const struct sockaddr_in *)(const void *)addr)->sin_addr;
    else if (addr && addr->sa_family == AF_INET6)
        from = &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
    if (!from || !inet_ntop(addr->sa_family, from, ret, (socklen_t)size))
        ret[0] = '\0';
}

void http_events_connection(void *cls, struct MHD_Connection *c,
                            void **socket_context,
                            enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = cls;
    struct http_conn *conn = *socket_context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

        conn = xcalloc(1, sizeof(*conn));
        conn->fd = info ? info->connect_fd : -1;
        conn->tls = server->tls ? http_tls_session(c) : NULL;
        source_of(c, conn->source, sizeof(conn->source));
        conn->peer = peer_of(conn->source);
        conn->header_deadline_ms =
            clock_mono_ms() + server->settings.header_timeout_s * 1000ul;
        http_gate_open(server, conn);
        mutex_lock(&server->lock);
        http_conns_add(server, conn);
        mutex_unlock(&server->lock);
        *socket_context = conn;
    } else if (conn) {
        mutex_lock(&server->lock);
        http_conns_remove(server, conn);
        mutex_unlock(&server->lock);
        http_gate_close(server, conn);
        free(conn);
    }
}

static struct http_conn *conn_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

/* The request the connection carries now, or NULL: none. */
static void conn_set_request(struct http_server *server,
                             struct http_conn *conn, struct http_request *req)
{
    mutex_lock(&server->lock);
    if (!req) {
        conn->header_deadline_ms =
            clock_mono_ms() + (server->settings.idle_timeout_s +
                               server->settings.header_timeout_s) *
                                  1000ul;
        conn->quiet = 0;
        http_conns_used(conn);
    }
    if (!req != !conn->req)
        server->active += req ? 1u : -1u;
    if (conn->req)
        conn->req->conn = NULL;
    conn->req = req;
    if (req) {
        req->conn = conn;
        req->trusted = conn->list == &server->trusted;
    }
    if (server->active == 0)
        cond_broadcast(&server->idle);
    mutex_unlock(&server->lock);
}

/* ---- requests ----------------------------------------------------------- */

static enum MHD_Result queue_response(struct http_request *req)
{
    struct MHD_Response *response;
    enum MHD_Result r;

    mutex_lock(&req->lock);
    response = take_ptr(req->response);
    req->queued = true;
    mutex_unlock(&req->lock);
    if (!response)
        return MHD_NO; /* cut off by a stop */
    r = MHD_queue_response(req->connection, req->status, response);
    MHD_destroy_response(response);
    return r;
}

/* Answers on the spot; libmicrohttpd closes the connection after it when a
 * body was still to come. */
static enum MHD_Result refuse_request(struct http_request *req,
                                      unsigned status, const struct error *err)
{
    http_add_header(req, "Connection", "close");
    if (status == http_status_of(err->code)) {
        http_respond_error(req, err);
    } else {
        struct buf body = {0};

        http_error_body(err, &body);
        http_respond_json(req, status, &body);
    }
    return queue_response(req);
}

static void handle_request(void *arg)
{
    struct http_request *req = arg;

    req->server->handler(req->server->ctx, req);
    http_request_unref(req);
}

bool http_park(struct http_request *req, const char *who, bool beyond)
{
    bool parked = http_work_park(req->server->work, who, beyond,
                                 handle_request, http_request_ref(req));

    if (!parked)
        http_request_unref(req);
    return parked;
}

/* Whether what it says of itself is true, a worker will find out. */
static uint64_t flow_of(const struct http_request *req)
{
    static const char *const names[] = {"Authorization", "api-key",
                                        "x-api-key"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (http_header(req, names[i]))
            return http_work_flow(http_header(req, names[i]));
    return http_work_flow(req->source);
}

static int dispatch_request(struct http_request *req, struct error *err)
{
    if (req->server->stopping)
        return error_set(err, ERR_UNAVAILABLE, "the service is stopping");
    (void)http_request_ref(req);
    req->dispatched = true;
    /* A deletion frees what others wait for, so it always has a place in the
     * line; connections bound how many there can be. */
    if (http_work_submit(req->server->work, req->flow,
                         strcmp(http_method(req), "DELETE") == 0,
                         handle_request, req) < 0) {
        http_request_unref(req);
        (void)error_set(err, ERR_BUSY, "too many requests at once");
        return error_retry(err, 1);
    }
    return 0;
}

/* Before a body that the client sends now, unless it waits to be told to. */
static enum MHD_Result refuse_body(struct http_request *req,
                                   const struct error *err)
{
    if (http_header(req, "Expect"))
        return refuse_request(req, http_status_of(err->code), err);
    http_respond_error(req, err);
    mutex_lock(&req->lock);
    http_early_push(req);
    mutex_unlock(&req->lock);
    return MHD_YES;
}

/* Must this request wait (fair/backoff.c)? Then its connection is suspended
 * until the clock thread resumes it. */
static bool hold_back(struct http_request *req)
{
    uint64_t now = clock_mono_ms();

    mutex_assert_held(&req->lock);
    if (req->let_in || req->dispatched || req->answered ||
        req->server->stopping ||
        !fair_backoff_exceeded(req->server->backoff, req->flow, now))
        return false;
    if (!http_request_suspend(req))
        return false;
    req->held = true;
    if (!req->held_ms)
        req->held_ms = now;
    return true;
}

static enum MHD_Result on_head(struct http_request *req)
{
    struct error err;

    if (http_request_frame(req, &err) < 0)
        return refuse_request(req, 400, &err);
    req->flow = flow_of(req);
    req->body_start_ms = req->body_last_ms = clock_mono_ms();
    if (req->length != UINT64_MAX &&
        req->length > req->server->settings.body_bytes) {
        (void)error_set(&err, ERR_TOO_LARGE,
                        "the body is larger than %llu bytes",
                        (unsigned long long)req->server->settings.body_bytes);
        return refuse_body(req, &err);
    }
    if (req->length == 0)
        return MHD_YES;
    req->ring_size = MIN(req->length, HTTP_RING_SIZE);
    req->ring = xmalloc(req->ring_size);
    req->large = req->length > HTTP_BODY_SMALL;
    if (req->large &&
        !fair_backoff_exceeded(req->server->backoff, req->flow,
                               req->body_start_ms) &&
        dispatch_request(req, &err) < 0)
        return refuse_body(req, &err);
    return MHD_YES;
}

static enum MHD_Result on_body(struct http_request *req, const char *bytes,
                               size_t *size)
{
    uint64_t most = 2 * req->server->settings.body_bytes + HTTP_BODY_SMALL;
    size_t taken = *size;
    bool go_on = true;

    mutex_lock(&req->lock);
    if (req->large && !req->dispatched && !req->answered) {
        if (hold_back(req)) {
            mutex_unlock(&req->lock);
            return MHD_YES; /* nothing taken */
        }

        /* Dispatch a request with a large body after its wait, without the
         * lock. */
        struct error err;

        mutex_unlock(&req->lock);
        if (dispatch_request(req, &err) < 0)
            http_respond_error(req, &err);
        mutex_lock(&req->lock);
    }
    if (!req->answered) {
        taken = http_body_feed(req, bytes, *size);
        if (taken < *size)
            go_on = http_request_suspend(req);
    }
    req->received += taken;
    req->body_last_ms = clock_mono_ms();
    http_early_push(req);
    if (req->drain_ms ? http_early_over(req, req->body_last_ms)
                      : req->received > most)
        go_on = false;
    if (req->late)
        go_on = false;
    if (go_on && http_early_enough(req))
        go_on = req->drain_paused = http_request_suspend(req);
    cond_signal(&req->more);
    mutex_unlock(&req->lock);
    *size -= taken;
    return go_on ? MHD_YES : MHD_NO;
}

/* Must this answer wait (http_delay)? Then the connection is suspended until
 * the clock thread resumes it. */
static bool delay_answer(struct http_request *req)
{
    mutex_assert_held(&req->lock);
    if (!req->delay || !http_request_suspend(req))
        return false;
    req->delayed_ms = clock_mono_ms();
    return true;
}

/* Leaves the connection open for a while although all was said and read: the
 * client may not have read its answer yet, and whatever it still sends, such
 * as the end of TLS, would be answered with a reset that makes it miss the
 * answer. False: no longer. */
static bool linger_open(struct http_request *req)
{
    bool wait;

    mutex_lock(&req->lock);
    wait =
        !req->lingered && !req->server->stopping && http_request_suspend(req);
    if (wait) {
        http_early_end(req);
        req->linger_ms = clock_mono_ms();
    }
    mutex_unlock(&req->lock);
    return wait;
}

/* Also called again after each resume, until a response is queued. */
static enum MHD_Result on_end(struct http_request *req)
{
    enum MHD_Result r = MHD_YES;
    bool answered, told, held;
    struct error err;

    mutex_lock(&req->lock);
    req->ended = true;
    answered = req->answered;
    told = req->early_sent > 0;
    cond_signal(&req->more);
    mutex_unlock(&req->lock);
    if (told) /* the answer said that the connection closes */
        return linger_open(req) ? MHD_YES : MHD_NO;
    mutex_lock(&req->lock);
    held = hold_back(req);
    mutex_unlock(&req->lock);
    if (held)
        return MHD_YES;
    if (!answered && !req->dispatched && dispatch_request(req, &err) < 0)
        return refuse_request(req, http_status_of(err.code), &err);

    mutex_lock(&req->lock);
    answered = req->answered && !delay_answer(req);
    if (!req->answered)
        r = http_request_suspend(req) ? MHD_YES : MHD_NO;
    mutex_unlock(&req->lock);
    return answered ? queue_response(req) : r;
}

enum MHD_Result http_events_access(void *cls, struct MHD_Connection *c,
                                   const char *url, const char *method,
                                   const char *version, const char *data,
                                   size_t *data_size, void **con_cls)
{
    struct http_request *req = *con_cls;
    struct http_conn *conn;

    (void)version;
    if (req)
        return *data_size ? on_body(req, data, data_size) : on_end(req);
    conn = conn_of(c);
    if (!conn || !http_gate_admits(conn))
        return MHD_NO;
    *con_cls = req = http_request_new(cls, conn, c, url, method);
    conn_set_request(cls, conn, req);
    return on_head(req);
}

void http_events_completed(void *cls, struct MHD_Connection *c, void **con_cls,
                           enum MHD_RequestTerminationCode why)
{
    struct http_request *req = *con_cls;
    struct http_conn *conn = conn_of(c);
    struct MHD_Response *response;

    if (!req)
        return;
    *con_cls = NULL;
    if (conn) {
        conn_set_request(cls, conn, NULL);
        conn->done++;
        if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK)
            http_gate_settle(cls, conn);
    }
    mutex_lock(&req->lock);
    req->connection = NULL;
    req->gone = true;
    response = take_ptr(req->response);
    cond_broadcast(&req->more);
    mutex_unlock(&req->lock);
    if (response)
        MHD_destroy_response(response);
    http_request_unref(req);
}
