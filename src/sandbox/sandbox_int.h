/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of sandbox/ only: the steps of sandbox_enter(). Each returns
 * 0 or a negative errno. */
#ifndef GLOVEBOX_SANDBOX_SANDBOX_INT_H
#define GLOVEBOX_SANDBOX_SANDBOX_INT_H

#include "sandbox/sandbox.h"

struct sandbox_steps {
    const struct sandbox_spec *spec;
    struct sandbox_fds *fds;
    const struct sock_fprog *filter;
};

/* The id that the session's user has inside these namespaces: for a guest it
 * is root's, because runsc expects to be root there; outside it is the same
 * host uid in both cases. */
static inline unsigned sandbox_id(const struct sandbox_spec *spec)
{
    return spec->guest ? 0 : SANDBOX_UID;
}

int sandbox_ns_ids(struct sandbox_steps *s);
int sandbox_ns_join(struct sandbox_steps *s);
int sandbox_ns_groups(struct sandbox_steps *s);
int sandbox_ns_names(struct sandbox_steps *s);
int sandbox_ns_network(struct sandbox_steps *s);
int sandbox_mount_private(struct sandbox_steps *s);
int sandbox_mount_root(struct sandbox_steps *s);
int sandbox_mount_devices(struct sandbox_steps *s);
int sandbox_mount_writable(struct sandbox_steps *s);
int sandbox_mount_data(struct sandbox_steps *s);
int sandbox_mount_proc(struct sandbox_steps *s);
int sandbox_mount_tmpfs(const struct sandbox_spec *spec, const char *target,
                        uint64_t bytes, uint64_t inodes, const char *mode);
uint64_t sandbox_mount_inodes(uint64_t bytes); /* of temporary space */
int sandbox_mount_try(const char *source, const char *target, const char *type,
                      unsigned long flags, const char *options);
int sandbox_mount_attach(int mount_fd, const char *target);
int sandbox_guest_root(struct sandbox_steps *s);
int sandbox_guest_writable(struct sandbox_steps *s);
int sandbox_guest_proc(struct sandbox_steps *s);
int sandbox_guest_limits(struct sandbox_steps *s);
int sandbox_mount_pivot(struct sandbox_steps *s);
int sandbox_proc_write(struct sandbox_steps *s);
int sandbox_rlimit_apply(struct sandbox_steps *s);
int sandbox_fds_close(struct sandbox_steps *s);
int sandbox_fds_check(struct sandbox_steps *s);
int sandbox_caps_drop(struct sandbox_steps *s);
int sandbox_landlock_apply(struct sandbox_steps *s);
int sandbox_seccomp_apply(struct sandbox_steps *s);

/* Where the new root is assembled, on a tmpfs over the zygote's /run; and
 * where the zygote has mounted the image a second time, because an overlay
 * cannot use a root with other mounts below it. */
#define STAGE "/run"
#define BARE_IMAGE SANDBOX_DATA
#define STAGE_EMPTY STAGE "/empty"
#define STAGE_FACTS STAGE "/facts"
#define STAGE_PRIVATE STAGE "/private"
#define STAGE_SCRATCH STAGE "/scratch"
#define NEWROOT STAGE "/root"

#endif
