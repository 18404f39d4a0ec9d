/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes blobs that nobody refers to. Runs in a collection, and when an
 * ephemeral session's workspace goes. Never a live reference (D10):
 *
 *   - a blob whose row is still to come is pinned by its writer (blob.h), and
 *     young: it is left alone for a while after it was written;
 *   - a row can only come to refer to an unpinned blob because another row
 *     already does (a copy, a restore), within a write transaction; the last
 *     look for rows and the removal are done inside a write transaction as
 *     well, so neither can fall between the other's steps;
 *   - while a backup copies, nothing is removed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/workspace_int.h"

#define BATCH 32u         /* removals in a transaction */
#define ROUND_MAX 100000u /* of a round; the next one gets the rest */

/* ---- removal ------------------------------------------------------------ */

static bool may_sweep(struct workspaces *w)
{
    struct mutex *held cleanup(mutex_release) =
        mutex_hold(&w->maintenance->lock);

    return w->maintenance->paused == 0;
}

static int remove_one(struct workspaces *w, struct store_tx *tx,
                      const struct blob_info *blob,
                      struct workspace_collected *ret, struct error *err)
{
    int r = workspace_refs_has(tx, blob->sha256, err);

    if (r != 0)
        return MIN(r, 0);
    r = blob_remove(w->blobs, blob->sha256, err);
    if (r == 0) {
        ret->blobs++;
        ret->bytes += blob->size;
    }
    return MIN(r, 0);
}

static int remove_batch(struct workspaces *w, const struct blob_info *blobs,
                        size_t count, struct workspace_collected *ret,
                        struct error *err)
{
    struct mutex *held cleanup(mutex_release) =
        mutex_hold(&w->maintenance->sweep);
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r;

    if (!may_sweep(w))
        return 0;
    r = store_begin(w->store, STORE_WRITE, "removing objects", &tx, err);
    for (size_t i = 0; i < count && r == 0; i++)
        r = remove_one(w, tx, &blobs[i], ret, err);
    return r; /* nothing was written: taking it back costs nothing */
}

static int remove_all(struct workspaces *w, const struct blob_info *blobs,
                      size_t count, struct workspace_collected *ret,
                      struct error *err)
{
    uint64_t before = ret->blobs;
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i += BATCH) {
        r = remove_batch(w, &blobs[i], MIN((size_t)BATCH, count - i), ret,
                         err);
        if (workspace_maintenance_wait(w, 0))
            break;
    }
    if (r == 0 && ret->blobs > before)
        r = workspace_small_blob_rows_clear(w, err);
    if (r == 0 && ret->blobs > before)
        r = blob_log_scrub(w->blobs, err);
    return r;
}

int workspace_sweep_names(struct workspaces *w, const char *names,
                          size_t count, struct workspace_collected *ret,
                          struct error *err)
{
    struct blob_info *blobs cleanup(mem_free) =
        xcalloc(count + 1, sizeof(*blobs));

    for (size_t i = 0; i < count; i++) {
        memcpy(blobs[i].sha256, names + i * BLOB_NAME, BLOB_NAME);
        /* Only counted; 0 for one that is not a file yet. */
        (void)workspace_refs_stat(w->data_dir, blobs[i].sha256,
                                  &blobs[i].size);
    }
    return remove_all(w, blobs, count, ret, err);
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
    workspace_refs_done(&s->refs);
    free(s->found);
}

static void keep(struct search *s, const struct blob_info *blob)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        s->found = xrealloc(s->found, s->room * sizeof(*s->found));
    }
    s->found[s->count++] = *blob;
}

static int on_blob(void *ctx, const struct blob_info *blob)
{
    struct search *s = ctx;

    while (!s->begun || (s->ref && strcmp(s->ref, blob->sha256) < 0)) {
        s->begun = true;
        if (workspace_refs_next(&s->refs, &s->ref, s->err) < 0)
            return -(int)s->err->code;
    }
    if (s->ref && strcmp(s->ref, blob->sha256) == 0)
        return 0;
    /* Its age now: the time at which the search began would be too early,
     * because the search publishes pending blobs, which sets their time. */
    if (clock_real_ms() - blob->stored_at_ms >= s->grace_ms)
        keep(s, blob);
    return s->count >= ROUND_MAX;
}

int workspace_sweep(struct workspaces *w, struct workspace_collected *ret,
                    struct error *err)
{
    struct search s cleanup(search_done) = {
        .refs = {.store = w->store},
        .grace_ms = w->maintenance->grace_ms,
        .err = err,
    };
    int r;

    if (!may_sweep(w))
        return 0;
    r = blob_iterate(w->blobs, on_blob, &s, err);
    if (r < 0)
        return r;
    return remove_all(w, s.found, s.count, ret, err);
}
