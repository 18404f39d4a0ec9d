/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the memory of a kernel: as an image in a file, or as a copy of the
 * process that stands still. Runs in the kernel, between cells, with the
 * interpreter's lock held, when the daemon asks for it (KERNEL_MEMORY). The
 * answer is the session's own statement; the daemon believes only that it
 * comes from one of the lists.
 *
 * Copies are made by fork() of the C library, whose handlers end the thread
 * pools of libraries, and not by Python's, whose handlers would tell the
 * driver that it is a copy. So Python code must not have threads.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/image.h"
#include "kernel/kernel_int.h"
#include "wire/wire.h"

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif

/* Not in the headers of the stable ABI, but exported unchanged. */
extern PyThreadState *PyInterpreterState_ThreadHead(PyInterpreterState *i);
extern PyThreadState *PyThreadState_Next(PyThreadState *t);

/* ---- what stands in the way --------------------------------------------- */

static bool python_threads(void)
{
    PyThreadState *first =
        PyInterpreterState_ThreadHead(PyInterpreterState_Get());

    return first && PyThreadState_Next(first);
}

static bool is_zombie(int pid)
{
    char path[64], text[512], *end;
    int fd cleanup(fd_close) = -1;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return true; /* it is gone */
    text[n] = '\0';
    end = strrchr(text, ')');
    return end && strncmp(end, ") Z", 3) == 0;
}

/* Children that live. One that has ended and was not waited for counts as
 * ended. */
static bool live_children(void)
{
    siginfo_t info;
    char path[64], line[4096], *p = line;
    int fd cleanup(fd_close) = -1;
    ssize_t n;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return false; /* there is none */
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children",
                   (int)getpid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
    if (n < 0)
        return true; /* this host does not tell which */
    line[n] = '\0';
    for (int pid, used; sscanf(p, "%d%n", &pid, &used) == 1; p += used)
        if (!is_zombie(pid))
            return true;
    return false;
}

static uint32_t obstacles(void)
{
    return (python_threads() ? KERNEL_UNCARRIED_THREADS : 0u) |
           (live_children() ? KERNEL_UNCARRIED_CHILDREN : 0u);
}

/* ---- copies ------------------------------------------------------------- */

static bool single_threaded(void)
{
    struct stat st;

    /* A folder has a link for itself, its parent's entry and each part. */
    return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

/* As fork(), but no handlers run, and with CLONE_PARENT the copy is a child of
 * pid 1: session code that waits for its children does not see it. */
static pid_t clone_self(unsigned long flags)
{
    void *tid = NULL, *robust = NULL;
    size_t len = 0;
    long pid;

    (void)syscall(SYS_get_robust_list, 0, &robust, &len);
    if (prctl(PR_GET_TID_ADDRESS, &tid, 0, 0, 0) == 0 && tid)
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, tid, 0);
    if (pid == 0 && robust)
        (void)syscall(SYS_set_robust_list, robust, len);
    return (pid_t)pid;
}

/* A copy whose parent is pid 1. -1: none, with errno; 0: in the copy. */
static pid_t copy_self(void)
{
    int ends[2], status;
    pid_t between, pid = -1;

    if (single_threaded())
        return clone_self(CLONE_PARENT);
    if (fd_pipe(ends) < 0)
        return -1;
    between = fork();
    if (between == 0) {
        pid = clone_self(0);
        if (pid == 0) {
            (void)close(ends[0]);
            (void)close(ends[1]);
            return 0;
        }
        (void)!write(ends[1], &pid, sizeof(pid)); /* else it has none */
        _exit(0);
    }
    (void)close(ends[1]);
    if (between > 0) {
        if (read(ends[0], &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
            pid = -1;
        while (waitpid(between, &status, 0) < 0 && errno == EINTR)
            ;
    }
    (void)close(ends[0]);
    if (pid < 0)
        errno = EAGAIN;
    return pid;
}

/* In a copy: regular files are opened anew, so that their positions are its
 * own. What cannot be opened stays shared. */
static void own_positions(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        char path[64];
        struct stat st;
        int fd = 0, flags, again, own;
        off_t at;

        if (sscanf(e->d_name, "%d", &fd) != 1 || fd == dirfd(dir) ||
            fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        flags = fcntl(fd, F_GETFL);
        own = fcntl(fd, F_GETFD);
        at = lseek(fd, 0, SEEK_CUR);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        again = open(path, (flags & (O_ACCMODE | O_APPEND | O_NONBLOCK)) |
                               O_CLOEXEC);
        if (again < 0)
            continue;
        if (lseek(again, at, SEEK_SET) == at)
            (void)dup3(again, fd, own & FD_CLOEXEC ? O_CLOEXEC : 0);
        (void)close(again);
    }
    if (dir)
        (void)closedir(dir);
}

/* In a copy: anonymous memory that forks share becomes its own. There are no
 * children that it is shared with. */
static bool own_shared(void *ctx, const struct image_vma *vma,
                       const char *name)
{
    size_t len = vma->end - vma->start;
    void *own;

    (void)ctx;
    if (!vma->shared || strncmp(name, "/dev/zero", 9) != 0 ||
        !(vma->prot & PROT_READ))
        return true;
    own = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
               -1, 0);
    if (own == MAP_FAILED)
        return true; /* then it stays shared */
    memcpy(own, (const void *)vma->start, len);
    (void)mprotect(own, len, vma->prot);
    if (mremap(own, len, len, MREMAP_MAYMOVE | MREMAP_FIXED,
               (void *)vma->start) == MAP_FAILED)
        (void)munmap(own, len);
    return true;
}

static void own_shared_memory(void)
{
    char *room = malloc(IMAGE_LINES_ROOM);

    if (room)
        (void)image_vmas(false, room, own_shared, NULL); /* or it is shared */
    free(room);
}

/* Signals stay blocked from before the fork until both are in order. An
 * answer's SIGCHLD for the process between is no business of session code. */
static void hold_signals(sigset_t *ret_old)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, ret_old);
}

