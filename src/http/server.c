/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and stopping the HTTP server of the daemon, and the clock thread
 * that ends connections whose head or body takes too long. Handlers run on
 * the worker pool, never here.
 */
#include "http/http.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "http/http_int.h"

#define BACKLOG 1024
#define TICK_MS 500
#define QUIET_TICKS 1
/* How long an answer is held back (http_delay): with the length of a tick, at
 * most a second. */
#define DELAY_MS 400
/* The largest head there may be, and what libmicrohttpd makes of it. */
#define CONNECTION_MEMORY ((size_t)96 << 10)
#define QUEUE_MAX 256

/* ---- the clock thread ----------------------------------------------------
 */

/* libmicrohttpd cannot answer in the middle of a body, so this does, on its
 * socket, and then shuts it; the event thread sees the end and cleans up.
 * Over TLS only the event thread may write. */
static void cut_slow_body(struct http_conn *conn)
{
    struct buf answer cleanup(buf_done) = {0};
    struct error err;

    (void)error_set(&err, ERR_INVALID, "the body came too slowly");
    http_respond_bytes(408, conn->req->id, &err, &answer);
    /* Whether it arrives or not, the connection ends. */
    if (!conn->req->tls && conn->req->early_sent == 0 && !conn->req->queued)
        (void)!send(conn->fd, answer.data, answer.len,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(conn->fd, SHUT_RDWR);
}

/* Has the client closed its side? It may only have said all it had to say,
 * so this is a reason to write to it, not to give it up. */
static bool hung_up(const struct http_conn *conn)
{
    struct pollfd p = {.fd = conn->fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) == 1;
}

/* A held request counts as the refusal it will most likely be, so that not all
 * waiting requests are admitted at once. No request waits without limit. */
static bool let_in(struct http_request *req, uint64_t now)
{
    struct fair_backoff *p = req->server->backoff;

    if (fair_backoff_exceeded(p, req->flow, now) &&
        now < req->held_ms + fair.refusal_hold_ms)
        return false;
    fair_backoff_refused(p, req->flow, now);
    return true;
}

static void check_request(struct http_conn *conn, uint64_t now)
{
    struct http_request *req = conn->req;
    uint64_t silent;

    mutex_lock(&req->lock);
    if (!req->tls)
        http_early_push(req);
    if (!req->late &&
        (http_body_late(req, now) || http_early_over(req, now))) {
        req->late = true;
        cond_broadcast(&req->more);
        cut_slow_body(conn);
    }
    if (req->held && let_in(req, now)) {
        req->held = false;
        req->let_in = true;
        http_request_resume(req);
    }
    if (req->delayed_ms && now >= req->delayed_ms + DELAY_MS) {
        req->delay = false;
        req->delayed_ms = 0;
        http_request_resume(req);
    }
    if (req->linger_ms &&
        (hung_up(conn) || now >= req->linger_ms + HTTP_LINGER_MS)) {
        req->lingered = true;
        req->linger_ms = 0;
        http_request_resume(req);
    }
    if (req->drain_paused) {
        req->drain_paused = false;
        req->drain_pause = 0;
        http_request_resume(req);
    }
    /* A suspended stream does not see its client leave; writing shows it. */
    silent = req->stream && req->suspended ? now - req->sent_ms : 0;
    if (silent >= HTTP_PING_MS || (silent >= HTTP_DOUBT_MS && hung_up(conn))) {
        req->ping = true;
        http_request_resume(req);
    }
    mutex_unlock(&req->lock);
}

/* libmicrohttpd misses the end of a connection that came together with its
 * last bytes. So some ticks after those, if more bytes are awaited, the
 * end is looked for once; an end that comes later is a separate event. */
static bool left_unseen(struct http_conn *c)
{
    bool reading = true;

    if (c->req) {
        mutex_lock(&c->req->lock);
        reading = !c->req->ended && !c->req->suspended;
        mutex_unlock(&c->req->lock);
    }
    return reading && c->quiet <= QUIET_TICKS && c->quiet++ == QUIET_TICKS &&
           hung_up(c);
}

static void check_list(const struct http_conns *list, uint64_t now)
{
    for (struct http_conn *c = list->first; c; c = c->next) {
        if (http_gate_over(c, now) || left_unseen(c) ||
            (!c->req && now > c->header_deadline_ms))
            (void)shutdown(c->fd, SHUT_RDWR);
        if (c->req && !c->refused_ms)
            check_request(c, now);
    }
}

static void http_clock_main(void *arg)
{
    struct http_server *server = arg;

    mutex_lock(&server->lock);
    while (!server->clock_stop) {
        (void)cond_wait_until(&server->tick, &server->lock,
                              clock_mono_ms() + TICK_MS);

        uint64_t now = clock_mono_ms();

        check_list(&server->strangers, now);
        check_list(&server->trusted, now);
        check_list(&server->leaving, now);
    }
    mutex_unlock(&server->lock);
}

/* ---- starting ----------------------------------------------------------- */

static int listen_on(const char *host, uint16_t port, int *ret_fd,
                     uint16_t *ret_port, struct error *err)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.v6 = {.sin6_port = 0}};
    socklen_t at_len = sizeof(at);
    int fd cleanup(fd_close) = -1;
    int one = 1, r;
    char service[8];

    (void)snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return error_set(err, ERR_INVALID,
                         "cannot listen on '%s': not a numeric address", host);
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                0);
    r = fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) < 0 ||
        listen(fd, BACKLOG) < 0 || getsockname(fd, &at.any, &at_len) < 0;
    freeaddrinfo(found);
    if (r)
        return error_errno(err, ERR_UNAVAILABLE, errno,
                           "cannot listen on %s port %u", host, port);
    *ret_port =
        ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
    *ret_fd = take_fd(fd);
    return 0;
}

