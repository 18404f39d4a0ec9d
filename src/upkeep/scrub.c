/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds damaged and missing blobs (D8).
 *
 * The scrubber hashes every blob the store references, one after another, at a
 * set pace, at most once a day, on its own thread. The position in the round
 * is kept in memory only. Damaged blobs are checked again every minute,
 * because storing the same file again or restoring the object from a backup
 * heals it. upkeep_verify does the same as fast as possible, on a worker, for
 * an operator; it changes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "upkeep/upkeep_int.h"

#define ROUND_MS (24 * 3600 * 1000ull)
#define AGAIN_MS 60000ull

/* ---- damaged blobs; under the maintenance lock -------------------------- */

static struct scrub_bad *bad_find(struct upkeep *u, const char *sha256)
{
    for (size_t i = 0; i < u->bad_count; i++)
        if (strcmp(u->bad[i].sha256, sha256) == 0)
            return &u->bad[i];
    return NULL;
}

static void bad_forget(struct upkeep *u, struct scrub_bad *bad)
{
    *bad = u->bad[--u->bad_count];
}

/* True if it was not known to be bad. */
static bool bad_note(struct upkeep *u, const char *sha256)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->lock);
    struct scrub_bad *bad = bad_find(u, sha256);
    bool fresh = !bad;

    if (!bad && u->bad_count < SCRUB_BAD_MAX) {
        bad = &u->bad[u->bad_count++];
        memcpy(bad->sha256, sha256, BLOB_NAME);
    }
    if (bad)
        bad->round = u->scrub_round;
    return fresh;
}

static void good_note(struct upkeep *u, const char *sha256)
{
    bool healed = false;

    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&u->lock);
        struct scrub_bad *bad = bad_find(u, sha256);

        healed = bad != NULL;
        if (bad)
            bad_forget(u, bad);
    }
    if (healed)
        log_event(LOG_INFO, "object_healed", "sha256", sha256, NULL);
}

/* ---- looking ------------------------------------------------------------ */

static int is_referenced(struct upkeep *u, const char *sha256,
                         struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(u->store, STORE_READ, "verifying", &tx, err);

    return r < 0 ? r : upkeep_refs_has(tx, sha256, err);
}

/* 1 when told to stop. */
static int scrub_one(struct upkeep *u, const char *sha256)
{
    struct error err = {0}, unsaid;
    uint64_t size = 0;
    int r = blob_check(u->blobs, sha256, true, u->settings.scrub_bytes_per_s,
                       &err);

    /* An object store that is out of reach says nothing about the blob. */
    while (r == -ERR_UNAVAILABLE) {
        if (upkeep_wait(u, AGAIN_MS))
            return 1;
        r = blob_check(u->blobs, sha256, true, u->settings.scrub_bytes_per_s,
                       &err);
    }
    (void)blob_size(u->blobs, sha256, &size); /* else none */
    if (r == 0)
        good_note(u, sha256);
    /* Of one that was collected meanwhile nothing is expected. */
    else if (is_referenced(u, sha256, &unsaid) != 0 && bad_note(u, sha256)) {
        log_event(LOG_ERROR, "object_damaged", "sha256", sha256, "error",
                  err.message, NULL);
        trees_doubt(u->trees, sha256);
    }
    mutex_lock(&u->lock);
    u->scrub.blobs++;
    u->scrub.bytes += size;
    mutex_unlock(&u->lock);
    return 0;
}

int upkeep_scrub_round(struct upkeep *u)
{
    struct refs_walk refs cleanup(upkeep_refs_done) = {.store = u->store};
    struct error err = {0};
    const char *sha256;
    int r;

    mutex_lock(&u->lock);
    u->scrub_round++;
    u->scrub.round_started_at_ms = clock_real_ms();
    u->scrub.blobs = u->scrub.bytes = 0;
    mutex_unlock(&u->lock);
    while ((r = upkeep_refs_next(&refs, &sha256, &err)) == 0 && sha256)
        if (scrub_one(u, sha256) || upkeep_wait(u, 0))
            return 1;
    if (r < 0)
        log_event(LOG_WARN, "scrub_cut_short", "error", err.message, NULL);
    else {
        mutex_lock(&u->lock);
        for (size_t i = u->bad_count; i-- > 0;)
            if (u->bad[i].round != u->scrub_round)
                bad_forget(u, &u->bad[i]);
        u->scrub.last_full_at_ms = clock_real_ms();
        mutex_unlock(&u->lock);
    }
    return 0;
}

