/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox-egress's answers to gloveboxd; see serve.h and wire/egress_msg.h.
 * What is malformed or untimely ends the process: sessions then have no
 * network (E4).
 */
#include "egress/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/egress_int.h"
#include "helper/helper.h"
#include "wire/wire.h"

struct request {
    const struct egress_request *req;
    int fds[WIRE_FDS_MAX];
    size_t fd_count;
    struct egress_reply reply;
};

static int request_fault(struct request *r, int errnum, const char *why)
{
    r->reply.errnum = errnum;
    (void)snprintf(r->reply.text, sizeof(r->reply.text), "%s", why);
    return 0;
}

/* ---- one request each: 0, or -EBADMSG ----------------------------------- */

static bool nets_fit(const struct egress_net nets[EGRESS_NETS_MAX])
{
    for (size_t i = 0; i < EGRESS_NETS_MAX && nets[i].family; i++)
        if ((nets[i].family != 4 && nets[i].family != 6) ||
            nets[i].bits > (nets[i].family == 4 ? 32 : 128))
            return false;
    return true;
}

#define ENDED(field) (memchr(field, 0, sizeof(field)) != NULL)

static void set_default(uint32_t *ms, uint32_t fallback)
{
    if (!*ms)
        *ms = fallback;
}

/* Everything that must be opened is, and then the process confines itself:
 * nothing of a session is here before that. */
static int serve_setup(struct egress *e, struct request *r)
{
    struct egress_setup *s = &e->setup;
    int n;

    *s = r->req->u.setup;
    if (e->set_up || r->fd_count || !ENDED(s->resolver) ||
        !ENDED(s->index_url) || !ENDED(s->wheels_dir) || !ENDED(s->ca_file) ||
        !nets_fit(s->refused) || !nets_fit(s->lab))
        return -EBADMSG;
    set_default(&s->head_ms, HEAD_MS);
    set_default(&s->connect_ms, CONNECT_MS);
    set_default(&s->idle_ms, IDLE_MS);
    set_default(&s->answer_ms, ANSWER_MS);
    set_default(&s->max_connections, 1000);
    n = egress_tls_open(e);
    if (n < 0)
        return request_fault(r, -n,
                             "TLS could not be set up; is egress_ca_file "
                             "readable for the proxy?");
    n = egress_names_open(e, s->resolver, &e->names);
    if (n < 0)
        return request_fault(r, -n, "the resolver could not be set up");
    n = helper_confine(HELPER_ALONE);
    if (n < 0)
        return request_fault(r, -n, "the process could not confine itself");
    e->set_up = true;
    return 0;
}

/* The grant and its rules out of a memfd, which must have just them. */
static int read_grant(int fd, struct egress_grant *ret,
                      struct egress_rule **ret_rules)
{
    struct egress_rule *rules;
    struct stat st;
    size_t want;

    if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(*ret) ||
        pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) ||
        ret->rule_count > EGRESS_RULES_MAX)
        return -EBADMSG;
    want = ret->rule_count * sizeof(*rules);
    if (st.st_size != (off_t)(sizeof(*ret) + want))
        return -EBADMSG;
    rules = xcalloc(ret->rule_count + 1u, sizeof(*rules));
    if (pread(fd, rules, want, sizeof(*ret)) != (ssize_t)want) {
        free(rules);
        return -EBADMSG;
    }
    *ret_rules = rules;
    return 0;
}

static int serve_grant(struct egress *e, struct request *r)
{
    struct egress_grant grant;
    struct egress_rule *rules = NULL;
    struct granted_session *g = NULL;
    const char *why = NULL;
    bool inspects = false;
    int tcp = -1, udp = -1, n;

    if (r->fd_count != 1 && r->fd_count != 3)
        return -EBADMSG;
    if (read_grant(r->fds[0], &grant, &rules) < 0)
        return -EBADMSG;
    if (r->fd_count == 3) {
        tcp = r->fds[1];
        udp = r->fds[2];
    }
    n = egress_grant_set(e, &grant, rules, tcp, udp, &g, &why);
    if (n < 0) {
        explicit_bzero(rules, grant.rule_count * sizeof(*rules));
        free(rules);
        return request_fault(r, -n, why);
    }
    if (tcp >= 0)
        r->fd_count = 1; /* the session has the others now */
    for (uint32_t i = 0; i < grant.rule_count; i++)
        inspects |= rules[i].inspect != 0;
    if (inspects && !g->ca) {
        egress_grant_revoke(e, g);
        return request_fault(r, EIO, "no certificate authority could be made");
    }
    if (inspects)
        (void)snprintf(r->reply.u.ca, sizeof(r->reply.u.ca), "%s",
                       egress_ca_certificate(g->ca));
    return 0;
}

