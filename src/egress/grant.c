/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants: what each session may reach, what is left of its budgets, and its
 * two sockets. Runs in glovebox-egress. A new grant takes effect at once, also
 * for open connections: those that it no longer allows are closed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "egress/egress_int.h"

static const char *const budgets[] = {
    [BUDGET_BYTES] = "this session's byte budget is used up",
    [BUDGET_CONNECTIONS] =
        "this session has as many connections open as it may; close one",
    [BUDGET_REQUESTS] = "this session's request budget is used up",
    [BUDGET_LOOKUPS] = "this session's lookup budget is used up",
};

const char *egress_grant_budget(enum budget what)
{
    return budgets[what];
}

struct granted_session *egress_grant_find(struct egress *e, uint64_t handle)
{
    for (struct granted_session *g = e->guests; g; g = g->next)
        if (g->grant.handle == handle)
            return g;
    return NULL;
}

/* ---- budgets ------------------------------------------------------------ */

void egress_grant_used_up(struct granted_session *g, enum budget what)
{
    struct egress_report r = {.type = EGRESS_REPORT_BUDGET,
                              .handle = g->grant.handle,
                              .at_ms = clock_real_ms()};

    if (g->told[what])
        return;
    g->told[what] = true;
    (void)snprintf(r.reason, sizeof(r.reason), "%s", budgets[what]);
    egress_report_send(g->e, &r);
}

bool egress_grant_spend(struct granted_session *g, enum budget what)
{
    uint32_t *left =
        what == BUDGET_LOOKUPS ? &g->grant.lookups : &g->grant.requests;

    if (*left == 0) {
        egress_grant_used_up(g, what);
        return false;
    }
    (*left)--;
    return true;
}

bool egress_grant_spend_bytes(struct granted_session *g, uint64_t bytes)
{
    if (bytes > g->grant.bytes) {
        g->grant.bytes = 0;
        egress_grant_used_up(g, BUDGET_BYTES);
        return false;
    }
    g->grant.bytes -= bytes;
    return true;
}

/* ---- questions already answered ----------------------------------------- */

bool egress_grant_was_asked(const struct granted_session *g, const char *what)
{
    for (size_t i = 0; i < g->asked_count; i++)
        if (strcmp(g->asked[i], what) == 0)
            return true;
    return false;
}

void egress_grant_remember(struct granted_session *g, const char *what)
{
    if (g->asked_count == ASKED_MAX || egress_grant_was_asked(g, what))
        return;
    g->asked = xrealloc(g->asked, (g->asked_count + 1) * sizeof(*g->asked));
    g->asked[g->asked_count++] = xstrdup(what);
}

static void forget_answers(struct granted_session *g)
{
    for (size_t i = 0; i < g->asked_count; i++)
        free(g->asked[i]);
    free(take_ptr(g->asked));
    g->asked_count = 0;
}

/* ---- its sockets -------------------------------------------------------- */

/* Connections over a limit are taken too, a few of them, to be told so. */
static bool has_room(const struct granted_session *g)
{
    const struct egress *e = g->e;

    return g->over < CONNS_OVER &&
           e->conn_count < e->setup.max_connections + CONNS_OVER;
}

void egress_grant_arm(struct granted_session *g)
{
    bool stalled = egress_report_stalled(g->e);

    egress_loop_watch(g->e, &g->tcp, has_room(g) && !stalled ? EPOLLIN : 0);
    egress_loop_watch(g->e, &g->udp,
                      g->lookups < LOOKUPS_AT_ONCE && !stalled ? EPOLLIN : 0);
}

static void on_connection(void *ctx, uint32_t events)
{
    struct granted_session *g = ctx;

    if (events & (EPOLLERR | EPOLLHUP)) { /* its namespace is gone */
        egress_loop_watch(g->e, &g->tcp, 0);
        return;
    }
    while (has_room(g) && !egress_report_stalled(g->e)) {
        /* cppcheck-suppress nullPointer ; both may be */
        int fd = accept4(g->tcp.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0)
            break;
        egress_conn_new(g, fd);
    }
    egress_grant_arm(g);
}

static void on_question(void *ctx, uint32_t events)
{
    struct granted_session *g = ctx;

    (void)events; /* an error is taken by reading it */
    egress_lookup_read(g);
    egress_grant_arm(g);
}

/* ---- grants ------------------------------------------------------------- */

static void drop_rules(struct granted_session *g)
{
    if (g->rules) /* secrets are in there */
        explicit_bzero(g->rules, g->grant.rule_count * sizeof(*g->rules));
    free(take_ptr(g->rules));
}