void upkeep_scrub_again(struct upkeep *u)
{
    size_t most;
    char *names cleanup(mem_free) = NULL;

    {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&u->lock);

        most = u->bad_count;
        names = xcalloc(most + 1, BLOB_NAME);
        for (size_t i = 0; i < most; i++)
            memcpy(names + i * BLOB_NAME, u->bad[i].sha256, BLOB_NAME);
    }
    for (size_t i = 0; i < most; i++) {
        const char *sha256 = names + i * BLOB_NAME;
        struct error err;

        if (blob_check(u->blobs, sha256, true, u->settings.scrub_bytes_per_s,
                       &err) == 0)
            good_note(u, sha256);
        if (upkeep_wait(u, 0))
            return;
    }
}

void upkeep_scrubber_main(void *arg)
{
    struct upkeep *u = arg;

    for (;;) {
        uint64_t until_ms = clock_mono_ms() + ROUND_MS;

        if (upkeep_scrub_round(u))
            return;
        while (clock_mono_ms() < until_ms) {
            if (upkeep_wait(u, AGAIN_MS))
                return;
            upkeep_scrub_again(u);
        }
    }
}

void upkeep_scrub_state(struct upkeep *u, struct workspace_scrub *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&u->lock);

    *ret = u->scrub;
    ret->bad = u->bad_count;
}

/* ---- verifying at once -------------------------------------------------- */

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
    upkeep_refs_done(&s->refs);
}

static int on_surveyed_blob(void *ctx, const struct blob_info *blob)
{
    struct survey *s = ctx;

    while (!s->begun || (s->ref && strcmp(s->ref, blob->sha256) < 0)) {
        s->begun = true;
        if (upkeep_refs_next(&s->refs, &s->ref, s->err) < 0)
            return -(int)s->err->code;
    }
    if (s->ref && strcmp(s->ref, blob->sha256) == 0)
        s->bytes += blob->size;
    else if (clock_real_ms() - blob->stored_at_ms >= s->grace_ms)
        s->orphans++;
    return 0;
}

static int survey_blobs(struct upkeep *u, uint64_t *ret_bytes,
                        uint64_t *ret_orphans, struct error *err)
{
    struct survey s cleanup(survey_done) = {
        .refs = {.store = u->store},
        .grace_ms = u->grace_ms,
        .err = err,
    };
    int r = blob_iterate(u->blobs, on_surveyed_blob, &s, err);

    *ret_bytes = s.bytes;
    *ret_orphans = s.orphans;
    return r;
}

static int verify_blob(struct upkeep *u, const char *sha256,
                       struct workspace_verified *v, struct error *err)
{
    struct error why;
    uint64_t size = 0;
    int r = blob_check(u->blobs, sha256, true, 0, &why);
    bool there = blob_size(u->blobs, sha256, &size);

    if (r == -ERR_UNAVAILABLE) {
        *err = why;
        return r;
    }
    if (r < 0) { /* unless it was given up while we looked */
        r = is_referenced(u, sha256, err);
        if (r <= 0)
            return r;
        trees_doubt(u->trees, sha256);
        v->bad += there;
        v->missing += !there;
        if (!v->first_bad[0])
            memcpy(v->first_bad, sha256, BLOB_NAME);
    }
    v->blobs++;
    v->bytes += size;
    return 0;
}

int upkeep_verify(struct upkeep *u,
                  void (*progress)(void *ctx, uint64_t done, uint64_t total),
                  void *ctx, struct workspace_verified *ret, struct error *err)
{
    struct refs_walk refs cleanup(upkeep_refs_done) = {.store = u->store};
    struct workspace_verified v = {0};
    const char *sha256;
    uint64_t total = 0;
    int r = survey_blobs(u, &total, &v.orphans, err);

    while (r == 0) {
        r = upkeep_refs_next(&refs, &sha256, err);
        if (r == 0 && !sha256)
            break;
        if (r == 0)
            r = verify_blob(u, sha256, &v, err);
        if (r == 0 && progress)
            progress(ctx, v.bytes, MAX(total, v.bytes));
    }
    if (r < 0)
        return r;
    *ret = v;
    return 0;
}
