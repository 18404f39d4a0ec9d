/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between the warden and a zygote, over one SEQPACKET socket.
 * The zygote sends READY once, when its imports are done and its heap is
 * frozen, or when it was revived from an image; then it answers each SPAWN
 * with one SPAWNED. The new process is a sibling of the zygote, a child of the
 * warden, and waits on its `go` descriptor for two bytes: one when its ids are
 * mapped, one when it is in its control groups.
 *
 *   SPAWN descriptors: ctl, events, go, filter, then scratch, dev, the
 *   layers of its workspace (detached mounts, the upper one first) and the
 *   `tasks` files of its control groups, as the spec says; for the tier
 *   "gvisor" last the program runsc, the folder of the checkpoint (a detached
 *   mount) and, to create that checkpoint, the runtime's spec
 *
 *   READY descriptors: none, or the two sealed memory files that are the
 *   zygote's image (tables, frozen heap). The warden stores them as they are
 *   and passes them to glovebox-revive when it starts this zygote again
 */
#ifndef GLOVEBOX_WIRE_ZYGOTE_MSG_H
#define GLOVEBOX_WIRE_ZYGOTE_MSG_H

#include <stdint.h>

#include "wire/warden_msg.h"

#define SANDBOX_CPU_WORDS 16 /* 1024 processors */

/* Whether gVisor is between the session's code and the host's kernel. */
enum sandbox_guest {
    SANDBOX_GUEST_NONE = 0,
    SANDBOX_GUEST_SESSION, /* the code runs in a guest restored from a
                              checkpoint */
    SANDBOX_GUEST_PREPARE, /* not a session: creates the checkpoint and ends */
};

/* The grant: written by the warden, read by the child. */
struct sandbox_spec {
    struct warden_limits limits;
    uint64_t cpus[SANDBOX_CPU_WORDS]; /* processors it may run on */
    uint32_t has_scratch;             /* a scratch mount is passed */
    uint32_t has_dev;                 /* a /dev mount is passed */
    uint32_t accept_no_landlock;      /* the operator accepted its absence */
    uint32_t own_uid; /* a host uid that no other session has */
    uint32_t groups;  /* control groups it joins itself; see SPAWN */
    uint32_t layers;  /* below its scratch in /mnt/data; see SPAWN */
    uint32_t guest;   /* enum sandbox_guest */
    uint32_t unused;
};

/* Descriptors a zygote is started with, besides 0, 1 and 2. */
#define ZYGOTE_SOCKET_FD 3
#define ZYGOTE_SPEC_FD 4
/* Instead of the spec, those of glovebox-revive. The program is the image's
 * python3, which the zygote's user may not read. */
#define ZYGOTE_TABLES_FD 4
#define ZYGOTE_HEAP_FD 5
#define ZYGOTE_PROGRAM_FD 6

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
    unsigned char id[WARDEN_ZYGOTE_ID]; /* READY: 0 if it has no image */
};

#endif
