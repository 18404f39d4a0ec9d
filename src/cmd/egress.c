/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox-egress: the only process that talks to the world for sessions.
 * Started by its supervisor (this program again, with --supervise) with two
 * sockets at descriptors 3 and 4, an empty environment, an account of its own
 * and no way to another.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "egress/serve.h"

#define CTL_FD 3
#define REPORT_FD 4
#define PROGRAM_FD 4 /* of the supervisor, instead */

static int is_link(int fd)
{
    int type = 0;
    socklen_t len = sizeof(type);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
           type == SOCK_SEQPACKET && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* Whatever the account: no core, no debugger, no way to gain rights. */
static void hide(void)
{
    struct rlimit none = {0, 0};

    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#ifndef __SANITIZE_ADDRESS__ /* whose leak check reads our own memory so */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
    (void)umask(077);
}

int main(int argc, char **argv)
{
    log_setup("egress", LOG_INFO, false);
    hide();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("glovebox-egress " GLOVEBOX_VERSION);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--supervise") == 0 && is_link(CTL_FD) &&
        fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) == 0)
        return egress_supervise_run(CTL_FD, PROGRAM_FD);
    if (argc == 1 && is_link(CTL_FD) && is_link(REPORT_FD))
        return egress_serve_run(CTL_FD, REPORT_FD);
    fputs("glovebox-egress is started by gloveboxd; on its own it takes "
          "--version.\n",
          stderr);
    return 2;
}
