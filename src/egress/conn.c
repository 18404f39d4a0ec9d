/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of a session, from its first byte to its report; the states
 * are drawn in egress_int.h. One request each. Runs in glovebox-egress. Every
 * way out of here passes egress_conn_report once (E5).
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/egress_int.h"

static void conn_arm(struct conn *c);

static void on_client(void *ctx, uint32_t events)
{
    struct conn *c = ctx;

    if (events & ~(uint32_t)EPOLLOUT)
        egress_peer_read(&c->client);
    egress_conn_step(c);
}

static void on_server(void *ctx, uint32_t events)
{
    struct conn *c = ctx;

    if (events & ~(uint32_t)EPOLLOUT)
        egress_peer_read(&c->server);
    egress_conn_step(c);
}

/* ---- begin and end ------------------------------------------------------ */

void egress_conn_new(struct granted_session *g, int fd)
{
    struct egress *e = g->e;
    struct conn *c = xcalloc(1, sizeof(*c));

    c->e = e;
    c->guest = g;
    egress_peer_init(&c->client, fd);
    egress_peer_init(&c->server, -1);
    c->client.watch.on_event = on_client;
    c->server.watch.on_event = on_server;
    c->client.watch.ctx = c->server.watch.ctx = c;
    c->started_ms = clock_mono_ms();
    c->report = (struct egress_report){.type = EGRESS_REPORT_HTTP,
                                       .handle = g->grant.handle,
                                       .at_ms = clock_real_ms()};
    c->over = g->conns - g->over >= g->grant.connections ||
              e->conn_count >= e->setup.max_connections;
    g->conns++;
    g->over += c->over;
    e->conn_count++;
    e->status.connections++;
    c->next = e->conns;
    e->conns = c;
    egress_conn_state(c, CONN_HEAD);
    conn_arm(c);
}

void egress_conn_free(struct conn *c)
{
    egress_dial_cancel(&c->dial);
    egress_peer_done(&c->client);
    egress_peer_done(&c->server);
    if (c->request.data)
        explicit_bzero(c->request.data, c->request.cap);
    buf_done(&c->request);
    egress_packages_free(c->job);
    free(c);
}

static void conn_die(struct conn *c)
{
    struct granted_session *g = c->guest;

    if (c->state == CONN_DEAD)
        return;
    egress_dial_cancel(&c->dial);
    egress_loop_watch(c->e, &c->client.watch, 0);
    if (c->server.fd >= 0)
        egress_loop_watch(c->e, &c->server.watch, 0);
    c->state = CONN_DEAD;
    c->e->conn_count--;
    c->e->status.connections--;
    if (g) {
        g->conns--;
        g->over -= c->over;
    }
}

/* Each state has its own patience; idleness is counted anew by progress. */
void egress_conn_state(struct conn *c, enum conn_state state)
{
    const struct egress_setup *s = &c->e->setup;
    uint64_t ms = s->idle_ms;

    switch (state) {
    case CONN_HEAD:
    case CONN_INNER:
    case CONN_ACCEPT:
        ms = s->head_ms;
        break;
    case CONN_ASK:
        ms = s->answer_ms;
        break;
    case CONN_DIAL: /* looking up, then connecting; dial.c is stricter */
        ms = 3 * (uint64_t)s->connect_ms;
        break;
    case CONN_SECURE:
        ms = s->connect_ms;
        break;
    case CONN_FINISH:
        ms = FINISH_MS;
        break;
    case CONN_HELLO:
    case CONN_EXCHANGE:
    case CONN_TUNNEL:
    case CONN_PACKAGE:
    case CONN_DEAD:
        break;
    }
    c->state = state;
    c->deadline_ms = clock_mono_ms() + ms;
}

void egress_conn_report(struct conn *c, bool allowed)
{
    if (c->reported)
        return;
    c->reported = true;
    c->report.allowed = allowed;
    c->report.ms = (uint32_t)(clock_mono_ms() - c->started_ms);
    if (allowed)
        c->e->status.accepted++;
    else
        c->e->status.refused++;
    egress_report_send(c->e, &c->report);
}

void egress_conn_abort(struct conn *c, const char *why)
{
    bool nothing = c->state == CONN_HEAD && !c->client.in.len;

    if (c->state == CONN_DEAD)
        return;
    if (!c->report.reason[0])
        (void)snprintf(c->report.reason, sizeof(c->report.reason), "%s", why);
    /* A connection that never sent a request is not reported. */
    if (!nothing)
        egress_conn_report(c, false);
    conn_die(c);
}

/* The connection was allowed, and a peer ended it. */
void egress_conn_end(struct conn *c, const char *why)
{
    if (c->state == CONN_DEAD)
        return;
    (void)snprintf(c->report.reason, sizeof(c->report.reason), "%s", why);
    egress_conn_report(c, true);
    conn_die(c);
}

