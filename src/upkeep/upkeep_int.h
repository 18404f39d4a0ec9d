/* SPDX-License-Identifier: Apache-2.0 */
/* Private to upkeep/ and its tests; see upkeep.h. */
#ifndef GLOVEBOX_UPKEEP_UPKEEP_INT_H
#define GLOVEBOX_UPKEEP_UPKEEP_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/ids.h"
#include "base/thread.h"
#include "blob/blob.h"
#include "store/store.h"
#include "tree/tree.h"
#include "upkeep/upkeep.h"

#define SCRUB_BAD_MAX 1000u

struct scrub_bad {
    char sha256[BLOB_NAME];
    uint64_t round; /* last seen in */
};

/* small_blob_rows.c */
struct small_blob_rows {
    struct store_hook hook;
    /* Owned by the thread that writes to the store: */
    unsigned slot; /* the next */
    bool unkept;   /* the last row was rolled back */

    atomic_bool used; /* rows were written since they were cleared */
    atomic_bool due;  /* clearing was prevented and is to be repeated */
};

/* schedule.c */
struct backup_schedule {
    struct worker worker;
    struct mutex lock; /* everything below */
    struct upkeep_backup_state state;
};

struct upkeep {
    struct upkeep_settings settings;
    char *data_dir; /* owned; settings.data_dir points to it */
    char *backup_dir, *backup_key_file; /* owned, likewise */
    struct backup_schedule backups;
    struct store *store;
    struct blobs *blobs;
    struct audit *audit;
    struct trees *trees;
    struct small_blob_rows small_rows;

    struct mutex round; /* one collection at a time */
    struct mutex sweep; /* held over each removal of blobs, and to pause */
    _Atomic uint32_t grace_ms; /* younger blobs are not collected */

    struct mutex lock; /* everything below */
    struct cond wake;
    bool stopping;
    struct thread collector, scrubber;
    unsigned paused; /* backups at work */
    struct workspace_scrub scrub;
    uint64_t scrub_round;
    struct scrub_bad *bad; /* bad_count of SCRUB_BAD_MAX */
    size_t bad_count;
};

/* ---- upkeep.c ---------------------------------------------------------- */

/* While paused, no blob is removed; for a backup. Pauses nest. */
void upkeep_pause(struct upkeep *u);
void upkeep_resume(struct upkeep *u);

/* ---- small_blob_rows.c ------------------------------------------------- */

/* Replays the rows of an earlier run; from then on the bytes of small blobs
 * are durable with the commit that references them. */
int upkeep_small_rows_open(struct upkeep *u, struct error *err);
void upkeep_small_rows_close(struct upkeep *u);
/* After removing blobs, before blob_log_scrub. While a long read prevents it,
 * it is left to the collector's next round. */
int upkeep_small_rows_clear(struct upkeep *u, struct error *err);

/* ---- retention.c, purge.c, collect.c: the steps of a collection -------- */

/* Versions that the workspaces' own rules no longer keep. */
int upkeep_retention(struct upkeep *u, struct workspace_collected *ret,
                     struct error *err);
/* Workspaces deleted longer ago than the window, and abandoned uploads. */
int upkeep_purge_due(struct upkeep *u, struct workspace_collected *ret,
                     struct error *err);
/* Removes the unreferenced blobs among these names (BLOB_NAME apart), of any
 * age. */
int upkeep_sweep_names(struct upkeep *u, const char *names, size_t count,
                       struct workspace_collected *ret, struct error *err);

/* ---- scrub.c ----------------------------------------------------------- */

/* One round over everything; 1: asked to stop. */
int upkeep_scrub_round(struct upkeep *u);
/* Checks again what was bad. */
void upkeep_scrub_again(struct upkeep *u);
void upkeep_scrubber_main(void *arg);

/* ---- schedule.c -------------------------------------------------------- */

/* Reads the schedule and starts the thread. */
int upkeep_schedule_open(struct upkeep *u, struct error *err);
void upkeep_schedule_close(struct upkeep *u);
/* When the next one is due; now_ms and the state decide. 0: never. */
int64_t upkeep_schedule_next(const struct upkeep_backup_state *s,
                             int64_t now_ms);

/* ---- refs.c: which blobs the store references -------------------------- */

/* Names of blobs the store refers to, in order, after `after` ("" : from the
 * start); ret_count 0: the end. ret: owned by caller, BLOB_NAME apart. */
int upkeep_refs_page(struct store *store, const char *after, unsigned limit,
                     char **ret, size_t *ret_count, struct error *err);
/* 1 or 0, or -code. */
int upkeep_refs_has(struct store_tx *tx, const char *sha256,
                    struct error *err);

/* All of them, one by one. */
struct refs_walk {
    struct store *store;
    char *page; /* owned */
    size_t count, at;
    char last[BLOB_NAME];
    bool ended;
};
void upkeep_refs_done(struct refs_walk *walk); /* for cleanup() */
/* ret: borrowed until the next call; NULL at the end. */
int upkeep_refs_next(struct refs_walk *walk, const char **ret,
                     struct error *err);

#endif
