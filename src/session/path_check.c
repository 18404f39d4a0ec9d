/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the path of a session's file (F5): paths that clients send and paths
 * that a sandbox reports. Runs in gloveboxd; pure.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "base/thread.h"
#include "session/session_int.h"

int session_path_check(const char *path, size_t len, struct error *err)
{
    const char *fault = path_fault(path, len);

    if (!fault)
        return 0;
    (void)error_set(err, ERR_INVALID, "the path %s", fault);
    return error_hint(err, "name files by their path below /mnt/data, for "
                           "example results/chart.png");
}
