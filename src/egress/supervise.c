/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper that starts glovebox-egress again after gloveboxd gave up the
 * right to become its account. It runs as that account already, can do
 * nothing but start this one program, and is told when by gloveboxd: each
 * packet brings the two sockets of a new process. It ends with gloveboxd, and
 * its processes with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/serve.h"
#include "wire/wire.h"

#define CTL_FD 3
#define REPORT_FD 4

static void become(int program, const int fds[2])
{
    const char *argv[] = {"glovebox-egress", NULL};
    char *environment[] = {NULL};
    sigset_t none;
    int a = fd_dup(fds[0], 16), b = fd_dup(fds[1], 16);

    program = fd_dup(program, 16);
    if (a < 0 || b < 0 || program < 0 || dup2(a, CTL_FD) < 0 ||
        dup2(b, REPORT_FD) < 0)
        _exit(126);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* By descriptor, which closes itself and all that is not 0 to 4. */
    (void)syscall(SYS_execveat, program, "", argv, environment, AT_EMPTY_PATH);
    _exit(127);
}

static void end(pid_t *pid)
{
    if (*pid <= 0)
        return;
    (void)kill(*pid, SIGKILL);
    (void)waitpid(*pid, NULL, 0);
    *pid = 0;
}

/* One order: two sockets; answered with the process's id, or 0. */
static bool obey(int control, int program, pid_t *pid)
{
    int fds[WIRE_FDS_MAX];
    size_t count = 0;
    char order;
    int32_t answer = 0;
    ssize_t n = wire_recv(control, &order, sizeof(order), fds, &count);

    if (n <= 0)
        return false;
    if (count == 2) {
        end(pid); /* there is never more than one */
        *pid = fork();
        if (*pid == 0)
            become(program, fds);
        answer = *pid > 0 ? (int32_t)*pid : 0;
    }
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    return count == 2 &&
           wire_send(control, &answer, sizeof(answer), NULL, 0) == 0;
}

int egress_supervise_run(int control, int program)
{
    struct pollfd fds[2] = {{.fd = control, .events = POLLIN}};
    pid_t pid = 0;
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGINT); /* a terminal's is gloveboxd's matter */
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)sigdelset(&set, SIGINT);
    fds[1] = (struct pollfd){.fd = signalfd(-1, &set, SFD_CLOEXEC),
                             .events = POLLIN};
    for (;;) {
        struct signalfd_siginfo info;

        if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents &&
            read(fds[1].fd, &info, sizeof(info)) == sizeof(info) && pid > 0 &&
            waitpid(pid, NULL, WNOHANG) == pid)
            pid = 0;
        if (fds[0].revents && !obey(control, program, &pid))
            break;
    }
    end(&pid);
    return 0;
}
