/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving messages: SEQPACKET with descriptors, stream frames, and the pairs
 * codec. Encodes and decodes; never acts. Returns a negative errno.
 */
#ifndef GLOVEBOX_WIRE_WIRE_H
#define GLOVEBOX_WIRE_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/kernel_msg.h"

#define WIRE_FDS_MAX 16

/* One packet with fd_count borrowed descriptors beside it. */
int wire_send(int sock, const void *msg, size_t len, const int *fds,
              size_t fd_count);
/* Two parts in one packet: a header and its payload. */
int wire_send2(int sock, const void *head, size_t head_len, const void *body,
               size_t body_len, const int *fds, size_t fd_count);
/*
 * One packet. Received descriptors are close-on-exec and owned by caller;
 * ret_fds has room for WIRE_FDS_MAX. Returns its length, 0 at end of file,
 * -EMSGSIZE when it was longer than len or had too many descriptors, and
 * -EMFILE when its descriptors did not fit into this process's table: buf then
 * holds the message, but for bytes it did not have. Neither keeps a
 * descriptor.
 */
ssize_t wire_recv(int sock, void *buf, size_t len, int *ret_fds,
                  size_t *ret_fd_count);

/* A frame on a blocking stream socket. */
int wire_frame_send(int sock, uint32_t type, const void *payload, size_t len);

/* Next pair of a payload; *pos starts at 0. 1: one more, 0: end, -EBADMSG. */
int wire_pairs_next(const char *payload, size_t len, size_t *pos,
                    struct kernel_pair *ret_pair);

#endif
