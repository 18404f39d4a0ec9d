/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes in flight: how much may be on its way to the disk at once. A writer
 * reserves room before it writes and keeps the reservation until its bytes
 * have their final name or are removed. Reservations of all tenants together
 * never exceed the free space of the disk, and one tenant never takes the
 * last part of it: its reservations may reach fair.share times what is
 * then left for all other tenants. A single tenant can so use three
 * quarters of the free space at once, and a second one still finds room.
 *
 * Every function may be called by any thread. inflight_take may wait.
 */
#ifndef GLOVEBOX_BLOB_INFLIGHT_H
#define GLOVEBOX_BLOB_INFLIGHT_H

#include <stdint.h>

struct error;
struct inflight;

/* The reservation of one writer, or of one set of writers that belong
 * together. Embed it zeroed; `who` is set by inflight_begin. */
struct inflight_hold {
    struct inflight *all;
    struct inflight_tenant *who;
    uint64_t reserved;
    uint64_t written; /* of these, on the disk: free space shows them */
};

/* free_bytes: how much an ordinary user can still write to the disk. */
struct inflight *inflight_new(uint64_t (*free_bytes)(void *ctx), void *ctx);
void inflight_free(struct inflight *f); /* accepts NULL */

void inflight_begin(struct inflight *f, const char *tenant,
                    struct inflight_hold *h);
/* Reserves `bytes` more. Waits for other reservations to end, at most until
 * deadline_ms (monotonic). ERR_SPACE: the disk has no room for it even when
 * nothing else is stored. ERR_BUSY with a retry hint: the deadline passed. */
int inflight_take(struct inflight_hold *h, uint64_t bytes,
                  uint64_t deadline_ms, struct error *err);
/* Notes that part of the reservation is on disk now. */
void inflight_wrote(struct inflight_hold *h, uint64_t bytes);
/* Gives all of it back. Accepts a hold that was never begun. */
void inflight_end(struct inflight_hold *h);

/* The bytes reserved now, of all tenants. */
uint64_t inflight_bytes(struct inflight *f);

#endif
