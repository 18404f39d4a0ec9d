/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of the tier "gvisor": a runtime's interpreter with all imports
 * done, from which guests are restored. The first one of a runtime is created
 * on first use, by a process with the zygotes' host uid that never runs user
 * code.
 *
 * All guests of a checkpoint have its memory layout, so it is renewed by age,
 * by count and when the runtime gets another image, as zygotes are. The next
 * one is created beside the current one and replaces it when it is ready. A
 * guest that is lost is restored from the checkpoint it came from, so that one
 * stays until the last sandbox that came from it has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "warden/tier.h"
#include "wire/kernel_msg.h"
#include "wire/wire.h"

#define PREFIX "checkpoint-"
#define FAILURES_MAX 3u
#define RETRY_MS                                                              \
    5000u /* doubled for each failure in a row, up to 5 minutes               \
           */
/* Checkpoints are large and long-lived sandboxes keep old ones, so renewal by
 * age and count waits while a runtime has this many. */
#define RENEW_MAX (CHECKPOINTS_MAX / 2)
#define MIB ((uint64_t)1 << 20)

/* ---- folders ------------------------------------------------------------ */

/* Each checkpoint of a run of the service has a folder of its own. */
static void folder_name(const struct checkpoint *c, char ret[32])
{
    (void)snprintf(ret, 32, PREFIX "%u", (unsigned)c->serial);
}

