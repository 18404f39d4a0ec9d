/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses, by c-ares on our loop. A name is asked for once; all of
 * its addresses are judged, and one that is forbidden condemns the name, so
 * that an answer which mixes cannot be tried until it comes out right. Runs
 * in glovebox-egress. /etc/hosts is not read: it is the host's own.
 */
#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "egress/egress_int.h"
#include "egress/host.h"

#define SOCKETS_MAX 64u
#define TIMEOUT_MS 2500
#define TRIES 2

struct names_socket {
    struct watch watch; /* fd -1: free */
    struct names *names;
};

struct names {
    struct egress *e;
    ares_channel channel;
    struct names_socket sockets[SOCKETS_MAX];
};

struct names_query {
    struct egress *e;
    bool any;
    names_done on_done; /* NULL: cancelled */
    void *ctx;
    struct names_query **owner; /* where the caller keeps us */
};

static void on_socket(void *ctx, uint32_t events)
{
    struct names_socket *s = ctx;
    int fd = s->watch.fd;

    ares_process_fd(s->names->channel,
                    events & ~(uint32_t)EPOLLOUT ? fd : ARES_SOCKET_BAD,
                    events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
}

/* Called by c-ares before it closes a socket, too. */
static void on_interest(void *ctx, ares_socket_t fd, int readable,
                        int writable)
{
    struct names *n = ctx;
    struct names_socket *s = NULL;

    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        if (n->sockets[i].watch.fd == fd) {
            s = &n->sockets[i];
            break;
        }
        if (!s && n->sockets[i].watch.fd < 0)
            s = &n->sockets[i];
    }
    if (!s) /* its queries then time out */
        return;
    if (s->watch.fd < 0)
        s->watch = (struct watch){.fd = fd, .on_event = on_socket, .ctx = s};
    egress_loop_watch(n->e, &s->watch,
                      (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u));
    if (!readable && !writable)
        s->watch.fd = -1;
}

/* "address" or "address#port" as c-ares writes it. */
static int set_server(struct names *n, const char *server)
{
    char text[80];
    const char *mark = strchr(server, '#');
    int len = (int)(mark ? (size_t)(mark - server) : strlen(server));
    bool v6 = memchr(server, ':', (size_t)len) != NULL;

    (void)snprintf(text, sizeof(text), "%s%.*s%s%s%s", v6 ? "[" : "", len,
                   server, v6 ? "]" : "", mark ? ":" : "",
                   mark ? mark + 1 : "");
    return ares_set_servers_ports_csv(n->channel, text) == ARES_SUCCESS
               ? 0
               : -EINVAL;
}

int egress_names_open(struct egress *e, const char *server, struct names **ret)
{
    struct names *n = xcalloc(1, sizeof(*n));
    char lookups[] = "b";
    struct ares_options options = {
        .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
        .timeout = TIMEOUT_MS,
        .tries = TRIES,
        .lookups = lookups,
        .sock_state_cb = on_interest,
        .sock_state_cb_data = n,
    };
    int r = 0;

    n->e = e;
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        n->sockets[i] = (struct names_socket){.watch = {.fd = -1}, .names = n};
    if (ares_init_options(&n->channel, &options,
                          ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS |
                              ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                              ARES_OPT_SOCK_STATE_CB) != ARES_SUCCESS) {
        free(n);
        return -EINVAL;
    }
    if (server[0])
        r = set_server(n, server);
    if (r < 0) {
        egress_names_close(n);
        return r;
    }
    *ret = n;
    return 0;
}

void egress_names_close(struct names *n)
{
    if (!n)
        return;
    ares_destroy(n->channel);
    free(n);
}

void egress_names_tick(struct names *n)
{
    ares_process_fd(n->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

/* ---- one name ----------------------------------------------------------- */

/* Copies up to ADDRESSES_MAX addresses, and checks every address. */
static const char *collect_addresses(struct names_query *q,
                                     const struct ares_addrinfo *found,
                                     struct sockaddr_storage *ret,
                                     size_t *ret_count)
{
    size_t n = 0;

    for (const struct ares_addrinfo_node *a = found->nodes; a;
         a = a->ai_next) {
        const char *why;

        if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
            continue;

        const void *bytes =
            a->ai_addr->sa_family == AF_INET
                ? (const void *)&((const struct sockaddr_in *)a->ai_addr)
                      ->sin_addr
                : &((const struct sockaddr_in6 *)a->ai_addr)->sin6_addr;
        why = q->any ? NULL
                     : egress_host_forbidden(a->ai_addr->sa_family, bytes,
                                             &q->e->setup);
        if (why)
            return why;
        if (n < ADDRESSES_MAX) {
            memset(&ret[n], 0, sizeof(ret[n]));
            memcpy(&ret[n++], a->ai_addr,
                   MIN((size_t)a->ai_addrlen, sizeof(ret[0])));
        }
    }
    *ret_count = n;
    return NULL;
}

static int status_of(int ares)
{
    switch (ares) {
    case ARES_SUCCESS:
        return 0;
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
        return -ENOENT;
    default:
        return -EAGAIN;
    }
}

static void on_found(void *ctx, int status, int timeouts,
                     struct ares_addrinfo *found)
{
    struct names_query *q = ctx;
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    int r = status_of(status);
    const char *why = NULL;
    size_t count = 0;

    (void)timeouts;
    if (r == 0 && found)
        why = collect_addresses(q, found, addresses, &count);
    if (why)
        r = -EACCES;
    else if (r == 0 && count == 0)
        r = -ENOENT;
    if (found)
        ares_freeaddrinfo(found);
    if (q->owner)
        *q->owner = NULL;
    if (q->on_done)
        q->on_done(q->ctx, r, why, addresses, r == 0 ? count : 0);
    free(q);
}

void egress_names_find(struct names *n, const char *host, int family, bool any,
                       names_done on_done, void *ctx, struct names_query **ret)
{
    struct ares_addrinfo_hints hints = {.ai_family = family,
                                        .ai_socktype = SOCK_STREAM,
                                        .ai_flags = ARES_AI_NOSORT};
    struct names_query *q = xcalloc(1, sizeof(*q));
    char absolute[EGRESS_HOST_MAX + 1];

    *q = (struct names_query){n->e, any, on_done, ctx, ret};
    *ret = q;
    /* With a dot at the end no search list applies, whatever is configured. */
    (void)snprintf(absolute, sizeof(absolute), "%s.", host);
    ares_getaddrinfo(n->channel, absolute, NULL, &hints, on_found, q);
}

void egress_names_cancel(struct names_query *q)
{
    if (!q)
        return;
    q->on_done = NULL;
    q->owner = NULL;
}
