/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups, version 1 (and hybrid hosts): one hierarchy per controller,
 * each with its own mount point. Our groups are created below the group of
 * this process, so that limits of the service apply to them too. Runs in the
 * warden only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/cgroup_int.h"

#define CPU_PERIOD_US 100000u

static const struct {
    const char *name;
    uint32_t wall;
} controllers[CGROUP_CONTROLLERS] = {
    [CGROUP_MEMORY] = {"memory", WARDEN_WALL_MEMORY},
    [CGROUP_PIDS] = {"pids", WARDEN_WALL_PIDS},
    [CGROUP_CPU] = {"cpu", WARDEN_WALL_CPU},
    [CGROUP_CPUACCT] = {"cpuacct", 0},
    [CGROUP_FREEZER] = {"freezer", 0},
    [CGROUP_CPUSET] = {"cpuset", 0},
};

/* "4:memory:/path" -> "path" for the controller; false when not listed. */
static bool own_path(const char *self, const char *controller, char *ret,
                     size_t size)
{
    size_t len = strlen(controller);

    for (const char *line = self; line && *line;) {
        const char *end = strchrnul(line, '\n');
        const char *list = memchr(line, ':', (size_t)(end - line));
        const char *path =
            list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;

        for (const char *c = list ? list + 1 : NULL; path && c < path;) {
            const char *stop = c + strcspn(c, ",:");

            if ((size_t)(stop - c) == len && memcmp(c, controller, len) == 0 &&
                (size_t)(end - path) < size) {
                memcpy(ret, path + 1, (size_t)(end - path - 1));
                ret[end - path - 1] = '\0';
                return true;
            }
            c = stop + 1;
        }
        line = *end ? end + 1 : NULL;
    }
    return false;
}

/* The group we are in, or the hierarchy's root when that is not visible. */
static int open_parent(const char *mount_root, const char *controller,
                       const char *own)
{
    char path[1024];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s%s", mount_root, controller, own);
    fd = strstr(own, "/..") ? -1 /* above what this namespace shows */
                            : open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    (void)snprintf(path, sizeof(path), "%s/%s", mount_root, controller);
    fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* A new cpuset is empty, and no process can join an empty one. Ours copies its
 * parent, and its children copy it. */
static bool fill_cpuset(struct cgroup_tree *t, int parent, int own)
{
    char *mems cleanup(mem_free) = NULL;

    return cpu_reserve_find(t) &&
           fd_read_file(parent, "cpuset.mems", 4096, &mems, NULL) == 0 &&
           fd_write_file(own, "cpuset.mems", mems) == 0 &&
           fd_write_file(own, "cpuset.cpus", t->cpus_all) == 0 &&
           fd_write_file(own, "cgroup.clone_children", "1") == 0;
}

int cgroup_v1_find(struct cgroup_tree *t, const char *mount_root,
                   const char *self)
{
    for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
        char own[512];
        int fd;

        if (!own_path(self, controllers[c].name, own, sizeof(own)))
            continue;
        t->parents[c] = open_parent(mount_root, controllers[c].name, own);
        if (t->parents[c] < 0)
            continue;
        fd = cgroup_subdir(t->parents[c], t->name, 1);
        if (fd < 0) {
            fd_close(&t->parents[c]);
            continue; /* not ours to write: the wall is missing */
        }
        if (c == CGROUP_CPUSET && !fill_cpuset(t, t->parents[c], fd)) {
            (void)unlinkat(t->parents[c], t->name, AT_REMOVEDIR);
            fd_close(&t->parents[c]);
            fd_close(&fd);
            continue;
        }
        t->dirs[c] = fd;
        t->walls |= controllers[c].wall;
        t->ops = &cgroup_v1_ops;
    }
    return 0;
}

