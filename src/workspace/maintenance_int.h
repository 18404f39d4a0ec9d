/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background work of workspace/: the trees that sessions mount (tree*.c),
 * the collector (collect.c), which removes data that is no longer referenced,
 * and the scrubber (scrub.c), which verifies stored data. Private to this
 * folder; workspaces_open and workspaces_close in manager.c start and stop
 * both threads.
 */
#ifndef GLOVEBOX_WORKSPACE_KEEP_INT_H
#define GLOVEBOX_WORKSPACE_KEEP_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/thread.h"
#include "blob/blob.h"
#include "workspace/workspace.h"

struct actor;
struct error;
struct store;
struct store_tx;
struct workspaces;
struct workspace_row;
struct workspace_trees;

/* ---- tree.c -------------------------------------------------------------
 */

/* Makes DIR/trees; what an earlier run left there is used again if it is
 * whole. Neither needs the maintenance threads. */
int workspace_trees_open(struct workspaces *w, struct error *err);
void workspace_trees_close(struct workspaces *w); /* accepts never opened */
/* Takes a workspace's tree off the disk: at once, or, while a session mounts
 * it, when the last one lets go. Before its rows are removed. */
void workspace_tree_forget(struct workspaces *w, const char *id);
/* A blob turned out to be damaged: trees that link to it are not handed out
 * again before they were made anew, which fails until it is healed. */
void workspace_trees_doubt(struct workspaces *w, const char *sha256);
/* Removes trees of workspaces that are gone, and what crashes left. */
int workspace_trees_tidy(struct workspaces *w, struct error *err);

/* ---- maintenance.c
 * -----------------------------------------------------------
 */

#define SCRUB_BAD_MAX 1000u

struct scrub_bad {
    char sha256[BLOB_NAME];
    uint64_t round; /* last seen in */
};

struct workspace_maintenance {
    struct mutex lock; /* everything below but `round` and `sweep` */
    struct cond wake;
    bool stopping;
    struct thread collector, scrubber;
    unsigned paused; /* backups at work */

    struct mutex round; /* one collection at a time */
    struct mutex sweep; /* held over each removal of blobs, and to pause */
    _Atomic uint32_t grace_ms; /* younger blobs are not collected */

    struct workspace_scrub scrub;
    uint64_t scrub_round;
    struct scrub_bad *bad; /* bad_count of SCRUB_BAD_MAX */
    size_t bad_count;
};

/* Starts the collector (unless collect_every_s is 0) and the scrubber (unless
 * scrub_bytes_per_s is 0). */
int workspace_maintenance_open(struct workspaces *w, struct error *err);
/* Stops both; first of all when closing. Accepts never opened. */
void workspace_maintenance_close(struct workspaces *w);
/* Waits for at most that long; true when the threads are to stop. */
bool workspace_maintenance_wait(struct workspaces *w, uint64_t ms);
/* While paused, no blob is removed; for a backup. Pauses nest. */
void workspace_maintenance_pause(struct workspaces *w);
void workspace_maintenance_resume(struct workspaces *w);

/* ---- retention.c, purge.c, sweep.c: the steps of a collection ------------
 */

/* Versions that the workspaces' own rules no longer keep. */
int workspace_retention(struct workspaces *w, struct workspace_collected *ret,
                        struct error *err);

/* Everything of a workspace, in small transactions: its tree, its rows, one
 * audit event `action`. swept: also its blobs that nobody else refers to, at
 * once, which are added up there; NULL: the collector finds them. The
 * workspace must be deleted or about to be (nobody can undelete it once this
 * has begun). */
int workspace_purge(struct workspaces *w, const struct actor *who,
                    const char *id, const char *action,
                    struct workspace_collected *swept, struct error *err);
/* Versions that are not current, of files at or below the path ("": all),
 * whatever the rules say, and their blobs. Under legal hold ERR_CONFLICT. */
int workspace_retention_now(struct workspaces *w, const struct actor *who,
                            const struct workspace_row *row, const char *path,
                            struct workspace_collected *ret,
                            struct error *err);
/* Those deleted longer ago than the window, and uploads nobody went on with.
 */
int workspace_purge_due(struct workspaces *w, struct workspace_collected *ret,
                        struct error *err);

/* Removes every stored blob that is old enough and unreferenced. */
int workspace_sweep(struct workspaces *w, struct workspace_collected *ret,
                    struct error *err);
/* Of these names (BLOB_NAME apart), removes those that are unreferenced, of
 * whatever age. */
int workspace_sweep_names(struct workspaces *w, const char *names,
                          size_t count, struct workspace_collected *ret,
                          struct error *err);

/* ---- scrub.c ------------------------------------------------------------
 */

/* One round over everything; 1: asked to stop. */
int workspace_scrub_round(struct workspaces *w);
/* Looks again at what was bad. */
void workspace_scrub_again(struct workspaces *w);
void workspace_scrubber_main(void *workspaces);

/* ---- refs.c: which blobs the store references
 * -----------------------------------
 */

/* Names of blobs the store refers to, in order, after `after` ("" : from the
 * start); ret_count 0: the end. ret: owned by caller, BLOB_NAME apart. */
int workspace_refs_page(struct store *store, const char *after, unsigned limit,
                        char **ret, size_t *ret_count, struct error *err);
/* 1 or 0, or -code. */
int workspace_refs_has(struct store_tx *tx, const char *sha256,
                       struct error *err);

/* Is it stored at all (1, and its size, or 0)? Says nothing of its bytes. */
int workspace_refs_stat(const char *data_dir, const char *sha256,
                        uint64_t *ret_size);

/* All of them, one by one. */
struct refs_walk {
    struct store *store;
    char *page; /* owned */
    size_t count, at;
    char last[BLOB_NAME];
    bool ended;
};
void workspace_refs_done(struct refs_walk *walk); /* for cleanup() */
/* ret: borrowed until the next call; NULL at the end. */
int workspace_refs_next(struct refs_walk *walk, const char **ret,
                        struct error *err);

#endif
