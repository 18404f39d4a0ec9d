/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between the warden and a zygote, over one SEQPACKET socket.
 * The zygote says READY once, when its imports are done and its heap is
 * frozen; from then on each SPAWN is answered by one SPAWNED. The new
 * process is a sibling of the zygote, a child of the warden, and waits on
 * its `go` descriptor for two bytes: its ids are mapped, and it is in its
 * control groups.
 *
 *   SPAWN descriptors: ctl, events, go, filter, then scratch, dev, the
 *   layers of its workspace (detached mounts, the upper one first) and the
 *   `tasks` files of its control groups, as the spec says
 */
#ifndef GLOVEBOX_WIRE_ZYGOTE_MSG_H
#define GLOVEBOX_WIRE_ZYGOTE_MSG_H

#include <stdint.h>

#include "wire/warden_msg.h"

#define SANDBOX_CPU_WORDS 16 /* 1024 processors */

/* The grant: written by the warden, read by the child. */
struct sandbox_spec {
    struct warden_limits limits;
    uint64_t cpus[SANDBOX_CPU_WORDS]; /* processors it may run on */
    uint32_t has_scratch;             /* a scratch mount is handed down */
    uint32_t has_dev;                 /* a /dev mount is handed down */
    uint32_t accept_no_landlock;      /* the operator accepted its absence */
    uint32_t own_uid; /* a host uid nobody else has, and no other group */
    uint32_t groups;  /* control groups it joins itself; see SPAWN */
    uint32_t layers;  /* below its scratch in /mnt/data; see SPAWN */
};

/* Descriptors a zygote is started with, besides 0, 1 and 2. */
#define ZYGOTE_SOCKET_FD 3
#define ZYGOTE_SPEC_FD 4

enum zygote_msg_type {
    ZYGOTE_READY = 1,
    ZYGOTE_SPAWN,
    ZYGOTE_SPAWNED,
};

struct zygote_request {
    uint32_t type;
    uint32_t unused;
    struct sandbox_spec spec;
};

struct zygote_reply {
    uint32_t type;
    int32_t errnum; /* SPAWNED: why not, or 0 */
    int32_t pid;    /* SPAWNED: as the zygote and the warden see it */
    uint32_t unused;
};

#endif
