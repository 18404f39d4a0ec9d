/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes for the stopwatch: as cheap a start as Linux has (vfork, chroot,
 * exec), so that a peer's figure is the peer's own and not its starter's.
 */
#include "stopwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_SIZE (1 << 20)

/* What a session of the same image has, and no bytecode written into it. */
static char *const environment[] = {(char[]){"PATH=/usr/bin:/bin"},
                                    (char[]){"HOME=/tmp"},
                                    (char[]){"LANG=C.UTF-8"},
                                    (char[]){"PYTHONUNBUFFERED=1"},
                                    (char[]){"PYTHONDONTWRITEBYTECODE=1"},
                                    NULL};

static pid_t start(const char *root, char *const argv[], int out)
{
    pid_t pid = vfork();

    if (pid < 0)
        stopwatch_die("vfork");
    if (pid > 0)
        return pid;
    /* Child, in its parent's memory until exec: system calls only. */
    if (root[0] == '/' && (chroot(root) < 0 || chdir("/") < 0))
        _exit(126);
    if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
        _exit(126);
    execve(argv[0], argv, environment);
    _exit(127);
}

/* The pipe holds what all of them print; it is read after the clock stops. */
static void drain(int fd, struct bytes *out)
{
    ssize_t n;

    do {
        n = read(fd, stopwatch_room(out, 4096), 4096);
        if (n > 0)
            out->len += (size_t)n;
    } while (n > 0);
}

uint64_t spawn_all(const char *root, char *const argv[], size_t count,
                   size_t *ret_failed, struct bytes *out)
{
    int fds[2], status;
    size_t failed = 0;
    uint64_t begun;

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0 ||
        fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE) < 0)
        stopwatch_die("pipe");
    begun = stopwatch_now();
    for (size_t i = 0; i < count; i++)
        start(root, argv, fds[1]);
    for (size_t i = 0; i < count; i++) {
        while (wait(&status) < 0)
            if (errno != EINTR)
                stopwatch_die("wait");
        failed += status != 0;
    }
    begun = stopwatch_now() - begun;
    close(fds[1]);
    drain(fds[0], out);
    close(fds[0]);
    *ret_failed = failed;
    return begun;
}
