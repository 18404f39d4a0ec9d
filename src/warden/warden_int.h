/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the privileged files of warden/ only. All state of the process is in one
 * struct warden.
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
 * A slot is the host's side of a session: a number, from which its uid,
 * control group and scratch image follow.
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
 * [slot_drain]. A child does the storage work that waits for the disk
 * (helper.c).
 */
enum slot_state {
    SLOT_MAKING,   /* a child makes its storage */
    SLOT_SPARE,    /* prepared, never used; no process */
    SLOT_ALIVE,    /* its pid 1 is our child */
    SLOT_DEAD,     /* pid 1 reaped; waits for the daemon's release */
    SLOT_DRAINING, /* released; its processes, group and mounts are being
                      removed */
};

struct checkpoint;
struct tier;

struct slot {
    uint32_t number; /* 1 .. uid_count - 1; the uid is uid_base + number */
    enum slot_state state;
    const struct tier *tier;          /* NULL: not started yet */
    struct checkpoint *checkpoint;    /* its guest came from, or NULL */
    pid_t pid;                        /* of pid 1; 0: none */
    uint64_t cpus[SANDBOX_CPU_WORDS]; /* it may use */
    int wait_status;                  /* once reaped */
    bool background;                  /* it is in the background class */
    bool off_reserve; /* and may not use the reserved processors */
    uint64_t
        background_until_ms; /* DRAINING: in that class until then; 0: not */
    pid_t helper;            /* child that makes or frees its storage; 0 */
    int helper_sock;         /* MAKING: socket of that child, or -1 */
    bool freed;              /* DRAINING: storage is freed or being freed */
    uint32_t ticket;         /* the SPAWN it is created for; 0: any */
    uint64_t made_ms;        /* since when it is SPARE */
    int scratch_fd;          /* detached mount, or -1 */
    int dev_fd;              /* detached mount, or -1 */
    int loop_index;          /* of the scratch, or -1 */
    int map_fd;              /* user namespace that maps its layers, or -1 */
    uint64_t scratch_bytes;
    uint32_t scratch_inodes;
    char group[16];       /* name of its control group: s<number> */
    uint32_t locks;       /* seen at the last look */
    uint32_t locks_ended; /* number for which it was ended, or 0 */
    unsigned char zygote[WARDEN_ZYGOTE_ID]; /* it is a fork of */
};

struct zygote {
    pid_t pid; /* 0: none */
    int sock;
    bool ready;
    bool revived; /* from its image; else its program imports */
    uint64_t started_ms;
    uint64_t used_ms;      /* last time a session was cloned */
    uint64_t lived_ms;     /* REVIVED: before; its layout is that old */
    uint32_t spawns;       /* of its layout */
    uint32_t image_number; /* of its runtime's image, see struct runtime */
    unsigned char id[WARDEN_ZYGOTE_ID];
    int image[2];     /* READY: to be stored; or -1 */
    uint64_t save_ms; /* when to store it */
};

#define ZYGOTES_OLD 2u /* revived for memory of earlier ones, at once */

#define CHECKPOINTS_MAX 8

/* From which guests of a runtime are restored (checkpoint.c). */
struct checkpoint {
    enum {
        CHECKPOINT_NONE = 0,
        CHECKPOINT_MAKING,
        CHECKPOINT_READY,
    } state;
    pid_t pid;             /* MAKING: the process that creates it */
    int events;            /* MAKING: its socket */
    int folder;            /* MAKING, READY: where it is */
    uint32_t serial;       /* names its folder */
    uint32_t image_number; /* which of its runtime's images */
    uint32_t spawns;       /* guests restored from it */
    uint32_t users;        /* sandboxes that may need it again */
    bool retired;          /* removed when it has no users */
    uint64_t started_ms;
};

struct checkpoints {
    struct checkpoint all[CHECKPOINTS_MAX];
    struct checkpoint *current; /* READY; NULL: none was needed yet */
    uint32_t failures;          /* in a row */
    uint64_t retry_ms;          /* after a failure: not before that */
    char why[80];               /* the last failure */
};

struct runtime {
    char image[WARDEN_NAME_MAX];
    int spec_fd;
    bool fresh_exec;
    struct zygote current; /* starts sessions */
    struct zygote next;    /* importing, will replace it */
    struct zygote old[ZYGOTES_OLD];
    bool tried_image;        /* the image of an earlier run was looked for */
    uint32_t revived_deaths; /* of revived ones soon after, in a row */
    struct checkpoints checkpoints;
    uint32_t image_number; /* grows with each other image of the runtime */
    uint64_t last_start_ms;
    uint32_t fast_deaths; /* in a row; delays restarts */
    bool changed; /* to another image, of which no zygote is ready yet */
};