static int open_folder(const struct warden *w, const char *name)
{
    int fd = openat(w->scratch_dir, name,
                    O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

void checkpoint_remove(const struct warden *w, const char *name)
{
    int fd = open_folder(w, name);
    DIR *dir cleanup(fd_closedir) = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *d;

    while (dir && (d = readdir(dir)))
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            (void)unlinkat(dirfd(dir), d->d_name, 0); /* ours alone */
    (void)unlinkat(w->scratch_dir, name, AT_REMOVEDIR);
}

void checkpoint_sweep(struct warden *w)
{
    int fd = open_folder(w, ".");
    DIR *dir cleanup(fd_closedir) = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *d;

    while (dir && (d = readdir(dir)))
        if (strncmp(d->d_name, PREFIX, strlen(PREFIX)) == 0)
            checkpoint_remove(w, d->d_name);
}

static int make_folder(struct warden *w, const struct checkpoint *c)
{
    char name[32];
    int fd cleanup(fd_close) = -1;

    folder_name(c, name);
    if (mkdirat(w->scratch_dir, name, 0700) < 0)
        return -errno;
    fd = open_folder(w, name);
    if (fd < 0)
        return fd;
    if (fchown(fd, w->setup.uid_base, w->setup.uid_base) < 0)
        return -errno;
    return take_fd(fd);
}

/* A detached mount of the folder; writable only to create the checkpoint. */
static int mount_folder(int folder, bool writable)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                    (writable ? 0 : MOUNT_ATTR_RDONLY)};
    int fd cleanup(fd_close) = open_tree(
        folder, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

    if (fd < 0 ||
        mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return -errno;
    return take_fd(fd);
}

int checkpoint_mount(const struct checkpoint *c)
{
    return mount_folder(c->folder, false);
}

/* Gives the checkpoint to root, so that no other account can change it. */
static int seal_folder(int folder)
{
    int copy = fd_dup(folder, 3);
    DIR *dir cleanup(fd_closedir) = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;

    if (!dir)
        return -errno;
    if (fchown(folder, 0, 0) < 0 || fchmod(folder, 0555) < 0)
        return -errno;
    rewinddir(dir);
    while ((d = readdir(dir))) {
        int fd cleanup(fd_close) = -1;
        struct stat st;

        if (d->d_name[0] == '.')
            continue;
        fd = openat(folder, d->d_name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            return -errno;
        if (!S_ISREG(st.st_mode))
            return -EINVAL;
        if (fchown(fd, 0, 0) < 0 || fchmod(fd, 0444) < 0)
            return -errno;
    }
    return 0;
}

/* ---- creating one ------------------------------------------------------- */

static int spawn_maker(struct warden *w, struct runtime *rt, int events,
                       int folder, pid_t *ret_pid)
{
    struct sandbox_spec spec = {
        .limits = {.memory_bytes = 1024 * MIB,
                   .scratch_bytes = 64 * MIB,
                   .tmp_bytes = 64 * MIB,
                   .shm_bytes = 16 * MIB,
                   .scratch_inodes = 4096,
                   .processes = 64,
                   .cores = 1,
                   .descriptors = 1024},
        .own_uid = 1,
        .guest = SANDBOX_GUEST_PREPARE,
    };
    int go[2] = {-1, -1}, ctl[2] = {-1, -1};
    int r = fd_pipe(go);

    if (r == 0)
        r = fd_socketpair(SOCK_SEQPACKET, ctl);
    if (r == 0) {
        int fds[] = {ctl[1],      events, go[0],      w->filter_fd,
                     w->runsc_fd, folder, rt->spec_fd};

        r = zygote_spawn(w, rt, NULL, &spec, fds, ARRAY_SIZE(fds), ret_pid,
                         NULL);
    }
    if (r == 0) {
        r = tier_clone_map(w, 0, 0, *ret_pid);
        if (r == 0)
            r = fd_write_all(go[1], "ig", 2);
        if (r < 0)
            (void)kill(*ret_pid, SIGKILL); /* our child, not yet reaped */
    }
    for (int i = 0; i < 2; i++) {
        fd_close(&go[i]);
        fd_close(&ctl[i]);
    }
    return r;
}

/* Its folder is removed by a child: that waits for the disk. */
static void drop(struct warden *w, struct checkpoint *c)
{
    char name[32];

    folder_name(c, name);
    fd_close(&c->events);
    fd_close(&c->folder);
    *c = (struct checkpoint){.events = -1, .folder = -1};
    helper_remove(w, name);
}

static void note_failure(struct warden *w, struct runtime *rt,
                         struct checkpoint *c, const char *why)
{
    struct checkpoints *all = &rt->checkpoints;

    (void)snprintf(all->why, sizeof(all->why), "%s", why);
    for (char *p = all->why; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = ' ';
    log_event(LOG_ERROR, "checkpoint_failed", "image", rt->image, "why",
              all->why, NULL);
    all->retry_ms =
        clock_mono_ms() + ((uint64_t)RETRY_MS << MIN(all->failures, 6u));
    all->failures++;
    drop(w, c);
}

static struct checkpoint *find_state(struct runtime *rt, int state)
{
    for (size_t i = 0; i < CHECKPOINTS_MAX; i++)
        if ((int)rt->checkpoints.all[i].state == state)
            return &rt->checkpoints.all[i];
    return NULL;
}

/* Starts to create one, unless one is being created, an attempt failed a
 * moment ago, the zygote is being replaced, or there is no room. */
static void make(struct warden *w, struct runtime *rt)
{
    struct checkpoint *c = find_state(rt, CHECKPOINT_NONE);
    int pair[2] = {-1, -1};
    int tree cleanup(fd_close) = -1;
    int r;

    if (!c || find_state(rt, CHECKPOINT_MAKING) || !rt->current.ready ||
        rt->current.image_number != rt->image_number ||
        clock_left_ms(rt->checkpoints.retry_ms) > 0)
        return;
    *c = (struct checkpoint){.events = -1,
                             .serial = ++w->checkpoint_serial,
                             .image_number = rt->image_number,
                             .started_ms = clock_mono_ms()};
    c->folder = make_folder(w, c);
    r = c->folder < 0 ? c->folder : 0;
    if (r == 0) {
        tree = mount_folder(c->folder, true);
        r = tree < 0 ? tree : 0;
    }
    if (r == 0)
        r = fd_socketpair(SOCK_SEQPACKET, pair);
    if (r == 0)
        r = spawn_maker(w, rt, pair[1], tree, &c->pid);
    fd_close(&pair[1]);
    c->events = pair[0];
    if (r == -EAGAIN) /* the zygote ended */
        drop(w, c);
    else if (r < 0)
        note_failure(w, rt, c, strerrordesc_np(-r));
    else
        c->state = CHECKPOINT_MAKING;
}

static void replace_current(struct warden *w, struct runtime *rt,
                            struct checkpoint *by)
{
    struct checkpoint *old = rt->checkpoints.current;

    rt->checkpoints.current = by;
    if (old && old->users == 0)
        drop(w, old);
    else if (old)
        old->retired = true;
}

static void made(struct warden *w, struct runtime *rt, struct checkpoint *c,
                 int status)
{
    struct init_event event = {0};
    char ms[24];

    c->pid = 0;
    (void)fd_set_nonblock(c->events, 1);
    if (wire_recv(c->events, &event, sizeof(event), NULL, NULL) !=
        (ssize_t)sizeof(event))
        event.type = 0;
    event.step[sizeof(event.step) - 1] = '\0';
    if (status != 0 || event.type != INIT_EVENT_READY ||
        seal_folder(c->folder) < 0) {
        note_failure(w, rt, c,
                     event.type == INIT_EVENT_FAILED
                         ? event.step
                         : "the process that creates it ended");
        return;
    }
    (void)snprintf(ms, sizeof(ms), "%llu",
                   (unsigned long long)(clock_mono_ms() - c->started_ms));
    log_event(LOG_INFO, "checkpoint_ready", "image", rt->image, "ms", ms,
              NULL);
    c->state = CHECKPOINT_READY;
    fd_close(&c->events);
    rt->checkpoints.failures = 0;
    replace_current(w, rt, c);
}

static struct checkpoint *find_maker(const struct warden *w, pid_t pid,
                                     struct runtime **ret_rt)
{
    for (size_t i = 0; i < w->runtime_count; i++) {
        struct runtime *rt = (struct runtime *)&w->runtimes[i];
        struct checkpoint *c = find_state(rt, CHECKPOINT_MAKING);

        if (c && c->pid == pid) {
            *ret_rt = rt;
            return c;
        }
    }
    return NULL;
}

bool checkpoint_makes(struct warden *w, pid_t pid)
{
    struct runtime *rt;

    return find_maker(w, pid, &rt) != NULL;
}

bool checkpoint_on_exit(struct warden *w, pid_t pid, int status)
{
    struct runtime *rt;
    struct checkpoint *c = find_maker(w, pid, &rt);

    if (c)
        made(w, rt, c, status);
    return c != NULL;
}

/* ---- using and renewing ------------------------------------------------- */

bool checkpoint_prepare(struct warden *w, struct runtime *rt,
                        struct warden_reply *reply)
{
    struct checkpoints *all = &rt->checkpoints;

    if (all->current && all->current->image_number == rt->current.image_number)
        return true;
    if (all->failures >= FAILURES_MAX) {
        warden_reply_fail(reply, WARDEN_FAILED, ECHILD,
                          "no checkpoint of the runtime under gvisor: %s",
                          all->why);
        return false;
    }
    if (rt->current.image_number != rt->image_number &&
        rt->fast_deaths >= FAILURES_MAX) {
        warden_reply_fail(reply, WARDEN_FAILED, ECHILD,
                          "the runtime's new image does not start; the "
                          "service's log says at which step");
        return false;
    }
    make(w, rt);
    reply->result = WARDEN_NOT_READY;
    return false;
}

void checkpoint_take(struct checkpoint *c)
{
    c->spawns++;
    c->users++;
}

void checkpoint_put(struct warden *w, struct checkpoint *c)
{
    if (--c->users == 0 && c->retired)
        drop(w, c);
}

static bool is_worn(const struct warden *w, const struct checkpoint *c)
{
    return clock_mono_ms() - c->started_ms >
               (uint64_t)w->setup.zygote_max_age_s * 1000 ||
           c->spawns >= w->setup.zygote_max_spawns;
}

void checkpoint_tend(struct warden *w)
{
    for (size_t i = 0; i < w->runtime_count; i++) {
        struct runtime *rt = &w->runtimes[i];
        const struct checkpoint *c = rt->checkpoints.current;
        size_t count = 0;

        for (size_t k = 0; k < CHECKPOINTS_MAX; k++)
            count += rt->checkpoints.all[k].state != CHECKPOINT_NONE;
        if (c && (c->image_number != rt->image_number ||
                  (count < RENEW_MAX && is_worn(w, c))))
            make(w, rt);
    }
}

void checkpoint_stop_all(struct warden *w)
{
    for (size_t i = 0; i < w->runtime_count; i++)
        for (size_t k = 0; k < CHECKPOINTS_MAX; k++) {
            struct checkpoint *c = &w->runtimes[i].checkpoints.all[k];

            if (c->state == CHECKPOINT_NONE)
                continue;
            fd_close(&c->folder);
            if (c->state != CHECKPOINT_MAKING)
                continue;
            (void)kill(c->pid, SIGKILL); /* our child, not yet reaped */
            fd_close(&c->events);
            c->state = CHECKPOINT_NONE;
        }
    checkpoint_sweep(w);
}
