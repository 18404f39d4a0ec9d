/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blobs of the tier: putting, iterating and removing them, and how many
 * there are. Runs in the daemon, on any thread.
 *
 * Usage is counted by listing the tier when it is first requested, so that a
 * start does not wait for it; from then on putting and removing keep the
 * figures.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"

#define COUNT_TRIES 4u

/* ---- putting ------------------------------------------------------------ */

static void usage_add(struct blobs *b, const char *sha256, int64_t count,
                      int64_t bytes)
{
    struct blob_name name;
    struct error unsaid;
    struct blob_usage *u;

    if (blob_name_parse(sha256, &name, &unsaid) < 0)
        return;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    u = &b->usage[name.hash[0]];
    u->count += count;
    u->bytes += bytes;
    u->changes++;
}

int blob_stored_put(struct blobs *b, struct blob_tier_file *files,
                    size_t count, bool durable, struct error *err)
{
    int r = b->tier->ops->put(b->tier, files, count, durable, err);

    for (size_t i = 0; i < count; i++)
        if (files[i].stored && (files[i].more_blobs || files[i].more_bytes))
            usage_add(b, files[i].sha256, files[i].more_blobs,
                      files[i].more_bytes);
    /* Another writer's sync may have failed while this one succeeded. */
    if (r == 0 && durable)
        r = blob_fault_refuse(b, err);
    return r;
}

bool blob_stored_has(struct blobs *b, const struct blob_name *name,
                     int64_t size)
{
    struct error unsaid;
    struct stat st;

    return b->tier->ops->stat(b->tier, blob_name_hex(name), &st, &unsaid) ==
               0 &&
           (size < 0 || st.st_size == size);
}

int blob_size(struct blobs *b, const char *sha256, uint64_t *ret)
{
    struct error unsaid;
    struct stat st;

    if (b->tier->ops->stat(b->tier, sha256, &st, &unsaid) != 0)
        return 0;
    *ret = (uint64_t)st.st_size;
    return 1;
}

int blob_publish_now(struct blobs *b, const char *sha256, struct error *err)
{
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r == 0)
        r = blob_pending_publish(b, &name, err);
    return MIN(r, 0);
}

/* ---- iterating and removing --------------------------------------------- */

/* A tier elsewhere cannot tell cheaply whether a put added a blob or replaced
 * one; a listing of all of it corrects what was counted. */
struct counted {
    blob_iterate_fn fn;
    void *ctx;
    struct blob_usage sum[BLOB_FOLDERS]; /* changes: when it began */
};

static int count_and_pass(void *ctx, const struct blob_info *i)
{
    struct counted *c = ctx;
    struct blob_name name;
    struct error unsaid;

    if (blob_name_parse(i->sha256, &name, &unsaid) == 0) {
        c->sum[name.hash[0]].count++;
        c->sum[name.hash[0]].bytes += (int64_t)i->size;
    }
    return c->fn(c->ctx, i);
}

/* Unless blobs were put or removed meanwhile. */
static void correct_usage(struct blobs *b, const struct counted *c)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);

    for (unsigned i = 0; i < BLOB_FOLDERS; i++)
        if (b->usage[i].changes == c->sum[i].changes) {
            b->usage[i].count = c->sum[i].count;
            b->usage[i].bytes = c->sum[i].bytes;
        }
}

static int iterate_all(struct blobs *b, blob_iterate_fn fn, void *ctx,
                       struct error *err)
{
    struct counted *c cleanup(mem_free) = xcalloc(1, sizeof(*c));
    int r;

    c->fn = fn;
    c->ctx = ctx;
    mutex_lock(&b->lock);
    for (unsigned i = 0; i < BLOB_FOLDERS; i++)
        c->sum[i].changes = b->usage[i].changes;
    mutex_unlock(&b->lock);
    r = b->tier->ops->list_all(b->tier, count_and_pass, c, err);
    if (r == 0)
        correct_usage(b, c);
    return r;
}

int blob_iterate(struct blobs *b, blob_iterate_fn fn, void *ctx,
                 struct error *err)
{
    struct error why;
    int r = 0;

    /* Skip a blob that cannot be published now, on a full disk: other blobs
     * must stay removable. */
    if (blob_pending_all(b, &why) < 0)
        log_event(LOG_WARN, "blob_publish_failed", "error", why.message, NULL);
    if (b->tier->ops->list_all)
        return iterate_all(b, fn, ctx, err);
    for (unsigned i = 0; r == 0 && i < BLOB_FOLDERS; i++)
        r = b->tier->ops->list(b->tier, i, fn, ctx, err);
    return r;
}