struct warden {
    int sock; /* to the daemon */
    int signals;
    int daemon_mounts; /* mount namespace of the daemon; -1: ours */
    int own_mounts;    /* ours */
    bool asked;        /* SETUP was received; it may come once */
    bool set_up;
    bool ending; /* the link is closed */
    struct warden_setup setup;
    uint32_t walls;
    struct cgroup_tree *groups;
    int scratch_dir;  /* fd */
    int zygote_dir;   /* fd: images of zygotes; -1: none are kept */
    pid_t saver;      /* child that stores one; 0 */
    uid_t daemon_uid; /* owner of the data directory */
    gid_t daemon_gid;
    bool layers; /* this host supports layers */
    int filter_fd;
    int runsc_fd; /* the program; -1: no tier "gvisor" */
    struct slot **slots;
    size_t slot_count;
    uint32_t last_number;
    uint32_t failed_ticket; /* the SPAWN whose storage could not be made */
    int failed_errnum;      /* and why */
    uint64_t spare_bytes;   /* size of spares: as last requested */
    uint32_t spare_inodes;
    unsigned next_cpu;
    bool cpu_reserve; /* background sessions may not use the reserve */
    const struct tier *const *tiers; /* of this build; NULL ends them */
    struct meters meters;            /* sent with the current reply */
    uint64_t locks_due_ms;           /* next check of file locks */
    struct runtime runtimes[WARDEN_RUNTIMES_MAX];
    size_t runtime_count;
    uint32_t zygote_restarts;
    uint32_t zygotes_revived;
    uint32_t image_swaps;
    uint32_t checkpoint_serial; /* of the last one */
};

/* ---- answers.c ---------------------------------------------------------- */

struct warden_answer {
    bool before_setup; /* allowed only before SETUP; others only after */
    size_t fds;        /* exact number of descriptors, besides layers */
    void (*answer)(struct warden *w, const struct warden_request *req,
                   int *fds, struct warden_reply *reply);
};

extern const struct warden_answer warden_answers[WARDEN_REQUEST_MAX];

