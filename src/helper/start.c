/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the supervisor of a helper process, and ordering processes of it.
 * Runs in gloveboxd: helper_open while it may still choose the account, the
 * rest later, over a socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/priv.h"
#include "helper/helper.h"
#include "wire/wire.h"

#define CONTROL_FD HELPER_FD
#define PROGRAM_FD (HELPER_FD + 1)
#define START_MS 10000
#define CLOSE_MS 3000u

/* In the child: drops from root with every capability to the helper's account
 * with none, then runs the program as the supervisor. */
static void exec_supervisor(int control, int program, const char *name,
                            const struct priv_user *user)
{
    const char *argv[] = {name, "--supervise", NULL};
    char *environment[] = {NULL};
    int a = fd_dup(control, 16), b = fd_dup(program, 16);
    struct priv_user self = {geteuid(), getegid()};

    if (a < 0 || b < 0 || dup2(a, CONTROL_FD) < 0 || dup2(b, PROGRAM_FD) < 0)
        _exit(126);
    (void)close_range(PROGRAM_FD + 1, ~0u, 0);
    if (user && priv_drop(user) < 0)
        _exit(125);
    if (!user && self.uid != 0 && priv_drop(&self) < 0)
        _exit(125);
    /* By descriptor: its folder need not be open to that account. */
    (void)syscall(SYS_execveat, PROGRAM_FD, "", argv, environment,
                  AT_EMPTY_PATH);
    _exit(127);
}

int helper_open(struct helper *h, const char *path, const char *name,
                const struct priv_user *user, struct error *err)
{
    int program cleanup(fd_close) = open(path, O_PATH | O_CLOEXEC);
    int pair[2];
    int r;

    if (program < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "cannot open %s",
                           path);
    r = fd_socketpair(SOCK_SEQPACKET, pair);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot make a socket");
    h->supervisor = fork();
    if (h->supervisor == 0)
        exec_supervisor(pair[1], program, name, user);
    fd_close(&pair[1]);
    h->control = pair[0];
    if (h->supervisor < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot fork");
    return 0;
}

int helper_order(struct helper *h, const int *sockets, size_t count,
                 struct error *err)
{
    struct pollfd p = {.fd = h->control, .events = POLLIN};
    char start = 1;
    int32_t pid = 0;

    if (wire_send(h->control, &start, sizeof(start), sockets, count) < 0 ||
        poll(&p, 1, START_MS) != 1 ||
        wire_recv(h->control, &pid, sizeof(pid), NULL, NULL) !=
            (ssize_t)sizeof(pid) ||
        pid <= 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the supervisor does not start the process");
    return 0;
}

void helper_close(struct helper *h)
{
    uint64_t deadline = clock_mono_ms() + CLOSE_MS;

    fd_close(&h->control); /* it ends its process, then itself */
    while (h->supervisor > 0 && waitpid(h->supervisor, NULL, WNOHANG) == 0 &&
           clock_left_ms(deadline) > 0) {
        struct timespec pause = {0, 2000000};

        (void)nanosleep(&pause, NULL);
    }
    *h = HELPER_NONE;
}