/* Does the new grant allow this connection, in the same way? */
static bool still_allowed(const struct granted_session *g,
                          const struct conn *c)
{
    struct span method = {c->report.method, strlen(c->report.method)};
    struct http_target t = c->target;
    struct decision d;

    t.path = (struct span){c->report.path, strlen(c->report.path)};
    if (c->state == CONN_PACKAGE)
        return g->grant.packages;
    if (c->connect) {
        egress_rule_connect(&g->grant, g->rules, &t, &d);
        if (d.verdict == VERDICT_NO ||
            (d.verdict == VERDICT_INSPECT) != c->inspected)
            return false;
    }
    if (c->decision.verdict != VERDICT_REQUEST)
        return true;
    egress_rule_request(&g->grant, g->rules, &t, method, c->inspected, &d);
    return d.verdict == VERDICT_REQUEST && d.add == c->decision.add;
}

/* Checks open connections against the new grant. Those that stay open are put
 * to the policy again while they continue. */
static void recheck_connections(struct egress *e, struct granted_session *g)
{
    for (struct conn *c = e->conns; c; c = c->next) {
        if (c->guest != g || c->state == CONN_HEAD ||
            c->state == CONN_FINISH || c->state == CONN_DEAD)
            continue;
        if (!still_allowed(g, c))
            egress_conn_abort(c, "the session's network was changed");
        else if (g->grant.ask &&
                 (c->state == CONN_EXCHANGE || c->state == CONN_TUNNEL ||
                  c->state == CONN_DIAL || c->state == CONN_SECURE))
            egress_conn_ask_again(c);
    }
}

static const char *grant_fault(const struct egress_grant *grant,
                               const struct egress_rule *rules)
{
    if (grant->mode > EGRESS_MODE_OPEN)
        return "no such mode";
    for (uint32_t i = 0; i < grant->rule_count; i++) {
        const char *why = egress_rule_fault(&rules[i]);

        if (why)
            return why;
    }
    return NULL;
}

static bool rules_inspect(const struct egress_grant *grant,
                          const struct egress_rule *rules)
{
    for (uint32_t i = 0; i < grant->rule_count; i++)
        if (rules[i].inspect)
            return true;
    return false;
}

static struct granted_session *granted_session_new(struct egress *e, int tcp,
                                                   int udp)
{
    struct granted_session *g = xcalloc(1, sizeof(*g));

    g->e = e;
    g->tcp = (struct watch){.fd = tcp, .on_event = on_connection, .ctx = g};
    g->udp = (struct watch){.fd = udp, .on_event = on_question, .ctx = g};
    g->next = e->guests;
    e->guests = g;
    e->status.sessions++;
    return g;
}

int egress_grant_set(struct egress *e, const struct egress_grant *grant,
                     struct egress_rule *rules, int tcp, int udp,
                     struct granted_session **ret, const char **ret_why)
{
    struct granted_session *g = egress_grant_find(e, grant->handle);

    *ret_why = grant_fault(grant, rules);
    if (*ret_why)
        return -EINVAL;
    if (!g && (tcp < 0 || udp < 0)) {
        *ret_why = "it has no sockets here";
        return -EINVAL;
    }
    if (g && tcp >= 0) {
        *ret_why = "it has sockets here already";
        return -EINVAL;
    }
    if (!g) {
        if (listen(tcp, 128) < 0) {
            *ret_why = "its socket does not listen";
            return -errno;
        }
        (void)fd_set_nonblock(tcp, 1);
        (void)fd_set_nonblock(udp, 1);
        g = granted_session_new(e, tcp, udp);
    }
    drop_rules(g);
    forget_answers(g);
    memset(g->told, 0, sizeof(g->told));
    g->grant = *grant;
    g->rules = rules;
    if (!g->ca && rules_inspect(grant, rules))
        g->ca = egress_ca_new();
    recheck_connections(e, g);
    egress_grant_arm(g);
    *ret = g;
    return 0;
}

void egress_grant_revoke(struct egress *e, struct granted_session *g)
{
    struct granted_session **at = &e->guests;

    for (struct conn *c = e->conns; c; c = c->next)
        if (c->guest == g) {
            egress_conn_abort(c, "the session's network was taken away");
            c->guest = NULL;
        }
    egress_lookup_forget(g);
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    egress_loop_watch(e, &g->tcp, 0);
    egress_loop_watch(e, &g->udp, 0);
    fd_close(&g->tcp.fd);
    fd_close(&g->udp.fd);
    drop_rules(g);
    forget_answers(g);
    egress_ca_free(g->ca);
    e->status.sessions--;
    g->next = e->gone; /* an event of this round may still point at it */
    e->gone = g;
}
