/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Re-hashes everything the store refers to, as fast as it goes. Runs in the
 * daemon on a worker, for an operator who wants to know now (D8); changes
 * nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

/* ---- the whole of it, before the long part ------------------------------ */

struct survey {
    struct refs_walk refs;
    const char *ref;
    bool begun;
    int64_t grace_ms;
    uint64_t bytes, orphans;
    struct error *err;
};

static void survey_done(struct survey *s)
{
    workspace_refs_done(&s->refs);
}

static int on_blob(void *ctx, const struct blob_info *blob)
{
    struct survey *s = ctx;

    while (!s->begun || (s->ref && strcmp(s->ref, blob->sha256) < 0)) {
        s->begun = true;
        if (workspace_refs_next(&s->refs, &s->ref, s->err) < 0)
            return -(int)s->err->code;
    }
    if (s->ref && strcmp(s->ref, blob->sha256) == 0)
        s->bytes += blob->size;
    else if (clock_real_ms() - blob->stored_at_ms >= s->grace_ms)
        s->orphans++;
    return 0;
}

static int survey(struct workspaces *w, uint64_t *ret_bytes,
                  uint64_t *ret_orphans, struct error *err)
{
    struct survey s cleanup(survey_done) = {
        .refs = {.store = w->store},
        .grace_ms = w->maintenance->grace_ms,
        .err = err,
    };
    int r = blob_iterate(w->blobs, on_blob, &s, err);

    *ret_bytes = s.bytes;
    *ret_orphans = s.orphans;
    return r;
}

/* ---- one by one --------------------------------------------------------- */

static int still_referred(struct workspaces *w, const char *sha256,
                          struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(w->store, STORE_READ, "verifying", &tx, err);

    return r < 0 ? r : workspace_refs_has(tx, sha256, err);
}

static int check(struct workspaces *w, const char *sha256,
                 struct workspace_verified *v, struct error *err)
{
    struct error why;
    uint64_t size = 0;
    int r = blob_check(w->blobs, sha256, true, 0, &why);
    bool there = workspace_refs_stat(w->data_dir, sha256, &size);

    if (r == -ERR_UNAVAILABLE) {
        *err = why;
        return r;
    }
    if (r < 0) { /* unless it was given up while we looked */
        r = still_referred(w, sha256, err);
        if (r <= 0)
            return r;
        workspace_trees_doubt(w, sha256);
        v->bad += there;
        v->missing += !there;
        if (!v->first_bad[0])
            memcpy(v->first_bad, sha256, BLOB_NAME);
    }
    v->blobs++;
    v->bytes += size;
    return 0;
}

int workspaces_verify(struct workspaces *w,
                      void (*progress)(void *ctx, uint64_t done,
                                       uint64_t total),
                      void *ctx, struct workspace_verified *ret,
                      struct error *err)
{
    struct refs_walk refs cleanup(workspace_refs_done) = {.store = w->store};
    struct workspace_verified v = {0};
    const char *sha256;
    uint64_t total = 0;
    int r = survey(w, &total, &v.orphans, err);

    while (r == 0) {
        r = workspace_refs_next(&refs, &sha256, err);
        if (r == 0 && !sha256)
            break;
        if (r == 0)
            r = check(w, sha256, &v, err);
        if (r == 0 && progress)
            progress(ctx, v.bytes, MAX(total, v.bytes));
    }
    if (r < 0)
        return r;
    *ret = v;
    return 0;
}
