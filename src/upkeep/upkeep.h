/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upkeep of stored data: what removes it, verifies it, copies it and makes it
 * durable.
 *
 *   collector   removes what nothing references any more, in rounds
 *   scrubber    hashes every referenced blob again, at a set pace
 *   verify      the same at once, for an operator
 *   backup      a copy of store, blobs and secrets, and its restore; sealed
 *               ones by a schedule
 *   small rows  bytes of small blobs in the commit that references them
 *
 * Knows rows and blobs; the permission of an actor is checked by workspace/
 * before it calls. Any thread may call.
 */
#ifndef GLOVEBOX_UPKEEP_UPKEEP_H
#define GLOVEBOX_UPKEEP_UPKEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "blob/blob.h"

struct actor;
struct audit;
struct error;
struct store;
struct trees;
struct upkeep;

struct upkeep_settings {
    const char *data_dir;
    uint32_t restore_window_s;   /* a deleted workspace is purged after it */
    uint32_t collect_every_s;    /* the collector's round; 0: no thread */
    uint64_t scrub_bytes_per_s;  /* 0: no thread */
    const char *backup_dir;      /* of sealed backups; NULL: none are made */
    const char *backup_key_file; /* NULL or "": DIR/backup.key */
    uint64_t backup_free_bytes;  /* left on the data directory's disk, if the
                                    backups are on it */
    /* Removes what expired by rules that only the caller knows, at the start
     * of each round; adds how much that was. NULL: nothing. */
    int (*expire)(void *ctx, uint64_t *ret_removed, struct error *err);
    void *expire_ctx;
};

/* Starts the threads. store, blobs, audit, trees: borrowed until close. *ret
 * is set also on failure, for upkeep_close. */
int upkeep_open(const struct upkeep_settings *settings, struct store *store,
                struct blobs *blobs, struct audit *audit, struct trees *trees,
                struct upkeep **ret, struct error *err);
void upkeep_close(struct upkeep *u); /* accepts NULL */
/* Waits for at most that long; true when the threads are to stop. */
bool upkeep_wait(struct upkeep *u, uint64_t ms);

/* ---- collecting -------------------------------------------------------- */

/* One round: retention, purges, expired uploads, then blobs that nothing
 * references. */
struct workspace_collected {
    uint64_t versions, workspaces, uploads, blobs, bytes;
};
int upkeep_collect(struct upkeep *u, struct workspace_collected *ret,
                   struct error *err);
/* Everything of a workspace, in small transactions: its tree, its rows, one
 * audit event `action`. swept: also its blobs that nothing else references, at
 * once, which are added up there; NULL: the collector finds them. The
 * workspace must be deleted or about to be: it cannot be undeleted once this
 * has begun. */
int upkeep_purge(struct upkeep *u, const struct actor *who, const char *id,
                 const char *action, struct workspace_collected *swept,
                 struct error *err);
/* Versions that are not current, of files at or below the path ("": all),
 * whatever the rules of the workspace say, and their blobs. Under legal hold
 * ERR_CONFLICT. */
int upkeep_purge_versions(struct upkeep *u, const struct actor *who,
                          const char *id, const char *path,
                          struct workspace_collected *ret, struct error *err);

/* ---- verifying --------------------------------------------------------- */

/* Hashes every referenced blob again and finds missing ones. */
struct workspace_verified {
    uint64_t blobs, bytes, bad, missing, orphans;
    char first_bad[BLOB_NAME];
};
int upkeep_verify(struct upkeep *u,
                  void (*progress)(void *ctx, uint64_t done, uint64_t total),
                  void *ctx, struct workspace_verified *ret,
                  struct error *err);

struct workspace_scrub {
    int64_t round_started_at_ms, last_full_at_ms;
    uint64_t blobs, bytes; /* of this round */
    uint64_t bad;          /* ever found, still bad */
};
void upkeep_scrub_state(struct upkeep *u, struct workspace_scrub *ret);

/* ---- backup ------------------------------------------------------------ */

/* Online: a copy of the store, then every blob it references, then a manifest
 * of hashes; dir must be empty or not exist. */
int upkeep_backup(struct upkeep *u, const char *dir,
                  void (*progress)(void *ctx, const char *what, uint64_t done,
                                   uint64_t total),
                  void *ctx, struct error *err);
/* ---- scheduled backups ------------------------------------------------- */

/* Sealed backups: encrypted files in `backup_dir`, named by their time, of
 * which the newest `keep` stay. The schedule is in the data directory and not
 * in a backup, so that a restored copy does not replace backups. */
#define UPKEEP_EVERY_MIN 60u /* seconds */
#define UPKEEP_EVERY_MAX (366u * 86400u)
#define UPKEEP_KEEP_MAX 1000u

struct upkeep_backup_state {
    uint32_t every_s; /* 0: no schedule */
    uint32_t keep;
    bool running;
    int64_t attempted_at_ms, succeeded_at_ms; /* 0: never */
    int64_t next_at_ms;                       /* 0: no schedule */
    uint64_t failures;                        /* since the last success */
    uint64_t bytes;                           /* of the last one */
    char name[64];                            /* of the last one, or "" */
    char error[320];                          /* of the last attempt, or "" */
    uint64_t made, failed;                    /* since the start */
    uint64_t kept;                            /* files in the folder, as of the
                                                 last look */
    const char *dir, *key_file;               /* borrowed until close */
};
void upkeep_backup_state(struct upkeep *u, struct upkeep_backup_state *ret);
/* every_s 0: no schedule any more. On disk when it returns. */
int upkeep_backup_schedule(struct upkeep *u, uint32_t every_s, uint32_t keep,
                           struct error *err);
/* One now. ERR_CONFLICT while another is being made. who: for the audit
 * trail; NULL is the service itself. */
int upkeep_backup_now(struct upkeep *u, const struct actor *who,
                      void (*progress)(void *ctx, const char *what,
                                       uint64_t done, uint64_t total),
                      void *ctx, struct error *err);

/* ---- restore ----------------------------------------------------------- */

/* The secret of a sealed backup. */
struct upkeep_secret {
    char *text; /* owned; len bytes */
    size_t len;
};
int upkeep_secret_read(const char *path, struct upkeep_secret *ret,
                       struct error *err);
void upkeep_secret_done(struct upkeep_secret *secret); /* for cleanup() */
/* Without a service: from a folder, whose manifest is checked, or a sealed
 * file, for which secret is needed (else NULL). Copies into an empty data_dir
 * and checks the copy. */
int upkeep_restore(const char *from, const char *data_dir,
                   const struct upkeep_secret *secret,
                   void (*progress)(void *ctx, const char *what, uint64_t done,
                                    uint64_t total),
                   void *ctx, struct error *err);

#endif
