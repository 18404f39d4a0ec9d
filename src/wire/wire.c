/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets, frames and pairs; see wire.h. Runs in the daemon, the warden, the
 * zygote and a session's pid 1. Trusts nothing it decodes.
 */
#include "wire/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/fd.h"
#include "base/mem.h"

union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
};

int wire_send2(int sock, const void *head, size_t head_len, const void *body,
               size_t body_len, const int *fds, size_t fd_count)
{
    struct iovec iov[2] = {{(void *)head, head_len}, {(void *)body, body_len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = body_len ? 2 : 1};
    union control control;
    ssize_t n;

    if (fd_count > WIRE_FDS_MAX)
        return -EINVAL;
    if (fd_count) {
        struct cmsghdr *c;

        memset(&control, 0, sizeof(control));
        msg.msg_control = control.room;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
    }
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == head_len + body_len ? 0 : -EIO;
}

int wire_send(int sock, const void *msg, size_t len, const int *fds,
              size_t fd_count)
{
    return wire_send2(sock, msg, len, NULL, 0, fds, fd_count);
}

static size_t collect_fds(struct msghdr *msg, int *ret_fds)
{
    size_t count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < n && count < WIRE_FDS_MAX; i++) {
            memcpy(&ret_fds[count], CMSG_DATA(c) + i * sizeof(int),
                   sizeof(int));
            count++;
        }
    }
    return count;
}

ssize_t wire_recv(int sock, void *buf, size_t len, int *ret_fds,
                  size_t *ret_fd_count)
{
    struct iovec iov = {buf, len};
    union control control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof(control.room)};
    int fds[WIRE_FDS_MAX];
    size_t count;
    ssize_t n;

    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    count = collect_fds(&msg, fds);
    /* Fewer than the buffer could hold: our own table was full. */
    if (msg.msg_flags & MSG_TRUNC)
        n = -EMSGSIZE;
    else if (msg.msg_flags & MSG_CTRUNC)
        n = count < WIRE_FDS_MAX ? -EMFILE : -EMSGSIZE;
    if (n <= 0 || !ret_fds) {
        for (size_t i = 0; i < count; i++)
            fd_close(&fds[i]);
        count = 0;
    } else {
        memcpy(ret_fds, fds, sizeof(int) * count);
    }
    if (ret_fd_count)
        *ret_fd_count = count;
    return n;
}

static int send_all(int sock, const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = send(sock, bytes, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Not sendmsg, although it would send all of it at once: inside a session that
 * call waits until pid 1 has examined it (kernel/notify.c). */
int wire_frame_send(int sock, uint32_t type, const void *payload, size_t len)
{
    struct kernel_frame head = {.type = type, .len = (uint32_t)len};
    char first[4096];
    size_t part = MIN(len, sizeof(first) - sizeof(head));
    int r;

    if (len > KERNEL_FRAME_MAX)
        return -EMSGSIZE;
    memcpy(first, &head, sizeof(head));
    if (part)
        memcpy(first + sizeof(head), payload, part);
    r = send_all(sock, first, sizeof(head) + part);
    if (r < 0 || part == len)
        return r;
    return send_all(sock, (const char *)payload + part, len - part);
}

int wire_pairs_next(const char *payload, size_t len, size_t *pos,
                    struct kernel_pair *ret_pair)
{
    uint32_t lens[2];
    size_t left = len - *pos;

    if (left == 0)
        return 0;
    if (left < sizeof(lens))
        return -EBADMSG;
    memcpy(lens, payload + *pos, sizeof(lens));
    left -= sizeof(lens);
    if (lens[0] > KERNEL_PAIR_KEY_MAX || lens[0] > left ||
        lens[1] > left - lens[0])
        return -EBADMSG;
    ret_pair->key = payload + *pos + sizeof(lens);
    ret_pair->key_len = lens[0];
    ret_pair->value = ret_pair->key + lens[0];
    ret_pair->value_len = lens[1];
    *pos += sizeof(lens) + lens[0] + lens[1];
    return 1;
}
