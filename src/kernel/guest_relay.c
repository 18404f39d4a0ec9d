/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest's way to the resolver and the proxy. Its network stack has a
 * loopback only, and no descriptor can leave it; so its pid 1 listens there
 * and asks the supervisor, over a channel of fixed messages, for a lookup or
 * for a new connection. The supervisor connects to the resolver or the proxy
 * on the loopback of its own network namespace, as a session of the tier
 * "process" would, and sends a socket in. Bytes are then copied on both sides.
 *
 * The same file serves both sides. Numbers are bounded, no buffer grows, and
 * nothing blocks. What arrives from the other side is checked.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"
#include "wire/dns.h"
#include "wire/egress_msg.h"
#include "wire/wire.h"

#define ROOM 16384u /* bytes on the way, in each direction */
#define AT_ONCE 32
#define BACKLOG 64

enum relay_type {
    RELAY_LOOKUP = 1, /* bytes: a question, or its answer */
    RELAY_CONNECT,    /* to the proxy; the answer has the same type and a
                         socket, or none: refused */
};

struct relay_msg {
    uint32_t type;
    uint32_t id; /* chosen inside, repeated in the answer */
    uint32_t len;
    unsigned char bytes[DNS_QUERY_MAX];
};

_Static_assert(DNS_ANSWER_MAX <= DNS_QUERY_MAX, "answers fit too");

struct flow {
    unsigned char *room;
    size_t at, end;
    bool over; /* nothing more comes */
};

struct conn {
    uint32_t id;
    int a, b;             /* a: TCP; b: the socket between the sides, or -1
                             while it is asked for */
    struct flow up, down; /* from a to b, from b to a */
    size_t polled;        /* where its two are in what relay_polls gave; 0 */
    bool used;
};

struct lookup {
    uint32_t id;
    int fd;                  /* outside: to the resolver, or -1 */
    struct sockaddr_in from; /* inside: the sender */
    size_t polled;           /* 0: not */
    bool used;
};

struct relay {
    bool inside;
    int chan;
    int resolver, proxy; /* inside: bound; -1 */
    bool listening;
    uint32_t last_id;
    size_t next_lookup; /* the oldest one */
    struct lookup lookups[RELAY_LOOKUPS_MAX];
    struct conn conns[RELAY_CONNS_MAX];
};

static int loopback_socket(int type, uint16_t port, bool binds)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd cleanup(fd_close) =
        socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (binds ? bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0
              : connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 &&
                    errno != EINPROGRESS)
        return -errno;
    return take_fd(fd);
}

struct relay *relay_new(bool inside, int chan)
{
    struct relay *r = xcalloc(1, sizeof(*r));

    r->inside = inside;
    r->chan = chan;
    r->resolver = r->proxy = -1;
    for (size_t i = 0; i < RELAY_LOOKUPS_MAX; i++)
        r->lookups[i].fd = -1;
    (void)fd_set_nonblock(chan, 1);
    /* Another process of the guest cannot have the port: none runs yet. */
    if (inside) {
        r->resolver = loopback_socket(SOCK_DGRAM, EGRESS_DNS_PORT, true);
        r->proxy = loopback_socket(SOCK_STREAM, EGRESS_PROXY_PORT, true);
    }
    return r;
}

static void close_conn(struct conn *c)
{
    fd_close(&c->a);
    fd_close(&c->b);
    free(c->up.room);
    free(c->down.room);
    *c = (struct conn){.a = -1, .b = -1};
}

void relay_free(struct relay *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < RELAY_CONNS_MAX; i++)
        if (r->conns[i].used)
            close_conn(&r->conns[i]);
    for (size_t i = 0; i < RELAY_LOOKUPS_MAX; i++)
        fd_close(&r->lookups[i].fd);
    fd_close(&r->resolver);
    fd_close(&r->proxy);
    fd_close(&r->chan);
    free(r);
}

/* The port is bound from the start, so that no other process of the guest can
 * have it. */
int relay_listen(struct relay *r)
{
    if (r->proxy < 0)
        return EADDRINUSE;
    if (!r->listening && listen(r->proxy, BACKLOG) < 0)
        return errno;
    r->listening = true;
    return 0;
}

/* ---- connections -------------------------------------------------------- */

static struct conn *add_conn(struct relay *r, uint32_t id, int a, int b)
{
    for (size_t i = 0; i < RELAY_CONNS_MAX; i++) {
        struct conn *c = &r->conns[i];

        if (c->used)
            continue;
        *c = (struct conn){.id = id, .a = a, .b = b, .used = true};
        c->up.room = xmalloc(ROOM);
        c->down.room = xmalloc(ROOM);
        return c;
    }
    return NULL;
}

