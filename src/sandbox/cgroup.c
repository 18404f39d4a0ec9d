/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups of either version: finds the hierarchies, creates a group per
 * session, limits, measures, kills and removes it. Runs in the warden only.
 * cgroup_v1.c and cgroup_v2.c hold what differs, behind one table; v2 is tried
 * first.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/cgroup_int.h"

#define KNOB_MAX 65536

int cgroup_subdir(int dir, const char *name, int make)
{
    int fd;

    if (make && mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(dir, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int cgroup_write(int dir, const char *group, const char *knob,
                 const char *text)
{
    char path[CGROUP_NAME_MAX + 64];

    (void)snprintf(path, sizeof(path), "%s/%s", group, knob);
    return fd_write_file(dir, path, text);
}

int cgroup_write_u64(int dir, const char *group, const char *knob,
                     uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return cgroup_write(dir, group, knob, text);
}

int cgroup_open(int dir, const char *group, const char *knob, int *ret_fd)
{
    char path[CGROUP_NAME_MAX + 64];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", group, knob);
    fd = openat(dir, path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == EACCES)
        fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

int cgroup_kill_listed(int dir, const char *group)
{
    char *text cleanup(mem_free) = NULL;
    int killed = 0;
    char path[CGROUP_NAME_MAX + 64];

    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", group);
    if (fd_read_file(dir, path, KNOB_MAX, &text, NULL) < 0)
        return 0;

    for (char *line = text; line && *line;) {
        long pid = strtol(line, NULL, 10);

        if (pid > 1 && kill((pid_t)pid, SIGKILL) == 0)
            killed++;
        line = strchr(line, '\n');
        if (line)
            line++;
    }
    return killed;
}

int sandbox_cgroup_open(const char *mount_root, const char *proc_self_cgroup,
                        const char *name, struct cgroup_tree **ret_tree)
{
    struct cgroup_tree *t = xcalloc(1, sizeof(*t));
    char *self cleanup(mem_free) = NULL;
    int r = fd_read_file(AT_FDCWD, proc_self_cgroup, KNOB_MAX, &self, NULL);

    for (int c = 0; c < CGROUP_CONTROLLERS; c++)
        t->dirs[c] = t->parents[c] = -1;
    (void)snprintf(t->name, sizeof(t->name), "%s", name);
    if (r == 0)
        r = cgroup_v2_find(t, mount_root, self);
    if (r == 0 && !t->ops)
        r = cgroup_v1_find(t, mount_root, self);
    if (r < 0) {
        sandbox_cgroup_close(t);
        return r;
    }

    for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
        struct stat mine, other;
        bool known = false;

        if (t->dirs[c] < 0 || fstat(t->dirs[c], &mine) < 0)
            continue;
        for (int i = 0; i < t->unique_count; i++)
            known = known || (fstat(t->unique[i], &other) == 0 &&
                              other.st_dev == mine.st_dev &&
                              other.st_ino == mine.st_ino);
        if (!known)
            t->unique[t->unique_count++] = t->dirs[c];
    }

    *ret_tree = t;
    return 0;
}

void sandbox_cgroup_close(struct cgroup_tree *t)
{
    if (!t)
        return;
    for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
        /* Busy while a process exits; the next start removes it. */
        if (t->parents[c] >= 0)
            (void)unlinkat(t->parents[c], t->name, AT_REMOVEDIR);
        fd_close(&t->dirs[c]);
        fd_close(&t->parents[c]);
    }
    free(t);
}

uint32_t sandbox_cgroup_walls(const struct cgroup_tree *t)
{
    return t->walls;
}

int sandbox_cgroup_version(const struct cgroup_tree *t)
{
    return t->ops ? t->ops->version : 0;
}

int sandbox_cgroup_make(struct cgroup_tree *t, const char *group)
{
    for (int i = 0; i < t->unique_count; i++)
        if (mkdirat(t->unique[i], group, 0755) < 0 && errno != EEXIST)
            return -errno;
    return 0;
}

int sandbox_cgroup_limit(struct cgroup_tree *t, const char *group,
                         const struct warden_limits *limits)
{
    return t->ops ? t->ops->limit(t, group, limits) : 0;
}

int sandbox_cgroup_add(struct cgroup_tree *t, const char *group, pid_t pid)
{
    for (int i = 0; i < t->unique_count; i++) {
        int r = cgroup_write_u64(t->unique[i], group, "cgroup.procs",
                                 (uint64_t)pid);

        if (r < 0)
            return r;
    }
    return 0;
}

int sandbox_cgroup_doors(struct cgroup_tree *t, const char *group,
                         int ret_fds[SANDBOX_GROUPS_MAX])
{
    char path[CGROUP_NAME_MAX + 8];
    int count = 0;

    if (!t->ops || t->ops->version != 1)
        return 0;
    (void)snprintf(path, sizeof(path), "%s/tasks", group);
    for (; count < t->unique_count; count++) {
        ret_fds[count] = openat(t->unique[count], path, O_WRONLY | O_CLOEXEC);
        if (ret_fds[count] < 0) {
            int r = -errno;

            while (count > 0)
                fd_close(&ret_fds[--count]);
            return r;
        }
    }
    return count;
}

int sandbox_cgroup_meters(struct cgroup_tree *t, const char *group,
                          struct meters *ret)
{
    int r;

    *ret = METERS_NONE;
    r = t->ops ? t->ops->meters(t, group, ret) : 0;
    if (r < 0)
        meters_close(ret);
    return r;
}

int sandbox_cgroup_usage(struct cgroup_tree *t, const char *group,
                         int reset_peak, struct warden_usage *ret)
{
    struct meters m cleanup(meters_close) = METERS_NONE;
    int r = sandbox_cgroup_meters(t, group, &m);

    if (r == 0)
        r = meters_read(&m, reset_peak, ret);
    return r == -ENODATA ? 0 : r; /* a host without control groups */
}

void sandbox_cgroup_set_background(struct cgroup_tree *t, const char *group,
                                   int background)
{
    if (t->ops && (t->walls & WARDEN_WALL_CPU))
        t->ops->set_background(t, group, background);
}

void sandbox_cgroup_kill(struct cgroup_tree *t, const char *group)
{
    if (t->ops)
        t->ops->kill(t, group);
}

int sandbox_cgroup_remove(struct cgroup_tree *t, const char *group)
{
    for (int i = 0; i < t->unique_count; i++)
        if (unlinkat(t->unique[i], group, AT_REMOVEDIR) < 0 && errno != ENOENT)
            return -errno;
    return 0;
}

/* Groups are named s<slot>; nothing else in our folder is ours to remove. */
static int sweep_one(struct cgroup_tree *t, int dir_fd)
{
    int copy = fd_dup(dir_fd, 3);
    DIR *dir cleanup(fd_closedir) = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;
    int count = 0;

    if (!dir)
        return 0;
    rewinddir(dir);
    while ((d = readdir(dir))) {
        if (d->d_type != DT_DIR || d->d_name[0] != 's' ||
            strspn(d->d_name + 1, "0123456789") != strlen(d->d_name + 1))
            continue;
        sandbox_cgroup_kill(t, d->d_name);
        for (int tries = 0; tries < 200; tries++) {
            struct timespec pause = {0, 5000000};

            if (sandbox_cgroup_remove(t, d->d_name) != -EBUSY)
                break;
            (void)nanosleep(&pause, NULL); /* exiting takes a moment */
        }
        count++;
    }
    return count;
}

int sandbox_cgroup_sweep(struct cgroup_tree *t)
{
    int count = 0;

    for (int i = 0; i < t->unique_count; i++)
        count += sweep_one(t, t->unique[i]);
    return count;
}
