/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a helper may still do once it serves; see helper.h. Runs in the
 * helper, once, after it was set up and before it sees a byte from outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "helper/helper.h"

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

static const int thread_calls[] = {
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(pipe2),
    SCMP_SYS(eventfd2),
    SCMP_SYS(socketpair),
    SCMP_SYS(prlimit64),
    SCMP_SYS(access),
    SCMP_SYS(sendmmsg),
    SCMP_SYS(recvmmsg),
    SCMP_SYS(bind),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(madvise),
};

static int add_rules(scmp_filter_ctx filter, unsigned rights)
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
    if (rights & HELPER_THREADS) {
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(thread_calls); i++)
            r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, thread_calls[i], 0);
        if (r == 0) /* of threads only */
            r = seccomp_rule_add(
                filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
        if (r == 0) /* its flags cannot be seen; libc then uses clone */
            r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS),
                                 SCMP_SYS(clone3), 0);
    }
    return r;
}

static int filter_calls(unsigned rights)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r = filter ? add_rules(filter, rights) : -ENOMEM;

    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

#else

static int filter_calls(unsigned rights)
{
    (void)rights;
    return 0;
}

#endif

bool helper_is_socket(int fd)
{
    int type = 0;
    socklen_t len = sizeof(type);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
           type == SOCK_SEQPACKET && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

void helper_hide(void)
{
    struct rlimit none = {0, 0};

    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#ifndef __SANITIZE_ADDRESS__ /* whose leak check reads our own memory so */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
    (void)umask(077);
}

int helper_confine(unsigned rights)
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
    if ((!(rights & HELPER_THREADS) && setrlimit(RLIMIT_NPROC, &none) < 0) ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
#endif
    return filter_calls(rights);
}
