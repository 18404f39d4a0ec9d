/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox-model: the only process that talks to the servers of language
 * models. Started by its supervisor (this program again, with --supervise)
 * with one socket at descriptor 3, an empty environment, an account of its own
 * and no way to another.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "helper/helper.h"
#include "upstream/upstream.h"

#define CTL_FD HELPER_FD
#define PROGRAM_FD (HELPER_FD + 1) /* of the supervisor */

int main(int argc, char **argv)
{
    log_setup("model", LOG_INFO, false);
    helper_hide();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("glovebox-model " GLOVEBOX_VERSION);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--supervise") == 0 &&
        helper_is_socket(CTL_FD) &&
        fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) == 0)
        return helper_supervise_run(CTL_FD, PROGRAM_FD, "glovebox-model");
    if (argc == 1 && helper_is_socket(CTL_FD))
        return upstream_serve_run(CTL_FD);
    fputs("glovebox-model is started by gloveboxd; on its own it takes "
          "--version.\n",
          stderr);
    return 2;
}
