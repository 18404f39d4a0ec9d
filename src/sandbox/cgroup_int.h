/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the files of sandbox/ only: one table of functions per control group
 * version. Groups are reached through descriptors that were opened once, never
 * by a path.
 */
#ifndef GLOVEBOX_SANDBOX_CGROUP_INT_H
#define GLOVEBOX_SANDBOX_CGROUP_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/sandbox.h"
#include "wire/meters.h"

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_PIDS,
    CGROUP_CPU,
    CGROUP_CPUACCT,
    CGROUP_FREEZER,
    CGROUP_CPUSET, /* see cpu_reserve.c */
    CGROUP_CONTROLLERS
};

#define CGROUP_CPUS_MAX 512 /* a list of processors */

struct cgroup_tree;

struct cgroup_ops {
    int version;
    int (*limit)(struct cgroup_tree *t, const char *group,
                 const struct warden_limits *limits);
    /* ret: all -1 before; the caller closes what was opened, whatever the
     * result. */
    int (*meters)(struct cgroup_tree *t, const char *group,
                  struct meters *ret);
    void (*set_background)(struct cgroup_tree *t, const char *group,
                           int background);
    void (*kill)(struct cgroup_tree *t, const char *group);
};

struct cgroup_tree {
    const struct cgroup_ops *ops;   /* NULL: no control groups at all */
    int dirs[CGROUP_CONTROLLERS];   /* our own group, or -1; several may
                                       be the same hierarchy's */
    int unique[CGROUP_CONTROLLERS]; /* each hierarchy once */
    int unique_count;
    int parents[CGROUP_CONTROLLERS]; /* the parent of each of unique */
    char name[CGROUP_NAME_MAX];
    char cpus_all[CGROUP_CPUS_MAX]; /* set if there is a cpuset */
    char cpus_background[CGROUP_CPUS_MAX];
    uint64_t reserved[SANDBOX_CPU_WORDS]; /* all without those */
    uint32_t walls;
};

extern const struct cgroup_ops cgroup_v1_ops;
extern const struct cgroup_ops cgroup_v2_ops;

/* Finds v1 hierarchies and fills dirs; 0 also when there are none. */
int cgroup_v1_find(struct cgroup_tree *t, const char *mount_root,
                   const char *self);
int cgroup_v2_find(struct cgroup_tree *t, const char *mount_root,
                   const char *self);

/* Finds the processors of this machine and chooses the reserve; false: there
 * is nothing to reserve. */
bool cpu_reserve_find(struct cgroup_tree *t);

/* Creates (or finds) the folder `name` below dir; negative errno or the fd. */
int cgroup_subdir(int dir, const char *name, int make);
/* Writes one knob of a group; -ENOENT when this kernel has none. */
int cgroup_write(int dir, const char *group, const char *knob,
                 const char *text);
int cgroup_write_u64(int dir, const char *group, const char *knob,
                     uint64_t value);
/* Opens a knob for reading, and for writing where allowed. */
int cgroup_open(int dir, const char *group, const char *knob, int *ret_fd);
/* SIGKILL to each process listed; returns how many. */
int cgroup_kill_listed(int dir, const char *group);

#endif