static int serve_revoke(struct egress *e, struct request *r)
{
    struct granted_session *g = egress_grant_find(e, r->req->u.handle);

    if (r->fd_count)
        return -EBADMSG;
    if (g)
        egress_grant_revoke(e, g);
    return 0;
}

static int serve_answer(struct egress *e, struct request *r)
{
    const struct egress_answer *a = &r->req->u.answer;

    if (r->fd_count || !ENDED(a->reason))
        return -EBADMSG;
    egress_conn_answer(e, a);
    egress_lookup_answer(e, a);
    return 0;
}

static int serve_status(struct egress *e, struct request *r)
{
    if (r->fd_count)
        return -EBADMSG;
    r->reply.u.status = e->status;
    return 0;
}

static const struct {
    int (*serve)(struct egress *e, struct request *r);
    bool before, after, silent; /* SETUP; without a reply */
} answers[EGRESS_REQUEST_MAX] = {
    [EGRESS_SETUP] = {serve_setup, true, false, false},
    [EGRESS_GRANT] = {serve_grant, false, true, false},
    [EGRESS_REVOKE] = {serve_revoke, false, true, false},
    [EGRESS_ANSWER] = {serve_answer, false, true, true},
    [EGRESS_STATUS] = {serve_status, false, true, false},
};

/* ---- the loop's end of it ----------------------------------------------- */

static int serve_dispatch(struct egress *e, struct request *r)
{
    uint32_t type = r->req->type;
    int n;

    if (type >= EGRESS_REQUEST_MAX || !answers[type].serve ||
        !(e->set_up ? answers[type].after : answers[type].before))
        return -EBADMSG;
    r->reply.type = type;
    r->reply.seq = r->req->seq;
    n = answers[type].serve(e, r);
    if (n < 0 || answers[type].silent)
        return n;
    return wire_send(e->ctl.fd, &r->reply, sizeof(r->reply), NULL, 0);
}

static void on_request(void *ctx, uint32_t events)
{
    struct egress *e = ctx;
    struct egress_request req;
    struct request r = {.req = &req};
    ssize_t n = wire_recv(e->ctl.fd, &req, sizeof(req), r.fds, &r.fd_count);

    (void)events;
    if (n == 0) {
        e->stop = true;
        return;
    }
    if (n != (ssize_t)sizeof(req) || serve_dispatch(e, &r) < 0) {
        log_event(LOG_ERROR, "egress_request_refused", NULL);
        e->stop = true;
    }
    for (size_t i = 0; i < r.fd_count; i++)
        fd_close(&r.fds[i]);
    explicit_bzero(&req, sizeof(req));
}

int egress_serve_run(int ctl, int report)
{
    struct egress *e cleanup(mem_free) = xcalloc(1, sizeof(*e));
    int r;

    (void)signal(SIGPIPE, SIG_IGN);
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    e->ctl = (struct watch){.fd = ctl, .on_event = on_request, .ctx = e};
    e->reports.watch = (struct watch){.fd = report};
    if (e->epoll < 0)
        return 1;
    egress_loop_watch(e, &e->ctl, EPOLLIN);
    r = egress_loop_run(e);
    if (r < 0)
        log_event(LOG_ERROR, "egress_loop_failed", "errno",
                  strerrorname_np(-r), NULL);

    while (e->guests)
        egress_grant_revoke(e, e->guests);
    for (struct conn *c; (c = e->conns);) {
        e->conns = c->next;
        egress_conn_free(c);
    }
    for (struct granted_session *g; (g = e->gone);) {
        e->gone = g->next;
        free(g);
    }
    egress_names_close(e->names);
    SSL_CTX_free(e->inward);
    SSL_CTX_free(e->outward);
    free(e->reports.rows);
    fd_close(&e->ctl.fd);
    fd_close(&e->reports.watch.fd);
    fd_close(&e->epoll);

    return r < 0;
}
