/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The publisher thread: makes files of the pending blobs in the small-blob
 * log. Runs in the daemon, from blobs_open to blobs_close. It yields to
 * writers: it starts when few blobs were written for a moment, or when a half
 * of the log is full, and pauses when writers come back. After it has
 * published a full half it also syncs the file system, so that the writer that
 * switches halves need not wait for that.
 */
#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sched.h"
#include "base/thread.h"
#include "blob/blob_int.h"

#define QUIET_MS 250u
#define FEW 16u /* writes within that time that are no burst */
#define STEP 8u /* put in place before it looks up */
#define RETRY_MS 1000u

/* Sleeps for that long, or until the publisher is to stop. */
static void rest(struct blob_log *log, unsigned ms)
{
    uint64_t until_ms = clock_mono_ms() + ms;

    mutex_assert_held(&log->lock);
    while (!log->stop && cond_wait_until(&log->work, &log->lock, until_ms))
        continue;
}

/* True when little was written meanwhile, or a half waits to be emptied. */
static bool is_time(struct blob_log *log)
{
    uint64_t before = log->seq;

    rest(log, log->quiet_ms);
    return log->seq - before <= FEW || log->unpublished[1 - log->half] > 0;
}

/* All that pends now, unless many more come while no half is full. */
static int publish_some(struct blobs *b, struct error *err)
{
    struct blob_log *log = &b->log;
    uint64_t seq = log->seq;
    int r = 0;

    while (r == 0 && !log->stop) {
        unsigned full = 1 - log->half;

        if (!log->unpublished[full] && log->seq - seq > FEW)
            return 0;
        r = blob_pending_some(b, -1, seq, STEP, err);
        if (r >= 0 && !log->unpublished[full] && !log->settled[full] &&
            !log->leading)
            r = MIN(blob_log_settle(b, err), r);
    }
    return MIN(r, 0);
}

static void blob_publisher_main(void *arg)
{
    struct blobs *b = arg;
    struct blob_log *log = &b->log;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&log->lock);
    bool failed = false;

    sched_patient();
    while (!log->stop) {
        struct error err;
        int r = 0;

        if (log->unpublished[0] + log->unpublished[1] == 0) {
            cond_wait(&log->work, &log->lock);
            continue;
        }
        if (is_time(log) && !log->stop)
            r = publish_some(b, &err);
        if (r < 0 && !failed) /* once; it is tried again */
            log_event(LOG_ERROR, "blob_publish_failed", "error", err.message,
                      NULL);
        failed = r < 0;
        if (failed)
            rest(log, RETRY_MS);
    }
}

int blob_publisher_start(struct blobs *b, struct error *err)
{
    b->log.quiet_ms = QUIET_MS;
    return thread_start(&b->log.publisher, "blob-publisher",
                        blob_publisher_main, b, err);
}

void blob_publisher_stop(struct blobs *b)
{
    mutex_lock(&b->log.lock);
    b->log.stop = true;
    cond_broadcast(&b->log.work);
    mutex_unlock(&b->log.lock);
    thread_join(&b->log.publisher);
}
