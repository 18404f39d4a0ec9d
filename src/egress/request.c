/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: read, judged, rewritten, sent, and their answers brought back.
 * Runs in glovebox-egress. What goes out is written anew from what was
 * understood, never passed on as it came, so that no other server can
 * understand something else.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "egress/egress_int.h"

/* ---- the head of a request ---------------------------------------------- */

static void copy_span(char *ret, size_t size, struct span s)
{
    size_t n = MIN(s.len, size - 1);

    memcpy(ret, s.at, n);
    ret[n] = '\0';
}

/* Its target, by the form that fits where it came. */
static const char *read_target(struct conn *c, const struct http_head *h)
{
    struct http_target *t = &c->target;
    struct http_target inner = *t;
    const char *why;

    if (c->state == CONN_INNER) { /* host and port are the CONNECT's */
        if (h->target.len && h->target.at[0] == '/') {
            why = egress_url_origin(h->target, &inner);
            t->path = inner.path;
            t->query = inner.query;
            return why;
        }
        return "inside of TLS a request begins with a path";
    }
    if (c->connect)
        return egress_url_authority(h->target, 0, t);
    return egress_url_absolute(h->target, t);
}

/* The Host header is what virtual servers go by: it must be the same. */
static const char *check_host(const struct conn *c, const struct http_head *h)
{
    const struct http_field *host = egress_head_field(h, "Host");
    struct http_target named = {.port = 0};
    uint16_t usual = c->connect               ? c->target.port
                     : c->state == CONN_INNER ? 443
                                              : 80;

    if (!host)
        return NULL;
    if (egress_url_authority(host->value, usual, &named))
        return "the Host header is not a host";
    if (strcmp(named.host, c->target.host) != 0 ||
        named.port != c->target.port)
        return "the Host header names another host than the address";
    return NULL;
}

/* The same name for a server that takes '_' for '-', as CGI does. */
static bool same_header(struct span name, const char *other)
{
    if (name.len != strlen(other))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char a = name.at[i] == '_' ? '-' : name.at[i];
        char b = other[i] == '_' ? '-' : other[i];

        if (strncasecmp(&a, &b, 1) != 0)
            return false;
    }
    return true;
}

static void add_span(struct buf *b, struct span s)
{
    buf_add(b, s.at, s.len);
}

static void add_framing(struct buf *b, const struct http_head *h)
{
    if (h->framing == HTTP_BODY_CHUNKED)
        buf_adds(b, "Transfer-Encoding: chunked\r\n");
    else if (h->framing == HTTP_BODY_LENGTH)
        buf_addf(b, "Content-Length: %llu\r\n", (unsigned long long)h->length);
}

/* Writes the request head that goes to the destination. */
static void write_head(struct conn *c, const struct http_head *h)
{
    const struct egress_rule *rule =
        c->decision.add ? &c->guest->rules[c->decision.rule - 1] : NULL;
    struct buf *b = &c->request;

    buf_reset(b);
    add_span(b, h->method);
    buf_adds(b, " ");
    if (c->decision.path[0])
        buf_adds(b, c->decision.path);
    else
        add_span(b, c->target.path);
    add_span(b, c->target.query);
    buf_adds(b, " HTTP/1.1\r\n");

    const struct http_target *t = &c->target;
    bool v6 = strchr(t->host, ':') != NULL;

    buf_addf(b, "Host: %s%s%s", v6 ? "[" : "", t->host, v6 ? "]" : "");
    if (t->port != (c->inspected ? 443 : 80))
        buf_addf(b, ":%u", t->port);
    buf_adds(b, "\r\n");

    for (size_t i = 0; i < h->field_count; i++) {
        const struct http_field *f = &h->fields[i];

        if (egress_head_is(f->name, "Host") || egress_head_hop(h, f->name) ||
            (rule && same_header(f->name, rule->header)))
            continue;
        add_span(b, f->name);
        buf_adds(b, ": ");
        add_span(b, f->value);
        buf_adds(b, "\r\n");
    }
    add_framing(b, h);
    if (rule)
        buf_addf(b, "%s: %s\r\n", rule->header, rule->value);
    buf_adds(b, "Connection: close\r\n\r\n");
}

static void judge_connect(struct conn *c)
{
    struct granted_session *g = c->guest;
    static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";

    c->report.type = EGRESS_REPORT_TUNNEL;
    egress_rule_connect(&g->grant, g->rules, &c->target, &c->decision);
    c->report.rule = c->decision.rule;
    if (c->decision.verdict == VERDICT_NO) {
        egress_conn_refuse(c, 403, "%s", c->decision.why);
        return;
    }
    if (c->decision.verdict == VERDICT_TUNNEL) {
        egress_conn_allowed(c);
        return;
    }
    c->inspected = true;
    egress_peer_write(&c->client, ok, sizeof(ok) - 1);
    egress_conn_state(c, CONN_HELLO);
}

