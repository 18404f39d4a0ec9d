/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector: removes rows and bytes that are no longer wanted, in rounds.
 * Runs on the collector thread, or on the caller's of upkeep_collect; one
 * round at a time. Rows are removed first and bytes after them, in
 * transactions so small that a commit hardly waits (D10); what an interrupted
 * round left is found by the next one.
 *
 * A blob that something references is never removed (D10):
 *
 *   - a blob whose row is still to come is pinned by its writer (blob.h), and
 *     young: it is left alone for a while after it was written;
 *   - a row can only come to reference an unpinned blob because another row
 *     already does (a copy, a restore), within a write transaction; the last
 *     look for rows is done inside a write transaction as well, so neither can
 *     fall between the other's steps, and until the bytes are gone no thread
 *     can pin the blob;
 *   - while a backup copies, nothing is removed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "upkeep/upkeep_int.h"

#define BATCH 32u         /* removals in a transaction */
#define ROUND_MAX 100000u /* of a round; the next one gets the rest */

/* ---- removal ------------------------------------------------------------ */

static bool may_sweep(struct upkeep *u)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->lock);

    return u->paused == 0;
}

/* Of the blobs, which may go: not pinned, and without a row within a write
 * transaction. From here on pinning one of them waits, so that no row can come
 * to reference it. */
static int choose_batch(struct upkeep *u, const struct blob_info *blobs,
                        size_t count, bool *chosen, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(u->store, STORE_WRITE, "removing objects", &tx, err);

    for (size_t i = 0; i < count && r == 0; i++) {
        int has;

        chosen[i] = blob_removal_begin(u->blobs, blobs[i].sha256);
        if (!chosen[i])
            continue;
        has = upkeep_refs_has(tx, blobs[i].sha256, err);
        if (has == 0)
            continue;
        chosen[i] = false;
        r = MIN(has, 0);
        (void)blob_removal_end(u->blobs, blobs[i].sha256, true, err);
    }
    return r; /* nothing was written: taking it back costs nothing */
}

/* The bytes go after the transaction: an object store may take its time, and
 * commits must not wait for it. */
static int remove_batch(struct upkeep *u, const struct blob_info *blobs,
                        size_t count, struct workspace_collected *ret,
                        struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->sweep);
    bool chosen[BATCH] = {0};
    int r;

    if (!may_sweep(u))
        return 0;
    r = choose_batch(u, blobs, count, chosen, err);
    for (size_t i = 0; i < count; i++) {
        struct error why;

        if (!chosen[i] || blob_removal_end(u->blobs, blobs[i].sha256, r < 0,
                                           r < 0 ? &why : err) < 0) {
            r = chosen[i] && r == 0 ? -(int)err->code : r;
            continue;
        }
        ret->blobs += r == 0;
        ret->bytes += r == 0 ? blobs[i].size : 0;
    }
    return r;
}

static int remove_all(struct upkeep *u, const struct blob_info *blobs,
                      size_t count, struct workspace_collected *ret,
                      struct error *err)
{
    uint64_t before = ret->blobs;
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i += BATCH) {
        r = remove_batch(u, &blobs[i], MIN((size_t)BATCH, count - i), ret,
                         err);
        if (upkeep_wait(u, 0))
            break;
    }
    if (r == 0 && ret->blobs > before)
        r = upkeep_small_rows_clear(u, err);
    if (r == 0 && ret->blobs > before)
        r = blob_log_scrub(u->blobs, err);
    return r;
}

int upkeep_sweep_names(struct upkeep *u, const char *names, size_t count,
                       struct workspace_collected *ret, struct error *err)
{
    struct blob_info *blobs cleanup(mem_free) =
        xcalloc(count + 1, sizeof(*blobs));

    for (size_t i = 0; i < count; i++) {
        memcpy(blobs[i].sha256, names + i * BLOB_NAME, BLOB_NAME);
        /* Only counted; 0 for one that is not a file yet. */
        (void)blob_size(u->blobs, blobs[i].sha256, &blobs[i].size);
    }
    return remove_all(u, blobs, count, ret, err);
}

/* ---- candidates --------------------------------------------------------- */

/* What is stored and what is referred to, both in order of name, side by
 * side; a first, cheap look that removes nothing. */
struct search {
    struct refs_walk refs;
    const char *ref; /* the next name referred to; NULL: none any more */
    bool begun;
    int64_t grace_ms;        /* younger ones are left alone */
    struct blob_info *found; /* owned */
    size_t count, room;
    struct error *err;
};

