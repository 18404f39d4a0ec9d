/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrubs deleted blobs from the small-blob log (log.c): publishes everything
 * that is pending, then overwrites both halves with zeroes. Runs in the daemon
 * on the collector's thread; writers wait until it is done.
 */
#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"

/* Nobody writes meanwhile. */
static int zero_halves(struct blobs *b, struct error *err)
{
    static const char zeroes[65536];

    for (unsigned i = 0; i < 2; i++) {
        for (size_t at = 0; at < BLOB_LOG_HALF; at += sizeof(zeroes)) {
            int r =
                blob_log_put(b->log.fd[i], zeroes, sizeof(zeroes), (off_t)at);

            if (r < 0)
                return blob_fault(-r, "wipe the log of small objects", err);
        }
        if (fdatasync(b->log.fd[i]) < 0)
            return blob_fault_final(b, errno, err);
    }
    return 0;
}

/* All of it is in its place and on disk, and nobody writes. */
static int publish_and_zero(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    int r = blob_pending_some(b, -1, log->seq, UINT32_MAX, err);

    if (r >= 0)
        r = blob_log_settle(b, err);
    if (r < 0)
        return r;
    log->unsynced = false;
    r = zero_halves(b, err);
    /* Also if half of it is left: of that nothing is needed, and a new turn
     * is not mistaken for it. */
    log->at = 0;
    log->turn++;
    log->settled[1 - log->half] = true;
    return r;
}

int blob_log_scrub(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&log->lock);
    int r;

    while (log->scrubbing)
        cond_wait(&log->changed, &log->lock);
    log->scrubbing = true; /* who comes now waits; who is in goes on */
    while (log->leading || log->group)
        (void)blob_log_drain(b, NULL, err); /* its members hear how it went */
    r = publish_and_zero(b, err);
    log->scrubbing = false;
    cond_broadcast(&log->changed);
    return r;
}
