/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops all privilege: empties every capability set, the bounding set too,
 * forbids gaining any by exec, and makes pid 1 unreadable to other processes
 * of the session. A step of sandbox_enter(). Uses system calls: runtimes need
 * not have libcap.
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/sandbox_int.h"

int sandbox_caps_drop(struct sandbox_steps *s)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};

    (void)s;
    if (prctl(PR_SET_SECUREBITS,
              SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                  SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                  SECBIT_NO_CAP_AMBIENT_RAISE |
                  SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED) < 0)
        return -errno;
    for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap) == 0; cap++)
        ;
    if (errno != EINVAL) /* past the last capability of this kernel */
        return -errno;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    if (syscall(SYS_capset, &head, none) < 0)
        return -errno;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0) < 0)
        return -errno;
    return 0;
}
