/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector: removes rows and bytes that are no longer wanted, in rounds.
 * Runs on the collector thread, or on the caller's of workspaces_collect; one
 * round at a time. Rows are removed first and bytes after them, in
 * transactions so small that a commit hardly waits (D10); what an interrupted
 * round left is found by the next one.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/library.h"
#include "workspace/workspace_int.h"

static void report(const struct workspace_collected *done)
{
    char versions[24], workspaces[24], blobs[24], bytes[24];

    (void)snprintf(versions, sizeof(versions), "%" PRIu64, done->versions);
    (void)snprintf(workspaces, sizeof(workspaces), "%" PRIu64,
                   done->workspaces);
    (void)snprintf(blobs, sizeof(blobs), "%" PRIu64, done->blobs);
    (void)snprintf(bytes, sizeof(bytes), "%" PRIu64, done->bytes);
    log_event(done->versions + done->workspaces + done->uploads + done->blobs
                  ? LOG_INFO
                  : LOG_DEBUG,
              "collected", "versions", versions, "workspaces", workspaces,
              "blobs", blobs, "bytes", bytes, NULL);
}

/* The rows are gone; their traces in the log go now, and words of the index
 * once it has been told that it is time. */
static int forget(struct workspaces *w, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(w->store, STORE_WRITE, "forgetting", &tx, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE chores SET due = 1"
                       " WHERE name = 'words' AND due = 0",
                       "");
    if (r >= 0)
        r = store_commit(&tx, err);
    if (r == 0)
        r = store_forget(w->store, err);
    return r == -ERR_BUSY ? 0 : r; /* the next round does it */
}

int workspaces_collect(struct workspaces *w, struct workspace_collected *ret,
                       struct error *err)
{
    struct mutex *held cleanup(mutex_release) =
        mutex_hold(&w->maintenance->round);
    struct workspace_collected done = {0};
    uint64_t expired = 0;                /* each is in the trail */
    int r = audit_intact(w->audit, err); /* or live bytes may look unused */

    if (r == 0)
        r = library_sweep(w, &expired, err);
    if (r == 0)
        r = workspace_retention(w, &done, err);
    if (r == 0)
        r = workspace_purge_due(w, &done, err);
    if (r == 0)
        r = workspace_trees_tidy(w, err);
    if (r == 0)
        r = workspace_sweep(w, &done, err);
    if (r == 0 &&
        done.versions + done.workspaces + done.uploads + done.blobs + expired)
        r = forget(w, err);
    if (r == 0 && atomic_load(&w->small_rows.due))
        r = workspace_small_blob_rows_clear(w, err);
    report(&done);
    if (r < 0)
        return r;
    *ret = done;
    return 0;
}
