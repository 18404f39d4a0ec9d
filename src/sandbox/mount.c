/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tree of a session: an overlay of the runtime (so that its inodes,
 * and with them locks and watches, are the session's own), devices, scratch
 * and the layers of a workspace handed down by the warden as detached mounts,
 * private temporary space, its own /proc. Steps of sandbox_enter(); put
 * together below /run of the zygote's tree, then pivoted to.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/sandbox_int.h"

#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#endif

#define INERT (MS_NOSUID | MS_NODEV)
#define STAGE_UPPER STAGE_SCRATCH "/upper"
#define STAGE_WORK STAGE_SCRATCH "/work"

/* Parts of /proc that tell about the host or act on it, covered by an empty
 * file or folder; and those that tell what the session was granted. */
static const struct {
    const char *name, *cover;
} covers[] = {
    {"cpuinfo", "cpuinfo"},
    {"loadavg", "loadavg"},
    {"meminfo", "meminfo"},
    {"stat", "stat"},
    {"buddyinfo", "empty"},
    {"cgroups", "empty"},
    {"cmdline", "empty"},
    {"config.gz", "empty"},
    {"consoles", "empty"},
    {"crypto", "empty"},
    {"devices", "empty"},
    {"diskstats", "empty"},
    {"interrupts", "empty"},
    {"iomem", "empty"},
    {"ioports", "empty"},
    {"kallsyms", "empty"},
    {"kcore", "empty"},
    {"key-users", "empty"},
    {"keys", "empty"},
    {"kmsg", "empty"},
    {"kpagecgroup", "empty"},
    {"kpagecount", "empty"},
    {"kpageflags", "empty"},
    {"locks", "empty"},
    {"misc", "empty"},
    {"modules", "empty"},
    {"mtrr", "empty"},
    {"pagetypeinfo", "empty"},
    {"partitions", "empty"},
    {"sched_debug", "empty"},
    {"slabinfo", "empty"},
    {"softirqs", "empty"},
    {"swaps", "empty"},
    {"sysrq-trigger", "empty"},
    {"timer_list", "empty"},
    {"vmallocinfo", "empty"},
    {"vmstat", "empty"},
    {"zoneinfo", "empty"},
    {"acpi", "nothing"},
    {"asound", "nothing"},
    {"bus", "nothing"},
    {"driver", "nothing"},
    {"dynamic_debug", "nothing"},
    {"fs", "nothing"},
    {"irq", "nothing"},
    {"pressure", "nothing"},
    {"scsi", "nothing"},
    {"sys/fs", "nothing"}, /* counts open files of the whole machine */
    {"sysvipc", "nothing"},
    {"tty", "nothing"},
};

static int try_mount(const char *source, const char *target, const char *type,
                     unsigned long flags, const char *options)
{
    return mount(source, target, type, flags, options) < 0 ? -errno : 0;
}

static int make_dir(const char *path, mode_t mode)
{
    return mkdir(path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

/* A detached mount of the warden's takes its place in our tree. */
static int attach(int mount_fd, const char *target)
{
    if (syscall(SYS_move_mount, mount_fd, "", AT_FDCWD, target,
                MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

int sandbox_mount_private(struct sandbox_steps *s)
{
    static const char *const dirs[] = {
        STAGE_EMPTY,   STAGE_FACTS,   STAGE_FACTS "/nothing",
        STAGE_PRIVATE, STAGE_SCRATCH, NEWROOT};
    int r = try_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);

    (void)s;
    if (r < 0)
        return r;
    r = try_mount("stage", STAGE, "tmpfs", INERT, "mode=0755,size=1m");
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
        r = make_dir(dirs[i], 0755);
    return r;
}

int sandbox_mount_root(struct sandbox_steps *s)
{
    (void)s;
    /* Two lower layers and no upper one make it read-only for good. */
    return try_mount("root", NEWROOT, "overlay", MS_RDONLY | INERT,
                     "lowerdir=" STAGE_EMPTY ":" BARE_IMAGE);
}

int sandbox_mount_devices(struct sandbox_steps *s)
{
    static const char *const nodes[] = {"null", "zero", "full", "random",
                                        "urandom"};
    char from[32], to[64];
    int r;

    if (s->spec->has_dev)
        return attach(s->fds->dev, NEWROOT "/dev");
    /* Without root the nodes cannot be made afresh; show the zygote's. */
    r = try_mount("dev", NEWROOT "/dev", "tmpfs", INERT | MS_NOEXEC,
                  "mode=0755,size=64k");
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(nodes); i++) {
        int fd;

        (void)snprintf(from, sizeof(from), "/dev/%s", nodes[i]);
        (void)snprintf(to, sizeof(to), NEWROOT "/dev/%s", nodes[i]);
        fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (fd < 0)
            return -errno;
        (void)close(fd); /* only its name was wanted */
        r = try_mount(from, to, NULL, MS_BIND, NULL);
    }
    if (r == 0 && (symlink("/proc/self/fd", NEWROOT "/dev/fd") < 0 ||
                   symlink("/proc/self/fd/0", NEWROOT "/dev/stdin") < 0 ||
                   symlink("/proc/self/fd/1", NEWROOT "/dev/stdout") < 0 ||
                   symlink("/proc/self/fd/2", NEWROOT "/dev/stderr") < 0))
        r = -errno;
    return r < 0 ? r : make_dir(NEWROOT "/dev/shm", 01777);
}

static int mount_tmpfs(const char *target, uint64_t bytes, uint64_t inodes,
                       const char *mode)
{
    char options[128];

    (void)snprintf(options, sizeof(options),
                   "mode=%s,size=%" PRIu64 ",nr_inodes=%" PRIu64
                   ",uid=%d,gid=%d",
                   mode, bytes, inodes, SANDBOX_UID, SANDBOX_UID);
    return try_mount("tmpfs", target, "tmpfs", INERT, options);
}

/* Of temporary space, whose inodes are memory as its bytes are. */
static uint64_t enough_inodes(uint64_t bytes)
{
    return MAX(bytes / 16384, (uint64_t)1024);
}

int sandbox_mount_writable(struct sandbox_steps *s)
{
    static const struct {
        const char *from, *to;
        mode_t mode;
    } places[] = {
        {STAGE_PRIVATE "/tmp", NEWROOT "/tmp", 01777},
        {STAGE_PRIVATE "/vartmp", NEWROOT "/var/tmp", 01777},
        {STAGE_PRIVATE "/home", NEWROOT SANDBOX_HOME, 0700},
        {STAGE_PRIVATE "/run", NEWROOT "/run", 0755},
    };
    const struct warden_limits *limits = &s->spec->limits;
    int r = mount_tmpfs(STAGE_PRIVATE, limits->tmp_bytes,
                        enough_inodes(limits->tmp_bytes), "0755");

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++) {
        r = make_dir(places[i].from, places[i].mode);
        if (r == 0 && chmod(places[i].from, places[i].mode) < 0)
            r = -errno; /* the umask took the sticky bit's company */
        if (r == 0)
            r = try_mount(places[i].from, places[i].to, NULL, MS_BIND, NULL);
    }
    return r < 0 ? r
                 : mount_tmpfs(NEWROOT "/dev/shm", limits->shm_bytes,
                               enough_inodes(limits->shm_bytes), "1777");
}

/*
 * The workspace's layers below, the session's own writes above. Mounted by
 * us, in the session's user namespace: what the layers hold is shown as the
 * session user's own (the warden's mounts map the ids) and copied up when it
 * is written to. Marks of deletion are "user." attributes, the only kind that
 * exists here; the session cannot make such marks through the overlay.
 */
static int mount_layers(struct sandbox_steps *s)
{
    char options[256] =
        "userxattr,upperdir=" STAGE_UPPER ",workdir=" STAGE_WORK ",lowerdir=";
    char place[32];
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < s->spec->layers; i++) {
        size_t used = strlen(options);

        (void)snprintf(place, sizeof(place), STAGE "/layer%u", i);
        (void)snprintf(options + used, sizeof(options) - used, "%s%s",
                       i ? ":" : "", place);
        r = make_dir(place, 0755);
        if (r == 0)
            r = attach(s->fds->layers[i], place);
    }
    return r < 0 ? r
                 : try_mount("data", NEWROOT SANDBOX_DATA, "overlay",
                             INERT | MS_NOATIME, options);
}

/* Scratch itself stays on the stage; /mnt/data is one folder of it, alone or
 * above the layers, and pid 1 keeps that folder open to see what changed. */
int sandbox_mount_data(struct sandbox_steps *s)
{
    const struct warden_limits *limits = &s->spec->limits;
    int r = s->spec->has_scratch
                ? attach(s->fds->scratch, STAGE_SCRATCH)
                : mount_tmpfs(STAGE_SCRATCH, limits->scratch_bytes,
                              limits->scratch_inodes + 3, "0755");

    if (r == 0)
        r = make_dir(STAGE_UPPER, 0755);
    if (r == 0)
        r = make_dir(STAGE_WORK, 0700);
    if (r < 0)
        return r;
    s->fds->upper = open(STAGE_UPPER, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (s->fds->upper < 0)
        return -errno;
    return s->spec->layers ? mount_layers(s)
                           : try_mount(STAGE_UPPER, NEWROOT SANDBOX_DATA, NULL,
                                       MS_BIND, NULL);
}

/* An image that has no such file, or a link, is left as it is: what looks
 * for names then asks this machine by itself. */
static int mount_resolver(void)
{
    static const char to[] = NEWROOT "/etc/resolv.conf";
    struct stat st;

    if (lstat(to, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    return try_mount(STAGE_FACTS "/resolv.conf", to, NULL, MS_BIND, NULL);
}

/* Covers are objects of our own on the stage, read-only already, which no
 * session ever reaches by path. */
int sandbox_mount_proc(struct sandbox_steps *s)
{
    static const char sys[] = NEWROOT "/proc/sys";
    int r =
        try_mount("proc", NEWROOT "/proc", "proc", INERT | MS_NOEXEC, NULL);

    (void)s;
    if (r == 0)
        r = try_mount(sys, sys, NULL, MS_BIND, NULL);
    if (r == 0)
        r = try_mount(NULL, sys, NULL,
                      MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOEXEC | INERT,
                      NULL);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(covers); i++) {
        char from[64], to[64];

        (void)snprintf(from, sizeof(from), STAGE_FACTS "/%s", covers[i].cover);
        (void)snprintf(to, sizeof(to), NEWROOT "/proc/%s", covers[i].name);
        r = try_mount(from, to, NULL, MS_BIND, NULL);
        if (r == -ENOENT)
            r = 0; /* this kernel has no such entry */
    }
    if (r == 0)
        r = try_mount(STAGE_FACTS "/sys", NEWROOT "/sys", NULL, MS_BIND, NULL);
    return r == 0 ? mount_resolver() : r;
}

int sandbox_mount_pivot(struct sandbox_steps *s)
{
    (void)s;
    /* Root onto itself, then the old root, now stacked on the new one,
     * goes: the zygote's tree and the stage are out of reach for good. */
    if (chdir(NEWROOT) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir(SANDBOX_DATA) < 0)
        return -errno;
    return 0;
}
