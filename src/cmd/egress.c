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
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "egress/serve.h"
#include "helper/helper.h"

#define CTL_FD HELPER_FD
#define REPORT_FD (HELPER_FD + 1)
#define PROGRAM_FD (HELPER_FD + 1) /* of the supervisor, instead */

int main(int argc, char **argv)
{
    log_setup("egress", LOG_INFO, false);
    helper_hide();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("glovebox-egress " GLOVEBOX_VERSION);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--supervise") == 0 &&
        helper_is_socket(CTL_FD) &&
        fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) == 0)
        return helper_supervise_run(CTL_FD, PROGRAM_FD, "glovebox-egress");
    if (argc == 1 && helper_is_socket(CTL_FD) && helper_is_socket(REPORT_FD))
        return egress_serve_run(CTL_FD, REPORT_FD);
    fputs("glovebox-egress is started by gloveboxd; on its own it takes "
          "--version.\n",
          stderr);
    return 2;
}
