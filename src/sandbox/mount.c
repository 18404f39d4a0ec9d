/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tree of a session: an overlay over the runtime (so that inodes, and
 * with them locks and watches, are per session); devices, scratch and
 * workspace layers, which the warden passes as detached mounts; private
 * temporary space; a new /proc. Steps of sandbox_enter(). The tree is
 * assembled below /run of the zygote's tree, then becomes the root.
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

/* Parts of /proc that show or change the host, covered by an empty file or
 * folder; and parts that are replaced by what the session was granted. */
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

int sandbox_mount_try(const char *source, const char *target, const char *type,
                      unsigned long flags, const char *options)
{
    return mount(source, target, type, flags, options) < 0 ? -errno : 0;
}

static int make_dir(const char *path, mode_t mode)
{
    return mkdir(path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

/* Attaches a detached mount of the warden. */
int sandbox_mount_attach(int mount_fd, const char *target)
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
    int r = sandbox_mount_try(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);

    (void)s;
    if (r < 0)
        return r;
    r = sandbox_mount_try("stage", STAGE, "tmpfs", INERT, "mode=0755,size=1m");
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
        r = make_dir(dirs[i], 0755);
    return r;
}

int sandbox_mount_root(struct sandbox_steps *s)
{
    (void)s;
    /* Two lower layers and no upper one: permanently read-only. */
    return sandbox_mount_try("root", NEWROOT, "overlay", MS_RDONLY | INERT,
                             "lowerdir=" STAGE_EMPTY ":" BARE_IMAGE);
}

int sandbox_mount_devices(struct sandbox_steps *s)
{
    static const char *const nodes[] = {"null", "zero", "full", "random",
                                        "urandom"};
    char from[32], to[64];
    int r;

    if (s->spec->has_dev)
        return sandbox_mount_attach(s->fds->dev, NEWROOT "/dev");
    /* Without root no device nodes can be created; bind the zygote's. */
    r = sandbox_mount_try("dev", NEWROOT "/dev", "tmpfs", INERT | MS_NOEXEC,
                          "mode=0755,size=64k");
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(nodes); i++) {
        int fd;

        (void)snprintf(from, sizeof(from), "/dev/%s", nodes[i]);
        (void)snprintf(to, sizeof(to), NEWROOT "/dev/%s", nodes[i]);
        fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (fd < 0)
            return -errno;
        (void)close(fd); /* only its name was wanted */
        r = sandbox_mount_try(from, to, NULL, MS_BIND, NULL);
    }
    if (r == 0 && (symlink("/proc/self/fd", NEWROOT "/dev/fd") < 0 ||
                   symlink("/proc/self/fd/0", NEWROOT "/dev/stdin") < 0 ||
                   symlink("/proc/self/fd/1", NEWROOT "/dev/stdout") < 0 ||
                   symlink("/proc/self/fd/2", NEWROOT "/dev/stderr") < 0))
        r = -errno;
    return r < 0 ? r : make_dir(NEWROOT "/dev/shm", 01777);
}

int sandbox_mount_tmpfs(const struct sandbox_spec *spec, const char *target,
                        uint64_t bytes, uint64_t inodes, const char *mode)
{
    char options[128];

    (void)snprintf(options, sizeof(options),
                   "mode=%s,size=%" PRIu64 ",nr_inodes=%" PRIu64
                   ",uid=%u,gid=%u",
                   mode, bytes, inodes, sandbox_id(spec), sandbox_id(spec));
    return sandbox_mount_try("tmpfs", target, "tmpfs", INERT, options);
}

/* For temporary space: inodes use memory too. */
uint64_t sandbox_mount_inodes(uint64_t bytes)
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
    int r =
        sandbox_mount_tmpfs(s->spec, STAGE_PRIVATE, limits->tmp_bytes,
                            sandbox_mount_inodes(limits->tmp_bytes), "0755");

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++) {
        r = make_dir(places[i].from, places[i].mode);
        if (r == 0 && chmod(places[i].from, places[i].mode) < 0)
            r = -errno; /* the umask took the sticky bit's company */
        if (r == 0)
            r = sandbox_mount_try(places[i].from, places[i].to, NULL, MS_BIND,
                                  NULL);
    }
    return r < 0 ? r
                 : sandbox_mount_tmpfs(
                       s->spec, NEWROOT "/dev/shm", limits->shm_bytes,
                       sandbox_mount_inodes(limits->shm_bytes), "1777");
}

/*
 * An overlay: workspace layers below, the session's writes above. Mounted
 * here, in the session's user namespace. Files of the layers appear as the
 * session user's (the warden's mounts map the ids) and are copied up when
 * written to. Whiteouts are "user." attributes, the only kind available here;
 * the session cannot create them through the overlay.
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
            r = sandbox_mount_attach(s->fds->layers[i], place);
    }
    return r < 0 ? r
                 : sandbox_mount_try("data", NEWROOT SANDBOX_DATA, "overlay",
                                     INERT | MS_NOATIME, options);
}

/* The scratch mount stays on the stage; /mnt/data is one folder of it, alone
 * or above the layers. pid 1 keeps that folder open to find changes. */
int sandbox_mount_data(struct sandbox_steps *s)
{
    const struct warden_limits *limits = &s->spec->limits;
    int r = s->spec->has_scratch
                ? sandbox_mount_attach(s->fds->scratch, STAGE_SCRATCH)
                : sandbox_mount_tmpfs(s->spec, STAGE_SCRATCH,
                                      limits->scratch_bytes,
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
    return s->spec->layers
               ? mount_layers(s)
               : sandbox_mount_try(STAGE_UPPER, NEWROOT SANDBOX_DATA, NULL,
                                   MS_BIND, NULL);
}

/* An image without this file, or with a link, stays as it is: resolvers then
 * use their default, this machine. */
static int mount_resolver(void)
{
    static const char to[] = NEWROOT "/etc/resolv.conf";
    struct stat st;

    if (lstat(to, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    return sandbox_mount_try(STAGE_FACTS "/resolv.conf", to, NULL, MS_BIND,
                             NULL);
}

/* Covers are read-only files and folders on the stage, which no session
 * reaches by path. */
int sandbox_mount_proc(struct sandbox_steps *s)
{
    static const char sys[] = NEWROOT "/proc/sys";
    int r = sandbox_mount_try("proc", NEWROOT "/proc", "proc",
                              INERT | MS_NOEXEC, NULL);

    (void)s;
    if (r == 0)
        r = sandbox_mount_try(sys, sys, NULL, MS_BIND, NULL);
    if (r == 0)
        r = sandbox_mount_try(
            NULL, sys, NULL,
            MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOEXEC | INERT, NULL);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(covers); i++) {
        char from[64], to[64];

        (void)snprintf(from, sizeof(from), STAGE_FACTS "/%s", covers[i].cover);
        (void)snprintf(to, sizeof(to), NEWROOT "/proc/%s", covers[i].name);
        r = sandbox_mount_try(from, to, NULL, MS_BIND, NULL);
        if (r == -ENOENT)
            r = 0; /* this kernel has no such entry */
    }
    if (r == 0)
        r = sandbox_mount_try(STAGE_FACTS "/sys", NEWROOT "/sys", NULL,
                              MS_BIND, NULL);
    return r == 0 ? mount_resolver() : r;
}

int sandbox_mount_pivot(struct sandbox_steps *s)
{
    (void)s;
    /* pivot_root onto itself stacks the old root on the new one; unmounting it
     * makes the zygote's tree and the stage unreachable. */
    if (chdir(NEWROOT) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir(SANDBOX_DATA) < 0)
        return -errno;
    return 0;
}
