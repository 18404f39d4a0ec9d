/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS lookups of a session. Only listed names are looked up, because a query
 * can carry data out. The addresses are checked, and the answer holds one of
 * them; only the proxy can reach it, the session cannot. Runs in
 * glovebox-egress.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "egress/egress_int.h"
#include "egress/host.h"

#define TTL_S 5u
#define AT_A_TIME 16

struct lookup {
    struct lookup *next;
    struct granted_session *guest;
    struct sockaddr_storage from;
    socklen_t from_len;
    struct dns_question q;
    struct names_query *query; /* under way, or NULL */
    uint64_t question;         /* asked of gloveboxd; 0 none */
    uint64_t deadline_ms, started_ms;
    struct egress_report report;
};

static void send_code(struct lookup *l, enum dns_code code)
{
    unsigned char out[DNS_ANSWER_MAX];
    size_t n = dns_answer_code(&l->q, code, out);

    /* The client repeats a query whose answer a full socket drops. */
    (void)sendto(l->guest->udp.fd, out, n, MSG_DONTWAIT | MSG_NOSIGNAL,
                 (struct sockaddr *)&l->from, l->from_len);
}

static void lookup_finish(struct lookup *l, bool allowed, const char *why)
{
    struct egress *e = l->guest->e;
    struct lookup **at = &e->pending;

    l->report.allowed = allowed;
    l->report.ms = (uint32_t)(clock_mono_ms() - l->started_ms);
    (void)snprintf(l->report.reason, sizeof(l->report.reason), "%s", why);
    egress_report_send(e, &l->report);
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at)
        *at = l->next;
    l->guest->lookups--;
    egress_grant_arm(l->guest);
    free(l);
}

static void on_addresses(void *ctx, int status, const char *why,
                         const struct sockaddr_storage *a, size_t count)
{
    struct lookup *l = ctx;
    unsigned char out[DNS_ANSWER_MAX];
    const void *bytes;
    size_t n;

    (void)count;
    if (status < 0) {
        char text[EGRESS_TEXT_MAX];

        (void)snprintf(text, sizeof(text), "its address is %s",
                       why ? why : "not known");
        send_code(l, status == -EAGAIN ? DNS_SERVFAIL
                     : why             ? DNS_NXDOMAIN
                                       : DNS_OK);
        lookup_finish(l, !why,
                      why                 ? text
                      : status == -ENOENT ? "there is no such name or address"
                                          : "it could not be looked up");
        return;
    }
    bytes = a->ss_family == AF_INET
                ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
                : &((const struct sockaddr_in6 *)a)->sin6_addr;
    n = dns_answer_address(&l->q, l->q.type, bytes, TTL_S, out);
    (void)sendto(l->guest->udp.fd, out, n, MSG_DONTWAIT | MSG_NOSIGNAL,
                 (struct sockaddr *)&l->from, l->from_len);
    (void)inet_ntop(a->ss_family, bytes, l->report.address,
                    sizeof(l->report.address));
    lookup_finish(l, true, "");
}

static void lookup_resolve(struct lookup *l)
{
    struct egress *e = l->guest->e;

    l->question = 0;
    l->deadline_ms = clock_mono_ms() + e->setup.connect_ms;
    egress_names_find(e->names, l->report.host,
                      l->q.type == DNS_A ? AF_INET : AF_INET6, false,
                      on_addresses, l, &l->query);
}

static void lookup_refuse(struct lookup *l, const char *why)
{
    send_code(l, DNS_NXDOMAIN);
    lookup_finish(l, false, why);
}

/* One question, from its bytes to its answer or its waiting. */
static void lookup_begin(struct lookup *l)
{
    struct granted_session *g = l->guest;
    char what[EGRESS_HOST_MAX + 8];
    bool address = false;
    struct error err;

    if (egress_host_canonical(l->q.name, strlen(l->q.name), l->report.host,
                              &address, &err) < 0 ||
        address) {
        (void)snprintf(l->report.host, sizeof(l->report.host), "%s",
                       l->q.name);
        lookup_refuse(l, "that is no name");
        return;
    }
    if (!egress_rule_lookup(&g->grant, g->rules, l->report.host)) {
        lookup_refuse(l, "it is not on this session's allow list");
        return;
    }
    if (l->q.class != DNS_IN ||
        (l->q.type != DNS_A && l->q.type != DNS_AAAA)) {
        send_code(l, DNS_OK);
        lookup_finish(l, true, "only addresses are looked up");
        return;
    }
    (void)snprintf(what, sizeof(what), "? %s", l->report.host);
    if (g->grant.ask && !egress_grant_was_asked(g, what)) {
        l->deadline_ms = clock_mono_ms() + g->e->setup.answer_ms;
        l->question = egress_report_ask(g->e, &l->report);
        return;
    }
    lookup_resolve(l);
}

void egress_lookup_read(struct granted_session *g)
{
    struct egress *e = g->e;

    for (int i = 0; i < AT_A_TIME && g->lookups < LOOKUPS_AT_ONCE &&
                    !egress_report_stalled(e);
         i++) {
        struct lookup *l = xcalloc(1, sizeof(*l));
        unsigned char query[DNS_QUERY_MAX];
        ssize_t n;

        l->from_len = sizeof(l->from);
        n = recvfrom(g->udp.fd, query, sizeof(query), MSG_DONTWAIT | MSG_TRUNC,
                     (struct sockaddr *)&l->from, &l->from_len);
        if (n < 0 || n > (ssize_t)sizeof(query) ||
            dns_question_parse(query, (size_t)n, &l->q) < 0) {
            free(l);
            if (n < 0)
                return;
            continue; /* what is no question has no answer */
        }
        l->guest = g;
        if (!egress_grant_spend(g, BUDGET_LOOKUPS)) {
            send_code(l, DNS_REFUSED); /* told of once, by the budget */
            free(l);
            continue;
        }
        l->started_ms = clock_mono_ms();
        l->report = (struct egress_report){.type = EGRESS_REPORT_LOOKUP,
                                           .handle = g->grant.handle,
                                           .at_ms = clock_real_ms(),
                                           .method = "LOOKUP"};
        l->next = e->pending;
        e->pending = l;
        g->lookups++;
        lookup_begin(l);
    }
}

void egress_lookup_answer(struct egress *e, const struct egress_answer *a)
{
    for (struct lookup *l = e->pending; l; l = l->next) {
        char what[EGRESS_HOST_MAX + 8];

        if (!l->question || l->question != a->question)
            continue;
        if (!a->allow) {
            lookup_refuse(l, a->reason[0] ? a->reason : "policy says no");
            return;
        }
        (void)snprintf(what, sizeof(what), "? %s", l->report.host);
        egress_grant_remember(l->guest, what);
        lookup_resolve(l);
        return;
    }
}

void egress_lookup_tick(struct egress *e, uint64_t now_ms)
{
    for (struct lookup *l = e->pending, *next; l; l = next) {
        next = l->next;
        if (now_ms < l->deadline_ms)
            continue;
        egress_names_cancel(l->query);
        if (l->question) {
            lookup_refuse(l, "it was not allowed in time");
        } else {
            send_code(l, DNS_SERVFAIL);
            lookup_finish(l, true, "it could not be looked up in time");
        }
    }
}

void egress_lookup_forget(struct granted_session *g)
{
    for (struct lookup *l = g->e->pending, *next; l; l = next) {
        next = l->next;
        if (l->guest != g)
            continue;
        egress_names_cancel(l->query);
        lookup_finish(l, false, "the session's network was taken away");
    }
}