/* Fills the reply's result, errnum and text. */
void warden_reply_fail(struct warden_reply *reply, enum warden_result result,
                       int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- policy.c: every field again ---------------------------------------- */

bool warden_policy_setup(const struct warden_setup *s, const char **ret_why);
bool warden_policy_runtime(const struct warden *w,
                           const struct warden_runtime *r,
                           const char **ret_why);
bool warden_policy_spawn(const struct warden *w, const struct warden_spawn *s,
                         const char **ret_why);

/* ---- posture.c: which walls this host can build ------------------------- */

uint32_t warden_posture_walls(const struct warden *w);

/* ---- slot.c ------------------------------------------------------------- */

struct slot *slot_find(struct warden *w, uint32_t number);
struct slot *slot_by_pid(struct warden *w, pid_t pid);
struct slot *slot_by_helper(struct warden *w, pid_t pid);
size_t slot_count(const struct warden *w, enum slot_state state);
/* A new slot: MAKING, or SPARE at once if it needs no storage. NULL with errno
 * set. */
struct slot *slot_make(struct warden *w, uint64_t scratch_bytes,
                       uint32_t scratch_inodes);
/* Takes over the storage of a MAKING slot from its child. */
void slot_made(struct warden *w, struct slot *s);
/* A slot to spawn in: a matching spare, or a new one. NULL with errno; EAGAIN
 * while it is being created: the next SPAWN with this ticket gets it. */
struct slot *slot_take(struct warden *w, const struct warden_limits *limits,
                       uint32_t ticket);
/* For idle time: creates a spare, or releases a surplus one. True when it did
 * something. */
bool slot_tend_spares(struct warden *w);
/* pid: a child of the warden, with which the sandbox ends. */
void slot_spawned(struct slot *s, const struct tier *tier, pid_t pid);
void slot_reaped(struct slot *s, int status);
void slot_release(struct warden *w, struct slot *s);
/* Call it again when w->cpu_reserve has changed. */
void slot_set_background(struct warden *w, struct slot *s, bool background);
/* Continues to remove every DRAINING slot; true while some are left. */
bool slot_drain(struct warden *w);

/* ---- scratch.c ---------------------------------------------------------- */

/* Creates and mounts the scratch of a slot and its device nodes. 0 or -errno
 */
int scratch_open(struct warden *w, struct slot *s);
void scratch_close(struct slot *s);
/* True while the kernel still holds the image of a closed scratch. */
bool scratch_busy(const struct warden *w, const struct slot *s);
void scratch_remove(struct warden *w, const struct slot *s);
/* Removes images that an earlier run left. */
void scratch_sweep(struct warden *w);

/* ---- helper.c: storage work in a child ---------------------------------- */

/* The result of a child that created a scratch; descriptors in this order.
 */
struct helper_result {
    int32_t errnum;
    int32_t loop_index;
    uint32_t scratch, dev, map; /* 1: among the descriptors */
};

/* Starts a child that creates the scratch of a slot. 0 or -errno */
int helper_make(struct warden *w, struct slot *s);
/* Its result, once helper_sock is readable. 0 or -errno */
int helper_made(struct slot *s);
/* Starts a child that removes the image and closes the mounts; ours are
 * closed. 0 or -errno */
int helper_free(struct warden *w, struct slot *s);
/* Removes a folder of a checkpoint, in a child if one can be started. */
void helper_remove(const struct warden *w, const char *name);

/* ---- layers.c ----------------------------------------------------------- */

/* Creates in advance what layers_open needs. 0 or -errno */
int layers_prepare(const struct warden *w, struct slot *s);
/* Mounts of the daemon's folders, to be passed to the session; owned by
 * caller. -EPERM: the daemon does not own one of them. */
int layers_open(const struct warden *w, struct slot *s, const int *folders,
                size_t count, int *ret_mounts);
/* Tests it with a folder of our own. */
bool layers_possible(const struct warden *w, int folder);

/* ---- locks.c ------------------------------------------------------------ */

/* Ends sessions that hold too many locks; returns ms until the next check. */
int locks_tend(struct warden *w);

/* ---- helper.c, for another child ---------------------------------------- */

/* In a child: closes all descriptors but 0 to 2 and these; sorts them. */
void helper_keep_fds(int *keep, size_t count);

/* ---- zygote.c ----------------------------------------------------------- */

#define RUNTIME_ZYGOTES (2 + ZYGOTES_OLD)
/* The zygotes of a runtime by number; one without a pid is none. */
struct zygote *zygote_at(struct runtime *rt, size_t i);

/* revives: of this id, or NULL: by its imports. */
void zygote_start(struct warden *w, struct runtime *rt, struct zygote *z,
                  const unsigned char *revives);
/* The first of a runtime: revived if its image is stored. */
void zygote_start_first(struct warden *w, struct runtime *rt);
/* Gives the runtime another image and specification (owned): a zygote of it
 * starts beside the current one and replaces it when ready. */
void zygote_change(struct warden *w, struct runtime *rt,
                   const struct warden_runtime *to, int spec_fd);
/* Reads a message of a zygote (READY, or end of file). */
void zygote_on_readable(struct warden *w, struct runtime *rt,
                        struct zygote *z);
/* True when pid was a zygote of ours. */
bool zygote_on_exit(struct warden *w, pid_t pid);
/* Starts, replaces and restarts zygotes when due; returns ms until then. */
int zygote_tend(struct warden *w);
/* The one to clone a session from that continues memory of the zygote `want`
 * (NULL, all 0 or unknown: the current one). NULL: not ready yet; it may have
 * been started for this. */
struct zygote *zygote_for(struct warden *w, struct runtime *rt,
                          const unsigned char *want);
/* Clones a session of such a one; 0 and its pid, or -errno. */
int zygote_spawn(struct warden *w, struct runtime *rt,
                 const unsigned char *want, const struct sandbox_spec *spec,
                 const int *fds, size_t count, pid_t *ret_pid,
                 unsigned char *ret_id);
void zygote_stop_all(struct warden *w);

/* ---- zygote_child.c ----------------------------------------------------- */

/* In a fork of the warden: becomes the zygote of image; never returns. stored:
 * the file to revive it from, or -1. */
_Noreturn void zygote_child_run(const struct warden *w, const char *image,
                                int sock, int spec_fd, int stored);

/* ---- zygote_image.c: zygotes on disk ------------------------------------ */

/* Opens the folder, or does without. */
void zygote_images_open(struct warden *w);
unsigned zygote_images_count(const struct warden *w);
/* The stored image of a zygote of this runtime. id: in; all 0: the newest one,
 * and out which. -1: there is none that can be used. Owned by caller. */
int zygote_image_find(const struct warden *w, const struct runtime *rt,
                      unsigned char id[WARDEN_ZYGOTE_ID], uint64_t *ret_age_ms,
                      uint32_t *ret_spawns);
void zygote_image_remove(const struct warden *w, const unsigned char *id);
/* Notes how many sessions had this layout. */
void zygote_image_count(const struct warden *w, const struct zygote *z);
/* Starts a child that stores the image of a zygote; takes its descriptors. */
void zygote_image_store(struct warden *w, const struct runtime *rt,
                        struct zygote *z);
/* In a child: the verified bytes in sealed memory files. 0 or -errno. */
int zygote_image_load(int stored, int ret_fds[2]);
/* Removes images that no stored memory is of, and those beyond the limit. */
void zygote_images_trim(struct warden *w, const struct warden_zygotes *used);

#endif
