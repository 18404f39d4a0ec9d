/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine of a session's birth. Runs as pid 1 of the session's own
 * namespaces: just cloned from the zygote, host uid unmapped, every
 * capability inside its user namespace and none outside it. Called by
 * kernel/zygote.c; when it returns 0 the process has no capability left,
 * sees only its own root and may make only listed system calls.
 */
#include "sandbox/sandbox.h"

#include <errno.h>
#include <stddef.h>

#include "base/mem.h"
#include "sandbox/sandbox_int.h"

static const struct {
    const char *name;
    int (*apply)(struct sandbox_steps *s);
} steps[] = {
    {"join control groups", sandbox_ns_join},
    {"become the session user", sandbox_ns_ids},
    {"private mount propagation", sandbox_mount_private},
    {"read-only root", sandbox_mount_root},
    {"device nodes", sandbox_mount_devices},
    {"writable places", sandbox_mount_writable},
    {"the session's files", sandbox_mount_data},
    {"facts about the machine", sandbox_proc_write},
    {"process file system", sandbox_mount_proc},
    {"change of root", sandbox_mount_pivot},
    {"control groups", sandbox_ns_groups},
    {"host name and control group names", sandbox_ns_names},
    {"loopback network", sandbox_ns_network},
    {"close descriptors", sandbox_fds_close},
    {"resource limits", sandbox_rlimit_apply},
    {"check descriptors, folder and root", sandbox_fds_check},
    {"drop capabilities", sandbox_caps_drop},
    {"landlock", sandbox_landlock_apply},
    {"system call filter", sandbox_seccomp_apply},
};

int sandbox_enter(const struct sandbox_spec *spec, struct sandbox_fds *fds,
                  const struct sock_fprog *filter,
                  struct sandbox_failure *ret_failure)
{
    struct sandbox_steps s = {.spec = spec, .fds = fds, .filter = filter};

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        int r = steps[i].apply(&s);

        if (r < 0) {
            ret_failure->step = steps[i].name;
            ret_failure->errnum = -r;
            return -1;
        }
    }
    return 0;
}