/* Nothing more is wanted from the destination. */
void egress_conn_leave(struct conn *c)
{
    egress_dial_cancel(&c->dial);
    if (c->server.fd >= 0)
        egress_loop_watch(c->e, &c->server.watch, 0);
    egress_peer_done(&c->server);
    c->server.watch.fd = -1;
}

static const char *status_phrase(unsigned status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 429:
        return "Too Many Requests";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    default:
        return "Bad Gateway";
    }
}

/*
 * The sentence is in the body and again in the status line, which is all that
 * many clients show of a refused CONNECT. After an answer has begun, or while
 * TLS is being agreed on, there is nothing to say it in.
 */
void egress_conn_refuse(struct conn *c, unsigned status, const char *fmt, ...)
{
    struct buf b cleanup(buf_done) = {0};
    char text[EGRESS_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)snprintf(c->report.reason, sizeof(c->report.reason), "%s", text);
    if (c->answered || c->state == CONN_TUNNEL || c->state == CONN_HELLO ||
        c->state == CONN_ACCEPT) {
        egress_conn_abort(c, text);
        return;
    }
    c->report.status = status;
    for (char *p = text; *p; p++) /* what a status line may have */
        if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
            *p = '?';
    buf_addf(&b,
             "HTTP/1.1 %u %s - glovebox: %s\r\n"
             "Content-Type: text/plain; charset=utf-8\r\n"
             "Content-Length: %zu\r\nConnection: close\r\n\r\n",
             status, status_phrase(status), text, strlen(text) + 11);
    if (!c->head_request)
        buf_addf(&b, "glovebox: %s\n", text);
    egress_peer_write(&c->client, b.data, b.len);
    /* Let, but not to be had: that is no refusal of ours. */
    egress_conn_report(c, status == 502 || status == 504);
    egress_conn_leave(c);
    egress_conn_state(c, CONN_FINISH);
    egress_peer_end(&c->client);
}

bool egress_conn_charge(struct conn *c, bool out, size_t n)
{
    if (!egress_grant_spend_bytes(c->guest, n)) {
        egress_conn_refuse(c, 429, "%s", egress_grant_budget(BUDGET_BYTES));
        return false;
    }
    *(out ? &c->report.bytes_out : &c->report.bytes_in) += n;
    *(out ? &c->e->status.bytes_out : &c->e->status.bytes_in) += n;
    if (n)
        c->deadline_ms = clock_mono_ms() + c->e->setup.idle_ms;
    return true;
}

/* ---- asking, reaching --------------------------------------------------- */

static void on_reached(void *ctx, int fd)
{
    struct conn *c = ctx;

    (void)snprintf(c->report.address, sizeof(c->report.address), "%s",
                   c->dial.address);
    if (fd < 0) {
        egress_conn_refuse(c, c->dial.forbidden ? 403 : 502, "%.90s:%u: %s",
                           c->target.host, c->target.port, c->dial.why);
        conn_arm(c);
        return;
    }
    c->server.fd = c->server.watch.fd = fd;
    if (c->inspected) {
        if (!egress_inspect_connect(c))
            egress_conn_refuse(c, 502, "TLS could not be begun");
        else
            egress_conn_state(c, CONN_SECURE);
    } else if (c->connect) {
        static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";

        egress_peer_write(&c->client, ok, sizeof(ok) - 1);
        egress_conn_state(c, CONN_TUNNEL);
    } else {
        egress_conn_state(c, CONN_EXCHANGE);
    }
    egress_conn_step(c);
}

static void conn_reach(struct conn *c)
{
    egress_conn_state(c, CONN_DIAL);
    egress_dial_start(&c->dial, c->e, &c->target, false, on_reached, c);
}

/* Describes the scope of one answer of gloveboxd. */
static void describe(const struct conn *c, char ret[1024])
{
    bool http = c->report.type == EGRESS_REPORT_HTTP;

    (void)snprintf(ret, 1024, "%s %s:%u%s", http ? c->report.method : "",
                   c->report.host, c->report.port, http ? c->report.path : "");
}

void egress_conn_allowed(struct conn *c)
{
    char what[1024];

    describe(c, what);
    if (!c->guest->grant.ask || egress_grant_was_asked(c->guest, what)) {
        conn_reach(c);
        return;
    }
    egress_conn_state(c, CONN_ASK);
    c->answer = 0;
    c->question = egress_report_ask(c->e, &c->report);
}

static bool conn_step_ask(struct conn *c)
{
    char what[1024];

    if (c->answer == 0)
        return false;
    if (c->answer < 0) {
        egress_conn_refuse(c, 403, "%.60s:%u was not allowed: %.70s",
                           c->target.host, c->target.port, c->answer_why);
        return true;
    }
    describe(c, what);
    egress_grant_remember(c->guest, what);
    conn_reach(c);
    return false; /* reach goes on by itself */
}

