/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups, version 2: one tree, controllers switched on for children.
 * A group that has processes may not have controlled children. So when the
 * warden starts in such a group (a unit with a delegated tree), it first moves
 * into a leaf of it. Runs in the warden only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/cgroup_int.h"

#define CPU_PERIOD_US 100000u
#define LEAF "supervisor"

static const struct {
    const char *name;
    enum cgroup_controller controller;
    uint32_t wall;
} wanted[] = {
    {"memory", CGROUP_MEMORY, WARDEN_WALL_MEMORY},
    {"pids", CGROUP_PIDS, WARDEN_WALL_PIDS},
    {"cpu", CGROUP_CPU, WARDEN_WALL_CPU},
};

/* On a hybrid host the v2 tree sits in a folder beside the v1 ones. */
static int open_mount(const char *mount_root)
{
    static const char *const places[] = {"", "/unified"};
    char path[512];

    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        int fd;

        (void)snprintf(path, sizeof(path), "%s%s/cgroup.controllers",
                       mount_root, places[i]);
        if (access(path, R_OK) < 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s%s", mount_root, places[i]);
        fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    return -ENOENT;
}

static int open_own(int mount, const char *self)
{
    const char *line =
        strncmp(self, "0::/", 4) == 0 ? self : strstr(self, "\n0::/");
    char path[512];
    size_t len;

    if (!line)
        return -ENOENT;
    line = strstr(line, "::/") + 3;
    len = strcspn(line, "\n");
    if (len >= sizeof(path) - 1)
        return -ENAMETOOLONG;
    memcpy(path, line, len);
    path[len] = '\0';
    return cgroup_subdir(mount, len ? path : ".", 0);
}

static int has_word(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = text; (p = strstr(p, word)); p += len)
        if ((p == text || p[-1] == ' ') &&
            (p[len] == ' ' || p[len] == '\n' || !p[len]))
            return 1;
    return 0;
}

/* Enables, for the children of dir, the controllers that are available and
 * wanted. */
static uint32_t enable_controllers(int dir)
{
    char *have cleanup(mem_free) = NULL;
    uint32_t walls = 0;

    /* Memory first: a group with processes refuses it, but would accept the
     * others and make its children unusable. */
    if (fd_read_file(dir, "cgroup.controllers", 4096, &have, NULL) < 0 ||
        fd_write_file(dir, "cgroup.subtree_control", "+memory") < 0)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        char text[24];

        if (!has_word(have, wanted[i].name))
            continue;
        (void)snprintf(text, sizeof(text), "+%s", wanted[i].name);
        if (fd_write_file(dir, "cgroup.subtree_control", text) == 0)
            walls |= wanted[i].wall;
    }
    return walls;
}

/*
 * May the warden move every process of this group? Only if it holds nothing
 * but the warden and its parent: a unit's group holds only the service, but a
 * login's holds the user's shells.
 */
static bool is_ours(int own)
{
    char *procs cleanup(mem_free) = NULL;
    long mine[] = {getpid(), getppid()};

    if (fd_read_file(own, "cgroup.procs", 65536, &procs, NULL) < 0)
        return false;
    for (char *p = procs; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        long pid = strtol(p, NULL, 10);

        if (pid != mine[0] && pid != mine[1])
            return false;
    }
    return true;
}

static uint32_t step_aside(int own)
{
    int leaf cleanup(fd_close) = cgroup_subdir(own, LEAF, 1);

    if (leaf < 0)
        return 0;
    /* Every process of the group has to move. */
    for (int round = 0; round < 3; round++) {
        char *procs cleanup(mem_free) = NULL;

        if (fd_read_file(own, "cgroup.procs", 65536, &procs, NULL) < 0)
            return 0;
        for (char *p = procs; *p; p += strcspn(p, "\n"), p += *p == '\n') {
            char pid[24];

            (void)snprintf(pid, sizeof(pid), "%.*s", (int)strcspn(p, "\n"), p);
            /* A process that just exited cannot be moved, and need not be. */
            (void)fd_write_file(leaf, "cgroup.procs", pid);
        }
    }
    return enable_controllers(own);
}