static bool is_empty(const struct flow *f)
{
    return f->at == f->end;
}

/* Moves bytes of one direction; false: the connection broke. */
static bool move(struct flow *f, int from, int to)
{
    ssize_t n;

    if (is_empty(f) && !f->over) {
        n = recv(from, f->room, ROOM, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        f->at = 0;
        f->end = (size_t)n;
        f->over = n == 0;
        if (f->over)
            (void)shutdown(to, SHUT_WR); /* fails if it is closed already */
    }
    while (!is_empty(f)) {
        n = send(to, f->room + f->at, f->end - f->at,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        f->at += (size_t)n;
    }
    return true;
}

static void serve_conn(struct conn *c)
{
    if (!move(&c->up, c->a, c->b) || !move(&c->down, c->b, c->a) ||
        (c->up.over && c->down.over))
        close_conn(c);
}

/* Inside: a program connects to the proxy. */
static bool accept_one(struct relay *r)
{
    struct relay_msg msg = {.type = RELAY_CONNECT, .id = ++r->last_id};
    struct sockaddr_in from;
    socklen_t from_len = sizeof(from);
    int fd cleanup(fd_close) =
        accept4(r->proxy, (struct sockaddr *)&from, &from_len,
                SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return false;
    if (!add_conn(r, msg.id, fd, -1))
        return true; /* too many: closed */
    (void)take_fd(fd);
    if (wire_send(r->chan, &msg, sizeof(msg), NULL, 0) < 0)
        for (size_t i = 0; i < RELAY_CONNS_MAX; i++)
            if (r->conns[i].used && r->conns[i].id == msg.id)
                close_conn(&r->conns[i]);
    return true;
}

/* Outside: connects to the proxy and sends a socket in. */
static bool connect_for(struct relay *r, uint32_t id)
{
    struct relay_msg msg = {.type = RELAY_CONNECT, .id = id};
    int tcp cleanup(fd_close) =
        loopback_socket(SOCK_STREAM, EGRESS_PROXY_PORT, false);
    int pair[2] = {-1, -1};
    bool good = tcp >= 0 && fd_socketpair(SOCK_STREAM, pair) == 0 &&
                fd_set_nonblock(pair[0], 1) == 0 &&
                add_conn(r, id, tcp, pair[0]);
    int sent = wire_send(r->chan, &msg, sizeof(msg), &pair[1], good ? 1 : 0);

    if (good) {
        (void)take_fd(tcp);
        (void)take_fd(pair[0]);
    }
    fd_close(&pair[0]);
    fd_close(&pair[1]);
    return sent == 0;
}

/* Inside: the socket that was asked for, or none. */
static void connected(struct relay *r, uint32_t id, int *fd)
{
    for (size_t i = 0; i < RELAY_CONNS_MAX; i++) {
        struct conn *c = &r->conns[i];

        if (!c->used || c->id != id || c->b >= 0)
            continue;
        if (*fd < 0) {
            close_conn(c);
            return;
        }
        c->b = take_fd(*fd);
        return;
    }
}

/* ---- lookups ------------------------------------------------------------ */

static struct lookup *add_lookup(struct relay *r, uint32_t id)
{
    struct lookup *l = &r->lookups[r->next_lookup];

    r->next_lookup = (r->next_lookup + 1) % RELAY_LOOKUPS_MAX;
    fd_close(&l->fd); /* the oldest one gives way, and gets no answer */
    *l = (struct lookup){.id = id, .fd = -1, .used = true};
    return l;
}

/* Inside: a program asks for a name. */
static bool ask_one(struct relay *r)
{
    struct relay_msg msg = {.type = RELAY_LOOKUP};
    struct sockaddr_in from = {0};
    socklen_t from_len = sizeof(from);
    ssize_t n = recvfrom(r->resolver, msg.bytes, sizeof(msg.bytes),
                         MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);

    if (n < 0)
        return false;
    msg.len = (uint32_t)n;
    msg.id = ++r->last_id;
    add_lookup(r, msg.id)->from = from;
    (void)wire_send(r->chan, &msg, sizeof(msg), NULL, 0); /* full: no answer */
    return true;
}

/* Outside: asks the resolver. */
static void look_up(struct relay *r, const struct relay_msg *msg)
{
    int fd = loopback_socket(SOCK_DGRAM, EGRESS_DNS_PORT, false);

    if (fd < 0)
        return; /* no answer */
    add_lookup(r, msg->id)->fd = fd;
    (void)send(fd, msg->bytes, msg->len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool answer(struct relay *r, struct lookup *l)
{
    struct relay_msg msg = {.type = RELAY_LOOKUP, .id = l->id};
    ssize_t n = recv(l->fd, msg.bytes, sizeof(msg.bytes), MSG_DONTWAIT);
    int sent = 0;

    if (n < 0 && errno == EAGAIN)
        return true;
    msg.len = n > 0 ? (uint32_t)n : 0;
    if (n > 0)
        sent = wire_send(r->chan, &msg, sizeof(msg), NULL, 0);
    fd_close(&l->fd);
    l->used = false;
    return sent == 0 || sent == -EAGAIN;
}

static void pass_answer(struct relay *r, const struct relay_msg *msg)
{
    for (size_t i = 0; i < RELAY_LOOKUPS_MAX; i++) {
        struct lookup *l = &r->lookups[i];

        if (!l->used || l->id != msg->id)
            continue;
        (void)sendto(r->resolver, msg->bytes, msg->len,
                     MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&l->from,
                     sizeof(l->from));
        l->used = false;
        return;
    }
}

/* ---- the channel -------------------------------------------------------- */

/* 1: one more may be there, 0: none, -1: broken. */
static int take_message(struct relay *r)
{
    struct relay_msg msg;
    int fds[WIRE_FDS_MAX] = {-1};
    size_t count = 0;
    ssize_t n = wire_recv(r->chan, &msg, sizeof(msg), fds, &count);
    int result = 1;

    if (n == -EAGAIN)
        return 0;
    if (n != (ssize_t)sizeof(msg) || msg.len > sizeof(msg.bytes) ||
        count > 1 || (count && !r->inside))
        result = -1;
    else if (msg.type == RELAY_LOOKUP && r->inside)
        pass_answer(r, &msg);
    else if (msg.type == RELAY_LOOKUP)
        look_up(r, &msg);
    else if (msg.type == RELAY_CONNECT && r->inside)
        connected(r, msg.id, &fds[0]);
    else if (msg.type == RELAY_CONNECT)
        result = connect_for(r, msg.id) ? 1 : -1;
    else
        result = -1;
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    return result;
}

enum {
    AT_CHAN,
    AT_RESOLVER,
    AT_PROXY,
    AT_REST
};

static struct pollfd wanted(int fd, bool in, bool out)
{
    return (struct pollfd){
        .fd = in || out ? fd : -1,
        .events = (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0))};
}

/* Only what is there: poll() refuses more entries than the process may have
 * descriptors, and a session's limit may be small. */
size_t relay_polls(struct relay *r, struct pollfd *polls)
{
    size_t count = AT_REST;

    polls[AT_CHAN] = wanted(r->chan, true, false);
    polls[AT_RESOLVER] = wanted(r->resolver, true, false);
    polls[AT_PROXY] = wanted(r->proxy, r->listening, false);
    for (size_t i = 0; i < RELAY_LOOKUPS_MAX; i++) {
        struct lookup *l = &r->lookups[i];

        l->polled = 0;
        if (l->fd < 0)
            continue;
        l->polled = count;
        polls[count++] = wanted(l->fd, true, false);
    }
    for (size_t i = 0; i < RELAY_CONNS_MAX; i++) {
        struct conn *c = &r->conns[i];

        c->polled = 0;
        if (!c->used || c->b < 0)
            continue;
        c->polled = count;
        polls[count++] =
            wanted(c->a, is_empty(&c->up) && !c->up.over, !is_empty(&c->down));
        polls[count++] = wanted(c->b, is_empty(&c->down) && !c->down.over,
                                !is_empty(&c->up));
    }
    return count;
}

bool relay_serve(struct relay *r, const struct pollfd *polls)
{
    int more = polls[AT_CHAN].revents ? 1 : 0;

    /* First what polls tells of: taking a message may use a place again. */
    for (size_t i = 0; i < RELAY_LOOKUPS_MAX; i++) {
        struct lookup *l = &r->lookups[i];

        if (l->polled && polls[l->polled].revents && !answer(r, l))
            return false;
    }
    for (size_t i = 0; i < RELAY_CONNS_MAX; i++) {
        struct conn *c = &r->conns[i];

        if (c->polled &&
            (polls[c->polled].revents || polls[c->polled + 1].revents))
            serve_conn(c);
    }
    for (unsigned i = 0; polls[AT_RESOLVER].revents && i < AT_ONCE; i++)
        if (!ask_one(r))
            break;
    for (unsigned i = 0; polls[AT_PROXY].revents && i < AT_ONCE; i++)
        if (!accept_one(r))
            break;
    for (unsigned i = 0; more > 0 && i < AT_ONCE; i++)
        more = take_message(r);
    return more >= 0;
}
