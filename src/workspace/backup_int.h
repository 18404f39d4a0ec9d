/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup is a folder:
 *
 *   glovebox.db                 a copy of the store
 *   auth.secret audit.secret audit.sign.key vault.key admin.key   those
 *                               there are
 *   blobs/ab/abcdef…            every blob that copy refers to
 *   manifest                    "<sha256> <size> <name>" for each of them, and
 *                               at its end the same of all lines above
 *
 * The manifest is made last, under another name, and renamed when all else is
 * on disk: a folder without one is no backup.
 */
#ifndef GLOVEBOX_WORKSPACE_BACKUP_INT_H
#define GLOVEBOX_WORKSPACE_BACKUP_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"

struct error;

#define BACKUP_DB "glovebox.db"
#define BACKUP_MANIFEST "manifest"
#define BACKUP_NAME_MAX 80

/* Files beside the store and the blobs; any may be missing. */
extern const char *const backup_secrets[];
#define BACKUP_SECRETS 5

typedef void backup_progress_fn(void *ctx, const char *what, uint64_t done,
                                uint64_t total);

/* Tells of progress, though not more often than anyone could read it. */
struct backup_progress {
    backup_progress_fn *fn; /* or NULL */
    void *ctx;
    const char *what;
    uint64_t done, total;
    uint64_t told_ms;
};
/* The next part; what: one word. */
void backup_progress_begin(struct backup_progress *p, const char *what,
                           uint64_t total);
void backup_progress_add(struct backup_progress *p, uint64_t more);
void backup_progress_end(struct backup_progress *p);

/* ---- copying ------------------------------------------------------------ */

struct backup_file {
    char name[BACKUP_NAME_MAX]; /* in the folder */
    char sha256[HASH_HEX];
    uint64_t size;
};

int backup_copy_failed(int errnum, const char *what, struct error *err);
/* All of `from` (at its offset) into a new file `name` of dir, which nobody
 * else can read unless mode says so; not synced. ret: hash and size. */
int backup_copy(int from, int dir, const char *name, mode_t mode,
                struct backup_progress *progress, struct backup_file *ret,
                struct error *err);
/* Hash and size of a file. */
int backup_copy_measure(int dir, const char *name, struct backup_file *ret,
                        struct error *err);
/* blobs/ and blobs/ab for a blob's name. */
int backup_copy_folder(int dir, const char *sha256, struct error *err);
/* Makes the folder if there is none; ERR_CONFLICT if there is something in
 * it. ret_made: it was made. */
int backup_copy_target(const char *path, const char *what, int *ret_dir,
                       bool *ret_made, struct error *err);

#endif
