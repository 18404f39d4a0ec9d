/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/box/: the structure. Locks, in the order they nest:
 * guest_env_lock, ctl_lock (one request to pid 1 at a time, bounded by its
 * deadline), slot_lock (warden calls on a slot we still own).
 */
#ifndef GLOVEBOX_BOX_BOX_INT_H
#define GLOVEBOX_BOX_BOX_INT_H

#include "base/thread.h"
#include "box/box.h"

struct box {
    atomic_uint refs;
    struct warden_link *link; /* borrowed */
    struct warden_limits limits;
    uint64_t created_ms; /* by clock_mono_ms */
    uint32_t slot;
    struct mutex slot_lock;
    bool released; /* slot_lock: the slot is no longer ours to name */

    struct mutex ctl_lock;
    int ctl;
    uint32_t seq;             /* ctl_lock */
    uint64_t ctl_deadline_ms; /* ctl_lock: of the request under way */
    uint32_t ctl_patience_ms; /* ctl_lock: from its begin to that */
    atomic_bool broken;       /* it lied, hung or ended */
    atomic_bool touched;      /* code has run in it, or it was written to */
    void (*release_fn)(void *ctx, struct box *b);
    _Atomic(void *) release_ctx;            /* NULL: no callback */
    _Atomic(struct box_count *) counted_in; /* or NULL */

    /* Below: with the turn only. */
    int events;
    int frames;     /* -1: no kernel */
    int pipes[2];   /* read ends: stdout, stderr; non-blocking */
    int writers[2]; /* kept, so that a new kernel or a shell gets the same
                       pipes, and a closed end never looks like an end */
    bool kernel_alive;
    uint32_t kernel_pid;      /* inside; 0: unknown */
    uint32_t cells;           /* this kernel has run */
    struct buf pending;       /* a frame not yet complete */
    struct meters meters;     /* counters of the control group */
    struct warden_usage base; /* at the end of the last execution */
    uint32_t alone;           /* processes and threads before the first */
    bool background;          /* scheduling class; slot_lock to change */

    struct mutex guest_env_lock;
    struct buf environment; /* guest_env_lock: all lines set */
    bool environment_told;  /* guest_env_lock: this kernel has them */
};

void box_guest_env_reset(struct box *b); /* the kernel is a new one */

#endif
