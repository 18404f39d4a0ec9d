/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tree of the process that supervises a guest (tier "gvisor"): a
 * tmpfs with the places that the guest gets as mounts, the checkpoint it is
 * restored from, and what runsc itself needs (/proc, /dev/null, /tmp). Steps
 * of sandbox_enter(); the session's files come from mount.c, as in every tier.
 * Code of the session never sees this tree, only what the guest mounts.
 */
#include <errno.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "sandbox/sandbox_int.h"

#define INERT (MS_NOSUID | MS_NODEV)
#define KERNEL_LIB "/opt/glovebox/lib" /* in the zygote's root */

int sandbox_guest_root(struct sandbox_steps *s)
{
    static const char *const dirs[] = {
        NEWROOT "/dev",
        NEWROOT "/proc",
        NEWROOT "/tmp",
        NEWROOT "/mnt",
        NEWROOT SANDBOX_DATA,
        NEWROOT SANDBOX_GUEST_IMAGE,
        NEWROOT SANDBOX_GUEST_LIB,
        NEWROOT SANDBOX_GUEST_PRIVATE,
        NEWROOT SANDBOX_GUEST_SHM,
        NEWROOT SANDBOX_GUEST_FACTS,
        NEWROOT SANDBOX_GUEST_CHECKPOINT,
        NEWROOT SANDBOX_GUEST_STATE,
        NEWROOT SANDBOX_GUEST_BUNDLE,
    };
    int r = sandbox_mount_try("root", NEWROOT, "tmpfs", INERT,
                              "mode=0755,size=4m");

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
        r = mkdir(dirs[i], 0755) < 0 ? -errno : 0;
    if (r == 0)
        r = sandbox_mount_try(BARE_IMAGE, NEWROOT SANDBOX_GUEST_IMAGE, NULL,
                              MS_BIND, NULL);
    if (r == 0)
        r = sandbox_mount_try(KERNEL_LIB, NEWROOT SANDBOX_GUEST_LIB, NULL,
                              MS_BIND, NULL);
    if (r == 0)
        r = sandbox_mount_attach(s->fds->image,
                                 NEWROOT SANDBOX_GUEST_CHECKPOINT);
    return r;
}

/* On file systems of the host, so that their limits hold and they outlive a
 * guest that was lost. */
int sandbox_guest_writable(struct sandbox_steps *s)
{
    static const struct {
        const char *path;
        mode_t mode;
    } places[] = {
        {NEWROOT SANDBOX_GUEST_PRIVATE "/tmp", 01777},
        {NEWROOT SANDBOX_GUEST_PRIVATE "/vartmp", 01777},
        {NEWROOT SANDBOX_GUEST_PRIVATE "/home", 0700},
        {NEWROOT SANDBOX_GUEST_PRIVATE "/run", 0755},
        {NEWROOT SANDBOX_GUEST_PRIVATE "/run/shm", 01777},
    };
    const struct warden_limits *limits = &s->spec->limits;
    int r = sandbox_mount_tmpfs(
        s->spec, NEWROOT SANDBOX_GUEST_PRIVATE, limits->tmp_bytes,
        sandbox_mount_inodes(limits->tmp_bytes), "0755");

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++)
        if (mkdir(places[i].path, places[i].mode) < 0 ||
            chmod(places[i].path, places[i].mode) < 0)
            r = -errno;
    if (r < 0)
        return r;
    return sandbox_mount_tmpfs(
        s->spec, NEWROOT SANDBOX_GUEST_SHM, limits->shm_bytes,
        sandbox_mount_inodes(limits->shm_bytes), "1777");
}

/* runsc mounts /proc again and reads the size of the memory from it, which the
 * guest then shows as its own. */
int sandbox_guest_proc(struct sandbox_steps *s)
{
    int r = sandbox_mount_try("proc", NEWROOT "/proc", "proc",
                              INERT | MS_NOEXEC, NULL);

    (void)s;
    if (r == 0)
        r = sandbox_mount_try(STAGE_FACTS "/meminfo", NEWROOT "/proc/meminfo",
                              NULL, MS_BIND, NULL);
    if (r == 0)
        r = sandbox_mount_try(STAGE_FACTS, NEWROOT SANDBOX_GUEST_FACTS, NULL,
                              MS_BIND, NULL);
    return r;
}