void egress_conn_ask_again(struct conn *c)
{
    c->again_ms = clock_mono_ms() + c->e->setup.answer_ms;
    c->question = egress_report_ask(c->e, &c->report);
}

void egress_conn_answer(struct egress *e, const struct egress_answer *a)
{
    for (struct conn *c = e->conns; c; c = c->next) {
        if (c->state == CONN_PACKAGE && egress_packages_answer(c, a)) {
            egress_conn_step(c);
            return;
        }
        if (c->question != a->question)
            continue;
        if (c->again_ms) {
            c->again_ms = 0;
            if (!a->allow)
                egress_conn_abort(c, "it is not allowed any more");
            return;
        }
        if (c->state != CONN_ASK)
            continue;
        c->answer = a->allow ? 1 : -1;
        (void)snprintf(c->answer_why, sizeof(c->answer_why), "%s",
                       a->reason[0] ? a->reason : "policy says no");
        egress_conn_step(c);
        return;
    }
}

/* ---- the machine -------------------------------------------------------- */

static bool conn_step_finish(struct conn *c)
{
    bool said_all = c->client.eof || (c->up.done && !c->client.in.len);

    /* Closing on bytes it still sends would reset the connection, and it
     * would never see our last ones. */
    egress_peer_flush(&c->client);
    buf_reset(&c->client.in);
    if (c->client.broken || (c->client.ended && said_all))
        conn_die(c);
    return false;
}

/* True: another step may be possible. */
static bool conn_step_once(struct conn *c)
{
    switch (c->state) {
    case CONN_HEAD:
    case CONN_INNER:
        return egress_request_head(c);
    case CONN_HELLO:
        return egress_tunnel_hello(c);
    case CONN_ACCEPT:
        return egress_inspect_accept(c);
    case CONN_ASK:
        return conn_step_ask(c);
    case CONN_SECURE:
        return egress_inspect_secure(c);
    case CONN_EXCHANGE:
        return egress_request_exchange(c);
    case CONN_TUNNEL:
        return egress_tunnel_relay(c);
    case CONN_PACKAGE:
        return egress_packages_step(c);
    case CONN_FINISH:
        return conn_step_finish(c);
    case CONN_DIAL:
    case CONN_DEAD:
        break;
    }
    return false;
}

/* Which side is to be listened to now. A client is, in every state, so that
 * its going away is noticed. */
static void conn_arm(struct conn *c)
{
    bool up = !egress_peer_full(&c->server);
    bool down = !egress_peer_full(&c->client);

    if (c->state == CONN_DEAD)
        return;
    egress_peer_arm(c->e, &c->client, up);
    egress_peer_arm(c->e, &c->server, down);
}

void egress_conn_step(struct conn *c)
{
    while (c->state != CONN_DEAD && conn_step_once(c))
        ;
    if (c->state == CONN_DEAD)
        return;
    egress_peer_flush(&c->client);
    if (c->server.fd >= 0)
        egress_peer_flush(&c->server);
    if (c->client.broken && c->state != CONN_DEAD)
        egress_conn_end(c, "the session hung up");
    conn_arm(c);
}

void egress_conn_tick(struct conn *c, uint64_t now_ms)
{
    egress_dial_tick(&c->dial, now_ms);
    if (c->state == CONN_PACKAGE)
        egress_packages_tick(c, now_ms);
    if (c->again_ms && now_ms >= c->again_ms)
        egress_conn_abort(c, "it is not allowed any more");
    if (c->state == CONN_DEAD || now_ms < c->deadline_ms)
        return;
    switch (c->state) {
    case CONN_HEAD:
    case CONN_INNER:
        if (c->client.in.len)
            egress_conn_refuse(c, 400, "the request did not come in time");
        else
            egress_conn_abort(c, "no request came in time");
        break;
    case CONN_ASK: /* no answer is no */
        egress_conn_refuse(c, 403, "%.90s:%u was not allowed in time",
                           c->target.host, c->target.port);
        break;
    case CONN_DIAL:
    case CONN_SECURE:
    case CONN_EXCHANGE:
    case CONN_PACKAGE:
        egress_conn_refuse(c, 504, "%.90s:%u did not answer in time",
                           c->target.host, c->target.port);
        break;
    case CONN_HELLO:
    case CONN_ACCEPT:
        egress_conn_abort(c, "it was idle for too long");
        break;
    case CONN_TUNNEL:
        egress_conn_end(c, "it was idle for too long");
        break;
    case CONN_FINISH:
        conn_die(c);
        break;
    case CONN_DEAD:
        break;
    }
    if (c->state != CONN_DEAD)
        conn_arm(c);
}
