/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two maintenance threads, the collector and the scrubber: how they start,
 * wait, pause and stop. Runs in the daemon.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/workspace_int.h"

#define GRACE_MS 60000u

bool workspace_maintenance_wait(struct workspaces *w, uint64_t ms)
{
    struct workspace_maintenance *k = w->maintenance;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);
    uint64_t until_ms = clock_mono_ms() + ms;

    while (ms && !k->stopping && cond_wait_until(&k->wake, held, until_ms))
        continue;
    return k->stopping;
}

static void collector_main(void *arg)
{
    struct workspaces *w = arg;
    uint64_t every_ms = (uint64_t)w->settings.collect_every_s * 1000;

    while (!workspace_maintenance_wait(w, every_ms)) {
        struct workspace_collected done = {0};
        struct error err = {0};

        if (workspaces_collect(w, &done, &err) < 0)
            log_event(LOG_ERROR, "collection_failed", "error", err.message,
                      NULL);
    }
}

int workspace_maintenance_open(struct workspaces *w, struct error *err)
{
    struct workspace_maintenance *k = xcalloc(1, sizeof(*k));
    int r = 0;

    mutex_init(&k->lock);
    mutex_init(&k->round);
    mutex_init(&k->sweep);
    cond_init(&k->wake);
    k->grace_ms = GRACE_MS;
    k->bad = xcalloc(SCRUB_BAD_MAX, sizeof(*k->bad));
    w->maintenance = k;
    if (w->settings.collect_every_s)
        r = thread_start(&k->collector, "collector", collector_main, w, err);
    if (r == 0 && w->settings.scrub_bytes_per_s)
        r = thread_start(&k->scrubber, "scrubber", workspace_scrubber_main, w,
                         err);
    return r;
}

void workspace_maintenance_close(struct workspaces *w)
{
    struct workspace_maintenance *k = w->maintenance;

    if (!k)
        return;
    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);

        k->stopping = true;
        cond_broadcast(&k->wake);
    }
    if (k->scrubber.started)
        blobs_stop(w->blobs); /* it may be in the midst of a large one */
    thread_join(&k->collector);
    thread_join(&k->scrubber);
    cond_done(&k->wake);
    mutex_done(&k->sweep);
    mutex_done(&k->round);
    mutex_done(&k->lock);
    free(k->bad);
    free(k);
    w->maintenance = NULL;
}

/* Under `sweep`: a removal that has begun is over when this returns. */
static void pause_by(struct workspace_maintenance *k, int change)
{
    struct mutex *sweep cleanup(mutex_release) = mutex_hold(&k->sweep);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);

    k->paused = (unsigned)((int)k->paused + change);
}

void workspace_maintenance_pause(struct workspaces *w)
{
    pause_by(w->maintenance, 1);
}

void workspace_maintenance_resume(struct workspaces *w)
{
    pause_by(w->maintenance, -1);
}
