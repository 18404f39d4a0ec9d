/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What glovebox-egress may still do once it serves: sockets of the Internet,
 * reading files, its own memory. No programs, no processes, no writing of
 * files, no debugging, no namespaces. Applied once, after SETUP, for good.
 */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "egress/egress_int.h"

#ifndef __SANITIZE_ADDRESS__ /* whose leak check starts a process */

static const int calls[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(close),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(lseek),
    SCMP_SYS(getdents64),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(accept4),
    SCMP_SYS(connect),
    SCMP_SYS(listen),
    SCMP_SYS(shutdown),
    SCMP_SYS(getsockopt),
    SCMP_SYS(setsockopt),
    SCMP_SYS(getsockname),
    SCMP_SYS(getpeername),
    SCMP_SYS(sendto),
    SCMP_SYS(recvfrom),
    SCMP_SYS(sendmsg),
    SCMP_SYS(recvmsg),
    SCMP_SYS(brk),
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(mprotect),
    SCMP_SYS(futex),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(getrandom),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(uname),
    SCMP_SYS(fcntl),
    SCMP_SYS(ioctl),
    SCMP_SYS(memfd_create),
    SCMP_SYS(ftruncate),
    SCMP_SYS(sysinfo),
    SCMP_SYS(getcwd),
    SCMP_SYS(lstat),
    SCMP_SYS(stat),
    SCMP_SYS(readlink),
    SCMP_SYS(sched_yield),
    SCMP_SYS(tgkill),
    SCMP_SYS(rseq),
};

static int add_rules(scmp_filter_ctx filter)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(calls); i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    if (r == 0) /* read only */
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ,
                                     O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_EQ, AF_INET));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_EQ, AF_INET6));
    return r;
}

static int filter_calls(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r = filter ? add_rules(filter) : -ENOMEM;

    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

#else

static int filter_calls(void)
{
    return 0;
}

#endif

int egress_confine(void)
{
    static const struct rlimit none = {0, 0};
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return -errno;
    files.rlim_cur = MIN(files.rlim_max, (rlim_t)65536);
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 ||
        setrlimit(RLIMIT_CORE, &none) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
#ifndef __SANITIZE_ADDRESS__
    if (setrlimit(RLIMIT_NPROC, &none) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
#endif
    return filter_calls();
}
