/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the wire module with the bytes of a hostile peer: the input is cut
 * into frames as a kernel would send them, each is moved through a real
 * socket and back, its payload read as pairs, and the whole input is once
 * received as a packet into less room than it may need, with descriptors
 * beside it that must never leak.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "wire/wire.h"

#define MOVED_MAX 65536u /* fits a socket's buffer whole */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Received into room bytes on the heap, so that a sanitizer guards its end. */
static void try_packet(const uint8_t *data, size_t size)
{
    size_t room = size ? 1 + data[0] : 1;
    size_t given = size > 1 ? data[1] % (WIRE_FDS_MAX + 1) : 0, count = 99;
    char *in cleanup(mem_free) = xmalloc(room);
    int pair[2], fds[WIRE_FDS_MAX], got[WIRE_FDS_MAX];
    ssize_t n;

    assert(fd_socketpair(SOCK_SEQPACKET, pair) == 0);
    for (size_t i = 0; i < given; i++)
        fds[i] = pair[0];
    assert(wire_send(pair[0], data, size, fds, given) == 0);
    n = wire_recv(pair[1], in, room, got, &count);
    if (size == 0) {
        assert(n == 0 && count == 0);
    } else if (size > room) {
        assert(n == -EMSGSIZE && count == 0);
    } else {
        assert((size_t)n == size && count == given);
        assert(memcmp(in, data, size) == 0);
    }
    for (size_t i = 0; i < count; i++) {
        assert(fcntl(got[i], F_GETFD) == FD_CLOEXEC);
        fd_close(&got[i]);
    }
    fd_close(&pair[0]);
    /* Had one been kept, this end would not see the end. */
    assert(wire_recv(pair[1], in, room, NULL, NULL) == 0);
    fd_close(&pair[1]);
}

static void try_pairs(const char *payload, size_t len)
{
    const char *end = payload;
    struct kernel_pair pair;
    size_t pos = 0;
    int r;

    while ((r = wire_pairs_next(payload, len, &pos, &pair)) > 0) {
        assert(pair.key_len <= KERNEL_PAIR_KEY_MAX);
        assert(pair.key == end + 2 * sizeof(uint32_t));
        assert(pair.value == pair.key + pair.key_len);
        end = pair.value + pair.value_len;
        assert(end == payload + pos && pos <= len);
    }
    assert(r == -EBADMSG || (r == 0 && pos == len));
}

static void try_frame(const struct kernel_frame *head, const char *payload)
{
    char *in cleanup(mem_free) = xmalloc(head->len);
    struct kernel_frame back;
    int pair[2];

    assert(fd_socketpair(SOCK_STREAM, pair) == 0);
    assert(wire_frame_send(pair[0], head->type, payload, head->len) == 0);
    assert(fd_read_all(pair[1], &back, sizeof(back)) == sizeof(back));
    assert(back.type == head->type && back.len == head->len);
    assert(fd_read_all(pair[1], in, head->len) == (ssize_t)head->len);
    try_pairs(in, head->len);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    struct kernel_frame head;

    if (size <= MOVED_MAX)
        try_packet(data, size);
    for (int i = 0; i < 32 && (size_t)(end - at) >= sizeof(head); i++) {
        memcpy(&head, at, sizeof(head));
        at += sizeof(head);
        if (head.len > KERNEL_FRAME_MAX) {
            assert(wire_frame_send(-1, head.type, at, head.len) == -EMSGSIZE);
            break;
        }
        if (head.len > (size_t)(end - at) || head.len > MOVED_MAX)
            break;
        try_frame(&head, at);
        at += head.len;
    }
    return 0;
}
