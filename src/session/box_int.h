/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/session/: one sandbox, as those who have a session's turn use
 * it. session_int.h says how it fits in, and in which order locks nest.
 */
#ifndef GLOVEBOX_SESSION_BOX_INT_H
#define GLOVEBOX_SESSION_BOX_INT_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/thread.h"
#include "warden/call.h"
#include "wire/kernel_msg.h"

struct error;
struct session;
struct tenant;

/* ---- box.c, broker.c, kernel.c: one sandbox ----------------------------- */

#define BOX_SPAWN_MS 30000u /* how long to wait for a zygote */
#define BOX_CALL_MS 5000u   /* one request to pid 1 */
#define BOX_KILL_MS 2000u   /* the same when we want it dead */

/* How long a sandbox may take to come up. One that takes longer is a sign of
 * an overloaded machine (ERR_BUSY), not of a session that misbehaves. Unit
 * tests define times of their own. */
struct box_times {
    uint32_t ready_ms;  /* spawn to "walls stand" */
    uint32_t kernel_ms; /* start to the kernel's first frame */
    uint32_t slot_ms;   /* until a slot is free at the warden */
};
extern const struct box_times session_box_times;

struct box {
    atomic_uint refs;
    struct warden_link *link; /* borrowed */
    struct warden_limits limits;
    uint64_t made_ms; /* by clock_mono_ms */
    uint32_t slot;
    struct mutex slot_lock;
    bool released; /* slot_lock: the slot is no longer ours to name */

    struct mutex ctl_lock;
    int ctl;
    uint32_t seq;             /* ctl_lock */
    uint64_t ctl_deadline_ms; /* ctl_lock: of the request under way */
    uint32_t ctl_patience_ms; /* ctl_lock: from its begin to that */
    atomic_bool broken;       /* lied, hung or gone: good for release only */
    atomic_bool touched;      /* code has run in it, or it was written to */
    struct session *network;  /* whose network it has, referenced from
                                 session_net_attach to the release; or NULL */

    /* Below: the turn's owner only. */
    int events;
    int frames;     /* -1: no kernel */
    int pipes[2];   /* read ends: stdout, stderr; non-blocking */
    int writers[2]; /* kept, so that a new kernel or a shell gets the same
                       pipes and a closed end never looks like an end */
    bool kernel_alive;
    uint32_t kernel_pid;      /* inside; 0: not told */
    uint32_t cells;           /* this kernel has run */
    struct buf pending;       /* a frame not yet complete */
    struct meters meters;     /* what the kernel counts of it */
    struct warden_usage base; /* as of the last execution's end */
    uint32_t alone;           /* processes and threads before the first */
    bool background;          /* see sched_class.c */
    struct tenant
        *_Atomic background_of; /* counted as background; any thread */

    struct mutex guest_env_lock;
    struct buf environment; /* guest_env_lock: all that was said, as lines */
    bool environment_told;  /* guest_env_lock: this kernel knows it */
};

/* ERR_BUSY: `what` (a clause, "it did not …") within ms. */
int session_box_late(const char *what, uint32_t ms, struct error *err);
/* layers (borrowed): folders of the workspace, the upper one first. */
int session_box_open(struct warden_link *link, uint32_t runtime,
                     const struct warden_limits *limits, const int *layers,
                     unsigned layer_count, bool background,
                     const atomic_bool *stopping, struct box **ret,
                     struct error *err);
struct box *session_box_ref(struct box *b);
void session_box_unref(struct box *b);
/* By its meters, or from the warden when they say nothing any more. */
int session_box_usage(struct box *b, struct warden_usage *ret,
                      struct error *err);
/* Warden calls that do nothing once the slot was released. */
int session_box_fate(struct box *b, struct warden_usage *ret,
                     struct error *err); /* alive? and how it ended */
/* What fails is of no harm. */
void session_box_set_background(struct box *b, bool background);
void session_box_kill(struct box *b);
void session_box_release(struct box *b);
/* 1: one event, 0: none now, -1: end (or nonsense): the box is gone. */
int session_box_event(struct box *b, struct init_event *ret);
/* Looks at what happened while nobody listened; false: the box is gone.
 * kernel_alive is right afterwards. */
bool session_box_check(struct box *b);
/* Ends everything inside but pid 1 and starts a fresh kernel. */
int session_kernel_start(struct box *b, struct error *err);

struct broker_request {
    uint32_t type; /* enum init_request_type */
    uint32_t arg;
    const char *path; /* NULL: none; checked before */
    const int *fds;   /* borrowed */
    size_t fd_count;
    uint32_t timeout_ms; /* 0: BOX_CALL_MS */
};

struct broker_reply {
    int errnum; /* 0, or pid 1's own refusal */
    uint32_t arg;
    int fd;              /* owned by caller; -1: none came */
    const char *payload; /* in the caller's room */
    size_t payload_len;
    uint64_t free_bytes;
    uint64_t free_inodes;
    uint32_t blocked; /* SCAN: there are attempts to be told */
};

/*
 * One request, one reply. room: for the reply and its payload, or NULL for
 * requests that have none. Fails only when the box is broken (it is killed
 * then); a refusal is errnum of the reply. want_fd: one must come on success,
 * none otherwise.
 */
int session_broker_call(struct box *b, const struct broker_request *request,
                        char *room, size_t room_len, bool want_fd,
                        struct broker_reply *ret, struct error *err);
/* The two halves, for doing something else between; ctl_lock is held from a
 * successful begin to the end. */
int session_broker_begin(struct box *b, const struct broker_request *request,
                         struct error *err);
int session_broker_end(struct box *b, char *room, size_t room_len,
                       bool want_fd, struct broker_reply *ret,
                       struct error *err);
int session_broker_signal(struct box *b, enum init_signal sig,
                          uint32_t timeout_ms, struct error *err);

/* ---- guest_env.c: what code inside finds around it -----------------------
 * Both belong to this box: a fresh kernel or shell in it has them too, and
 * whoever makes a session a new box says them again.
 */

/* At most INIT_ENVIRONMENT_MAX bytes of lines "NAME=VALUE", or "NAME" to take
 * one away; names of letters, digits
 * and '_', values without control characters. Added to what was said before.
 * Shells have it from now on, Python from the next cell. */
int session_box_environment(struct box *b, const char *text, size_t len,
                            struct error *err);
/* A certificate authority, PEM, for INIT_CA_FILE, where it is put behind the
 * system's; it replaces the one given before. len 0: none any more. */
int session_box_ca(struct box *b, const char *pem, size_t len,
                   struct error *err);
/* What a kernel is yet to be told, once; empty: nothing. ret: initialised. */
void session_guest_env_take(struct box *b, struct buf *ret);
void session_guest_env_forget(struct box *b); /* its kernel is a new one */

/* One entry of a SCAN or LIST payload: 1, 0 at the end, -EBADMSG. */
int session_broker_entry(const char *payload, size_t len, size_t *pos,
                         struct init_entry *ret, const char **ret_path);

#endif
