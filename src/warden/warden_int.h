/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the privileged files of warden/ only. All state of the process hangs
 * off one struct warden.
 */
#ifndef GLOVEBOX_WARDEN_WARDEN_INT_H
#define GLOVEBOX_WARDEN_WARDEN_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/sandbox.h"
#include "wire/meters.h"
#include "wire/warden_msg.h"

/*
 * A slot is what a session is on the host: a number, and by it a uid, a
 * control group and a scratch image.
 *
 *           make           made          spawn          pid 1 dies
 *   (none) ------> MAKING ------> SPARE ------> ALIVE -------------> DEAD
 *                    | failed                     | release            |
 *                    v                            v            release |
 *                 DRAINING <----------------------+<-------------------+
 *                    | drained
 *                    v
 *                  (none)
 *
 * from -> to [function]: none -> MAKING [slot_make]; MAKING -> SPARE
 * [slot_made]; SPARE -> ALIVE [slot_spawned]; ALIVE -> DEAD [slot_reaped];
 * MAKING, SPARE, ALIVE, DEAD -> DRAINING [slot_release]; DRAINING -> none
 * [slot_drain]. What waits for the disk, at both ends of a slot's life, is
 * done by a child (helper.c).
 */
enum slot_state {
    SLOT_MAKING,   /* a child makes its storage */
    SLOT_SPARE,    /* prepared, never used; no process */
    SLOT_ALIVE,    /* its pid 1 is our child */
    SLOT_DEAD,     /* pid 1 reaped; waits for the daemon's release */
    SLOT_DRAINING, /* released; processes, group and mounts are going */
};

struct slot {
    uint32_t number; /* 1 .. uid_count - 1; the uid is uid_base + number */
    enum slot_state state;
    pid_t pid;                        /* of pid 1; 0: none */
    uint64_t cpus[SANDBOX_CPU_WORDS]; /* it may use */
    int wait_status;                  /* once reaped */
    bool calm;                        /* it yields the processors */
    bool narrow;                      /* and keeps off those for the prompt */
    uint64_t calm_until_ms; /* DRAINING: it yields until then; 0: not */
    pid_t helper;           /* child that makes or frees its storage; 0 */
    int helper_sock;        /* MAKING: where the child answers, or -1 */
    bool freed;             /* DRAINING: that is done or being done */
    uint32_t ticket;        /* the SPAWN it is made for; 0: any */
    uint64_t made_ms;       /* since when it is SPARE */
    int scratch_fd;         /* detached mount, or -1 */
    int dev_fd;             /* detached mount, or -1 */
    int loop_index;         /* of the scratch, or -1 */
    int map_fd;             /* user namespace that maps its layers, or -1 */
    uint64_t scratch_bytes;
    uint32_t scratch_inodes;
    char group[16];       /* name of its control group: s<number> */
    uint32_t locks;       /* seen at the last look */
    uint32_t locks_ended; /* as many as it was ended for, or 0 */
};

struct zygote {
    pid_t pid; /* 0: none */
    int sock;
    bool ready;
    uint64_t started_ms;
    uint32_t spawns;
};

struct runtime {
    char image[WARDEN_NAME_MAX];
    int spec_fd;
    bool fresh_exec;
    struct zygote current; /* serves */
    struct zygote next;    /* still importing, will take over */
    uint64_t last_start_ms;
    uint32_t fast_deaths; /* in a row; slows restarts down */
};

struct warden {
    int sock; /* to the daemon */
    int signals;
    int daemon_mounts; /* namespace of the daemon's folders; -1: as ours */
    int own_mounts;    /* ours */
    bool asked;        /* SETUP came, which it may once */
    bool set_up;
    bool ending; /* the link is closed */
    struct warden_setup setup;
    uint32_t walls;
    struct cgroup_tree *groups;
    int scratch_dir;  /* fd */
    uid_t daemon_uid; /* the data directory's: the service user */
    gid_t daemon_gid;
    bool layers; /* a workspace can be laid below a session here */
    int filter_fd;
    struct slot **slots;
    size_t slot_count;
    uint32_t last_number;
    uint32_t failed_ticket; /* the SPAWN whose storage could not be made */
    int failed_errnum;      /* and why */
    uint64_t spare_bytes;   /* what spares are made for: the last request */
    uint32_t spare_inodes;
    unsigned next_cpu;
    bool room;             /* the calm keep off some processors */
    struct meters meters;  /* go with the reply that is being made */
    uint64_t locks_due_ms; /* of the next look at file locks */
    struct runtime runtimes[WARDEN_RUNTIMES_MAX];
    size_t runtime_count;
    uint32_t zygote_restarts;
};

/* ---- answers.c ----------------------------------------------------------
 */

struct warden_answer {
    bool before_setup; /* allowed only then; all others only after */
    size_t fds;        /* exactly so many come with it, layers aside */
    void (*answer)(struct warden *w, const struct warden_request *req,
                   int *fds, struct warden_reply *reply);
};

extern const struct warden_answer warden_answers[WARDEN_REQUEST_MAX];

