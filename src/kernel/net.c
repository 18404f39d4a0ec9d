/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observes what code inside tries to reach: calls that name a destination
 * (notify.c), and lookups of names, which arrive at pid 1's socket. Both are
 * answered at once and recorded for the daemon in a table of fixed size. The
 * wall is elsewhere: this network namespace has only loopback and no route.
 * Nothing here blocks, whatever the session does.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"
#include "wire/dns.h"

#define AT_ONCE 64 /* before the daemon is served again */
#define BACKLOG 128

/* ---- the table ---------------------------------------------------------- */

static struct init_blocked *find_blocked(struct net *n,
                                         enum init_blocked_kind kind,
                                         const char *host, uint16_t port)
{
    for (uint32_t i = 0; i < n->blocked_count; i++) {
        struct init_blocked *b = &n->blocked[i];

        if (b->kind == kind && b->port == port && strcmp(b->host, host) == 0)
            return b;
    }
    return NULL;
}

void net_note(struct net *n, enum init_blocked_kind kind, const char *host,
              uint16_t port, uint32_t count)
{
    struct init_blocked *b = find_blocked(n, kind, host, port);

    if (b) {
        b->count =
            b->count > UINT32_MAX - count ? UINT32_MAX : b->count + count;
        return;
    }
    if (n->blocked_count == NET_BLOCKED_MAX) {
        if (n->dropped < UINT32_MAX)
            n->dropped++;
        return;
    }
    b = &n->blocked[n->blocked_count++];
    /* The whole struct is sent, so it must hold no old bytes. */
    memset(b, 0, sizeof(*b));
    b->at_ms = clock_real_ms();
    b->count = count;
    b->kind = (uint16_t)kind;
    b->port = port;
    strncpy(b->host, host, sizeof(b->host) - 1);
}

uint32_t net_pending(const struct net *n)
{
    return n->blocked_count + (n->dropped > 0);
}

static void hand_over(struct net *n, char *payload, struct init_reply *reply)
{
    reply->payload_len = (uint32_t)(n->blocked_count * sizeof(n->blocked[0]));
    for (uint32_t i = 0; i < n->blocked_count; i++)
        n->blocked[i].count = MAX(n->blocked[i].count, 1u);
    memcpy(payload, n->blocked, reply->payload_len);
    reply->arg = n->dropped;
    n->blocked_count = n->dropped = 0;
}

/* ---- lookups ------------------------------------------------------------ */

/* Lookups of both address types of one name are one attempt. */
static size_t answer_lookup(struct net *n, const struct dns_question *q,
                            unsigned char *out)
{
    size_t len = dns_answer_own(q, out);

    if (len)
        return len;
    net_note(n, INIT_BLOCKED_RESOLVE, q->name, 0, q->type != DNS_AAAA);
    return dns_answer_code(q, DNS_NXDOMAIN, out);
}

static bool resolve_one(struct net *n)
{
    unsigned char query[DNS_QUERY_MAX + 1], out[DNS_ANSWER_MAX];
    struct sockaddr_in from;
    socklen_t from_len = sizeof(from);
    struct dns_question q;
    ssize_t len = recvfrom(n->resolver, query, sizeof(query), MSG_DONTWAIT,
                           (struct sockaddr *)&from, &from_len);
    size_t out_len;

    if (len < 0)
        return errno != EAGAIN; /* an error of an answer sent earlier */
    if (dns_question_parse(query, (size_t)len, &q) < 0)
        return true; /* not a question: no answer */
    out_len = answer_lookup(n, &q, out);
    /* A client that is gone or does not read gets no answer. */
    (void)sendto(n->resolver, out, out_len, MSG_DONTWAIT | MSG_NOSIGNAL,
                 (struct sockaddr *)&from, from_len);
    return true;
}

/* A listening socket cannot stop listening, and if no process accepted,
 * clients would hang. So pid 1 accepts and closes. */
static bool turn_away_one(struct net *n)
{
    struct linger reset = {.l_onoff = 1};
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    int client cleanup(fd_close) = accept4(n->proxy, (struct sockaddr *)&from,
                                           &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (client < 0)
        return false;
    (void)setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    return true;
}

/* ---- for init.c --------------------------------------------------------- */

/* With 2 and 3 only privileged processes may read the memory of others. */
static bool is_opaque(void)
{
    int fd cleanup(fd_close) =
        open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    char digit = '0';

    return fd >= 0 && fd_read_all(fd, &digit, 1) == 1 && digit >= '2';
}

void net_start(struct net *n, const struct sandbox_fds *fds)
{
    *n = (struct net){.watch = fds->watch,
                      .resolver = fds->resolver,
                      .proxy = fds->proxy,
                      .opaque = is_opaque()};
}

bool net_turns_away(const struct net *n)
{
    return n->listening && !n->taken;
}

void net_serve(struct net *n)
{
    for (unsigned i = 0; i < AT_ONCE && notify_one(n); i++)
        ;
    for (unsigned i = 0; i < AT_ONCE && !n->taken && resolve_one(n); i++)
        ;
    for (unsigned i = 0; i < AT_ONCE && net_turns_away(n); i++)
        if (!turn_away_one(n))
            break;
}

/* Listens only when the proxy is about to accept. */
static int hand_out_proxy(struct net *n, int *ret_fd)
{
    if (listen(n->proxy, BACKLOG) < 0)
        return errno;
    n->listening = true;
    *ret_fd = n->proxy;
    return 0;
}

int net_request(struct net *n, uint32_t what, char *payload,
                struct init_reply *reply, int *ret_fd)
{
    switch ((enum init_network)what) {
    case INIT_NETWORK_BLOCKED:
        hand_over(n, payload, reply);
        return 0;
    case INIT_NETWORK_PROXY:
        return hand_out_proxy(n, ret_fd);
    case INIT_NETWORK_RESOLVER:
        *ret_fd = n->resolver;
        return 0;
    case INIT_NETWORK_TAKEN:
        n->taken = true;
        return 0;
    case INIT_NETWORK_BACK:
        n->taken = false;
        return 0;
    }
    return EINVAL;
}