static void judge_request(struct conn *c, const struct http_head *h)
{
    struct granted_session *g = c->guest;

    c->report.type = EGRESS_REPORT_HTTP;
    if (g->grant.packages && strcmp(c->target.host, PACKAGES_HOST) == 0 &&
        !c->inspected) {
        if (h->framing != HTTP_BODY_NONE)
            egress_conn_refuse(c, 400, "the package index takes no body");
        else
            egress_packages_serve(c);
        return;
    }
    egress_rule_request(&g->grant, g->rules, &c->target, h->method,
                        c->inspected, &c->decision);
    c->report.rule = c->decision.rule;
    if (c->decision.path[0])
        (void)snprintf(c->report.path, sizeof(c->report.path), "%s",
                       c->decision.path);
    if (c->decision.verdict == VERDICT_NO) {
        egress_conn_refuse(c, 403, "%s", c->decision.why);
        return;
    }
    write_head(c, h);
    egress_body_init(&c->up, h->framing, h->length);
    if (h->expect) { /* answered here; the destination may still refuse */
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

        egress_peer_write(&c->client, go_on, sizeof(go_on) - 1);
    }
    egress_conn_allowed(c);
}

/* Checks the budgets before the request is decided. False: refused. Requests
 * beyond the budget are reported once, by the budget's own report; otherwise
 * a session could make the log grow without bound. */
static bool admit_request(struct conn *c)
{
    if (c->state == CONN_INNER) /* its CONNECT was counted */
        return true;
    if (!egress_grant_spend(c->guest, BUDGET_REQUESTS)) {
        c->reported = true;
        egress_conn_refuse(c, 429, "%s", egress_grant_budget(BUDGET_REQUESTS));
        return false;
    }
    if (c->over) {
        egress_grant_used_up(c->guest, BUDGET_CONNECTIONS);
        egress_conn_refuse(c, 429, "%s",
                           egress_grant_budget(BUDGET_CONNECTIONS));
        return false;
    }
    if (c->guest->grant.bytes == 0) {
        egress_grant_used_up(c->guest, BUDGET_BYTES);
        egress_conn_refuse(c, 429, "%s", egress_grant_budget(BUDGET_BYTES));
        return false;
    }
    return true;
}

static void take_head(struct conn *c, size_t len)
{
    struct http_head h;
    const char *why = egress_head_request(c->client.in.data, len, &h);

    if (why) {
        egress_conn_refuse(c, 400, "the request is refused: %s", why);
        return;
    }
    c->connect |= c->state == CONN_HEAD && h.method.len == 7 &&
                  memcmp(h.method.at, "CONNECT", 7) == 0;
    c->head_request = h.method.len == 4 && memcmp(h.method.at, "HEAD", 4) == 0;
    copy_span(c->report.method, sizeof(c->report.method), h.method);
    why = read_target(c, &h);
    if (!why) {
        (void)snprintf(c->report.host, sizeof(c->report.host), "%s",
                       c->target.host);
        c->report.port = c->target.port;
        if (!c->connect || c->state == CONN_INNER)
            copy_span(c->report.path, sizeof(c->report.path), c->target.path);
        why = check_host(c, &h);
    } else {
        copy_span(c->report.host, sizeof(c->report.host), h.target);
    }
    if (why)
        egress_conn_refuse(c, 400, "the request is refused: %s", why);
    else if (h.upgrade)
        egress_conn_refuse(c, 501,
                           "a connection cannot be upgraded to "
                           "another protocol here");
    else if (c->connect && c->state == CONN_HEAD &&
             h.framing != HTTP_BODY_NONE)
        egress_conn_refuse(c, 400, "a CONNECT has no body");
    else if (c->connect && c->state == CONN_HEAD)
        judge_connect(c);
    else if (h.minor == 0)
        egress_conn_refuse(c, 400,
                           "the request is refused: it is not "
                           "HTTP/1.1");
    else
        judge_request(c, &h);
}

bool egress_request_head(struct conn *c)
{
    enum conn_state was = c->state;
    ssize_t n;

    if (egress_report_stalled(c->e))
        return false; /* nothing begins that could not be told of */
    n = egress_head_end(c->client.in.data, c->client.in.len);
    if (n == 0) {
        if (c->client.eof || c->client.broken)
            egress_conn_abort(c, "the session hung up before its request");
        return false;
    }
    if (!admit_request(c))
        return true;
    if (n < 0)
        egress_conn_refuse(c, 400, "the request is refused: its head %s",
                           n == -EMSGSIZE
                               ? "is longer than 32 KiB"
                               : "has a line that does not end in CR LF");
    else
        take_head(c, (size_t)n);
    if (n > 0 && c->state != CONN_FINISH && c->state != CONN_DEAD)
        buf_consume(&c->client.in, (size_t)n);
    c->target.path = c->target.query = (struct span){NULL, 0};
    return c->state != was;
}

