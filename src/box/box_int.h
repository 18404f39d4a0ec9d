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

/* An interpreter beside the kernel, see helper.c. */
struct box_helper {
    int frames; /* -1: never started */
    bool alive;
    uint32_t pid;         /* inside */
    uint32_t cells;       /* it has run */
    uint32_t environment; /* guest_env_lock: changes that it knows */
    struct buf pending;   /* a frame not yet complete */
};

/* A state of the kernel, see memory.c. */
struct box_point {
    uint32_t pid;   /* of the copy */
    uint32_t cells; /* that it had run */
    uint32_t tasks; /* processes and threads; one that was the kernel has
                       those of libraries */
};

struct box {
    atomic_uint refs;
    struct warden_link *link; /* borrowed */
    struct warden_limits limits;
    uint64_t created_ms; /* by clock_mono_ms */
    uint32_t slot;
    unsigned char zygote[WARDEN_ZYGOTE_ID];
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
    uint32_t kernel_pid;                         /* inside; 0: unknown */
    uint32_t cells;                              /* this kernel has run */
    bool shells_ran;                             /* and left their state */
    struct buf pending;                          /* a frame not yet complete */
    struct box_helper helpers[INIT_HELPERS_MAX]; /* by number - 1 */
    uint32_t active; /* whose channel box_frames_* use; 0: kernel's */
    /* In the order of time. The kernel is at points[at] and may have run cells
     * since, or is beside them (at == point_count). */
    struct box_point points[2 * BOX_POINTS_MAX];
    unsigned point_count, at;
    uint64_t relieved_at;   /* memory in use when points ended for it; or 0 */
    uint32_t memory_number; /* of the last KERNEL_MEMORY */
    struct meters meters;   /* counters of the control group */
    struct warden_usage base; /* at the end of the last execution */
    uint32_t alone;           /* processes and threads before the first */
    bool background;          /* scheduling class; slot_lock to change */

    struct mutex guest_env_lock;
    struct buf environment;       /* guest_env_lock: all lines set */
    bool environment_told;        /* guest_env_lock: this kernel has them */
    uint32_t environment_changes; /* guest_env_lock: so far */
};

int box_kernel_begin(struct box *b, const struct box_origin *origin,
                     struct box_start *ret, struct error *err);
void box_guest_env_reset(struct box *b); /* the kernel is a new one */
/* The starter of this build. */
int box_memory_wake(struct box *b, const struct box_origin *origin,
                    enum box_image_problem *ret_problem, struct error *err);
/* kernel.c: starts a kernel, from an image if image_fd >= 0; *ret_image is
 * then what became of it. */
int box_kernel_start_from(struct box *b, uint32_t how, int image_fd,
                          enum kernel_image *ret_image, struct error *err);
void box_points_lost(struct box *b); /* they ended with the old kernel */
/* That point has ended. */
void box_point_ended(struct box *b, uint32_t pid);
unsigned box_points_alive(const struct box *b); /* processes of points */
void box_helpers_init(struct box *b);
void box_helpers_done(struct box *b);
struct box_helper *box_helper_active(struct box *b); /* NULL: the kernel */

#endif
