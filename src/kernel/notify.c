/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the session's code that name a destination (connect, sendto,
 * sendmsg, sendmmsg) wait until pid 1 has examined it: calls that stay on this
 * machine continue, all others are recorded and refused. The address is read
 * from the caller's memory, which may change afterwards; that gains nothing,
 * because a call that continues can reach only loopback. Runs in pid 1, with
 * the session's rights.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"

#define MESSAGES_MAX 1024 /* of one sendmmsg; the limit of Linux */
#define MESSAGES_STEP 32

/* The caller's memory, while its call waits. */
struct caller {
    struct net *net;
    int memory;
    bool refuse;
};

static bool read_at(const struct caller *c, uint64_t at, void *buf, size_t len)
{
    return at <= INT64_MAX &&
           pread(c->memory, buf, len, (off_t)at) == (ssize_t)len;
}

/* ---- what is meant ------------------------------------------------------ */

static bool stays_here4(uint32_t address)
{
    uint32_t a = ntohl(address);

    return a >> 24 == IN_LOOPBACKNET || a == INADDR_ANY;
}

static bool stays_here6(const struct in6_addr *a)
{
    uint32_t last;

    if (IN6_IS_ADDR_LOOPBACK(a) || IN6_IS_ADDR_UNSPECIFIED(a))
        return true;
    memcpy(&last, &a->s6_addr[12], sizeof(last));
    return IN6_IS_ADDR_V4MAPPED(a) && stays_here4(last);
}

static void refuse(struct caller *c, int family, const void *address,
                   uint16_t port)
{
    char text[INET6_ADDRSTRLEN] = "?";

    if (address)
        (void)inet_ntop(family, address, text, sizeof(text)); /* it fits */
    net_note(c->net, INIT_BLOCKED_CONNECT, text, ntohs(port), 1);
    c->refuse = true;
}

/* Families without a route and addresses of a wrong length are left to Linux.
 * connecting: AF_UNSPEC means to disconnect; for datagrams it means IPv4. */
static void judge(struct caller *c, const struct sockaddr_storage *to,
                  size_t len, bool connecting)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)to;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)to;
    bool old = to->ss_family == AF_INET ||
               (to->ss_family == AF_UNSPEC && !connecting);

    if (old && len >= sizeof(*four)) {
        if (!stays_here4(four->sin_addr.s_addr))
            refuse(c, AF_INET, &four->sin_addr, four->sin_port);
    } else if (to->ss_family == AF_INET6 &&
               len >= offsetof(struct sockaddr_in6, sin6_scope_id)) {
        if (!stays_here6(&six->sin6_addr))
            refuse(c, AF_INET6, &six->sin6_addr, six->sin6_port);
    }
}

/* If the address cannot be read, Linux cannot read it either and fails the
 * call.
 */
static void look_at(struct caller *c, uint64_t at, uint64_t len,
                    bool connecting)
{
    struct sockaddr_storage to = {0};
    int32_t bytes = (int32_t)len; /* as the kernel takes it */

    if (at && bytes >= (int32_t)sizeof(to.ss_family) &&
        bytes <= (int32_t)sizeof(to) && read_at(c, at, &to, (size_t)bytes))
        judge(c, &to, (size_t)bytes, connecting);
}

static void look_at_message(struct caller *c, uint64_t at)
{
    struct msghdr m;

    if (read_at(c, at, &m, offsetof(struct msghdr, msg_iov)))
        look_at(c, (uintptr_t)m.msg_name, m.msg_namelen, false);
}

static void look_at_messages(struct caller *c, uint64_t at, uint64_t count)
{
    struct mmsghdr m[MESSAGES_STEP];
    uint32_t left = MIN((uint32_t)count, (uint32_t)MESSAGES_MAX);

    while (left && !c->refuse) {
        uint32_t n = MIN(left, (uint32_t)MESSAGES_STEP);

        if (!read_at(c, at, m, n * sizeof(m[0])))
            n = 1; /* the rest may be unmapped; the first is used */
        if (n == 1 && !read_at(c, at, m, sizeof(m[0])))
            return;
        for (uint32_t i = 0; i < n && !c->refuse; i++)
            look_at(c, (uintptr_t)m[i].msg_hdr.msg_name,
                    m[i].msg_hdr.msg_namelen, false);
        at += n * sizeof(m[0]);
        left -= n;
    }
}

static void look(struct caller *c, const struct seccomp_data *call)
{
    switch (call->nr) {
    case SYS_connect:
        look_at(c, call->args[1], call->args[2], true);
        return;
    case SYS_sendto:
        look_at(c, call->args[4], call->args[5], false);
        return;
    case SYS_sendmsg:
        look_at_message(c, call->args[1]);
        return;
    case SYS_sendmmsg:
        look_at_messages(c, call->args[1], call->args[2]);
        return;
    }
}

/* ---- asked and answered ------------------------------------------------- */

/*
 * A process that made its memory unreadable is refused, and recorded without a
 * destination. Where the host makes all memory unreadable, calls continue, and
 * the missing route refuses them.
 */
static void examine(struct net *n, const struct seccomp_notif *req,
                    struct caller *c)
{
    int memory cleanup(fd_close) = -1;
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/%u/mem", req->pid);
    memory = open(path, O_RDONLY | O_CLOEXEC);
    c->memory = memory;
    /* Only now it is certain whose memory was opened. */
    if (ioctl(n->watch, SECCOMP_IOCTL_NOTIF_ID_VALID, &req->id) < 0)
        return;
    if (memory >= 0)
        look(c, &req->data);
    else if (!n->opaque)
        refuse(c, AF_UNSPEC, NULL, 0);
}

bool notify_one(struct net *n)
{
    struct pollfd p = {.fd = n->watch, .events = POLLIN};
    struct caller c = {.net = n, .memory = -1};
    struct seccomp_notif_resp answer = {0};
    struct seccomp_notif req = {0};

    /* Taking a notification waits for one, so one must be there. */
    if (poll(&p, 1, 0) != 1 || !(p.revents & POLLIN))
        return false;
    if (ioctl(n->watch, SECCOMP_IOCTL_NOTIF_RECV, &req) < 0)
        return errno == ENOENT || errno == EINTR; /* its caller is gone */
    examine(n, &req, &c);
    answer.id = req.id;
    if (c.refuse)
        answer.error = -ENETUNREACH;
    else
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    /* A caller that is gone needs no answer. */
    (void)ioctl(n->watch, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    return true;
}
