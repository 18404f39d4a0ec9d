/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps that isolate a new session, in order. Runs as pid 1 of the
 * session's namespaces: just cloned from the zygote, host uid not mapped yet,
 * every capability inside its user namespace and none outside. Called by
 * kernel/zygote.c. When it returns 0, the process has no capability left, sees
 * only its own root and may make only listed system calls. The supervisor of a
 * guest (tier "gvisor") keeps the capabilities of its own user namespace,
 * which runsc needs to isolate itself; runsc brings its own filters.
 */
#include "sandbox/sandbox.h"

#include <errno.h>
#include <stddef.h>

#include "base/mem.h"
#include "sandbox/sandbox_int.h"

/* In which tiers a step is taken. */
enum {
    PROCESS = 1,
    GUEST = 2,
    BOTH = 3
};

static const struct {
    const char *name;
    int (*apply)(struct sandbox_steps *s);
    int tiers;
} steps[] = {
    {"join control groups", sandbox_ns_join, BOTH},
    {"become the session user", sandbox_ns_ids, BOTH},
    {"private mount propagation", sandbox_mount_private, BOTH},
    {"read-only root", sandbox_mount_root, PROCESS},
    {"root of the guest's supervisor", sandbox_guest_root, GUEST},
    {"device nodes", sandbox_mount_devices, BOTH},
    {"writable places", sandbox_mount_writable, PROCESS},
    {"the guest's writable places", sandbox_guest_writable, GUEST},
    {"the session's files", sandbox_mount_data, BOTH},
    {"facts about the machine", sandbox_proc_write, BOTH},
    {"process file system", sandbox_mount_proc, PROCESS},
    {"process file system of the supervisor", sandbox_guest_proc, GUEST},
    {"change of root", sandbox_mount_pivot, BOTH},
    {"control groups", sandbox_ns_groups, BOTH},
    {"host name and control group names", sandbox_ns_names, BOTH},
    {"loopback network", sandbox_ns_network, BOTH},
    {"close descriptors", sandbox_fds_close, BOTH},
    {"resource limits", sandbox_rlimit_apply, PROCESS},
    {"resource limits of the supervisor", sandbox_guest_limits, GUEST},
    {"check descriptors, folder and root", sandbox_fds_check, BOTH},
    {"drop capabilities", sandbox_caps_drop, PROCESS},
    {"landlock", sandbox_landlock_apply, PROCESS},
    {"system call filter", sandbox_seccomp_apply, PROCESS},
};

int sandbox_enter(const struct sandbox_spec *spec, struct sandbox_fds *fds,
                  const struct sock_fprog *filter,
                  struct sandbox_failure *ret_failure)
{
    struct sandbox_steps s = {.spec = spec, .fds = fds, .filter = filter};

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        int r = 0;

        if (steps[i].tiers & (spec->guest ? GUEST : PROCESS))
            r = steps[i].apply(&s);
        if (r < 0) {
            ret_failure->step = steps[i].name;
            ret_failure->errnum = -r;
            return -1;
        }
    }
    return 0;
}