static void release_signals(const sigset_t *old)
{
    struct timespec now = {0, 0};
    sigset_t child;

    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    while (sigtimedwait(&child, NULL, &now) > 0)
        ;
    (void)pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* True: this is the copy, which was continued just now. */
static bool make_point(struct kernel_remembered *answer)
{
    sigset_t old;
    pid_t pid;

    answer->uncarried = obstacles();
    /* In a guest, pid 1 keeps no copies, and there is no zygote. */
    if (answer->uncarried || !image_zygote_ids()) {
        answer->result = KERNEL_MEMORY_REFUSED;
        return false;
    }
    /* Freed memory that malloc keeps would be rewritten by each cell, and each
     * copy would then own the old contents. */
    (void)malloc_trim(0);
    hold_signals(&old);
    pid = copy_self();
    if (pid == 0) {
        (void)setsid();
        own_positions();
        own_shared_memory();
        (void)kill(getpid(), SIGSTOP);
    }
    release_signals(&old);
    if (pid == 0)
        return true;
    answer->result = pid < 0 ? KERNEL_MEMORY_FAILED : KERNEL_MEMORY_DONE;
    answer->pid = pid < 0 ? 0 : (uint32_t)pid;
    return false;
}

/* ---- images ------------------------------------------------------------- */

/* What the writing process tells the kernel. */
struct report {
    int32_t result; /* of image_save */
    uint32_t refused;
    struct image_saved saved;
};

static void fill_answer(struct kernel_remembered *answer, int r,
                        const struct image_saved *saved)
{
    answer->bytes = saved->bytes;
    answer->uncarried |= saved->uncarried;
    answer->result = saved->refused ? KERNEL_MEMORY_REFUSED
                     : r == 0       ? KERNEL_MEMORY_DONE
                     : r == -EFBIG || r == -ENOSPC || r == -EDQUOT
                         ? KERNEL_MEMORY_TOO_LARGE
                         : KERNEL_MEMORY_FAILED;
}

/* True: this process continues from the image. */
static bool save(int fd, uint64_t most, struct kernel_remembered *answer)
{
    struct report report = {.result = -EIO};
    uint32_t own = (uint32_t)getpid();
    int ends[2], status;
    sigset_t old;
    pid_t pid;

    answer->result = KERNEL_MEMORY_FAILED;
    answer->uncarried = obstacles();
    if (answer->uncarried) {
        answer->result = KERNEL_MEMORY_REFUSED;
        return false;
    }
    (void)malloc_trim(0);
    if (fd < 0 || fd_pipe(ends) < 0)
        return false;
    hold_signals(&old);
    pid = fork();
    if (pid == 0) {
        int tell = fd_dup(ends[1], KERNEL_FRAMES_FD + 1);

        (void)close(ends[0]);
        (void)close(ends[1]);
        report.result = image_save(fd, tell, most, own, &report.saved);
        if (report.result == 1) {
            (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
            return true;
        }
        (void)!write(tell, &report, sizeof(report)); /* else it failed */
        _exit(0);
    }
    (void)close(ends[1]);
    if (pid > 0) {
        if (read(ends[0], &report, sizeof(report)) != (ssize_t)sizeof(report))
            report = (struct report){.result = -EIO};
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        fill_answer(answer, report.result, &report.saved);
    }
    (void)close(ends[0]);
    release_signals(&old);
    return false;
}

static void look(struct kernel_remembered *answer)
{
    struct image_saved saved = {0};
    int r = image_look(&saved);

    answer->uncarried = obstacles();
    if (answer->uncarried)
        saved.refused = true;
    fill_answer(answer, r, &saved);
}

enum memory_served memory_serve(const struct kernel_memory *request, int fd)
{
    struct kernel_remembered answer = {.number = request->number,
                                       .result = KERNEL_MEMORY_FAILED};

    switch ((enum kernel_memory_what)request->what) {
    case KERNEL_MEMORY_LOOK:
        look(&answer);
        break;
    case KERNEL_MEMORY_SAVE:
        if (save(fd, request->most_bytes, &answer))
            return MEMORY_WOKEN;
        break;
    case KERNEL_MEMORY_POINT:
        if (make_point(&answer))
            return MEMORY_CONTINUED;
        break;
    }
    return wire_frame_send(KERNEL_FRAMES_FD, KERNEL_REMEMBERED, &answer,
                           sizeof(answer)) < 0
               ? MEMORY_BROKEN
               : MEMORY_SERVED;
}

void memory_wake(const struct kernel_seat *seat)
{
    uint32_t why = image_wake(seat->image, seat->grant.limits.memory_bytes,
                              seat, sizeof(*seat));

    (void)wire_frame_send(KERNEL_FRAMES_FD, KERNEL_UNUSABLE, &why,
                          sizeof(why)); /* its end says the same */
    _exit(0);
}
