/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host supports, one line per wall or setting: name, state (ok,
 * warn, missing), required (yes, no), why, what to do; tab-separated. Runs for
 * `glovebox doctor`, with the rights of its user, and uses the checks that
 * decide at start-up (posture.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "warden/serve.h"
#include "warden/tier.h"

struct finding {
    const char *state;
    char why[160];
    const char *fix;
};

static const char *const OK = "ok";
static const char *const WARN = "warn";
static const char *const MISSING = "missing";

static bool read_word(const char *path, char *ret, size_t size)
{
    char *text cleanup(mem_free) = NULL;

    if (fd_read_file(AT_FDCWD, path, 65536, &text, NULL) < 0)
        return false;
    (void)snprintf(ret, size, "%.*s", (int)strcspn(text, "\n"), text);
    return true;
}

/* ---- walls -------------------------------------------------------------- */

static const struct {
    uint32_t wall;
    const char *name, *stands, *absent, *fix;
} walls[] = {
    {WARDEN_WALL_USERNS, "user namespaces", "can be made",
     "this kernel refuses them",
     "sysctl user.max_user_namespaces=65536 (and, where present, "
     "kernel.unprivileged_userns_clone=1)"},
    {WARDEN_WALL_UIDS, "host uid per session",
     "each session runs under a host uid of its own",
     "not started by root: sessions would share your own uid",
     "run as root, or accept it: accept_missing_walls: uids"},
    {WARDEN_WALL_MEMORY, "memory limit", "control group can be made",
     "no control group with the memory controller can be written",
     "run as root, or delegate a cgroup v2 tree to this user "
     "(systemd: Delegate=yes)"},
    {WARDEN_WALL_PIDS, "process limit", "control group can be made",
     "no control group with the pids controller can be written",
     "as for the memory limit"},
    {WARDEN_WALL_CPU, "processor limit", "control group can be made",
     "no control group with the cpu controller can be written",
     "as for the memory limit"},
    {WARDEN_WALL_SECCOMP, "system call filter", "filter builds and loads",
     "libseccomp could not build the filter or the kernel has no seccomp",
     "use a kernel with CONFIG_SECCOMP_FILTER"},
    {WARDEN_WALL_LANDLOCK, "landlock", "present",
     "this kernel has no landlock, or it is not enabled",
     "boot with lsm=landlock,... or accept it: accept_missing_walls: "
     "landlock"},
    {WARDEN_WALL_SCRATCH, "scratch on disk",
     "loop devices and mke2fs are there",
     "needs root, /dev/loop-control and /sbin/mke2fs (package e2fsprogs)",
     "run as root and load the loop module, or accept a tmpfs, counted as "
     "memory: accept_missing_walls: scratch"},
};

/* ---- settings ----------------------------------------------------------- */

static void look_kernel(struct warden *w, struct finding *f)
{
    struct utsname u;
    unsigned major = 0, minor = 0;

    (void)w;
    if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
        return;
    f->state = major > 5 || (major == 5 && minor >= 14) ? OK : MISSING;
    (void)snprintf(f->why, sizeof(f->why), "Linux %s", u.release);
    f->fix = "5.14 or newer is needed";
}

static void look_tiers(struct warden *w, struct finding *f)
{
    const char *missing;

    tier_runsc_open(w);
    missing = tier_runsc_missing(w);
    f->state = OK;
    (void)snprintf(f->why, sizeof(f->why), "%s%s%s", tier_clone.name,
                   missing ? "; " : ", ", missing ? missing : tier_runsc.name);
    fd_close(&w->runsc_fd);
}

static void look_cgroup(struct warden *w, struct finding *f)
{
    int version = w->groups ? sandbox_cgroup_version(w->groups) : 0;

    f->state = version ? OK : WARN;
    (void)snprintf(f->why, sizeof(f->why),
                   version ? "version %d" : "none usable", version);
    f->fix = "mount cgroup2 at /sys/fs/cgroup";
}

static void look_landlock_level(struct warden *w, struct finding *f)
{
    long level = syscall(SYS_landlock_create_ruleset, NULL, 0,
                         LANDLOCK_CREATE_RULESET_VERSION);

    (void)w;
    f->state = level >= 3 ? OK : WARN;
    (void)snprintf(f->why, sizeof(f->why), "level %ld", level < 0 ? 0 : level);
    f->fix = "level 3 (Linux 6.2) also covers truncation";
}

static void look_overlay(struct warden *w, struct finding *f)
{
    char *text cleanup(mem_free) = NULL;
    bool there =
        fd_read_file(AT_FDCWD, "/proc/filesystems", 65536, &text, NULL) == 0 &&
        strstr(text, "\toverlay\n");

    (void)w;
    f->state = there ? OK : MISSING;
    (void)snprintf(f->why, sizeof(f->why), "overlay file system %s",
                   there ? "present" : "not loaded");
    f->fix = "modprobe overlay";
}

/* Tried on /tmp here, on the data directory at start-up. */
static void look_layers(struct warden *w, struct finding *f)
{
    int fd cleanup(fd_close) =
        open("/tmp", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    bool able = fd >= 0 && layers_possible(w, fd);

    f->state = able ? OK : WARN;
    (void)snprintf(f->why, sizeof(f->why), "%s",
                   able ? "workspaces are mounted, whatever their size"
                        : "workspaces are copied into sessions");
    f->fix = "needs root, Linux 5.19 and a file system with id-mapped mounts "
             "(ext4, xfs, btrfs)";
}

static void look_swap(struct warden *w, struct finding *f)
{
    char *text cleanup(mem_free) = NULL;
    bool any =
        fd_read_file(AT_FDCWD, "/proc/swaps", 65536, &text, NULL) == 0 &&
        strchr(text, '\n') && strchr(text, '\n')[1];

    (void)w;
    f->state = any ? WARN : OK;
    (void)snprintf(f->why, sizeof(f->why), "%s",
                   any ? "swap is on: pages of sessions may reach the disk"
                       : "off");
    f->fix = "swapoff -a, or encrypt it";
}

static void look_smt(struct warden *w, struct finding *f)
{
    char text[16];
    bool on =
        read_word("/sys/devices/system/cpu/smt/active", text, sizeof(text)) &&
        text[0] == '1';

    (void)w;
    f->state = on ? WARN : OK;
    (void)snprintf(f->why, sizeof(f->why), "%s",
                   on ? "on: tenants may share a core's side channels"
                      : "off or not present");
    f->fix = "echo off > /sys/devices/system/cpu/smt/control";
}

static void look_merging(struct warden *w, struct finding *f)
{
    char text[16];
    bool on = read_word("/sys/kernel/mm/ksm/run", text, sizeof(text)) &&
              text[0] == '1';

    (void)w;
    f->state = on ? WARN : OK;
    (void)snprintf(f->why, sizeof(f->why), "%s",
                   on ? "on: equal pages of tenants are merged" : "off");
    f->fix = "echo 0 > /sys/kernel/mm/ksm/run";
}

static void look_core(struct warden *w, struct finding *f)
{
    char text[128] = "";
    bool piped =
        read_word("/proc/sys/kernel/core_pattern", text, sizeof(text)) &&
        text[0] == '|';

    (void)w;
    f->state = OK;
    (void)snprintf(f->why, sizeof(f->why), "%s; sessions dump none",
                   piped ? "piped to a program" : "written to files");
    f->fix = "";
}

static void look_io_uring(struct warden *w, struct finding *f)
{
    char text[16];
    bool known =
        read_word("/proc/sys/kernel/io_uring_disabled", text, sizeof(text));

    (void)w;
    f->state = OK;
    (void)snprintf(f->why, sizeof(f->why),
                   "%s on the host; always refused in sessions",
                   known && text[0] != '0' ? "disabled" : "enabled");
    f->fix = "";
}

static void look_library(struct warden *w, struct finding *f)
{
    const struct scmp_version *v = seccomp_version();

    (void)w;
    f->state = v ? OK : WARN;
    if (v)
        (void)snprintf(f->why, sizeof(f->why), "libseccomp %u.%u.%u", v->major,
                       v->minor, v->micro);
    f->fix = "";
}

static const struct {
    const char *name;
    bool required;
    void (*look)(struct warden *w, struct finding *f);
} settings[] = {
    {"kernel", true, look_kernel},
    {"isolation", false, look_tiers},
    {"overlay", true, look_overlay},
    {"workspace layers", false, look_layers},
    {"control groups", false, look_cgroup},
    {"landlock level", false, look_landlock_level},
    {"swap", false, look_swap},
    {"simultaneous multithreading", false, look_smt},
    {"page merging", false, look_merging},
    {"core dumps", false, look_core},
    {"io_uring", false, look_io_uring},
    {"libraries", false, look_library},
};

static void print_line(const char *name, const char *state, bool required,
                       const char *why, const char *fix)
{
    printf("%s\t%s\t%s\t%s\t%s\n", name, state, required ? "yes" : "no", why,
           state == OK ? "" : fix);
}

int warden_doctor_print(void)
{
    struct warden w = {.filter_fd = -1,
                       .runsc_fd = -1,
                       .sock = -1,
                       .daemon_mounts = -1,
                       .meters = METERS_NONE};
    uint32_t standing;
    int status = 0;

    /* A failure leaves the wall missing, which is printed. */
    (void)sandbox_cgroup_open("/sys/fs/cgroup", "/proc/self/cgroup",
                              "glovebox-doctor", &w.groups);
    (void)sandbox_seccomp_build(&w.filter_fd);
    standing = w.walls = warden_posture_walls(&w);
    for (size_t i = 0; i < ARRAY_SIZE(walls); i++) {
        bool up = standing & walls[i].wall;

        print_line(walls[i].name, up ? OK : MISSING, true,
                   up ? walls[i].stands : walls[i].absent, walls[i].fix);
        status |= !up;
    }
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        struct finding f = {.state = WARN, .fix = ""};

        settings[i].look(&w, &f);
        print_line(settings[i].name, f.state, settings[i].required, f.why,
                   f.fix);
        status |= settings[i].required && f.state == MISSING;
    }
    sandbox_cgroup_close(w.groups);
    fd_close(&w.filter_fd);
    return status;
}