static int remove_stored(struct blobs *b, const struct blob_name *name,
                         struct error *err)
{
    const char *sha256 = blob_name_hex(name);
    struct stat st;
    /* Copies first: none must be there without the blob. */
    int r = blob_tenant_copy_remove(b, name);

    if (r < 0)
        return blob_fault(-r, "remove a stored object", err);
    r = b->tier->ops->stat(b->tier, sha256, &st, err);
    if (r == 0)
        r = b->tier->ops->remove(b->tier, sha256, err);
    if (r == 0)
        usage_add(b, sha256, -1, -(int64_t)st.st_size);
    return MIN(r, 0);
}

bool blob_removal_begin(struct blobs *b, const char *sha256)
{
    struct blob_name name;
    struct error unsaid;

    return blob_name_parse(sha256, &name, &unsaid) == 0 &&
           blob_pin_removal_begin(b, name.hash);
}

int blob_removal_end(struct blobs *b, const char *sha256, bool keep,
                     struct error *err)
{
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r < 0)
        return r;
    if (!keep)
        r = blob_fault_refuse(b, err);
    if (r == 0 && !keep) {
        blob_pending_drop(b, &name);
        r = remove_stored(b, &name, err);
    }
    blob_pin_removal_end(b, name.hash);
    return r;
}

int blob_remove(struct blobs *b, const char *sha256, struct error *err)
{
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r == 0)
        r = blob_fault_refuse(b, err);
    if (r < 0)
        return r;
    return blob_removal_begin(b, sha256)
               ? blob_removal_end(b, sha256, false, err)
               : 1;
}

/* ---- usage -------------------------------------------------------------- */

static int count_blob(void *ctx, const struct blob_info *i)
{
    struct blob_usage *sum = ctx;

    sum->count++;
    sum->bytes += (int64_t)i->size;
    return 0;
}

/* Counts the blobs whose hash begins with that byte; false if they changed
 * meanwhile, unless it is the last try. */
static bool count_blobs(struct blobs *b, unsigned first_byte, bool last)
{
    struct blob_usage sum = {0};
    struct error err;
    uint64_t changes;

    mutex_lock(&b->lock);
    changes = b->usage[first_byte].changes;
    mutex_unlock(&b->lock);
    if (b->tier->ops->list(b->tier, first_byte, count_blob, &sum, &err) < 0)
        log_event(LOG_WARN, "blob_usage_unreadable", "error", err.message,
                  NULL);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    if (b->usage[first_byte].changes != changes && !last)
        return false;
    b->usage[first_byte].count = sum.count;
    b->usage[first_byte].bytes = sum.bytes;
    return true;
}

static int pass_over(void *ctx, const struct blob_info *i)
{
    (void)ctx;
    (void)i;
    return 0;
}

/* An object store may be out of reach: then the next look counts. */
static bool count_remote(struct blobs *b)
{
    struct error err;

    if (iterate_all(b, pass_over, NULL, &err) == 0)
        return true;
    log_event(LOG_WARN, "blob_usage_unreadable", "error", err.message, NULL);
    return false;
}

void blobs_usage(struct blobs *b, uint64_t *ret_bytes, uint64_t *ret_count)
{
    struct mutex *looks cleanup(mutex_release) = mutex_hold(&b->looking);
    int64_t count = 0, bytes = 0;

    if (!b->counted && b->tier->ops->list_all)
        b->counted = count_remote(b);
    for (unsigned i = 0;
         !b->counted && !b->tier->ops->list_all && i < BLOB_FOLDERS; i++)
        for (unsigned k = 0; k < COUNT_TRIES; k++)
            if (count_blobs(b, i, k + 1 == COUNT_TRIES))
                break;
    b->counted = b->counted || !b->tier->ops->list_all;
    blob_pending_count(b, &count, &bytes);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->lock);
    for (unsigned i = 0; i < BLOB_FOLDERS; i++) {
        count += b->usage[i].count;
        bytes += b->usage[i].bytes;
    }
    *ret_bytes = (uint64_t)MAX(bytes, (int64_t)0);
    *ret_count = (uint64_t)MAX(count, (int64_t)0);
}
