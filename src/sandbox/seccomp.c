/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the system call filter on. The last step of sandbox_enter(); the
 * filter was built by the warden (seccomp_build.c) and read by the zygote.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/sandbox_int.h"

int sandbox_seccomp_apply(struct sandbox_steps *s)
{
    if (!s->filter || s->filter->len == 0)
        return -ENOEXEC; /* no filter, no session */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, s->filter) < 0)
        return -errno;
    return 0;
}