static int limit_memory(int dir, const char *group, uint64_t bytes)
{
    int r = cgroup_write_u64(dir, group, "memory.limit_in_bytes", bytes);

    if (r == -EINVAL) {
        /* The limit may exceed that on memory plus swap of an earlier try: set
         * that first. */
        (void)cgroup_write_u64(dir, group, "memory.memsw.limit_in_bytes",
                               bytes);
        r = cgroup_write_u64(dir, group, "memory.limit_in_bytes", bytes);
    }
    if (r < 0)
        return r;
    /* An equal limit for memory plus swap means no swap. Where the host does
     * not account swap, at least do not prefer it. */
    r = cgroup_write_u64(dir, group, "memory.memsw.limit_in_bytes", bytes);
    if (r == -ENOENT || r == -EACCES || r == -EOPNOTSUPP)
        r = cgroup_write_u64(dir, group, "memory.swappiness", 0);
    if (r < 0)
        return r;
    /* TCP and UDP buffers are accounted separately, and only when limited. */
    r = cgroup_write_u64(dir, group, "memory.kmem.tcp.limit_in_bytes",
                         bytes / 4);
    return r == -ENOENT ? 0 : r; /* a kernel without the Internet */
}

static int v1_limit(struct cgroup_tree *t, const char *group,
                    const struct warden_limits *l)
{
    int r = 0;

    if (t->dirs[CGROUP_MEMORY] >= 0)
        r = limit_memory(t->dirs[CGROUP_MEMORY], group, l->memory_bytes);
    if (r == 0 && t->dirs[CGROUP_PIDS] >= 0)
        r = cgroup_write_u64(t->dirs[CGROUP_PIDS], group, "pids.max",
                             l->processes);
    if (r == 0 && t->dirs[CGROUP_CPU] >= 0)
        r = cgroup_write_u64(t->dirs[CGROUP_CPU], group, "cpu.cfs_period_us",
                             CPU_PERIOD_US);
    if (r == 0 && t->dirs[CGROUP_CPU] >= 0)
        r = cgroup_write_u64(t->dirs[CGROUP_CPU], group, "cpu.cfs_quota_us",
                             (uint64_t)l->cores * CPU_PERIOD_US);
    return r;
}

static int v1_meters(struct cgroup_tree *t, const char *group,
                     struct meters *ret)
{
    static const struct {
        enum cgroup_controller of;
        const char *knob;
    } knobs[METERS] = {
        [METER_CPU] = {CGROUP_CPUACCT, "cpuacct.usage"},
        [METER_PEAK] = {CGROUP_MEMORY, "memory.max_usage_in_bytes"},
        [METER_OOM] = {CGROUP_MEMORY, "memory.oom_control"},
        [METER_DENIED] = {CGROUP_PIDS, "pids.events"},
        [METER_PROCESSES] = {CGROUP_PIDS, "pids.current"},
        [METER_MEMORY] = {CGROUP_MEMORY, "memory.usage_in_bytes"},
    };

    for (int i = 0; i < METERS; i++) {
        int dir = t->dirs[knobs[i].of];
        int r =
            dir < 0 ? 0 : cgroup_open(dir, group, knobs[i].knob, &ret->fds[i]);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Best effort: this is no wall. */
static void v1_set_background(struct cgroup_tree *t, const char *group,
                              int background)
{
    int dir = t->dirs[CGROUP_CPU];

    /* Shares cannot be set while the group is idle. Idle (since 5.15) is the
     * stronger: other groups preempt it at once. */
    if (!background)
        (void)cgroup_write(dir, group, "cpu.idle", "0");
    (void)cgroup_write(dir, group, "cpu.shares", background ? "2" : "1024");
    if (background)
        (void)cgroup_write(dir, group, "cpu.idle", "1");
}

/* A frozen group cannot fork while its list is read; the signals arrive when
 * it is thawed. */
static void v1_kill(struct cgroup_tree *t, const char *group)
{
    int freezer = t->dirs[CGROUP_FREEZER];
    int any = freezer >= 0 ? freezer : t->unique[0];

    for (int round = 0; round < 20; round++) {
        struct timespec pause = {0, 2000000};
        int killed;

        if (freezer >= 0)
            (void)cgroup_write(freezer, group, "freezer.state", "FROZEN");
        killed = cgroup_kill_listed(any, group);
        if (freezer >= 0)
            (void)cgroup_write(freezer, group, "freezer.state", "THAWED");
        if (killed == 0)
            return;
        (void)nanosleep(&pause, NULL); /* let the dying die */
    }
}

const struct cgroup_ops cgroup_v1_ops = {
    .version = 1,
    .limit = v1_limit,
    .meters = v1_meters,
    .set_background = v1_set_background,
    .kill = v1_kill,
};
