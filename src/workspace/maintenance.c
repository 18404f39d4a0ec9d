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
#include "workspace/workspace_int.h"

#define GRACE_MS 60000u

bool workspace_maintenance_wait(struct workspaces *w, uint64_t ms)
{
    struct workspace_maintenance *k = w->maintenance;
    pthread_mutex_t *held cleanup(workspace_unlock_mutex) =
        workspace_lock_mutex(&k->lock);
    uint64_t until_ns = clock_mono_ns() + ms * 1000000;
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                             .tv_nsec = (long)(until_ns % 1000000000)};

    while (ms && !k->stopping &&
           pthread_cond_timedwait(&k->wake, held, &until) != ETIMEDOUT)
        ;
    return k->stopping;
}

static void *collect_run(void *arg)
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
    return NULL;
}

static int start(pthread_t *ret, void *(*run)(void *), struct workspaces *w,
                 bool *ret_started, struct error *err)
{
    int r = pthread_create(ret, NULL, run, w);

    if (r)
        return error_errno(err, ERR_INTERNAL, r, "cannot start a thread");
    *ret_started = true;
    return 0;
}

int workspace_maintenance_open(struct workspaces *w, struct error *err)
{
    struct workspace_maintenance *k = xcalloc(1, sizeof(*k));
    pthread_condattr_t attr;
    int r = 0;

    /* None of these can fail on Linux. */
    (void)pthread_mutex_init(&k->lock, NULL);
    (void)pthread_mutex_init(&k->round, NULL);
    (void)pthread_mutex_init(&k->sweep, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&k->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    k->grace_ms = GRACE_MS;
    k->bad = xcalloc(SCRUB_BAD_MAX, sizeof(*k->bad));
    w->maintenance = k;
    if (w->settings.collect_every_s)
        r = start(&k->collector, collect_run, w, &k->collects, err);
    if (r == 0 && w->settings.scrub_bytes_per_s)
        r = start(&k->scrubber, workspace_scrub_run, w, &k->scrubs, err);
    return r;
}

void workspace_maintenance_close(struct workspaces *w)
{
    struct workspace_maintenance *k = w->maintenance;

    if (!k)
        return;
    {
        pthread_mutex_t *held cleanup(workspace_unlock_mutex) =
            workspace_lock_mutex(&k->lock);

        k->stopping = true;
        (void)pthread_cond_broadcast(&k->wake); /* cannot fail */
    }
    if (k->scrubs)
        blobs_stop(w->blobs); /* it may be in the midst of a large one */
    if (k->collects)
        (void)pthread_join(k->collector, NULL); /* fails on misuse only */
    if (k->scrubs)
        (void)pthread_join(k->scrubber, NULL);
    (void)pthread_cond_destroy(&k->wake);
    (void)pthread_mutex_destroy(&k->sweep);
    (void)pthread_mutex_destroy(&k->round);
    (void)pthread_mutex_destroy(&k->lock);
    free(k->bad);
    free(k);
    w->maintenance = NULL;
}

/* Under `sweep`: a removal that has begun is over when this returns. */
static void pause_by(struct workspace_maintenance *k, int change)
{
    pthread_mutex_t *sweep cleanup(workspace_unlock_mutex) =
        workspace_lock_mutex(&k->sweep);
    pthread_mutex_t *held cleanup(workspace_unlock_mutex) =
        workspace_lock_mutex(&k->lock);

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
