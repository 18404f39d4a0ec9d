/* SPDX-License-Identifier: Apache-2.0 */
/* For disk.c and its tests: what is decided, apart from the system calls. */
#ifndef GLOVEBOX_DISK_DISK_INT_H
#define GLOVEBOX_DISK_DISK_INT_H

#include <stdatomic.h>

#include "base/thread.h"
#include "disk/disk.h"

#define DISK_LOOK_MS 1000u
#define DISK_PROBE_MS 5000u
#define DISK_PROBE_FILE "disk.probe"

struct disk_room {
    uint64_t bytes;
    uint64_t files; /* UINT64_MAX where the file system does not count them */
};

/* Are `keep` bytes left after `want` more were written? */
bool disk_has_room(const struct disk_room *room, uint64_t keep, uint64_t want);
/* Is it full, given whether it was? */
bool disk_is_full(const struct disk_room *room, uint64_t keep, bool was);

struct disk {
    int dir;
    uint64_t total, keep; /* bytes */
    /* Negative errno; replaced by tests. */
    int (*look)(struct disk *d, struct disk_room *ret);
    int (*probe)(struct disk *d);
    void *test;

    struct thread thread;
    struct mutex lock; /* around what follows, never across I/O */
    struct cond changed;
    bool stopping, refilling, ended;
    uint64_t (*refill)(void *ctx);
    void *refill_ctx;
    bool full;
    uint64_t was_full_ms; /* when that was last seen; 0: never */
    struct disk_room room;
    uint64_t reserve, refused;
    int fault;          /* errno of the last look or probe, or 0 */
    uint64_t begun_ms;  /* of what the thread does on the disk now; 0: not */
    uint64_t probed_ms; /* when the last probe began; 0: never */
};

/* One turn of the thread: looks, and probes if it is time. */
void disk_turn(struct disk *d, uint64_t now_ms);
/* The same as disk_state, at that time. */
void disk_state_at(struct disk *d, uint64_t now_ms, struct disk_state *ret);

#endif
