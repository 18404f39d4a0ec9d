/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allow-list of system calls, built once by the warden with libseccomp
 * and handed to zygotes as a program. What is not listed is refused with
 * EPERM; calls of another architecture or ABI kill the process. Where
 * arguments matter the call has a row of its own below the list.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/sandbox.h"

#define CALL(name) SCMP_SYS(name)
/* Newer than the headers this may be built with; one number everywhere. */
#define NR_FCHMODAT2 452

/*
 * By what they are for. Every one acts only on what the session owns. Left
 * out because one session would feel another's use of them: inotify, whose
 * instances the kernel counts for the maker of our user namespaces, which is
 * the same for all sessions; asynchronous I/O (io_setup), of which the whole
 * machine has one budget; cachestat, which tells what others have read of a
 * file. Programs fall back to polling, threads and nothing. POSIX message
 * queues are left out because landlock refuses every one of them anyway.
 */
static const int allowed[] = {
    /* files */
    CALL(read),
    CALL(write),
    CALL(readv),
    CALL(writev),
    CALL(pread64),
    CALL(pwrite64),
    CALL(preadv),
    CALL(pwritev),
    CALL(preadv2),
    CALL(pwritev2),
    CALL(open),
    CALL(openat),
    CALL(openat2),
    CALL(creat),
    CALL(close),
    CALL(close_range),
    CALL(lseek),
    CALL(stat),
    CALL(fstat),
    CALL(lstat),
    CALL(newfstatat),
    CALL(statx),
    CALL(statfs),
    CALL(fstatfs),
    CALL(access),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(getdents),
    CALL(getdents64),
    CALL(getcwd),
    CALL(chdir),
    CALL(fchdir),
    CALL(rename),
    CALL(renameat),
    CALL(renameat2),
    CALL(mkdir),
    CALL(mkdirat),
    CALL(rmdir),
    CALL(link),
    CALL(linkat),
    CALL(unlink),
    CALL(unlinkat),
    CALL(symlink),
    CALL(symlinkat),
    CALL(readlink),
    CALL(readlinkat),
    CALL(chmod),
    CALL(fchmod),
    CALL(fchmodat),
    CALL(chown),
    CALL(fchown),
    CALL(lchown),
    CALL(fchownat),
    CALL(umask),
    CALL(truncate),
    CALL(ftruncate),
    CALL(fallocate),
    CALL(fsync),
    CALL(fdatasync),
    CALL(sync_file_range),
    CALL(syncfs),
    CALL(flock),
    CALL(dup),
    CALL(dup2),
    CALL(dup3),
    CALL(pipe),
    CALL(pipe2),
    CALL(sendfile),
    CALL(splice),
    CALL(tee),
    CALL(vmsplice),
    CALL(copy_file_range),
    CALL(utime),
    CALL(utimes),
    CALL(utimensat),
    CALL(futimesat),
    CALL(mknod),
    CALL(mknodat),
    CALL(readahead),
    CALL(fadvise64),
    CALL(getxattr),
    CALL(lgetxattr),
    CALL(fgetxattr),
    CALL(listxattr),
    CALL(llistxattr),
    CALL(flistxattr),
    CALL(setxattr),
    CALL(lsetxattr),
    CALL(fsetxattr),
    CALL(removexattr),
    CALL(lremovexattr),
    CALL(fremovexattr),
    CALL(memfd_create),
    NR_FCHMODAT2,
    /* waiting */
    CALL(select),
    CALL(pselect6),
    CALL(poll),
    CALL(ppoll),
    CALL(epoll_create),
    CALL(epoll_create1),
    CALL(epoll_ctl),
    CALL(epoll_wait),
    CALL(epoll_pwait),
    CALL(epoll_pwait2),
    CALL(eventfd),
    CALL(eventfd2),
    CALL(signalfd),
    CALL(signalfd4),
    CALL(timerfd_create),
    CALL(timerfd_settime),
    CALL(timerfd_gettime),
    /* memory */
    CALL(mmap),
    CALL(munmap),
    CALL(mremap),
    CALL(mprotect),
    CALL(madvise),
    CALL(msync),
    CALL(mincore),
    CALL(brk),
    CALL(mlock),
    CALL(mlock2),
    CALL(munlock),
    CALL(mlockall),
    CALL(munlockall),
    CALL(membarrier),
    CALL(pkey_alloc),
    CALL(pkey_free),
    CALL(pkey_mprotect),
    CALL(get_mempolicy),
    CALL(shmget),
    CALL(shmat),
    CALL(shmdt),
    CALL(shmctl),
    CALL(map_shadow_stack),
    /* processes, threads, time */
    CALL(fork),
    CALL(vfork),
    CALL(execve),
    CALL(execveat),
    CALL(exit),
    CALL(exit_group),
    CALL(wait4),
    CALL(waitid),
    CALL(kill),
    CALL(tkill),
    CALL(tgkill),
    CALL(getpid),
    CALL(getppid),
    CALL(gettid),
    CALL(getpgid),
    CALL(getpgrp),
    CALL(setpgid),
    CALL(getsid),
    CALL(setsid),
    CALL(getuid),
    CALL(geteuid),
    CALL(getgid),
    CALL(getegid),
    CALL(getresuid),
    CALL(getresgid),
    CALL(getgroups),
    CALL(setuid),
    CALL(setgid),
    CALL(setreuid),
    CALL(setregid),
    CALL(setresuid),
    CALL(setresgid),
    CALL(setfsuid),
    CALL(setfsgid),
    CALL(setgroups),
    CALL(capget),
    CALL(capset),
    CALL(arch_prctl),
    CALL(prctl),
    CALL(set_tid_address),
    CALL(set_robust_list),
    CALL(get_robust_list),
    CALL(rseq),
    CALL(futex),
    CALL(futex_waitv),
    CALL(sched_yield),
    CALL(sched_getaffinity),
    CALL(sched_setaffinity),
    CALL(sched_getparam),
    CALL(sched_setparam),
    CALL(sched_getscheduler),
    CALL(sched_getattr),
    CALL(sched_get_priority_max),
    CALL(sched_get_priority_min),
    CALL(sched_rr_get_interval),
    CALL(getpriority),
    CALL(setpriority),
    CALL(getrlimit),
    CALL(setrlimit),
    CALL(prlimit64),
    CALL(getrusage),
    CALL(times),
    CALL(time),
    CALL(gettimeofday),
    CALL(clock_gettime),
    CALL(clock_getres),
    CALL(clock_nanosleep),
    CALL(nanosleep),
    CALL(getitimer),
    CALL(setitimer),
    CALL(alarm),
    CALL(timer_create),
    CALL(timer_settime),
    CALL(timer_gettime),
    CALL(timer_getoverrun),
    CALL(timer_delete),
    CALL(uname),
    CALL(sysinfo),
    CALL(getrandom),
    CALL(getcpu),
    CALL(pidfd_open),
    CALL(pidfd_send_signal),
    CALL(landlock_create_ruleset),
    CALL(landlock_add_rule),
    CALL(landlock_restrict_self),
    CALL(restart_syscall),
    CALL(seccomp),
    /* signals */
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_sigreturn),
    CALL(rt_sigpending),
    CALL(rt_sigtimedwait),
    CALL(rt_sigqueueinfo),
    CALL(rt_tgsigqueueinfo),
    CALL(rt_sigsuspend),
    CALL(sigaltstack),
    CALL(pause),
    /* talking, within its own namespaces; socket() itself is below */
    CALL(bind),
    CALL(listen),
    CALL(accept),
    CALL(accept4),
    CALL(connect),
    CALL(getsockname),
    CALL(getpeername),
    CALL(getsockopt),
    CALL(setsockopt),
    CALL(shutdown),
    CALL(sendto),
    CALL(sendmsg),
    CALL(sendmmsg),
    CALL(recvfrom),
    CALL(recvmsg),
    CALL(recvmmsg),
    CALL(semget),
    CALL(semop),
    CALL(semtimedop),
    CALL(semctl),
    CALL(msgget),
    CALL(msgsnd),
    CALL(msgrcv),
    CALL(msgctl),
};

