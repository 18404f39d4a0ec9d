/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations of disk space for bytes that are being stored; see inflight.h
 * for the rule. Runs in the daemon, in every thread that writes blobs. One
 * lock, which is not held while the disk is asked for its free space.
 */
#include "blob/inflight.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fair/fair.h"

#define RETRY_S 5
#define LOOK_MS 200u /* space also becomes free without a sign from us */

struct inflight_tenant {
    struct inflight_tenant *next;
    char *name;
    unsigned holds;
    uint64_t reserved;
};

struct inflight {
    uint64_t (*free_bytes)(void *ctx);
    void *ctx;
    struct mutex lock;
    struct cond ended; /* a reservation did */
    uint64_t reserved, written;
    struct inflight_tenant *tenants;
};

struct inflight *inflight_new(uint64_t (*free_bytes)(void *ctx), void *ctx)
{
    struct inflight *f = xcalloc(1, sizeof(*f));

    f->free_bytes = free_bytes;
    f->ctx = ctx;
    mutex_init(&f->lock);
    cond_init(&f->ended);
    return f;
}

void inflight_free(struct inflight *f)
{
    if (!f)
        return;
    while (f->tenants) {
        struct inflight_tenant *t = f->tenants;

        f->tenants = t->next;
        free(t->name);
        free(t);
    }
    cond_done(&f->ended);
    mutex_done(&f->lock);
    free(f);
}

void inflight_begin(struct inflight *f, const char *tenant,
                    struct inflight_hold *h)
{
    struct inflight_tenant *t;

    mutex_lock(&f->lock);
    t = f->tenants;
    while (t && strcmp(t->name, tenant) != 0)
        t = t->next;
    if (!t) {
        t = xcalloc(1, sizeof(*t));
        t->name = xstrdup(tenant);
        t->next = f->tenants;
        f->tenants = t;
    }
    t->holds++;
    mutex_unlock(&f->lock);
    *h = (struct inflight_hold){.all = f, .who = t};
}

/* The tenant's reservations, with `bytes` more, against what is then left. */
static bool reservation_fits(uint64_t reserved, uint64_t bytes, uint64_t room)
{
    if (bytes > room)
        return false;
    room -= bytes;
    return room >= UINT64_MAX / fair.share ||
           reserved + bytes <= room * fair.share;
}

/* Free space that is not reserved yet. The lock is held. */
static uint64_t unpromised(uint64_t on_disk, uint64_t reserved,
                           uint64_t written)
{
    uint64_t promised = reserved - written;

    return on_disk > promised ? on_disk - promised : 0;
}

static int no_space(uint64_t bytes, struct error *err)
{
    (void)error_set(err, ERR_SPACE,
                    "the service's disk has no room for %llu more bytes",
                    (unsigned long long)bytes);
    err->errnum = ENOSPC;
    return error_hint(err, "Nothing was stored. Delete files, or ask the "
                           "operator for more space.");
}

static int too_busy(struct error *err)
{
    (void)error_set(err, ERR_BUSY,
                    "as much is being stored at once as the service's disk "
                    "has room for");
    (void)error_hint(err, "Nothing was stored. Try again when other uploads "
                          "and executions have finished.");
    return error_retry(err, RETRY_S);
}

int inflight_take(struct inflight_hold *h, uint64_t bytes,
                  uint64_t deadline_ms, struct error *err)
{
    struct inflight *f = h->all;

    for (;;) {
        uint64_t on_disk = f->free_bytes(f->ctx);
        uint64_t now = clock_mono_ms();
        uint64_t until = MIN(deadline_ms, now + LOOK_MS);
        int rc = 1;

        mutex_lock(&f->lock);
        if (reservation_fits(h->who->reserved, bytes,
                             unpromised(on_disk, f->reserved, f->written))) {
            h->reserved += bytes;
            h->who->reserved += bytes;
            f->reserved += bytes;
            rc = 0;
        } else if (!reservation_fits(
                       h->reserved, bytes,
                       unpromised(on_disk, h->reserved, h->written))) {
            rc = no_space(bytes, err);
        } else if (now >= deadline_ms) {
            rc = too_busy(err);
        } else {
            (void)cond_wait_until(&f->ended, &f->lock,
                                  until); /* looks again */
        }
        mutex_unlock(&f->lock);
        if (rc <= 0)
            return rc;
    }
}

void inflight_wrote(struct inflight_hold *h, uint64_t bytes)
{
    struct inflight *f = h->all;

    mutex_lock(&f->lock);
    bytes = MIN(bytes, h->reserved - h->written);
    h->written += bytes;
    f->written += bytes;
    mutex_unlock(&f->lock);
}

void inflight_end(struct inflight_hold *h)
{
    struct inflight *f = h->all;
    struct inflight_tenant **at;

    if (!f)
        return;
    mutex_lock(&f->lock);
    f->reserved -= h->reserved;
    f->written -= h->written;
    h->who->reserved -= h->reserved;
    if (--h->who->holds == 0) {
        at = &f->tenants;
        while (*at != h->who)
            at = &(*at)->next;
        *at = h->who->next;
        free(h->who->name);
        free(h->who);
    }
    cond_broadcast(&f->ended);
    mutex_unlock(&f->lock);
    *h = (struct inflight_hold){0};
}

uint64_t inflight_bytes(struct inflight *f)
{
    uint64_t bytes;

    mutex_lock(&f->lock);
    bytes = f->reserved;
    mutex_unlock(&f->lock);
    return bytes;
}
