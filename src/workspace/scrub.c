/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scrubber: detects damaged blobs (D8). Hashes every blob the store
 * references, one after another, at a set pace, at most once a day. Runs on
 * its own thread. The position in the round is kept in memory only. Damaged
 * blobs are checked again every minute, because storing the same file again or
 * restoring the object from a backup heals it.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/workspace_int.h"

#define ROUND_MS (24 * 3600 * 1000ull)
#define AGAIN_MS 60000ull

/* ---- damaged blobs; under the maintenance lock -------------------------- */

static struct scrub_bad *bad_find(struct workspace_maintenance *k,
                                  const char *sha256)
{
    for (size_t i = 0; i < k->bad_count; i++)
        if (strcmp(k->bad[i].sha256, sha256) == 0)
            return &k->bad[i];
    return NULL;
}

static void bad_forget(struct workspace_maintenance *k, struct scrub_bad *bad)
{
    *bad = k->bad[--k->bad_count];
}

/* True if it was not known to be bad. */
static bool bad_note(struct workspace_maintenance *k, const char *sha256)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);
    struct scrub_bad *bad = bad_find(k, sha256);
    bool fresh = !bad;

    if (!bad && k->bad_count < SCRUB_BAD_MAX) {
        bad = &k->bad[k->bad_count++];
        memcpy(bad->sha256, sha256, BLOB_NAME);
    }
    if (bad)
        bad->round = k->scrub_round;
    return fresh;
}

static void good_note(struct workspace_maintenance *k, const char *sha256)
{
    bool healed = false;

    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);
        struct scrub_bad *bad = bad_find(k, sha256);

        healed = bad != NULL;
        if (bad)
            bad_forget(k, bad);
    }
    if (healed)
        log_event(LOG_INFO, "object_healed", "sha256", sha256, NULL);
}

/* What this round did not meet is referred to by nobody any more. */
static void bad_prune(struct workspace_maintenance *k)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);

    for (size_t i = k->bad_count; i-- > 0;)
        if (k->bad[i].round != k->scrub_round)
            bad_forget(k, &k->bad[i]);
}

/* ---- looking ------------------------------------------------------------ */

static int is_referred(struct workspaces *w, const char *sha256)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err;
    int r = store_begin(w->store, STORE_READ, "scrubbing", &tx, &err);

    return r < 0 ? r : workspace_refs_has(tx, sha256, &err);
}

static void count(struct workspace_maintenance *k, uint64_t bytes)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);

    k->scrub.blobs++;
    k->scrub.bytes += bytes;
}

/* 1 when told to stop. */
static int scrub_one(struct workspaces *w, const char *sha256)
{
    struct error err = {0};
    uint64_t size = 0;
    int r = blob_check(w->blobs, sha256, true, w->settings.scrub_bytes_per_s,
                       &err);

    if (r == -ERR_UNAVAILABLE)
        return 1;
    (void)workspace_refs_stat(w->data_dir, sha256, &size); /* else none */
    if (r == 0)
        good_note(w->maintenance, sha256);
    /* Of one that was collected meanwhile nothing is expected. */
    else if (is_referred(w, sha256) != 0 && bad_note(w->maintenance, sha256)) {
        log_event(LOG_ERROR, "object_damaged", "sha256", sha256, "error",
                  err.message, NULL);
        workspace_trees_doubt(w, sha256);
    }
    count(w->maintenance, size);
    return 0;
}

static void round_begin(struct workspace_maintenance *k)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);

    k->scrub_round++;
    k->scrub.round_started_at_ms = clock_real_ms();
    k->scrub.blobs = k->scrub.bytes = 0;
}

static void round_end(struct workspace_maintenance *k)
{
    bad_prune(k);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);

    k->scrub.last_full_at_ms = clock_real_ms();
}

int workspace_scrub_round(struct workspaces *w)
{
    struct refs_walk refs cleanup(workspace_refs_done) = {.store = w->store};
    struct error err = {0};
    const char *sha256;
    int r;

    round_begin(w->maintenance);
    while ((r = workspace_refs_next(&refs, &sha256, &err)) == 0 && sha256)
        if (scrub_one(w, sha256) || workspace_maintenance_wait(w, 0))
            return 1;
    if (r < 0)
        log_event(LOG_WARN, "scrub_cut_short", "error", err.message, NULL);
    else
        round_end(w->maintenance);
    return 0;
}

void workspace_scrub_again(struct workspaces *w)
{
    struct workspace_maintenance *k = w->maintenance;
    size_t most;
    char *names cleanup(mem_free) = NULL;

    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&k->lock);

        most = k->bad_count;
        names = xcalloc(most + 1, BLOB_NAME);
        for (size_t i = 0; i < most; i++)
            memcpy(names + i * BLOB_NAME, k->bad[i].sha256, BLOB_NAME);
    }
    for (size_t i = 0; i < most; i++) {
        const char *sha256 = names + i * BLOB_NAME;
        struct error err;

        if (blob_check(w->blobs, sha256, true, w->settings.scrub_bytes_per_s,
                       &err) == 0)
            good_note(k, sha256);
        if (workspace_maintenance_wait(w, 0))
            return;
    }
}

void workspace_scrubber_main(void *workspaces)
{
    struct workspaces *w = workspaces;

    for (;;) {
        uint64_t until_ms = clock_mono_ms() + ROUND_MS;

        if (workspace_scrub_round(w))
            return;
        while (clock_mono_ms() < until_ms) {
            if (workspace_maintenance_wait(w, AGAIN_MS))
                return;
            workspace_scrub_again(w);
        }
    }
}

void workspaces_scrub_state(struct workspaces *w, struct workspace_scrub *ret)
{
    struct mutex *held cleanup(mutex_release) =
        mutex_hold(&w->maintenance->lock);

    *ret = w->maintenance->scrub;
    ret->bad = w->maintenance->bad_count;
}