/* Fills the reply's result, errnum and text; returns nothing to act on. */
void warden_reply_fail(struct warden_reply *reply, enum warden_result result,
                       int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- spawn.c ------------------------------------------------------------
 */

/* fds: ctl, events, folders of layers; what is used is replaced or kept. */
void warden_serve_spawn(struct warden *w, const struct warden_request *req,
                        int *fds, struct warden_reply *reply);

/* ---- policy.c: every field again -----------------------------------------
 */

bool warden_policy_setup(const struct warden_setup *s, const char **ret_why);
bool warden_policy_runtime(const struct warden_runtime *r,
                           const char **ret_why);
bool warden_policy_spawn(const struct warden *w, const struct warden_spawn *s,
                         const char **ret_why);

/* ---- posture.c: which walls this host can build ---------------------------
 */

uint32_t warden_posture_walls(const struct warden *w);

/* ---- slot.c
 * ----------------------------------------------------------------- */

struct slot *slot_find(struct warden *w, uint32_t number);
struct slot *slot_by_pid(struct warden *w, pid_t pid);
struct slot *slot_by_helper(struct warden *w, pid_t pid);
size_t slot_count(const struct warden *w, enum slot_state state);
/* A new slot, MAKING or (without storage of its own) SPARE already; NULL with
 * errno set. */
struct slot *slot_make(struct warden *w, uint64_t scratch_bytes,
                       uint32_t scratch_inodes);
/* Takes what the child of a MAKING slot has made. */
void slot_made(struct warden *w, struct slot *s);
/* A slot to spawn in: a matching spare, or a new one. NULL with errno; EAGAIN
 * while it is being made: the next SPAWN with this ticket gets it. */
struct slot *slot_take(struct warden *w, const struct warden_limits *limits,
                       uint32_t ticket);
/* Idle time goes into spares: makes one, or lets one go that is too many.
 * True when it did something. */
bool slot_tend_spares(struct warden *w);
void slot_spawned(struct slot *s, pid_t pid);
void slot_reaped(struct slot *s, int status);
void slot_release(struct warden *w, struct slot *s);
/* Also again after w->room changed. */
void slot_calm(struct warden *w, struct slot *s, bool calm);
/* Goes on with every DRAINING slot; true while some are left. */
bool slot_drain(struct warden *w);

/* ---- scratch.c
 * --------------------------------------------------------------- */

/* Makes and mounts the scratch of a slot and its device nodes. 0 or -errno */
int scratch_open(struct warden *w, struct slot *s);
void scratch_close(struct slot *s);
/* True while the kernel still holds the image of a closed scratch. */
bool scratch_busy(const struct warden *w, const struct slot *s);
void scratch_remove(struct warden *w, const struct slot *s);
/* Images left by an earlier run. */
void scratch_sweep(struct warden *w);

/* ---- helper.c: storage work in a child -----------------------------------
 */

/* What a child says that made a scratch; the descriptors come in this order.
 */
struct helper_result {
    int32_t errnum;
    int32_t loop_index;
    uint32_t scratch, dev, map; /* 1: among the descriptors */
};

/* Starts a child that makes the scratch of a slot. 0 or -errno */
int helper_make(struct warden *w, struct slot *s);
/* Its result, once helper_sock is readable. 0 or -errno */
int helper_made(struct slot *s);
/* Starts a child that removes the image and closes the mounts; ours are
 * closed. 0 or -errno */
int helper_free(struct warden *w, struct slot *s);

/* ---- layers.c
 * ---------------------------------------------------------------- */

/* What layers_open needs and can be made ahead. 0 or -errno */
int layers_prepare(const struct warden *w, struct slot *s);
/* Folders of the daemon's as mounts to be handed to the session; owned by
 * caller. -EPERM: one is not a folder of the daemon's. */
int layers_open(const struct warden *w, struct slot *s, const int *folders,
                size_t count, int *ret_mounts);
/* Tries it with a folder of our own. */
bool layers_possible(const struct warden *w, int folder);

/* ---- locks.c
 * ----------------------------------------------------------------- */

/* Ends sessions that hold too many; returns ms until the next look. */
int locks_tend(struct warden *w);

/* ---- zygote.c
 * ---------------------------------------------------------------- */

void zygote_start(struct warden *w, struct runtime *rt, struct zygote *z);
/* Reads what a zygote said (READY, or its end). */
void zygote_on_readable(struct warden *w, struct runtime *rt,
                        struct zygote *z);
/* True when pid was a zygote of ours. */
bool zygote_on_exit(struct warden *w, pid_t pid);
/* Starts, replaces and restarts as due; returns ms until the next look. */
int zygote_tend(struct warden *w);
/* Clones a session; 0 and its pid, or -errno. */
int zygote_spawn(struct warden *w, struct runtime *rt,
                 const struct sandbox_spec *spec, const int *fds, size_t count,
                 pid_t *ret_pid);
void zygote_stop_all(struct warden *w);

/* ---- zygote_child.c
 * ----------------------------------------------------------- */

/* In a fork of the warden: becomes the zygote of image; never returns. */
_Noreturn void zygote_child_run(const struct warden *w, const char *image,
                                int sock, int spec_fd);

#endif