/* Paths and parameters stay as sent; we decode them once, ourselves. */
static size_t keep_escapes(void *cls, struct MHD_Connection *c, char *text)
{
    (void)cls;
    (void)c;
    return strlen(text);
}

static void on_log(void *cls, const char *fmt, va_list ap)
{
    char text[300];

    (void)cls;
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* may cut */
    text[strcspn(text, "\n")] = '\0';
    log_event(LOG_DEBUG, "http", "message", text, NULL);
}

/* Nothing older than TLS 1.2. */
#define TLS_PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

static struct MHD_Daemon *start_daemon(struct http_server *server, int fd)
{
    const struct http_settings *s = &server->settings;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)s->tls_certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)s->tls_key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {s->tls_clients ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
         (void *)(uintptr_t)s->tls_clients},
        {MHD_OPTION_END, 0, NULL},
    };

    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
            MHD_USE_ERROR_LOG | MHD_USE_TURBO |
            (server->tls ? MHD_USE_TLS : 0),
        0, NULL, NULL, http_events_access, server, MHD_OPTION_EXTERNAL_LOGGER,
        on_log, NULL,                 /* first, to log the rest */
        MHD_OPTION_LISTEN_SOCKET, fd, /* taken, also when it fails */
        MHD_OPTION_NOTIFY_COMPLETED, http_events_completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, http_events_connection, server,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
        MHD_OPTION_CONNECTION_LIMIT, s->connections,
        MHD_OPTION_CONNECTION_TIMEOUT, s->idle_timeout_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        server->tls ? MHD_OPTION_ARRAY : MHD_OPTION_END, tls, MHD_OPTION_END);
}

static void free_server(struct http_server *server)
{
    http_work_free(server->work);
    fair_backoff_free(server->backoff);
    free(server->by_fd);
    fd_close(&server->listen_fd);
    cond_done(&server->idle);
    cond_done(&server->tick);
    mutex_done(&server->lock);
    free(server);
}

static int check_tls(const struct http_settings *s, struct error *err)
{
    if (!s->tls_certificate)
        return 0;
    if (!http_tls_supported())
        return error_set(err, ERR_INVALID,
                         "this libmicrohttpd was built without TLS");
    return http_tls_check(s->tls_certificate, s->tls_key, err);
}

int http_start(const struct http_settings *settings, http_handler_fn *handler,
               void *ctx, struct http_server **ret, struct error *err)
{
    struct http_server *server;
    int fd = -1, r = check_tls(settings, err);

    if (r < 0)
        return r;
    server = xcalloc(1, sizeof(*server));
    server->settings = *settings;
    server->tls = settings->tls_certificate != NULL;
    if (settings->drain_s == 0)
        server->settings.drain_s = HTTP_DRAIN_S;
    if (settings->drain_bytes == 0)
        server->settings.drain_bytes = HTTP_DRAIN_BYTES;
    server->handler = handler;
    server->ctx = ctx;
    server->listen_fd = -1;
    mutex_init(&server->lock);
    cond_init(&server->idle);
    cond_init(&server->tick);
    http_conns_set_limits(server);
    server->work = http_work_new(settings->workers, QUEUE_MAX);
    server->backoff = fair_backoff_new();
    r = listen_on(settings->host, settings->port, &fd, &server->port, err);
    if (r < 0) {
        free_server(server);
        return r;
    }
    server->daemon = start_daemon(server, fd);
    server->settings.tls_certificate = server->settings.tls_key = NULL;
    server->asks_clients = settings->tls_clients != NULL;
    server->settings.tls_clients = NULL;
    if (server->daemon)
        r = thread_start(&server->clock, "http-clock", http_clock_main, server,
                         err);
    if (!server->daemon || r < 0) {
        if (server->daemon)
            MHD_stop_daemon(server->daemon);
        free_server(server);
        return error_set(err, ERR_UNAVAILABLE,
                         "the HTTP server does not start");
    }
    *ret = server;
    return 0;
}

/* ---- stopping ----------------------------------------------------------- */

void http_quiesce(struct http_server *server)
{
    if (!server || server->stopping)
        return;
    server->stopping = true;
    server->listen_fd = MHD_quiesce_daemon(server->daemon);
}

static void wait_idle(struct http_server *server, unsigned deadline_s)
{
    uint64_t deadline = clock_mono_ms() + (uint64_t)deadline_s * 1000;

    mutex_assert_held(&server->lock);
    while (server->active > 0 &&
           cond_wait_until(&server->idle, &server->lock, deadline))
        ;
}

/* A suspended connection cannot be closed: each is resumed, finds the server
 * cut, and ends. server->lock is held. */
static void wake_all(const struct http_conns *list)
{
    for (struct http_conn *c = list->first; c; c = c->next)
        if (c->req)
            http_request_wake(c->req);
}

void http_stop(struct http_server *server, unsigned deadline_s)
{
    if (!server)
        return;
    http_quiesce(server);
    mutex_lock(&server->lock);
    wait_idle(server, deadline_s);
    server->cut = true;
    wake_all(&server->strangers);
    wake_all(&server->trusted);
    wake_all(&server->leaving);
    wait_idle(server, 1);
    server->clock_stop = true;
    cond_broadcast(&server->tick);
    mutex_unlock(&server->lock);
    thread_join(&server->clock);
    MHD_stop_daemon(server->daemon);
    free_server(server);
}

/* ---- looking ------------------------------------------------------------ */

uint16_t http_port(const struct http_server *server)
{
    return server->port;
}

struct http_work *http_workers(struct http_server *server)
{
    return server->work;
}

void http_counts(struct http_server *server, uint64_t ret_classes[6])
{
    for (size_t i = 0; i < 6; i++)
        ret_classes[i] = server->classes[i];
}