static void search_done(struct search *s)
{
    upkeep_refs_done(&s->refs);
    free(s->found);
}

static int on_stored_blob(void *ctx, const struct blob_info *blob)
{
    struct search *s = ctx;

    while (!s->begun || (s->ref && strcmp(s->ref, blob->sha256) < 0)) {
        s->begun = true;
        if (upkeep_refs_next(&s->refs, &s->ref, s->err) < 0)
            return -(int)s->err->code;
    }
    if (s->ref && strcmp(s->ref, blob->sha256) == 0)
        return 0;
    /* Its age now: the time at which the search began would be too early,
     * because the search publishes pending blobs, which sets their time. */
    if (clock_real_ms() - blob->stored_at_ms >= s->grace_ms) {
        if (s->count == s->room) {
            s->room = s->room ? 2 * s->room : 256;
            s->found = xrealloc(s->found, s->room * sizeof(*s->found));
        }
        s->found[s->count++] = *blob;
    }
    return s->count >= ROUND_MAX;
}

static int sweep_blobs(struct upkeep *u, struct workspace_collected *ret,
                       struct error *err)
{
    struct search s cleanup(search_done) = {
        .refs = {.store = u->store},
        .grace_ms = u->grace_ms,
        .err = err,
    };
    int r;

    if (!may_sweep(u))
        return 0;
    r = blob_iterate(u->blobs, on_stored_blob, &s, err);
    if (r < 0)
        return r;
    return remove_all(u, s.found, s.count, ret, err);
}

/* ---- a round ------------------------------------------------------------ */

/* The rows are gone; their traces in the log go now, and words of the index
 * once it has been told that it is time. */
static int forget_rows(struct upkeep *u, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(u->store, STORE_WRITE, "forgetting", &tx, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE chores SET due ="
                       " CASE WHEN name = 'words' THEN 1 ELSE 0 END"
                       " WHERE name IN ('words', 'outputs') AND due <>"
                       " CASE WHEN name = 'words' THEN 1 ELSE 0 END",
                       "");
    if (r >= 0)
        r = store_commit(&tx, err);
    if (r == 0)
        r = store_forget(u->store, err);
    return r == -ERR_BUSY ? 0 : r; /* the next round does it */
}

/* Outputs of executions were deleted, by whomever. */
static bool outputs_gone(struct upkeep *u)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    struct error ignored;

    return store_begin(u->store, STORE_READ, "looking at chores", &tx,
                       &ignored) == 0 &&
           store_one(tx, &row, &ignored,
                     "SELECT 1 FROM chores WHERE name = 'outputs'"
                     " AND due = 1",
                     "") > 0;
}

int upkeep_collect(struct upkeep *u, struct workspace_collected *ret,
                   struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->round);
    struct workspace_collected done = {0};
    uint64_t expired = 0;                /* each is in the trail */
    int r = audit_intact(u->audit, err); /* or live bytes may look unused */

    if (r == 0 && u->settings.expire)
        r = u->settings.expire(u->settings.expire_ctx, &expired, err);
    if (r == 0)
        r = upkeep_retention(u, &done, err);
    if (r == 0)
        r = upkeep_purge_due(u, &done, err);
    if (r == 0)
        r = trees_tidy(u->trees, err);
    if (r == 0)
        r = sweep_blobs(u, &done, err);
    if (r == 0 && (done.versions + done.workspaces + done.uploads +
                       done.blobs + expired ||
                   outputs_gone(u)))
        r = forget_rows(u, err);
    if (r == 0 && atomic_load(&u->small_rows.due))
        r = upkeep_small_rows_clear(u, err);

    char versions[24], workspaces[24], blobs[24], bytes[24];

    (void)snprintf(versions, sizeof(versions), "%" PRIu64, done.versions);
    (void)snprintf(workspaces, sizeof(workspaces), "%" PRIu64,
                   done.workspaces);
    (void)snprintf(blobs, sizeof(blobs), "%" PRIu64, done.blobs);
    (void)snprintf(bytes, sizeof(bytes), "%" PRIu64, done.bytes);
    log_event(done.versions + done.workspaces + done.uploads + done.blobs
                  ? LOG_INFO
                  : LOG_DEBUG,
              "collected", "versions", versions, "workspaces", workspaces,
              "blobs", blobs, "bytes", bytes, NULL);

    if (r < 0)
        return r;
    *ret = done;
    return 0;
}
