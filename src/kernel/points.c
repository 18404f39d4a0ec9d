/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undo points: copies of the kernel that stand still. Runs in pid 1, which is
 * their parent. The kernel makes a copy (memory.c); pid 1 keeps the set of
 * them, and the daemon their order. A copy is stopped by SIGSTOP, has a
 * process group of its own, so that no interrupt reaches it, and dies with
 * everything else in kill_all.
 *
 * Session code can make any of its processes look like a copy. Making such a
 * process the kernel is then its own doing: it has no right that the kernel
 * has not.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/mem.h"
#include "kernel/kernel_int.h"

#define STOP_TRIES 20000 /* until a process that is to stop has stopped */
#define STOP_NS 50000L

static size_t find_point(const struct points *p, pid_t pid)
{
    size_t i = 0;

    while (i < p->count && p->pids[i] != pid)
        i++;
    return i;
}

static void forget_point(struct points *p, size_t i)
{
    p->pids[i] = p->pids[--p->count];
}

bool points_ended(struct points *p, pid_t pid)
{
    size_t i = find_point(p, pid);

    if (i == p->count)
        return false;
    forget_point(p, i);
    return true;
}

/* A child of pid 1 that stands still? */
static bool stands_still(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT | WNOHANG) ==
               0 &&
           info.si_pid == pid;
}

static bool wait_stopped(pid_t pid)
{
    for (int i = 0; i < STOP_TRIES; i++) {
        if (stands_still(pid))
            return true;
        if (kill(pid, 0) < 0)
            return false; /* it has ended */
        (void)nanosleep(&(struct timespec){.tv_nsec = STOP_NS}, NULL);
    }
    return false;
}

/* The copy stops itself as soon as it is ready, and may be another process's
 * child until then. */
static int keep_point(struct points *p, pid_t pid, pid_t kernel)
{
    if (p->count == INIT_POINTS_MAX)
        return ENOSPC;
    if (pid <= 1 || pid == kernel || find_point(p, pid) < p->count ||
        !wait_stopped(pid))
        return ESRCH;
    p->pids[p->count++] = pid;
    return 0;
}

/* SIGSTOP cannot be refused, but takes until the process leaves the system
 * call that it is in. */
static bool stop_kernel(pid_t pid)
{
    if (kill(pid, SIGSTOP) == 0 && wait_stopped(pid))
        return true;
    (void)kill(pid, SIGCONT); /* the request failed; it goes on */
    return false;
}

static int switch_kernel(struct points *p, pid_t pid, pid_t *kernel)
{
    size_t i = find_point(p, pid);

    if (i == p->count || !stands_still(pid))
        return ESRCH;
    if (*kernel && !stop_kernel(*kernel))
        return EBUSY;
    if (kill(pid, SIGCONT) < 0)
        return errno;
    if (*kernel)
        p->pids[i] = *kernel;
    else
        forget_point(p, i);
    *kernel = pid;
    return 0;
}

static void end_point(struct points *p, size_t i)
{
    pid_t pid = p->pids[i];
    int status;

    forget_point(p, i);
    if (kill(pid, SIGKILL) == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
}

int points_request(struct points *p, uint32_t arg, pid_t *kernel,
                   uint32_t *ret_count)
{
    pid_t pid = (pid_t)(arg & INIT_POINT_PID_MAX);
    int r = 0;

    switch ((enum init_point)(arg >> 24)) {
    case INIT_POINT_KEEP:
        r = keep_point(p, pid, *kernel);
        break;
    case INIT_POINT_SWITCH:
        r = switch_kernel(p, pid, kernel);
        break;
    case INIT_POINT_DROP:
        if (pid == 0)
            while (p->count)
                end_point(p, p->count - 1);
        else if (find_point(p, pid) < p->count)
            end_point(p, find_point(p, pid));
        break;
    default:
        r = EINVAL;
    }
    *ret_count = (uint32_t)p->count;
    return r;
}
