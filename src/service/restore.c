/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup into a new data directory: `gloveboxd --restore-from DIR`. Runs
 * instead of the service, with the rights the service has: whatever is in the
 * backup is read by an account that owns nothing else.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/fd.h"
#include "conf/conf.h"
#include "service/service_int.h"
#include "workspace/workspace.h"

/* A line for each step, for the command line to make a bar of. */
static void print_progress(void *ctx, const char *what, uint64_t done,
                           uint64_t total)
{
    (void)ctx;
    (void)printf("restore %s %" PRIu64 " %" PRIu64 "\n", what, done, total);
    (void)fflush(stdout);
}

int service_restore(const struct conf *conf, const char *from,
                    struct error *err)
{
    struct service s = {.conf = conf, .data_fd = -1};
    int r = service_rights_walls(&s, err);

    if (r == 0)
        r = service_rights_user(&s, err);
    if (r < 0)
        return r;
    r = priv_claim_dir(conf->data_dir, &s.user, &s.data_fd);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r,
                           "cannot use %s as data directory", conf->data_dir);
    r = service_rights_drop(&s, err);
    if (r == 0)
        r = workspaces_restore_backup(from, conf->data_dir, print_progress,
                                      NULL, err);
    fd_close(&s.data_fd);
    return r;
}
