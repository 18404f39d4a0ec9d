/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walls of a session: those it builds itself, and those that must be built
 * from outside.
 *
 * Theory of operation. The warden prepares what needs root: the control
 * groups (cgroup.c), the scratch and device mounts (passed as detached mount
 * descriptors), the system call filter (seccomp_build.c). The zygote then
 * clones a child into new namespaces; the warden maps the child's ids, moves
 * it to its groups and lets it continue. From there the child isolates itself
 * with sandbox_enter(), a list of steps, one file each: ids, mounts, network,
 * limits, descriptors, capabilities, landlock, and last the system call
 * filter, so that the filter need not allow the set-up. A failed step ends the
 * child; nothing is retried.
 */
#ifndef GLOVEBOX_SANDBOX_SANDBOX_H
#define GLOVEBOX_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/zygote_msg.h"

struct sock_fprog;

#define SANDBOX_UID 1000 /* of the session's user, as seen inside */
#define SANDBOX_GROUPS_MAX 8
#define SANDBOX_DATA "/mnt/data"
#define SANDBOX_HOME "/home/user"

/* In the root of the process that supervises a guest (guest_mount.c). The
 * guest gets the first six as mounts. */
#define SANDBOX_GUEST_IMAGE "/image"
#define SANDBOX_GUEST_LIB "/lib"
#define SANDBOX_GUEST_PRIVATE "/private"
#define SANDBOX_GUEST_SHM "/shm"
#define SANDBOX_GUEST_FACTS "/facts"
#define SANDBOX_GUEST_CHECKPOINT "/checkpoint"
#define SANDBOX_GUEST_STATE "/state"   /* files of runsc */
#define SANDBOX_GUEST_BUNDLE "/bundle" /* config.json */

/* Descriptors that the child starts with. It keeps upper and, with numbers
 * above all that its children may have: ctl, events, resolver and proxy. */
struct sandbox_fds {
    int ctl;
    int events;
    int go;      /* one byte comes when it is in its control groups */
    int scratch; /* detached mount, or -1 */
    int dev;     /* detached mount, or -1 */
    int layers[WARDEN_LAYERS_MAX];  /* detached mounts; spec says how many */
    int groups[SANDBOX_GROUPS_MAX]; /* to be joined by writing "0" */
    int runsc;                      /* the program; -1: no guest */
    int image;                      /* detached mount: the checkpoint, or -1 */
    int spec;                       /* the runtime's, to prepare, or -1 */
    const struct sock_fprog *filter; /* to be loaded in the guest */
    /* Made here: */
    int upper;       /* upper folder of the overlay on /mnt/data */
    int resolver;    /* UDP, bound to 127.0.0.1:53 of its own network */
    int proxy;       /* TCP, bound to 127.0.0.1:3128, does not listen */
    int watch;       /* notifications of attempts to reach something */
    unsigned lowest; /* numbers from here on belong to pid 1 */
};

struct sandbox_failure {
    const char *step;
    int errnum;
};

/*
 * Isolates the calling process, pid 1 of new namespaces. 0, or -1 with
 * ret_failure filled: the caller reports it and exits.
 */
int sandbox_enter(const struct sandbox_spec *spec, struct sandbox_fds *fds,
                  const struct sock_fprog *filter,
                  struct sandbox_failure *ret_failure);

/* Reads the facts about the host that sessions may see. Called once by the
 * zygote. */
void sandbox_proc_learn(void);

/* ---- outside: the warden's part ----------------------------------------- */

/* Builds the allow-list; ret_fd: a memfd of struct sock_filter. */
int sandbox_seccomp_build(int *ret_fd);

struct cgroup_tree;
struct meters;

#define CGROUP_NAME_MAX 64

/* Finds the hierarchies below mount_root ("/sys/fs/cgroup") and creates our
 * own group `name` in each. proc_self_cgroup: "/proc/self/cgroup". Neither v1
 * nor v2 usable: 0 with a tree that has no walls. */
int sandbox_cgroup_open(const char *mount_root, const char *proc_self_cgroup,
                        const char *name, struct cgroup_tree **ret_tree);
void sandbox_cgroup_close(struct cgroup_tree *t); /* removes our own group */
/* Those of WARDEN_WALL_MEMORY, _PIDS and _CPU that stand. */
uint32_t sandbox_cgroup_walls(const struct cgroup_tree *t);
int sandbox_cgroup_version(const struct cgroup_tree *t); /* 0, 1 or 2 */
int sandbox_cgroup_make(struct cgroup_tree *t, const char *group);
int sandbox_cgroup_limit(struct cgroup_tree *t, const char *group,
                         const struct warden_limits *limits);
int sandbox_cgroup_add(struct cgroup_tree *t, const char *group, pid_t pid);
/*
 * Descriptors by which a process joins the group itself (v1 only): moving
 * another process makes the host's kernel wait for every processor, ten
 * milliseconds and more; moving oneself does not. Returns how many, owned by
 * caller; 0: use sandbox_cgroup_add; or a negative errno.
 */
int sandbox_cgroup_doors(struct cgroup_tree *t, const char *group,
                         int ret_fds[SANDBOX_GROUPS_MAX]);
/* Opens the counters of the group; see wire/meters.h. On a negative errno
 * nothing is open. */
int sandbox_cgroup_meters(struct cgroup_tree *t, const char *group,
                          struct meters *ret);
int sandbox_cgroup_usage(struct cgroup_tree *t, const char *group,
                         int reset_peak, struct warden_usage *ret);
/* Moves a group to the background class (it gets processor time that no group
 * of the normal class wants) or back. */
void sandbox_cgroup_set_background(struct cgroup_tree *t, const char *group,
                                   int background);
/* Chooses the processors that background groups may not use: these, a bit
 * each, if they are at most half of all; otherwise, or if NULL, the first
 * eighth. Groups follow with the next sandbox_cpu_reserve_apply. */
void sandbox_cpu_reserve_choose(struct cgroup_tree *t,
                                const uint64_t cpus[SANDBOX_CPU_WORDS]);
/* Is a processor outside the reserve? */
bool sandbox_cpu_reserve_allows(const struct cgroup_tree *t, unsigned cpu);
/* Excludes a group from the reserved processors, or lets it use all. */
void sandbox_cpu_reserve_apply(struct cgroup_tree *t, const char *group,
                               int on);
/* SIGKILL to all processes of the group, frozen first where possible. */
void sandbox_cgroup_kill(struct cgroup_tree *t, const char *group);
/* -EBUSY while a process is in it. */
int sandbox_cgroup_remove(struct cgroup_tree *t, const char *group);
/* Kills and removes groups left by an earlier run; returns how many. */
int sandbox_cgroup_sweep(struct cgroup_tree *t);

#endif
