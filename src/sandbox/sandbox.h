/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session does to itself, and the parts of its walls that must be
 * made from outside.
 *
 * Theory of operation. The warden prepares what needs root: the control
 * groups (cgroup.c), the scratch and device mounts (handed down as detached
 * mount descriptors), the system call filter (seccomp_build.c). The zygote
 * then clones a child into new namespaces; the warden maps the child's ids,
 * puts it into its groups and lets it go. From there the child walls itself
 * in with sandbox_enter(), a list of steps, each one file: ids, mounts,
 * network, limits, descriptors, capabilities, landlock, and last the system
 * call filter, so that the filter need not allow the set-up. A step that
 * fails ends the child; nothing is retried and nothing runs on.
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

/* Descriptors the child is born with; those it keeps are upper, and above
 * every number its own children may have: ctl, events, resolver and proxy. */
struct sandbox_fds {
    int ctl;
    int events;
    int go;      /* one byte comes when it is in its control groups */
    int scratch; /* detached mount, or -1 */
    int dev;     /* detached mount, or -1 */
    int layers[WARDEN_LAYERS_MAX];  /* detached mounts; spec says how many */
    int groups[SANDBOX_GROUPS_MAX]; /* to be joined by writing "0" */
    /* Made here: */
    int upper;       /* what the session writes to /mnt/data, bare */
    int resolver;    /* UDP, bound to 127.0.0.1:53 of its own network */
    int proxy;       /* TCP, bound to 127.0.0.1:3128, does not listen */
    int watch;       /* attempts to reach something are told here */
    unsigned lowest; /* numbers from here on are pid 1's alone */
};

struct sandbox_failure {
    const char *step;
    int errnum;
};

/*
 * Walls the calling process in, as pid 1 of fresh namespaces. 0, or -1 with
 * ret_failure filled: the caller reports it and exits.
 */
int sandbox_enter(const struct sandbox_spec *spec, struct sandbox_fds *fds,
                  const struct sock_fprog *filter,
                  struct sandbox_failure *ret_failure);

/* Facts about the host that sessions are shown in part, read once by the
 * zygote before it serves. */
void sandbox_proc_learn(void);

/* ---- outside: the warden's part ------------------------------------------
 */

/* Builds the allow-list; ret_fd: a memfd of struct sock_filter. */
int sandbox_seccomp_build(int *ret_fd);

struct cgroup_tree;
struct meters;

#define CGROUP_NAME_MAX 64

/* Finds the hierarchies below mount_root ("/sys/fs/cgroup") and makes our
 * own group `name` in each. proc_self_cgroup: "/proc/self/cgroup". Neither
 * v1 nor v2 usable: 0 with a tree that has no walls. */
int sandbox_cgroup_open(const char *mount_root, const char *proc_self_cgroup,
                        const char *name, struct cgroup_tree **ret_tree);
void sandbox_cgroup_close(struct cgroup_tree *t); /* removes our own group */
/* WARDEN_WALL_MEMORY | _PIDS | _CPU as they stand. */
uint32_t sandbox_cgroup_walls(const struct cgroup_tree *t);
int sandbox_cgroup_version(const struct cgroup_tree *t); /* 0, 1 or 2 */
int sandbox_cgroup_make(struct cgroup_tree *t, const char *group);
int sandbox_cgroup_limit(struct cgroup_tree *t, const char *group,
                         const struct warden_limits *limits);
int sandbox_cgroup_add(struct cgroup_tree *t, const char *group, pid_t pid);
/*
 * Descriptors by which a process joins the group itself, where the version
 * has them (v1): moving somebody else makes the kernel wait for every
 * processor, ten milliseconds and more; moving oneself does not. Returns how
 * many, owned by caller; 0: use sandbox_cgroup_add; or a negative errno.
 */
int sandbox_cgroup_doors(struct cgroup_tree *t, const char *group,
                         int ret_fds[SANDBOX_GROUPS_MAX]);
/* What counts it, opened: see wire/meters.h. Negative errno, and nothing is
 * open then. */
int sandbox_cgroup_meters(struct cgroup_tree *t, const char *group,
                          struct meters *ret);
int sandbox_cgroup_usage(struct cgroup_tree *t, const char *group,
                         int reset_peak, struct warden_usage *ret);
/* What is about to end yields the processors to what is not (calm), but not
 * for long. */
void sandbox_cgroup_calm(struct cgroup_tree *t, const char *group, int calm);
/* Which processors those who are narrow keep off from now on: these, a bit
 * each, if they are at most half of all; else, or if NULL, the first ones. */
void sandbox_cpu_reserve(struct cgroup_tree *t,
                         const uint64_t cpus[SANDBOX_CPU_WORDS]);
/* May a narrow one use that processor? */
bool sandbox_cgroup_may_use(const struct cgroup_tree *t, unsigned cpu);
/* Keeps it off the processors that are for the prompt, or lets it back. */
void sandbox_cgroup_narrow(struct cgroup_tree *t, const char *group, int on);
/* SIGKILL to whatever is in it; frozen first where that is possible. */
void sandbox_cgroup_kill(struct cgroup_tree *t, const char *group);
/* -EBUSY while a process is in it. */
int sandbox_cgroup_remove(struct cgroup_tree *t, const char *group);
/* Kills and removes groups left by an earlier run; returns how many. */
int sandbox_cgroup_sweep(struct cgroup_tree *t);

#endif