/* ---- the exchange ------------------------------------------------------- */

/* False: it is over. */
static bool send_up(struct conn *c)
{
    ssize_t n;

    if (c->request.len) {
        if (!egress_conn_charge(c, true, c->request.len))
            return false;
        egress_peer_write(&c->server, c->request.data, c->request.len);
        explicit_bzero(c->request.data, c->request.len);
        buf_reset(&c->request);
    }
    if (c->up.done || !c->client.in.len || egress_peer_full(&c->server))
        return true;
    n = egress_body_take(&c->up, c->client.in.data, c->client.in.len);
    if (n < 0) {
        egress_conn_refuse(c, 400,
                           "the request is refused: its body is not "
                           "framed as it says");
        return false;
    }
    if (!egress_conn_charge(c, true, (size_t)n))
        return false;
    egress_peer_write(&c->server, c->client.in.data, (size_t)n);
    buf_consume(&c->client.in, (size_t)n);
    return true;
}

static void write_answer(struct conn *c, const struct http_head *h,
                         size_t line_len)
{
    struct buf b cleanup(buf_done) = {0};

    buf_add(&b, c->server.in.data, line_len);
    b.data[7] = '1'; /* our hop is HTTP/1.1 whatever theirs is */
    buf_adds(&b, "\r\n");
    for (size_t i = 0; i < h->field_count; i++) {
        const struct http_field *f = &h->fields[i];

        if (egress_head_hop(h, f->name))
            continue;
        add_span(&b, f->name);
        buf_adds(&b, ": ");
        add_span(&b, f->value);
        buf_adds(&b, "\r\n");
    }
    if (h->framing == HTTP_BODY_NONE && h->length)
        buf_addf(&b, "Content-Length: %llu\r\n",
                 (unsigned long long)h->length);
    else
        add_framing(&b, h);
    buf_adds(&b, "Connection: close\r\n\r\n");
    egress_peer_write(&c->client, b.data, b.len);
}

/* 1: taken, 0: more is needed, -1: it is over. */
static int take_answer_head(struct conn *c)
{
    struct http_head h;
    ssize_t n = egress_head_end(c->server.in.data, c->server.in.len);
    const char *line, *why;

    if (n == 0)
        return 0;
    why = n < 0 ? "its head is not HTTP"
                : egress_head_answer(c->server.in.data, (size_t)n,
                                     c->head_request, &h);
    if (!why && h.status == 101)
        why = "it changed the protocol unasked";
    if (why) {
        egress_conn_refuse(c, 502, "the answer of %.60s is refused: %s",
                           c->target.host, why);
        return -1;
    }
    if (!egress_conn_charge(c, false, (size_t)n))
        return -1;
    if (h.status >= 200) {
        line = memchr(c->server.in.data, '\r', (size_t)n);
        c->report.status = h.status;
        write_answer(c, &h, (size_t)(line - c->server.in.data));
        c->answered = true;
        egress_body_init(&c->down, h.framing, h.length);
    } /* what comes before an answer is between it and us */
    buf_consume(&c->server.in, (size_t)n);
    return 1;
}

static void complete(struct conn *c)
{
    egress_conn_report(c, true);
    egress_conn_leave(c);
    egress_conn_state(c, CONN_FINISH);
    egress_peer_end(&c->client);
}

/* The destination closed the connection: was the answer complete? */
static void server_ended(struct conn *c)
{
    if (!c->answered)
        egress_conn_refuse(c, 502, "%.90s:%u hung up without an answer",
                           c->target.host, c->target.port);
    else if (c->down.framing == HTTP_BODY_CLOSE && c->server.eof)
        complete(c);
    else
        egress_conn_end(c, "the answer was cut off");
}

static bool bring_down(struct conn *c)
{
    ssize_t n =
        egress_body_take(&c->down, c->server.in.data, c->server.in.len);

    if (n < 0) {
        egress_conn_abort(c, "the answer's body is not framed as it says");
        return false;
    }
    if (!egress_conn_charge(c, false, (size_t)n))
        return false;
    egress_peer_write(&c->client, c->server.in.data, (size_t)n);
    buf_consume(&c->server.in, (size_t)n);
    return true;
}

bool egress_request_exchange(struct conn *c)
{
    if (!send_up(c))
        return true;
    while (!c->answered) {
        int r = take_answer_head(c);

        if (r < 0)
            return true;
        if (r == 0)
            break;
    }
    if (c->answered && !c->down.done && c->server.in.len &&
        !egress_peer_full(&c->client) && !bring_down(c))
        return true;
    if (c->answered && c->down.done) {
        complete(c);
        return true;
    }
    if ((c->server.eof || c->server.broken) &&
        (!c->server.in.len || !c->answered)) {
        server_ended(c);
        return true;
    }
    if (c->client.eof && !c->up.done && !c->client.in.len)
        egress_conn_end(c, "the session hung up in its request");
    return false;
}