#define NAMESPACE_FLAGS                                                       \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |            \
     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* The low word of a 64-bit argument: the kernel ignores the rest, so a filter
 * that looked at it could be walked around. */
#define LOW(arg, value)                                                       \
    SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, 0xffffffffu, (scmp_datum_t)(value))

/*
 * A call with any command (its second argument) but two of one page, that is
 * with all but the last digit in common. A filter can only ask for equality
 * under a mask, so "neither of the two" is spelled out: some bit above the
 * last digit differs from the page's, or the last digit is one of the other
 * fourteen.
 */
static int add_all_but(scmp_filter_ctx ctx, int call, scmp_datum_t one,
                       scmp_datum_t other)
{
    const scmp_datum_t page = one & ~(scmp_datum_t)0xf;
    int r = 0;

    for (unsigned bit = 4; bit < 32; bit++) {
        scmp_datum_t mask = (scmp_datum_t)1 << bit;

        r |= seccomp_rule_add(
            ctx, SCMP_ACT_ALLOW, call, 1,
            SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, mask, ~page & mask));
    }
    for (scmp_datum_t digit = 0; digit < 16; digit++)
        if ((page | digit) != one && (page | digit) != other)
            r |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, call, 1,
                                  LOW(1, page | digit));
    return r;
}

/*
 * Local sockets of any kind; of the Internet's only TCP and UDP, because
 * asking for another protocol makes the host load a module; and netlink for
 * listing interfaces and routes, which is how names are looked up.
 */
