/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk that the data directory is on: is there room, and does it work?
 *
 * Room. Ordinary writes (uploads, files of sessions, new sessions) leave
 * `free_bytes` of the disk unused: they ask disk_admit first and are refused
 * with ERR_SPACE. Deletes, the audit trail and the collector do not ask, so a
 * disk that was filled can be emptied again (D12). What they need is also set
 * aside in the store's own files, where no other program can take it; see
 * store_reserve.
 *
 * The disk is `full` from the first refused write, or from the moment that
 * less than `free_bytes` are left, until an eighth more than that is free.
 *
 * Health. A thread of this module writes and syncs a small file every few
 * seconds. disk_state only reads what it found, so that a status request
 * never waits for a disk that hangs: a probe that has not returned for
 * DISK_STALL_MS counts as a failure. Any thread may call.
 */
#ifndef GLOVEBOX_DISK_DISK_H
#define GLOVEBOX_DISK_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct disk;
struct error;

#define DISK_STALL_MS 20000u /* longest time a probe may take */
/* Each stored object is a file; a disk without inodes is full, too. */
#define DISK_FREE_FILES 1024u

struct disk_settings {
    const char *data_dir; /* must exist */
    uint64_t free_bytes;  /* that ordinary writes leave, at most a quarter of
                             the disk; 0: none */
};

enum disk_mode {
    DISK_WORKS,
    DISK_FULL,   /* reading and deleting go on, nothing new is stored */
    DISK_FAILED, /* the last probe failed, or has not returned */
};

struct disk_state {
    enum disk_mode mode;
    char reason[240];    /* a sentence, unless it works */
    uint64_t free_bytes; /* for unprivileged users, as of the last look */
    uint64_t kept_bytes; /* that ordinary writes leave */
    uint64_t reserve_bytes;
    uint64_t refused; /* writes, since the start */
};

/* Looks once, then starts the thread. A full or failed disk is no error. */
int disk_open(const struct disk_settings *settings, struct disk **ret,
              struct error *err);
void disk_close(struct disk *d); /* accepts NULL */

/* May `bytes` more be stored? Looks at the disk. ERR_SPACE, with a hint how
 * to free space. Accepts NULL, which is a disk without a bound. */
int disk_admit(struct disk *d, uint64_t bytes, struct error *err);
/* The error of a request on a full disk; returns -ERR_SPACE. */
int disk_refuse(struct error *err);

/* That many, but no more than a quarter of the disk. */
uint64_t disk_share(const struct disk *d, uint64_t bytes);

/* Was the disk full at that time (clock_mono_ms), or any time after? False for
 * NULL. */
bool disk_full_since(struct disk *d, uint64_t mono_ms);

/* Never waits for the disk. */
void disk_state(struct disk *d, struct disk_state *ret);
const char *disk_mode_name(enum disk_mode mode); /* "works", "full", … */

/* fn is called every second by the thread, except while the disk is full: it
 * restores a reserve and returns the bytes that it holds. NULL: none any
 * more, and none runs when this returns. */
void disk_refill(struct disk *d, uint64_t (*fn)(void *ctx), void *ctx);

#endif
