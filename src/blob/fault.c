/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a failed call means for the store. Runs in the daemon, on any thread.
 *
 * A full disk or a failed write costs the one blob that was being written
 * (D5). A failed sync is different: the kernel may have thrown away what it
 * could not write and called the pages clean, so that the next sync would
 * succeed without a byte on disk. Nothing is tried again; writing ends until
 * the service is started anew (D4). Reading, which verifies, goes on.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "blob/blob_int.h"
#include "disk/disk.h"

int blob_fault(int errnum, const char *what, struct error *err)
{
    if (errnum != ENOSPC && errnum != EDQUOT)
        return error_errno(err, ERR_INTERNAL, errnum, "cannot %s", what);
    (void)disk_refuse(err);
    err->errnum = errnum;
    return -ERR_SPACE;
}

static int refuse(struct error *err)
{
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the disk failed to keep what was written, so nothing "
                    "more is stored");
    return error_hint(err, "What is stored can be read. The operator has to "
                           "look at the disk and restart the service.");
}

int blob_fault_refuse(struct blobs *b, struct error *err)
{
    return atomic_load(&b->failed) ? refuse(err) : 0;
}

int blob_fault_final(struct blobs *b, int errnum, struct error *err)
{
    /* Not only an error of the one request: the whole service changes. */
    if (!atomic_exchange(&b->failed, true))
        log_event(LOG_ERROR, "blob_sync_failed", "why",
                  strerrordesc_np(errnum), NULL);
    (void)refuse(err);
    err->errnum = errnum;
    return -(int)err->code;
}

int blob_fault_sync(struct blobs *b, int fd, struct error *err)
{
    int r = blob_fault_refuse(b, err);

    if (r < 0)
        return r;
    if (fsync(fd) < 0)
        return blob_fault_final(b, errno, err);
    return 0;
}

bool blobs_writable(struct blobs *b)
{
    return !atomic_load(&b->failed);
}