static int add_sockets(scmp_filter_ctx ctx)
{
    static const int inet[] = {AF_INET, AF_INET6};
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    static const int protocols[] = {0, IPPROTO_TCP, IPPROTO_UDP};
    int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(socket), 1,
                             LOW(0, AF_UNIX));

    r |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(socketpair), 1,
                          LOW(0, AF_UNIX));
    r |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(socket), 2,
                          LOW(0, AF_NETLINK), LOW(2, NETLINK_ROUTE));
    for (size_t f = 0; f < ARRAY_SIZE(inet); f++)
        for (size_t t = 0; t < ARRAY_SIZE(types); t++)
            for (size_t p = 0; p < ARRAY_SIZE(protocols); p++)
                r |= seccomp_rule_add(
                    ctx, SCMP_ACT_ALLOW, CALL(socket), 3, LOW(0, inet[f]),
                    /* the type's low bits; above them are its flags */
                    SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, 0xf,
                               (scmp_datum_t)types[t]),
                    LOW(2, protocols[p]));
    return r;
}

static int add_with_arguments(scmp_filter_ctx ctx)
{
    static const int personalities[] = {PER_LINUX, PER_LINUX32,
                                        (int)0xffffffff /* only ask */};
    int r = 0;

    /* Threads and forks, but no namespace of its own. clone3 hides its flags
     * in memory, so it is answered as if the kernel had none. */
    r |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(clone), 1,
                          SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACE_FLAGS, 0));
    r |= seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), CALL(clone3), 0);
    r |= add_sockets(ctx);
    for (size_t i = 0; i < ARRAY_SIZE(personalities); i++)
        r |= seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(personality), 1,
                              LOW(0, (unsigned)personalities[i]));
    /* These type into a terminal. */
    r |= add_all_but(ctx, CALL(ioctl), TIOCSTI, TIOCLINUX);
    /* The locks that belong to no process, so that warden/locks.c could not
     * tell whose they are. */
    r |= add_all_but(ctx, CALL(fcntl), F_OFD_SETLK, F_OFD_SETLKW);
    return r ? -EINVAL : 0;
}

static int build_filter(scmp_filter_ctx ctx, int fd)
{
    int r =
        seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

    r |= seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(allowed); i++)
        if (allowed[i] >= 0) /* negative: not on this architecture */
            r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
    if (r == 0)
        r = add_with_arguments(ctx);
    if (r == 0)
        r = seccomp_export_bpf(ctx, fd);
    /* Every zygote and session reads it; none may change it for the next. */
    if (r == 0 &&
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        r = -errno;
    return r;
}

int sandbox_seccomp_build(int *ret_fd)
{
    int fd cleanup(fd_close) =
        memfd_create("filter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    scmp_filter_ctx ctx;
    int r;

    if (fd < 0)
        return -errno;
    ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!ctx)
        return -ENOMEM;
    r = build_filter(ctx, fd);
    seccomp_release(ctx);
    if (r < 0)
        return r;
    *ret_fd = take_fd(fd);
    return 0;
}
