/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of a helper: starts its program again after gloveboxd gave
 * up the right to become its account. It runs as that account already and can
 * only start this one program. Each packet from gloveboxd orders a new process
 * and brings its sockets. The supervisor ends with gloveboxd, and its process
 * ends with it.
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
#include "helper/helper.h"
#include "wire/wire.h"

static void exec_program(int program, const char *name, const int *sockets,
                         size_t count)
{
    const char *argv[] = {name, NULL};
    char *environment[] = {NULL};
    int high[HELPER_SOCKETS_MAX];
    sigset_t none;

    program = fd_dup(program, 16);
    for (size_t i = 0; i < count; i++) {
        high[i] = fd_dup(sockets[i], 16);
        if (high[i] < 0)
            _exit(126);
    }
    for (size_t i = 0; i < count; i++)
        if (dup2(high[i], HELPER_FD + (int)i) < 0)
            _exit(126);
    if (program < 0)
        _exit(126);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* By descriptor, which closes itself and all but 0 to 2 and the sockets.
     */
    (void)syscall(SYS_execveat, program, "", argv, environment, AT_EMPTY_PATH);
    _exit(127);
}

static void end_program(pid_t *pid)
{
    if (*pid <= 0)
        return;
    (void)kill(*pid, SIGKILL);
    (void)waitpid(*pid, NULL, 0);
    *pid = 0;
}

/* One order: its sockets; answered with the process's id, or 0. */
static bool obey_order(int control, int program, const char *name, pid_t *pid)
{
    int fds[WIRE_FDS_MAX];
    size_t count = 0;
    bool good;
    char order;
    int32_t answer = 0;
    ssize_t n = wire_recv(control, &order, sizeof(order), fds, &count);

    if (n <= 0)
        return false;
    good = count > 0 && count <= HELPER_SOCKETS_MAX;
    if (good) {
        end_program(pid); /* there is never more than one */
        *pid = fork();
        if (*pid == 0)
            exec_program(program, name, fds, count);
        answer = *pid > 0 ? (int32_t)*pid : 0;
    }
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    return good && wire_send(control, &answer, sizeof(answer), NULL, 0) == 0;
}

int helper_supervise_run(int control, int program, const char *name)
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
        if (fds[0].revents && !obey_order(control, program, name, &pid))
            break;
    }
    end_program(&pid);
    return 0;
}
