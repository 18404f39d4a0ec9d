/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Installs two system call filters. The last step of sandbox_enter(). The
 * first one is the wall: an allow-list built by the warden (seccomp_build.c)
 * and read by the zygote. The second refuses nothing; it notifies pid 1 of
 * every call that names a destination (kernel/notify.c). The stricter result
 * of two filters counts, so the second cannot weaken the first.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/sandbox_int.h"

/* The low half of an argument; first on little-endian machines. */
#define LOW_HALF(arg) offsetof(struct seccomp_data, args[arg])
#define HIGH_HALF(arg) (LOW_HALF(arg) + 4)
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "filters here read the low half of an argument first");

#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
/* Skips so many instructions when the condition holds. */
#define SKIP_IF_EQUAL(value, skip)                                            \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (skip), 0)
#define SKIP_UNLESS_EQUAL(value, skip)                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define SKIP_IF_LESS(value, skip)                                             \
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), 0, (skip))

/*
 * Notifies of connect, sendmsg, sendmmsg, and sendto with an address, but not
 * on descriptors from `lowest` on, which only pid 1 has: it would wait for
 * itself. An invalid descriptor (-1) is above all.
 */
static int apply_watch(unsigned lowest)
{
    struct sock_filter code[] = {
        LOAD(offsetof(struct seccomp_data, nr)),
        SKIP_IF_EQUAL(SYS_connect, 8),
        SKIP_IF_EQUAL(SYS_sendmsg, 7),
        SKIP_IF_EQUAL(SYS_sendmmsg, 6),
        SKIP_UNLESS_EQUAL(SYS_sendto, 4),
        LOAD(LOW_HALF(4)),
        SKIP_UNLESS_EQUAL(0, 3),
        LOAD(HIGH_HALF(4)),
        SKIP_UNLESS_EQUAL(0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        LOAD(LOW_HALF(0)),
        SKIP_IF_LESS(lowest, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_USER_NOTIF),
    };
    struct sock_fprog filter = {.len = ARRAY_SIZE(code), .filter = code};

    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
}

int sandbox_seccomp_apply(struct sandbox_steps *s)
{
    if (!s->filter || s->filter->len == 0)
        return -ENOEXEC; /* no filter, no session */
    /* The watch first: the wall need not allow that. */
    s->fds->watch = apply_watch(s->fds->lowest);
    if (s->fds->watch < 0)
        return -errno;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, s->filter) < 0)
        return -errno;
    return 0;
}