int cgroup_v2_find(struct cgroup_tree *t, const char *mount_root,
                   const char *self)
{
    int mount cleanup(fd_close) = open_mount(mount_root);
    int own cleanup(fd_close) = mount < 0 ? -1 : open_own(mount, self);
    char *have cleanup(mem_free) = NULL;
    uint32_t walls;
    int group;

    if (own < 0 ||
        fd_read_file(own, "cgroup.controllers", 4096, &have, NULL) < 0 ||
        !has_word(have, "memory"))
        return 0; /* the controllers are in v1 here, or nowhere */
    walls = enable_controllers(own);
    if (!walls && is_ours(own))
        walls = step_aside(own);
    if (!walls)
        return 0;
    group = cgroup_subdir(own, t->name, 1);
    if (group < 0)
        return 0;
    t->walls = enable_controllers(group) & walls;
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (t->walls & wanted[i].wall)
            t->dirs[wanted[i].controller] = fd_dup(group, 3);
    if (fd_write_file(own, "cgroup.subtree_control", "+cpuset") == 0 &&
        fd_write_file(group, "cgroup.subtree_control", "+cpuset") == 0 &&
        cpu_reserve_find(t))
        t->dirs[CGROUP_CPUSET] = fd_dup(group, 3);
    t->dirs[CGROUP_FREEZER] = group;
    t->parents[CGROUP_MEMORY] = take_fd(own);
    t->ops = &cgroup_v2_ops;
    return 0;
}

static int v2_limit(struct cgroup_tree *t, const char *group,
                    const struct warden_limits *l)
{
    int dir = t->dirs[CGROUP_FREEZER];
    char text[48];
    int r = 0;

    if (t->walls & WARDEN_WALL_MEMORY) {
        r = cgroup_write_u64(dir, group, "memory.max", l->memory_bytes);
        if (r < 0)
            return r;
        r = cgroup_write(dir, group, "memory.swap.max", "0");
        if (r == -ENOENT)
            r = 0; /* a kernel that does not swap has no such knob */
    }
    if (r == 0 && (t->walls & WARDEN_WALL_PIDS))
        r = cgroup_write_u64(dir, group, "pids.max", l->processes);
    if (r == 0 && (t->walls & WARDEN_WALL_CPU)) {
        (void)snprintf(text, sizeof(text), "%llu %u",
                       (unsigned long long)l->cores * CPU_PERIOD_US,
                       CPU_PERIOD_US);
        r = cgroup_write(dir, group, "cpu.max", text);
    }
    return r;
}

static int v2_meters(struct cgroup_tree *t, const char *group,
                     struct meters *ret)
{
    int dir = t->dirs[CGROUP_FREEZER];
    int r = cgroup_open(dir, group, "cpu.stat", &ret->fds[METER_CPU]);

    if (r == 0 && (t->walls & WARDEN_WALL_MEMORY)) {
        /* memory.peak exists since 5.19; without it, use the current value.
         * Resetting it (since 6.12) affects only the descriptor that was
         * written to, so each reader keeps its own. */
        r = cgroup_open(dir, group, "memory.peak", &ret->fds[METER_PEAK]);
        if (r == -ENOENT)
            r = cgroup_open(dir, group, "memory.current",
                            &ret->fds[METER_PEAK]);
        if (r == 0)
            r = cgroup_open(dir, group, "memory.events", &ret->fds[METER_OOM]);
        if (r == 0)
            r = cgroup_open(dir, group, "memory.current",
                            &ret->fds[METER_MEMORY]);
    }
    if (r == 0 && (t->walls & WARDEN_WALL_PIDS)) {
        r = cgroup_open(dir, group, "pids.events", &ret->fds[METER_DENIED]);
        if (r == 0)
            r = cgroup_open(dir, group, "pids.current",
                            &ret->fds[METER_PROCESSES]);
    }
    return r;
}

/* Best effort: this is no wall. */
static void v2_set_background(struct cgroup_tree *t, const char *group,
                              int background)
{
    int dir = t->dirs[CGROUP_FREEZER];

    /* The weight cannot be set while the group is idle. Idle (since 5.15) is
     * the stronger: other groups preempt it at once. */
    if (!background)
        (void)cgroup_write(dir, group, "cpu.idle", "0");
    (void)cgroup_write(dir, group, "cpu.weight", background ? "1" : "100");
    if (background)
        (void)cgroup_write(dir, group, "cpu.idle", "1");
}

static void v2_kill(struct cgroup_tree *t, const char *group)
{
    int dir = t->dirs[CGROUP_FREEZER];

    /* One write kills the whole group at once since 5.14. */
    if (cgroup_write(dir, group, "cgroup.kill", "1") == 0)
        return;
    (void)cgroup_write(dir, group, "cgroup.freeze", "1");
    (void)cgroup_kill_listed(dir, group);
    (void)cgroup_write(dir, group, "cgroup.freeze", "0");
}

const struct cgroup_ops cgroup_v2_ops = {
    .version = 2,
    .limit = v2_limit,
    .meters = v2_meters,
    .set_background = v2_set_background,
    .kill = v2_kill,
};
