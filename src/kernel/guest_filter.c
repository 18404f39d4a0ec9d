/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's system call filter, inside a guest. gVisor runs such filters
 * as Linux does, so code in a guest reaches only those parts of gVisor's
 * kernel that the list names. Two things differ. gVisor cannot notify pid 1 of
 * a call, so calls that would wait for pid 1 are allowed; the guest's network
 * stack has no route and refuses them. And gVisor lets a process kill its own
 * pid 1, so signals that are sent to it are dropped by the filter.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"

#define CODE_MAX 4096 /* instructions; the limit of Linux */

#define LOAD(field)                                                           \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

/* Comes first and falls through. A pid is the lower half of the argument. */
static const struct sock_filter protect_init[] = {
    LOAD(nr),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 4, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tkill, 3, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigqueueinfo, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_tgsigqueueinfo, 0, 3),
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO), /* 0: as if sent */
};

int guest_filter_pack(const struct sock_fprog *filter)
{
    int fd cleanup(fd_close) = memfd_create("filter", MFD_CLOEXEC);
    int r =
        fd < 0 ? -errno : fd_write_all(fd, protect_init, sizeof(protect_init));

    if (r == 0 && filter->len == 0)
        r = -EINVAL;
    for (size_t i = 0; r == 0 && i < filter->len; i++) {
        struct sock_filter code = filter->filter[i];

        if (code.code == (BPF_RET | BPF_K) &&
            (code.k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF)
            code.k = SECCOMP_RET_ALLOW;
        r = fd_write_all(fd, &code, sizeof(code));
    }
    return r < 0 ? r : take_fd(fd);
}

int guest_filter_load(int fd)
{
    static struct sock_filter code[CODE_MAX];
    struct sock_fprog filter = {.filter = code};
    ssize_t n = pread(fd, code, sizeof(code), 0);

    if (n <= 0 || (size_t)n % sizeof(code[0]))
        return n < 0 ? -errno : -EINVAL;
    filter.len = (unsigned short)((size_t)n / sizeof(code[0]));
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
        return -errno;
    return 0;
}
