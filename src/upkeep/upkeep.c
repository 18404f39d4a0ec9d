/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the upkeep of stored data: starts, pauses and stops the
 * collector and the scrubber. Runs in the daemon.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "upkeep/upkeep_int.h"

#define GRACE_MS 60000u

bool upkeep_wait(struct upkeep *u, uint64_t ms)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->lock);
    uint64_t until_ms = clock_mono_ms() + ms;

    while (ms && !u->stopping && cond_wait_until(&u->wake, held, until_ms))
        continue;
    return u->stopping;
}

static void collector_main(void *arg)
{
    struct upkeep *u = arg;
    uint64_t every_ms = (uint64_t)u->settings.collect_every_s * 1000;

    while (!upkeep_wait(u, every_ms)) {
        struct workspace_collected done = {0};
        struct error err = {0};

        if (upkeep_collect(u, &done, &err) < 0)
            log_event(LOG_ERROR, "collection_failed", "error", err.message,
                      NULL);
    }
}

int upkeep_open(const struct upkeep_settings *settings, struct store *store,
                struct blobs *blobs, struct audit *audit, struct trees *trees,
                struct upkeep **ret, struct error *err)
{
    struct upkeep *u = xcalloc(1, sizeof(*u));
    int r;

    u->settings = *settings;
    u->data_dir = xstrdup(settings->data_dir);
    u->settings.data_dir = u->data_dir;
    if (settings->backup_dir)
        u->backup_dir = xstrdup(settings->backup_dir);
    u->settings.backup_dir = u->backup_dir;
    u->backup_key_file =
        xstrdup(settings->backup_key_file ? settings->backup_key_file : "");
    u->settings.backup_key_file = u->backup_key_file;
    u->store = store;
    u->blobs = blobs;
    u->audit = audit;
    u->trees = trees;
    mutex_init(&u->lock);
    mutex_init(&u->round);
    mutex_init(&u->sweep);
    cond_init(&u->wake);
    u->grace_ms = GRACE_MS;
    u->bad = xcalloc(SCRUB_BAD_MAX, sizeof(*u->bad));
    mutex_init(&u->backups.lock);
    worker_init(&u->backups.worker);
    *ret = u; /* before the threads, whose `expire` may need it */
    r = upkeep_small_rows_open(u, err);
    if (r == 0 && u->settings.collect_every_s)
        r = thread_start(&u->collector, "collector", collector_main, u, err);
    if (r == 0 && u->settings.scrub_bytes_per_s)
        r = thread_start(&u->scrubber, "scrubber", upkeep_scrubber_main, u,
                         err);
    if (r == 0)
        r = upkeep_schedule_open(u, err);
    return r;
}

void upkeep_close(struct upkeep *u)
{
    if (!u)
        return;
    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&u->lock);

        u->stopping = true;
        cond_broadcast(&u->wake);
    }
    if (u->scrubber.started)
        blobs_stop(u->blobs); /* it may be hashing a large one */
    thread_join(&u->collector);
    thread_join(&u->scrubber);
    upkeep_schedule_close(u);
    upkeep_small_rows_close(u);
    cond_done(&u->wake);
    mutex_done(&u->sweep);
    mutex_done(&u->round);
    mutex_done(&u->lock);
    free(u->bad);
    free(u->backup_dir);
    free(u->backup_key_file);
    free(u->data_dir);
    free(u);
}

/* Under `sweep`: a removal that has begun is over when this returns. */
static void pause_by(struct upkeep *u, int change)
{
    struct mutex *sweep cleanup(mutex_release) = mutex_hold(&u->sweep);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->lock);

    u->paused = (unsigned)((int)u->paused + change);
}

void upkeep_pause(struct upkeep *u)
{
    pause_by(u, 1);
}

void upkeep_resume(struct upkeep *u)
{
    pause_by(u, -1);
}
