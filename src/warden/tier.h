/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An isolation tier: one way to run a sandbox in a slot. The slot itself (its
 * number and host uid, control group and scratch; slot.c) is the same for
 * every tier. SPAWN names the tier; the slot keeps it until it is gone.
 *
 *   prepare   before a slot is taken: can the tier start this now?
 *   start     in a slot that is SPARE: makes it ALIVE
 *   signal    KILL, and limits that the warden enforces itself
 *   usage     what the session has used, also after its end
 *   release   until it returns true
 *
 * tier_clone.c is "process", tier_runsc.c with checkpoint.c "gvisor". For the
 * privileged files of warden/ only.
 */
#ifndef GLOVEBOX_WARDEN_TIER_H
#define GLOVEBOX_WARDEN_TIER_H

#include "warden/warden_int.h"

struct tier {
    const char *name; /* as in SPAWN and in a pool's settings */
    /* Takes nothing. False with the reply filled: NOT_READY to be asked again
     * soon, FAILED when a retry cannot succeed. */
    bool (*prepare)(struct warden *w, const struct warden_spawn *spawn,
                    struct warden_reply *reply);
    /* fds: ctl, events, then spawn->layers folders of the service; borrowed,
     * or replaced by others that the caller closes instead. True: the slot is
     * ALIVE (slot_spawned). False, with the reply filled: a slot that became
     * ALIVE is released, one that is still SPARE is used again. */
    bool (*start)(struct warden *w, const struct warden_spawn *spawn,
                  struct slot *s, int *fds, struct warden_reply *reply);
    /* To the whole sandbox. SIGKILL cannot be refused from inside. Does
     * nothing once its process was reaped. */
    void (*signal)(struct warden *w, struct slot *s, int sig);
    /* 0 or -errno. */
    int (*usage)(struct warden *w, struct slot *s, bool reset_peak,
                 struct warden_usage *ret);
    /* Ends the sandbox, if it has not ended, without waiting. Called again
     * (by slot_drain) until it returns true: no process of it is left. */
    bool (*release)(struct warden *w, struct slot *s);
};

extern const struct tier tier_clone;
extern const struct tier tier_runsc;

/* ---- tier_clone.c, for a tier whose pid 1 is a clone of the zygote too ----
 */

struct clone_kind {
    const struct tier *tier;
    struct warden_limits limits; /* of its control group */
    uint32_t guest;              /* enum sandbox_guest */
    int fds[2];                  /* of a guest: runsc, checkpoint */
    size_t fd_count;
};

bool tier_clone_prepare(struct warden *w, const struct warden_spawn *spawn,
                        struct warden_reply *reply);
bool tier_clone_start(struct warden *w, const struct warden_spawn *spawn,
                      const struct clone_kind *kind, struct slot *s, int *fds,
                      struct warden_reply *reply);
/* Maps the id `inner` of the user namespace of pid to the host uid of a slot
 * (0: the zygotes'). 0 or -errno */
int tier_clone_map(struct warden *w, uint32_t number, uint32_t inner,
                   pid_t pid);
void tier_clone_signal(struct warden *w, struct slot *s, int sig);
int tier_clone_usage(struct warden *w, struct slot *s, bool reset_peak,
                     struct warden_usage *ret);
bool tier_clone_release(struct warden *w, struct slot *s);

/* ---- tier_runsc.c --------------------------------------------------------
 */

/* Opens runsc, if this host has it and the walls that the tier needs. */
void tier_runsc_open(struct warden *w);
/* NULL: the tier can be used; otherwise why not, and what to do. */
const char *tier_runsc_missing(const struct warden *w);

/* ---- checkpoint.c --------------------------------------------------------
 */

/* True when checkpoints.current fits the zygote. Otherwise the reply is
 * filled, and one is created unless that cannot succeed. */
bool checkpoint_prepare(struct warden *w, struct runtime *rt,
                        struct warden_reply *reply);
/* A detached read-only mount of it, or -errno. */
int checkpoint_mount(const struct checkpoint *c);
/* For each sandbox whose guest is restored from it; paired with put. */
void checkpoint_take(struct checkpoint *c);
void checkpoint_put(struct warden *w, struct checkpoint *c);
/* Is pid creating a checkpoint? */
bool checkpoint_makes(struct warden *w, pid_t pid);
/* True when pid was creating a checkpoint. */
bool checkpoint_on_exit(struct warden *w, pid_t pid, int status);
/* Renews checkpoints that are in use when due. */
void checkpoint_tend(struct warden *w);
void checkpoint_stop_all(struct warden *w);
/* Removes checkpoints that an earlier run left. */
void checkpoint_sweep(struct warden *w);
/* Removes the folder of one; waits for the disk. */
void checkpoint_remove(const struct warden *w, const char *name);

/* The tiers of this build; NULL ends the list. */
extern const struct tier *const tier_list[];

#endif
