/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloveboxd's stubs for glovebox-egress; see call.h. Any thread may call: one
 * lock makes requests take turns, another guards the sending alone, so that
 * an answer to a question never waits for another request's reply. The
 * process and its restarts are in call_start.c.
 */
#include "egress/call.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "egress/call_int.h"
#include "egress/host.h"
#include "wire/wire.h"

#define REPLY_MS 10000

static int fail_gone(struct error *err)
{
    return error_set(err, ERR_UNAVAILABLE,
                     "the service's proxy is not running: sessions have no "
                     "network");
}

static bool wait_readable(int sock)
{
    uint64_t deadline = clock_mono_ms() + REPLY_MS;
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int n;

    do
        n = poll(&p, 1, clock_left_ms(deadline));
    while (n < 0 && errno == EINTR);
    return n == 1;
}

static bool send_request(struct egress_link *l,
                         const struct egress_request *req, const int *fds,
                         size_t fd_count)
{
    bool ok;

    mutex_lock(&l->send_lock);
    ok = l->ctl >= 0 &&
         wire_send(l->ctl, req, sizeof(*req), fds, fd_count) == 0;
    mutex_unlock(&l->send_lock);
    return ok;
}

int egress_call_exchange(struct egress_link *l, struct egress_request *req,
                         const int *fds, size_t fd_count,
                         struct egress_reply *reply, struct error *err)
{
    req->seq = ++l->seq;
    if (!send_request(l, req, fds, fd_count) || !wait_readable(l->ctl) ||
        wire_recv(l->ctl, reply, sizeof(*reply), NULL, NULL) !=
            (ssize_t)sizeof(*reply) ||
        reply->seq != req->seq || reply->type != req->type) {
        /* The next caller must not read a late reply. */
        egress_call_fell(l);
        return fail_gone(err);
    }
    reply->text[sizeof(reply->text) - 1] = '\0';
    if (reply->errnum)
        return error_errno(
            err, reply->errnum == EINVAL ? ERR_INVALID : ERR_UNAVAILABLE,
            reply->errnum, "the proxy: %s", reply->text);
    return 0;
}

static int call_proxy(struct egress_link *l, struct egress_request *req,
                      const int *fds, size_t fd_count,
                      struct egress_reply *reply, struct error *err)
{
    int r;

    if (!egress_call_alive(l))
        return fail_gone(err);
    mutex_lock(&l->lock);
    r = egress_call_alive(l)
            ? egress_call_exchange(l, req, fds, fd_count, reply, err)
            : fail_gone(err);
    mutex_unlock(&l->lock);
    return r;
}

bool egress_call_alive(struct egress_link *l)
{
    return l && atomic_load(&l->alive);
}

/* The grant and its rules in memory of their own: a packet would not hold
 * them, and a file would keep them. */
static int pack_rules(const struct egress_grant *grant,
                      const struct egress_rule *rules, int *ret_fd,
                      struct error *err)
{
    int fd cleanup(fd_close) = memfd_create("egress-grant", MFD_CLOEXEC);

    if (fd < 0 || fd_write_all(fd, grant, sizeof(*grant)) < 0 ||
        fd_write_all(fd, rules, grant->rule_count * sizeof(*rules)) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot pass a grant");
    *ret_fd = take_fd(fd);
    return 0;
}

int egress_call_grant(struct egress_link *l, const struct egress_grant *grant,
                      const struct egress_rule *rules, int tcp, int udp,
                      char ret_ca[EGRESS_CA_MAX], struct error *err)
{
    struct egress_request req = {.type = EGRESS_GRANT};
    struct egress_reply reply = {0};
    int memory cleanup(fd_close) = -1;
    int fds[3];
    int r;

    if (grant->rule_count > EGRESS_RULES_MAX)
        return error_set(err, ERR_INVALID, "over %d destinations",
                         EGRESS_RULES_MAX);
    r = pack_rules(grant, rules, &memory, err);
    if (r < 0)
        return r;
    fds[0] = memory;
    fds[1] = tcp;
    fds[2] = udp;
    r = call_proxy(l, &req, fds, tcp >= 0 && udp >= 0 ? 3 : 1, &reply, err);
    if (r < 0)
        return r;
    reply.u.ca[EGRESS_CA_MAX - 1] = '\0';
    memcpy(ret_ca, reply.u.ca, EGRESS_CA_MAX);
    return 0;
}

int egress_call_revoke(struct egress_link *l, uint64_t handle,
                       struct error *err)
{
    struct egress_request req = {.type = EGRESS_REVOKE, .u.handle = handle};
    struct egress_reply reply = {0};

    return call_proxy(l, &req, NULL, 0, &reply, err);
}

void egress_call_answer(struct egress_link *l, uint64_t question, bool allow,
                        const char *reason)
{
    struct egress_request req = {
        .type = EGRESS_ANSWER,
        .u.answer = {.question = question, .allow = allow}};

    if (!egress_call_alive(l))
        return;
    (void)snprintf(req.u.answer.reason, sizeof(req.u.answer.reason), "%s",
                   reason ? reason : "");
    (void)send_request(l, &req, NULL, 0); /* unsent is no */
}

int egress_call_status(struct egress_link *l, struct egress_status *ret,
                       struct error *err)
{
    struct egress_request req = {.type = EGRESS_STATUS};
    struct egress_reply reply = {0};
    int r = call_proxy(l, &req, NULL, 0, &reply, err);

    if (r == 0)
        *ret = reply.u.status;
    return r;
}

const char *egress_call_never(const struct egress_link *l, const char *host)
{
    return egress_host_never(host, l ? &l->setup : NULL);
}
